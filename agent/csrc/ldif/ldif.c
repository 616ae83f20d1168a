/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a population, and its writers: each thread takes the next block of
 * entries, renders it, and writes it when it is its turn. An entry longer than the
 * buffers is written in pieces, in its thread's turn. */
#include "ldif/ldif.h"

#include "core/clock.h"
#include "core/slam_err.h"
#include "ldif/ldif_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_ENTRIES 256u
#define POLL_MS 100

struct worker {
    struct slam_ldif *ldif;
    struct ldif_renderer renderer; /* its thread's */
    uint64_t block;                /* its thread's: the one it is at */
    pthread_t thread;
};

struct slam_ldif {
    struct ldif_tree tree;
    int fds[SLAM_LDIF_OUTPUTS_MAX];
    struct slam_feeds feeds;
    uint64_t blocks;
    struct worker *workers;
    uint32_t thread_count;
    uint32_t started; /* control thread only; threads to join */
    _Atomic uint64_t next_block;
    _Atomic bool is_stopping;
    _Atomic uint64_t entries;
    _Atomic uint64_t bytes;
    pthread_mutex_t lock;
    pthread_cond_t turned;  /* the turn is another's, or all stop */
    pthread_cond_t ended;   /* a thread has */
    uint64_t turn;          /* protected by lock: the block that is to be written */
    uint32_t running;       /* protected by lock: threads */
    int rc;                 /* protected by lock: what went wrong first */
    char err[SLAM_ERR_LEN]; /* protected by lock */
};

static void
fail(struct slam_ldif *l, int rc, const char *what, int error)
{
    pthread_mutex_lock(&l->lock);
    if (l->rc == SLAM_OK) {
        l->rc = rc;
        snprintf(l->err, sizeof(l->err), "%s: %s", what, strerror(error));
    }
    atomic_store(&l->is_stopping, true);
    pthread_cond_broadcast(&l->turned);
    pthread_mutex_unlock(&l->lock);
}

static int
take_turn(struct slam_ldif *l, uint64_t block)
{
    bool is_stopping;

    pthread_mutex_lock(&l->lock);
    while (l->turn != block && !atomic_load(&l->is_stopping))
        pthread_cond_wait(&l->turned, &l->lock);
    is_stopping = atomic_load(&l->is_stopping);
    pthread_mutex_unlock(&l->lock);
    return is_stopping ? LDIF_STOPPED : SLAM_OK;
}

static void
give_turn(struct slam_ldif *l)
{
    pthread_mutex_lock(&l->lock);
    l->turn++;
    pthread_cond_broadcast(&l->turned);
    pthread_mutex_unlock(&l->lock);
}

static bool
may_stall(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 &&
           (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(fd) == 1);
}

/* Whether a write of PIPE_BUF bytes would not wait; false: is_stopping. */
static bool
await_room(int fd, const _Atomic bool *is_stopping)
{
    struct pollfd waited = {.fd = fd, .events = POLLOUT};

    while (!atomic_load(is_stopping))
        if (poll(&waited, 1, POLL_MS) > 0)
            return true;
    return false;
}

/* Writes all bytes, or those before *is_stopping. Returns 0, LDIF_STOPPED or -errno. */
static int
write_all(int fd, const uint8_t *bytes, size_t len, const _Atomic bool *is_stopping)
{
    const bool is_waited_for = may_stall(fd);
    size_t done = 0;

    while (done < len) {
        size_t count = len - done;
        ssize_t written;

        if (is_waited_for && !await_room(fd, is_stopping))
            return LDIF_STOPPED;
        if (is_waited_for && count > PIPE_BUF)
            count = PIPE_BUF;
        written = write(fd, bytes + done, count);
        if (written >= 0)
            done += (size_t)written;
        else if (errno != EINTR && !(errno == EAGAIN && is_waited_for))
            return -errno;
    }
    return 0;
}

/* Writes a buffer, whose turn it is, and empties it. */
static int
write_buffer(struct slam_ldif *l, struct program_output *buffer, uint32_t output)
{
    int rc = write_all(l->fds[output], buffer->bytes, buffer->len, &l->is_stopping);

    if (rc < 0)
        fail(l, SLAM_ESYS, "cannot write", -rc);
    if (rc != 0)
        return LDIF_STOPPED;
    if (output == 0)
        atomic_fetch_add(&l->bytes, buffer->len);
    buffer->len = 0;
    return SLAM_OK;
}

static int
flush(void *context, uint32_t output)
{
    struct worker *w = context;
    int rc = take_turn(w->ldif, w->block);

    return rc == SLAM_OK ? write_buffer(w->ldif, &w->renderer.outputs[output], output)
                         : rc;
}

static int
write_block(struct worker *w)
{
    struct slam_ldif *l = w->ldif;
    const uint64_t first = w->block * BLOCK_ENTRIES;
    const uint64_t rest = l->tree.total - first;
    const uint64_t count = rest < BLOCK_ENTRIES ? rest : BLOCK_ENTRIES;
    int rc = ldif_render(&w->renderer, first, first + count);

    for (uint32_t i = 0; i < l->tree.output_count && rc == SLAM_OK; i++)
        rc = flush(w, i);
    if (rc == SLAM_OK) {
        atomic_fetch_add(&l->entries, count);
        give_turn(l);
    }
    return rc;
}

static void *
worker_main(void *context)
{
    struct worker *w = context;
    struct slam_ldif *l = w->ldif;

    do {
        w->block = atomic_fetch_add(&l->next_block, 1);
    } while (w->block < l->blocks && write_block(w) == SLAM_OK);
    pthread_mutex_lock(&l->lock);
    l->running--;
    pthread_cond_broadcast(&l->ended);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Takes over the nodes' figures, and whose parent is whose; programs come later. */
static int
copy_nodes(struct ldif_tree *tree, const struct slam_ldif_config *config, char *err)
{
    uint32_t at;

    for (uint32_t i = 0; i < config->node_count; i++) {
        const struct slam_ldif_node *from = &config->nodes[i];
        struct ldif_node *node = &tree->nodes[i];

        *node = (struct ldif_node){.parent = from->parent,
                                   .count = from->count,
                                   .first_index = from->first_index,
                                   .first_name = from->first_name,
                                   .seed = from->seed,
                                   .size = 1};
        if (from->count < 1)
            return slam_fail(err, SLAM_EINVAL, "node %u has no entries", i);
        if (from->parent == SLAM_LDIF_NO_PARENT) {
            tree->children[tree->root_count++] = i;
            continue;
        }
        if (from->parent >= i)
            return slam_fail(err, SLAM_EINVAL, "node %u comes before its parent", i);
        node->depth = tree->nodes[from->parent].depth + 1;
        if (node->depth >= SLAM_LDIF_DEPTH_MAX)
            return slam_fail(err, SLAM_EINVAL,
                             "templates are nested more than %u levels deep",
                             SLAM_LDIF_DEPTH_MAX);
        tree->nodes[from->parent].child_count++;
    }
    at = tree->root_count;
    for (uint32_t i = 0; i < tree->node_count; i++) {
        tree->nodes[i].first_child = at;
        at += tree->nodes[i].child_count;
        tree->nodes[i].child_count = 0;
    }
    for (uint32_t i = 0; i < tree->node_count; i++) {
        struct ldif_node *parent;

        if (tree->nodes[i].parent == SLAM_LDIF_NO_PARENT)
            continue;
        parent = &tree->nodes[tree->nodes[i].parent];
        tree->children[parent->first_child + parent->child_count++] = i;
    }
    return SLAM_OK;
}

/* Numbers the entries below one parent. Returns their number; 0: more than 2^62. */
static uint64_t
number_children(struct ldif_tree *tree, const uint32_t *children, uint32_t count)
{
    uint64_t offset = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct ldif_node *node = &tree->nodes[children[i]];
        uint64_t entries;

        node->offset = offset;
        if (__builtin_mul_overflow(node->count, node->size, &entries) ||
            __builtin_add_overflow(offset, entries, &offset) ||
            offset > UINT64_C(1) << 62)
            return 0;
    }
    return offset;
}

static int
number_entries(struct ldif_tree *tree, char *err)
{
    for (uint32_t i = tree->node_count; i-- > 0;) { /* children before their parents */
        struct ldif_node *node = &tree->nodes[i];
        uint64_t below = number_children(tree, tree->children + node->first_child,
                                         node->child_count);

        if (below == 0 && node->child_count > 0)
            return slam_fail(err, SLAM_EINVAL, "a population has at most 2^62 entries");
        node->size = below + 1;
    }
    tree->total = number_children(tree, tree->children, tree->root_count);
    if (tree->total == 0)
        return slam_fail(err, SLAM_EINVAL, "a population has at most 2^62 entries");
    return SLAM_OK;
}

static int
prepare_names(struct ldif_tree *tree, uint64_t seed, char *err)
{
    struct slam_rng rng;
    uint64_t names;

    if (tree->first_names >= tree->source_count &&
        tree->last_names >= tree->source_count)
        return SLAM_OK;
    if (tree->first_names >= tree->source_count ||
        tree->last_names >= tree->source_count)
        return slam_fail(err, SLAM_EINVAL, "first and last names go together");
    if (__builtin_mul_overflow(tree->sources[tree->first_names].members,
                               tree->sources[tree->last_names].members, &names) ||
        names == 0 || names > INT64_MAX)
        return slam_fail(err, SLAM_EINVAL,
                         "the sources of names have no usable members");
    slam_rng_seed(&rng, seed, 0);
    tree->names = slam_shuffle_draw(&rng, names);
    return SLAM_OK;
}

static int
prepare_sources(struct ldif_tree *tree, const struct slam_ldif_config *config,
                struct slam_feeds *feeds, char *err)
{
    for (; tree->source_count < config->source_count; tree->source_count++) {
        struct slam_value_source *source = &tree->sources[tree->source_count];
        int rc;

        *source = config->sources[tree->source_count];
        rc = slam_value_source_prepare(source, feeds, err);
        if (rc != SLAM_OK)
            return rc;
        tree->source_is_plain[tree->source_count] = ldif_source_is_plain(source);
        if (source->kind == SLAM_VALUE_VARIABLE || source->kind == SLAM_VALUE_PARENT ||
            source->kind == SLAM_VALUE_MESSAGE_ID ||
            (source->kind == SLAM_VALUE_TIMESTAMP && source->lo == 0 &&
             source->hi == 0)) {
            tree->source_count++;
            return slam_fail(err, SLAM_EINVAL,
                             "a value source of a request, not of an entry");
        }
    }
    return SLAM_OK;
}

static int
check_config(const struct slam_ldif_config *config, char *err)
{
    if (config->node_count < 1 || config->node_count > SLAM_LDIF_NODES_MAX)
        return slam_fail(err, SLAM_EINVAL, "a population has 1 to %u nodes, got %zu",
                         SLAM_LDIF_NODES_MAX, config->node_count);
    if (config->source_count > SLAM_TEMPLATE_SOURCES_MAX)
        return slam_fail(err, SLAM_EINVAL,
                         "a population has at most %u value sources, got %zu",
                         SLAM_TEMPLATE_SOURCES_MAX, config->source_count);
    if (config->output_count < 1 || config->output_count > SLAM_LDIF_OUTPUTS_MAX)
        return slam_fail(err, SLAM_EINVAL, "a population has 1 to %u outputs, got %zu",
                         SLAM_LDIF_OUTPUTS_MAX, config->output_count);
    if (config->threads < 1 || config->threads > SLAM_LDIF_THREADS_MAX)
        return slam_fail(err, SLAM_EINVAL,
                         "a population has 1 to %u threads, got %" PRIu32,
                         SLAM_LDIF_THREADS_MAX, config->threads);
    return SLAM_OK;
}

static int
build(struct slam_ldif *l, const struct slam_ldif_config *config, char *err)
{
    struct ldif_tree *tree = &l->tree;
    int rc;

    tree->node_count = (uint32_t)config->node_count;
    tree->output_count = (uint32_t)config->output_count;
    tree->first_names = config->first_names;
    tree->last_names = config->last_names;
    rc = copy_nodes(tree, config, err);
    if (rc == SLAM_OK)
        rc = number_entries(tree, err);
    if (rc == SLAM_OK)
        rc = prepare_sources(tree, config, &l->feeds, err);
    if (rc == SLAM_OK)
        rc = prepare_names(tree, config->seed, err);
    for (uint32_t i = 0; i < tree->node_count && rc == SLAM_OK; i++)
        rc = ldif_compile(tree, i, config->nodes[i].program,
                          config->nodes[i].program_len, err);
    return rc;
}

int
slam_ldif_create(const struct slam_ldif_config *config, struct slam_ldif **ldif,
                 char *err)
{
    struct slam_ldif *l = NULL;
    pthread_condattr_t attributes;
    int rc = check_config(config, err);

    if (rc != SLAM_OK)
        return rc;
    l = calloc(1, sizeof(*l));
    if (!l)
        return slam_fail(err, SLAM_ENOMEM, "no memory for a population");
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&l->turned, NULL);
    pthread_cond_init(&l->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    memcpy(l->fds, config->fds, config->output_count * sizeof(*l->fds));
    l->tree.nodes = calloc(config->node_count, sizeof(*l->tree.nodes));
    l->tree.children = calloc(config->node_count, sizeof(*l->tree.children));
    l->tree.sources = calloc(config->source_count + 1, sizeof(*l->tree.sources));
    l->tree.source_is_plain = calloc(config->source_count + 1, sizeof(bool));
    l->workers = calloc(config->threads, sizeof(*l->workers));
    l->thread_count = config->threads;
    if (!l->tree.nodes || !l->tree.children || !l->tree.sources ||
        !l->tree.source_is_plain || !l->workers)
        rc = SLAM_ENOMEM;
    if (rc == SLAM_OK)
        rc = build(l, config, err);
    for (uint32_t i = 0; i < config->threads && rc == SLAM_OK; i++) {
        l->workers[i].ldif = l;
        rc = ldif_renderer_init(&l->workers[i].renderer, &l->tree);
        l->workers[i].renderer.machine.flush = flush;
        l->workers[i].renderer.machine.context = &l->workers[i];
    }
    if (rc == SLAM_ENOMEM)
        slam_fail(err, rc, "no memory for a population");
    if (rc != SLAM_OK) {
        slam_ldif_destroy(l);
        return rc;
    }
    l->blocks = (l->tree.total + BLOCK_ENTRIES - 1) / BLOCK_ENTRIES;
    *ldif = l;
    return SLAM_OK;
}

void
slam_ldif_destroy(struct slam_ldif *l)
{
    if (!l)
        return;
    slam_ldif_stop(l);
    for (uint32_t i = 0; i < l->started; i++)
        pthread_join(l->workers[i].thread, NULL);
    for (uint32_t i = 0; l->workers && i < l->thread_count; i++)
        ldif_renderer_release(&l->workers[i].renderer);
    for (uint32_t i = 0; l->tree.nodes && i < l->tree.node_count; i++)
        slam_program_release(&l->tree.nodes[i].program);
    for (uint32_t i = 0; i < l->tree.source_count; i++)
        slam_value_source_release(&l->tree.sources[i]);
    slam_feeds_close(&l->feeds);
    free(l->workers);
    free(l->tree.source_is_plain);
    free(l->tree.sources);
    free(l->tree.children);
    free(l->tree.nodes);
    pthread_cond_destroy(&l->ended);
    pthread_cond_destroy(&l->turned);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

uint64_t
slam_ldif_entries(const struct slam_ldif *l)
{
    return l->tree.total;
}

int
slam_ldif_start(struct slam_ldif *l, char *err)
{
    int error = 0;

    if (l->started > 0)
        return slam_fail(err, SLAM_ESTATE, "the population is being written");
    pthread_mutex_lock(&l->lock);
    while (l->started < l->thread_count && error == 0) {
        struct worker *w = &l->workers[l->started];

        error = pthread_create(&w->thread, NULL, worker_main, w);
        l->started += error == 0;
    }
    l->running = l->started;
    pthread_mutex_unlock(&l->lock);
    if (error == 0)
        return SLAM_OK;
    slam_ldif_stop(l);
    return slam_fail(err, SLAM_ESYS, "cannot start a thread: %s", strerror(error));
}

int
slam_ldif_wait(struct slam_ldif *l, uint64_t timeout_ns, bool *is_done, char *err)
{
    const struct timespec deadline =
        slam_clock_timespec(slam_clock_mono_ns() + timeout_ns);
    int error = 0, rc;

    pthread_mutex_lock(&l->lock);
    while (l->running > 0 && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&l->ended, &l->lock, &deadline);
    *is_done = l->running == 0;
    rc = *is_done ? l->rc : SLAM_OK;
    if (rc != SLAM_OK)
        snprintf(err, SLAM_ERR_LEN, "%s", l->err);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

void
slam_ldif_stop(struct slam_ldif *l)
{
    pthread_mutex_lock(&l->lock);
    atomic_store(&l->is_stopping, true);
    pthread_cond_broadcast(&l->turned);
    pthread_mutex_unlock(&l->lock);
}

struct slam_ldif_progress
slam_ldif_progress(struct slam_ldif *l)
{
    return (struct slam_ldif_progress){.entries = atomic_load(&l->entries),
                                       .bytes = atomic_load(&l->bytes)};
}
