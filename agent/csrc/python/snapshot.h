/* SPDX-License-Identifier: Apache-2.0 */
/* Records as packed tables: a dict of bytes, with the fields of a Snapshot
 * (proto/common.proto) as keys. Rows are little-endian 64-bit integers;
 * proto/fields.py names their columns. */
#ifndef SLAM_PYTHON_SNAPSHOT_H
#define SLAM_PYTHON_SNAPSHOT_H

#include "load/engine.h"
#include "python/objects.h"

/* New tables without rows, or NULL with an exception. */
PyObject *slam_py_tables(void);

/* Appends a record, unless it is empty. Returns 0, or -1 with an exception. */
int slam_py_append_op(PyObject *tables, const struct slam_op_record *op, size_t stream,
                      size_t operation, size_t server, bool measured);
int slam_py_append_stream(PyObject *tables, const struct slam_stream_record *s,
                          size_t stream, size_t server);

/* Drops the reference to the tables. Returns them as bytes, or NULL with an exception.
 */
PyObject *slam_py_packed_tables(PyObject *tables);

PyObject *slam_py_snapshot(const struct slam_engine *engine,
                           const struct slam_snapshot *s, uint64_t index);

/* Adds core/recorder.h's names to the module. 0, or -1 with an exception. */
int slam_py_add_names(PyObject *module);

#endif
