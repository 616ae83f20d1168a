/* SPDX-License-Identifier: Apache-2.0 */
/* Delays drawn from a weighted mixture, and a heap of the responses that wait for
 * theirs. Requests wait side by side, or one after the other as in a server with one
 * thread, whose rate is 1 / delay. No clock. */
#ifndef SLAM_DELAYS_H
#define SLAM_DELAYS_H

#include "core/heap.h"
#include "core/rng.h"
#include "responder/canned.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAM_DELAYS_WAITING_MAX (1u << 20)

struct slam_delay {
    uint64_t weight; /* share of the requests: weight / sum of the weights */
    uint64_t delay_ns;
};

struct slam_delays {
    struct slam_rng rng;
    struct slam_delay *mixture;
    size_t mixture_len; /* 0: no delay */
    uint64_t weight_sum;
    bool in_turn;
    uint64_t busy_until_ns;   /* in turn: when the last request is done */
    struct slam_heap waiting; /* of struct slam_waiting */
};

struct slam_waiting {
    uint64_t due_ns;
    uint64_t stamp_ns; /* of the request's arrival */
    void *client;
    enum slam_canned_kind kind;
    int32_t message_id;
};

/* Copies the mixture. SLAM_EINVAL: the sum of its weights is not in 1..2^64-1. */
int slam_delays_init(struct slam_delays *delays, const struct slam_delay *mixture,
                     size_t mixture_len, bool in_turn, uint64_t seed);
void slam_delays_destroy(struct slam_delays *delays);

uint64_t slam_delays_draw(struct slam_delays *delays);
/* When a request that comes now is done; now_ns: at once. */
uint64_t slam_delays_due(struct slam_delays *delays, uint64_t now_ns);

bool slam_delays_pop_due(struct slam_delays *delays, uint64_t now_ns,
                         struct slam_waiting *waiting);

#endif
