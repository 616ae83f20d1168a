/* SPDX-License-Identifier: Apache-2.0 */
#include "ldap/conn_internal.h"

#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Above TLS (20) and a SASL security layer (30). */
#define LEVEL_TAP 40

/* A TLS library reads a record's five-byte header first; one recvmsg serves both. */
#define READ_AHEAD_BYTES 16384u

/* A peer that sends faster than we read must leave the other connections their turn. */
#define READS_PER_TURN 16u

/* -- provider: the socket -- */

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
    const struct slam_wire *wire = sbiod->sbiod_pvt;

    return close(wire->fd);
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
socket_read(struct slam_wire *wire, void *buf, ber_len_t len)
{
    union {
        char bytes[CMSG_SPACE(sizeof(struct scm_timestamping))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (wire->drained) {
        errno = EAGAIN;
        return -1;
    }
    if (wire->has_stamps) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
    }
    do
        n = recvmsg(wire->fd, &msg, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -1;
    if (n == 0) {
        wire->at_eof = true;
        return 0;
    }
    wire->stamp_ns = wire->has_stamps ? stamp_of(&msg) : 0;
    /* a short read emptied the socket: what comes later is another edge for epoll */
    wire->drained =
        ++wire->reads == READS_PER_TURN || ((size_t)n < len && !wire->hung_up);
    return n;
}

static ber_slen_t
provider_read(Sockbuf_IO_Desc *sbiod, void *buf, ber_len_t len)
{
    struct slam_wire *wire = sbiod->sbiod_pvt;
    size_t n;

    if (!wire->ahead)
        return socket_read(wire, buf, len);
    if (wire->ahead_pos == wire->ahead_len) {
        ber_slen_t got = socket_read(wire, wire->ahead, READ_AHEAD_BYTES);

        if (got <= 0)
            return got;
        wire->ahead_pos = 0;
        wire->ahead_len = (uint32_t)got;
    }
    n = wire->ahead_len - wire->ahead_pos;
    n = n < len ? n : len;
    memcpy(buf, wire->ahead + wire->ahead_pos, n);
    wire->ahead_pos += (uint32_t)n;
    wire->ahead_taken += n;
    return (ber_slen_t)n;
}

static ber_slen_t
socket_write(const struct slam_wire *wire, const void *buf, ber_len_t len)
{
    ssize_t n;

    do
        n = send(wire->fd, buf, len, MSG_NOSIGNAL);
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

/* -- tap: above everything libldap put on the socket -- */

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
    struct slam_wire *wire = arg;

    sbiod->sbiod_pvt = wire;
    wire->tap = sbiod;
    return 0;
}

static Sockbuf_IO tap_io = {tap_setup, layer_remove, layer_ctrl,
                            tap_read,  tap_write,    tap_close};

/* -- hand-over -- */

/* What a set-up is answered is small; libldap allocates any length that is claimed. */
#define SETUP_RESPONSE_BYTES ((ber_len_t)1 << 20)

int
slam_wire_limit(struct slam_wire *wire)
{
    ber_len_t most = SETUP_RESPONSE_BYTES;
    Sockbuf *sb = NULL;

    if (ldap_get_option(wire->ld, LDAP_OPT_SOCKBUF, &sb) != LDAP_OPT_SUCCESS || !sb ||
        ber_sockbuf_ctrl(sb, LBER_SB_OPT_SET_MAX_INCOMING, &most) < 0)
        return LDAP_LOCAL_ERROR;
    return LDAP_SUCCESS;
}

int
slam_wire_take_over(struct slam_wire *wire)
{
    const int on = 1;
    const unsigned int stamping =
        SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    Sockbuf *sb = NULL;
    struct sockaddr_storage address;
    socklen_t address_len = sizeof(address);
    int flags;
    bool tls = ldap_tls_inplace(wire->ld) == 1;

    if (ldap_get_option(wire->ld, LDAP_OPT_SOCKBUF, &sb) != LDAP_OPT_SUCCESS || !sb ||
        ldap_get_option(wire->ld, LDAP_OPT_DESC, &wire->fd) != LDAP_OPT_SUCCESS)
        return LDAP_LOCAL_ERROR;
    ber_sockbuf_remove_io(sb, &ber_sockbuf_io_tcp, LBER_SBIOD_LEVEL_PROVIDER);
    ber_sockbuf_remove_io(sb, &ber_sockbuf_io_fd, LBER_SBIOD_LEVEL_PROVIDER);
    if (ber_sockbuf_add_io(sb, &provider_io, LBER_SBIOD_LEVEL_PROVIDER, wire) != 0 ||
        ber_sockbuf_add_io(sb, &tap_io, LEVEL_TAP, wire) != 0)
        return LDAP_NO_MEMORY;
    wire->plain = !tls;
    if (tls) {
        wire->ahead = malloc(READ_AHEAD_BYTES);
        if (!wire->ahead)
            return LDAP_NO_MEMORY;
    }
    if (getsockname(wire->fd, (struct sockaddr *)&address, &address_len) == 0 &&
        address.ss_family != AF_UNIX) {
        setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        wire->has_stamps = setsockopt(wire->fd, SOL_SOCKET, SO_TIMESTAMPING, &stamping,
                                      sizeof(stamping)) == 0;
    }
    flags = fcntl(wire->fd, F_GETFL);
    if (flags < 0 || fcntl(wire->fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return LDAP_LOCAL_ERROR;
    return LDAP_SUCCESS;
}

/* -- carrying -- */

int
slam_wire_fd(const struct slam_wire *wire)
{
    return wire->fd;
}

bool
slam_wire_has_stamps(const struct slam_wire *wire)
{
    return wire->has_stamps;
}

void
slam_wire_readable(struct slam_wire *wire, bool hung_up)
{
    wire->drained = false;
    wire->hung_up = hung_up;
    wire->reads = 0;
}

bool
slam_wire_was_cut(const struct slam_wire *wire)
{
    return wire->reads == READS_PER_TURN;
}

/* TLS layers return 0 or -1 with EWOULDBLOCK set for "not yet". */
static bool
would_block(const struct slam_wire *wire)
{
    return !wire->at_eof && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

ssize_t
slam_wire_read(struct slam_wire *wire, uint8_t *buf, size_t len)
{
    ber_slen_t n;
    uint64_t taken;

    /* A TLS library says "not yet" after a record that holds no data, such as a session
     * ticket. What it left of the bytes read ahead will not wake epoll: ask again. */
    do {
        taken = wire->ahead_taken;
        errno = 0;
        n = wire->plain ? socket_read(wire, buf, len)
                        : LBER_SBIOD_READ_NEXT(wire->tap, buf, len);
    } while (n <= 0 && would_block(wire) && wire->ahead_pos < wire->ahead_len &&
             wire->ahead_taken != taken);
    if (n > 0)
        return n;
    return would_block(wire) ? 0 : -1;
}

uint64_t
slam_wire_stamp_ns(const struct slam_wire *wire)
{
    return wire->stamp_ns;
}

ssize_t
slam_wire_write(struct slam_wire *wire, const uint8_t *buf, size_t len)
{
    /* sbi_write takes a pointer to non-const, and does not write through it */
    union {
        const uint8_t *in;
        void *out;
    } bytes = {.in = buf};
    ber_slen_t n;

    errno = 0;
    n = wire->plain ? socket_write(wire, buf, len)
                    : LBER_SBIOD_WRITE_NEXT(wire->tap, bytes.out, len);
    if (n > 0)
        return n;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    return -1;
}

/* -- end -- */

void
slam_wire_close(struct slam_wire *wire)
{
    if (!wire)
        return;
    if (wire->ld) {
        int fd = -1;

        /* libldap would send an unbind whenever the socket still takes it */
        if (ldap_get_option(wire->ld, LDAP_OPT_DESC, &fd) == LDAP_OPT_SUCCESS &&
            fd >= 0)
            shutdown(fd, SHUT_RDWR);
        ldap_unbind_ext(wire->ld, NULL, NULL);
    }
    free(wire->ahead);
}

/* -- facts -- */

size_t
slam_wire_size(void)
{
    return sizeof(struct slam_wire);
}

void
slam_wire_library(char *version, size_t version_len, char *tls, size_t tls_len)
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
