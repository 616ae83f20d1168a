/* SPDX-License-Identifier: Apache-2.0 */
/* Engine: see load/engine.h for the contract of each call. */
#include "load/engine.h"
#include "python/objects.h"
#include "python/settings.h"
#include "python/snapshot.h"

#include <string.h>

struct engine_object {
    struct slam_py_object base;
    Py_buffer lease;
};

/* Holds the memory of a lease, or None. Returns 0, or -1 with an exception. */
static int
take_lease(struct engine_object *self, PyObject *lease,
           struct slam_engine_config *config)
{
    PyBuffer_Release(&self->lease);
    if (lease == Py_None)
        return 0;
    if (PyObject_GetBuffer(lease, &self->lease, PyBUF_SIMPLE) != 0)
        return -1;
    if (self->lease.len != sizeof(*config->lease_ns) ||
        (uintptr_t)self->lease.buf % sizeof(*config->lease_ns) != 0) {
        PyErr_SetString(PyExc_ValueError, "a lease is one aligned word of 8 bytes");
        return -1;
    }
    config->lease_ns = self->lease.buf;
    return 0;
}

static int
engine_init(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"plan",          "workers", "realtime", "spin_ns",
                            "max_pdu_bytes", "lease",   NULL};
    struct engine_object *self = (struct engine_object *)self_object;
    struct slam_engine_config config = {0};
    struct slam_engine *engine = NULL;
    unsigned long long spin = 20000, max_pdu = 16u << 20;
    int realtime = 1;
    PyObject *plan, *lease = Py_None, *keep = slam_py_init(self_object);
    char err[SLAM_ERR_LEN];
    int rc;

    if (!keep ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "O|$IpKKO", names, &plan,
                                     &config.workers, &realtime, &spin, &max_pdu,
                                     &lease) ||
        take_lease(self, lease, &config) != 0 ||
        slam_py_read(slam_py_run_rows, plan, &config, keep) != 0)
        return -1;
    config.realtime = realtime;
    config.spin_ns = spin;
    config.max_pdu_bytes = (size_t)max_pdu;
    rc = slam_py_status(slam_engine_create(&config, &engine, err), err);
    self->base.handle = engine;
    return rc;
}

static void
engine_dealloc(PyObject *self)
{
    SLAM_PY_DESTROY(self, slam_engine_destroy);
    PyBuffer_Release(&((struct engine_object *)self)->lease);
    slam_py_free(self);
}

static PyObject *
engine_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    if (slam_py_check_idle(self) != 0)
        return NULL;
    SLAM_PY_DESTROY(self, slam_engine_destroy);
    Py_RETURN_NONE;
}

static PyObject *
engine_add_stream(PyObject *self, PyObject *plan)
{
    struct slam_stream_settings stream = {0};
    struct slam_engine *engine;
    char err[SLAM_ERR_LEN];
    int rc;

    if (!slam_py_handle(self) || slam_py_read(slam_py_stream_rows, plan, &stream,
                                              ((struct slam_py_object *)self)->keep))
        return NULL;
    engine = slam_py_handle(self); /* the plan's attributes may run any code */
    if (!engine)
        return NULL;
    rc = slam_engine_add_stream(engine, &stream, err);
    return rc < 0 ? slam_py_result(rc, err) : PyLong_FromLong(rc);
}

/* A directory's own words, in whatever encoding they are. */
static PyObject *
text(const char *bytes)
{
    return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)strlen(bytes), "replace");
}

static PyObject *
raise_connect_error(PyObject *self, const struct slam_conn_error *error)
{
    static const char *const stages[] = {"connect", "tls", "bind", "handover"};
    static const char *const names[] = {"uri", "stage", "code", "detail", "cause"};
    static const char *const causes[] = {
#define NAME(name) #name,
        SLAM_CAUSE_LIST(NAME)
#undef NAME
    };
    PyObject *type =
        ((struct slam_py_state *)PyType_GetModuleState(Py_TYPE(self)))->connect_error;
    PyObject *args =
        Py_BuildValue("(NsiNs)", text(error->uri), stages[error->stage], error->code,
                      text(error->detail), causes[error->cause]);
    PyObject *instance = args ? PyObject_CallObject(type, args) : NULL;
    int rc = instance ? 0 : -1;

    for (Py_ssize_t i = 0; rc == 0 && i < 5; i++)
        rc = PyObject_SetAttrString(instance, names[i], PyTuple_GetItem(args, i));
    if (rc == 0)
        PyErr_SetObject(type, instance);
    Py_XDECREF(instance);
    Py_XDECREF(args);
    return NULL;
}

static PyObject *
engine_prepare(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct slam_engine *engine = slam_py_handle(self);
    struct slam_conn_error error = {0};
    char err[SLAM_ERR_LEN] = "";
    int rc;

    if (!engine)
        return NULL;
    ((struct slam_py_object *)self)->calls++;
    Py_BEGIN_ALLOW_THREADS rc = slam_engine_prepare(engine, &error, err);
    Py_END_ALLOW_THREADS((struct slam_py_object *)self)->calls--;
    return rc == SLAM_ECONNECT ? raise_connect_error(self, &error)
                               : slam_py_result(rc, err);
}

static PyObject *
engine_start(PyObject *self, PyObject *arg)
{
    unsigned long long t0_ns = PyLong_AsUnsignedLongLong(arg);
    struct slam_engine *engine = PyErr_Occurred() ? NULL : slam_py_handle(self);
    char err[SLAM_ERR_LEN];

    if (!engine)
        return NULL;
    return slam_py_result(slam_engine_start(engine, t0_ns, err), err);
}

static PyObject *
engine_stop(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct slam_engine *engine = slam_py_handle(self);

    if (!engine)
        return NULL;
    slam_engine_stop(engine);
    Py_RETURN_NONE;
}

static PyObject *
engine_snapshot(PyObject *self, PyObject *args)
{
    struct slam_engine *engine;
    const struct slam_snapshot *snapshot = NULL;
    unsigned long long index, timeout_ns;
    char err[SLAM_ERR_LEN];
    PyObject *result;
    int rc;

    if (!PyArg_ParseTuple(args, "KK", &index, &timeout_ns) ||
        slam_py_check_idle(self) != 0 || !(engine = slam_py_handle(self)))
        return NULL;
    ((struct slam_py_object *)self)->calls++;
    Py_BEGIN_ALLOW_THREADS rc =
        slam_engine_snapshot(engine, index, timeout_ns, &snapshot, err);
    Py_END_ALLOW_THREADS result =
        rc > 0 ? slam_py_snapshot(engine, snapshot, index) : slam_py_result(rc, err);
    ((struct slam_py_object *)self)->calls--;
    return result;
}

static PyObject *
engine_facts(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const struct slam_engine *engine = slam_py_handle(self);
    struct slam_engine_facts facts;

    if (!engine)
        return NULL;
    slam_engine_facts(engine, &facts);
    return Py_BuildValue("{sssssNsNsNsIsn}", "libldap", facts.libldap, "tls", facts.tls,
                         "kernel_stamps", PyBool_FromLong(facts.kernel_stamps),
                         "realtime", PyBool_FromLong(facts.realtime), "start_error_ns",
                         facts.start_error_ns == UINT64_MAX
                             ? Py_NewRef(Py_None)
                             : PyLong_FromUnsignedLongLong(facts.start_error_ns),
                         "workers", facts.workers, "connections",
                         (Py_ssize_t)facts.connections);
}

static PyMethodDef engine_methods[] = {
    {"add_stream", engine_add_stream, METH_O, NULL},
    {"prepare", engine_prepare, METH_NOARGS, NULL},
    {"start", engine_start, METH_O, NULL},
    {"snapshot", engine_snapshot, METH_VARARGS, NULL},
    {"stop", engine_stop, METH_NOARGS, NULL},
    {"facts", engine_facts, METH_NOARGS, NULL},
    {"close", engine_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot engine_slots[] = {{Py_tp_init, engine_init},
                                     {Py_tp_dealloc, engine_dealloc},
                                     {Py_tp_methods, engine_methods},
                                     {0, NULL}};

PyType_Spec slam_py_engine_spec =
    SLAM_PY_TYPE("Engine", struct engine_object, engine_slots);
