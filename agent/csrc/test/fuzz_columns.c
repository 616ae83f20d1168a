/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: any bytes are refused as messages, or read; what they have as bytes lies
 * within them, and is a packed histogram or none. */
#include "columns/buckets.h"
#include "columns/tables.h"
#include "core/histogram.h"

#include <stdlib.h>

/* Each kind has a field of its number. */
enum { TABLES = 3, WIDTH = SLAM_FIELD_MESSAGE + 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
look_at(const struct slam_tables *t, const int64_t *row, const uint8_t *data,
        size_t size)
{
    const int64_t start = row[SLAM_FIELD_BYTES + 1], len = row[SLAM_FIELD_BYTES + 2];
    const int64_t text = row[SLAM_FIELD_TEXT + 1];

    if (text < 0 || (uint64_t)text >= t->text_count ||
        t->texts[text].start + t->texts[text].len > size)
        abort();
    if (start < 0 || len < 0 || start + len > (int64_t)size)
        abort();
    if (slam_packed_check(data + start, (size_t)len) > (int64_t)SLAM_HISTOGRAM_BUCKETS)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t ends[] = {(int64_t)(size / 2), (int64_t)size};
    struct slam_tables t = {.tables = calloc(TABLES, sizeof(*t.tables)),
                            .count = TABLES};

    for (uint32_t i = 0; i < TABLES; i++) {
        struct slam_table *table = &t.tables[i];

        table->width = WIDTH;
        for (uint32_t kind = SLAM_FIELD_INT64; kind < SLAM_FIELD_MESSAGE; kind++)
            table->fields[kind] =
                (struct slam_field){(enum slam_field_kind)kind, kind + 1};
        if (i + 1 < TABLES)
            table->fields[SLAM_FIELD_MESSAGE] =
                (struct slam_field){SLAM_FIELD_MESSAGE, i + 1};
    }
    slam_tables_read(&t, data, ends, 2);
    for (size_t i = 0; i < TABLES; i++) {
        for (size_t row = 0; row < t.tables[i].rows; row++)
            look_at(&t, t.tables[i].cells + row * WIDTH, data, size);
    }
    slam_tables_release(&t);
    return 0;
}
