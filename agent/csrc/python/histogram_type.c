/* SPDX-License-Identifier: Apache-2.0 */
/* Histogram: for what is measured in Python. */
#include "python/module.h"

struct histogram_object {
    PyObject_HEAD struct slam_histogram *histogram;
};

static int
histogram_init(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    struct histogram_object *self = (struct histogram_object *)self_object;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "", names))
        return -1;
    if (!self->histogram)
        self->histogram = PyMem_Malloc(sizeof(*self->histogram));
    if (!self->histogram) {
        PyErr_NoMemory();
        return -1;
    }
    slam_histogram_clear(self->histogram);
    return 0;
}

static void
histogram_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    PyMem_Free(((struct histogram_object *)self)->histogram);
    release(self);
    Py_DECREF(type);
}

static struct slam_histogram *
histogram_of(PyObject *self)
{
    struct slam_histogram *h = ((struct histogram_object *)self)->histogram;

    if (!h)
        PyErr_SetString(PyExc_RuntimeError, "the histogram is not initialised");
    return h;
}

static PyObject *
histogram_record_ns(PyObject *self, PyObject *arg)
{
    struct slam_histogram *h = histogram_of(self);
    unsigned long long value_ns = h ? PyLong_AsUnsignedLongLong(arg) : 0;

    if (PyErr_Occurred())
        return NULL;
    slam_histogram_record(h, value_ns);
    Py_RETURN_NONE;
}

static PyObject *
histogram_pack(PyObject *self, PyObject *unused)
{
    struct slam_histogram *h = histogram_of(self);
    PyObject *packed = h ? slam_py_pack_histogram(h) : NULL;

    (void)unused;
    if (packed)
        slam_histogram_reset(h);
    return packed;
}

static PyMethodDef histogram_methods[] = {
    {"record_ns", histogram_record_ns, METH_O, NULL},
    {"pack", histogram_pack, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot histogram_slots[] = {{Py_tp_init, histogram_init},
                                        {Py_tp_dealloc, histogram_dealloc},
                                        {Py_tp_methods, histogram_methods},
                                        {0, NULL}};

PyType_Spec slam_py_histogram_spec = {.name = "ldapslam.agent._engine.Histogram",
                                      .basicsize = sizeof(struct histogram_object),
                                      .flags = Py_TPFLAGS_DEFAULT,
                                      .slots = histogram_slots};
