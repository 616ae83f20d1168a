/* SPDX-License-Identifier: Apache-2.0 */
/* Packed histograms (core/histogram.h) as columns, and their sums. */
#ifndef SLAM_COLUMNS_BUCKETS_H
#define SLAM_COLUMNS_BUCKETS_H

#include <stddef.h>
#include <stdint.h>

/* Looks at one packed histogram. Returns its number of buckets, or -1 where the bytes
 * are none: a length that does not fit, buckets that do not ascend or do not exist,
 * counts that do not add up to the total. */
int64_t slam_packed_check(const uint8_t *data, size_t len);

/* Histograms that were checked, one behind the other. */
struct slam_block {
    const uint32_t *lengths; /* buckets of each */
    size_t histograms;
    const uint16_t *indexes; /* the buckets of all */
    const uint32_t *counts;
};

/* Adds histograms up: the i-th to row rows[i] of `table`, or to none where that is -1,
 * a bucket to the column that `columns` has for it. The caller has checked that rows
 * and columns exist. */
void slam_block_add(const struct slam_block *block, const int64_t *rows,
                    const uint16_t *columns, size_t width, int64_t *table);

#endif
