/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLAM_PYTHON_TEMPLATE_H
#define SLAM_PYTHON_TEMPLATE_H

#include "load/engine.h"
#include "python/module.h"

/* A template as the engine takes it; its texts belong to the Python objects. */
struct slam_py_template {
    struct slam_template_config template;
    struct slam_value_source *sources;
    PyObject *keep; /* a tuple of the sources' tuples */
};

/* Returns 0, or -1 with an exception set; release it either way. */
int slam_py_template_read(struct slam_py_template *t, const char *program,
                          Py_ssize_t program_len, PyObject *values);
void slam_py_template_release(struct slam_py_template *t);

#endif
