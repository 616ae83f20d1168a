/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream is: one kind of load against one role's servers. Read only once the
 * engine is prepared, shared by all workers.
 *
 * What a client does is a script: steps that run one after the other on one connection,
 * each an operation of the stream. One run of a script is a session; a plain operation
 * is a script of one step. A session begins at an arrival (open) or when its client is
 * free (closed). */
#ifndef SLAM_STREAM_H
#define SLAM_STREAM_H

#include "core/recorder.h"
#include "ldap/transport.h"
#include "load/config.h"
#include "load/trace.h"
#include "template/template.h"

#include <stdbool.h>
#include <stdint.h>

/* A text drawn before the request is encoded, and kept in a variable of the session. */
struct slam_let {
    uint32_t variable;
    struct slam_template *text;
};

/* What only some operations need; variables are SLAM_NO_VARIABLE where not used. */
struct slam_session_spec {
    struct slam_let *lets;
    size_t let_count;
    const struct slam_capture_config *captures; /* attribute_len 0: the entry's DN */
    size_t capture_count;
    uint32_t cookie; /* variable of a paged search's cookie (RFC 2696) */
    bool awaits; /* the session goes on when the response is there; else when sent */

    /* SASL bind of several steps: the mechanism, NULL for none, and variables */
    const char *mechanism;
    uint32_t authcid;
    uint32_t password;
    uint32_t authzid;
    uint32_t credentials;

    /* entries that this run added: see ledger.h */
    uint32_t ledger;
    uint32_t ledger_put;  /* variable with the DN that a success makes */
    uint32_t ledger_take; /* variable that gets a DN taken out */
    enum slam_ledger_order ledger_order;
};

struct slam_stream_op {
    struct slam_template *template;
    uint8_t response_tag; /* of the final response, an enum slam_pdu_tag; 0: none */
    uint8_t action;       /* an enum slam_action */
    /* an enum slam_outcome for each code; the last one for all codes from there up */
    uint8_t outcomes[SLAM_RESULT_CODES + 1];
    struct slam_session_spec *spec; /* NULL: none */
};

struct slam_step {
    uint32_t op;
    uint32_t pause_list; /* among the steps with a pause */
    bool last;           /* of its script */
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
    bool has_sessions;    /* sessions keep something beside their slot */
    uint32_t pause_count; /* steps with a pause, or after one that is not awaited */
    bool reads_content;   /* of responses, beyond the head */
    size_t first_op;      /* index of ops[0] in the engine's table of operations */
    size_t max_pdu;       /* largest request, in bytes */
};

/* Makes an operation or a script of the stream. Both return 0, or
 * a negative slam_err with the reason in err, and then leave the stream as it was. */
int slam_stream_add_operation(struct slam_stream *stream,
                              const struct slam_operation_config *config,
                              struct slam_feeds *feeds, char *err);
int slam_stream_add_script(struct slam_stream *stream, uint32_t weight,
                           const struct slam_step_config *steps, size_t step_count,
                           char *err);

/* The script that a session runs in place of one that finds a ledger empty: it adds to
 * the ledger before it takes out of any. NULL: there is none. */
const struct slam_script *slam_stream_filling(const struct slam_stream *stream,
                                              uint32_t ledger);

/* Checks the stream as a whole and opens its trace, if it has one. Returns 0, or a
 * negative slam_err with the reason in err. */
int slam_stream_prepare(struct slam_stream *stream, char *err);

/* Makes a stream of its settings. Either way, slam_stream_destroy may be called. */
int slam_stream_init(struct slam_stream *stream,
                     const struct slam_stream_settings *settings, char *err);
void slam_stream_destroy(struct slam_stream *stream);

#endif
