/* SPDX-License-Identifier: Apache-2.0 */
/* ldapslam.agent._engine: the module and what its types share. */
#include "python/module.h"

#include "core/slam_err.h"
#include "python/snapshot.h"

static struct PyModuleDef module_def;

struct slam_py_state *
slam_py_state_of(PyObject *self)
{
    return PyModule_GetState(PyType_GetModule(Py_TYPE(self)));
}

PyObject *
slam_py_raise(int rc, const char *err)
{
    PyObject *type = PyExc_RuntimeError;

    if (rc == SLAM_EINVAL)
        type = PyExc_ValueError;
    else if (rc == SLAM_ENOMEM)
        type = PyExc_MemoryError;
    else if (rc == SLAM_ESYS)
        type = PyExc_OSError;
    PyErr_SetString(type, err);
    return NULL;
}

int
slam_py_put(PyObject *d, const char *key, PyObject *value)
{
    int rc = value ? PyDict_SetItemString(d, key, value) : -1;

    Py_XDECREF(value);
    return rc;
}

int
slam_py_put_u64(PyObject *d, const char *key, uint64_t value)
{
    return slam_py_put(d, key, PyLong_FromUnsignedLongLong(value));
}

int
slam_py_append(PyObject *list, PyObject *item)
{
    int rc = item ? PyList_Append(list, item) : -1;

    Py_XDECREF(item);
    return rc;
}

PyObject *
slam_py_pack_histogram(const struct slam_histogram *h)
{
    size_t size = slam_histogram_packed_size(h);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);

    if (bytes)
        slam_histogram_pack(h, (uint8_t *)PyBytes_AsString(bytes));
    return bytes;
}

static int
module_exec(PyObject *module)
{
    PyType_Spec *const specs[] = {&slam_py_engine_spec, &slam_py_shared_recorder_spec,
                                  &slam_py_ldif_spec, &slam_py_responder_spec,
                                  &slam_py_text_spec};
    struct slam_py_state *state = PyModule_GetState(module);

    for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
        PyObject *type = PyType_FromModuleAndSpec(module, specs[i], NULL);
        int rc = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;

        Py_XDECREF(type);
        if (rc != 0)
            return -1;
    }
    state->connect_error = PyErr_NewExceptionWithDoc(
        "ldapslam.agent._engine.ConnectError",
        "A connection could not be set up; attributes uri, stage, code, detail.", NULL,
        NULL);
    if (!state->connect_error ||
        PyModule_AddObjectRef(module, "ConnectError", state->connect_error) != 0)
        return -1;
    return slam_py_add_names(module);
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg)
{
    Py_VISIT(((struct slam_py_state *)PyModule_GetState(module))->connect_error);
    return 0;
}

static int
module_clear(PyObject *module)
{
    Py_CLEAR(((struct slam_py_state *)PyModule_GetState(module))->connect_error);
    return 0;
}

static void
module_free(void *module)
{
    module_clear(module);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_engine",
    .m_doc = "The load engine: see engine.h for the contract of each call.",
    .m_size = sizeof(struct slam_py_state),
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free};

PyMODINIT_FUNC PyInit__engine(void);

PyMODINIT_FUNC
PyInit__engine(void)
{
    return PyModuleDef_Init(&module_def);
}
