/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled population, for ldif.c and ldif_render.c alone. */
#ifndef SLAM_LDIF_INTERNAL_H
#define SLAM_LDIF_INTERNAL_H

#include "ldif/ldif.h"
#include "template/program.h"

#define LDIF_STOPPED 1 /* what ends a rendering whose result nobody wants */

struct ldif_node {
    uint32_t parent;
    uint32_t depth; /* 0: a root */
    uint64_t count;
    uint64_t first_index;
    uint64_t first_name;
    uint64_t seed;
    uint64_t size;        /* entries of one subtree */
    uint64_t offset;      /* where its entries begin among those below one parent */
    uint32_t first_child; /* in slam_ldif.children */
    uint32_t child_count;
    struct slam_program program;
};

struct ldif_tree {
    struct ldif_node *nodes;
    uint32_t node_count;
    uint32_t *children; /* indices of nodes: first the roots, then node by node */
    uint32_t root_count;
    uint64_t total; /* entries */
    struct slam_value_source *sources;
    bool *source_is_plain;
    uint32_t source_count;
    uint32_t first_names;
    uint32_t last_names;
    struct slam_shuffle names;
    uint32_t output_count;
    size_t max_room[SLAM_LDIF_OUTPUTS_MAX]; /* of a line */
};

struct ldif_position {
    uint32_t node;    /* UINT32_MAX: none */
    uint64_t ordinal; /* among those of its node */
    uint64_t sibling;
    uint64_t position;
};

struct ldif_renderer {
    const struct ldif_tree *tree;
    struct slam_rng rng;
    struct slam_draw draw;
    struct machine machine;
    /* the entry and those above it, by depth */
    struct ldif_position positions[SLAM_LDIF_DEPTH_MAX];
    struct program_frame frames[SLAM_LDIF_DEPTH_MAX];
    struct program_output outputs[SLAM_LDIF_OUTPUTS_MAX];
};

/* Compiles the program of tree->nodes[index], after those of its ancestors. */
int ldif_compile(struct ldif_tree *tree, uint32_t index, const uint8_t *program,
                 size_t program_len, char *err);

/* Whether all texts of a prepared source are printable ASCII. */
bool ldif_source_is_plain(const struct slam_value_source *source);

/* Allocates buffers and frames; to be released either way. */
int ldif_renderer_init(struct ldif_renderer *renderer, const struct ldif_tree *tree);
void ldif_renderer_release(struct ldif_renderer *renderer);

/* Renders entries [first, end) to the buffers. Returns 0 or what flush returned. */
int ldif_render(struct ldif_renderer *renderer, uint64_t first, uint64_t end);

#endif
