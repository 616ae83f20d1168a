/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker keeps: its share of each stream (a flow), the flow's connections and
 * their slots. Allocated once, by the control thread; from the thread's start on, all
 * of it but the atomics belongs to the worker's thread. Times are CLOCK_MONOTONIC in
 * ns.
 *
 * request.c fills and empties slots, schedule.c decides when, worker.c turns the loop.
 */
#ifndef SLAM_FLOW_H
#define SLAM_FLOW_H

#include "core/share.h"
#include "core/thread.h"
#include "ldap/sasl.h"
#include "load/worker.h"

#define SLAM_RX_BYTES 65536u

/* What a connection is watched for. Edges: with levels, epoll looks at each socket
 * again after each turn, and of 10,000 sockets none is in the cache. */
#define SLAM_EPOLL_EVENTS (EPOLLIN | EPOLLRDHUP | EPOLLET)

/* How much of a response is read for its content; what is as long may be cut off. */
#define SLAM_KEEP_BYTES 65536u

enum slam_slot_state {
    SLAM_SLOT_FREE,
    SLAM_SLOT_SENT,
    SLAM_SLOT_PAUSED,   /* between two steps of its session */
    SLAM_SLOT_BLOCKED,  /* until the socket has taken another request whole */
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
    uint32_t next_free; /* free: index of the next one in the connection */
    uint16_t op;        /* index in the stream */
    uint16_t step;      /* index in the stream */
    bool measured;      /* intended in the measure phase */
    uint8_t state;      /* enum slam_slot_state */
};

/* What a slot's session keeps where its stream has more than plain operations. */
struct slam_session {
    struct slam_slot *slot;
    struct slam_session *next_paused;
    struct slam_session *previous_paused;
    uint64_t due_ns;   /* paused: when the next step is to be sent */
    uint64_t captured; /* the request's captures that were found, as bits */
    uint64_t taken;    /* of the ledger, by this request */
    uint64_t intended; /* put into the ledger, by this request */
    struct slam_sasl *sasl;
    struct slam_variable *variables;
    uint32_t pause_list; /* pausing: in which one */
    bool pausing;        /* in a list of paused sessions */
    bool ending;         /* pausing: no step follows */
    bool has_taken;
    bool has_intended;
    bool has_more; /* the server has another page */
    bool entry_seen;
    bool sasl_failed;
};

struct slam_replayed; /* replay.h */

struct slam_pause_list {
    struct slam_session *head; /* by due_ns */
    struct slam_session *tail;
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
    bool down;            /* lost, or an attempt failed: until it is up again */
    bool queued;          /* in the flow's queue of usable connections */
    bool begun;           /* closed: the client's start has come */
    bool ready;           /* closed: the client may send when the connection is up */
    bool thinking;        /* closed: in the flow's think queue */
    bool waits_for_write; /* tx holds bytes, EPOLLOUT is armed */
    bool retiring;        /* to be replaced as soon as nothing is in flight on it */
    bool replacing;       /* closed on purpose, its successor is being set up */
    bool unbound;         /* an unbind request was the last one */
    bool abandons;        /* responses to abandoned requests may still come */
    uint8_t *tx;          /* one request that the socket did not take whole */
    size_t tx_len;
    size_t tx_pos;
    uint64_t requests; /* sent since the connection is up */
    uint64_t up_since_ns;
    uint8_t *kept; /* the part of a response that came in earlier reads */
    size_t kept_len;
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
    uint8_t *wires; /* storage of the connections' wires, one after the other */
    uint8_t *tx;
    uint8_t *kept;
    struct slam_session *sessions; /* as slots; NULL: the stream needs none */
    struct slam_variable *variables;
    struct slam_pause_list *pauses; /* [pause_count] */
    struct slam_ledger **ledgers;
    struct slam_replayed *replayed;        /* as conns; NULL: there is no trace */
    uint64_t cursor;                       /* trace: the record that is due next */
    struct slam_share share;               /* of the run's connections */
    struct slam_value_state *value_states; /* of all operations, in their order */
    size_t *first_state;                   /* [op_count]: of the lets, then the op */
    struct slam_rng values_rng;
    struct slam_rng backoff_rng; /* its own: a lost connection changes no value */
    uint32_t slot_bits;
    uint64_t sessions_left;   /* that may still begin; UINT64_MAX: no limit */
    uint64_t active;          /* sessions under way */
    bool ended;               /* no session begins any more */
    uint32_t down_count;      /* connections that are down */
    uint64_t down_at_ns;      /* when their time was last added to the record */
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
    uint32_t script;
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
    uint64_t active;             /* sessions under way, over all flows */
    uint64_t replacing;          /* connections of that state, over all flows */
    bool finished;               /* counted as such in the time line */
    uint64_t realtime_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC, modulo 2^64 */
    char *scratch;               /* for encoding values */
    uint8_t *pdu;                /* for encoding requests: ends at pdu + pdu_len */
    size_t pdu_len;
    uint8_t rx[SLAM_RX_BYTES];
    struct slam_thread thread;
    uint64_t cpu_ns; /* at the last interval's end */
    uint64_t run_queue_ns;
    pthread_t pthread;
    bool started;
    atomic_bool realtime; /* the thread holds SCHED_FIFO */
    atomic_bool stamps;
    _Atomic uint64_t start_error_ns;
};

/* Gives the worker its share of the stream. Returns 0 or a negative slam_err with the
 * reason in err; the flow can be destroyed either way. */
int slam_flow_init(struct slam_flow *flow, struct slam_worker *worker,
                   size_t stream_index, char *err, size_t err_len);

/* Closes the flow's connections and frees its memory. */
void slam_flow_destroy(struct slam_flow *flow);

/* Draws the script of the flow's next session. */
uint32_t slam_flow_pick(struct slam_flow *flow);

/* The session of a slot; NULL where the stream needs none. */
static inline struct slam_session *
slam_flow_session(const struct slam_flow *flow, const struct slam_slot *slot)
{
    return flow->sessions ? &flow->sessions[slot - flow->slots] : NULL;
}

/* Whether a request intended then belongs to the measure phase. */
bool slam_flow_measures(const struct slam_flow *flow, uint64_t intended_ns);

/* Records of the worker's open interval: of one operation, and of the stream. */
struct slam_op_record *slam_flow_op_record(const struct slam_flow *flow, uint32_t op,
                                           bool measured);
struct slam_stream_record *slam_flow_stream_record(const struct slam_flow *flow);

#endif
