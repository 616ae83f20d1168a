/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder and the arrivals of one stream whose clients are processes (`type:
 * python`), in memory that the parent of the clients maps before it forks them.
 *
 * Each call holds a lock for about a microsecond; the kernel takes the lock back from a
 * process that dies. The parent closes an interval by exchanging two records, so a
 * client that computes, hangs or died keeps nobody's interval open. Times are
 * CLOCK_MONOTONIC in ns.
 *
 * A client that is free takes the next arrival, also one that is not due yet, and waits
 * for it. Arrivals that come due while no client is free are put into the backlog by
 * the next call that looks: in between nothing is taken out of it, so it is as full,
 * and drops as many, as if it had been kept all the time. */
#ifndef SLAM_SHARED_RECORDER_H
#define SLAM_SHARED_RECORDER_H

#include "core/recorder.h"
#include "load/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAM_MAX_UNDER_WAY (1u << 20) /* requests and observations of a stream */

struct slam_shared;

struct slam_shared_record {
    uint64_t end_ns;
    struct slam_op_record *ops;        /* [ops][2]: outside, in measure */
    struct slam_stream_record *stream; /* last_done_ns: after T0 */
};

/* The stream has this number in its plan and so many operations. Returns 0, or a
 * negative slam_err with the reason in err. */
int slam_shared_create(const struct slam_engine_config *run,
                       const struct slam_stream_settings *stream, uint32_t number,
                       uint32_t ops, struct slam_shared **shared, char *err,
                       size_t err_len);
void slam_shared_destroy(struct slam_shared *shared);

/* Parent: T0, and when the stream's load ends; again when it is stopped. */
void slam_shared_set_span(struct slam_shared *shared, uint64_t t0_ns, uint64_t end_ns);
uint64_t slam_shared_end_ns(struct slam_shared *shared);

/* Parent: closes the interval; its record is valid until the next call. With `final`
 * what waits is dropped, and what is under way is unresolved. */
const struct slam_shared_record *slam_shared_close(struct slam_shared *shared,
                                                   bool final);

/* Client: when its next arrival is or was due; SLAM_PACER_NONE: none before the end. */
uint64_t slam_shared_take(struct slam_shared *shared, uint64_t now_ns);

/* Begins a request, or an observation: that has no send lag, for nothing is sent.
 * slot_free_ns: when the client became free, if that was after the request was due.
 * Returns a handle; 0 when too much is under way. */
uint64_t slam_shared_begin(struct slam_shared *shared, uint32_t op,
                           uint64_t intended_ns, uint64_t slot_free_ns,
                           uint64_t sent_ns, bool observed);

/* Adds to what a request asked for and got; a sent_ns above 0 is when it was sent. */
void slam_shared_update(struct slam_shared *shared, uint64_t handle, uint64_t sent_ns,
                        uint32_t requests, uint32_t entries, uint32_t references);

/* Ends a request, once: false when it has ended before. A response that comes then is
 * counted as late. Without a response both times are when it was given up. */
bool slam_shared_end(struct slam_shared *shared, uint64_t handle,
                     enum slam_outcome outcome, int code, uint64_t received_ns,
                     uint64_t done_ns);

/* Adds to a counter of the stream, by its offset in the record. */
void slam_shared_count(struct slam_shared *shared, size_t offset, uint64_t number);
void slam_shared_connected(struct slam_shared *shared, uint64_t duration_ns);

#endif
