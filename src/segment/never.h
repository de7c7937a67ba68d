/* never.h - branches that cannot be taken, in code that runs in a user's process.
 *
 *   if (SONDE_NEVER(slot >= slots)) return drop();
 *
 * In debug builds it stops there, so that tests find the error. In release builds it is the
 * condition itself, and the branch degrades: a mistake of ours must not end somebody's program.
 *
 * Not assert(): that calls into the C library, which a signal handler or malloc must not; a trap is
 * an instruction. */
#ifndef SONDE_SEGMENT_NEVER_H
#define SONDE_SEGMENT_NEVER_H

#ifdef NDEBUG
#define SONDE_NEVER(condition) __builtin_expect(!!(condition), 0)
#else
#define SONDE_NEVER(condition) (__builtin_expect(!!(condition), 0) ? (__builtin_trap(), 1) : 0)
#endif

/* What must be so, where there is nothing to degrade to, and on hot paths: looked at in debug
 * builds only, so that a release build is the same instructions with and without it. */
#ifdef NDEBUG
#define SONDE_MUST(condition) ((void)sizeof(!!(condition)))
#else
#define SONDE_MUST(condition) (__builtin_expect(!!(condition), 1) ? (void)0 : __builtin_trap())
#endif

#endif
