/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include "clock.h"
#include "schedule.h"

#include <string.h>
#include <sys/epoll.h>

/* libldap used small messageIDs while it set the connection up. */
#define FIRST_GENERATION 16u

/* Wait before a new attempt: doubled from the first to the second, from attempt to
 * attempt. A directory that restarts is not met by all clients in a tight loop. */
#define BACKOFF_FIRST_NS (SLAM_NS_PER_S / 10)
#define BACKOFF_MAX_NS (5 * SLAM_NS_PER_S)

/* -- slots -- */

/* Brings the flow's count of usable slots in line with the connection's state. */
static void
offer(struct slam_conn *conn, uint64_t now_ns)
{
    struct slam_flow *flow = conn->flow;
    uint32_t offered = conn->up && !conn->waits_for_write ? conn->free_count : 0;

    if (flow->usable_slots == 0 && offered > conn->offered)
        flow->usable_since_ns = now_ns;
    flow->usable_slots += offered;
    flow->usable_slots -= conn->offered;
    conn->offered = offered;
    if (offered > 0 && !conn->queued) {
        conn->queued = true;
        conn->next_usable = NULL;
        if (flow->usable_tail)
            flow->usable_tail->next_usable = conn;
        else
            flow->usable_head = conn;
        flow->usable_tail = conn;
    }
}

static void
sent_list_append(struct slam_flow *flow, struct slam_slot *slot)
{
    slot->newer = NULL;
    slot->older = flow->newest;
    if (flow->newest)
        flow->newest->newer = slot;
    else
        flow->oldest = slot;
    flow->newest = slot;
    flow->in_flight++;
    flow->worker->in_flight++;
}

static void
sent_list_remove(struct slam_flow *flow, struct slam_slot *slot)
{
    if (slot->older)
        slot->older->newer = slot->newer;
    else
        flow->oldest = slot->newer;
    if (slot->newer)
        slot->newer->older = slot->older;
    else
        flow->newest = slot->older;
    flow->in_flight--;
    flow->worker->in_flight--;
}

static void
slot_release(struct slam_slot *slot)
{
    struct slam_conn *conn = slot->conn;

    slot->state = SLAM_SLOT_FREE;
    slot->next_free = conn->free_head;
    conn->free_head = (uint32_t)(slot - conn->slots);
    conn->free_count++;
}

/* A slot is free again: the open loop sends what waits, the closed loop's client goes
 * on. */
static void
slot_freed(struct slam_conn *conn, uint64_t received_ns, uint64_t done_ns)
{
    if (conn->flow->stream->open) {
        offer(conn, received_ns);
        slam_schedule_slot_free(conn->flow);
    } else {
        slam_schedule_client_free(conn, done_ns);
    }
}

/* -- loss -- */

static uint64_t
backoff_ns(struct slam_conn *conn)
{
    uint32_t doublings = conn->failures < 6 ? conn->failures : 6;
    uint64_t wait = BACKOFF_FIRST_NS << doublings;

    wait = wait < BACKOFF_MAX_NS ? wait : BACKOFF_MAX_NS;
    /* spread over [wait / 2, wait): many connections are lost at once */
    return wait / 2 + slam_rng_below(&conn->flow->backoff_rng, wait / 2);
}

static void
reconnect(struct slam_conn *conn, uint64_t now_ns)
{
    struct slam_worker *worker = conn->flow->worker;

    if (worker->draining)
        return;
    slam_connector_submit(worker->config.connector, &conn->link,
                          now_ns + backoff_ns(conn));
    conn->failures++;
}

/* The connection is gone; what was in flight on it stays unresolved. */
static void
lose(struct slam_conn *conn)
{
    struct slam_flow *flow = conn->flow;
    uint64_t now_ns = slam_clock_mono_ns();

    epoll_ctl(flow->worker->epoll_fd, EPOLL_CTL_DEL, slam_wire_fd(conn->link.wire),
              NULL);
    conn->up = false;
    conn->waits_for_write = false;
    for (uint32_t i = 0; i < flow->stream->in_flight; i++) {
        struct slam_slot *slot = &conn->slots[i];

        if (slot->state == SLAM_SLOT_SENT) {
            sent_list_remove(flow, slot);
            slam_flow_op_record(flow, slot->op, slot->measured)->unresolved++;
        }
        if (slot->state != SLAM_SLOT_FREE)
            slot_release(slot);
    }
    conn->timed_out = 0;
    offer(conn, now_ns);
    conn->ready = conn->begun && !conn->thinking;
    slam_flow_stream_record(flow)->disconnects++;
    reconnect(conn, now_ns);
}

void
slam_request_connected(struct slam_conn *conn, uint64_t now_ns)
{
    struct slam_flow *flow = conn->flow;
    struct slam_stream_record *record = slam_flow_stream_record(flow);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = conn};

    if (!conn->link.wire) {
        record->connect_failures++;
        reconnect(conn, now_ns);
        return;
    }
    if (epoll_ctl(flow->worker->epoll_fd, EPOLL_CTL_ADD, slam_wire_fd(conn->link.wire),
                  &event) != 0) {
        record->connect_failures++;
        reconnect(conn, now_ns);
        return;
    }
    record->connects++;
    slam_histogram_record(&record->connect_time, conn->link.connect_ns);
    slam_pdu_parser_init(&conn->parser, flow->worker->config.max_pdu_bytes);
    if (!slam_wire_has_stamps(conn->link.wire))
        atomic_store_explicit(&flow->worker->stamps, false, memory_order_relaxed);
    conn->up = true;
    conn->failures = 0;
    conn->generation = FIRST_GENERATION;
    if (flow->stream->open) {
        offer(conn, now_ns);
        slam_schedule_slot_free(flow);
    } else if (conn->ready) {
        slam_schedule_client_free(conn, now_ns);
    }
}

/* -- sending -- */

static void
arm_write(struct slam_conn *conn, bool wanted)
{
    uint32_t events = EPOLLIN | EPOLLRDHUP;
    struct epoll_event event = {.data.ptr = conn};

    event.events = wanted ? events | EPOLLOUT : events;
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
        conn->generation = FIRST_GENERATION;
    return id;
}

void
slam_request_send(struct slam_conn *conn, uint32_t op, uint64_t intended_ns,
                  uint64_t slot_free_ns)
{
    struct slam_flow *flow = conn->flow;
    struct slam_worker *worker = flow->worker;
    uint32_t slot_index = conn->free_head;
    struct slam_slot *slot = &conn->slots[slot_index];
    uint8_t *end = worker->pdu + worker->pdu_len;
    size_t len;
    ssize_t written;

    conn->free_head = slot->next_free;
    conn->free_count--;
    slot->state = SLAM_SLOT_SENT;
    slot->op = op;
    slot->measured = slam_flow_measures(flow, intended_ns);
    slot->intended_ns = intended_ns;
    slot->slot_free_ns = slot_free_ns;
    slot->message_id = next_message_id(conn, slot_index);
    len = slam_op_encode(flow->stream->ops[op].op,
                         flow->value_states + flow->first_state[op], &flow->values_rng,
                         worker->scratch, slot->message_id, end);
    /* sent: just before the kernel is offered the first byte. What a full socket delays
     * after that is the network's and the directory's time. */
    slot->sent_ns = slam_clock_mono_ns();
    written = slam_wire_write(conn->link.wire, end - len, len);
    slam_flow_op_record(flow, op, slot->measured)->sent++;
    sent_list_append(flow, slot);
    if (written < 0) {
        lose(conn);
        return;
    }
    if ((size_t)written < len) {
        conn->tx_len = len - (size_t)written;
        conn->tx_pos = 0;
        memcpy(conn->tx, end - conn->tx_len, conn->tx_len);
        arm_write(conn, true);
    }
    offer(conn, slot->sent_ns);
}

static void
flush(struct slam_conn *conn)
{
    while (conn->tx_pos < conn->tx_len) {
        ssize_t n = slam_wire_write(conn->link.wire, conn->tx + conn->tx_pos,
                                    conn->tx_len - conn->tx_pos);

        if (n < 0) {
            lose(conn);
            return;
        }
        if (n == 0)
            return;
        conn->tx_pos += (size_t)n;
    }
    arm_write(conn, false);
    if (conn->flow->stream->open) {
        offer(conn, slam_clock_mono_ns());
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

static uint64_t
since(uint64_t later_ns, uint64_t earlier_ns)
{
    return later_ns > earlier_ns ? later_ns - earlier_ns : 0;
}

static void
complete(struct slam_slot *slot, int32_t code, uint64_t done_ns)
{
    struct slam_conn *conn = slot->conn;
    struct slam_flow *flow = conn->flow;
    struct slam_op_record *record = slam_flow_op_record(flow, slot->op, slot->measured);
    uint64_t received = received_ns(slot, done_ns);
    bool waited = slot->slot_free_ns > slot->intended_ns;
    uint64_t could_send = waited ? slot->slot_free_ns : slot->intended_ns;
    enum slam_outcome outcome = code == 0 ? SLAM_SUCCEEDED : SLAM_FAILED;
    struct slam_histogram *h = record->histograms[outcome];

    record->completed++;
    if (outcome == SLAM_SUCCEEDED)
        record->succeeded++;
    else
        record->failed++;
    record->result_codes[(uint32_t)code < SLAM_RESULT_CODES ? (uint32_t)code
                                                            : SLAM_RESULT_CODES]++;
    slam_histogram_record(&h[SLAM_RESPONSE_TIME], since(received, slot->intended_ns));
    slam_histogram_record(&h[SLAM_SERVICE_TIME], since(received, slot->sent_ns));
    slam_histogram_record(&h[SLAM_SEND_LAG], since(slot->sent_ns, could_send));
    slam_histogram_record(&h[SLAM_RECEIVE_LAG], since(done_ns, received));
    if (flow->stream->open)
        slam_histogram_record(&h[SLAM_BACKLOG_WAIT],
                              since(could_send, slot->intended_ns));
    sent_list_remove(flow, slot);
    slot_release(slot);
    slot_freed(conn, received, done_ns);
}

/* The late response of a request that was counted as timed out. */
static void
complete_late(struct slam_slot *slot, uint64_t done_ns)
{
    struct slam_conn *conn = slot->conn;

    slam_flow_stream_record(conn->flow)->late_responses++;
    conn->timed_out--;
    slot_release(slot);
    slot_freed(conn, done_ns, done_ns);
}

/* One message from the directory. Returns false when the connection must be given up.
 */
static bool
message(struct slam_conn *conn, const struct slam_pdu *pdu, uint64_t done_ns)
{
    struct slam_flow *flow = conn->flow;
    uint32_t slot_index = (uint32_t)pdu->message_id & ((1u << flow->slot_bits) - 1u);
    struct slam_slot *slot;

    if (pdu->message_id == 0) {
        /* RFC 4511 4.4: the directory is about to close, or tells of something else */
        slam_flow_stream_record(flow)->notices++;
        return true;
    }
    slot = slot_index < flow->stream->in_flight ? &conn->slots[slot_index] : NULL;
    if (!slot || slot->state == SLAM_SLOT_FREE || slot->message_id != pdu->message_id) {
        slam_flow_stream_record(flow)->unexpected_messages++;
        return true;
    }
    if (pdu->tag == SLAM_PDU_INTERMEDIATE_RESPONSE)
        return true;
    if (pdu->tag == SLAM_PDU_SEARCH_ENTRY || pdu->tag == SLAM_PDU_SEARCH_REFERENCE) {
        struct slam_op_record *record =
            slam_flow_op_record(flow, slot->op, slot->measured);

        if (flow->stream->ops[slot->op].response_tag != SLAM_PDU_SEARCH_DONE)
            return false;
        if (slot->state == SLAM_SLOT_SENT && pdu->tag == SLAM_PDU_SEARCH_ENTRY)
            record->entries++;
        else if (slot->state == SLAM_SLOT_SENT)
            record->references++;
        return true;
    }
    if (pdu->tag != flow->stream->ops[slot->op].response_tag)
        return false;
    if (slot->state == SLAM_SLOT_SENT)
        complete(slot, pdu->result_code, done_ns);
    else
        complete_late(slot, done_ns);
    return true;
}

static void
receive(struct slam_conn *conn)
{
    struct slam_worker *worker = conn->flow->worker;

    slam_wire_readable(conn->link.wire);
    /* a completion may lose this connection by sending on it: `up` tells */
    while (conn->up) {
        ssize_t n = slam_wire_read(conn->link.wire, worker->rx, sizeof(worker->rx));
        const uint8_t *data = worker->rx;
        size_t len = n > 0 ? (size_t)n : 0;
        uint64_t done_ns;
        struct slam_pdu pdu;
        const char *reason;
        int rc;

        if (n == 0)
            return;
        if (n < 0) {
            lose(conn);
            return;
        }
        done_ns = slam_clock_mono_ns();
        while ((rc = slam_pdu_next(&conn->parser, &data, &len, &pdu, &reason)) == 1) {
            bool legal = message(conn, &pdu, done_ns);

            if (!conn->up)
                return;
            if (!legal) {
                rc = -1;
                break;
            }
        }
        if (rc < 0) {
            slam_flow_stream_record(conn->flow)->protocol_errors++;
            lose(conn);
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
        receive(conn);
}

/* -- time-outs and the end -- */

void
slam_request_expire(struct slam_flow *flow, uint64_t now_ns)
{
    uint64_t limit = flow->stream->request_timeout_ns;

    while (flow->oldest && flow->oldest->sent_ns + limit <= now_ns) {
        struct slam_slot *slot = flow->oldest;
        struct slam_conn *conn = slot->conn;

        sent_list_remove(flow, slot);
        slam_flow_op_record(flow, slot->op, slot->measured)->timed_out++;
        slot->state = SLAM_SLOT_TIMED_OUT;
        /* a connection on which nothing answers any more is given up */
        if (++conn->timed_out == flow->stream->in_flight)
            lose(conn);
    }
}

void
slam_request_give_up(struct slam_flow *flow)
{
    while (flow->oldest) {
        struct slam_slot *slot = flow->oldest;

        sent_list_remove(flow, slot);
        slam_flow_op_record(flow, slot->op, slot->measured)->unresolved++;
        slot->state = SLAM_SLOT_TIMED_OUT;
    }
}
