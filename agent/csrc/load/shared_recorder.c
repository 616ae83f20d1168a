/* SPDX-License-Identifier: Apache-2.0 */
#include "load/shared_recorder.h"

#include "core/clock.h"
#include "core/slam_err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

#define NO_REQUEST UINT32_MAX

struct slam_shared {
    size_t bytes; /* of the mapping, which begins with this */
    struct slam_shared_config config;
    struct slam_rate_segment *segments;
    pthread_mutex_t lock; /* protects all that follows */
    uint64_t t0_ns;
    uint64_t end_ns;
    struct slam_shared_record records[2];
    struct slam_shared_record *active;
    struct slam_pacer pacer;
    struct slam_rng rng;
    uint64_t next_arrival_ns;
    uint64_t *backlog;
    uint64_t backlog_head;
    uint64_t backlog_len;
    uint64_t *down_since_ns; /* by client */
    struct request *requests;
    uint32_t request_count; /* of those that were ever used */
    uint32_t free_head;
    uint32_t under_way;
};

static void *
carve(uint8_t **next, size_t bytes)
{
    void *place = *next;

    *next += (bytes + 63) / 64 * 64;
    return place;
}

/* Places all arrays behind the struct; without a base, counts their bytes only. */
static size_t
lay_out(struct slam_shared *s, const struct slam_shared_config *c, uint8_t *base)
{
    uint8_t *next = base;

    carve(&next, sizeof(*s));
    s->segments = carve(&next, c->segment_count * sizeof(*s->segments));
    for (size_t i = 0; i < 2; i++) {
        s->records[i].ops = carve(&next, 2 * c->ops * sizeof(struct slam_op_record));
        s->records[i].stream = carve(&next, sizeof(struct slam_stream_record));
    }
    s->backlog = carve(&next, c->max_backlog * sizeof(*s->backlog));
    s->down_since_ns = carve(&next, c->clients * sizeof(*s->down_since_ns));
    s->requests = carve(&next, SLAM_MAX_UNDER_WAY * sizeof(*s->requests));
    return (size_t)(next - base);
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
init_arrivals(struct slam_shared *s, const struct slam_shared_config *c, char *err,
              size_t err_len)
{
    int rc;

    if (c->segment_count == 0)
        return SLAM_OK;
    memcpy(s->segments, c->segments, c->segment_count * sizeof(*s->segments));
    rc = slam_rate_profile_prepare(s->segments, c->segment_count, err, err_len);
    if (rc != SLAM_OK)
        return rc;
    slam_rng_seed(&s->rng, c->seed, c->sequence);
    return slam_pacer_init(&s->pacer, s->segments, c->segment_count, c->arrivals,
                           &c->share, c->limit, &s->rng);
}

int
slam_shared_create(const struct slam_shared_config *c, struct slam_shared **out,
                   char *err, size_t err_len)
{
    struct slam_shared sizes;
    struct slam_shared *s;
    size_t bytes;
    int rc;

    snprintf(err, err_len, "a share without connections or a backlog");
    if (c->segment_count > 0 && (c->share.count == 0 || c->max_backlog == 0))
        return SLAM_EINVAL;
    if (c->max_backlog > SIZE_MAX / 64)
        return SLAM_ENOMEM;
    bytes = lay_out(&sizes, c, NULL);
    s = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s == MAP_FAILED) {
        snprintf(err, err_len, "no memory to share with clients: %s", strerror(errno));
        return SLAM_ENOMEM;
    }
    lay_out(s, c, (uint8_t *)s);
    s->bytes = bytes;
    s->config = *c;
    s->end_ns = s->next_arrival_ns = UINT64_MAX;
    s->free_head = NO_REQUEST;
    s->active = &s->records[0];
    init_lock(&s->lock);
    slam_shared_clear(s, &s->records[0]);
    slam_shared_clear(s, &s->records[1]);
    rc = init_arrivals(s, c, err, err_len);
    if (rc != SLAM_OK) {
        slam_shared_destroy(s);
        return rc;
    }
    *out = s;
    return SLAM_OK;
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

static uint64_t
least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool
measures(const struct slam_shared *s, uint64_t intended_ns)
{
    return intended_ns >= s->t0_ns + s->config.measure_start_ns &&
           intended_ns - s->t0_ns < s->config.measure_end_ns;
}

static struct slam_op_record *
op_record(const struct slam_shared *s, uint32_t op, bool measured)
{
    return &s->active->ops[2 * op + (measured ? 1u : 0u)];
}

/* -- arrivals -- */

static void
advance(struct slam_shared *s)
{
    uint64_t after_t0_ns = slam_pacer_next(&s->pacer, &s->rng);

    s->next_arrival_ns =
        after_t0_ns == SLAM_PACER_NONE ? UINT64_MAX : s->t0_ns + after_t0_ns;
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
    uint64_t cap = s->config.max_backlog;

    for (; s->next_arrival_ns <= now_ns && s->next_arrival_ns < s->end_ns; advance(s)) {
        if (s->backlog_len == cap)
            drop(s, s->next_arrival_ns);
        else
            s->backlog[(s->backlog_head + s->backlog_len++) % cap] = s->next_arrival_ns;
    }
}

static uint64_t
first_of_backlog(struct slam_shared *s)
{
    uint64_t due_ns = s->backlog[s->backlog_head];

    s->backlog_head = (s->backlog_head + 1) % s->config.max_backlog;
    s->backlog_len--;
    return due_ns;
}

uint64_t
slam_shared_take(struct slam_shared *s, uint64_t now_ns)
{
    uint64_t due_ns = SLAM_PACER_NONE;

    hold(s);
    admit(s, now_ns);
    if (s->backlog_len > 0) {
        due_ns = first_of_backlog(s);
    } else if (s->next_arrival_ns < s->end_ns) {
        due_ns = s->next_arrival_ns;
        advance(s);
    }
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
        if (done_ns > stream->last_completion_ns)
            stream->last_completion_ns = done_ns;
    }
    if (answered && !r->observed) {
        if (s->config.segment_count > 0)
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
slam_shared_count(struct slam_shared *s, size_t offset)
{
    hold(s);
    ++*(uint64_t *)(void *)((uint8_t *)s->active->stream + offset);
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

/* Counts the time that a client was down until now, or until the load was over. */
static void
tally_down(struct slam_shared *s, uint32_t client, uint64_t now_ns)
{
    uint64_t *down_since_ns = &s->down_since_ns[client];
    uint64_t until_ns = least(now_ns, s->end_ns);

    if (*down_since_ns > 0 && until_ns > *down_since_ns) {
        s->active->stream->down_ns += until_ns - *down_since_ns;
        *down_since_ns = until_ns;
    }
}

void
slam_shared_down(struct slam_shared *s, uint32_t client, uint64_t since_ns)
{
    hold(s);
    tally_down(s, client, slam_clock_mono_ns());
    s->down_since_ns[client] = since_ns;
    release(s);
}

void
slam_shared_start(struct slam_shared *s, uint64_t t0_ns, uint64_t end_ns)
{
    hold(s);
    s->t0_ns = t0_ns;
    s->end_ns = end_ns;
    if (s->config.segment_count > 0)
        advance(s);
    release(s);
}

void
slam_shared_stop(struct slam_shared *s, uint64_t end_ns)
{
    hold(s);
    s->end_ns = least(s->end_ns, end_ns);
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

/* -- intervals -- */

struct slam_shared_record *
slam_shared_close(struct slam_shared *s, bool final)
{
    struct slam_shared_record *record;
    uint64_t now_ns;

    hold(s);
    record = s->active;
    now_ns = slam_clock_mono_ns();
    admit(s, now_ns);
    for (uint32_t i = 0; i < s->config.clients; i++)
        tally_down(s, i, now_ns);
    if (final) {
        s->next_arrival_ns = UINT64_MAX;
        while (s->backlog_len > 0)
            drop(s, first_of_backlog(s));
        for (uint32_t i = 0; i < s->request_count; i++)
            if (s->requests[i].generation & 1)
                finish(s, &s->requests[i], SLAM_UNRESOLVED, 0, now_ns, now_ns);
    }
    record->end_ns = now_ns;
    record->stream->last_completion_ns =
        since(record->stream->last_completion_ns, s->t0_ns);
    record->stream->in_flight = s->under_way;
    record->stream->backlog = s->backlog_len;
    s->active = &s->records[record == &s->records[0]];
    release(s);
    return record;
}

void
slam_shared_clear(struct slam_shared *s, struct slam_shared_record *record)
{
    for (size_t i = 0; i < 2 * s->config.ops; i++)
        slam_op_record_clear(&record->ops[i]);
    slam_stream_record_clear(record->stream);
}
