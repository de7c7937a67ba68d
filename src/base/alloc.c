/* alloc.c - malloc with a count of live blocks and a way to make the nth call fail.
 *
 * The count is one atomic word. A header in front of each block that would also count bytes was
 * rejected: it breaks what ASan and valgrind know about a block's bounds. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t live;
static _Atomic uint64_t fail_in; /* 0: never; n: the nth allocation from now fails */

static int must_fail(void)
{
    uint64_t n = atomic_load_explicit(&fail_in, memory_order_relaxed);
    if (__builtin_expect(n == 0, 1)) return 0;
    while (n && !atomic_compare_exchange_weak(&fail_in, &n, n - 1)) {
    }
    return n == 1;
}

static void *alloc_counted(void *p)
{
    if (p) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return p;
}

/* malloc(0) may return NULL, which callers would take for "no memory". */
static size_t at_least_one(size_t size) { return size ? size : 1; }

void *sonde__alloc(size_t size)
{
    return must_fail() ? NULL : alloc_counted(malloc(at_least_one(size)));
}

void *sonde__calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    return must_fail() ? NULL : alloc_counted(calloc(1, at_least_one(bytes)));
}

void *sonde__realloc(void *p, size_t size)
{
    if (must_fail()) return NULL;
    void *moved = realloc(p, at_least_one(size));
    return p ? moved : alloc_counted(moved);
}

char *sonde__strdup(const char *s) { return sonde__strndup(s, strlen(s)); }

char *sonde__strndup(const char *s, size_t len)
{
    const size_t n = strnlen(s, len);
    char *copy = sonde__alloc(n + 1);
    if (!copy) return NULL;
    memcpy(copy, s, n);
    copy[n] = 0;
    return copy;
}

void sonde__free(void *p)
{
    if (!p) return;
    free(p);
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
}

void sonde__alloc_fail_nth(uint64_t nth) { atomic_store(&fail_in, nth); }

int64_t sonde__alloc_live(void) { return atomic_load(&live); }
