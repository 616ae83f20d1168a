/* SPDX-License-Identifier: Apache-2.0 */
/* What the types of ldapslam.agent._engine share: its state, its types, exceptions and
 * results. Python.h (stable ABI) is included in this folder only. The GIL is released
 * around every call that blocks; the engine's threads never see a Python object. */
#ifndef SLAM_PYTHON_OBJECTS_H
#define SLAM_PYTHON_OBJECTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/histogram.h"
#include "core/slam_err.h"

#include <stdint.h>

struct slam_py_state {
    PyObject *connect_error;
};

extern PyType_Spec slam_py_engine_spec;
extern PyType_Spec slam_py_shared_recorder_spec;
extern PyType_Spec slam_py_ldif_spec;
extern PyType_Spec slam_py_responder_spec;
extern PyType_Spec slam_py_text_spec;

/* The state of the module that the object's type belongs to. */
struct slam_py_state *slam_py_state_of(PyObject *self);

/* Sets the exception of a negative slam_err with this text. Returns NULL. */
PyObject *slam_py_raise(int rc, const char *err);

/* Sets d[key] = value and drops the reference to value, which may be NULL with an
 * exception set. Returns 0, or -1 with an exception set. */
int slam_py_put(PyObject *d, const char *key, PyObject *value);
int slam_py_put_u64(PyObject *d, const char *key, uint64_t value);

/* Appends item and drops the reference to it, as slam_py_put. */
int slam_py_append(PyObject *list, PyObject *item);

/* The packed histogram as bytes. */
PyObject *slam_py_pack_histogram(const struct slam_histogram *h);

#endif
