/* decorate.c - a function that is timed at every call: a callable with vectorcall that binds as
 * methods do. Coroutines and generators are decorate.py's. */
#include "native.h"

#include <stddef.h>

struct timed {
    PyObject_HEAD
    vectorcall_fn *call;
    PyObject *function;
    PyObject *dict;         /* __name__, __doc__, __wrapped__, … */
    PyObject *weakrefs;
    struct name *name;
    enum live_kind kind;
};

static PyTypeObject *timed_type;
static PyObject *method_type; /* types.MethodType */

static struct timed *timed_of(PyObject *o) { return (struct timed *)(void *)o; }

/* The exception's type, owned, which stays set. */
static PyObject *timed_error(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_XINCREF(type);
    PyErr_Restore(type, value, trace);
    return type;
}

static void timed_end(struct live *l, int failed)
{
    PyObject *type = failed ? timed_error() : NULL;
    native_live_end(l, type);
    Py_XDECREF(type);
}

static PyObject *timed_call(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    struct timed *t = timed_of(self);
    struct live live;
    const uint64_t items = 0;
    struct traced *holder = NULL;
    if (native_off()) return PyObject_Vectorcall(t->function, args, nargs, names);
    if (SONDE__UNLIKELY(!native_context_cell())) holder = native_context_holder();
    native_live_begin(&live, t->name, t->kind, holder, &items);
    PyObject *result = PyObject_Vectorcall(t->function, args, nargs, names);
    if (native_live_on(&live)) timed_end(&live, !result);
    Py_XDECREF((PyObject *)holder);
    return result;
}

static PyObject *timed_get(PyObject *self, PyObject *object, PyObject *owner)
{
    (void)owner;
    if (!object || object == Py_None) {
        Py_INCREF(self);
        return self;
    }
    return PyObject_CallFunctionObjArgs(method_type, self, object, NULL);
}

/* Pickled by its name, as functions are. */
static PyObject *timed_reduce(PyObject *self, PyObject *none)
{
    (void)none;
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyObject *timed_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<sonde timed %R>", timed_of(self)->function);
}

static int timed_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct timed *t = timed_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(t->function);
    Py_VISIT(t->dict);
    return 0;
}

static int timed_clear(PyObject *self)
{
    Py_CLEAR(timed_of(self)->dict);
    return 0;
}

static void timed_dealloc(PyObject *self)
{
    struct timed *t = timed_of(self);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (t->weakrefs) PyObject_ClearWeakRefs(self);
    Py_CLEAR(t->dict);
    Py_CLEAR(t->function);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *timed_make(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 3) return PyErr_Format(PyExc_TypeError, "_timed(function, name, kind)");
    const long kind = PyLong_AsLong(args[2]);
    if (kind == -1 && PyErr_Occurred()) return NULL;
    struct name *name = native_name(args[1]);
    if (!name) return NULL;
    struct timed *t = PyObject_GC_New(struct timed, timed_type);
    if (!t) return NULL;
    t->call = timed_call;
    Py_INCREF(args[0]);
    t->function = args[0];
    t->dict = NULL;
    t->weakrefs = NULL;
    t->name = name;
    t->kind = (enum live_kind)kind;
    PyObject_GC_Track((PyObject *)t);
    return (PyObject *)t;
}

PyMethodDef native_decorate_methods[] = {
    { "_timed", FAST(timed_make), METH_FASTCALL,
      "_timed(function, name, kind): kind as enum live_kind." },
    { NULL, NULL, 0, NULL },
};

static PyMemberDef timed_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(struct timed, call), READONLY, NULL },
    { "__dictoffset__", T_PYSSIZET, offsetof(struct timed, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(struct timed, weakrefs), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyGetSetDef timed_getset[] = {
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyMethodDef timed_methods[] = {
    { "__reduce__", timed_reduce, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot timed_slots[] = {
    { Py_tp_dealloc, timed_dealloc },
    { Py_tp_traverse, timed_traverse },
    { Py_tp_clear, timed_clear },
    { Py_tp_call, PyVectorcall_Call },
    { Py_tp_descr_get, timed_get },
    { Py_tp_repr, timed_repr },
    { Py_tp_doc, "A function that is timed at every call: what sonde.time_function makes." },
    { Py_tp_members, timed_members },
    { Py_tp_getset, timed_getset },
    { Py_tp_methods, timed_methods },
    { 0, NULL },
};
static PyType_Spec timed_spec = {
    .name = "sonde.TimedFunction",
    .basicsize = sizeof(struct timed),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = timed_slots,
};

int native_decorate_init(PyObject *module)
{
    timed_type = native_type(module, &timed_spec);
    PyObject *types = timed_type ? PyImport_ImportModule("types") : NULL;
    method_type = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
    Py_XDECREF(types);
    return method_type ? 0 : -1;
}
