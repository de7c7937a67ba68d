/* read.c - what this process has recorded, read back by itself: sonde/read.h as lists of dicts. */
#include "native.h"

#include <string.h>

static const char *const type_names[] = { "", "counter", "gauge", "histogram" };
static const char *const kind_names[] = { "custom", "time", "throughput", "memory", "counter",
                                          "ratio", "percentage" };
static const char *const outcome_names[] = { "ok", "error", "cancelled", "timeout" };

static PyObject *read_text(struct sonde_read_text t)
{
    return PyUnicode_DecodeUTF8(t.text, (Py_ssize_t)t.len, "replace");
}

/* Steals value; -1 with an exception. */
static int read_put(PyObject *dict, const char *key, PyObject *value)
{
    const int rc = value ? PyDict_SetItemString(dict, key, value) : -1;
    Py_XDECREF(value);
    return rc;
}

/* ---- Series --------------------------------------------------------------------------------- */

static PyObject *read_labels(const struct sonde_read_series *s)
{
    PyObject *labels = PyDict_New();
    for (uint32_t i = 0; labels && i < s->label_count; i++) {
        PyObject *name = read_text(s->label[i]), *value = read_text(s->value[i]);
        if (!name || !value || PyDict_SetItem(labels, name, value)) Py_CLEAR(labels);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    if (labels && s->overflow && read_put(labels, "overflow", PyUnicode_FromString("true"))) {
        Py_CLEAR(labels);
    }
    return labels;
}

static int read_figures(PyObject *d, struct sonde_hist h)
{
    struct sonde_read_hist r;
    sonde_read_hist(h, &r);
    const struct { const char *key; double value; } figures[] = {
        { "sum", r.sum }, { "mean", r.mean }, { "min", r.min }, { "max", r.max },
        { "p50", r.p50 }, { "p90", r.p90 },   { "p95", r.p95 }, { "p99", r.p99 },
    };
    if (read_put(d, "count", PyLong_FromUnsignedLongLong(r.count))) return -1;
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        if (read_put(d, figures[i].key, PyFloat_FromDouble(figures[i].value))) return -1;
    }
    return 0;
}

/* A counter of nanoseconds is shown in seconds, as the agent does. */
static PyObject *read_counter(const struct sonde_read_series *s)
{
    const uint64_t n = sonde_read_counter(s->counter);
    return s->scale == 1 ? PyLong_FromUnsignedLongLong(n)
                         : PyFloat_FromDouble((double)n * s->scale);
}

static int read_value(PyObject *d, const struct sonde_read_series *s)
{
    if (s->type == SONDE_HISTOGRAM) return read_figures(d, s->hist);
    return read_put(d, "value",
                    s->type == SONDE_COUNTER ? read_counter(s)
                                             : PyFloat_FromDouble(sonde_read_gauge(s->gauge)));
}

static PyObject *read_series(const struct sonde_read_series *s)
{
    const uint32_t kind = s->kind <= SONDE_KIND_PERCENTAGE ? s->kind : SONDE_KIND_CUSTOM;
    PyObject *d = PyDict_New();
    if (!d) return NULL;
    if (read_put(d, "name", read_text(s->name)) || read_put(d, "help", read_text(s->help)) ||
        read_put(d, "type", PyUnicode_FromString(type_names[s->type])) ||
        read_put(d, "kind", PyUnicode_FromString(kind_names[kind])) ||
        read_put(d, "unit", read_text(s->unit)) || read_put(d, "source", read_text(s->source)) ||
        read_put(d, "labels", read_labels(s)) || read_value(d, s)) {
        Py_DECREF(d);
        return NULL;
    }
    return d;
}

static PyObject *read_snapshot(PyObject *module, PyObject *none)
{
    struct sonde_read_series s;
    uint32_t cursor = 0;
    PyObject *list = PyList_New(0);
    (void)module, (void)none;
    while (list && sonde_read_next(&cursor, &s)) {
        if (s.type < SONDE_COUNTER || s.type > SONDE_HISTOGRAM) continue;
        PyObject *d = read_series(&s);
        if (!d || PyList_Append(list, d)) Py_CLEAR(list);
        Py_XDECREF(d);
    }
    return list;
}

/* ---- Spans ---------------------------------------------------------------------------------- */

static PyObject *read_hex(uint64_t hi, uint64_t lo, int both)
{
    char text[40];
    if (both) PyOS_snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)hi,
                            (unsigned long long)lo);
    else PyOS_snprintf(text, sizeof(text), "%016llx", (unsigned long long)lo);
    return PyUnicode_FromString(text);
}

static PyObject *read_none(void)
{
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *read_span(const struct sonde_read_record *r, PyObject *attributes)
{
    const uint32_t outcome = r->outcome <= SONDE_TIMEOUT ? r->outcome : SONDE_ERROR;
    PyObject *d = PyDict_New();
    if (!d) return NULL;
    if (read_put(d, "name", read_text(r->name)) ||
        read_put(d, "trace_id", read_hex(r->trace_hi, r->trace_lo, 1)) ||
        read_put(d, "span_id", read_hex(0, r->span, 0)) ||
        read_put(d, "parent_id", r->parent ? read_hex(0, r->parent, 0) : read_none()) ||
        read_put(d, "start", PyFloat_FromDouble((double)r->start_ns * 1e-9)) ||
        read_put(d, "duration", PyFloat_FromDouble((double)r->duration_ns * 1e-9)) ||
        read_put(d, "outcome", PyUnicode_FromString(outcome_names[outcome])) ||
        read_put(d, "thread", PyLong_FromUnsignedLong(r->tid)) ||
        PyDict_SetItemString(d, "attributes", attributes)) {
        Py_DECREF(d);
        return NULL;
    }
    return d;
}

static PyObject *read_attr_value(const struct sonde_read_record *r)
{
    if (r->type == 1) return PyLong_FromLongLong(r->number);
    if (r->type == 2) return PyFloat_FromDouble(r->real);
    return read_text((struct sonde_read_text){ r->text, r->text_len });
}

/* The attributes of a span by its id, made on first use; borrowed. */
static PyObject *read_attrs(PyObject *by_span, uint64_t span)
{
    PyObject *id = PyLong_FromUnsignedLongLong(span);
    PyObject *attrs = id ? PyDict_GetItemWithError(by_span, id) : NULL;
    if (id && !attrs && !PyErr_Occurred()) {
        attrs = PyDict_New();
        if (attrs && PyDict_SetItem(by_span, id, attrs)) Py_CLEAR(attrs);
        else Py_XDECREF(attrs); /* by_span has it */
    }
    Py_XDECREF(id);
    return attrs;
}

/* Spans share the dict of their attributes with by_span: those that come later are in it too. */
static int read_record(const struct sonde_read_record *r, PyObject *list, PyObject *by_span)
{
    PyObject *attrs = read_attrs(by_span, r->span);
    if (!attrs) return -1;
    if (r->what == SONDE_READ_ATTR) {
        PyObject *key = read_text(r->name), *value = key ? read_attr_value(r) : NULL;
        const int rc = value ? PyDict_SetItem(attrs, key, value) : -1;
        Py_XDECREF(key);
        Py_XDECREF(value);
        return rc;
    }
    PyObject *d = read_span(r, attrs);
    PyObject *pair = d ? Py_BuildValue("(KnN)", (unsigned long long)(r->start_ns + r->duration_ns),
                                       PyList_Size(list), d)
                       : NULL;
    const int rc = pair ? PyList_Append(list, pair) : -1;
    Py_XDECREF(pair);
    return rc;
}

/* The dicts of the last `limit` of (end, number, dict), in the order in which they ended. */
static PyObject *read_latest(PyObject *pairs, Py_ssize_t limit)
{
    if (PyList_Sort(pairs)) return NULL;
    const Py_ssize_t n = PyList_Size(pairs), from = limit >= 0 && limit < n ? n - limit : 0;
    PyObject *list = PyList_New(n - from);
    for (Py_ssize_t i = from; list && i < n; i++) {
        PyObject *d = PyTuple_GetItem(PyList_GetItem(pairs, i), 2);
        Py_INCREF(d);
        PyList_SetItem(list, i - from, d);
    }
    return list;
}

static PyObject *read_spans(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *const words[] = { "limit", NULL };
    struct sonde_read_cursor cursor = { 0, 0, 0, 0 };
    struct sonde_read_record r;
    PyObject *limit = NULL, *latest = NULL;
    Py_ssize_t max = -1;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O", (char **)words, &limit)) return NULL;
    if (limit && limit != Py_None) {
        max = PyLong_AsSsize_t(limit);
        if (PyErr_Occurred()) return NULL;
        if (max < 0) return PyErr_Format(PyExc_ValueError, "limit %R is negative", limit);
    }
    PyObject *list = PyList_New(0), *by_span = PyDict_New();
    int rc = list && by_span ? 0 : -1;
    while (!rc && sonde_read_record(&cursor, &r)) rc = read_record(&r, list, by_span);
    if (!rc) latest = read_latest(list, max);
    Py_XDECREF(list);
    Py_XDECREF(by_span);
    return latest;
}

PyMethodDef native_read_methods[] = {
    { "snapshot", read_snapshot, METH_NOARGS,
      "snapshot() -> list of dict\n\nAll series of this process: name, help, type, kind, unit, "
      "source, "
      "labels, and value, or count, sum, mean, min, max, p50, p90, p95 and p99." },
    { "spans", FAST(read_spans), METH_VARARGS | METH_KEYWORDS,
      "spans(limit=None) -> list of dict\n\nSpans of this process that ended, oldest first, as "
      "far as "
      "they are still held (4,096 records a thread): name, trace_id, span_id, parent_id, start, "
      "duration, outcome, thread, attributes." },
    { NULL, NULL, 0, NULL },
};
