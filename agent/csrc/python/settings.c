/* SPDX-License-Identifier: Apache-2.0 */
#include "python/settings.h"

#include <string.h>

int
slam_py_choice(const char *what, const char *name, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    PyErr_Format(PyExc_ValueError, "there is no %s '%s'", what, name);
    return -1;
}

uint64_t *
slam_py_u64_array(PyObject *sequence, Py_ssize_t *count)
{
    Py_ssize_t n = PySequence_Size(sequence);
    uint64_t *array;

    if (n < 0)
        return NULL;
    array = PyMem_Malloc((size_t)(n ? n : 1) * sizeof(*array));
    if (!array) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);

        array[i] = item ? PyLong_AsUnsignedLongLong(item) : 0;
        Py_XDECREF(item);
        if (PyErr_Occurred()) {
            PyMem_Free(array);
            return NULL;
        }
    }
    *count = n;
    return array;
}

const char **
slam_py_text_array(PyObject *sequence, size_t *count, PyObject **keep)
{
    Py_ssize_t n;
    const char **texts;

    *keep = PySequence_List(sequence);
    if (!*keep)
        return NULL;
    n = PyList_Size(*keep);
    texts = PyMem_Calloc((size_t)(n ? n : 1), sizeof(*texts));
    if (!texts) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t len;

        texts[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(*keep, i), &len);
        if (!texts[i]) {
            PyMem_Free(texts);
            return NULL;
        }
    }
    *count = (size_t)n;
    return texts;
}

struct slam_rate_segment *
slam_py_segment_array(PyObject *sequence, size_t *count)
{
    Py_ssize_t n = PySequence_Size(sequence);
    struct slam_rate_segment *segments;

    if (n < 0)
        return NULL;
    segments = PyMem_Calloc((size_t)(n ? n : 1), sizeof(*segments));
    if (!segments) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        struct slam_rate_segment *segment = &segments[i];
        unsigned long long duration = 0;
        int kind = 0;
        int ok =
            item && PyArg_ParseTuple(item, "iKddd;a segment of a rate profile", &kind,
                                     &duration, &segment->a, &segment->b, &segment->c);

        Py_XDECREF(item);
        if (!ok) {
            PyMem_Free(segments);
            return NULL;
        }
        segment->kind = (enum slam_rate_kind)kind;
        segment->duration_ns = duration;
    }
    *count = (size_t)n;
    return segments;
}

void *
slam_py_table(PyObject *sequence, size_t size, PyObject **keep, size_t *count)
{
    void *table;

    *keep = sequence ? PySequence_Tuple(sequence) : PyTuple_New(0);
    if (!*keep)
        return NULL;
    *count = (size_t)PyTuple_Size(*keep);
    table = PyMem_Calloc(*count ? *count : 1, size);
    if (!table)
        PyErr_NoMemory();
    return table;
}
