/* SPDX-License-Identifier: Apache-2.0 */
#include "load/engine.h"

#include "core/clock.h"
#include "core/slam_err.h"
#include "load/worker.h"

#include <stdlib.h>

#define MAX_STREAMS 1024u

/* How far ahead an early end is set: longer than a worker's two reads of clock and
 * end. */
#define STOP_AHEAD_NS UINT64_C(10000000)

enum engine_state { NEW, PREPARED, RUNNING, DONE };

struct slam_engine {
    enum engine_state state;
    struct slam_engine_config config;
    struct slam_timeline timeline;
    struct slam_feeds feeds;
    struct slam_stream *streams;
    size_t stream_count;
    size_t op_count;
    size_t place_count;
    struct slam_connector *connector;
    struct slam_worker *workers[2 * SLAM_MAX_WORKERS];
    size_t worker_count;
    uint64_t next_snapshot;
    struct slam_op_record *merged_ops;
    struct slam_stream_record *merged_streams;
    struct slam_snapshot snapshot;
};

int
slam_engine_create(const struct slam_engine_config *config, struct slam_engine **out,
                   char *err)
{
    struct slam_engine *e;

    if (config->workers < 1 || config->workers > SLAM_MAX_WORKERS)
        return slam_fail(err, SLAM_EINVAL, "workers must be 1 to 256");
    if (config->boundary_count < 1)
        return slam_fail(err, SLAM_EINVAL, "a run needs at least one interval");
    for (size_t i = 0; i < config->boundary_count; i++)
        if (config->boundaries_ns[i] <= (i ? config->boundaries_ns[i - 1] : 0))
            return slam_fail(err, SLAM_EINVAL, "interval ends must ascend from T0");
    e = calloc(1, sizeof(*e));
    if (!e)
        return slam_fail(err, SLAM_ENOMEM, "no memory for the engine");
    e->config = *config;
    e->timeline = (struct slam_timeline){.boundaries_ns = config->boundaries_ns,
                                         .boundary_count = config->boundary_count,
                                         .measure_start_ns = config->measure_start_ns,
                                         .measure_end_ns = config->measure_end_ns,
                                         .ramp_up_ns = config->ramp_up_ns,
                                         .grace_ns = config->grace_ns,
                                         .lease_ns = config->lease_ns};
    atomic_init(&e->timeline.stop_ns, UINT64_MAX);
    atomic_init(&e->timeline.abort, false);
    *out = e;
    return SLAM_OK;
}

void
slam_engine_destroy(struct slam_engine *e)
{
    if (!e)
        return;
    atomic_store(&e->timeline.abort, true);
    for (size_t i = 0; i < e->worker_count; i++) {
        slam_inbox_wake(&e->workers[i]->inbox);
        slam_worker_join(e->workers[i]);
    }
    slam_connector_destroy(e->connector);
    for (size_t i = 0; i < e->worker_count; i++)
        slam_worker_destroy(e->workers[i]);
    for (size_t i = 0; i < e->stream_count; i++)
        slam_stream_destroy(&e->streams[i]);
    free(e->streams);
    slam_feeds_close(&e->feeds);
    free(e->merged_ops);
    free(e->merged_streams);
    free(e);
}

int
slam_engine_add_stream(struct slam_engine *e, const struct slam_stream_settings *c,
                       char *err)
{
    struct slam_stream *streams;
    int rc;

    if (e->state != NEW)
        return slam_fail(err, SLAM_ESTATE, "streams are added before prepare");
    if (e->stream_count >= MAX_STREAMS)
        return slam_fail(err, SLAM_EINVAL, "too many streams");
    streams = realloc(e->streams, (e->stream_count + 1) * sizeof(*streams));
    if (!streams)
        return slam_fail(err, SLAM_ENOMEM, "no memory for a stream");
    e->streams = streams;
    rc = slam_stream_init(&streams[e->stream_count], c, &e->feeds, err);
    if (rc != SLAM_OK) {
        slam_stream_destroy(&streams[e->stream_count]);
        return rc;
    }
    return (int)e->stream_count++;
}

/* Deals the streams of a kind out to its workers, each going on where the one before
 * ended. Returns how many workers carry any. */
static uint32_t
deal_streams(struct slam_engine *e, bool open)
{
    uint32_t dealt = 0;

    for (size_t i = 0; i < e->stream_count; i++) {
        struct slam_stream *stream = &e->streams[i];

        if (stream->settings.open != open)
            continue;
        stream->first_worker = dealt % e->config.workers;
        stream->carriers = slam_stream_carriers(stream, e->config.workers);
        dealt += stream->carriers;
    }
    return dealt < e->config.workers ? dealt : e->config.workers;
}

static int
create_workers(struct slam_engine *e, bool open, char *err)
{
    struct slam_worker_config config = {.open = open,
                                        .count = e->config.workers,
                                        .realtime = e->config.realtime,
                                        .spin_ns = e->config.spin_ns,
                                        .seed = e->config.seed,
                                        .max_pdu_bytes = e->config.max_pdu_bytes,
                                        .total_op_count = e->op_count,
                                        .total_stream_count = e->stream_count,
                                        .total_place_count = e->place_count,
                                        .streams = e->streams,
                                        .timeline = &e->timeline,
                                        .connector = e->connector};
    uint32_t carrying = deal_streams(e, open);

    for (; config.index < carrying; config.index++) {
        int rc = slam_worker_create(&config, &e->workers[e->worker_count], err);

        if (rc != SLAM_OK)
            return rc;
        e->worker_count++;
    }
    return SLAM_OK;
}

static int
check_mechanisms(const struct slam_stream *s, struct slam_conn_error *error)
{
    int rc = SLAM_OK;

    for (size_t i = 0; rc == SLAM_OK && i < s->op_count; i++)
        if (s->ops[i].spec && s->ops[i].spec->sasl.mechanism)
            rc = slam_connection_settings_check_mechanism(
                &s->settings.connection, s->ops[i].spec->sasl.mechanism, error);
    return rc;
}

int
slam_engine_prepare(struct slam_engine *e, struct slam_conn_error *error, char *err)
{
    size_t connections = 0;
    int rc;

    if (e->state != NEW)
        return slam_fail(err, SLAM_ESTATE, "prepare is called once");
    for (size_t i = 0; i < e->stream_count; i++) {
        rc = slam_stream_prepare(&e->streams[i], err);
        if (rc != SLAM_OK)
            return rc;
        e->streams[i].first_op = e->op_count;
        e->streams[i].first_place = e->place_count;
        e->place_count += slam_stream_places(&e->streams[i]);
        e->op_count += e->streams[i].op_count * slam_stream_places(&e->streams[i]);
        connections += e->streams[i].settings.connections;
    }
    if (e->op_count == 0)
        return slam_fail(err, SLAM_EINVAL, "a run needs at least one stream");
    e->merged_ops = calloc(2 * e->op_count, sizeof(*e->merged_ops));
    e->merged_streams = calloc(e->place_count, sizeof(*e->merged_streams));
    if (!e->merged_ops || !e->merged_streams)
        return slam_fail(err, SLAM_ENOMEM, "no memory for snapshots");
    slam_transport_init();
    for (size_t i = 0; i < e->stream_count; i++) {
        rc =
            slam_connection_settings_prepare(&e->streams[i].settings.connection, error);
        if (rc == SLAM_OK)
            rc = check_mechanisms(&e->streams[i], error);
        if (rc != SLAM_OK)
            return rc;
    }
    rc = slam_connector_create(
        connections < SLAM_CONNECTOR_THREADS ? connections : SLAM_CONNECTOR_THREADS,
        connections, &e->connector);
    if (rc != SLAM_OK)
        return slam_fail(err, rc, "the connector's threads could not be started");
    rc = create_workers(e, true, err);
    if (rc == SLAM_OK)
        rc = create_workers(e, false, err);
    if (rc != SLAM_OK)
        return rc;
    for (size_t i = 0; i < e->worker_count; i++)
        slam_worker_connect(e->workers[i]);
    rc = slam_connector_wait(e->connector, error);
    if (rc == SLAM_OK)
        e->state = PREPARED;
    return rc;
}

int
slam_engine_start(struct slam_engine *e, uint64_t t0_ns, char *err)
{
    if (e->state != PREPARED)
        return slam_fail(err, SLAM_ESTATE, "start comes once, after prepare");
    e->timeline.t0_ns = t0_ns;
    atomic_init(&e->timeline.unfinished, (uint32_t)e->worker_count);
    e->state = RUNNING;
    for (size_t i = 0; i < e->worker_count; i++) {
        int rc = slam_worker_start(e->workers[i]);

        if (rc != SLAM_OK)
            return slam_fail(err, rc, "a worker thread could not be started");
    }
    return SLAM_OK;
}

void
slam_engine_stop(struct slam_engine *e)
{
    uint64_t unset = UINT64_MAX;

    atomic_compare_exchange_strong(&e->timeline.stop_ns, &unset,
                                   slam_clock_mono_ns() + STOP_AHEAD_NS);
    for (size_t i = 0; i < e->worker_count; i++)
        slam_inbox_wake(&e->workers[i]->inbox);
}

static void
clear_merged(struct slam_engine *e)
{
    for (size_t i = 0; i < 2 * e->op_count; i++)
        slam_op_record_clear(&e->merged_ops[i]);
    for (size_t i = 0; i < e->place_count; i++)
        slam_stream_record_clear(&e->merged_streams[i]);
    e->snapshot = (struct slam_snapshot){.ops = e->merged_ops,
                                         .op_count = e->op_count,
                                         .streams = e->merged_streams,
                                         .place_count = e->place_count,
                                         .start_ns = UINT64_MAX,
                                         .final = true};
}

/* The time in which the worker had something to do: the greater of two lower bounds.
 * Time outside of epoll_wait lacks what the kernel does within; time on a CPU or ready
 * for one lacks what a hypervisor takes. */
static uint64_t
busy_ns(const struct slam_interval_record *r, uint64_t wall_ns)
{
    uint64_t outside_ns = slam_since_ns(wall_ns, r->wait_ns + r->spin_ns);
    uint64_t runnable_ns = slam_since_ns(r->cpu_ns, r->spin_ns) + r->run_queue_ns;

    return slam_earlier_ns(outside_ns > runnable_ns ? outside_ns : runnable_ns,
                           wall_ns);
}

static void
merge_worker(struct slam_engine *e, uint32_t index, bool open,
             const struct slam_interval_record *r)
{
    struct slam_snapshot *s = &e->snapshot;
    uint64_t start_ns = slam_since_ns(r->start_ns, e->timeline.t0_ns);
    uint64_t end_ns = slam_since_ns(r->end_ns, e->timeline.t0_ns);
    uint64_t wall_ns = slam_since_ns(end_ns, start_ns);

    for (size_t i = 0; i < 2 * e->op_count; i++)
        slam_op_record_merge(&e->merged_ops[i], &r->ops[i]);
    for (size_t i = 0; i < e->place_count; i++)
        slam_stream_record_merge(&e->merged_streams[i], &r->streams[i]);
    s->start_ns = start_ns < s->start_ns ? start_ns : s->start_ns;
    s->end_ns = end_ns > s->end_ns ? end_ns : s->end_ns;
    s->clock_step_ns =
        r->clock_step_ns > s->clock_step_ns ? r->clock_step_ns : s->clock_step_ns;
    s->workers[s->worker_count++] = (struct slam_worker_figures){
        .index = index,
        .open = open,
        .wall_ns = wall_ns,
        .busy_ns = busy_ns(r, wall_ns),
        .spin_ns = r->spin_ns,
        .cpu_ns = r->cpu_ns,
        /* a wait counts as a whole when it ends */
        .run_queue_ns = slam_earlier_ns(r->run_queue_ns, wall_ns),
        .loops = r->loops};
}

int
slam_engine_snapshot(struct slam_engine *e, uint64_t index, uint64_t timeout_ns,
                     const struct slam_snapshot **out, char *err)
{
    uint64_t deadline_ns = slam_clock_mono_ns() + timeout_ns;
    const struct slam_interval_record *records[2 * SLAM_MAX_WORKERS];
    bool final = true;

    if (e->state != RUNNING)
        return slam_fail(err, SLAM_ESTATE, "snapshots come between start and final");
    if (index != e->next_snapshot)
        return slam_fail(err, SLAM_EINVAL, "snapshots are read in order, each once");
    /* all sessions of all streams are over: the run has nothing more to measure */
    if (atomic_load_explicit(&e->timeline.unfinished, memory_order_acquire) == 0)
        slam_engine_stop(e);
    for (size_t i = 0; i < e->worker_count; i++) {
        bool finished;

        records[i] =
            slam_recorder_wait(&e->workers[i]->recorder, index, deadline_ns, &finished);
        if (!records[i] && !finished)
            return 0;
        final = final && (finished || records[i]->final);
    }
    clear_merged(e);
    e->snapshot.final = final;
    for (size_t i = 0; i < e->worker_count; i++) {
        if (!records[i])
            continue;
        merge_worker(e, (uint32_t)i, e->workers[i]->config.open, records[i]);
        slam_recorder_release(&e->workers[i]->recorder, index);
    }
    for (size_t i = 0; i < e->place_count; i++)
        slam_stream_record_since(&e->merged_streams[i], e->timeline.t0_ns);
    e->next_snapshot++;
    if (final)
        e->state = DONE;
    *out = &e->snapshot;
    return 1;
}

size_t
slam_engine_locate(const struct slam_engine *e, size_t place, size_t *stream,
                   size_t *server)
{
    size_t s = 0;

    while (place - e->streams[s].first_place >= slam_stream_places(&e->streams[s]))
        s++;
    *stream = s;
    *server = place - e->streams[s].first_place;
    return e->streams[s].op_count;
}

void
slam_engine_facts(const struct slam_engine *e, struct slam_engine_facts *facts)
{
    size_t open_workers = 0;
    size_t realtime_workers = 0;

    *facts = (struct slam_engine_facts){.kernel_stamps = true,
                                        .workers = (uint32_t)e->worker_count};
    slam_transport_library(facts->libldap, sizeof(facts->libldap), facts->tls,
                           sizeof(facts->tls));
    for (size_t i = 0; i < e->worker_count; i++) {
        struct slam_worker *worker = e->workers[i];
        uint64_t error_ns = worker->start_error_ns;

        facts->connections += slam_worker_connections(worker);
        facts->kernel_stamps = facts->kernel_stamps && worker->stamps;
        if (error_ns > facts->start_error_ns)
            facts->start_error_ns = error_ns;
        open_workers += worker->config.open;
        realtime_workers += worker->realtime;
    }
    facts->realtime = open_workers > 0 && realtime_workers == open_workers;
}
