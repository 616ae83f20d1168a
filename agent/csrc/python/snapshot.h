/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLAM_PYTHON_SNAPSHOT_H
#define SLAM_PYTHON_SNAPSHOT_H

#include "load/engine.h"
#include "python/module.h"

PyObject *slam_py_snapshot(const struct slam_engine *engine,
                           const struct slam_snapshot *s, uint64_t index);

/* Adds the names of counters, times, metrics and outcomes to the module, each list in
 * the order of its numbers. Returns 0, or -1 with an exception set. */
int slam_py_add_names(PyObject *module);

#endif
