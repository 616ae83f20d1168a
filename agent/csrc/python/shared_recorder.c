/* SPDX-License-Identifier: Apache-2.0 */
/* SharedRecorder: recorder and arrivals of one stream whose clients are processes
 * (a key `python`), in memory that their parent maps before it forks them. Times are
 * CLOCK_MONOTONIC in ns.
 *
 * Each call holds a lock for about a microsecond; the kernel takes it back from a
 * process that dies. The parent closes an interval by exchanging two records: no client
 * can keep it open.
 *
 * A client that is free takes the next arrival, due or not, and waits for it. The next
 * call puts what came due meanwhile into the backlog; nothing was taken out of it in
 * between, so it is as full, and drops as many, as if it had been kept all the time. */
#include "core/clock.h"
#include "core/wait.h"
#include "load/engine.h"
#include "load/model.h"
#include "load/pacer.h"
#include "python/objects.h"
#include "python/settings.h"
#include "python/snapshot.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_OPERATIONS 1024u
#define MAX_BACKLOG UINT32_MAX
#define MAX_UNDER_WAY (1u << 20) /* requests and observations */
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
    bool searched; /* it is known how many entries it returned */
};

struct record {
    struct slam_op_record *ops; /* [ops][2]: outside, in measure */
    struct slam_stream_record *stream;
};

struct shared {
    size_t bytes;    /* of the mapping, which begins with this */
    uint32_t number; /* of the stream in its plan */
    uint32_t ops;
    bool open;
    uint64_t measure_start_ns; /* after T0 */
    uint64_t measure_end_ns;
    uint64_t grace_ns;
    uint64_t backlog_cap;
    struct slam_rate_segment *segments;
    size_t interval_count;
    const uint64_t *interval_ends_ns; /* after T0; the parent's settings */
    pthread_mutex_t lock;             /* protects all that follows */
    uint64_t t0_ns;
    uint64_t end_ns;
    bool stopped; /* before its planned end */
    struct record records[2];
    struct record *active;
    struct slam_pacer pacer;
    struct slam_rng rng;
    uint64_t next_ns; /* arrival, after T0 */
    uint64_t *backlog;
    uint64_t backlog_head;
    uint64_t backlog_len;
    uint64_t resumed_ns; /* when it was seen last that the clients had stood still */
    struct slam_wait wait;
    size_t next_interval; /* its slots are the next to plan */
    uint32_t asked;       /* requests under way that are not observed */
    struct request *requests;
    uint32_t request_count; /* of those that were ever used */
    uint32_t free_head;
    uint32_t under_way;
};

static void *
carve(uintptr_t *next, size_t count, size_t size)
{
    void *place = (void *)*next;

    *next += (count * size + 63) / 64 * 64;
    return place;
}

/* Places all arrays behind the struct at base. Returns their bytes. */
static size_t
lay_out(struct shared *s, uintptr_t base, uint32_t ops,
        const struct slam_stream_settings *stream)
{
    uintptr_t next = base;

    s->backlog_cap = stream->max_backlog > 0 ? stream->max_backlog : 1;
    carve(&next, 1, sizeof(*s));
    s->segments = carve(&next, stream->segment_count, sizeof(*s->segments));
    s->backlog = carve(&next, s->backlog_cap, sizeof(*s->backlog));
    s->requests = carve(&next, MAX_UNDER_WAY, sizeof(*s->requests));
    for (size_t i = 0; i < 2; i++) {
        s->records[i].ops =
            carve(&next, 2 * (size_t)ops, sizeof(struct slam_op_record));
        s->records[i].stream = carve(&next, 1, sizeof(struct slam_stream_record));
    }
    return next - base;
}

static void
clear(const struct shared *s, struct record *record)
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
init_arrivals(struct shared *s, const struct slam_stream_settings *c, uint64_t seed,
              char *err)
{
    const struct slam_partition partition = {.first = c->first_connection,
                                             .step = c->connection_stride,
                                             .count = c->connections,
                                             .total = c->total_connections};
    int rc;

    memcpy(s->segments, c->segments, c->segment_count * sizeof(*s->segments));
    rc = slam_rate_profile_prepare(s->segments, c->segment_count, err);
    if (rc != SLAM_OK)
        return rc;
    /* as the engine's worker of these connections */
    slam_rng_seed(&s->rng, seed,
                  ((3 * (uint64_t)s->number + 1) << 32) + partition.first);
    rc = slam_pacer_init(&s->pacer, s->segments, c->segment_count, c->arrivals,
                         &partition, c->total_operations, &s->rng);
    if (rc == SLAM_OK)
        s->next_ns = slam_pacer_next(&s->pacer, &s->rng);
    return rc;
}

static void
plan_slots(struct shared *s)
{
    slam_wait_advance(&s->wait, s->t0_ns, s->interval_ends_ns, s->interval_count,
                      s->next_interval++);
}

static int
create(struct shared **out, const struct slam_engine_config *run,
       const struct slam_stream_settings *stream, uint32_t number, uint32_t ops,
       char *err)
{
    struct shared sizes, *s;
    size_t bytes;

    if (ops > MAX_OPERATIONS)
        return slam_fail(err, SLAM_EINVAL, "too many operations");
    if (stream->max_backlog > MAX_BACKLOG)
        return slam_fail(err, SLAM_EINVAL,
                         "max_backlog is above what a stream of Python can keep");
    bytes = lay_out(&sizes, 0, ops, stream);
    s = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s == MAP_FAILED)
        return slam_fail(err, SLAM_ENOMEM, "no memory to share: %s", strerror(errno));
    lay_out(s, (uintptr_t)s, ops, stream);
    s->bytes = bytes;
    s->number = number;
    s->ops = ops;
    s->open = stream->open;
    s->measure_start_ns = run->measure_start_ns;
    s->measure_end_ns = run->measure_end_ns;
    s->grace_ns = run->grace_ns;
    s->interval_count = run->boundary_count;
    s->interval_ends_ns = run->boundaries_ns;
    plan_slots(s);
    plan_slots(s);
    s->end_ns = UINT64_MAX;
    s->next_ns = SLAM_PACER_NONE;
    s->free_head = NO_REQUEST;
    s->active = &s->records[0];
    clear(s, s->active);
    init_lock(&s->lock);
    *out = s; /* its owner unmaps it, whatever follows */
    return s->open ? init_arrivals(s, stream, run->seed, err) : SLAM_OK;
}

static int
recorder_init(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "", "", "", NULL};
    struct slam_py_object *self = (struct slam_py_object *)self_object;
    struct slam_engine_config config = {0};
    struct shared *shared = NULL;
    struct slam_stream_settings stream = {0};
    PyObject *run, *plan, *keep = slam_py_init(self_object);
    unsigned int number, ops;
    char err[SLAM_ERR_LEN] = "a stream without connections";
    int rc;

    if (!keep ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "OOII", names, &run, &plan, &number,
                                     &ops) ||
        slam_py_read(slam_py_run_rows, run, &config, keep) != 0 ||
        slam_py_read(slam_py_stream_rows, plan, &stream, keep) != 0)
        return -1;
    rc = create(&shared, &config, &stream, number, ops, err);
    self->handle = shared;
    return slam_py_status(rc, err);
}

static void
recorder_dealloc(PyObject *self)
{
    struct shared *s = ((struct slam_py_object *)self)->handle;

    if (s)
        munmap(s, s->bytes);
    slam_py_free(self);
}

/* What the recorder shares; NULL with an exception: no __init__, or wrong arguments. */
static struct shared *
parsed(PyObject *self, PyObject *args, const char *format, ...)
{
    struct shared *s = slam_py_handle(self);
    va_list places;
    int rc;

    va_start(places, format);
    rc = s && PyArg_VaParse(args, format, places);
    va_end(places);
    return rc ? s : NULL;
}

static PyObject *
out_of_range(const char *what)
{
    return PyErr_Format(PyExc_ValueError, "no such %s", what);
}

/* A dead lock holder may leave a request half counted; the host fails the run. */
static void
hold(struct shared *s)
{
    if (pthread_mutex_lock(&s->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&s->lock);
}

static void
release(struct shared *s)
{
    pthread_mutex_unlock(&s->lock);
}

static bool
measures(const struct shared *s, uint64_t intended_ns)
{
    return intended_ns >= s->t0_ns + s->measure_start_ns &&
           intended_ns - s->t0_ns < s->measure_end_ns;
}

static struct slam_op_record *
op_record(const struct shared *s, uint32_t op, bool measured)
{
    return &s->active->ops[2 * op + (measured ? 1u : 0u)];
}

/* The next arrival, if it is due by limit_ns and before the load is over. */
static bool
next_arrival(struct shared *s, uint64_t limit_ns, uint64_t *due_ns)
{
    *due_ns = s->t0_ns + s->next_ns;
    if (s->next_ns == SLAM_PACER_NONE || *due_ns > limit_ns || *due_ns >= s->end_ns)
        return false;
    s->next_ns = slam_pacer_next(&s->pacer, &s->rng);
    return true;
}

static void
drop(struct shared *s, uint64_t intended_ns)
{
    struct slam_op_record *op = op_record(s, 0, measures(s, intended_ns));

    op->scheduled++;
    op->dropped++;
}

/* Drops what waits and was due since then. */
static void
drop_since(struct shared *s, uint64_t since_ns)
{
    for (; s->backlog_len > 0; s->backlog_len--) {
        size_t last = (s->backlog_head + s->backlog_len - 1) % s->backlog_cap;

        if (s->backlog[last] < since_ns)
            return;
        drop(s, s->backlog[last]);
    }
}

/* After the end what waits is taken for as long as the engine's flows send it. */
static void
admit(struct shared *s, uint64_t now_ns)
{
    uint64_t due_ns;

    while (next_arrival(s, now_ns, &due_ns))
        if (s->backlog_len == s->backlog_cap)
            drop(s, due_ns);
        else
            s->backlog[(s->backlog_head + s->backlog_len++) % s->backlog_cap] = due_ns;
    if (now_ns >= s->end_ns && (s->stopped || now_ns - s->end_ns >= s->grace_ns))
        drop_since(s, 0);
}

/* For a process that was to wake at due_ns, a client for its arrival. The first that
 * has stood still as an open loop may (load/model.h) drops what else was due meanwhile,
 * and begins its own: its send lag tells. Other clients' arrivals are dropped. */
static PyObject *
recorder_wake(PyObject *self, PyObject *args)
{
    unsigned long long due_ns, now_ns;
    int arrives;
    struct shared *s = parsed(self, args, "KKp", &due_ns, &now_ns, &arrives);
    bool known;

    if (!s)
        return NULL;
    hold(s);
    known = due_ns < s->resumed_ns;
    if (known && arrives)
        drop(s, due_ns);
    if (!known && slam_since_ns(now_ns, due_ns) > SLAM_STOOD_STILL_NS) {
        admit(s, now_ns);
        drop_since(s, due_ns);
        s->resumed_ns = now_ns;
    }
    release(s);
    return PyBool_FromLong(!known);
}

static PyObject *
recorder_take(PyObject *self, PyObject *args)
{
    unsigned long long now_ns;
    struct shared *s = parsed(self, args, "K", &now_ns);
    uint64_t due_ns;
    bool found = true;

    if (!s)
        return NULL;
    hold(s);
    admit(s, now_ns);
    if (s->backlog_len > 0) {
        due_ns = s->backlog[s->backlog_head];
        s->backlog_head = (s->backlog_head + 1) % s->backlog_cap;
        s->backlog_len--;
    } else {
        found = next_arrival(s, UINT64_MAX, &due_ns);
    }
    release(s);
    return found ? PyLong_FromUnsignedLongLong(due_ns) : Py_NewRef(Py_None);
}

static struct request *
new_request(struct shared *s)
{
    struct request *r = NULL;

    if (s->free_head != NO_REQUEST) {
        r = &s->requests[s->free_head];
        s->free_head = r->next_free;
    } else if (s->request_count < MAX_UNDER_WAY) {
        r = &s->requests[s->request_count++];
    }
    return r;
}

/* The request of a handle, while it is under way; else NULL. */
static struct request *
find(struct shared *s, uint64_t handle)
{
    uint64_t index = handle >> 32;

    if (index >= s->request_count || (handle & 1) == 0 ||
        s->requests[index].generation != (uint32_t)handle)
        return NULL;
    return &s->requests[index];
}

static PyObject *
recorder_begin(PyObject *self, PyObject *args)
{
    unsigned long long intended_ns, slot_free_ns, sent_ns, handle = 0;
    unsigned int op;
    int observed;
    struct shared *s = parsed(self, args, "IKKKp", &op, &intended_ns, &slot_free_ns,
                              &sent_ns, &observed);
    struct request *r;

    if (!s || op >= s->ops)
        return s ? out_of_range("operation") : NULL;
    hold(s);
    r = new_request(s);
    if (r) {
        struct slam_op_record *record = op_record(s, op, measures(s, intended_ns));

        *r = (struct request){.generation = r->generation + 1,
                              .op = op,
                              .measured = measures(s, intended_ns),
                              .observed = observed,
                              .intended_ns = intended_ns,
                              .slot_free_ns = slot_free_ns,
                              .sent_ns = sent_ns};
        s->under_way++;
        if (!observed) {
            s->asked++;
            slam_wait_sent(&s->wait, s->active->stream, sent_ns);
        }
        record->scheduled++;
        record->sent++;
        handle = (uint64_t)(r - s->requests) << 32 | r->generation;
    }
    release(s);
    return r ? PyLong_FromUnsignedLongLong(handle)
             : PyErr_Format(PyExc_OverflowError, "%u observations are under way",
                            MAX_UNDER_WAY);
}

static PyObject *
recorder_update(PyObject *self, PyObject *args)
{
    unsigned long long handle, sent_ns;
    unsigned int requests, entries, references;
    int searched;
    struct shared *s = parsed(self, args, "KKIIIp", &handle, &sent_ns, &requests,
                              &entries, &references, &searched);
    struct request *r;

    if (!s)
        return NULL;
    hold(s);
    r = find(s, handle);
    if (r) {
        if (sent_ns > 0) {
            /* what came before it in the block was no wait for the directory */
            if (s->wait.since_ns == r->sent_ns)
                s->wait.since_ns = sent_ns;
            r->sent_ns = sent_ns;
        }
        r->requests += requests;
        r->entries += entries;
        r->references += references;
        r->searched |= searched;
    }
    release(s);
    Py_RETURN_NONE;
}

/* As the engine does in load/response.c. */
static void
finish(struct shared *s, struct request *r, enum slam_outcome outcome, int code,
       uint64_t received_ns, uint64_t done_ns)
{
    struct slam_op_record *op = op_record(s, r->op, r->measured);
    struct slam_stream_record *stream = s->active->stream;
    struct slam_histogram *h =
        slam_op_record_outcome(op, outcome, r->intended_ns, r->sent_ns, received_ns);
    uint64_t could_send_ns =
        r->slot_free_ns > r->intended_ns ? r->slot_free_ns : r->intended_ns;
    bool answered = outcome <= SLAM_EXPECTED;

    op->requests += r->requests;
    op->entries += r->entries;
    op->references += r->references;
    if (!r->observed)
        slam_histogram_record(&h[SLAM_SEND_LAG],
                              slam_since_ns(r->sent_ns, could_send_ns));
    if (answered) {
        slam_op_record_response(op, slam_result_code(code), outcome,
                                r->searched && r->entries == 0);
        slam_histogram_record(&h[SLAM_RECEIVE_LAG],
                              slam_since_ns(done_ns, received_ns));
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
    s->asked -= !r->observed;
    if (answered && !r->observed)
        slam_wait_responded(&s->wait, stream, done_ns, s->asked ? done_ns : 0);
    else if (!r->observed && s->asked == 0)
        s->wait.given_up_ns = done_ns;
    r->generation++;
    r->next_free = s->free_head;
    s->free_head = (uint32_t)(r - s->requests);
}

static PyObject *
recorder_end(PyObject *self, PyObject *args)
{
    unsigned long long handle, received_ns, done_ns;
    unsigned int outcome;
    int code;
    const char *diagnostic = "";
    Py_ssize_t diagnostic_len = 0;
    struct shared *s = parsed(self, args, "KIiKK|y#", &handle, &outcome, &code,
                              &received_ns, &done_ns, &diagnostic, &diagnostic_len);
    struct request *r;

    if (!s || outcome >= SLAM_OUTCOMES)
        return s ? out_of_range("outcome") : NULL;
    hold(s);
    r = find(s, handle);
    if (r && outcome == SLAM_FAILED)
        slam_op_record_diagnostic(op_record(s, r->op, r->measured),
                                  slam_result_code(code), diagnostic,
                                  (size_t)diagnostic_len);
    if (r)
        finish(s, r, (enum slam_outcome)outcome, code, received_ns, done_ns);
    else if (outcome <= SLAM_EXPECTED)
        s->active->stream->late_responses++;
    release(s);
    return PyBool_FromLong(r != NULL);
}

static PyObject *
recorder_count(PyObject *self, PyObject *args)
{
    static const char *const names[] = {
#define NAME(name) #name,
        SLAM_STREAM_COUNTERS(NAME)};
    unsigned long long number = 1;
    const char *name;
    struct shared *s = parsed(self, args, "s|K", &name, &number);
    size_t i = 0;

    while (s && i < sizeof(names) / sizeof(names[0]) && strcmp(name, names[i]) != 0)
        i++;
    if (!s || i == sizeof(names) / sizeof(names[0]))
        return s ? out_of_range("counter") : NULL;
    hold(s);
    /* the record begins with the counters, in the order of their list */
    ((uint64_t *)s->active->stream)[i] += number;
    release(s);
    Py_RETURN_NONE;
}

static PyObject *
recorder_failed(PyObject *self, PyObject *args)
{
    int fault;
    struct shared *s = parsed(self, args, "i", &fault);
    enum slam_cause cause;

    if (!s)
        return NULL;
    cause = slam_cause_of_errno(fault);
    hold(s);
    slam_stream_record_failure(s->active->stream, cause);
    release(s);
    return PyBool_FromLong(slam_cause_is_own(cause));
}

static PyObject *
recorder_connected(PyObject *self, PyObject *args)
{
    unsigned long long duration_ns;
    struct shared *s = parsed(self, args, "K", &duration_ns);
    struct slam_stream_record *stream;

    if (!s)
        return NULL;
    hold(s);
    stream = s->active->stream;
    stream->connects++;
    slam_histogram_record(&stream->set_up[SLAM_CONNECT_TIME], duration_ns);
    release(s);
    Py_RETURN_NONE;
}

static PyObject *
recorder_set_span(PyObject *self, PyObject *args)
{
    unsigned long long t0_ns, end_ns;
    int stopped;
    struct shared *s = parsed(self, args, "KKp", &t0_ns, &end_ns, &stopped);

    if (!s)
        return NULL;
    hold(s);
    /* before the first interval */
    s->wait.slots[0].start_ns += t0_ns - s->t0_ns;
    s->wait.slots[1].start_ns += t0_ns - s->t0_ns;
    s->t0_ns = t0_ns;
    s->end_ns = end_ns;
    s->stopped = stopped;
    release(s);
    Py_RETURN_NONE;
}

static PyObject *
recorder_end_ns(PyObject *self, PyObject *args)
{
    struct shared *s = parsed(self, args, "");
    uint64_t end_ns;

    if (!s)
        return NULL;
    hold(s);
    end_ns = s->end_ns;
    release(s);
    return PyLong_FromUnsignedLongLong(end_ns);
}

static void
give_all_up(struct shared *s, uint64_t now_ns)
{
    s->next_ns = SLAM_PACER_NONE;
    drop_since(s, 0);
    for (uint32_t i = 0; i < s->request_count; i++)
        if (s->requests[i].generation & 1)
            finish(s, &s->requests[i], SLAM_UNRESOLVED, 0, now_ns, now_ns);
}

/* Ends the interval; returns when. Its record is inactive until the next end. */
static uint64_t
exchange(struct shared *s, bool final)
{
    struct record *next = &s->records[s->active == &s->records[0]];
    struct slam_stream_record *stream = s->active->stream;
    uint64_t now_ns;

    clear(s, next);
    hold(s);
    now_ns = slam_clock_mono_ns();
    admit(s, now_ns);
    if (final)
        give_all_up(s, now_ns);
    stream->in_flight = s->under_way;
    stream->backlog = s->backlog_len;
    if (!s->asked)
        slam_wait_end(&s->wait, stream,
                      s->wait.given_up_ns ? s->wait.given_up_ns : now_ns);
    slam_wait_report(&s->wait, stream, now_ns);
    plan_slots(s);
    slam_stream_record_since(stream, s->t0_ns);
    s->active = next;
    release(s);
    return now_ns;
}

static PyObject *
recorder_close(PyObject *self, PyObject *args)
{
    int final;
    struct shared *s = parsed(self, args, "p", &final);
    const struct record *record = s ? s->active : NULL;
    PyObject *tables;
    uint64_t end_ns;
    int rc = 0;

    if (!s)
        return NULL;
    end_ns = exchange(s, final);
    tables = slam_py_tables();
    for (uint32_t i = 0; tables && rc == 0 && i < 2 * s->ops; i++)
        rc =
            slam_py_append_op(tables, &record->ops[i], s->number, i / 2, 0, i % 2 == 1);
    if (tables && rc == 0 &&
        slam_py_append_stream(tables, record->stream, s->number, 0) == 0)
        return Py_BuildValue("(KN)", (unsigned long long)end_ns,
                             slam_py_packed_tables(tables));
    Py_XDECREF(tables);
    return NULL;
}

static PyMethodDef recorder_methods[] = {
    {"set_span", recorder_set_span, METH_VARARGS, NULL},
    {"end_ns", recorder_end_ns, METH_VARARGS, NULL},
    {"take", recorder_take, METH_VARARGS, NULL},
    {"wake", recorder_wake, METH_VARARGS, NULL},
    {"begin", recorder_begin, METH_VARARGS, NULL},
    {"update", recorder_update, METH_VARARGS, NULL},
    {"end", recorder_end, METH_VARARGS, NULL},
    {"count", recorder_count, METH_VARARGS, NULL},
    {"connected", recorder_connected, METH_VARARGS, NULL},
    {"failed", recorder_failed, METH_VARARGS, NULL},
    {"close", recorder_close, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot recorder_slots[] = {{Py_tp_init, recorder_init},
                                       {Py_tp_dealloc, recorder_dealloc},
                                       {Py_tp_methods, recorder_methods},
                                       {0, NULL}};

PyType_Spec slam_py_shared_recorder_spec =
    SLAM_PY_TYPE("SharedRecorder", struct slam_py_object, recorder_slots);
