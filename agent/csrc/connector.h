/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that set connections up, so that no worker ever blocks in libldap. A link is
 * owned by the connector from slam_connector_submit until it stands in its inbox. */
#ifndef SLAM_CONNECTOR_H
#define SLAM_CONNECTOR_H

#include "conn.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Where finished links are delivered; one per worker. */
struct slam_inbox {
    pthread_mutex_t lock;
    struct slam_link *head; /* protected by lock */
    int event_fd;           /* counts deliveries; read by the worker */
};

int slam_inbox_init(struct slam_inbox *inbox);
void slam_inbox_destroy(struct slam_inbox *inbox);
/* Takes all delivered links, linked by `next`, latest first. */
struct slam_link *slam_inbox_take(struct slam_inbox *inbox);
void slam_inbox_wake(struct slam_inbox *inbox);

/* The part of a connection that travels between worker and connector. */
struct slam_link {
    const struct slam_conn_config *config;
    size_t uri_index;
    struct slam_inbox *inbox;
    struct slam_wire *wire; /* submit: the broken one or NULL; delivery: new or NULL */
    void *storage;          /* where the wire is made: slam_wire_size bytes */
    uint64_t connect_ns;    /* time that the set-up took */
    uint64_t due_ns;        /* not before, CLOCK_MONOTONIC */
    struct slam_link *next;
};

struct slam_connector;

/* Starts `threads` threads for at most max_links links. */
int slam_connector_create(size_t threads, size_t max_links,
                          struct slam_connector **connector);

/* Stops the threads, after the attempt each is in; links still queued stay where they
 * are, unconnected. */
void slam_connector_destroy(struct slam_connector *connector);

/* Queues a link; its broken wire, if any, is closed first. Any thread. */
void slam_connector_submit(struct slam_connector *connector, struct slam_link *link,
                           uint64_t due_ns);

/* Waits until nothing is queued or under way, or the first attempt failed: then the
 * rest of the queue is given up. Returns 0 or SLAM_ECONNECT with the first failure. */
int slam_connector_wait(struct slam_connector *connector,
                        struct slam_conn_error *error);

#endif
