/* SPDX-License-Identifier: Apache-2.0 */
/* ldapslam.results._columns: reports of intervals as columns. Arrays go in as buffers
 * and come out as bytes; results/_columns.pyi has their types. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "columns/buckets.h"
#include "columns/tables.h"
#include "core/histogram.h"
#include "core/slam_err.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Number of elements of a buffer, or -1 with an exception. */
static Py_ssize_t
elements(const Py_buffer *view, size_t size)
{
    if ((size_t)view->len % size == 0 && (uintptr_t)view->buf % size == 0)
        return view->len / (Py_ssize_t)size;
    PyErr_SetString(PyExc_ValueError, "not an array of such elements");
    return -1;
}

/* One field of a table: number, kind, and its cell or its table. */
static int
read_field(PyObject *item, struct slam_tables *t, size_t number)
{
    struct slam_table *table = &t->tables[number];
    unsigned int field, kind, at;

    if (!PyArg_ParseTuple(item, "III", &field, &kind, &at))
        return -1;
    if (field == 0 || field >= SLAM_FIELDS || kind > SLAM_FIELD_MESSAGE ||
        (kind == SLAM_FIELD_MESSAGE
             ? at <= number || at >= t->count
             : at < SLAM_CELL_FIRST ||
                   at + (kind == SLAM_FIELD_BYTES) >= table->width)) {
        PyErr_SetString(PyExc_ValueError, "no such field");
        return -1;
    }
    table->fields[field] = (struct slam_field){(enum slam_field_kind)kind, at};
    return 0;
}

static int
read_table(PyObject *item, struct slam_tables *t, size_t number)
{
    PyObject *fields;
    unsigned int width;

    if (!PyArg_ParseTuple(item, "IO!", &width, &PyTuple_Type, &fields))
        return -1;
    if (width < SLAM_CELL_FIRST || width > 4 * SLAM_FIELDS) {
        PyErr_SetString(PyExc_ValueError, "no such width");
        return -1;
    }
    t->tables[number].width = width;
    for (Py_ssize_t i = 0; i < PyTuple_Size(fields); i++) {
        if (read_field(PyTuple_GetItem(fields, i), t, number) != 0)
            return -1;
    }
    return 0;
}

static PyObject *
results_of(const struct slam_tables *t, const char *data)
{
    PyObject *tables = PyList_New(0), *texts = PyList_New(0), *item;
    bool is_whole = tables && texts;

    for (size_t i = 0; i < t->count && is_whole; i++) {
        const struct slam_table *table = &t->tables[i];
        const size_t size = table->rows * table->width * sizeof(*table->cells);

        item = PyBytes_FromStringAndSize((const char *)table->cells, (Py_ssize_t)size);
        is_whole = item && PyList_Append(tables, item) == 0;
        Py_XDECREF(item);
    }
    for (size_t i = 0; i < t->text_count && is_whole; i++) {
        const struct slam_text *text = &t->texts[i];

        item = PyUnicode_FromStringAndSize(data + text->start, (Py_ssize_t)text->len);
        is_whole = item && PyList_Append(texts, item) == 0;
        Py_XDECREF(item);
    }
    item = is_whole ? PyTuple_Pack(2, tables, texts) : NULL;
    Py_XDECREF(tables);
    Py_XDECREF(texts);
    return item;
}

static bool
are_ends(const int64_t *ends, Py_ssize_t count, Py_ssize_t size)
{
    int64_t start = 0;

    for (Py_ssize_t i = 0; i < count; start = ends[i++]) {
        if (ends[i] < start || ends[i] > size)
            return false;
    }
    return true;
}

static PyObject *
columns_tables(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct slam_tables tables = {0};
    PyObject *spec, *result = NULL;
    Py_buffer content, ends;
    Py_ssize_t count;
    int rc;

    if (!PyArg_ParseTuple(args, "O!y*y*", &PyTuple_Type, &spec, &content, &ends))
        return NULL;
    count = elements(&ends, sizeof(int64_t));
    if (count < 0)
        goto out;
    if (PyTuple_Size(spec) < 1 || !are_ends(ends.buf, count, content.len)) {
        PyErr_SetString(PyExc_ValueError, "no tables, or no ends of messages");
        goto out;
    }
    tables.count = (size_t)PyTuple_Size(spec);
    tables.tables = calloc(tables.count, sizeof(*tables.tables));
    if (!tables.tables) {
        tables.count = 0;
        PyErr_NoMemory();
        goto out;
    }
    for (size_t i = 0; i < tables.count; i++) {
        if (read_table(PyTuple_GetItem(spec, (Py_ssize_t)i), &tables, i) != 0)
            goto out;
    }
    rc = slam_tables_read(&tables, content.buf, ends.buf, (size_t)count);
    if (rc == SLAM_OK)
        result = results_of(&tables, content.buf);
    else if (rc == SLAM_ENOMEM)
        PyErr_NoMemory();
    else
        PyErr_SetString(PyExc_ValueError, "it is no message of its type");
out:
    slam_tables_release(&tables);
    PyBuffer_Release(&content);
    PyBuffer_Release(&ends);
    return result;
}

/* Buckets of all histograms, or -1: one is damaged or lies outside the content. */
static int64_t
count_buckets(const Py_buffer *content, const int64_t *spans, Py_ssize_t count)
{
    int64_t sum = 0;

    for (Py_ssize_t i = 0; i < count; i++) {
        const int64_t start = spans[2 * i], len = spans[2 * i + 1];
        int64_t n = -1;

        if (start >= 0 && len >= 0 && start <= content->len &&
            len <= content->len - start)
            n = slam_packed_check((const uint8_t *)content->buf + start, (size_t)len);
        if (n < 0)
            return -1;
        sum += n;
    }
    return sum;
}

static void
copy_block(const Py_buffer *content, const int64_t *spans, Py_ssize_t count,
           char *headers, char *indexes, char *counts)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *packed = (const char *)content->buf + spans[2 * i];
        uint32_t n;

        memcpy(&n, packed + 4, sizeof(n));
        memcpy(headers, packed, SLAM_PACKED_HEADER);
        memcpy(indexes, packed + SLAM_PACKED_HEADER, 2 * (size_t)n);
        memcpy(counts, packed + SLAM_PACKED_HEADER + 2 * (size_t)n, 4 * (size_t)n);
        headers += SLAM_PACKED_HEADER;
        indexes += 2 * (size_t)n;
        counts += 4 * (size_t)n;
    }
}

static PyObject *
columns_block(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *headers = NULL, *indexes = NULL, *counts = NULL, *result = NULL;
    Py_buffer content, spans;
    Py_ssize_t count;
    int64_t n;

    if (!PyArg_ParseTuple(args, "y*y*", &content, &spans))
        return NULL;
    count = elements(&spans, sizeof(int64_t));
    if (count < 0)
        goto out;
    count /= 2;
    n = count_buckets(&content, spans.buf, count);
    if (n < 0) {
        PyErr_SetString(PyExc_ValueError, "packed histogram: damaged");
        goto out;
    }
    headers = PyBytes_FromStringAndSize(NULL, count * SLAM_PACKED_HEADER);
    indexes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(2 * n));
    counts = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(4 * n));
    if (headers && indexes && counts) {
        copy_block(&content, spans.buf, count, PyBytes_AsString(headers),
                   PyBytes_AsString(indexes), PyBytes_AsString(counts));
        result = PyTuple_Pack(3, headers, indexes, counts);
    }
out:
    Py_XDECREF(headers);
    Py_XDECREF(indexes);
    Py_XDECREF(counts);
    PyBuffer_Release(&content);
    PyBuffer_Release(&spans);
    return result;
}

static PyMethodDef methods[] = {{"tables", columns_tables, METH_VARARGS, NULL},
                                {"block", columns_block, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};

static PyModuleDef module_def = {PyModuleDef_HEAD_INIT, .m_name = "_columns",
                                 .m_doc = "Reports of intervals as columns.",
                                 .m_methods = methods};

PyMODINIT_FUNC PyInit__columns(void);

PyMODINIT_FUNC
PyInit__columns(void)
{
    return PyModuleDef_Init(&module_def);
}
