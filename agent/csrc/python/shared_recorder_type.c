/* SPDX-License-Identifier: Apache-2.0 */
/* SharedRecorder: recorder and arrivals of a stream whose clients are processes. */
#include "core/slam_err.h"
#include "load/shared_recorder.h"
#include "python/module.h"
#include "python/settings.h"
#include "python/snapshot.h"

#include <string.h>

struct recorder_object {
    PyObject_HEAD struct slam_shared *shared;
    unsigned int stream;
    unsigned int operations;
};

static int
recorder_init(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "", "", "", NULL};
    struct recorder_object *self = (struct recorder_object *)self_object;
    struct slam_engine_config config = {0};
    struct slam_py_stream stream = {0};
    PyObject *run, *plan, *keep;
    char err[SLAM_PY_ERR_LEN];
    int rc;

    if (self->shared) {
        PyErr_SetString(PyExc_RuntimeError, "the recorder is initialised");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOII", names, &run, &plan,
                                     &self->stream, &self->operations))
        return -1;
    keep = PyList_New(0);
    if (!keep || slam_py_read(slam_py_run_rows, run, &config, keep) != 0 ||
        slam_py_read(slam_py_stream_rows, plan, &stream, keep) != 0) {
        Py_XDECREF(keep);
        return -1;
    }
    rc = slam_shared_create(&config, &stream.settings, self->stream, self->operations,
                            &self->shared, err, sizeof(err));
    Py_DECREF(keep);
    if (rc != SLAM_OK)
        slam_py_raise(rc, err);
    return rc == SLAM_OK ? 0 : -1;
}

static void
recorder_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc free_self = (freefunc)PyType_GetSlot(type, Py_tp_free);

    slam_shared_destroy(((struct recorder_object *)self)->shared);
    free_self(self);
    Py_DECREF(type);
}

/* The recorder; NULL with an exception set where __init__ failed or the arguments do
 * not have the format. */
#define PARSED(self, args, ...)                                                        \
    (((struct recorder_object *)(self))->shared                                        \
         ? (PyArg_ParseTuple(args, __VA_ARGS__)                                        \
                ? ((struct recorder_object *)(self))->shared                           \
                : NULL)                                                                \
         : (PyErr_SetString(PyExc_RuntimeError, "the recorder is not initialised"),    \
            NULL))

static PyObject *
out_of_range(const char *what)
{
    return PyErr_Format(PyExc_ValueError, "no such %s", what);
}

static PyObject *
recorder_set_span(PyObject *self, PyObject *args)
{
    unsigned long long t0_ns, end_ns;
    struct slam_shared *s = PARSED(self, args, "KK", &t0_ns, &end_ns);

    if (!s)
        return NULL;
    slam_shared_set_span(s, t0_ns, end_ns);
    Py_RETURN_NONE;
}

static PyObject *
recorder_end_ns(PyObject *self, PyObject *args)
{
    struct slam_shared *s = PARSED(self, args, "");

    return s ? PyLong_FromUnsignedLongLong(slam_shared_end_ns(s)) : NULL;
}

static PyObject *
recorder_take(PyObject *self, PyObject *args)
{
    unsigned long long now_ns;
    struct slam_shared *s = PARSED(self, args, "K", &now_ns);
    uint64_t due_ns = s ? slam_shared_take(s, now_ns) : 0;

    if (!s)
        return NULL;
    return due_ns == SLAM_PACER_NONE ? Py_NewRef(Py_None)
                                     : PyLong_FromUnsignedLongLong(due_ns);
}

static PyObject *
recorder_begin(PyObject *self, PyObject *args)
{
    unsigned long long intended_ns, slot_free_ns, sent_ns;
    unsigned int operation;
    int observed;
    struct slam_shared *s = PARSED(self, args, "IKKKp", &operation, &intended_ns,
                                   &slot_free_ns, &sent_ns, &observed);
    uint64_t handle;

    if (!s)
        return NULL;
    if (operation >= ((struct recorder_object *)self)->operations)
        return out_of_range("operation");
    handle =
        slam_shared_begin(s, operation, intended_ns, slot_free_ns, sent_ns, observed);
    if (handle == 0)
        return PyErr_Format(PyExc_OverflowError, "%u observations are under way",
                            SLAM_MAX_UNDER_WAY);
    return PyLong_FromUnsignedLongLong(handle);
}

static PyObject *
recorder_update(PyObject *self, PyObject *args)
{
    unsigned long long handle, sent_ns;
    unsigned int requests, entries, references;
    struct slam_shared *s = PARSED(self, args, "KKIII", &handle, &sent_ns, &requests,
                                   &entries, &references);

    if (!s)
        return NULL;
    slam_shared_update(s, handle, sent_ns, requests, entries, references);
    Py_RETURN_NONE;
}

static PyObject *
recorder_end(PyObject *self, PyObject *args)
{
    unsigned long long handle, received_ns, done_ns;
    unsigned int outcome;
    int code;
    struct slam_shared *s =
        PARSED(self, args, "KIiKK", &handle, &outcome, &code, &received_ns, &done_ns);

    if (!s)
        return NULL;
    if (outcome >= SLAM_OUTCOMES)
        return out_of_range("outcome");
    return PyBool_FromLong(slam_shared_end(s, handle, (enum slam_outcome)outcome, code,
                                           received_ns, done_ns));
}

static PyObject *
recorder_count(PyObject *self, PyObject *args)
{
    static const struct {
        const char *name;
        size_t offset;
    } counters[] = {
#define COUNTER(name) {#name, offsetof(struct slam_stream_record, name)},
        SLAM_STREAM_COUNTERS(COUNTER)};
    unsigned long long number = 1;
    const char *name;
    struct slam_shared *s = PARSED(self, args, "s|K", &name, &number);

    for (size_t i = 0; s && i < sizeof(counters) / sizeof(counters[0]); i++)
        if (strcmp(name, counters[i].name) == 0) {
            slam_shared_count(s, counters[i].offset, number);
            Py_RETURN_NONE;
        }
    return s ? out_of_range("counter") : NULL;
}

static PyObject *
recorder_connected(PyObject *self, PyObject *args)
{
    unsigned long long duration_ns;
    struct slam_shared *s = PARSED(self, args, "K", &duration_ns);

    if (!s)
        return NULL;
    slam_shared_connected(s, duration_ns);
    Py_RETURN_NONE;
}

static PyObject *
recorder_close(PyObject *self_object, PyObject *args)
{
    struct recorder_object *self = (struct recorder_object *)self_object;
    const struct slam_shared_record *record;
    int final;
    struct slam_shared *s = PARSED(self_object, args, "p", &final);
    PyObject *ops, *stream, *result = NULL;
    int rc = 0;

    if (!s)
        return NULL;
    record = slam_shared_close(s, final);
    ops = PyList_New(0);
    for (unsigned int i = 0; ops && rc == 0 && i < 2 * self->operations; i++)
        rc = slam_py_append_op(ops, &record->ops[i], self->stream, i / 2, i % 2);
    stream = slam_py_stream_dict(record->stream, self->stream);
    if (ops && stream && rc == 0)
        result = Py_BuildValue("(KOO)", record->end_ns, ops, stream);
    Py_XDECREF(ops);
    Py_XDECREF(stream);
    return result;
}

static PyMethodDef recorder_methods[] = {
    {"set_span", recorder_set_span, METH_VARARGS, NULL},
    {"end_ns", recorder_end_ns, METH_VARARGS, NULL},
    {"take", recorder_take, METH_VARARGS, NULL},
    {"begin", recorder_begin, METH_VARARGS, NULL},
    {"update", recorder_update, METH_VARARGS, NULL},
    {"end", recorder_end, METH_VARARGS, NULL},
    {"count", recorder_count, METH_VARARGS, NULL},
    {"connected", recorder_connected, METH_VARARGS, NULL},
    {"close", recorder_close, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot recorder_slots[] = {{Py_tp_init, recorder_init},
                                       {Py_tp_dealloc, recorder_dealloc},
                                       {Py_tp_methods, recorder_methods},
                                       {0, NULL}};

PyType_Spec slam_py_shared_recorder_spec = {.name =
                                                "ldapslam.agent._engine.SharedRecorder",
                                            .basicsize = sizeof(struct recorder_object),
                                            .flags = Py_TPFLAGS_DEFAULT,
                                            .slots = recorder_slots};
