/* SPDX-License-Identifier: Apache-2.0 */
/* A load model decides when sessions begin and on which connection: open.c (arrivals of
 * a rate profile), closed.c (clients that think between sessions), replay.c (a trace,
 * open or closed). The worker chooses by the stream. Worker thread only, but for
 * init. */
#ifndef SLAM_MODEL_H
#define SLAM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct slam_conn;
struct slam_flow;

/* An open loop that is later than this has stood still: what was due meanwhile is
 * dropped, for sent at once it would be a burst that nobody asked for. */
#define SLAM_STOOD_STILL_NS SLAM_NS_PER_S

struct slam_load_model {
    bool has_backlog; /* sessions wait for a slot, and their wait is measured */

    /* Control thread: makes flow->load, which slam_flow_destroy frees. */
    int (*init)(struct slam_flow *flow);

    /* T0 is known: sets when the first sessions begin. */
    void (*begin)(struct slam_flow *flow);

    /* When `run` has something to do; UINT64_MAX: not before a connection is ready. */
    uint64_t (*due_ns)(const struct slam_flow *flow);

    /* Begins, keeps or drops what is due at now_ns and was to begin before limit_ns. */
    void (*run)(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns);

    /* From the ready list: a slot is free, the connection is up, or it no longer is.
     * What waits is sent also when the flow has ended, which `due_ns` and `run` are not
     * called for. */
    void (*ready)(struct slam_conn *conn);

    /* With a backlog: counts what waits as dropped. */
    void (*drop)(struct slam_flow *flow);
};

extern const struct slam_load_model slam_open_model;
extern const struct slam_load_model slam_closed_model;
extern const struct slam_load_model slam_replay_open_model;
extern const struct slam_load_model slam_replay_closed_model;

#endif
