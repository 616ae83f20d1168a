/* SPDX-License-Identifier: Apache-2.0 */
/* One engine thread: an epoll loop over its connections, the schedules of its streams
 * and its recorder. The same loop serves open and closed streams; a worker carries
 * streams of one kind only, so that real-time pacing never meets a busy closed loop. */
#ifndef SLAM_WORKER_H
#define SLAM_WORKER_H

#include "core/recorder.h"
#include "ldap/connector.h"
#include "ldap/pdu.h"
#include "load/pacer.h"
#include "load/stream.h"

#include <stdatomic.h>

/* The run's time line, CLOCK_MONOTONIC where absolute. Written before the workers
 * start, read only afterwards, but for stop_ns. */
struct slam_timeline {
    uint64_t t0_ns;
    const uint64_t *boundaries_ns; /* interval ends after T0, ascending */
    size_t boundary_count;         /* > 0; the last is the planned end */
    uint64_t measure_start_ns;     /* after T0 */
    uint64_t measure_end_ns;
    uint64_t ramp_up_ns;
    uint64_t grace_ns; /* for what is in flight at the end */
    /* Early end, UINT64_MAX: none. A worker reads the clock first and this second; the
     * writer sets a time that has not come: so all workers close the same intervals. */
    _Atomic uint64_t stop_ns;
    atomic_bool abort; /* leave at once, without drain */
    /* Workers that have something to do before stop_ns; 0: the run may end. */
    _Atomic uint32_t unfinished;
};

struct slam_worker_config {
    uint32_t index; /* among the workers of its kind */
    uint32_t count; /* workers of its kind in this agent */
    bool open;
    bool realtime; /* try SCHED_FIFO: open streams', and before T0 any */
    uint64_t spin_ns;
    uint64_t seed;
    size_t max_pdu_bytes;
    size_t total_op_count; /* the engine's table */
    size_t total_stream_count;
    const struct slam_stream *streams; /* all of the engine's */
    struct slam_timeline *timeline;
    struct slam_connector *connector;
};

struct slam_worker;

/* Allocates the worker with its share of every stream of its kind. */
int slam_worker_create(const struct slam_worker_config *config,
                       struct slam_worker **worker, char *err, size_t err_len);
/* The thread must have ended or never been started. */
void slam_worker_destroy(struct slam_worker *worker);

/* Hands every connection to the connector; before slam_worker_start. */
void slam_worker_connect(struct slam_worker *worker);
bool slam_worker_is_open(const struct slam_worker *worker);
size_t slam_worker_connections(const struct slam_worker *worker);

int slam_worker_start(struct slam_worker *worker);
void slam_worker_wake(struct slam_worker *worker);
void slam_worker_join(struct slam_worker *worker);

struct slam_recorder *slam_worker_recorder(struct slam_worker *worker);

/* How long after T0 the worker began; UINT64_MAX: it has not yet. Any thread. */
uint64_t slam_worker_start_error_ns(const struct slam_worker *worker);

/* What the thread was granted; valid once its first interval is closed. */
bool slam_worker_realtime(const struct slam_worker *worker);
/* True when every connection set up so far has kernel receive stamps. */
bool slam_worker_stamps(const struct slam_worker *worker);

#endif
