/* SPDX-License-Identifier: Apache-2.0 */
/* One kind of load against one role's servers; shared by all workers, read only once
 * the engine is prepared.
 *
 * A script is a sequence of steps on one connection, each an operation of the stream;
 * one run of it is a session. A plain operation is a script of one step. */
#ifndef SLAM_STREAM_H
#define SLAM_STREAM_H

#include "core/recorder.h"
#include "ldap/transport.h"
#include "load/config.h"
#include "load/trace.h"
#include "template/template.h"

#include <stdbool.h>
#include <stdint.h>

struct slam_stream_op {
    struct slam_template *template;
    uint8_t response_tag;
    uint8_t action; /* an enum slam_action */
    /* an enum slam_outcome for each code; the last one for all codes from there up */
    uint8_t outcomes[SLAM_RESULT_CODES + 1];
    const struct slam_session_spec *spec; /* the caller's; NULL: none */
    struct slam_template **lets;          /* the texts of spec->lets */
};

struct slam_step {
    uint32_t op;
    uint32_t pause_list; /* among the steps with a pause */
    bool last;           /* of its script */
    bool answers_last;   /* no response follows in its script */
    uint64_t pause_ns;   /* before it */
};

struct slam_script {
    uint32_t first_step;
    uint32_t weight; /* > 0 */
};

struct slam_stream {
    struct slam_stream_settings settings; /* texts are the caller's, segments ours */
    char **hosts;                         /* of the URIs; for SASL binds */
    struct slam_trace *trace; /* settings.trace, once the engine is prepared */

    struct slam_stream_op *ops;
    size_t op_count;
    struct slam_step *steps;
    size_t step_count;
    struct slam_script *scripts;
    size_t script_count;
    uint64_t total_weight;
    uint64_t weighted_steps; /* of the scripts, each times its weight */
    bool has_sessions;       /* sessions keep something beside their slot */
    uint32_t pause_count;    /* steps with a pause, or after one that is not awaited */
    bool reads_content;      /* of responses, beyond the head */
    size_t first_op;         /* index of ops[0] in the engine's table of records */
    size_t first_place;      /* the same of the first of its places */
    size_t max_pdu;          /* largest request, in bytes */

    /* Of the agent's workers of its kind, those that carry it: slam_stream_lane. */
    uint32_t carriers;
    uint32_t first_worker;
};

/* The script that replaces one that finds a ledger empty: it adds to the ledger before
 * it takes from any. NULL: there is none. */
const struct slam_script *slam_stream_filling(const struct slam_stream *stream,
                                              uint32_t ledger);

/* Places that the stream's records are of: one; where it has several servers, each
 * server too, after what got to none. */
static inline size_t
slam_stream_places(const struct slam_stream *stream)
{
    size_t servers = stream->settings.connection.uri_count;

    return servers > 1 ? 1 + servers : 1;
}

/* Checks the stream as a whole and opens its trace, if it has one. */
int slam_stream_prepare(struct slam_stream *stream, char *err);

/* How many of the workers carry the stream; each does at least one connection. */
uint32_t slam_stream_carriers(const struct slam_stream *stream, uint32_t workers);

/* The worker's place among those that carry the stream, from 0; from `carriers` on: it
 * is none of them. */
static inline uint32_t
slam_stream_lane(const struct slam_stream *stream, uint32_t worker, uint32_t workers)
{
    return (worker + workers - stream->first_worker) % workers;
}

/* Makes a stream of its settings; slam_stream_destroy may be called either way. */
int slam_stream_init(struct slam_stream *stream,
                     const struct slam_stream_settings *settings,
                     struct slam_feeds *feeds, char *err);
void slam_stream_destroy(struct slam_stream *stream);

#endif
