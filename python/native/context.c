/* context.c - which span is the current one.
 *
 * contextvars decide: a span that was begun in a task is the parent of what that task does, and of
 * what is started from it meanwhile, whatever else runs on the thread. libsonde's idea of it
 * (sonde__tls) is loaded from there before each begin and end, so it never has to be put back.
 *
 * Setting a context variable and putting it back takes longer than all else about a span. It is
 * needed only in contexts that were entered by Context.run(), as every task's is: there a span may
 * be left alone in the middle, and copies be taken that must keep what was current then. A thread
 * that is in its own first context just calls and returns. There the variable is set once, to a
 * *cell* of the thread, and the cell is changed in place. Tasks that are run from there, and
 * contexts copied from there, find the cell and in it what the thread is in at the time they look.
 *
 * Which of the two it is depends on the thread state's context, which no function returns. Its
 * place is found at import, by entering two contexts and looking which word changes; if that is not
 * clear the variable is set always. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

#define PROBE_BYTES 256u /* no thread state of CPython >= 3.8 is smaller; the context is in there */

static PyTypeObject *cell_type;
static PyObject *current;            /* the ContextVar; its values are struct traced */
static size_t context_at;            /* in a thread state; 0 = not known */
static size_t context_found;         /* the same; context_at is 0 while it is not to be used */
static struct sonde_trace env_trace; /* TRACEPARENT */

static __thread struct {
    uint64_t state_id;      /* of the thread state that the others are of; 0 = none */
    PyObject *context;      /* its first context; only compared */
    struct traced *cell;    /* borrowed of that context */
    PyObject *entered;      /* before that is known: a context that is not it; only compared */
    uint64_t entered_id;    /* and the thread state that this was found in */
} first __attribute__((tls_model("initial-exec")));

/* ---- The place of the context --------------------------------------------------------------- */

static PyObject *context_of(PyThreadState *state)
{
    PyObject *context;
    memcpy(&context, (const char *)state + context_at, sizeof(context));
    return context;
}

/* Bit i of the result: word i of the thread state is this context while it is entered. */
static uint64_t probe_words(PyObject *context)
{
    uint64_t found = 0;
    const char *state = (const char *)PyThreadState_Get();
    if (PyContext_Enter(context)) return 0;
    for (size_t i = 0; i < PROBE_BYTES / sizeof(void *); i++) {
        PyObject *word;
        memcpy(&word, state + i * sizeof(word), sizeof(word));
        if (word == context) found |= 1ull << i;
    }
    return PyContext_Exit(context) ? 0 : found;
}

static int context_probe(void)
{
    PyObject *a = PyContext_New(), *b = PyContext_New();
    const uint64_t found = a && b ? probe_words(a) & probe_words(b) : 0;
    Py_XDECREF(a);
    Py_XDECREF(b);
    if (PyErr_Occurred()) return -1;
    if (found && !(found & (found - 1))) {
        context_found = context_at = (size_t)__builtin_ctzll(found) * sizeof(void *);
    }
    return 0;
}

/* ---- Cells ---------------------------------------------------------------------------------- */

static void cell_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static struct traced *cell_new(struct sonde_trace t)
{
    struct traced *c = PyObject_New(struct traced, cell_type);
    if (c) c->trace = t;
    else PyErr_Clear();
    return c;
}

struct traced *native_context_holder(void) { return cell_new((struct sonde_trace){ 0, 0, 0 }); }

/* A context that was not entered cannot be left. */
static int context_was_entered(PyObject *context)
{
    if (PyContext_Exit(context)) {
        PyErr_Clear();
        return 0;
    }
    return PyContext_Enter(context) == 0;
}

/* The thread is in its first context: set the variable there to a new cell, once. */
static struct traced *cell_install(PyThreadState *state, uint64_t id)
{
    struct traced *cell = cell_new(env_trace);
    PyObject *token = cell ? PyContextVar_Set(current, (PyObject *)cell) : NULL;
    Py_XDECREF((PyObject *)cell); /* the context has it */
    if (!token) {
        PyErr_Clear();
        return NULL;
    }
    Py_DECREF(token);
    first.state_id = id;
    first.context = context_of(state);
    first.cell = cell;
    return cell;
}

static struct traced *cell_find(PyThreadState *state, uint64_t id, PyObject *context)
{
    PyObject *type, *value, *trace;
    struct traced *cell = NULL;
    if (!context_at || first.state_id == id) return NULL; /* its first context is another one */
    if (context && first.entered == context && first.entered_id == id) return NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (!context || !context_was_entered(context)) {
        cell = cell_install(state, id);
    } else {
        first.entered = context;
        first.entered_id = id;
    }
    PyErr_Restore(type, value, trace);
    return cell;
}

struct traced *native_context_cell(void)
{
    PyThreadState *state = PyThreadState_Get();
    const uint64_t id = PyThreadState_GetID(state);
    PyObject *context = context_of(state);
    if (SONDE__LIKELY(first.state_id == id && first.context == context && context_at)) {
        return first.cell;
    }
    return cell_find(state, id, context);
}

/* ---- Contexts of tasks ---------------------------------------------------------------------- */

struct sonde_trace native_context_get(void)
{
    PyObject *value = NULL;
    if (PyContextVar_Get(current, NULL, &value)) PyErr_Clear();
    if (!value) {
        const int here = first.state_id == PyThreadState_GetID(PyThreadState_Get());
        return here ? native_cell_get(first.cell) : env_trace;
    }
    const struct sonde_trace t = native_cell_get((struct traced *)value);
    Py_DECREF(value);
    return t;
}

PyObject *native_context_set(struct traced *holder)
{
    PyObject *token = PyContextVar_Set(current, (PyObject *)holder);
    if (!token) PyErr_Clear();
    return token;
}

/* Fails for a token of another context: a span that is ended elsewhere, as generators are when they
 * are collected. What is current there is not its business. */
void native_context_unset(struct traced *holder, PyObject *token)
{
    PyObject *type, *value, *trace, *now = NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (PyContextVar_Get(current, NULL, &now) == 0 && now == (PyObject *)holder &&
        PyContextVar_Reset(current, token)) {
        PyErr_Clear();
    }
    Py_XDECREF(now);
    Py_DECREF(token);
    PyErr_Restore(type, value, trace);
}

PyObject *native_context_restore(PyObject *token)
{
    PyObject *type, *value, *trace, *now = NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (PyContextVar_Get(current, NULL, &now) || PyContextVar_Reset(current, token)) PyErr_Clear();
    Py_DECREF(token);
    PyErr_Restore(type, value, trace);
    return now;
}

/* ---- For programs --------------------------------------------------------------------------- */

static struct sonde_trace context_trace(void)
{
    const struct traced *cell = native_context_cell();
    return cell ? native_cell_get(cell) : native_context_get();
}

static int context_become(struct sonde_trace t)
{
    struct traced *cell = native_context_cell();
    if (cell) {
        native_cell_put(cell, t);
        return 0;
    }
    struct traced *made = cell_new(t);
    if (!made) return PyErr_NoMemory() ? 0 : -1;
    PyObject *token = PyContextVar_Set(current, (PyObject *)made);
    Py_DECREF(made);
    Py_XDECREF(token);
    return token ? 0 : -1;
}

static PyObject *context_traceparent(PyObject *module, PyObject *none)
{
    char text[SONDE_TRACEPARENT_SIZE];
    struct sonde_trace t = context_trace();
    (void)module, (void)none;
    if (!(t.hi | t.lo)) { /* what is told must stay true: the trace is begun here */
        t = sonde_trace_new();
        if (context_become(t)) return NULL;
    }
    sonde_traceparent_format(t, text);
    return PyUnicode_FromString(text);
}

static PyObject *context_set_traceparent(PyObject *module, PyObject *arg)
{
    struct sonde_trace t = { 0, 0, 0 };
    (void)module;
    if (arg != Py_None) {
        const char *text = PyUnicode_AsUTF8AndSize(arg, NULL);
        if (!text) return NULL;
        if (sonde_traceparent_parse(text, &t)) {
            return PyErr_Format(PyExc_ValueError, "not a W3C traceparent: %R", arg);
        }
    }
    if (context_become(t)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *context_trace_id(PyObject *module, PyObject *none)
{
    char text[SONDE_TRACEPARENT_SIZE];
    const struct sonde_trace t = context_trace();
    (void)module, (void)none;
    if (!(t.hi | t.lo)) Py_RETURN_NONE;
    sonde_traceparent_format(t, text);
    return PyUnicode_FromStringAndSize(text + 3, 32);
}

/* What an interpreter whose thread state cannot be read would do, for tests. */
static PyObject *context_always(PyObject *module, PyObject *on)
{
    const int is = PyObject_IsTrue(on);
    (void)module;
    if (is < 0) return NULL;
    context_at = is ? 0 : context_found;
    return PyBool_FromLong(context_found != 0);
}

PyMethodDef native_context_methods[] = {
    { "_context_always", context_always, METH_O,
      "_context_always(on): set the context variable for every span. Whether that can be "
      "avoided." },
    { "traceparent", context_traceparent, METH_NOARGS,
      "traceparent() -> str\n\nThe current trace as W3C text, for a request's header or "
      "TRACEPARENT "
      "in a child's environment. Begins a trace if there is none." },
    { "set_traceparent", context_set_traceparent, METH_O,
      "set_traceparent(text)\n\nContinue the trace of a request in this thread or task; None: have "
      "none. ValueError if the text is not a traceparent." },
    { "trace_id", context_trace_id, METH_NOARGS,
      "trace_id() -> str | None\n\nThe current trace's id, 32 hex digits." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot cell_slots[] = {
    { Py_tp_dealloc, cell_dealloc },
    { Py_tp_doc, "What a context is in. Private." },
    { 0, NULL },
};
static PyType_Spec cell_spec = {
    .name = "sonde._native._Cell",
    .basicsize = sizeof(struct traced),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = cell_slots,
};

int native_context_init(PyObject *module)
{
    cell_type = native_type(module, &cell_spec);
    if (!cell_type) return -1;
    current = PyContextVar_New("sonde", NULL);
    if (!current || context_probe()) return -1;
    /* Not sonde_trace_current: that opens the segment, which sonde.open() may still name. */
    const char *parent = secure_getenv("TRACEPARENT");
    if (parent) sonde_traceparent_parse(parent, &env_trace);
    return 0;
}
