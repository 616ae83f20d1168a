/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's life within one worker: which of its slots are free, what becomes of
 * them when it is lost, when it is replaced on purpose, when its requests have waited
 * too long. request.c sends and receives on it.
 *
 * Everything here belongs to the worker's thread. Times are CLOCK_MONOTONIC in ns. */
#ifndef SLAM_CHANNEL_H
#define SLAM_CHANNEL_H

#include "load/flow.h"

/* Of messageIDs: libldap used small ones while it set the connection up. */
#define SLAM_FIRST_GENERATION 16u

/* later - earlier; 0 where the clock readings of two threads are in the other order. */
static inline uint64_t
slam_since_ns(uint64_t later_ns, uint64_t earlier_ns)
{
    return later_ns > earlier_ns ? later_ns - earlier_ns : 0;
}

/* From when the slot's request could have been sent. */
static inline uint64_t
slam_send_lag_ns(const struct slam_slot *slot)
{
    bool waited = slot->slot_free_ns > slot->intended_ns;

    return slam_since_ns(slot->sent_ns,
                         waited ? slot->slot_free_ns : slot->intended_ns);
}

/* The slot's request is in flight now, or no longer: the flow's list by time of
 * sending. */
static inline void
slam_channel_sent(struct slam_flow *flow, struct slam_slot *slot)
{
    slot->newer = NULL;
    slot->older = flow->newest;
    if (flow->newest)
        flow->newest->newer = slot;
    else
        flow->oldest = slot;
    flow->newest = slot;
    flow->in_flight++;
}

static inline void
slam_channel_answered(struct slam_flow *flow, struct slam_slot *slot)
{
    if (slot->older)
        slot->older->newer = slot->newer;
    else
        flow->oldest = slot->newer;
    if (slot->newer)
        slot->newer->older = slot->older;
    else
        flow->newest = slot->older;
    flow->in_flight--;
}

/* Gives a slot back that nothing refers to any more. */
static inline void
slam_channel_release(struct slam_slot *slot)
{
    struct slam_conn *conn = slot->conn;

    slot->state = SLAM_SLOT_FREE;
    slot->next_free = conn->free_head;
    conn->free_head = (uint32_t)(slot - conn->slots);
    conn->free_count++;
}

/* Brings the flow's count of usable slots in line with the connection's state. */
void slam_channel_offer(struct slam_conn *conn, uint64_t now_ns);

/* After slam_channel_release: the open loop sends what waits, the closed loop's client
 * goes on; a worn connection is replaced first. */
void slam_channel_freed(struct slam_conn *conn, uint64_t received_ns, uint64_t done_ns);

/* The connection is gone; what was in flight on it stays unresolved. Another one is
 * made after a wait. */
void slam_channel_lose(struct slam_conn *conn);

/* A connection was set up (link->wire) or failed to be. */
void slam_channel_connected(struct slam_conn *conn, uint64_t now_ns);

/* Brings the record's down_ns up to date. */
void slam_channel_tally_down(struct slam_flow *flow, uint64_t now_ns);

/* Counts requests of the flow sent before now_ns - request_timeout_ns as timed out. */
void slam_channel_expire(struct slam_flow *flow, uint64_t now_ns);

/* Counts everything in flight as unresolved and takes leave of the directory: the run
 * is over. */
void slam_channel_give_up(struct slam_flow *flow);

#endif
