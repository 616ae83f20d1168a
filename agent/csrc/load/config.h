/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's settings, operations and scripts. What they point to is the caller's and
 * stays until slam_engine_destroy. Times are ns. */
#ifndef SLAM_CONFIG_H
#define SLAM_CONFIG_H

#include "ldap/transport.h"
#include "load/ledger.h"
#include "load/pacer.h"
#include "template/template.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum slam_action {
    SLAM_ACTION_REQUEST, /* a response follows */
    SLAM_ACTION_UNBIND,  /* none does: the connection ends */
    SLAM_ACTION_ABANDON  /* none does: the session's request before it is given up */
};

struct slam_let_config {
    uint32_t variable;
    struct slam_template_config text;
};

struct slam_capture_config {
    uint32_t variable;
    const uint8_t *attribute;
    size_t attribute_len;
};

#define SLAM_NO_VARIABLE UINT32_MAX

/* A SASL bind of several steps: the mechanism, NULL for none, and variables. */
struct slam_sasl_variables {
    const char *mechanism;
    uint32_t authcid;
    uint32_t password;
    uint32_t authzid;
    uint32_t credentials;
};

/* What only some operations need. Variables are SLAM_NO_VARIABLE where not used. */
struct slam_session_spec {
    const struct slam_let_config *lets; /* drawn before the request is encoded */
    size_t let_count;
    const struct slam_capture_config *captures; /* attribute_len 0: the entry's DN */
    size_t capture_count;
    uint32_t cookie_variable; /* of a paged search's cookie (RFC 2696) */
    bool awaits; /* the session goes on when the response is there; else when sent */
    struct slam_sasl_variables sasl;
    uint32_t ledger;      /* of entries that this run added: ledger.h */
    uint32_t ledger_put;  /* variable with the DN that a success makes */
    uint32_t ledger_take; /* variable that gets a DN taken out */
    enum slam_ledger_order ledger_order;
};

struct slam_operation_config {
    uint8_t response_tag; /* of the final response, an enum slam_pdu_tag; 0: none */
    uint8_t action;       /* an enum slam_action */
    struct slam_template_config template;
    const int *success_codes;
    size_t success_count;
    const int *expected_codes;
    size_t expected_count;
    struct slam_session_spec session;
};

struct slam_step_config {
    uint32_t operation;
    uint64_t pause_ns;
};

struct slam_script_config {
    uint32_t weight;
    const struct slam_step_config *steps;
    size_t step_count;
};

struct slam_stream_settings {
    struct slam_connection_settings connection;
    uint64_t request_timeout_ns;
    bool open; /* open loop; else closed */

    /* The j-th connection of this agent has the number first_connection +
     * j * connection_stride in the run and goes to uris[number mod uri_count]. */
    uint32_t connections;
    uint32_t first_connection;
    uint32_t connection_stride;
    uint32_t total_connections; /* of the run */

    uint32_t in_flight;     /* open: sessions at most, per connection; closed: 1 */
    uint64_t think_time_ns; /* closed: between sessions */
    const struct slam_rate_segment *segments; /* open: the run's rate over time */
    size_t segment_count;
    enum slam_arrivals arrivals;
    uint64_t max_backlog; /* open: arrivals waiting, of this agent */

    uint64_t total_operations; /* sessions of the whole run; 0: no end */
    uint64_t start_ns;         /* after T0; nothing is sent before */
    uint64_t end_ns;           /* after T0; no session begins from then on; 0: none */

    uint32_t variables; /* of a session */
    uint32_t ledgers;
    const char *ledger_folder; /* where their files go; NULL where there are none */
    const char *trace; /* file of the requests (trace.h); NULL: scripts make them */

    const struct slam_operation_config *operations;
    size_t operation_count;
    const struct slam_script_config *scripts; /* a session runs one, drawn by weight */
    size_t script_count;
};

#endif
