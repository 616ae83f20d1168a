/* SPDX-License-Identifier: Apache-2.0 */
/* Value sources of templates. A prepared source is shared and read only.
 *
 * Sequences, lines in turn and unique numbers are dealt by connection (partition.h): a
 * worker takes its x one after the other, and the value is member x mod members. So the
 * fleet emits each member once a round. */
#ifndef SLAM_VALUES_H
#define SLAM_VALUES_H

#include "core/partition.h"
#include "core/rng.h"
#include "template/feed.h"

#include <stddef.h>
#include <stdint.h>

/* Member k is lo + step * k, or lo - step * k where lo > hi (sequences only). */
enum slam_value_kind {
    SLAM_VALUE_UNIFORM = 0,  /* a member, each as likely */
    SLAM_VALUE_SEQUENCE = 1, /* the members in turn */
    SLAM_VALUE_STRING = 2,   /* lo to max(lo, hi) characters, each uniform from data */
    SLAM_VALUE_ZIPF = 3,     /* member k with a probability ~ 1 / (k + 1)^a */
    SLAM_VALUE_GAUSS = 4,    /* normal: mean the middle of the members, standard
                              * deviation a sixth of their range, redrawn outside it */
    SLAM_VALUE_HOT = 5,      /* the first a * members of them with probability b, else
                              * the others; uniform within */
    SLAM_VALUE_FILE_RANDOM = 6,   /* a line of the file `data` */
    SLAM_VALUE_FILE_SEQUENCE = 7, /* its lines in turn */
    SLAM_VALUE_TIMESTAMP = 8, /* now, or between lo and hi ms after 1970 where one of
                               * them is not 0; step: an enum slam_timestamp_format */
    SLAM_VALUE_UUID = 9,      /* version 4 (RFC 9562) */
    SLAM_VALUE_UNIQUE = 10,   /* lo + step * x: never twice in the run */
    SLAM_VALUE_VARIABLE = 11, /* number lo; hi > 0: at most hi bytes, whole characters;
                               * width: a slam_text_form */
    SLAM_VALUE_PARENT = 12,   /* the parent DN of the DN in variable lo; hi likewise */
    SLAM_VALUE_MESSAGE_ID = 13, /* content octets of the messageID to abandon */
    SLAM_VALUE_LIST = 14        /* data: entries of u32 weight, u32 len, len bytes, in
                                 * little endian; drawn by weight */
};

enum slam_timestamp_format {
    SLAM_TIMESTAMP_GENERALIZED = 0,  /* 20180102030405.678Z (RFC 4517 3.3.13) */
    SLAM_TIMESTAMP_MILLISECONDS = 1, /* after 1970 */
    SLAM_TIMESTAMP_SECONDS = 2
};

#define SLAM_VALUE_MAX_LEN 65536u /* longest text that a source may emit */
#define SLAM_VARIABLE_MAX 2044u

/* A text that a session keeps: a let, a capture, a DN out of a ledger. */
struct slam_variable {
    uint32_t len;
    uint8_t text[SLAM_VARIABLE_MAX];
};

/* What a draw depends on besides the source and its state. */
struct slam_draw {
    struct slam_rng *rng;
    const struct slam_partition *partition;
    struct slam_variable *variables; /* the session's */
    int32_t message_id_of_previous;  /* the session's request before this one */
};

struct slam_value_source {
    enum slam_value_kind kind;
    int64_t lo;
    int64_t hi;
    int64_t step;   /* > 0 where members are numbered */
    uint32_t width; /* least number of digits, padded with zeros; 0: none */
    double a;
    double b;
    const uint8_t *data; /* the caller's; a prepared source has its own copy */
    size_t data_len;
    /* slam_value_source_prepare: */
    const struct slam_feed *feed;
    uint64_t members; /* numbers, lines, or entries of a list */
    size_t max_len;   /* longest text */
    union {
        struct {
            double low; /* see values.c */
            double high;
            double shortcut;
        } zipf;
        uint64_t hot;                /* members that are */
        struct slam_choice *choices; /* list: [members] */
    } prepared;
};

struct slam_choice {
    uint64_t end;    /* sum of the weights up to and including this one */
    uint32_t offset; /* of its text in data */
    uint32_t len;
};

/* Checks a source, copies its data and computes what draws need; after a failure there
 * is nothing to release. Control thread only. */
int slam_value_source_prepare(struct slam_value_source *src, struct slam_feeds *feeds,
                              char *err);
void slam_value_source_release(struct slam_value_source *src);

/* Writes the next value to `at` (src->max_len bytes, no terminator). Returns its end.
 */
uint8_t *slam_value_put(const struct slam_value_source *src,
                        struct slam_partition_cursor *cursor,
                        const struct slam_draw *draw, uint8_t *at);

#endif
