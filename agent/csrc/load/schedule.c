/* SPDX-License-Identifier: Apache-2.0 */
#include "load/schedule.h"

#include "core/clock.h"
#include "load/channel.h"
#include "load/replay.h"
#include "load/request.h"

static uint64_t
next_arrival(struct slam_flow *flow)
{
    uint64_t after_t0_ns = slam_pacer_next(&flow->pacer, &flow->pacer_rng);

    return after_t0_ns == UINT64_MAX
               ? UINT64_MAX
               : flow->worker->config.timeline->t0_ns + after_t0_ns;
}

void
slam_schedule_begin(struct slam_flow *flow)
{
    const struct slam_worker_config *config = &flow->worker->config;
    const struct slam_timeline *t = config->timeline;
    const struct slam_stream *stream = flow->stream;

    if (stream->trace) {
        slam_replay_begin(flow);
        return;
    }
    if (stream->settings.open) {
        flow->next_arrival_ns = next_arrival(flow);
        return;
    }
    /* clients begin evenly spread over the ramp-up */
    for (uint32_t i = 0; i < flow->conn_count; i++) {
        uint64_t number = config->index + (uint64_t)i * config->count;

        flow->conns[i].due_ns = t->t0_ns + stream->settings.start_ns +
                                (uint64_t)((double)t->ramp_up_ns * (double)number /
                                           (double)stream->settings.connections);
    }
}

/* A closed loop's client begins its next session, unless all have begun. */
static void
begin_session(struct slam_conn *conn, uint64_t intended_ns)
{
    struct slam_flow *flow = conn->flow;
    uint32_t script;
    uint32_t op;

    if (flow->ended || flow->sessions_left == 0)
        return;
    if (flow->sessions_left != UINT64_MAX)
        flow->sessions_left--;
    script = slam_flow_pick(flow);
    op = flow->stream->steps[flow->stream->scripts[script].first_step].op;
    slam_flow_op_record(flow, op, slam_flow_measures(flow, intended_ns))->scheduled++;
    slam_request_begin(conn, script, intended_ns, 0);
}

void
slam_schedule_client_go(struct slam_conn *conn, uint64_t since_ns)
{
    conn->ready = !conn->up;
    if (conn->up && !conn->flow->worker->draining)
        begin_session(conn, since_ns);
}

void
slam_schedule_client_free(struct slam_conn *conn, uint64_t since_ns)
{
    struct slam_flow *flow = conn->flow;
    uint64_t think_ns = flow->stream->settings.think_time_ns;

    conn->ready = think_ns == 0;
    if (flow->worker->draining)
        return;
    if (think_ns == 0) {
        slam_schedule_client_go(conn, since_ns);
        return;
    }
    conn->thinking = true;
    conn->due_ns = since_ns + think_ns;
    conn->next_thinking = NULL;
    if (flow->think_tail)
        flow->think_tail->next_thinking = conn;
    else
        flow->think_head = conn;
    flow->think_tail = conn;
}

/* Closed loop: clients whose start or think time is over. */
static void
send_due_clients(struct slam_flow *flow, uint64_t now_ns)
{
    while (flow->next_start < flow->conn_count &&
           flow->conns[flow->next_start].due_ns <= now_ns) {
        struct slam_conn *conn = &flow->conns[flow->next_start++];

        conn->begun = true;
        slam_schedule_client_go(conn, conn->due_ns);
    }
    while (flow->think_head && flow->think_head->due_ns <= now_ns) {
        struct slam_conn *conn = flow->think_head;

        flow->think_head = conn->next_thinking;
        if (!flow->think_head)
            flow->think_tail = NULL;
        conn->thinking = false;
        slam_schedule_client_go(conn, conn->due_ns);
    }
}

static struct slam_conn *
take_usable(struct slam_flow *flow)
{
    struct slam_conn *conn;

    while ((conn = flow->usable_head) != NULL) {
        flow->usable_head = conn->next_usable;
        if (!flow->usable_head)
            flow->usable_tail = NULL;
        conn->queued = false;
        if (conn->offered > 0)
            return conn;
    }
    return NULL;
}

/* A free slot that was free ever since usable_since_ns. */
static bool
send_arrival(struct slam_flow *flow, const struct slam_arrival *arrival)
{
    uint64_t slot_free_ns = flow->usable_since_ns;
    struct slam_conn *conn = take_usable(flow);

    if (!conn)
        return false;
    slam_request_begin(conn, arrival->script, arrival->intended_ns, slot_free_ns);
    return true;
}

void
slam_schedule_slot_free(struct slam_flow *flow)
{
    while (flow->backlog_len > 0 && flow->usable_slots > 0) {
        struct slam_arrival arrival = flow->backlog[flow->backlog_head];

        if (!send_arrival(flow, &arrival))
            return;
        flow->backlog_head = (flow->backlog_head + 1) % flow->backlog_cap;
        flow->backlog_len--;
    }
}

/* The record that an arrival counts in: of its script's first operation. */
static struct slam_op_record *
arrival_record(const struct slam_flow *flow, const struct slam_arrival *arrival)
{
    const struct slam_stream *stream = flow->stream;

    return slam_flow_op_record(
        flow, stream->steps[stream->scripts[arrival->script].first_step].op,
        slam_flow_measures(flow, arrival->intended_ns));
}

/* Open loop: arrivals that are due, each drawn once and either sent, kept with its
 * intended time, or counted as dropped. */
static void
send_due_arrivals(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns)
{
    while (flow->next_arrival_ns <= now_ns && flow->next_arrival_ns < limit_ns) {
        struct slam_arrival arrival = {.intended_ns = flow->next_arrival_ns,
                                       .script = slam_flow_pick(flow)};
        struct slam_op_record *record = arrival_record(flow, &arrival);

        flow->next_arrival_ns = next_arrival(flow);
        record->scheduled++;
        if (flow->backlog_len == 0 && send_arrival(flow, &arrival))
            continue;
        if (flow->backlog_len == flow->backlog_cap) {
            record->dropped++;
            continue;
        }
        flow->backlog[(flow->backlog_head + flow->backlog_len++) % flow->backlog_cap] =
            arrival;
    }
}

static uint64_t
earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void
slam_schedule_run(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns)
{
    if (flow->ended)
        return;
    if (flow->stream->settings.end_ns > 0) {
        uint64_t end_ns =
            flow->worker->config.timeline->t0_ns + flow->stream->settings.end_ns;

        limit_ns = earlier(limit_ns, end_ns);
    }
    if (flow->stream->trace)
        slam_replay_run(flow, now_ns, limit_ns);
    else if (flow->stream->settings.open)
        send_due_arrivals(flow, now_ns, limit_ns);
    else if (now_ns < limit_ns)
        send_due_clients(flow, now_ns);
    /* the stream's own end, before the run's */
    if (flow->stream->settings.end_ns > 0 && now_ns >= limit_ns)
        slam_schedule_end(flow);
}

uint64_t
slam_schedule_next_ns(const struct slam_flow *flow)
{
    uint64_t next_ns = UINT64_MAX;

    if (flow->ended)
        return UINT64_MAX;
    if (flow->stream->settings.end_ns > 0)
        next_ns = flow->worker->config.timeline->t0_ns + flow->stream->settings.end_ns;
    if (flow->stream->settings.open || flow->stream->trace)
        return earlier(next_ns, flow->next_arrival_ns);
    if (flow->next_start < flow->conn_count)
        next_ns = earlier(next_ns, flow->conns[flow->next_start].due_ns);
    if (flow->think_head)
        next_ns = earlier(next_ns, flow->think_head->due_ns);
    return next_ns;
}

void
slam_schedule_end(struct slam_flow *flow)
{
    if (flow->stream->trace)
        slam_replay_end(flow);
    for (; flow->backlog_len > 0; flow->backlog_len--) {
        arrival_record(flow, &flow->backlog[flow->backlog_head])->dropped++;
        flow->backlog_head = (flow->backlog_head + 1) % flow->backlog_cap;
    }
    slam_channel_tally_down(flow, slam_clock_mono_ns());
    flow->ended = true;
    flow->next_arrival_ns = UINT64_MAX;
    flow->think_head = flow->think_tail = NULL;
    flow->next_start = flow->conn_count;
}

bool
slam_schedule_is_over(const struct slam_flow *flow)
{
    if (flow->stream->trace)
        return slam_replay_is_over(flow);
    if (flow->stream->settings.total_operations == 0 || flow->active > 0)
        return false;
    if (flow->ended)
        return true;
    return flow->stream->settings.open
               ? flow->next_arrival_ns == UINT64_MAX && flow->backlog_len == 0
               : flow->sessions_left == 0;
}
