/* live.c - one span from its begin to its end: what it is made current by, how it ended, and what
 * is counted then. */
#include "native.h"

#include <string.h>

/* ---- Begin and end -------------------------------------------------------------------------- */

static void live_start(struct live *l, const uint64_t *items)
{
    switch (l->kind) {
    case LIVE_SPAN:
    case LIVE_OPERATION: /* sonde_op_begin, but for looking up the name */
        sonde_span_begin(&l->u.span, native_name_id(l->name));
        break;
    case LIVE_RESOURCE: sonde_resource_begin(&l->u.resource, l->name->utf8); break;
    case LIVE_THROUGHPUT: sonde_throughput_begin(&l->u.throughput, l->name->utf8, items); break;
    }
}

static struct sonde_trace live_trace(const struct live *l)
{
    return (struct sonde_trace){ l->u.span.trace_hi, l->u.span.trace_lo, l->u.span.id };
}

/* In a task it takes an object to stand for it. */
static void live_enter_task(struct live *l)
{
    if (!l->holder) return;
    native_cell_put(l->holder, live_trace(l));
    l->token = native_context_set(l->holder);
}

static void live_begin_task(struct live *l, const uint64_t *items)
{
    l->outer = native_context_get();
    native_trace_load(l->outer);
    live_start(l, items);
    if (native_live_on(l)) live_enter_task(l);
}

void native_live_begin(struct live *l, struct name *name, enum live_kind kind,
                       struct traced *holder, const uint64_t *items)
{
    l->u.span.flags = 0;
    l->name = name;
    l->kind = kind;
    l->holder = holder;
    l->token = NULL;
    l->inner_value = NULL;
    l->suspended = 0;
    l->resumed = 0;
    if (native_off() || __atomic_load_n(&name->off, __ATOMIC_RELAXED)) return;
    struct traced *cell = native_context_cell();
    if (SONDE__UNLIKELY(!cell)) {
        live_begin_task(l, items);
        return;
    }
    l->outer = native_cell_get(cell);
    native_trace_load(l->outer);
    live_start(l, items);
    if (native_live_on(l)) native_cell_put(cell, live_trace(l));
}

/* Not current any more. A span that is not (its generator was left alone, or it is ended in another
 * thread or task) leaves what is. */
static void live_leave(struct live *l)
{
    if (l->suspended) {
        Py_CLEAR(l->inner_value);
        return;
    }
    if (l->token) {
        native_context_unset(l->holder, l->token);
        l->token = NULL;
        return;
    }
    struct traced *cell = native_context_cell();
    if (cell && native_cell_get(cell).span == l->u.span.id) native_cell_put(cell, l->outer);
}

/* ---- How it ended --------------------------------------------------------------------------- */

/* The name of an exception's type, cut; "Exception" if it cannot be had. */
static void live_type_name(PyObject *type, char *out, size_t size)
{
    /* Interned: every other str would take a place of its own in the cache of attributes. */
    PyObject *word = PyUnicode_InternFromString("__name__");
    PyObject *name = word ? PyObject_GetAttr(type, word) : NULL;
    Py_ssize_t len = 0;
    PyObject *clean = name && PyUnicode_Check(name) ? native_utf8(name) : NULL;
    const char *utf8 = clean ? PyUnicode_AsUTF8AndSize(clean, &len) : NULL;
    if (!utf8) {
        PyErr_Clear(); /* it would replace the exception that is being counted */
        utf8 = "Exception";
        len = (Py_ssize_t)strlen(utf8);
    }
    const size_t n = (size_t)len < size - 1 ? (size_t)len : size - 1;
    memcpy(out, utf8, n);
    out[n] = 0;
    Py_XDECREF(clean);
    Py_XDECREF(name);
    Py_XDECREF(word);
}

/* Cancellation has a type of its own in each framework, all called so. */
static enum sonde_outcome live_outcome(PyObject *type, const char *name)
{
    if (!strcmp(name, "CancelledError") || !strcmp(name, "Cancelled")) return SONDE_CANCELLED;
    if (PyErr_GivenExceptionMatches(type, PyExc_GeneratorExit)) return SONDE_CANCELLED;
    if (PyErr_GivenExceptionMatches(type, PyExc_TimeoutError)) return SONDE_TIMEOUT;
    return SONDE_ERROR;
}

static void live_count_error(const char *operation, const char *type)
{
    static const char *const labels[] = { "operation", "type", NULL };
    const struct sonde_metric metric = {
        .size = sizeof(metric),
        .name = "sonde_operation_errors_total",
        .help = "Operations that failed, by type.",
        .source = "sonde",
        .labels = labels,
        .kind = SONDE_KIND_COUNTER,
    };
    struct sonde_family f;
    const char *const values[] = { operation, type };
    if (!sonde_define(SONDE_COUNTER, &metric, &f)) {
        sonde_counter_add(sonde_counter_bind(f, values), 1);
    }
}

/* The first time libsonde defines what it records to; after that its handle is kept. */
static void live_end_operation(struct live *l)
{
    struct name *n = l->name;
    struct sonde_span *s = &l->u.span;
    const uint64_t off = __atomic_load_n(&n->ok_off, __ATOMIC_ACQUIRE);
    if (SONDE__LIKELY(off)) {
        const struct sonde_hist h = { off, n->ok_scale };
        sonde_hist_record_traced(h, sonde_ticks_ns(sonde_ticks() - s->start));
        sonde_span_end(s, SONDE_OK);
        return;
    }
    const char *const values[] = { n->utf8, "ok" };
    struct sonde_hist h;
    sonde_op_end(&l->u.op, SONDE_OK, NULL);
    if (!sonde_hist_find("sonde_operation_duration_seconds", values, &h)) {
        n->ok_scale = h.scale;
        __atomic_store_n(&n->ok_off, h.off, __ATOMIC_RELEASE);
    }
}

static void live_finish(struct live *l, enum sonde_outcome outcome, const char *error)
{
    switch (l->kind) {
    case LIVE_SPAN: sonde_span_end(&l->u.span, outcome); break;
    case LIVE_OPERATION:
        if (outcome == SONDE_OK) live_end_operation(l);
        else sonde_op_end(&l->u.op, outcome, error);
        return; /* counts errors itself */
    case LIVE_RESOURCE: sonde_resource_end_as(&l->u.resource, outcome); break;
    case LIVE_THROUGHPUT: sonde_throughput_end_as(&l->u.throughput, outcome); break;
    }
    if (outcome != SONDE_OK) live_count_error(l->name->utf8, error);
}

/* Of a span that was suspended its duration is the time it lived. */
static void live_running_attr(struct live *l)
{
    const uint64_t ticks = l->running + (l->suspended ? 0 : sonde_ticks() - l->resumed);
    sonde_span_attr_double(&l->u.span, sonde_name("running_seconds"),
                           (double)sonde_ticks_ns(ticks) * 1e-9);
}

static void live_end_failed(struct live *l, PyObject *type)
{
    char name[SONDE_NAME_MAX];
    PyObject *was, *value, *trace;
    PyErr_Fetch(&was, &value, &trace);
    live_type_name(type, name, sizeof(name));
    PyErr_Clear();
    live_finish(l, live_outcome(type, name), name);
    PyErr_Restore(was, value, trace);
}

void native_live_end(struct live *l, PyObject *type)
{
    if (!native_live_on(l)) return;
    live_leave(l);
    native_trace_load(live_trace(l));
    if (SONDE__UNLIKELY(l->resumed)) live_running_attr(l);
    if (SONDE__LIKELY(!type || type == Py_None)) live_finish(l, SONDE_OK, NULL);
    else live_end_failed(l, type);
}

/* ---- Generators ----------------------------------------------------------------------------- */

/* All that became current since it was begun or resumed is inside of it, as spans that a generator
 * has open when it yields: it is put aside as a whole. */
static void live_put_aside(struct live *l)
{
    if (l->token) {
        l->inner = native_context_get();
        l->inner_value = native_context_restore(l->token);
        l->token = NULL;
        return;
    }
    struct traced *cell = native_context_cell();
    if (!cell) return;
    l->inner = native_cell_get(cell);
    native_cell_put(cell, l->outer);
}

void native_live_suspend(struct live *l)
{
    if (!native_live_on(l) || l->suspended) return;
    if (!l->resumed) {
        l->running = 0;
        l->resumed = l->u.span.start;
    }
    l->running += sonde_ticks() - l->resumed;
    l->inner = live_trace(l);
    live_put_aside(l);
    l->suspended = 1;
}

void native_live_resume(struct live *l)
{
    if (!native_live_on(l) || !l->suspended) return;
    l->suspended = 0;
    l->resumed = sonde_ticks();
    struct traced *cell = native_context_cell();
    if (cell) {
        l->outer = native_cell_get(cell);
        native_cell_put(cell, l->inner);
    } else if (l->inner_value) {
        l->token = native_context_set((struct traced *)l->inner_value);
    } else {
        live_enter_task(l);
    }
    Py_CLEAR(l->inner_value);
}

/* ---- Attributes ----------------------------------------------------------------------------- */

static int live_attr_text(struct live *l, uint32_t key, PyObject *value)
{
    PyObject *text = PyObject_Str(value);
    PyObject *clean = text ? native_utf8(text) : NULL;
    const char *utf8 = clean ? PyUnicode_AsUTF8AndSize(clean, NULL) : NULL;
    if (utf8) sonde_span_attr_str(&l->u.span, key, utf8);
    Py_XDECREF(clean);
    Py_XDECREF(text);
    return utf8 ? 0 : -1;
}

int native_live_attr(struct live *l, PyObject *key, PyObject *value)
{
    struct name *n = native_name(key);
    if (!n) return -1;
    if (!native_live_on(l)) return 0;
    const uint32_t id = native_name_id(n);
    if (PyLong_Check(value)) {
        int overflow = 0;
        const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (!overflow) {
            sonde_span_attr_int(&l->u.span, id, number);
            return 0;
        }
    } else if (PyFloat_Check(value)) {
        sonde_span_attr_double(&l->u.span, id, PyFloat_AsDouble(value));
        return 0;
    }
    return live_attr_text(l, id, value);
}
