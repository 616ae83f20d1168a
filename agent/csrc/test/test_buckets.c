/* SPDX-License-Identifier: Apache-2.0 */
#include "columns/buckets.h"
#include "core/histogram.h"
#include "slam_test.h"

#include <stdlib.h>

/* A histogram of 1 us, 3 us twice, and one value above an hour, as the engine packs it.
 */
static size_t
packed(uint8_t *out)
{
    struct slam_histogram *h = calloc(1, sizeof(*h));
    size_t len;

    slam_histogram_reset(h);
    slam_histogram_record(h, 1000);
    slam_histogram_record(h, 3000);
    slam_histogram_record(h, 3000);
    slam_histogram_record(h, UINT64_C(4000) * 1000000000);
    len = slam_histogram_pack(h, out);
    free(h);
    return len;
}

TEST(what_the_engine_packs_is_whole)
{
    uint8_t data[128];

    CHECK_EQ(packed(data), SLAM_PACKED_HEADER + 12);
    CHECK_EQ(slam_packed_check(data, SLAM_PACKED_HEADER + 12), 2);
}

TEST(damage_is_found)
{
    static const struct {
        size_t at;
        uint8_t byte;
    } changes[] = {
        {0, 'X'},   /* magic */
        {4, 3},     /* number of buckets */
        {7, 1},     /* far more of them */
        {8, 4},     /* total */
        {48, 3},    /* the first bucket is the second one */
        {51, 0xff}, /* beyond the last one */
        {52, 2},    /* a count */
    };
    uint8_t data[128];

    for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
        const size_t len = packed(data);

        data[changes[i].at] = changes[i].byte;
        CHECK_EQ(slam_packed_check(data, len), -1);
    }
    for (size_t len = packed(data) - 1; len > 0; len--)
        CHECK_EQ(slam_packed_check(data, len), -1);
    CHECK_EQ(slam_packed_check(data, packed(data) + 1), -1);
}
