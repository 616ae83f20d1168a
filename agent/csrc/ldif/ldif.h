/* SPDX-License-Identifier: Apache-2.0 */
/* LDIF files (RFC 2849) of whole populations, written by several threads.
 *
 * A population is a tree of nodes; each entry of a node's parent has `count` entries of
 * the node below it. Entries are numbered in the order in which they are written,
 * parents first, so that entry number p is found by division. What is drawn for an
 * entry depends on its node's seed, its index and the field: the number of threads
 * changes no byte. */
#ifndef SLAM_LDIF_H
#define SLAM_LDIF_H

#include "template/values.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAM_LDIF_NO_PARENT UINT32_MAX
#define SLAM_LDIF_NODES_MAX 65536u
#define SLAM_LDIF_DEPTH_MAX 32u
#define SLAM_LDIF_OUTPUTS_MAX 8u
#define SLAM_LDIF_THREADS_MAX 256u

struct slam_ldif_node {
    uint32_t parent;      /* index of an earlier node, or SLAM_LDIF_NO_PARENT */
    uint64_t count;       /* entries of this node below each one of the parent's */
    uint64_t first_index; /* of the first one among those of its template */
    uint64_t first_name;  /* number of its names among all names of the population */
    uint64_t seed;
    const uint8_t *program;
    size_t program_len;
};

struct slam_ldif_config {
    uint64_t seed; /* of what the whole population shares: the order of the names */
    const struct slam_ldif_node *nodes;
    size_t node_count;
    const struct slam_value_source *sources; /* of all nodes */
    size_t source_count;
    uint32_t first_names; /* the source of FIRST, a FILE_SEQUENCE; beyond: none */
    uint32_t last_names;  /* the source of LAST; both or none */
    const int *fds;       /* one for each output; the caller's */
    size_t output_count;
    uint32_t threads;
};

struct slam_ldif;

struct slam_ldif_progress {
    uint64_t entries; /* written, branches too */
    uint64_t bytes;   /* of the LDIF */
};

/* Copies, checks and compiles a population. Control thread only. */
int slam_ldif_create(const struct slam_ldif_config *config, struct slam_ldif **ldif,
                     char *err);

void slam_ldif_destroy(struct slam_ldif *ldif);

uint64_t slam_ldif_entries(const struct slam_ldif *ldif);

int slam_ldif_start(struct slam_ldif *ldif, char *err);

/* Waits for at most timeout_ns. *is_done: all threads have ended, and the result is 0
 * or what went wrong. */
int slam_ldif_wait(struct slam_ldif *ldif, uint64_t timeout_ns, bool *is_done,
                   char *err);

/* Has the threads end soon, after a whole block or within a long entry; in a pipe, a
 * socket or a terminal anywhere. Any thread. */
void slam_ldif_stop(struct slam_ldif *ldif);

struct slam_ldif_progress slam_ldif_progress(struct slam_ldif *ldif);

#endif
