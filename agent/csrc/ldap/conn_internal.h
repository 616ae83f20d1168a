/* SPDX-License-Identifier: Apache-2.0 */
/* What conn_setup.c (libldap's part of a connection's life) and conn.c (ours) share;
 * nobody else includes it, nor ldap.h. */
#ifndef SLAM_CONN_INTERNAL_H
#define SLAM_CONN_INTERNAL_H

#include "ldap/conn.h"
#include "ldap/deadline.h"

#include <ldap.h>
#include <openldap.h>

/* The first cache line is all that a request touches. */
struct slam_wire {
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
    uint64_t connected_ns; /* when the socket was, CLOCK_MONOTONIC; 0: not yet */
    struct slam_deadline *handshake; /* during set-up with TLS, else NULL */
    uint64_t handshake_limit_ns;
};

/* Has libldap refuse what is too long for a set-up's response. Returns an LDAP result
 * code. */
int slam_wire_limit(struct slam_wire *wire);

/* Takes the connection's Sockbuf over: our provider for libldap's, our tap on top.
 * Returns an LDAP result code. */
int slam_wire_take_over(struct slam_wire *wire);

#endif
