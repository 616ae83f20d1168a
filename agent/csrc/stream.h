/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream is: one kind of load against one role's servers. Read only once the
 * engine is prepared, shared by all workers. */
#ifndef SLAM_STREAM_H
#define SLAM_STREAM_H

#include "conn.h"
#include "op.h"

#include <stdbool.h>
#include <stdint.h>

struct slam_stream_op {
    char *name;
    struct slam_op *op;
    uint8_t response_tag; /* of the final response, an enum slam_pdu_tag */
    uint32_t weight;      /* > 0 */
};

struct slam_stream {
    char *name;
    struct slam_conn_config conn;
    uint64_t request_timeout_ns;
    bool open; /* open loop; else closed */

    /* This agent's share: its j-th connection has the number first_connection +
     * j * connection_stride in the run and goes to uris[number mod uri_count]. */
    uint32_t connections;
    uint32_t first_connection;
    uint32_t connection_stride;
    uint32_t total_connections; /* of the run */

    uint64_t think_time_ns; /* closed */

    uint32_t in_flight;   /* open: at most, per connection; closed: 1 */
    uint64_t rate_events; /* open: rate of the whole run, events per ns */
    uint64_t rate_per_ns;
    bool poisson;
    uint64_t max_backlog; /* open: arrivals waiting, of this agent */

    uint32_t participant; /* of the agents that carry the stream */
    uint32_t participants;

    struct slam_stream_op *ops;
    size_t op_count;
    uint64_t total_weight;
    size_t first_op;    /* index of ops[0] in the engine's table of operations */
    size_t max_pdu;     /* largest request, in bytes */
    size_t scratch_len; /* bytes that encoding needs */
};

#endif
