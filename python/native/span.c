/* span.c - spans as context managers: span, operation, scope, throughput.
 *
 * A `with` looks __enter__ and __exit__ up and calls what it got; for methods written in C that is
 * two objects made and thrown away, half of what an empty span costs. So these are descriptors that
 * give the span itself, which is callable: without arguments it begins, with three it ends. */
#include "native.h"

#include <stddef.h>

struct span {
    PyObject_HEAD
    struct sonde_trace trace;  /* as struct traced: it stands for itself in a task's context */
    vectorcall_fn *call;
    struct live live;
    struct name *name;
    PyObject *names, *values;  /* attributes given before it began; owned, NULL = none */
    uint64_t items;
    enum live_kind kind;
};

static PyTypeObject *span_type;
static PyObject *unbound_enter, *unbound_exit; /* for type(s).__enter__ */

static struct span *span_of(PyObject *o) { return (struct span *)(void *)o; }

static void span_dealloc(PyObject *self)
{
    struct span *s = span_of(self);
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(s->live.token);
    Py_XDECREF(s->live.inner_value);
    Py_XDECREF(s->names);
    Py_XDECREF(s->values);
    PyObject_Free(self);
    Py_DECREF(type);
}

static vectorcall_fn span_call;

/* ---- Making one ----------------------------------------------------------------------------- */

static PyObject *span_new(struct name *name, enum live_kind kind)
{
    struct span *s = PyObject_New(struct span, span_type);
    if (!s) return NULL;
    s->trace = (struct sonde_trace){ 0, 0, 0 };
    s->call = span_call;
    s->live.u.span.flags = 0;
    s->live.token = s->live.inner_value = NULL;
    s->name = name;
    s->names = s->values = NULL;
    s->items = 0;
    s->kind = kind;
    return (PyObject *)s;
}

static int span_keep_attrs(struct span *s, PyObject *const *values, PyObject *names)
{
    const Py_ssize_t n = PyTuple_Size(names);
    s->values = PyTuple_New(n);
    if (!s->values) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_INCREF(values[i]);
        PyTuple_SetItem(s->values, i, values[i]);
    }
    Py_INCREF(names);
    s->names = names;
    return 0;
}

static PyObject *span_make(enum live_kind kind, const char *function, PyObject *const *args,
                           Py_ssize_t nargs, PyObject *names)
{
    if (nargs != 1) {
        return PyErr_Format(PyExc_TypeError, "%s() takes a name, and attributes by keyword",
                            function);
    }
    struct name *name = native_name(args[0]);
    PyObject *s = name ? span_new(name, kind) : NULL;
    if (s && names && PyTuple_Size(names) && span_keep_attrs(span_of(s), args + 1, names)) {
        Py_DECREF(s);
        return NULL;
    }
    return s;
}

#define SPAN_FUNCTION(function, kind)                                                              \
    static PyObject *span_##function(PyObject *module, PyObject *const *args, Py_ssize_t nargs,    \
                                     PyObject *names)                                              \
    {                                                                                              \
        (void)module;                                                                              \
        return span_make(kind, #function, args, nargs, names);                                     \
    }
SPAN_FUNCTION(span, LIVE_SPAN)
SPAN_FUNCTION(operation, LIVE_OPERATION)
SPAN_FUNCTION(scope, LIVE_RESOURCE)
SPAN_FUNCTION(throughput, LIVE_THROUGHPUT)

/* ---- Begin and end -------------------------------------------------------------------------- */

static int span_give_attrs(struct span *s)
{
    const Py_ssize_t n = PyTuple_Size(s->names);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value = PyTuple_GetItem(s->values, i);
        if (native_live_attr(&s->live, PyTuple_GetItem(s->names, i), value)) return -1;
    }
    return 0;
}

static PyObject *span_enter(PyObject *self)
{
    struct span *s = span_of(self);
    if (native_live_on(&s->live)) {
        return PyErr_Format(PyExc_RuntimeError, "span %R has begun already", s->name->text);
    }
    native_live_begin(&s->live, s->name, s->kind, (struct traced *)self, &s->items);
    s->trace = (struct sonde_trace){ 0, 0, 0 };
    if (native_live_on(&s->live)) {
        s->trace = (struct sonde_trace){ s->live.u.span.trace_hi, s->live.u.span.trace_lo,
                                         s->live.u.span.id };
    }
    if (SONDE__UNLIKELY(s->names != NULL) && span_give_attrs(s)) {
        native_live_end(&s->live, PyExc_TypeError);
        return NULL;
    }
    Py_INCREF(self);
    return self;
}

static PyObject *span_call(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    const size_t n = nargs & ~((size_t)1 << 63); /* PY_VECTORCALL_ARGUMENTS_OFFSET */
    if (n == 3 && !names) {
        native_live_end(&span_of(self)->live, args[0]);
        Py_RETURN_NONE;
    }
    if (n == 0 && !names) return span_enter(self);
    return PyErr_Format(PyExc_TypeError, "a span is a context manager, not a function");
}

static PyObject *span_enter_unbound(PyObject *self, PyObject *none)
{
    (void)none;
    return span_enter(self);
}

static PyObject *span_exit_unbound(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    return span_call(self, args, (size_t)nargs, NULL);
}

static PyMethodDef enter_def = { "__enter__", span_enter_unbound, METH_NOARGS, "Begin." };
static PyMethodDef exit_def = { "__exit__", FAST(span_exit_unbound), METH_FASTCALL,
                                "End; an exception makes its outcome an error." };

/* What stands for __enter__ and __exit__ in the type. */
struct self_descriptor {
    PyObject_HEAD
    PyObject *unbound;
};

static PyObject *self_get(PyObject *descriptor, PyObject *object, PyObject *type)
{
    PyObject *got = object ? object : ((struct self_descriptor *)(void *)descriptor)->unbound;
    (void)type;
    Py_INCREF(got);
    return got;
}

static PyType_Slot self_slots[] = { { Py_tp_descr_get, self_get }, { 0, NULL } };
static PyType_Spec self_spec = {
    .name = "sonde._native._Self",
    .basicsize = sizeof(struct self_descriptor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = self_slots,
};

static int self_put(PyTypeObject *self_type, const char *name, PyMethodDef *def, PyObject **unbound)
{
    struct self_descriptor *d = PyObject_New(struct self_descriptor, self_type);
    if (!d) return -1;
    d->unbound = *unbound = PyDescr_NewMethod(span_type, def);
    const int rc =
        *unbound ? PyObject_SetAttrString((PyObject *)span_type, name, (PyObject *)d) : -1;
    return rc; /* never freed, as the types are */
}

static PyObject *span_suspend(PyObject *self, PyObject *none)
{
    (void)none;
    native_live_suspend(&span_of(self)->live);
    Py_RETURN_NONE;
}

static PyObject *span_resume(PyObject *self, PyObject *none)
{
    (void)none;
    native_live_resume(&span_of(self)->live);
    Py_RETURN_NONE;
}

/* ---- What it is ----------------------------------------------------------------------------- */

static int span_set_item(PyObject *self, PyObject *key, PyObject *value)
{
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "attributes of a span cannot be deleted");
        return -1;
    }
    return native_live_attr(&span_of(self)->live, key, value);
}

static PyObject *span_add(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    const unsigned long long n = nargs == 1 ? PyLong_AsUnsignedLongLong(args[0]) : 1;
    if (nargs > 1) return PyErr_Format(PyExc_TypeError, "add() takes a number of items");
    if (n == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
    __atomic_fetch_add(&span_of(self)->items, n, __ATOMIC_RELAXED);
    Py_RETURN_NONE;
}

static PyObject *span_hex(struct sonde_trace t, int from, int len)
{
    char text[SONDE_TRACEPARENT_SIZE];
    if (!(t.hi | t.lo)) Py_RETURN_NONE;
    sonde_traceparent_format(t, text);
    return PyUnicode_FromStringAndSize(text + from, len);
}

static PyObject *span_get_trace_id(PyObject *self, void *arg)
{
    (void)arg;
    return span_hex(span_of(self)->trace, 3, 32);
}

static PyObject *span_get_span_id(PyObject *self, void *arg)
{
    (void)arg;
    return span_hex(span_of(self)->trace, 36, 16);
}

static PyObject *span_get_name(PyObject *self, void *arg)
{
    (void)arg;
    Py_INCREF(span_of(self)->name->text);
    return span_of(self)->name->text;
}

static PyObject *span_get_recording(PyObject *self, void *arg)
{
    (void)arg;
    return PyBool_FromLong(native_live_on(&span_of(self)->live));
}

static PyMethodDef span_methods[] = {
    { "add", FAST(span_add), METH_FASTCALL, "add(n=1): items handled, of a throughput()." },
    { "suspend", span_suspend, METH_NOARGS,
      "Others run now: what they begin is not inside of this span, and their time is not its "
      "running_seconds." },
    { "resume", span_resume, METH_NOARGS, "It goes on." },
    { NULL, NULL, 0, NULL },
};

static PyMemberDef span_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(struct span, call), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyGetSetDef span_getset[] = {
    { "trace_id", span_get_trace_id, NULL, "32 hex digits; None if it is not recorded.", NULL },
    { "span_id", span_get_span_id, NULL, "16 hex digits; None if it is not recorded.", NULL },
    { "name", span_get_name, NULL, "Its name.", NULL },
    { "recording", span_get_recording, NULL, "Begun, not ended, and recorded.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot span_slots[] = {
    { Py_tp_dealloc, span_dealloc },
    { Py_tp_methods, span_methods },
    { Py_tp_members, span_members },
    { Py_tp_getset, span_getset },
    { Py_tp_call, PyVectorcall_Call },
    { Py_mp_ass_subscript, span_set_item },
    { Py_tp_doc, "A stretch of time: `with sonde.span(\"load\") as s: s[\"rows\"] = n`." },
    { 0, NULL },
};
static PyType_Spec span_spec = {
    .name = "sonde.Span",
    .basicsize = sizeof(struct span),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = span_slots,
};

PyMethodDef native_span_methods[] = {
    { "span", FAST(span_span), METH_FASTCALL | METH_KEYWORDS,
      "span(name, /, **attributes) -> Span\n\nA context manager: the block is a span of the "
      "current "
      "trace. An exception makes its outcome an error and is counted by type." },
    { "operation", FAST(span_operation), METH_FASTCALL | METH_KEYWORDS,
      "operation(name, /, **attributes) -> Span\n\nA span that is also counted in "
      "sonde_operation_duration_seconds{operation,outcome}." },
    { "scope", FAST(span_scope), METH_FASTCALL | METH_KEYWORDS,
      "scope(name, /, **attributes) -> Span\n\nA span that also measures wall and CPU time, page "
      "faults and resident memory: sonde_resource_*{scope}." },
    { "throughput", FAST(span_throughput), METH_FASTCALL | METH_KEYWORDS,
      "throughput(name, /, **attributes) -> Span\n\nA span that counts items, by its add(): "
      "sonde_throughput_*{scope}." },
    { NULL, NULL, 0, NULL },
};

int native_span_init(PyObject *module)
{
    PyTypeObject *self_type = native_type(module, &self_spec);
    span_type = self_type ? native_type(module, &span_spec) : NULL;
    if (!span_type) return -1;
    return self_put(self_type, "__enter__", &enter_def, &unbound_enter) ||
                   self_put(self_type, "__exit__", &exit_def, &unbound_exit)
               ? -1
               : 0;
}
