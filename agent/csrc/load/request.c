/* SPDX-License-Identifier: Apache-2.0 */
#include "load/request.h"

#include "core/clock.h"
#include "load/bind.h"
#include "load/channel.h"
#include "load/replay.h"
#include "load/schedule.h"
#include "load/session.h"

#include <string.h>
#include <sys/epoll.h>

/* -- sending -- */

static void
arm_write(struct slam_conn *conn, bool wanted)
{
    struct epoll_event event = {.events = SLAM_EPOLL_EVENTS, .data.ptr = conn};

    if (wanted)
        event.events |= EPOLLOUT;
    epoll_ctl(conn->flow->worker->epoll_fd, EPOLL_CTL_MOD,
              slam_wire_fd(conn->link.wire), &event);
    conn->waits_for_write = wanted;
}

static int32_t
next_message_id(struct slam_conn *conn, uint32_t slot_index)
{
    uint32_t bits = conn->flow->slot_bits;
    int32_t id = (int32_t)((conn->generation << bits) | slot_index);

    if (conn->generation++ >= (UINT32_C(0x7fffffff) >> bits))
        conn->generation = SLAM_FIRST_GENERATION;
    return id;
}

/* Hands a request to the socket. False when the connection was lost by it. */
static bool
transmit(struct slam_conn *conn, const uint8_t *pdu, size_t len)
{
    uint64_t limit = conn->flow->stream->settings.connection.reconnect_operations;
    ssize_t written = slam_wire_write(conn->link.wire, pdu, len);

    /* at its limit, it gets no new session: it is replaced when the last one is over */
    if (++conn->requests == limit)
        conn->retiring = true;
    if (written < 0) {
        slam_channel_lose(conn);
        return false;
    }
    if ((size_t)written < len) {
        conn->tx_len = len - (size_t)written;
        conn->tx_pos = 0;
        memcpy(conn->tx, pdu + written, conn->tx_len);
        arm_write(conn, true);
    }
    return true;
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
    slam_request_send(slot);
}

/* An unbind request was sent: nothing follows on this connection. */
static void
unbound(struct slam_slot *slot)
{
    struct slam_flow *flow = slot->conn->flow;
    struct slam_op_record *record = slam_flow_op_record(flow, slot->op, slot->measured);

    slam_channel_answered(flow, slot);
    record->completed++;
    record->succeeded++;
    slot->conn->retiring = slot->conn->unbound = true;
    slam_session_unanswered(slot, slot->sent_ns);
}

void
slam_request_send(struct slam_slot *slot)
{
    struct slam_conn *conn = slot->conn;
    struct slam_flow *flow = conn->flow;
    struct slam_worker *worker = flow->worker;
    const struct slam_stream_op *op = &flow->stream->ops[slot->op];
    struct slam_draw draw = {.rng = &flow->values_rng, .share = &flow->share};
    struct slam_value_state *states = flow->value_states + flow->first_state[slot->op];
    uint8_t *end = worker->pdu + worker->pdu_len;
    struct slam_op_record *record;
    size_t len;

    slot->measured = slam_flow_measures(flow, slot->intended_ns);
    if (conn->waits_for_write) {
        slot->state = SLAM_SLOT_BLOCKED;
        return;
    }
    if (flow->sessions) {
        draw.variables = slam_flow_session(flow, slot)->variables;
        draw.message_id_of_previous = slot->message_id;
        if (op->extras) {
            if (!slam_session_prepare(slot, &draw, &states))
                return;
            op = &flow->stream->ops[slot->op]; /* it may be another one now */
        }
    }
    record = slam_flow_op_record(flow, slot->op, slot->measured);
    record->sent++;
    record->requests++;
    slot->state = SLAM_SLOT_SENT;
    slot->message_id = next_message_id(conn, (uint32_t)(slot - conn->slots));
    len = flow->replayed ? slam_replay_encode(conn, slot->message_id, end)
                         : slam_op_encode(op->op, states, &draw, worker->scratch,
                                          slot->message_id, end);
    /* sent: just before the kernel is offered the first byte. What a full socket delays
     * after that is the network's and the directory's time. */
    slot->sent_ns = slam_clock_mono_ns();
    slam_channel_sent(flow, slot);
    if (!transmit(conn, end - len, len))
        return;
    slam_channel_offer(conn, slot->sent_ns);
    if (op->action == SLAM_ACTION_UNBIND)
        unbound(slot);
    else if (op->extras && !op->extras->awaits)
        slam_session_await_not(slot);
}

/* The next request of a bind of several steps: the same operation to those who wait. */
void
slam_request_send_again(struct slam_slot *slot)
{
    struct slam_conn *conn = slot->conn;
    struct slam_flow *flow = conn->flow;
    struct slam_worker *worker = flow->worker;
    const struct slam_stream_op *op = &flow->stream->ops[slot->op];
    const struct slam_draw draw = {.rng = &flow->values_rng,
                                   .share = &flow->share,
                                   .variables =
                                       slam_flow_session(flow, slot)->variables};
    uint8_t *end = worker->pdu + worker->pdu_len;
    size_t len;

    if (conn->waits_for_write) {
        /* answered before the directory had all of the request */
        slam_flow_stream_record(flow)->protocol_errors++;
        slam_channel_lose(conn);
        return;
    }
    slot->message_id = next_message_id(conn, (uint32_t)(slot - conn->slots));
    len = slam_op_encode(op->op, slam_session_states(flow, slot->op), &draw,
                         worker->scratch, slot->message_id, end);
    slam_flow_op_record(flow, slot->op, slot->measured)->requests++;
    transmit(conn, end - len, len);
}

bool
slam_request_abandon(struct slam_slot *slot, uint32_t op)
{
    struct slam_conn *conn = slot->conn;
    struct slam_flow *flow = conn->flow;
    struct slam_worker *worker = flow->worker;
    const struct slam_draw draw = {.rng = &flow->values_rng,
                                   .share = &flow->share,
                                   .variables =
                                       slam_flow_session(flow, slot)->variables,
                                   .message_id_of_previous = slot->message_id};
    uint8_t *end = worker->pdu + worker->pdu_len;
    struct slam_op_record *record;
    size_t len;

    record = slam_flow_op_record(flow, op, slot->measured);
    record->scheduled++;
    record->sent++;
    record->requests++;
    record->completed++;
    record->succeeded++;
    slam_channel_answered(flow, slot);
    slam_flow_op_record(flow, slot->op, slot->measured)->abandoned++;
    slot->state = SLAM_SLOT_PAUSED;
    slot->sent_ns = slam_clock_mono_ns();
    conn->abandons = true;
    len = slam_op_encode(flow->stream->ops[op].op, slam_session_states(flow, op), &draw,
                         worker->scratch,
                         next_message_id(conn, (uint32_t)(slot - conn->slots)), end);
    if (!transmit(conn, end - len, len))
        return false;
    slam_channel_offer(conn, slot->sent_ns);
    return true;
}

void
slam_request_finish(struct slam_slot *slot, uint64_t received_ns, uint64_t done_ns)
{
    struct slam_conn *conn = slot->conn;

    slam_session_end(slot);
    slam_channel_release(slot);
    slam_channel_freed(conn, received_ns, done_ns);
}

void
slam_request_give_connection_up(struct slam_conn *conn)
{
    slam_channel_lose(conn);
}

static void
flush(struct slam_conn *conn)
{
    while (conn->tx_pos < conn->tx_len) {
        ssize_t n = slam_wire_write(conn->link.wire, conn->tx + conn->tx_pos,
                                    conn->tx_len - conn->tx_pos);

        if (n < 0) {
            slam_channel_lose(conn);
            return;
        }
        if (n == 0)
            return;
        conn->tx_pos += (size_t)n;
    }
    arm_write(conn, false);
    for (uint32_t i = 0; i < conn->flow->stream->settings.in_flight && conn->up; i++)
        if (conn->slots[i].state == SLAM_SLOT_BLOCKED && !conn->waits_for_write)
            slam_request_send(&conn->slots[i]);
    if (conn->up && conn->flow->stream->trace) {
        slam_replay_free(conn, slam_clock_mono_ns());
    } else if (conn->up && conn->flow->stream->settings.open) {
        slam_channel_offer(conn, slam_clock_mono_ns());
        slam_schedule_slot_free(conn->flow);
    }
}

/* -- receiving -- */

/* Kernel stamp on CLOCK_MONOTONIC; done_ns where there is none, or where a step of the
 * wall clock since the last reading makes it impossible. */
static uint64_t
received_ns(const struct slam_slot *slot, uint64_t done_ns)
{
    const struct slam_flow *flow = slot->conn->flow;
    uint64_t stamp = slam_wire_stamp_ns(slot->conn->link.wire);
    uint64_t received = stamp - flow->worker->realtime_offset_ns;

    if (stamp != 0 && received >= slot->sent_ns && received <= done_ns)
        return received;
    slam_flow_stream_record(flow)->stamps_missing++;
    return done_ns;
}

static void
complete(struct slam_slot *slot, const struct slam_stream_op *op, int32_t code,
         const struct slam_bytes *content, uint64_t done_ns)
{
    struct slam_conn *conn = slot->conn;
    struct slam_flow *flow = conn->flow;
    struct slam_op_record *record = slam_flow_op_record(flow, slot->op, slot->measured);
    uint64_t received = received_ns(slot, done_ns);
    uint32_t counted =
        (uint32_t)code < SLAM_RESULT_CODES ? (uint32_t)code : SLAM_RESULT_CODES;
    enum slam_outcome outcome = op->outcomes[counted];
    struct slam_histogram *h;

    if (op->extras)
        outcome = slam_session_answered(slot, op, code, outcome, content);
    h = record->histograms[outcome];
    record->completed++;
    if (outcome == SLAM_SUCCEEDED)
        record->succeeded++;
    else if (outcome == SLAM_EXPECTED)
        record->expected++;
    else
        record->failed++;
    record->result_codes[counted]++;
    slam_histogram_record(&h[SLAM_RESPONSE_TIME],
                          slam_since_ns(received, slot->intended_ns));
    slam_histogram_record(&h[SLAM_SERVICE_TIME],
                          slam_since_ns(received, slot->sent_ns));
    slam_histogram_record(&h[SLAM_SEND_LAG], slam_send_lag_ns(slot));
    slam_histogram_record(&h[SLAM_RECEIVE_LAG], slam_since_ns(done_ns, received));
    if (flow->stream->settings.open)
        slam_histogram_record(&h[SLAM_BACKLOG_WAIT],
                              slam_since_ns(slot->slot_free_ns, slot->intended_ns));
    slam_flow_stream_record(flow)->last_done_ns = done_ns;
    slam_channel_answered(flow, slot);
    if (flow->sessions)
        slam_session_go_on(slot, op, outcome, received, done_ns);
    else
        slam_request_finish(slot, received, done_ns);
}

/* The late response of a request that was counted as timed out. */
static void
complete_late(struct slam_slot *slot, uint64_t done_ns)
{
    struct slam_conn *conn = slot->conn;

    slam_flow_stream_record(conn->flow)->late_responses++;
    conn->timed_out--;
    slam_channel_release(slot);
    slam_channel_freed(conn, done_ns, done_ns);
}

/* A message that belongs to no request in flight. */
static void
count_unasked(const struct slam_conn *conn, const struct slam_pdu *pdu)
{
    struct slam_stream_record *record = slam_flow_stream_record(conn->flow);
    uint32_t generation = (uint32_t)pdu->message_id >> conn->flow->slot_bits;

    if (conn->abandons && generation >= SLAM_FIRST_GENERATION &&
        generation < conn->generation)
        record->late_responses++;
    else
        record->unexpected_messages++;
}

/* One message from the directory; content is NULL where the stream does not read it.
 * Returns false when the connection must be given up. */
static bool
message(struct slam_conn *conn, const struct slam_pdu *pdu,
        const struct slam_bytes *content, uint64_t done_ns)
{
    struct slam_flow *flow = conn->flow;
    uint32_t slot_index = (uint32_t)pdu->message_id & ((1u << flow->slot_bits) - 1u);
    const struct slam_stream_op *op;
    struct slam_slot *slot;

    if (pdu->message_id == 0) {
        /* RFC 4511 4.4: the directory is about to close, or tells of something else */
        slam_flow_stream_record(flow)->notices++;
        return true;
    }
    slot =
        slot_index < flow->stream->settings.in_flight ? &conn->slots[slot_index] : NULL;
    if (!slot ||
        (slot->state != SLAM_SLOT_SENT && slot->state != SLAM_SLOT_TIMED_OUT) ||
        slot->message_id != pdu->message_id) {
        count_unasked(conn, pdu);
        return true;
    }
    op = &flow->stream->ops[slot->op];
    if (pdu->tag == SLAM_PDU_INTERMEDIATE_RESPONSE)
        return true;
    if (pdu->tag == SLAM_PDU_SEARCH_ENTRY || pdu->tag == SLAM_PDU_SEARCH_REFERENCE) {
        struct slam_op_record *record =
            slam_flow_op_record(flow, slot->op, slot->measured);

        if (op->response_tag != SLAM_PDU_SEARCH_DONE)
            return false;
        if (slot->state == SLAM_SLOT_TIMED_OUT)
            return true;
        if (pdu->tag == SLAM_PDU_SEARCH_REFERENCE) {
            record->references++;
            return true;
        }
        record->entries++;
        if (op->extras && op->extras->capture_count > 0)
            slam_session_entry(slot, op, content);
        return true;
    }
    if (pdu->tag != op->response_tag)
        return false;
    if (slot->state == SLAM_SLOT_TIMED_OUT)
        complete_late(slot, done_ns);
    else if (!op->extras || !slam_bind_continue(slot, op, pdu->result_code, content))
        complete(slot, op, pdu->result_code, content, done_ns);
    return true;
}

/* Keeps what a stream reads of a response that comes in several reads. Returns the
 * message once it has passed: whole, or the first SLAM_KEEP_BYTES of it. */
static struct slam_bytes
keep(struct slam_conn *conn, const uint8_t *from, size_t len, bool complete_now)
{
    struct slam_bytes message = {.at = from, .len = len};
    size_t room = SLAM_KEEP_BYTES - conn->kept_len;

    if (complete_now && conn->kept_len == 0)
        return message;
    len = len < room ? len : room;
    memcpy(conn->kept + conn->kept_len, from, len);
    conn->kept_len += len;
    message = (struct slam_bytes){.at = conn->kept, .len = conn->kept_len};
    if (complete_now)
        conn->kept_len = 0;
    return message;
}

/* The messages in what was read. Returns false when the connection must be given up;
 * it may also be lost, or another in its place, by what a message had sent. */
static bool
messages(struct slam_conn *conn, const uint8_t *data, size_t len, uint64_t done_ns)
{
    bool reads_content = conn->flow->stream->reads_content;
    const char *reason;
    struct slam_pdu pdu;

    for (;;) {
        const uint8_t *from = data;
        struct slam_bytes content = {0};
        int rc = slam_pdu_next(&conn->parser, &data, &len, &pdu, &reason);

        if (rc < 0)
            return false;
        if (reads_content && data > from)
            content = keep(conn, from, (size_t)(data - from), rc == 1);
        if (rc == 0)
            return true;
        if (!message(conn, &pdu, &content, done_ns))
            return false;
        if (!conn->up)
            return true;
    }
}

static void
receive(struct slam_conn *conn, bool hung_up)
{
    struct slam_worker *worker = conn->flow->worker;

    slam_wire_readable(conn->link.wire, hung_up);
    /* a completion may lose this connection by sending on it: `up` tells */
    while (conn->up) {
        ssize_t n = slam_wire_read(conn->link.wire, worker->rx, sizeof(worker->rx));

        if (n == 0 && slam_wire_was_cut(conn->link.wire))
            arm_write(conn, conn->waits_for_write); /* watching anew is another edge */
        /* after our unbind the directory closes first: that is no loss */
        if (n == 0 || conn->unbound)
            return;
        if (n < 0) {
            slam_channel_lose(conn);
            return;
        }
        if (!messages(conn, worker->rx, (size_t)n, slam_clock_mono_ns())) {
            slam_flow_stream_record(conn->flow)->protocol_errors++;
            slam_channel_lose(conn);
            return;
        }
    }
}

void
slam_request_prefetch(const struct slam_conn *conn, bool near)
{
    if (!near) {
        for (size_t line = 0; line < sizeof(*conn); line += SLAM_CACHE_LINE)
            __builtin_prefetch((const char *)conn + line, 1);
    } else if (conn->up) {
        __builtin_prefetch(conn->link.wire, 1);
        __builtin_prefetch(conn->slots, 1);
    }
}

void
slam_request_io(struct slam_conn *conn, uint32_t events)
{
    if (conn->up && (events & EPOLLOUT) && conn->waits_for_write)
        flush(conn);
    if (conn->up && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
        receive(conn, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
}
