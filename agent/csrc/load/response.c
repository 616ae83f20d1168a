/* SPDX-License-Identifier: Apache-2.0 */
#include "load/response.h"

#include "load/connection.h"
#include "load/model.h"
#include "load/request.h"
#include "load/session.h"

#include <errno.h>
#include <string.h>

/* One stamp may be of several responses: counts each of them. */
static void
count_stamp(struct slam_conn *conn, uint64_t stamp_ns,
            struct slam_stream_record *record)
{
    bool again = stamp_ns == conn->stamp_ns;

    if (again)
        record->shared_stamps += conn->stamp_is_shared ? 1 : 2;
    conn->stamp_ns = stamp_ns;
    conn->stamp_is_shared = again;
}

/* Kernel stamp on CLOCK_MONOTONIC; done_ns where there is none, or where a step of the
 * wall clock makes it impossible. */
static uint64_t
received_ns(const struct slam_slot *slot, uint64_t done_ns)
{
    struct slam_stream_record *record = slam_server_record(slot->conn->server);
    uint64_t stamp = slam_transport_stamp_ns(slot->conn->request.transport);
    uint64_t received = stamp - slot->conn->flow->worker->realtime_offset_ns;

    if (stamp == 0 || received < slot->sent_ns || received > done_ns) {
        record->stamps_missing++;
        return done_ns;
    }
    count_stamp(slot->conn, stamp, record);
    return received;
}

/* The whole time of a session of several requests: steps, or pages of a search. */
static void
record_sequence(const struct slam_slot *slot, enum slam_outcome outcome,
                uint64_t received, struct slam_histogram *h)
{
    const struct slam_flow *flow = slot->conn->flow;
    const struct slam_session_state *session = slam_flow_session(flow, slot);

    if (session && outcome != SLAM_FAILED && !session->has_more &&
        flow->stream->steps[slot->step].answers_last &&
        slot->intended_ns > session->begun_ns)
        slam_histogram_record(&h[SLAM_SEQUENCE_TIME],
                              slam_since_ns(received, session->begun_ns));
}

static void
keep_diagnostic(struct slam_op_record *record, uint32_t result_code,
                const struct slam_bytes *content)
{
    struct slam_bytes text;

    if (slam_content_diagnostic(content->at, content->len, &text))
        slam_op_record_diagnostic(record, result_code, text.at, text.len);
}

/* A message of a response ends the wait. */
static void
responded(struct slam_server *server, uint64_t received_ns)
{
    slam_wait_responded(&server->wait, slam_server_record(server), received_ns,
                        slam_server_oldest_ns(server));
}

static void
complete(struct slam_slot *slot, const struct slam_stream_op *op, int32_t code,
         const struct slam_bytes *content, uint64_t done_ns)
{
    struct slam_flow *flow = slot->conn->flow;
    struct slam_op_record *record =
        slam_conn_op_record(slot->conn, slot->op, slot->measured);
    uint64_t received = received_ns(slot, done_ns);
    uint32_t counted = slam_result_code(code);
    enum slam_outcome outcome = op->outcomes[counted];
    struct slam_histogram *h;

    if (op->spec)
        outcome = slam_session_answered(slot, op, code, outcome, content);
    slam_op_record_response(record, counted, outcome,
                            op->response_tag == SLAM_PDU_SEARCH_DONE &&
                                !slot->has_entry);
    if (outcome == SLAM_FAILED)
        keep_diagnostic(record, counted, content);
    h = slam_op_record_outcome(record, outcome, slot->intended_ns, slam_sent_ns(slot),
                               received);
    slam_histogram_record(&h[SLAM_SEND_LAG], slam_send_lag_ns(slot));
    slam_histogram_record(&h[SLAM_RECEIVE_LAG], slam_since_ns(done_ns, received));
    if (flow->model->has_backlog)
        slam_histogram_record(&h[SLAM_BACKLOG_WAIT],
                              slam_since_ns(slot->slot_free_ns, slot->intended_ns));
    record_sequence(slot, outcome, received, h);
    slam_slot_answered(slot);
    slam_server_record(slot->conn->server)->last_done_ns = done_ns;
    responded(slot->conn->server, received);
    slot->conn->failures = 0;
    slam_request_advance(slot, op, outcome, received, done_ns);
}

/* The late response of a request that was counted as timed out. */
static void
complete_late(struct slam_slot *slot, uint64_t done_ns)
{
    struct slam_conn *conn = slot->conn;

    slam_server_record(conn->server)->late_responses++;
    responded(conn->server, done_ns);
    conn->timed_out--;
    slam_conn_free_slot(slot, done_ns, done_ns);
}

static void
count_unsolicited(const struct slam_conn *conn, const struct slam_pdu *pdu)
{
    struct slam_stream_record *record = slam_server_record(conn->server);
    uint32_t generation = (uint32_t)pdu->message_id >> conn->flow->slot_bits;

    if (conn->has_abandoned && generation >= SLAM_FIRST_GENERATION &&
        generation < conn->generation)
        record->late_responses++;
    else
        record->unexpected_messages++;
}

/* Handles a message. False: the connection must be given up. */
static bool
message(struct slam_conn *conn, const struct slam_pdu *pdu,
        const struct slam_bytes *content, uint64_t done_ns)
{
    struct slam_flow *flow = conn->flow;
    uint32_t slot_index = (uint32_t)pdu->message_id & ((1u << flow->slot_bits) - 1u);
    const struct slam_stream_op *op;
    struct slam_slot *slot;

    if (pdu->message_id == 0) {
        /* RFC 4511 4.4: the directory is about to close, or sends another notice */
        slam_server_record(conn->server)->notices++;
        conn->loss = SLAM_CAUSE_lost_notice;
        return true;
    }
    slot =
        slot_index < flow->stream->settings.in_flight ? &conn->slots[slot_index] : NULL;
    if (!slot ||
        (slot->state != SLAM_SLOT_SENT && slot->state != SLAM_SLOT_TIMED_OUT) ||
        slot->message_id != pdu->message_id) {
        count_unsolicited(conn, pdu);
        return true;
    }
    op = &flow->stream->ops[slot->op];
    if (pdu->tag == SLAM_PDU_INTERMEDIATE_RESPONSE)
        return true;
    if (pdu->tag == SLAM_PDU_SEARCH_ENTRY || pdu->tag == SLAM_PDU_SEARCH_REFERENCE) {
        struct slam_op_record *record =
            slam_conn_op_record(conn, slot->op, slot->measured);

        if (op->response_tag != SLAM_PDU_SEARCH_DONE)
            return false;
        responded(conn->server, done_ns);
        if (slot->state == SLAM_SLOT_TIMED_OUT)
            return true;
        if (pdu->tag == SLAM_PDU_SEARCH_REFERENCE) {
            record->references++;
            return true;
        }
        record->entries++;
        slot->has_entry = true;
        if (op->spec && op->spec->capture_count > 0)
            slam_session_entry(slot, op, content);
        return true;
    }
    if (pdu->tag != op->response_tag)
        return false;
    if (slot->state == SLAM_SLOT_TIMED_OUT)
        complete_late(slot, done_ns);
    else if (op->spec &&
             slam_session_continue_bind(slot, op, pdu->result_code, content))
        slam_request_send_again(slot, received_ns(slot, done_ns));
    else
        complete(slot, op, pdu->result_code, content, done_ns);
    return true;
}

/* Keeps the parts of a response that comes in several reads. Returns the message once
 * it has passed, up to SLAM_KEEP_BYTES of it. */
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

/* The messages in what was read. Returns false when the connection must be given up. */
static bool
messages(struct slam_conn *conn, const uint8_t *data, size_t len, uint64_t done_ns)
{
    bool reads_content = conn->flow->stream->reads_content;
    struct slam_pdu pdu;

    for (;;) {
        struct slam_bytes content = {.at = data};
        int rc = slam_pdu_next(&conn->parser, &data, &len, &pdu);

        if (rc < 0)
            return false;
        content.len = (size_t)(data - content.at);
        if (reads_content && content.len > 0)
            content = keep(conn, content.at, content.len, rc == 1);
        if (rc == 0)
            return true;
        if (!reads_content && content.len < pdu.len)
            content.len = 0; /* the message's end: it began in an earlier read */
        if (!message(conn, &pdu, &content, done_ns))
            return false;
        if (conn->state == SLAM_CONN_BROKEN) /* by what the message had sent */
            return true;
    }
}

void
slam_response_expect(struct slam_conn *conn, bool hung_up)
{
    if (slam_conn_is_open(conn))
        slam_transport_readable(conn->request.transport, hung_up);
}

/* When what was read is handled, by the worker's clock. */
static uint64_t
read_clocks(struct slam_worker *worker, const struct slam_transport *transport)
{
    uint64_t now_ns = slam_clock_mono_ns();

    if (slam_transport_stamp_ns(transport) != 0)
        slam_thread_follow_offset(&worker->realtime_offset_ns,
                                  slam_clock_read_ns(CLOCK_REALTIME) - now_ns);
    return now_ns;
}

bool
slam_response_read(struct slam_conn *conn)
{
    struct slam_worker *worker = conn->flow->worker;
    enum slam_loss loss;
    ssize_t n;

    if (!slam_conn_is_open(conn))
        return false;
    n = slam_transport_read(conn->request.transport, worker->rx, sizeof(worker->rx));
    if (n == 0 && slam_transport_was_cut(conn->request.transport))
        slam_conn_watch(conn); /* it raises another edge */
    /* after our unbind the directory closes first: that is no loss */
    if (n == 0 || conn->state == SLAM_CONN_UNBOUND)
        return false;
    if (n > 0 && messages(conn, worker->rx, (size_t)n,
                          read_clocks(worker, conn->request.transport)))
        return true;
    loss = n > 0 ? SLAM_CAUSE_lost_invalid : slam_loss_of_errno(errno);
    if (n > 0)
        slam_server_record(conn->server)->protocol_errors++;
    slam_conn_break(conn, loss);
    return false;
}

void
slam_response_prefetch(const struct slam_conn *conn, bool near)
{
    if (!near) {
        for (size_t line = 0; line < sizeof(*conn); line += SLAM_CACHE_LINE)
            __builtin_prefetch((const char *)conn + line, 1);
    } else if (slam_conn_is_open(conn)) {
        __builtin_prefetch(conn->request.transport, 1);
        __builtin_prefetch(conn->slots, 1);
    }
}
