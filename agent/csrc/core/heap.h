/* SPDX-License-Identifier: Apache-2.0 */
/* A binary heap of what is due, the earliest first. Elements are structures of one size
 * that begin with a uint64_t due_ns; they are copied in and out. */
#ifndef SLAM_HEAP_H
#define SLAM_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slam_heap {
    size_t element_bytes;
    size_t max_len; /* of elements */
    size_t len;
    size_t capacity; /* zero at first: slam_heap_push allocates */
    uint8_t *elements;
};

/* Returns false when the heap is full or there is no memory. */
bool slam_heap_push(struct slam_heap *heap, const void *element);

/* The earliest element, valid until the next push or pop; NULL: the heap is empty. */
const void *slam_heap_first(const struct slam_heap *heap);

/* Takes the earliest element out of a heap that is not empty. */
void slam_heap_pop(struct slam_heap *heap, void *element);

void slam_heap_destroy(struct slam_heap *heap);

#endif
