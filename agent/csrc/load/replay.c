/* SPDX-License-Identifier: Apache-2.0 */
#include "load/replay.h"

#include "core/slam_err.h"
#include "load/request.h"

#include <stdio.h>
#include <stdlib.h>

int
slam_replay_open(struct slam_stream *s, char *err, size_t err_len)
{
    int rc;

    if (!s->settings.trace)
        return SLAM_OK;
    for (size_t i = 0; i < s->script_count; i++)
        if (s->steps[s->scripts[i].first_step].op != i) {
            snprintf(err, err_len,
                     "a trace has a script for each operation, in their order");
            return SLAM_EINVAL;
        }
    rc = slam_trace_open(s->settings.trace, s->settings.connections,
                         (uint32_t)s->script_count, &s->trace, err, err_len);
    if (rc == SLAM_OK && slam_trace_max_pdu(s->trace) > s->max_pdu)
        s->max_pdu = slam_trace_max_pdu(s->trace);
    return rc;
}

static struct slam_replayed *
replayed_of(const struct slam_conn *conn)
{
    return &conn->flow->replayed[conn - conn->flow->conns];
}

/* The first record from this offset on that is the flow's; 0: none. */
static uint64_t
own_from(const struct slam_flow *flow, uint64_t offset)
{
    const struct slam_trace *trace = flow->stream->trace;
    const struct slam_worker_config *config = &flow->worker->config;

    while (offset &&
           slam_trace_at(trace, offset)->connection % config->count != config->index)
        offset = slam_trace_following(trace, offset);
    return offset;
}

static void
advance(struct slam_flow *flow, uint64_t offset)
{
    const struct slam_trace_record *record;

    flow->cursor = own_from(flow, offset);
    record = slam_trace_at(flow->stream->trace, flow->cursor);
    flow->next_arrival_ns =
        record ? flow->worker->config.timeline->t0_ns + record->due_ns : UINT64_MAX;
}

int
slam_replay_init(struct slam_flow *flow)
{
    const struct slam_worker_config *config = &flow->worker->config;
    const struct slam_trace *trace = flow->stream->trace;

    flow->replayed = calloc(flow->conn_count + 1, sizeof(*flow->replayed));
    if (!flow->replayed)
        return SLAM_ENOMEM;
    flow->sessions_left = 0;
    for (uint32_t i = 0; i < flow->conn_count; i++) {
        uint64_t at = slam_trace_first_of(trace, config->index + i * config->count);

        flow->replayed[i].next = at;
        for (; at; at = slam_trace_at(trace, at)->next)
            flow->sessions_left++;
    }
    return SLAM_OK;
}

void
slam_replay_destroy(struct slam_flow *flow)
{
    free(flow->replayed);
}

void
slam_replay_begin(struct slam_flow *flow)
{
    if (flow->stream->settings.open) {
        advance(flow, slam_trace_first(flow->stream->trace));
        return;
    }
    flow->next_arrival_ns = flow->worker->config.timeline->t0_ns +
                            flow->stream->settings.start_ns; /* of all connections */
}

/* Sends the connection's next record: intended then, its slot free since then. */
static void
send_next(struct slam_conn *conn, uint64_t intended_ns, uint64_t slot_free_ns)
{
    struct slam_flow *flow = conn->flow;
    struct slam_replayed *replayed = replayed_of(conn);

    replayed->current = slam_trace_at(flow->stream->trace, replayed->next);
    replayed->next = replayed->current->next;
    flow->sessions_left--;
    /* the scripts are the operations, in their order */
    slam_request_begin(conn, replayed->current->operation, intended_ns, slot_free_ns);
}

static void
count_scheduled(struct slam_flow *flow, const struct slam_trace_record *record,
                uint64_t intended_ns)
{
    slam_flow_op_record(flow, record->operation, slam_flow_measures(flow, intended_ns))
        ->scheduled++;
}

static bool
can_send(const struct slam_conn *conn)
{
    return conn->up && !conn->retiring && !conn->waits_for_write &&
           conn->free_count == 1;
}

void
slam_replay_free(struct slam_conn *conn, uint64_t since_ns)
{
    struct slam_flow *flow = conn->flow;
    struct slam_replayed *replayed = replayed_of(conn);
    const struct slam_trace_record *record =
        slam_trace_at(flow->stream->trace, replayed->next);

    replayed->free_since_ns = since_ns;
    if (!record || !can_send(conn) || flow->ended || flow->worker->draining)
        return;
    if (!flow->stream->settings.open) {
        if (!conn->begun)
            return;
        count_scheduled(flow, record, since_ns);
        send_next(conn, since_ns, 0);
    } else if (replayed->due > 0) {
        replayed->due--;
        flow->backlog_len--;
        send_next(conn, flow->worker->config.timeline->t0_ns + record->due_ns,
                  since_ns);
    }
}

/* One record is due: it is sent, or waits for its connection. */
static void
arrive(struct slam_flow *flow, const struct slam_trace_record *record)
{
    uint64_t intended_ns = flow->worker->config.timeline->t0_ns + record->due_ns;
    uint32_t i = record->connection / flow->worker->config.count;
    struct slam_conn *conn = &flow->conns[i];
    struct slam_replayed *replayed = &flow->replayed[i];

    count_scheduled(flow, record, intended_ns);
    if (replayed->due == 0 && can_send(conn)) {
        send_next(conn, intended_ns, replayed->free_since_ns);
        return;
    }
    replayed->due++;
    flow->backlog_len++;
}

void
slam_replay_run(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns)
{
    if (flow->stream->settings.open) {
        while (flow->next_arrival_ns <= now_ns && flow->next_arrival_ns < limit_ns) {
            uint64_t offset = flow->cursor;

            advance(flow, slam_trace_following(flow->stream->trace, offset));
            arrive(flow, slam_trace_at(flow->stream->trace, offset));
        }
        return;
    }
    if (flow->next_arrival_ns > now_ns || now_ns >= limit_ns)
        return;
    for (uint32_t i = 0; i < flow->conn_count; i++) {
        flow->conns[i].begun = true;
        slam_replay_free(&flow->conns[i], flow->next_arrival_ns);
    }
    flow->next_arrival_ns = UINT64_MAX;
}

void
slam_replay_end(struct slam_flow *flow)
{
    uint64_t t0_ns = flow->worker->config.timeline->t0_ns;

    for (uint32_t i = 0; i < flow->conn_count; i++) {
        struct slam_replayed *replayed = &flow->replayed[i];

        for (; replayed->due > 0; replayed->due--) {
            const struct slam_trace_record *record =
                slam_trace_at(flow->stream->trace, replayed->next);

            slam_flow_op_record(flow, record->operation,
                                slam_flow_measures(flow, t0_ns + record->due_ns))
                ->dropped++;
            replayed->next = record->next;
        }
    }
    flow->backlog_len = 0;
}

bool
slam_replay_is_over(const struct slam_flow *flow)
{
    return flow->active == 0 && (flow->ended || flow->sessions_left == 0);
}

size_t
slam_replay_encode(const struct slam_conn *conn, int32_t message_id, uint8_t *end)
{
    return slam_trace_encode(replayed_of(conn)->current, message_id, end);
}

uint64_t
slam_replay_connect_ns(const struct slam_conn *conn, uint64_t now_ns)
{
    const struct slam_trace_record *record = replayed_of(conn)->current;
    uint64_t due_ns;

    if (!record || !conn->unbound)
        return now_ns;
    if (record->connect_ns == SLAM_TRACE_NEVER)
        return UINT64_MAX;
    due_ns = conn->flow->worker->config.timeline->t0_ns + record->connect_ns;
    return due_ns > now_ns ? due_ns : now_ns;
}
