/* SPDX-License-Identifier: Apache-2.0 */
/* The whole engine against the canned responder, in one process: what the sanitizers
 * watch. What is measured is the business of tests/engine and tests/accuracy. */
#include "clock.h"
#include "engine.h"
#include "responder.h"
#include "slam_err.h"
#include "slam_test.h"

#include <stdlib.h>

#define MS UINT64_C(1000000)
#define ANSWER_TIMEOUT_NS (20 * SLAM_NS_PER_S)

static struct slam_responder *responder;
static struct slam_engine *engine;
static char err[512];
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
    uint64_t intervals;
};

static bool
start_responder(const struct slam_delay *delay)
{
    struct slam_responder_options options = {
        .delays = delay, .delay_count = delay ? 1 : 0, .record_capacity = 100000};

    if (slam_responder_create(&options, &responder, err, sizeof(err)) != SLAM_OK ||
        slam_responder_start(responder, err, sizeof(err)) != SLAM_OK)
        return false;
    snprintf(uri, sizeof(uri), "ldap://127.0.0.1:%d", slam_responder_port(responder));
    return true;
}

static struct slam_stream_config
stream_config(bool open)
{
    struct slam_stream_config config = {.name = "stream",
                                        .uris = uris,
                                        .uri_count = 1,
                                        .verify = true,
                                        .connect_timeout_ns = 5 * SLAM_NS_PER_S,
                                        .request_timeout_ns = 5 * SLAM_NS_PER_S,
                                        .open = open,
                                        .connections = 6,
                                        .connection_stride = 1,
                                        .total_connections = 6,
                                        .in_flight = open ? 4 : 1,
                                        .rate_events = 2000,
                                        .rate_per_ns = SLAM_NS_PER_S,
                                        .poisson = true,
                                        .participants = 1,
                                        .max_backlog = 1000};
    return config;
}

/* Intervals of 100 ms; all of the time but the first interval is measured. */
static bool
create_engine(size_t intervals)
{
    uint64_t boundaries_ns[64];
    struct slam_engine_config config = {.workers = 2,
                                        .seed = 1,
                                        .boundaries_ns = boundaries_ns,
                                        .boundary_count = intervals,
                                        .measure_start_ns = 100 * MS,
                                        .measure_end_ns = intervals * 100 * MS,
                                        .grace_ns = 5 * SLAM_NS_PER_S,
                                        .max_pdu_bytes = 1u << 20};

    for (size_t i = 0; i < intervals; i++)
        boundaries_ns[i] = (i + 1) * 100 * MS;
    return slam_engine_create(&config, &engine, err, sizeof(err)) == SLAM_OK;
}

static bool
add(const struct slam_stream_config *config)
{
    struct slam_value_source sources[2] = {
        {.kind = SLAM_VALUE_SEQUENCE, .lo = 0, .hi = 9999999, .step = 1, .width = 10},
        {.kind = SLAM_VALUE_UNIFORM, .lo = 0, .hi = 9, .step = 1}};
    int stream = slam_engine_add_stream(engine, config, err, sizeof(err));

    return stream >= 0 &&
           slam_engine_add_operation(engine, (size_t)stream, "search", 0x65, 3,
                                     search_program, sizeof(search_program), sources, 2,
                                     err, sizeof(err)) == 0;
}

static bool
prepare_and_start(void)
{
    struct slam_conn_error error;

    return slam_engine_prepare(engine, &error, err, sizeof(err)) == SLAM_OK &&
           slam_engine_start(engine, slam_clock_mono_ns() + 20 * MS, err,
                             sizeof(err)) == SLAM_OK;
}

/* Reads every snapshot to the final one. */
static bool
collect(struct totals *t)
{
    const struct slam_snapshot *s = NULL;

    memset(t, 0, sizeof(*t));
    for (uint64_t i = 0; s == NULL || !s->final; i++) {
        if (slam_engine_snapshot(engine, i, ANSWER_TIMEOUT_NS, &s, err, sizeof(err)) !=
            1)
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
            t->measured += j % 2 == 1 ? op->completed : 0;
            t->service_times += op->histograms[SLAM_SUCCEEDED][SLAM_SERVICE_TIME].total;
        }
        for (size_t j = 0; j < s->stream_count; j++) {
            t->connects += s->streams[j].connects;
            t->disconnects += s->streams[j].disconnects;
        }
    }
    return true;
}

static bool
is_balanced(const struct totals *t)
{
    return t->scheduled == t->sent + t->dropped &&
           t->sent == t->completed + t->timed_out + t->unresolved &&
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

static void
test_closed_and_open_streams_together_balance_with_the_responder(void)
{
    struct slam_stream_config closed = stream_config(false);
    struct slam_stream_config open = stream_config(true);
    struct slam_responder_counts counts;
    struct totals t;

    closed.think_time_ns = MS;
    CHECK(start_responder(NULL));
    CHECK(create_engine(6));
    CHECK(add(&closed));
    CHECK(add(&open));
    CHECK(prepare_and_start());
    CHECK(collect(&t));
    slam_responder_counts(responder, &counts);
    CHECK(is_balanced(&t));
    CHECK(t.completed > 500);
    CHECK(t.measured > 0 && t.measured < t.completed);
    CHECK_EQ(t.completed, counts.requests[SLAM_CANNED_SEARCH]);
    CHECK_EQ(t.completed, t.entries);
    CHECK_EQ(t.completed, t.service_times);
    CHECK_EQ(t.timed_out + t.unresolved + t.failed, 0);
    CHECK_EQ(t.intervals, 7);
    CHECK_EQ(t.connects, 12);
    end();
}

static void
test_stop_ends_a_run_early_with_balanced_books(void)
{
    static const struct slam_delay delay = {1, 30 * MS};
    struct slam_stream_config open = stream_config(true);
    const struct slam_snapshot *s;
    struct totals t;

    CHECK(start_responder(&delay));
    CHECK(create_engine(60));
    CHECK(add(&open));
    CHECK(prepare_and_start());
    CHECK_EQ(slam_engine_snapshot(engine, 0, ANSWER_TIMEOUT_NS, &s, err, sizeof(err)),
             1);
    uint64_t sent = s->ops[0].sent, dropped = s->ops[0].dropped;
    uint64_t completed = s->ops[0].completed, scheduled = s->ops[0].scheduled;
    slam_engine_stop(engine);
    memset(&t, 0, sizeof(t));
    for (uint64_t i = 1;; i++) {
        CHECK_EQ(
            slam_engine_snapshot(engine, i, ANSWER_TIMEOUT_NS, &s, err, sizeof(err)),
            1);
        for (size_t j = 0; j < 2; j++) {
            sent += s->ops[j].sent;
            dropped += s->ops[j].dropped;
            completed += s->ops[j].completed;
            scheduled += s->ops[j].scheduled;
        }
        if (s->final)
            break;
        CHECK(i < 5);
    }
    CHECK_EQ(scheduled, sent + dropped);
    CHECK_EQ(sent, completed); /* the grace is longer than the delay */
    end();
}

static void
test_server_that_leaves_is_counted_and_engine_ends_cleanly(void)
{
    static const struct slam_delay delay = {1, 10 * SLAM_NS_PER_S};
    struct slam_stream_config closed = stream_config(false);
    struct slam_stream_config open = stream_config(true);
    struct totals t;

    CHECK(start_responder(&delay));
    CHECK(create_engine(4));
    CHECK(add(&closed));
    CHECK(add(&open));
    CHECK(prepare_and_start());
    struct timespec pause = {.tv_nsec = 150 * (long)MS};
    nanosleep(&pause, NULL);
    slam_responder_destroy(responder);
    responder = NULL;
    CHECK(collect(&t));
    CHECK(is_balanced(&t));
    CHECK_EQ(t.completed, 0);
    CHECK_EQ(t.disconnects, 12);
    CHECK(t.unresolved >= 6);
    end();
}

static void
test_destroy_in_mid_run_joins_every_thread(void)
{
    struct slam_stream_config closed = stream_config(false);

    CHECK(start_responder(NULL));
    CHECK(create_engine(60));
    CHECK(add(&closed));
    CHECK(prepare_and_start());
    struct timespec pause = {.tv_nsec = 100 * (long)MS};
    nanosleep(&pause, NULL);
    end();
}

static void
test_closed_port_fails_prepare_with_uri_and_stage(void)
{
    struct slam_stream_config closed = stream_config(false);
    struct slam_conn_error error = {0};

    CHECK(start_responder(NULL));
    slam_responder_destroy(responder); /* its port is closed now */
    responder = NULL;
    CHECK(create_engine(1));
    CHECK(add(&closed));
    CHECK_EQ(slam_engine_prepare(engine, &error, err, sizeof(err)), SLAM_ECONNECT);
    CHECK_EQ(error.stage, SLAM_STAGE_CONNECT);
    CHECK(strcmp(error.uri, uri) == 0);
    CHECK(error.detail[0] != '\0');
    end();
}

int
main(void)
{
    RUN(test_closed_and_open_streams_together_balance_with_the_responder);
    RUN(test_stop_ends_a_run_early_with_balanced_books);
    RUN(test_server_that_leaves_is_counted_and_engine_ends_cleanly);
    RUN(test_destroy_in_mid_run_joins_every_thread);
    RUN(test_closed_port_fails_prepare_with_uri_and_stage);
    return SLAM_TEST_EXIT();
}
