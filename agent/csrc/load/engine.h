/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's C interface: one engine carries one agent's part of one run.
 *
 * Calls: create, add streams, prepare, start, snapshot…, destroy; all from one control
 * thread, but slam_engine_stop from any between start and destroy. Times are ns, "after
 * T0" from the start that slam_engine_start names. */
#ifndef SLAM_ENGINE_H
#define SLAM_ENGINE_H

#include "core/recorder.h"
#include "ldap/transport.h"
#include "load/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAM_MAX_WORKERS 256u

struct slam_engine;

struct slam_engine_config {
    uint32_t workers; /* of each kind (open, closed) that the streams need */
    uint64_t seed;    /* of the run: the same for all agents */
    const uint64_t *boundaries_ns; /* interval ends after T0, ascending */
    size_t boundary_count;
    uint64_t measure_start_ns;
    uint64_t measure_end_ns;
    uint64_t ramp_up_ns;
    uint64_t grace_ns;
    bool realtime;    /* ask for SCHED_FIFO: open streams' workers, all at T0 */
    uint64_t spin_ns; /* polled, not slept, before a paced send; with SCHED_FIFO only */
    size_t max_pdu_bytes;
    /* When the load ends unless somebody writes a later time, CLOCK_BOOTTIME; NULL:
     * never. Read by all workers until destroy. */
    const _Atomic uint64_t *lease_ns;
};

int slam_engine_create(const struct slam_engine_config *config,
                       struct slam_engine **engine, char *err);

/* Ends everything at once: threads are joined, connections closed. NULL is allowed. */
void slam_engine_destroy(struct slam_engine *engine);

/* Returns the stream's index (0, 1, …) or a negative slam_err. */
int slam_engine_add_stream(struct slam_engine *engine,
                           const struct slam_stream_settings *settings, char *err);

/* Sets all connections up. Blocks. SLAM_ECONNECT fills *error instead of err. */
int slam_engine_prepare(struct slam_engine *engine, struct slam_conn_error *error,
                        char *err);

/* Starts the workers; they send from t0_ns (CLOCK_MONOTONIC) on. */
int slam_engine_start(struct slam_engine *engine, uint64_t t0_ns, char *err);

/* No more arrivals from now on; what is in flight has the grace to finish. */
void slam_engine_stop(struct slam_engine *engine);

#define SLAM_WORKER_COUNTERS(X)                                                        \
    X(wall_ns)                                                                         \
    X(busy_ns)                                                                         \
    X(spin_ns)                                                                         \
    X(cpu_ns)                                                                          \
    X(run_queue_ns)                                                                    \
    X(loops)

struct slam_worker_figures {
    uint32_t index;
    bool open;
    SLAM_WORKER_COUNTERS(SLAM_MEMBER)
};

struct slam_snapshot {
    uint64_t start_ns; /* after T0 */
    uint64_t end_ns;
    bool final; /* nothing follows */
    uint64_t clock_step_ns;
    /* [2] of each operation, of each place: outside, in measure */
    const struct slam_op_record *ops;
    size_t op_count;
    const struct slam_stream_record *streams; /* of each place; times after T0 */
    size_t place_count;
    struct slam_worker_figures workers[2 * SLAM_MAX_WORKERS];
    size_t worker_count;
};

/* Waits until every worker closed interval `index`, at most timeout_ns. Indexes are
 * read in order, each once. Returns 1 and *snapshot (valid until the next call), 0:
 * time-out. */
int slam_engine_snapshot(struct slam_engine *engine, uint64_t index,
                         uint64_t timeout_ns, const struct slam_snapshot **snapshot,
                         char *err);

/* Stream of a place, and its server: from 1, 0 where the stream has one, and of what
 * got to none. Returns how many operations it has. */
size_t slam_engine_locate(const struct slam_engine *engine, size_t place,
                          size_t *stream, size_t *server);

struct slam_engine_facts {
    char libldap[64];
    char tls[64];
    bool kernel_stamps; /* on every connection */
    bool realtime; /* every worker of open streams has SCHED_FIFO, and there is one */
    uint32_t workers;
    size_t connections;
    /* Longest time after T0 at which a worker began; UINT64_MAX until all have. */
    uint64_t start_error_ns;
};

void slam_engine_facts(const struct slam_engine *engine,
                       struct slam_engine_facts *facts);

#endif
