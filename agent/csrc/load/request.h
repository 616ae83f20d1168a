/* SPDX-License-Identifier: Apache-2.0 */
/* A session's requests, from a free slot to the socket, the same for every load model:
 *
 *     begin -> request -> response -> [pause ->] next step ... -> end
 *
 * A write that fails breaks the connection, and its slots stay as they are until the
 * worker comes to the ready list. Worker thread only. Times are CLOCK_MONOTONIC in ns.
 */
#ifndef SLAM_REQUEST_H
#define SLAM_REQUEST_H

#include "load/flow.h"

/* Begins a session of the script on a connection that has an available slot. */
void slam_request_begin(struct slam_conn *conn, uint32_t script, uint64_t intended_ns,
                        uint64_t slot_free_ns);

/* After the final response: begins the next step, or ends the session. */
void slam_request_advance(struct slam_slot *slot, const struct slam_stream_op *op,
                          enum slam_outcome outcome, uint64_t received_ns,
                          uint64_t done_ns);

void slam_request_run_paused(struct slam_flow *flow, uint64_t now_ns);

/* Sends the next request of a bind of several steps. */
void slam_request_send_again(struct slam_slot *slot, uint64_t received_ns);

void slam_request_flush(struct slam_conn *conn);

#endif
