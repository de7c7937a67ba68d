/* module.c - the module, and recording as a whole switched on and off.
 *
 * Types and caches are static and made once: libsonde's state is the process's, so a second
 * interpreter in it would share them without being able to share objects. It gets an ImportError.
 * So does an interpreter that is started after the first was finalized. The module may be imported
 * again by the same interpreter: it finds the types that there are. */
#include "native.h"

#include <errno.h>
#include <string.h>

static PyObject *made;  /* dict of what the first import made; NULL = nothing yet */
static int finalized;   /* the interpreter that imported it is gone */
static PyObject *program; /* str that open() named the process; NULL = by its file */

PyTypeObject *native_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (!type) return NULL;
    const char *name = strrchr(spec->name, '.') + 1;
    if (PyDict_SetItemString(made, name, type)) {
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type; /* the file's own reference, for good */
}

/* ---- Switches ------------------------------------------------------------------------------- */

static PyObject *module_enable(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    const int on = nargs ? PyObject_IsTrue(args[0]) : 1;
    if (nargs > 1) return PyErr_Format(PyExc_TypeError, "enable() takes a bool");
    if (on < 0) return NULL;
    sonde_enable(on);
    Py_RETURN_NONE;
}

static PyObject *module_enabled(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyBool_FromLong(sonde_is_enabled());
}

static PyObject *module_open(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *const words[] = { "name", "dir", "bytes_max", "series_max", "lanes_max", NULL };
    struct sonde_config c = { .size = sizeof(c) };
    unsigned long long bytes_max = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|zz$KII", (char **)words, &c.name, &c.dir,
                                     &bytes_max, &c.series_max, &c.lanes_max)) {
        return NULL;
    }
    c.bytes_max = bytes_max;
    const int rc = sonde_open(&c);
    if (rc == SONDE_EINVAL) return PyErr_Format(PyExc_ValueError, "sonde.open: a name is too long");
    if (rc) return PyUnicode_FromString(sonde_strerror(rc));
    if (c.name && !program) program = PyUnicode_FromString(c.name); /* later ones do not count */
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *module_program(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return program ? Py_NewRef(program) : PyUnicode_DecodeFSDefault(program_invocation_short_name);
}

static PyMethodDef module_methods[] = {
    { "enable", FAST(module_enable), METH_FASTCALL,
      "enable(on=True)\n\nSwitch recording off and on. SONDE_ENABLED=0 in the environment "
      "starts it "
      "off." },
    { "enabled", module_enabled, METH_NOARGS,
      "enabled() -> bool\n\nWhether records are kept now." },
    { "open", FAST(module_open), METH_VARARGS | METH_KEYWORDS,
      "open(name=None, dir=None, *, bytes_max=0, series_max=0, lanes_max=0) -> str | "
      "None\n\nOptional, "
      "before the first record: name the process, set limits. Returns why recording is off, or "
      "None." },
    { "_program", module_program, METH_NOARGS,
      "_program() -> str\n\nWhat reports call this process." },
    { NULL, NULL, 0, NULL },
};

/* ---- The module ----------------------------------------------------------------------------- */

static int module_make(PyObject *module)
{
    made = PyDict_New();
    if (!made || native_names_init(module) || native_context_init(module) ||
        native_span_init(module) || native_decorate_init(module) || native_metrics_init(module) ||
        native_ops_init(module)) {
        Py_CLEAR(made);
        return -1;
    }
    return 0;
}

static int module_exec(PyObject *module)
{
    PyMethodDef *const functions[] = { module_methods,         native_names_methods,
                                       native_context_methods, native_span_methods,
                                       native_decorate_methods, native_metrics_methods,
                                       native_ops_methods,     native_read_methods };
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "sonde cannot be imported in a subinterpreter: import "
                                           "it in the main one");
        return -1;
    }
    if (finalized) {
        PyErr_SetString(PyExc_ImportError, "sonde cannot be imported again after Py_Finalize: "
                                           "start another process");
        return -1;
    }
    if (!made && module_make(module)) return -1;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (PyModule_AddFunctions(module, functions[i])) return -1;
    }
    PyObject *dict = PyModule_GetDict(module);
    if (PyDict_Update(dict, made)) return -1;
    return PyModule_AddStringConstant(module, "__version__", SONDE_VERSION);
}

static void module_free(void *module)
{
    (void)module;
    /* A second import's module may go at any time; only at the end is there no current exception
     * state to ask: the interpreter says so itself. */
    if (!Py_IsInitialized()) finalized = 1;
}

/* Slots that came after 3.11, which refuses numbers that it does not know: by their values. */
#define SLOT_INTERPRETERS 3 /* Py_mod_multiple_interpreters, 3.12 */
#define SLOT_GIL 4          /* Py_mod_gil, 3.13 */
static PyModuleDef_Slot module_slots[] = {
    { Py_mod_exec, module_exec },
    { 0, NULL }, /* filled in by PyInit__native … */
    { 0, NULL }, /* … as the interpreter's version allows */
    { 0, NULL },
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "sonde._native",
    .m_doc = "libsonde for Python. Use the package sonde.",
    .m_slots = module_slots,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void)
{
    if (Py_Version >= 0x030c0000) {
        module_slots[1] = (PyModuleDef_Slot){ SLOT_INTERPRETERS, NULL }; /* not supported */
    }
    if (Py_Version >= 0x030d0000) {
        module_slots[2] = (PyModuleDef_Slot){ SLOT_GIL, (void *)1 }; /* not needed */
    }
    return PyModuleDef_Init(&module_def);
}
