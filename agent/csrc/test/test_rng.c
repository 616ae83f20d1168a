/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rng.h"
#include "slam_test.h"

#include <math.h>
#include <stdlib.h>

#define DRAWS 200000

TEST(first_numbers_are_those_of_the_reference_implementation)
{
    /* xoshiro256** from state {1, 2, 3, 4}; the first is rotl(2 * 5, 7) * 9 = 11520. */
    struct slam_rng rng = {.s = {1, 2, 3, 4}};

    CHECK_EQ(slam_rng_next(&rng), 11520);
    CHECK_EQ(slam_rng_next(&rng), 0);
    CHECK_EQ(slam_rng_next(&rng), 1509978240);
    CHECK_EQ(slam_rng_next(&rng), 1215971899390074240);
}

TEST(equal_seeds_give_equal_numbers_and_different_ones_do_not)
{
    struct slam_rng a, b, other_sequence, other_seed;
    int equal_sequence = 0, equal_seed = 0;

    slam_rng_seed(&a, 42, 7);
    slam_rng_seed(&b, 42, 7);
    slam_rng_seed(&other_sequence, 42, 8);
    slam_rng_seed(&other_seed, 43, 7);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = slam_rng_next(&a);

        CHECK(x == slam_rng_next(&b));
        equal_sequence += x == slam_rng_next(&other_sequence);
        equal_seed += x == slam_rng_next(&other_seed);
    }
    CHECK_EQ(equal_sequence, 0);
    CHECK_EQ(equal_seed, 0);
}

TEST(neighbouring_sequences_do_not_overlap_by_a_shift)
{
    struct slam_rng a, b;
    uint64_t first[64], second[64];

    slam_rng_seed(&a, 0, 0);
    slam_rng_seed(&b, 0, 1);
    for (int i = 0; i < 64; i++) {
        first[i] = slam_rng_next(&a);
        second[i] = slam_rng_next(&b);
    }
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++)
            CHECK(first[i] != second[j]);
}

TEST(below_stays_below_and_reaches_every_number)
{
    struct slam_rng rng;
    int seen[7] = {0};

    slam_rng_seed(&rng, 1, 1);
    for (int i = 0; i < 7 * 10000; i++) {
        uint64_t x = slam_rng_below(&rng, 7);

        CHECK(x < 7);
        seen[x]++;
    }
    for (int i = 0; i < 7; i++) {
        /* 10000 expected, standard deviation sqrt(70000 * 6) / 7 = 93; six of them */
        CHECK(abs(seen[i] - 10000) < 558);
    }
    CHECK_EQ(slam_rng_below(&rng, 1), 0);
}

TEST(below_is_unbiased_where_a_modulo_is_not)
{
    /* bound = 3 * 2^62: a modulo would draw the lowest third twice as often. */
    struct slam_rng rng;
    uint64_t bound = UINT64_C(3) << 62;
    int lowest = 0;

    slam_rng_seed(&rng, 5, 5);
    for (int i = 0; i < DRAWS; i++)
        lowest += slam_rng_below(&rng, bound) < bound / 3;
    CHECK(fabs((double)lowest / DRAWS - 1.0 / 3) < 6 * sqrt(2.0 / 9 / DRAWS));
}

TEST(below_zero_means_the_full_range)
{
    struct slam_rng rng, same;
    bool above = false;

    slam_rng_seed(&rng, 9, 9);
    same = rng;
    for (int i = 0; i < 100; i++) {
        uint64_t x = slam_rng_below(&rng, 0);

        CHECK(x == slam_rng_next(&same));
        above = above || x > UINT64_MAX / 2;
    }
    CHECK(above);
}

TEST(exponential_has_mean_1_variance_1_and_the_right_tail)
{
    struct slam_rng rng;
    double sum = 0, square_sum = 0;
    int above_3 = 0;

    slam_rng_seed(&rng, 3, 0);
    for (int i = 0; i < DRAWS; i++) {
        double x = slam_rng_exponential(&rng);

        CHECK(x >= 0 && isfinite(x));
        sum += x;
        square_sum += x * x;
        above_3 += x > 3;
    }
    double mean = sum / DRAWS;
    /* standard errors: 1 / sqrt(n) of the mean, sqrt(8 / n) of the variance */
    CHECK(fabs(mean - 1) < 6 / sqrt(DRAWS));
    CHECK(fabs(square_sum / DRAWS - mean * mean - 1) < 6 * sqrt(8.0 / DRAWS));
    CHECK(fabs((double)above_3 / DRAWS - exp(-3)) < 6 * sqrt(exp(-3) / DRAWS));
}

TEST(bytes_below_are_uniform_and_independent_of_their_neighbours)
{
    /* pairs of neighbours of bound 5, and all 256 values of bound 256 */
    enum { BATCH = 13 };
    struct slam_rng rng;
    static int pairs[5][5], bytes[256];
    uint8_t out[BATCH];

    slam_rng_seed(&rng, 6, 0);
    for (int i = 0; i < DRAWS / BATCH; i++) {
        slam_rng_bytes_below(&rng, 5, out, BATCH);
        for (int j = 1; j < BATCH; j += 2)
            pairs[out[j - 1]][out[j]]++;
        slam_rng_bytes_below(&rng, 256, out, BATCH);
        for (int j = 0; j < BATCH; j++)
            bytes[out[j]]++;
    }
    for (int i = 0; i < 25; i++) {
        double expected = DRAWS / BATCH * (BATCH / 2) / 25.0;

        CHECK(fabs(pairs[i / 5][i % 5] - expected) < 6 * sqrt(expected));
    }
    for (int i = 0; i < 256; i++) {
        double expected = DRAWS / BATCH * BATCH / 256.0;

        CHECK(fabs(bytes[i] - expected) < 6 * sqrt(expected));
    }
    memset(out, 1, sizeof(out));
    slam_rng_bytes_below(&rng, 1, out, 0);
    CHECK_EQ(out[0], 1);
    slam_rng_bytes_below(&rng, 1, out, BATCH);
    for (int i = 0; i < BATCH; i++)
        CHECK_EQ(out[i], 0);
}

TEST(normal_has_its_moments_and_its_tails)
{
    struct slam_rng rng;
    double sum = 0, square_sum = 0, fourth_sum = 0;
    int above_2 = 0;

    slam_rng_seed(&rng, 4, 0);
    for (int i = 0; i < DRAWS; i++) {
        double x = slam_rng_normal(&rng);

        CHECK(isfinite(x));
        sum += x;
        square_sum += x * x;
        fourth_sum += x * x * x * x;
        above_2 += x > 2;
    }
    /* standard errors: 1, sqrt(2), sqrt(96) over sqrt(n); P(x > 2) = 0.02275 */
    CHECK(fabs(sum / DRAWS) < 6 / sqrt(DRAWS));
    CHECK(fabs(square_sum / DRAWS - 1) < 6 * sqrt(2.0 / DRAWS));
    CHECK(fabs(fourth_sum / DRAWS - 3) < 6 * sqrt(96.0 / DRAWS));
    CHECK(fabs((double)above_2 / DRAWS - 0.02275) < 6 * sqrt(0.02275 / DRAWS));
}
