/* new.c - operator new and delete of C++.
 *
 * The C++ library's call malloc and free, which are ours: they are jumped to, and that is all. But
 * allocators bring operators of their own that know a shorter way (jemalloc only for some). Those
 * are recorded here. And a C program may load C++ code privately: that finds our operators first,
 * and there are none behind them. They work as the C++ library's do then.
 *
 * All take their arguments in registers: passing on more than there are does no harm, so that three
 * words will do for all forms. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "preload/heap/entry.h"

/* id, name, whether the second argument is the alignment, whether it may not throw. */
#define NEWS(X)                                                                                \
    X(one, _Znwm, 0, 0)                                                                        \
    X(many, _Znam, 0, 0)                                                                       \
    X(one_quiet, _ZnwmRKSt9nothrow_t, 0, 1)                                                    \
    X(many_quiet, _ZnamRKSt9nothrow_t, 0, 1)                                                   \
    X(one_aligned, _ZnwmSt11align_val_t, 1, 0)                                                 \
    X(many_aligned, _ZnamSt11align_val_t, 1, 0)                                                \
    X(one_aligned_quiet, _ZnwmSt11align_val_tRKSt9nothrow_t, 1, 1)                             \
    X(many_aligned_quiet, _ZnamSt11align_val_tRKSt9nothrow_t, 1, 1)

#define DELETES(X)                                                                             \
    X(one, _ZdlPv)                                                                             \
    X(many, _ZdaPv)                                                                            \
    X(one_sized, _ZdlPvm)                                                                      \
    X(many_sized, _ZdaPvm)                                                                     \
    X(one_quiet, _ZdlPvRKSt9nothrow_t)                                                         \
    X(many_quiet, _ZdaPvRKSt9nothrow_t)                                                        \
    X(one_aligned, _ZdlPvSt11align_val_t)                                                      \
    X(many_aligned, _ZdaPvSt11align_val_t)                                                     \
    X(one_sized_aligned, _ZdlPvmSt11align_val_t)                                               \
    X(many_sized_aligned, _ZdaPvmSt11align_val_t)                                              \
    X(one_aligned_quiet, _ZdlPvSt11align_val_tRKSt9nothrow_t)                                  \
    X(many_aligned_quiet, _ZdaPvSt11align_val_tRKSt9nothrow_t)

typedef void *new_fn(size_t n, size_t b, size_t c);
typedef void delete_fn(void *p, size_t b, size_t c);

enum {
#define X(id, ...) NEW_##id,
    NEWS(X)
#undef X
    NEW_COUNT
};
enum {
#define X(id, ...) DELETE_##id,
    DELETES(X)
#undef X
    DELETE_COUNT
};

static new_fn *next_new[NEW_COUNT];         /* behind us */
static delete_fn *next_delete[DELETE_COUNT];

/* What ours jump to: the first time, to functions that find out. */
#define X(id, ...) static new_fn first_new_##id;
NEWS(X)
#undef X
#define X(id, ...) static delete_fn first_delete_##id;
DELETES(X)
#undef X
static new_fn *direct_new[] = {
#define X(id, ...) first_new_##id,
    NEWS(X)
#undef X
};
static delete_fn *direct_delete[] = {
#define X(id, ...) first_delete_##id,
    DELETES(X)
#undef X
};

/* ---- Where there are none behind us ---------------------------------------------------------- */

/* Whoever calls operator new has a C++ library somewhere. It throws what there is to be thrown. */
static void *heap_new_out_of_memory(const char *name, size_t n, size_t b)
{
    static const char *const libraries[] = { "libstdc++.so.6", "libc++abi.so.1", "libc++.so.1" };
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        new_fn *f = library ? (new_fn *)(uintptr_t)dlsym(library, name) : NULL;
        if (f) return f(n, b, 0);
    }
    errno = ENOMEM;
    return NULL;
}

static void *plain_new(const char *name, int aligned, int quiet, size_t n, size_t b)
{
    const size_t bytes = n ? n : 1;
    void *p = aligned ? sonde__heap_real.aligned_alloc(b, (bytes + b - 1) & ~(b - 1))
                      : sonde__heap_real.malloc(bytes);
    return p || quiet ? p : heap_new_out_of_memory(name, n, b);
}

#define X(id, name, aligned, quiet)                                                            \
    static void *plain_new_##id(size_t n, size_t b, size_t c)                                  \
    {                                                                                          \
        (void)c;                                                                               \
        return plain_new(#name, aligned, quiet, n, b);                                         \
    }
NEWS(X)
#undef X

static void plain_delete(void *p, size_t b, size_t c)
{
    (void)b;
    (void)c;
    sonde__heap_real.free(p);
}

/* ---- Recording ------------------------------------------------------------------------------- */

/* Should the allocator's call our free after all, that is not another one. */
static void pass_delete(delete_fn *f, void *p, size_t b, size_t c)
{
    const uint32_t busy = sonde__heap_tls.busy;
    if (!busy) sonde__heap_busy(SONDE__HEAP_PASSING);
    f(p, b, c);
    if (!busy) sonde__heap_busy(0);
}

#define X(id, ...)                                                                             \
    SLOW_WAY(new_##id, next_new[NEW_##id], (size_t n, size_t b, size_t c), n, n, b, c)         \
    static void *record_new_##id(size_t n, size_t b, size_t c)                                 \
    {                                                                                          \
        return passes(n) ? next_new[NEW_##id](n, b, c) : slow_new_##id(n, b, c);               \
    }
NEWS(X)
#undef X

#define X(id, ...)                                                                             \
    static void record_delete_##id(void *p, size_t b, size_t c)                                \
    {                                                                                          \
        if (!unsampled(p)) leave(p);                                                           \
        pass_delete(next_delete[DELETE_##id], p, b, c);                                        \
    }
DELETES(X)
#undef X

/* ---- Finding --------------------------------------------------------------------------------- */

static int of_the_allocator(const void *f)
{
    struct dl_find_object a, b;
    return !_dl_find_object((void *)(uintptr_t)f, &a) &&
           !_dl_find_object((void *)(uintptr_t)sonde__heap_real.malloc, &b) &&
           a.dlfo_map_start == b.dlfo_map_start;
}

/* Does it call our malloc? With nothing left to count down, that would be noted. */
static int calls_malloc(new_fn *f, int aligned)
{
    struct sonde__heap_tls *tls = &sonde__heap_tls;
    delete_fn *back = (delete_fn *)(uintptr_t)dlsym(
        RTLD_NEXT, aligned ? "_ZdlPvSt11align_val_t" : "_ZdlPv");
    const uint64_t countdown = tls->countdown;
    const uint32_t busy = tls->busy;
    sonde__heap_busy(SONDE__HEAP_PASSING);
    tls->countdown = tls->probed = 0;
    void *p = f(16, 16, 0);
    const int calls = tls->probed != 0;
    if (back) back(p, 16, 0);
    tls->countdown = countdown;
    sonde__heap_busy(busy);
    return calls;
}

/* The first time; until it is known whether anything will be recorded, each time. */
__attribute__((noinline)) static new_fn *find_new(int i)
{
    static const struct { const char *name; new_fn *record, *plain; int aligned; } all[] = {
#define X(id, name, aligned, quiet) { #name, record_new_##id, plain_new_##id, aligned },
        NEWS(X)
#undef X
    };
    const uint32_t mode = sonde__heap_gate.mode ? sonde__heap_gate.mode : sonde__heap_wake();
    new_fn *f = (new_fn *)(uintptr_t)dlsym(RTLD_NEXT, all[i].name);
    if (!sonde__heap_is_decided()) return f ? f : all[i].plain;
    const int record =
        !f || (mode && of_the_allocator((void *)(uintptr_t)f) && !calls_malloc(f, all[i].aligned));
    next_new[i] = f ? f : all[i].plain;
    __atomic_store_n(&direct_new[i], record ? all[i].record : f, __ATOMIC_RELEASE);
    return direct_new[i];
}

__attribute__((noinline)) static delete_fn *find_delete(int i)
{
    static const struct { const char *name; delete_fn *record; } all[] = {
#define X(id, name) { #name, record_delete_##id },
        DELETES(X)
#undef X
    };
    const uint32_t mode = sonde__heap_gate.mode ? sonde__heap_gate.mode : sonde__heap_wake();
    delete_fn *f = (delete_fn *)(uintptr_t)dlsym(RTLD_NEXT, all[i].name);
    if (!sonde__heap_is_decided()) return f ? f : plain_delete;
    const int record = !f || (mode && of_the_allocator((void *)(uintptr_t)f));
    next_delete[i] = f ? f : plain_delete;
    __atomic_store_n(&direct_delete[i], record ? all[i].record : f, __ATOMIC_RELEASE);
    return direct_delete[i];
}

#define X(id, ...)                                                                             \
    static void *first_new_##id(size_t n, size_t b, size_t c)                                  \
    {                                                                                          \
        new_fn *f = find_new(NEW_##id);                                                        \
        return f(n, b, c);                                                                     \
    }
NEWS(X)
#undef X

#define X(id, ...)                                                                             \
    static void first_delete_##id(void *p, size_t b, size_t c)                                 \
    {                                                                                          \
        delete_fn *f = find_delete(DELETE_##id);                                               \
        f(p, b, c);                                                                            \
    }
DELETES(X)
#undef X

/* ---- What programs call ---------------------------------------------------------------------- */

#define X(id, name, ...)                                                                       \
    new_fn name;                                                                               \
    EXPORT void *name(size_t n, size_t b, size_t c) { return direct_new[NEW_##id](n, b, c); }
NEWS(X)
#undef X

#define X(id, name)                                                                            \
    delete_fn name;                                                                            \
    EXPORT void name(void *p, size_t b, size_t c) { direct_delete[DELETE_##id](p, b, c); }
DELETES(X)
#undef X
