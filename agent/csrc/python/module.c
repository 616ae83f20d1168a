/* SPDX-License-Identifier: Apache-2.0 */
/* ldapslam.agent._engine: the module, its types and its exception. */
#include "python/objects.h"
#include "python/snapshot.h"

static int
module_exec(PyObject *module)
{
    PyType_Spec *const specs[] = {&slam_py_engine_spec, &slam_py_shared_recorder_spec,
                                  &slam_py_ldif_spec,   &slam_py_responder_spec,
                                  &slam_py_text_spec,   &slam_py_hiccup_meter_spec};
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
        "A connection could not be set up; attributes uri, stage, code, detail, cause.",
        NULL, NULL);
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
