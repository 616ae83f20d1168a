/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"
#include "core/recorder.h"
#include "core/wait.h"
#include "slam_test.h"

#include <string.h>

static struct slam_recorder r;
static bool finished;

TEST(closed_interval_is_read_once_and_comes_back_clean)
{
    const struct slam_interval_record *record;

    CHECK_EQ(slam_recorder_init(&r, 1, 1), 0);
    for (uint64_t i = 0; i < 5; i++) {
        struct slam_op_record *op = slam_recorder_op(&r, 0, true);

        CHECK_EQ(op->sent, 0);
        CHECK_EQ(op->histograms[SLAM_FAILED][SLAM_SEND_LAG].total, 0);
        op->sent = i + 1;
        slam_histogram_record(&op->histograms[SLAM_FAILED][SLAM_SEND_LAG], 5);
        CHECK(slam_recorder_close(&r, 100 * (i + 1), false));
        record = slam_recorder_wait(&r, i, 0, &finished);
        CHECK(record != NULL);
        CHECK_EQ(record->ops[1].sent, i + 1);
        CHECK_EQ(record->end_ns, 100 * (i + 1));
        CHECK_EQ(record->start_ns, 100 * i);
        CHECK(!record->final);
        slam_recorder_release(&r, i);
    }
    slam_recorder_destroy(&r);
}

TEST(worker_keeps_an_interval_open_while_the_other_record_is_held)
{
    const struct slam_interval_record *record;

    CHECK_EQ(slam_recorder_init(&r, 1, 1), 0);
    CHECK(slam_recorder_close(&r, 10, false));
    record = slam_recorder_wait(&r, 0, 0, &finished);
    CHECK(record != NULL);
    slam_recorder_op(&r, 0, false)->sent = 1;
    CHECK(!slam_recorder_close(&r, 20, false));
    slam_recorder_op(&r, 0, false)->sent++;
    slam_recorder_release(&r, 0);
    CHECK(slam_recorder_close(&r, 30, false));
    record = slam_recorder_wait(&r, 1, 0, &finished);
    CHECK(record != NULL);
    CHECK_EQ(record->start_ns, 10);
    CHECK_EQ(record->end_ns, 30);
    CHECK_EQ(record->ops[0].sent, 2);
    slam_recorder_release(&r, 1);
    slam_recorder_destroy(&r);
}

TEST(wait_times_out_on_an_open_interval_and_ends_after_the_last)
{
    CHECK_EQ(slam_recorder_init(&r, 1, 1), 0);
    CHECK(slam_recorder_wait(&r, 0, slam_clock_mono_ns(), &finished) == NULL);
    CHECK(!finished);
    CHECK(slam_recorder_close(&r, 10, true));
    CHECK(slam_recorder_wait(&r, 0, 0, &finished) != NULL);
    CHECK(!finished);
    CHECK(slam_recorder_wait(&r, 1, UINT64_MAX / 2, &finished) == NULL);
    CHECK(finished);
    slam_recorder_destroy(&r);
}

TEST(only_a_success_is_counted_as_empty)
{
    static struct slam_op_record op;

    for (int outcome = SLAM_SUCCEEDED; outcome <= SLAM_EXPECTED; outcome++)
        for (int empty = 0; empty < 2; empty++)
            slam_op_record_response(&op, 3, (enum slam_outcome)outcome, empty);
    CHECK_EQ(op.completed, 6);
    CHECK_EQ(op.result_codes[3], 6);
    CHECK_EQ(op.empty, 1);
}

static bool
says(const struct slam_diagnostic *kept, const char *text)
{
    return kept->len == strlen(text) && memcmp(kept->text, text, kept->len) == 0;
}

static void
keep(struct slam_op_record *op, uint32_t code, const char *text)
{
    slam_op_record_diagnostic(op, code, text, strlen(text));
}

TEST(first_message_of_each_of_some_codes_is_kept)
{
    static struct slam_op_record op, sum;

    keep(&op, 53, "");
    keep(&op, 53, "no global superior knowledge");
    keep(&op, 53, "another");
    for (uint32_t code = 1; code <= SLAM_DIAGNOSTICS; code++)
        keep(&op, code, "other");
    CHECK(says(&op.diagnostics[0], "no global superior knowledge"));
    CHECK_EQ(op.diagnostics[SLAM_DIAGNOSTICS - 1].result_code, SLAM_DIAGNOSTICS - 1);
    op.failed = 1;
    keep(&sum, 2, "first");
    slam_op_record_merge(&sum, &op);
    CHECK(says(&sum.diagnostics[0], "first"));
    CHECK(says(&sum.diagnostics[1], "no global superior knowledge"));
    CHECK_EQ(sum.diagnostics[2].result_code, 1);
    slam_op_record_clear(&op);
    CHECK_EQ(op.diagnostics[0].len, 0);
}

TEST(message_has_no_controls_and_is_cut_between_characters)
{
    static struct slam_op_record op;
    char text[300];

    slam_op_record_diagnostic(&op, 1, "\x1b[1m two\nlines\0\n", 16);
    CHECK(says(&op.diagnostics[0], " [1m two lines"));
    memset(text, 'x', sizeof(text));
    slam_op_record_diagnostic(&op, 2, text, SLAM_DIAGNOSTIC_BYTES);
    CHECK(memcmp(op.diagnostics[1].text, text, SLAM_DIAGNOSTIC_BYTES) == 0);
    memcpy(text + SLAM_DIAGNOSTIC_BYTES - 4, "\xc3\xa9", 2); /* it would be halved */
    slam_op_record_diagnostic(&op, 3, text, sizeof(text));
    CHECK_EQ(op.diagnostics[2].len, SLAM_DIAGNOSTIC_BYTES - 1);
    CHECK(memcmp(op.diagnostics[2].text + SLAM_DIAGNOSTIC_BYTES - 5, "x\xe2\x80\xa6",
                 4) == 0);
    memset(text, 0x80, sizeof(text));
    slam_op_record_diagnostic(&op, 4, text, sizeof(text));
    CHECK(says(&op.diagnostics[3], "\xe2\x80\xa6"));
}

#define INTERVALS 2000

static void
waits(struct slam_stream_record *stream, uint64_t since_ns, uint64_t until_ns)
{
    const struct slam_silence silence = {since_ns - 1, since_ns, until_ns - 2,
                                         until_ns};

    slam_stream_record_silence(stream, &silence);
}

TEST(a_silence_is_what_all_waited_for_that_waited)
{
    static struct slam_stream_record all, own;
    static const uint64_t longest[][2] = {{100, 900}, {0, 0}, {150, 850}};

    slam_stream_record_clear(&all);
    for (size_t i = 0; i < 3; i++) {
        slam_stream_record_clear(&own);
        if (longest[i][1]) {
            /* with shorter waits before and after it */
            waits(&own, 10, 20);
            waits(&own, longest[i][0], longest[i][1]);
            waits(&own, 950, 960);
            own.waiting_since_ns = longest[i][0] + 900;
        }
        slam_stream_record_merge(&all, &own);
    }
    CHECK_EQ(all.silence.after_ns, 149);
    CHECK_EQ(all.silence.since_ns, 100);
    CHECK_EQ(all.silence.through_ns, 848);
    CHECK_EQ(all.silence.until_ns, 850);
    CHECK_EQ(all.waiting_since_ns, 1000);
    /* another had responses meanwhile */
    slam_stream_record_clear(&own);
    waits(&own, 300, 301);
    slam_stream_record_merge(&all, &own);
    CHECK_EQ(all.silence.until_ns - all.silence.after_ns, 2);
    /* a response that came before its request was sent ends no wait */
    slam_stream_record_clear(&own);
    waits(&own, 500, 400);
    CHECK_EQ(own.silence.until_ns, 0);
    slam_stream_record_since(&all, 100);
    CHECK_EQ(all.silence.after_ns, 199);
    CHECK_EQ(all.silence.until_ns, 201);
}

static const uint64_t ENDS_NS[] = {6400, 12800};

static struct slam_wait
wait_after(uint64_t responded_ns)
{
    struct slam_wait wait = {.responded_ns = responded_ns};

    slam_wait_advance(&wait, 0, ENDS_NS, 2, 0);
    slam_wait_advance(&wait, 0, ENDS_NS, 2, 1);
    return wait;
}

/* What is recorded of a wait that ends then. */
static struct slam_silence
silence_of(const struct slam_wait *begun, uint64_t until_ns)
{
    static struct slam_stream_record stream;
    struct slam_wait wait = *begun;

    slam_stream_record_clear(&stream);
    slam_wait_end(&wait, &stream, until_ns);
    return stream.silence;
}

TEST(a_wait_goes_from_the_first_request_to_the_next_response)
{
    static struct slam_stream_record stream;
    struct slam_wait wait = wait_after(100);
    struct slam_silence silence;

    slam_stream_record_clear(&stream);
    slam_wait_sent(&wait, &stream, 200);
    slam_wait_sent(&wait, &stream, 250);
    silence = silence_of(&wait, 900);
    CHECK_EQ(silence.after_ns, 100);
    CHECK_EQ(silence.since_ns, 200);
    CHECK_EQ(silence.through_ns, 900);
    CHECK_EQ(silence.until_ns, 900);
    /* the request of 250 waits on since the response */
    slam_wait_responded(&wait, &stream, 900, 250);
    CHECK_EQ(wait.since_ns, 900);
    /* a stamp from before that: this request was sent later */
    slam_wait_responded(&wait, &stream, 890, 950);
    CHECK_EQ(wait.responded_ns, 900);
    CHECK_EQ(wait.since_ns, 950);
    slam_wait_forget(&wait, 970);
    CHECK_EQ(wait.since_ns, 970);
    slam_wait_forget(&wait, 0);
    CHECK_EQ(wait.since_ns, 0);
    CHECK_EQ(silence_of(&wait, 1000).until_ns, 0);
}

TEST(a_wait_is_certain_but_from_a_failed_attempt_to_the_next_request)
{
    static struct slam_stream_record stream;
    struct slam_wait wait = wait_after(100);

    slam_stream_record_clear(&stream);
    slam_wait_failed(&wait, 200, 210);
    slam_wait_failed(&wait, 260, 270);
    CHECK_EQ(silence_of(&wait, 900).since_ns, 200);
    CHECK_EQ(silence_of(&wait, 900).through_ns, 270);
    slam_wait_sent(&wait, &stream, 400);
    slam_wait_sent(&wait, &stream, 500);
    CHECK_EQ(silence_of(&wait, 900).through_ns, 270 + 500);
    slam_wait_failed(&wait, 600, 610);
    CHECK_EQ(silence_of(&wait, 900).through_ns, 610);
    /* the next wait knows nothing of it */
    slam_wait_responded(&wait, &stream, 900, 0);
    slam_wait_sent(&wait, &stream, 1000);
    CHECK_EQ(silence_of(&wait, 1300).through_ns, 1300);
}

TEST(a_client_that_thinks_does_not_wait)
{
    static struct slam_stream_record stream;
    struct slam_wait wait = wait_after(100);

    slam_stream_record_clear(&stream);
    slam_wait_sent(&wait, &stream, 200);
    wait.given_up_ns = 300;
    slam_wait_sent(&wait, &stream, 300 + SLAM_THOUGHT_NS); /* at once */
    CHECK_EQ(wait.since_ns, 200);
    CHECK_EQ(stream.silence.until_ns, 0);
    wait.given_up_ns = 400 + SLAM_THOUGHT_NS;
    slam_wait_sent(&wait, &stream, 401 + 2 * SLAM_THOUGHT_NS);
    CHECK_EQ(wait.since_ns, 401 + 2 * SLAM_THOUGHT_NS);
    CHECK_EQ(stream.silence.since_ns, 200);
    CHECK_EQ(stream.silence.until_ns, 400 + SLAM_THOUGHT_NS);
}

/* The bits of the slots from first to last. */
static uint64_t
slots(unsigned int first, unsigned int last)
{
    return UINT64_MAX >> (63 - last) & UINT64_MAX << first;
}

TEST(slots_tell_when_responses_came_and_something_waited_for_one)
{
    static struct slam_stream_record stream, other;
    struct slam_wait wait = wait_after(0);

    slam_stream_record_clear(&stream);
    slam_wait_sent(&wait, &stream, 100);
    slam_wait_responded(&wait, &stream, 130, 0); /* less than a slot */
    slam_wait_sent(&wait, &stream, 250);
    slam_wait_responded(&wait, &stream, 1050, 0); /* slots 3 to 9 */
    slam_wait_sent(&wait, &stream, 2000);
    slam_wait_failed(&wait, 2000, 2300);
    slam_wait_sent(&wait, &stream, 2500);
    slam_wait_report(&wait, &stream, 2800);
    CHECK_EQ(stream.heard, slots(1, 1) | slots(10, 10));
    CHECK_EQ(stream.waited, slots(3, 9) | slots(20, 22) | slots(25, 27));
    /* the interval is closed late: what comes then is of the next one */
    slam_wait_responded(&wait, &stream, 2850, 6000);
    slam_wait_responded(&wait, &stream, 6610, 6610);
    slam_wait_report(&wait, &stream, 6800);
    CHECK_EQ(stream.heard, slots(1, 1) | slots(10, 10) | slots(28, 28));
    CHECK_EQ(stream.waited & slots(28, 63), slots(60, 63));
    slam_wait_advance(&wait, 0, ENDS_NS, 2, 2);
    slam_wait_report(&wait, &other, 99999);
    CHECK_EQ(other.heard, slots(2, 2));
    CHECK_EQ(other.waited, slots(0, 1) | slots(3, 63));
    CHECK_EQ(other.waiting_since_ns, 6610);
    slam_stream_record_merge(&stream, &other);
    CHECK_EQ(stream.heard, slots(1, 2) | slots(10, 10) | slots(28, 28));
}

static void *
write_intervals(void *arg)
{
    struct slam_recorder *recorder = arg;
    uint64_t written = 0;

    for (uint64_t i = 0; i < INTERVALS; i++) {
        do {
            struct slam_op_record *op = slam_recorder_op(recorder, 0, true);

            slam_histogram_record(&op->histograms[SLAM_SUCCEEDED][SLAM_SERVICE_TIME],
                                  1000 * i);
            op->sent++;
            written++;
        } while (!slam_recorder_close(recorder, i + 1, i + 1 == INTERVALS));
    }
    recorder->active->loops = written;
    return NULL;
}

TEST(nothing_is_lost_between_two_threads)
{
    pthread_t writer;
    uint64_t sent = 0, recorded = 0;

    CHECK_EQ(slam_recorder_init(&r, 1, 1), 0);
    CHECK_EQ(pthread_create(&writer, NULL, write_intervals, &r), 0);
    for (uint64_t i = 0; i < INTERVALS; i++) {
        const struct slam_interval_record *record = slam_recorder_wait(
            &r, i, slam_clock_mono_ns() + 20 * SLAM_NS_PER_S, &finished);

        CHECK(record != NULL);
        CHECK_EQ(record->final, i + 1 == INTERVALS);
        sent += record->ops[1].sent;
        recorded += record->ops[1].histograms[SLAM_SUCCEEDED][SLAM_SERVICE_TIME].total;
        if (!record->final)
            slam_recorder_release(&r, i);
    }
    pthread_join(writer, NULL);
    CHECK_EQ(sent, r.active->loops);
    CHECK_EQ(recorded, sent);
    slam_recorder_destroy(&r);
}
