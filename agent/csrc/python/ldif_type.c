/* SPDX-License-Identifier: Apache-2.0 */
/* Ldif: a population's entries, written to files. */
#include "ldif/ldif.h"
#include "python/objects.h"
#include "python/settings.h"

#define NODE(kind, member, ...)                                                        \
    SLAM_PY_ROW(struct slam_ldif_node, kind, member, __VA_ARGS__)

static const struct slam_py_row node_rows[] = {
    NODE(UNSIGNED, parent),
    NODE(UNSIGNED, count),
    NODE(UNSIGNED, first_index),
    NODE(UNSIGNED, first_name),
    NODE(UNSIGNED, seed),
    NODE(BYTES, program, .length = offsetof(struct slam_ldif_node, program_len)),
    {.name = NULL}};
static const struct slam_py_row node_row[] = {
    SLAM_PY_ELEMENT(struct slam_ldif_node, STRUCT, .rows = node_rows)};
static const struct slam_py_row fd_row[] = {SLAM_PY_ELEMENT(int, SIGNED)};

static int
ldif_init(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"seed",       "nodes",   "values", "first_names",
                            "last_names", "threads", "fds",    NULL};
    struct slam_py_object *self = (struct slam_py_object *)self_object;
    struct slam_ldif_config config = {0};
    struct slam_ldif *ldif = NULL;
    const void *arrays[3];
    PyObject *nodes, *values, *fds, *keep = slam_py_init(self_object);
    unsigned long long seed;
    char err[SLAM_ERR_LEN];
    int rc;

    if (!keep ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "KOOIIIO", names, &seed, &nodes,
                                     &values, &config.first_names, &config.last_names,
                                     &config.threads, &fds) ||
        slam_py_read_array(node_row, nodes, &arrays[0], &config.node_count, keep) ||
        slam_py_read_array(slam_py_value_row, values, &arrays[1], &config.source_count,
                           keep) ||
        slam_py_read_array(fd_row, fds, &arrays[2], &config.output_count, keep))
        return -1;
    config.seed = seed;
    config.nodes = arrays[0];
    config.sources = arrays[1];
    config.fds = arrays[2];
    rc = slam_py_status(slam_ldif_create(&config, &ldif, err), err);
    self->handle = ldif;
    return rc;
}

static void
ldif_dealloc(PyObject *self)
{
    SLAM_PY_DESTROY(self, slam_ldif_destroy);
    slam_py_free(self);
}

static PyObject *
ldif_start(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct slam_ldif *ldif = slam_py_handle(self);
    char err[SLAM_ERR_LEN];

    return ldif ? slam_py_result(slam_ldif_start(ldif, err), err) : NULL;
}

static PyObject *
ldif_wait(PyObject *self, PyObject *arg)
{
    unsigned long long timeout_ns = PyLong_AsUnsignedLongLong(arg);
    struct slam_ldif *ldif = PyErr_Occurred() ? NULL : slam_py_handle(self);
    bool is_done = false;
    char err[SLAM_ERR_LEN];
    int rc;

    if (!ldif)
        return NULL;
    ((struct slam_py_object *)self)->calls++;
    Py_BEGIN_ALLOW_THREADS rc = slam_ldif_wait(ldif, timeout_ns, &is_done, err);
    Py_END_ALLOW_THREADS((struct slam_py_object *)self)->calls--;
    return slam_py_status(rc, err) == 0 ? PyBool_FromLong(is_done) : NULL;
}

static PyObject *
ldif_progress(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct slam_ldif *ldif = slam_py_handle(self);
    struct slam_ldif_progress progress;

    if (!ldif)
        return NULL;
    progress = slam_ldif_progress(ldif);
    return Py_BuildValue("KK", (unsigned long long)progress.entries,
                         (unsigned long long)progress.bytes);
}

static PyObject *
ldif_stop(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct slam_ldif *ldif = slam_py_handle(self);

    if (!ldif)
        return NULL;
    slam_ldif_stop(ldif);
    Py_RETURN_NONE;
}

static PyObject *
ldif_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    if (slam_py_check_idle(self) != 0)
        return NULL;
    SLAM_PY_DESTROY(self, slam_ldif_destroy);
    Py_RETURN_NONE;
}

static PyObject *
ldif_get_entries(PyObject *self, void *Py_UNUSED(unused))
{
    struct slam_ldif *ldif = slam_py_handle(self);

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

PyType_Spec slam_py_ldif_spec = SLAM_PY_TYPE("Ldif", struct slam_py_object, ldif_slots);
