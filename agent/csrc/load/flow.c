/* SPDX-License-Identifier: Apache-2.0 */
#include "load/flow.h"

#include "core/clock.h"
#include "core/slam_err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)

/* Zeroed memory for a table that is accessed at random: on cache lines, and on huge
 * pages where it is large: a TLB miss costs what a cache miss costs. */
static void *
alloc_table(size_t count, size_t size)
{
    size_t bytes = count * size;
    size_t align = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : SLAM_CACHE_LINE;
    void *table;

    bytes = (bytes + align - 1) / align * align;
    table = aligned_alloc(align, bytes);
    if (!table)
        return NULL;
    if (align == HUGE_PAGE_BYTES)
        madvise(table, bytes, MADV_HUGEPAGE);
    return memset(table, 0, bytes);
}

static int
init_sessions(struct slam_flow *flow, size_t slots)
{
    const struct slam_stream *stream = flow->stream;

    if (!stream->has_sessions)
        return SLAM_OK;
    flow->sessions = calloc(slots, sizeof(*flow->sessions));
    /* one more than needed: without variables there is still something to point to */
    flow->variables =
        calloc(slots * stream->settings.variables + 1, sizeof(*flow->variables));
    flow->pauses = calloc(stream->pause_count + 1, sizeof(*flow->pauses));
    flow->ledgers = calloc(stream->settings.ledgers + 1, sizeof(struct slam_ledger *));
    if (!flow->sessions || !flow->variables || !flow->pauses || !flow->ledgers)
        return SLAM_ENOMEM;
    for (uint32_t i = 0; i <= stream->pause_count; i++)
        TAILQ_INIT(&flow->pauses[i]);
    for (size_t i = 0; i < slots; i++) {
        flow->sessions[i].slot = &flow->slots[i];
        flow->sessions[i].variables = flow->variables + i * stream->settings.variables;
    }
    return SLAM_OK;
}

static int
open_ledgers(struct slam_flow *flow, char *err)
{
    const struct slam_stream *stream = flow->stream;

    for (uint32_t i = 0; i < stream->settings.ledgers; i++) {
        char path[4096];
        int n =
            snprintf(path, sizeof(path), "%s/%zu-%u-%u.ledger",
                     stream->settings.ledger_folder, flow->stream_index, i, flow->lane);
        int rc;

        if (n < 0 || (size_t)n >= sizeof(path))
            return slam_fail(err, SLAM_EINVAL,
                             "the ledgers' folder has too long a name");
        rc = slam_ledger_open(path, &flow->ledgers[i], err);
        if (rc != SLAM_OK)
            return rc;
    }
    return SLAM_OK;
}

/* Sets where the value states of each operation begin. Returns their number. */
static size_t
number_states(const struct slam_stream *stream, size_t *first_state)
{
    size_t count = 0;

    for (size_t i = 0; i < stream->op_count; i++) {
        const struct slam_session_spec *spec = stream->ops[i].spec;

        first_state[i] = count;
        for (size_t j = 0; spec && j < spec->let_count; j++)
            count += slam_template_source_count(stream->ops[i].lets[j]);
        count += slam_template_source_count(stream->ops[i].template);
    }
    return count;
}

static void
init_connections(struct slam_flow *flow)
{
    const struct slam_stream *stream = flow->stream;
    size_t servers = stream->settings.connection.uri_count;

    for (size_t i = 0; i < servers; i++) {
        struct slam_server *server = &flow->servers[i];

        server->flow = flow;
        server->place = stream->first_place + (servers > 1 ? 1 + i : 0);
        server->first_op =
            stream->first_op + (servers > 1 ? 1 + i : 0) * stream->op_count;
        TAILQ_INIT(&server->sent);
        STAILQ_INIT(&server->waiting);
    }
    for (uint32_t i = 0; i < flow->conn_count; i++) {
        struct slam_conn *conn = &flow->conns[i];
        uint64_t local = flow->lane + (uint64_t)i * stream->carriers;
        uint64_t number = stream->settings.first_connection +
                          local * stream->settings.connection_stride;

        conn->flow = flow;
        conn->request.config = &stream->settings.connection;
        conn->request.uri_index = (size_t)(number % servers);
        conn->server = &flow->servers[conn->request.uri_index];
        conn->server->in_state[conn->state]++;
        conn->request.inbox = &flow->worker->inbox;
        conn->request.storage = flow->transports + i * slam_transport_size();
        conn->slots = flow->slots + (size_t)i * stream->settings.in_flight;
        conn->tx = flow->tx + (size_t)i * stream->max_pdu;
        if (stream->reads_content)
            conn->kept = flow->kept + (size_t)i * SLAM_KEEP_BYTES;
        for (uint32_t slot = stream->settings.in_flight; slot-- > 0;) {
            conn->slots[slot].conn = conn;
            conn->slots[slot].next_free = conn->free_head;
            conn->free_head = slot;
            conn->free_count++;
        }
    }
}

int
slam_flow_init(struct slam_flow *flow, struct slam_worker *worker, size_t stream_index,
               char *err)
{
    const struct slam_worker_config *config = &worker->config;
    const struct slam_stream *stream = &config->streams[stream_index];
    uint64_t sequence;
    size_t slots;
    int rc;

    snprintf(err, SLAM_ERR_LEN, "no memory for a stream's connections");
    flow->worker = worker;
    flow->stream = stream;
    flow->stream_index = stream_index;
    flow->lane = slam_stream_lane(stream, config->index, config->count);
    flow->conn_count =
        slam_flow_part(stream->settings.connections, flow->lane, stream->carriers);
    flow->partition = (struct slam_partition){
        .first = stream->settings.first_connection +
                 (uint64_t)flow->lane * stream->settings.connection_stride,
        .step = (uint64_t)stream->carriers * stream->settings.connection_stride,
        .count = flow->conn_count,
        .total = stream->settings.total_connections};
    flow->sessions_left =
        stream->settings.total_operations == 0
            ? UINT64_MAX
            : slam_partition_count(&flow->partition, stream->settings.total_operations);
    slots = (size_t)flow->conn_count * stream->settings.in_flight;
    while ((UINT32_C(1) << flow->slot_bits) < stream->settings.in_flight)
        flow->slot_bits++;
    flow->first_state = calloc(stream->op_count, sizeof(*flow->first_state));
    if (!flow->first_state)
        return SLAM_ENOMEM;
    flow->value_states = calloc(number_states(stream, flow->first_state) + 1,
                                sizeof(*flow->value_states));
    flow->conns = alloc_table(flow->conn_count, sizeof(*flow->conns));
    flow->servers = worker->servers + worker->server_count;
    worker->server_count += stream->settings.connection.uri_count;
    flow->slots = alloc_table(slots, sizeof(*flow->slots));
    flow->transports = alloc_table(flow->conn_count, slam_transport_size());
    flow->tx = malloc(flow->conn_count * stream->max_pdu);
    flow->kept = stream->reads_content
                     ? malloc((size_t)flow->conn_count * SLAM_KEEP_BYTES)
                     : NULL;
    if (!flow->conns || !flow->slots || !flow->transports || !flow->tx ||
        (stream->reads_content && !flow->kept) || !flow->value_states)
        return SLAM_ENOMEM;
    rc = init_sessions(flow, slots);
    if (rc == SLAM_OK)
        rc = open_ledgers(flow, err);
    if (rc != SLAM_OK)
        return rc;

    /* seeded by connection: the same whatever else the run has */
    sequence = (3 * (uint64_t)stream_index << 32) + flow->partition.first;
    slam_rng_seed(&flow->values_rng, config->seed, sequence);
    slam_rng_seed(&flow->arrivals_rng, config->seed, sequence + (UINT64_C(1) << 32));
    slam_rng_seed(&flow->reconnect_rng, config->seed, sequence + (UINT64_C(2) << 32));
    init_connections(flow);
    return SLAM_OK;
}

void
slam_flow_destroy(struct slam_flow *flow)
{
    for (uint32_t i = 0; flow->conns && i < flow->conn_count; i++)
        slam_transport_close(flow->conns[i].request.transport);
    for (size_t i = 0;
         flow->sessions && i < flow->conn_count * flow->stream->settings.in_flight; i++)
        slam_sasl_destroy(flow->sessions[i].sasl);
    for (uint32_t i = 0; flow->ledgers && i < flow->stream->settings.ledgers; i++)
        slam_ledger_close(flow->ledgers[i]);
    free(flow->conns);
    free(flow->slots);
    free(flow->transports);
    free(flow->tx);
    free(flow->kept);
    free(flow->sessions);
    free(flow->variables);
    free(flow->pauses);
    free(flow->ledgers);
    free(flow->value_states);
    free(flow->first_state);
    free(flow->load);
}

uint32_t
slam_flow_pick(struct slam_flow *flow)
{
    const struct slam_stream *stream = flow->stream;
    uint64_t draw;

    if (stream->script_count == 1)
        return 0;
    draw = slam_rng_below(&flow->values_rng, stream->total_weight);
    for (uint32_t script = 0;; script++) {
        if (draw < stream->scripts[script].weight)
            return script;
        draw -= stream->scripts[script].weight;
    }
}

void
slam_server_tally(struct slam_server *server, uint64_t now_ns)
{
    struct slam_stream_record *record = slam_server_record(server);
    uint64_t since_ns = slam_since_ns(now_ns, server->tallied_ns);

    /* when all sessions are over, nobody misses a connection */
    if (!server->flow->ended) {
        record->down_ns += server->in_state[SLAM_CONN_DOWN] * since_ns;
        record->unable_ns += server->in_state[SLAM_CONN_UNABLE] * since_ns;
    }
    server->tallied_ns = now_ns;
}
