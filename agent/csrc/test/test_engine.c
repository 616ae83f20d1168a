/* SPDX-License-Identifier: Apache-2.0 */
/* The whole engine against the canned responder, in one process: what the sanitizers
 * watch. What is measured is the business of tests/engine and tests/accuracy. Its
 * length comes of one harness for all that a session may do. */
#include "core/clock.h"
#include "core/slam_err.h"
#include "load/engine.h"
#include "responder/responder.h"
#include "slam_test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define ANSWER_TIMEOUT_NS (20 * SLAM_NS_PER_S)

/* The wall clock is ahead of the kernel's by this. */
static _Atomic int64_t ahead_s;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
    int rc = __real_clock_gettime(clock, ts);

    if (clock == CLOCK_REALTIME)
        ts->tv_sec += atomic_load(&ahead_s);
    return rc;
}

static struct slam_responder *responder;
static struct slam_engine *engine;
static char err[SLAM_ERR_LEN];
static char uri[64];
static const char *const uris[] = {uri};

/* search (uid=<source 1>) below the base <source 0>, whole subtree, all attributes */
static const uint8_t search_program[] = {
    0x03, 0x63,                               /* searchRequest */
    0x03, 0x04, 0x02, 0x00, 0x00, 0x04,       /* baseObject */
    0x01, 0x0f, 0x00, 0x00, 0x00,             /* literal of 15 bytes: */
    0x0a, 0x01, 0x02,                         /*   scope: wholeSubtree */
    0x0a, 0x01, 0x00,                         /*   derefAliases: never */
    0x02, 0x01, 0x00,                         /*   sizeLimit: none */
    0x02, 0x01, 0x00,                         /*   timeLimit: none */
    0x01, 0x01, 0x00,                         /*   typesOnly: no */
    0x03, 0xa3,                               /* filter: equalityMatch */
    0x01, 0x05, 0x00, 0x00, 0x00,             /* literal of 5 bytes: */
    0x04, 0x03, 'u',  'i',  'd',              /*   attributeDesc */
    0x03, 0x04, 0x02, 0x01, 0x00, 0x04,       /* assertionValue */
    0x04,                                     /* end of filter */
    0x01, 0x02, 0x00, 0x00, 0x00, 0x30, 0x00, /* attributes: none named */
    0x04};

struct totals {
    uint64_t scheduled, sent, completed, succeeded, failed, dropped, unresolved;
    uint64_t timed_out, entries, measured, connects, disconnects, service_times;
    uint64_t intervals, abandoned, substituted, missing, empty, late, unbinds;
    uint64_t of[8]; /* completed, by operation */
};

static bool
start_responder_with(const struct slam_delay *delays, size_t count)
{
    struct slam_responder_options options = {
        .delays = delays, .delay_count = count, .record_capacity = 100000};

    if (slam_responder_create(&options, &responder, err) != SLAM_OK ||
        slam_responder_start(responder, err) != SLAM_OK)
        return false;
    snprintf(uri, sizeof(uri), "ldap://127.0.0.1:%d", slam_responder_port(responder));
    return true;
}

static bool
start_responder(const struct slam_delay *delay)
{
    return start_responder_with(delay, delay ? 1 : 0);
}

/* 2000 arrivals per second, for ever */
static const struct slam_rate_segment steady = {
    .duration_ns = SLAM_RATE_FOR_EVER, .a = 2e-6, .b = 2e-6};

static struct slam_stream_settings
stream_config(bool open)
{
    struct slam_stream_settings config = {
        .connection = {.uris = uris,
                       .uri_count = 1,
                       .tls = {.verify = true},
                       .connect_timeout_ns = 5 * SLAM_NS_PER_S},
        .request_timeout_ns = 5 * SLAM_NS_PER_S,
        .open = open,
        .connections = 6,
        .connection_stride = 1,
        .total_connections = 6,
        .in_flight = open ? 4 : 1,
        .segments = &steady,
        .segment_count = 1,
        .arrivals = SLAM_ARRIVALS_POISSON,
        .max_backlog = 1000};
    return config;
}

static uint64_t interval_ns = 100 * MS;

/* Equal intervals; all of the time but the first interval is measured. */
static bool
create_engine_with_grace(size_t intervals, uint64_t grace_ns)
{
    static uint64_t boundaries_ns[64];
    struct slam_engine_config config = {.workers = 2,
                                        .seed = 1,
                                        .boundaries_ns = boundaries_ns,
                                        .boundary_count = intervals,
                                        .measure_start_ns = interval_ns,
                                        .measure_end_ns = intervals * interval_ns,
                                        .grace_ns = grace_ns,
                                        .max_pdu_bytes = 1u << 20};

    for (size_t i = 0; i < intervals; i++)
        boundaries_ns[i] = (i + 1) * interval_ns;
    return slam_engine_create(&config, &engine, err) == SLAM_OK;
}

static bool
create_engine(size_t intervals)
{
    return create_engine_with_grace(intervals, 5 * SLAM_NS_PER_S);
}

/* An operation that uses none of the variables. */
static struct slam_operation_config
operation_config(uint8_t response_tag, const uint8_t *program, size_t len)
{
    static const int success[] = {0, 6};
    struct slam_operation_config config = {
        .response_tag = response_tag,
        .session.awaits = true,
        .template = {.program = program, .program_len = len},
        .success_codes = success,
        .success_count = 2,
        .session.cookie_variable = SLAM_NO_VARIABLE,
        .session.sasl = {NULL, SLAM_NO_VARIABLE, SLAM_NO_VARIABLE, SLAM_NO_VARIABLE,
                         SLAM_NO_VARIABLE},
        .session.ledger_put = SLAM_NO_VARIABLE,
        .session.ledger_take = SLAM_NO_VARIABLE};
    return config;
}

static struct slam_operation_config
search_config(void)
{
    static const struct slam_value_source sources[2] = {
        {.kind = SLAM_VALUE_SEQUENCE, .lo = 0, .hi = 9999999, .step = 1, .width = 10},
        {.kind = SLAM_VALUE_UNIFORM, .lo = 0, .hi = 9, .step = 1}};
    struct slam_operation_config config =
        operation_config(0x65, search_program, sizeof(search_program));

    config.template.sources = sources;
    config.template.source_count = 2;
    return config;
}

static int
add_stream(struct slam_stream_settings config,
           const struct slam_operation_config *operations, size_t operation_count,
           const struct slam_script_config *scripts, size_t script_count)
{
    config.operations = operations;
    config.operation_count = operation_count;
    config.scripts = scripts;
    config.script_count = script_count;
    return slam_engine_add_stream(engine, &config, err);
}

static bool
add(const struct slam_stream_settings *config)
{
    static const struct slam_step_config step = {0};
    static const struct slam_script_config script = {1, &step, 1};
    static struct slam_operation_config search;

    search = search_config();
    return add_stream(*config, &search, 1, &script, 1) >= 0;
}

static bool
prepare_and_start(void)
{
    struct slam_conn_error error;

    return slam_engine_prepare(engine, &error, err) == SLAM_OK &&
           slam_engine_start(engine, slam_clock_mono_ns() + 20 * MS, err) == SLAM_OK;
}

/* Starts a responder, and an engine with these streams; `other` may be NULL. */
static bool
start(const struct slam_delay *delay, size_t intervals,
      const struct slam_stream_settings *stream,
      const struct slam_stream_settings *other)
{
    return start_responder(delay) && create_engine(intervals) && add(stream) &&
           (!other || add(other)) && prepare_and_start();
}

/* Reads every snapshot to the final one. */
static bool
collect(struct totals *t)
{
    const struct slam_snapshot *s = NULL;

    memset(t, 0, sizeof(*t));
    for (uint64_t i = 0; s == NULL || !s->final; i++) {
        if (slam_engine_snapshot(engine, i, ANSWER_TIMEOUT_NS, &s, err) != 1)
            return false;
        t->intervals++;
        for (size_t j = 0; j < 2 * s->op_count; j++) {
            const struct slam_op_record *op = &s->ops[j];

            t->scheduled += op->scheduled;
            t->sent += op->sent;
            t->completed += op->completed;
            t->succeeded += op->succeeded;
            t->failed += op->failed;
            t->dropped += op->dropped;
            t->unresolved += op->unresolved;
            t->timed_out += op->timed_out;
            t->entries += op->entries;
            t->empty += op->empty;
            t->abandoned += op->abandoned;
            t->substituted += op->substituted;
            t->missing += op->captures_missing;
            if (j / 2 < 8)
                t->of[j / 2] += op->completed;
            t->measured += j % 2 == 1 ? op->completed : 0;
            t->service_times += op->histograms[SLAM_SUCCEEDED][SLAM_SERVICE_TIME].total;
        }
        for (size_t j = 0; j < s->place_count; j++) {
            t->connects += s->streams[j].connects;
            t->disconnects += s->streams[j].disconnects;
            t->late += s->streams[j].late_responses;
            t->unbinds += s->streams[j].unbinds;
        }
    }
    return true;
}

/* What the responder counted, once it has read the unbinds of the engine's end. */
static struct slam_responder_counts
counts_after(uint64_t unbinds)
{
    static const struct timespec pause = {.tv_nsec = (long)MS};
    struct slam_responder_counts counts;

    for (int i = 0; i < 2000; i++) {
        slam_responder_counts(responder, &counts);
        if (counts.requests[SLAM_CANNED_UNBIND] >= unbinds)
            break;
        nanosleep(&pause, NULL);
    }
    return counts;
}

static bool
is_balanced(const struct totals *t)
{
    return t->scheduled == t->sent + t->dropped + t->substituted &&
           t->sent == t->completed + t->timed_out + t->unresolved + t->abandoned &&
           t->completed == t->succeeded + t->failed;
}

static void
end(void)
{
    slam_engine_destroy(engine);
    slam_responder_destroy(responder);
    engine = NULL;
    responder = NULL;
}

TEST(closed_and_open_streams_together_balance_with_the_responder)
{
    struct slam_stream_settings closed = stream_config(false);
    struct slam_stream_settings open = stream_config(true);
    struct slam_responder_counts counts;
    struct totals t;

    closed.think_time_ns = MS;
    CHECK(start(NULL, 6, &closed, &open));
    CHECK(collect(&t));
    slam_responder_counts(responder, &counts);
    CHECK(is_balanced(&t));
    CHECK(t.completed > 500);
    CHECK(t.measured > 0 && t.measured < t.completed);
    CHECK_EQ(t.completed, counts.requests[SLAM_CANNED_SEARCH]);
    CHECK_EQ(t.completed, t.entries);
    CHECK_EQ(t.empty, 0);
    CHECK_EQ(t.completed, t.service_times);
    CHECK_EQ(t.timed_out + t.unresolved + t.failed, 0);
    CHECK_EQ(t.intervals, 7);
    CHECK_EQ(t.connects, 12);
    end();
}

TEST(each_planned_interval_is_closed_though_control_reads_late)
{
    static const struct timespec past_the_end = {.tv_sec = 1};
    struct slam_stream_settings closed = stream_config(false);
    struct totals t;

    closed.think_time_ns = MS;
    CHECK(start(NULL, 6, &closed, NULL));
    nanosleep(&past_the_end, NULL);
    CHECK(collect(&t));
    CHECK(is_balanced(&t));
    CHECK_EQ(t.intervals, 7);
    end();
}

TEST(stop_ends_a_run_early_with_balanced_books)
{
    static const struct slam_delay delay = {1, 30 * MS};
    struct slam_stream_settings open = stream_config(true);
    const struct slam_snapshot *s;

    CHECK(start(&delay, 60, &open, NULL));
    CHECK_EQ(slam_engine_snapshot(engine, 0, ANSWER_TIMEOUT_NS, &s, err), 1);
    uint64_t sent = 0, dropped = 0, completed = 0, scheduled = 0;
    for (uint64_t i = 0;; i++) {
        /* a worker that is late closes the first interval in the measure phase */
        for (size_t j = 0; j < 2; j++) {
            sent += s->ops[j].sent;
            dropped += s->ops[j].dropped;
            completed += s->ops[j].completed;
            scheduled += s->ops[j].scheduled;
        }
        if (s->final)
            break;
        CHECK(i < 5);
        if (i == 0)
            slam_engine_stop(engine);
        CHECK_EQ(slam_engine_snapshot(engine, i + 1, ANSWER_TIMEOUT_NS, &s, err), 1);
    }
    CHECK_EQ(scheduled, sent + dropped);
    CHECK_EQ(sent, completed); /* the grace is longer than the delay */
    CHECK(dropped > 0);        /* what waited is not sent after a stop */
    end();
}

/* 24 slots of 30 ms take 800 of the 2,000 arrivals in a second. */
static const struct slam_delay too_slow = {1, 30 * MS};

TEST(what_was_due_before_the_end_is_sent_within_the_grace)
{
    for (int way = 0; way < 3; way++) {
        struct slam_stream_settings open = stream_config(true);
        struct totals t;

        if (way > 0)
            open.end_ns = 100 * MS;
        if (way == 2) /* a connection that has ended has a successor while some wait */
            open.connection.reconnect_operations = 1;
        CHECK(start(&too_slow, 4, &open, NULL));
        CHECK(collect(&t));
        CHECK(is_balanced(&t));
        CHECK(t.scheduled > 100);
        CHECK_EQ(t.completed, t.scheduled);
        end();
    }
}

TEST(what_waits_after_the_grace_is_dropped)
{
    for (int early = 0; early < 2; early++) {
        struct slam_stream_settings open = stream_config(true);
        const struct slam_snapshot *s = NULL;
        uint64_t dropped[7] = {0}, completed = 0, scheduled = 0;

        open.end_ns = early ? 200 * MS : 0;
        open.max_backlog = 2000;
        CHECK(start_responder(&too_slow));
        CHECK(create_engine_with_grace(6, 100 * MS));
        CHECK(add(&open));
        CHECK(prepare_and_start());
        for (uint64_t i = 0; s == NULL || !s->final; i++) {
            CHECK_EQ(slam_engine_snapshot(engine, i, ANSWER_TIMEOUT_NS, &s, err), 1);
            CHECK(i < 7);
            dropped[i] = s->ops[0].dropped + s->ops[1].dropped;
            completed += s->ops[0].completed + s->ops[1].completed;
            scheduled += s->ops[0].scheduled + s->ops[1].scheduled;
        }
        /* in the stream's grace 80 were sent; then the rest was given up, in the
         * interval from 300 ms on or, by a late worker, at the end of the one before */
        CHECK(early ? dropped[2] + dropped[3] > 50 : dropped[6] > 50);
        CHECK_EQ(dropped[0] + dropped[1] + dropped[4] + dropped[5], 0);
        CHECK(completed < scheduled);
        end();
    }
}

TEST(server_that_leaves_is_counted_and_engine_ends_cleanly)
{
    static const struct slam_delay delay = {1, 10 * SLAM_NS_PER_S};
    struct slam_stream_settings closed = stream_config(false);
    struct slam_stream_settings open = stream_config(true);
    struct totals t;

    CHECK(start(&delay, 4, &closed, &open));
    struct timespec pause = {.tv_nsec = 150 * (long)MS};
    nanosleep(&pause, NULL);
    slam_responder_destroy(responder);
    responder = NULL;
    CHECK(collect(&t));
    CHECK(is_balanced(&t));
    CHECK_EQ(t.completed, 0);
    /* a set-up that the kernel accepts for a server that ends is lost, too */
    CHECK(t.disconnects >= 12);
    CHECK(t.unresolved >= 6);
    end();
}

TEST(step_of_the_wall_clock_costs_no_stamp)
{
    static const struct timespec in_the_interval = {.tv_nsec = 200 * (long)MS};
    struct slam_stream_settings closed = stream_config(false);
    const struct slam_snapshot *s = NULL;

    closed.think_time_ns = MS;
    CHECK(start_responder(NULL));
    interval_ns = 600 * MS;
    CHECK(create_engine(1));
    interval_ns = 100 * MS;
    CHECK(add(&closed));
    /* from ahead of the stamps to where they are: until then none fits */
    atomic_store(&ahead_s, 10);
    CHECK(prepare_and_start());
    nanosleep(&in_the_interval, NULL);
    atomic_store(&ahead_s, 0);
    CHECK_EQ(slam_engine_snapshot(engine, 0, ANSWER_TIMEOUT_NS, &s, err), 1);
    CHECK(s->ops[0].completed > 50);
    CHECK(s->streams[0].stamps_missing > 0);
    CHECK(s->streams[0].stamps_missing < s->ops[0].completed * 9 / 10);
    CHECK(s->clock_step_ns / SLAM_NS_PER_S >= 9);
    CHECK(s->clock_step_ns / SLAM_NS_PER_S <= 10);
    end();
}

TEST(responses_of_one_read_share_its_stamp)
{
    for (int many = 0; many < 2; many++) {
        struct slam_stream_settings config = stream_config(many);
        static const struct timespec pause = {.tv_nsec = 50 * (long)MS};
        const struct slam_snapshot *s = NULL;
        uint64_t shared = 0, completed = 0;

        CHECK(start(NULL, 2, &config, NULL));
        /* what is sent in the pause is answered by one write */
        nanosleep(&pause, NULL);
        slam_responder_pause(responder);
        nanosleep(&pause, NULL);
        slam_responder_resume(responder);
        for (uint64_t i = 0; s == NULL || !s->final; i++) {
            CHECK_EQ(slam_engine_snapshot(engine, i, ANSWER_TIMEOUT_NS, &s, err), 1);
            shared += s->streams[0].shared_stamps;
            completed += s->ops[0].completed + s->ops[1].completed;
        }
        /* 6 connections with 4 in flight, or one */
        CHECK(many ? shared >= 20 && shared < completed : shared == 0);
        end();
    }
}

/* The requests' times of all outcomes, added up over all snapshots. */
static bool
collect_times(uint64_t sums[SLAM_METRICS], uint64_t *disconnects)
{
    const struct slam_snapshot *s = NULL;

    memset(sums, 0, SLAM_METRICS * sizeof(*sums));
    *disconnects = 0;
    for (uint64_t i = 0; s == NULL || !s->final; i++) {
        if (slam_engine_snapshot(engine, i, ANSWER_TIMEOUT_NS, &s, err) != 1)
            return false;
        for (size_t j = 0; j < 2 * SLAM_OUTCOMES * SLAM_METRICS; j++)
            sums[j % SLAM_METRICS] +=
                s->ops[j / SLAM_METRICS / SLAM_OUTCOMES]
                    .histograms[j / SLAM_METRICS % SLAM_OUTCOMES][j % SLAM_METRICS]
                    .sum_ns;
        *disconnects += s->streams[0].disconnects;
    }
    return true;
}

TEST(wait_for_a_connection_that_was_lost_is_in_no_response_time)
{
    /* one request in five is never answered, and its connection lost by that */
    static const struct slam_delay delays[] = {{4, MS}, {1, 10 * SLAM_NS_PER_S}};

    for (int thinks = 0; thinks < 2; thinks++) {
        struct slam_stream_settings closed = stream_config(false);
        uint64_t sums[SLAM_METRICS], disconnects;

        closed.request_timeout_ns = 50 * MS;
        closed.think_time_ns = thinks ? MS : 0;
        CHECK(start_responder_with(delays, 2));
        CHECK(create_engine(10));
        CHECK(add(&closed));
        CHECK(prepare_and_start());
        CHECK(collect_times(sums, &disconnects));
        CHECK(disconnects > 12);
        CHECK_EQ(sums[SLAM_RESPONSE_TIME],
                 sums[SLAM_SERVICE_TIME] + sums[SLAM_SEND_LAG]);
        end();
    }
}

TEST(client_does_not_wait_for_a_connection_that_is_replaced_as_planned)
{
    struct slam_stream_settings closed = stream_config(false);
    uint64_t sums[SLAM_METRICS], disconnects;

    closed.connection.reconnect_operations = 1;
    CHECK(start(NULL, 3, &closed, NULL));
    CHECK(collect_times(sums, &disconnects));
    CHECK_EQ(disconnects, 0);
    CHECK_EQ(sums[SLAM_RESPONSE_TIME], sums[SLAM_SERVICE_TIME] + sums[SLAM_SEND_LAG]);
    end();
}

TEST(destroy_in_mid_run_joins_every_thread)
{
    struct slam_stream_settings closed = stream_config(false);

    CHECK(start(NULL, 60, &closed, NULL));
    struct timespec pause = {.tv_nsec = 100 * (long)MS};
    nanosleep(&pause, NULL);
    end();
}

TEST(closed_port_fails_prepare_with_uri_and_stage)
{
    struct slam_stream_settings closed = stream_config(false);
    struct slam_conn_error error = {0};

    CHECK(start_responder(NULL));
    slam_responder_destroy(responder); /* its port is closed now */
    responder = NULL;
    CHECK(create_engine(1));
    CHECK(add(&closed));
    CHECK_EQ(slam_engine_prepare(engine, &error, err), SLAM_ECONNECT);
    CHECK_EQ(error.stage, SLAM_STAGE_CONNECT);
    CHECK(strcmp(error.uri, uri) == 0);
    CHECK(error.detail[0] != '\0');
    end();
}

/* -- sessions -- */

static const uint8_t unbind_program[] = {0x01, 0x02, 0x00, 0x00, 0x00, 0x42, 0x00};

/* an abandon of the session's request before */
static const uint8_t abandon_program[] = {0x03, 0x50, 0x02, 0x00, 0x00, 0x04};

/* delete of the DN in <source 0>; add of an entry of that DN without attributes */
static const uint8_t delete_program[] = {0x03, 0x4a, 0x02, 0x00, 0x00, 0x04};
static const uint8_t add_program[] = {0x03, 0x68, 0x03, 0x04, 0x02, 0x00, 0x00, 0x04,
                                      0x01, 0x02, 0x00, 0x00, 0x00, 0x30, 0x00, 0x04};
static const struct slam_value_source variable_0 = {.kind = SLAM_VALUE_VARIABLE,
                                                    .lo = 0};

TEST(there_are_as_many_addresses_as_uris)
{
    static const char *const addresses[] = {"127.0.0.1/1", "127.0.0.1/1"};
    struct slam_stream_settings config = stream_config(false);

    config.connection.addresses = addresses;
    config.connection.address_count = 2;
    CHECK(start_responder(NULL));
    CHECK(create_engine(1));
    CHECK_EQ(add_stream(config, NULL, 0, NULL, 0), SLAM_EINVAL);
    CHECK(strstr(err, "as many as uris") != NULL);
    end();
}

TEST(session_runs_its_steps_with_pauses_and_ends_its_connection)
{
    static const struct slam_step_config steps[] = {
        {0, 0}, {0, 2 * MS}, {0, 0}, {1, 1 * MS}};
    struct slam_operation_config search = search_config();
    struct slam_operation_config unbind =
        operation_config(0, unbind_program, sizeof(unbind_program));
    struct slam_responder_counts counts;
    struct totals t;

    unbind.action = SLAM_ACTION_UNBIND;
    CHECK(start_responder(NULL));
    CHECK(create_engine(4));
    const struct slam_operation_config operations[] = {search, unbind};
    const struct slam_script_config scripts[] = {{1, steps, 4}};
    CHECK(add_stream(stream_config(false), operations, 2, scripts, 1) >= 0);
    CHECK(prepare_and_start());
    CHECK(collect(&t));
    counts = counts_after(t.of[1] + t.unbinds);
    CHECK(is_balanced(&t));
    CHECK(t.of[1] > 20);
    CHECK_EQ(t.of[0], 3 * t.of[1]); /* sessions under way at the end are finished */
    CHECK_EQ(t.of[0], counts.requests[SLAM_CANNED_SEARCH]);
    CHECK_EQ(t.of[1] + t.unbinds, counts.requests[SLAM_CANNED_UNBIND]);
    CHECK_EQ(t.connects, t.of[1] + t.unbinds);
    CHECK_EQ(t.disconnects + t.failed + t.unresolved, 0);
    end();
}

TEST(capture_is_used_by_the_next_step)
{
    static const struct slam_step_config steps[] = {{0, 0}, {1, 0}};
    static const struct slam_capture_config dn = {.variable = 0};
    static const struct slam_capture_config absent = {
        .variable = 0, .attribute = (const uint8_t *)"none", .attribute_len = 4};
    struct slam_responder_counts counts;
    struct totals t;

    for (int missing = 0; missing < 2; missing++) {
        struct slam_stream_settings config = stream_config(false);
        struct slam_operation_config search = search_config();
        struct slam_operation_config erase =
            operation_config(0x6b, delete_program, sizeof(delete_program));

        config.variables = 1;
        config.think_time_ns = MS;
        search.session.captures = missing ? &absent : &dn;
        search.session.capture_count = 1;
        erase.template.sources = &variable_0;
        erase.template.source_count = 1;
        CHECK(start_responder(NULL));
        CHECK(create_engine(3));
        const struct slam_operation_config operations[] = {search, erase};
        const struct slam_script_config scripts[] = {{1, steps, 2}};
        CHECK(add_stream(config, operations, 2, scripts, 1) >= 0);
        CHECK(prepare_and_start());
        CHECK(collect(&t));
        counts = counts_after(t.unbinds);
        CHECK(is_balanced(&t));
        CHECK(t.of[0] > 20);
        CHECK_EQ(t.of[1], counts.requests[SLAM_CANNED_DELETE]);
        CHECK_EQ(t.of[1], missing ? 0 : t.of[0]);
        CHECK_EQ(t.missing, missing ? t.of[0] : 0);
        CHECK_EQ(t.failed, t.missing);
        end();
    }
}

TEST(request_that_is_not_awaited_is_abandoned)
{
    static const struct slam_delay slow = {1, 10 * SLAM_NS_PER_S};
    static const struct slam_step_config steps[] = {{0, 0}, {1, 5 * MS}};
    static const struct slam_value_source message_id = {.kind = SLAM_VALUE_MESSAGE_ID};

    for (int open = 0; open < 2; open++) {
        for (int delayed = 0; delayed < 2; delayed++) {
            struct slam_operation_config search = search_config();
            struct slam_operation_config give_up =
                operation_config(0, abandon_program, sizeof(abandon_program));
            struct slam_responder_counts counts;
            struct totals t;

            search.session.awaits = false;
            give_up.action = SLAM_ACTION_ABANDON;
            give_up.template.sources = &message_id;
            give_up.template.source_count = 1;
            CHECK(start_responder(delayed ? &slow : NULL));
            CHECK(create_engine(3));
            const struct slam_operation_config operations[] = {search, give_up};
            const struct slam_script_config scripts[] = {{1, steps, 2}};
            CHECK(add_stream(stream_config(open), operations, 2, scripts, 1) >= 0);
            CHECK(prepare_and_start());
            CHECK(collect(&t));
            counts = counts_after(t.unbinds);
            CHECK(is_balanced(&t));
            CHECK(t.scheduled > 20);
            CHECK_EQ(t.abandoned, t.of[1]);
            CHECK_EQ(t.of[1], counts.requests[SLAM_CANNED_ABANDON]);
            if (delayed)
                CHECK_EQ(t.of[0], 0);
            else
                CHECK(t.of[0] > 20);
            CHECK_EQ(t.disconnects, 0);
            end();
        }
    }
}

TEST(connection_for_each_operation_and_a_number_of_them)
{
    for (int open = 0; open < 2; open++) {
        struct slam_stream_settings config = stream_config(open);
        struct slam_responder_counts counts;
        struct totals t;

        config.connection.reconnect_operations = 1;
        config.total_operations = 200;
        CHECK(start(NULL, 60, &config, NULL));
        CHECK(collect(&t));
        counts = counts_after(t.unbinds);
        CHECK(is_balanced(&t));
        CHECK_EQ(t.completed, 200);
        CHECK(t.intervals < 40); /* it ended by itself */
        CHECK_EQ(counts.requests[SLAM_CANNED_SEARCH], 200);
        CHECK_EQ(t.connects, t.unbinds);
        CHECK_EQ(t.unbinds, counts.requests[SLAM_CANNED_UNBIND]);
        CHECK_EQ(t.disconnects, 0);
        end();
    }
}

TEST(connections_are_replaced_after_their_time_and_set_up_one_by_one)
{
    struct slam_stream_settings config = stream_config(false);
    struct slam_responder_counts counts;
    struct totals t;
    uint64_t began_ns;

    config.think_time_ns = MS;
    config.connection.reconnect_ns = 50 * MS;
    config.connection.connect_spacing_ns = 30 * MS;
    CHECK(start_responder(NULL));
    CHECK(create_engine(5));
    CHECK(add(&config));
    began_ns = slam_clock_mono_ns();
    CHECK(prepare_and_start());
    CHECK(slam_clock_mono_ns() - began_ns >= 5 * 30 * MS);
    CHECK(collect(&t));
    counts = counts_after(t.unbinds);
    CHECK(is_balanced(&t));
    /* each is at least 50 ms old when it is replaced; the first ones were so at T0 */
    CHECK(t.connects > 2 * 6 && t.connects <= 6 * (2 + 10));
    CHECK_EQ(t.connects, t.unbinds);
    CHECK_EQ(t.unbinds, counts.requests[SLAM_CANNED_UNBIND]);
    CHECK_EQ(t.disconnects + t.unresolved + t.failed, 0);
    end();
}

TEST(stream_of_its_own_time_begins_and_ends_within_the_run)
{
    for (int open = 0; open < 2; open++) {
        struct slam_stream_settings config = stream_config(open);
        const struct slam_snapshot *s = NULL;
        uint64_t sent[7] = {0};

        /* the profile of an open stream has its own beginning: the plan's business */
        config.start_ns = open ? 0 : 250 * MS;
        config.end_ns = 400 * MS;
        config.think_time_ns = MS;
        CHECK(start(NULL, 6, &config, NULL));
        for (uint64_t i = 0; s == NULL || !s->final; i++) {
            CHECK_EQ(slam_engine_snapshot(engine, i, ANSWER_TIMEOUT_NS, &s, err), 1);
            CHECK(i < 7);
            sent[i] = s->ops[0].sent + s->ops[1].sent;
        }
        CHECK_EQ(sent[0] > 0, open);
        CHECK_EQ(sent[1] > 0, open);
        CHECK(sent[2] > 0);
        /* an interval ends at the first turn after its boundary: one is in between */
        CHECK_EQ(sent[5] + sent[6], 0);
        end();
    }
}

TEST(deletes_take_what_adds_put_into_the_ledger)
{
    static const struct slam_step_config add_step = {0, 0}, delete_step = {1, 0};
    static const struct slam_value_source unique = {.kind = SLAM_VALUE_UNIQUE,
                                                    .step = 1};
    /* cn=<source 0>,o=x */
    static const uint8_t dn_program[] = {0x01, 0x03, 0x00, 0x00, 0x00, 'c',  'n',
                                         '=',  0x02, 0x00, 0x00, 0x01, 0x04, 0x00,
                                         0x00, 0x00, ',',  'o',  '=',  'x'};
    static const struct slam_let_config dn = {
        .variable = 0,
        .text = {.program = dn_program,
                 .program_len = sizeof(dn_program),
                 .sources = &unique,
                 .source_count = 1}};
    struct slam_stream_settings config = stream_config(false);
    struct slam_operation_config put =
        operation_config(0x69, add_program, sizeof(add_program));
    struct slam_operation_config take =
        operation_config(0x6b, delete_program, sizeof(delete_program));
    char folder[] = "/tmp/slam-test-XXXXXX";
    char path[128];
    struct totals t;

    CHECK(mkdtemp(folder) != NULL);
    config.variables = 1;
    config.ledgers = 1;
    config.ledger_folder = folder;
    config.think_time_ns = MS;
    put.session.lets = &dn;
    put.session.let_count = 1;
    put.session.ledger_put = 0;
    put.template.sources = &variable_0;
    put.template.source_count = 1;
    take.session.ledger_take = 0;
    take.session.ledger_order = SLAM_LEDGER_RANDOM;
    take.template.sources = &variable_0;
    take.template.source_count = 1;
    CHECK(start_responder(NULL));
    CHECK(create_engine(3));
    const struct slam_operation_config operations[] = {put, take};
    const struct slam_script_config scripts[] = {{1, &add_step, 1},
                                                 {1, &delete_step, 1}};
    CHECK(add_stream(config, operations, 2, scripts, 2) >= 0);
    CHECK(prepare_and_start());
    CHECK(collect(&t));
    CHECK(is_balanced(&t));
    CHECK(t.of[0] > 20);
    CHECK(t.of[1] > 20);
    CHECK(t.of[1] <= t.of[0]);
    end();
    for (int worker = 0; worker < 2; worker++) {
        snprintf(path, sizeof(path), "%s/0-0-%d.ledger", folder, worker);
        CHECK_EQ(unlink(path), 0);
    }
    CHECK_EQ(rmdir(folder), 0);
}
