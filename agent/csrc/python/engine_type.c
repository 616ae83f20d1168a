/* SPDX-License-Identifier: Apache-2.0 */
/* Engine: see load/engine.h for the contract of each call. */
#include "core/slam_err.h"
#include "load/engine.h"
#include "python/module.h"
#include "python/operation.h"
#include "python/settings.h"
#include "python/snapshot.h"

#include <string.h>

struct engine_object {
    PyObject_HEAD struct slam_engine *engine;
    int calls; /* under way without the GIL; changed with the GIL held */
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
    static char *names[] = {
        "seed",       "workers",  "boundaries_ns", "measure_start_ns", "measure_end_ns",
        "ramp_up_ns", "grace_ns", "realtime",      "spin_ns",          "max_pdu_bytes",
        NULL};
    struct engine_object *self = (struct engine_object *)self_object;
    struct slam_engine_config config = {0};
    unsigned long long seed, measure_start, measure_end, ramp_up, grace;
    unsigned long long spin = 20000, max_pdu = 16u << 20;
    unsigned int workers;
    int realtime = 1;
    PyObject *boundaries;
    Py_ssize_t boundary_count = 0;
    uint64_t *boundaries_ns;
    char err[SLAM_PY_ERR_LEN];
    int rc;

    if (self->engine) {
        PyErr_SetString(PyExc_RuntimeError, "the engine is initialised");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "KIOKKKK|pKK", names, &seed, &workers, &boundaries,
            &measure_start, &measure_end, &ramp_up, &grace, &realtime, &spin, &max_pdu))
        return -1;
    boundaries_ns = slam_py_u64_array(boundaries, &boundary_count);
    if (!boundaries_ns)
        return -1;
    config.workers = workers;
    config.seed = seed;
    config.boundaries_ns = boundaries_ns;
    config.boundary_count = (size_t)boundary_count;
    config.measure_start_ns = measure_start;
    config.measure_end_ns = measure_end;
    config.ramp_up_ns = ramp_up;
    config.grace_ns = grace;
    config.realtime = realtime;
    config.spin_ns = spin;
    config.max_pdu_bytes = (size_t)max_pdu;
    rc = slam_engine_create(&config, &self->engine, err, sizeof(err));
    PyMem_Free(boundaries_ns);
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
engine_add_stream(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name",
                            "uris",
                            "start_tls",
                            "ca_file",
                            "verify",
                            "bind_dn",
                            "bind_password",
                            "connect_timeout_ns",
                            "request_timeout_ns",
                            "model",
                            "connections",
                            "first_connection",
                            "connection_stride",
                            "total_connections",
                            "in_flight",
                            "think_time_ns",
                            "profile",
                            "arrivals",
                            "max_backlog",
                            "cert_file",
                            "key_file",
                            "mechanism",
                            "authcid",
                            "authzid",
                            "realm",
                            "total_operations",
                            "start_ns",
                            "end_ns",
                            "reconnect_operations",
                            "reconnect_ns",
                            "connect_spacing_ns",
                            "variables",
                            "ledgers",
                            "ledger_folder",
                            "trace",
                            "addresses",
                            NULL};
    static const char *const models[] = {"closed", "open", NULL};
    static const char *const processes[] = {"constant", "poisson", "uniform", NULL};
    struct engine_object *self = (struct engine_object *)self_object;
    struct slam_stream_config c = {0};
    PyObject *uris;
    PyObject *addresses = NULL;
    PyObject *profile = NULL;
    PyObject *keep = NULL;
    PyObject *keep_addresses = NULL;
    size_t address_count = 0;
    int start_tls, verify, model, arrivals;
    const char *model_name;
    const char *arrivals_name = "constant";
    Py_ssize_t password_len = 0;
    unsigned long long connect_timeout, request_timeout, think = 0, backlog = 0;
    unsigned long long total = 0, start = 0, end = 0;
    unsigned long long operations = 0, life = 0, spacing = 0;
    const char **texts = NULL;
    const char **places = NULL;
    struct slam_rate_segment *segments = NULL;
    char err[SLAM_PY_ERR_LEN];
    int rc = -1;

    if (!is_open(self) ||
        !PyArg_ParseTupleAndKeywords(
            args, kwargs, "sOpzpzz#KKsIIIII|$KOsKzzzzzzKKKKKKIIzzO", names, &c.name,
            &uris, &start_tls, &c.ca_file, &verify, &c.bind_dn, &c.bind_password,
            &password_len, &connect_timeout, &request_timeout, &model_name,
            &c.connections, &c.first_connection, &c.connection_stride,
            &c.total_connections, &c.in_flight, &think, &profile, &arrivals_name,
            &backlog, &c.cert_file, &c.key_file, &c.mechanism, &c.authcid, &c.authzid,
            &c.realm, &total, &start, &end, &operations, &life, &spacing, &c.variables,
            &c.ledgers, &c.ledger_folder, &c.trace, &addresses))
        return NULL;
    model = slam_py_choice("load model", model_name, models);
    arrivals =
        model < 0 ? -1 : slam_py_choice("arrival process", arrivals_name, processes);
    if (arrivals < 0)
        return NULL;
    texts = slam_py_text_array(uris, &c.uri_count, &keep);
    if (texts && addresses)
        places = slam_py_text_array(addresses, &address_count, &keep_addresses);
    if (address_count > 0 && address_count != c.uri_count) {
        PyErr_SetString(PyExc_ValueError, "addresses must be as many as uris");
        goto out;
    }
    if (texts && profile)
        segments = slam_py_segment_array(profile, &c.segment_count);
    if (texts && (places || !addresses) && (segments || !profile)) {
        c.uris = texts;
        c.addresses = address_count > 0 ? places : NULL;
        c.segments = segments;
        c.start_tls = start_tls;
        c.verify = verify;
        c.bind_password_len = (size_t)password_len;
        c.connect_timeout_ns = connect_timeout;
        c.request_timeout_ns = request_timeout;
        c.open = model == 1;
        c.arrivals = (enum slam_arrivals)arrivals;
        c.think_time_ns = think;
        c.max_backlog = backlog;
        c.total_operations = total;
        c.start_ns = start;
        c.end_ns = end;
        c.reconnect_operations = operations;
        c.reconnect_ns = life;
        c.connect_spacing_ns = spacing;
        rc = slam_engine_add_stream(self->engine, &c, err, sizeof(err));
        if (rc < 0)
            slam_py_raise(rc, err);
    }
out:
    PyMem_Free(texts);
    PyMem_Free(places);
    PyMem_Free(segments);
    Py_XDECREF(keep);
    Py_XDECREF(keep_addresses);
    return rc < 0 ? NULL : PyLong_FromLong(rc);
}

static PyObject *
engine_add_script(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "weight", "steps", NULL};
    struct engine_object *self = (struct engine_object *)self_object;
    unsigned int stream, weight;
    PyObject *sequence;
    PyObject *keep = NULL;
    struct slam_step_config *steps;
    size_t count = 0;
    char err[SLAM_PY_ERR_LEN];
    int rc = 0;

    if (!is_open(self) || !PyArg_ParseTupleAndKeywords(args, kwargs, "I$IO", names,
                                                       &stream, &weight, &sequence))
        return NULL;
    steps = slam_py_table(sequence, sizeof(*steps), &keep, &count);
    for (size_t i = 0; steps && rc == 0 && i < count; i++) {
        unsigned long long pause;

        if (!PyArg_ParseTuple(PyTuple_GetItem(keep, (Py_ssize_t)i), "IK;a step",
                              &steps[i].operation, &pause))
            rc = -1;
        else
            steps[i].pause_ns = pause;
    }
    if (steps && rc == 0) {
        rc = slam_engine_add_script(self->engine, stream, weight, steps, count, err,
                                    sizeof(err));
        if (rc < 0)
            slam_py_raise(rc, err);
    }
    PyMem_Free(steps);
    Py_XDECREF(keep);
    return PyErr_Occurred() ? NULL : PyLong_FromLong(rc);
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
    PyObject *type = slam_py_state_of(self)->connect_error;
    PyObject *uri = text(error->uri);
    PyObject *stage = text(stages[error->stage]);
    PyObject *code = PyLong_FromLong(error->code);
    PyObject *detail = text(error->detail);
    PyObject *instance = NULL;

    if (uri && stage && code && detail)
        instance = PyObject_CallFunctionObjArgs(type, uri, stage, code, detail, NULL);
    if (instance && PyObject_SetAttrString(instance, "uri", uri) == 0 &&
        PyObject_SetAttrString(instance, "stage", stage) == 0 &&
        PyObject_SetAttrString(instance, "code", code) == 0 &&
        PyObject_SetAttrString(instance, "detail", detail) == 0)
        PyErr_SetObject(type, instance);
    Py_XDECREF(uri);
    Py_XDECREF(stage);
    Py_XDECREF(code);
    Py_XDECREF(detail);
    Py_XDECREF(instance);
    return NULL;
}

static PyObject *
engine_prepare(PyObject *self_object, PyObject *unused)
{
    struct engine_object *self = (struct engine_object *)self_object;
    struct slam_conn_error error = {0};
    char err[SLAM_PY_ERR_LEN] = "";
    int rc;

    (void)unused;
    if (!is_open(self))
        return NULL;
    self->calls++;
    Py_BEGIN_ALLOW_THREADS rc =
        slam_engine_prepare(self->engine, &error, err, sizeof(err));
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
    char err[SLAM_PY_ERR_LEN];
    int rc;

    if (PyErr_Occurred() || !is_open(self))
        return NULL;
    rc = slam_engine_start(self->engine, t0_ns, err, sizeof(err));
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
    char err[SLAM_PY_ERR_LEN];
    PyObject *result;
    int rc;

    if (!is_open(self) || !PyArg_ParseTuple(args, "KK", &index, &timeout_ns))
        return NULL;
    if (self->calls > 0) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is using the engine");
        return NULL;
    }
    self->calls++;
    Py_BEGIN_ALLOW_THREADS rc = slam_engine_snapshot(self->engine, index, timeout_ns,
                                                     &snapshot, err, sizeof(err));
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

static PyObject *
engine_add_operation(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    struct engine_object *self = (struct engine_object *)self_object;

    return is_open(self) ? slam_py_add_operation(self->engine, args, kwargs) : NULL;
}

static PyMethodDef engine_methods[] = {
    {"add_stream", (PyCFunction)(void (*)(void))engine_add_stream,
     METH_VARARGS | METH_KEYWORDS, NULL},
    {"add_operation", (PyCFunction)(void (*)(void))engine_add_operation,
     METH_VARARGS | METH_KEYWORDS, NULL},
    {"add_script", (PyCFunction)(void (*)(void))engine_add_script,
     METH_VARARGS | METH_KEYWORDS, NULL},
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
