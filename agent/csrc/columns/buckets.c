/* SPDX-License-Identifier: Apache-2.0 */
#include "columns/buckets.h"

#include "core/histogram.h"

#include <string.h>

int64_t
slam_packed_check(const uint8_t *data, size_t len)
{
    const uint8_t *indexes = data + SLAM_PACKED_HEADER, *counts;
    uint32_t n, count, last = 0;
    uint64_t total, sum = 0;
    uint16_t index;

    if (len < SLAM_PACKED_HEADER || memcmp(data, "SLH1", 4) != 0)
        return -1;
    memcpy(&n, data + 4, sizeof(n));
    memcpy(&total, data + 8, sizeof(total));
    if (n > SLAM_HISTOGRAM_BUCKETS || len != SLAM_PACKED_HEADER + 6 * (size_t)n)
        return -1;
    counts = indexes + 2 * (size_t)n;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(&index, indexes + 2 * (size_t)i, sizeof(index));
        memcpy(&count, counts + 4 * (size_t)i, sizeof(count));
        if (index >= SLAM_HISTOGRAM_BUCKETS || (i > 0 && index <= last))
            return -1;
        last = index;
        sum += count;
    }
    return sum == total ? (int64_t)n : -1;
}
