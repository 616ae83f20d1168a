/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the programs of a population, straight into the buffers of its outputs. */
#include "core/slam_err.h"
#include "ldif/ldif_internal.h"
#include "template/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A buffer is flushed when a line might not fit; some hundred entries do. */
#define BUFFER_LEN (256u << 10)

bool
ldif_source_is_plain(const struct slam_value_source *source)
{
    switch (source->kind) {
    case SLAM_VALUE_STRING:
        return slam_text_is_plain(source->data, source->data_len);
    case SLAM_VALUE_LIST:
        for (uint64_t i = 0; i < source->members; i++) {
            const struct slam_choice *choice = &source->prepared.choices[i];

            if (!slam_text_is_plain(source->data + choice->offset, choice->len))
                return false;
        }
        return true;
    case SLAM_VALUE_FILE_RANDOM:
    case SLAM_VALUE_FILE_SEQUENCE:
        for (uint32_t i = 0; i < source->feed->count; i++) {
            size_t len;
            const uint8_t *line = slam_feed_line(source->feed, i, &len);

            if (!slam_text_is_plain(line, len))
                return false;
        }
        return true;
    default:
        return true; /* digits, hyphens, letters */
    }
}

int
ldif_compile(struct ldif_tree *tree, uint32_t index, const uint8_t *program,
             size_t program_len, char *err)
{
    struct ldif_node *node = &tree->nodes[index];
    const struct slam_program *above[SLAM_LDIF_DEPTH_MAX];
    const struct program_context context = {.sources = tree->sources,
                                            .source_count = tree->source_count,
                                            .source_is_plain = tree->source_is_plain,
                                            .above = above,
                                            .depth = node->depth,
                                            .first_names = tree->first_names,
                                            .last_names = tree->last_names,
                                            .output_count = tree->output_count,
                                            .max_room = tree->max_room};
    const struct ldif_node *ancestor = node;
    const char *fault;
    size_t offset;
    int rc;

    for (uint32_t i = 0; i < node->depth; i++) {
        ancestor = &tree->nodes[ancestor->parent];
        above[i] = &ancestor->program;
    }
    rc = slam_program_compile(&node->program, &context, program, program_len, &fault,
                              &offset);
    if (rc != SLAM_OK)
        snprintf(err, SLAM_ERR_LEN, "bad program of node %u at byte %zu: %s", index,
                 offset, fault);
    return rc;
}

static void
number_names(struct machine *m, const struct ldif_tree *tree, uint64_t name)
{
    const uint64_t pair = slam_shuffle_member(&tree->names, name);
    const uint64_t first_names = tree->sources[tree->first_names].members;

    m->numbers[SLAM_PLACE_FIRST] = pair % first_names;
    m->numbers[SLAM_PLACE_LAST] = pair / first_names;
    m->names_round = name / tree->names.n;
}

/* Runs the program of the entry at a depth; of one above another its slots alone. */
static int
run_entry(struct ldif_renderer *r, uint32_t depth, bool is_whole)
{
    const struct ldif_position *at = &r->positions[depth];
    const struct ldif_node *node = &r->tree->nodes[at->node];
    struct program_frame *frame = &r->frames[depth];
    struct machine *m = &r->machine;

    frame->program = &node->program;
    memset(frame->lens, 0, node->program.slot_count * sizeof(*frame->lens));
    slam_rng_seed(&r->rng, node->seed, node->first_index + at->ordinal);
    m->key = slam_rng_next(&r->rng);
    m->frame = frame;
    m->numbers[SLAM_PLACE_INDEX] = node->first_index + at->ordinal;
    m->numbers[SLAM_PLACE_SIBLING] = at->sibling;
    m->numbers[SLAM_PLACE_POSITION] = at->position;
    if (node->program.has_names)
        number_names(m, r->tree, node->first_name + at->ordinal);
    slam_program_run(m, &node->program, is_whole, NULL);
    return m->rc;
}

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

/* Finds the entry at a position and runs those above it. Returns its depth. */
static uint32_t
locate(struct ldif_renderer *r, uint64_t position)
{
    const struct ldif_tree *tree = r->tree;
    const uint32_t *children = tree->children;
    uint32_t count = tree->root_count;
    uint64_t rest = position, above = 0;

    for (uint32_t depth = 0;; depth++) {
        const uint32_t index = child_at(tree, children, count, rest);
        const struct ldif_node *node = &tree->nodes[index];
        struct ldif_position *at = &r->positions[depth];
        uint64_t sibling, ordinal;

        rest -= node->offset;
        sibling = rest / node->size;
        rest -= sibling * node->size;
        ordinal = above * node->count + sibling;
        if (at->node != index || at->ordinal != ordinal || rest == 0) {
            *at = (struct ldif_position){.node = index,
                                         .ordinal = ordinal,
                                         .sibling = sibling,
                                         .position = position - rest};
            if (rest == 0)
                return depth;
            run_entry(r, depth, false); /* writes nothing, so it does not fail */
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
    uint32_t depth = 0;

    for (uint64_t position = first; position < end; position++) {
        struct ldif_position *at = &r->positions[depth];
        const struct ldif_node *node =
            position > first ? &r->tree->nodes[at->node] : NULL;
        int rc;

        if (node && node->child_count == 0 && at->sibling + 1 < node->count) {
            at->sibling++; /* the next one is below the same parent */
            at->ordinal++;
            at->position++;
        } else {
            depth = locate(r, position);
        }
        rc = run_entry(r, depth, true);
        if (rc != SLAM_OK)
            return rc;
    }
    return SLAM_OK;
}

int
ldif_renderer_init(struct ldif_renderer *r, const struct ldif_tree *tree)
{
    static const struct slam_partition all = {
        .first = 0, .step = 1, .count = 1, .total = 1};
    uint32_t slots = 0, slots_len = 0, depth = 0;

    *r = (struct ldif_renderer){.tree = tree};
    r->draw = (struct slam_draw){.rng = &r->rng, .partition = &all};
    r->machine = (struct machine){.draw = &r->draw, .outputs = r->outputs};
    for (uint32_t i = 0; i < tree->node_count; i++) {
        const struct slam_program *p = &tree->nodes[i].program;

        slots = p->slot_count > slots ? p->slot_count : slots;
        slots_len = p->slots_len > slots_len ? p->slots_len : slots_len;
        depth = tree->nodes[i].depth > depth ? tree->nodes[i].depth : depth;
    }
    for (uint32_t i = 0; i <= depth; i++) {
        struct program_frame *frame = &r->frames[i];

        r->positions[i].node = UINT32_MAX;
        frame->texts = malloc(slots_len + 1u);
        frame->lens = calloc(slots + 1u, sizeof(*frame->lens));
        if (!frame->texts || !frame->lens)
            return SLAM_ENOMEM;
    }
    for (uint32_t i = 0; i < tree->output_count; i++) {
        struct program_output *output = &r->outputs[i];

        output->cap = tree->max_room[i] > BUFFER_LEN ? tree->max_room[i] : BUFFER_LEN;
        output->bytes = malloc(output->cap);
        if (!output->bytes)
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
    }
    for (uint32_t i = 0; i < SLAM_LDIF_OUTPUTS_MAX; i++)
        free(r->outputs[i].bytes);
}
