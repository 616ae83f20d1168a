/* SPDX-License-Identifier: Apache-2.0 */
/* What responder.c (set-up and the public calls) and responder_thread.c (the serving
 * thread) share; nobody else includes it. */
#ifndef SLAM_RESPONDER_INTERNAL_H
#define SLAM_RESPONDER_INTERNAL_H

#include "responder/responder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define SLAM_RESPONDER_INPUT_BYTES (SLAM_CANNED_REQUEST_MAX + (64u << 10))
#define SLAM_RESPONDER_OUTPUT_BYTES (64u << 10)

struct slam_responder_client {
    int fd;           /* -1: closed, but answers that wait still point here */
    size_t waiting;   /* answers */
    uint8_t *partial; /* the beginning of a request that is not complete */
    size_t partial_len;
    uint8_t *unsent; /* what the socket did not take, from unsent_at */
    size_t unsent_len;
    size_t unsent_at;
    struct slam_responder_client *next;
    struct slam_responder_client **link; /* the pointer that points here */
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

    struct slam_responder_client
        *clients; /* all below: thread only, but for the atomics */
    struct slam_delays delays;
    uint8_t *input;
    uint8_t output[SLAM_RESPONDER_OUTPUT_BYTES];
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

/* The thread: serves until `stopping`. arg is the struct slam_responder. */
void *slam_responder_run(void *arg);

/* Takes new clients, and hears of them from now on. */
bool slam_responder_listen(struct slam_responder *r);

/* Frees a client whose descriptor is closed. */
void slam_responder_client_free(struct slam_responder_client *client);

#endif
