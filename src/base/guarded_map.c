/* guarded_map.c - see guarded_map.h. The registry is an array of slots that a signal handler can
 * look through without a lock: a slot is taken by exchanging its `taken`, and holds a mapping while
 * `bytes` is not 0. */
#include "base/guarded_map.h"
#include "base/lock.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sonde/sonde.h"

static struct guarded_map_slot {
    uint32_t taken, damaged;
    uintptr_t base;
    size_t bytes;
} slots[SONDE_GUARDED_MAPS_MAX];

static uint32_t slots_used;  /* slots at and above this were never taken */
static struct sigaction previous;
static uintptr_t page_bytes;

static struct guarded_map_slot *guarded_map_find(uintptr_t address)
{
    uint32_t used = __atomic_load_n(&slots_used, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < used; i++) {
        size_t bytes = __atomic_load_n(&slots[i].bytes, __ATOMIC_ACQUIRE);
        uintptr_t base = __atomic_load_n(&slots[i].base, __ATOMIC_RELAXED);
        if (bytes != 0 && address >= base && address - base < bytes) return &slots[i];
    }
    return NULL;
}

static void guarded_map_pass_on(int number, siginfo_t *info, void *context)
{
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(number, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(number);
    } else {
        /* Returning runs the faulting instruction again, now with the default action. */
        signal(number, SIG_DFL);
    }
}

/* Zeros go under everything from the faulting page on, not under that page alone: the file ends
 * there, and a mapping a page would use up the kernel's limit of mappings. */
static void on_bus(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    uintptr_t address = (uintptr_t)info->si_addr;
    struct guarded_map_slot *s = guarded_map_find(address);
    if (s) {
        uintptr_t page = address & ~(page_bytes - 1);
        size_t rest = s->bytes - (page - s->base);
        __atomic_store_n(&s->damaged, 1, __ATOMIC_RELEASE);
        if (mmap((void *)page, rest, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
                 MAP_NORESERVE, -1, 0) != MAP_FAILED) {
            errno = saved;
            return;
        }
    }
    errno = saved;
    guarded_map_pass_on(number, info, context);
}

/* With every mapping, since somebody may have set a handler of his own meanwhile. */
static void guarded_map_install(void)
{
    static struct sonde_lock lock = SONDE_LOCK_INITIALIZER(SONDE_RANK_GUARD);
    struct sigaction now, action = { .sa_flags = SA_SIGINFO | SA_ONSTACK };
    action.sa_sigaction = on_bus;
    sigemptyset(&action.sa_mask);
    sonde_lock(&lock);
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (sigaction(SIGBUS, NULL, &now) == 0 &&
        !((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus)) {
        previous = now;
        sigaction(SIGBUS, &action, NULL);
    }
    sonde_unlock(&lock);
}

static int guarded_map_slot_take(void)
{
    for (uint32_t i = 0; i < SONDE_GUARDED_MAPS_MAX; i++) {
        if (__atomic_exchange_n(&slots[i].taken, 1, __ATOMIC_ACQUIRE) != 0) continue;
        uint32_t used = __atomic_load_n(&slots_used, __ATOMIC_RELAXED);
        while (used < i + 1 && !__atomic_compare_exchange_n(&slots_used, &used, i + 1, 0,
                                                            __ATOMIC_RELEASE,
                                                            __ATOMIC_RELAXED)) {
        }
        return (int)i;
    }
    return -1;
}

int sonde_guarded_map_open(int fd, size_t bytes, struct sonde_guarded_map *out,
                           struct sonde_err *err)
{
    guarded_map_install();
    int i = guarded_map_slot_take();
    if (i < 0) {
        return sonde_err_set(err, SONDE_EFULL, "%d segments are being read already",
                             SONDE_GUARDED_MAPS_MAX);
    }
    size_t whole = (bytes + page_bytes - 1) & ~(page_bytes - 1);
    void *base = mmap(NULL, whole, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
        int failure = errno;
        __atomic_store_n(&slots[i].taken, 0, __ATOMIC_RELEASE);
        return sonde_err_set(err, SONDE_ENOMEM, "cannot map its %zu bytes: %s", bytes,
                             strerror(failure));
    }
    __atomic_store_n(&slots[i].damaged, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slots[i].base, (uintptr_t)base, __ATOMIC_RELAXED);
    __atomic_store_n(&slots[i].bytes, whole, __ATOMIC_RELEASE);
    *out = (struct sonde_guarded_map){ base, whole, i };
    return 0;
}

void sonde_guarded_map_close(struct sonde_guarded_map *g)
{
    if (!g->base) return;
    struct guarded_map_slot *s = &slots[g->slot];
    /* The range must be out of the registry before its addresses can be anybody else's. */
    __atomic_store_n(&s->bytes, 0, __ATOMIC_SEQ_CST);
    munmap((void *)(uintptr_t)g->base, g->bytes);
    __atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
    *g = (struct sonde_guarded_map){ 0 };
}

void sonde_guarded_map_forget(const struct sonde_guarded_map *g)
{
    if (g->base) madvise((void *)(uintptr_t)g->base, g->bytes, MADV_DONTNEED);
}

/* The kernel maps up to 16 pages around one that is read, as far as they are of the same kind of
 * mapping. The advice makes it another kind; a file in memory is not read ahead anyway. */
void sonde_guarded_map_window(const struct sonde_guarded_map *g, size_t off)
{
    if (!g->base || off >= g->bytes) return;
    madvise((void *)((uintptr_t)g->base + (off & ~(page_bytes - 1))), page_bytes, MADV_RANDOM);
}

int sonde_guarded_map_damaged(const struct sonde_guarded_map *g)
{
    return g->base && __atomic_load_n(&slots[g->slot].damaged, __ATOMIC_ACQUIRE) != 0;
}
