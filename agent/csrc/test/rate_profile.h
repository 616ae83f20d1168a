/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of the pacer: the arrivals of a prepared profile by t ns after T0. */
#ifndef SLAM_RATE_PROFILE_H
#define SLAM_RATE_PROFILE_H

#include "load/pacer.h"

static inline double
arrivals_by(const struct slam_rate_segment *segments, size_t count, uint64_t t_ns)
{
    for (size_t i = 0; i < count; i++) {
        const struct slam_rate_segment *s = &segments[i];
        double t = (double)(t_ns - s->start_ns);

        if (t_ns - s->start_ns < s->duration_ns)
            return s->first + s->a * t +
                   (s->b - s->a) / (double)s->duration_ns * t * (t / 2);
    }
    return segments[count - 1].end;
}

#endif
