/* SPDX-License-Identifier: Apache-2.0 */
/* What a session keeps from request to request: variables, the entry taken out of a
 * ledger, its place in a list of pauses. Plain operations never come here. Worker
 * thread only. */
#ifndef SLAM_SESSION_H
#define SLAM_SESSION_H

#include "ldap/content.h"
#include "load/flow.h"

enum slam_prepared {
    SLAM_PREPARED,        /* the slot's request can be encoded */
    SLAM_PREPARED_ENDS,   /* there is no request: the session ends in the next turn */
    SLAM_PREPARED_FAILED, /* the request cannot be made: give the connection up */
};

/* Before a request is encoded: takes an entry out of the ledger, draws the variables,
 * begins a SASL exchange. Sets *states to the operation's own. Where the ledger is
 * empty, another script may replace the slot's. */
enum slam_prepared slam_session_prepare(struct slam_slot *slot, struct slam_draw *draw,
                                        struct slam_partition_cursor **states);

/* Value states of an operation, behind those of its variables. */
struct slam_partition_cursor *slam_session_states(const struct slam_flow *flow,
                                                  uint32_t op);

void slam_session_entry(struct slam_slot *slot, const struct slam_stream_op *op,
                        const struct slam_bytes *message);

/* A bind response of a SASL bind that is load. True: another request is to be sent. */
bool slam_session_continue_bind(struct slam_slot *slot, const struct slam_stream_op *op,
                                int32_t code, const struct slam_bytes *message);

/* After the final response: settles captures, cookie and ledger. Returns the outcome: a
 * failure also where a later step lacks something. */
enum slam_outcome slam_session_answered(struct slam_slot *slot,
                                        const struct slam_stream_op *op, int32_t code,
                                        enum slam_outcome outcome,
                                        const struct slam_bytes *message);

/* Puts the session into a list of pauses: all its sessions wait equally long. */
void slam_session_pause(struct slam_slot *slot, uint32_t pause_list, uint64_t due_ns);

/* Takes it out of its list, if it is in one. */
void slam_session_resume(struct slam_flow *flow, struct slam_session_state *session);

/* A request that has no response was sent: the session ends in the next turn. */
void slam_session_no_response(struct slam_slot *slot, uint64_t sent_ns);

uint64_t slam_session_next_ns(const struct slam_flow *flow);

/* The session is over, however it ended; the slot is the caller's. */
void slam_session_end(struct slam_slot *slot);

#endif
