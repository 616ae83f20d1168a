/* SPDX-License-Identifier: Apache-2.0 */
#include "load/connection.h"

#include "load/session.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

/* A server that is away is tried again that long after the last attempt began. A proxy
 * without its directory takes connections, and ends them without an answer: it is there
 * when a connection has lasted as long. */
#define PROBE_NS (SLAM_NS_PER_S / 20)

/* Set-ups of connections that waited for a server: one in that time, on average. */
#define FOLLOW_NS (SLAM_NS_PER_S / 5000)
#define MOST_DOUBLINGS 5u /* of the wait of a client that backs off */

/* It is lost, or its set-up has failed. */
static bool
is_away(enum slam_conn_state state)
{
    return state == SLAM_CONN_DOWN || state == SLAM_CONN_UNABLE;
}

void
slam_conn_move(struct slam_conn *conn, enum slam_conn_event event)
{
    struct slam_server *server = conn->server;
    enum slam_conn_state from = conn->state;
    enum slam_conn_state to = slam_conn_next(from, event);

    if (to == SLAM_CONN_STATES)
        abort();
    if (is_away(from) || is_away(to))
        slam_server_tally(server, slam_clock_mono_ns());
    server->in_state[from]--;
    server->in_state[to]++;
    conn->state = (uint8_t)to;
}

void
slam_conn_move_client(struct slam_conn *conn, enum slam_client_event event)
{
    enum slam_client_state to = slam_client_next(conn->client, event);

    if (to == SLAM_CLIENT_STATES)
        abort();
    conn->client = (uint8_t)to;
}

void
slam_conn_make_ready(struct slam_conn *conn)
{
    struct slam_worker *worker = conn->flow->worker;

    if (conn->is_ready)
        return;
    conn->is_ready = true;
    conn->done_ns = 0;
    STAILQ_INSERT_TAIL(&worker->ready, conn, in_ready);
}

/* The same of a connection that can be used since then. */
static void
make_ready_since(struct slam_conn *conn, uint64_t received_ns, uint64_t done_ns)
{
    slam_conn_make_ready(conn);
    if (conn->done_ns == 0) {
        conn->received_ns = received_ns;
        conn->done_ns = done_ns;
    }
}

static void
release(struct slam_slot *slot)
{
    struct slam_conn *conn = slot->conn;

    slot->state = SLAM_SLOT_FREE;
    slot->next_free = conn->free_head;
    conn->free_head = (uint32_t)(slot - conn->slots);
    conn->free_count++;
}

void
slam_conn_free_slot(struct slam_slot *slot, uint64_t received_ns, uint64_t done_ns)
{
    release(slot);
    make_ready_since(slot->conn, received_ns, done_ns);
}

/* Counts a request that will have no response, with the time until then. */
static void
count_no_response(struct slam_slot *slot, enum slam_outcome outcome, uint64_t now_ns)
{
    struct slam_op_record *record =
        slam_conn_op_record(slot->conn, slot->op, slot->measured);
    struct slam_histogram *h = slam_op_record_outcome(
        record, outcome, slot->intended_ns, slam_sent_ns(slot), now_ns);

    slam_slot_answered(slot);
    if (slot->conn->server->in_flight == 0)
        slot->conn->server->wait.given_up_ns = now_ns;
    slam_histogram_record(&h[SLAM_SEND_LAG], slam_send_lag_ns(slot));
}

static void
count_dropped(const struct slam_slot *slot)
{
    slam_flow_op_record(slot->conn->flow, slot->op, slot->measured)->dropped++;
}

/* No session will begin on any connection of the flow. */
static bool
is_through(const struct slam_flow *flow)
{
    return flow->worker->draining && flow->backlog_len == 0;
}

/* Has a connection set up again, not before due_ns. */
static void
reconnect(struct slam_conn *conn, uint64_t due_ns)
{
    if (is_through(conn->flow))
        slam_conn_move(conn, SLAM_CONN_CLOSE);
    else
        slam_connector_submit(conn->flow->worker->config.connector, &conn->request,
                              due_ns);
}

/* A connection that waits for a probe is down, or not, as the probe is. */
static void
wait_as(struct slam_conn *conn, const struct slam_conn *probe)
{
    if (conn->state != probe->state)
        slam_conn_move(conn, probe->state == SLAM_CONN_UNABLE ? SLAM_CONN_FAILED_HERE
                                                              : SLAM_CONN_FAILED);
}

/* The client backs off; the directory may be back meanwhile. */
static void
back_off(struct slam_conn *conn, uint64_t wait_ns)
{
    struct slam_rng *rng = &conn->flow->reconnect_rng;

    wait_ns <<= conn->failures < MOST_DOUBLINGS ? conn->failures : MOST_DOUBLINGS;
    conn->failures++;
    reconnect(conn, slam_clock_mono_ns() + wait_ns / 2 + slam_rng_below(rng, wait_ns));
}

/* The server is away: one connection tries it, the others wait for its success. */
static void
await_server(struct slam_conn *conn, uint64_t attempted_ns)
{
    uint64_t wait_ns = conn->flow->stream->settings.connection.reconnect_wait_ns;
    struct slam_server *server = conn->server;
    struct slam_conn *waiting;

    if (wait_ns && conn->state == SLAM_CONN_DOWN) {
        back_off(conn, wait_ns);
        return;
    }
    if (server->probe) {
        wait_as(conn, server->probe);
        STAILQ_INSERT_TAIL(&server->waiting, conn, in_waiting);
        server->waiting_count++;
        return;
    }
    server->probe = conn;
    STAILQ_FOREACH (waiting, &server->waiting, in_waiting)
        wait_as(waiting, conn);
    reconnect(conn, attempted_ns + PROBE_NS);
}

void
slam_conn_follow(struct slam_server *server, uint64_t now_ns)
{
    uint64_t spread_ns = server->waiting_count * FOLLOW_NS;
    struct slam_conn *conn;

    if (server->is_mute && server->up_ns + PROBE_NS > now_ns)
        return;
    while ((conn = STAILQ_FIRST(&server->waiting)) != NULL) {
        STAILQ_REMOVE_HEAD(&server->waiting, in_waiting);
        slam_conn_move(conn, SLAM_CONN_FOLLOW);
        reconnect(conn,
                  now_ns + slam_rng_below(&server->flow->reconnect_rng, spread_ns));
    }
    server->waiting_count = 0;
}

void
slam_conn_watch(struct slam_conn *conn)
{
    struct epoll_event event = {.events = SLAM_EPOLL_EVENTS, .data.ptr = conn};

    if (conn->tx_len > 0)
        event.events |= EPOLLOUT;
    epoll_ctl(conn->flow->worker->epoll_fd, EPOLL_CTL_MOD,
              slam_transport_fd(conn->request.transport), &event);
}

static void
count_set_up(struct slam_stream_record *record,
             const struct slam_transport_setup *setup)
{
    record->connects++;
    slam_histogram_record(&record->set_up[SLAM_CONNECT_TIME], setup->total_ns);
    slam_histogram_record(&record->set_up[SLAM_TCP_TIME], setup->connect_ns);
    if (setup->tls_ns > 0)
        slam_histogram_record(&record->set_up[SLAM_TLS_TIME], setup->tls_ns);
    if (setup->binds > 0)
        slam_histogram_record(&record->set_up[SLAM_BIND_TIME], setup->bind_ns);
}

/* The connection's set-up failed, by the server's fault or the generator's. */
static void
fail(struct slam_conn *conn, enum slam_cause cause, uint64_t now_ns)
{
    struct slam_stream_record *record = slam_server_record(conn->server);
    uint64_t attempt_ns = conn->request.setup.total_ns;
    uint64_t begun_ns = now_ns - attempt_ns;
    bool is_own = slam_cause_is_own(cause);

    slam_stream_record_failure(record, cause);
    if (!is_own && !slam_flow_is_over(conn->flow))
        slam_wait_failed(&conn->server->wait, begun_ns,
                         conn->request.setup.connect_ns ? now_ns : begun_ns);
    if (!is_away(conn->state)) /* the attempt's time counts too */
        *(is_own ? &record->unable_ns : &record->down_ns) += attempt_ns;
    slam_conn_move(conn, is_own ? SLAM_CONN_FAILED_HERE : SLAM_CONN_FAILED);
    await_server(conn, begun_ns);
}

void
slam_conn_connected(struct slam_conn *conn, uint64_t now_ns)
{
    struct slam_flow *flow = conn->flow;
    const struct slam_transport *transport = conn->request.transport;
    const struct slam_transport_setup *setup = &conn->request.setup;
    struct slam_server *server = conn->server;
    struct slam_stream_record *record = slam_server_record(server);
    struct epoll_event event = {.events = SLAM_EPOLL_EVENTS, .data.ptr = conn};

    record->binds += setup->binds;
    record->extended += setup->extended;
    if (server->probe == conn)
        server->probe = NULL;
    if (!transport) {
        fail(conn, setup->cause, now_ns);
        return;
    }
    if (epoll_ctl(flow->worker->epoll_fd, EPOLL_CTL_ADD, slam_transport_fd(transport),
                  &event) != 0) {
        fail(conn, slam_cause_of_errno(errno), now_ns);
        return;
    }
    count_set_up(record, setup);
    if (!slam_transport_has_stamps(transport))
        atomic_store_explicit(&flow->worker->stamps, false, memory_order_relaxed);
    slam_conn_move(conn, SLAM_CONN_CONNECTED);
    slam_pdu_parser_init(&conn->parser, flow->worker->config.max_pdu_bytes);
    conn->has_abandoned = false;
    conn->loss = SLAM_CAUSE_lost_otherwise;
    conn->requests = 0;
    conn->up_since_ns = now_ns;
    conn->generation = SLAM_FIRST_GENERATION;
    make_ready_since(conn, now_ns, now_ns);
    server->up_ns = now_ns;
    if (server->wait.since_ns && server->in_flight == 0 && flow->backlog_len == 0)
        server->wait.given_up_ns = now_ns; /* who waits sends its request now */
    slam_conn_follow(server, now_ns);
}

void
slam_conn_break(struct slam_conn *conn, enum slam_loss loss)
{
    if (conn->state == SLAM_CONN_BROKEN)
        return;
    if (conn->loss == SLAM_CAUSE_lost_otherwise)
        conn->loss = (uint8_t)loss;
    slam_conn_move(conn, SLAM_CONN_BREAK);
    slam_conn_make_ready(conn);
}

/* Takes the connection out of the loop; its transport stays to be closed. */
static void
take_down(struct slam_conn *conn)
{
    epoll_ctl(conn->flow->worker->epoll_fd, EPOLL_CTL_DEL,
              slam_transport_fd(conn->request.transport), NULL);
    for (uint32_t i = 0; i < conn->flow->stream->settings.in_flight; i++)
        if (conn->slots[i].state != SLAM_SLOT_FREE)
            release(&conn->slots[i]);
    conn->timed_out = 0;
    conn->tx_len = 0;
    conn->kept_len = 0;
}

static void
lose(struct slam_conn *conn)
{
    uint32_t in_flight = conn->flow->stream->settings.in_flight;
    uint64_t now_ns = slam_clock_mono_ns();
    /* it was no better than a failed attempt, unless nobody used it for a while */
    bool is_mute = conn->requests ? conn->requests <= in_flight - conn->free_count
                                  : now_ns < conn->up_since_ns + PROBE_NS;
    bool was_idle =
        conn->loss == SLAM_CAUSE_lost_closed || conn->loss == SLAM_CAUSE_lost_reset;

    for (uint32_t i = 0; i < in_flight; i++) {
        struct slam_slot *slot = &conn->slots[i];

        was_idle &= slot->state != SLAM_SLOT_SENT && slot->state != SLAM_SLOT_TIMED_OUT;
        if (slot->state == SLAM_SLOT_SENT)
            count_no_response(slot, SLAM_UNRESOLVED, now_ns);
        else if (slot->state == SLAM_SLOT_BLOCKED)
            count_dropped(slot);
        if (slot->state != SLAM_SLOT_FREE && slot->state != SLAM_SLOT_TIMED_OUT)
            slam_session_end(slot);
    }
    conn->server->wait.given_up_ns = 0; /* who waits for a connection waits on */
    take_down(conn);
    if (conn->client == SLAM_CLIENT_BUSY)
        slam_conn_move_client(conn, SLAM_CLIENT_FREE);
    slam_stream_record_loss(slam_server_record(conn->server),
                            was_idle ? SLAM_CAUSE_lost_idle : conn->loss,
                            conn->requests);
    slam_conn_move(conn, SLAM_CONN_LOSE);
    conn->server->is_mute = is_mute;
    if (is_mute && conn->server->wait.since_ns)
        slam_wait_failed(&conn->server->wait, now_ns, now_ns);
    if (conn->server->probe || is_mute)
        await_server(conn, conn->up_since_ns);
    else
        reconnect(conn, now_ns);
}

static void
send_unbind(struct slam_conn *conn)
{
    /* RFC 4511 4.3; no request of ours has a messageID this small */
    static const uint8_t unbind[] = {0x30, 0x05, 0x02, 0x01, 0x01, 0x42, 0x00};

    /* not into the middle of a request that the socket did not take whole */
    if (conn->tx_len == 0 &&
        slam_transport_write(conn->request.transport, unbind, sizeof(unbind)) ==
            (ssize_t)sizeof(unbind))
        slam_server_record(conn->server)->unbinds++;
}

/* When the successor of a connection that is replaced is set up; UINT64_MAX: never. */
static uint64_t
successor_ns(const struct slam_conn *conn, uint64_t now_ns)
{
    const struct slam_worker *worker = conn->flow->worker;

    if (is_through(conn->flow))
        return UINT64_MAX;
    if (!conn->record || conn->state != SLAM_CONN_UNBOUND)
        return now_ns;
    if (conn->record->connect_ns == SLAM_TRACE_NEVER)
        return UINT64_MAX;
    return now_ns +
           slam_since_ns(worker->config.timeline->t0_ns + conn->record->connect_ns,
                         now_ns);
}

/* Ends a connection on which nothing is in flight, and has the next one made. */
static void
replace(struct slam_conn *conn, uint64_t now_ns)
{
    uint64_t connect_ns = successor_ns(conn, now_ns);

    if (conn->state != SLAM_CONN_UNBOUND)
        send_unbind(conn);
    take_down(conn);
    if (connect_ns == UINT64_MAX) {
        slam_conn_move(conn, SLAM_CONN_CLOSE);
        return;
    }
    slam_conn_move(conn, SLAM_CONN_REPLACE);
    slam_connector_submit(conn->flow->worker->config.connector, &conn->request,
                          connect_ns);
}

static bool
is_idle(const struct slam_conn *conn)
{
    return conn->free_count + conn->timed_out == conn->flow->stream->settings.in_flight;
}

struct slam_conn *
slam_conn_next_ready(struct slam_worker *worker)
{
    struct slam_conn *conn = STAILQ_FIRST(&worker->ready);
    uint64_t limit_ns;

    if (!conn)
        return NULL;
    STAILQ_REMOVE_HEAD(&worker->ready, in_ready);
    conn->is_ready = false;
    if (conn->done_ns == 0)
        conn->received_ns = conn->done_ns = slam_clock_mono_ns();
    limit_ns = conn->flow->stream->settings.connection.reconnect_ns;
    if (conn->state == SLAM_CONN_UP && limit_ns > 0 &&
        conn->done_ns - conn->up_since_ns >= limit_ns)
        slam_conn_move(conn, SLAM_CONN_DRAIN);
    if (conn->state == SLAM_CONN_BROKEN)
        lose(conn);
    else if (conn->state != SLAM_CONN_UP && slam_conn_is_open(conn) && is_idle(conn))
        replace(conn, conn->done_ns);
    return conn;
}

/* Nothing answers on it any more, or its peer has stopped to read. */
static bool
is_of_no_use(const struct slam_conn *conn, uint64_t now_ns)
{
    const struct slam_stream_settings *settings = &conn->flow->stream->settings;

    return conn->timed_out == settings->in_flight ||
           (conn->tx_len > 0 &&
            conn->tx_since_ns + settings->request_timeout_ns <= now_ns);
}

void
slam_conn_expire(struct slam_server *server, uint64_t now_ns)
{
    uint64_t limit = server->flow->stream->settings.request_timeout_ns;
    struct slam_slot *slot;

    while ((slot = TAILQ_FIRST(&server->sent)) && slot->sent_ns + limit <= now_ns) {
        struct slam_conn *conn = slot->conn;

        count_no_response(slot, SLAM_TIMED_OUT, slam_clock_mono_ns());
        slam_session_end(slot);
        slot->state = SLAM_SLOT_TIMED_OUT;
        conn->timed_out++;
        if (is_of_no_use(conn, now_ns))
            slam_conn_break(conn, SLAM_CAUSE_lost_silent);
        else
            slam_conn_make_ready(conn);
    }
}

void
slam_conn_close_all(struct slam_flow *flow)
{
    uint64_t now_ns = slam_clock_mono_ns();

    for (size_t i = 0; i < flow->stream->settings.connection.uri_count; i++)
        while (!TAILQ_EMPTY(&flow->servers[i].sent))
            count_no_response(TAILQ_FIRST(&flow->servers[i].sent), SLAM_UNRESOLVED,
                              now_ns);
    for (uint32_t i = 0; i < flow->conn_count; i++) {
        struct slam_conn *conn = &flow->conns[i];

        for (uint32_t j = 0; j < flow->stream->settings.in_flight; j++)
            if (conn->slots[j].state == SLAM_SLOT_BLOCKED)
                count_dropped(&conn->slots[j]);
        if (conn->state == SLAM_CONN_UP || conn->state == SLAM_CONN_DRAINING)
            send_unbind(conn);
        if (conn->state != SLAM_CONN_CLOSED)
            slam_conn_move(conn, SLAM_CONN_CLOSE);
    }
}
