/* SPDX-License-Identifier: Apache-2.0 */
/* Responder: the server inside of tests and of the fitness check. */
#include "python/objects.h"
#include "python/reader.h"
#include "responder/responder.h"

#include <stdio.h>
#include <string.h>

struct responder_object {
    struct slam_py_object base;
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
    static char *names[] = {"socket_path",     "delays",  "seed",
                            "record_capacity", "in_turn", NULL};
    struct responder_object *self = (struct responder_object *)self_object;
    struct slam_responder_options options = {0};
    struct slam_responder *responder = NULL;
    unsigned long long seed = 0, capacity = 0;
    PyObject *delays = NULL, *keep = slam_py_init(self_object);
    const void *mixture = NULL;
    char err[SLAM_ERR_LEN];
    int rc, in_turn = 0;

    if (!keep ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "|$zOKKp", names,
                                     &options.socket_path, &delays, &seed, &capacity,
                                     &in_turn) ||
        (delays && slam_py_read_array(delay_row, delays, &mixture, &options.delay_count,
                                      keep) != 0))
        return -1;
    options.delays = mixture;
    options.seed = seed;
    options.in_turn = in_turn;
    options.record_capacity = (size_t)capacity;
    rc = slam_py_status(slam_responder_create(&options, &responder, err), err);
    self->base.handle = responder;
    if (rc == 0 && options.socket_path) {
        self->socket_path = PyUnicode_FromString(options.socket_path);
        rc = self->socket_path ? 0 : -1;
    }
    return rc;
}

static void
responder_dealloc(PyObject *self)
{
    SLAM_PY_DESTROY(self, slam_responder_destroy);
    Py_XDECREF(((struct responder_object *)self)->socket_path);
    slam_py_free(self);
}

static PyObject *
responder_start(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct slam_responder *responder = slam_py_handle(self);
    char err[SLAM_ERR_LEN];

    return responder ? slam_py_result(slam_responder_start(responder, err), err) : NULL;
}

static PyObject *
call(PyObject *self, void (*function)(struct slam_responder *))
{
    struct slam_responder *responder = slam_py_handle(self);

    if (!responder)
        return NULL;
    Py_BEGIN_ALLOW_THREADS function(responder);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *
responder_stop(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return call(self, slam_responder_stop);
}

static PyObject *
responder_pause(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return call(self, slam_responder_pause);
}

static PyObject *
responder_resume(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return call(self, slam_responder_resume);
}

static PyObject *
responder_record(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const struct slam_responder *responder = slam_py_handle(self);
    const struct slam_responder_sample *samples;
    PyObject *list;
    size_t count;

    if (!responder)
        return NULL;
    samples = slam_responder_record(responder, &count);
    list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++)
        if (slam_py_append(
                list, Py_BuildValue("KK", (unsigned long long)samples[i].received_ns,
                                    (unsigned long long)samples[i].service_ns)) != 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *
responder_counts(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const struct slam_responder *responder = slam_py_handle(self);
    struct slam_responder_counts counts;
    PyObject *d;

    if (!responder)
        return NULL;
    slam_responder_counts(responder, &counts);
    d = Py_BuildValue("{sKsKsK}", "connections", (unsigned long long)counts.connections,
                      "protocol_errors", (unsigned long long)counts.protocol_errors,
                      "samples_lost", (unsigned long long)counts.samples_lost);
    for (int kind = 0; d && kind < SLAM_CANNED_KINDS; kind++)
        if (slam_py_put_u64(d, slam_canned_name((enum slam_canned_kind)kind),
                            counts.requests[kind]))
            Py_CLEAR(d);
    return d;
}

static PyObject *
responder_port(PyObject *self, void *Py_UNUSED(unused))
{
    const struct slam_responder *responder = slam_py_handle(self);

    return responder ? PyLong_FromLong(slam_responder_port(responder)) : NULL;
}

/* ldapi URIs carry their path percent-encoded. */
static PyObject *
responder_uri(PyObject *self_object, void *Py_UNUSED(unused))
{
    const struct slam_responder *responder = slam_py_handle(self_object);
    PyObject *text = ((struct responder_object *)self_object)->socket_path;
    const char *path = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    char uri[8 + 3 * 108 + 1] = "ldapi://";
    size_t len = strlen(uri);

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

PyType_Spec slam_py_responder_spec =
    SLAM_PY_TYPE("Responder", struct responder_object, responder_slots);
