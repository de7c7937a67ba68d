/* thread.c - threads come and go.
 *
 * A thread is met at its first allocation and left by the destructor of a key, in the last of the
 * rounds that destructors are called in: others may allocate in all of them. What the thread, or
 * the C library on its behalf, still does after that is counted as everybody's. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/heap/heap.h"
#include "record/state.h"

__thread struct sonde__heap_tls sonde__heap_tls __attribute__((tls_model("initial-exec")));

static pthread_key_t key;
static int have_key;
#define BLOCKS_SAMPLED 16u  /* so many are kept for threads to meet again */

static struct sonde__heap_thread *free_list;
static uint32_t blocks;     /* ever made */

/* ---- Blocks ---------------------------------------------------------------------------------- */

static uint64_t frames_bytes(void)
{
    return sonde__heap_state.depth_max * sizeof(struct sonde__heap_frame);
}

static struct sonde__heap_thread *block_make(void)
{
    struct sonde__heap_thread *t = sonde__heap_pages(sizeof(*t) + 2 * frames_bytes());
    if (!t) return NULL;
    t->shadow = (struct sonde__heap_frame *)(void *)(t + 1);
    t->fresh = t->shadow + sonde__heap_state.depth_max;
    return t;
}

/* In sampled mode a block is had for one sample only. The one that this thread had last knows its
 * stack: a walk goes up to where both are the same. If there is none, the one that was not used
 * longest. */
static struct sonde__heap_thread *heap_thread_block_take(uint32_t tid)
{
    struct sonde__heap_thread **take = NULL;
    if (sonde__heap_lock(&sonde__heap_gate.thread_lock, SONDE__HEAP_RANK_THREAD)) return NULL;
    for (struct sonde__heap_thread **at = &free_list; *at; at = &(*at)->next) {
        take = at;
        if ((*at)->tid == tid) break;
    }
    struct sonde__heap_thread *t = take ? *take : NULL;
    const int sampled = sonde__heap_gate.mode == SONDE__HEAP_SAMPLED;
    if (t && sampled && t->tid != tid && blocks < BLOCKS_SAMPLED) t = NULL;
    if (t) *take = t->next;
    else blocks++;
    sonde__heap_unlock(&sonde__heap_gate.thread_lock, SONDE__HEAP_RANK_THREAD);
    if (!t) t = block_make();
    if (t) t->tid = tid;
    return t;
}

static void block_give(struct sonde__heap_thread *t)
{
    if (sonde__heap_lock(&sonde__heap_gate.thread_lock, SONDE__HEAP_RANK_THREAD)) return;
    t->next = free_list;
    free_list = t;
    sonde__heap_unlock(&sonde__heap_gate.thread_lock, SONDE__HEAP_RANK_THREAD);
}

static void lane_set(struct sonde__heap_thread *t, uint32_t lane)
{
    t->lane_index = lane;
    t->lane = &sonde__heap_state.area->lane[lane];
    t->directory = sonde__heap_directory(lane);
    t->allocs = t->lane->allocs;
    t->bytes = t->lane->alloc_bytes;
}

void sonde__heap_lane_leave(struct sonde__heap_thread *t)
{
    if (!t->lane_index) return;
    sonde__heap_tls.allocs += t->lane->allocs - t->allocs;
    sonde__heap_tls.bytes += t->lane->alloc_bytes - t->bytes;
    sonde__heap_lane_give(t->lane_index);
    lane_set(t, 0);
}

struct sonde__heap_thread *sonde__heap_thread_take(void)
{
    SONDE_MUST(sonde__heap_tls.busy);
    struct sonde__heap_thread *t = sonde__heap_tls.self;
    if (t) return t;
    if (!sonde__heap_tls.rng) sonde__heap_thread_enter();
    t = heap_thread_block_take(sonde__heap_tls.tid);
    if (!t) return NULL;
    lane_set(t, 0);
    if (sonde__heap_gate.mode != SONDE__HEAP_FULL) return t;
    t->unloads = sonde__unloads() - 1; /* remembers nothing: it would be of another lane */
    t->shadow_depth = 0;
    if (!sonde__heap_tls.ended) lane_set(t, sonde__heap_lane_take(sonde__heap_tls.tid));
    if (!t->directory) sonde__heap_lane_leave(t);
    t->event_countdown = sonde__heap_draw(&sonde__heap_tls.rng, sonde__heap_state.mean);
    t->live_delta = 0;
    t->coarse_left = t->coarse_every = 0;
    if (!sonde__heap_tls.ended) sonde__heap_tls.self = t;
    return t;
}

void sonde__heap_thread_give(struct sonde__heap_thread *t)
{
    SONDE_MUST(sonde__heap_tls.busy);
    SONDE_MUST(t);
    if (t == sonde__heap_tls.self) return;
    sonde__heap_flush(t);
    block_give(t);
}

/* ---- Threads --------------------------------------------------------------------------------- */

void sonde__heap_thread_enter(void)
{
    struct sonde__heap_tls *tls = &sonde__heap_tls;
    const uint64_t number = __atomic_fetch_add(&sonde__heap_state.threads, 1, __ATOMIC_RELAXED);
    tls->tid = (uint32_t)syscall(SYS_gettid);
    tls->rng = sonde__heap_seed(sonde__heap_state.seed, number);
    if (have_key && !tls->ended) pthread_setspecific(key, tls);
}

void sonde__heap_thread_tell(void)
{
    SONDE_MUST(sonde__heap_tls.busy);
    const struct sonde__heap_tls *tls = &sonde__heap_tls;
    const struct sonde__heap_thread *t = tls->self;
    uint64_t w[5] = { tls->tid, tls->bytes, tls->allocs, 0, 0 };
    if (t && t->lane_index) {
        w[1] = t->lane->alloc_bytes - t->bytes;
        w[2] = t->lane->allocs - t->allocs;
    }
    if (!w[2]) return;
    if (!sonde__g.silent) prctl(PR_GET_NAME, &w[3]);
    sonde__heap_tell(SONDE__HEAP_THREAD, w, 5);
}

static void heap_thread_end(void *arg)
{
    struct sonde__heap_tls *tls = &sonde__heap_tls;
    struct sonde__heap_thread *t = tls->self;
    if (arg != tls || !sonde__heap_gate.mode) return;
    if (++tls->rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(key, tls);
        return;
    }
    const int saved = errno;
    sonde__heap_busy(1);
    sonde__heap_thread_tell();
    tls->ended = 1;
    tls->self = NULL;
    if (t) {
        sonde__heap_lane_leave(t);
        sonde__heap_thread_give(t);
    }
    sonde__heap_busy(0);
    errno = saved;
}

void sonde__heap_threads_init(void)
{
    free_list = NULL;
    blocks = 0;
    if (!have_key) have_key = !pthread_key_create(&key, heap_thread_end);
}
