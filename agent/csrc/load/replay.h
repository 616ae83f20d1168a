/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of streams whose requests are a trace (trace.h): which are due, on which
 * connection, in which order. Where the stream is open, each is due at its record's
 * time and waits for its own connection; where it is closed, a connection sends its
 * next one when it is free. schedule.c asks here; in_flight is 1.
 *
 * Worker thread only, but for init and destroy. Times are CLOCK_MONOTONIC in ns. */
#ifndef SLAM_REPLAY_H
#define SLAM_REPLAY_H

#include "load/flow.h"
#include "load/stream.h"

#include <stdbool.h>
#include <stdint.h>

/* What a connection has before it. */
struct slam_replayed {
    const struct slam_trace_record *current; /* of the request in its slot */
    uint64_t next;                           /* record to be sent next; 0: none */
    uint64_t due;                            /* records that are due and not sent */
    uint64_t free_since_ns;
};

/* Opens a stream's trace, if it has one; its operations are known by then. Returns 0,
 * or a negative slam_err with the reason in err. Control thread, before any flow. */
int slam_replay_open(struct slam_stream *stream, char *err, size_t err_len);

/* Finds the flow's own records. Returns 0 or SLAM_ENOMEM. */
int slam_replay_init(struct slam_flow *flow);
void slam_replay_destroy(struct slam_flow *flow);

/* As the functions of schedule.h. */
void slam_replay_begin(struct slam_flow *flow);
void slam_replay_run(struct slam_flow *flow, uint64_t now_ns, uint64_t limit_ns);
void slam_replay_end(struct slam_flow *flow);
bool slam_replay_is_over(const struct slam_flow *flow);

/* The connection can take a request, ever since since_ns: it sends what is due. It may
 * be down on return. */
void slam_replay_free(struct slam_conn *conn, uint64_t since_ns);

/* Writes the request of a connection's slot, as slam_op_encode does. */
size_t slam_replay_encode(const struct slam_conn *conn, int32_t message_id,
                          uint8_t *end);

/* When a connection that has said unbind is to be set up again; UINT64_MAX: never. */
uint64_t slam_replay_connect_ns(const struct slam_conn *conn, uint64_t now_ns);

#endif
