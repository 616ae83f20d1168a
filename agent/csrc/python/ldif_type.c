/* SPDX-License-Identifier: Apache-2.0 */
/* Ldif: a population's entries, written to files. */
#include "core/slam_err.h"
#include "ldif/ldif.h"
#include "python/module.h"
#include "python/template.h"

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
    struct slam_py_template values = {0};
    struct slam_ldif_node *nodes = NULL;
    PyObject *node_sequence, *value_sequence, *fd_sequence, *node_tuple = NULL;
    unsigned long long seed;
    unsigned int first_names, last_names, threads;
    int fds[SLAM_LDIF_OUTPUTS_MAX] = {0};
    Py_ssize_t fd_count;
    char err[SLAM_PY_ERR_LEN];
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
    if (!nodes || slam_py_template_read(&values, "", 0, value_sequence) != 0)
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
        slam_py_raise(rc, err);
        rc = -1;
    }
out:
    slam_py_template_release(&values);
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
    char err[SLAM_PY_ERR_LEN];
    int rc;

    (void)unused;
    if (!ldif)
        return NULL;
    rc = slam_ldif_start(ldif, err, sizeof(err));
    if (rc != SLAM_OK)
        return slam_py_raise(rc, err);
    Py_RETURN_NONE;
}

static PyObject *
ldif_wait(PyObject *self, PyObject *arg)
{
    struct slam_ldif *ldif = ldif_of(self);
    unsigned long long timeout_ns = ldif ? PyLong_AsUnsignedLongLong(arg) : 0;
    bool is_done = false;
    char err[SLAM_PY_ERR_LEN];
    int rc;

    if (PyErr_Occurred())
        return NULL;
    ((struct ldif_object *)self)->calls++;
    Py_BEGIN_ALLOW_THREADS rc =
        slam_ldif_wait(ldif, timeout_ns, &is_done, err, sizeof(err));
    Py_END_ALLOW_THREADS((struct ldif_object *)self)->calls--;
    if (rc != SLAM_OK)
        return slam_py_raise(rc, err);
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

PyType_Spec slam_py_ldif_spec = {.name = "ldapslam.agent._engine.Ldif",
                                 .basicsize = sizeof(struct ldif_object),
                                 .flags = Py_TPFLAGS_DEFAULT,
                                 .slots = ldif_slots};
