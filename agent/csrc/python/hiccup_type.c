/* SPDX-License-Identifier: Apache-2.0 */
/* HiccupMeter: what the host does to threads that want to be on time. */
#include "core/hiccup.h"
#include "python/objects.h"

static int
hiccup_meter_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"realtime", NULL};
    struct slam_hiccup_meter *meter = NULL;
    char err[SLAM_ERR_LEN];
    int realtime, rc;

    if (!slam_py_init(self) ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "$p", names, &realtime))
        return -1;
    rc = slam_py_status(slam_hiccup_meter_start(realtime, &meter, err), err);
    ((struct slam_py_object *)self)->handle = meter;
    return rc;
}

static void
hiccup_meter_dealloc(PyObject *self)
{
    SLAM_PY_DESTROY(self, slam_hiccup_meter_destroy);
    slam_py_free(self);
}

static PyObject *
hiccup_meter_take(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct slam_hiccup_meter *meter = slam_py_handle(self);
    struct slam_hiccups taken;

    if (!meter)
        return NULL;
    taken = slam_hiccup_take(slam_hiccup_meter_record(meter));
    return Py_BuildValue("KK", (unsigned long long)taken.max_ns,
                         (unsigned long long)taken.stalled_ns);
}

static PyObject *
hiccup_meter_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    SLAM_PY_DESTROY(self, slam_hiccup_meter_destroy);
    Py_RETURN_NONE;
}

static PyMethodDef hiccup_meter_methods[] = {
    {"take", hiccup_meter_take, METH_NOARGS, NULL},
    {"close", hiccup_meter_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot hiccup_meter_slots[] = {{Py_tp_init, hiccup_meter_init},
                                           {Py_tp_dealloc, hiccup_meter_dealloc},
                                           {Py_tp_methods, hiccup_meter_methods},
                                           {0, NULL}};

PyType_Spec slam_py_hiccup_meter_spec =
    SLAM_PY_TYPE("HiccupMeter", struct slam_py_object, hiccup_meter_slots);
