/* SPDX-License-Identifier: Apache-2.0 */
/* Log-linear histogram of durations in HdrHistogram's layout: unit 1 us, three
 * significant digits, 1 us to 1 h. Higher values are counted in `overflow`. Minimum,
 * maximum and sum are exact, in ns. Not thread-safe. */
#ifndef SLAM_HISTOGRAM_H
#define SLAM_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define SLAM_HISTOGRAM_HALF 1024u /* half of the 2048 sub-buckets */
#define SLAM_HISTOGRAM_MAX_US UINT64_C(3600000000)
#define SLAM_HISTOGRAM_BUCKETS 23552u /* 23 * 1024: covers 2^32 us > 1 h */

struct slam_histogram {
    uint64_t total;           /* without overflow */
    uint64_t overflow;        /* values above SLAM_HISTOGRAM_MAX_US */
    uint64_t inverted_min_ns; /* ~ of the minimum, overflowed values included: zeroed
                                 memory is an empty histogram */
    uint64_t max_ns;          /* 0 while empty; overflowed values included */
    uint64_t sum_ns; /* of the values in `total`: sum_ns / total is their mean */
    uint32_t counts[SLAM_HISTOGRAM_BUCKETS];
};

/* Writes only to what was used: an unused histogram on zeroed pages takes no memory. */
void slam_histogram_reset(struct slam_histogram *h);

/* Index of the bucket of a value; value_us at most SLAM_HISTOGRAM_MAX_US. */
uint32_t slam_histogram_index(uint64_t value_us);

void slam_histogram_record(struct slam_histogram *h, uint64_t value_ns);

/* Adds src to dst. A bucket holds up to 2^32 - 1 values: an interval of a fleet. */
void slam_histogram_merge(struct slam_histogram *dst, const struct slam_histogram *src);

size_t slam_histogram_packed_size(const struct slam_histogram *h);

#define SLAM_PACKED_HEADER 48 /* bytes before the buckets */

/* Writes slam_histogram_packed_size(h) bytes, little-endian: "SLH1", u32 n, u64 total,
 * overflow, min_ns, max_ns, sum_ns, n * u16 bucket index (ascending), n * u32 count. */
size_t slam_histogram_pack(const struct slam_histogram *h, uint8_t *buf);

#endif
