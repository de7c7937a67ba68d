/* alloc.h - the one way the agent gets memory, so that tests can make any allocation fail.
 * Code that runs in a user's process (segment/, record/, preload/) must not use it. */
#ifndef SONDE_BASE_ALLOC_H
#define SONDE_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void *sonde__alloc(size_t size);                 /* NULL when out of memory */
void *sonde__calloc(size_t count, size_t size);  /* NULL also when count * size overflows */
void *sonde__realloc(void *p, size_t size);      /* on failure p stays valid */
char *sonde__strdup(const char *s);
char *sonde__strndup(const char *s, size_t len);
void sonde__free(void *p);                       /* NULL is fine */

/* Tests: fail the nth allocation from now (1 = next), 0 = none. And how many blocks live. */
void sonde__alloc_fail_nth(uint64_t nth);
int64_t sonde__alloc_live(void);

#endif
