/* SPDX-License-Identifier: Apache-2.0 */
#include "python/settings.h"

/* The rows of the struct ROWS_OF, which is defined before each table. */
#define ROW(kind, member, ...) SLAM_PY_ROW(ROWS_OF, kind, member, __VA_ARGS__)
#define NAMED(name, kind, member, ...)                                                 \
    SLAM_PY_NAMED_ROW(ROWS_OF, name, kind, member, __VA_ARGS__)
#define COUNTED(name, kind, member, count, ...)                                        \
    NAMED(name, kind, member, .length = offsetof(ROWS_OF, count), __VA_ARGS__)
#define OF_STRUCTS(type, rows_)                                                        \
    .rows = (const struct slam_py_row[])                                               \
    {                                                                                  \
        SLAM_PY_ELEMENT(type, STRUCT, .rows = rows_)                                   \
    }
#define END {.name = NULL}

static const struct slam_py_row text_row[] = {SLAM_PY_ELEMENT(const char *, TEXT)};
static const struct slam_py_row code_row[] = {SLAM_PY_ELEMENT(int, SIGNED)};
static const struct slam_py_row time_row[] = {SLAM_PY_ELEMENT(uint64_t, UNSIGNED)};

#define ROWS_OF struct slam_engine_config
const struct slam_py_row slam_py_run_rows[] = {
    ROW(UNSIGNED, seed),
    COUNTED("boundaries_ns", ARRAY, boundaries_ns, boundary_count, .rows = time_row),
    ROW(UNSIGNED, measure_start_ns),
    ROW(UNSIGNED, measure_end_ns),
    ROW(UNSIGNED, ramp_up_ns),
    ROW(UNSIGNED, grace_ns),
    END};

#undef ROWS_OF
#define ROWS_OF struct slam_value_source
static const struct slam_py_row value_rows[] = {
    ROW(UNSIGNED, kind), ROW(SIGNED, lo),      ROW(SIGNED, hi),
    ROW(SIGNED, step),   ROW(UNSIGNED, width), COUNTED("data", BYTES, data, data_len),
    ROW(DOUBLE, a),      ROW(DOUBLE, b),       END};
const struct slam_py_row slam_py_value_row[] = {
    SLAM_PY_ELEMENT(struct slam_value_source, STRUCT, .rows = value_rows)};

#undef ROWS_OF
#define ROWS_OF struct slam_template_config
const struct slam_py_row slam_py_template_rows[] = {
    COUNTED("program", BYTES, program, program_len),
    COUNTED("values", ARRAY, sources, source_count, .rows = slam_py_value_row), END};

#undef ROWS_OF
#define ROWS_OF struct slam_let_config
static const struct slam_py_row let_rows[] = {
    ROW(UNSIGNED, variable), ROW(STRUCT, text, .rows = slam_py_template_rows), END};

#undef ROWS_OF
#define ROWS_OF struct slam_capture_config
static const struct slam_py_row capture_rows[] = {
    ROW(UNSIGNED, variable), COUNTED("attribute", BYTES, attribute, attribute_len),
    END};

#undef ROWS_OF
#define ROWS_OF struct slam_sasl_variables
static const struct slam_py_row sasl_rows[] = {
    ROW(TEXT, mechanism),   ROW(VARIABLE, authcid),     ROW(VARIABLE, password),
    ROW(VARIABLE, authzid), ROW(VARIABLE, credentials), END};

static const char *const actions[] = {"request", "unbind", "abandon", NULL};
static const char *const orders[] = {"fifo", "lifo", "random", NULL};

#undef ROWS_OF
#define ROWS_OF struct slam_operation_config
static const struct slam_py_row operation_rows[] = {
    ROW(UNSIGNED, response_tag),
    ROW(STRUCT, template, .rows = slam_py_template_rows),
    COUNTED("success_codes", ARRAY, success_codes, success_count, .rows = code_row),
    COUNTED("expected_codes", ARRAY, expected_codes, expected_count, .rows = code_row),
    COUNTED("lets", ARRAY, session.lets, session.let_count,
            OF_STRUCTS(struct slam_let_config, let_rows)),
    COUNTED("captures", ARRAY, session.captures, session.capture_count,
            OF_STRUCTS(struct slam_capture_config, capture_rows)),
    NAMED("cookie_variable", VARIABLE, session.cookie_variable),
    ROW(CHOICE, action, .choices = actions),
    NAMED("awaits", BOOL, session.awaits),
    NAMED("sasl", STRUCT, session.sasl, .rows = sasl_rows),
    NAMED("ledger", UNSIGNED, session.ledger),
    NAMED("ledger_put", VARIABLE, session.ledger_put),
    NAMED("ledger_take", VARIABLE, session.ledger_take),
    NAMED("ledger_order", CHOICE, session.ledger_order, .choices = orders),
    END};

#undef ROWS_OF
#define ROWS_OF struct slam_step_config
static const struct slam_py_row step_rows[] = {ROW(UNSIGNED, operation),
                                               ROW(UNSIGNED, pause_ns), END};

#undef ROWS_OF
#define ROWS_OF struct slam_script_config
static const struct slam_py_row script_rows[] = {
    ROW(UNSIGNED, weight),
    COUNTED("steps", ARRAY, steps, step_count,
            OF_STRUCTS(struct slam_step_config, step_rows)),
    END};

#undef ROWS_OF
#define ROWS_OF struct slam_tls_settings
static const struct slam_py_row tls_rows[] = {
    ROW(BOOL, start_tls), ROW(TEXT, ca_file),  ROW(BOOL, verify),
    ROW(TEXT, cert_file), ROW(TEXT, key_file), END};

#undef ROWS_OF
#define ROWS_OF struct slam_bind_settings
static const struct slam_py_row bind_rows[] = {
    ROW(TEXT, dn),
    COUNTED("password", BYTES, password, password_len),
    ROW(TEXT, mechanism),
    ROW(TEXT, authcid),
    ROW(TEXT, authzid),
    ROW(TEXT, realm),
    END};

#undef ROWS_OF
#define ROWS_OF struct slam_connection_settings
static const struct slam_py_row connection_rows[] = {
    ROW(STRUCT, tls, .rows = tls_rows), ROW(STRUCT, bind, .rows = bind_rows),
    ROW(UNSIGNED, connect_timeout_ns),  ROW(UNSIGNED, reconnect_operations),
    ROW(UNSIGNED, reconnect_ns),        ROW(UNSIGNED, reconnect_wait_ns),
    ROW(UNSIGNED, connect_spacing_ns),  END};

#undef ROWS_OF
#define ROWS_OF struct slam_rate_segment
static const struct slam_py_row segment_rows[] = {ROW(UNSIGNED, duration_ns),
                                                  ROW(DOUBLE, a), ROW(DOUBLE, b), END};

static const char *const load_models[] = {"closed", "open", NULL};
static const char *const processes[] = {"constant", "poisson", "uniform", NULL};

#undef ROWS_OF
#define ROWS_OF struct slam_stream_settings
const struct slam_py_row slam_py_stream_rows[] = {
    COUNTED("uris", ARRAY, connection.uris, connection.uri_count, .rows = text_row),
    COUNTED("addresses", ARRAY, connection.addresses, connection.address_count,
            .rows = text_row),
    ROW(STRUCT, connection, .rows = connection_rows),
    ROW(UNSIGNED, request_timeout_ns),
    NAMED("model", CHOICE, open, .choices = load_models),
    ROW(UNSIGNED, connections),
    ROW(UNSIGNED, first_connection),
    ROW(UNSIGNED, connection_stride),
    ROW(UNSIGNED, total_connections),
    ROW(UNSIGNED, in_flight),
    ROW(UNSIGNED, think_time_ns),
    COUNTED("profile", ARRAY, segments, segment_count,
            OF_STRUCTS(struct slam_rate_segment, segment_rows)),
    ROW(CHOICE, arrivals, .choices = processes),
    ROW(UNSIGNED, max_backlog),
    ROW(UNSIGNED, total_operations),
    ROW(UNSIGNED, start_ns),
    ROW(UNSIGNED, end_ns),
    ROW(UNSIGNED, variables),
    ROW(UNSIGNED, ledgers),
    ROW(TEXT, ledger_folder),
    ROW(TEXT, trace),
    COUNTED("operations", ARRAY, operations, operation_count,
            OF_STRUCTS(struct slam_operation_config, operation_rows)),
    COUNTED("scripts", ARRAY, scripts, script_count,
            OF_STRUCTS(struct slam_script_config, script_rows)),
    END};
