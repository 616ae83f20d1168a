/* SPDX-License-Identifier: Apache-2.0 */
/* When requests are due: pure arithmetic, no clock.
 *
 * A profile says how many arrivals the run expects by t ns after T0: N(t), the integral
 * of its rate. It consists of segments, one after the other; with t from the segment's
 * start and N0 the arrivals before it,
 *
 *     rate a + (b - a) t / T
 *     N(t) = N0 + a t + (b - a) t^2 / (2 T)
 *
 * The run's arrivals are one sequence, cut exactly over the workers of all agents that
 * carry the stream (partition.h). Arrival x is due
 *
 *     constant   at N^-1(x)
 *     uniform    at N^-1(x + u), u uniform in [0, 1): one arrival per step of N
 *     poisson    at N^-1(position), where a partition's position grows by Exp(1) C / n:
 *                each is a Poisson process of n / C of the rate, their sum one of the
 *                whole rate
 *
 * rounded to the nearest ns. N^-1(x) is the first t after which N is above x, so
 * nothing arrives while the rate is zero. After the last segment there is no arrival.
 */
#ifndef SLAM_PACER_H
#define SLAM_PACER_H

#include "core/partition.h"
#include "core/rng.h"

#include <stddef.h>
#include <stdint.h>

enum slam_arrivals {
    SLAM_ARRIVALS_CONSTANT = 0,
    SLAM_ARRIVALS_POISSON = 1,
    SLAM_ARRIVALS_UNIFORM = 2
};

#define SLAM_RATE_FOR_EVER (UINT64_C(1) << 62) /* duration of a last segment */
#define SLAM_PACER_NONE UINT64_MAX

struct slam_rate_segment {
    uint64_t duration_ns; /* T */
    double a;             /* events per ns of the whole run */
    double b;
    /* slam_rate_profile_prepare: */
    uint64_t start_ns; /* after T0 */
    double first;      /* N at the segment's start and end */
    double end;
};

struct slam_pacer {
    const struct slam_rate_segment *segments; /* the stream's */
    size_t segment_count;
    size_t segment; /* of the last arrival */
    enum slam_arrivals arrivals;
    struct slam_partition partition;
    struct slam_partition_cursor cursor; /* constant, uniform */
    double position;                     /* poisson */
    uint64_t left; /* arrivals of this partition that are still to come */
};

/* Checks a profile and computes what it accumulates to. */
int slam_rate_profile_prepare(struct slam_rate_segment *segments, size_t count,
                              char *err);

/* The profile's highest rate, in arrivals per ns of the whole run. */
double slam_rate_profile_peak(const struct slam_rate_segment *segments, size_t count);

/* segments: prepared; they outlive the pacer. limit: arrivals of the whole run, of
 * which each partition gets its part exactly; 0: none. SLAM_EINVAL: a partition without
 * connections. */
int slam_pacer_init(struct slam_pacer *pacer, const struct slam_rate_segment *segments,
                    size_t segment_count, enum slam_arrivals arrivals,
                    const struct slam_partition *partition, uint64_t limit,
                    struct slam_rng *rng);

/* The next arrival, in ns after T0, never before the last one; SLAM_PACER_NONE: there
 * is none any more. */
uint64_t slam_pacer_next(struct slam_pacer *pacer, struct slam_rng *rng);

#endif
