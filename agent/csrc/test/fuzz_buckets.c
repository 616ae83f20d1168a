/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: any bytes are a packed histogram, or are refused. */
#include "columns/buckets.h"
#include "core/histogram.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (slam_packed_check(data, size) > (int64_t)SLAM_HISTOGRAM_BUCKETS)
        abort();
    return 0;
}
