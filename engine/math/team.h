/* team.h - threads that work on one thing together, and do not spin each other to death.
 *
 * The caller is one of them. Work is handed out in pieces by a shared counter, so a thread that the
 * kernel has taken off its CPU holds up one piece and not the rest. Who has nothing to do spins for
 * a few microseconds only, and only while there are CPUs for all (sched_getaffinity), then sleeps
 * on a futex: with more threads than CPUs nobody burns the CPU that the others wait for. */
#ifndef ENGINE_MATH_TEAM_H
#define ENGINE_MATH_TEAM_H

#include <stdint.h>

#include "base/fail.h"

struct team;

int team_create(uint32_t threads, struct team **out, struct fail *why); /* 1 to 256 */
void team_destroy(struct team *t);                                      /* NULL is fine */
uint32_t team_threads(const struct team *t);

/* work(arg, piece, thread) for every piece below `pieces`, by whichever thread comes first; returns
 * when all are done. thread is below team_threads(). One call at a time. */
void team_run(struct team *t, uint32_t pieces,
              void (*work)(void *arg, uint32_t piece, uint32_t thread), void *arg);

#endif
