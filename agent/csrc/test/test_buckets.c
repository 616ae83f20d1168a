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

static void
test_what_the_engine_packs_is_whole(void)
{
    uint8_t data[128];

    CHECK_EQ(packed(data), SLAM_PACKED_HEADER + 12);
    CHECK_EQ(slam_packed_check(data, SLAM_PACKED_HEADER + 12), 2);
}

static void
test_damage_is_found(void)
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

static void
test_buckets_are_added_by_row(void)
{
    static uint16_t columns[SLAM_HISTOGRAM_BUCKETS];
    const uint32_t lengths[] = {2, 1, 0, 2};
    const uint16_t indexes[] = {5, 9, 5, 7, 9};
    const uint32_t counts[] = {1, 2, UINT32_MAX, 8, 16};
    const int64_t rows[] = {1, 1, 0, -1};
    const struct slam_block block = {lengths, 4, indexes, counts};
    int64_t table[6] = {0};

    columns[7] = 1;
    columns[9] = 2;
    slam_block_add(&block, rows, columns, 3, table);
    CHECK_EQ(table[0] | table[1] | table[2], 0);
    CHECK_EQ(table[3], 1 + (int64_t)UINT32_MAX);
    CHECK_EQ(table[4], 0);
    CHECK_EQ(table[5], 2);
}

int
main(void)
{
    RUN(test_what_the_engine_packs_is_whole);
    RUN(test_damage_is_found);
    RUN(test_buckets_are_added_by_row);
    return SLAM_TEST_EXIT();
}
