/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLAM_PYTHON_OPERATION_H
#define SLAM_PYTHON_OPERATION_H

#include "load/engine.h"
#include "python/module.h"

/* Engine.add_operation of an open engine. */
PyObject *slam_py_add_operation(struct slam_engine *engine, PyObject *args,
                                PyObject *kwargs);

#endif
