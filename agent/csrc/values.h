/* SPDX-License-Identifier: Apache-2.0 */
/* Value sources: the holes of a request template. A source is shared and read only; its
 * state belongs to one worker. Sequences are partitioned: participant p of n emits the
 * members p, p + n, p + 2n… of the sequence, then starts again, so that the fleet emits
 * each member once per round. With fewer members than participants, participant p emits
 * member p mod members. */
#ifndef SLAM_VALUES_H
#define SLAM_VALUES_H

#include "rng.h"

#include <stddef.h>
#include <stdint.h>

enum slam_value_kind {
    SLAM_VALUE_UNIFORM = 0,  /* lo + step * k, k uniform over the members */
    SLAM_VALUE_SEQUENCE = 1, /* lo, lo + step, … up to hi */
    SLAM_VALUE_STRING = 2    /* lo characters, each uniform from charset */
};

#define SLAM_VALUE_MAX_LEN 65536u /* longest text that a source may emit */

struct slam_value_source {
    enum slam_value_kind kind;
    int64_t lo;
    int64_t hi;
    int64_t step;   /* > 0 */
    uint32_t width; /* least number of digits, padded with zeros; 0: none */
    uint8_t charset[256];
    uint32_t charset_len;
};

struct slam_value_state {
    uint64_t next;   /* sequence: index of the next member */
    uint64_t first;  /* sequence: the participant's first member */
    uint64_t stride; /* sequence: number of participants */
};

/* Checks a source's figures. Returns 0 or a negative slam_err with the reason in err.
 */
int slam_value_source_check(const struct slam_value_source *src, char *err,
                            size_t err_len);

/* Number of members of a uniform or sequence source: (hi - lo) / step + 1. */
uint64_t slam_value_members(const struct slam_value_source *src);

/* Longest text that the source can emit, in bytes. */
size_t slam_value_max_len(const struct slam_value_source *src);

void slam_value_state_init(const struct slam_value_source *src,
                           struct slam_value_state *state, uint32_t participant,
                           uint32_t participants);

/* Writes the next value's text (no terminator) to out, which holds
 * slam_value_max_len(src) bytes. Returns its length. */
size_t slam_value_emit(const struct slam_value_source *src,
                       struct slam_value_state *state, struct slam_rng *rng, char *out);

#endif
