/* SPDX-License-Identifier: Apache-2.0 */
#include "responder/delays.h"

#include "core/slam_err.h"

#include <stdlib.h>
#include <string.h>

int
slam_delays_init(struct slam_delays *delays, const struct slam_delay *mixture,
                 size_t mixture_len, bool in_turn, uint64_t seed)
{
    memset(delays, 0, sizeof(*delays));
    slam_rng_seed(&delays->rng, seed, 0);
    delays->in_turn = in_turn;
    delays->waiting = (struct slam_heap){.element_bytes = sizeof(struct slam_waiting),
                                         .max_len = SLAM_DELAYS_WAITING_MAX};
    if (mixture_len == 0)
        return SLAM_OK;
    for (size_t i = 0; i < mixture_len; i++) {
        if (mixture[i].weight > UINT64_MAX - delays->weight_sum)
            return SLAM_EINVAL;
        delays->weight_sum += mixture[i].weight;
    }
    if (delays->weight_sum == 0)
        return SLAM_EINVAL;
    delays->mixture = calloc(mixture_len, sizeof(*mixture));
    if (delays->mixture == NULL)
        return SLAM_ENOMEM;
    memcpy(delays->mixture, mixture, mixture_len * sizeof(*mixture));
    delays->mixture_len = mixture_len;
    return SLAM_OK;
}

void
slam_delays_destroy(struct slam_delays *delays)
{
    free(delays->mixture);
    slam_heap_destroy(&delays->waiting);
    memset(delays, 0, sizeof(*delays));
}

uint64_t
slam_delays_draw(struct slam_delays *delays)
{
    if (delays->mixture_len == 0)
        return 0;
    uint64_t draw = slam_rng_below(&delays->rng, delays->weight_sum);
    size_t i = 0;
    while (draw >= delays->mixture[i].weight)
        draw -= delays->mixture[i++].weight;
    return delays->mixture[i].delay_ns;
}

uint64_t
slam_delays_due(struct slam_delays *delays, uint64_t now_ns)
{
    uint64_t delay_ns = slam_delays_draw(delays);

    if (!delays->in_turn)
        return now_ns + delay_ns;
    if (delays->busy_until_ns < now_ns)
        delays->busy_until_ns = now_ns;
    return delays->busy_until_ns += delay_ns;
}

bool
slam_delays_pop_due(struct slam_delays *delays, uint64_t now_ns,
                    struct slam_waiting *waiting)
{
    const struct slam_waiting *first = slam_heap_first(&delays->waiting);

    if (first == NULL || first->due_ns > now_ns)
        return false;
    slam_heap_pop(&delays->waiting, waiting);
    return true;
}
