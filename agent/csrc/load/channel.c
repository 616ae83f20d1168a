/* SPDX-License-Identifier: Apache-2.0 */
#include "load/channel.h"

#include "core/clock.h"
#include "load/replay.h"
#include "load/request.h"
#include "load/schedule.h"
#include "load/session.h"

#include <sys/epoll.h>

/* Wait before a new attempt: doubled from the first to the second, from attempt to
 * attempt. A directory that restarts is not met by all clients in a tight loop. */
#define BACKOFF_FIRST_NS (SLAM_NS_PER_S / 10)
#define BACKOFF_MAX_NS (5 * SLAM_NS_PER_S)

/* -- slots -- */

void
slam_channel_offer(struct slam_conn *conn, uint64_t now_ns)
{
    struct slam_flow *flow = conn->flow;
    bool usable = conn->up && !conn->waits_for_write && !conn->retiring;
    uint32_t offered = usable ? conn->free_count : 0;

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

/* Counts a request that will have no response, with the time until then. */
static void
count_unanswered(struct slam_slot *slot, enum slam_outcome outcome)
{
    struct slam_op_record *record =
        slam_flow_op_record(slot->conn->flow, slot->op, slot->measured);
    struct slam_histogram *h = record->histograms[outcome];
    uint64_t now_ns = slam_clock_mono_ns();

    if (outcome == SLAM_TIMED_OUT)
        record->timed_out++;
    else
        record->unresolved++;
    slam_histogram_record(&h[SLAM_RESPONSE_TIME],
                          slam_since_ns(now_ns, slot->intended_ns));
    slam_histogram_record(&h[SLAM_SERVICE_TIME], slam_since_ns(now_ns, slot->sent_ns));
    slam_histogram_record(&h[SLAM_SEND_LAG], slam_send_lag_ns(slot));
}

/* -- loss -- */

void
slam_channel_tally_down(struct slam_flow *flow, uint64_t now_ns)
{
    /* when all sessions are over, nobody misses a connection */
    if (!flow->ended)
        slam_flow_stream_record(flow)->down_ns +=
            flow->down_count * slam_since_ns(now_ns, flow->down_at_ns);
    flow->down_at_ns = now_ns;
}

static void
set_down(struct slam_conn *conn, bool down, uint64_t now_ns)
{
    if (conn->down == down)
        return;
    slam_channel_tally_down(conn->flow, now_ns);
    conn->down = down;
    if (down)
        conn->flow->down_count++;
    else
        conn->flow->down_count--;
}

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

/* Takes the connection out of the loop; its wire stays to be closed. */
static void
take_down(struct slam_conn *conn, uint64_t now_ns)
{
    epoll_ctl(conn->flow->worker->epoll_fd, EPOLL_CTL_DEL,
              slam_wire_fd(conn->link.wire), NULL);
    conn->up = false;
    conn->waits_for_write = false;
    conn->timed_out = 0;
    conn->kept_len = 0;
    slam_channel_offer(conn, now_ns);
}

void
slam_channel_lose(struct slam_conn *conn)
{
    struct slam_flow *flow = conn->flow;
    uint64_t now_ns = slam_clock_mono_ns();

    for (uint32_t i = 0; i < flow->stream->settings.in_flight; i++) {
        struct slam_slot *slot = &conn->slots[i];

        if (slot->state == SLAM_SLOT_SENT) {
            slam_channel_answered(flow, slot);
            count_unanswered(slot, SLAM_UNRESOLVED);
        } else if (slot->state == SLAM_SLOT_BLOCKED) {
            slam_flow_op_record(flow, slot->op, slot->measured)->dropped++;
        }
        if (slot->state != SLAM_SLOT_FREE && slot->state != SLAM_SLOT_TIMED_OUT)
            slam_session_end(slot);
        if (slot->state != SLAM_SLOT_FREE)
            slam_channel_release(slot);
    }
    take_down(conn, now_ns);
    set_down(conn, true, now_ns);
    conn->ready = conn->begun && !conn->thinking;
    slam_flow_stream_record(flow)->disconnects++;
    reconnect(conn, now_ns);
}

/* -- planned ends of connections -- */

static void
say_unbind(struct slam_conn *conn)
{
    /* RFC 4511 4.3; no request of ours has a messageID this small */
    static const uint8_t unbind[] = {0x30, 0x05, 0x02, 0x01, 0x01, 0x42, 0x00};

    /* not into the middle of a request that the socket did not take whole */
    if (!conn->waits_for_write &&
        slam_wire_write(conn->link.wire, unbind, sizeof(unbind)) ==
            (ssize_t)sizeof(unbind))
        slam_flow_stream_record(conn->flow)->unbinds++;
}

/* At the end of its time; the number of its requests is counted where they are sent. */
static bool
is_worn(const struct slam_conn *conn, uint64_t now_ns)
{
    uint64_t limit_ns = conn->flow->stream->settings.connection.reconnect_ns;

    return limit_ns > 0 && now_ns - conn->up_since_ns >= limit_ns;
}

/* Ends a connection on which nothing is in flight, and has the next one made. */
static void
replace(struct slam_conn *conn, uint64_t now_ns)
{
    struct slam_worker *worker = conn->flow->worker;
    uint64_t connect_ns = now_ns;

    take_down(conn, now_ns);
    for (uint32_t i = 0; i < conn->flow->stream->settings.in_flight; i++)
        if (conn->slots[i].state == SLAM_SLOT_TIMED_OUT)
            slam_channel_release(&conn->slots[i]);
    if (conn->flow->stream->trace)
        connect_ns = slam_replay_connect_ns(conn, now_ns);
    if (worker->draining || connect_ns == UINT64_MAX)
        return;
    conn->replacing = true;
    worker->replacing++;
    slam_connector_submit(worker->config.connector, &conn->link, connect_ns);
}

/* A connection that is to be replaced is so when its last session is over. */
static void
replace_when_idle(struct slam_conn *conn, uint64_t now_ns)
{
    if (!conn->up || !conn->retiring ||
        conn->free_count + conn->timed_out < conn->flow->stream->settings.in_flight)
        return;
    if (!conn->unbound)
        say_unbind(conn);
    replace(conn, now_ns);
}

void
slam_channel_freed(struct slam_conn *conn, uint64_t received_ns, uint64_t done_ns)
{
    struct slam_flow *flow = conn->flow;

    if (conn->up && !conn->retiring && is_worn(conn, done_ns)) {
        conn->retiring = true;
        slam_channel_offer(conn, received_ns);
    }
    replace_when_idle(conn, done_ns);
    if (flow->stream->trace) {
        slam_replay_free(conn, flow->stream->settings.open ? received_ns : done_ns);
    } else if (flow->stream->settings.open) {
        slam_channel_offer(conn, received_ns);
        slam_schedule_slot_free(flow);
    } else {
        slam_schedule_client_free(conn, done_ns);
    }
}

void
slam_channel_connected(struct slam_conn *conn, uint64_t now_ns)
{
    struct slam_flow *flow = conn->flow;
    const struct slam_wire_setup *setup = &conn->link.setup;
    struct slam_stream_record *record = slam_flow_stream_record(flow);
    struct epoll_event event = {.events = SLAM_EPOLL_EVENTS, .data.ptr = conn};

    if (conn->replacing) {
        conn->replacing = false;
        flow->worker->replacing--;
    }
    record->binds += setup->binds;
    record->extended += setup->extended;
    if (!conn->link.wire || epoll_ctl(flow->worker->epoll_fd, EPOLL_CTL_ADD,
                                      slam_wire_fd(conn->link.wire), &event) != 0) {
        record->connect_failures++;
        if (!conn->down) /* it was to be replaced: the attempt's time counts too */
            record->down_ns += setup->total_ns;
        set_down(conn, true, now_ns);
        reconnect(conn, now_ns);
        return;
    }
    record->connects++;
    slam_histogram_record(&record->set_up[SLAM_CONNECT_TIME], setup->total_ns);
    slam_histogram_record(&record->set_up[SLAM_TCP_TIME], setup->connect_ns);
    if (setup->tls_ns > 0)
        slam_histogram_record(&record->set_up[SLAM_TLS_TIME], setup->tls_ns);
    if (setup->binds > 0)
        slam_histogram_record(&record->set_up[SLAM_BIND_TIME], setup->bind_ns);
    slam_pdu_parser_init(&conn->parser, flow->worker->config.max_pdu_bytes);
    if (!slam_wire_has_stamps(conn->link.wire))
        atomic_store_explicit(&flow->worker->stamps, false, memory_order_relaxed);
    set_down(conn, false, now_ns);
    conn->up = true;
    conn->retiring = false;
    conn->unbound = false;
    conn->abandons = false;
    conn->requests = 0;
    conn->up_since_ns = now_ns;
    conn->failures = 0;
    conn->generation = SLAM_FIRST_GENERATION;
    if (flow->stream->trace) {
        slam_replay_free(conn, now_ns);
    } else if (flow->stream->settings.open) {
        slam_channel_offer(conn, now_ns);
        slam_schedule_slot_free(flow);
    } else if (conn->ready) {
        slam_schedule_client_go(conn, now_ns);
    }
}

/* -- time-outs and the end -- */

void
slam_channel_expire(struct slam_flow *flow, uint64_t now_ns)
{
    uint64_t limit = flow->stream->settings.request_timeout_ns;

    while (flow->oldest && flow->oldest->sent_ns + limit <= now_ns) {
        struct slam_slot *slot = flow->oldest;
        struct slam_conn *conn = slot->conn;

        slam_channel_answered(flow, slot);
        count_unanswered(slot, SLAM_TIMED_OUT);
        slam_session_end(slot);
        slot->state = SLAM_SLOT_TIMED_OUT;
        /* a connection on which nothing answers any more is given up */
        if (++conn->timed_out == flow->stream->settings.in_flight)
            slam_channel_lose(conn);
        else
            replace_when_idle(conn, now_ns);
    }
}

void
slam_channel_give_up(struct slam_flow *flow)
{
    while (flow->oldest) {
        struct slam_slot *slot = flow->oldest;

        slam_channel_answered(flow, slot);
        count_unanswered(slot, SLAM_UNRESOLVED);
        slot->state = SLAM_SLOT_TIMED_OUT;
    }
    for (uint32_t i = 0; i < flow->conn_count; i++) {
        struct slam_conn *conn = &flow->conns[i];

        for (uint32_t j = 0; j < flow->stream->settings.in_flight; j++)
            if (conn->slots[j].state == SLAM_SLOT_BLOCKED)
                slam_flow_op_record(flow, conn->slots[j].op, conn->slots[j].measured)
                    ->dropped++;
        if (conn->up && !conn->unbound)
            say_unbind(conn);
        conn->up = false;
    }
}
