/* SPDX-License-Identifier: Apache-2.0 */
/* Checks packed histograms (core/histogram.h). */
#ifndef SLAM_COLUMNS_BUCKETS_H
#define SLAM_COLUMNS_BUCKETS_H

#include <stddef.h>
#include <stdint.h>

/* Looks at one packed histogram. Returns its number of buckets, or -1 where the bytes
 * are none: a length that does not fit, buckets that do not ascend or do not exist,
 * counts that do not add up to the total. */
int64_t slam_packed_check(const uint8_t *data, size_t len);

#endif
