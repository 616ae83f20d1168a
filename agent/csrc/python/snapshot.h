/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLAM_PYTHON_SNAPSHOT_H
#define SLAM_PYTHON_SNAPSHOT_H

#include "load/engine.h"
#include "python/objects.h"

/* Appends a record as a dict, unless empty. Returns 0, or -1 with an exception. */
int slam_py_append_op(PyObject *list, const struct slam_op_record *op, size_t stream,
                      size_t operation, size_t server, int measured);
PyObject *slam_py_stream_dict(const struct slam_stream_record *s, size_t index);

PyObject *slam_py_snapshot(const struct slam_engine *engine,
                           const struct slam_snapshot *s, uint64_t index);

/* Adds core/recorder.h's names to the module. 0, or -1 with an exception. */
int slam_py_add_names(PyObject *module);

#endif
