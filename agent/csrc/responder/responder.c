/* SPDX-License-Identifier: Apache-2.0 */
#include "responder/responder.h"

#include "core/clock.h"
#include "core/slam_err.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define INPUT_BYTES (SLAM_CANNED_REQUEST_MAX + (64u << 10))
#define OUTPUT_BYTES (64u << 10)
#define EVENTS_MAX 256
#define UNSENT_MAX (16u << 20) /* bytes that a client may leave unread */

struct client {
    int fd;           /* -1: closed, but answers that wait still point here */
    size_t waiting;   /* answers */
    uint8_t *partial; /* the beginning of a request that is not complete */
    size_t partial_len;
    uint8_t *unsent; /* what the socket did not take, from unsent_at */
    size_t unsent_len;
    size_t unsent_at;
    LIST_ENTRY(client) in_clients;
};

struct slam_responder {
    int listen_fd;
    int wake_fd;
    int epoll_fd;
    bool is_listening; /* thread only: false while descriptors are used up */
    bool is_running;   /* owner only */
    uint16_t port;
    char *socket_path; /* owner only: to be removed */
    pthread_t thread;
    atomic_bool paused;
    atomic_bool stopping;

    LIST_HEAD(, client) clients; /* all below: thread only, but for the atomics */
    struct slam_delays delays;
    uint8_t *input;
    uint8_t output[OUTPUT_BYTES];
    size_t output_len;

    _Atomic uint64_t connections; /* written by the thread alone, as those below */
    _Atomic uint64_t protocol_errors;
    _Atomic uint64_t samples_lost;
    _Atomic uint64_t requests[SLAM_CANNED_KINDS];
    struct slam_responder_sample *record;
    size_t record_capacity;
    size_t record_len;       /* staged; received_ns still holds the stamp */
    atomic_size_t published; /* release by thread, acquire by owner */
};

static void
count(_Atomic uint64_t *counter)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, value + 1, memory_order_relaxed);
}

static void
client_free(struct client *c)
{
    LIST_REMOVE(c, in_clients);
    free(c->partial);
    free(c->unsent);
    free(c);
}

static bool
watch_listener(struct slam_responder *r)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &r->listen_fd};

    r->is_listening = epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->listen_fd, &event) == 0;
    return r->is_listening;
}

static void
client_close(struct slam_responder *r, struct client *c)
{
    /* a process that is just being forked may hold a copy of the descriptor */
    epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    c->fd = -1;
    if (c->waiting == 0)
        client_free(c);
    if (!r->is_listening)
        watch_listener(r);
}

static bool
watch(struct slam_responder *r, struct client *c, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};

    return epoll_ctl(r->epoll_fd, operation, c->fd, &event) == 0;
}

static void
accept_clients(struct slam_responder *r)
{
    for (;;) {
        int fd = accept4(r->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
                /* Wait for a client to leave, rather than be woken for nothing. */
                epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, r->listen_fd, NULL);
                r->is_listening = false;
            }
            return;
        }
        struct client *c = calloc(1, sizeof(*c));
        if (c == NULL) {
            close(fd);
            return;
        }
        c->fd = fd;
        LIST_INSERT_HEAD(&r->clients, c, in_clients);
        count(&r->connections);
        if (!watch(r, c, EPOLL_CTL_ADD, EPOLLIN))
            client_close(r, c);
    }
}

/* Completes the samples that wait for the answer's time, which is now. */
static void
publish_samples(struct slam_responder *r)
{
    size_t first = atomic_load_explicit(&r->published, memory_order_relaxed);

    if (first == r->record_len)
        return;
    uint64_t mono_ns = slam_clock_mono_ns();
    uint64_t real_ns = slam_clock_read_ns(CLOCK_REALTIME);
    for (size_t i = first; i < r->record_len; i++) {
        uint64_t stamp_ns = r->record[i].received_ns;
        uint64_t service_ns = real_ns > stamp_ns ? real_ns - stamp_ns : 0;

        r->record[i].service_ns = service_ns;
        r->record[i].received_ns = mono_ns - service_ns;
    }
    atomic_store_explicit(&r->published, r->record_len, memory_order_release);
}

/* Keeps what the socket did not take; the client is not read until it does. */
static bool
keep_unsent(struct slam_responder *r, struct client *c, const uint8_t *bytes,
            size_t len)
{
    if (c->unsent_len + len > UNSENT_MAX)
        return false;
    uint8_t *grown = realloc(c->unsent, c->unsent_len + len);
    if (grown == NULL)
        return false;
    memcpy(grown + c->unsent_len, bytes, len);
    c->unsent = grown;
    c->unsent_len += len;
    return watch(r, c, EPOLL_CTL_MOD, EPOLLOUT);
}

/* Sends r->output. Returns false when the client is to be closed. */
static bool
send_output(struct slam_responder *r, struct client *c)
{
    size_t len = r->output_len;
    ssize_t sent = 0;

    r->output_len = 0;
    publish_samples(r);
    if (len == 0)
        return true;
    if (c->unsent_len == 0) {
        sent = send(c->fd, r->output, len, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN)
                return false;
            sent = 0;
        }
    }
    return (size_t)sent == len ||
           keep_unsent(r, c, r->output + sent, len - (size_t)sent);
}

static bool
send_unsent(struct slam_responder *r, struct client *c)
{
    ssize_t sent = send(c->fd, c->unsent + c->unsent_at, c->unsent_len - c->unsent_at,
                        MSG_NOSIGNAL);

    if (sent < 0)
        return errno == EAGAIN;
    c->unsent_at += (size_t)sent;
    if (c->unsent_at < c->unsent_len)
        return true;
    c->unsent_at = 0;
    c->unsent_len = 0;
    return watch(r, c, EPOLL_CTL_MOD, EPOLLIN);
}

/* Appends the response; stamp_ns is CLOCK_REALTIME. False: close the client. */
static bool
put_answer(struct slam_responder *r, struct client *c, enum slam_canned_kind kind,
           int32_t message_id, uint64_t stamp_ns)
{
    if (OUTPUT_BYTES - r->output_len < SLAM_CANNED_ANSWER_MAX && !send_output(r, c))
        return false;
    r->output_len += slam_canned_answer(kind, message_id, r->output + r->output_len);
    if (slam_canned_is_load(kind) && r->record_capacity > 0) {
        if (r->record_len == r->record_capacity) {
            count(&r->samples_lost);
        } else {
            struct slam_responder_sample *sample = &r->record[r->record_len++];

            sample->received_ns = stamp_ns;
            sample->kind = kind;
        }
    }
    return true;
}

static bool
handle_request(struct slam_responder *r, struct client *c,
               const struct slam_canned_request *request, uint64_t stamp_ns)
{
    enum slam_canned_kind kind = request->kind;

    count(&r->requests[kind]);
    if (!slam_canned_has_answer(kind))
        return kind != SLAM_CANNED_UNBIND;
    if (!slam_canned_is_load(kind) || r->delays.mixture_len == 0)
        return put_answer(r, c, kind, request->message_id, stamp_ns);
    uint64_t now_ns = slam_clock_mono_ns();
    uint64_t due_ns = slam_delays_due(&r->delays, now_ns);
    if (due_ns == now_ns)
        return put_answer(r, c, kind, request->message_id, stamp_ns);
    struct slam_waiting waiting = {.due_ns = due_ns,
                                   .stamp_ns = stamp_ns,
                                   .client = c,
                                   .kind = kind,
                                   .message_id = request->message_id};
    if (!slam_heap_push(&r->delays.waiting, &waiting))
        return false;
    c->waiting++;
    return true;
}

/* Handles the complete requests. Returns the bytes used; -1: close the client. */
static ssize_t
handle_requests(struct slam_responder *r, struct client *c, const uint8_t *bytes,
                size_t len, uint64_t stamp_ns)
{
    struct slam_canned_request request;
    size_t used = 0;

    while (used < len) {
        int complete = slam_canned_parse(bytes + used, len - used, &request);

        if (complete == 0)
            break;
        if (complete < 0) {
            count(&r->protocol_errors);
            return -1;
        }
        if (!handle_request(r, c, &request, stamp_ns))
            return -1;
        used += request.len;
    }
    return (ssize_t)used;
}

/* The kernel's receive stamp, else the time now; CLOCK_REALTIME. */
static uint64_t
receive_stamp_ns(struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPING) {
            struct timespec ts; /* the first of three: the software stamp */

            memcpy(&ts, CMSG_DATA(c), sizeof(ts));
            if (ts.tv_sec != 0)
                return (uint64_t)ts.tv_sec * SLAM_NS_PER_S + (uint64_t)ts.tv_nsec;
        }
    }
    return slam_clock_read_ns(CLOCK_REALTIME);
}

/* One read and the responses to it. False: close the client. */
static bool
serve(struct slam_responder *r, struct client *c)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(3 * sizeof(struct timespec))];
    struct iovec iov = {.iov_base = r->input + c->partial_len,
                        .iov_len = INPUT_BYTES - c->partial_len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    uint64_t stamp_ns = 0;

    if (r->record_capacity > 0) {
        msg.msg_control = control;
        msg.msg_controllen = sizeof(control);
    }
    ssize_t got = recvmsg(c->fd, &msg, 0);
    if (got <= 0)
        return got < 0 && errno == EAGAIN;
    if (r->record_capacity > 0)
        stamp_ns = receive_stamp_ns(&msg);
    if (c->partial_len > 0)
        memcpy(r->input, c->partial, c->partial_len);
    size_t len = c->partial_len + (size_t)got;
    ssize_t used = handle_requests(r, c, r->input, len, stamp_ns);
    bool sent = send_output(r, c);
    if (used < 0 || !sent)
        return false;
    c->partial_len = len - (size_t)used;
    if (c->partial_len > 0) {
        uint8_t *partial = realloc(c->partial, c->partial_len);

        if (partial == NULL)
            return false;
        c->partial = partial;
        memcpy(partial, r->input + used, c->partial_len);
    }
    return true;
}

static void
answer_due(struct slam_responder *r, uint64_t now_ns)
{
    struct slam_waiting due;

    while (slam_delays_pop_due(&r->delays, now_ns, &due)) {
        struct client *c = due.client;

        c->waiting--;
        if (c->fd < 0) {
            if (c->waiting == 0)
                client_free(c);
        } else if (!put_answer(r, c, due.kind, due.message_id, due.stamp_ns) ||
                   !send_output(r, c)) {
            client_close(r, c);
        }
    }
}

static void
wait_while_paused(struct slam_responder *r)
{
    struct pollfd wake = {.fd = r->wake_fd, .events = POLLIN};
    uint64_t wakes;

    while (atomic_load(&r->paused) && !atomic_load(&r->stopping)) {
        poll(&wake, 1, -1);
        (void)!read(r->wake_fd, &wakes, sizeof(wakes));
    }
}

static void *
run(void *arg)
{
    struct slam_responder *r = arg;
    struct epoll_event events[EVENTS_MAX];
    uint64_t wakes;

    /* Timeouts to the ns, as far as the kernel can. */
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    while (!atomic_load(&r->stopping)) {
        struct timespec timeout;
        const struct timespec *timeout_or_none = NULL;

        wait_while_paused(r);
        if (r->delays.waiting.len > 0) {
            uint64_t now_ns = slam_clock_mono_ns();
            const struct slam_waiting *next;

            answer_due(r, now_ns);
            next = slam_heap_first(&r->delays.waiting);
            if (next) {
                timeout = slam_clock_timespec(slam_since_ns(next->due_ns, now_ns));
                timeout_or_none = &timeout;
            }
        }
        /* epoll_pwait2(), which glibc has since 2.35 only */
        int n = (int)syscall(SYS_epoll_pwait2, r->epoll_fd, events, EVENTS_MAX,
                             timeout_or_none, NULL, 0);
        for (int i = 0; i < n && !atomic_load(&r->paused); i++) {
            void *ptr = events[i].data.ptr;
            struct client *c = ptr;

            if (ptr == &r->wake_fd)
                (void)!read(r->wake_fd, &wakes, sizeof(wakes));
            else if (ptr == &r->listen_fd)
                accept_clients(r);
            else if (!(c->unsent_len > 0 ? send_unsent(r, c) : serve(r, c)))
                client_close(r, c);
        }
    }
    return NULL;
}

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
                          options->in_turn, options->seed);
    if (rc == SLAM_EINVAL) {
        snprintf(err, SLAM_ERR_LEN,
                 "the weights of the delays must have a sum in 1..2^64-1");
    }
    if (rc != SLAM_OK)
        goto out;
    r->input = malloc(INPUT_BYTES);
    /* pages are touched as the record grows */
    r->record = calloc(options->record_capacity + 1, sizeof(*r->record));
    r->record_capacity = options->record_capacity;
    rc = r->input && r->record ? listen_on(r, options, err) : SLAM_ENOMEM;
    if (rc != SLAM_OK)
        goto out;
    wake.data.ptr = &r->wake_fd;
    if (r->wake_fd < 0 || !watch_listener(r) ||
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
    int rc = pthread_create(&r->thread, NULL, run, r);
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
    for (struct client *c; (c = LIST_FIRST(&r->clients)) != NULL; client_free(c))
        if (c->fd >= 0)
            close(c->fd);
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
