/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine is told of a stream: its settings, its operations, its scripts. The
 * texts and tables are the caller's; stream.c copies them. Times are ns. */
#ifndef SLAM_CONFIG_H
#define SLAM_CONFIG_H

#include "load/ledger.h"
#include "load/pacer.h"
#include "template/values.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slam_stream_config {
    const char *name;
    const char *const *uris;
    size_t uri_count;
    const char *const *addresses; /* as in transport.h; NULL: none */
    bool start_tls;
    const char *ca_file; /* NULL: libldap's default */
    bool verify;
    const char *cert_file; /* the client's certificate; NULL: none */
    const char *key_file;
    const char *mechanism; /* SASL; NULL: simple */
    const char *authcid;
    const char *authzid;
    const char *realm;
    const char *bind_dn; /* NULL: anonymous, unless there is a mechanism */
    const char *bind_password;
    size_t bind_password_len;
    uint64_t connect_timeout_ns;
    uint64_t request_timeout_ns;
    bool open;
    uint32_t connections;
    uint32_t first_connection;
    uint32_t connection_stride;
    uint32_t total_connections;
    uint32_t in_flight;
    uint64_t think_time_ns;
    const struct slam_rate_segment *segments;
    size_t segment_count;
    enum slam_arrivals arrivals;
    uint64_t max_backlog;
    uint64_t total_operations;
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t reconnect_operations;
    uint64_t reconnect_ns;
    uint64_t connect_spacing_ns;
    uint32_t variables; /* of a session */
    uint32_t ledgers;
    const char *ledger_folder; /* where their files go; NULL where there are none */
    const char *trace; /* file of the requests (trace.h); NULL: scripts make them */
};

enum slam_action {
    SLAM_ACTION_REQUEST, /* a response follows */
    SLAM_ACTION_UNBIND,  /* none does: the connection ends */
    SLAM_ACTION_ABANDON  /* none does: the session's request before it is given up */
};

/* A request template: see op.h. */
struct slam_template {
    const uint8_t *program;
    size_t program_len;
    const struct slam_value_source *sources;
    size_t source_count;
};

struct slam_let_config {
    uint32_t variable;
    struct slam_template text;
};

struct slam_capture_config {
    uint32_t variable;
    const uint8_t *attribute;
    size_t attribute_len;
};

#define SLAM_NO_VARIABLE UINT32_MAX

/* Variables are SLAM_NO_VARIABLE where they are not used. */
struct slam_operation_config {
    const char *name;
    uint8_t response_tag; /* 0: there is no response */
    uint8_t action;       /* an enum slam_action */
    bool awaits;
    struct slam_template request;
    const int *success_codes;
    size_t success_count;
    const int *expected_codes;
    size_t expected_count;
    const struct slam_let_config *lets;
    size_t let_count;
    const struct slam_capture_config *captures;
    size_t capture_count;
    uint32_t cookie;
    const char *mechanism; /* SASL; NULL: none */
    uint32_t authcid;
    uint32_t password;
    uint32_t authzid;
    uint32_t credentials;
    uint32_t ledger;
    uint32_t ledger_put;
    uint32_t ledger_take;
    enum slam_ledger_order ledger_order;
};

struct slam_step_config {
    uint32_t operation;
    uint64_t pause_ns;
};

#endif
