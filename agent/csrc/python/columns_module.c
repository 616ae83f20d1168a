/* SPDX-License-Identifier: Apache-2.0 */
/* ldapslam.results._columns: packed histograms as columns. Arrays go in as buffers and
 * come out as bytes; results/_columns.pyi has their types. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "columns/buckets.h"
#include "core/histogram.h"

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

static PyMethodDef methods[] = {{"block", columns_block, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};

static PyModuleDef module_def = {PyModuleDef_HEAD_INIT, .m_name = "_columns",
                                 .m_doc = "Packed histograms as columns.",
                                 .m_methods = methods};

PyMODINIT_FUNC PyInit__columns(void);

PyMODINIT_FUNC
PyInit__columns(void)
{
    return PyModuleDef_Init(&module_def);
}
