/* heap.c - the heap profile begins and ends. */
#include "preload/heap/heap.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/heap/live.h"
#include "preload/heap/scan.h"
#include "preload/preload.h"
#include "record/state.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define CHUNKS 8192u        /* of the ring: half a MiB */

struct sonde__heap_gate sonde__heap_gate;
struct sonde__heap_state sonde__heap_state;
static int decided;         /* what the environment asks for is known */

int __cxa_atexit(void (*call)(void *), void *arg, void *library);

/* ---- What is around us ----------------------------------------------------------------------- */

static void module_range(const void *code, uint64_t *low, uint64_t *high, struct link_map **map)
{
    struct dl_find_object o;
    *low = *high = 0;
    *map = NULL;
    if (_dl_find_object((void *)(uintptr_t)code, &o)) return;
    *low = (uint64_t)(uintptr_t)o.dlfo_map_start;
    *high = (uint64_t)(uintptr_t)o.dlfo_map_end;
    *map = o.dlfo_link_map;
}

/* Found once: a forked child has the same. */
static struct {
    int known;
    uint32_t bypassed;
    uint64_t own_low, own_high, allocator_low, allocator_high;
    struct mallinfo2 (*mallinfo2)(void);
    char allocator[sizeof(((struct sonde__heap *)0)->allocator)];
} around;

/* Where the allocator is, and whether the one that programs find is ours: one that is linked into
 * the program itself comes first. An address would not tell, since programs that are not position
 * independent have one of their own for it. So call it and see. The dynamic linker is asked, whose
 * lock others may hold while they wait for one that our caller has: so only while the library is
 * loaded. */
static void heap_profiler_look_around(void)
{
    struct link_map *map;
    uint64_t low, high;
    void *(*const first)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
    void (*const first_free)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "free");
    around.known = 1;
    module_range((void *)(uintptr_t)module_range, &around.own_low, &around.own_high, &map);
    sonde__heap_tls.probed = 0;
    sonde__heap_tls.countdown = 0;
    if (first && first_free) first_free(first(1));
    around.bypassed = !sonde__heap_tls.probed;
    module_range(around.bypassed ? (void *)(uintptr_t)first
                                 : (void *)(uintptr_t)sonde__heap_real.malloc,
                 &around.allocator_low, &around.allocator_high, &map);
    const char *path = map && map->l_name[0] ? map->l_name : sonde__paths.exe;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (strlen(name) < sizeof(around.allocator)) strcpy(around.allocator, name);
    void *info = dlsym(RTLD_NEXT, "mallinfo2");
    module_range(info, &low, &high, &map);
    if (!around.bypassed && info && low == around.allocator_low) {
        memcpy(&around.mallinfo2, &info, sizeof(info));
    }
    if (around.bypassed) around.allocator_low = around.allocator_high = 0; /* all there is to see */
}

static void around_apply(struct sonde__heap *m, struct sonde__heap_state *s)
{
    m->bypassed = around.bypassed;
    strcpy(m->allocator, around.allocator);
    s->own_low = around.own_low;
    s->own_high = around.own_high;
    s->allocator_low = around.allocator_low;
    s->allocator_high = around.allocator_high;
    s->mallinfo2 = around.mallinfo2;
}

static uint64_t any_seed(void)
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t v = 0;
    if (random) memcpy(&v, random, sizeof(v));
    return v ^ sonde__mono_ns() ^ (uint64_t)getpid() << 32;
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static struct sonde__heap *heap_profiler_area_make(void)
{
    if (sonde__ensure_open()) return NULL;
    const uint64_t at = sonde__block_take(sizeof(struct sonde__heap));
    const uint64_t ring = sonde__block_take(CHUNKS * sizeof(struct sonde__chunk));
    if (!at || !ring) return NULL;
    struct sonde__heap *m = (struct sonde__heap *)(void *)sonde__at(at);
    m->session = sonde__heap_config.session;
    m->mode = sonde__heap_config.mode;
    m->count_shift = m->mode == SONDE__HEAP_SAMPLED ? 16 : 0;
    m->mean = sonde__heap_config.mean;
    m->depth_max = sonde__heap_config.depth_max;
    m->chunk_count = CHUNKS;
    m->ring = ring;
    m->start_ticks = sonde_ticks();
    m->lane_count = 1;
    return m;
}

static void state_set(struct sonde__heap *m)
{
    struct sonde__heap_state *s = &sonde__heap_state;
    memset(s, 0, sizeof(*s));
    s->area = m;
    s->ring = (struct sonde__chunk *)(void *)sonde__at(m->ring);
    s->pid = (uint32_t)getpid();
    s->depth_max = m->depth_max;
    s->mean = m->mean;
    s->seed = sonde__heap_config.seed ? sonde__heap_config.seed : any_seed();
    (void)sonde__heap_coarse(); /* its zero is now */
}

/* After all destructors of all libraries: registered before any of them, and not with this one. */
static void at_last(void *unused)
{
    (void)unused;
    if (!sonde__heap_gate.mode || sonde__heap_tls.busy || sonde__g.silent) return;
    sonde__heap_busy(1);
    sonde__heap_scan();
    sonde__heap_busy(0);
}

static void scan_at_last(void)
{
    static int registered; /* children inherit it */
    if (!sonde__heap_config.scan || registered) return;
    registered = !__cxa_atexit(at_last, NULL, NULL);
}

void sonde__heap_start(void)
{
    struct sonde__heap_gate *g = &sonde__heap_gate;
    sonde__heap_busy(1);
    sonde__walks_start();
    if (!around.known) heap_profiler_look_around();
    struct sonde__heap *m = heap_profiler_area_make();
    if (m) {
        state_set(m);
        around_apply(m, &sonde__heap_state);
        sonde__heap_threads_init();
        sonde__heap_maps_init();
        scan_at_last();
        if (!sonde__live_init() && !sonde__heap_nodes_init()) {
            madvise(g, sizeof(*g), MADV_WIPEONFORK);
            g->filter_mask = m->mode == SONDE__HEAP_SAMPLED ? SONDE__HEAP_FILTER_FIRST - 1 : 0;
            g->filter[0] = m->mode == SONDE__HEAP_FULL ? ~0ull : 0;
            __atomic_store_n(&g->mode, m->mode, __ATOMIC_RELEASE);
            __atomic_store_n(&sonde__g.h->heap, (uint64_t)((char *)m - sonde__g.base),
                             __ATOMIC_RELEASE);
        }
    }
    sonde__heap_busy(0);
}

/* ---- Beginning later ------------------------------------------------------------------------- */

/* A script starts thousands of programs, most of which allocate next to nothing and are gone in a
 * millisecond; a segment for each of them takes longer than they do. So children begin when one of
 * their threads has allocated half of what is between two samples as a rule. */
#define LATER_MEAN_LEAST 8192u /* who looks this closely wants them all */
enum { LATER_NO, LATER_WAITS, LATER_BEGINS };
static uint32_t later;

void sonde__heap_start_later(void)
{
    if (sonde__heap_config.mode != SONDE__HEAP_SAMPLED || sonde__heap_config.scan ||
        sonde__heap_config.mean < LATER_MEAN_LEAST) {
        sonde__heap_start();
        return;
    }
    sonde__heap_busy(1);
    sonde__walks_start();
    if (!around.known) heap_profiler_look_around();
    sonde__heap_tls.countdown = 0;
    sonde__heap_busy(0);
    __atomic_store_n(&later, LATER_WAITS, __ATOMIC_RELEASE);
}

void sonde__heap_sandboxed(void)
{
    uint32_t waits = LATER_WAITS;
    __atomic_compare_exchange_n(&later, &waits, LATER_NO, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

void sonde__heap_thread_off(void)
{
    if (sonde__heap_gate.mode) sonde__heap_gate.missed = 1;
    sonde__heap_tls.countdown = SONDE__HEAP_OFF;
    sonde__heap_busy(SONDE__HEAP_PASSING);
}

/* The mode; 0 = not yet, and the thread comes again. */
static uint32_t later_look(void)
{
    struct sonde__heap_tls *tls = &sonde__heap_tls;
    uint32_t waits = LATER_WAITS;
    if (!tls->waited) {
        tls->waited = 1;
        tls->countdown = sonde__heap_config.mean / 2;
        return 0;
    }
    if (__atomic_compare_exchange_n(&later, &waits, LATER_BEGINS, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        const int saved = errno;
        sonde__heap_start();
        errno = saved;
        __atomic_store_n(&later, LATER_NO, __ATOMIC_RELEASE);
    } else if (waits == LATER_BEGINS) {
        tls->countdown = sonde__heap_config.mean / 32; /* another thread is at it */
        return 0;
    }
    const uint32_t mode = __atomic_load_n(&sonde__heap_gate.mode, __ATOMIC_ACQUIRE);
    if (!mode) tls->countdown = SONDE__HEAP_OFF;
    return mode;
}

void sonde__heap_decided(void) { __atomic_store_n(&decided, 1, __ATOMIC_RELEASE); }
int sonde__heap_is_decided(void) { return __atomic_load_n(&decided, __ATOMIC_ACQUIRE); }

/* libc has no environment yet while the dynamic linker makes its first allocations. */
uint32_t sonde__heap_wake(void)
{
    const int saved = errno;
    if (!sonde__heap_is_decided()) {
        if (environ) sonde__preload_start();
        errno = saved;
        if (!sonde__heap_is_decided()) return 0;
    }
    const uint32_t mode = __atomic_load_n(&sonde__heap_gate.mode, __ATOMIC_ACQUIRE);
    if (!mode && __atomic_load_n(&later, __ATOMIC_ACQUIRE)) return later_look();
    if (!mode) sonde__heap_tls.countdown = SONDE__HEAP_OFF;
    return mode;
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* The gate was emptied by the kernel, unless it is an old one. */
void sonde__heap_forked(int again)
{
    const int profiled = sonde__heap_state.area != NULL || later != LATER_NO;
    if (sonde__heap_gate.mode) memset(&sonde__heap_gate, 0, sizeof(sonde__heap_gate));
    memset(&sonde__heap_tls, 0, sizeof(sonde__heap_tls));
    sonde__heap_state.area = NULL;
    later = LATER_NO;
    if (profiled && again) sonde__heap_start_later();
}

void sonde__heap_stop(void)
{
    if (!sonde__heap_gate.mode || sonde__heap_tls.busy) return;
    sonde__heap_busy(1);
    if (!sonde__g.silent) sonde__heap_thread_tell(); /* else it has been told */
    if (sonde__heap_tls.self) sonde__heap_flush(sonde__heap_tls.self);
    sonde__heap_busy(0);
}
