/* SPDX-License-Identifier: Apache-2.0 */
#include "python/snapshot.h"

#include "python/objects.h"

/* -1 stands for all codes that have no counter of their own. */
static PyObject *
code_key(size_t place)
{
    return PyLong_FromLong(place < SLAM_RESULT_CODES ? (long)place : -1);
}

static PyObject *
result_codes(const struct slam_op_record *op)
{
    PyObject *codes = PyDict_New();

    for (size_t i = 0; codes && i <= SLAM_RESULT_CODES; i++) {
        PyObject *key, *value;
        int rc;

        if (op->result_codes[i] == 0)
            continue;
        key = code_key(i);
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
diagnostic_messages(const struct slam_op_record *op)
{
    PyObject *messages = PyDict_New();

    for (const struct slam_diagnostic *d = op->diagnostics;
         messages && d < op->diagnostics + SLAM_DIAGNOSTICS && d->len > 0; d++) {
        PyObject *key = code_key(d->result_code);
        PyObject *value = PyUnicode_DecodeUTF8(d->text, d->len, "replace");

        if (!key || !value || PyDict_SetItem(messages, key, value) != 0)
            Py_CLEAR(messages);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return messages;
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

#define PUT(name) || slam_py_put_u64(d, #name, from->name)

int
slam_py_append_op(PyObject *list, const struct slam_op_record *from, size_t stream,
                  size_t operation, size_t server, int measured)
{
    PyObject *d;

    if (slam_op_record_is_empty(from))
        return 0;
    d = PyDict_New();
    if (d && (slam_py_put_u64(d, "stream", stream) ||
              slam_py_put_u64(d, "operation", operation) ||
              slam_py_put_u64(d, "server", server) ||
              slam_py_put(d, "measured", PyBool_FromLong(measured)) ||
              slam_py_put(d, "result_codes", result_codes(from)) ||
              slam_py_put(d, "diagnostic_messages", diagnostic_messages(from)) ||
              slam_py_put(d, "histograms", op_histograms(from))
                  SLAM_OPERATION_COUNTERS(PUT)))
        Py_CLEAR(d);
    return slam_py_append(list, d);
}

#define PUT_TIME(constant, name)                                                       \
    || slam_py_put(d, #name, slam_py_pack_histogram(&from->set_up[SLAM_##constant]))

PyObject *
slam_py_stream_dict(const struct slam_stream_record *from, size_t index)
{
    PyObject *d = PyDict_New();

    if (d && (slam_py_put_u64(d, "stream", index) ||
              slam_py_put_u64(d, "last_done_ns", from->last_done_ns)
                  SLAM_STREAM_COUNTERS(PUT) SLAM_SET_UP_TIME_LIST(PUT_TIME)))
        Py_CLEAR(d);
    return d;
}

static PyObject *
worker_dict(const struct slam_worker_figures *from)
{
    PyObject *d = PyDict_New();

    if (d &&
        (slam_py_put_u64(d, "worker", from->index) ||
         slam_py_put(d, "model", PyUnicode_FromString(from->open ? "open" : "closed"))
             SLAM_WORKER_COUNTERS(PUT)))
        Py_CLEAR(d);
    return d;
}

PyObject *
slam_py_snapshot(const struct slam_engine *engine, const struct slam_snapshot *s,
                 uint64_t index)
{
    PyObject *ops = PyList_New(0);
    PyObject *streams = PyList_New(0);
    PyObject *workers = PyList_New(0);
    int rc = ops && streams && workers ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < 2 * s->op_count; i++) {
        size_t stream, operation, server;

        slam_engine_locate(engine, i / 2, &stream, &operation, &server);
        rc = slam_py_append_op(ops, &s->ops[i], stream, operation, server, i % 2 == 1);
    }
    for (size_t i = 0; rc == 0 && i < s->stream_count; i++)
        rc = slam_py_append(streams, slam_py_stream_dict(&s->streams[i], i));
    for (size_t i = 0; rc == 0 && i < s->worker_count; i++)
        rc = slam_py_append(workers, worker_dict(&s->workers[i]));
    if (rc == 0)
        return Py_BuildValue("{sKsKsKsNsKsNsNsN}", "index", (unsigned long long)index,
                             "start_ns", (unsigned long long)s->start_ns, "end_ns",
                             (unsigned long long)s->end_ns, "final",
                             PyBool_FromLong(s->final), "clock_step_ns",
                             (unsigned long long)s->clock_step_ns, "operations", ops,
                             "streams", streams, "workers", workers);
    Py_XDECREF(ops);
    Py_XDECREF(streams);
    Py_XDECREF(workers);
    return NULL;
}

/* Sets module.name to the tuple of the words. Returns 0, or -1 with an exception. */
static int
add_names(PyObject *module, const char *name, const char *words)
{
    PyObject *text = PyUnicode_FromString(words);
    PyObject *list = text ? PyUnicode_Split(text, NULL, -1) : NULL;
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    int rc = tuple ? PyModule_AddObjectRef(module, name, tuple) : -1;

    Py_XDECREF(text);
    Py_XDECREF(list);
    Py_XDECREF(tuple);
    return rc;
}

#define NAME(name) " " #name
#define SECOND_NAME(constant, name) " " #name

int
slam_py_add_names(PyObject *module)
{
    return add_names(module, "OPERATION_COUNTERS", SLAM_OPERATION_COUNTERS(NAME)) ||
                   add_names(module, "STREAM_COUNTERS", SLAM_STREAM_COUNTERS(NAME)) ||
                   add_names(module, "SET_UP_TIMES",
                             SLAM_SET_UP_TIME_LIST(SECOND_NAME)) ||
                   add_names(module, "WORKER_COUNTERS", SLAM_WORKER_COUNTERS(NAME)) ||
                   add_names(module, "METRICS", SLAM_METRIC_LIST(NAME)) ||
                   add_names(module, "OUTCOMES", SLAM_OUTCOME_LIST(NAME))
               ? -1
               : 0;
}
