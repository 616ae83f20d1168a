/* SPDX-License-Identifier: Apache-2.0 */
/* How a stream's connections are made. Read only once connections exist. The texts are
 * the caller's and stay until the last connection is closed. */
#ifndef SLAM_CONNECTION_SETTINGS_H
#define SLAM_CONNECTION_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    /* Of each URI, where to connect (slam_dial's), "" where libldap resolves its name;
     * none: so for all. TLS and SASL know the host by its name either way. */
    const char *const *addresses;
    size_t address_count; /* uri_count or 0 */
    struct slam_tls_settings tls;
    struct slam_bind_settings bind;
    uint64_t connect_timeout_ns;   /* for each of connect, TLS, bind */
    uint64_t reconnect_operations; /* requests of one connection; 0: no limit */
    uint64_t reconnect_ns;         /* longest life of a connection; 0: no limit */
    uint64_t connect_spacing_ns;   /* connection n is set up n times that later */
    /* slam_connection_settings_prepare: NULL: libldap's default */
    void *tls_context;
};

#endif
