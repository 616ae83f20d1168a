/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a connection and of a closed loop's client. Pure: connection.c and the
 * load models act on them.
 *
 *   connection
 *
 *     SETTING UP                      --connected-->  UP
 *     SETTING UP                      --failed----->  DOWN
 *     SETTING UP                      --failed here->  UNABLE
 *     UP                              --drain------>  DRAINING
 *     UP, DRAINING                    --unbind----->  UNBOUND
 *     DRAINING, UNBOUND               --replace---->  REPLACING
 *     UP, DRAINING, UNBOUND           --break------>  BROKEN
 *     BROKEN                          --lose------->  DOWN
 *     DOWN, UNABLE                    --follow----->  REPLACING
 *     all but CLOSED                  --close------>  CLOSED
 *
 *     SETTING UP: CONNECTING, REPLACING, DOWN, UNABLE
 *
 *   client
 *
 *     NOT_STARTED --start--> READY --begin--> BUSY --free---> READY
 *                                             BUSY --think--> THINKING --wake--> READY
 *
 * No other edge exists. */
#ifndef SLAM_CONNECTION_STATE_H
#define SLAM_CONNECTION_STATE_H

#include <stdint.h>

enum slam_conn_state {
    SLAM_CONN_CONNECTING, /* the first set-up, before the run */
    SLAM_CONN_UP,
    SLAM_CONN_DRAINING,  /* gets no new session; is replaced when it is idle */
    SLAM_CONN_UNBOUND,   /* has sent the unbind request of a session: nothing follows */
    SLAM_CONN_BROKEN,    /* a read or a write failed; in the ready list */
    SLAM_CONN_REPLACING, /* the server is there; a successor is being set up */
    SLAM_CONN_DOWN,      /* lost, or a set-up failed by the server's fault */
    SLAM_CONN_UNABLE,    /* a set-up failed by the generator's fault */
    SLAM_CONN_CLOSED,    /* has no successor */
    SLAM_CONN_STATES
};

enum slam_conn_event {
    SLAM_CONN_CONNECTED,
    SLAM_CONN_FAILED,
    SLAM_CONN_FAILED_HERE,
    SLAM_CONN_DRAIN,
    SLAM_CONN_UNBIND,
    SLAM_CONN_REPLACE,
    SLAM_CONN_BREAK,
    SLAM_CONN_LOSE,
    SLAM_CONN_FOLLOW,
    SLAM_CONN_CLOSE,
    SLAM_CONN_EVENTS
};

enum slam_client_state {
    SLAM_CLIENT_NOT_STARTED,
    SLAM_CLIENT_READY, /* begins a session as soon as its connection is up */
    SLAM_CLIENT_BUSY,
    SLAM_CLIENT_THINKING,
    SLAM_CLIENT_STATES
};

enum slam_client_event {
    SLAM_CLIENT_START,
    SLAM_CLIENT_BEGIN,
    SLAM_CLIENT_FREE,
    SLAM_CLIENT_THINK,
    SLAM_CLIENT_WAKE,
    SLAM_CLIENT_EVENTS
};

/* An event leads to one state, from the states in the mask. */
struct slam_edge {
    uint8_t from;
    uint8_t to;
};

#define SLAM_IN(state) (1u << (state))

/* The state after the event; SLAM_CONN_STATES: the event cannot occur in this state. */
static inline enum slam_conn_state
slam_conn_next(enum slam_conn_state state, enum slam_conn_event event)
{
    enum {
        SETTING_UP = SLAM_IN(SLAM_CONN_CONNECTING) | SLAM_IN(SLAM_CONN_REPLACING) |
                     SLAM_IN(SLAM_CONN_DOWN) | SLAM_IN(SLAM_CONN_UNABLE),
        ENDING = SLAM_IN(SLAM_CONN_DRAINING) | SLAM_IN(SLAM_CONN_UNBOUND),
        OPEN = SLAM_IN(SLAM_CONN_UP) | ENDING
    };
    static const struct slam_edge edges[SLAM_CONN_EVENTS] = {
        [SLAM_CONN_CONNECTED] = {SETTING_UP, SLAM_CONN_UP},
        [SLAM_CONN_FAILED] = {SETTING_UP, SLAM_CONN_DOWN},
        [SLAM_CONN_FAILED_HERE] = {SETTING_UP, SLAM_CONN_UNABLE},
        [SLAM_CONN_DRAIN] = {SLAM_IN(SLAM_CONN_UP), SLAM_CONN_DRAINING},
        [SLAM_CONN_UNBIND] = {SLAM_IN(SLAM_CONN_UP) | SLAM_IN(SLAM_CONN_DRAINING),
                              SLAM_CONN_UNBOUND},
        [SLAM_CONN_REPLACE] = {ENDING, SLAM_CONN_REPLACING},
        [SLAM_CONN_BREAK] = {OPEN, SLAM_CONN_BROKEN},
        [SLAM_CONN_LOSE] = {SLAM_IN(SLAM_CONN_BROKEN), SLAM_CONN_DOWN},
        [SLAM_CONN_FOLLOW] = {SLAM_IN(SLAM_CONN_DOWN) | SLAM_IN(SLAM_CONN_UNABLE),
                              SLAM_CONN_REPLACING},
        [SLAM_CONN_CLOSE] = {SETTING_UP | OPEN | SLAM_IN(SLAM_CONN_BROKEN),
                             SLAM_CONN_CLOSED}};

    return edges[event].from & SLAM_IN(state) ? (enum slam_conn_state)edges[event].to
                                              : SLAM_CONN_STATES;
}

/* The state after the event; SLAM_CLIENT_STATES: it cannot occur in this state. */
static inline enum slam_client_state
slam_client_next(enum slam_client_state state, enum slam_client_event event)
{
    static const struct slam_edge edges[SLAM_CLIENT_EVENTS] = {
        [SLAM_CLIENT_START] = {SLAM_IN(SLAM_CLIENT_NOT_STARTED), SLAM_CLIENT_READY},
        [SLAM_CLIENT_BEGIN] = {SLAM_IN(SLAM_CLIENT_READY), SLAM_CLIENT_BUSY},
        [SLAM_CLIENT_FREE] = {SLAM_IN(SLAM_CLIENT_BUSY), SLAM_CLIENT_READY},
        [SLAM_CLIENT_THINK] = {SLAM_IN(SLAM_CLIENT_BUSY), SLAM_CLIENT_THINKING},
        [SLAM_CLIENT_WAKE] = {SLAM_IN(SLAM_CLIENT_THINKING), SLAM_CLIENT_READY}};

    return edges[event].from & SLAM_IN(state) ? (enum slam_client_state)edges[event].to
                                              : SLAM_CLIENT_STATES;
}

#endif
