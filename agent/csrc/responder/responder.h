/* SPDX-License-Identifier: Apache-2.0 */
/* A canned LDAP server, which the engine is measured against. One thread answers every
 * request with success (a search with one entry, a compare with compareTrue), at once
 * or after a delay drawn from a weighted mixture. Unbind and abandon have no response,
 * and StartTLS is refused.
 *
 * It records each load request itself: the time from the kernel's receive stamp to the
 * hand-over of the response to the socket, the responder's own delays included. Where
 * there is no stamp (Unix sockets), the time after the read replaces it. Requests that
 * arrive in one read share the last one's stamp. */
#ifndef SLAM_RESPONDER_H
#define SLAM_RESPONDER_H

#include "responder/canned.h"
#include "responder/delays.h"

#include <stddef.h>
#include <stdint.h>

struct slam_responder; /* one owner; the calls below are made from one thread */

struct slam_responder_options {
    const char *socket_path; /* NULL: TCP on 127.0.0.1, a port that is free */
    const struct slam_delay *delays;
    size_t delay_count;     /* 0: answer at once */
    bool in_turn;           /* requests wait one after the other, see delays.h */
    uint64_t seed;          /* of the draws from the mixture */
    size_t record_capacity; /* samples kept; 0: neither record nor receive stamps */
};

struct slam_responder_sample {
    uint64_t received_ns; /* CLOCK_MONOTONIC, from the kernel's stamp */
    uint64_t service_ns;  /* answer handed over - received */
    enum slam_canned_kind kind;
};

struct slam_responder_counts {
    uint64_t connections;
    uint64_t protocol_errors; /* connections closed for what they sent */
    uint64_t samples_lost;    /* answers beyond record_capacity */
    uint64_t requests[SLAM_CANNED_KINDS];
};

int slam_responder_create(const struct slam_responder_options *options,
                          struct slam_responder **responder, char *err);

/* Stops, if need be, closes everything, removes the Unix socket. NULL is allowed. */
void slam_responder_destroy(struct slam_responder *responder);

int slam_responder_start(struct slam_responder *responder, char *err);

/* Ends the thread; connections stay open, without responses, until
 * slam_responder_destroy. */
void slam_responder_stop(struct slam_responder *responder);

/* A paused responder neither reads nor writes, from its thread's next turn on. */
void slam_responder_pause(struct slam_responder *responder);
void slam_responder_resume(struct slam_responder *responder);

/* 0 for a Unix socket. */
uint16_t slam_responder_port(const struct slam_responder *responder);

void slam_responder_counts(const struct slam_responder *responder,
                           struct slam_responder_counts *counts);

/* The samples so far, in the order of the responses, valid and unchanged until
 * slam_responder_destroy; also during a run. */
const struct slam_responder_sample *
slam_responder_record(const struct slam_responder *responder, size_t *count);

#endif
