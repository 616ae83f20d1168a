/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf messages as tables: a row for each message, a cell for each field that the
 * reader asked for. Reads any bytes; what it does not know it skips, as protobuf does.
 */
#ifndef SLAM_COLUMNS_TABLES_H
#define SLAM_COLUMNS_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* Field numbers are below this. */
#define SLAM_FIELDS 64

/* Cells of a row before those of its fields: the row of the message around it (of the
 * outermost ones: their place among those read), and the fields that it has, a bit for
 * each number. */
enum { SLAM_CELL_PARENT, SLAM_CELL_PRESENT, SLAM_CELL_FIRST };

enum slam_field_kind {
    SLAM_FIELD_UNKNOWN,
    SLAM_FIELD_INT64, /* and uint64 */
    SLAM_FIELD_INT32, /* and enums */
    SLAM_FIELD_UINT32,
    SLAM_FIELD_BOOL,
    SLAM_FIELD_DOUBLE, /* its bits */
    SLAM_FIELD_TEXT,   /* number of the text among all that differ; 0: the empty one */
    SLAM_FIELD_BYTES,  /* two cells: where they begin in what was read, and length */
    SLAM_FIELD_MESSAGE /* no cell: a row of another table */
};

struct slam_field {
    enum slam_field_kind kind;
    uint32_t at; /* its cell; of a message the table, a later one */
};

struct slam_table {
    struct slam_field fields[SLAM_FIELDS];
    size_t width; /* cells of a row */
    int64_t *cells;
    size_t rows;
    size_t room; /* rows that have memory */
};

struct slam_text {
    size_t start; /* in what was read */
    size_t len;
};

struct slam_tables {
    struct slam_table *tables; /* the first one is of the outermost messages */
    size_t count;
    struct slam_text *texts;
    size_t text_count;
    size_t text_room;
    uint32_t *text_places; /* number of a text by its hash, 0: free; twice text_room */
};

/* Reads messages of the first table, one behind the other; ends[i] is where the i-th
 * ends. Returns SLAM_OK, SLAM_EINVAL for what is no such message, or SLAM_ENOMEM. The
 * caller releases in any case. One call for one slam_tables. */
int slam_tables_read(struct slam_tables *t, const uint8_t *data, const int64_t *ends,
                     size_t count);
void slam_tables_release(struct slam_tables *t);

#endif
