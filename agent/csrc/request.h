/* SPDX-License-Identifier: Apache-2.0 */
/* A request's life within one worker: a slot of a connection is filled when the request
 * is sent and emptied when its final response is processed, its time is up, or its
 * connection is lost. One path for all kinds of load; worker.c decides when to send.
 *
 * Everything here belongs to the worker's thread. Times are CLOCK_MONOTONIC in ns. */
#ifndef SLAM_REQUEST_H
#define SLAM_REQUEST_H

#include "worker.h"

#define SLAM_RX_BYTES 65536u

enum slam_slot_state {
    SLAM_SLOT_FREE,
    SLAM_SLOT_SENT,
    SLAM_SLOT_TIMED_OUT /* counted; its late response is still awaited */
};

/* One cache line: an array of them is aligned. */
struct slam_slot {
    struct slam_slot *newer; /* sent: the flow's list by time of sending */
    struct slam_slot *older;
    struct slam_conn *conn;
    uint64_t intended_ns;
    uint64_t slot_free_ns;
    uint64_t sent_ns;
    int32_t message_id;
    uint32_t op;        /* index in the stream */
    uint32_t next_free; /* free: index of the next one in the connection */
    bool measured;      /* intended in the measure phase */
    uint8_t state;      /* enum slam_slot_state */
};

struct slam_conn {
    _Alignas(SLAM_CACHE_LINE) struct slam_link
        link; /* the connector's while !up and submitted */
    struct slam_flow *flow;
    struct slam_pdu_parser parser;
    struct slam_slot *slots; /* in_flight of the stream */
    uint32_t free_head;      /* free slots, linked by next_free */
    uint32_t free_count;
    uint32_t timed_out; /* slots in that state */
    uint32_t generation;
    uint32_t offered;  /* free slots that the flow counts as usable */
    uint32_t failures; /* attempts since the connection was last up */
    bool up;
    bool queued;          /* in the flow's queue of usable connections */
    bool begun;           /* closed: the client's start has come */
    bool ready;           /* closed: the client may send when the connection is up */
    bool thinking;        /* closed: in the flow's think queue */
    bool waits_for_write; /* tx holds bytes, EPOLLOUT is armed */
    uint8_t *tx;          /* one request that the socket did not take whole */
    size_t tx_len;
    size_t tx_pos;
    struct slam_conn *next_usable;
    struct slam_conn *next_thinking;
    uint64_t due_ns; /* closed: when the client's start or think time ends */
};

/* One stream's share of one worker. */
struct slam_flow {
    struct slam_worker *worker;
    const struct slam_stream *stream;
    size_t stream_index;
    struct slam_conn *conns;
    uint32_t conn_count;
    struct slam_slot *slots;
    uint8_t *tx;
    struct slam_value_state *value_states; /* of all operations, in their order */
    size_t *first_state;                   /* [op_count] */
    struct slam_rng values_rng;
    uint32_t slot_bits;
    uint64_t in_flight;       /* sent, neither done, timed out nor lost */
    struct slam_slot *oldest; /* sent slots by time of sending */
    struct slam_slot *newest;

    /* open loop */
    struct slam_pacer pacer;
    struct slam_rng pacer_rng;
    uint64_t next_arrival_ns;
    struct slam_arrival *backlog; /* ring of backlog_cap */
    size_t backlog_cap;
    size_t backlog_head;
    size_t backlog_len;
    struct slam_conn *usable_head; /* connections with a free slot, round robin */
    struct slam_conn *usable_tail;
    uint64_t usable_slots;
    uint64_t usable_since_ns; /* since when there has always been a free slot */

    /* closed loop */
    uint32_t next_start;          /* conns[next_start] has not begun */
    struct slam_conn *think_head; /* by due_ns */
    struct slam_conn *think_tail;
};

struct slam_arrival {
    uint64_t intended_ns;
    uint32_t op;
};

struct slam_worker {
    struct slam_worker_config config;
    struct slam_recorder recorder;
    struct slam_inbox inbox;
    struct slam_flow *flows;
    size_t flow_count;
    int epoll_fd;
    int timer_fd;      /* CLOCK_MONOTONIC */
    uint64_t armed_ns; /* when it rings; UINT64_MAX: not armed */
    bool draining;
    uint64_t in_flight;          /* over all flows */
    uint64_t realtime_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC, modulo 2^64 */
    char *scratch;               /* for encoding values */
    uint8_t *pdu;                /* for encoding requests: ends at pdu + pdu_len */
    size_t pdu_len;
    uint8_t rx[SLAM_RX_BYTES];
    pthread_t thread;
    bool started;
    atomic_bool realtime_granted;
    atomic_bool stamps;
    _Atomic uint64_t start_error_ns;
};

/* Draws the operation of the flow's next request. */
uint32_t slam_request_pick(struct slam_flow *flow);

/* The record of one operation in the worker's open interval. */
struct slam_op_record *slam_request_record(const struct slam_flow *flow, uint32_t op,
                                           bool measured);
bool slam_request_measured(const struct slam_worker *worker, uint64_t intended_ns);

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

/* Called by request.c, implemented by worker.c: a client (closed) or a slot (open)
 * became free; since is the time from which it was free. May send, and so break
 * connections. */
void slam_worker_client_free(struct slam_conn *conn, uint64_t since_ns);
void slam_worker_slot_free(struct slam_flow *flow);

#endif
