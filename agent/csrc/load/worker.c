/* SPDX-License-Identifier: Apache-2.0 */
#include "load/worker.h"

#include "core/clock.h"
#include "core/slam_err.h"
#include "load/connection.h"
#include "load/model.h"
#include "load/request.h"
#include "load/response.h"
#include "load/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EPOLL_EVENTS 256

#define PREFETCH_FAR 6
#define PREFETCH_NEAR 3

#define CLOSE_RETRY_NS UINT64_C(1000000)

/* How long before T0 a closed worker takes real-time priority; with more connections
 * than this its first requests would keep it too long. */
#define START_PRIORITY_NS UINT64_C(20000000)
#define START_PRIORITY_CONNECTIONS 256

static uint64_t
end_ns(const struct slam_timeline *t)
{
    uint64_t planned = t->t0_ns + t->boundaries_ns[t->boundary_count - 1];
    uint64_t stop = atomic_load_explicit(&t->stop_ns, memory_order_acquire);

    return slam_earlier_ns(stop, planned);
}

/* Nothing may be sent any more. A suspended host's CLOCK_MONOTONIC stands still. */
static bool
must_leave(const struct slam_timeline *t)
{
    return atomic_load_explicit(&t->abort, memory_order_relaxed) ||
           (t->lease_ns && slam_clock_read_ns(CLOCK_BOOTTIME) >=
                               atomic_load_explicit(t->lease_ns, memory_order_relaxed));
}

/* Brings the record up to date at the end of an interval. A client that thinks, or has
 * ended, waits for nothing; one without a port waits for the generator's host. */
static void
close_server(struct slam_server *server, uint64_t now_ns)
{
    struct slam_stream_record *record = slam_server_record(server);
    const struct slam_flow *flow = server->flow;
    struct slam_wait *wait = &server->wait;
    /* those of a trace are due later */
    bool replaces = server->in_state[SLAM_CONN_REPLACING] && !flow->stream->trace;

    slam_server_tally(server, now_ns);
    if (server->in_flight == 0) {
        if (server->in_state[SLAM_CONN_UNABLE])
            slam_wait_forget(wait, 0);
        else if (slam_flow_is_over(flow) ||
                 !(server->in_state[SLAM_CONN_DOWN] || replaces))
            slam_wait_end(wait, record, wait->given_up_ns ? wait->given_up_ns : now_ns);
        else if (!wait->since_ns)
            wait->since_ns = now_ns;
    }
    record->in_flight = server->in_flight;
    record->connecting = server->in_state[SLAM_CONN_REPLACING];
    slam_wait_report(wait, record, now_ns);
}

static void
plan_slots(struct slam_worker *worker, size_t number)
{
    const struct slam_timeline *t = worker->config.timeline;

    for (size_t i = 0; i < worker->server_count; i++)
        slam_wait_advance(&worker->servers[i].wait, t->t0_ns, t->boundaries_ns,
                          t->boundary_count, number);
}

static bool
close_interval(struct slam_worker *worker, uint64_t now_ns, bool final)
{
    struct slam_interval_record *record = worker->recorder.active;
    uint64_t cpu_ns = slam_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t run_queue_ns = slam_thread_run_queue_ns(&worker->thread);
    uint64_t step_ns = slam_thread_update_offset(&worker->closing_offset_ns);

    worker->realtime_offset_ns = worker->closing_offset_ns;
    if (step_ns > record->clock_step_ns)
        record->clock_step_ns = step_ns;
    for (size_t i = 0; i < worker->flow_count; i++)
        record->streams[worker->flows[i].stream->first_place].backlog =
            worker->flows[i].backlog_len;
    for (size_t i = 0; i < worker->server_count; i++)
        close_server(&worker->servers[i], now_ns);
    record->cpu_ns = cpu_ns - worker->cpu_ns;
    record->run_queue_ns = run_queue_ns - worker->run_queue_ns;
    if (!slam_recorder_close(&worker->recorder, now_ns, final))
        return false;
    worker->cpu_ns = cpu_ns;
    worker->run_queue_ns = run_queue_ns;
    return true;
}

static const struct slam_load_model *
model_of(const struct slam_stream *stream)
{
    if (stream->trace)
        return stream->settings.open ? &slam_replay_open_model
                                     : &slam_replay_closed_model;
    return stream->settings.open ? &slam_open_model : &slam_closed_model;
}

/* Nothing is due any more; what still waits is sent as connections get free. */
static void
end_flow(struct slam_flow *flow)
{
    if (flow->ended)
        return;
    for (size_t i = 0; i < flow->stream->settings.connection.uri_count; i++)
        slam_server_tally(&flow->servers[i], slam_clock_mono_ns());
    flow->ended = true;
    if (flow->sessions_left != UINT64_MAX)
        flow->sessions_left = 0;
}

/* When the stream's sessions end before the run; UINT64_MAX: they do not. */
static uint64_t
stream_end_ns(const struct slam_flow *flow)
{
    return flow->stream->settings.end_ns > 0
               ? flow->worker->config.timeline->t0_ns + flow->stream->settings.end_ns
               : UINT64_MAX;
}

/* When what waits of an ended stream is given up: after the grace, but at once where
 * somebody stops the run. */
static uint64_t
patience_end_ns(const struct slam_flow *flow, uint64_t run_end_ns)
{
    const struct slam_timeline *t = flow->worker->config.timeline;
    uint64_t stop = atomic_load_explicit(&t->stop_ns, memory_order_acquire);

    return slam_earlier_ns(stop, slam_earlier_ns(run_end_ns, stream_end_ns(flow)) +
                                     t->grace_ns);
}

static void
run_flow(struct slam_flow *flow, uint64_t now_ns, uint64_t run_end_ns)
{
    uint64_t end = slam_earlier_ns(run_end_ns, stream_end_ns(flow));

    if (!flow->ended) {
        flow->model->run(flow, now_ns, end);
        if (now_ns >= end)
            end_flow(flow);
    }
    if (flow->backlog_len > 0 && now_ns >= patience_end_ns(flow, run_end_ns))
        flow->model->drop(flow);
}

/* Lets the load models go on with what the last read, timer or delivery has freed. */
static void
drain_ready(struct slam_worker *worker)
{
    struct slam_conn *conn;

    while ((conn = slam_conn_next_ready(worker)) != NULL)
        conn->flow->model->ready(conn);
}

static bool
has_work(const struct slam_worker *worker)
{
    if (worker->active > 0)
        return true;
    for (size_t i = 0; i < worker->flow_count; i++)
        if (worker->flows[i].backlog_len > 0)
            return true;
    for (size_t i = 0; i < worker->server_count; i++)
        if (worker->servers[i].in_state[SLAM_CONN_REPLACING] > 0)
            return true;
    return false;
}

static void
take_deliveries(struct slam_worker *worker)
{
    uint64_t now_ns = slam_clock_mono_ns();
    struct slam_connect_request *request = slam_inbox_take(&worker->inbox);

    while (request) {
        struct slam_connect_request *next = request->next;

        /* the first member of its connection */
        slam_conn_connected((struct slam_conn *)request, now_ns);
        request = next;
    }
}

/* When the worker must act next, if no message comes before. */
static uint64_t
next_deadline(const struct slam_worker *worker, uint64_t boundary_ns,
              uint64_t run_end_ns, uint64_t *pace_ns)
{
    uint64_t grace_ns = worker->draining ? worker->config.timeline->grace_ns : 0;
    uint64_t deadline = slam_earlier_ns(boundary_ns, run_end_ns + grace_ns);

    *pace_ns = UINT64_MAX;
    for (size_t i = 0; i < worker->flow_count; i++) {
        const struct slam_flow *flow = &worker->flows[i];

        *pace_ns = slam_earlier_ns(*pace_ns, slam_session_next_ns(flow));
        if (!flow->ended)
            *pace_ns =
                slam_earlier_ns(*pace_ns, slam_earlier_ns(flow->model->due_ns(flow),
                                                          stream_end_ns(flow)));
        else if (flow->backlog_len > 0)
            deadline = slam_earlier_ns(deadline, patience_end_ns(flow, run_end_ns));
    }
    for (size_t i = 0; i < worker->server_count; i++) {
        const struct slam_server *server = &worker->servers[i];

        if (server->in_flight > 0)
            deadline = slam_earlier_ns(
                deadline, TAILQ_FIRST(&server->sent)->sent_ns +
                              server->flow->stream->settings.request_timeout_ns);
    }
    return slam_earlier_ns(deadline, *pace_ns);
}

/* Arms the timer only when it would ring too late: on a virtual machine each arming is
 * a visit to the hypervisor, ten times the rest of the wait (a time-out of epoll_wait
 * would arm it at every message). Ringing too early costs one idle turn. */
static void
arm_timer(struct slam_worker *worker, uint64_t deadline_ns)
{
    struct itimerspec at = {.it_value = slam_clock_timespec(deadline_ns)};

    if (worker->armed_ns <= deadline_ns)
        return;
    timerfd_settime(worker->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    worker->armed_ns = deadline_ns;
}

static bool
is_connection(const struct slam_worker *worker, const struct epoll_event *event)
{
    return event->data.ptr != &worker->timer_fd && event->data.ptr != &worker->inbox;
}

static void
prefetch(const struct slam_worker *worker, const struct epoll_event *events, int n,
         int i)
{
    if (i + PREFETCH_FAR < n && is_connection(worker, &events[i + PREFETCH_FAR]))
        slam_response_prefetch(events[i + PREFETCH_FAR].data.ptr, false);
    if (i + PREFETCH_NEAR < n && is_connection(worker, &events[i + PREFETCH_NEAR]))
        slam_response_prefetch(events[i + PREFETCH_NEAR].data.ptr, true);
}

static void
handle_socket(struct slam_worker *worker, struct slam_conn *conn, uint32_t events)
{
    if (events & EPOLLOUT) {
        slam_request_flush(conn);
        drain_ready(worker);
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        slam_response_expect(conn, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
        while (slam_response_read(conn))
            drain_ready(worker);
        drain_ready(worker);
    }
}

static void
handle(struct slam_worker *worker, const struct epoll_event *event)
{
    eventfd_t count;

    if (event->data.ptr == &worker->timer_fd) {
        worker->armed_ns = UINT64_MAX;
    } else if (event->data.ptr == &worker->inbox) {
        eventfd_read(worker->inbox.event_fd, &count);
        take_deliveries(worker);
        drain_ready(worker);
    } else {
        handle_socket(worker, event->data.ptr, event->events);
    }
}

/* Returns how many events there are until the deadline, for handle_events. A thread
 * that may spin polls the last stretch before a paced send. */
static int
wait_for_events(struct slam_worker *worker, uint64_t now_ns, uint64_t deadline_ns,
                uint64_t pace_ns, struct epoll_event events[EPOLL_EVENTS])
{
    struct slam_interval_record *record = worker->recorder.active;
    uint64_t spin_ns = worker->thread.spins ? worker->config.spin_ns : 0;
    uint64_t sleep_until_ns = deadline_ns;
    bool sleeps;
    uint64_t after_ns;
    int n;

    if (deadline_ns == pace_ns && spin_ns > 0)
        sleep_until_ns = deadline_ns > spin_ns ? deadline_ns - spin_ns : 0;
    sleeps = sleep_until_ns > now_ns;
    if (sleeps)
        arm_timer(worker, sleep_until_ns);
    n = epoll_wait(worker->epoll_fd, events, EPOLL_EVENTS, sleeps ? -1 : 0);
    after_ns = slam_clock_mono_ns();
    record->loops++;
    if (sleeps)
        record->wait_ns += after_ns - now_ns;
    else if (n == 0)
        record->spin_ns += after_ns - now_ns;
    return n;
}

static void
handle_events(struct slam_worker *worker, const struct epoll_event *events, int n)
{
    for (int i = 0; i < n; i++) {
        prefetch(worker, events, n, i);
        handle(worker, &events[i]);
    }
}

/* What time brings: time-outs, the ends of pauses, sessions that are due. */
static void
run_flows(struct slam_worker *worker, uint64_t now_ns, uint64_t run_end_ns)
{
    for (size_t i = 0; i < worker->server_count; i++) {
        if (!worker->servers[i].probe)
            slam_conn_follow(&worker->servers[i], now_ns);
        slam_conn_expire(&worker->servers[i], now_ns);
    }
    drain_ready(worker);
    for (size_t i = 0; i < worker->flow_count; i++) {
        struct slam_flow *flow = &worker->flows[i];

        slam_request_run_paused(flow, now_ns);
        drain_ready(worker);
        run_flow(flow, now_ns, run_end_ns);
        drain_ready(worker);
    }
}

/* Tells once when every flow has run the number of sessions that it was given. */
static void
tell_when_finished(struct slam_worker *worker)
{
    if (worker->finished)
        return;
    for (size_t i = 0; i < worker->flow_count; i++) {
        const struct slam_flow *flow = &worker->flows[i];

        if (flow->sessions_left > 0 || flow->backlog_len > 0 || flow->active > 0)
            return;
    }
    worker->finished = true;
    atomic_fetch_sub_explicit(&worker->config.timeline->unfinished, 1,
                              memory_order_release);
}

/* Until T0: takes connections, sends nothing, measures nothing. Workers of other agents
 * on this host begin at the same instant, and the scheduler moves a closed loop off its
 * core a millisecond late: closed workers too have real-time priority for their first
 * requests. */
static void
wait_for_start(struct slam_worker *worker)
{
    const struct slam_timeline *t = worker->config.timeline;
    struct slam_interval_record *record = worker->recorder.active;
    bool is_raised = worker->config.realtime && !worker->config.open &&
                     slam_worker_connections(worker) <= START_PRIORITY_CONNECTIONS;
    uint64_t lead_ns = is_raised ? START_PRIORITY_NS : 0;
    struct epoll_event events[EPOLL_EVENTS];
    uint64_t now_ns;
    int n = 0;

    while (!must_leave(t)) {
        uint64_t start_ns = slam_earlier_ns(t->t0_ns, end_ns(t));

        handle_events(worker, events, n);
        now_ns = slam_clock_mono_ns();
        if (lead_ns != 0 && now_ns + lead_ns >= start_ns) {
            slam_thread_raise(&worker->thread);
            lead_ns = 0;
        }
        if (now_ns >= start_ns)
            break;
        n = wait_for_events(worker, now_ns, start_ns - lead_ns, start_ns - lead_ns,
                            events);
    }
    now_ns = slam_clock_mono_ns();
    atomic_store(&worker->start_error_ns, now_ns > t->t0_ns ? now_ns - t->t0_ns : 0);
    record->start_ns = t->t0_ns;
    record->wait_ns = record->spin_ns = record->loops = 0;
    for (size_t i = 0; i < worker->server_count; i++) {
        struct slam_stream_record *stream = slam_server_record(&worker->servers[i]);

        worker->servers[i].tallied_ns = t->t0_ns;
        stream->down_ns = stream->unable_ns = 0;
    }
    plan_slots(worker, 0);
    plan_slots(worker, 1);
    worker->cpu_ns = slam_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    worker->run_queue_ns = slam_thread_run_queue_ns(&worker->thread);
}

static void
worker_loop(struct slam_worker *worker)
{
    const struct slam_timeline *t = worker->config.timeline;
    size_t interval = 0;
    bool planned_closed = false;
    struct epoll_event events[EPOLL_EVENTS];
    int n = 0;

    wait_for_start(worker);
    while (!must_leave(t)) {
        uint64_t boundary_ns = UINT64_MAX;
        uint64_t now_ns, run_end_ns, pace_ns, deadline_ns;

        handle_events(worker, events, n);
        n = 0;
        /* the clock first, the end second: see slam_timeline.stop_ns */
        now_ns = slam_clock_mono_ns();
        run_end_ns = end_ns(t);
        run_flows(worker, now_ns, run_end_ns);
        worker->draining = now_ns >= run_end_ns;
        if (!planned_closed) {
            boundary_ns =
                slam_earlier_ns(t->t0_ns + t->boundaries_ns[interval], run_end_ns);
            if (now_ns >= boundary_ns) {
                if (close_interval(worker, now_ns, false)) {
                    planned_closed = boundary_ns == run_end_ns;
                    plan_slots(worker, ++interval + 1);
                    continue;
                }
                boundary_ns = now_ns + CLOSE_RETRY_NS;
            }
        }
        /* each planned interval has a record of its own, late as it may be */
        if (worker->draining && planned_closed &&
            (!has_work(worker) || now_ns >= run_end_ns + t->grace_ns))
            break;
        tell_when_finished(worker);
        deadline_ns = next_deadline(worker, boundary_ns, run_end_ns, &pace_ns);
        if (!worker->config.open)
            slam_thread_lower(&worker->thread);
        n = wait_for_events(worker, now_ns, deadline_ns, pace_ns, events);
        slam_thread_watch(&worker->thread, now_ns);
        atomic_store_explicit(&worker->realtime, worker->thread.realtime,
                              memory_order_relaxed);
    }
    for (size_t i = 0; i < worker->flow_count; i++) {
        struct slam_flow *flow = &worker->flows[i];

        end_flow(flow);
        if (flow->backlog_len > 0)
            flow->model->drop(flow);
        slam_conn_close_all(flow);
    }
    close_interval(worker, slam_clock_mono_ns(), true);
}

static void *
worker_main(void *arg)
{
    struct slam_worker *worker = arg;

    slam_thread_open(&worker->thread, worker->config.open && worker->config.realtime);
    worker->realtime_offset_ns = slam_thread_realtime_offset_ns();
    worker->closing_offset_ns = worker->realtime_offset_ns;
    for (size_t i = 0; i < worker->flow_count; i++)
        worker->flows[i].model->begin(&worker->flows[i]);
    worker_loop(worker);
    slam_thread_close(&worker->thread);
    return NULL;
}

static int
add_flow(struct slam_worker *worker, size_t stream_index, char *err)
{
    struct slam_flow *flow = &worker->flows[worker->flow_count++];
    int rc = slam_flow_init(flow, worker, stream_index, err);

    if (rc != SLAM_OK)
        return rc;
    flow->model = model_of(flow->stream);
    return flow->model->init(flow);
}

int
slam_worker_create(const struct slam_worker_config *config, struct slam_worker **out,
                   char *err)
{
    struct slam_worker *worker = calloc(1, sizeof(*worker));
    struct epoll_event inbox = {.events = EPOLLIN, .data.ptr = NULL};
    struct epoll_event timer = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    int rc = SLAM_ENOMEM;

    if (!worker)
        goto out;
    worker->config = *config;
    worker->epoll_fd = worker->timer_fd = -1;
    worker->armed_ns = UINT64_MAX;
    STAILQ_INIT(&worker->ready);
    atomic_init(&worker->stamps, true);
    atomic_init(&worker->start_error_ns, UINT64_MAX);
    /* both leave something that destroy accepts, also when they fail */
    rc = slam_inbox_init(&worker->inbox);
    if (slam_recorder_init(&worker->recorder, config->total_op_count,
                           config->total_place_count) != SLAM_OK)
        rc = SLAM_ENOMEM;
    if (rc != SLAM_OK)
        goto out;
    inbox.data.ptr = &worker->inbox;
    timer.data.ptr = &worker->timer_fd;
    worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    worker->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (worker->epoll_fd < 0 || worker->timer_fd < 0 ||
        epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->inbox.event_fd, &inbox) !=
            0 ||
        epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->timer_fd, &timer) != 0) {
        rc = SLAM_ESYS;
        goto out;
    }
    rc = SLAM_ENOMEM;
    worker->flows = calloc(config->total_stream_count, sizeof(*worker->flows));
    worker->servers = calloc(config->total_place_count, sizeof(*worker->servers));
    if (!worker->flows || !worker->servers)
        goto out;
    for (size_t i = 0; i < config->total_stream_count; i++) {
        const struct slam_stream *stream = &config->streams[i];

        if (stream->settings.open != config->open ||
            slam_stream_lane(stream, config->index, config->count) >= stream->carriers)
            continue;
        rc = add_flow(worker, i, err);
        if (rc != SLAM_OK)
            goto out;
        if (stream->max_pdu > worker->pdu_len)
            worker->pdu_len = stream->max_pdu;
    }
    worker->pdu = malloc(worker->pdu_len + 1);
    rc = worker->pdu ? SLAM_OK : SLAM_ENOMEM;
out:
    if (rc != SLAM_OK) {
        if (rc == SLAM_ENOMEM)
            snprintf(err, SLAM_ERR_LEN, "no memory for a worker");
        else if (rc == SLAM_ESYS)
            snprintf(err, SLAM_ERR_LEN, "%s", strerror(errno));
        slam_worker_destroy(worker);
        worker = NULL;
    }
    *out = worker;
    return rc;
}

void
slam_worker_destroy(struct slam_worker *worker)
{
    if (!worker)
        return;
    for (size_t i = 0; i < worker->flow_count; i++)
        slam_flow_destroy(&worker->flows[i]);
    free(worker->flows);
    free(worker->servers);
    free(worker->pdu);
    if (worker->epoll_fd >= 0)
        close(worker->epoll_fd);
    if (worker->timer_fd >= 0)
        close(worker->timer_fd);
    slam_inbox_destroy(&worker->inbox);
    slam_recorder_destroy(&worker->recorder);
    free(worker);
}

void
slam_worker_connect(struct slam_worker *worker)
{
    uint64_t now_ns = slam_clock_mono_ns();

    for (size_t i = 0; i < worker->flow_count; i++) {
        struct slam_flow *flow = &worker->flows[i];

        for (uint32_t j = 0; j < flow->conn_count; j++) {
            uint64_t number = flow->partition.first + j * flow->partition.step;

            slam_connector_submit(
                worker->config.connector, &flow->conns[j].request,
                now_ns + number * flow->stream->settings.connection.connect_spacing_ns);
        }
    }
}

size_t
slam_worker_connections(const struct slam_worker *worker)
{
    size_t count = 0;

    for (size_t i = 0; i < worker->flow_count; i++)
        count += worker->flows[i].conn_count;
    return count;
}

int
slam_worker_start(struct slam_worker *worker)
{
    if (pthread_create(&worker->pthread, NULL, worker_main, worker) != 0)
        return SLAM_ESYS;
    worker->started = true;
    return SLAM_OK;
}

void
slam_worker_join(struct slam_worker *worker)
{
    if (worker->started)
        pthread_join(worker->pthread, NULL);
    worker->started = false;
}
