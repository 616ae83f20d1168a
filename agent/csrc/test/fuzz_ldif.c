/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: any program of a node, below one with two slots, is refused or rendered
 * within the lengths that were compiled. */
#include "core/slam_err.h"
#include "ldif/ldif_internal.h"

#include <stdlib.h>
#include <string.h>

enum { SOURCES = 5, OUTPUTS = 2, TURNS_MAX = 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
discard(void *context, uint32_t output)
{
    struct ldif_renderer *r = context;

    r->outputs[output].len = 0;
    return SLAM_OK;
}

/* A program may say to repeat a line 2^64 times. */
static int
is_short(const struct ldif_node *node)
{
    for (size_t i = 0; i < node->program.loop_count; i++) {
        if (node->program.loops[i].most > TURNS_MAX)
            return 0;
    }
    return 1;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* FILL 0 { VALUE 0 } FILL 1 { LITERAL "c=x" } BODY */
    static const uint8_t root[] = "\x0f\x00\x00\x02\x00\x00\x04"
                                  "\x0f\x01\x00\x01\x03\x00\x00\x00"
                                  "c=x\x04\x13";
    static const uint8_t letters[] = "a,\xc3\xa9 <";
    struct slam_value_source sources[SOURCES] = {
        {.kind = SLAM_VALUE_STRING, .lo = 0, .hi = 9, .data = letters, .data_len = 6},
        {.kind = SLAM_VALUE_SEQUENCE, .lo = 5, .hi = 90, .step = 1},
        {.kind = SLAM_VALUE_UUID},
        {.kind = SLAM_VALUE_UNIFORM, .lo = 1, .hi = 3, .step = 1},
        {.kind = SLAM_VALUE_UNIQUE, .step = 1}};
    bool source_is_plain[SOURCES];
    uint32_t children[] = {0, 1};
    struct ldif_node nodes[2] = {
        {.parent = SLAM_LDIF_NO_PARENT,
         .count = 2,
         .size = 4,
         .first_child = 1,
         .child_count = 1,
         .seed = 1},
        {.parent = 0, .depth = 1, .count = 3, .size = 1, .seed = 2}};
    struct ldif_tree tree = {.nodes = nodes,
                             .node_count = 2,
                             .children = children,
                             .root_count = 1,
                             .total = 8,
                             .sources = sources,
                             .source_is_plain = source_is_plain,
                             .source_count = SOURCES,
                             .first_names = UINT32_MAX,
                             .last_names = UINT32_MAX,
                             .output_count = OUTPUTS};
    struct ldif_renderer renderer = {0};
    char err[SLAM_ERR_LEN];

    for (int i = 0; i < SOURCES; i++) {
        if (slam_value_source_prepare(&sources[i], NULL, err) != 0)
            abort();
        source_is_plain[i] = ldif_source_is_plain(&sources[i]);
    }
    if (ldif_compile(&tree, 0, root, sizeof(root) - 1, err) != SLAM_OK)
        abort();
    if (ldif_compile(&tree, 1, data, size, err) == SLAM_OK && is_short(&nodes[1]) &&
        ldif_renderer_init(&renderer, &tree) == SLAM_OK) {
        renderer.machine.flush = discard;
        renderer.machine.context = &renderer;
        if (ldif_render(&renderer, 0, tree.total) != SLAM_OK)
            abort();
    }
    ldif_renderer_release(&renderer);
    for (int i = 0; i < 2; i++)
        slam_program_release(&nodes[i].program);
    for (int i = 0; i < SOURCES; i++)
        slam_value_source_release(&sources[i]);
    return 0;
}
