/* SPDX-License-Identifier: Apache-2.0 */
#include "load/stream.h"

#include "core/slam_err.h"
#include "ldap/pdu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPERATIONS 1024u
#define MAX_CAPTURES 32u
#define MAX_VARIABLES 256u
#define MAX_LEDGERS 64u
#define MAX_IN_FLIGHT 65536u

static int
say(char *err, size_t err_len, int rc, const char *text)
{
    snprintf(err, err_len, "%s", text);
    return rc;
}

static int
copy_text(char **to, const char *from)
{
    *to = from ? strdup(from) : NULL;
    return from && !*to ? SLAM_ENOMEM : SLAM_OK;
}

/* -- a stream -- */

static const char *
fault_of(const struct slam_stream_config *c)
{
    if (c->uri_count < 1)
        return "a stream needs at least one URI";
    if (c->connections < 1)
        return "a stream needs at least one connection";
    if (c->first_connection + (uint64_t)(c->connections - 1) * c->connection_stride >=
        c->total_connections)
        return "connection numbers must be less than total_connections";
    if (c->connections > 1 && c->connection_stride < 1)
        return "connection_stride must be above zero";
    if (c->in_flight < 1 || c->in_flight > MAX_IN_FLIGHT)
        return "in_flight must be 1 to 65536";
    if (!c->open && c->in_flight != 1)
        return "a closed stream has one request in flight per client";
    if (c->trace && c->in_flight != 1)
        return "a trace has one request in flight on a connection";
    if (c->open && c->segment_count < 1 && !c->trace)
        return "an open stream needs a rate profile";
    if (c->open && c->max_backlog > UINT32_MAX)
        return "max_backlog must be below 2^32";
    if (c->connect_timeout_ns < 1 || c->request_timeout_ns < 1)
        return "time-outs must be above zero";
    if (c->bind_dn && !c->mechanism && !c->bind_password)
        return "a bind DN needs a password";
    if (c->variables > MAX_VARIABLES)
        return "a session has at most 256 variables";
    if (c->ledgers > MAX_LEDGERS)
        return "a stream has at most 64 ledgers";
    if (c->ledgers > 0 && !c->ledger_folder)
        return "ledgers need a folder";
    return NULL;
}

/* The host of a URI that libldap takes; "localhost" for a local socket. */
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
copy_uris(struct slam_stream *s, const struct slam_stream_config *c)
{
    s->conn.uris = calloc(c->uri_count, sizeof(char *));
    s->hosts = calloc(c->uri_count, sizeof(char *));
    if (c->addresses)
        s->conn.addresses = calloc(c->uri_count, sizeof(char *));
    if (!s->conn.uris || !s->hosts || (c->addresses && !s->conn.addresses))
        return SLAM_ENOMEM;
    for (size_t i = 0; i < c->uri_count; i++) {
        s->conn.uri_count = i + 1;
        s->hosts[i] = host_of(c->uris[i]);
        if (copy_text(&s->conn.uris[i], c->uris[i]) != SLAM_OK || !s->hosts[i])
            return SLAM_ENOMEM;
        if (c->addresses &&
            copy_text(&s->conn.addresses[i], c->addresses[i]) != SLAM_OK)
            return SLAM_ENOMEM;
    }
    return SLAM_OK;
}

static int
copy_texts(struct slam_stream *s, const struct slam_stream_config *c)
{
    if (copy_text(&s->name, c->name) || copy_text(&s->conn.ca_file, c->ca_file) ||
        copy_text(&s->conn.cert_file, c->cert_file) ||
        copy_text(&s->conn.key_file, c->key_file) ||
        copy_text(&s->conn.mechanism, c->mechanism) ||
        copy_text(&s->conn.authcid, c->authcid) ||
        copy_text(&s->conn.authzid, c->authzid) ||
        copy_text(&s->conn.realm, c->realm) ||
        copy_text(&s->conn.bind_dn, c->bind_dn) ||
        copy_text(&s->ledger_folder, c->ledger_folder) ||
        copy_text(&s->trace_path, c->trace))
        return SLAM_ENOMEM;
    if (c->bind_password) {
        s->conn.bind_password = malloc(c->bind_password_len + 1);
        if (!s->conn.bind_password)
            return SLAM_ENOMEM;
        memcpy(s->conn.bind_password, c->bind_password, c->bind_password_len);
    }
    return copy_uris(s, c);
}

static int
copy_profile(struct slam_stream *s, const struct slam_stream_config *c, char *err,
             size_t err_len)
{
    size_t bytes = c->segment_count * sizeof(*s->segments);

    if (!c->open || c->trace)
        return SLAM_OK;
    s->segments = malloc(bytes);
    if (!s->segments)
        return say(err, err_len, SLAM_ENOMEM, "no memory for a stream");
    memcpy(s->segments, c->segments, bytes);
    s->segment_count = c->segment_count;
    return slam_rate_profile_prepare(s->segments, s->segment_count, err, err_len);
}

int
slam_stream_init(struct slam_stream *s, const struct slam_stream_config *c, char *err,
                 size_t err_len)
{
    const char *fault = fault_of(c);

    *s = (struct slam_stream){.conn = {.start_tls = c->start_tls,
                                       .verify = c->verify,
                                       .connect_timeout_ns = c->connect_timeout_ns,
                                       .bind_password_len = c->bind_password_len},
                              .request_timeout_ns = c->request_timeout_ns,
                              .open = c->open,
                              .connections = c->connections,
                              .first_connection = c->first_connection,
                              .connection_stride = c->connection_stride,
                              .total_connections = c->total_connections,
                              .think_time_ns = c->think_time_ns,
                              .in_flight = c->in_flight,
                              .arrivals = c->arrivals,
                              .max_backlog = c->max_backlog,
                              .total_operations = c->total_operations,
                              .start_ns = c->start_ns,
                              .end_ns = c->end_ns,
                              .reconnect_operations = c->reconnect_operations,
                              .reconnect_ns = c->reconnect_ns,
                              .connect_spacing_ns = c->connect_spacing_ns,
                              .variable_count = c->variables,
                              .ledger_count = c->ledgers,
                              .has_sessions = c->variables > 0 || c->ledgers > 0};
    if (fault)
        return say(err, err_len, SLAM_EINVAL, fault);
    if (copy_texts(s, c) != SLAM_OK)
        return say(err, err_len, SLAM_ENOMEM, "no memory for a stream");
    return copy_profile(s, c, err, err_len);
}

static void
extras_destroy(struct slam_op_extras *extras)
{
    if (!extras)
        return;
    for (size_t i = 0; i < extras->let_count; i++)
        slam_op_destroy(extras->lets[i].text);
    for (size_t i = 0; i < extras->capture_count; i++)
        free(extras->captures[i].attribute);
    free(extras->lets);
    free(extras->captures);
    free(extras->mechanism);
    free(extras);
}

static void
op_destroy(struct slam_stream_op *op)
{
    free(op->name);
    slam_op_destroy(op->op);
    extras_destroy(op->extras);
}

void
slam_stream_destroy(struct slam_stream *s)
{
    slam_trace_close(s->trace);
    free(s->trace_path);
    slam_conn_config_release(&s->conn);
    for (size_t i = 0; s->conn.uris && i < s->conn.uri_count; i++) {
        free(s->conn.uris[i]);
        free(s->hosts ? s->hosts[i] : NULL);
        free(s->conn.addresses ? s->conn.addresses[i] : NULL);
    }
    free(s->conn.uris);
    free(s->conn.addresses);
    free(s->hosts);
    free(s->conn.ca_file);
    free(s->conn.cert_file);
    free(s->conn.key_file);
    free(s->conn.mechanism);
    free(s->conn.authcid);
    free(s->conn.authzid);
    free(s->conn.realm);
    free(s->conn.bind_dn);
    if (s->conn.bind_password)
        explicit_bzero(s->conn.bind_password, s->conn.bind_password_len);
    free(s->conn.bind_password);
    for (size_t i = 0; i < s->op_count; i++)
        op_destroy(&s->ops[i]);
    free(s->ops);
    free(s->steps);
    free(s->scripts);
    free(s->segments);
    free(s->ledger_folder);
    free(s->name);
}

/* -- its operations -- */

static bool
is_variable(const struct slam_stream *s, uint32_t variable)
{
    return variable == SLAM_NO_VARIABLE || variable < s->variable_count;
}

static const char *
operation_fault(const struct slam_stream *s, const struct slam_operation_config *c)
{
    bool uses_ledger =
        c->ledger_put != SLAM_NO_VARIABLE || c->ledger_take != SLAM_NO_VARIABLE;

    if (s->op_count >= MAX_OPERATIONS)
        return "too many operations in a stream";
    if (c->action > SLAM_ACTION_ABANDON)
        return "there is no such action";
    if ((c->response_tag == 0) != (c->action != SLAM_ACTION_REQUEST))
        return "requests have a response tag, unbind and abandon have none";
    if (c->capture_count > MAX_CAPTURES)
        return "an operation has at most 32 captures";
    if (c->capture_count > 0 && c->response_tag != SLAM_PDU_SEARCH_DONE)
        return "only a search has something to capture";
    for (size_t i = 0; i < c->let_count; i++)
        if (c->lets[i].variable >= s->variable_count)
            return "a let names no variable of the stream";
    for (size_t i = 0; i < c->capture_count; i++)
        if (c->captures[i].variable >= s->variable_count)
            return "a capture names no variable of the stream";
    if (!is_variable(s, c->cookie) || !is_variable(s, c->authcid) ||
        !is_variable(s, c->password) || !is_variable(s, c->authzid) ||
        !is_variable(s, c->credentials) || !is_variable(s, c->ledger_put) ||
        !is_variable(s, c->ledger_take))
        return "an operation names no variable of the stream";
    if (c->mechanism && c->credentials == SLAM_NO_VARIABLE)
        return "a SASL bind needs a variable for its credentials";
    if (uses_ledger && c->ledger >= s->ledger_count)
        return "there is no such ledger";
    return NULL;
}

static int
template_create(const struct slam_template *t, struct slam_feeds *feeds,
                struct slam_op **op, char *err, size_t err_len)
{
    return slam_op_create(t->program, t->program_len, t->sources, t->source_count,
                          feeds, op, err, err_len);
}

static int
copy_lets(struct slam_op_extras *extras, const struct slam_operation_config *c,
          uint32_t variables, struct slam_feeds *feeds, char *err, size_t err_len)
{
    extras->lets = calloc(c->let_count + 1, sizeof(*extras->lets));
    if (!extras->lets)
        return say(err, err_len, SLAM_ENOMEM, "no memory for an operation");
    for (size_t i = 0; i < c->let_count; i++) {
        struct slam_let *let = &extras->lets[i];
        int rc = template_create(&c->lets[i].text, feeds, &let->text, err, err_len);

        if (rc != SLAM_OK)
            return rc;
        let->variable = c->lets[i].variable;
        extras->let_count = i + 1;
        if (slam_op_max_text(let->text) > SLAM_VARIABLE_MAX)
            return say(err, err_len, SLAM_EINVAL,
                       "the text of a variable may be longer than 2044 bytes");
        if (slam_op_variable_count(let->text) > variables)
            return say(err, err_len, SLAM_EINVAL,
                       "a let has a variable that the stream does not have");
    }
    return SLAM_OK;
}

static int
copy_captures(struct slam_op_extras *extras, const struct slam_operation_config *c)
{
    extras->captures = calloc(c->capture_count + 1, sizeof(*extras->captures));
    if (!extras->captures)
        return SLAM_ENOMEM;
    for (size_t i = 0; i < c->capture_count; i++) {
        struct slam_capture *capture = &extras->captures[i];

        capture->variable = c->captures[i].variable;
        capture->attribute_len = c->captures[i].attribute_len;
        capture->attribute = malloc(capture->attribute_len + 1);
        extras->capture_count = i + 1;
        if (!capture->attribute)
            return SLAM_ENOMEM;
        if (capture->attribute_len > 0)
            memcpy(capture->attribute, c->captures[i].attribute,
                   capture->attribute_len);
    }
    return SLAM_OK;
}

static bool
needs_extras(const struct slam_operation_config *c)
{
    return c->let_count > 0 || c->capture_count > 0 || c->mechanism || !c->awaits ||
           c->cookie != SLAM_NO_VARIABLE || c->ledger_put != SLAM_NO_VARIABLE ||
           c->ledger_take != SLAM_NO_VARIABLE;
}

static int
extras_create(const struct slam_operation_config *c, uint32_t variables,
              struct slam_feeds *feeds, struct slam_op_extras **out, char *err,
              size_t err_len)
{
    struct slam_op_extras *extras = calloc(1, sizeof(*extras));
    int rc = extras ? SLAM_OK : SLAM_ENOMEM;

    *out = extras;
    if (rc == SLAM_OK)
        rc = copy_captures(extras, c);
    if (rc == SLAM_OK)
        rc = copy_text(&extras->mechanism, c->mechanism);
    if (rc != SLAM_OK)
        return say(err, err_len, rc, "no memory for an operation");
    extras->awaits = c->awaits;
    extras->cookie = c->cookie;
    extras->authcid = c->authcid;
    extras->password = c->password;
    extras->authzid = c->authzid;
    extras->credentials = c->credentials;
    extras->ledger = c->ledger;
    extras->ledger_put = c->ledger_put;
    extras->ledger_take = c->ledger_take;
    extras->ledger_order = c->ledger_order;
    return copy_lets(extras, c, variables, feeds, err, err_len);
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

static void
widen(struct slam_stream *s, const struct slam_op *template)
{
    if (slam_op_scratch_len(template) > s->scratch_len)
        s->scratch_len = slam_op_scratch_len(template);
}

int
slam_stream_add_operation(struct slam_stream *s, const struct slam_operation_config *c,
                          struct slam_feeds *feeds, char *err, size_t err_len)
{
    const char *fault = operation_fault(s, c);
    struct slam_stream_op op = {.response_tag = c->response_tag, .action = c->action};
    struct slam_stream_op *ops;
    int rc;

    if (fault)
        return say(err, err_len, SLAM_EINVAL, fault);
    rc = template_create(&c->request, feeds, &op.op, err, err_len);
    if (rc == SLAM_OK && needs_extras(c))
        rc = extras_create(c, s->variable_count, feeds, &op.extras, err, err_len);
    if (rc == SLAM_OK && slam_op_variable_count(op.op) > s->variable_count)
        rc = say(err, err_len, SLAM_EINVAL,
                 "a request has a variable that the stream does not have");
    if (rc != SLAM_OK) {
        op_destroy(&op);
        return rc;
    }
    set_outcomes(&op, c);
    ops = realloc(s->ops, (s->op_count + 1) * sizeof(*ops));
    if (ops)
        s->ops = ops;
    if (!ops || copy_text(&op.name, c->name) != SLAM_OK) {
        op_destroy(&op);
        return say(err, err_len, SLAM_ENOMEM, "no memory for an operation");
    }
    s->ops[s->op_count++] = op;
    if (slam_op_max_pdu(op.op) > s->max_pdu)
        s->max_pdu = slam_op_max_pdu(op.op);
    widen(s, op.op);
    for (size_t i = 0; op.extras && i < op.extras->let_count; i++)
        widen(s, op.extras->lets[i].text);
    if (op.extras || op.action != SLAM_ACTION_REQUEST)
        s->has_sessions = true;
    if (c->capture_count > 0 || c->cookie != SLAM_NO_VARIABLE || c->mechanism)
        s->reads_content = true;
    return SLAM_OK;
}
