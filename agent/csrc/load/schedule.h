/* SPDX-License-Identifier: Apache-2.0 */
/* When a flow's requests are sent: arrivals that are due (open loop), clients whose
 * start or think time is over (closed loop), and what happens when a slot or a client
 * becomes free. Worker thread only. Times are CLOCK_MONOTONIC in ns. */
#ifndef SLAM_SCHEDULE_H
#define SLAM_SCHEDULE_H

#include "load/flow.h"

/* Sets the first arrival or the clients' starts; T0 must be known. */
void slam_schedule_begin(struct slam_flow *flow);

/* Sends, keeps or drops what is due at now_ns and was to be sent before limit_ns. */
void slam_schedule_run(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns);

/* When the flow has to send next; UINT64_MAX: not before something becomes free. */
uint64_t slam_schedule_next_ns(const struct slam_flow *flow);

/* No more requests: what still waits was scheduled and will never be sent. */
void slam_schedule_end(struct slam_flow *flow);

/* True when the flow has a number of sessions to run and all of them are over. */
bool slam_schedule_is_over(const struct slam_flow *flow);

/* A closed loop's client that does not have to think (any more) begins a session now,
 * or when its connection is up. */
void slam_schedule_client_go(struct slam_conn *conn, uint64_t since_ns);

/* A closed loop's client became free at since_ns: it sends, or thinks. A slot of an
 * open loop became free: the backlog goes on. Both may send, and so lose connections.
 */
void slam_schedule_client_free(struct slam_conn *conn, uint64_t since_ns);
void slam_schedule_slot_free(struct slam_flow *flow);

#endif
