/* SPDX-License-Identifier: Apache-2.0 */
#include "connector.h"

#include "clock.h"
#include "slam_err.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct slam_connector {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct slam_link **heap; /* protected by lock: by due_ns, earliest first */
    size_t heap_len;         /* protected by lock */
    size_t under_way;        /* protected by lock */
    size_t failures;         /* protected by lock */
    struct slam_conn_error first_error; /* protected by lock */
    bool stopping;                      /* protected by lock */
    pthread_t *threads;
    size_t thread_count;
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

struct slam_link *
slam_inbox_take(struct slam_inbox *inbox)
{
    struct slam_link *head;

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
deliver(struct slam_link *link)
{
    struct slam_inbox *inbox = link->inbox;

    pthread_mutex_lock(&inbox->lock);
    link->next = inbox->head;
    inbox->head = link;
    pthread_mutex_unlock(&inbox->lock);
    slam_inbox_wake(inbox);
}

static void
heap_push(struct slam_connector *c, struct slam_link *link)
{
    size_t i = c->heap_len++;

    while (i > 0 && c->heap[(i - 1) / 2]->due_ns > link->due_ns) {
        c->heap[i] = c->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    c->heap[i] = link;
}

static struct slam_link *
heap_pop(struct slam_connector *c)
{
    struct slam_link *top = c->heap[0];
    struct slam_link *last = c->heap[--c->heap_len];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= c->heap_len)
            break;
        if (child + 1 < c->heap_len &&
            c->heap[child + 1]->due_ns < c->heap[child]->due_ns)
            child++;
        if (c->heap[child]->due_ns >= last->due_ns)
            break;
        c->heap[i] = c->heap[child];
        i = child;
    }
    if (c->heap_len > 0)
        c->heap[i] = last;
    return top;
}

/* Waits for a link that is due. Called and returns with the lock held; NULL: stop. */
static struct slam_link *
next_due(struct slam_connector *c)
{
    while (!c->stopping) {
        if (c->heap_len == 0) {
            pthread_cond_wait(&c->changed, &c->lock);
        } else if (c->heap[0]->due_ns <= slam_clock_mono_ns()) {
            return heap_pop(c);
        } else {
            struct timespec due = slam_clock_timespec(c->heap[0]->due_ns);

            pthread_cond_timedwait(&c->changed, &c->lock, &due);
        }
    }
    return NULL;
}

static void *
connector_main(void *arg)
{
    struct slam_connector *c = arg;
    struct slam_link *link;

    pthread_mutex_lock(&c->lock);
    while ((link = next_due(c)) != NULL) {
        struct slam_conn_error error = {0};
        struct slam_wire *wire = NULL;
        int rc;

        c->under_way++;
        pthread_mutex_unlock(&c->lock);
        slam_wire_close(link->wire, false);
        link->wire = NULL;
        rc = slam_wire_open(link->config, link->uri_index, link->storage, &wire,
                            &link->connect_ns, &error);
        link->wire = wire;
        deliver(link);
        pthread_mutex_lock(&c->lock);
        c->under_way--;
        if (rc != SLAM_OK && c->failures++ == 0)
            c->first_error = error;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int
slam_connector_create(size_t threads, size_t max_links, struct slam_connector **out)
{
    struct slam_connector *c = calloc(1, sizeof(*c));
    pthread_condattr_t attr;

    if (!c)
        return SLAM_ENOMEM;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &attr);
    pthread_condattr_destroy(&attr);
    c->heap = calloc(max_links ? max_links : 1, sizeof(struct slam_link *));
    c->threads = calloc(threads, sizeof(*c->threads));
    if (!c->heap || !c->threads) {
        slam_connector_destroy(c);
        return SLAM_ENOMEM;
    }
    for (; c->thread_count < threads; c->thread_count++) {
        if (pthread_create(&c->threads[c->thread_count], NULL, connector_main, c)) {
            slam_connector_destroy(c);
            return SLAM_ESYS;
        }
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
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < c->thread_count; i++)
        pthread_join(c->threads[i], NULL);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->threads);
    free(c->heap);
    free(c);
}

void
slam_connector_submit(struct slam_connector *c, struct slam_link *link, uint64_t due_ns)
{
    pthread_mutex_lock(&c->lock);
    link->due_ns = due_ns;
    heap_push(c, link);
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

int
slam_connector_wait(struct slam_connector *c, struct slam_conn_error *error)
{
    int rc = SLAM_OK;

    pthread_mutex_lock(&c->lock);
    while (c->failures == 0 && (c->heap_len > 0 || c->under_way > 0))
        pthread_cond_wait(&c->changed, &c->lock);
    if (c->failures > 0) {
        *error = c->first_error;
        c->heap_len = 0;
        rc = SLAM_ECONNECT;
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}
