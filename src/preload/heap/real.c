/* real.c - the allocator behind us: the next definition of each function in the order in which
 * symbols are searched, whoever's it is.
 *
 * dlsym may allocate while it looks for them. That memory comes from a few static bytes; if any of
 * it was ever given out, free and realloc look out for it from then on. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "preload/heap/heap.h"

#define ARENA 8192u

static char arena[ARENA] __attribute__((aligned(16)));
static size_t arena_used;
static uint32_t finding;
static void (*next_free)(void *);
static void *(*next_realloc)(void *, size_t);

/* ---- While they are looked for --------------------------------------------------------------- */

static void *arena_take(size_t n)
{
    size_t *block;
    if (n > ARENA) return NULL;
    n = (n + 31) & ~(size_t)15; /* with its size in front */
    const size_t at = __atomic_fetch_add(&arena_used, n, __ATOMIC_RELAXED);
    if (at + n > ARENA) {
        errno = ENOMEM;
        return NULL;
    }
    block = (size_t *)(void *)(arena + at);
    block[1] = n - 16;
    return block + 2;
}

static int in_arena(const void *p)
{
    return (const char *)p >= arena && (const char *)p < arena + ARENA;
}

static void guarded_free(void *p)
{
    if (!in_arena(p)) next_free(p);
}

static void *guarded_realloc(void *p, size_t n)
{
    if (!in_arena(p)) return next_realloc(p, n);
    const size_t had = ((const size_t *)p)[-1];
    void *q = sonde__heap_real.malloc(n);
    if (q) memcpy(q, p, had < n ? had : n);
    return q;
}

/* ---- Finding --------------------------------------------------------------------------------- */

static void heap_real_set(void *to, const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (f) memcpy(to, &f, sizeof(f));
}

static void heap_real_find(void)
{
    struct sonde__heap_real *r = &sonde__heap_real;
    if (__atomic_exchange_n(&finding, 1, __ATOMIC_ACQ_REL)) return;
    heap_real_set(&r->malloc, "malloc");
    heap_real_set(&r->calloc, "calloc");
    heap_real_set(&next_free, "free");
    heap_real_set(&next_realloc, "realloc");
    r->free = __atomic_load_n(&arena_used, __ATOMIC_RELAXED) ? guarded_free : next_free;
    r->realloc = __atomic_load_n(&arena_used, __ATOMIC_RELAXED) ? guarded_realloc : next_realloc;
    heap_real_set(&r->posix_memalign, "posix_memalign");
    heap_real_set(&r->aligned_alloc, "aligned_alloc");
    heap_real_set(&r->memalign, "memalign");
    heap_real_set(&r->valloc, "valloc");
    heap_real_set(&r->pvalloc, "pvalloc");
    heap_real_set(&r->mmap, "mmap");
    heap_real_set(&r->munmap, "munmap");
    heap_real_set(&r->mremap, "mremap");
}

static void *heap_none(void)
{
    errno = ENOMEM;
    return NULL;
}

/* What stands in each place until then. Still there afterwards: the C library does not have it. */
static void *first_malloc(size_t n)
{
    heap_real_find();
    return sonde__heap_real.malloc != first_malloc ? sonde__heap_real.malloc(n) : arena_take(n);
}

static void first_free(void *p)
{
    if (!p || in_arena(p)) return;
    heap_real_find();
    if (sonde__heap_real.free != first_free) sonde__heap_real.free(p);
}

static void *first_calloc(size_t n, size_t size)
{
    size_t bytes;
    heap_real_find();
    if (sonde__heap_real.calloc != first_calloc) return sonde__heap_real.calloc(n, size);
    return __builtin_mul_overflow(n, size, &bytes) ? heap_none() : arena_take(bytes);
}

static void *first_realloc(void *p, size_t n)
{
    heap_real_find();
    if (sonde__heap_real.realloc != first_realloc) return sonde__heap_real.realloc(p, n);
    return p ? guarded_realloc(p, n) : arena_take(n);
}

static int first_posix_memalign(void **out, size_t align, size_t n)
{
    heap_real_find();
    return sonde__heap_real.posix_memalign != first_posix_memalign
               ? sonde__heap_real.posix_memalign(out, align, n) : ENOMEM;
}

#define FIRST(name, parameters, ...)                                                           \
    static void *first_##name parameters                                                       \
    {                                                                                          \
        heap_real_find();                                                                      \
        return sonde__heap_real.name != first_##name ? sonde__heap_real.name(__VA_ARGS__)      \
                                                     : heap_none();                            \
    }
FIRST(aligned_alloc, (size_t align, size_t n), align, n)
FIRST(memalign, (size_t align, size_t n), align, n)
FIRST(valloc, (size_t n), n)
FIRST(pvalloc, (size_t n), n)

static void *first_mmap(void *p, size_t n, int prot, int flags, int fd, off_t offset)
{
    heap_real_find();
    return sonde__heap_real.mmap != first_mmap
               ? sonde__heap_real.mmap(p, n, prot, flags, fd, offset) : (void *)-1;
}

static int first_munmap(void *p, size_t n)
{
    heap_real_find();
    return sonde__heap_real.munmap != first_munmap ? sonde__heap_real.munmap(p, n) : -1;
}

static void *first_mremap(void *p, size_t n, size_t size, int flags, ...)
{
    __builtin_va_list ap;
    __builtin_va_start(ap, flags);
    void *to = __builtin_va_arg(ap, void *); /* not given: whatever, and not looked at */
    __builtin_va_end(ap);
    heap_real_find();
    return sonde__heap_real.mremap != first_mremap ? sonde__heap_real.mremap(p, n, size, flags, to)
                                                   : (void *)-1;
}

struct sonde__heap_real sonde__heap_real = {
    first_malloc, first_free, first_calloc, first_realloc, first_posix_memalign,
    first_aligned_alloc, first_memalign, first_valloc, first_pvalloc, first_mmap, first_munmap,
    first_mremap,
};
