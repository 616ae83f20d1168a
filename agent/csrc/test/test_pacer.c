/* SPDX-License-Identifier: Apache-2.0 */
#include "pacer.h"
#include "slam_test.h"

#include <math.h>
#include <stdlib.h>

#define NS_PER_S UINT64_C(1000000000)

static struct slam_rng rng;

/* Connection `first` of `total`. */
static struct slam_pacer_share
one_of(uint64_t first, uint64_t total)
{
    return (struct slam_pacer_share){
        .first = first, .step = 1, .count = 1, .total = total};
}

static void
test_constant_arrivals_are_evenly_spaced_without_drift(void)
{
    /* 3 per s: the k-th at k * 10^9 / 3, rounded down, also after a year of them */
    const struct slam_pacer_share all = one_of(0, 1);
    struct slam_pacer p;

    slam_pacer_init(&p, 3, NS_PER_S, 0, false, &all, NULL);
    for (uint64_t k = 0; k < 1000; k++)
        CHECK_EQ(slam_pacer_next(&p, NULL), k * NS_PER_S / 3);
    uint64_t year = UINT64_C(3) * 86400 * 365;
    slam_pacer_init(&p, 3, NS_PER_S, 0, false, &all, NULL);
    p.round = year;
    CHECK_EQ(slam_pacer_next(&p, NULL), year / 3 * NS_PER_S);
}

static void
test_participants_together_make_every_arrival_once(void)
{
    enum { PARTICIPANTS = 7, PER_S = 1009 };
    struct slam_pacer p[PARTICIPANTS];

    for (uint64_t i = 0; i < PARTICIPANTS; i++) {
        const struct slam_pacer_share share = one_of(i, PARTICIPANTS);

        slam_pacer_init(&p[i], PER_S, NS_PER_S, 0, false, &share, NULL);
    }
    for (uint64_t k = 0; k < 10 * PER_S; k++)
        CHECK_EQ(slam_pacer_next(&p[k % PARTICIPANTS], NULL), k * NS_PER_S / PER_S);
}

static void
test_unequal_workers_take_what_their_connections_are_dealt(void)
{
    /* 5 connections on 2 workers: numbers 0, 2, 4 and 1, 3 */
    const struct slam_pacer_share shares[2] = {
        {.first = 0, .step = 2, .count = 3, .total = 5},
        {.first = 1, .step = 2, .count = 2, .total = 5}};
    struct slam_pacer p[2];

    for (size_t i = 0; i < 2; i++)
        slam_pacer_init(&p[i], 1000, NS_PER_S, 0, false, &shares[i], NULL);
    for (uint64_t k = 0; k < 1000; k++)
        CHECK_EQ(slam_pacer_next(&p[k % 5 % 2], NULL), k * NS_PER_S / 1000);
}

static void
test_unequal_poisson_workers_have_the_rates_of_their_connections(void)
{
    /* 3 and 1 of 4 connections, 20000/s for 10 s: 150000 and 50000, sigma < 400 */
    const uint64_t connections[2] = {3, 1};

    slam_rng_seed(&rng, 9, 0);
    for (size_t i = 0; i < 2; i++) {
        const struct slam_pacer_share share = {
            .first = i, .step = 1, .count = connections[i], .total = 4};
        struct slam_pacer p;
        int64_t count = 0;

        slam_pacer_init(&p, 20000, NS_PER_S, 0, true, &share, &rng);
        while (slam_pacer_next(&p, &rng) < 10 * NS_PER_S)
            count++;
        CHECK(llabs(count - (int64_t)connections[i] * 50000) < 5 * 400);
    }
}

static void
test_ramp_up_follows_its_parabola_and_joins_the_steady_rate(void)
{
    /* R = 1000/s, T = 2 s: 1000 arrivals in the ramp, N(t) = 250 t^2 by t s */
    const struct slam_pacer_share all = one_of(0, 1);
    struct slam_pacer p;
    uint64_t previous = 0;
    uint64_t by_1_s = 0, by_2_s = 0, by_3_s = 0;

    slam_pacer_init(&p, 1000, NS_PER_S, 2 * NS_PER_S, false, &all, NULL);
    for (int k = 0; k < 3000; k++) {
        uint64_t due = slam_pacer_next(&p, NULL);

        CHECK(due >= previous);
        by_1_s += due < NS_PER_S;
        by_2_s += due < 2 * NS_PER_S;
        by_3_s += due < 3 * NS_PER_S;
        previous = due;
    }
    CHECK_EQ(by_1_s, 250);
    CHECK_EQ(by_2_s, 1000);
    CHECK_EQ(by_3_s, 2000);
}

static void
test_poisson_counts_have_the_mean_and_the_variance_of_their_rate(void)
{
    /* 4 participants of 20000/s for 10 s, counted per 10 ms: mean = variance = 200 */
    enum { PARTICIPANTS = 4, BINS = 1000 };
    static int bins[BINS];
    double sum = 0, square_sum = 0;

    slam_rng_seed(&rng, 8, 0);
    for (uint64_t i = 0; i < PARTICIPANTS; i++) {
        const struct slam_pacer_share share = one_of(i, PARTICIPANTS);
        struct slam_pacer p;
        uint64_t previous = 0, due;

        slam_pacer_init(&p, 20000, NS_PER_S, 0, true, &share, &rng);
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

static void
test_poisson_ramp_has_half_the_arrivals_of_the_steady_rate(void)
{
    const struct slam_pacer_share all = one_of(0, 1);
    struct slam_pacer p;
    int ramp = 0;

    slam_rng_seed(&rng, 8, 1);
    slam_pacer_init(&p, 20000, NS_PER_S, NS_PER_S, true, &all, &rng);
    while (slam_pacer_next(&p, &rng) < NS_PER_S)
        ramp++;
    CHECK(abs(ramp - 10000) < 600); /* six standard deviations of 100 */
}

int
main(void)
{
    RUN(test_constant_arrivals_are_evenly_spaced_without_drift);
    RUN(test_participants_together_make_every_arrival_once);
    RUN(test_unequal_workers_take_what_their_connections_are_dealt);
    RUN(test_unequal_poisson_workers_have_the_rates_of_their_connections);
    RUN(test_ramp_up_follows_its_parabola_and_joins_the_steady_rate);
    RUN(test_poisson_counts_have_the_mean_and_the_variance_of_their_rate);
    RUN(test_poisson_ramp_has_half_the_arrivals_of_the_steady_rate);
    return SLAM_TEST_EXIT();
}
