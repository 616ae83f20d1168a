/* SPDX-License-Identifier: Apache-2.0 */
#include "load/shared_recorder.h"

#include "core/clock.h"
#include "core/slam_err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NO_REQUEST UINT32_MAX

struct request {
    uint32_t generation; /* odd: under way */
    uint32_t next_free;
    uint32_t op;
    bool measured;
    bool observed;
    uint64_t intended_ns;
    uint64_t slot_free_ns;
    uint64_t sent_ns;
    uint32_t requests;
    uint32_t entries;
    uint32_t references;
};

struct slam_shared {
    size_t bytes; /* of the mapping, which begins with this */
    uint32_t ops;
    bool open;
    uint64_t measure_start_ns; /* after T0 */
    uint64_t measure_end_ns;
    uint64_t backlog_cap;
    struct slam_rate_segment *segments;
    pthread_mutex_t lock; /* protects all that follows */
    uint64_t t0_ns;
    uint64_t end_ns;
    struct slam_shared_record records[2];
    struct slam_shared_record *active;
    struct slam_pacer pacer;
    struct slam_rng rng;
    uint64_t next_ns; /* arrival, after T0 */
    uint64_t *backlog;
    uint64_t backlog_head;
    uint64_t backlog_len;
    struct request *requests;
    uint32_t request_count; /* of those that were ever used */
    uint32_t free_head;
    uint32_t under_way;
};

static void *
carve(uint8_t **next, size_t count, size_t size)
{
    void *place = *next;

    *next += (count * size + 63) / 64 * 64;
    return place;
}

/* Places all arrays behind the struct at base. Returns their bytes. */
static size_t
lay_out(struct slam_shared *s, uint8_t *base, uint32_t ops,
        const struct slam_stream_settings *stream)
{
    uint8_t *next = base;

    s->backlog_cap = stream->max_backlog > 0 ? stream->max_backlog : 1;
    carve(&next, 1, sizeof(*s));
    s->segments = carve(&next, stream->segment_count, sizeof(*s->segments));
    s->backlog = carve(&next, s->backlog_cap, sizeof(*s->backlog));
    s->requests = carve(&next, SLAM_MAX_UNDER_WAY, sizeof(*s->requests));
    for (size_t i = 0; i < 2; i++) {
        s->records[i].ops = carve(&next, 2 * ops, sizeof(struct slam_op_record));
        s->records[i].stream = carve(&next, 1, sizeof(struct slam_stream_record));
    }
    return (size_t)(next - base);
}

static void
clear(const struct slam_shared *s, struct slam_shared_record *record)
{
    for (size_t i = 0; i < 2 * s->ops; i++)
        slam_op_record_clear(&record->ops[i]);
    slam_stream_record_clear(record->stream);
}

static void
init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

static int
init_arrivals(struct slam_shared *s, const struct slam_stream_settings *c,
              uint64_t seed, uint32_t number, char *err, size_t err_len)
{
    const struct slam_share share = {.first = c->first_connection,
                                     .step = c->connection_stride,
                                     .count = c->connections,
                                     .total = c->total_connections};
    int rc;

    memcpy(s->segments, c->segments, c->segment_count * sizeof(*s->segments));
    rc = slam_rate_profile_prepare(s->segments, c->segment_count, err, err_len);
    if (rc != SLAM_OK)
        return rc;
    /* as the engine's worker of these connections */
    slam_rng_seed(&s->rng, seed, ((3 * (uint64_t)number + 1) << 32) + share.first);
    rc = slam_pacer_init(&s->pacer, s->segments, c->segment_count, c->arrivals, &share,
                         c->total_operations, &s->rng);
    if (rc == SLAM_OK)
        s->next_ns = slam_pacer_next(&s->pacer, &s->rng);
    return rc;
}

int
slam_shared_create(const struct slam_engine_config *run,
                   const struct slam_stream_settings *stream, uint32_t number,
                   uint32_t ops, struct slam_shared **out, char *err, size_t err_len)
{
    struct slam_shared sizes;
    size_t bytes = lay_out(&sizes, NULL, ops, stream);
    struct slam_shared *s = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int rc = SLAM_OK;

    if (s == MAP_FAILED) {
        snprintf(err, err_len, "no memory to share with clients: %s", strerror(errno));
        return SLAM_ENOMEM;
    }
    lay_out(s, (uint8_t *)s, ops, stream);
    s->bytes = bytes;
    s->ops = ops;
    s->open = stream->open;
    s->measure_start_ns = run->measure_start_ns;
    s->measure_end_ns = run->measure_end_ns;
    s->end_ns = UINT64_MAX;
    s->next_ns = SLAM_PACER_NONE;
    s->free_head = NO_REQUEST;
    s->active = &s->records[0];
    clear(s, s->active);
    init_lock(&s->lock);
    if (s->open)
        rc = init_arrivals(s, stream, run->seed, number, err, err_len);
    if (rc == SLAM_OK)
        *out = s;
    else
        slam_shared_destroy(s);
    return rc;
}

void
slam_shared_destroy(struct slam_shared *s)
{
    if (s)
        munmap(s, s->bytes);
}

/* What a process that died under the lock had begun to count is its own matter: every
 * change is one that the others can live with. */
static void
hold(struct slam_shared *s)
{
    if (pthread_mutex_lock(&s->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&s->lock);
}

static void
release(struct slam_shared *s)
{
    pthread_mutex_unlock(&s->lock);
}

static uint64_t
since(uint64_t ns, uint64_t earlier_ns)
{
    /* below zero: two readings of the clock in the wrong order */
    return ns > earlier_ns ? ns - earlier_ns : 0;
}

static bool
measures(const struct slam_shared *s, uint64_t intended_ns)
{
    return intended_ns >= s->t0_ns + s->measure_start_ns &&
           intended_ns - s->t0_ns < s->measure_end_ns;
}

static struct slam_op_record *
op_record(const struct slam_shared *s, uint32_t op, bool measured)
{
    return &s->active->ops[2 * op + (measured ? 1u : 0u)];
}

/* -- arrivals -- */

/* The next arrival, if it is due by limit_ns and before the load is over. */
static bool
next_arrival(struct slam_shared *s, uint64_t limit_ns, uint64_t *due_ns)
{
    *due_ns = s->t0_ns + s->next_ns;
    if (s->next_ns == SLAM_PACER_NONE || *due_ns > limit_ns || *due_ns >= s->end_ns)
        return false;
    s->next_ns = slam_pacer_next(&s->pacer, &s->rng);
    return true;
}

static void
drop(struct slam_shared *s, uint64_t intended_ns)
{
    struct slam_op_record *op = op_record(s, 0, measures(s, intended_ns));

    op->scheduled++;
    op->dropped++;
}

static void
admit(struct slam_shared *s, uint64_t now_ns)
{
    uint64_t due_ns;

    while (next_arrival(s, now_ns, &due_ns)) {
        if (s->backlog_len == s->backlog_cap)
            drop(s, due_ns);
        else
            s->backlog[(s->backlog_head + s->backlog_len++) % s->backlog_cap] = due_ns;
    }
}

static uint64_t
first_of_backlog(struct slam_shared *s)
{
    uint64_t due_ns = s->backlog[s->backlog_head];

    s->backlog_head = (s->backlog_head + 1) % s->backlog_cap;
    s->backlog_len--;
    return due_ns;
}

uint64_t
slam_shared_take(struct slam_shared *s, uint64_t now_ns)
{
    uint64_t due_ns;

    hold(s);
    admit(s, now_ns);
    if (s->backlog_len > 0)
        due_ns = first_of_backlog(s);
    else if (!next_arrival(s, UINT64_MAX, &due_ns))
        due_ns = SLAM_PACER_NONE;
    release(s);
    return due_ns;
}

/* -- requests and observations -- */

static struct request *
new_request(struct slam_shared *s)
{
    struct request *r = NULL;

    if (s->free_head != NO_REQUEST) {
        r = &s->requests[s->free_head];
        s->free_head = r->next_free;
    } else if (s->request_count < SLAM_MAX_UNDER_WAY) {
        r = &s->requests[s->request_count++];
    }
    return r;
}

/* The request of a handle, while it is under way; else NULL. */
static struct request *
find(struct slam_shared *s, uint64_t handle)
{
    uint64_t index = handle >> 32;

    if (index >= s->request_count || (handle & 1) == 0 ||
        s->requests[index].generation != (uint32_t)handle)
        return NULL;
    return &s->requests[index];
}

uint64_t
slam_shared_begin(struct slam_shared *s, uint32_t op, uint64_t intended_ns,
                  uint64_t slot_free_ns, uint64_t sent_ns, bool observed)
{
    struct slam_op_record *record;
    struct request *r;
    uint64_t handle = 0;

    hold(s);
    r = new_request(s);
    if (r) {
        *r = (struct request){.generation = r->generation + 1,
                              .op = op,
                              .measured = measures(s, intended_ns),
                              .observed = observed,
                              .intended_ns = intended_ns,
                              .slot_free_ns = slot_free_ns,
                              .sent_ns = sent_ns};
        s->under_way++;
        record = op_record(s, op, r->measured);
        record->scheduled++;
        record->sent++;
        handle = (uint64_t)(r - s->requests) << 32 | r->generation;
    }
    release(s);
    return handle;
}

void
slam_shared_update(struct slam_shared *s, uint64_t handle, uint64_t sent_ns,
                   uint32_t requests, uint32_t entries, uint32_t references)
{
    struct request *r;

    hold(s);
    r = find(s, handle);
    if (r) {
        if (sent_ns > 0)
            r->sent_ns = sent_ns;
        r->requests += requests;
        r->entries += entries;
        r->references += references;
    }
    release(s);
}

static void
count_outcome(struct slam_op_record *op, enum slam_outcome outcome)
{
    uint64_t *const counters[SLAM_OUTCOMES] = {
        &op->succeeded, &op->failed, &op->expected, &op->timed_out, &op->unresolved};

    ++*counters[outcome];
}

/* As the engine does in request.c and channel.c. */
static void
finish(struct slam_shared *s, struct request *r, enum slam_outcome outcome, int code,
       uint64_t received_ns, uint64_t done_ns)
{
    struct slam_op_record *op = op_record(s, r->op, r->measured);
    struct slam_stream_record *stream = s->active->stream;
    struct slam_histogram *h = op->histograms[outcome];
    uint64_t could_send_ns =
        r->slot_free_ns > r->intended_ns ? r->slot_free_ns : r->intended_ns;
    bool answered = outcome <= SLAM_EXPECTED;

    count_outcome(op, outcome);
    op->requests += r->requests;
    op->entries += r->entries;
    op->references += r->references;
    slam_histogram_record(&h[SLAM_RESPONSE_TIME], since(received_ns, r->intended_ns));
    slam_histogram_record(&h[SLAM_SERVICE_TIME], since(received_ns, r->sent_ns));
    if (!r->observed)
        slam_histogram_record(&h[SLAM_SEND_LAG], since(r->sent_ns, could_send_ns));
    if (answered) {
        op->completed++;
        op->result_codes[code >= 0 && code < (int)SLAM_RESULT_CODES
                             ? code
                             : (int)SLAM_RESULT_CODES]++;
        slam_histogram_record(&h[SLAM_RECEIVE_LAG], since(done_ns, received_ns));
        if (done_ns > stream->last_done_ns)
            stream->last_done_ns = done_ns;
    }
    if (answered && !r->observed) {
        if (s->open)
            slam_histogram_record(&h[SLAM_BACKLOG_WAIT],
                                  could_send_ns - r->intended_ns);
        stream->stamps_missing++; /* libldap hands none over */
    }
    s->under_way--;
    r->generation++;
    r->next_free = s->free_head;
    s->free_head = (uint32_t)(r - s->requests);
}

bool
slam_shared_end(struct slam_shared *s, uint64_t handle, enum slam_outcome outcome,
                int code, uint64_t received_ns, uint64_t done_ns)
{
    struct request *r;

    hold(s);
    r = find(s, handle);
    if (r)
        finish(s, r, outcome, code, received_ns, done_ns);
    else if (outcome <= SLAM_EXPECTED)
        s->active->stream->late_responses++;
    release(s);
    return r != NULL;
}

/* -- the stream -- */

void
slam_shared_count(struct slam_shared *s, size_t offset, uint64_t number)
{
    hold(s);
    *(uint64_t *)(void *)((uint8_t *)s->active->stream + offset) += number;
    release(s);
}

void
slam_shared_connected(struct slam_shared *s, uint64_t duration_ns)
{
    hold(s);
    s->active->stream->connects++;
    slam_histogram_record(&s->active->stream->set_up[SLAM_CONNECT_TIME], duration_ns);
    release(s);
}

void
slam_shared_set_span(struct slam_shared *s, uint64_t t0_ns, uint64_t end_ns)
{
    hold(s);
    s->t0_ns = t0_ns;
    s->end_ns = end_ns;
    release(s);
}

uint64_t
slam_shared_end_ns(struct slam_shared *s)
{
    uint64_t end_ns;

    hold(s);
    end_ns = s->end_ns;
    release(s);
    return end_ns;
}

static void
give_all_up(struct slam_shared *s, uint64_t now_ns)
{
    s->next_ns = SLAM_PACER_NONE;
    while (s->backlog_len > 0)
        drop(s, first_of_backlog(s));
    for (uint32_t i = 0; i < s->request_count; i++)
        if (s->requests[i].generation & 1)
            finish(s, &s->requests[i], SLAM_UNRESOLVED, 0, now_ns, now_ns);
}

const struct slam_shared_record *
slam_shared_close(struct slam_shared *s, bool final)
{
    struct slam_shared_record *record = s->active;
    struct slam_shared_record *next = &s->records[record == &s->records[0]];
    struct slam_stream_record *stream = record->stream;

    clear(s, next);
    hold(s);
    record->end_ns = slam_clock_mono_ns();
    admit(s, record->end_ns);
    if (final)
        give_all_up(s, record->end_ns);
    stream->in_flight = s->under_way;
    stream->backlog = s->backlog_len;
    stream->last_done_ns = since(stream->last_done_ns, s->t0_ns);
    s->active = next;
    release(s);
    return record;
}
