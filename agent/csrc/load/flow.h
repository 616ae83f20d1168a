/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a worker's thread: its part of each stream (a flow), with connections,
 * slots and sessions. The control thread allocates it; once the thread runs, all but
 * the atomics is the thread's. Times are CLOCK_MONOTONIC in ns, also in what includes
 * this.
 *
 * A connection stands in the worker's ready list when a slot is free, when it is up, or
 * when it can no longer be used. Requests only add to the list; the worker empties it
 * between two reads and tells the load model. */
#ifndef SLAM_FLOW_H
#define SLAM_FLOW_H

#include "core/partition.h"
#include "core/recorder.h"
#include "core/thread.h"
#include "core/wait.h"
#include "ldap/connector.h"
#include "ldap/pdu.h"
#include "ldap/sasl.h"
#include "load/connection_state.h"
#include "load/stream.h"

#include <stdatomic.h>
#include <sys/queue.h>

#define SLAM_RX_BYTES 65536u

/* Edges: with levels, epoll visits each socket again after each turn. */
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
    TAILQ_ENTRY(slam_slot) in_sent; /* sent: the server's list */
    struct slam_conn *conn;
    uint64_t intended_ns;
    uint64_t slot_free_ns;
    uint64_t sent_ns;
    int32_t message_id;
    uint32_t next_free; /* free: index of the next one in the connection */
    uint16_t op;        /* index in the stream */
    uint16_t step;      /* index in the stream */
    bool measured;      /* intended in the measure phase */
    bool has_entry;     /* its search has returned one */
    uint8_t state;      /* enum slam_slot_state */
};

/* The state of a slot's session, in streams of more than plain operations. */
struct slam_session_state {
    struct slam_slot *slot;
    TAILQ_ENTRY(slam_session_state) in_paused;
    uint64_t due_ns;   /* paused: when the next step is to be sent */
    uint64_t captured; /* the request's captures that were found, as bits */
    uint64_t taken;    /* of the ledger, by this request */
    uint64_t intended; /* put into the ledger, by this request */
    uint64_t begun_ns; /* when its first request was to be sent */
    uint64_t own_ns;   /* between the steps of this bind: from response to request */
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

TAILQ_HEAD(slam_pause_list, slam_session_state); /* by due_ns */

struct slam_conn {
    /* first: the connector's while it is being set up, but for those in the server's
     * list `waiting` */
    _Alignas(SLAM_CACHE_LINE) struct slam_connect_request request;
    struct slam_flow *flow;
    struct slam_server *server;
    struct slam_pdu_parser parser;
    struct slam_slot *slots; /* in_flight of the stream */
    uint32_t free_head;      /* free slots, linked by next_free */
    uint32_t free_count;
    uint32_t timed_out; /* slots in that state */
    uint32_t generation;
    uint32_t counted_free; /* open: its free slots in the model's count */
    uint8_t state;         /* enum slam_conn_state: slam_conn_move */
    uint8_t client;        /* enum slam_client_state: slam_conn_move_client */
    bool is_ready;         /* in the ready list */
    bool is_queued;        /* open: in the model's list */
    bool has_abandoned;    /* responses to abandoned requests may still come */
    uint8_t loss;          /* enum slam_loss: why it breaks, or will */
    uint8_t *tx;           /* one request that the socket did not take whole */
    size_t tx_len;         /* 0: the socket takes another request */
    size_t tx_pos;
    uint64_t tx_since_ns; /* tx_len > 0: when that request was sent */
    uint64_t requests;    /* sent since the connection is up */
    uint32_t failures;    /* of attempts to connect, since the last success */
    uint64_t up_since_ns;
    uint64_t stamp_ns;    /* the kernel's, of the last response; CLOCK_REALTIME */
    bool stamp_is_shared; /* with the response before */
    uint8_t *kept;        /* the part of a response that came in earlier reads */
    size_t kept_len;
    STAILQ_ENTRY(slam_conn) in_ready;
    uint64_t received_ns; /* ready: since when it can be used, by the kernel's stamp */
    uint64_t done_ns;     /* the same, by the worker's clock */
    STAILQ_ENTRY(slam_conn) in_queue; /* the model's list */
    STAILQ_ENTRY(slam_conn) in_waiting;
    uint64_t due_ns; /* closed: since when its client is free, or will be */
    const struct slam_trace_record *record; /* of the last request; NULL: no trace */
};

STAILQ_HEAD(slam_conn_list, slam_conn);

/* A flow's part at one server. */
struct slam_server {
    struct slam_flow *flow;
    size_t place;                 /* of its record in the engine's table */
    size_t first_op;              /* as the stream's */
    uint64_t in_flight;           /* sent, neither done, timed out nor lost */
    TAILQ_HEAD(, slam_slot) sent; /* by time of sending */
    struct slam_wait wait;
    uint32_t in_state[SLAM_CONN_STATES]; /* connections */
    uint64_t tallied_ns;           /* when their time was last added to the record */
    struct slam_conn *probe;       /* is tried again and again; NULL: none */
    struct slam_conn_list waiting; /* for the probe's success */
    uint32_t waiting_count;
    bool is_mute;   /* the last lost connection had no answer since it was up */
    uint64_t up_ns; /* when the last connection was set up */
};

struct slam_load_model;

struct slam_flow {
    struct slam_worker *worker;
    const struct slam_stream *stream;
    const struct slam_load_model *model;
    void *load; /* the model's data, one block of malloc */
    size_t stream_index;
    uint32_t lane; /* slam_stream_lane of the worker */
    struct slam_conn *conns;
    uint32_t conn_count;
    struct slam_server *servers; /* the worker's, as the stream's URIs */
    struct slam_slot *slots;
    uint8_t *transports; /* their storage, one after the other */
    uint8_t *tx;
    uint8_t *kept;
    struct slam_session_state *sessions; /* as slots; NULL: the stream needs none */
    struct slam_variable *variables;
    struct slam_pause_list *pauses; /* [pause_count + 1] */
    struct slam_ledger **ledgers;
    struct slam_partition partition;            /* of the run's connections */
    struct slam_partition_cursor *value_states; /* of all operations, in their order */
    size_t *first_state; /* [op_count]: of the lets, then the op */
    struct slam_rng values_rng;
    struct slam_rng arrivals_rng;
    struct slam_rng reconnect_rng; /* its own: a lost connection changes no value */
    uint32_t slot_bits;
    uint64_t sessions_left; /* that may still be scheduled; UINT64_MAX: no limit */
    uint64_t active;        /* sessions under way */
    uint64_t backlog_len;   /* arrivals that wait for a slot */
    bool ended;             /* nothing is scheduled any more */
};

/* The run's time line, CLOCK_MONOTONIC where absolute; but for stop_ns constant. */
struct slam_timeline {
    uint64_t t0_ns;
    const uint64_t *boundaries_ns; /* interval ends after T0, ascending */
    size_t boundary_count;         /* > 0; the last is the planned end */
    uint64_t measure_start_ns;     /* after T0 */
    uint64_t measure_end_ns;
    uint64_t ramp_up_ns;
    uint64_t grace_ns; /* for what is in flight at the end */
    /* Early end, UINT64_MAX: none. A worker reads the clock first and this second; the
     * writer sets a time ahead: so all workers close the same intervals. */
    _Atomic uint64_t stop_ns;
    const _Atomic uint64_t *lease_ns; /* CLOCK_BOOTTIME; nothing is sent from then on */
    atomic_bool abort;                /* leave at once, without drain */
    /* Workers that have something to do before stop_ns; 0: the run may end. */
    _Atomic uint32_t unfinished;
};

struct slam_worker_config {
    uint32_t index; /* among the workers of its kind */
    uint32_t count; /* workers of its kind in this agent */
    bool open;
    bool realtime; /* try SCHED_FIFO: open streams', and before T0 any */
    uint64_t spin_ns;
    uint64_t seed;
    size_t max_pdu_bytes;
    size_t total_op_count; /* the engine's table */
    size_t total_stream_count;
    size_t total_place_count;
    const struct slam_stream *streams; /* all of the engine's */
    struct slam_timeline *timeline;
    struct slam_connector *connector;
};

struct slam_worker {
    struct slam_worker_config config;
    struct slam_recorder recorder;
    struct slam_inbox inbox;
    struct slam_flow *flows;
    size_t flow_count;
    struct slam_server *servers; /* of all flows, in their order */
    size_t server_count;
    struct slam_conn_list ready;
    int epoll_fd;
    int timer_fd;      /* CLOCK_MONOTONIC */
    uint64_t armed_ns; /* when it rings; UINT64_MAX: not armed */
    bool draining;
    uint64_t active;             /* sessions under way, over all flows */
    bool finished;               /* counted as such in the time line */
    uint64_t realtime_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC, modulo 2^64 */
    uint64_t closing_offset_ns;  /* the same at the last interval's end */
    uint8_t *pdu;                /* where requests are encoded: pdu_len bytes */
    size_t pdu_len;
    uint8_t rx[SLAM_RX_BYTES];
    struct slam_thread thread;
    uint64_t cpu_ns; /* at the last interval's end */
    uint64_t run_queue_ns;
    pthread_t pthread;
    bool started;
    /* for any thread: */
    atomic_bool realtime; /* the thread holds SCHED_FIFO; from the first interval on */
    atomic_bool stamps;   /* every connection so far has kernel receive stamps */
    _Atomic uint64_t start_error_ns; /* after T0; UINT64_MAX: it has not begun */
};

/* Makes the worker's part of a stream, but for the load model's. The flow can be
 * destroyed either way. */
int slam_flow_init(struct slam_flow *flow, struct slam_worker *worker,
                   size_t stream_index, char *err);

void slam_flow_destroy(struct slam_flow *flow);

/* The index-th of `count` parts of the total: equal, or larger by 1 for low indexes. */
static inline uint32_t
slam_flow_part(uint64_t total, uint32_t index, uint32_t count)
{
    return (uint32_t)(total / count + (index < total % count ? 1 : 0));
}

uint32_t slam_flow_pick(struct slam_flow *flow);

/* The session of a slot; NULL where the stream needs none. */
static inline struct slam_session_state *
slam_flow_session(const struct slam_flow *flow, const struct slam_slot *slot)
{
    return flow->sessions ? &flow->sessions[slot - flow->slots] : NULL;
}

static inline bool
slam_flow_measures(const struct slam_flow *flow, uint64_t intended_ns)
{
    const struct slam_timeline *t = flow->worker->config.timeline;

    return intended_ns >= t->t0_ns + t->measure_start_ns &&
           intended_ns < t->t0_ns + t->measure_end_ns;
}

/* Records of the worker's open interval: of an operation's scheduled and dropped
 * requests; of its requests on a connection; of the first operation of a script; of a
 * server. */
static inline struct slam_op_record *
slam_flow_op_record(const struct slam_flow *flow, uint32_t op, bool measured)
{
    return slam_recorder_op(&flow->worker->recorder, flow->stream->first_op + op,
                            measured);
}

static inline struct slam_op_record *
slam_conn_op_record(const struct slam_conn *conn, uint32_t op, bool measured)
{
    return slam_recorder_op(&conn->flow->worker->recorder, conn->server->first_op + op,
                            measured);
}

static inline struct slam_op_record *
slam_flow_script_record(const struct slam_flow *flow, uint32_t script,
                        uint64_t intended_ns)
{
    const struct slam_stream *stream = flow->stream;

    return slam_flow_op_record(flow,
                               stream->steps[stream->scripts[script].first_step].op,
                               slam_flow_measures(flow, intended_ns));
}

static inline struct slam_stream_record *
slam_server_record(const struct slam_server *server)
{
    return &server->flow->worker->recorder.active->streams[server->place];
}

/* When the oldest request in flight was sent; 0: none is. */
static inline uint64_t
slam_server_oldest_ns(const struct slam_server *server)
{
    return server->in_flight ? TAILQ_FIRST(&server->sent)->sent_ns : 0;
}

/* No session will begin any more: nobody waits for a connection. */
static inline bool
slam_flow_is_over(const struct slam_flow *flow)
{
    return flow->ended || (flow->sessions_left == 0 && flow->backlog_len == 0);
}

/* Brings the record's down_ns and unable_ns up to date. */
void slam_server_tally(struct slam_server *server, uint64_t now_ns);

#endif
