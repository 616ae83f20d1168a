/* SPDX-License-Identifier: Apache-2.0 */
/* A session's way through its script: what is drawn before a request, what is taken out
 * of its response, which step is next, and when. Called by request.c; a plain operation
 * without extras never comes here.
 *
 *     begin -> request -> answered -> [pause ->] next step … -> end
 *
 * Worker thread only. Times are CLOCK_MONOTONIC in ns. */
#ifndef SLAM_SESSION_H
#define SLAM_SESSION_H

#include "ldap/content.h"
#include "load/flow.h"

/* Before a request is encoded: takes an entry out of the ledger, draws the lets, begins
 * a SASL exchange. Sets *states to the operation's own value states. Returns false when
 * the request is not to be sent: the slot is then dealt with already. */
bool slam_session_prepare(struct slam_slot *slot, struct slam_draw *draw,
                          struct slam_value_state **states);

/* Value states of an operation, behind those of its lets. */
struct slam_value_state *slam_session_states(const struct slam_flow *flow, uint32_t op);

/* A request that has no response was sent: its session ends in the next turn. */
void slam_session_unanswered(struct slam_slot *slot, uint64_t sent_ns);

/* The session of a request that is not awaited: the step after it is due. */
void slam_session_await_not(struct slam_slot *slot);

/* The first entries of a search: captures. */
void slam_session_entry(struct slam_slot *slot, const struct slam_stream_op *op,
                        const struct slam_bytes *message);

/* The final response is there: settles captures, cookie, ledger. Returns the outcome,
 * which is a failure also where a later step lacks what it needs. */
enum slam_outcome slam_session_answered(struct slam_slot *slot,
                                        const struct slam_stream_op *op, int32_t code,
                                        enum slam_outcome outcome,
                                        const struct slam_bytes *message);

/* Begins the next step, at once or after its pause, or finishes the session. */
void slam_session_go_on(struct slam_slot *slot, const struct slam_stream_op *op,
                        enum slam_outcome outcome, uint64_t received_ns,
                        uint64_t done_ns);

/* The session is over, however it ended; the slot is the caller's. */
void slam_session_end(struct slam_slot *slot);

/* Sends what is due after a pause, and when that is next (UINT64_MAX: never). */
void slam_session_run(struct slam_flow *flow, uint64_t now_ns);
uint64_t slam_session_next_ns(const struct slam_flow *flow);

#endif
