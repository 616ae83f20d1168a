/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot of the engine as a dict. */
#include "python/snapshot.h"

#include "python/module.h"

static PyObject *
result_codes(const struct slam_op_record *op)
{
    PyObject *codes = PyDict_New();

    for (size_t i = 0; codes && i <= SLAM_RESULT_CODES; i++) {
        PyObject *key, *value;
        int rc;

        if (op->result_codes[i] == 0)
            continue;
        /* -1 stands for all codes that have no counter of their own */
        key = PyLong_FromLong(i < SLAM_RESULT_CODES ? (long)i : -1);
        value = PyLong_FromUnsignedLongLong(op->result_codes[i]);
        rc = key && value ? PyDict_SetItem(codes, key, value) : -1;
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (rc != 0)
            Py_CLEAR(codes);
    }
    return codes;
}

static PyObject *
op_histograms(const struct slam_op_record *op)
{
    PyObject *list = PyList_New(0);

    for (int outcome = 0; list && outcome < SLAM_OUTCOMES; outcome++) {
        for (int metric = 0; list && metric < SLAM_METRICS; metric++) {
            const struct slam_histogram *h = &op->histograms[outcome][metric];
            PyObject *packed;

            if (h->total == 0 && h->overflow == 0)
                continue;
            packed = slam_py_pack_histogram(h);
            if (!packed || slam_py_append(list, Py_BuildValue("(iiO)", metric, outcome,
                                                              packed)) != 0)
                Py_CLEAR(list);
            Py_XDECREF(packed);
        }
    }
    return list;
}

static int
op_is_empty(const struct slam_op_record *op)
{
    return op->scheduled == 0 && op->sent == 0 && op->completed == 0 &&
           op->dropped == 0 && op->unresolved == 0 && op->timed_out == 0 &&
           op->abandoned == 0 && op->substituted == 0 && op->requests == 0 &&
           op->entries == 0 && op->references == 0;
}

int
slam_py_append_op(PyObject *list, const struct slam_op_record *op, size_t stream,
                  size_t operation, int measured)
{
    PyObject *d;

    if (op_is_empty(op))
        return 0;
    d = PyDict_New();
    if (d && (slam_py_put_u64(d, "stream", stream) ||
              slam_py_put_u64(d, "operation", operation) ||
              slam_py_put(d, "measured", PyBool_FromLong(measured)) ||
              slam_py_put_u64(d, "scheduled", op->scheduled) ||
              slam_py_put_u64(d, "sent", op->sent) ||
              slam_py_put_u64(d, "completed", op->completed) ||
              slam_py_put_u64(d, "succeeded", op->succeeded) ||
              slam_py_put_u64(d, "expected", op->expected) ||
              slam_py_put_u64(d, "failed", op->failed) ||
              slam_py_put_u64(d, "dropped", op->dropped) ||
              slam_py_put_u64(d, "abandoned", op->abandoned) ||
              slam_py_put_u64(d, "substituted", op->substituted) ||
              slam_py_put_u64(d, "captures_missing", op->captures_missing) ||
              slam_py_put_u64(d, "requests", op->requests) ||
              slam_py_put_u64(d, "unresolved", op->unresolved) ||
              slam_py_put_u64(d, "timed_out", op->timed_out) ||
              slam_py_put_u64(d, "entries", op->entries) ||
              slam_py_put_u64(d, "references", op->references) ||
              slam_py_put(d, "result_codes", result_codes(op)) ||
              slam_py_put(d, "histograms", op_histograms(op))))
        Py_CLEAR(d);
    return slam_py_append(list, d);
}

PyObject *
slam_py_stream_dict(const struct slam_stream_record *s, size_t index)
{
    static const char *const times[SLAM_SET_UP_TIMES] = {"connect_time", "tcp_time",
                                                         "tls_time", "bind_time"};
    PyObject *d = PyDict_New();

    if (d && (slam_py_put_u64(d, "stream", index) ||
              slam_py_put_u64(d, "connects", s->connects) ||
              slam_py_put_u64(d, "binds", s->binds) ||
              slam_py_put_u64(d, "extended", s->extended) ||
              slam_py_put_u64(d, "unbinds", s->unbinds) ||
              slam_py_put_u64(d, "connect_failures", s->connect_failures) ||
              slam_py_put_u64(d, "disconnects", s->disconnects) ||
              slam_py_put_u64(d, "down_ns", s->down_ns) ||
              slam_py_put_u64(d, "protocol_errors", s->protocol_errors) ||
              slam_py_put_u64(d, "late_responses", s->late_responses) ||
              slam_py_put_u64(d, "unexpected_messages", s->unexpected_messages) ||
              slam_py_put_u64(d, "notices", s->notices) ||
              slam_py_put_u64(d, "stamps_missing", s->stamps_missing) ||
              slam_py_put_u64(d, "in_flight", s->in_flight) ||
              slam_py_put_u64(d, "backlog", s->backlog) ||
              slam_py_put_u64(d, "last_done_ns", s->last_completion_ns)))
        Py_CLEAR(d);
    for (size_t i = 0; d && i < SLAM_SET_UP_TIMES; i++)
        if (slam_py_put(d, times[i], slam_py_pack_histogram(&s->set_up[i])))
            Py_CLEAR(d);
    return d;
}

static PyObject *
worker_dict(const struct slam_worker_figures *w)
{
    PyObject *d = PyDict_New();

    if (d &&
        (slam_py_put_u64(d, "worker", w->index) ||
         slam_py_put(d, "model", PyUnicode_FromString(w->open ? "open" : "closed")) ||
         slam_py_put_u64(d, "wall_ns", w->wall_ns) ||
         slam_py_put_u64(d, "busy_ns", w->busy_ns) ||
         slam_py_put_u64(d, "spin_ns", w->spin_ns) ||
         slam_py_put_u64(d, "cpu_ns", w->cpu_ns) ||
         slam_py_put_u64(d, "run_queue_ns", w->run_queue_ns) ||
         slam_py_put_u64(d, "loops", w->loops)))
        Py_CLEAR(d);
    return d;
}

PyObject *
slam_py_snapshot(const struct slam_engine *engine, const struct slam_snapshot *s,
                 uint64_t index)
{
    PyObject *d = PyDict_New();
    PyObject *ops = PyList_New(0);
    PyObject *streams = PyList_New(0);
    PyObject *workers = PyList_New(0);
    int rc = d && ops && streams && workers ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < 2 * s->op_count; i++) {
        size_t stream, operation;

        slam_engine_locate(engine, i / 2, &stream, &operation);
        rc = slam_py_append_op(ops, &s->ops[i], stream, operation, i % 2 == 1);
    }
    for (size_t i = 0; rc == 0 && i < s->stream_count; i++)
        rc = slam_py_append(streams, slam_py_stream_dict(&s->streams[i], i));
    for (size_t i = 0; rc == 0 && i < s->worker_count; i++)
        rc = slam_py_append(workers, worker_dict(&s->workers[i]));
    if (rc == 0 && (slam_py_put_u64(d, "index", index) ||
                    slam_py_put_u64(d, "start_ns", s->start_ns) ||
                    slam_py_put_u64(d, "end_ns", s->end_ns) ||
                    slam_py_put(d, "final", PyBool_FromLong(s->final)) ||
                    slam_py_put_u64(d, "clock_step_ns", s->clock_step_ns) ||
                    PyDict_SetItemString(d, "operations", ops) ||
                    PyDict_SetItemString(d, "streams", streams) ||
                    PyDict_SetItemString(d, "workers", workers)))
        rc = -1;
    Py_XDECREF(ops);
    Py_XDECREF(streams);
    Py_XDECREF(workers);
    if (rc != 0)
        Py_CLEAR(d);
    return d;
}
