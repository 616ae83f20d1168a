/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's only clock: CLOCK_MONOTONIC in ns. */
#ifndef SLAM_CLOCK_H
#define SLAM_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SLAM_NS_PER_S UINT64_C(1000000000)

static inline uint64_t
slam_clock_read_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * SLAM_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline uint64_t
slam_clock_mono_ns(void)
{
    return slam_clock_read_ns(CLOCK_MONOTONIC);
}

static inline struct timespec
slam_clock_timespec(uint64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / SLAM_NS_PER_S),
                          .tv_nsec = (long)(ns % SLAM_NS_PER_S)};
    return ts;
}

/* later - earlier; 0 where the clock readings of two threads are in the other order. */
static inline uint64_t
slam_since_ns(uint64_t later_ns, uint64_t earlier_ns)
{
    return later_ns > earlier_ns ? later_ns - earlier_ns : 0;
}

static inline uint64_t
slam_earlier_ns(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static inline uint64_t
slam_later_ns(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

#endif
