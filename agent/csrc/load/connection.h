/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's life, after the states of connection_state.h: its free slots, its
 * loss, its planned end and successor, time-outs. Worker thread only. */
#ifndef SLAM_CONNECTION_H
#define SLAM_CONNECTION_H

#include "core/clock.h"
#include "load/flow.h"

/* Generation of the first messageID: libldap used small messageIDs for the set-up. */
#define SLAM_FIRST_GENERATION 16u

/* Applies an event to the connection or its client. One that the state does not allow
 * is a fault of the engine and ends the process. */
void slam_conn_move(struct slam_conn *conn, enum slam_conn_event event);
void slam_conn_move_client(struct slam_conn *conn, enum slam_client_event event);

static inline bool
slam_conn_is_open(const struct slam_conn *conn)
{
    return (SLAM_IN(conn->state) &
            (SLAM_IN(SLAM_CONN_UP) | SLAM_IN(SLAM_CONN_DRAINING) |
             SLAM_IN(SLAM_CONN_UNBOUND))) != 0;
}

/* Slots in which a session can begin now. */
static inline uint32_t
slam_conn_available(const struct slam_conn *conn)
{
    return conn->state == SLAM_CONN_UP && conn->tx_len == 0 ? conn->free_count : 0;
}

/* Closed: when the client's next request was to be sent. Set-ups are part of no
 * operation's time. */
static inline uint64_t
slam_conn_intended_ns(const struct slam_conn *conn)
{
    return conn->due_ns > conn->up_since_ns ? conn->due_ns : conn->up_since_ns;
}

/* When the slot's request was sent: of a bind of several steps, later by what the
 * client took for itself between them, so that the server's part alone follows. */
static inline uint64_t
slam_sent_ns(const struct slam_slot *slot)
{
    const struct slam_session_state *session =
        slam_flow_session(slot->conn->flow, slot);

    return slot->sent_ns + (session ? session->own_ns : 0);
}

/* From when the slot's request could have been sent. */
static inline uint64_t
slam_send_lag_ns(const struct slam_slot *slot)
{
    bool waited = slot->slot_free_ns > slot->intended_ns;

    return slam_since_ns(slam_sent_ns(slot),
                         waited ? slot->slot_free_ns : slot->intended_ns);
}

/* Adds the slot to the server's requests in flight, by time of sending, or removes it.
 */
static inline void
slam_slot_sent(struct slam_slot *slot)
{
    struct slam_server *server = slot->conn->server;

    TAILQ_INSERT_TAIL(&server->sent, slot, in_sent);
    server->in_flight++;
    slam_wait_sent(&server->wait, slam_server_record(server), slot->sent_ns);
}

static inline void
slam_slot_answered(struct slam_slot *slot)
{
    struct slam_server *server = slot->conn->server;

    TAILQ_REMOVE(&server->sent, slot, in_sent);
    server->in_flight--;
}

/* Gives a slot back that nothing refers to any more, free since then. */
void slam_conn_free_slot(struct slam_slot *slot, uint64_t received_ns,
                         uint64_t done_ns);

/* Puts the connection into the ready list: it can be used no more, or again. */
void slam_conn_make_ready(struct slam_conn *conn);

/* Takes the first connection out of the ready list; NULL: none. A broken one is lost
 * first (its requests in flight are unresolved, a successor is made at once); one
 * that has reached its limit is replaced when it is idle. */
struct slam_conn *slam_conn_next_ready(struct slam_worker *worker);

/* A read or a write failed, or the connection is of no use any more. */
void slam_conn_break(struct slam_conn *conn, enum slam_loss loss);

/* Has epoll watch for room in the socket too, while a request waits for it. */
void slam_conn_watch(struct slam_conn *conn);

/* A connection was set up (its request has a transport) or failed to be. */
void slam_conn_connected(struct slam_conn *conn, uint64_t now_ns);

/* Sets connections up again that wait for a server, spread in time, if it is there. */
void slam_conn_follow(struct slam_server *server, uint64_t now_ns);

/* Counts requests sent before now_ns - request_timeout_ns as timed out. */
void slam_conn_expire(struct slam_server *server, uint64_t now_ns);

/* Counts everything in flight as unresolved and unbinds: the run is over. */
void slam_conn_close_all(struct slam_flow *flow);

#endif
