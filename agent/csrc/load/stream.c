/* SPDX-License-Identifier: Apache-2.0 */
#include "load/stream.h"

#include "core/slam_err.h"
#include "ldap/pdu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a worker sends on time, with an order of magnitude to spare: what it costs is
 * benchmarks/engine_cost.py's, about 5 us a request. */
#define WORKER_REQUESTS_PER_S 10000.0

#define MAX_OPERATIONS 1024u
#define MAX_CAPTURES 32u
#define MAX_VARIABLES 256u
#define MAX_LEDGERS 64u
#define MAX_IN_FLIGHT 65536u
#define MAX_STEPS 65535u

static const char *
fault_of(const struct slam_stream_settings *c)
{
    const struct slam_connection_settings *connection = &c->connection;
    const struct slam_bind_settings *bind = &connection->bind;
    const struct {
        bool is_wrong;
        const char *fault;
    } checks[] = {
        {connection->uri_count < 1, "a stream needs at least one URI"},
        {connection->address_count > 0 &&
             connection->address_count != connection->uri_count,
         "addresses must be as many as uris"},
        {c->connections < 1, "a stream needs at least one connection"},
        {c->first_connection + (uint64_t)(c->connections - 1) * c->connection_stride >=
             c->total_connections,
         "connection numbers must be less than total_connections"},
        {c->connections > 1 && c->connection_stride < 1,
         "connection_stride must be above zero"},
        {c->in_flight < 1 || c->in_flight > MAX_IN_FLIGHT,
         "in_flight must be 1 to 65536"},
        {!c->open && c->in_flight != 1,
         "a closed stream has one request in flight per client"},
        {c->trace && c->in_flight != 1,
         "a trace has one request in flight on a connection"},
        {c->open && c->segment_count < 1 && !c->trace,
         "an open stream needs a rate profile"},
        {c->open && c->max_backlog > UINT32_MAX, "max_backlog must be below 2^32"},
        {connection->connect_timeout_ns < 1 || c->request_timeout_ns < 1,
         "time-outs must be above zero"},
        {bind->dn && !bind->mechanism && !bind->password, "a bind DN needs a password"},
        {c->variables > MAX_VARIABLES, "a session has at most 256 variables"},
        {c->ledgers > MAX_LEDGERS, "a stream has at most 64 ledgers"},
        {c->ledgers > 0 && !c->ledger_folder, "ledgers need a folder"},
        {c->operation_count > MAX_OPERATIONS, "too many operations in a stream"}};
    size_t steps = 0;

    for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++)
        if (checks[i].is_wrong)
            return checks[i].fault;
    for (size_t i = 0; i < c->script_count; i++) {
        if (c->scripts[i].step_count < 1 ||
            c->scripts[i].step_count > MAX_STEPS - steps)
            return "a stream has 1 to 65535 steps";
        steps += c->scripts[i].step_count;
    }
    return NULL;
}

static char *
host_of(const char *uri)
{
    const char *host = strstr(uri, "://");
    size_t len;

    host = host ? host + 3 : uri;
    if (strncmp(uri, "ldapi:", 6) == 0 || *host == '\0' || *host == '/')
        return strdup("localhost");
    if (*host == '[') {
        host++;
        len = strcspn(host, "]");
    } else {
        len = strcspn(host, ":/?");
    }
    return strndup(host, len);
}

static int
set_hosts(struct slam_stream *s)
{
    const struct slam_connection_settings *c = &s->settings.connection;

    s->hosts = calloc(c->uri_count, sizeof(char *));
    for (size_t i = 0; s->hosts && i < c->uri_count; i++) {
        s->hosts[i] = host_of(c->uris[i]);
        if (!s->hosts[i])
            return SLAM_ENOMEM;
    }
    return s->hosts ? SLAM_OK : SLAM_ENOMEM;
}

static int
set_profile(struct slam_stream *s, const struct slam_stream_settings *c, char *err)
{
    size_t bytes = c->segment_count * sizeof(*c->segments);
    struct slam_rate_segment *segments;

    if (!c->open || c->trace)
        return SLAM_OK;
    segments = malloc(bytes);
    if (!segments)
        return slam_fail(err, SLAM_ENOMEM, "no memory for a stream");
    memcpy(segments, c->segments, bytes);
    s->settings.segments = segments;
    s->settings.segment_count = c->segment_count;
    return slam_rate_profile_prepare(segments, c->segment_count, err);
}

static void
op_destroy(struct slam_stream_op *op)
{
    for (size_t i = 0; op->lets && i < op->spec->let_count; i++)
        slam_template_destroy(op->lets[i]);
    free(op->lets);
    slam_template_destroy(op->template);
}

void
slam_stream_destroy(struct slam_stream *s)
{
    slam_trace_close(s->trace);
    slam_connection_settings_release(&s->settings.connection);
    for (size_t i = 0; s->hosts && i < s->settings.connection.uri_count; i++)
        free(s->hosts[i]);
    free(s->hosts);
    for (size_t i = 0; i < s->op_count; i++)
        op_destroy(&s->ops[i]);
    free(s->ops);
    free(s->steps);
    free(s->scripts);
    free((void *)s->settings.segments);
}

static bool
is_variable(const struct slam_stream *s, uint32_t variable)
{
    return variable == SLAM_NO_VARIABLE || variable < s->settings.variables;
}

static const char *
spec_fault(const struct slam_stream *s, const struct slam_session_spec *spec)
{
    for (size_t i = 0; i < spec->let_count; i++)
        if (spec->lets[i].variable >= s->settings.variables)
            return "a let names no variable of the stream";
    for (size_t i = 0; i < spec->capture_count; i++)
        if (spec->captures[i].variable >= s->settings.variables)
            return "a capture names no variable of the stream";
    if (!is_variable(s, spec->cookie_variable) || !is_variable(s, spec->sasl.authcid) ||
        !is_variable(s, spec->sasl.password) || !is_variable(s, spec->sasl.authzid) ||
        !is_variable(s, spec->sasl.credentials) || !is_variable(s, spec->ledger_put) ||
        !is_variable(s, spec->ledger_take))
        return "an operation names no variable of the stream";
    if (spec->sasl.mechanism && spec->sasl.credentials == SLAM_NO_VARIABLE)
        return "a SASL bind needs a variable for its credentials";
    if ((spec->ledger_put != SLAM_NO_VARIABLE ||
         spec->ledger_take != SLAM_NO_VARIABLE) &&
        spec->ledger >= s->settings.ledgers)
        return "there is no such ledger";
    return NULL;
}

static const char *
operation_fault(const struct slam_stream *s, const struct slam_operation_config *c)
{
    if (c->action > SLAM_ACTION_ABANDON)
        return "there is no such action";
    if ((c->response_tag == 0) != (c->action != SLAM_ACTION_REQUEST))
        return "requests have a response tag, unbind and abandon have none";
    if (c->session.capture_count > MAX_CAPTURES)
        return "an operation has at most 32 captures";
    if (c->session.capture_count > 0 && c->response_tag != SLAM_PDU_SEARCH_DONE)
        return "only a search has something to capture";
    return spec_fault(s, &c->session);
}

static bool
needs_spec(const struct slam_session_spec *spec)
{
    return spec->let_count > 0 || spec->capture_count > 0 || spec->sasl.mechanism ||
           !spec->awaits || spec->cookie_variable != SLAM_NO_VARIABLE ||
           spec->ledger_put != SLAM_NO_VARIABLE ||
           spec->ledger_take != SLAM_NO_VARIABLE;
}

static int
create_lets(struct slam_stream_op *op, uint32_t variables, struct slam_feeds *feeds,
            char *err)
{
    op->lets = calloc(op->spec->let_count + 1, sizeof(*op->lets));
    if (!op->lets)
        return slam_fail(err, SLAM_ENOMEM, "no memory for an operation");
    for (size_t i = 0; i < op->spec->let_count; i++) {
        int rc =
            slam_template_create(&op->spec->lets[i].text, feeds, &op->lets[i], err);

        if (rc != SLAM_OK)
            return rc;
        if (slam_template_max_text(op->lets[i]) > SLAM_VARIABLE_MAX)
            return slam_fail(err, SLAM_EINVAL,
                             "the text of a variable may be longer than 2044 bytes");
        if (slam_template_variable_count(op->lets[i]) > variables)
            return slam_fail(err, SLAM_EINVAL,
                             "a let has a variable that the stream does not have");
    }
    return SLAM_OK;
}

static void
set_outcomes(struct slam_stream_op *op, const struct slam_operation_config *c)
{
    memset(op->outcomes, SLAM_FAILED, sizeof(op->outcomes));
    for (size_t i = 0; i < c->expected_count; i++)
        if ((unsigned int)c->expected_codes[i] < SLAM_RESULT_CODES)
            op->outcomes[c->expected_codes[i]] = SLAM_EXPECTED;
        else
            op->outcomes[SLAM_RESULT_CODES] = SLAM_EXPECTED;
    for (size_t i = 0; i < c->success_count; i++)
        if ((unsigned int)c->success_codes[i] < SLAM_RESULT_CODES)
            op->outcomes[c->success_codes[i]] = SLAM_SUCCEEDED;
}

static int
add_operation(struct slam_stream *s, const struct slam_operation_config *c,
              struct slam_feeds *feeds, char *err)
{
    const char *fault = operation_fault(s, c);
    struct slam_stream_op *op = &s->ops[s->op_count];
    int rc;

    if (fault)
        return slam_fail(err, SLAM_EINVAL, "%s", fault);
    s->op_count++;
    op->response_tag = c->response_tag;
    op->action = c->action;
    set_outcomes(op, c);
    rc = slam_template_create(&c->template, feeds, &op->template, err);
    if (rc == SLAM_OK && needs_spec(&c->session)) {
        op->spec = &c->session;
        rc = create_lets(op, s->settings.variables, feeds, err);
    }
    if (rc != SLAM_OK)
        return rc;
    if (slam_template_variable_count(op->template) > s->settings.variables)
        return slam_fail(err, SLAM_EINVAL,
                         "a request has a variable that the stream does not have");
    if (slam_template_max_pdu(op->template) > s->max_pdu)
        s->max_pdu = slam_template_max_pdu(op->template);
    if (op->spec || op->action != SLAM_ACTION_REQUEST)
        s->has_sessions = true;
    if (c->session.capture_count > 0 ||
        c->session.cookie_variable != SLAM_NO_VARIABLE || c->session.sasl.mechanism)
        s->reads_content = true;
    return SLAM_OK;
}

static const char *
script_fault(const struct slam_stream *s, const struct slam_script_config *script)
{
    const struct slam_step_config *steps = script->steps;
    size_t count = script->step_count;
    bool is_given_up = false;

    if (script->weight < 1)
        return "a script's weight is at least 1";
    if (steps[0].pause_ns > 0)
        return "a script begins with an operation, not with a pause";
    for (size_t i = 0; i < count; i++) {
        const struct slam_stream_op *op;

        if (steps[i].operation >= s->op_count)
            return "a step names no operation of the stream";
        op = &s->ops[steps[i].operation];
        if ((op->action == SLAM_ACTION_ABANDON) != is_given_up)
            return "an abandon follows a request that is not awaited, and it alone";
        is_given_up = op->spec && !op->spec->awaits;
        if (op->action == SLAM_ACTION_UNBIND &&
            (i + 1 < count || s->settings.in_flight > 1))
            return "an unbind is the last step, of sessions that have a connection";
    }
    return is_given_up ? "a request that is not awaited is abandoned next" : NULL;
}

static int
add_script(struct slam_stream *s, const struct slam_script_config *script, char *err)
{
    const char *fault = script_fault(s, script);

    if (fault)
        return slam_fail(err, SLAM_EINVAL, "%s", fault);
    s->scripts[s->script_count++] = (struct slam_script){
        .first_step = (uint32_t)s->step_count, .weight = script->weight};
    s->total_weight += script->weight;
    s->weighted_steps += script->weight * (uint64_t)script->step_count;
    for (size_t i = 0; i < script->step_count; i++) {
        struct slam_step step = {.op = script->steps[i].operation,
                                 .pause_ns = script->steps[i].pause_ns,
                                 .last = i + 1 == script->step_count};

        step.answers_last =
            step.last ||
            (i + 2 == script->step_count &&
             s->ops[script->steps[i + 1].operation].action == SLAM_ACTION_UNBIND);
        if (step.pause_ns > 0 || s->ops[step.op].action == SLAM_ACTION_ABANDON)
            step.pause_list = s->pause_count++;
        s->steps[s->step_count++] = step;
    }
    if (script->step_count > 1)
        s->has_sessions = true;
    return SLAM_OK;
}

static bool
fills(const struct slam_stream *s, const struct slam_script *script, uint32_t ledger)
{
    for (const struct slam_step *step = &s->steps[script->first_step];; step++) {
        const struct slam_session_spec *spec = s->ops[step->op].spec;

        if (spec && spec->ledger_take != SLAM_NO_VARIABLE)
            return false;
        if (spec && spec->ledger_put != SLAM_NO_VARIABLE && spec->ledger == ledger)
            return true;
        if (step->last)
            return false;
    }
}

const struct slam_script *
slam_stream_filling(const struct slam_stream *s, uint32_t ledger)
{
    for (size_t i = 0; i < s->script_count; i++)
        if (fills(s, &s->scripts[i], ledger))
            return &s->scripts[i];
    return NULL;
}

static const char *
stream_fault(const struct slam_stream *s)
{
    if (s->script_count == 0)
        return "a stream has no operations";
    for (size_t i = 0; i < s->step_count; i++) {
        const struct slam_session_spec *spec = s->ops[s->steps[i].op].spec;

        if (spec && spec->ledger_take != SLAM_NO_VARIABLE &&
            !slam_stream_filling(s, spec->ledger))
            return "no script adds to a ledger before it takes from one";
    }
    for (size_t i = 0; s->settings.trace && i < s->script_count; i++)
        if (s->steps[s->scripts[i].first_step].op != i)
            return "a trace has a script for each operation, in their order";
    return NULL;
}

int
slam_stream_prepare(struct slam_stream *s, char *err)
{
    const char *fault = stream_fault(s);
    int rc;

    if (fault)
        return slam_fail(err, SLAM_EINVAL, "%s", fault);
    if (!s->settings.trace)
        return SLAM_OK;
    rc = slam_trace_open(s->settings.trace, s->settings.connections,
                         (uint32_t)s->script_count, &s->trace, err);
    if (rc == SLAM_OK && slam_trace_max_pdu(s->trace) > s->max_pdu)
        s->max_pdu = slam_trace_max_pdu(s->trace);
    return rc;
}

/* An arrival waits for a connection of its worker, also while another worker's are
 * idle: with more workers than its rate needs, an open stream would measure how the
 * generator deals it out. In a replay it waits for one connection in any case; and what
 * reads responses costs more than a request does: a SASL bind computes between its
 * steps, a search has any number of pages. */
uint32_t
slam_stream_carriers(const struct slam_stream *s, uint32_t workers)
{
    const struct slam_stream_settings *c = &s->settings;
    uint32_t most = c->connections < workers ? c->connections : workers;
    double per_s;

    if (!c->open || c->trace || s->reads_content)
        return most;
    per_s = 1e9 * slam_rate_profile_peak(c->segments, c->segment_count) *
            c->connections / c->total_connections * (double)s->weighted_steps /
            (double)s->total_weight;
    return per_s > (double)(most - 1) * WORKER_REQUESTS_PER_S
               ? most
               : (uint32_t)fmax(1, ceil(per_s / WORKER_REQUESTS_PER_S));
}

int
slam_stream_init(struct slam_stream *s, const struct slam_stream_settings *c,
                 struct slam_feeds *feeds, char *err)
{
    const char *fault = fault_of(c);
    size_t steps = 0;
    int rc;

    *s = (struct slam_stream){.settings = *c,
                              .has_sessions = c->variables > 0 || c->ledgers > 0};
    s->settings.segments = NULL;
    if (fault)
        return slam_fail(err, SLAM_EINVAL, "%s", fault);
    for (size_t i = 0; i < c->script_count; i++)
        steps += c->scripts[i].step_count;
    s->ops = calloc(c->operation_count + 1, sizeof(*s->ops));
    s->scripts = calloc(c->script_count + 1, sizeof(*s->scripts));
    s->steps = calloc(steps + 1, sizeof(*s->steps));
    if (!s->ops || !s->scripts || !s->steps || set_hosts(s) != SLAM_OK)
        return slam_fail(err, SLAM_ENOMEM, "no memory for a stream");
    rc = set_profile(s, c, err);
    for (size_t i = 0; rc == SLAM_OK && i < c->operation_count; i++)
        rc = add_operation(s, &c->operations[i], feeds, err);
    for (size_t i = 0; rc == SLAM_OK && i < c->script_count; i++)
        rc = add_script(s, &c->scripts[i], err);
    return rc;
}
