/* names.c - the names of spans and attributes, and the switches by pattern.
 *
 * A name in a program is a constant: the same object each time. So a small table by address finds
 * it in two loads; a dict by text knows all. Entries live as long as the process and hold their
 * str, so an address that is found in one means that text for ever, and reading takes no lock. A
 * program that makes up names fills libsonde's table too: past NAMES_MAX they share an entry. */
#include "native.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 65536
#define CACHE_SLOTS 1024u /* a power of two */

static struct name *cache[CACHE_SLOTS]; /* atomic pointers */
static PyObject *by_text;               /* str: capsule of the entry */

/* Patterns and the chain of all names change together. Held for a few instructions that call
 * nothing of Python's. */
static uint32_t lock_word;
static struct name *all;
static char **patterns;
static size_t pattern_count;

static void names_lock(void)
{
    while (__atomic_exchange_n(&lock_word, 1, __ATOMIC_ACQUIRE)) continue;
}

static void names_unlock(void) { __atomic_store_n(&lock_word, 0, __ATOMIC_RELEASE); }

static inline struct name **name_slot(PyObject *text)
{
    const uintptr_t p = (uintptr_t)text;
    return &cache[(p >> 4 ^ p >> 14) % CACHE_SLOTS];
}

static int name_matches(const char *utf8)
{
    for (size_t i = 0; i < pattern_count; i++) {
        if (!fnmatch(patterns[i], utf8, 0)) return 1;
    }
    return 0;
}

PyObject *native_utf8(PyObject *text)
{
    Py_ssize_t n;
    if (PyUnicode_AsUTF8AndSize(text, NULL)) {
        Py_INCREF(text);
        return text;
    }
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return NULL;
    PyErr_Clear();
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace"), *clean = NULL;
    char *utf8;
    if (bytes && !PyBytes_AsStringAndSize(bytes, &utf8, &n)) {
        clean = PyUnicode_DecodeUTF8(utf8, n, "strict");
    }
    Py_XDECREF(bytes);
    if (clean && !PyUnicode_AsUTF8AndSize(clean, NULL)) Py_CLEAR(clean);
    return clean;
}

/* A new entry, chained and with its switch set; NULL with an exception. */
static struct name *name_make(PyObject *text)
{
    PyObject *clean = native_utf8(text); /* kept as long as the entry */
    if (!clean) return NULL;
    const char *utf8 = PyUnicode_AsUTF8AndSize(clean, NULL);
    struct name *n = calloc(1, sizeof(*n));
    if (!n) {
        Py_DECREF(clean);
        return (struct name *)PyErr_NoMemory();
    }
    Py_INCREF(text);
    n->text = text;
    n->clean = clean;
    n->utf8 = utf8;
    names_lock();
    n->off = (uint32_t)name_matches(utf8);
    n->next = all;
    all = n;
    names_unlock();
    return n;
}

static struct name *name_other(void)
{
    static struct name *other;
    struct name *n = __atomic_load_n(&other, __ATOMIC_ACQUIRE);
    if (n) return n;
    PyObject *text = PyUnicode_FromString("(too many names)");
    n = text ? name_make(text) : NULL;
    Py_XDECREF(text);
    if (n) __atomic_store_n(&other, n, __ATOMIC_RELEASE);
    return n;
}

/* setdefault, so that of two threads with a new name both get the same entry; the other one's stays
 * in the chain, unused. */
static struct name *name_add(PyObject *text)
{
    if (PyDict_Size(by_text) >= NAMES_MAX) return name_other();
    struct name *n = name_make(text);
    PyObject *capsule = n ? PyCapsule_New(n, "sonde.name", NULL) : NULL;
    if (!capsule) return NULL;
    PyObject *kept = PyObject_CallMethod(by_text, "setdefault", "OO", text, capsule);
    Py_DECREF(capsule);
    if (!kept) return NULL;
    n = PyCapsule_GetPointer(kept, "sonde.name");
    Py_DECREF(kept); /* by_text has it */
    return n;
}

static struct name *name_find(PyObject *text)
{
    if (!PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "a name is a str, not %R", text);
        return NULL;
    }
    PyObject *capsule = PyDict_GetItemWithError(by_text, text);
    if (!capsule && PyErr_Occurred()) return NULL;
    struct name *n = capsule ? PyCapsule_GetPointer(capsule, "sonde.name") : name_add(text);
    if (n && n->text == text) __atomic_store_n(name_slot(text), n, __ATOMIC_RELEASE);
    return n;
}

struct name *native_name(PyObject *text)
{
    struct name *n = __atomic_load_n(name_slot(text), __ATOMIC_ACQUIRE);
    return SONDE__LIKELY(n && n->text == text) ? n : name_find(text);
}

/* ---- Switches ------------------------------------------------------------------------------ */

static void patterns_free(char **list, size_t count)
{
    for (size_t i = 0; i < count; i++) free(list[i]);
    free(list);
}

static void patterns_swap(char ***list, size_t *count)
{
    char **const before = patterns;
    const size_t before_count = pattern_count;
    names_lock();
    patterns = *list;
    pattern_count = *count;
    for (struct name *n = all; n; n = n->next) {
        __atomic_store_n(&n->off, (uint32_t)name_matches(n->utf8), __ATOMIC_RELAXED);
    }
    names_unlock();
    *list = before;
    *count = before_count;
}

static PyObject *names_switch_off(PyObject *module, PyObject *tuple)
{
    (void)module;
    if (!PyTuple_Check(tuple)) return PyErr_Format(PyExc_TypeError, "a tuple of str is expected");
    size_t count = (size_t)PyTuple_Size(tuple);
    char **list = calloc(count + 1, sizeof(*list));
    if (!list) return PyErr_NoMemory();
    for (size_t i = 0; i < count; i++) {
        const char *utf8 =
            PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, (Py_ssize_t)i), NULL);
        list[i] = utf8 ? strdup(utf8) : NULL;
        if (!list[i]) {
            patterns_free(list, count);
            return utf8 ? PyErr_NoMemory() : NULL;
        }
    }
    patterns_swap(&list, &count);
    patterns_free(list, count);
    Py_RETURN_NONE;
}

/* The child of a fork has no other thread that could give the lock back. */
static void names_in_child(void) { names_unlock(); }

__attribute__((constructor)) static void names_load(void)
{
    pthread_atfork(NULL, NULL, names_in_child);
}

int native_names_init(PyObject *module)
{
    (void)module;
    by_text = PyDict_New();
    return by_text ? 0 : -1;
}

PyMethodDef native_names_methods[] = {
    { "_switch_off", names_switch_off, METH_O,
      "_switch_off(patterns): names that match one of these are not recorded." },
    { NULL, NULL, 0, NULL },
};
