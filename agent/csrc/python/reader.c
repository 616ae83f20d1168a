/* SPDX-License-Identifier: Apache-2.0 */
#include "python/reader.h"

#include "load/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    PyObject *keep;
    char path[256]; /* of the field being read */
};

static int read_rows(struct reader *r, const struct slam_py_row *rows, PyObject *object,
                     char *to);

static int
expected(const char *what, PyObject *value)
{
    /* the type only: the value may be a password */
    PyErr_Format(PyExc_TypeError, "expected %s, got %R", what,
                 (PyObject *)Py_TYPE(value));
    return -1;
}

static int
store_unsigned(const struct slam_py_row *row, unsigned long long value, char *to)
{
    if (row->size < sizeof(value) && value >> (8 * row->size)) {
        PyErr_Format(PyExc_OverflowError, "%llu is too large", value);
        return -1;
    }
    if (row->size == sizeof(uint8_t))
        *(uint8_t *)to = (uint8_t)value;
    else if (row->size == sizeof(uint32_t))
        *(uint32_t *)to = (uint32_t)value;
    else
        *(uint64_t *)to = value;
    return 0;
}

static int
read_signed(const struct slam_py_row *row, PyObject *value, char *to)
{
    long long number = PyLong_AsLongLong(value);

    if (PyErr_Occurred())
        return -1;
    if (row->size == sizeof(int64_t)) {
        *(int64_t *)to = number;
    } else if (number < INT32_MIN || number > INT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%lld is too large", number);
        return -1;
    } else {
        *(int32_t *)to = (int32_t)number;
    }
    return 0;
}

static int
read_text(PyObject *value, const char **to)
{
    Py_ssize_t length;

    if (value == Py_None)
        return 0;
    if (!PyUnicode_Check(value))
        return expected("a text", value);
    *to = PyUnicode_AsUTF8AndSize(value, &length);
    if (*to && strlen(*to) != (size_t)length)
        PyErr_SetString(PyExc_ValueError, "a text has no NUL character");
    return PyErr_Occurred() ? -1 : 0;
}

static int
read_choice(const struct slam_py_row *row, PyObject *value, char *to)
{
    const char *name = NULL;

    if (read_text(value, &name) != 0)
        return -1;
    for (unsigned int i = 0; name && row->choices[i]; i++)
        if (strcmp(name, row->choices[i]) == 0)
            return store_unsigned(row, i, to);
    PyErr_Format(PyExc_ValueError, "there is no %R", value);
    return -1;
}

static void
free_elements(PyObject *capsule)
{
    free(PyCapsule_GetPointer(capsule, NULL));
}

static void *
new_elements(PyObject *keep, size_t count, size_t size)
{
    void *elements = calloc(count ? count : 1, size);
    PyObject *capsule;

    if (!elements)
        return PyErr_NoMemory();
    capsule = PyCapsule_New(elements, NULL, free_elements);
    if (!capsule)
        free(elements);
    return slam_py_append(keep, capsule) == 0 ? elements : NULL;
}

static int read_value(struct reader *r, const struct slam_py_row *row, PyObject *value,
                      char *to, char *length);

static int
read_array(struct reader *r, const struct slam_py_row *element, PyObject *value,
           char **to, size_t *length)
{
    PyObject *tuple = PySequence_Tuple(value);
    const size_t end = strlen(r->path);
    int rc = -1;

    if (!tuple)
        return -1;
    *length = (size_t)PyTuple_Size(tuple);
    *to = new_elements(r->keep, *length, element->size);
    if (*to)
        rc = slam_py_append(r->keep, Py_NewRef(tuple));
    for (size_t i = 0; rc == 0 && i < *length; i++) {
        snprintf(r->path + end, sizeof(r->path) - end, "[%zu]", i);
        PyObject *one = PyTuple_GetItem(tuple, (Py_ssize_t)i);

        if (one == Py_None && element->kind == SLAM_PY_TEXT)
            rc = expected("a text", one);
        else
            rc = read_value(r, element, one, *to + i * element->size, NULL);
        r->path[rc == 0 ? end : strlen(r->path)] = '\0';
    }
    Py_DECREF(tuple);
    return rc;
}

static void
forget_variables(const struct slam_py_row *rows, char *to)
{
    for (; rows->name; rows++)
        if (rows->kind == SLAM_PY_VARIABLE)
            *(uint32_t *)(to + rows->offset) = SLAM_NO_VARIABLE;
}

static int
read_value(struct reader *r, const struct slam_py_row *row, PyObject *value, char *to,
           char *length)
{
    switch (row->kind) {
    case SLAM_PY_BOOL:
        *(bool *)to = PyObject_IsTrue(value) == 1;
        break;
    case SLAM_PY_UNSIGNED: {
        unsigned long long number = PyLong_AsUnsignedLongLong(value);

        return PyErr_Occurred() ? -1 : store_unsigned(row, number, to);
    }
    case SLAM_PY_SIGNED:
        return read_signed(row, value, to);
    case SLAM_PY_DOUBLE:
        *(double *)to = PyFloat_AsDouble(value);
        break;
    case SLAM_PY_TEXT:
        return read_text(value, (const char **)to);
    case SLAM_PY_BYTES:
        if (value == Py_None)
            return 0;
        if (!PyBytes_Check(value))
            return expected("bytes", value);
        *(const char **)to = PyBytes_AsString(value);
        *(size_t *)length = (size_t)PyBytes_Size(value);
        break;
    case SLAM_PY_CHOICE:
        return read_choice(row, value, to);
    case SLAM_PY_VARIABLE: {
        long number = PyLong_AsLong(value);

        if (number >= (long)SLAM_NO_VARIABLE)
            PyErr_SetString(PyExc_OverflowError, "a variable's number is too large");
        *(uint32_t *)to = number < 0 ? SLAM_NO_VARIABLE : (uint32_t)number;
        break;
    }
    case SLAM_PY_STRUCT:
        if (value != Py_None)
            return read_rows(r, row->rows, value, to);
        forget_variables(row->rows, to);
        return 0;
    case SLAM_PY_ARRAY:
        return read_array(r, row->rows, value, (char **)to, (size_t *)length);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int
read_rows(struct reader *r, const struct slam_py_row *rows, PyObject *object, char *to)
{
    const size_t end = strlen(r->path);
    bool is_tuple = PyTuple_Check(object);

    for (Py_ssize_t i = 0; rows[i].name; i++) {
        const struct slam_py_row *row = &rows[i];
        PyObject *value;
        int rc = -1;

        snprintf(r->path + end, sizeof(r->path) - end, "%s%s", end > 0 ? "." : "",
                 row->name);
        value = is_tuple ? PySequence_GetItem(object, i)
                         : PyObject_GetAttrString(object, row->name);
        if (value)
            rc = read_value(r, row, value, to + row->offset, to + row->length);
        /* a property's value lives only here */
        if (rc == 0 && (row->kind == SLAM_PY_TEXT || row->kind == SLAM_PY_BYTES))
            rc = PyList_Append(r->keep, value);
        Py_XDECREF(value);
        if (rc != 0)
            return -1;
        r->path[end] = '\0';
    }
    return 0;
}

/* Puts the field's path before the text of the exception. */
static void
name_field(const char *path)
{
    const bool is_type = PyErr_ExceptionMatches(PyExc_TypeError);
    PyObject *type, *value, *trace;

    if (!is_type && !PyErr_ExceptionMatches(PyExc_ValueError) &&
        !PyErr_ExceptionMatches(PyExc_ArithmeticError) &&
        !PyErr_ExceptionMatches(PyExc_IndexError))
        return;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_Format(is_type ? PyExc_TypeError : PyExc_ValueError, "%s: %S", path, value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

int
slam_py_read(const struct slam_py_row *rows, PyObject *object, void *to, PyObject *keep)
{
    struct reader r = {.keep = keep};
    int rc = read_rows(&r, rows, object, to);

    if (rc != 0)
        name_field(r.path);
    return rc;
}

int
slam_py_read_array(const struct slam_py_row *element, PyObject *sequence,
                   const void **to, size_t *length, PyObject *keep)
{
    struct reader r = {.keep = keep};
    char *elements = NULL;
    int rc = read_array(&r, element, sequence, &elements, length);

    *to = elements;
    if (rc != 0)
        name_field(r.path);
    return rc;
}
