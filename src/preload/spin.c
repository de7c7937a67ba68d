/* spin.c - waiting for a lock that is a word. */
#include <sched.h>

#include "preload/preload.h"
#include "record/state.h"
#include "segment/never.h"
#include "unwind/arch_here.h"

#define SPINS 200
#define WAIT_NS 2000000000u

/* Whoever holds it needs nanoseconds, but may be kept from running, or have left it for good. */
int sonde__spin_wait(uint32_t *lock)
{
    SONDE_MUST(lock);
    uint64_t until = 0;
    for (int i = 0;; i++) {
        if (!__atomic_load_n(lock, __ATOMIC_RELAXED) &&
            !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) {
            return 0;
        }
        if (i < SPINS) {
            sonde__arch_pause();
            continue;
        }
        if (!sonde__g.silent) sched_yield();
        const uint64_t now = sonde__mono_ns();
        if (!until) until = now + WAIT_NS;
        if (now > until) return -1;
    }
}
