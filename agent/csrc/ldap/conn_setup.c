/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"
#include "core/slam_err.h"
#include "ldap/conn_internal.h"
#include "ldap/dial.h"

#include <errno.h>
#include <sasl/sasl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* libldap counts the users of a TLS context: LDAP_OPT_X_TLS_CTX adds one when it is
 * read, and only this function of its own takes one away. Every release has had it, no
 * header has. Without it a context would stay until the process ends. */
void ldap_pvt_tls_ctx_free(void *context) __attribute__((weak));

/* What libldap says with GnuTLS when it refuses a certificate itself. */
#define UNTRUSTED "(unknown error code)"

static bool
is_ldaps(const char *uri)
{
    return strncasecmp(uri, "ldaps:", 6) == 0;
}

static struct timeval
time_limit(uint64_t ns)
{
    struct timeval limit = {.tv_sec = (time_t)(ns / SLAM_NS_PER_S),
                            .tv_usec = (suseconds_t)(ns % SLAM_NS_PER_S / 1000)};
    return limit;
}

static int
fail(struct slam_conn_error *error, LDAP *ld, const char *uri,
     enum slam_conn_stage stage, int code)
{
    char *diagnostic = NULL;
    int saved_errno = errno;

    error->stage = stage;
    error->code = code;
    snprintf(error->uri, sizeof(error->uri), "%s", uri);
    if (ld)
        ldap_get_option(ld, LDAP_OPT_DIAGNOSTIC_MESSAGE, &diagnostic);
    if (diagnostic && strcmp(diagnostic, UNTRUSTED) == 0)
        snprintf(error->detail, sizeof(error->detail),
                 "%s (the server's certificate is not trusted)", ldap_err2string(code));
    else if (diagnostic && *diagnostic)
        snprintf(error->detail, sizeof(error->detail), "%s (%s)", ldap_err2string(code),
                 diagnostic);
    else if (stage == SLAM_STAGE_CONNECT && code == LDAP_SERVER_DOWN && saved_errno)
        snprintf(error->detail, sizeof(error->detail), "%s (%s)", ldap_err2string(code),
                 strerror(saved_errno));
    else
        snprintf(error->detail, sizeof(error->detail), "%s", ldap_err2string(code));
    ldap_memfree(diagnostic);
    return SLAM_ECONNECT;
}

/* -- what a stream's connections share -- */

void
slam_wire_init(void)
{
    int version;

    ldap_get_option(NULL, LDAP_OPT_PROTOCOL_VERSION, &version);
}

static bool
is_readable(const char *what, const char *path, struct slam_conn_error *error)
{
    if (!path || access(path, R_OK) == 0)
        return true;
    error->stage = SLAM_STAGE_TLS;
    error->code = LDAP_PARAM_ERROR;
    snprintf(error->detail, sizeof(error->detail), "the %s '%s' cannot be read: %s",
             what, path, strerror(errno));
    return false;
}

/* A context of our own inherits no certificates from libldap's configuration. */
static int
inherit_authorities(LDAP *ld)
{
    const int options[] = {LDAP_OPT_X_TLS_CACERTFILE, LDAP_OPT_X_TLS_CACERTDIR};
    int rc = LDAP_OPT_SUCCESS;

    for (size_t i = 0; i < 2 && rc == LDAP_OPT_SUCCESS; i++) {
        char *path = NULL;

        if (ldap_get_option(NULL, options[i], &path) == LDAP_OPT_SUCCESS && path)
            rc = ldap_set_option(ld, options[i], path);
        ldap_memfree(path);
    }
    return rc;
}

static int
demand_of(const struct slam_connection_settings *config)
{
    return config->tls.verify ? LDAP_OPT_X_TLS_DEMAND : LDAP_OPT_X_TLS_NEVER;
}

static int
make_context(struct slam_connection_settings *config, LDAP *ld)
{
    int demand = demand_of(config);
    int of_a_client = 0;
    int rc = ldap_set_option(ld, LDAP_OPT_X_TLS_REQUIRE_CERT, &demand);

    if (rc == LDAP_OPT_SUCCESS)
        rc = config->tls.ca_file
                 ? ldap_set_option(ld, LDAP_OPT_X_TLS_CACERTFILE, config->tls.ca_file)
                 : inherit_authorities(ld);
    if (rc == LDAP_OPT_SUCCESS && config->tls.cert_file)
        rc = ldap_set_option(ld, LDAP_OPT_X_TLS_CERTFILE, config->tls.cert_file);
    if (rc == LDAP_OPT_SUCCESS && config->tls.key_file)
        rc = ldap_set_option(ld, LDAP_OPT_X_TLS_KEYFILE, config->tls.key_file);
    if (rc == LDAP_OPT_SUCCESS)
        rc = ldap_set_option(ld, LDAP_OPT_X_TLS_NEWCTX, &of_a_client);
    if (rc == LDAP_OPT_SUCCESS)
        rc = ldap_get_option(ld, LDAP_OPT_X_TLS_CTX, &config->tls_context);
    return rc;
}

static int
prepare_tls(struct slam_connection_settings *config, struct slam_conn_error *error)
{
    LDAP *ld = NULL;
    int rc;

    if (!config->tls.ca_file && !config->tls.cert_file && !config->tls.key_file &&
        config->tls.verify)
        return SLAM_OK; /* libldap's default, which is one for the process */
    if (!is_readable("ca_file", config->tls.ca_file, error) ||
        !is_readable("cert_file", config->tls.cert_file, error) ||
        !is_readable("key_file", config->tls.key_file, error))
        return SLAM_ECONNECT;
    rc = ldap_initialize(&ld, NULL);
    if (rc == LDAP_SUCCESS)
        rc = make_context(config, ld);
    if (ld)
        ldap_destroy(ld);
    if (rc == LDAP_SUCCESS)
        return SLAM_OK;
    error->stage = SLAM_STAGE_TLS;
    error->code = LDAP_PARAM_ERROR;
    snprintf(error->detail, sizeof(error->detail),
             "the TLS library cannot use ca_file, cert_file or key_file: are they PEM, "
             "and do certificate and key belong together?");
    return SLAM_ECONNECT;
}

int
slam_connection_settings_check_mechanism(const struct slam_connection_settings *config,
                                         const char *mechanism,
                                         struct slam_conn_error *error)
{
    const size_t size = sizeof(error->detail);
    char **installed = NULL;
    size_t used;

    ldap_get_option(NULL, LDAP_OPT_X_SASL_MECHLIST, &installed);
    for (size_t i = 0; installed && installed[i]; i++)
        if (strcasecmp(installed[i], mechanism) == 0)
            return SLAM_OK;
    snprintf(error->uri, sizeof(error->uri), "%s", config->uris[0]);
    error->stage = SLAM_STAGE_BIND;
    error->code = LDAP_AUTH_UNKNOWN;
    used = (size_t)snprintf(error->detail, size,
                            "libsasl has no mechanism '%.64s' on this host; it has",
                            mechanism);
    for (size_t i = 0; installed && installed[i] && used < size; i++)
        used +=
            (size_t)snprintf(error->detail + used, size - used, " %s", installed[i]);
    return SLAM_ECONNECT;
}

int
slam_connection_settings_prepare(struct slam_connection_settings *config,
                                 struct slam_conn_error *error)
{
    bool tls = config->tls.start_tls;
    int rc = SLAM_OK;

    snprintf(error->uri, sizeof(error->uri), "%s", config->uris[0]);
    for (size_t i = 0; i < config->uri_count; i++)
        tls = tls || is_ldaps(config->uris[i]);
    if (tls)
        rc = prepare_tls(config, error);
    if (rc == SLAM_OK && config->bind.mechanism)
        rc = slam_connection_settings_check_mechanism(config, config->bind.mechanism,
                                                      error);
    return rc;
}

void
slam_connection_settings_release(struct slam_connection_settings *config)
{
    if (config->tls_context && ldap_pvt_tls_ctx_free)
        ldap_pvt_tls_ctx_free(config->tls_context);
    config->tls_context = NULL;
}

/* -- one connection -- */

/* libldap calls it between the socket's connection and TLS. It connects by itself
 * again, without TLS, when a connection is lost between two steps: that one is refused.
 */
static int
on_connect(LDAP *ld, Sockbuf *sb, LDAPURLDesc *url, struct sockaddr *address,
           struct ldap_conncb *callback)
{
    struct slam_wire *wire = callback->lc_arg;

    (void)ld, (void)url, (void)address;
    if (wire->connected_ns != 0)
        return -1;
    wire->connected_ns = slam_clock_mono_ns();
    if (wire->handshake) {
        int fd = -1;

        ber_sockbuf_ctrl(sb, LBER_SB_OPT_GET_FD, &fd);
        slam_deadline_begin(wire->handshake, fd, wire->handshake_limit_ns);
    }
    return 0;
}

static void
on_close(LDAP *ld, Sockbuf *sb, struct ldap_conncb *callback)
{
    (void)ld, (void)sb, (void)callback;
}

/* PLAIN is for the job to choose, as a simple bind is. No security layer: whoever wants
 * encryption says TLS, and what libsasl's layers cost is not the directory's doing. */
#define SECURITY_PROPERTIES "none,maxssf=0"

static int
set_options(struct slam_wire *wire, const struct slam_connection_settings *config)
{
    LDAP *ld = wire->ld;
    struct timeval limit = time_limit(config->connect_timeout_ns);
    int version = LDAP_VERSION3;
    int demand = demand_of(config);
    int rc;

    wire->on_connect = (ldap_conncb){on_connect, on_close, wire};
    rc = ldap_set_option(ld, LDAP_OPT_PROTOCOL_VERSION, &version);
    if (rc == LDAP_SUCCESS)
        rc = ldap_set_option(ld, LDAP_OPT_NETWORK_TIMEOUT, &limit);
    if (rc == LDAP_SUCCESS)
        rc = ldap_set_option(ld, LDAP_OPT_TIMEOUT, &limit);
    if (rc == LDAP_SUCCESS)
        rc = ldap_set_option(ld, LDAP_OPT_REFERRALS, LDAP_OPT_OFF);
    if (rc == LDAP_SUCCESS)
        rc = ldap_set_option(ld, LDAP_OPT_CONNECT_CB, &wire->on_connect);
    if (rc == LDAP_SUCCESS)
        rc = ldap_set_option(ld, LDAP_OPT_X_TLS_REQUIRE_CERT, &demand);
    if (rc == LDAP_SUCCESS && config->tls_context)
        rc = ldap_set_option(ld, LDAP_OPT_X_TLS_CTX, config->tls_context);
    if (rc == LDAP_SUCCESS && config->bind.mechanism) {
        /* the server's name is the URI's, not what its address resolves to */
        rc = ldap_set_option(ld, LDAP_OPT_X_SASL_NOCANON, LDAP_OPT_ON);
        if (rc == LDAP_SUCCESS)
            rc = ldap_set_option(ld, LDAP_OPT_X_SASL_SECPROPS, SECURITY_PROPERTIES);
    }
    return rc;
}

/* Waits for the response until the deadline. Returns an LDAP result code: success means
 * that *response is there, not what it says. */
static int
await(LDAP *ld, int message_id, uint64_t deadline_ns, LDAPMessage **response)
{
    uint64_t now_ns = slam_clock_mono_ns();
    struct timeval limit = time_limit(deadline_ns > now_ns ? deadline_ns - now_ns : 0);
    int type = ldap_result(ld, message_id, LDAP_MSG_ALL, &limit, response);
    int code = LDAP_SERVER_DOWN;

    if (type > 0)
        return LDAP_SUCCESS;
    if (type == 0)
        return LDAP_TIMEOUT;
    ldap_get_option(ld, LDAP_OPT_RESULT_CODE, &code);
    return code;
}

static int
bind_simple(LDAP *ld, const struct slam_connection_settings *config,
            uint64_t deadline_ns, uint32_t *binds)
{
    struct berval password = {.bv_len = config->bind.password_len,
                              .bv_val = (char *)config->bind.password};
    LDAPMessage *response = NULL;
    int message_id = 0;
    int code = LDAP_OTHER;
    int rc = ldap_sasl_bind(ld, config->bind.dn, LDAP_SASL_SIMPLE, &password, NULL,
                            NULL, &message_id);

    if (rc != LDAP_SUCCESS)
        return rc;
    ++*binds;
    rc = await(ld, message_id, deadline_ns, &response);
    if (rc == LDAP_SUCCESS && ldap_msgtype(response) != LDAP_RES_BIND) {
        ldap_msgfree(response); /* libldap takes any result for an answer */
        return LDAP_PROTOCOL_ERROR;
    }
    if (rc == LDAP_SUCCESS)
        rc = ldap_parse_result(ld, response, &code, NULL, NULL, NULL, NULL, 1);
    return rc == LDAP_SUCCESS ? code : rc;
}

/* libsasl's questions. What the job does not say is answered by the question's own
 * default, else by nothing. */
static int
answer_sasl(LDAP *ld, unsigned int flags, void *defaults, void *questions)
{
    const struct slam_connection_settings *config = defaults;

    (void)ld, (void)flags;
    for (sasl_interact_t *q = questions; q->id != SASL_CB_LIST_END; q++) {
        const char *answer = NULL;

        if (q->id == SASL_CB_AUTHNAME)
            answer = config->bind.authcid;
        else if (q->id == SASL_CB_USER)
            answer = config->bind.authzid;
        else if (q->id == SASL_CB_GETREALM)
            answer = config->bind.realm;
        else if (q->id == SASL_CB_PASS)
            answer = config->bind.password;
        if (!answer)
            answer = q->defresult ? q->defresult : "";
        q->result = answer;
        q->len =
            (unsigned int)(answer == config->bind.password ? config->bind.password_len
                                                           : strlen(answer));
    }
    return LDAP_SUCCESS;
}

static int
bind_sasl(LDAP *ld, const struct slam_connection_settings *config, uint64_t deadline_ns,
          uint32_t *binds)
{
    struct slam_connection_settings answers =
        *config;                  /* libldap wants a pointer to non-const */
    const char *mechanism = NULL; /* libldap's note from step to step */
    LDAPMessage *response = NULL;
    int rc;

    for (;;) {
        int message_id = 0;

        rc = ldap_sasl_interactive_bind(ld, NULL, config->bind.mechanism, NULL, NULL,
                                        LDAP_SASL_QUIET, answer_sasl, &answers,
                                        response, &mechanism, &message_id);
        ldap_msgfree(response);
        response = NULL;
        if (rc != LDAP_SASL_BIND_IN_PROGRESS)
            return rc;
        ++*binds;
        rc = await(ld, message_id, deadline_ns, &response);
        if (rc != LDAP_SUCCESS)
            return rc;
    }
}

static int
bind_connection(LDAP *ld, const struct slam_connection_settings *config,
                uint32_t *binds)
{
    uint64_t deadline_ns = slam_clock_mono_ns() + config->connect_timeout_ns;

    if (config->bind.mechanism)
        return bind_sasl(ld, config, deadline_ns, binds);
    return bind_simple(ld, config, deadline_ns, binds);
}

/* Makes wire->ld over a socket of ours; the host that TLS and SASL know is the URI's.
 * Returns an LDAP result code. */
static int
attach(struct slam_wire *wire, const struct slam_connection_settings *config,
       size_t uri_index)
{
    int rc;
    int fd = slam_dial(config->addresses[uri_index], config->connect_timeout_ns);

    if (fd < 0)
        return LDAP_SERVER_DOWN;
    wire->connected_ns = slam_clock_mono_ns();
    rc = ldap_init_fd(fd, LDAP_PROTO_TCP, config->uris[uri_index], &wire->ld);
    if (rc != LDAP_SUCCESS) {
        close(fd);
        return rc;
    }
    if (wire->handshake)
        slam_deadline_begin(wire->handshake, fd, wire->handshake_limit_ns);
    return set_options(wire, config);
}

/* Connects, and for ldaps shakes hands. Returns an LDAP result code. */
static int
connect_wire(struct slam_wire *wire, const struct slam_connection_settings *config,
             size_t uri_index)
{
    const char *uri = config->uris[uri_index];
    int rc;

    if (config->address_count > 0 && *config->addresses[uri_index]) {
        rc = attach(wire, config, uri_index);
        if (rc == LDAP_SUCCESS && is_ldaps(uri))
            rc = ldap_install_tls(wire->ld);
        return rc == LDAP_SUCCESS ? slam_wire_limit(wire) : rc;
    }
    errno = 0;
    rc = ldap_initialize(&wire->ld, uri);
    if (rc == LDAP_SUCCESS)
        rc = set_options(wire, config);
    if (rc == LDAP_SUCCESS)
        rc = ldap_connect(wire->ld);
    return rc == LDAP_SUCCESS ? slam_wire_limit(wire) : rc;
}

/* The steps of a set-up, each timed from the end of the one before. */
static int
set_up(struct slam_wire *wire, const struct slam_connection_settings *config,
       size_t uri_index, enum slam_conn_stage *stage, struct slam_wire_setup *setup)
{
    uint64_t started_ns = slam_clock_mono_ns();
    uint64_t before_ns = started_ns;
    uint64_t now_ns;
    int rc;

    *stage = SLAM_STAGE_CONNECT;
    rc = connect_wire(wire, config, uri_index);
    now_ns = slam_clock_mono_ns();
    if (wire->connected_ns == 0)
        wire->connected_ns = now_ns;
    else if (rc != LDAP_SUCCESS)
        *stage = SLAM_STAGE_TLS; /* of ldaps, after the socket was connected */
    setup->connect_ns = wire->connected_ns - before_ns;
    if (rc != LDAP_SUCCESS)
        return rc;
    before_ns = wire->connected_ns;
    if (config->tls.start_tls) {
        *stage = SLAM_STAGE_TLS;
        setup->extended = 1;
        rc = ldap_start_tls_s(wire->ld, NULL, NULL);
        if (rc != LDAP_SUCCESS)
            return rc;
        now_ns = slam_clock_mono_ns();
    }
    if (wire->handshake && slam_deadline_end(wire->handshake))
        return LDAP_TIMEOUT;
    if (ldap_tls_inplace(wire->ld))
        setup->tls_ns = now_ns - before_ns;
    if (config->bind.mechanism || config->bind.dn) {
        *stage = SLAM_STAGE_BIND;
        before_ns = slam_clock_mono_ns();
        rc = bind_connection(wire->ld, config, &setup->binds);
        if (rc != LDAP_SUCCESS)
            return rc;
        setup->bind_ns = slam_clock_mono_ns() - before_ns;
    }
    *stage = SLAM_STAGE_HANDOVER;
    rc = slam_wire_take_over(wire);
    setup->total_ns = slam_clock_mono_ns() - started_ns;
    return rc;
}

int
slam_wire_open(const struct slam_connection_settings *config, size_t uri_index,
               void *storage, struct slam_wire **out, struct slam_wire_setup *setup,
               struct slam_conn_error *error)
{
    const char *uri = config->uris[uri_index];
    enum slam_conn_stage stage = SLAM_STAGE_CONNECT;
    struct slam_deadline handshake = {0};
    struct slam_wire *wire = storage;
    int rc;

    memset(wire, 0, sizeof(*wire));
    if (config->tls.start_tls || is_ldaps(uri))
        wire->handshake = &handshake;
    wire->handshake_limit_ns = config->connect_timeout_ns;
    memset(setup, 0, sizeof(*setup));
    rc = set_up(wire, config, uri_index, &stage, setup);
    if (slam_deadline_end(&handshake) && rc != LDAP_SUCCESS)
        rc = LDAP_TIMEOUT;
    wire->handshake = NULL;
    if (rc != LDAP_SUCCESS) {
        rc = fail(error, wire->ld, uri, stage, rc);
        slam_wire_close(wire);
        return rc;
    }
    *out = wire;
    return SLAM_OK;
}
