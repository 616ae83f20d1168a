/* SPDX-License-Identifier: Apache-2.0 */
/* Text: the texts of a template, for clients that the engine does not drive. */
#include "python/objects.h"
#include "python/settings.h"

struct text_object {
    struct slam_py_object base; /* its handle: the slam_template */
    struct slam_partition_cursor *states;
    uint8_t *out;
    struct slam_rng rng;
    struct slam_partition partition;
};

/* Makes room for a text; a template that cannot be one is refused. */
static int
prepare(struct text_object *self, struct slam_template *template)
{
    const size_t longest = slam_template_max_text(template);

    if (longest == SIZE_MAX || slam_template_variable_count(template) > 0) {
        PyErr_SetString(PyExc_ValueError, "a text has no TLVs and no variables");
        slam_template_destroy(template);
        return -1;
    }
    self->states =
        PyMem_Calloc(slam_template_source_count(template) + 1, sizeof(*self->states));
    self->out = PyMem_Malloc(longest + 1);
    if (!self->states || !self->out) {
        PyMem_Free(self->states);
        PyMem_Free(self->out);
        self->states = NULL;
        self->out = NULL;
        slam_template_destroy(template);
        PyErr_NoMemory();
        return -1;
    }
    self->base.handle = template;
    return 0;
}

static int
text_init(PyObject *self_object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"template", "seed", "number", "total", NULL};
    struct text_object *self = (struct text_object *)self_object;
    struct slam_template_config config = {0};
    struct slam_template *template = NULL;
    PyObject *plan, *keep = slam_py_init(self_object);
    unsigned long long seed, number, total;
    char err[SLAM_ERR_LEN];

    if (!keep || !PyArg_ParseTupleAndKeywords(args, kwargs, "OKKK", names, &plan, &seed,
                                              &number, &total))
        return -1;
    if (number >= total) {
        PyErr_SetString(PyExc_ValueError,
                        "a text is for a client whose number is below the total");
        return -1;
    }
    if (slam_py_read(slam_py_template_rows, plan, &config, keep) != 0 ||
        slam_py_status(slam_template_create(&config, NULL, &template, err), err) != 0)
        return -1;
    slam_rng_seed(&self->rng, seed, 0);
    self->partition =
        (struct slam_partition){.first = number, .step = 1, .count = 1, .total = total};
    return prepare(self, template);
}

static void
text_dealloc(PyObject *self_object)
{
    struct text_object *self = (struct text_object *)self_object;

    SLAM_PY_DESTROY(self, slam_template_destroy);
    PyMem_Free(self->states);
    PyMem_Free(self->out);
    slam_py_free(self_object);
}

static PyObject *
text_next(PyObject *self_object, PyObject *Py_UNUSED(unused))
{
    struct text_object *self = (struct text_object *)self_object;
    const struct slam_draw draw = {.rng = &self->rng, .partition = &self->partition};
    const struct slam_template *template = slam_py_handle(self_object);
    size_t len;

    if (!template)
        return NULL;
    len = slam_template_text(template, self->states, &draw, self->out);
    return PyBytes_FromStringAndSize((const char *)self->out, (Py_ssize_t)len);
}

static PyMethodDef text_methods[] = {{"next", text_next, METH_NOARGS, NULL},
                                     {NULL, NULL, 0, NULL}};

static PyType_Slot text_slots[] = {{Py_tp_init, text_init},
                                   {Py_tp_dealloc, text_dealloc},
                                   {Py_tp_methods, text_methods},
                                   {0, NULL}};

PyType_Spec slam_py_text_spec = SLAM_PY_TYPE("Text", struct text_object, text_slots);
