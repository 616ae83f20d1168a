/* SPDX-License-Identifier: Apache-2.0 */
/* A request's life within one worker: a slot of a connection is filled when the request
 * is sent and emptied when its final response is processed, its time is up, or its
 * connection is lost. One path for all kinds of load; schedule.c decides when to send.
 *
 * Everything here belongs to the worker's thread. Times are CLOCK_MONOTONIC in ns. */
#ifndef SLAM_REQUEST_H
#define SLAM_REQUEST_H

#include "flow.h"

/* Sends a request on a connection that is up and has a free slot. The connection may be
 * down on return. */
void slam_request_send(struct slam_conn *conn, uint32_t op, uint64_t intended_ns,
                       uint64_t slot_free_ns);

/* A connection was set up (link->wire) or failed to be. */
void slam_request_connected(struct slam_conn *conn, uint64_t now_ns);

/* Asks for what slam_request_io will touch: with thousands of connections nothing of
 * the next one is in the cache. `near` comes one step before the call, after `!near`.
 */
void slam_request_prefetch(const struct slam_conn *conn, bool near);

/* The socket is readable, writable or broken. */
void slam_request_io(struct slam_conn *conn, uint32_t epoll_events);

/* Counts requests of the flow sent before now_ns - request_timeout_ns as timed out. */
void slam_request_expire(struct slam_flow *flow, uint64_t now_ns);

/* Counts everything in flight as unresolved: the run is over. */
void slam_request_give_up(struct slam_flow *flow);

#endif
