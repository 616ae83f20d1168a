/* SPDX-License-Identifier: Apache-2.0 */
/* The counts of one worker in one interval, in two records: the worker writes one, the
 * control thread reads the other. The worker closes an interval at the first turn of
 * its loop after the boundary, once the control thread has released the other record.
 * It never waits: an interval whose predecessor was read late is longer, and its end
 * says so. */
#ifndef SLAM_RECORDER_H
#define SLAM_RECORDER_H

#include "core/cause.h"
#include "core/clock.h"
#include "core/histogram.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The only lists of these names in C; proto/fields.py has the same in Python. */
#define SLAM_OPERATION_COUNTERS(X)                                                     \
    X(scheduled) /* = sent + dropped + substituted */                                  \
    X(sent)      /* = completed + timed_out + unresolved + abandoned */                \
    X(completed) /* = succeeded + expected + failed */                                 \
    X(succeeded)                                                                       \
    X(expected)                                                                        \
    X(failed)                                                                          \
    X(dropped)                                                                         \
    X(timed_out)                                                                       \
    X(unresolved)       /* lost with their connection, or in flight at the end */      \
    X(abandoned)        /* given up by an abandon request */                           \
    X(substituted)      /* needed an entry of a ledger that was empty */               \
    X(captures_missing) /* completed without what a later step needs */                \
    X(requests)         /* PDUs; more than sent in binds of several steps */           \
    X(entries)                                                                         \
    X(empty) /* succeeded: searches that returned no entry */                          \
    X(references)

#define SLAM_STREAM_COUNTERS(X)                                                        \
    X(connects)                                                                        \
    X(connect_failures)                                                                \
    X(disconnects)                                                                     \
    X(lost_requests) /* sent on lost connections */                                    \
    X(down_ns)       /* sum over the connections: lost, and not yet set up again */    \
    X(unable_ns)     /* the same, where a set-up failed by the generator's fault */    \
    X(protocol_errors)                                                                 \
    X(late_responses)                                                                  \
    X(unexpected_messages)                                                             \
    X(notices)         /* unsolicited notifications */                                 \
    X(stamps_missing)  /* responses without a usable kernel stamp */                   \
    X(shared_stamps)   /* responses with the stamp of another response */              \
    X(binds)           /* of set-up; binds of operations are counted there */          \
    X(extended)        /* StartTLS */                                                  \
    X(unbinds)         /* of closing */                                                \
    X(in_flight)       /* at the interval's end */                                     \
    X(backlog)         /* at the interval's end */                                     \
    X(connecting)      /* set-ups under way at the interval's end */                   \
    SLAM_CAUSE_LIST(X) /* = connect_failures */                                        \
    SLAM_LOSS_LIST(X)  /* = disconnects */

#define SLAM_STREAM_TIMES(X)                                                           \
    X(last_done_ns)                                                                    \
    X(silence.after_ns)                                                                \
    X(silence.since_ns) X(silence.through_ns) X(silence.until_ns) X(waiting_since_ns)

/* Bits of an interval's slots, the least one first. */
#define SLAM_STREAM_SLOTS(X)                                                           \
    X(heard)  /* a response came in it */                                              \
    X(waited) /* all of it, something waited for one */

/* Times of a connection's set-up: X(CONSTANT, name). */
#define SLAM_SET_UP_TIME_LIST(X)                                                       \
    X(CONNECT_TIME, connect_time) /* all of it */                                      \
    X(TCP_TIME, tcp_time)                                                              \
    X(TLS_TIME, tls_time)                                                              \
    X(BIND_TIME, bind_time)

/* X(CONSTANT) */
#define SLAM_METRIC_LIST(X)                                                            \
    X(RESPONSE_TIME)                                                                   \
    X(SERVICE_TIME)                                                                    \
    X(SEND_LAG)                                                                        \
    X(RECEIVE_LAG)                                                                     \
    X(BACKLOG_WAIT)                                                                    \
    X(SEQUENCE_TIME) /* with its last response: of several requests, from the first */

#define SLAM_OUTCOME_LIST(X)                                                           \
    X(SUCCEEDED)                                                                       \
    X(FAILED)   /* a result code that the job does not expect */                       \
    X(EXPECTED) /* one that it does, other than success */                             \
    X(TIMED_OUT)                                                                       \
    X(UNRESOLVED) /* the last two: times up to when the request was given up */

#define SLAM_MEMBER(name) uint64_t name;
#define SLAM_CONSTANT(name, ...) SLAM_##name,

enum slam_metric { SLAM_METRIC_LIST(SLAM_CONSTANT) SLAM_METRICS };
enum slam_outcome { SLAM_OUTCOME_LIST(SLAM_CONSTANT) SLAM_OUTCOMES };
enum slam_set_up_time { SLAM_SET_UP_TIME_LIST(SLAM_CONSTANT) SLAM_SET_UP_TIMES };

#define SLAM_RESULT_CODES 128u /* codes from 128 up share one more counter */

/* Result codes of an operation whose diagnostic message is kept, in an interval; and
 * how much of it. */
#define SLAM_DIAGNOSTICS 4u
#define SLAM_DIAGNOSTIC_BYTES 200u

/* UTF-8 as far as the server's is, without control characters. */
struct slam_diagnostic {
    uint32_t result_code; /* its place in result_codes */
    uint32_t len;         /* 0: none is kept here, nor in those behind it */
    char text[SLAM_DIAGNOSTIC_BYTES];
};

/* One operation of one stream, of requests either in or outside the measure phase. */
struct slam_op_record {
    SLAM_OPERATION_COUNTERS(SLAM_MEMBER)
    uint64_t result_codes[SLAM_RESULT_CODES + 1];
    struct slam_diagnostic diagnostics[SLAM_DIAGNOSTICS]; /* of failures */
    struct slam_histogram histograms[SLAM_OUTCOMES][SLAM_METRICS];
};

void slam_op_record_clear(struct slam_op_record *op);

void slam_op_record_merge(struct slam_op_record *to, const struct slam_op_record *from);

/* The place of a result code in result_codes. */
static inline uint32_t
slam_result_code(int code)
{
    return (unsigned int)code < SLAM_RESULT_CODES ? (unsigned int)code
                                                  : SLAM_RESULT_CODES;
}

/* Counts a response: every counter of result codes is added to here. `empty`: it is a
 * search's, and no entry came before it. */
static inline void
slam_op_record_response(struct slam_op_record *op, uint32_t result_code,
                        enum slam_outcome outcome, bool empty)
{
    op->completed++;
    op->result_codes[result_code]++;
    op->empty += empty && outcome == SLAM_SUCCEEDED;
}

/* Keeps the diagnostic message of a failure, unless it is empty, there is one of the
 * same result code, or no room for another; cuts off what is too long. */
void slam_op_record_diagnostic(struct slam_op_record *op, uint32_t result_code,
                               const void *text, size_t len);

/* Counts a request's outcome, and its times up to the response or until it was given
 * up. Returns the histograms of the outcome. */
struct slam_histogram *slam_op_record_outcome(struct slam_op_record *op,
                                              enum slam_outcome outcome,
                                              uint64_t intended_ns, uint64_t sent_ns,
                                              uint64_t until_ns);

bool slam_op_record_is_empty(const struct slam_op_record *op);

/* A wait without any response; CLOCK_MONOTONIC. */
struct slam_silence {
    uint64_t after_ns;   /* the last response before it; 0: none */
    uint64_t since_ns;   /* the first request that waited */
    uint64_t through_ns; /* so long it is certain */
    uint64_t until_ns;   /* the next response; 0: there was no silence */
};

/* A stream's connections, or those to one of its servers. */
struct slam_stream_record {
    SLAM_STREAM_COUNTERS(SLAM_MEMBER)
    /* CLOCK_MONOTONIC; 0: none in this interval */
    uint64_t last_done_ns;
    struct slam_silence silence; /* the longest that ended in this interval */
    uint64_t waiting_since_ns;   /* at its end; 0: nothing waits for the directory */
    SLAM_STREAM_SLOTS(SLAM_MEMBER)
    struct slam_histogram set_up[SLAM_SET_UP_TIMES];
};

/* Counts an attempt to set a connection up that failed. */
void slam_stream_record_failure(struct slam_stream_record *stream,
                                enum slam_cause cause);

/* Counts a connection that was lost after these requests. */
void slam_stream_record_loss(struct slam_stream_record *stream, enum slam_loss loss,
                             uint64_t requests);

void slam_stream_record_clear(struct slam_stream_record *stream);
/* Keeps a silence that ended, unless a longer one is kept. */
static inline void
slam_stream_record_silence(struct slam_stream_record *stream,
                           const struct slam_silence *silence)
{
    const struct slam_silence *kept = &stream->silence;

    if (silence->until_ns >= silence->since_ns &&
        (!kept->until_ns ||
         silence->until_ns - silence->since_ns > kept->until_ns - kept->since_ns))
        stream->silence = *silence;
}

/* Makes its times those since T0. */
void slam_stream_record_since(struct slam_stream_record *stream, uint64_t t0_ns);
void slam_stream_record_merge(struct slam_stream_record *to,
                              const struct slam_stream_record *from);

struct slam_interval_record {
    uint64_t start_ns; /* CLOCK_MONOTONIC */
    uint64_t end_ns;
    uint64_t wait_ns;      /* blocked in epoll_wait */
    uint64_t spin_ns;      /* polling for a deadline closer than the spin limit */
    uint64_t cpu_ns;       /* of the thread */
    uint64_t run_queue_ns; /* runnable but not running */
    uint64_t loops;
    uint64_t clock_step_ns; /* largest step of CLOCK_REALTIME seen */
    bool final;
    struct slam_op_record *ops;         /* [op_count][2]: outside, in measure */
    struct slam_stream_record *streams; /* [place_count] */
};

struct slam_recorder {
    size_t op_count;
    size_t place_count;
    struct slam_interval_record records[2];
    struct slam_interval_record *active; /* worker thread only */
    uint64_t interval;                   /* worker thread only: index of active */

    pthread_mutex_t lock;
    pthread_cond_t closed_cond;
    uint64_t closed;   /* protected by lock: intervals closed by the worker */
    uint64_t released; /* protected by lock: intervals read by control */
    bool finished;     /* protected by lock: no interval follows */
};

int slam_recorder_init(struct slam_recorder *recorder, size_t op_count,
                       size_t place_count);
void slam_recorder_destroy(struct slam_recorder *recorder);

static inline struct slam_op_record *
slam_recorder_op(struct slam_recorder *recorder, size_t op, bool measured)
{
    return &recorder->active->ops[2 * op + (measured ? 1u : 0u)];
}

/* Worker: closes the active interval and opens the next. False, without a change: the
 * control thread still holds the other record. */
bool slam_recorder_close(struct slam_recorder *recorder, uint64_t now_ns, bool final);

/* Control: waits for interval `index`, until the deadline (CLOCK_MONOTONIC). Returns
 * its record, valid until slam_recorder_release; NULL on time-out or, with *finished,
 * when the worker ended before it. */
const struct slam_interval_record *slam_recorder_wait(struct slam_recorder *recorder,
                                                      uint64_t index,
                                                      uint64_t deadline_ns,
                                                      bool *finished);

void slam_recorder_release(struct slam_recorder *recorder, uint64_t index);

#endif
