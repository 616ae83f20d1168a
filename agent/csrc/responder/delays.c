/* SPDX-License-Identifier: Apache-2.0 */
#include "responder/delays.h"

#include "core/slam_err.h"

#include <stdlib.h>
#include <string.h>

#define HEAP_SIZE_FIRST 1024u

int
slam_delays_init(struct slam_delays *delays, const struct slam_delay *mixture,
                 size_t mixture_len, uint64_t seed)
{
    memset(delays, 0, sizeof(*delays));
    slam_rng_seed(&delays->rng, seed, 0);
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
    free(delays->heap);
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

bool
slam_delays_push(struct slam_delays *delays, const struct slam_waiting *waiting)
{
    if (delays->heap_len == delays->heap_size) {
        size_t size = delays->heap_size == 0 ? HEAP_SIZE_FIRST : 2 * delays->heap_size;
        struct slam_waiting *heap = size > SLAM_DELAYS_WAITING_MAX
                                        ? NULL
                                        : realloc(delays->heap, size * sizeof(*heap));

        if (heap == NULL)
            return false;
        delays->heap = heap;
        delays->heap_size = size;
    }
    struct slam_waiting *heap = delays->heap;
    size_t i = delays->heap_len++;
    for (; i > 0 && heap[(i - 1) / 2].due_ns > waiting->due_ns; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = *waiting;
    return true;
}

bool
slam_delays_pop_due(struct slam_delays *delays, uint64_t now_ns,
                    struct slam_waiting *waiting)
{
    struct slam_waiting *heap = delays->heap;

    if (delays->heap_len == 0 || heap[0].due_ns > now_ns)
        return false;
    *waiting = heap[0];
    struct slam_waiting last = heap[--delays->heap_len];
    size_t i = 0;
    for (size_t child = 1; child < delays->heap_len; child = 2 * i + 1) {
        if (child + 1 < delays->heap_len && heap[child + 1].due_ns < heap[child].due_ns)
            child++;
        if (last.due_ns <= heap[child].due_ns)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return true;
}
