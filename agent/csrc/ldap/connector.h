/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that set connections up, so that no worker blocks in libldap. A request
 * belongs to the connector from slam_connector_submit until it stands in its inbox.
 *
 * A set-up blocks its thread for round trips, a password check or the time-out. So that
 * no server waits for another, there are up to SLAM_CONNECTOR_THREADS threads, started
 * when they are needed. */
#ifndef SLAM_CONNECTOR_H
#define SLAM_CONNECTOR_H

#include "ldap/transport.h"

#include <pthread.h>
#include <stdint.h>

#define SLAM_CONNECTOR_THREADS 512u

/* Where finished requests are delivered; one per worker. */
struct slam_inbox {
    pthread_mutex_t lock;
    struct slam_connect_request *head; /* protected by lock */
    int event_fd;                      /* counts deliveries; read by the worker */
};

int slam_inbox_init(struct slam_inbox *inbox);
void slam_inbox_destroy(struct slam_inbox *inbox);
/* Takes all delivered requests, linked by `next`, latest first. */
struct slam_connect_request *slam_inbox_take(struct slam_inbox *inbox);
void slam_inbox_wake(struct slam_inbox *inbox);

/* The part of a connection that travels between worker and connector. */
struct slam_connect_request {
    struct slam_transport
        *transport; /* submit: the old one or NULL; delivery: new or NULL */
    const struct slam_connection_settings *config;
    size_t uri_index;
    struct slam_inbox *inbox;
    void *storage; /* where the transport is made: slam_transport_size bytes */
    struct slam_transport_setup setup; /* of the attempt, also of one that failed */
    uint64_t due_ns;                   /* not before, CLOCK_MONOTONIC */
    struct slam_connect_request *next;
};

struct slam_connector;

/* Starts the first of at most `threads` threads for at most max_requests requests. */
int slam_connector_create(size_t threads, size_t max_requests,
                          struct slam_connector **connector);

/* Stops the threads after their current attempts; queued requests stay unconnected. */
void slam_connector_destroy(struct slam_connector *connector);

/* Queues a request; closes its old transport, if any, without waiting for due_ns (0:
 * now). Requests are served in the order of due_ns. Any thread. */
void slam_connector_submit(struct slam_connector *connector,
                           struct slam_connect_request *request, uint64_t due_ns);

/* Waits until nothing is queued or under way, or an attempt has failed: then it gives
 * the queue up and returns SLAM_ECONNECT with that failure. */
int slam_connector_wait(struct slam_connector *connector,
                        struct slam_conn_error *error);

#endif
