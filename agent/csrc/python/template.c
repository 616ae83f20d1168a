/* SPDX-License-Identifier: Apache-2.0 */
#include "python/template.h"

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

void
slam_py_template_release(struct slam_py_template *t)
{
    PyMem_Free(t->sources);
    Py_XDECREF(t->keep);
}

int
slam_py_template_read(struct slam_py_template *t, const char *program,
                      Py_ssize_t program_len, PyObject *values)
{
    Py_ssize_t count;

    *t = (struct slam_py_template){0};
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
    t->template = (struct slam_template_config){.program = (const uint8_t *)program,
                                                .program_len = (size_t)program_len,
                                                .sources = t->sources,
                                                .source_count = (size_t)count};
    return 0;
}
