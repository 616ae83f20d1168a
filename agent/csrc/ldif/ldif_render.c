/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the programs of a population, straight into the buffers of its outputs. */
#include "core/slam_err.h"
#include "ldif/ldif_internal.h"

#include <stdlib.h>
#include <string.h>

/* A buffer is flushed when a line might not fit; some hundred entries do. */
#define BUFFER_LEN (256u << 10)

/* -- parts -- */

/* A SAFE-STRING of RFC 2849, and no blank at its end, which readers may strip. */
static bool
is_safe(const uint8_t *text, size_t len, bool plain)
{
    const uint8_t first = text[0];

    if (first == ' ' || first == ':' || first == '<' || text[len - 1] == ' ')
        return false;
    if (plain)
        return true;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\0' || text[i] == '\n' || text[i] == '\r' || text[i] > 0x7f)
            return false;
    }
    return true;
}

static void
fill(struct ldif_renderer *r, struct ldif_frame *frame, const struct ldif_node *node,
     const struct ldif_instruction *in)
{
    uint8_t *begin = frame->texts + node->slots[in->index].offset;

    frame->lens[in->index] =
        (uint32_t)(ldif_put_text(r, frame, node, in, begin) - begin);
}

/* Room for a line. Returns where it begins, or NULL where the flush failed with *rc. */
static uint8_t *
make_room(struct ldif_renderer *r, uint32_t output, size_t room, int *rc)
{
    struct ldif_buffer *buffer = &r->outputs[output];

    if (buffer->cap - buffer->len < room) {
        *rc = r->flush(r->context, output);
        if (*rc != SLAM_OK)
            return NULL;
    }
    return buffer->bytes + buffer->len;
}

/* An attribute's line; none for an empty value. */
static int
put_line(struct ldif_renderer *r, const struct ldif_frame *frame,
         const struct ldif_node *node, const struct ldif_instruction *in)
{
    int rc = SLAM_OK;
    uint8_t *begin = make_room(r, 0, in->room, &rc);
    uint8_t *value, *at;

    if (!begin)
        return rc;
    memcpy(begin, node->literals + in->offset, in->len);
    value = begin + in->len;
    *value++ = ':';
    *value++ = ' ';
    at = ldif_put_text(r, frame, node, in, value);
    if (at == value)
        return SLAM_OK;
    if (!is_safe(value, (size_t)(at - value), in->variant)) {
        at = ldif_encode_in_place(value, (size_t)(at - value), 1);
        value[-1] = ':';
        value[0] = ' ';
    }
    *at++ = '\n';
    r->outputs[0].len += (size_t)(at - begin);
    return SLAM_OK;
}

static int
put_output(struct ldif_renderer *r, const struct ldif_frame *frame,
           const struct ldif_node *node, const struct ldif_instruction *in)
{
    int rc = SLAM_OK;
    uint8_t *begin = make_room(r, in->variant, in->room, &rc);
    uint8_t *at;

    if (!begin)
        return rc;
    at = ldif_put_text(r, frame, node, in, begin);
    *at++ = '\n';
    r->outputs[in->variant].len += (size_t)(at - begin);
    return SLAM_OK;
}

static int run(struct ldif_renderer *r, struct ldif_frame *frame, uint32_t first,
               uint64_t entry_key, bool is_whole);

static int
repeat(struct ldif_renderer *r, struct ldif_frame *frame,
       const struct ldif_instruction *in, uint64_t entry_key)
{
    const uint32_t body = (uint32_t)(in - r->tree->nodes[frame->node].instructions) + 1;
    struct ldif_shuffle shuffle = {0};
    uint64_t turns = in->least;
    int rc = SLAM_OK;

    if (in->code == LDIF_PICK && in->most > 0) {
        turns += slam_rng_below(&r->rng, in->most - in->least + 1);
        shuffle = ldif_shuffle_draw(&r->rng, in->lo);
    }
    for (uint64_t i = 0; i < turns && rc == SLAM_OK; i++) {
        r->number =
            in->code == LDIF_PICK ? ldif_shuffle_member(&shuffle, i) : in->lo + i;
        rc = run(r, frame, body, entry_key, true);
    }
    return rc;
}

static bool
is_equal(const struct ldif_frame *frame, const struct ldif_node *node,
         const struct ldif_instruction *in)
{
    return frame->lens[in->index] == in->len &&
           memcmp(frame->texts + node->slots[in->index].offset,
                  node->literals + in->offset, in->len) == 0;
}

/* Runs the instructions from `first` on: to the END of a loop's turn, to the program's
 * end, or where not is_whole to BODY. */
static int
run(struct ldif_renderer *r, struct ldif_frame *frame, uint32_t first,
    uint64_t entry_key, bool is_whole)
{
    const struct ldif_node *node = &r->tree->nodes[frame->node];
    const struct ldif_instruction *opened;
    int rc = SLAM_OK;

    for (size_t i = first; i < node->instruction_count && rc == SLAM_OK; i++) {
        const struct ldif_instruction *in = &node->instructions[i];

        switch (in->code) {
        case LDIF_LINE:
            rc = put_line(r, frame, node, in);
            i = in->peer;
            break;
        case LDIF_OUTPUT:
            rc = put_output(r, frame, node, in);
            i = in->peer;
            break;
        case LDIF_FILL:
            fill(r, frame, node, in);
            i = in->peer;
            break;
        case LDIF_IF:
            if (frame->flags[in->index] != in->variant)
                i = in->peer;
            break;
        case LDIF_EQUAL:
            if (!is_equal(frame, node, in))
                i = in->peer;
            break;
        case LDIF_LOOP:
        case LDIF_PICK:
            rc = repeat(r, frame, in, entry_key);
            i = in->peer;
            break;
        case LDIF_CHANCE:
            frame->flags[in->index] = slam_rng_below(&r->rng, 1000000) < in->limit;
            break;
        case LDIF_SET:
            frame->flags[in->index] = 1;
            break;
        case LDIF_FIELD:
            slam_rng_seed(&r->rng, entry_key, in->limit);
            break;
        case LDIF_BODY:
            if (!is_whole)
                return SLAM_OK;
            break;
        default: /* END */
            opened = &node->instructions[in->peer];
            if (opened->code == LDIF_LOOP || opened->code == LDIF_PICK)
                return SLAM_OK;
            break;
        }
    }
    return rc;
}

static int
run_entry(struct ldif_renderer *r, struct ldif_frame *frame, bool is_whole)
{
    const struct ldif_node *node = &r->tree->nodes[frame->node];

    memset(frame->flags, 0, node->flag_count);
    memset(frame->lens, 0, node->slot_count * sizeof(*frame->lens));
    slam_rng_seed(&r->rng, node->seed, node->first_index + frame->ordinal);
    return run(r, frame, 0, slam_rng_next(&r->rng), is_whole);
}

/* -- the tree -- */

/* The last one of the nodes whose entries begin at or before `rest`. */
static uint32_t
child_at(const struct ldif_tree *tree, const uint32_t *children, uint32_t count,
         uint64_t rest)
{
    uint32_t low = 0, high = count - 1;

    while (low < high) {
        const uint32_t middle = low + (high - low + 1) / 2;

        if (tree->nodes[children[middle]].offset <= rest)
            low = middle;
        else
            high = middle - 1;
    }
    return children[low];
}

/* Finds the entry at a position and has its frame be that of its depth, which is
 * returned; the frames above are those of its ancestors. */
static struct ldif_frame *
locate(struct ldif_renderer *r, uint64_t position)
{
    const struct ldif_tree *tree = r->tree;
    const uint32_t *children = tree->children;
    uint32_t count = tree->root_count;
    uint64_t rest = position, above = 0;
    struct ldif_frame *frame = r->frames;

    for (;; frame++) {
        const uint32_t index = child_at(tree, children, count, rest);
        const struct ldif_node *node = &tree->nodes[index];
        uint64_t sibling, ordinal;

        rest -= node->offset;
        sibling = rest / node->size;
        rest -= sibling * node->size;
        ordinal = above * node->count + sibling;
        if (frame->node != index || frame->ordinal != ordinal || rest == 0) {
            frame->node = index;
            frame->ordinal = ordinal;
            frame->sibling = sibling;
            frame->position = position - rest;
            if (rest == 0)
                return frame;
            run_entry(r, frame, false); /* writes nothing, so it does not fail */
        }
        rest--;
        above = ordinal;
        children = tree->children + node->first_child;
        count = node->child_count;
    }
}

int
ldif_render(struct ldif_renderer *r, uint64_t first, uint64_t end)
{
    struct ldif_frame *frame = NULL;

    for (uint64_t position = first; position < end; position++) {
        const struct ldif_node *node = frame ? &r->tree->nodes[frame->node] : NULL;
        int rc;

        if (node && node->child_count == 0 && frame->sibling + 1 < node->count) {
            frame->sibling++; /* the next one is below the same parent */
            frame->ordinal++;
            frame->position++;
        } else {
            frame = locate(r, position);
        }
        rc = run_entry(r, frame, true);
        if (rc != SLAM_OK)
            return rc;
    }
    return SLAM_OK;
}

int
ldif_renderer_init(struct ldif_renderer *r, const struct ldif_tree *tree)
{
    uint32_t slots = 0, slots_len = 0, flags = 0, depth = 0;

    *r = (struct ldif_renderer){.tree = tree};
    for (uint32_t i = 0; i < tree->node_count; i++) {
        const struct ldif_node *node = &tree->nodes[i];

        slots = node->slot_count > slots ? node->slot_count : slots;
        slots_len = node->slots_len > slots_len ? node->slots_len : slots_len;
        flags = node->flag_count > flags ? node->flag_count : flags;
        depth = node->depth > depth ? node->depth : depth;
    }
    for (uint32_t i = 0; i <= depth; i++) {
        struct ldif_frame *frame = &r->frames[i];

        frame->node = UINT32_MAX;
        frame->texts = malloc(slots_len + 1u);
        frame->lens = calloc(slots + 1u, sizeof(*frame->lens));
        frame->flags = calloc(flags + 1u, 1);
        if (!frame->texts || !frame->lens || !frame->flags)
            return SLAM_ENOMEM;
    }
    for (uint32_t i = 0; i < tree->output_count; i++) {
        struct ldif_buffer *buffer = &r->outputs[i];

        buffer->cap = tree->max_room[i] > BUFFER_LEN ? tree->max_room[i] : BUFFER_LEN;
        buffer->bytes = malloc(buffer->cap);
        if (!buffer->bytes)
            return SLAM_ENOMEM;
    }
    return SLAM_OK;
}

void
ldif_renderer_release(struct ldif_renderer *r)
{
    for (uint32_t i = 0; i < SLAM_LDIF_DEPTH_MAX; i++) {
        free(r->frames[i].texts);
        free(r->frames[i].lens);
        free(r->frames[i].flags);
    }
    for (uint32_t i = 0; i < SLAM_LDIF_OUTPUTS_MAX; i++)
        free(r->outputs[i].bytes);
}
