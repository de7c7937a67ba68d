/* A plugin that allocates, when it is loaded and when it is asked to. */
#include <stdlib.h>

void *take(size_t n);

static void *early;

__attribute__((constructor)) static void load(void) { early = malloc(77); }
__attribute__((destructor)) static void unload(void) { free(early); }

__attribute__((noinline)) static void *inner(size_t n)
{
    char *p = malloc(n);
    if (p) *p = 1;
    return p;
}

void *take(size_t n) { return (char *)inner(n) + 0; }
