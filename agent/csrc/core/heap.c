/* SPDX-License-Identifier: Apache-2.0 */
#include "core/heap.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 1024u

static uint8_t *
at(const struct slam_heap *heap, size_t i)
{
    return heap->elements + i * heap->element_bytes;
}

static uint64_t
due_ns(const void *element)
{
    uint64_t ns;

    memcpy(&ns, element, sizeof(ns));
    return ns;
}

bool
slam_heap_push(struct slam_heap *heap, const void *element)
{
    size_t i = heap->len;

    if (heap->len == heap->max_len)
        return false;
    if (heap->len == heap->capacity) {
        size_t capacity = heap->capacity ? 2 * heap->capacity : FIRST_CAPACITY;
        uint8_t *elements = realloc(heap->elements, capacity * heap->element_bytes);

        if (!elements)
            return false;
        heap->elements = elements;
        heap->capacity = capacity;
    }
    heap->len++;
    for (; i > 0 && due_ns(at(heap, (i - 1) / 2)) > due_ns(element); i = (i - 1) / 2)
        memcpy(at(heap, i), at(heap, (i - 1) / 2), heap->element_bytes);
    memcpy(at(heap, i), element, heap->element_bytes);
    return true;
}

const void *
slam_heap_first(const struct slam_heap *heap)
{
    return heap->len > 0 ? heap->elements : NULL;
}

void
slam_heap_pop(struct slam_heap *heap, void *element)
{
    const uint8_t *last = at(heap, --heap->len);
    size_t i = 0;

    memcpy(element, heap->elements, heap->element_bytes);
    for (size_t child = 1; child < heap->len; child = 2 * i + 1) {
        if (child + 1 < heap->len &&
            due_ns(at(heap, child + 1)) < due_ns(at(heap, child)))
            child++;
        if (due_ns(last) <= due_ns(at(heap, child)))
            break;
        memcpy(at(heap, i), at(heap, child), heap->element_bytes);
        i = child;
    }
    memmove(at(heap, i), last, heap->element_bytes);
}

void
slam_heap_destroy(struct slam_heap *heap)
{
    free(heap->elements);
}
