/* SPDX-License-Identifier: Apache-2.0 */
#include "core/heap.h"
#include "core/rng.h"
#include "slam_test.h"

struct element {
    uint64_t due_ns;
    uint32_t number;
};

TEST(elements_come_out_in_the_order_of_their_times)
{
    struct slam_heap heap = {.element_bytes = sizeof(struct element), .max_len = 5000};
    struct slam_rng rng;
    uint64_t numbers = 0;
    uint64_t before_ns = 0;

    slam_rng_seed(&rng, 1, 0);
    for (uint32_t i = 0; i < 5000; i++) {
        struct element element = {slam_rng_below(&rng, 1000), i};

        CHECK(slam_heap_push(&heap, &element));
    }
    for (uint32_t i = 0; i < 5000; i++) {
        const struct element *first = slam_heap_first(&heap);
        struct element taken;

        CHECK(first != NULL && first->due_ns >= before_ns);
        before_ns = first->due_ns;
        slam_heap_pop(&heap, &taken);
        CHECK_EQ(taken.due_ns, before_ns);
        numbers += taken.number;
    }
    CHECK_EQ(numbers, 5000 * 4999 / 2);
    CHECK(slam_heap_first(&heap) == NULL);
    slam_heap_destroy(&heap);
}

TEST(full_heap_takes_nothing_more)
{
    struct slam_heap heap = {.element_bytes = sizeof(struct element), .max_len = 1};
    struct element element = {7, 1};

    CHECK(slam_heap_push(&heap, &element));
    CHECK(!slam_heap_push(&heap, &element));
    slam_heap_pop(&heap, &element);
    CHECK(slam_heap_push(&heap, &element));
    slam_heap_destroy(&heap);
}
