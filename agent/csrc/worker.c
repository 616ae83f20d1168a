/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include "clock.h"
#include "request.h"
#include "slam_err.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EPOLL_EVENTS 256
#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)

/* How many connections ahead memory is asked for. */
#define PREFETCH_FAR 6
#define PREFETCH_NEAR 3

/* Two readings of CLOCK_REALTIME - CLOCK_MONOTONIC differ by less than this unless the
 * wall clock was stepped: both clocks are slewed alike. */
#define CLOCK_STEP_MIN_NS UINT64_C(1000000)

/* How soon to try again when control has not read the interval before. */
#define CLOSE_RETRY_NS UINT64_C(1000000)

/* -- schedules ------------------------------------------------------------------------
 */

static uint64_t
end_ns(const struct slam_timeline *t)
{
    uint64_t planned = t->t0_ns + t->boundaries_ns[t->boundary_count - 1];
    uint64_t stop = atomic_load_explicit(&t->stop_ns, memory_order_acquire);

    return stop < planned ? stop : planned;
}

static void
send_counted(struct slam_conn *conn, uint64_t intended_ns)
{
    struct slam_flow *flow = conn->flow;
    uint32_t op = slam_request_pick(flow);

    slam_request_record(flow, op, slam_request_measured(flow->worker, intended_ns))
        ->scheduled++;
    slam_request_send(conn, op, intended_ns, 0);
}

void
slam_worker_client_free(struct slam_conn *conn, uint64_t since_ns)
{
    struct slam_flow *flow = conn->flow;
    uint64_t think_ns = flow->stream->think_time_ns;

    conn->ready = true;
    if (flow->worker->draining || !conn->up)
        return;
    if (think_ns == 0) {
        conn->ready = false;
        send_counted(conn, since_ns);
        return;
    }
    conn->ready = false;
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
        conn->ready = !conn->up;
        if (conn->up)
            send_counted(conn, conn->due_ns);
    }
    while (flow->think_head && flow->think_head->due_ns <= now_ns) {
        struct slam_conn *conn = flow->think_head;

        flow->think_head = conn->next_thinking;
        if (!flow->think_head)
            flow->think_tail = NULL;
        conn->thinking = false;
        conn->ready = !conn->up;
        if (conn->up)
            send_counted(conn, conn->due_ns);
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
    slam_request_send(conn, arrival->op, arrival->intended_ns, slot_free_ns);
    return true;
}

void
slam_worker_slot_free(struct slam_flow *flow)
{
    while (flow->backlog_len > 0 && flow->usable_slots > 0) {
        struct slam_arrival arrival = flow->backlog[flow->backlog_head];

        flow->backlog_head = (flow->backlog_head + 1) % flow->backlog_cap;
        flow->backlog_len--;
        if (!send_arrival(flow, &arrival))
            return;
    }
}

/* Open loop: arrivals that are due, each drawn once and either sent, kept with its
 * intended time, or counted as dropped. */
static void
send_due_arrivals(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns)
{
    while (flow->next_arrival_ns <= now_ns && flow->next_arrival_ns < limit_ns) {
        struct slam_arrival arrival = {.intended_ns = flow->next_arrival_ns,
                                       .op = slam_request_pick(flow)};
        struct slam_op_record *record = slam_request_record(
            flow, arrival.op, slam_request_measured(flow->worker, arrival.intended_ns));

        flow->next_arrival_ns = flow->worker->config.timeline->t0_ns +
                                slam_pacer_next(&flow->pacer, &flow->pacer_rng);
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

/* No more requests: what still waits was scheduled and will never be sent. */
static void
begin_drain(struct slam_worker *worker)
{
    worker->draining = true;
    for (size_t i = 0; i < worker->flow_count; i++) {
        struct slam_flow *flow = &worker->flows[i];

        for (; flow->backlog_len > 0; flow->backlog_len--) {
            const struct slam_arrival *a = &flow->backlog[flow->backlog_head];

            flow->backlog_head = (flow->backlog_head + 1) % flow->backlog_cap;
            slam_request_record(flow, a->op,
                                slam_request_measured(worker, a->intended_ns))
                ->dropped++;
        }
        flow->think_head = flow->think_tail = NULL;
        flow->next_start = flow->conn_count;
    }
}

/* -- clocks and intervals
 * --------------------------------------------------------------- */

/* CLOCK_REALTIME - CLOCK_MONOTONIC, from the closest of five bracketed readings. */
static uint64_t
read_realtime_offset(void)
{
    uint64_t best_width = UINT64_MAX;
    uint64_t offset = 0;

    for (int i = 0; i < 5; i++) {
        uint64_t before = slam_clock_mono_ns();
        uint64_t real = slam_clock_read_ns(CLOCK_REALTIME);
        uint64_t after = slam_clock_mono_ns();

        if (after - before < best_width) {
            best_width = after - before;
            offset = real - (before + best_width / 2);
        }
    }
    return offset;
}

static void
update_realtime_offset(struct slam_worker *worker)
{
    uint64_t offset = read_realtime_offset();
    uint64_t ahead = offset - worker->realtime_offset_ns;
    uint64_t step = ahead < UINT64_MAX / 2 ? ahead : (uint64_t)0 - ahead;

    if (step >= CLOCK_STEP_MIN_NS && step > worker->recorder.active->clock_step_ns)
        worker->recorder.active->clock_step_ns = step;
    worker->realtime_offset_ns = offset;
}

/* Cumulative run-queue wait of this thread; 0 where the kernel does not tell. */
static uint64_t
read_run_queue_ns(int fd)
{
    char text[96];
    unsigned long long on_cpu;
    unsigned long long waiting = 0;
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

    if (n <= 0)
        return 0;
    text[n] = '\0';
    if (sscanf(text, "%llu %llu", &on_cpu, &waiting) != 2)
        return 0;
    return waiting;
}

struct thread_clocks {
    int schedstat_fd;
    uint64_t cpu_ns;
    uint64_t run_queue_ns;
};

static bool
close_interval(struct slam_worker *worker, struct thread_clocks *clocks,
               uint64_t now_ns, bool final)
{
    struct slam_interval_record *record = worker->recorder.active;
    uint64_t cpu_ns = slam_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t run_queue_ns = read_run_queue_ns(clocks->schedstat_fd);

    update_realtime_offset(worker);
    for (size_t i = 0; i < worker->flow_count; i++) {
        const struct slam_flow *flow = &worker->flows[i];

        record->streams[flow->stream_index].in_flight = flow->in_flight;
        record->streams[flow->stream_index].backlog = flow->backlog_len;
    }
    record->cpu_ns = cpu_ns - clocks->cpu_ns;
    record->run_queue_ns = run_queue_ns - clocks->run_queue_ns;
    if (!slam_recorder_close(&worker->recorder, now_ns, final))
        return false;
    clocks->cpu_ns = cpu_ns;
    clocks->run_queue_ns = run_queue_ns;
    return true;
}

/* -- the loop
 * --------------------------------------------------------------------------- */

static void
take_deliveries(struct slam_worker *worker)
{
    uint64_t now_ns = slam_clock_mono_ns();
    struct slam_link *link = slam_inbox_take(&worker->inbox);

    while (link) {
        struct slam_link *next = link->next;

        /* the link is the first member of its connection */
        slam_request_connected((struct slam_conn *)link, now_ns);
        link = next;
    }
}

static uint64_t
earliest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When the worker must act next, if no message comes before. */
static uint64_t
next_deadline(const struct slam_worker *worker, uint64_t boundary_ns,
              uint64_t run_end_ns, uint64_t *pace_ns)
{
    uint64_t deadline = earliest(boundary_ns, run_end_ns);

    *pace_ns = UINT64_MAX;
    for (size_t i = 0; i < worker->flow_count; i++) {
        const struct slam_flow *flow = &worker->flows[i];

        if (flow->oldest)
            deadline = earliest(deadline, flow->oldest->sent_ns +
                                              flow->stream->request_timeout_ns);
        if (worker->draining)
            continue;
        if (flow->stream->open) {
            *pace_ns = earliest(*pace_ns, flow->next_arrival_ns);
            continue;
        }
        if (flow->next_start < flow->conn_count)
            *pace_ns = earliest(*pace_ns, flow->conns[flow->next_start].due_ns);
        if (flow->think_head)
            *pace_ns = earliest(*pace_ns, flow->think_head->due_ns);
    }
    return earliest(deadline, *pace_ns);
}

/* The timer is armed anew only when it would ring too late. On a virtual machine each
 * arming costs a visit to the hypervisor, ten times the rest of the wait: a time-out of
 * epoll_wait would pay for it at every message. A ring too early is one idle turn. */
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
        slam_request_prefetch(events[i + PREFETCH_FAR].data.ptr, false);
    if (i + PREFETCH_NEAR < n && is_connection(worker, &events[i + PREFETCH_NEAR]))
        slam_request_prefetch(events[i + PREFETCH_NEAR].data.ptr, true);
}

static void
handle_event(struct slam_worker *worker, const struct epoll_event *event)
{
    eventfd_t count;

    if (event->data.ptr == &worker->timer_fd) {
        worker->armed_ns = UINT64_MAX;
    } else if (event->data.ptr == &worker->inbox) {
        eventfd_read(worker->inbox.event_fd, &count);
        take_deliveries(worker);
    } else {
        slam_request_io(event->data.ptr, event->events);
    }
}

/* Waits for messages until the deadline and handles them. With spin_ns, the last
 * stretch before a paced send is polled instead of slept. */
static void
wait_and_handle(struct slam_worker *worker, uint64_t now_ns, uint64_t deadline_ns,
                uint64_t pace_ns, uint64_t spin_ns)
{
    struct slam_interval_record *record = worker->recorder.active;
    struct epoll_event events[EPOLL_EVENTS];
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
    for (int i = 0; i < n; i++) {
        prefetch(worker, events, n, i);
        handle_event(worker, &events[i]);
    }
}

/* -- real time
 * ---------------------------------------------------------------------------- */

/* A real-time thread that hardly sleeps starves what shares its core, the directory
 * under test perhaps, until the kernel takes the core away for tens of milliseconds. So
 * its CPU share is watched: above the limit it stops spinning, and still above, it
 * gives SCHED_FIFO back, for good. */
#define BUDGET_WINDOW_NS (SLAM_NS_PER_S / 10)
#define BUDGET_SHARE 0.80
#define BUDGET_SPIN_SHARE 0.50 /* below: may spin again */

struct budget {
    uint64_t window_start_ns;
    uint64_t window_cpu_ns;
    bool spins;
};

static void
watch_budget(struct slam_worker *worker, struct budget *budget, uint64_t now_ns)
{
    const struct sched_param param = {.sched_priority = 0};
    uint64_t cpu_ns;
    double share;

    if (!worker->realtime_granted ||
        now_ns < budget->window_start_ns + BUDGET_WINDOW_NS)
        return;
    cpu_ns = slam_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    share = (double)(cpu_ns - budget->window_cpu_ns) /
            (double)(now_ns - budget->window_start_ns);
    if (share > BUDGET_SHARE && !budget->spins) {
        pthread_setschedparam(pthread_self(), SCHED_OTHER, &param);
        worker->realtime_granted = false;
    }
    if (share > BUDGET_SHARE)
        budget->spins = false;
    else if (share < BUDGET_SPIN_SHARE)
        budget->spins = worker->realtime_granted;
    budget->window_start_ns = now_ns;
    budget->window_cpu_ns = cpu_ns;
}

static void
run_schedules(struct slam_worker *worker, uint64_t now_ns, uint64_t limit_ns)
{
    for (size_t i = 0; i < worker->flow_count; i++) {
        struct slam_flow *flow = &worker->flows[i];

        slam_request_expire(flow, now_ns);
        if (worker->draining)
            continue;
        if (flow->stream->open)
            send_due_arrivals(flow, now_ns, limit_ns);
        else if (now_ns < limit_ns)
            send_due_clients(flow, now_ns);
    }
}

static uint64_t
since_ns(uint64_t later_ns, uint64_t earlier_ns)
{
    return later_ns > earlier_ns ? later_ns - earlier_ns : 0;
}

/* Until T0: takes connections, sends nothing, measures nothing. */
static void
wait_for_start(struct slam_worker *worker, struct thread_clocks *clocks)
{
    const struct slam_timeline *t = worker->config.timeline;
    struct slam_interval_record *record = worker->recorder.active;

    while (!atomic_load_explicit(&t->abort, memory_order_relaxed)) {
        uint64_t now_ns = slam_clock_mono_ns();
        uint64_t until_ns = earliest(t->t0_ns, end_ns(t));

        if (now_ns >= until_ns)
            break;
        wait_and_handle(worker, now_ns, until_ns, until_ns,
                        worker->realtime_granted ? worker->config.spin_ns : 0);
    }
    atomic_store(&worker->start_error_ns, since_ns(slam_clock_mono_ns(), t->t0_ns));
    record->start_ns = t->t0_ns;
    record->wait_ns = record->spin_ns = record->loops = 0;
    clocks->cpu_ns = slam_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    clocks->run_queue_ns = read_run_queue_ns(clocks->schedstat_fd);
}

static void
worker_loop(struct slam_worker *worker, struct thread_clocks *clocks)
{
    const struct slam_timeline *t = worker->config.timeline;
    struct budget budget = {.spins = worker->realtime_granted};
    size_t interval = 0;
    bool planned_closed = false;

    wait_for_start(worker, clocks);
    while (!atomic_load_explicit(&t->abort, memory_order_relaxed)) {
        /* the clock first, the end second: see slam_timeline.stop_ns */
        uint64_t now_ns = slam_clock_mono_ns();
        uint64_t run_end_ns = end_ns(t);
        uint64_t grace_end_ns = run_end_ns + t->grace_ns;
        uint64_t boundary_ns = UINT64_MAX;
        uint64_t pace_ns;
        uint64_t deadline_ns;

        run_schedules(worker, now_ns, run_end_ns);
        if (!worker->draining && now_ns >= run_end_ns)
            begin_drain(worker);
        if (!planned_closed) {
            boundary_ns = earliest(t->t0_ns + t->boundaries_ns[interval], run_end_ns);
            if (now_ns >= boundary_ns) {
                if (close_interval(worker, clocks, now_ns, false)) {
                    planned_closed = boundary_ns == run_end_ns;
                    interval++;
                    continue;
                }
                boundary_ns = now_ns + CLOSE_RETRY_NS;
            }
        }
        if (worker->draining && (worker->in_flight == 0 || now_ns >= grace_end_ns))
            break;
        deadline_ns =
            next_deadline(worker, boundary_ns,
                          worker->draining ? grace_end_ns : run_end_ns, &pace_ns);
        wait_and_handle(worker, now_ns, deadline_ns, pace_ns,
                        budget.spins ? worker->config.spin_ns : 0);
        watch_budget(worker, &budget, now_ns);
    }
    if (!worker->draining)
        begin_drain(worker);
    for (size_t i = 0; i < worker->flow_count; i++)
        slam_request_give_up(&worker->flows[i]);
    close_interval(worker, clocks, slam_clock_mono_ns(), true);
}

static void
prepare_schedules(struct slam_worker *worker)
{
    const struct slam_timeline *t = worker->config.timeline;

    for (size_t i = 0; i < worker->flow_count; i++) {
        struct slam_flow *flow = &worker->flows[i];
        const struct slam_stream *stream = flow->stream;

        if (stream->open) {
            flow->next_arrival_ns =
                t->t0_ns + slam_pacer_next(&flow->pacer, &flow->pacer_rng);
            continue;
        }
        /* clients begin evenly spread over the ramp-up */
        for (uint32_t j = 0; j < flow->conn_count; j++) {
            uint64_t number = worker->config.index + (uint64_t)j * worker->config.count;

            flow->conns[j].due_ns =
                t->t0_ns + (uint64_t)((double)t->ramp_up_ns * (double)number /
                                      (double)stream->connections);
        }
    }
}

static void *
worker_main(void *arg)
{
    struct slam_worker *worker = arg;
    struct thread_clocks clocks = {.schedstat_fd = -1};

    prctl(PR_SET_TIMERSLACK, 1UL);
    if (worker->config.open && worker->config.realtime) {
        struct sched_param param = {.sched_priority = 1};

        worker->realtime_granted =
            pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0;
    }
    clocks.schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    worker->realtime_offset_ns = read_realtime_offset();
    prepare_schedules(worker);
    worker_loop(worker, &clocks);
    if (clocks.schedstat_fd >= 0)
        close(clocks.schedstat_fd);
    return NULL;
}

/* -- life
 * ------------------------------------------------------------------------------- */

static uint32_t
share(uint64_t total, uint32_t index, uint32_t count)
{
    return (uint32_t)(total / count + (index < total % count ? 1 : 0));
}

/* Zeroed memory for a table that is walked at random: on cache lines, and on huge pages
 * where it is large, because a miss of the TLB costs as much as one of the cache. */
static void *
alloc_table(size_t count, size_t size)
{
    size_t bytes = count * size;
    size_t align = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : SLAM_CACHE_LINE;
    void *table;

    bytes = (bytes + align - 1) / align * align;
    table = aligned_alloc(align, bytes);
    if (!table)
        return NULL;
    if (align == HUGE_PAGE_BYTES)
        madvise(table, bytes, MADV_HUGEPAGE);
    return memset(table, 0, bytes);
}

/* Everything a flow needs, allocated once. */
static int
flow_init(struct slam_worker *worker, struct slam_flow *flow, size_t stream_index)
{
    const struct slam_worker_config *config = &worker->config;
    const struct slam_stream *stream = &config->streams[stream_index];
    uint32_t carriers =
        stream->connections < config->count ? stream->connections : config->count;
    uint64_t participant =
        stream->participant + (uint64_t)stream->participants * config->index;
    uint64_t participants = (uint64_t)stream->participants * carriers;
    size_t slots;
    size_t states = 0;

    flow->worker = worker;
    flow->stream = stream;
    flow->stream_index = stream_index;
    flow->conn_count = share(stream->connections, config->index, config->count);
    slots = (size_t)flow->conn_count * stream->in_flight;
    while ((UINT32_C(1) << flow->slot_bits) < stream->in_flight)
        flow->slot_bits++;
    for (size_t op = 0; op < stream->op_count; op++)
        states += slam_op_source_count(stream->ops[op].op);
    if (stream->open)
        flow->backlog_cap = share(stream->max_backlog, config->index, carriers);

    flow->conns = alloc_table(flow->conn_count, sizeof(*flow->conns));
    flow->slots = alloc_table(slots, sizeof(*flow->slots));
    flow->tx = malloc(flow->conn_count * stream->max_pdu);
    flow->value_states = calloc(states ? states : 1, sizeof(*flow->value_states));
    flow->first_state = calloc(stream->op_count, sizeof(*flow->first_state));
    flow->backlog =
        calloc(flow->backlog_cap ? flow->backlog_cap : 1, sizeof(*flow->backlog));
    if (!flow->conns || !flow->slots || !flow->tx || !flow->value_states ||
        !flow->first_state || !flow->backlog)
        return SLAM_ENOMEM;

    slam_rng_seed(&flow->values_rng, config->seed,
                  ((2 * (uint64_t)stream_index) << 32) + participant);
    slam_rng_seed(&flow->pacer_rng, config->seed,
                  ((2 * (uint64_t)stream_index + 1) << 32) + participant);
    states = 0;
    for (size_t op = 0; op < stream->op_count; op++) {
        const struct slam_op *template = stream->ops[op].op;

        flow->first_state[op] = states;
        for (size_t i = 0; i < slam_op_source_count(template); i++)
            slam_value_state_init(slam_op_source(template, i),
                                  &flow->value_states[states++], (uint32_t)participant,
                                  (uint32_t)participants);
    }
    if (stream->open)
        slam_pacer_init(&flow->pacer, stream->rate_events, stream->rate_per_ns,
                        config->timeline->ramp_up_ns, stream->poisson, participant,
                        participants, &flow->pacer_rng);
    for (uint32_t i = 0; i < flow->conn_count; i++) {
        struct slam_conn *conn = &flow->conns[i];
        uint64_t local = config->index + (uint64_t)i * config->count;
        uint64_t number = stream->first_connection + local * stream->connection_stride;

        conn->flow = flow;
        conn->link.config = &stream->conn;
        conn->link.uri_index = (size_t)(number % stream->conn.uri_count);
        conn->link.inbox = &worker->inbox;
        conn->slots = flow->slots + (size_t)i * stream->in_flight;
        conn->tx = flow->tx + (size_t)i * stream->max_pdu;
        for (uint32_t slot = stream->in_flight; slot-- > 0;) {
            conn->slots[slot].conn = conn;
            conn->slots[slot].next_free = conn->free_head;
            conn->free_head = slot;
            conn->free_count++;
        }
    }
    return SLAM_OK;
}

int
slam_worker_create(const struct slam_worker_config *config, struct slam_worker **out,
                   char *err, size_t err_len)
{
    struct slam_worker *worker = calloc(1, sizeof(*worker));
    struct epoll_event inbox = {.events = EPOLLIN, .data.ptr = NULL};
    struct epoll_event timer = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    size_t scratch_len = 1;
    int rc = SLAM_ENOMEM;

    if (!worker)
        goto out;
    worker->config = *config;
    worker->epoll_fd = worker->timer_fd = -1;
    worker->armed_ns = UINT64_MAX;
    atomic_init(&worker->stamps, true);
    atomic_init(&worker->start_error_ns, UINT64_MAX);
    /* both leave something that destroy accepts, also when they fail */
    rc = slam_inbox_init(&worker->inbox);
    if (slam_recorder_init(&worker->recorder, config->total_op_count,
                           config->total_stream_count) != SLAM_OK)
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
    if (!worker->flows)
        goto out;
    for (size_t i = 0; i < config->total_stream_count; i++) {
        const struct slam_stream *stream = &config->streams[i];

        if (stream->open != config->open || stream->connections <= config->index)
            continue;
        rc = flow_init(worker, &worker->flows[worker->flow_count++], i);
        if (rc != SLAM_OK)
            goto out;
        if (stream->max_pdu > worker->pdu_len)
            worker->pdu_len = stream->max_pdu;
        if (stream->scratch_len > scratch_len)
            scratch_len = stream->scratch_len;
    }
    worker->scratch = malloc(scratch_len);
    worker->pdu = malloc(worker->pdu_len + 1);
    rc = worker->scratch && worker->pdu ? SLAM_OK : SLAM_ENOMEM;
out:
    if (rc != SLAM_OK) {
        snprintf(err, err_len, "%s",
                 rc == SLAM_ENOMEM ? "no memory for a worker" : strerror(errno));
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
    for (size_t i = 0; i < worker->flow_count; i++) {
        struct slam_flow *flow = &worker->flows[i];

        for (uint32_t j = 0; flow->conns && j < flow->conn_count; j++)
            slam_wire_close(flow->conns[j].link.wire, true);
        free(flow->conns);
        free(flow->slots);
        free(flow->tx);
        free(flow->value_states);
        free(flow->first_state);
        free(flow->backlog);
    }
    free(worker->flows);
    free(worker->scratch);
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
    for (size_t i = 0; i < worker->flow_count; i++)
        for (uint32_t j = 0; j < worker->flows[i].conn_count; j++)
            slam_connector_submit(worker->config.connector,
                                  &worker->flows[i].conns[j].link, 0);
}

bool
slam_worker_is_open(const struct slam_worker *worker)
{
    return worker->config.open;
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
    if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0)
        return SLAM_ESYS;
    worker->started = true;
    return SLAM_OK;
}

void
slam_worker_wake(struct slam_worker *worker)
{
    slam_inbox_wake(&worker->inbox);
}

void
slam_worker_join(struct slam_worker *worker)
{
    if (worker->started)
        pthread_join(worker->thread, NULL);
    worker->started = false;
}

struct slam_recorder *
slam_worker_recorder(struct slam_worker *worker)
{
    return &worker->recorder;
}

uint64_t
slam_worker_start_error_ns(const struct slam_worker *worker)
{
    return worker->start_error_ns;
}

bool
slam_worker_realtime(const struct slam_worker *worker)
{
    return worker->realtime_granted;
}

bool
slam_worker_stamps(const struct slam_worker *worker)
{
    return worker->stamps;
}
