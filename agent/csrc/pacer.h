/* SPDX-License-Identifier: Apache-2.0 */
/* When requests are due: pure arithmetic, no clock.
 *
 * The run's arrivals are one sequence, cut exactly over the participants (the workers
 * of all agents that carry the stream). With rate R and a linear ramp-up of length T,
 *
 *     N(t) = R t^2 / (2 T)      for t < T      expected arrivals by t
 *     N(t) = R (t - T / 2)      for t >= T
 *
 * and the arrival with number x is due at N^-1(x). constant: participant p of n takes
 * x = p, p + n, p + 2 n, …: together every whole number once, nothing lost to rounding.
 * poisson: participant's x grows by n * Exp(1), so each is a Poisson process of rate
 * R / n and their sum one of rate R (superposition). */
#ifndef SLAM_PACER_H
#define SLAM_PACER_H

#include "rng.h"

#include <stdbool.h>
#include <stdint.h>

struct slam_pacer {
    uint64_t rate_events; /* R = rate_events / rate_per_ns, of the whole run */
    uint64_t rate_per_ns;
    uint64_t ramp_up_ns; /* T */
    bool poisson;
    uint64_t stride; /* n */
    uint64_t index;  /* constant: x of the next arrival */
    double position; /* poisson: x of the next arrival */
};

/* first < stride; rate_events and rate_per_ns > 0. */
void slam_pacer_init(struct slam_pacer *pacer, uint64_t rate_events,
                     uint64_t rate_per_ns, uint64_t ramp_up_ns, bool poisson,
                     uint64_t first, uint64_t stride, struct slam_rng *rng);

/* Time of the participant's next arrival, in ns after T0; advances to the one after.
 * Never decreases. rng is used by Poisson arrivals only. */
uint64_t slam_pacer_next(struct slam_pacer *pacer, struct slam_rng *rng);

#endif
