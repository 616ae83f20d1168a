/* SPDX-License-Identifier: Apache-2.0 */
/* Engine: see load/engine.h for the contract of each call. */
#include "core/slam_err.h"
#include "load/engine.h"
#include "python/objects.h"
#include "python/settings.h"
#include "python/snapshot.h"

#include <string.h>

struct engine_object {
    PyObject_HEAD struct slam_engine *engine;
    PyObject *keep; /* a list: what the engine's settings point to */
    int calls;      /* under way without the GIL; changed with the GIL held */
};

static int
is_open(struct engine_object *self)
{
    if (self->engine)
        return 1;
    PyErr_SetString(PyExc_RuntimeError, "the engine is closed");
    return 0;
}

static int
engine_init(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"plan",    "workers",       "realtime",
                            "spin_ns", "max_pdu_bytes", NULL};
    struct engine_object *self = (struct engine_object *)self_object;
    struct slam_engine_config config = {0};
    unsigned long long spin = 20000, max_pdu = 16u << 20;
    int realtime = 1;
    PyObject *plan;
    char err[SLAM_ERR_LEN];
    int rc;

    if (self->engine) {
        PyErr_SetString(PyExc_RuntimeError, "the engine is initialised");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$IpKK", names, &plan,
                                     &config.workers, &realtime, &spin, &max_pdu))
        return -1;
    if (!self->keep)
        self->keep = PyList_New(0);
    if (!self->keep || slam_py_read(slam_py_run_rows, plan, &config, self->keep) != 0)
        return -1;
    config.realtime = realtime;
    config.spin_ns = spin;
    config.max_pdu_bytes = (size_t)max_pdu;
    rc = slam_engine_create(&config, &self->engine, err);
    if (rc != SLAM_OK) {
        slam_py_raise(rc, err);
        return -1;
    }
    return 0;
}

static void
engine_close_now(struct engine_object *self)
{
    struct slam_engine *engine = self->engine;

    self->engine = NULL;
    Py_BEGIN_ALLOW_THREADS slam_engine_destroy(engine);
    Py_END_ALLOW_THREADS
}

static void
engine_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    engine_close_now((struct engine_object *)self);
    Py_CLEAR(((struct engine_object *)self)->keep);
    release(self);
    Py_DECREF(type);
}

static PyObject *
engine_close(PyObject *self_object, PyObject *unused)
{
    struct engine_object *self = (struct engine_object *)self_object;

    (void)unused;
    if (self->calls > 0) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is using the engine");
        return NULL;
    }
    engine_close_now(self);
    Py_RETURN_NONE;
}

static PyObject *
engine_add_stream(PyObject *self_object, PyObject *plan)
{
    struct engine_object *self = (struct engine_object *)self_object;
    struct slam_stream_settings stream = {0};
    char err[SLAM_ERR_LEN];
    int rc;

    if (!is_open(self) ||
        slam_py_read(slam_py_stream_rows, plan, &stream, self->keep) != 0)
        return NULL;
    rc = slam_engine_add_stream(self->engine, &stream, err);
    return rc < 0 ? slam_py_raise(rc, err) : PyLong_FromLong(rc);
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
    static const char *const names[] = {"uri", "stage", "code", "detail"};
    PyObject *type = slam_py_state_of(self)->connect_error;
    PyObject *args = Py_BuildValue("(NsiN)", text(error->uri), stages[error->stage],
                                   error->code, text(error->detail));
    PyObject *instance = args ? PyObject_CallObject(type, args) : NULL;
    int rc = instance ? 0 : -1;

    for (Py_ssize_t i = 0; rc == 0 && i < 4; i++)
        rc = PyObject_SetAttrString(instance, names[i], PyTuple_GetItem(args, i));
    if (rc == 0)
        PyErr_SetObject(type, instance);
    Py_XDECREF(instance);
    Py_XDECREF(args);
    return NULL;
}

static PyObject *
engine_prepare(PyObject *self_object, PyObject *unused)
{
    struct engine_object *self = (struct engine_object *)self_object;
    struct slam_conn_error error = {0};
    char err[SLAM_ERR_LEN] = "";
    int rc;

    (void)unused;
    if (!is_open(self))
        return NULL;
    self->calls++;
    Py_BEGIN_ALLOW_THREADS rc = slam_engine_prepare(self->engine, &error, err);
    Py_END_ALLOW_THREADS self->calls--;
    if (rc == SLAM_ECONNECT)
        return raise_connect_error(self_object, &error);
    if (rc != SLAM_OK)
        return slam_py_raise(rc, err);
    Py_RETURN_NONE;
}

static PyObject *
engine_start(PyObject *self_object, PyObject *arg)
{
    struct engine_object *self = (struct engine_object *)self_object;
    unsigned long long t0_ns = PyLong_AsUnsignedLongLong(arg);
    char err[SLAM_ERR_LEN];
    int rc;

    if (PyErr_Occurred() || !is_open(self))
        return NULL;
    rc = slam_engine_start(self->engine, t0_ns, err);
    if (rc != SLAM_OK)
        return slam_py_raise(rc, err);
    Py_RETURN_NONE;
}

static PyObject *
engine_stop(PyObject *self_object, PyObject *unused)
{
    struct engine_object *self = (struct engine_object *)self_object;

    (void)unused;
    if (!is_open(self))
        return NULL;
    slam_engine_stop(self->engine);
    Py_RETURN_NONE;
}

static PyObject *
engine_snapshot(PyObject *self_object, PyObject *args)
{
    struct engine_object *self = (struct engine_object *)self_object;
    const struct slam_snapshot *snapshot = NULL;
    unsigned long long index, timeout_ns;
    char err[SLAM_ERR_LEN];
    PyObject *result;
    int rc;

    if (!is_open(self) || !PyArg_ParseTuple(args, "KK", &index, &timeout_ns))
        return NULL;
    if (self->calls > 0) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is using the engine");
        return NULL;
    }
    self->calls++;
    Py_BEGIN_ALLOW_THREADS rc =
        slam_engine_snapshot(self->engine, index, timeout_ns, &snapshot, err);
    Py_END_ALLOW_THREADS if (rc < 0) result = slam_py_raise(rc, err);
    else if (rc == 0) result = Py_NewRef(Py_None);
    else result = slam_py_snapshot(self->engine, snapshot, index);
    self->calls--;
    return result;
}

static PyObject *
engine_facts(PyObject *self_object, PyObject *unused)
{
    struct engine_object *self = (struct engine_object *)self_object;
    struct slam_engine_facts facts;
    PyObject *d;

    (void)unused;
    if (!is_open(self))
        return NULL;
    slam_engine_facts(self->engine, &facts);
    d = PyDict_New();
    if (d && (slam_py_put(d, "libldap", PyUnicode_FromString(facts.libldap)) ||
              slam_py_put(d, "tls", PyUnicode_FromString(facts.tls)) ||
              slam_py_put(d, "kernel_stamps", PyBool_FromLong(facts.kernel_stamps)) ||
              slam_py_put(d, "realtime", PyBool_FromLong(facts.realtime)) ||
              slam_py_put(d, "start_error_ns",
                          facts.start_error_ns == UINT64_MAX
                              ? Py_NewRef(Py_None)
                              : PyLong_FromUnsignedLongLong(facts.start_error_ns)) ||
              slam_py_put_u64(d, "workers", facts.workers) ||
              slam_py_put_u64(d, "connections", facts.connections)))
        Py_CLEAR(d);
    return d;
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

PyType_Spec slam_py_engine_spec = {.name = "ldapslam.agent._engine.Engine",
                                   .basicsize = sizeof(struct engine_object),
                                   .flags = Py_TPFLAGS_DEFAULT,
                                   .slots = engine_slots};
