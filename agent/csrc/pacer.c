/* SPDX-License-Identifier: Apache-2.0 */
#include "pacer.h"

#include <math.h>

__extension__ typedef unsigned __int128 uint128;

/* The next x of a Poisson share lies Exp(1) further in its own arrivals. */
static double
poisson_step(const struct slam_pacer *p, struct slam_rng *rng)
{
    return (double)p->share.total / (double)p->share.count * slam_rng_exponential(rng);
}

void
slam_pacer_init(struct slam_pacer *pacer, uint64_t rate_events, uint64_t rate_per_ns,
                uint64_t ramp_up_ns, bool poisson, const struct slam_pacer_share *share,
                struct slam_rng *rng)
{
    *pacer = (struct slam_pacer){.rate_events = rate_events,
                                 .rate_per_ns = rate_per_ns,
                                 .ramp_up_ns = ramp_up_ns,
                                 .poisson = poisson,
                                 .share = *share};
    if (poisson)
        pacer->position = poisson_step(pacer, rng);
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

        p->position += poisson_step(p, rng);
        if (p->ramp_up_ns > 0 && x < ramp_arrivals(p))
            return (uint64_t)ramp_time_ns(p, x);
        return (uint64_t)(x * (double)p->rate_per_ns / (double)p->rate_events) +
               p->ramp_up_ns / 2;
    } else {
        const struct slam_pacer_share *share = &p->share;
        uint64_t x = p->round * share->total + share->first + p->member * share->step;

        if (++p->member == share->count) {
            p->member = 0;
            p->round++;
        }
        if (p->ramp_up_ns > 0 && (double)x < ramp_arrivals(p))
            return (uint64_t)ramp_time_ns(p, (double)x);
        return (uint64_t)((uint128)x * p->rate_per_ns / p->rate_events) +
               p->ramp_up_ns / 2;
    }
}
