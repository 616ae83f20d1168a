/* SPDX-License-Identifier: Apache-2.0 */
#include "pacer.h"

#include <math.h>

__extension__ typedef unsigned __int128 uint128;

void
slam_pacer_init(struct slam_pacer *pacer, uint64_t rate_events, uint64_t rate_per_ns,
                uint64_t ramp_up_ns, bool poisson, uint64_t first, uint64_t stride,
                struct slam_rng *rng)
{
    *pacer = (struct slam_pacer){.rate_events = rate_events,
                                 .rate_per_ns = rate_per_ns,
                                 .ramp_up_ns = ramp_up_ns,
                                 .poisson = poisson,
                                 .stride = stride,
                                 .index = first};
    if (poisson)
        pacer->position = (double)stride * slam_rng_exponential(rng);
}

/* N^-1(x) where x lies in the ramp: t = sqrt(2 x T / R). */
static double
ramp_time_ns(const struct slam_pacer *p, double x)
{
    double rate = (double)p->rate_events / (double)p->rate_per_ns;

    return sqrt(2.0 * x * (double)p->ramp_up_ns / rate);
}

/* Arrivals of the ramp: R T / 2. */
static double
ramp_arrivals(const struct slam_pacer *p)
{
    return (double)p->rate_events * (double)p->ramp_up_ns /
           (2.0 * (double)p->rate_per_ns);
}

uint64_t
slam_pacer_next(struct slam_pacer *p, struct slam_rng *rng)
{
    if (p->poisson) {
        double x = p->position;

        p->position += (double)p->stride * slam_rng_exponential(rng);
        if (p->ramp_up_ns > 0 && x < ramp_arrivals(p))
            return (uint64_t)ramp_time_ns(p, x);
        return (uint64_t)(x * (double)p->rate_per_ns / (double)p->rate_events) +
               p->ramp_up_ns / 2;
    } else {
        uint64_t x = p->index;

        p->index += p->stride;
        if (p->ramp_up_ns > 0 && (double)x < ramp_arrivals(p))
            return (uint64_t)ramp_time_ns(p, (double)x);
        return (uint64_t)((uint128)x * p->rate_per_ns / p->rate_events) +
               p->ramp_up_ns / 2;
    }
}
