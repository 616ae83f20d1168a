/* SPDX-License-Identifier: Apache-2.0 */
/* A session's way through the steps of its script: which one is next, and when.
 *
 *     begin -> request -> response -> [pause ->] next step ... -> end
 *
 * Worker thread only. Times are CLOCK_MONOTONIC in ns. */
#ifndef SLAM_SCRIPT_H
#define SLAM_SCRIPT_H

#include "load/flow.h"

/* After the final response: begins the next step, at once or after its pause, or ends
 * the session and frees its slot. */
void slam_script_advance(struct slam_slot *slot, const struct slam_stream_op *op,
                         enum slam_outcome outcome, uint64_t received_ns,
                         uint64_t done_ns);

/* Sends what is due after a pause. */
void slam_script_run(struct slam_flow *flow, uint64_t now_ns);

#endif
