/* SPDX-License-Identifier: Apache-2.0 */
#include "responder/responder.h"

#include "core/slam_err.h"
#include "responder/responder_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int
listen_on(struct slam_responder *r, const struct slam_responder_options *options,
          char *err)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr *address = (struct sockaddr *)&in;
    socklen_t address_len = sizeof(in);
    int one = 1;

    if (options->socket_path != NULL) {
        size_t len = strlen(options->socket_path);

        if (len == 0 || len >= sizeof(un.sun_path))
            return slam_fail(err, SLAM_EINVAL,
                             "the socket's path has %zu bytes, allowed are 1 to %zu",
                             len, sizeof(un.sun_path) - 1);
        memcpy(un.sun_path, options->socket_path, len);
        address = (struct sockaddr *)&un;
        address_len = sizeof(un);
    }
    r->listen_fd =
        socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (r->listen_fd < 0)
        return slam_fail(err, SLAM_ESYS, "socket: %s", strerror(errno));
    /* Accepted sockets inherit both options. */
    if (options->socket_path == NULL) {
        int stamps = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;

        setsockopt(r->listen_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (options->record_capacity > 0) {
            setsockopt(r->listen_fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps,
                       sizeof(stamps));
        }
    }
    if (bind(r->listen_fd, address, address_len) < 0)
        return slam_fail(err, SLAM_ESYS, "bind: %s", strerror(errno));
    if (options->socket_path != NULL) {
        r->socket_path = strdup(options->socket_path);
        if (r->socket_path == NULL) {
            unlink(options->socket_path);
            return SLAM_ENOMEM;
        }
    } else {
        getsockname(r->listen_fd, address, &address_len);
        r->port = ntohs(in.sin_port);
    }
    if (listen(r->listen_fd, SOMAXCONN) < 0)
        return slam_fail(err, SLAM_ESYS, "listen: %s", strerror(errno));
    return SLAM_OK;
}

static int
allocate(struct slam_responder *r, const struct slam_responder_options *options)
{
    r->input = malloc(SLAM_RESPONDER_INPUT_BYTES);
    if (r->input == NULL)
        return SLAM_ENOMEM;
    if (options->record_capacity > 0) {
        /* Pages are touched as the record grows. */
        r->record = calloc(options->record_capacity, sizeof(*r->record));
        if (r->record == NULL)
            return SLAM_ENOMEM;
        r->record_capacity = options->record_capacity;
    }
    return SLAM_OK;
}

int
slam_responder_create(const struct slam_responder_options *options,
                      struct slam_responder **responder, char *err)
{
    struct slam_responder *r = calloc(1, sizeof(*r));
    struct epoll_event wake = {.events = EPOLLIN};
    int rc = SLAM_ENOMEM;

    if (r == NULL)
        goto out;
    r->listen_fd = -1;
    r->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    rc = slam_delays_init(&r->delays, options->delays, options->delay_count,
                          options->seed);
    if (rc == SLAM_EINVAL) {
        snprintf(err, SLAM_ERR_LEN,
                 "the weights of the delays must have a sum in 1..2^64-1");
    }
    if (rc != SLAM_OK)
        goto out;
    rc = allocate(r, options);
    if (rc != SLAM_OK)
        goto out;
    rc = listen_on(r, options, err);
    if (rc != SLAM_OK)
        goto out;
    wake.data.ptr = &r->wake_fd;
    if (r->wake_fd < 0 || !slam_responder_listen(r) ||
        epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->wake_fd, &wake) < 0) {
        snprintf(err, SLAM_ERR_LEN, "epoll: %s", strerror(errno));
        rc = SLAM_ESYS;
        goto out;
    }
    *responder = r;
    r = NULL;
out:
    if (rc == SLAM_ENOMEM)
        snprintf(err, SLAM_ERR_LEN, "no memory for a responder");
    slam_responder_destroy(r);
    return rc;
}

int
slam_responder_start(struct slam_responder *r, char *err)
{
    sigset_t all, old;

    if (r->is_running)
        return slam_fail(err, SLAM_ESTATE, "the responder is running");
    atomic_store(&r->stopping, false);
    /* Signals are for the process's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&r->thread, NULL, slam_responder_run, r);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return slam_fail(err, SLAM_ESYS, "pthread_create: %s", strerror(rc));
    r->is_running = true;
    return SLAM_OK;
}

static void
wake_thread(struct slam_responder *r)
{
    uint64_t one = 1;

    (void)!write(r->wake_fd, &one, sizeof(one));
}

void
slam_responder_stop(struct slam_responder *r)
{
    if (r->is_running) {
        atomic_store(&r->stopping, true);
        wake_thread(r);
        pthread_join(r->thread, NULL);
        r->is_running = false;
    }
}

void
slam_responder_destroy(struct slam_responder *r)
{
    if (r == NULL)
        return;
    slam_responder_stop(r);
    while (r->clients != NULL) {
        if (r->clients->fd >= 0)
            close(r->clients->fd);
        slam_responder_client_free(r->clients);
    }
    const int fds[] = {r->listen_fd, r->wake_fd, r->epoll_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (r->socket_path != NULL)
        unlink(r->socket_path);
    free(r->socket_path);
    slam_delays_destroy(&r->delays);
    free(r->input);
    free(r->record);
    free(r);
}

void
slam_responder_pause(struct slam_responder *r)
{
    atomic_store(&r->paused, true);
    wake_thread(r);
}

void
slam_responder_resume(struct slam_responder *r)
{
    atomic_store(&r->paused, false);
    wake_thread(r);
}

uint16_t
slam_responder_port(const struct slam_responder *r)
{
    return r->port;
}

void
slam_responder_counts(const struct slam_responder *r,
                      struct slam_responder_counts *counts)
{
    counts->connections = atomic_load(&r->connections);
    counts->protocol_errors = atomic_load(&r->protocol_errors);
    counts->samples_lost = atomic_load(&r->samples_lost);
    for (size_t i = 0; i < SLAM_CANNED_KINDS; i++)
        counts->requests[i] = atomic_load(&r->requests[i]);
}

const struct slam_responder_sample *
slam_responder_record(const struct slam_responder *r, size_t *count_out)
{
    *count_out = atomic_load_explicit(&r->published, memory_order_acquire);
    return r->record;
}
