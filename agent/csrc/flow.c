/* SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

#include "slam_err.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)

static uint32_t
share(uint64_t total, uint32_t index, uint32_t count)
{
    return (uint32_t)(total / count + (index < total % count ? 1 : 0));
}

/* Zeroed memory for a table that is walked at random: on cache lines, and on huge pages
 * where it is large, because a miss of the TLB costs as much as one of the cache. */
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

int
slam_flow_init(struct slam_flow *flow, struct slam_worker *worker, size_t stream_index)
{
    const struct slam_worker_config *config = &worker->config;
    const struct slam_stream *stream = &config->streams[stream_index];
    uint32_t carriers =
        stream->connections < config->count ? stream->connections : config->count;
    uint64_t participant =
        stream->participant + (uint64_t)stream->participants * config->index;
    uint64_t participants = (uint64_t)stream->participants * carriers;
    uint64_t sequence;
    size_t slots;
    size_t states = 0;

    flow->worker = worker;
    flow->stream = stream;
    flow->stream_index = stream_index;
    flow->conn_count = share(stream->connections, config->index, config->count);
    slots = (size_t)flow->conn_count * stream->in_flight;
    while ((UINT32_C(1) << flow->slot_bits) < stream->in_flight)
        flow->slot_bits++;
    for (size_t op = 0; op < stream->op_count; op++)
        states += slam_op_source_count(stream->ops[op].op);
    if (stream->open)
        flow->backlog_cap =
            stream->max_backlog == 0
                ? 0
                : share(stream->max_backlog - 1, config->index, carriers) + 1;

    flow->conns = alloc_table(flow->conn_count, sizeof(*flow->conns));
    flow->slots = alloc_table(slots, sizeof(*flow->slots));
    flow->wires = alloc_table(flow->conn_count, slam_wire_size());
    flow->tx = malloc(flow->conn_count * stream->max_pdu);
    flow->value_states = calloc(states ? states : 1, sizeof(*flow->value_states));
    flow->first_state = calloc(stream->op_count, sizeof(*flow->first_state));
    flow->backlog =
        calloc(flow->backlog_cap ? flow->backlog_cap : 1, sizeof(*flow->backlog));
    if (!flow->conns || !flow->slots || !flow->wires || !flow->tx ||
        !flow->value_states || !flow->first_state || !flow->backlog)
        return SLAM_ENOMEM;

    sequence = (3 * (uint64_t)stream_index << 32) + participant;
    slam_rng_seed(&flow->values_rng, config->seed, sequence);
    slam_rng_seed(&flow->pacer_rng, config->seed, sequence + (UINT64_C(1) << 32));
    slam_rng_seed(&flow->backoff_rng, config->seed, sequence + (UINT64_C(2) << 32));
    states = 0;
    for (size_t op = 0; op < stream->op_count; op++) {
        const struct slam_op *template = stream->ops[op].op;

        flow->first_state[op] = states;
        for (size_t i = 0; i < slam_op_source_count(template); i++)
            slam_value_state_init(slam_op_source(template, i),
                                  &flow->value_states[states++], (uint32_t)participant,
                                  (uint32_t)participants);
    }
    if (stream->open) {
        const struct slam_pacer_share own = {
            .first = stream->first_connection +
                     (uint64_t)config->index * stream->connection_stride,
            .step = (uint64_t)config->count * stream->connection_stride,
            .count = flow->conn_count,
            .total = stream->total_connections};

        slam_pacer_init(&flow->pacer, stream->rate_events, stream->rate_per_ns,
                        config->timeline->ramp_up_ns, stream->poisson, &own,
                        &flow->pacer_rng);
    }
    for (uint32_t i = 0; i < flow->conn_count; i++) {
        struct slam_conn *conn = &flow->conns[i];
        uint64_t local = config->index + (uint64_t)i * config->count;
        uint64_t number = stream->first_connection + local * stream->connection_stride;

        conn->flow = flow;
        conn->link.config = &stream->conn;
        conn->link.uri_index = (size_t)(number % stream->conn.uri_count);
        conn->link.inbox = &worker->inbox;
        conn->link.storage = flow->wires + i * slam_wire_size();
        conn->slots = flow->slots + (size_t)i * stream->in_flight;
        conn->tx = flow->tx + (size_t)i * stream->max_pdu;
        for (uint32_t slot = stream->in_flight; slot-- > 0;) {
            conn->slots[slot].conn = conn;
            conn->slots[slot].next_free = conn->free_head;
            conn->free_head = slot;
            conn->free_count++;
        }
    }
    return SLAM_OK;
}

void
slam_flow_destroy(struct slam_flow *flow)
{
    for (uint32_t i = 0; flow->conns && i < flow->conn_count; i++)
        slam_wire_close(flow->conns[i].link.wire, true);
    free(flow->conns);
    free(flow->slots);
    free(flow->wires);
    free(flow->tx);
    free(flow->value_states);
    free(flow->first_state);
    free(flow->backlog);
}

uint32_t
slam_flow_pick(struct slam_flow *flow)
{
    const struct slam_stream *stream = flow->stream;
    uint64_t draw;

    if (stream->op_count == 1)
        return 0;
    draw = slam_rng_below(&flow->values_rng, stream->total_weight);
    for (uint32_t op = 0;; op++) {
        if (draw < stream->ops[op].weight)
            return op;
        draw -= stream->ops[op].weight;
    }
}

bool
slam_flow_measures(const struct slam_flow *flow, uint64_t intended_ns)
{
    const struct slam_timeline *t = flow->worker->config.timeline;

    return intended_ns >= t->t0_ns + t->measure_start_ns &&
           intended_ns < t->t0_ns + t->measure_end_ns;
}

struct slam_op_record *
slam_flow_op_record(const struct slam_flow *flow, uint32_t op, bool measured)
{
    return slam_recorder_op(&flow->worker->recorder, flow->stream->first_op + op,
                            measured);
}

struct slam_stream_record *
slam_flow_stream_record(const struct slam_flow *flow)
{
    return &flow->worker->recorder.active->streams[flow->stream_index];
}
