/* SPDX-License-Identifier: Apache-2.0 */
#include "python/objects.h"

#include "core/slam_err.h"

struct slam_py_state *
slam_py_state_of(PyObject *self)
{
    return PyModule_GetState(PyType_GetModule(Py_TYPE(self)));
}

PyObject *
slam_py_raise(int rc, const char *err)
{
    PyObject *type = PyExc_RuntimeError;

    if (rc == SLAM_EINVAL)
        type = PyExc_ValueError;
    else if (rc == SLAM_ENOMEM)
        type = PyExc_MemoryError;
    else if (rc == SLAM_ESYS)
        type = PyExc_OSError;
    PyErr_SetString(type, err);
    return NULL;
}

int
slam_py_put(PyObject *d, const char *key, PyObject *value)
{
    int rc = value ? PyDict_SetItemString(d, key, value) : -1;

    Py_XDECREF(value);
    return rc;
}

int
slam_py_put_u64(PyObject *d, const char *key, uint64_t value)
{
    return slam_py_put(d, key, PyLong_FromUnsignedLongLong(value));
}

int
slam_py_append(PyObject *list, PyObject *item)
{
    int rc = item ? PyList_Append(list, item) : -1;

    Py_XDECREF(item);
    return rc;
}

PyObject *
slam_py_pack_histogram(const struct slam_histogram *h)
{
    size_t size = slam_histogram_packed_size(h);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);

    if (bytes)
        slam_histogram_pack(h, (uint8_t *)PyBytes_AsString(bytes));
    return bytes;
}
