/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel gives a worker's thread: CPU time, waits for a CPU, real-time
 * priority; and its receive stamps' offset to the engine's clock. Called by the thread
 * itself. */
#ifndef SLAM_THREAD_H
#define SLAM_THREAD_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Both clocks are slewed alike, so that their distance changes by steps alone. */
#define SLAM_OFFSET_TOLERANCE_NS UINT64_C(10000)

struct slam_thread {
    int schedstat_fd;         /* -1: the kernel does not tell of waits */
    bool realtime;            /* holds SCHED_FIFO */
    bool spins;               /* may poll before a paced send */
    uint64_t window_start_ns; /* of the watch over its CPU share */
    uint64_t window_cpu_ns;
    int usual_policy; /* before it was raised */
    struct sched_param usual;
};

/* Takes timer slack 1 ns and, if wanted and allowed, SCHED_FIFO. */
void slam_thread_open(struct slam_thread *thread, bool want_realtime);
/* For a thread without: SCHED_FIFO, if allowed, until lower gives it what it had. */
void slam_thread_raise(struct slam_thread *thread);
void slam_thread_lower(struct slam_thread *thread);
void slam_thread_close(struct slam_thread *thread);

/* Time spent runnable but not running, since the thread's start. */
uint64_t slam_thread_run_queue_ns(const struct slam_thread *thread);

/* Keeps a real-time thread within its CPU budget; call it at every turn of a loop. A
 * real-time thread that hardly sleeps starves the processes on its core, and the kernel
 * stops it for tens of milliseconds. Above the limit it stops spinning, then gives
 * SCHED_FIFO back for good. */
void slam_thread_watch(struct slam_thread *thread, uint64_t now_ns);

/* CLOCK_REALTIME - CLOCK_MONOTONIC in ns, modulo 2^64, from the closest of five
 * bracketed readings. */
uint64_t slam_thread_realtime_offset_ns(void);
/* Corrects the offset after a step of CLOCK_REALTIME. `read_ns` is the offset by one
 * reading of either clock, which is free of cost and may lie far apart: it only tells
 * when to measure. */
static inline void
slam_thread_follow_offset(uint64_t *offset_ns, uint64_t read_ns)
{
    if (read_ns - *offset_ns + SLAM_OFFSET_TOLERANCE_NS > 2 * SLAM_OFFSET_TOLERANCE_NS)
        *offset_ns = slam_thread_realtime_offset_ns();
}

/* Reads it again; returns how far CLOCK_REALTIME was stepped: 0, or over 1 ms. */
uint64_t slam_thread_update_offset(uint64_t *offset_ns);

#endif
