/* SPDX-License-Identifier: Apache-2.0 */
/* Sending requests and taking their responses. A slot of a connection is filled when a
 * session begins and emptied when it is over. One path for all kinds of load:
 * schedule.c decides when a session begins, session.c which step is next, channel.c
 * what becomes of the connection.
 *
 * Everything here belongs to the worker's thread. Times are CLOCK_MONOTONIC in ns. */
#ifndef SLAM_REQUEST_H
#define SLAM_REQUEST_H

#include "load/flow.h"

/* Begins a session of the script on a connection that is up and has a free slot. The
 * connection may be down on return. */
void slam_request_begin(struct slam_conn *conn, uint32_t script, uint64_t intended_ns,
                        uint64_t slot_free_ns);

/* Sends the slot's operation, scheduled for slot->intended_ns, as soon as the socket
 * takes it. The connection may be down on return, and the slot free. */
void slam_request_send(struct slam_slot *slot);

/* Sends the next request of a bind of several steps. */
void slam_request_send_again(struct slam_slot *slot);

/* Gives up the slot's request, which is in flight, by an abandon request. Returns false
 * when the connection was lost by it. */
bool slam_request_abandon(struct slam_slot *slot, uint32_t op);

/* The slot's session is over. */
void slam_request_finish(struct slam_slot *slot, uint64_t received_ns,
                         uint64_t done_ns);

/* Ends a connection on which it makes no sense to go on; a new one is made later. */
void slam_request_give_connection_up(struct slam_conn *conn);

/* Asks for what slam_request_io will touch: with thousands of connections nothing of
 * the next one is in the cache. `near` comes one step before the call, after `!near`.
 */
void slam_request_prefetch(const struct slam_conn *conn, bool near);

/* The socket is readable, writable or broken. */
void slam_request_io(struct slam_conn *conn, uint32_t epoll_events);

#endif
