/* SPDX-License-Identifier: Apache-2.0 */
/* Text: the texts of a template, for clients that the engine does not drive. */
#include "core/slam_err.h"
#include "python/objects.h"
#include "python/settings.h"

struct text_object {
    PyObject_HEAD struct slam_template *template;
    struct slam_partition_cursor *states;
    uint8_t *out;
    struct slam_rng rng;
    struct slam_partition partition;
};

/* Sets up the states of the sources, and room for a text. */
static int
prepare(struct text_object *self)
{
    const size_t count = slam_template_source_count(self->template);
    const size_t longest = slam_template_max_text(self->template);

    if (longest == SIZE_MAX || slam_template_variable_count(self->template) > 0) {
        PyErr_SetString(PyExc_ValueError, "a text has no TLVs and no variables");
        return -1;
    }
    self->states = PyMem_Calloc(count + 1, sizeof(*self->states));
    self->out = PyMem_Malloc(longest + 1);
    if (!self->states || !self->out) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int
text_init(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"template", "seed", "number", "total", NULL};
    struct text_object *self = (struct text_object *)self_object;
    struct slam_template_config config = {0};
    PyObject *template, *keep;
    unsigned long long seed, number, total;
    char err[SLAM_ERR_LEN];
    int rc = -1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OKKK", names, &template, &seed,
                                     &number, &total))
        return -1;
    if (self->template || number >= total) {
        PyErr_SetString(PyExc_ValueError, "a text is initialised once, for a client");
        return -1;
    }
    keep = PyList_New(0);
    if (keep && slam_py_read(slam_py_template_rows, template, &config, keep) == 0) {
        rc = slam_template_create(&config, NULL, &self->template, err);
        if (rc != SLAM_OK)
            slam_py_raise(rc, err);
    }
    Py_XDECREF(keep);
    slam_rng_seed(&self->rng, seed, 0);
    self->partition =
        (struct slam_partition){.first = number, .step = 1, .count = 1, .total = total};
    return rc == SLAM_OK ? prepare(self) : -1;
}

static void
text_dealloc(PyObject *self_object)
{
    struct text_object *self = (struct text_object *)self_object;
    PyTypeObject *type = Py_TYPE(self_object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    slam_template_destroy(self->template);
    PyMem_Free(self->states);
    PyMem_Free(self->out);
    release(self_object);
    Py_DECREF(type);
}

static PyObject *
text_next(PyObject *self_object, PyObject *unused)
{
    struct text_object *self = (struct text_object *)self_object;
    const struct slam_draw draw = {.rng = &self->rng, .partition = &self->partition};
    size_t len;

    (void)unused;
    if (!self->out) {
        PyErr_SetString(PyExc_RuntimeError, "the text is not initialised");
        return NULL;
    }
    len = slam_template_text(self->template, self->states, &draw, self->out);
    return PyBytes_FromStringAndSize((const char *)self->out, (Py_ssize_t)len);
}

static PyMethodDef text_methods[] = {{"next", text_next, METH_NOARGS, NULL},
                                     {NULL, NULL, 0, NULL}};

static PyType_Slot text_slots[] = {{Py_tp_init, text_init},
                                   {Py_tp_dealloc, text_dealloc},
                                   {Py_tp_methods, text_methods},
                                   {0, NULL}};

PyType_Spec slam_py_text_spec = {.name = "ldapslam.agent._engine.Text",
                                 .basicsize = sizeof(struct text_object),
                                 .flags = Py_TPFLAGS_DEFAULT,
                                 .slots = text_slots};
