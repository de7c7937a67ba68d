/* bare.h - the operations that nothing which records can be cheaper than. */
#ifndef SONDE_PERF_BARE_H
#define SONDE_PERF_BARE_H

#include <stdint.h>

uint64_t bare_loop(uint64_t n, unsigned thread);         /* nothing: the loop itself */
uint64_t bare_call(uint64_t n, unsigned thread);         /* a call that returns */
uint64_t bare_add_local(uint64_t n, unsigned thread);    /* add to a thread-local word */
uint64_t bare_add_plain(uint64_t n, unsigned thread);    /* add to a word of the thread's own */
uint64_t bare_add_locked(uint64_t n, unsigned thread);   /* locked add to a word all share */
uint64_t bare_two_adds(uint64_t n, unsigned thread);     /* bucket += 1, sum += value */
uint64_t bare_store(uint64_t n, unsigned thread);        /* store to a shared word */
uint64_t bare_cas_double(uint64_t n, unsigned thread);   /* add to a shared double */
uint64_t bare_rdtsc(uint64_t n, unsigned thread);
uint64_t bare_clock_gettime(uint64_t n, unsigned thread);
uint64_t bare_span(uint64_t n, unsigned thread);         /* two rdtsc, 64 bytes stored */

/* empty.c, in a shared library of its own; takes what sonde_fn_counter_add takes. */
void bare_empty(uint64_t off, uint64_t n);

#endif
