/* SPDX-License-Identifier: Apache-2.0 */
/* LDIF files (RFC 2849) of whole populations, written by several threads.
 *
 * A population is a tree of nodes: a node is a kind of entry, of which each entry of
 * its parent node has `count` below it. The entries are numbered in the order in which
 * they are written, each one before those below it, so that entry number p is found by
 * division, without those before it. What is drawn for an entry depends on the seed of
 * its node, on its index and on the field alone: the bytes are the same whatever the
 * number of threads.
 *
 * The program of a node (made by ldapslam.jobs, checked here once), little-endian.
 * Text:
 *   0x01 u32 n, n bytes   LITERAL: as they are; no LF
 *   0x02 u16 i, u8 place  VALUE: a text of source i; see slam_ldif_place
 *   0x03 u8 l, u16 s, u32 m, u8 form
 *                         SLOT: slot s of the entry l levels above, 0 is this one; at
 *                         most m bytes, whole characters (0: all); see slam_ldif_form
 *   0x04                  NUMBER: that of the loop around it
 *   0x05 .. END           BASE64: of the text within
 * Parts that hold text:
 *   0x06 u16 s .. END     FILL: slot s of this entry, which is empty before
 *   0x07 u16 n, n bytes .. END
 *                         LINE: an attribute's description and its value
 *   0x08 u8 o .. END      OUTPUT: a line of output o as it is; 0 is the LDIF
 * Parts that hold parts:
 *   0x09 u16 f, u8 w .. END
 *                         IF: flag f is w, 0 or 1; all are 0 at first
 *   0x0a u16 s, u32 n, n bytes .. END
 *                         EQUAL: slot s has this text
 *   0x0b u64 lo, u64 n .. END
 *                         LOOP: n times, with the numbers from lo
 *   0x0c u64 n, u64 a, u64 b .. END
 *                         PICK: a to b times, with different numbers below n; no loop
 *                         stands within another one
 * And alone:
 *   0x0d u16 f, u32 ppm   CHANCE: flag f becomes 1 with probability ppm / 10^6
 *   0x0e u16 f            SET: flag f becomes 1
 *   0x0f u32 n            FIELD: what is drawn from here on is of field n
 *   0x10                  BODY: once; FILL, CHANCE and SET before it, LINE, OUTPUT,
 *                         LOOP and PICK behind it
 *   0x11                  END
 * An entry whose slots are wanted by those below it is run as far as BODY. */
#ifndef SLAM_LDIF_H
#define SLAM_LDIF_H

#include "template/values.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAM_LDIF_NO_PARENT UINT32_MAX
#define SLAM_LDIF_NODES_MAX 65536u
#define SLAM_LDIF_SOURCES_MAX 65535u
#define SLAM_LDIF_DEPTH_MAX 32u            /* of nodes, and of parts within parts */
#define SLAM_LDIF_SLOTS_MAX 4096u          /* of a node; flags too */
#define SLAM_LDIF_LINE_MAX (4u << 20)      /* longest line, in bytes */
#define SLAM_LDIF_SLOTS_LEN_MAX (4u << 20) /* all slots of an entry, in bytes */
#define SLAM_LDIF_OUTPUTS_MAX 8u
#define SLAM_LDIF_THREADS_MAX 256u

/* What stands for the x of a source whose members come in turn. */
enum slam_ldif_place {
    SLAM_LDIF_DRAWN = 0,    /* none: the source draws */
    SLAM_LDIF_INDEX = 1,    /* the entry's index among those of its template */
    SLAM_LDIF_SIBLING = 2,  /* among those of its node below one parent */
    SLAM_LDIF_POSITION = 3, /* in the whole population */
    SLAM_LDIF_FIRST = 4, /* of its first name; with LAST, no combination comes twice */
    SLAM_LDIF_LAST = 5   /* of its last name; numbered once all have been had */
};

enum slam_ldif_form {
    SLAM_LDIF_PLAIN = 0,
    SLAM_LDIF_DN_VALUE = 1,    /* escaped as a value in a DN (RFC 4514) */
    SLAM_LDIF_UNDERSCORES = 2, /* in the place of commas */
    /* escaped as an assertion value of a filter (RFC 4515); of these the limit is of
     * characters: the first, those in the middle, the last */
    SLAM_LDIF_FILTER_INITIAL = 3,
    SLAM_LDIF_FILTER_ANY = 4,
    SLAM_LDIF_FILTER_FINAL = 5
};

struct slam_ldif_node {
    uint32_t parent;      /* index of an earlier node, or SLAM_LDIF_NO_PARENT */
    uint64_t count;       /* entries of this node below each one of the parent's */
    uint64_t first_index; /* of the first one among those of its template */
    uint64_t first_name;  /* number of its names among all names of the population */
    uint64_t seed;
    const uint8_t *program;
    size_t program_len;
};

struct slam_ldif_config {
    uint64_t seed; /* of what the whole population shares: the order of the names */
    const struct slam_ldif_node *nodes;
    size_t node_count;
    const struct slam_value_source *sources; /* of all nodes */
    size_t source_count;
    uint32_t first_names; /* the source of FIRST, a FILE_SEQUENCE; beyond: none */
    uint32_t last_names;  /* the source of LAST; both or none */
    const int *fds;       /* one for each output; the caller's */
    size_t output_count;
    uint32_t threads;
};

struct slam_ldif;

struct slam_ldif_progress {
    uint64_t entries; /* written, branches too */
    uint64_t bytes;   /* of the LDIF */
};

/* Checks and compiles a population; everything but the files of sources and the fds is
 * copied. Control thread only. Returns 0 and *ldif, or a negative slam_err with the
 * reason in err. */
int slam_ldif_create(const struct slam_ldif_config *config, struct slam_ldif **ldif,
                     char *err, size_t err_len);

/* Stops what is under way. NULL is allowed. */
void slam_ldif_destroy(struct slam_ldif *ldif);

/* Entries of the whole population. */
uint64_t slam_ldif_entries(const struct slam_ldif *ldif);

/* Starts the threads; once. */
int slam_ldif_start(struct slam_ldif *ldif, char *err, size_t err_len);

/* Waits for the end, for at most timeout_ns. *is_done says whether all threads have
 * ended; then the result is 0, or what went wrong: SLAM_ESYS for a failed write. */
int slam_ldif_wait(struct slam_ldif *ldif, uint64_t timeout_ns, bool *is_done,
                   char *err, size_t err_len);

/* Has the threads end soon; what was written ends with a whole block of entries, or
 * within a long entry; in a pipe, a socket or a terminal anywhere. Any thread. */
void slam_ldif_stop(struct slam_ldif *ldif);

/* Any thread. */
struct slam_ldif_progress slam_ldif_progress(struct slam_ldif *ldif);

#endif
