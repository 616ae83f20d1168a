/* SPDX-License-Identifier: Apache-2.0 */
#include "core/histogram.h"
#include "core/rng.h"
#include "slam_test.h"

#include <stdlib.h>

#define MAX_NS (SLAM_HISTOGRAM_MAX_US * 1000)

static void
clear(struct slam_histogram *h)
{
    memset(h, 0, sizeof(*h));
    slam_histogram_reset(h);
}

static struct slam_histogram a, b, whole; /* too large for the stack */

TEST(index_follows_the_hdr_layout)
{
    static const struct {
        uint64_t us;
        uint32_t index;
    } cases[] = {
        {0, 0},
        {1, 1},
        {2047, 2047},
        {2048, 2048}, /* bucket 1: 1024 + 2048 / 2 */
        {2049, 2048},
        {2050, 2049},
        {4095, 3071},
        {4096, 3072}, /* bucket 2: 2 * 1024 + 4096 / 4 */
        {1000000, 9 * 1024 + (1000000 >> 9)},
        {SLAM_HISTOGRAM_MAX_US, 21 * 1024 + (3600000000u >> 21)},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK_EQ(slam_histogram_index(cases[i].us), cases[i].index);
    CHECK(slam_histogram_index(SLAM_HISTOGRAM_MAX_US) < SLAM_HISTOGRAM_BUCKETS);
}

TEST(index_grows_by_steps_of_one_and_keeps_three_digits)
{
    uint32_t previous = 0;
    uint64_t lowest = 0; /* of the bucket */

    for (uint64_t us = 0; us < 5000000; us++) {
        uint32_t index = slam_histogram_index(us);

        CHECK(index == previous || index == previous + 1);
        if (index != previous)
            lowest = us;
        CHECK((us - lowest) * 1000 <= us);
        previous = index;
    }
}

TEST(values_keep_their_exact_minimum_maximum_and_sum)
{
    clear(&a);
    slam_histogram_record(&a, 1999);
    slam_histogram_record(&a, 999);
    slam_histogram_record(&a, 5000001);
    CHECK_EQ(a.total, 3);
    CHECK_EQ(~a.inverted_min_ns, 999);
    CHECK_EQ(a.max_ns, 5000001);
    CHECK_EQ(a.sum_ns, 5002999);
    CHECK_EQ(a.counts[0], 1);
    CHECK_EQ(a.counts[1], 1);
    CHECK_EQ(a.counts[slam_histogram_index(5000)], 1);
}

TEST(values_above_an_hour_are_counted_and_not_clipped)
{
    clear(&a);
    slam_histogram_record(&a, MAX_NS + 999); /* the last us that fits */
    slam_histogram_record(&a, MAX_NS + 1000);
    slam_histogram_record(&a, UINT64_MAX);
    CHECK_EQ(a.total, 1);
    CHECK_EQ(a.overflow, 2);
    CHECK_EQ(a.counts[slam_histogram_index(SLAM_HISTOGRAM_MAX_US)], 1);
    CHECK(a.max_ns == UINT64_MAX);
    CHECK_EQ(a.sum_ns, MAX_NS + 999);
}

static void
fill(struct slam_histogram *h, uint64_t sequence, int values)
{
    struct slam_rng rng;

    slam_rng_seed(&rng, 11, sequence);
    for (int i = 0; i < values; i++) {
        /* log-uniform: every power of two up to beyond an hour */
        uint64_t value = slam_rng_next(&rng) >> (20 + slam_rng_below(&rng, 44));
        slam_histogram_record(h, value);
        slam_histogram_record(&whole, value);
    }
}

TEST(merged_histograms_equal_the_histogram_of_the_union)
{
    clear(&a);
    clear(&b);
    clear(&whole);
    fill(&a, 1, 10000);
    fill(&b, 2, 30000);
    slam_histogram_merge(&a, &b);
    CHECK(a.overflow > 0);
    CHECK(memcmp(&a, &whole, sizeof(a)) == 0);
}

TEST(merging_an_empty_histogram_changes_nothing)
{
    clear(&a);
    clear(&b);
    clear(&whole);
    fill(&a, 3, 100);
    slam_histogram_merge(&a, &b);
    CHECK(memcmp(&a, &whole, sizeof(a)) == 0);
    slam_histogram_merge(&b, &a);
    CHECK(memcmp(&b, &whole, sizeof(b)) == 0);
}

static uint64_t
read_le(const uint8_t *at, unsigned int bytes)
{
    uint64_t value = 0;

    for (unsigned int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

TEST(packed_bytes_hold_every_bucket_and_counter)
{
    clear(&a);
    clear(&whole);
    fill(&a, 4, 5000);
    size_t size = slam_histogram_packed_size(&a);
    uint8_t *packed = malloc(size);
    CHECK(packed != NULL);
    CHECK_EQ(slam_histogram_pack(&a, packed), size);

    CHECK(memcmp(packed, "SLH1", 4) == 0);
    uint64_t n = read_le(packed + 4, 4);
    CHECK_EQ(size, 48 + n * 6);
    CHECK_EQ(read_le(packed + 8, 8), a.total);
    CHECK_EQ(read_le(packed + 16, 8), a.overflow);
    CHECK_EQ(read_le(packed + 24, 8), ~a.inverted_min_ns);
    CHECK_EQ(read_le(packed + 32, 8), a.max_ns);
    CHECK_EQ(read_le(packed + 40, 8), a.sum_ns);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t index = read_le(packed + 48 + 2 * i, 2);
        uint64_t value = read_le(packed + 48 + 2 * n + 4 * i, 4);

        CHECK(i == 0 || index > read_le(packed + 48 + 2 * (i - 1), 2));
        CHECK_EQ(value, a.counts[index]);
        CHECK(value > 0);
        sum += value;
    }
    CHECK_EQ(sum, a.total);
    free(packed);
}

TEST(empty_and_overflowed_histograms_pack_without_buckets)
{
    uint8_t packed[48];

    clear(&a);
    CHECK_EQ(slam_histogram_packed_size(&a), sizeof(packed));
    CHECK_EQ(slam_histogram_pack(&a, packed), sizeof(packed));
    CHECK(read_le(packed + 24, 8) == UINT64_MAX);
    slam_histogram_record(&a, UINT64_MAX);
    CHECK_EQ(slam_histogram_packed_size(&a), sizeof(packed));
    CHECK_EQ(slam_histogram_pack(&a, packed), sizeof(packed));
    CHECK_EQ(read_le(packed + 16, 8), 1);
}

TEST(reset_empties_what_was_recorded)
{
    clear(&a);
    clear(&b);
    clear(&whole);
    fill(&a, 5, 1000);
    slam_histogram_reset(&a);
    CHECK(memcmp(&a, &b, sizeof(a)) == 0);
    slam_histogram_record(&a, UINT64_MAX);
    slam_histogram_reset(&a);
    CHECK(memcmp(&a, &b, sizeof(a)) == 0);
}
