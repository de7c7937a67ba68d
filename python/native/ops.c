/* ops.c - libsonde's ready-made metrics: bandwidth, caches, pools. */
#include "native.h"

#include <string.h>

static PyTypeObject *pool_type;

/* A new reference to a str that is UTF-8. NULL with an exception. */
static PyObject *ops_text(PyObject *o, const char *what)
{
    if (PyUnicode_Check(o)) return native_utf8(o);
    return PyErr_Format(PyExc_TypeError, "%s is a str, not %R", what, o);
}

static PyObject *ops_bandwidth(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *const words[] = { "direction", "bytes", "source", NULL };
    const char *direction;
    PyObject *bytes, *given = NULL, *source = NULL;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sO|O", (char **)words, &direction, &bytes,
                                     &given)) {
        return NULL;
    }
    const unsigned long long n = PyLong_AsUnsignedLongLong(bytes);
    if (n == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
    const int in = !strcmp(direction, "in");
    if (!in && strcmp(direction, "out")) {
        return PyErr_Format(PyExc_ValueError, "direction '%s' is not 'in' or 'out'", direction);
    }
    if (given && !(source = ops_text(given, "source"))) return NULL;
    const char *utf8 = source ? PyUnicode_AsUTF8AndSize(source, NULL) : "";
    if (in) sonde_bandwidth_in(utf8, n);
    else sonde_bandwidth_out(utf8, n);
    Py_XDECREF(source);
    Py_RETURN_NONE;
}

static PyObject *ops_cache_access(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *const words[] = { "hit", "tier", NULL };
    PyObject *given = NULL, *tier = NULL;
    int hit;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "p|O", (char **)words, &hit, &given)) {
        return NULL;
    }
    if (given && !(tier = ops_text(given, "tier"))) return NULL;
    sonde_cache_access(tier ? PyUnicode_AsUTF8AndSize(tier, NULL) : "default", hit);
    Py_XDECREF(tier);
    Py_RETURN_NONE;
}

/* ---- Pools ---------------------------------------------------------------------------------- */

struct pool {
    PyObject_HEAD
    PyObject *name;         /* str, owned */
    struct sonde_pool pool; /* 0 = recording was off */
};

static struct pool *pool_of(PyObject *o) { return (struct pool *)(void *)o; }

static void pool_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF(pool_of(self)->name);
    PyObject_Free(self);
    Py_DECREF(type);
}

static void pool_bind(struct pool *p)
{
    if (__atomic_load_n(&p->pool.off, __ATOMIC_RELAXED) || native_off()) return;
    const char *name = PyUnicode_AsUTF8AndSize(p->name, NULL);
    if (name) __atomic_store_n(&p->pool.off, sonde_pool(name).off, __ATOMIC_RELAXED);
    else PyErr_Clear();
}

static PyObject *pool_make(PyObject *module, PyObject *name)
{
    (void)module;
    PyObject *clean = ops_text(name, "a pool's name");
    struct pool *p = clean ? PyObject_New(struct pool, pool_type) : NULL;
    if (!p) {
        Py_XDECREF(clean);
        return NULL;
    }
    p->name = clean;
    p->pool.off = 0;
    pool_bind(p);
    return (PyObject *)p;
}

static PyObject *pool_add(PyObject *self, PyObject *bytes)
{
    const long long n = PyLong_AsLongLong(bytes);
    if (n == -1 && PyErr_Occurred()) return NULL;
    pool_bind(pool_of(self));
    sonde_pool_add(pool_of(self)->pool, n);
    Py_RETURN_NONE;
}

static PyObject *pool_set(PyObject *self, PyObject *bytes)
{
    const unsigned long long n = PyLong_AsUnsignedLongLong(bytes);
    if (n == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
    pool_bind(pool_of(self));
    sonde_pool_set(pool_of(self)->pool, n);
    Py_RETURN_NONE;
}

static PyObject *pool_value(PyObject *self, void *arg)
{
    (void)arg;
    return PyFloat_FromDouble(sonde_read_gauge((struct sonde_gauge){ pool_of(self)->pool.off }));
}

static PyMethodDef pool_methods[] = {
    { "add", pool_add, METH_O, "add(bytes)\n\nNegative when they are given back." },
    { "set", pool_set, METH_O, "set(bytes)" },
    { NULL, NULL, 0, NULL },
};
static PyGetSetDef pool_getset[] = {
    { "value", pool_value, NULL, "Bytes in it.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot pool_slots[] = {
    { Py_tp_dealloc, pool_dealloc },
    { Py_tp_methods, pool_methods },
    { Py_tp_getset, pool_getset },
    { Py_tp_doc, "Memory that has a name: sonde.pool()." },
    { 0, NULL },
};
static PyType_Spec pool_spec = {
    .name = "sonde.Pool",
    .basicsize = sizeof(struct pool),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = pool_slots,
};

PyMethodDef native_ops_methods[] = {
    { "bandwidth", FAST(ops_bandwidth), METH_VARARGS | METH_KEYWORDS,
      "bandwidth(direction, bytes, source='')\n\nBytes moved 'in' or 'out': "
      "sonde_bandwidth_bytes_total{direction,source}." },
    { "cache_access", FAST(ops_cache_access), METH_VARARGS | METH_KEYWORDS,
      "cache_access(hit, tier='default')\n\nsonde_cache_accesses_total{tier,result}." },
    { "pool", pool_make, METH_O,
      "pool(name) -> Pool\n\nsonde_memory_pool_bytes{pool}: memory that is of something." },
    { NULL, NULL, 0, NULL },
};

int native_ops_init(PyObject *module)
{
    pool_type = native_type(module, &pool_spec);
    return pool_type ? 0 : -1;
}
