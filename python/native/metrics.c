/* metrics.c - counters, gauges and histograms.
 *
 * One struct for the three types. It keeps what it was defined with beside the handle, since a
 * metric may be defined while recording is off: then its handle is the sink's, and the first record
 * after it was switched on defines it. Values that cannot be recorded (a negative or NaN in a
 * histogram) never raise: a loss that turned to NaN must not end the training that it is reported
 * from. They are counted, in sonde_python_values_dropped_total{metric}. */
#include "native.h"

#include <stddef.h>
#include <string.h>

#define CHILDREN_MAX 16384 /* label sets kept as objects; more are made anew each time */

struct metric {
    PyObject_HEAD
    uint64_t off;           /* atomic; the handle's; 0 = not defined (yet), or labels are missing */
    double scale;           /* written before off */
    double per_unit;        /* recorded integers in one of the unit: 1 / scale */
    enum sonde_type type;
    uint32_t kind;
    uint32_t series_max;
    PyObject *name, *help, *unit, *source; /* str, owned */
    PyObject *labels;       /* tuple of str, owned */
    PyObject *tags;         /* tuple of str: name, value, …; owned */
    PyObject *values;       /* tuple of str; NULL = a family whose labels have no values yet */
    PyObject *children;     /* of such a family: dict of values: metric */
};

static PyTypeObject *types[4]; /* by enum sonde_type */
static PyTypeObject *timer_type;

static struct metric *metric_of(PyObject *o) { return (struct metric *)(void *)o; }

static void metric_dealloc(PyObject *self)
{
    struct metric *m = metric_of(self);
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(m->name);
    Py_XDECREF(m->help);
    Py_XDECREF(m->unit);
    Py_XDECREF(m->source);
    Py_XDECREF(m->labels);
    Py_XDECREF(m->tags);
    Py_XDECREF(m->values);
    Py_XDECREF(m->children);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- Defining ------------------------------------------------------------------------------- */

/* Pointers to the texts of a tuple of str, NULL-terminated; they live as long as it. */
static int metric_texts(PyObject *tuple, const char **out, Py_ssize_t max)
{
    const Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;
    if (n > max) {
        PyErr_Format(PyExc_ValueError, "%zd labels: there may be %d", n, SONDE_LABELS_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, i), NULL);
        if (!out[i]) return -1;
    }
    out[n] = NULL;
    return 0;
}

static int metric_fail(const struct metric *m, int rc)
{
    if (rc == SONDE_EINVAL) {
        PyErr_Format(PyExc_ValueError,
                     "metric %R with labels %R: names are [a-zA-Z_][a-zA-Z0-9_]*, at most 128 "
                     "characters, labels all different and not le, quantile, process or pid",
                     m->name, m->labels);
    } else {
        PyErr_Format(PyExc_ValueError, "metric %R is %s", m->name, sonde_strerror(rc));
    }
    return -1;
}

static uint64_t metric_handle(const struct metric *m, struct sonde_family f,
                              const char *const *values, double *scale)
{
    if (m->type == SONDE_COUNTER) return sonde_counter_bind(f, values).off;
    if (m->type == SONDE_GAUGE) return sonde_gauge_bind(f, values).off;
    const struct sonde_hist h = sonde_hist_bind(f, values);
    *scale = h.scale;
    return h.off;
}

/* Define, and bind if the label values are known. -1 with an exception: the program is wrong. While
 * recording is off, or without room, it is 0 and the handle stays the sink's. */
static int metric_define(struct metric *m)
{
    const char *labels[SONDE_LABELS_MAX + 1], *tags[SONDE_LABELS_MAX + 1];
    const char *values[SONDE_LABELS_MAX + 1];
    struct sonde_family f;
    struct sonde_metric d = { .size = sizeof(d), .labels = labels, .tags = tags,
                              .scale = m->scale, .kind = m->kind, .series_max = m->series_max };
    d.name = PyUnicode_AsUTF8AndSize(m->name, NULL);
    d.help = PyUnicode_AsUTF8AndSize(m->help, NULL);
    d.unit = PyUnicode_AsUTF8AndSize(m->unit, NULL);
    d.source = PyUnicode_AsUTF8AndSize(m->source, NULL);
    if (!d.name || !d.help || !d.unit || !d.source ||
        metric_texts(m->labels, labels, SONDE_LABELS_MAX) ||
        metric_texts(m->tags, tags, SONDE_LABELS_MAX) ||
        metric_texts(m->values, values, SONDE_LABELS_MAX)) {
        return -1;
    }
    const int rc = sonde_define(m->type, &d, &f);
    if (rc == SONDE_EINVAL || rc == SONDE_EEXIST) return metric_fail(m, rc);
    if (rc || !m->values) return 0;
    double scale = m->scale;
    const uint64_t off = metric_handle(m, f, values, &scale);
    __atomic_store_n(&m->off, off, __ATOMIC_RELEASE);
    return 0;
}

static struct metric *metric_new(enum sonde_type type)
{
    struct metric *m = PyObject_New(struct metric, types[type]);
    if (!m) return NULL;
    memset((char *)m + offsetof(struct metric, off), 0, sizeof(*m) - offsetof(struct metric, off));
    m->type = type;
    m->scale = m->per_unit = 1;
    return m;
}

/* labels as a tuple of str: a str alone would be taken for its letters. */
static PyObject *metric_tuple(PyObject *labels, const char *what)
{
    if (!labels) return PyTuple_New(0);
    PyObject *tuple = PyUnicode_Check(labels) ? NULL : PySequence_Tuple(labels);
    const Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyUnicode_Check(PyTuple_GetItem(tuple, i))) continue;
        Py_CLEAR(tuple);
        break;
    }
    if (!tuple) PyErr_Format(PyExc_TypeError, "%s is a tuple of str, not %R", what, labels);
    return tuple;
}

static PyObject *metric_str(PyObject *text, const char *what)
{
    if (!text || text == Py_None) return PyUnicode_FromString("");
    if (!PyUnicode_Check(text)) {
        return PyErr_Format(PyExc_TypeError, "%s is a str, not %R", what, text);
    }
    Py_INCREF(text);
    return text;
}

/* constant={"name": "value"} as libsonde has it. */
static PyObject *metric_tags(PyObject *constant)
{
    if (!constant || constant == Py_None) return PyTuple_New(0);
    PyObject *items = PyMapping_Items(constant), *list = items ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; list && i < PyList_Size(items); i++) {
        PyObject *pair = PySequence_Tuple(PyList_GetItem(items, i));
        PyObject *value = pair ? PyObject_Str(PyTuple_GetItem(pair, 1)) : NULL;
        if (!value || PyList_Append(list, PyTuple_GetItem(pair, 0)) ||
            PyList_Append(list, value)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(value);
        Py_XDECREF(pair);
    }
    Py_XDECREF(items);
    PyObject *tuple = list ? metric_tuple(list, "constant") : NULL;
    Py_XDECREF(list);
    return tuple;
}

/* What is recorded is a whole number of these. */
static double metric_scale(enum sonde_type type, PyObject *unit)
{
    if (type != SONDE_HISTOGRAM) return 1;
    const char *text = PyUnicode_AsUTF8AndSize(unit, NULL);
    if (!text || !strcmp(text, "bytes") || !strcmp(text, "items") || !strcmp(text, "tokens")) {
        return 1;
    }
    return !strcmp(text, "seconds") || !strcmp(text, "ratio") ? 1e-9 : 1e-6;
}

static uint32_t metric_kind(enum sonde_type type, PyObject *unit)
{
    const char *text = PyUnicode_AsUTF8AndSize(unit, NULL);
    if (type == SONDE_COUNTER) return SONDE_KIND_COUNTER;
    if (text && !strcmp(text, "seconds")) return SONDE_KIND_TIME;
    if (text && !strcmp(text, "bytes")) return SONDE_KIND_MEMORY;
    if (text && !strcmp(text, "ratio")) return SONDE_KIND_RATIO;
    return SONDE_KIND_CUSTOM;
}

static int metric_numbers(struct metric *m, PyObject *kind, PyObject *scale)
{
    m->kind = metric_kind(m->type, m->unit);
    m->scale = metric_scale(m->type, m->unit);
    if (kind && kind != Py_None) {
        const long k = PyLong_AsLong(kind);
        if (k == -1 && PyErr_Occurred()) return -1;
        if (k < 0 || k > SONDE_KIND_PERCENTAGE) {
            PyErr_Format(PyExc_ValueError, "kind %R is not of sonde.Kind", kind);
            return -1;
        }
        m->kind = (uint32_t)k;
    }
    if (scale && scale != Py_None) {
        m->scale = PyFloat_AsDouble(scale);
        if (PyErr_Occurred()) return -1;
        if (!(m->scale > 0 && m->scale < 1e300)) {
            PyErr_Format(PyExc_ValueError, "scale %R: it is a finite number above 0", scale);
            return -1;
        }
    }
    m->per_unit = 1 / m->scale;
    return 0;
}

static PyObject *metric_make(enum sonde_type type, PyObject *args, PyObject *keywords)
{
    static char *const words[] = { "name",   "help", "labels", "unit",     "source",
                                   "kind",   "scale", "constant", "series_max", NULL };
    PyObject *name, *help = NULL, *labels = NULL, *unit = NULL, *source = NULL, *kind = NULL;
    PyObject *scale = NULL, *constant = NULL;
    unsigned series_max = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "U|OOO$OOOOI", (char **)words, &name, &help,
                                     &labels, &unit, &source, &kind, &scale, &constant,
                                     &series_max)) {
        return NULL;
    }
    struct metric *m = metric_new(type);
    if (!m) return NULL;
    Py_INCREF(name);
    m->name = name;
    m->series_max = series_max;
    m->help = metric_str(help, "help");
    m->unit = type == SONDE_HISTOGRAM && !unit ? PyUnicode_FromString("seconds")
                                               : metric_str(unit, "unit");
    m->source = metric_str(source, "source");
    m->labels = metric_tuple(labels == Py_None ? NULL : labels, "labels");
    m->tags = metric_tags(constant);
    if (m->labels && PyTuple_Size(m->labels)) m->children = PyDict_New();
    else m->values = PyTuple_New(0);
    if (!m->help || !m->unit || !m->source || !m->labels || !m->tags ||
        (!m->children && !m->values) || metric_numbers(m, kind, scale) || metric_define(m)) {
        Py_DECREF(m);
        return NULL;
    }
    return (PyObject *)m;
}

static PyObject *metric_counter(PyObject *module, PyObject *args, PyObject *keywords)
{
    (void)module;
    return metric_make(SONDE_COUNTER, args, keywords);
}

static PyObject *metric_gauge(PyObject *module, PyObject *args, PyObject *keywords)
{
    (void)module;
    return metric_make(SONDE_GAUGE, args, keywords);
}

static PyObject *metric_histogram(PyObject *module, PyObject *args, PyObject *keywords)
{
    (void)module;
    return metric_make(SONDE_HISTOGRAM, args, keywords);
}

/* ---- Labels --------------------------------------------------------------------------------- */

static PyObject *metric_child(struct metric *parent, PyObject *values)
{
    struct metric *m = metric_new(parent->type);
    if (!m) return NULL;
    m->name = parent->name, m->help = parent->help, m->unit = parent->unit;
    m->source = parent->source, m->labels = parent->labels, m->tags = parent->tags;
    m->values = values;
    PyObject *const shared[] = { m->name, m->help, m->unit, m->source, m->labels, m->tags,
                                 m->values };
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) Py_INCREF(shared[i]);
    m->kind = parent->kind;
    m->series_max = parent->series_max;
    m->scale = parent->scale;
    m->per_unit = parent->per_unit;
    if (metric_define(m)) {
        Py_DECREF(m);
        return NULL;
    }
    return (PyObject *)m;
}

/* The value of label i: by position, or by keyword; borrowed, NULL with an exception. */
static PyObject *metric_label(const struct metric *m, Py_ssize_t i, PyObject *const *args,
                              Py_ssize_t nargs, PyObject *names)
{
    if (!names || i < nargs) return args[i];
    PyObject *label = PyTuple_GetItem(m->labels, i);
    const Py_ssize_t n = PyTuple_Size(names);
    for (Py_ssize_t k = 0; k < n; k++) {
        const int same = PyUnicode_Compare(PyTuple_GetItem(names, k), label);
        if (same == 0) return args[nargs + k];
    }
    PyErr_Format(PyExc_ValueError, "metric %R: label %R has no value", m->name, label);
    return NULL;
}

static PyObject *metric_values(const struct metric *m, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *names)
{
    const Py_ssize_t n = PyTuple_Size(m->labels);
    const Py_ssize_t given = nargs + (names ? PyTuple_Size(names) : 0);
    if (given != n) {
        return PyErr_Format(PyExc_ValueError, "metric %R has labels %R: %zd values were given",
                            m->name, m->labels, given);
    }
    PyObject *values = PyTuple_New(n);
    for (Py_ssize_t i = 0; values && i < n; i++) {
        PyObject *value = metric_label(m, i, args, nargs, names);
        PyObject *text = value ? PyObject_Str(value) : NULL;
        if (!text) Py_CLEAR(values);
        else PyTuple_SetItem(values, i, text);
    }
    return values;
}

/* Of a metric that is met for the first time: see native_utf8(). */
static PyObject *metric_child_clean(struct metric *m, PyObject *values)
{
    const Py_ssize_t n = PyTuple_Size(values);
    PyObject *clean = PyTuple_New(n), *child = NULL;
    for (Py_ssize_t i = 0; clean && i < n; i++) {
        PyObject *text = native_utf8(PyTuple_GetItem(values, i));
        if (!text) Py_CLEAR(clean);
        else PyTuple_SetItem(clean, i, text);
    }
    if (clean) child = metric_child(m, clean);
    Py_XDECREF(clean);
    return child;
}

static PyObject *metric_labels(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *names)
{
    struct metric *m = metric_of(self);
    if (m->values) {
        return PyErr_Format(PyExc_ValueError, "metric %R has %s", m->name,
                            PyTuple_Size(m->labels) ? "its label values" : "no labels");
    }
    PyObject *values = metric_values(m, args, nargs, names);
    if (!values) return NULL;
    PyObject *child = PyDict_GetItemWithError(m->children, values);
    Py_XINCREF(child);
    if (!child && !PyErr_Occurred()) {
        child = metric_child_clean(m, values);
        if (child && PyDict_Size(m->children) < CHILDREN_MAX &&
            PyDict_SetItem(m->children, values, child)) {
            Py_CLEAR(child);
        }
    }
    Py_DECREF(values);
    return child;
}

/* ---- Recording ------------------------------------------------------------------------------ */

/* The handle is the sink's: recording is or was off, or label values are missing. */
static int metric_late(struct metric *m)
{
    if (!m->values) {
        PyErr_Format(PyExc_ValueError, "metric %R has labels %R: record by .labels(...)", m->name,
                     m->labels);
        return -1;
    }
    return native_off() ? 0 : metric_define(m);
}

static inline int metric_ready(struct metric *m)
{
    return SONDE__LIKELY(__atomic_load_n(&m->off, __ATOMIC_ACQUIRE) != 0) || !metric_late(m);
}

static int metric_drop(const struct metric *m)
{
    static const char *const labels[] = { "metric", NULL };
    const struct sonde_metric d = {
        .size = sizeof(d),
        .name = "sonde_python_values_dropped_total",
        .help = "Values that a histogram cannot hold: negative, infinite or not a number.",
        .source = "sonde",
        .labels = labels,
        .kind = SONDE_KIND_COUNTER,
    };
    struct sonde_family f;
    const char *name = PyUnicode_AsUTF8AndSize(m->name, NULL);
    if (!name) return -1;
    if (!sonde_define(SONDE_COUNTER, &d, &f)) sonde_counter_add(sonde_counter_bind(f, &name), 1);
    return 0;
}

static PyObject *counter_refuse(const struct metric *m, PyObject *value)
{
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        return PyErr_Format(PyExc_ValueError, "counter %R: %R is not from 0 to 2**64 - 1", m->name,
                            value);
    }
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        return PyErr_Format(PyExc_TypeError, "counter %R counts whole numbers: %R is not an int",
                            m->name, value);
    }
    return NULL;
}

static PyObject *counter_add(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    struct metric *m = metric_of(self);
    unsigned long long n = 1;
    if (SONDE__LIKELY(nargs == 1)) {
        n = PyLong_AsUnsignedLongLong(args[0]);
        if (SONDE__UNLIKELY(n == (unsigned long long)-1) && PyErr_Occurred()) {
            PyObject *index = PyErr_ExceptionMatches(PyExc_TypeError) ? NULL : args[0];
            if (!index) { /* a number of numpy's */
                PyErr_Clear();
                index = PyNumber_Index(args[0]);
                if (index) {
                    n = PyLong_AsUnsignedLongLong(index);
                    Py_DECREF(index);
                }
            }
            if (PyErr_Occurred()) return counter_refuse(m, args[0]);
        }
    } else if (nargs) {
        return PyErr_Format(PyExc_TypeError, "add() takes a number");
    }
    if (!metric_ready(m)) return NULL;
    sonde_counter_add((struct sonde_counter){ m->off }, n);
    Py_RETURN_NONE;
}

static PyObject *counter_inc(PyObject *self, PyObject *none)
{
    struct metric *m = metric_of(self);
    (void)none;
    if (!metric_ready(m)) return NULL;
    sonde_counter_add((struct sonde_counter){ m->off }, 1);
    Py_RETURN_NONE;
}

static PyObject *gauge_set(PyObject *self, PyObject *value)
{
    struct metric *m = metric_of(self);
    const double v = PyFloat_AsDouble(value);
    if (SONDE__UNLIKELY(v == -1) && PyErr_Occurred()) return NULL;
    if (!metric_ready(m)) return NULL;
    sonde_gauge_set((struct sonde_gauge){ m->off }, v);
    Py_RETURN_NONE;
}

static PyObject *gauge_add(PyObject *self, PyObject *value)
{
    struct metric *m = metric_of(self);
    const double v = PyFloat_AsDouble(value);
    if (SONDE__UNLIKELY(v == -1) && PyErr_Occurred()) return NULL;
    if (!metric_ready(m)) return NULL;
    sonde_gauge_add((struct sonde_gauge){ m->off }, v);
    Py_RETURN_NONE;
}

/* v in the exported unit. */
static int histogram_put(struct metric *m, double v)
{
    const double raw = v * m->per_unit + 0.5;
    if (!metric_ready(m)) return -1;
    if (SONDE__UNLIKELY(!(v >= 0 && raw < 9.2e18))) return native_off() ? 0 : metric_drop(m);
    sonde_hist_record((struct sonde_hist){ m->off, m->scale }, (uint64_t)raw);
    return 0;
}

static PyObject *histogram_record(PyObject *self, PyObject *value)
{
    const double v = PyFloat_AsDouble(value);
    if (SONDE__UNLIKELY(v == -1) && PyErr_Occurred()) return NULL;
    if (histogram_put(metric_of(self), v)) return NULL;
    Py_RETURN_NONE;
}

/* ---- Reading -------------------------------------------------------------------------------- */

static PyObject *counter_value(PyObject *self, void *arg)
{
    const struct sonde_counter c = { __atomic_load_n(&metric_of(self)->off, __ATOMIC_ACQUIRE) };
    (void)arg;
    return PyLong_FromUnsignedLongLong(sonde_read_counter(c));
}

static PyObject *gauge_value(PyObject *self, void *arg)
{
    const struct sonde_gauge g = { __atomic_load_n(&metric_of(self)->off, __ATOMIC_ACQUIRE) };
    (void)arg;
    return PyFloat_FromDouble(sonde_read_gauge(g));
}

static PyObject *histogram_stats(PyObject *self, PyObject *none)
{
    const struct metric *m = metric_of(self);
    const struct sonde_hist h = { __atomic_load_n(&m->off, __ATOMIC_ACQUIRE), m->scale };
    struct sonde_read_hist r;
    (void)none;
    sonde_read_hist(h, &r);
    return Py_BuildValue("{s:K,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d}", "count",
                         (unsigned long long)r.count, "sum", r.sum, "mean", r.mean, "min", r.min,
                         "max", r.max, "p50", r.p50, "p90", r.p90, "p95", r.p95, "p99", r.p99);
}

static PyObject *histogram_quantile(PyObject *self, PyObject *q)
{
    const struct metric *m = metric_of(self);
    const struct sonde_hist h = { __atomic_load_n(&m->off, __ATOMIC_ACQUIRE), m->scale };
    const double share = PyFloat_AsDouble(q);
    if (PyErr_Occurred()) return NULL;
    return PyFloat_FromDouble(sonde_read_quantile(h, share));
}

/* Defined again wherever it is unpickled. */
static PyObject *metric_reduce(PyObject *self, PyObject *none)
{
    static const char *const makers[] = { "", "counter", "gauge", "histogram" };
    const struct metric *m = metric_of(self);
    (void)none;
    PyObject *module = PyImport_ImportModule("sonde._pickled");
    PyObject *maker = module ? PyObject_GetAttrString(module, "metric") : NULL;
    Py_XDECREF(module);
    if (!maker) return NULL;
    return Py_BuildValue("N(sOOOOOOIdIO)", maker, makers[m->type], m->name, m->help, m->labels,
                         m->unit, m->source, m->tags, (unsigned)m->kind, m->scale,
                         (unsigned)m->series_max, m->values ? m->values : Py_None);
}

static PyObject *metric_repr(PyObject *self)
{
    static const char *const words[] = { "", "Counter", "Gauge", "Histogram" };
    const struct metric *m = metric_of(self);
    return PyUnicode_FromFormat("<sonde.%s %U %R %R>", words[m->type], m->name, m->labels,
                                m->values ? m->values : Py_None);
}

static PyObject *metric_name(PyObject *self, void *arg)
{
    (void)arg;
    Py_INCREF(metric_of(self)->name);
    return metric_of(self)->name;
}

/* ---- Timing a block ------------------------------------------------------------------------- */

struct timer {
    PyObject_HEAD
    struct metric *histogram;   /* owned */
    uint64_t start;             /* ticks; 0 = not running */
};

static struct timer *timer_of(PyObject *o) { return (struct timer *)(void *)o; }

static void timer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF(timer_of(self)->histogram);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *histogram_time(PyObject *self, PyObject *none)
{
    struct timer *t = PyObject_New(struct timer, timer_type);
    (void)none;
    if (!t) return NULL;
    Py_INCREF(self);
    t->histogram = metric_of(self);
    t->start = 0;
    return (PyObject *)t;
}

static PyObject *timer_enter(PyObject *self, PyObject *none)
{
    (void)none;
    timer_of(self)->start = sonde_ticks();
    Py_INCREF(self);
    return self;
}

static PyObject *timer_exit(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    struct timer *t = timer_of(self);
    (void)args, (void)nargs;
    if (t->start) {
        const uint64_t ns = sonde_ticks_ns(sonde_ticks() - t->start);
        t->start = 0;
        if (histogram_put(t->histogram, (double)ns * 1e-9)) return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef timer_methods[] = {
    { "__enter__", timer_enter, METH_NOARGS, NULL },
    { "__exit__", FAST(timer_exit), METH_FASTCALL, NULL },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot timer_slots[] = {
    { Py_tp_dealloc, timer_dealloc },
    { Py_tp_methods, timer_methods },
    { Py_tp_doc, "Records the seconds of a block in a histogram." },
    { 0, NULL },
};
static PyType_Spec timer_spec = {
    .name = "sonde.HistogramTimer",
    .basicsize = sizeof(struct timer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = timer_slots,
};

/* ---- Types ---------------------------------------------------------------------------------- */

#define COMMON_METHODS                                                                             \
    { "labels", FAST(metric_labels), METH_FASTCALL | METH_KEYWORDS,                                \
      "labels(*values, **values)\n\nThe metric with these label values, in order or by name. Keep "\
      "it where you can: finding it takes longer than recording." },                               \
    { "__reduce__", metric_reduce, METH_NOARGS, NULL }, { NULL, NULL, 0, NULL }

static PyMethodDef counter_methods[] = {
    { "add", FAST(counter_add), METH_FASTCALL, "add(n=1)\n\nn is an int that is not negative." },
    { "inc", counter_inc, METH_NOARGS, "inc()\n\nThe same as add(1)." },
    COMMON_METHODS,
};
static PyMethodDef gauge_methods[] = {
    { "set", gauge_set, METH_O, "set(value)" },
    { "add", gauge_add, METH_O, "add(delta)\n\nAlso from several threads." },
    COMMON_METHODS,
};
static PyMethodDef histogram_methods[] = {
    { "record", histogram_record, METH_O,
      "record(value)\n\nIn the histogram's unit. A negative value, or one that is not finite, "
      "is not "
      "recorded but counted in sonde_python_values_dropped_total{metric}." },
    { "time", histogram_time, METH_NOARGS,
      "time()\n\nA context manager that records the seconds of its block." },
    { "stats", histogram_stats, METH_NOARGS,
      "stats() -> dict\n\ncount, sum, mean (exact), min, max, p50, p90, p95, p99 (to 0.54 %) of "
      "what "
      "this process recorded; NaN of nothing." },
    { "quantile", histogram_quantile, METH_O, "quantile(q) -> float\n\nq from 0 to 1." },
    COMMON_METHODS,
};
static PyGetSetDef counter_getset[] = {
    { "value", counter_value, NULL, "What this process counted.", NULL },
    { "name", metric_name, NULL, "Its name.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyGetSetDef gauge_getset[] = {
    { "value", gauge_value, NULL, "Its value in this process.", NULL },
    { "name", metric_name, NULL, "Its name.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyGetSetDef histogram_getset[] = {
    { "name", metric_name, NULL, "Its name.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

#define METRIC_TYPE(type, word, text)                                                              \
    static PyType_Slot type##_slots[] = {                                                          \
        { Py_tp_dealloc, metric_dealloc },   { Py_tp_repr, metric_repr },                          \
        { Py_tp_methods, type##_methods },   { Py_tp_getset, type##_getset },                      \
        { Py_tp_doc, text },                 { 0, NULL },                                          \
    };                                                                                             \
    static PyType_Spec type##_spec = {                                                             \
        .name = "sonde." word,                                                                     \
        .basicsize = sizeof(struct metric),                                                        \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,                           \
        .slots = type##_slots,                                                                     \
    }
METRIC_TYPE(counter, "Counter", "Counts up: sonde.counter().");
METRIC_TYPE(gauge, "Gauge", "A value that goes up and down: sonde.gauge().");
METRIC_TYPE(histogram, "Histogram", "How values are distributed: sonde.histogram().");

#define METRIC_ARGS                                                                                \
    "(name, help='', labels=(), unit='', *, source='', kind=None, scale=None, constant=None, "     \
    "series_max=0)"
#define METRIC_DOC                                                                                 \
    "\n\nDefine, or find again by name. ValueError: a bad name, or it is taken by another type or "\
    "other labels. constant: labels that have the same value in all of its series."

PyMethodDef native_metrics_methods[] = {
    { "counter", FAST(metric_counter), METH_VARARGS | METH_KEYWORDS,
      "counter" METRIC_ARGS " -> Counter" METRIC_DOC },
    { "gauge", FAST(metric_gauge), METH_VARARGS | METH_KEYWORDS,
      "gauge" METRIC_ARGS " -> Gauge" METRIC_DOC },
    { "histogram", FAST(metric_histogram), METH_VARARGS | METH_KEYWORDS,
      "histogram(name, help='', labels=(), unit='seconds', …) -> Histogram" METRIC_DOC
      " scale: values are kept as multiples of it; 1e-9 for seconds and ratios, 1 for bytes, items "
      "and tokens, else 1e-6." },
    { NULL, NULL, 0, NULL },
};

int native_metrics_init(PyObject *module)
{
    types[SONDE_COUNTER] = native_type(module, &counter_spec);
    types[SONDE_GAUGE] = native_type(module, &gauge_spec);
    types[SONDE_HISTOGRAM] = native_type(module, &histogram_spec);
    timer_type = native_type(module, &timer_spec);
    return types[SONDE_COUNTER] && types[SONDE_GAUGE] && types[SONDE_HISTOGRAM] && timer_type ? 0
                                                                                              : -1;
}
