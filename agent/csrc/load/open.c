/* SPDX-License-Identifier: Apache-2.0 */
/* The open loop: sessions begin at the times of the pacer. An arrival takes the next
 * connection in turn that has an available slot, or waits in the backlog. */
#include "core/slam_err.h"
#include "load/connection.h"
#include "load/model.h"
#include "load/request.h"

#include <stdlib.h>

#define LATE_TIMES 10

struct arrival {
    uint64_t intended_ns;
    uint32_t script;
};

struct open_load {
    struct slam_pacer pacer;
    uint64_t next_ns;            /* of the pacer's next arrival */
    struct slam_conn_list queue; /* connections with an available slot, in turn */
    uint64_t available;          /* slots, of all connections */
    uint64_t available_since_ns; /* since when there has always been one */
    uint64_t late_ns;       /* how late the worker was, while arrivals wait for it */
    uint64_t late_until_ns; /* when that is worked off */
    size_t backlog_cap;
    size_t backlog_head;
    struct arrival backlog[]; /* a ring; its length is the flow's backlog_len */
};

static int
init(struct slam_flow *flow)
{
    const struct slam_stream *stream = flow->stream;
    size_t cap = stream->settings.max_backlog == 0
                     ? 0
                     : slam_flow_part(stream->settings.max_backlog - 1, flow->lane,
                                      stream->carriers) +
                           1;
    struct open_load *load = calloc(1, sizeof(*load) + cap * sizeof(struct arrival));

    if (!load)
        return SLAM_ENOMEM;
    flow->load = load;
    STAILQ_INIT(&load->queue);
    load->backlog_cap = cap;
    slam_pacer_init(&load->pacer, stream->settings.segments,
                    stream->settings.segment_count, stream->settings.arrivals,
                    &flow->partition, stream->settings.total_operations,
                    &flow->arrivals_rng);
    return SLAM_OK;
}

static void
draw_next(struct slam_flow *flow)
{
    struct open_load *load = flow->load;
    uint64_t after_t0_ns = slam_pacer_next(&load->pacer, &flow->arrivals_rng);

    if (after_t0_ns != SLAM_PACER_NONE) {
        load->next_ns = flow->worker->config.timeline->t0_ns + after_t0_ns;
        return;
    }
    load->next_ns = UINT64_MAX;
    if (flow->sessions_left != UINT64_MAX)
        flow->sessions_left = 0;
}

static uint64_t
due_ns(const struct slam_flow *flow)
{
    const struct open_load *load = flow->load;

    return load->next_ns;
}

/* Updates the count of available slots and the list by the connection's state. */
static void
count_available(struct slam_conn *conn, uint64_t now_ns)
{
    struct open_load *load = conn->flow->load;
    uint32_t available = slam_conn_available(conn);

    if (load->available == 0 && available > conn->counted_free)
        load->available_since_ns = now_ns;
    load->available += available;
    load->available -= conn->counted_free;
    conn->counted_free = available;
    if (available == 0 || conn->is_queued)
        return;
    conn->is_queued = true;
    STAILQ_INSERT_TAIL(&load->queue, conn, in_queue);
}

static struct slam_conn *
take_available(struct open_load *load)
{
    struct slam_conn *conn;

    while ((conn = STAILQ_FIRST(&load->queue)) != NULL) {
        STAILQ_REMOVE_HEAD(&load->queue, in_queue);
        conn->is_queued = false;
        if (slam_conn_available(conn) > 0)
            return conn;
    }
    return NULL;
}

/* An arrival that waits while the worker's own lateness is worked off would have found
 * its slot that much earlier, so that much of its wait is send lag: until nothing waits
 * any more, or for ten times as long, in which a directory at 90 % load catches up. */
static bool
begin_session(struct slam_flow *flow, const struct arrival *arrival, uint64_t late_ns)
{
    struct open_load *load = flow->load;
    struct slam_conn *conn = take_available(load);

    if (!conn)
        return false;
    slam_request_begin(conn, arrival->script, arrival->intended_ns,
                       slam_since_ns(load->available_since_ns, late_ns));
    count_available(conn, arrival->intended_ns);
    return true;
}

/* Sends, keeps or drops the arrivals that are due. */
static void
run(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns)
{
    struct open_load *load = flow->load;
    uint64_t late_ns = slam_since_ns(now_ns, load->next_ns);
    bool stood_still = late_ns > SLAM_STOOD_STILL_NS;

    if (flow->backlog_len == 0 || now_ns > load->late_until_ns ||
        late_ns > load->late_ns) {
        load->late_ns = late_ns;
        load->late_until_ns = now_ns + LATE_TIMES * late_ns;
    }
    while (load->next_ns <= now_ns && load->next_ns < limit_ns) {
        struct arrival arrival = {.intended_ns = load->next_ns,
                                  .script = slam_flow_pick(flow)};
        struct slam_op_record *record =
            slam_flow_script_record(flow, arrival.script, arrival.intended_ns);

        draw_next(flow);
        record->scheduled++;
        if (!stood_still && flow->backlog_len == 0 && begin_session(flow, &arrival, 0))
            continue;
        if (stood_still || flow->backlog_len == load->backlog_cap) {
            record->dropped++;
            continue;
        }
        load->backlog[(load->backlog_head + flow->backlog_len++) % load->backlog_cap] =
            arrival;
    }
}

static void
pop_backlog(struct slam_flow *flow)
{
    struct open_load *load = flow->load;

    load->backlog_head = (load->backlog_head + 1) % load->backlog_cap;
    flow->backlog_len--;
}

static void
ready(struct slam_conn *conn)
{
    struct slam_flow *flow = conn->flow;
    struct open_load *load = flow->load;
    uint64_t late_ns = conn->done_ns < load->late_until_ns ? load->late_ns : 0;

    count_available(conn, conn->received_ns);
    while (flow->backlog_len > 0 &&
           begin_session(flow, &load->backlog[load->backlog_head], late_ns))
        pop_backlog(flow);
}

static void
drop(struct slam_flow *flow)
{
    struct open_load *load = flow->load;

    for (; flow->backlog_len > 0; pop_backlog(flow)) {
        const struct arrival *arrival = &load->backlog[load->backlog_head];

        slam_flow_script_record(flow, arrival->script, arrival->intended_ns)->dropped++;
    }
}

const struct slam_load_model slam_open_model = {.has_backlog = true,
                                                .init = init,
                                                .begin = draw_next,
                                                .due_ns = due_ns,
                                                .run = run,
                                                .ready = ready,
                                                .drop = drop};
