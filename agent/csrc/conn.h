/* SPDX-License-Identifier: Apache-2.0 */
/* One LDAP connection: set up by libldap (connect, TLS, bind; blocking, in a connector
 * thread), then carried by its Sockbuf without libldap (non-blocking, in a worker).
 *
 * Two Sockbuf_IO layers of our own take the place of libldap's: `provider` reads the
 * socket with recvmsg and keeps the kernel's receive stamp; `tap`, above TLS, gives the
 * engine raw reads and writes of the plain text. conn.c is the only file that includes
 * ldap.h; nothing of it shows here. A connection belongs to one thread at a time. */
#ifndef SLAM_CONN_H
#define SLAM_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What the processor fetches from memory at once. */
#define SLAM_CACHE_LINE 64u

/* What a stream's connections have in common. Read only once connections exist. */
struct slam_conn_config {
    char **uris;
    size_t uri_count;
    bool start_tls;
    bool verify;   /* the server's certificate */
    char *ca_file; /* NULL: libldap's default */
    char *bind_dn; /* NULL: anonymous, no bind request is sent */
    char *bind_password;
    size_t bind_password_len;
    uint64_t connect_timeout_ns; /* for each of connect, TLS, bind */
};

enum slam_conn_stage {
    SLAM_STAGE_CONNECT,
    SLAM_STAGE_TLS,
    SLAM_STAGE_BIND,
    SLAM_STAGE_HANDOVER
};

/* Why a connection could not be set up. */
struct slam_conn_error {
    enum slam_conn_stage stage;
    int code; /* LDAP result code, or libldap's negative API code */
    char uri[256];
    char detail[512];
};

struct slam_wire; /* libldap's handle, the Sockbuf and our layers */

/* Has libldap set its global options up. It does so at first use, and not safely when
 * several threads come first: to be called before they start. */
void slam_wire_init(void);

/* Bytes of a wire, a multiple of SLAM_CACHE_LINE. Its owner keeps the wires of all
 * connections in one table: scattered over the heap, each would cost a worker a miss of
 * the TLB, which in a virtual machine is a fourth of a request's CPU time. */
size_t slam_wire_size(void);

/* Connects, starts TLS, binds and makes the socket non-blocking. Blocks for at most
 * three times connect_timeout_ns. Returns 0 and *wire, which is made in storage
 * (slam_wire_size bytes on a cache line), with the time it took in *elapsed_ns; or
 * SLAM_ECONNECT with *error filled. Any thread. */
int slam_wire_open(const struct slam_conn_config *config, size_t uri_index,
                   void *storage, struct slam_wire **wire, uint64_t *elapsed_ns,
                   struct slam_conn_error *error);

/* Closes; with `polite`, says unbind first. The storage may be used again. NULL is
 * allowed. */
void slam_wire_close(struct slam_wire *wire, bool polite);

int slam_wire_fd(const struct slam_wire *wire);

/* True where the kernel stamps what this connection receives. */
bool slam_wire_has_stamps(const struct slam_wire *wire);

/* To be called when epoll says that the socket is readable, before slam_wire_read. */
void slam_wire_readable(struct slam_wire *wire);

/* Reads plain text. Returns the bytes read; 0 when no more is there now; -1 when the
 * peer closed or the connection broke. */
ssize_t slam_wire_read(struct slam_wire *wire, uint8_t *buf, size_t len);

/* Kernel stamp of the last byte read from the socket, CLOCK_REALTIME in ns; 0: none. */
uint64_t slam_wire_stamp_ns(const struct slam_wire *wire);

/* Writes plain text. Returns the bytes taken; 0 when the socket is full (call again
 * with the same bytes when it is writable: TLS demands it); -1 when the connection
 * broke. */
ssize_t slam_wire_write(struct slam_wire *wire, const uint8_t *buf, size_t len);

/* What libldap is and carries. */
void slam_wire_library(char *version, size_t version_len, char *tls, size_t tls_len);

#endif
