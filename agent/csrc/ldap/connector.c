/* SPDX-License-Identifier: Apache-2.0 */
#include "ldap/connector.h"

#include "core/clock.h"
#include "core/heap.h"
#include "core/slam_err.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* libldap, the TLS library and the resolver take less. */
#define STACK_BYTES (512u << 10)

/* Set-ups at once before the run. The queue of a listening directory is longer (389-DS:
 * 128); what it dropped would be tried again by the kernel a second later. Connections
 * without TLS and bind wait in that queue: a stream's spacing is for those. */
#define FIRST_AT_ONCE 64u

struct slam_connector {
    pthread_mutex_t lock;
    pthread_cond_t due;     /* for the leader: something may be due earlier */
    pthread_cond_t follow;  /* for the others: the leader has gone to work */
    pthread_cond_t settled; /* for slam_connector_wait */
    struct slam_heap heap;  /* protected by lock: of struct queued */
    size_t under_way;       /* protected by lock */
    size_t failures;        /* protected by lock */
    struct slam_conn_error first_error; /* protected by lock */
    bool led;                           /* protected by lock: a thread waits on `due` */
    bool stopping;                      /* protected by lock */
    bool waited;         /* protected by lock: slam_connector_wait is over */
    size_t idle;         /* protected by lock: threads without work */
    pthread_t *threads;  /* protected by lock, until they are joined */
    size_t thread_count; /* protected by lock */
    size_t thread_limit;
    pthread_attr_t attributes;
};

int
slam_inbox_init(struct slam_inbox *inbox)
{
    inbox->head = NULL;
    pthread_mutex_init(&inbox->lock, NULL);
    inbox->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return inbox->event_fd < 0 ? SLAM_ESYS : SLAM_OK;
}

void
slam_inbox_destroy(struct slam_inbox *inbox)
{
    if (inbox->event_fd >= 0)
        close(inbox->event_fd);
    pthread_mutex_destroy(&inbox->lock);
}

struct slam_connect_request *
slam_inbox_take(struct slam_inbox *inbox)
{
    struct slam_connect_request *head;

    pthread_mutex_lock(&inbox->lock);
    head = inbox->head;
    inbox->head = NULL;
    pthread_mutex_unlock(&inbox->lock);
    return head;
}

void
slam_inbox_wake(struct slam_inbox *inbox)
{
    eventfd_write(inbox->event_fd, 1);
}

static void
deliver(struct slam_connect_request *request)
{
    struct slam_inbox *inbox = request->inbox;

    pthread_mutex_lock(&inbox->lock);
    request->next = inbox->head;
    inbox->head = request;
    pthread_mutex_unlock(&inbox->lock);
    slam_inbox_wake(inbox);
}

struct queued {
    uint64_t due_ns;
    struct slam_connect_request *request;
};

/* Called with the lock held. An old transport is closed at once, whenever the new one
 * is due. The heap has room for all requests. */
static void
queue(struct slam_connector *c, struct slam_connect_request *request)
{
    const struct queued queued = {request->transport ? 0 : request->due_ns, request};

    slam_heap_push(&c->heap, &queued);
}

/* Waits for a request that is due. One thread, the leader, waits for the time; the
 * others wait for the leader to go to work. Called and returns with the lock held;
 * NULL: stop.
 */
static struct slam_connect_request *
next_due(struct slam_connector *c)
{
    while (!c->stopping) {
        const struct queued *first = slam_heap_first(&c->heap);
        bool may_begin = first && (c->waited || c->under_way < FIRST_AT_ONCE);

        if (may_begin && first->due_ns <= slam_clock_mono_ns()) {
            struct queued taken;

            slam_heap_pop(&c->heap, &taken);
            return taken.request;
        }
        if (c->led) {
            pthread_cond_wait(&c->follow, &c->lock);
            continue;
        }
        c->led = true;
        if (!may_begin) {
            pthread_cond_wait(&c->due, &c->lock);
        } else {
            struct timespec due = slam_clock_timespec(first->due_ns);

            pthread_cond_timedwait(&c->due, &c->lock, &due);
        }
        c->led = false;
    }
    return NULL;
}

static void *connector_main(void *arg);

/* Called with the lock held. */
static bool
start_thread(struct slam_connector *c)
{
    if (pthread_create(&c->threads[c->thread_count], &c->attributes, connector_main, c))
        return false;
    c->thread_count++;
    c->idle++;
    return true;
}

static int
set_up(struct slam_connect_request *request, struct slam_conn_error *error)
{
    struct slam_transport *transport = NULL;
    int rc;

    rc = slam_transport_open(request->config, request->uri_index, request->storage,
                             &transport, &request->setup, error);
    request->transport = transport;
    deliver(request);
    return rc;
}

static void *
connector_main(void *arg)
{
    struct slam_connector *c = arg;
    struct slam_connect_request *request;
    sigset_t all;

    /* Signals are for the process's own threads; and libldap writes to sockets that may
     * be closed, without asking for no SIGPIPE. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_mutex_lock(&c->lock);
    while ((request = next_due(c)) != NULL) {
        struct slam_conn_error error = {0};
        bool closes = request->transport != NULL;
        int rc = SLAM_OK;

        c->under_way++;
        c->idle--;
        /* somebody must wait for what is due next */
        if (c->idle > 0)
            pthread_cond_signal(&c->follow);
        else if (c->thread_count < c->thread_limit)
            start_thread(c);
        pthread_mutex_unlock(&c->lock);
        if (closes) {
            slam_transport_close(request->transport);
            request->transport = NULL;
        }
        if (request->due_ns <= slam_clock_mono_ns()) {
            rc = set_up(request, &error);
            request = NULL;
        }
        pthread_mutex_lock(&c->lock);
        if (request)
            queue(c, request);
        c->under_way--;
        c->idle++;
        /* who leads by now may be waiting for a request that is due later */
        if (request || !c->waited)
            pthread_cond_signal(&c->due);
        if (rc != SLAM_OK && c->failures++ == 0)
            c->first_error = error;
        pthread_cond_broadcast(&c->settled);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int
slam_connector_create(size_t threads, size_t max_requests, struct slam_connector **out)
{
    struct slam_connector *c = calloc(1, sizeof(*c));
    pthread_condattr_t attr;
    bool started;

    if (!c)
        return SLAM_ENOMEM;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->due, &attr);
    pthread_condattr_destroy(&attr);
    pthread_cond_init(&c->follow, NULL);
    pthread_cond_init(&c->settled, NULL);
    pthread_attr_init(&c->attributes);
    pthread_attr_setstacksize(&c->attributes, STACK_BYTES);
    c->thread_limit = threads;
    c->heap =
        (struct slam_heap){.element_bytes = sizeof(struct queued),
                           .max_len = max_requests,
                           .capacity = max_requests,
                           .elements = calloc(max_requests + 1, sizeof(struct queued))};
    c->threads = calloc(threads, sizeof(*c->threads));
    if (!c->heap.elements || !c->threads) {
        slam_connector_destroy(c);
        return SLAM_ENOMEM;
    }
    pthread_mutex_lock(&c->lock);
    started = start_thread(c);
    pthread_mutex_unlock(&c->lock);
    if (!started) {
        slam_connector_destroy(c);
        return SLAM_ESYS;
    }
    *out = c;
    return SLAM_OK;
}

void
slam_connector_destroy(struct slam_connector *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stopping = true;
    pthread_cond_broadcast(&c->due);
    pthread_cond_broadcast(&c->follow);
    pthread_mutex_unlock(&c->lock);
    /* threads are started by what has work, and there is no more of it */
    for (size_t i = 0; i < c->thread_count; i++)
        pthread_join(c->threads[i], NULL);
    pthread_attr_destroy(&c->attributes);
    pthread_cond_destroy(&c->due);
    pthread_cond_destroy(&c->follow);
    pthread_cond_destroy(&c->settled);
    pthread_mutex_destroy(&c->lock);
    free(c->threads);
    slam_heap_destroy(&c->heap);
    free(c);
}

void
slam_connector_submit(struct slam_connector *c, struct slam_connect_request *request,
                      uint64_t due_ns)
{
    pthread_mutex_lock(&c->lock);
    request->due_ns = due_ns ? due_ns : slam_clock_mono_ns();
    queue(c, request);
    if (((const struct queued *)slam_heap_first(&c->heap))->request == request)
        pthread_cond_signal(&c->due);
    pthread_mutex_unlock(&c->lock);
}

int
slam_connector_wait(struct slam_connector *c, struct slam_conn_error *error)
{
    int rc = SLAM_OK;

    pthread_mutex_lock(&c->lock);
    while (c->failures == 0 && (c->heap.len > 0 || c->under_way > 0))
        pthread_cond_wait(&c->settled, &c->lock);
    if (c->failures > 0) {
        *error = c->first_error;
        c->heap.len = 0;
        rc = SLAM_ECONNECT;
    }
    c->waited = true;
    pthread_mutex_unlock(&c->lock);
    return rc;
}
