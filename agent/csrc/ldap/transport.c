/* SPDX-License-Identifier: Apache-2.0 */
#include "ldap/transport.h"

#include "core/clock.h"
#include "core/slam_err.h"

#include <errno.h>
#include <fcntl.h>
#include <ldap.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openldap.h>
#include <poll.h>
#include <pthread.h>
#include <sasl/sasl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* The first cache line is all that a request touches. */
struct slam_transport {
    _Alignas(SLAM_CACHE_LINE) Sockbuf_IO_Desc *tap;
    int fd;
    bool plain; /* nothing between tap and provider: the way through them is saved */
    bool has_stamps;
    bool drained; /* nothing more to read in this turn: do not ask again */
    bool at_eof;
    bool hung_up;       /* the end of the stream is there to be read */
    unsigned int reads; /* in this turn */
    uint64_t stamp_ns;
    uint8_t *ahead; /* TLS only */
    uint32_t ahead_pos;
    uint32_t ahead_len;
    uint64_t ahead_taken; /* bytes, ever */
    LDAP *ld;
    ldap_conncb on_connect;
    uint64_t connected_ns;      /* when the socket was, CLOCK_MONOTONIC; 0: not yet */
    struct deadline *handshake; /* during set-up with TLS, else NULL */
    uint64_t handshake_limit_ns;
    size_t address; /* of a host with several: which one accepted, from 1; 0: none */
};

/* Above TLS (20) and a SASL security layer (30). */
#define LEVEL_TAP 40

/* A TLS library reads a record's five-byte header first; one recvmsg serves both. */
#define READ_AHEAD_BYTES 16384u

/* A peer that sends faster than we read must leave the other connections their turn. */
#define READS_PER_TURN 16u

/* Ends a connection that is not set up in time: libldap waits for a TLS handshake
 * without a limit (2.5 with GnuTLS even without sleeping), and only a shutdown of the
 * socket from another thread ends that. The thread lives as long as the handshake. It
 * holds the socket by a descriptor of its own, which no other file can take. */
struct deadline {
    pthread_t thread;
    int fd;
    int cancel_fd;
    uint64_t timeout_ns;
    bool under_way; /* owner only */
    bool passed;    /* written by the thread, read after its end */
};

/* Waits for the descriptor. Returns 0, ETIMEDOUT or another errno. */
static int
wait_for(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd waiting = {.fd = fd, .events = events};

    for (;;) {
        struct timespec left =
            slam_clock_timespec(slam_since_ns(deadline_ns, slam_clock_mono_ns()));
        int ready = ppoll(&waiting, 1, &left, NULL);

        if (ready < 0 && errno == EINTR)
            continue;
        return ready > 0 ? 0 : ready == 0 ? ETIMEDOUT : errno;
    }
}

static void *
watch(void *argument)
{
    struct deadline *deadline = argument;

    if (wait_for(deadline->cancel_fd, POLLIN,
                 slam_clock_mono_ns() + deadline->timeout_ns) == ETIMEDOUT) {
        deadline->passed = true;
        shutdown(deadline->fd, SHUT_RDWR);
    }
    return NULL;
}

/* Ends the deadline, if it is under way. True: it had passed, the socket is shut
 * down. */
static bool
deadline_end(struct deadline *deadline)
{
    uint64_t one = 1;

    if (!deadline->under_way)
        return false;
    if (write(deadline->cancel_fd, &one, sizeof(one)) != sizeof(one))
        pthread_cancel(deadline->thread); /* cannot be: the counter is at zero */
    pthread_join(deadline->thread, NULL);
    close(deadline->cancel_fd);
    close(deadline->fd);
    deadline->under_way = false;
    return deadline->passed;
}

/* Begins a deadline of the socket; without memory or descriptors there is none. */
static void
deadline_begin(struct deadline *deadline, int fd, uint64_t timeout_ns)
{
    deadline_end(deadline);
    deadline->passed = false;
    deadline->timeout_ns = timeout_ns;
    deadline->cancel_fd = eventfd(0, EFD_CLOEXEC);
    deadline->fd = dup(fd);
    if (deadline->cancel_fd >= 0 && deadline->fd >= 0 &&
        pthread_create(&deadline->thread, NULL, watch, deadline) == 0) {
        deadline->under_way = true;
        return;
    }
    if (deadline->cancel_fd >= 0)
        close(deadline->cancel_fd);
    if (deadline->fd >= 0)
        close(deadline->fd);
}

/* An IPv6 address with its zone, a slash and a port. */
#define MAX_ADDRESS 128

/* As libldap prepares its sockets. Returns 0 or an errno. */
static int
connect_socket(int fd, const struct addrinfo *to, uint64_t timeout_ns)
{
    const int on = 1;
    uint64_t deadline_ns = slam_clock_mono_ns() + timeout_ns;
    int fault;
    socklen_t len = sizeof(fault);

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0) {
        if (errno != EINPROGRESS)
            return errno;
        fault = wait_for(fd, POLLOUT, deadline_ns);
        if (fault == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &len) != 0)
            fault = errno;
        if (fault != 0)
            return fault;
    }
    /* the steps of libldap that follow wait in it */
    return fcntl(fd, F_SETFL, 0) == 0 ? 0 : errno;
}

/* `address` is "ADDRESS/PORT". Returns a socket, or -1 with errno. */
static int
dial_one(char *address, uint64_t timeout_ns)
{
    const struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                     .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char *port = strrchr(address, '/');
    int fault = EINVAL;
    int fd;

    if (port)
        *port++ = '\0';
    if (!port || getaddrinfo(address, port, &numeric, &found) != 0) {
        errno = EINVAL;
        return -1;
    }
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    fault = fd < 0 ? errno : connect_socket(fd, found, timeout_ns);
    freeaddrinfo(found);
    if (fault == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    errno = fault;
    return -1;
}

/* Connects to the first address that accepts; each gets timeout_ns. They are numeric,
 * "ADDRESS/PORT" with spaces between them: only what was checked can be reached.
 * Returns a blocking socket, or -1 with errno of the address that accepted before, for
 * this host may have no way to the others; or of the last (EINVAL: it is none). */
static int
dial(const char *addresses, uint64_t timeout_ns, size_t *accepted)
{
    int fault = EINVAL;
    int fd = -1;

    for (size_t number = 1; fd < 0 && *addresses; number++) {
        size_t len = strcspn(addresses, " ");
        char address[MAX_ADDRESS];

        if (len > 0 && len < sizeof(address)) {
            memcpy(address, addresses, len);
            address[len] = '\0';
            fd = dial_one(address, timeout_ns);
            if (fd >= 0)
                *accepted = number;
            else if (*accepted == 0 || *accepted == number)
                fault = errno;
        }
        addresses += len + (addresses[len] == ' ');
    }
    errno = fault;
    return fd;
}

static int
layer_setup(Sockbuf_IO_Desc *sbiod, void *arg)
{
    sbiod->sbiod_pvt = arg;
    return 0;
}

static int
layer_remove(Sockbuf_IO_Desc *sbiod)
{
    sbiod->sbiod_pvt = NULL;
    return 0;
}

static int
layer_ctrl(Sockbuf_IO_Desc *sbiod, int opt, void *arg)
{
    return LBER_SBIOD_CTRL_NEXT(sbiod, opt, arg);
}

/* Sockbuf closes every layer in turn; the socket itself is the provider's. */
static int
provider_close(Sockbuf_IO_Desc *sbiod)
{
    const struct slam_transport *transport = sbiod->sbiod_pvt;

    return close(transport->fd);
}

static int
tap_close(Sockbuf_IO_Desc *sbiod)
{
    (void)sbiod;
    return 0;
}

static uint64_t
stamp_of(struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        struct scm_timestamping stamps;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPING)
            continue;
        memcpy(&stamps, CMSG_DATA(c), sizeof(stamps));
        return (uint64_t)stamps.ts[0].tv_sec * SLAM_NS_PER_S +
               (uint64_t)stamps.ts[0].tv_nsec;
    }
    return 0;
}

static ber_slen_t
socket_read(struct slam_transport *transport, void *buf, ber_len_t len)
{
    union {
        char bytes[CMSG_SPACE(sizeof(struct scm_timestamping))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (transport->drained) {
        errno = EAGAIN;
        return -1;
    }
    if (transport->has_stamps) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
    }
    do
        n = recvmsg(transport->fd, &msg, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -1;
    if (n == 0) {
        transport->at_eof = true;
        return 0;
    }
    transport->stamp_ns = transport->has_stamps ? stamp_of(&msg) : 0;
    /* a short read emptied the socket: what comes later is another edge for epoll */
    transport->drained = ++transport->reads == READS_PER_TURN ||
                         ((size_t)n < len && !transport->hung_up);
    return n;
}

static ber_slen_t
provider_read(Sockbuf_IO_Desc *sbiod, void *buf, ber_len_t len)
{
    struct slam_transport *transport = sbiod->sbiod_pvt;
    size_t n;

    if (!transport->ahead)
        return socket_read(transport, buf, len);
    if (transport->ahead_pos == transport->ahead_len) {
        ber_slen_t got = socket_read(transport, transport->ahead, READ_AHEAD_BYTES);

        if (got <= 0)
            return got;
        transport->ahead_pos = 0;
        transport->ahead_len = (uint32_t)got;
    }
    n = transport->ahead_len - transport->ahead_pos;
    n = n < len ? n : len;
    memcpy(buf, transport->ahead + transport->ahead_pos, n);
    transport->ahead_pos += (uint32_t)n;
    transport->ahead_taken += n;
    return (ber_slen_t)n;
}

static ber_slen_t
socket_write(const struct slam_transport *transport, const void *buf, ber_len_t len)
{
    ssize_t n;

    do
        n = send(transport->fd, buf, len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

static ber_slen_t
provider_write(Sockbuf_IO_Desc *sbiod, void *buf, ber_len_t len)
{
    return socket_write(sbiod->sbiod_pvt, buf, len);
}

static Sockbuf_IO provider_io = {layer_setup,   layer_remove,   layer_ctrl,
                                 provider_read, provider_write, provider_close};

static ber_slen_t
tap_read(Sockbuf_IO_Desc *sbiod, void *buf, ber_len_t len)
{
    return LBER_SBIOD_READ_NEXT(sbiod, buf, len);
}

static ber_slen_t
tap_write(Sockbuf_IO_Desc *sbiod, void *buf, ber_len_t len)
{
    return LBER_SBIOD_WRITE_NEXT(sbiod, buf, len);
}

static int
tap_setup(Sockbuf_IO_Desc *sbiod, void *arg)
{
    struct slam_transport *transport = arg;

    sbiod->sbiod_pvt = transport;
    transport->tap = sbiod;
    return 0;
}

static Sockbuf_IO tap_io = {tap_setup, layer_remove, layer_ctrl,
                            tap_read,  tap_write,    tap_close};

/* What a set-up is answered is small; libldap allocates any length that is claimed. */
#define SETUP_RESPONSE_BYTES ((ber_len_t)1 << 20)

static Sockbuf *
sockbuf_of(LDAP *ld)
{
    Sockbuf *sb = NULL;

    return ldap_get_option(ld, LDAP_OPT_SOCKBUF, &sb) == LDAP_OPT_SUCCESS ? sb : NULL;
}

/* Limits the length of set-up's responses. Returns an LDAP result code. */
static int
limit_responses(LDAP *ld)
{
    ber_len_t most = SETUP_RESPONSE_BYTES;
    Sockbuf *sb = sockbuf_of(ld);

    return sb && ber_sockbuf_ctrl(sb, LBER_SB_OPT_SET_MAX_INCOMING, &most) >= 0
               ? LDAP_SUCCESS
               : LDAP_LOCAL_ERROR;
}

/* Puts our provider and tap into libldap's Sockbuf. Returns an LDAP result code. */
static int
take_over(struct slam_transport *transport)
{
    const int on = 1;
    const unsigned int stamping =
        SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    Sockbuf *sb = sockbuf_of(transport->ld);
    struct sockaddr_storage address;
    socklen_t address_len = sizeof(address);
    int flags;
    bool tls = ldap_tls_inplace(transport->ld) == 1;

    if (!sb || ldap_get_option(transport->ld, LDAP_OPT_DESC, &transport->fd) !=
                   LDAP_OPT_SUCCESS)
        return LDAP_LOCAL_ERROR;
    ber_sockbuf_remove_io(sb, &ber_sockbuf_io_tcp, LBER_SBIOD_LEVEL_PROVIDER);
    ber_sockbuf_remove_io(sb, &ber_sockbuf_io_fd, LBER_SBIOD_LEVEL_PROVIDER);
    if (ber_sockbuf_add_io(sb, &provider_io, LBER_SBIOD_LEVEL_PROVIDER, transport) !=
            0 ||
        ber_sockbuf_add_io(sb, &tap_io, LEVEL_TAP, transport) != 0)
        return LDAP_NO_MEMORY;
    transport->plain = !tls;
    if (tls) {
        transport->ahead = malloc(READ_AHEAD_BYTES);
        if (!transport->ahead)
            return LDAP_NO_MEMORY;
    }
    if (getsockname(transport->fd, (struct sockaddr *)&address, &address_len) == 0 &&
        address.ss_family != AF_UNIX) {
        setsockopt(transport->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        transport->has_stamps = setsockopt(transport->fd, SOL_SOCKET, SO_TIMESTAMPING,
                                           &stamping, sizeof(stamping)) == 0;
    }
    flags = fcntl(transport->fd, F_GETFL);
    if (flags < 0 || fcntl(transport->fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return LDAP_LOCAL_ERROR;
    return LDAP_SUCCESS;
}

/* libldap counts the users of a TLS context: LDAP_OPT_X_TLS_CTX adds one, and only this
 * function, which no header declares, removes one. Without it contexts would stay. */
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
    const char *why = NULL;

    error->stage = stage;
    error->code = code;
    snprintf(error->uri, sizeof(error->uri), "%s", uri);
    if (ld)
        ldap_get_option(ld, LDAP_OPT_DIAGNOSTIC_MESSAGE, &diagnostic);
    if (diagnostic && strcmp(diagnostic, UNTRUSTED) == 0)
        why = "the server's certificate is not trusted";
    else if (diagnostic && *diagnostic)
        why = diagnostic;
    else if (stage == SLAM_STAGE_CONNECT && code == LDAP_SERVER_DOWN && saved_errno)
        why = strerror(saved_errno);
    snprintf(error->detail, sizeof(error->detail), "%s%s%s%s", ldap_err2string(code),
             why ? " (" : "", why ? why : "", why ? ")" : "");
    ldap_memfree(diagnostic);
    return SLAM_ECONNECT;
}

void
slam_transport_init(void)
{
    int version;

    ldap_get_option(NULL, LDAP_OPT_PROTOCOL_VERSION, &version);
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

struct option {
    int name;
    const void *value;
};

static int
set_all(LDAP *ld, const struct option *options, size_t count)
{
    int rc = LDAP_SUCCESS;

    for (size_t i = 0; i < count && rc == LDAP_SUCCESS; i++)
        rc = ldap_set_option(ld, options[i].name, options[i].value);
    return rc;
}

static int
make_context(struct slam_connection_settings *config, LDAP *ld)
{
    const int demand = demand_of(config);
    const int of_a_client = 0;
    const struct option options[] = {{LDAP_OPT_X_TLS_REQUIRE_CERT, &demand},
                                     {LDAP_OPT_X_TLS_CACERTFILE, config->tls.ca_file},
                                     {LDAP_OPT_X_TLS_CERTFILE, config->tls.cert_file},
                                     {LDAP_OPT_X_TLS_KEYFILE, config->tls.key_file},
                                     {LDAP_OPT_X_TLS_NEWCTX, &of_a_client}};
    int rc = config->tls.ca_file ? LDAP_SUCCESS : inherit_authorities(ld);

    for (size_t i = 0; i < 5 && rc == LDAP_SUCCESS; i++)
        if (options[i].value)
            rc = set_all(ld, &options[i], 1);
    if (rc == LDAP_OPT_SUCCESS)
        rc = ldap_get_option(ld, LDAP_OPT_X_TLS_CTX, &config->tls_context);
    return rc;
}

static int
prepare_tls(struct slam_connection_settings *config, struct slam_conn_error *error)
{
    const struct {
        const char *name;
        const char *path;
    } files[] = {{"ca_file", config->tls.ca_file},
                 {"cert_file", config->tls.cert_file},
                 {"key_file", config->tls.key_file}};
    LDAP *ld = NULL;
    int rc;

    if (!config->tls.ca_file && !config->tls.cert_file && !config->tls.key_file &&
        config->tls.verify)
        return SLAM_OK; /* libldap's default, which is one for the process */
    error->stage = SLAM_STAGE_TLS;
    error->code = LDAP_PARAM_ERROR;
    for (size_t i = 0; i < 3; i++)
        if (files[i].path && access(files[i].path, R_OK) != 0) {
            snprintf(error->detail, sizeof(error->detail),
                     "the %s '%s' cannot be read: %s", files[i].name, files[i].path,
                     strerror(errno));
            return SLAM_ECONNECT;
        }
    rc = ldap_initialize(&ld, NULL);
    if (rc == LDAP_SUCCESS)
        rc = make_context(config, ld);
    if (ld)
        ldap_destroy(ld);
    if (rc == LDAP_SUCCESS)
        return SLAM_OK;
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

/* libldap calls it after the socket is connected, before TLS. After a loss between two
 * steps it would connect again, without TLS: that is refused. */
static int
on_connect(LDAP *ld, Sockbuf *sb, LDAPURLDesc *url, struct sockaddr *address,
           struct ldap_conncb *callback)
{
    struct slam_transport *transport = callback->lc_arg;

    (void)ld, (void)url, (void)address;
    if (transport->connected_ns != 0)
        return -1;
    transport->connected_ns = slam_clock_mono_ns();
    if (transport->handshake) {
        int fd = -1;

        ber_sockbuf_ctrl(sb, LBER_SB_OPT_GET_FD, &fd);
        deadline_begin(transport->handshake, fd, transport->handshake_limit_ns);
    }
    return 0;
}

static void
on_close(LDAP *ld, Sockbuf *sb, struct ldap_conncb *callback)
{
    (void)ld, (void)sb, (void)callback;
}

/* The job chooses the mechanism, also PLAIN. No security layer: TLS is for
 * encryption. */
#define SECURITY_PROPERTIES "none,maxssf=0"

static int
set_options(struct slam_transport *transport,
            const struct slam_connection_settings *config)
{
    LDAP *ld = transport->ld;
    const struct timeval limit = time_limit(config->connect_timeout_ns);
    const int version = LDAP_VERSION3;
    const int demand = demand_of(config);
    const struct option options[] = {{LDAP_OPT_PROTOCOL_VERSION, &version},
                                     {LDAP_OPT_NETWORK_TIMEOUT, &limit},
                                     {LDAP_OPT_TIMEOUT, &limit},
                                     {LDAP_OPT_REFERRALS, LDAP_OPT_OFF},
                                     {LDAP_OPT_CONNECT_CB, &transport->on_connect},
                                     {LDAP_OPT_X_TLS_REQUIRE_CERT, &demand}};
    /* the server's name is the URI's, not what its address resolves to */
    static const struct option of_sasl[] = {
        {LDAP_OPT_X_SASL_NOCANON, LDAP_OPT_ON},
        {LDAP_OPT_X_SASL_SECPROPS, SECURITY_PROPERTIES}};
    int rc;

    transport->on_connect = (ldap_conncb){on_connect, on_close, transport};
    rc = set_all(ld, options, 6);
    if (rc == LDAP_SUCCESS && config->tls_context)
        rc = ldap_set_option(ld, LDAP_OPT_X_TLS_CTX, config->tls_context);
    if (rc == LDAP_SUCCESS && config->bind.mechanism)
        rc = set_all(ld, of_sasl, 2);
    return rc;
}

/* Waits for the response until the deadline. Returns an LDAP result code: success: it
 * is there. */
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

/* Answers libsasl: by the job, else by the question's default, else empty. */
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

/* Makes transport->ld over a socket of ours. Returns an LDAP result code. */
static int
attach(struct slam_transport *transport, const struct slam_connection_settings *config,
       size_t uri_index)
{
    int rc;
    int fd = dial(config->addresses[uri_index], config->connect_timeout_ns,
                  &transport->address);

    if (fd < 0)
        return LDAP_SERVER_DOWN;
    transport->connected_ns = slam_clock_mono_ns();
    rc = ldap_init_fd(fd, LDAP_PROTO_TCP, config->uris[uri_index], &transport->ld);
    if (rc != LDAP_SUCCESS) {
        close(fd);
        return rc;
    }
    if (transport->handshake)
        deadline_begin(transport->handshake, fd, transport->handshake_limit_ns);
    return set_options(transport, config);
}

/* Connects, and for ldaps shakes hands. Returns an LDAP result code. */
static int
connect_transport(struct slam_transport *transport,
                  const struct slam_connection_settings *config, size_t uri_index)
{
    const char *uri = config->uris[uri_index];
    int rc;

    if (config->address_count > 0 && *config->addresses[uri_index]) {
        rc = attach(transport, config, uri_index);
        if (rc == LDAP_SUCCESS && is_ldaps(uri))
            rc = ldap_install_tls(transport->ld);
    } else {
        rc = ldap_initialize(&transport->ld, uri);
        if (rc == LDAP_SUCCESS)
            rc = set_options(transport, config);
        if (rc == LDAP_SUCCESS)
            rc = ldap_connect(transport->ld);
    }
    return rc == LDAP_SUCCESS ? limit_responses(transport->ld) : rc;
}

/* Libraries do not tell when they ran out of files. */
static bool
has_no_file_left(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd < 0 && slam_cause_of_errno(errno) == SLAM_CAUSE_no_descriptor;
}

/* Why a set-up failed in this stage, with an LDAP result code or libldap's negative
 * one, and the errno that it left. */
static enum slam_cause
cause_of(enum slam_conn_stage stage, int code, int fault)
{
    if (code > 0)
        return SLAM_CAUSE_bind_failed;
    if (has_no_file_left())
        return SLAM_CAUSE_no_descriptor;
    if (code == LDAP_TIMEOUT)
        return SLAM_CAUSE_no_answer;
    if (code == LDAP_NO_MEMORY)
        return SLAM_CAUSE_no_memory;
    if (stage == SLAM_STAGE_CONNECT)
        return slam_cause_of_errno(fault);
    if (code == LDAP_SERVER_DOWN)
        return fault == ECONNRESET ? SLAM_CAUSE_reset : SLAM_CAUSE_closed;
    if (stage == SLAM_STAGE_TLS)
        return SLAM_CAUSE_tls_failed;
    return stage == SLAM_STAGE_BIND && code == LDAP_LOCAL_ERROR
               ? SLAM_CAUSE_no_credentials
               : SLAM_CAUSE_other_cause;
}

/* The steps of a set-up, each timed from the end of the one before. */
static int
set_up(struct slam_transport *transport, const struct slam_connection_settings *config,
       size_t uri_index, enum slam_conn_stage *stage,
       struct slam_transport_setup *setup)
{
    uint64_t before_ns = slam_clock_mono_ns();
    uint64_t now_ns;
    int rc;

    errno = 0;
    *stage = SLAM_STAGE_CONNECT;
    rc = connect_transport(transport, config, uri_index);
    now_ns = slam_clock_mono_ns();
    if (rc != LDAP_SUCCESS && transport->connected_ns == 0)
        return rc;
    if (rc != LDAP_SUCCESS)
        *stage = SLAM_STAGE_TLS; /* of ldaps, after the socket was connected */
    else if (transport->connected_ns == 0)
        transport->connected_ns = now_ns;
    setup->connect_ns = transport->connected_ns - before_ns;
    if (rc != LDAP_SUCCESS)
        return rc;
    before_ns = transport->connected_ns;
    if (config->tls.start_tls) {
        *stage = SLAM_STAGE_TLS;
        setup->extended = 1;
        errno = 0;
        rc = ldap_start_tls_s(transport->ld, NULL, NULL);
        if (rc != LDAP_SUCCESS)
            return rc;
        now_ns = slam_clock_mono_ns();
    }
    if (transport->handshake && deadline_end(transport->handshake))
        return LDAP_TIMEOUT;
    if (ldap_tls_inplace(transport->ld))
        setup->tls_ns = now_ns - before_ns;
    if (config->bind.mechanism || config->bind.dn) {
        *stage = SLAM_STAGE_BIND;
        before_ns = slam_clock_mono_ns();
        errno = 0;
        rc = bind_connection(transport->ld, config, &setup->binds);
        if (rc != LDAP_SUCCESS)
            return rc;
        setup->bind_ns = slam_clock_mono_ns() - before_ns;
    }
    *stage = SLAM_STAGE_HANDOVER;
    return take_over(transport);
}

int
slam_transport_open(const struct slam_connection_settings *config, size_t uri_index,
                    void *storage, struct slam_transport **out,
                    struct slam_transport_setup *setup, struct slam_conn_error *error)
{
    const char *uri = config->uris[uri_index];
    enum slam_conn_stage stage = SLAM_STAGE_CONNECT;
    struct deadline handshake = {0};
    struct slam_transport *transport = storage;
    uint64_t started_ns = slam_clock_mono_ns();
    int fault;
    int rc;

    memset(transport, 0, offsetof(struct slam_transport, address));
    if (config->tls.start_tls || is_ldaps(uri))
        transport->handshake = &handshake;
    transport->handshake_limit_ns = config->connect_timeout_ns;
    memset(setup, 0, sizeof(*setup));
    rc = set_up(transport, config, uri_index, &stage, setup);
    fault = errno;
    setup->total_ns = slam_clock_mono_ns() - started_ns;
    if (deadline_end(&handshake) && rc != LDAP_SUCCESS)
        rc = LDAP_TIMEOUT;
    transport->handshake = NULL;
    if (rc != LDAP_SUCCESS) {
        setup->cause = error->cause = cause_of(stage, rc, fault);
        errno = fault;
        rc = fail(error, transport->ld, uri, stage, rc);
        slam_transport_close(transport);
        return rc;
    }
    *out = transport;
    return SLAM_OK;
}

int
slam_transport_fd(const struct slam_transport *transport)
{
    return transport->fd;
}

bool
slam_transport_has_stamps(const struct slam_transport *transport)
{
    return transport->has_stamps;
}

void
slam_transport_readable(struct slam_transport *transport, bool hung_up)
{
    transport->drained = false;
    transport->hung_up = hung_up;
    transport->reads = 0;
}

bool
slam_transport_was_cut(const struct slam_transport *transport)
{
    return transport->reads == READS_PER_TURN;
}

/* TLS layers return 0 or -1 with EWOULDBLOCK set for "not yet". */
static bool
would_block(const struct slam_transport *transport)
{
    return !transport->at_eof &&
           (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

ssize_t
slam_transport_read(struct slam_transport *transport, uint8_t *buf, size_t len)
{
    ber_slen_t n;
    uint64_t taken;

    /* A TLS library says "not yet" after a record that holds no data, such as a session
     * ticket. What it left of the bytes read ahead will not wake epoll: ask again. */
    do {
        taken = transport->ahead_taken;
        errno = 0;
        n = transport->plain ? socket_read(transport, buf, len)
                             : LBER_SBIOD_READ_NEXT(transport->tap, buf, len);
    } while (n <= 0 && would_block(transport) &&
             transport->ahead_pos < transport->ahead_len &&
             transport->ahead_taken != taken);
    if (n > 0)
        return n;
    return would_block(transport) ? 0 : -1;
}

uint64_t
slam_transport_stamp_ns(const struct slam_transport *transport)
{
    return transport->stamp_ns;
}

ssize_t
slam_transport_write(struct slam_transport *transport, const uint8_t *buf, size_t len)
{
    /* sbi_write takes a pointer to non-const, and does not write through it */
    union {
        const uint8_t *in;
        void *out;
    } bytes = {.in = buf};
    ber_slen_t n;

    errno = 0;
    n = transport->plain ? socket_write(transport, buf, len)
                         : LBER_SBIOD_WRITE_NEXT(transport->tap, bytes.out, len);
    if (n > 0)
        return n;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    return -1;
}

void
slam_transport_close(struct slam_transport *transport)
{
    if (!transport)
        return;
    if (transport->ld) {
        int fd = -1;

        /* libldap would send an unbind whenever the socket still takes it */
        if (ldap_get_option(transport->ld, LDAP_OPT_DESC, &fd) == LDAP_OPT_SUCCESS &&
            fd >= 0)
            shutdown(fd, SHUT_RDWR);
        ldap_unbind_ext(transport->ld, NULL, NULL);
    }
    free(transport->ahead);
}

size_t
slam_transport_size(void)
{
    return sizeof(struct slam_transport);
}

void
slam_transport_library(char *version, size_t version_len, char *tls, size_t tls_len)
{
    LDAPAPIInfo info = {.ldapai_info_version = LDAP_API_INFO_VERSION};
    char *package = NULL;

    snprintf(version, version_len, "unknown");
    snprintf(tls, tls_len, "none");
    if (ldap_get_option(NULL, LDAP_OPT_API_INFO, &info) == LDAP_OPT_SUCCESS) {
        snprintf(version, version_len, "%s %d.%d.%d", info.ldapai_vendor_name,
                 info.ldapai_vendor_version / 10000,
                 info.ldapai_vendor_version / 100 % 100,
                 info.ldapai_vendor_version % 100);
        ldap_memfree(info.ldapai_vendor_name);
        ber_memvfree((void **)info.ldapai_extensions);
    }
    if (ldap_get_option(NULL, LDAP_OPT_X_TLS_PACKAGE, &package) == LDAP_OPT_SUCCESS &&
        package) {
        snprintf(tls, tls_len, "%s, sessions not resumed", package);
        ldap_memfree(package);
    }
}
