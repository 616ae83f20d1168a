/* SPDX-License-Identifier: Apache-2.0 */
#include "core/recorder.h"

#include "core/clock.h"
#include "core/slam_err.h"

#include <stdlib.h>
#include <string.h>

void
slam_op_record_clear(struct slam_op_record *op)
{
    if (slam_op_record_is_empty(op))
        return; /* most are, where there are many servers: their pages stay untouched */
    memset(op, 0, offsetof(struct slam_op_record, histograms));
    for (size_t outcome = 0; outcome < SLAM_OUTCOMES; outcome++)
        for (size_t metric = 0; metric < SLAM_METRICS; metric++)
            slam_histogram_reset(&op->histograms[outcome][metric]);
}

void
slam_stream_record_clear(struct slam_stream_record *stream)
{
    memset(stream, 0, offsetof(struct slam_stream_record, set_up));
    for (size_t time = 0; time < SLAM_SET_UP_TIMES; time++)
        slam_histogram_reset(&stream->set_up[time]);
}

#define COUNTER(name) [SLAM_CAUSE_##name] = offsetof(struct slam_stream_record, name),

void
slam_stream_record_failure(struct slam_stream_record *stream, enum slam_cause cause)
{
    static const size_t counters[] = {SLAM_CAUSE_LIST(COUNTER)};

    stream->connect_failures++;
    ++*(uint64_t *)((char *)stream + counters[cause]);
}

void
slam_stream_record_loss(struct slam_stream_record *stream, enum slam_loss loss,
                        uint64_t requests)
{
    static const size_t counters[] = {SLAM_LOSS_LIST(COUNTER)};

    stream->disconnects++;
    stream->lost_requests += requests;
    ++*(uint64_t *)((char *)stream + counters[loss]);
}

static void
record_clear(const struct slam_recorder *r, struct slam_interval_record *record)
{
    struct slam_op_record *ops = record->ops;
    struct slam_stream_record *streams = record->streams;

    for (size_t i = 0; i < 2 * r->op_count; i++)
        slam_op_record_clear(&ops[i]);
    for (size_t i = 0; i < r->place_count; i++)
        slam_stream_record_clear(&streams[i]);
    *record = (struct slam_interval_record){.ops = ops, .streams = streams};
}

int
slam_recorder_init(struct slam_recorder *r, size_t op_count, size_t place_count)
{
    pthread_condattr_t attr;

    memset(r, 0, sizeof(*r));
    r->op_count = op_count;
    r->place_count = place_count;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->closed_cond, &attr);
    pthread_condattr_destroy(&attr);
    for (size_t i = 0; i < 2; i++) {
        r->records[i].ops = calloc(2 * op_count, sizeof(struct slam_op_record));
        r->records[i].streams = calloc(place_count, sizeof(struct slam_stream_record));
        if (!r->records[i].ops || !r->records[i].streams)
            return SLAM_ENOMEM;
        record_clear(r, &r->records[i]);
    }
    r->active = &r->records[0];
    return SLAM_OK;
}

void
slam_recorder_destroy(struct slam_recorder *r)
{
    for (size_t i = 0; i < 2; i++) {
        free(r->records[i].ops);
        free(r->records[i].streams);
    }
    pthread_cond_destroy(&r->closed_cond);
    pthread_mutex_destroy(&r->lock);
}

bool
slam_recorder_close(struct slam_recorder *r, uint64_t now_ns, bool final)
{
    bool may_close;

    pthread_mutex_lock(&r->lock);
    /* interval i lives in record i % 2; i + 1 needs the record of i - 1 */
    may_close = final || r->released >= r->interval;
    if (may_close) {
        r->active->end_ns = now_ns;
        r->active->final = final;
        r->closed = ++r->interval;
        r->finished = final;
        pthread_cond_signal(&r->closed_cond);
    }
    pthread_mutex_unlock(&r->lock);
    if (may_close && !final) {
        r->active = &r->records[r->interval % 2];
        r->active->start_ns = now_ns;
    }
    return may_close;
}

const struct slam_interval_record *
slam_recorder_wait(struct slam_recorder *r, uint64_t index, uint64_t deadline_ns,
                   bool *finished)
{
    const struct slam_interval_record *record = NULL;
    struct timespec deadline = slam_clock_timespec(deadline_ns);
    int rc = 0;

    pthread_mutex_lock(&r->lock);
    while (r->closed <= index && !r->finished && rc == 0)
        rc = pthread_cond_timedwait(&r->closed_cond, &r->lock, &deadline);
    *finished = r->finished && r->closed <= index;
    if (r->closed > index)
        record = &r->records[index % 2];
    pthread_mutex_unlock(&r->lock);
    return record;
}

void
slam_recorder_release(struct slam_recorder *r, uint64_t index)
{
    record_clear(r, &r->records[index % 2]);
    pthread_mutex_lock(&r->lock);
    r->released = index + 1;
    pthread_mutex_unlock(&r->lock);
}

void
slam_op_record_diagnostic(struct slam_op_record *op, uint32_t result_code,
                          const void *text, size_t len)
{
    static const char MORE[] = "\xe2\x80\xa6"; /* U+2026 */
    const char *from = text;
    const char *more = "";
    struct slam_diagnostic *d = op->diagnostics;

    while (d < op->diagnostics + SLAM_DIAGNOSTICS && d->len > 0 &&
           d->result_code != result_code)
        d++;
    if (d == op->diagnostics + SLAM_DIAGNOSTICS || d->len > 0)
        return;
    if (len > sizeof(d->text)) {
        len = sizeof(d->text) - strlen(MORE);
        while (len > 0 &&
               ((uint8_t)from[len] & 0xc0u) == 0x80u) /* within a character */
            len--;
        more = MORE;
    }
    for (size_t i = 0; i < len; i++)
        d->text[i] = (uint8_t)from[i] < 0x20 || from[i] == 0x7f ? ' ' : from[i];
    while (len > 0 && d->text[len - 1] == ' ')
        len--;
    memcpy(d->text + len, more, strlen(more));
    d->result_code = result_code;
    d->len = (uint32_t)(len + strlen(more));
}

#define ADD(name) to->name += from->name;

void
slam_op_record_merge(struct slam_op_record *to, const struct slam_op_record *from)
{
    if (slam_op_record_is_empty(from))
        return;
    SLAM_OPERATION_COUNTERS(ADD)
    for (size_t i = 0; i <= SLAM_RESULT_CODES; i++)
        to->result_codes[i] += from->result_codes[i];
    for (const struct slam_diagnostic *d = from->diagnostics;
         d < from->diagnostics + SLAM_DIAGNOSTICS && d->len > 0; d++)
        slam_op_record_diagnostic(to, d->result_code, d->text, d->len);
    for (size_t outcome = 0; outcome < SLAM_OUTCOMES; outcome++)
        for (size_t metric = 0; metric < SLAM_METRICS; metric++)
            slam_histogram_merge(&to->histograms[outcome][metric],
                                 &from->histograms[outcome][metric]);
}

struct slam_histogram *
slam_op_record_outcome(struct slam_op_record *op, enum slam_outcome outcome,
                       uint64_t intended_ns, uint64_t sent_ns, uint64_t until_ns)
{
    static const size_t counters[SLAM_OUTCOMES] = {
        [SLAM_SUCCEEDED] = offsetof(struct slam_op_record, succeeded),
        [SLAM_FAILED] = offsetof(struct slam_op_record, failed),
        [SLAM_EXPECTED] = offsetof(struct slam_op_record, expected),
        [SLAM_TIMED_OUT] = offsetof(struct slam_op_record, timed_out),
        [SLAM_UNRESOLVED] = offsetof(struct slam_op_record, unresolved)};
    struct slam_histogram *h = op->histograms[outcome];

    ++*(uint64_t *)((char *)op + counters[outcome]);
    slam_histogram_record(&h[SLAM_RESPONSE_TIME], slam_since_ns(until_ns, intended_ns));
    slam_histogram_record(&h[SLAM_SERVICE_TIME], slam_since_ns(until_ns, sent_ns));
    return h;
}

bool
slam_op_record_is_empty(const struct slam_op_record *op)
{
    uint64_t any = 0;

#define ANY(name) any |= op->name;
    SLAM_OPERATION_COUNTERS(ANY)
    return any == 0;
}

/* The earlier of two times of which 0 is none. */
static uint64_t
earlier_known(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns && b_ns ? slam_earlier_ns(a_ns, b_ns) : a_ns | b_ns;
}

/* As if one had waited for both. Who did not wait at all says nothing. */
static void
merge_silence(struct slam_silence *to, const struct slam_silence *from)
{
    if (!from->until_ns)
        return;
    if (!to->until_ns) {
        *to = *from;
        return;
    }
    to->after_ns = slam_later_ns(to->after_ns, from->after_ns);
    to->since_ns = slam_earlier_ns(to->since_ns, from->since_ns);
    to->through_ns = slam_earlier_ns(to->through_ns, from->through_ns);
    to->until_ns = slam_earlier_ns(to->until_ns, from->until_ns);
}

#define EITHER(name) to->name |= from->name;

void
slam_stream_record_merge(struct slam_stream_record *to,
                         const struct slam_stream_record *from)
{
    SLAM_STREAM_COUNTERS(ADD)
    to->last_done_ns = slam_later_ns(to->last_done_ns, from->last_done_ns);
    merge_silence(&to->silence, &from->silence);
    to->waiting_since_ns = earlier_known(to->waiting_since_ns, from->waiting_since_ns);
    SLAM_STREAM_SLOTS(EITHER)
    for (size_t time = 0; time < SLAM_SET_UP_TIMES; time++)
        slam_histogram_merge(&to->set_up[time], &from->set_up[time]);
}

static uint64_t
since(uint64_t time_ns, uint64_t t0_ns)
{
    return time_ns ? slam_later_ns(slam_since_ns(time_ns, t0_ns), 1) : 0;
}

#define SINCE(name) stream->name = since(stream->name, t0_ns);

void
slam_stream_record_since(struct slam_stream_record *stream, uint64_t t0_ns)
{
    SLAM_STREAM_TIMES(SINCE)
}
