/* SPDX-License-Identifier: Apache-2.0 */
/* Engine.add_operation: its arguments as the engine takes them. */
#include "python/operation.h"

#include "python/module.h"
#include "python/settings.h"
#include "python/template.h"

/* A variable's number; negative: none. */
static uint32_t
variable(int number)
{
    return number < 0 ? SLAM_NO_VARIABLE : (uint32_t)number;
}

/* Everything of an operation that is a sequence, read into tables of C. */
struct operation_arguments {
    struct slam_py_template request;
    struct slam_py_template *lets;
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
    slam_py_template_release(&o->request);
    for (Py_ssize_t i = 0; o->lets && i < o->let_count; i++)
        slam_py_template_release(&o->lets[i]);
    PyMem_Free(o->lets);
    PyMem_Free(o->let_configs);
    PyMem_Free(o->captures);
    PyMem_Free(o->success_codes);
    PyMem_Free(o->expected_codes);
    for (size_t i = 0; i < sizeof(o->keep) / sizeof(o->keep[0]); i++)
        Py_XDECREF(o->keep[i]);
}

static int
read_codes(PyObject *sequence, int **codes, PyObject **keep, size_t *count)
{
    *codes = slam_py_table(sequence, sizeof(**codes), keep, count);
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
        slam_py_table(sequence, sizeof(*o->let_configs), &o->keep[2], &c->let_count);
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
        if (slam_py_template_read(&o->lets[i], program, program_len, values) != 0)
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
        slam_py_table(sequence, sizeof(*o->captures), &o->keep[3], &c->capture_count);
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

PyObject *
slam_py_add_operation(struct slam_engine *engine, PyObject *args, PyObject *kwargs)
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
    char err[SLAM_PY_ERR_LEN];
    int rc = -1;

    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "Isby#O|$OOOOispOIiis", names, &stream, &c.name,
            &c.response_tag, &program, &program_len, &values, &success_codes,
            &expected_codes, &lets, &captures, &cookie, &action_name, &awaits, &sasl,
            &c.ledger, &put_into, &take_from, &order_name))
        return NULL;
    action = slam_py_choice("action", action_name, actions);
    order = action < 0 ? -1 : slam_py_choice("order", order_name, orders);
    if (order < 0)
        return NULL;
    c.action = (uint8_t)action;
    c.ledger_order = (enum slam_ledger_order)order;
    c.awaits = awaits;
    c.cookie = variable(cookie);
    c.ledger_put = variable(put_into);
    c.ledger_take = variable(take_from);
    if (slam_py_template_read(&o.request, program, program_len, values) == 0 &&
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
        rc = slam_engine_add_operation(engine, stream, &c, err, sizeof(err));
        if (rc < 0)
            slam_py_raise(rc, err);
    }
    operation_release(&o);
    return rc < 0 ? NULL : PyLong_FromLong(rc);
}
