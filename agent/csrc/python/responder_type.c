/* SPDX-License-Identifier: Apache-2.0 */
/* Responder: the server inside of tests and of the fitness check. */
#include "core/slam_err.h"
#include "python/objects.h"
#include "python/reader.h"
#include "responder/responder.h"

#include <stdio.h>
#include <string.h>

struct responder_object {
    PyObject_HEAD struct slam_responder *responder;
    PyObject *socket_path; /* a text; NULL: it listens on TCP */
};

#define DELAY(kind, member) SLAM_PY_ROW(struct slam_delay, kind, member)

static const struct slam_py_row delay_rows[] = {
    DELAY(UNSIGNED, weight), DELAY(UNSIGNED, delay_ns), {.name = NULL}};
static const struct slam_py_row delay_row[] = {
    SLAM_PY_ELEMENT(struct slam_delay, STRUCT, .rows = delay_rows)};

static int
responder_init(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"socket_path", "delays", "seed", "record_capacity", NULL};
    struct responder_object *self = (struct responder_object *)self_object;
    struct slam_responder_options options = {0};
    unsigned long long seed = 0, capacity = 0;
    PyObject *delays = NULL, *keep;
    const void *mixture = NULL;
    char err[SLAM_ERR_LEN];
    int rc = -1;

    if (self->responder) {
        PyErr_SetString(PyExc_RuntimeError, "the responder is initialised");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$zOKK", names,
                                     &options.socket_path, &delays, &seed, &capacity))
        return -1;
    keep = PyList_New(0);
    if (!keep || (delays && slam_py_read_array(delay_row, delays, &mixture,
                                               &options.delay_count, keep) != 0))
        goto out;
    options.delays = mixture;
    options.seed = seed;
    options.record_capacity = (size_t)capacity;
    rc = slam_responder_create(&options, &self->responder, err);
    if (rc != SLAM_OK) {
        slam_py_raise(rc, err);
        rc = -1;
    } else if (options.socket_path) {
        self->socket_path = PyUnicode_FromString(options.socket_path);
        rc = self->socket_path ? 0 : -1;
    }
out:
    Py_XDECREF(keep);
    return rc;
}

static void
responder_dealloc(PyObject *self_object)
{
    struct responder_object *self = (struct responder_object *)self_object;
    PyTypeObject *type = Py_TYPE(self_object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    Py_BEGIN_ALLOW_THREADS slam_responder_destroy(self->responder);
    Py_END_ALLOW_THREADS Py_XDECREF(self->socket_path);
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
    char err[SLAM_ERR_LEN];
    int rc;

    (void)unused;
    if (!responder)
        return NULL;
    rc = slam_responder_start(responder, err);
    if (rc != SLAM_OK)
        return slam_py_raise(rc, err);
    Py_RETURN_NONE;
}

static PyObject *
call(PyObject *self, void (*function)(struct slam_responder *))
{
    struct slam_responder *responder = responder_of(self);

    if (!responder)
        return NULL;
    Py_BEGIN_ALLOW_THREADS function(responder);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *
responder_stop(PyObject *self, PyObject *unused)
{
    (void)unused;
    return call(self, slam_responder_stop);
}

static PyObject *
responder_pause(PyObject *self, PyObject *unused)
{
    (void)unused;
    return call(self, slam_responder_pause);
}

static PyObject *
responder_resume(PyObject *self, PyObject *unused)
{
    (void)unused;
    return call(self, slam_responder_resume);
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
        if (slam_py_append(list, PyLong_FromUnsignedLongLong(
                                     arrivals ? samples[i].received_ns
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
    if (d && (slam_py_put_u64(d, "connections", counts.connections) ||
              slam_py_put_u64(d, "protocol_errors", counts.protocol_errors) ||
              slam_py_put_u64(d, "samples_lost", counts.samples_lost)))
        Py_CLEAR(d);
    for (int kind = 0; d && kind < SLAM_CANNED_KINDS; kind++)
        if (slam_py_put_u64(d, slam_canned_name((enum slam_canned_kind)kind),
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
    PyObject *text = ((struct responder_object *)self_object)->socket_path;
    const char *path = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
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

PyType_Spec slam_py_responder_spec = {.name = "ldapslam.agent._engine.Responder",
                                      .basicsize = sizeof(struct responder_object),
                                      .flags = Py_TPFLAGS_DEFAULT,
                                      .slots = responder_slots};
