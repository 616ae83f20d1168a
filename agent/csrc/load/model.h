/* SPDX-License-Identifier: Apache-2.0 */
/* A load model decides when sessions begin and on which connection. Each is one file;
 * the worker chooses by the stream.
 *
 * - open.c: arrivals of a rate profile, kept in a backlog when no slot is available
 * - closed.c: clients, each with a connection of its own, that think between sessions
 * - replay.c: the requests of a trace: at their times (open), or each connection's one
 *   after the other (closed)
 *
 * Worker thread only, but for init. Times are CLOCK_MONOTONIC in ns. */
#ifndef SLAM_MODEL_H
#define SLAM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct slam_conn;
struct slam_flow;

struct slam_load_model {
    bool has_backlog; /* sessions wait for a slot, and their wait is measured */

    /* Control thread: makes flow->load, which slam_flow_destroy frees. Returns 0 or
     * SLAM_ENOMEM. */
    int (*init)(struct slam_flow *flow);

    /* T0 is known: sets when the first sessions begin. */
    void (*begin)(struct slam_flow *flow);

    /* When `run` has something to do; UINT64_MAX: not before a connection is ready. */
    uint64_t (*due_ns)(const struct slam_flow *flow);

    /* Begins, keeps or drops what is due at now_ns and was to begin before limit_ns. */
    void (*run)(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns);

    /* The connection comes from the ready list: a slot has become free, it is up, or it
     * is no longer available. */
    void (*ready)(struct slam_conn *conn);

    /* No session begins any more: counts what waits as dropped. NULL: nothing waits.
     * `due_ns` and `run` are not called again. */
    void (*end)(struct slam_flow *flow);
};

extern const struct slam_load_model slam_open_model;
extern const struct slam_load_model slam_closed_model;
extern const struct slam_load_model slam_replay_open_model;
extern const struct slam_load_model slam_replay_closed_model;

#endif
