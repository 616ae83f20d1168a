/* SPDX-License-Identifier: Apache-2.0 */
/* When requests are due: pure arithmetic, no clock.
 *
 * The run's arrivals are one sequence, cut exactly over the participants (the workers
 * of all agents that carry the stream). With rate R and a linear ramp-up of length T,
 *
 *     N(t) = R t^2 / (2 T)      for t < T      expected arrivals by t
 *     N(t) = R (t - T / 2)      for t >= T
 *
 * and the arrival with number x is due at N^-1(x). The run's C connections are
 * numbered; connection c is dealt the arrivals x = c, c + C, c + 2 C, …, so that each
 * gets the same load however the connections lie on workers and agents. A worker with n
 * connections: constant: takes the x of all of them in order: together the workers take
 * every whole number once, nothing lost to rounding. poisson: its x grows by C / n *
 * Exp(1), so each worker is a Poisson process of rate R n / C and their sum one of rate
 * R. */
#ifndef SLAM_PACER_H
#define SLAM_PACER_H

#include "rng.h"

#include <stdbool.h>
#include <stdint.h>

/* The connections that a pacer stands for: first + i * step, i < count, of total. */
struct slam_pacer_share {
    uint64_t first;
    uint64_t step;
    uint64_t count; /* > 0 */
    uint64_t total; /* C; first + (count - 1) * step < total */
};

struct slam_pacer {
    uint64_t rate_events; /* R = rate_events / rate_per_ns, of the whole run */
    uint64_t rate_per_ns;
    uint64_t ramp_up_ns; /* T */
    bool poisson;
    struct slam_pacer_share share;
    uint64_t round;  /* constant: the next arrival's x is round * C plus */
    uint64_t member; /* first + member * step */
    double position; /* poisson: x of the next arrival */
};

/* rate_events and rate_per_ns > 0. rng is used by Poisson arrivals only. */
void slam_pacer_init(struct slam_pacer *pacer, uint64_t rate_events,
                     uint64_t rate_per_ns, uint64_t ramp_up_ns, bool poisson,
                     const struct slam_pacer_share *share, struct slam_rng *rng);

/* Time of the next arrival, in ns after T0; advances to the one after. Never decreases.
 */
uint64_t slam_pacer_next(struct slam_pacer *pacer, struct slam_rng *rng);

#endif
