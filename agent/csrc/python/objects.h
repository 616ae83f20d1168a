/* SPDX-License-Identifier: Apache-2.0 */
/* What the types of ldapslam.agent._engine have in common. Python.h (stable ABI) is
 * included in this folder only. Calls that block release the GIL. */
#ifndef SLAM_PYTHON_OBJECTS_H
#define SLAM_PYTHON_OBJECTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

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
extern PyType_Spec slam_py_hiccup_meter_spec;

struct slam_py_object {
    PyObject_HEAD void *handle; /* NULL: not initialised, or closed */
    PyObject *keep;             /* a list: what the settings of the handle point to */
    int calls; /* under way without the GIL; changed with the GIL held */
};

#define SLAM_PY_TYPE(name_, type, slots_)                                              \
    {.name = "ldapslam.agent._engine." name_,                                          \
     .basicsize = sizeof(type),                                                        \
     .flags = Py_TPFLAGS_DEFAULT,                                                      \
     .slots = slots_}

/* The object's handle, or NULL with an exception. */
void *slam_py_handle(PyObject *self);
/* Begins __init__. Returns the list of the object, or NULL with an exception: it has a
 * handle already. */
PyObject *slam_py_init(PyObject *self);
/* Returns 0 where no call is under way, else -1 with an exception. */
int slam_py_check_idle(PyObject *self);
void slam_py_free(PyObject *self);

/* Takes the handle from the object and destroys it, without the GIL: threads of it may
 * have to end. */
#define SLAM_PY_DESTROY(self, destroy)                                                 \
    do {                                                                               \
        void *handle_ = ((struct slam_py_object *)(self))->handle;                     \
                                                                                       \
        ((struct slam_py_object *)(self))->handle = NULL;                              \
        Py_BEGIN_ALLOW_THREADS destroy(handle_);                                       \
        Py_END_ALLOW_THREADS                                                           \
    } while (0)

/* Returns 0, or for a negative slam_err -1 with the exception of this text. */
int slam_py_status(int rc, const char *err);
/* The same as None or NULL. */
PyObject *slam_py_result(int rc, const char *err);

/* Sets d[key] = value and drops the reference to value. Returns 0, or -1 with an
 * exception set, also where value is NULL. */
int slam_py_put(PyObject *d, const char *key, PyObject *value);
int slam_py_put_u64(PyObject *d, const char *key, uint64_t value);

/* Appends item and drops the reference to it, as slam_py_put. */
int slam_py_append(PyObject *list, PyObject *item);

#endif
