/* SPDX-License-Identifier: Apache-2.0 */
/* ldapslam.agent._engine: arguments in, figures out, nothing else. The only file that
 * includes Python.h (stable ABI), hence its length. The GIL is released around every
 * call that blocks; the engine's threads never see a Python object. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/slam_err.h"
#include "ldif/ldif.h"
#include "load/engine.h"
#include "responder/responder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERR_LEN 512

struct module_state {
    PyObject *connect_error;
    PyObject *engine_type;
    PyObject *responder_type;
    PyObject *histogram_type;
    PyObject *ldif_type;
};

static struct PyModuleDef module_def;

static struct module_state *
state_of(PyObject *self)
{
    return PyModule_GetState(PyType_GetModule(Py_TYPE(self)));
}

static PyObject *
raise_err(int rc, const char *err)
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

/* Sets d[key] = value and drops the reference to value. */
static int
put(PyObject *d, const char *key, PyObject *value)
{
    int rc = value ? PyDict_SetItemString(d, key, value) : -1;

    Py_XDECREF(value);
    return rc;
}

static int
put_u64(PyObject *d, const char *key, uint64_t value)
{
    return put(d, key, PyLong_FromUnsignedLongLong(value));
}

/* Appends item and drops the reference to it. */
static int
append(PyObject *list, PyObject *item)
{
    int rc = item ? PyList_Append(list, item) : -1;

    Py_XDECREF(item);
    return rc;
}

/* -- Engine -- */

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

/* Reads a sequence of integers into a fresh array; NULL with an exception set. */
static uint64_t *
u64_array(PyObject *sequence, Py_ssize_t *count)
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
    char err[ERR_LEN];
    int rc;

    if (self->engine) {
        PyErr_SetString(PyExc_RuntimeError, "the engine is initialised");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "KIOKKKK|pKK", names, &seed, &workers, &boundaries,
            &measure_start, &measure_end, &ramp_up, &grace, &realtime, &spin, &max_pdu))
        return -1;
    boundaries_ns = u64_array(boundaries, &boundary_count);
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
        raise_err(rc, err);
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

/* Texts, borrowed from `keep`, a list that the caller releases after use. */
static const char **
text_array(PyObject *sequence, size_t *count, PyObject **keep)
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

/* A rate profile as segments; NULL with an exception set. */
static struct slam_rate_segment *
segment_array(PyObject *sequence, size_t *count)
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

/* The index of a name in a table that ends with NULL; -1 with ValueError set. */
static int
choice(const char *what, const char *name, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    PyErr_Format(PyExc_ValueError, "there is no %s '%s'", what, name);
    return -1;
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
    char err[ERR_LEN];
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
    model = choice("load model", model_name, models);
    arrivals = model < 0 ? -1 : choice("arrival process", arrivals_name, processes);
    if (arrivals < 0)
        return NULL;
    texts = text_array(uris, &c.uri_count, &keep);
    if (texts && addresses)
        places = text_array(addresses, &address_count, &keep_addresses);
    if (address_count > 0 && address_count != c.uri_count) {
        PyErr_SetString(PyExc_ValueError, "addresses must be as many as uris");
        goto out;
    }
    if (texts && profile)
        segments = segment_array(profile, &c.segment_count);
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
            raise_err(rc, err);
    }
out:
    PyMem_Free(texts);
    PyMem_Free(places);
    PyMem_Free(segments);
    Py_XDECREF(keep);
    Py_XDECREF(keep_addresses);
    return rc < 0 ? NULL : PyLong_FromLong(rc);
}

/* A template as the engine takes it; its texts belong to the Python objects. */
struct template_arguments {
    struct slam_template template;
    struct slam_value_source *sources;
    PyObject *keep; /* a tuple of the sources' tuples */
};

static int
read_source(PyObject *tuple, struct slam_value_source *source)
{
    int kind;
    long long lo, hi, step;
    const char *data;
    Py_ssize_t data_len;

    if (!PyArg_ParseTuple(tuple, "iLLLIy#dd;a value source", &kind, &lo, &hi, &step,
                          &source->width, &data, &data_len, &source->a, &source->b))
        return -1;
    source->kind = (enum slam_value_kind)kind;
    source->lo = lo;
    source->hi = hi;
    source->step = step;
    source->data = (const uint8_t *)data;
    source->data_len = (size_t)data_len;
    return 0;
}

static void
template_release(struct template_arguments *t)
{
    PyMem_Free(t->sources);
    Py_XDECREF(t->keep);
}

static int
template_read(struct template_arguments *t, const char *program, Py_ssize_t program_len,
              PyObject *values)
{
    Py_ssize_t count;

    *t = (struct template_arguments){0};
    t->keep = PySequence_Tuple(values);
    if (!t->keep)
        return -1;
    count = PyTuple_Size(t->keep);
    t->sources = PyMem_Calloc((size_t)(count ? count : 1), sizeof(*t->sources));
    if (!t->sources) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(t->keep, i);

        if (!PyTuple_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "a value source is a tuple");
            return -1;
        }
        if (read_source(item, &t->sources[i]) != 0)
            return -1;
    }
    t->template = (struct slam_template){.program = (const uint8_t *)program,
                                         .program_len = (size_t)program_len,
                                         .sources = t->sources,
                                         .source_count = (size_t)count};
    return 0;
}

/* A variable's number; negative: none. */
static uint32_t
variable(int number)
{
    return number < 0 ? SLAM_NO_VARIABLE : (uint32_t)number;
}

/* Everything of an operation that is a sequence, read into tables of C. */
struct operation_arguments {
    struct template_arguments request;
    struct template_arguments *lets;
    Py_ssize_t let_count;
    struct slam_let_config *let_configs;
    struct slam_capture_config *captures;
    int *success_codes;
    int *expected_codes;
    PyObject *keep[4]; /* tuples whose items are borrowed */
};

static void
operation_release(struct operation_arguments *o)
{
    template_release(&o->request);
    for (Py_ssize_t i = 0; o->lets && i < o->let_count; i++)
        template_release(&o->lets[i]);
    PyMem_Free(o->lets);
    PyMem_Free(o->let_configs);
    PyMem_Free(o->captures);
    PyMem_Free(o->success_codes);
    PyMem_Free(o->expected_codes);
    for (size_t i = 0; i < sizeof(o->keep) / sizeof(o->keep[0]); i++)
        Py_XDECREF(o->keep[i]);
}

/* The sequence as a tuple in *keep and a zeroed table of as many elements. An absent
 * sequence is an empty one. */
static void *
table_for(PyObject *sequence, size_t size, PyObject **keep, size_t *count)
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

static int
read_codes(PyObject *sequence, int **codes, PyObject **keep, size_t *count)
{
    *codes = table_for(sequence, sizeof(**codes), keep, count);
    if (!*codes)
        return -1;
    for (size_t i = 0; i < *count; i++) {
        (*codes)[i] = (int)PyLong_AsLong(PyTuple_GetItem(*keep, (Py_ssize_t)i));
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

static int
read_lets(PyObject *sequence, struct operation_arguments *o,
          struct slam_operation_config *c)
{
    o->let_configs =
        table_for(sequence, sizeof(*o->let_configs), &o->keep[2], &c->let_count);
    if (!o->let_configs)
        return -1;
    o->lets = PyMem_Calloc(c->let_count ? c->let_count : 1, sizeof(*o->lets));
    if (!o->lets) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < c->let_count; i++) {
        PyObject *values;
        const char *program;
        Py_ssize_t program_len;

        if (!PyArg_ParseTuple(PyTuple_GetItem(o->keep[2], (Py_ssize_t)i), "Iy#O;a let",
                              &o->let_configs[i].variable, &program, &program_len,
                              &values))
            return -1;
        o->let_count = (Py_ssize_t)i + 1;
        if (template_read(&o->lets[i], program, program_len, values) != 0)
            return -1;
        o->let_configs[i].text = o->lets[i].template;
    }
    c->lets = o->let_configs;
    return 0;
}

static int
read_captures(PyObject *sequence, struct operation_arguments *o,
              struct slam_operation_config *c)
{
    o->captures =
        table_for(sequence, sizeof(*o->captures), &o->keep[3], &c->capture_count);
    if (!o->captures)
        return -1;
    for (size_t i = 0; i < c->capture_count; i++) {
        const char *attribute;
        Py_ssize_t attribute_len;

        if (!PyArg_ParseTuple(PyTuple_GetItem(o->keep[3], (Py_ssize_t)i),
                              "Iy#;a capture", &o->captures[i].variable, &attribute,
                              &attribute_len))
            return -1;
        o->captures[i].attribute = (const uint8_t *)attribute;
        o->captures[i].attribute_len = (size_t)attribute_len;
    }
    c->captures = o->captures;
    return 0;
}

static int
read_sasl(PyObject *tuple, struct slam_operation_config *c)
{
    int authcid = -1, password = -1, authzid = -1, credentials = -1;

    if (tuple && tuple != Py_None) {
        if (!PyTuple_Check(tuple)) {
            PyErr_SetString(PyExc_TypeError, "sasl is a tuple");
            return -1;
        }
        if (!PyArg_ParseTuple(tuple, "siiii;sasl", &c->mechanism, &authcid, &password,
                              &authzid, &credentials))
            return -1;
    }
    c->authcid = variable(authcid);
    c->password = variable(password);
    c->authzid = variable(authzid);
    c->credentials = variable(credentials);
    return 0;
}

static PyObject *
engine_add_operation(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream",         "name",
                            "response_tag",   "program",
                            "values",         "success_codes",
                            "expected_codes", "lets",
                            "captures",       "cookie_variable",
                            "action",         "awaits",
                            "sasl",           "ledger",
                            "ledger_put",     "ledger_take",
                            "ledger_order",   NULL};
    static const char *const actions[] = {"request", "unbind", "abandon", NULL};
    static const char *const orders[] = {"fifo", "lifo", "random", NULL};
    static const int success = 0;
    struct engine_object *self = (struct engine_object *)self_object;
    struct slam_operation_config c = {.success_codes = &success, .success_count = 1};
    struct operation_arguments o = {0};
    unsigned int stream;
    const char *program;
    Py_ssize_t program_len;
    PyObject *values;
    PyObject *success_codes = NULL, *expected_codes = NULL;
    PyObject *lets = NULL, *captures = NULL, *sasl = NULL;
    int cookie = -1, awaits = 1, put_into = -1, take_from = -1, action, order;
    const char *action_name = "request";
    const char *order_name = "fifo";
    char err[ERR_LEN];
    int rc = -1;

    if (!is_open(self) ||
        !PyArg_ParseTupleAndKeywords(
            args, kwargs, "Isby#O|$OOOOispOIiis", names, &stream, &c.name,
            &c.response_tag, &program, &program_len, &values, &success_codes,
            &expected_codes, &lets, &captures, &cookie, &action_name, &awaits, &sasl,
            &c.ledger, &put_into, &take_from, &order_name))
        return NULL;
    action = choice("action", action_name, actions);
    order = action < 0 ? -1 : choice("order", order_name, orders);
    if (order < 0)
        return NULL;
    c.action = (uint8_t)action;
    c.ledger_order = (enum slam_ledger_order)order;
    c.awaits = awaits;
    c.cookie = variable(cookie);
    c.ledger_put = variable(put_into);
    c.ledger_take = variable(take_from);
    if (template_read(&o.request, program, program_len, values) == 0 &&
        read_codes(expected_codes, &o.expected_codes, &o.keep[0], &c.expected_count) ==
            0 &&
        (!success_codes || read_codes(success_codes, &o.success_codes, &o.keep[1],
                                      &c.success_count) == 0) &&
        read_lets(lets, &o, &c) == 0 && read_captures(captures, &o, &c) == 0 &&
        read_sasl(sasl, &c) == 0) {
        c.request = o.request.template;
        c.expected_codes = o.expected_codes;
        if (success_codes)
            c.success_codes = o.success_codes;
        rc = slam_engine_add_operation(self->engine, stream, &c, err, sizeof(err));
        if (rc < 0)
            raise_err(rc, err);
    }
    operation_release(&o);
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
    char err[ERR_LEN];
    int rc = 0;

    if (!is_open(self) || !PyArg_ParseTupleAndKeywords(args, kwargs, "I$IO", names,
                                                       &stream, &weight, &sequence))
        return NULL;
    steps = table_for(sequence, sizeof(*steps), &keep, &count);
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
            raise_err(rc, err);
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
    PyObject *type = state_of(self)->connect_error;
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
    char err[ERR_LEN] = "";
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
        return raise_err(rc, err);
    Py_RETURN_NONE;
}

static PyObject *
engine_start(PyObject *self_object, PyObject *arg)
{
    struct engine_object *self = (struct engine_object *)self_object;
    unsigned long long t0_ns = PyLong_AsUnsignedLongLong(arg);
    char err[ERR_LEN];
    int rc;

    if (PyErr_Occurred() || !is_open(self))
        return NULL;
    rc = slam_engine_start(self->engine, t0_ns, err, sizeof(err));
    if (rc != SLAM_OK)
        return raise_err(rc, err);
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
pack_histogram(const struct slam_histogram *h)
{
    size_t size = slam_histogram_packed_size(h);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);

    if (bytes)
        slam_histogram_pack(h, (uint8_t *)PyBytes_AsString(bytes));
    return bytes;
}

static PyObject *
result_codes(const struct slam_op_record *op)
{
    PyObject *codes = PyDict_New();

    for (size_t i = 0; codes && i <= SLAM_RESULT_CODES; i++) {
        PyObject *key, *value;
        int rc;

        if (op->result_codes[i] == 0)
            continue;
        /* -1 stands for all codes that have no counter of their own */
        key = PyLong_FromLong(i < SLAM_RESULT_CODES ? (long)i : -1);
        value = PyLong_FromUnsignedLongLong(op->result_codes[i]);
        rc = key && value ? PyDict_SetItem(codes, key, value) : -1;
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (rc != 0)
            Py_CLEAR(codes);
    }
    return codes;
}

static PyObject *
op_histograms(const struct slam_op_record *op)
{
    PyObject *list = PyList_New(0);

    for (int outcome = 0; list && outcome < SLAM_OUTCOMES; outcome++) {
        for (int metric = 0; list && metric < SLAM_METRICS; metric++) {
            const struct slam_histogram *h = &op->histograms[outcome][metric];
            PyObject *packed;

            if (h->total == 0 && h->overflow == 0)
                continue;
            packed = pack_histogram(h);
            if (!packed ||
                append(list, Py_BuildValue("(iiO)", metric, outcome, packed)) != 0)
                Py_CLEAR(list);
            Py_XDECREF(packed);
        }
    }
    return list;
}

static int
op_is_empty(const struct slam_op_record *op)
{
    return op->scheduled == 0 && op->sent == 0 && op->completed == 0 &&
           op->dropped == 0 && op->unresolved == 0 && op->timed_out == 0 &&
           op->abandoned == 0 && op->substituted == 0 && op->requests == 0 &&
           op->entries == 0 && op->references == 0;
}

static PyObject *
op_dict(const struct slam_engine *engine, const struct slam_op_record *op, size_t index,
        int measured)
{
    PyObject *d = PyDict_New();
    size_t stream, operation;

    slam_engine_locate(engine, index, &stream, &operation);
    if (d &&
        (put_u64(d, "stream", stream) || put_u64(d, "operation", operation) ||
         put(d, "measured", PyBool_FromLong(measured)) ||
         put_u64(d, "scheduled", op->scheduled) || put_u64(d, "sent", op->sent) ||
         put_u64(d, "completed", op->completed) ||
         put_u64(d, "succeeded", op->succeeded) ||
         put_u64(d, "expected", op->expected) || put_u64(d, "failed", op->failed) ||
         put_u64(d, "dropped", op->dropped) || put_u64(d, "abandoned", op->abandoned) ||
         put_u64(d, "substituted", op->substituted) ||
         put_u64(d, "captures_missing", op->captures_missing) ||
         put_u64(d, "requests", op->requests) ||
         put_u64(d, "unresolved", op->unresolved) ||
         put_u64(d, "timed_out", op->timed_out) || put_u64(d, "entries", op->entries) ||
         put_u64(d, "references", op->references) ||
         put(d, "result_codes", result_codes(op)) ||
         put(d, "histograms", op_histograms(op))))
        Py_CLEAR(d);
    return d;
}

static PyObject *
stream_dict(const struct slam_stream_record *s, size_t index)
{
    static const char *const times[SLAM_SET_UP_TIMES] = {"connect_time", "tcp_time",
                                                         "tls_time", "bind_time"};
    PyObject *d = PyDict_New();

    if (d &&
        (put_u64(d, "stream", index) || put_u64(d, "connects", s->connects) ||
         put_u64(d, "binds", s->binds) || put_u64(d, "extended", s->extended) ||
         put_u64(d, "unbinds", s->unbinds) ||
         put_u64(d, "connect_failures", s->connect_failures) ||
         put_u64(d, "disconnects", s->disconnects) ||
         put_u64(d, "down_ns", s->down_ns) ||
         put_u64(d, "protocol_errors", s->protocol_errors) ||
         put_u64(d, "late_responses", s->late_responses) ||
         put_u64(d, "unexpected_messages", s->unexpected_messages) ||
         put_u64(d, "notices", s->notices) ||
         put_u64(d, "stamps_missing", s->stamps_missing) ||
         put_u64(d, "in_flight", s->in_flight) || put_u64(d, "backlog", s->backlog) ||
         put_u64(d, "last_done_ns", s->last_completion_ns)))
        Py_CLEAR(d);
    for (size_t i = 0; d && i < SLAM_SET_UP_TIMES; i++)
        if (put(d, times[i], pack_histogram(&s->set_up[i])))
            Py_CLEAR(d);
    return d;
}

static PyObject *
worker_dict(const struct slam_worker_figures *w)
{
    PyObject *d = PyDict_New();

    if (d &&
        (put_u64(d, "worker", w->index) ||
         put(d, "model", PyUnicode_FromString(w->open ? "open" : "closed")) ||
         put_u64(d, "wall_ns", w->wall_ns) || put_u64(d, "busy_ns", w->busy_ns) ||
         put_u64(d, "spin_ns", w->spin_ns) || put_u64(d, "cpu_ns", w->cpu_ns) ||
         put_u64(d, "run_queue_ns", w->run_queue_ns) || put_u64(d, "loops", w->loops)))
        Py_CLEAR(d);
    return d;
}

static PyObject *
snapshot_dict(const struct slam_engine *engine, const struct slam_snapshot *s,
              uint64_t index)
{
    PyObject *d = PyDict_New();
    PyObject *ops = PyList_New(0);
    PyObject *streams = PyList_New(0);
    PyObject *workers = PyList_New(0);
    int rc = d && ops && streams && workers ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < 2 * s->op_count; i++)
        if (!op_is_empty(&s->ops[i]))
            rc = append(ops, op_dict(engine, &s->ops[i], i / 2, i % 2 == 1));
    for (size_t i = 0; rc == 0 && i < s->stream_count; i++)
        rc = append(streams, stream_dict(&s->streams[i], i));
    for (size_t i = 0; rc == 0 && i < s->worker_count; i++)
        rc = append(workers, worker_dict(&s->workers[i]));
    if (rc == 0 && (put_u64(d, "index", index) || put_u64(d, "start_ns", s->start_ns) ||
                    put_u64(d, "end_ns", s->end_ns) ||
                    put(d, "final", PyBool_FromLong(s->final)) ||
                    put_u64(d, "clock_step_ns", s->clock_step_ns) ||
                    PyDict_SetItemString(d, "operations", ops) ||
                    PyDict_SetItemString(d, "streams", streams) ||
                    PyDict_SetItemString(d, "workers", workers)))
        rc = -1;
    Py_XDECREF(ops);
    Py_XDECREF(streams);
    Py_XDECREF(workers);
    if (rc != 0)
        Py_CLEAR(d);
    return d;
}

static PyObject *
engine_snapshot(PyObject *self_object, PyObject *args)
{
    struct engine_object *self = (struct engine_object *)self_object;
    const struct slam_snapshot *snapshot = NULL;
    unsigned long long index, timeout_ns;
    char err[ERR_LEN];
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
    Py_END_ALLOW_THREADS if (rc < 0) result = raise_err(rc, err);
    else if (rc == 0) result = Py_NewRef(Py_None);
    else result = snapshot_dict(self->engine, snapshot, index);
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
    if (d && (put(d, "libldap", PyUnicode_FromString(facts.libldap)) ||
              put(d, "tls", PyUnicode_FromString(facts.tls)) ||
              put(d, "kernel_stamps", PyBool_FromLong(facts.kernel_stamps)) ||
              put(d, "realtime", PyBool_FromLong(facts.realtime)) ||
              put(d, "start_error_ns",
                  facts.start_error_ns == UINT64_MAX
                      ? Py_NewRef(Py_None)
                      : PyLong_FromUnsignedLongLong(facts.start_error_ns)) ||
              put_u64(d, "workers", facts.workers) ||
              put_u64(d, "connections", facts.connections)))
        Py_CLEAR(d);
    return d;
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

static PyType_Spec engine_spec = {.name = "ldapslam.agent._engine.Engine",
                                  .basicsize = sizeof(struct engine_object),
                                  .flags = Py_TPFLAGS_DEFAULT,
                                  .slots = engine_slots};

/* -- Responder -- */

struct responder_object {
    PyObject_HEAD struct slam_responder *responder;
    char *socket_path;
};

static int
read_delays(PyObject *sequence, struct slam_delay **delays, size_t *count)
{
    Py_ssize_t n = PySequence_Size(sequence);

    if (n < 0)
        return -1;
    *delays = PyMem_Calloc((size_t)(n ? n : 1), sizeof(**delays));
    if (!*delays) {
        PyErr_NoMemory();
        return -1;
    }
    *count = (size_t)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        unsigned long long weight, delay_ns;
        int ok = item && PyTuple_Check(item) &&
                 PyArg_ParseTuple(item, "KK", &weight, &delay_ns);

        Py_XDECREF(item);
        if (!ok) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a delay is a tuple (weight, ns)");
            PyMem_Free(*delays);
            return -1;
        }
        (*delays)[i] = (struct slam_delay){.weight = weight, .delay_ns = delay_ns};
    }
    return 0;
}

static int
responder_init(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"socket_path", "delays", "seed", "record_capacity", NULL};
    struct responder_object *self = (struct responder_object *)self_object;
    struct slam_responder_options options = {0};
    unsigned long long seed = 0, capacity = 0;
    PyObject *delays = NULL;
    struct slam_delay *mixture = NULL;
    char err[ERR_LEN];
    int rc;

    if (self->responder) {
        PyErr_SetString(PyExc_RuntimeError, "the responder is initialised");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$zOKK", names,
                                     &options.socket_path, &delays, &seed, &capacity))
        return -1;
    if (delays && read_delays(delays, &mixture, &options.delay_count) != 0)
        return -1;
    options.delays = mixture;
    options.seed = seed;
    options.record_capacity = (size_t)capacity;
    rc = slam_responder_create(&options, &self->responder, err, sizeof(err));
    PyMem_Free(mixture);
    if (rc != SLAM_OK) {
        raise_err(rc, err);
        return -1;
    }
    if (options.socket_path) {
        self->socket_path = strdup(options.socket_path);
        if (!self->socket_path) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

static void
responder_dealloc(PyObject *self_object)
{
    struct responder_object *self = (struct responder_object *)self_object;
    PyTypeObject *type = Py_TYPE(self_object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    Py_BEGIN_ALLOW_THREADS slam_responder_destroy(self->responder);
    Py_END_ALLOW_THREADS free(self->socket_path);
    release(self_object);
    Py_DECREF(type);
}

/* The responder, or NULL with an exception where __init__ failed. */
static struct slam_responder *
responder_of(PyObject *self)
{
    struct slam_responder *responder = ((struct responder_object *)self)->responder;

    if (!responder)
        PyErr_SetString(PyExc_RuntimeError, "the responder was not initialised");
    return responder;
}

static PyObject *
responder_start(PyObject *self, PyObject *unused)
{
    struct slam_responder *responder = responder_of(self);
    char err[ERR_LEN];
    int rc;

    (void)unused;
    if (!responder)
        return NULL;
    rc = slam_responder_start(responder, err, sizeof(err));
    if (rc != SLAM_OK)
        return raise_err(rc, err);
    Py_RETURN_NONE;
}

static PyObject *
responder_stop(PyObject *self, PyObject *unused)
{
    struct slam_responder *responder = responder_of(self);

    (void)unused;
    if (!responder)
        return NULL;
    Py_BEGIN_ALLOW_THREADS slam_responder_stop(responder);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *
responder_pause(PyObject *self, PyObject *unused)
{
    struct slam_responder *responder = responder_of(self);

    (void)unused;
    if (!responder)
        return NULL;
    slam_responder_pause(responder);
    Py_RETURN_NONE;
}

static PyObject *
responder_resume(PyObject *self, PyObject *unused)
{
    struct slam_responder *responder = responder_of(self);

    (void)unused;
    if (!responder)
        return NULL;
    slam_responder_resume(responder);
    Py_RETURN_NONE;
}

static PyObject *
sample_times(PyObject *self, bool arrivals)
{
    const struct slam_responder *responder = responder_of(self);
    const struct slam_responder_sample *samples;
    PyObject *list;
    size_t count;

    if (!responder)
        return NULL;
    samples = slam_responder_record(responder, &count);
    list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++)
        if (append(list,
                   PyLong_FromUnsignedLongLong(arrivals ? samples[i].received_ns
                                                        : samples[i].service_ns)) != 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *
responder_record(PyObject *self, PyObject *unused)
{
    (void)unused;
    return sample_times(self, false);
}

static PyObject *
responder_arrivals(PyObject *self, PyObject *unused)
{
    (void)unused;
    return sample_times(self, true);
}

static PyObject *
responder_counts(PyObject *self, PyObject *unused)
{
    const struct slam_responder *responder = responder_of(self);
    struct slam_responder_counts counts;
    PyObject *d;

    (void)unused;
    if (!responder)
        return NULL;
    slam_responder_counts(responder, &counts);
    d = PyDict_New();
    if (d && (put_u64(d, "connections", counts.connections) ||
              put_u64(d, "protocol_errors", counts.protocol_errors) ||
              put_u64(d, "samples_lost", counts.samples_lost)))
        Py_CLEAR(d);
    for (int kind = 0; d && kind < SLAM_CANNED_KINDS; kind++)
        if (put_u64(d, slam_canned_name((enum slam_canned_kind)kind),
                    counts.requests[kind]))
            Py_CLEAR(d);
    return d;
}

static PyObject *
responder_port(PyObject *self, void *unused)
{
    const struct slam_responder *responder = responder_of(self);

    (void)unused;
    return responder ? PyLong_FromLong(slam_responder_port(responder)) : NULL;
}

/* ldapi URIs carry their path percent-encoded. */
static PyObject *
responder_uri(PyObject *self_object, void *unused)
{
    const struct slam_responder *responder = responder_of(self_object);
    const char *path = ((struct responder_object *)self_object)->socket_path;
    char uri[8 + 3 * 108 + 1] = "ldapi://";
    size_t len = strlen(uri);

    (void)unused;
    if (!responder)
        return NULL;
    if (!path)
        return PyUnicode_FromFormat("ldap://127.0.0.1:%u",
                                    (unsigned)slam_responder_port(responder));
    for (; *path && len + 4 < sizeof(uri); path++)
        len += (size_t)snprintf(uri + len, sizeof(uri) - len,
                                *path == '/' || *path == '%' ? "%%%02X" : "%c",
                                (unsigned char)*path);
    return PyUnicode_FromString(uri);
}

static PyMethodDef responder_methods[] = {
    {"start", responder_start, METH_NOARGS, NULL},
    {"stop", responder_stop, METH_NOARGS, NULL},
    {"pause", responder_pause, METH_NOARGS, NULL},
    {"resume", responder_resume, METH_NOARGS, NULL},
    {"record", responder_record, METH_NOARGS, NULL},
    {"arrivals", responder_arrivals, METH_NOARGS, NULL},
    {"counts", responder_counts, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef responder_getset[] = {{"port", responder_port, NULL, NULL, NULL},
                                         {"uri", responder_uri, NULL, NULL, NULL},
                                         {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot responder_slots[] = {{Py_tp_init, responder_init},
                                        {Py_tp_dealloc, responder_dealloc},
                                        {Py_tp_methods, responder_methods},
                                        {Py_tp_getset, responder_getset},
                                        {0, NULL}};

static PyType_Spec responder_spec = {.name = "ldapslam.agent._engine.Responder",
                                     .basicsize = sizeof(struct responder_object),
                                     .flags = Py_TPFLAGS_DEFAULT,
                                     .slots = responder_slots};

/* -- Histogram: for what is measured in Python -- */

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
    PyObject *packed = h ? pack_histogram(h) : NULL;

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

static PyType_Spec histogram_spec = {.name = "ldapslam.agent._engine.Histogram",
                                     .basicsize = sizeof(struct histogram_object),
                                     .flags = Py_TPFLAGS_DEFAULT,
                                     .slots = histogram_slots};

/* -- Ldif: a population's entries, written to files -- */

struct ldif_object {
    PyObject_HEAD struct slam_ldif *ldif;
    int calls; /* under way without the GIL; changed with the GIL held */
};

static int
read_node(PyObject *tuple, struct slam_ldif_node *node)
{
    unsigned int parent;
    unsigned long long count, first_index, first_name, seed;
    const char *program;
    Py_ssize_t program_len;

    if (!PyArg_ParseTuple(tuple, "IKKKKy#;a node", &parent, &count, &first_index,
                          &first_name, &seed, &program, &program_len))
        return -1;
    node->parent = parent;
    node->count = count;
    node->first_index = first_index;
    node->first_name = first_name;
    node->seed = seed;
    node->program = (const uint8_t *)program;
    node->program_len = (size_t)program_len;
    return 0;
}

/* Reads the nodes, whose programs belong to the tuples; NULL with an exception set. */
static struct slam_ldif_node *
read_nodes(PyObject *tuples)
{
    Py_ssize_t count = PyTuple_Size(tuples);
    struct slam_ldif_node *nodes =
        PyMem_Calloc((size_t)(count > 0 ? count : 1), sizeof(*nodes));

    if (!nodes)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; nodes && i < count; i++) {
        PyObject *item = PyTuple_GetItem(tuples, i);

        if (PyTuple_Check(item) && read_node(item, &nodes[i]) == 0)
            continue;
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a node is a tuple");
        PyMem_Free(nodes);
        nodes = NULL;
    }
    return nodes;
}

/* Reads the descriptors of the outputs; the count, or -1 with an exception set. */
static Py_ssize_t
read_fds(PyObject *sequence, int fds[SLAM_LDIF_OUTPUTS_MAX])
{
    Py_ssize_t count = PySequence_Size(sequence);

    for (Py_ssize_t i = 0; i < count && i < (Py_ssize_t)SLAM_LDIF_OUTPUTS_MAX; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);

        fds[i] = item ? (int)PyLong_AsLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return -1;
    }
    return count;
}

static int
ldif_init(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"seed",       "nodes",   "values", "first_names",
                            "last_names", "threads", "fds",    NULL};
    struct ldif_object *self = (struct ldif_object *)self_object;
    struct slam_ldif_config config = {0};
    struct template_arguments values = {0};
    struct slam_ldif_node *nodes = NULL;
    PyObject *node_sequence, *value_sequence, *fd_sequence, *node_tuple = NULL;
    unsigned long long seed;
    unsigned int first_names, last_names, threads;
    int fds[SLAM_LDIF_OUTPUTS_MAX] = {0};
    Py_ssize_t fd_count;
    char err[ERR_LEN];
    int rc = -1;

    if (self->ldif) {
        PyErr_SetString(PyExc_RuntimeError, "the population is initialised");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KOOIIIO", names, &seed,
                                     &node_sequence, &value_sequence, &first_names,
                                     &last_names, &threads, &fd_sequence))
        return -1;
    fd_count = read_fds(fd_sequence, fds);
    if (fd_count < 0)
        return -1;
    node_tuple = PySequence_Tuple(node_sequence);
    if (node_tuple)
        nodes = read_nodes(node_tuple);
    if (!nodes || template_read(&values, "", 0, value_sequence) != 0)
        goto out;
    config.seed = seed;
    config.nodes = nodes;
    config.node_count = (size_t)PyTuple_Size(node_tuple);
    config.sources = values.sources;
    config.source_count = values.template.source_count;
    config.first_names = first_names;
    config.last_names = last_names;
    config.fds = fds;
    config.output_count = (size_t)fd_count;
    config.threads = threads;
    rc = slam_ldif_create(&config, &self->ldif, err, sizeof(err));
    if (rc != SLAM_OK) {
        raise_err(rc, err);
        rc = -1;
    }
out:
    template_release(&values);
    PyMem_Free(nodes);
    Py_XDECREF(node_tuple);
    return rc;
}

static void
ldif_dealloc(PyObject *self_object)
{
    struct ldif_object *self = (struct ldif_object *)self_object;
    PyTypeObject *type = Py_TYPE(self_object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    slam_ldif_destroy(self->ldif);
    release(self_object);
    Py_DECREF(type);
}

static struct slam_ldif *
ldif_of(PyObject *self)
{
    struct slam_ldif *ldif = ((struct ldif_object *)self)->ldif;

    if (!ldif)
        PyErr_SetString(PyExc_RuntimeError, "the population is closed");
    return ldif;
}

static PyObject *
ldif_start(PyObject *self, PyObject *unused)
{
    struct slam_ldif *ldif = ldif_of(self);
    char err[ERR_LEN];
    int rc;

    (void)unused;
    if (!ldif)
        return NULL;
    rc = slam_ldif_start(ldif, err, sizeof(err));
    if (rc != SLAM_OK)
        return raise_err(rc, err);
    Py_RETURN_NONE;
}

static PyObject *
ldif_wait(PyObject *self, PyObject *arg)
{
    struct slam_ldif *ldif = ldif_of(self);
    unsigned long long timeout_ns = ldif ? PyLong_AsUnsignedLongLong(arg) : 0;
    bool is_done = false;
    char err[ERR_LEN];
    int rc;

    if (PyErr_Occurred())
        return NULL;
    ((struct ldif_object *)self)->calls++;
    Py_BEGIN_ALLOW_THREADS rc =
        slam_ldif_wait(ldif, timeout_ns, &is_done, err, sizeof(err));
    Py_END_ALLOW_THREADS((struct ldif_object *)self)->calls--;
    if (rc != SLAM_OK)
        return raise_err(rc, err);
    return PyBool_FromLong(is_done);
}

static PyObject *
ldif_progress(PyObject *self, PyObject *unused)
{
    struct slam_ldif *ldif = ldif_of(self);
    struct slam_ldif_progress progress;

    (void)unused;
    if (!ldif)
        return NULL;
    progress = slam_ldif_progress(ldif);
    return Py_BuildValue("KK", (unsigned long long)progress.entries,
                         (unsigned long long)progress.bytes);
}

static PyObject *
ldif_stop(PyObject *self, PyObject *unused)
{
    struct slam_ldif *ldif = ldif_of(self);

    (void)unused;
    if (!ldif)
        return NULL;
    slam_ldif_stop(ldif);
    Py_RETURN_NONE;
}

static PyObject *
ldif_close(PyObject *self_object, PyObject *unused)
{
    struct ldif_object *self = (struct ldif_object *)self_object;
    struct slam_ldif *ldif = self->ldif;

    (void)unused;
    if (self->calls > 0) {
        PyErr_SetString(PyExc_RuntimeError, "another thread waits for the population");
        return NULL;
    }
    self->ldif = NULL;
    Py_BEGIN_ALLOW_THREADS slam_ldif_destroy(ldif);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *
ldif_get_entries(PyObject *self, void *unused)
{
    struct slam_ldif *ldif = ldif_of(self);

    (void)unused;
    return ldif ? PyLong_FromUnsignedLongLong(slam_ldif_entries(ldif)) : NULL;
}

static PyMethodDef ldif_methods[] = {{"start", ldif_start, METH_NOARGS, NULL},
                                     {"wait", ldif_wait, METH_O, NULL},
                                     {"progress", ldif_progress, METH_NOARGS, NULL},
                                     {"stop", ldif_stop, METH_NOARGS, NULL},
                                     {"close", ldif_close, METH_NOARGS, NULL},
                                     {NULL, NULL, 0, NULL}};

static PyGetSetDef ldif_getset[] = {{"entries", ldif_get_entries, NULL, NULL, NULL},
                                    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot ldif_slots[] = {{Py_tp_init, ldif_init},
                                   {Py_tp_dealloc, ldif_dealloc},
                                   {Py_tp_methods, ldif_methods},
                                   {Py_tp_getset, ldif_getset},
                                   {0, NULL}};

static PyType_Spec ldif_spec = {.name = "ldapslam.agent._engine.Ldif",
                                .basicsize = sizeof(struct ldif_object),
                                .flags = Py_TPFLAGS_DEFAULT,
                                .slots = ldif_slots};

/* -- module -- */

static int
module_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);

    state->connect_error = PyErr_NewExceptionWithDoc(
        "ldapslam.agent._engine.ConnectError",
        "A connection could not be set up; attributes uri, stage, code, detail.", NULL,
        NULL);
    state->engine_type = PyType_FromModuleAndSpec(module, &engine_spec, NULL);
    state->responder_type = PyType_FromModuleAndSpec(module, &responder_spec, NULL);
    state->histogram_type = PyType_FromModuleAndSpec(module, &histogram_spec, NULL);
    state->ldif_type = PyType_FromModuleAndSpec(module, &ldif_spec, NULL);
    if (!state->connect_error || !state->engine_type || !state->responder_type ||
        !state->histogram_type || !state->ldif_type)
        return -1;
    if (PyModule_AddObjectRef(module, "ConnectError", state->connect_error) ||
        PyModule_AddObjectRef(module, "Engine", state->engine_type) ||
        PyModule_AddObjectRef(module, "Responder", state->responder_type) ||
        PyModule_AddObjectRef(module, "Histogram", state->histogram_type) ||
        PyModule_AddObjectRef(module, "Ldif", state->ldif_type))
        return -1;
    return 0;
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct module_state *state = PyModule_GetState(module);

    Py_VISIT(state->connect_error);
    Py_VISIT(state->engine_type);
    Py_VISIT(state->responder_type);
    Py_VISIT(state->histogram_type);
    Py_VISIT(state->ldif_type);
    return 0;
}

static int
module_clear(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);

    Py_CLEAR(state->connect_error);
    Py_CLEAR(state->engine_type);
    Py_CLEAR(state->responder_type);
    Py_CLEAR(state->histogram_type);
    Py_CLEAR(state->ldif_type);
    return 0;
}

static void
module_free(void *module)
{
    module_clear(module);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_engine",
    .m_doc = "The load engine: see engine.h for the contract of each call.",
    .m_size = sizeof(struct module_state),
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free};

PyMODINIT_FUNC PyInit__engine(void);

PyMODINIT_FUNC
PyInit__engine(void)
{
    return PyModuleDef_Init(&module_def);
}
