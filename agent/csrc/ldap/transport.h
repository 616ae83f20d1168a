/* SPDX-License-Identifier: Apache-2.0 */
/* One LDAP connection: set up by libldap (connect, TLS, bind; blocking, in a connector
 * thread), then carried by its Sockbuf without libldap (non-blocking, in a worker). It
 * belongs to one thread at a time.
 *
 * Two Sockbuf_IO layers replace libldap's: `provider` reads the socket with recvmsg and
 * keeps the kernel's receive stamp; `tap`, above TLS, reads and writes the plain text.
 *
 * Every TLS handshake is a full one: libldap can resume sessions only with OpenSSL, and
 * loads must not differ by how a distribution built it. */
#ifndef SLAM_TRANSPORT_H
#define SLAM_TRANSPORT_H

#include "core/cause.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SLAM_CACHE_LINE 64u

/* How a stream's connections are made. The texts are the caller's. */
struct slam_tls_settings {
    bool start_tls;
    bool verify;           /* the server's certificate */
    const char *ca_file;   /* NULL: libldap's default */
    const char *cert_file; /* the client's certificate and its key, PEM; NULL: none */
    const char *key_file;
};

struct slam_bind_settings {
    const char *dn; /* NULL and no mechanism: anonymous, no bind request is sent */
    const char *password; /* of the simple bind or of SASL; need not end with NUL */
    size_t password_len;
    const char *mechanism; /* SASL; NULL: simple bind with dn */
    const char *authcid;   /* SASL's texts; NULL: none */
    const char *authzid;
    const char *realm;
};

struct slam_connection_settings {
    const char *const *uris;
    size_t uri_count;
    /* For each URI the addresses to connect to, "ADDRESS/PORT" with spaces between
     * them; "", or no addresses at all: libldap resolves the name. */
    const char *const *addresses;
    size_t address_count; /* uri_count or 0 */
    struct slam_tls_settings tls;
    struct slam_bind_settings bind;
    uint64_t connect_timeout_ns;   /* for each of connect, TLS, bind */
    uint64_t reconnect_operations; /* requests of one connection; 0: no limit */
    uint64_t reconnect_ns;         /* longest life of a connection; 0: no limit */
    uint64_t reconnect_wait_ns;    /* after a failed attempt; 0: one tries for all */
    uint64_t connect_spacing_ns;   /* connection n is set up n times that later */
    /* slam_connection_settings_prepare: NULL: libldap's default */
    void *tls_context;
};

enum slam_conn_stage {
    SLAM_STAGE_CONNECT,
    SLAM_STAGE_TLS,
    SLAM_STAGE_BIND,
    SLAM_STAGE_HANDOVER
};

struct slam_conn_error {
    enum slam_conn_stage stage;
    int code; /* LDAP result code, or libldap's negative API code */
    enum slam_cause cause;
    char uri[256];
    char detail[512];
};

struct slam_transport_setup {
    uint64_t connect_ns; /* resolve the name, connect the socket */
    uint64_t tls_ns;     /* the handshake, and StartTLS's exchange before it; 0: none */
    uint64_t bind_ns;    /* all its steps; 0: none */
    uint64_t total_ns;   /* all of it, with the hand-over; of a failed one, too */
    enum slam_cause cause; /* of a failed one */
    uint32_t binds;        /* requests sent: one for each step of a SASL bind */
    uint32_t extended;     /* StartTLS */
};

struct slam_transport; /* libldap's handle, the Sockbuf and our layers */

/* Initialises libldap and libsasl; before threads start, which could do so at once. */
void slam_transport_init(void);

/* Makes the TLS context that all connections share, and checks the SASL mechanism.
 * After slam_transport_init, before the first slam_transport_open. Returns 0, or
 * SLAM_ECONNECT with *error. */
int slam_connection_settings_prepare(struct slam_connection_settings *config,
                                     struct slam_conn_error *error);

/* Whether libsasl has the mechanism on this host: 0, or SLAM_ECONNECT with *error. */
int
slam_connection_settings_check_mechanism(const struct slam_connection_settings *config,
                                         const char *mechanism,
                                         struct slam_conn_error *error);

/* After the last slam_transport_close; also for settings that were never prepared. */
void slam_connection_settings_release(struct slam_connection_settings *config);

/* Bytes of a transport, a multiple of SLAM_CACHE_LINE. Keep the transports of all
 * connections in one table: a TLB miss for each is a fourth of a request's CPU time. */
size_t slam_transport_size(void);

/* Connects, starts TLS, binds and makes the socket non-blocking, in at most three times
 * connect_timeout_ns. Returns 0 and *transport, made in storage (slam_transport_size
 * bytes on a cache line, 0 at first), or SLAM_ECONNECT with *error; *setup is filled
 * either way. SIGPIPE must be blocked: libldap writes without MSG_NOSIGNAL. */
int slam_transport_open(const struct slam_connection_settings *config, size_t uri_index,
                        void *storage, struct slam_transport **transport,
                        struct slam_transport_setup *setup,
                        struct slam_conn_error *error);

/* Closes without an unbind. The storage may be used again. NULL is allowed. */
void slam_transport_close(struct slam_transport *transport);

int slam_transport_fd(const struct slam_transport *transport);

bool slam_transport_has_stamps(const struct slam_transport *transport);

/* Call it when epoll says that the socket is readable, before slam_transport_read;
 * hung_up: the peer has sent its last byte, or the connection is broken. Epoll may
 * watch edges: reads end when the socket is empty, or slam_transport_was_cut is
 * true. */
void slam_transport_readable(struct slam_transport *transport, bool hung_up);

/* Whether reads were ended to give other connections their turn. */
bool slam_transport_was_cut(const struct slam_transport *transport);

/* Reads plain text. Returns its bytes; 0: no more now; -1: closed or broken. */
ssize_t slam_transport_read(struct slam_transport *transport, uint8_t *buf, size_t len);

/* Kernel stamp of the last byte read from the socket, CLOCK_REALTIME in ns; 0: none. */
uint64_t slam_transport_stamp_ns(const struct slam_transport *transport);

/* Writes plain text. Returns the bytes taken; 0: the socket is full (call again with
 * the same bytes when it is writable: TLS demands it); -1: the connection broke. */
ssize_t slam_transport_write(struct slam_transport *transport, const uint8_t *buf,
                             size_t len);

void slam_transport_library(char *version, size_t version_len, char *tls,
                            size_t tls_len);

#endif
