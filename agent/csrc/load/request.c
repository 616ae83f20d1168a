/* SPDX-License-Identifier: Apache-2.0 */
#include "load/request.h"

#include "load/connection.h"
#include "load/session.h"

#include <errno.h>
#include <string.h>

static int32_t
next_message_id(const struct slam_slot *slot)
{
    struct slam_conn *conn = slot->conn;
    uint32_t bits = conn->flow->slot_bits;
    uint32_t index = (uint32_t)(slot - conn->slots);
    int32_t id = (int32_t)((conn->generation << bits) | index);

    if (conn->generation++ >= (UINT32_C(0x7fffffff) >> bits))
        conn->generation = SLAM_FIRST_GENERATION;
    return id;
}

static struct slam_draw
draw_of(const struct slam_slot *slot)
{
    struct slam_flow *flow = slot->conn->flow;
    const struct slam_session_state *session = slam_flow_session(flow, slot);

    return (struct slam_draw){.rng = &flow->values_rng,
                              .partition = &flow->partition,
                              .variables = session ? session->variables : NULL,
                              .message_id_of_previous = slot->message_id};
}

static void
transmit(struct slam_conn *conn, const uint8_t *pdu, size_t len, uint64_t sent_ns)
{
    uint64_t limit = conn->flow->stream->settings.connection.reconnect_operations;
    ssize_t written = slam_transport_write(conn->request.transport, pdu, len);

    /* at its limit it gets no new session, and is replaced when its sessions are over
     */
    if (++conn->requests == limit && conn->state == SLAM_CONN_UP) {
        slam_conn_move(conn, SLAM_CONN_DRAIN);
        slam_conn_make_ready(conn);
    }
    if (written < 0) {
        slam_conn_break(conn, slam_loss_of_errno(errno));
    } else if ((size_t)written < len) {
        conn->tx_len = len - (size_t)written;
        conn->tx_pos = 0;
        conn->tx_since_ns = sent_ns;
        memcpy(conn->tx, pdu + written, conn->tx_len);
        slam_conn_watch(conn);
        slam_conn_make_ready(conn);
    }
}

/* False: the request is not to be sent. */
static bool
prepare(struct slam_slot *slot, struct slam_draw *draw,
        struct slam_partition_cursor **states)
{
    enum slam_prepared prepared = slam_session_prepare(slot, draw, states);

    if (prepared == SLAM_PREPARED_FAILED) {
        /* not again at once: a new connection comes after a wait */
        slot->state = SLAM_SLOT_BLOCKED;
        slam_conn_break(slot->conn, SLAM_CAUSE_lost_otherwise);
    }
    return prepared == SLAM_PREPARED;
}

static void
unbound(struct slam_slot *slot)
{
    struct slam_server *server = slot->conn->server;
    struct slam_op_record *record =
        slam_conn_op_record(slot->conn, slot->op, slot->measured);

    slam_slot_answered(slot);
    record->completed++;
    record->succeeded++;
    slam_server_record(server)->last_done_ns = slot->sent_ns;
    slam_wait_forget(&server->wait, slam_server_oldest_ns(server));
    slam_conn_move(slot->conn, SLAM_CONN_UNBIND);
    slam_session_no_response(slot, slot->sent_ns);
}

/* The session of a request that is not awaited: the step after it is due. */
static void
pause_before_next(struct slam_slot *slot)
{
    const struct slam_step *next = &slot->conn->flow->stream->steps[slot->step + 1];

    slam_session_pause(slot, next->pause_list, slot->sent_ns + next->pause_ns);
}

static void
send_request(struct slam_slot *slot)
{
    struct slam_conn *conn = slot->conn;
    struct slam_flow *flow = conn->flow;
    struct slam_worker *worker = flow->worker;
    struct slam_draw draw = draw_of(slot);
    struct slam_partition_cursor *states =
        flow->value_states + flow->first_state[slot->op];
    const struct slam_stream_op *op = &flow->stream->ops[slot->op];
    struct slam_op_record *record;
    size_t len;

    slot->measured = slam_flow_measures(flow, slot->intended_ns);
    if (flow->sessions)
        slam_flow_session(flow, slot)->own_ns = 0;
    if (conn->tx_len > 0) {
        slot->state = SLAM_SLOT_BLOCKED;
        return;
    }
    if (op->spec && !prepare(slot, &draw, &states))
        return;
    op = &flow->stream->ops[slot->op]; /* prepare may have chosen another operation */
    record = slam_conn_op_record(conn, slot->op, slot->measured);
    record->sent++;
    record->requests++;
    slot->state = SLAM_SLOT_SENT;
    slot->has_entry = false;
    slot->message_id = next_message_id(slot);
    len = conn->record ? slam_trace_encode(conn->record, slot->message_id, worker->pdu)
                       : slam_template_encode(op->template, states, &draw,
                                              slot->message_id, worker->pdu);
    /* just before the kernel is offered the first byte: what a full socket delays is
     * the network's and the directory's time */
    slot->sent_ns = slam_clock_mono_ns();
    slam_slot_sent(slot);
    transmit(conn, worker->pdu, len, slot->sent_ns);
    if (conn->state == SLAM_CONN_BROKEN)
        return;
    if (op->action == SLAM_ACTION_UNBIND)
        unbound(slot);
    else if (op->spec && !op->spec->awaits)
        pause_before_next(slot);
}

/* Sends a request that is not a step of the slot's session. Returns its messageID. */
static int32_t
send_beside(struct slam_slot *slot, uint32_t op, uint64_t *sent_ns)
{
    struct slam_flow *flow = slot->conn->flow;
    struct slam_worker *worker = flow->worker;
    const struct slam_draw draw = draw_of(slot);
    int32_t message_id = next_message_id(slot);
    size_t len = slam_template_encode(flow->stream->ops[op].template,
                                      slam_session_states(flow, op), &draw, message_id,
                                      worker->pdu);

    slam_conn_op_record(slot->conn, op, slot->measured)->requests++;
    *sent_ns = slam_clock_mono_ns();
    transmit(slot->conn, worker->pdu, len, *sent_ns);
    return message_id;
}

void
slam_request_send_again(struct slam_slot *slot, uint64_t received_ns)
{
    struct slam_conn *conn = slot->conn;
    uint64_t sent_ns;

    if (conn->tx_len > 0) {
        /* answered before the directory had all of the request */
        slam_server_record(conn->server)->protocol_errors++;
        slam_conn_break(conn, SLAM_CAUSE_lost_invalid);
        return;
    }
    slot->message_id = send_beside(slot, slot->op, &sent_ns);
    slam_flow_session(conn->flow, slot)->own_ns += sent_ns - received_ns;
}

static void
send_abandon(struct slam_slot *slot, uint32_t op)
{
    struct slam_flow *flow = slot->conn->flow;
    struct slam_server *server = slot->conn->server;
    struct slam_op_record *record = slam_conn_op_record(slot->conn, op, slot->measured);

    slam_flow_op_record(flow, op, slot->measured)->scheduled++;
    record->sent++;
    record->completed++;
    record->succeeded++;
    slam_slot_answered(slot);
    slam_conn_op_record(slot->conn, slot->op, slot->measured)->abandoned++;
    slot->state = SLAM_SLOT_PAUSED;
    slot->conn->has_abandoned = true;
    send_beside(slot, op, &slot->sent_ns);
    slam_server_record(server)->last_done_ns = slot->sent_ns;
    slam_wait_forget(&server->wait, slam_server_oldest_ns(server));
}

void
slam_request_flush(struct slam_conn *conn)
{
    if (!slam_conn_is_open(conn) || conn->tx_len == 0)
        return;
    while (conn->tx_pos < conn->tx_len) {
        ssize_t n =
            slam_transport_write(conn->request.transport, conn->tx + conn->tx_pos,
                                 conn->tx_len - conn->tx_pos);

        if (n < 0)
            slam_conn_break(conn, slam_loss_of_errno(errno));
        if (n <= 0)
            return;
        conn->tx_pos += (size_t)n;
    }
    conn->tx_len = 0;
    slam_conn_watch(conn);
    for (uint32_t i = 0; i < conn->flow->stream->settings.in_flight; i++)
        if (conn->slots[i].state == SLAM_SLOT_BLOCKED && conn->tx_len == 0 &&
            slam_conn_is_open(conn))
            send_request(&conn->slots[i]);
    slam_conn_make_ready(conn);
}

void
slam_request_begin(struct slam_conn *conn, uint32_t script, uint64_t intended_ns,
                   uint64_t slot_free_ns)
{
    struct slam_flow *flow = conn->flow;
    const struct slam_stream *stream = flow->stream;
    struct slam_slot *slot = &conn->slots[conn->free_head];

    conn->free_head = slot->next_free;
    conn->free_count--;
    flow->active++;
    flow->worker->active++;
    slot->step = (uint16_t)stream->scripts[script].first_step;
    slot->op = (uint16_t)stream->steps[slot->step].op;
    slot->intended_ns = intended_ns;
    slot->slot_free_ns = slot_free_ns;
    if (flow->sessions)
        slam_flow_session(flow, slot)->begun_ns = intended_ns;
    send_request(slot);
}

static void
end(struct slam_slot *slot, uint64_t received_ns, uint64_t done_ns)
{
    slam_session_end(slot);
    slam_conn_free_slot(slot, received_ns, done_ns);
}

static void
send_step(struct slam_slot *slot, uint64_t intended_ns)
{
    struct slam_flow *flow = slot->conn->flow;

    slot->op = (uint16_t)flow->stream->steps[slot->step].op;
    slot->intended_ns = intended_ns;
    slot->slot_free_ns = 0;
    slam_flow_op_record(flow, slot->op, slam_flow_measures(flow, intended_ns))
        ->scheduled++;
    send_request(slot);
}

/* Begins the step that the slot stands at, after its pause. */
static void
enter(struct slam_slot *slot, uint64_t since_ns)
{
    const struct slam_step *step = &slot->conn->flow->stream->steps[slot->step];

    if (step->pause_ns == 0) {
        send_step(slot, since_ns);
        return;
    }
    slot->state = SLAM_SLOT_PAUSED;
    slam_session_pause(slot, step->pause_list, since_ns + step->pause_ns);
}

/* The session's request is still in flight: it is given up. */
static void
abandon(struct slam_slot *slot)
{
    const struct slam_step *step = &slot->conn->flow->stream->steps[slot->step + 1];

    if (slot->conn->tx_len > 0)
        return; /* no way to tell the directory: its response ends the session */
    send_abandon(slot, step->op);
    if (slot->conn->state == SLAM_CONN_BROKEN)
        return; /* its loss ends the session */
    slot->step++;
    if (step->last) {
        slam_session_no_response(slot, slot->sent_ns);
    } else {
        slot->step++;
        enter(slot, slot->sent_ns);
    }
}

static void
resume(struct slam_session_state *session)
{
    struct slam_slot *slot = session->slot;

    slam_session_resume(slot->conn->flow, session);
    if (slot->conn->state == SLAM_CONN_BROKEN)
        return; /* its loss ends the session */
    if (session->ending)
        end(slot, session->due_ns, session->due_ns);
    else if (slot->state == SLAM_SLOT_SENT)
        abandon(slot);
    else
        send_step(slot, session->due_ns);
}

void
slam_request_run_paused(struct slam_flow *flow, uint64_t now_ns)
{
    struct slam_session_state *session;

    for (uint32_t i = 0; flow->pauses && i <= flow->stream->pause_count; i++)
        while ((session = TAILQ_FIRST(&flow->pauses[i])) && session->due_ns <= now_ns)
            resume(session);
}

void
slam_request_advance(struct slam_slot *slot, const struct slam_stream_op *op,
                     enum slam_outcome outcome, uint64_t received_ns, uint64_t done_ns)
{
    struct slam_flow *flow = slot->conn->flow;
    const struct slam_step *steps = flow->stream->steps;
    struct slam_session_state *session = slam_flow_session(flow, slot);

    if (!session) {
        end(slot, received_ns, done_ns);
        return;
    }
    slam_session_resume(flow, session);
    if (outcome != SLAM_FAILED && session->has_more) {
        send_step(slot, done_ns); /* its pause was before the first page */
        return;
    }
    /* what came before its abandon request was sent needs none */
    if (op->spec && !op->spec->awaits)
        slot->step++;
    if (outcome == SLAM_FAILED || steps[slot->step].last) {
        end(slot, received_ns, done_ns);
        return;
    }
    slot->step++;
    enter(slot, done_ns);
}
