/* SPDX-License-Identifier: Apache-2.0 */
#include "python/objects.h"

#include <stdbool.h>

static int
fail(const char *reason, PyObject *self)
{
    PyErr_Format(PyExc_RuntimeError, reason, (PyObject *)Py_TYPE(self));
    return -1;
}

void *
slam_py_handle(PyObject *self)
{
    void *handle = ((struct slam_py_object *)self)->handle;

    if (!handle)
        fail("%S is closed or not initialised", self);
    return handle;
}

PyObject *
slam_py_init(PyObject *self_object)
{
    struct slam_py_object *self = (struct slam_py_object *)self_object;

    if (self->handle)
        fail("%S is initialised", self_object);
    else if (!self->keep)
        self->keep = PyList_New(0);
    return self->handle ? NULL : self->keep;
}

int
slam_py_check_idle(PyObject *self)
{
    bool is_idle = ((struct slam_py_object *)self)->calls == 0;

    return is_idle ? 0 : fail("another thread is using %S", self);
}

void
slam_py_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    Py_CLEAR(((struct slam_py_object *)self)->keep);
    release(self);
    Py_DECREF(type);
}

int
slam_py_status(int rc, const char *err)
{
    if (rc == SLAM_OK)
        return 0;
    PyErr_SetString(rc == SLAM_EINVAL   ? PyExc_ValueError
                    : rc == SLAM_ENOMEM ? PyExc_MemoryError
                    : rc == SLAM_ESYS   ? PyExc_OSError
                                        : PyExc_RuntimeError,
                    err);
    return -1;
}

PyObject *
slam_py_result(int rc, const char *err)
{
    return slam_py_status(rc, err) == 0 ? Py_NewRef(Py_None) : NULL;
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
