/* SPDX-License-Identifier: Apache-2.0 */
#include "python/settings.h"

#define LENGTH(type, member) .length = offsetof(type, member)
#define END {.name = NULL}

static const struct slam_py_row text_row[] = {SLAM_PY_ELEMENT(const char *, TEXT)};
static const struct slam_py_row code_row[] = {SLAM_PY_ELEMENT(int, SIGNED)};
static const struct slam_py_row time_row[] = {SLAM_PY_ELEMENT(uint64_t, UNSIGNED)};

/* -- the run -- */

#define RUN(kind, member, ...)                                                         \
    SLAM_PY_ROW(struct slam_engine_config, kind, member, __VA_ARGS__)

const struct slam_py_row slam_py_run_rows[] = {
    RUN(UNSIGNED, seed),
    RUN(ARRAY, boundaries_ns, .rows = time_row,
        LENGTH(struct slam_engine_config, boundary_count)),
    RUN(UNSIGNED, measure_start_ns),
    RUN(UNSIGNED, measure_end_ns),
    RUN(UNSIGNED, ramp_up_ns),
    RUN(UNSIGNED, grace_ns),
    END};

/* -- requests -- */

#define VALUE(kind, member, ...)                                                       \
    SLAM_PY_ROW(struct slam_value_source, kind, member, __VA_ARGS__)

static const struct slam_py_row value_rows[] = {
    VALUE(UNSIGNED, kind),
    VALUE(SIGNED, lo),
    VALUE(SIGNED, hi),
    VALUE(SIGNED, step),
    VALUE(UNSIGNED, width),
    VALUE(BYTES, data, LENGTH(struct slam_value_source, data_len)),
    VALUE(DOUBLE, a),
    VALUE(DOUBLE, b),
    END};

const struct slam_py_row slam_py_value_row[] = {
    SLAM_PY_ELEMENT(struct slam_value_source, STRUCT, .rows = value_rows)};

const struct slam_py_row slam_py_template_rows[] = {
    SLAM_PY_ROW(struct slam_template_config, BYTES, program,
                LENGTH(struct slam_template_config, program_len)),
    SLAM_PY_NAMED_ROW(struct slam_template_config, "values", ARRAY, sources,
                      .rows = slam_py_value_row,
                      LENGTH(struct slam_template_config, source_count)),
    END};

static const struct slam_py_row let_rows[] = {
    SLAM_PY_ROW(struct slam_let_config, UNSIGNED, variable),
    SLAM_PY_ROW(struct slam_let_config, STRUCT, text, .rows = slam_py_template_rows),
    END};
static const struct slam_py_row let_row[] = {
    SLAM_PY_ELEMENT(struct slam_let_config, STRUCT, .rows = let_rows)};

static const struct slam_py_row capture_rows[] = {
    SLAM_PY_ROW(struct slam_capture_config, UNSIGNED, variable),
    SLAM_PY_ROW(struct slam_capture_config, BYTES, attribute,
                LENGTH(struct slam_capture_config, attribute_len)),
    END};
static const struct slam_py_row capture_row[] = {
    SLAM_PY_ELEMENT(struct slam_capture_config, STRUCT, .rows = capture_rows)};

#define SASL(kind, member) SLAM_PY_ROW(struct slam_sasl_variables, kind, member)

static const struct slam_py_row sasl_rows[] = {
    SASL(TEXT, mechanism),   SASL(VARIABLE, authcid),     SASL(VARIABLE, password),
    SASL(VARIABLE, authzid), SASL(VARIABLE, credentials), END};

static const char *const actions[] = {"request", "unbind", "abandon", NULL};
static const char *const orders[] = {"fifo", "lifo", "random", NULL};

#define OPERATION(kind, member, ...)                                                   \
    SLAM_PY_ROW(struct slam_operation_config, kind, member, __VA_ARGS__)
#define SESSION(kind, member, ...)                                                     \
    SLAM_PY_NAMED_ROW(struct slam_operation_config, #member, kind, session.member,     \
                      __VA_ARGS__)

static const struct slam_py_row operation_rows[] = {
    OPERATION(TEXT, name),
    OPERATION(UNSIGNED, response_tag),
    OPERATION(STRUCT, template, .rows = slam_py_template_rows),
    OPERATION(ARRAY, success_codes, .rows = code_row,
              LENGTH(struct slam_operation_config, success_count)),
    OPERATION(ARRAY, expected_codes, .rows = code_row,
              LENGTH(struct slam_operation_config, expected_count)),
    SESSION(ARRAY, lets, .rows = let_row,
            LENGTH(struct slam_operation_config, session.let_count)),
    SESSION(ARRAY, captures, .rows = capture_row,
            LENGTH(struct slam_operation_config, session.capture_count)),
    SESSION(VARIABLE, cookie_variable),
    OPERATION(CHOICE, action, .choices = actions),
    SESSION(BOOL, awaits),
    SESSION(STRUCT, sasl, .rows = sasl_rows),
    SESSION(UNSIGNED, ledger),
    SESSION(VARIABLE, ledger_put),
    SESSION(VARIABLE, ledger_take),
    SESSION(CHOICE, ledger_order, .choices = orders),
    END};
static const struct slam_py_row operation_row[] = {
    SLAM_PY_ELEMENT(struct slam_operation_config, STRUCT, .rows = operation_rows)};

static const struct slam_py_row step_rows[] = {
    SLAM_PY_ROW(struct slam_step_config, UNSIGNED, operation),
    SLAM_PY_ROW(struct slam_step_config, UNSIGNED, pause_ns), END};
static const struct slam_py_row step_row[] = {
    SLAM_PY_ELEMENT(struct slam_step_config, STRUCT, .rows = step_rows)};

static const struct slam_py_row script_rows[] = {
    SLAM_PY_ROW(struct slam_script_config, UNSIGNED, weight),
    SLAM_PY_ROW(struct slam_script_config, ARRAY, steps, .rows = step_row,
                LENGTH(struct slam_script_config, step_count)),
    END};
static const struct slam_py_row script_row[] = {
    SLAM_PY_ELEMENT(struct slam_script_config, STRUCT, .rows = script_rows)};

/* -- connections -- */

#define TLS(kind, member) SLAM_PY_ROW(struct slam_tls_settings, kind, member)
#define BIND(kind, member, ...)                                                        \
    SLAM_PY_ROW(struct slam_bind_settings, kind, member, __VA_ARGS__)
#define CONNECTION(kind, member, ...)                                                  \
    SLAM_PY_ROW(struct slam_connection_settings, kind, member, __VA_ARGS__)

static const struct slam_py_row tls_rows[] = {
    TLS(BOOL, start_tls), TLS(TEXT, ca_file),  TLS(BOOL, verify),
    TLS(TEXT, cert_file), TLS(TEXT, key_file), END};

static const struct slam_py_row bind_rows[] = {
    BIND(TEXT, dn),
    BIND(BYTES, password, LENGTH(struct slam_bind_settings, password_len)),
    BIND(TEXT, mechanism),
    BIND(TEXT, authcid),
    BIND(TEXT, authzid),
    BIND(TEXT, realm),
    END};

static const struct slam_py_row connection_rows[] = {
    CONNECTION(STRUCT, tls, .rows = tls_rows),
    CONNECTION(STRUCT, bind, .rows = bind_rows),
    CONNECTION(UNSIGNED, connect_timeout_ns),
    CONNECTION(UNSIGNED, reconnect_operations),
    CONNECTION(UNSIGNED, reconnect_ns),
    CONNECTION(UNSIGNED, connect_spacing_ns),
    END};

/* -- the stream -- */

#define SEGMENT(kind, member) SLAM_PY_ROW(struct slam_rate_segment, kind, member)

static const struct slam_py_row segment_rows[] = {
    SEGMENT(UNSIGNED, kind), SEGMENT(UNSIGNED, duration_ns),
    SEGMENT(DOUBLE, a),      SEGMENT(DOUBLE, b),
    SEGMENT(DOUBLE, c),      END};
static const struct slam_py_row segment_row[] = {
    SLAM_PY_ELEMENT(struct slam_rate_segment, STRUCT, .rows = segment_rows)};

static const char *const load_models[] = {"closed", "open", NULL};
static const char *const processes[] = {"constant", "poisson", "uniform", NULL};

#define STREAM(kind, member, ...) NAMED_STREAM(#member, kind, member, __VA_ARGS__)
#define NAMED_STREAM(name, kind, member, ...)                                          \
    SLAM_PY_NAMED_ROW(struct slam_stream_settings, name, kind, member, __VA_ARGS__)

const struct slam_py_row slam_py_stream_rows[] = {
    STREAM(TEXT, name),
    NAMED_STREAM("uris", ARRAY, connection.uris, .rows = text_row,
                 LENGTH(struct slam_stream_settings, connection.uri_count)),
    NAMED_STREAM("addresses", ARRAY, connection.addresses, .rows = text_row,
                 LENGTH(struct slam_stream_settings, connection.address_count)),
    STREAM(STRUCT, connection, .rows = connection_rows),
    STREAM(UNSIGNED, request_timeout_ns),
    NAMED_STREAM("model", CHOICE, open, .choices = load_models),
    STREAM(UNSIGNED, connections),
    STREAM(UNSIGNED, first_connection),
    STREAM(UNSIGNED, connection_stride),
    STREAM(UNSIGNED, total_connections),
    STREAM(UNSIGNED, in_flight),
    STREAM(UNSIGNED, think_time_ns),
    NAMED_STREAM("profile", ARRAY, segments, .rows = segment_row,
                 LENGTH(struct slam_stream_settings, segment_count)),
    STREAM(CHOICE, arrivals, .choices = processes),
    STREAM(UNSIGNED, max_backlog),
    STREAM(UNSIGNED, total_operations),
    STREAM(UNSIGNED, start_ns),
    STREAM(UNSIGNED, end_ns),
    STREAM(UNSIGNED, variables),
    STREAM(UNSIGNED, ledgers),
    STREAM(TEXT, ledger_folder),
    STREAM(TEXT, trace),
    STREAM(ARRAY, operations, .rows = operation_row,
           LENGTH(struct slam_stream_settings, operation_count)),
    STREAM(ARRAY, scripts, .rows = script_row,
           LENGTH(struct slam_stream_settings, script_count)),
    END};
