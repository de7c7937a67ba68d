/* native.h - what the files of the extension share. Each file is one concept:
 *
 *   module.c    the module, switches          names.c     span names and which are switched off
 *   context.c   which span is the current one live.c      one span from its begin to its end
 *   span.c      spans as context managers     decorate.c  functions that are timed
 *   metrics.c   counters, gauges, histograms  ops.c       bandwidth, caches, pools
 *   read.c      what was recorded, read back
 *
 * Rules. The stable ABI of CPython 3.11 and what every CPython since 3.8 exports beside it
 * (vectorcall, contextvars), declared below. Objects are immutable after they are made, or belong
 * to one thread, or change by atomics: nothing relies on the GIL, but for the labels of a metric
 * and the cache of names, which are dicts. There is one interpreter (module.c refuses others), so
 * types and caches are static. libsonde is compiled in and hidden; other copies in the process find
 * the same segment.
 */
#ifndef SONDE_PYTHON_NATIVE_H
#define SONDE_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <stdint.h>

#include "sonde/read.h"
#include "sonde/sonde.h"

/* ---- Exported by the interpreter, not declared by the limited API of 3.11 ------------------- */

typedef PyObject *vectorcall_fn(PyObject *self, PyObject *const *args, size_t nargs,
                                PyObject *names);
extern PyObject *PyObject_Vectorcall(PyObject *callable, PyObject *const *args, size_t nargs,
                                     PyObject *names);
extern PyObject *PyVectorcall_Call(PyObject *callable, PyObject *args, PyObject *keywords);
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1ul << 11)
#endif
#ifndef Py_TPFLAGS_METHOD_DESCRIPTOR
#define Py_TPFLAGS_METHOD_DESCRIPTOR (1ul << 17)
#endif

extern PyObject *PyContextVar_New(const char *name, PyObject *preset);
extern int PyContextVar_Get(PyObject *var, PyObject *preset, PyObject **value);
extern PyObject *PyContextVar_Set(PyObject *var, PyObject *value);
extern int PyContextVar_Reset(PyObject *var, PyObject *token);
extern PyObject *PyContext_New(void);
extern int PyContext_Enter(PyObject *context);
extern int PyContext_Exit(PyObject *context);

/* ---- module.c ------------------------------------------------------------------------------ */

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

/* Make a heap type and add it to the module. NULL with an exception. */
PyTypeObject *native_type(PyObject *module, PyType_Spec *spec);

/* Each file's part of the module: -1 with an exception. Called once a process. */
int native_names_init(PyObject *module);
int native_context_init(PyObject *module);
int native_span_init(PyObject *module);
int native_decorate_init(PyObject *module);
int native_metrics_init(PyObject *module);
int native_ops_init(PyObject *module);

extern PyMethodDef native_names_methods[], native_context_methods[], native_span_methods[],
    native_decorate_methods[], native_metrics_methods[], native_ops_methods[],
    native_read_methods[];

/* For hot calls: 1 if nothing is recorded, without looking further. */
static inline int native_off(void) { return SONDE__GATE() == SONDE__GATE_OFF; }

/* ---- names.c ------------------------------------------------------------------------------- */

struct name {               /* of spans, attributes, operations: never freed, found by its text */
    PyObject *text;         /* owned str */
    PyObject *clean;        /* owned str: native_utf8() of text */
    const char *utf8;       /* in clean */
    uint32_t id;            /* atomic; libsonde's; 0 = not known yet */
    uint32_t off;           /* atomic; 1 = switched off by a pattern */
    uint64_t ok_off;        /* atomic; histogram of this operation's outcome "ok"; 0 = not yet */
    double ok_scale;        /* written before ok_off */
    struct name *next;      /* of all */
};

/* The entry of a str. NULL with an exception: it is not one, or out of memory. */
struct name *native_name(PyObject *text);

/* text itself, a str; or where it has lone surrogates, as Python's names of files have whose bytes
 * are not UTF-8, one with '?' in their place: a record does not raise because of a value. A new
 * reference, NULL with an exception. */
PyObject *native_utf8(PyObject *text);

/* libsonde's id; 0 while recording is off or when its table is full. */
static inline uint32_t native_name_id(struct name *n)
{
    uint32_t id = __atomic_load_n(&n->id, __ATOMIC_RELAXED);
    if (SONDE__UNLIKELY(!id)) {
        id = sonde_name(n->utf8);
        __atomic_store_n(&n->id, id, __ATOMIC_RELAXED);
    }
    return id;
}

/* ---- context.c ----------------------------------------------------------------------------- */

struct traced {             /* what the context variable holds: begins Cell and Span */
    PyObject_HEAD
    struct sonde_trace trace;
};

/* The thread's own cell if nothing but this thread's plain flow of calls can come between begin and
 * end of a span; NULL: a context of a task, where the context variable has to be set. */
struct traced *native_context_cell(void);

/* What is current in the context of a task. */
struct sonde_trace native_context_get(void);

/* Make holder current, an owned token to undo that; NULL: it failed, no exception is left. */
PyObject *native_context_set(struct traced *holder);

/* Undo it, if holder is still what is current; steals the token. */
void native_context_unset(struct traced *holder, PyObject *token);

/* Undo it whatever is current; steals the token. What was current, owned, or NULL. */
PyObject *native_context_restore(PyObject *token);

/* A new cell with this trace: for functions that are timed in a task. NULL without an exception. */
struct traced *native_context_holder(void);

static inline void native_trace_load(struct sonde_trace t)
{
    sonde__tls.trace_hi = t.hi;
    sonde__tls.trace_lo = t.lo;
    sonde__tls.span = t.span;
}

/* Live cells may be read by another thread that runs in a copy of this one's context. */
static inline struct sonde_trace native_cell_get(const struct traced *c)
{
    return (struct sonde_trace){ __atomic_load_n(&c->trace.hi, __ATOMIC_RELAXED),
                                 __atomic_load_n(&c->trace.lo, __ATOMIC_RELAXED),
                                 __atomic_load_n(&c->trace.span, __ATOMIC_RELAXED) };
}

static inline void native_cell_put(struct traced *c, struct sonde_trace t)
{
    __atomic_store_n(&c->trace.hi, t.hi, __ATOMIC_RELAXED);
    __atomic_store_n(&c->trace.lo, t.lo, __ATOMIC_RELAXED);
    __atomic_store_n(&c->trace.span, t.span, __ATOMIC_RELAXED);
}

/* ---- live.c -------------------------------------------------------------------------------- */

enum live_kind { LIVE_SPAN, LIVE_OPERATION, LIVE_RESOURCE, LIVE_THROUGHPUT };

struct live {
    union {                 /* the span is the first of each */
        struct sonde_span span;
        struct sonde_op op;
        struct sonde_resource resource;
        struct sonde_throughput throughput;
    } u;
    struct sonde_trace outer;   /* current when it began, or was resumed last */
    struct name *name;
    struct traced *holder;      /* task: what stands for it in the context; borrowed */
    PyObject *token;            /* task: owned, while it is current */
    struct sonde_trace inner;   /* while suspended: what was current inside of it … */
    PyObject *inner_value;      /* … and in a task, what stood for that; owned */
    uint64_t running, resumed;  /* ticks it was current, of a span that was suspended; since when */
    enum live_kind kind;
    int suspended;              /* 1 = now; its consumer runs */
};

/* holder: the object that holds l, if it is one; else NULL. Never fails: u.span.flags is 0 if
 * nothing is recorded. */
void native_live_begin(struct live *l, struct name *name, enum live_kind kind,
                       struct traced *holder, const uint64_t *items);

/* type: the exception's, borrowed; NULL or None = it went well. An exception that is set stays. */
void native_live_end(struct live *l, PyObject *type);

/* A generator gives way to its consumer, and is asked for more. */
void native_live_suspend(struct live *l);
void native_live_resume(struct live *l);

static inline int native_live_on(const struct live *l) { return l->u.span.flags != 0; }

/* Attach a value, converted to what libsonde has. -1 with an exception: str() of it failed. */
int native_live_attr(struct live *l, PyObject *key, PyObject *value);

#endif
