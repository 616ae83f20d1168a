/* SPDX-License-Identifier: Apache-2.0 */
/* Replays: the requests of a trace (trace.h), each on its own connection and in the
 * trace's order. In an open stream each is due at its record's time; in a closed one a
 * connection sends the next when it is free. */
#include "core/slam_err.h"
#include "load/connection.h"
#include "load/model.h"
#include "load/request.h"

#include <stdlib.h>

struct replayed {
    uint64_t next; /* record to be sent next; 0: none */
    uint64_t due;  /* records that are due and not sent */
    uint64_t free_since_ns;
};

struct replay_load {
    uint64_t cursor;  /* open: the record that is due next; 0: none */
    uint64_t next_ns; /* open: when that is; closed: when all connections start */
    struct replayed conns[]; /* as the flow's */
};

static struct replayed *
replayed_of(const struct slam_conn *conn)
{
    struct replay_load *load = conn->flow->load;

    return &load->conns[conn - conn->flow->conns];
}

static int
init(struct slam_flow *flow)
{
    const struct slam_trace *trace = flow->stream->trace;
    struct replay_load *load =
        calloc(1, sizeof(*load) + flow->conn_count * sizeof(struct replayed));

    if (!load)
        return SLAM_ENOMEM;
    flow->load = load;
    flow->sessions_left = 0;
    for (uint32_t i = 0; i < flow->conn_count; i++) {
        uint64_t at =
            slam_trace_first_of(trace, flow->lane + i * flow->stream->carriers);

        load->conns[i].next = at;
        for (; at; at = slam_trace_at(trace, at)->next)
            flow->sessions_left++;
    }
    return SLAM_OK;
}

static uint64_t
intended_ns(const struct slam_flow *flow, const struct slam_trace_record *record)
{
    return flow->worker->config.timeline->t0_ns + record->due_ns;
}

static struct slam_op_record *
record_of(const struct slam_flow *flow, const struct slam_trace_record *record,
          uint64_t at_ns)
{
    return slam_flow_op_record(flow, record->operation,
                               slam_flow_measures(flow, at_ns));
}

static void
schedule(struct slam_flow *flow, const struct slam_trace_record *record, uint64_t at_ns)
{
    record_of(flow, record, at_ns)->scheduled++;
    flow->sessions_left--;
}

static uint64_t
due_ns(const struct slam_flow *flow)
{
    const struct replay_load *load = flow->load;

    return load->next_ns;
}

/* Sends the connection's next record: intended then, its slot free since then. */
static void
send_next(struct slam_conn *conn, uint64_t at_ns, uint64_t slot_free_ns)
{
    struct slam_flow *flow = conn->flow;
    struct replayed *replayed = replayed_of(conn);

    conn->record = slam_trace_at(flow->stream->trace, replayed->next);
    replayed->next = conn->record->next;
    /* the scripts are the operations, in their order */
    slam_request_begin(conn, conn->record->operation, at_ns, slot_free_ns);
}

/* Goes on to the first record from this offset on that is the flow's. */
static void
seek(struct slam_flow *flow, uint64_t offset)
{
    struct replay_load *load = flow->load;
    const struct slam_trace *trace = flow->stream->trace;
    uint32_t carriers = flow->stream->carriers;

    while (offset && slam_trace_at(trace, offset)->connection % carriers != flow->lane)
        offset = slam_trace_following(trace, offset);
    load->cursor = offset;
    load->next_ns =
        offset ? intended_ns(flow, slam_trace_at(trace, offset)) : UINT64_MAX;
}

static void
begin_open(struct slam_flow *flow)
{
    seek(flow, slam_trace_first(flow->stream->trace));
}

static void
arrive(struct slam_flow *flow, const struct slam_trace_record *record, bool stood_still)
{
    struct slam_conn *conn = &flow->conns[record->connection / flow->stream->carriers];
    struct replayed *replayed = replayed_of(conn);
    uint64_t at_ns = intended_ns(flow, record);

    schedule(flow, record, at_ns);
    if (!stood_still && replayed->due == 0 && slam_conn_available(conn) > 0) {
        send_next(conn, at_ns, replayed->free_since_ns);
        return;
    }
    replayed->due++;
    flow->backlog_len++;
}

static void
drop_open(struct slam_flow *flow)
{
    struct replay_load *load = flow->load;

    for (uint32_t i = 0; i < flow->conn_count; i++) {
        struct replayed *replayed = &load->conns[i];

        for (; replayed->due > 0; replayed->due--) {
            const struct slam_trace_record *record =
                slam_trace_at(flow->stream->trace, replayed->next);

            record_of(flow, record, intended_ns(flow, record))->dropped++;
            replayed->next = record->next;
        }
    }
    flow->backlog_len = 0;
}

static void
run_open(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns)
{
    struct replay_load *load = flow->load;
    bool stood_still = slam_since_ns(now_ns, load->next_ns) > SLAM_STOOD_STILL_NS;

    while (load->next_ns <= now_ns && load->next_ns < limit_ns) {
        uint64_t offset = load->cursor;

        seek(flow, slam_trace_following(flow->stream->trace, offset));
        arrive(flow, slam_trace_at(flow->stream->trace, offset), stood_still);
    }
    if (stood_still)
        drop_open(flow);
}

static void
ready_open(struct slam_conn *conn)
{
    struct slam_flow *flow = conn->flow;
    struct replayed *replayed = replayed_of(conn);

    if (slam_conn_available(conn) == 0)
        return;
    replayed->free_since_ns = conn->received_ns;
    if (replayed->due > 0) {
        replayed->due--;
        flow->backlog_len--;
        send_next(conn,
                  intended_ns(flow, slam_trace_at(flow->stream->trace, replayed->next)),
                  conn->received_ns);
    }
}

const struct slam_load_model slam_replay_open_model = {.has_backlog = true,
                                                       .init = init,
                                                       .begin = begin_open,
                                                       .due_ns = due_ns,
                                                       .run = run_open,
                                                       .ready = ready_open,
                                                       .drop = drop_open};

static void
begin_closed(struct slam_flow *flow)
{
    struct replay_load *load = flow->load;

    load->next_ns =
        flow->worker->config.timeline->t0_ns + flow->stream->settings.start_ns;
}

static void
send_when_free(struct slam_conn *conn)
{
    struct slam_flow *flow = conn->flow;
    uint64_t since_ns = slam_conn_intended_ns(conn);
    const struct slam_trace_record *record =
        slam_trace_at(flow->stream->trace, replayed_of(conn)->next);

    if (!record || flow->ended || conn->client == SLAM_CLIENT_NOT_STARTED ||
        slam_conn_available(conn) == 0)
        return;
    schedule(flow, record, since_ns);
    send_next(conn, since_ns, conn->up_since_ns);
}

static void
run_closed(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns)
{
    struct replay_load *load = flow->load;

    if (load->next_ns > now_ns || now_ns >= limit_ns)
        return;
    for (uint32_t i = 0; i < flow->conn_count; i++) {
        slam_conn_move_client(&flow->conns[i], SLAM_CLIENT_START);
        flow->conns[i].due_ns = load->next_ns;
        send_when_free(&flow->conns[i]);
    }
    load->next_ns = UINT64_MAX;
}

static void
ready_closed(struct slam_conn *conn)
{
    if (conn->requests > 0)
        conn->due_ns = conn->done_ns;
    send_when_free(conn);
}

const struct slam_load_model slam_replay_closed_model = {.init = init,
                                                         .begin = begin_closed,
                                                         .due_ns = due_ns,
                                                         .run = run_closed,
                                                         .ready = ready_closed};
