/* SPDX-License-Identifier: Apache-2.0 */
/* Sending requests: from a slot that is filled when a session begins to the socket, the
 * same for every load model.
 *
 * No function here frees a slot or takes a connection down: a write that fails breaks
 * the connection, and its slots stay as they are until the worker comes to the ready
 * list. Worker thread only. Times are CLOCK_MONOTONIC in ns. */
#ifndef SLAM_REQUEST_H
#define SLAM_REQUEST_H

#include "load/flow.h"

/* Begins a session of the script on a connection that has an available slot. */
void slam_request_begin(struct slam_conn *conn, uint32_t script, uint64_t intended_ns,
                        uint64_t slot_free_ns);

/* Sends the slot's operation, scheduled for slot->intended_ns, as soon as the socket
 * takes it. */
void slam_request_send(struct slam_slot *slot);

/* Sends the next request of a bind of several steps. */
void slam_request_send_again(struct slam_slot *slot);

/* Gives up the slot's request, which is in flight, by an abandon request. */
void slam_request_abandon(struct slam_slot *slot, uint32_t op);

/* The socket has room: sends what waits for it. */
void slam_request_flush(struct slam_conn *conn);

#endif
