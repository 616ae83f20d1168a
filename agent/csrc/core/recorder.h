/* SPDX-License-Identifier: Apache-2.0 */
/* What one worker counted in one interval. A recorder has two such records: the worker
 * writes one, the control thread reads the other. The worker closes an interval by
 * itself, at the first turn of its loop after the boundary, and only when the control
 * thread has released the other record: it never waits and loses nothing; an interval
 * whose predecessor was not read in time is longer, and says so by its end. */
#ifndef SLAM_RECORDER_H
#define SLAM_RECORDER_H

#include "core/histogram.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum slam_metric {
    SLAM_RESPONSE_TIME,
    SLAM_SERVICE_TIME,
    SLAM_SEND_LAG,
    SLAM_RECEIVE_LAG,
    SLAM_BACKLOG_WAIT,
    SLAM_METRICS
};

enum slam_outcome {
    SLAM_SUCCEEDED,
    SLAM_FAILED,   /* a result code that the job does not expect */
    SLAM_EXPECTED, /* one that it does, other than success */
    SLAM_TIMED_OUT,
    SLAM_UNRESOLVED, /* the last two: times up to when the request was given up */
    SLAM_OUTCOMES
};

#define SLAM_RESULT_CODES 128u /* codes from 128 up share one more counter */

/* One operation of one stream, of requests either in or outside the measure phase. */
struct slam_op_record {
    uint64_t scheduled; /* = sent + dropped + substituted */
    uint64_t sent;      /* = completed + timed_out + unresolved + abandoned */
    uint64_t completed; /* = succeeded + expected + failed */
    uint64_t succeeded;
    uint64_t expected;
    uint64_t failed;
    uint64_t dropped;
    uint64_t unresolved; /* lost with their connection, or in flight at the end */
    uint64_t timed_out;
    uint64_t abandoned;        /* given up by an abandon request */
    uint64_t substituted;      /* needed an entry of a ledger that was empty */
    uint64_t captures_missing; /* completed without what a later step needs */
    uint64_t requests;         /* PDUs; more than sent in binds of several steps */
    uint64_t entries;
    uint64_t references;
    uint64_t result_codes[SLAM_RESULT_CODES + 1];
    struct slam_histogram histograms[SLAM_OUTCOMES][SLAM_METRICS];
};

/* Clears a record that is zeroed memory or was valid. */
void slam_op_record_clear(struct slam_op_record *op);

/* Adds every counter and histogram of `from` to `to`. */
void slam_op_record_merge(struct slam_op_record *to, const struct slam_op_record *from);

/* Times of a connection's set-up. */
enum slam_set_up_time {
    SLAM_CONNECT_TIME, /* all of it */
    SLAM_TCP_TIME,
    SLAM_TLS_TIME,
    SLAM_BIND_TIME,
    SLAM_SET_UP_TIMES
};

struct slam_stream_record {
    uint64_t connects;
    uint64_t binds;    /* requests of set-up and closing, beside the operations: */
    uint64_t extended; /* StartTLS */
    uint64_t unbinds;
    uint64_t connect_failures;
    uint64_t disconnects;
    uint64_t down_ns; /* sum over the connections: lost, and not yet set up again */
    uint64_t protocol_errors;
    uint64_t late_responses;
    uint64_t unexpected_messages;
    uint64_t notices;            /* unsolicited notifications */
    uint64_t stamps_missing;     /* responses without a usable kernel stamp */
    uint64_t in_flight;          /* at the interval's end */
    uint64_t backlog;            /* at the interval's end */
    uint64_t last_completion_ns; /* CLOCK_MONOTONIC; 0: none in this interval */
    struct slam_histogram set_up[SLAM_SET_UP_TIMES];
};

void slam_stream_record_clear(struct slam_stream_record *stream);
void slam_stream_record_merge(struct slam_stream_record *to,
                              const struct slam_stream_record *from);

struct slam_interval_record {
    uint64_t start_ns; /* CLOCK_MONOTONIC */
    uint64_t end_ns;
    uint64_t wait_ns;      /* blocked in epoll_pwait2 */
    uint64_t spin_ns;      /* polling for a deadline closer than the spin limit */
    uint64_t cpu_ns;       /* of the thread */
    uint64_t run_queue_ns; /* runnable but not running */
    uint64_t loops;
    uint64_t clock_step_ns; /* largest step of CLOCK_REALTIME seen */
    bool final;
    struct slam_op_record *ops;         /* [op_count][2]: outside, in measure */
    struct slam_stream_record *streams; /* [stream_count] */
};

struct slam_recorder {
    size_t op_count;
    size_t stream_count;
    struct slam_interval_record records[2];
    struct slam_interval_record *active; /* worker thread only */
    uint64_t interval;                   /* worker thread only: index of active */

    pthread_mutex_t lock;
    pthread_cond_t closed_cond;
    uint64_t closed;   /* protected by lock: intervals closed by the worker */
    uint64_t released; /* protected by lock: intervals read by control */
    bool finished;     /* protected by lock: no interval follows */
};

/* Allocates both records. Returns 0 or SLAM_ENOMEM. */
int slam_recorder_init(struct slam_recorder *recorder, size_t op_count,
                       size_t stream_count);
void slam_recorder_destroy(struct slam_recorder *recorder);

static inline struct slam_op_record *
slam_recorder_op(struct slam_recorder *recorder, size_t op, bool measured)
{
    return &recorder->active->ops[2 * op + (measured ? 1u : 0u)];
}

/* Worker: closes the active interval at now_ns and opens the next. Returns false, and
 * changes nothing, while the control thread still holds the other record. */
bool slam_recorder_close(struct slam_recorder *recorder, uint64_t now_ns, bool final);

/* Control: waits until interval `index` is closed, until the deadline (CLOCK_MONOTONIC)
 * at most. Returns its record, which stays valid until slam_recorder_release; NULL on
 * time-out or, with *finished, when the worker ended before it. */
const struct slam_interval_record *slam_recorder_wait(struct slam_recorder *recorder,
                                                      uint64_t index,
                                                      uint64_t deadline_ns,
                                                      bool *finished);

/* Control: hands the record of interval `index` back, cleared. */
void slam_recorder_release(struct slam_recorder *recorder, uint64_t index);

#endif
