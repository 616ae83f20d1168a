/* SPDX-License-Identifier: Apache-2.0 */
#include "ldap/dial.h"
#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* An IPv6 address with its zone, a slash and a port. */
#define MAX_ADDRESS 128

/* Waits until the socket is connected. Returns 0, or the errno of what went wrong. */
static int
await_connection(int fd, uint64_t deadline_ns)
{
    struct pollfd waiting = {.fd = fd, .events = POLLOUT};
    int fault = 0;
    socklen_t len = sizeof(fault);

    for (;;) {
        uint64_t now_ns = slam_clock_mono_ns();
        uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        struct timespec limit = {.tv_sec = (time_t)(left_ns / SLAM_NS_PER_S),
                                 .tv_nsec = (long)(left_ns % SLAM_NS_PER_S)};
        int ready = ppoll(&waiting, 1, &limit, NULL);

        if (ready == 0)
            return ETIMEDOUT;
        if (ready > 0)
            break;
        if (errno != EINTR)
            return errno;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &len) != 0)
        return errno;
    return fault;
}

/* As libldap prepares its sockets. Returns 0 or an errno. */
static int
connect_socket(int fd, const struct addrinfo *to, uint64_t timeout_ns)
{
    const int on = 1;
    uint64_t deadline_ns = slam_clock_mono_ns() + timeout_ns;
    int fault;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0) {
        if (errno != EINPROGRESS)
            return errno;
        fault = await_connection(fd, deadline_ns);
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

int
slam_dial(const char *addresses, uint64_t timeout_ns)
{
    int fd = -1;

    errno = EINVAL;
    while (fd < 0 && *addresses) {
        size_t len = strcspn(addresses, " ");
        char address[MAX_ADDRESS];

        if (len > 0 && len < sizeof(address)) {
            memcpy(address, addresses, len);
            address[len] = '\0';
            fd = dial_one(address, timeout_ns);
        }
        addresses += len + (addresses[len] == ' ');
    }
    return fd;
}
