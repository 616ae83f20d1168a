/* SPDX-License-Identifier: Apache-2.0 */
#include "python/snapshot.h"

#include "python/objects.h"

#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tables are written as they are in memory"
#endif

/* The tables of a snapshot, then the bytes that rows of them have: diagnostic messages
 * of responses, histograms of operations, set-up times of streams. */
static const char *const names[] = {"operations", "responses",  "streams", "workers",
                                    "messages",   "histograms", "set_ups"};

PyObject *
slam_py_tables(void)
{
    PyObject *tables = PyDict_New();

    for (size_t i = 0; tables && i < sizeof(names) / sizeof(*names); i++)
        if (slam_py_put(tables, names[i], PyByteArray_FromStringAndSize(NULL, 0)) != 0)
            Py_CLEAR(tables);
    return tables;
}

/* Lengthens a table. Returns where the new bytes begin, or NULL with an exception. */
static void *
extend(PyObject *tables, const char *name, size_t len)
{
    PyObject *table = PyDict_GetItemString(tables, name);
    const Py_ssize_t size = PyByteArray_Size(table);

    if (PyByteArray_Resize(table, size + (Py_ssize_t)len) != 0)
        return NULL;
    return PyByteArray_AsString(table) + size;
}

static int
append(PyObject *tables, const char *name, const void *data, size_t len)
{
    void *place = extend(tables, name, len);

    if (!place)
        return -1;
    memcpy(place, data, len);
    return 0;
}

/* Sets *len to the bytes that are appended: 0 for an empty histogram. */
static int
append_histogram(PyObject *tables, const char *name, const struct slam_histogram *h,
                 uint64_t *len)
{
    uint8_t *place;

    *len = 0;
    if (h->total == 0 && h->overflow == 0)
        return 0;
    *len = slam_histogram_packed_size(h);
    place = extend(tables, name, *len);
    if (!place)
        return -1;
    slam_histogram_pack(h, place);
    return 0;
}

/* The message of a result code, or an empty one. */
static const struct slam_diagnostic *
diagnostic_of(const struct slam_op_record *op, size_t code)
{
    static const struct slam_diagnostic empty = {0};
    const struct slam_diagnostic *d = op->diagnostics;

    for (; d < op->diagnostics + SLAM_DIAGNOSTICS && d->len > 0; d++)
        if (d->result_code == code)
            return d;
    return &empty;
}

/* A row for each result code; sets *rows to their number. */
static int
append_responses(PyObject *tables, const struct slam_op_record *op, uint64_t *rows)
{
    *rows = 0;
    for (size_t i = 0; i <= SLAM_RESULT_CODES; i++) {
        if (op->result_codes[i] == 0)
            continue;

        const struct slam_diagnostic *d = diagnostic_of(op, i);
        /* -1 stands for all codes that have no counter of their own */
        const uint64_t row[] = {i < SLAM_RESULT_CODES ? i : UINT64_MAX,
                                op->result_codes[i], d->len};

        ++*rows;
        if (append(tables, "responses", row, sizeof(row)) != 0 ||
            append(tables, "messages", d->text, d->len) != 0)
            return -1;
    }
    return 0;
}

#define VALUE(name) from->name,

int
slam_py_append_op(PyObject *tables, const struct slam_op_record *from, size_t stream,
                  size_t operation, size_t server, bool measured)
{
    uint64_t responses, lengths[SLAM_METRICS][SLAM_OUTCOMES];
    int rc;

    if (slam_op_record_is_empty(from))
        return 0;
    rc = append_responses(tables, from, &responses);
    for (size_t metric = 0; rc == 0 && metric < SLAM_METRICS; metric++)
        for (size_t outcome = 0; rc == 0 && outcome < SLAM_OUTCOMES; outcome++)
            rc = append_histogram(tables, "histograms",
                                  &from->histograms[outcome][metric],
                                  &lengths[metric][outcome]);
    if (rc == 0) {
        const uint64_t row[] = {stream,   operation, server,
                                measured, responses, SLAM_OPERATION_COUNTERS(VALUE)};

        rc = append(tables, "operations", row, sizeof(row)) != 0 ||
                     append(tables, "operations", lengths, sizeof(lengths)) != 0
                 ? -1
                 : 0;
    }
    return rc;
}

int
slam_py_append_stream(PyObject *tables, const struct slam_stream_record *from,
                      size_t stream, size_t server)
{
    const uint64_t row[] = {stream, server,
                            SLAM_STREAM_TIMES(VALUE) SLAM_STREAM_SLOTS(VALUE)
                                SLAM_STREAM_COUNTERS(VALUE)};
    uint64_t lengths[SLAM_SET_UP_TIMES];

    for (size_t i = 0; i < SLAM_SET_UP_TIMES; i++)
        if (append_histogram(tables, "set_ups", &from->set_up[i], &lengths[i]) != 0)
            return -1;
    return append(tables, "streams", row, sizeof(row)) != 0 ||
                   append(tables, "streams", lengths, sizeof(lengths)) != 0
               ? -1
               : 0;
}

static int
append_worker(PyObject *tables, const struct slam_worker_figures *from)
{
    const uint64_t row[] = {from->index, from->open, SLAM_WORKER_COUNTERS(VALUE)};

    return append(tables, "workers", row, sizeof(row));
}

PyObject *
slam_py_packed_tables(PyObject *tables)
{
    PyObject *packed = PyDict_New();

    for (size_t i = 0; packed && i < sizeof(names) / sizeof(*names); i++) {
        PyObject *table = PyDict_GetItemString(tables, names[i]);

        if (slam_py_put(packed, names[i], PyBytes_FromObject(table)) != 0)
            Py_CLEAR(packed);
    }
    Py_DECREF(tables);
    return packed;
}

static PyObject *
tables_of(const struct slam_engine *engine, const struct slam_snapshot *s)
{
    PyObject *tables = slam_py_tables();
    const struct slam_op_record *op = s->ops;
    int rc = tables ? 0 : -1;

    for (size_t place = 0; rc == 0 && place < s->place_count; place++) {
        size_t stream, server;
        size_t ops = slam_engine_locate(engine, place, &stream, &server);

        for (size_t i = 0; rc == 0 && i < 2 * ops; i++)
            rc = slam_py_append_op(tables, op++, stream, i / 2, server, i % 2 == 1);
        if (rc == 0)
            rc = slam_py_append_stream(tables, &s->streams[place], stream, server);
    }
    for (size_t i = 0; rc == 0 && i < s->worker_count; i++)
        rc = append_worker(tables, &s->workers[i]);
    if (rc == 0)
        return slam_py_packed_tables(tables);
    Py_XDECREF(tables);
    return NULL;
}

PyObject *
slam_py_snapshot(const struct slam_engine *engine, const struct slam_snapshot *s,
                 uint64_t index)
{
    PyObject *snapshot = tables_of(engine, s);

    if (snapshot && (slam_py_put_u64(snapshot, "index", index) ||
                     slam_py_put_u64(snapshot, "start_ns", s->start_ns) ||
                     slam_py_put_u64(snapshot, "end_ns", s->end_ns) ||
                     slam_py_put(snapshot, "final", PyBool_FromLong(s->final)) ||
                     slam_py_put_u64(snapshot, "clock_step_ns", s->clock_step_ns)))
        Py_CLEAR(snapshot);
    return snapshot;
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
