/* SPDX-License-Identifier: Apache-2.0 */
#include "core/slam_err.h"
#include "rate_profile.h"
#include "slam_test.h"

#include <math.h>
#include <stdlib.h>

#define NS_PER_S UINT64_C(1000000000)
#define PER_S(rate) ((rate) / 1e9)
#define S(seconds) ((uint64_t)((seconds) * 1e9))
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static struct slam_rng rng;
static char err[SLAM_ERR_LEN];

/* Connection `first` of `total`. */
static struct slam_partition
one_of(uint64_t first, uint64_t total)
{
    return (struct slam_partition){
        .first = first, .step = 1, .count = 1, .total = total};
}

static const struct slam_rate_segment *
steady(double per_s)
{
    static struct slam_rate_segment s;

    s = (struct slam_rate_segment){
        .duration_ns = SLAM_RATE_FOR_EVER, .a = PER_S(per_s), .b = PER_S(per_s)};
    slam_rate_profile_prepare(&s, 1, err);
    return &s;
}

TEST(constant_arrivals_are_evenly_spaced_without_drift)
{
    /* 3 per s: the k-th at k * 10^9 / 3, to the ns after a year of them */
    const struct slam_partition all = one_of(0, 1);
    uint64_t year = UINT64_C(3) * 86400 * 365;
    struct slam_pacer p;

    slam_pacer_init(&p, steady(3), 1, SLAM_ARRIVALS_CONSTANT, &all, 0, NULL);
    for (uint64_t k = 0; k < 1000; k++)
        CHECK(llabs((int64_t)(slam_pacer_next(&p, NULL) - k * NS_PER_S / 3)) <= 1);
    slam_pacer_init(&p, steady(3), 1, SLAM_ARRIVALS_CONSTANT, &all, 0, NULL);
    p.cursor.round = year;
    CHECK(llabs((int64_t)(slam_pacer_next(&p, NULL) - year / 3 * NS_PER_S)) <= 4);
}

TEST(count_of_a_share_is_what_the_share_takes)
{
    /* connections 2, 6, 10 of 13 */
    const struct slam_partition partition = {
        .first = 2, .step = 4, .count = 3, .total = 13};

    for (uint64_t n = 0; n < 60; n++) {
        uint64_t taken = 0;

        for (uint64_t x = 0; x < n; x++)
            taken += x % 13 == 2 || x % 13 == 6 || x % 13 == 10;
        CHECK_EQ(slam_partition_count(&partition, n), taken);
    }
}

TEST(shares_together_make_every_arrival_once)
{
    enum { SHARES = 7, RATE = 1009 };
    struct slam_pacer p[SHARES], whole;
    const struct slam_partition all = one_of(0, 1);

    slam_pacer_init(&whole, steady(RATE), 1, SLAM_ARRIVALS_CONSTANT, &all, 0, NULL);
    for (uint64_t i = 0; i < SHARES; i++) {
        const struct slam_partition partition = one_of(i, SHARES);

        slam_pacer_init(&p[i], steady(RATE), 1, SLAM_ARRIVALS_CONSTANT, &partition, 0,
                        NULL);
    }
    for (uint64_t k = 0; k < 10 * RATE; k++)
        CHECK_EQ(slam_pacer_next(&p[k % SHARES], NULL), slam_pacer_next(&whole, NULL));
}

TEST(unequal_workers_take_what_their_connections_are_dealt)
{
    /* 5 connections on 2 workers: numbers 0, 2, 4 and 1, 3 */
    const struct slam_partition partitions[2] = {
        {.first = 0, .step = 2, .count = 3, .total = 5},
        {.first = 1, .step = 2, .count = 2, .total = 5}};
    struct slam_pacer p[2];

    for (size_t i = 0; i < 2; i++)
        slam_pacer_init(&p[i], steady(1000), 1, SLAM_ARRIVALS_CONSTANT, &partitions[i],
                        0, NULL);
    for (uint64_t k = 0; k < 1000; k++)
        CHECK_EQ(slam_pacer_next(&p[k % 5 % 2], NULL), k * NS_PER_S / 1000);
}

TEST(unequal_poisson_workers_have_the_rates_of_their_connections)
{
    /* 3 and 1 of 4 connections, 20000/s for 10 s: 150000 and 50000, sigma < 400 */
    const uint64_t connections[2] = {3, 1};

    slam_rng_seed(&rng, 9, 0);
    for (size_t i = 0; i < 2; i++) {
        const struct slam_partition partition = {
            .first = i, .step = 1, .count = connections[i], .total = 4};
        struct slam_pacer p;
        int64_t count = 0;

        slam_pacer_init(&p, steady(20000), 1, SLAM_ARRIVALS_POISSON, &partition, 0,
                        &rng);
        while (slam_pacer_next(&p, &rng) < 10 * NS_PER_S)
            count++;
        CHECK(llabs(count - (int64_t)connections[i] * 50000) < 5 * 400);
    }
}

/* Ramps up, down, steps and pauses. */
static struct slam_rate_segment every_shape[] = {
    {.duration_ns = S(1), .a = 0, .b = 0},
    {.duration_ns = S(2), .a = 0, .b = PER_S(1000)},
    {.duration_ns = S(1.5), .a = PER_S(1000), .b = PER_S(1000)},
    {.duration_ns = S(1), .a = PER_S(333), .b = PER_S(333)},
    {.duration_ns = S(5.3), .a = PER_S(900), .b = PER_S(100)},
    {.duration_ns = S(0.25), .a = 0, .b = 0},
    {.duration_ns = S(3), .a = PER_S(200), .b = 0},
    {.duration_ns = S(2), .a = PER_S(700), .b = 0},
};

TEST(arrivals_are_within_one_of_the_profile_at_any_time)
{
    const struct slam_partition all = one_of(0, 1);
    const enum slam_arrivals kinds[] = {SLAM_ARRIVALS_CONSTANT, SLAM_ARRIVALS_UNIFORM};

    CHECK_EQ(slam_rate_profile_prepare(every_shape, LENGTH(every_shape), err), 0);
    slam_rng_seed(&rng, 1, 0);
    for (size_t kind = 0; kind < LENGTH(kinds); kind++) {
        struct slam_pacer p;
        uint64_t previous = 0, due, k = 0;

        slam_pacer_init(&p, every_shape, LENGTH(every_shape), kinds[kind], &all, 0,
                        &rng);
        while ((due = slam_pacer_next(&p, &rng)) != SLAM_PACER_NONE) {
            double expected = arrivals_by(every_shape, LENGTH(every_shape), due);

            CHECK(due >= previous);
            /* before this arrival k have come, with it k + 1 */
            CHECK(expected > (double)k - 1e-3 && expected < (double)k + 1 + 1e-3);
            if (kinds[kind] == SLAM_ARRIVALS_CONSTANT)
                CHECK(fabs(expected - (double)k) < 1e-3);
            previous = due;
            k++;
        }
        CHECK_EQ(k, ceil(every_shape[LENGTH(every_shape) - 1].end));
        CHECK_EQ(slam_pacer_next(&p, &rng), SLAM_PACER_NONE);
    }
}

TEST(nothing_arrives_while_the_rate_is_zero)
{
    struct slam_rate_segment segments[] = {
        {.duration_ns = S(1)},
        {.duration_ns = S(1), .a = PER_S(10), .b = PER_S(10)},
        {.duration_ns = S(3)},
        {.duration_ns = SLAM_RATE_FOR_EVER, .a = PER_S(10), .b = PER_S(10)}};
    const struct slam_partition all = one_of(0, 1);
    struct slam_pacer p;

    CHECK_EQ(slam_rate_profile_prepare(segments, 4, err), 0);
    slam_pacer_init(&p, segments, 4, SLAM_ARRIVALS_CONSTANT, &all, 0, NULL);
    for (uint64_t k = 0; k < 30; k++)
        CHECK_EQ(slam_pacer_next(&p, NULL),
                 (k < 10 ? NS_PER_S : 4 * NS_PER_S) + k * NS_PER_S / 10);
}

TEST(end_of_the_profile_ends_the_arrivals_exactly)
{
    /* 0.7/s for 10 s: 7 arrivals, although 0.7e-9 * 1e10 is not quite 7 */
    struct slam_rate_segment s = {
        .duration_ns = 10 * NS_PER_S, .a = PER_S(0.7), .b = PER_S(0.7)};
    const struct slam_partition all = one_of(0, 1);
    struct slam_pacer p;
    int count = 0;

    CHECK_EQ(slam_rate_profile_prepare(&s, 1, err), 0);
    slam_pacer_init(&p, &s, 1, SLAM_ARRIVALS_CONSTANT, &all, 0, NULL);
    while (slam_pacer_next(&p, NULL) != SLAM_PACER_NONE)
        count++;
    CHECK_EQ(count, 7);
}

TEST(limit_is_cut_exactly_over_the_shares)
{
    static const enum slam_arrivals kinds[] = {
        SLAM_ARRIVALS_CONSTANT, SLAM_ARRIVALS_POISSON, SLAM_ARRIVALS_UNIFORM};

    for (size_t kind = 0; kind < LENGTH(kinds); kind++)
        for (uint64_t limit = 1; limit < 40; limit++) {
            uint64_t count = 0;

            for (uint64_t worker = 0; worker < 3; worker++) {
                /* 8 connections over 3 workers */
                const struct slam_partition partition = {.first = worker,
                                                         .step = 3,
                                                         .count = worker < 2 ? 3 : 2,
                                                         .total = 8};
                struct slam_pacer p;

                slam_pacer_init(&p, steady(1e6), 1, kinds[kind], &partition, limit,
                                &rng);
                while (slam_pacer_next(&p, &rng) != SLAM_PACER_NONE)
                    count++;
            }
            CHECK_EQ(count, limit);
        }
}

TEST(poisson_counts_have_the_mean_and_the_variance_of_their_rate)
{
    /* 4 partitions of 20000/s for 10 s, counted per 10 ms: mean = variance = 200 */
    enum { SHARES = 4, BINS = 1000 };
    static int bins[BINS];
    double sum = 0, square_sum = 0;

    slam_rng_seed(&rng, 8, 0);
    for (uint64_t i = 0; i < SHARES; i++) {
        const struct slam_partition partition = one_of(i, SHARES);
        struct slam_pacer p;
        uint64_t previous = 0, due;

        slam_pacer_init(&p, steady(20000), 1, SLAM_ARRIVALS_POISSON, &partition, 0,
                        &rng);
        while ((due = slam_pacer_next(&p, &rng)) < 10 * NS_PER_S) {
            CHECK(due >= previous);
            bins[due / (NS_PER_S / 100)]++;
            previous = due;
        }
    }
    for (int i = 0; i < BINS; i++) {
        sum += bins[i];
        square_sum += (double)bins[i] * bins[i];
    }
    double mean = sum / BINS;
    double variance = square_sum / BINS - mean * mean;
    /* standard errors: sqrt(200 / 1000) and 200 * sqrt(2 / 1000) */
    CHECK(fabs(mean - 200) < 6 * sqrt(0.2));
    CHECK(fabs(variance - 200) < 6 * 200 * sqrt(0.002));
}

TEST(poisson_arrivals_follow_a_profile)
{
    const struct slam_partition all = one_of(0, 1);
    double expected;
    struct slam_pacer p;
    int64_t count = 0;

    CHECK_EQ(slam_rate_profile_prepare(every_shape, LENGTH(every_shape), err), 0);
    slam_rng_seed(&rng, 8, 1);
    for (int i = 0; i < 20; i++) {
        slam_pacer_init(&p, every_shape, LENGTH(every_shape), SLAM_ARRIVALS_POISSON,
                        &all, 0, &rng);
        while (slam_pacer_next(&p, &rng) != SLAM_PACER_NONE)
            count++;
    }
    expected = 20 * every_shape[LENGTH(every_shape) - 1].end;
    CHECK(fabs((double)count - expected) < 5 * sqrt(expected));
}

TEST(bad_profile_is_refused_with_the_reason)
{
    static const struct {
        struct slam_rate_segment s;
        const char *reason;
    } cases[] = {
        {{.duration_ns = 0}, "duration"},
        {{.duration_ns = SLAM_RATE_FOR_EVER + 1}, "duration"},
        {{.duration_ns = 1, .a = -1e-9}, "rate"},
        {{.duration_ns = 1, .a = NAN}, "rate"},
        {{.duration_ns = 1, .a = 2}, "rate"},
        {{.duration_ns = 1, .b = -1e-9}, "last rate"},
        {{.duration_ns = 1, .a = .1, .b = NAN}, "last rate"},
    };
    struct slam_rate_segment late[] = {
        {.duration_ns = SLAM_RATE_FOR_EVER}, {.duration_ns = 1}, {.duration_ns = 1}};
    const struct slam_partition nobody = {.step = 1, .total = 1};
    struct slam_pacer p;

    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct slam_rate_segment s = cases[i].s;

        CHECK_EQ(slam_rate_profile_prepare(&s, 1, err), SLAM_EINVAL);
        CHECK(strstr(err, cases[i].reason) != NULL);
    }
    CHECK_EQ(slam_rate_profile_prepare(late, 0, err), SLAM_EINVAL);
    CHECK_EQ(slam_rate_profile_prepare(late, 3, err), SLAM_EINVAL);
    CHECK(strstr(err, "segment 2: it begins after") != NULL);
    CHECK_EQ(
        slam_pacer_init(&p, steady(1), 1, SLAM_ARRIVALS_CONSTANT, &nobody, 0, NULL),
        SLAM_EINVAL);
}
