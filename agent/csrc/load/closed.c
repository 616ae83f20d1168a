/* SPDX-License-Identifier: Apache-2.0 */
/* The closed loop: a connection is a client, which begins its next session when its
 * last session is over and its think time has passed (states: connection_state.h). */
#include "core/slam_err.h"
#include "load/connection.h"
#include "load/model.h"
#include "load/request.h"

#include <stdlib.h>

struct closed_load {
    uint32_t next_start; /* conns[next_start] is the first that has not started */
    struct slam_conn_list thinking; /* by due_ns: all think equally long */
};

static int
init(struct slam_flow *flow)
{
    struct closed_load *load = calloc(1, sizeof(*load));

    if (!load)
        return SLAM_ENOMEM;
    flow->load = load;
    STAILQ_INIT(&load->thinking);
    return SLAM_OK;
}

/* Clients start evenly spread over the ramp-up. */
static void
begin(struct slam_flow *flow)
{
    const struct slam_timeline *t = flow->worker->config.timeline;
    const struct slam_stream *stream = flow->stream;

    for (uint32_t i = 0; i < flow->conn_count; i++) {
        uint64_t number = flow->lane + (uint64_t)i * stream->carriers;

        flow->conns[i].due_ns = t->t0_ns + stream->settings.start_ns +
                                (uint64_t)((double)t->ramp_up_ns * (double)number /
                                           (double)stream->settings.connections);
    }
}

static uint64_t
due_ns(const struct slam_flow *flow)
{
    const struct closed_load *load = flow->load;
    const struct slam_conn *thinking = STAILQ_FIRST(&load->thinking);
    uint64_t next_ns = UINT64_MAX;

    if (load->next_start < flow->conn_count)
        next_ns = flow->conns[load->next_start].due_ns;
    return thinking ? slam_earlier_ns(next_ns, thinking->due_ns) : next_ns;
}

static void
begin_session(struct slam_conn *conn)
{
    struct slam_flow *flow = conn->flow;
    uint64_t intended_ns = slam_conn_intended_ns(conn);
    uint32_t script;

    if (conn->state != SLAM_CONN_UP || flow->ended || flow->sessions_left == 0)
        return;
    if (flow->sessions_left != UINT64_MAX)
        flow->sessions_left--;
    script = slam_flow_pick(flow);
    slam_flow_script_record(flow, script, intended_ns)->scheduled++;
    slam_conn_move_client(conn, SLAM_CLIENT_BEGIN);
    slam_request_begin(conn, script, intended_ns, conn->up_since_ns);
}

static void
run(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns)
{
    struct closed_load *load = flow->load;
    struct slam_conn *conn;

    if (now_ns >= limit_ns)
        return;
    while (load->next_start < flow->conn_count &&
           flow->conns[load->next_start].due_ns <= now_ns) {
        conn = &flow->conns[load->next_start++];

        slam_conn_move_client(conn, SLAM_CLIENT_START);
        begin_session(conn);
    }
    while ((conn = STAILQ_FIRST(&load->thinking)) && conn->due_ns <= now_ns) {
        STAILQ_REMOVE_HEAD(&load->thinking, in_queue);
        slam_conn_move_client(conn, SLAM_CLIENT_WAKE);
        begin_session(conn);
    }
}

static void
think(struct slam_conn *conn)
{
    struct closed_load *load = conn->flow->load;

    slam_conn_move_client(conn, SLAM_CLIENT_THINK);
    conn->due_ns = conn->done_ns + conn->flow->stream->settings.think_time_ns;
    STAILQ_INSERT_TAIL(&load->thinking, conn, in_queue);
}

static void
ready(struct slam_conn *conn)
{
    if (conn->client == SLAM_CLIENT_BUSY && conn->free_count == 1) {
        if (conn->flow->stream->settings.think_time_ns > 0) {
            think(conn);
        } else {
            slam_conn_move_client(conn, SLAM_CLIENT_FREE);
            conn->due_ns = conn->done_ns;
        }
    }
    if (conn->client == SLAM_CLIENT_READY)
        begin_session(conn);
}

const struct slam_load_model slam_closed_model = {
    .init = init, .begin = begin, .due_ns = due_ns, .run = run, .ready = ready};
