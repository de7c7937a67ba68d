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

__thread struct sonde__mem_tls sonde__mem_tls __attribute__((tls_model("initial-exec")));

static pthread_key_t key;
static int have_key;
#define BLOCKS_SAMPLED 16u  /* so many are kept for threads to meet again */

static struct sonde__mem_thread *free_list;
static uint32_t blocks;     /* ever made */

/* ---- Blocks ---------------------------------------------------------------------------------- */

static uint64_t frames_bytes(void)
{
    return sonde__mem_state.depth_max * sizeof(struct sonde__mem_frame);
}

static struct sonde__mem_thread *block_make(void)
{
    struct sonde__mem_thread *t = sonde__mem_pages(sizeof(*t) + 2 * frames_bytes());
    if (!t) return NULL;
    t->shadow = (struct sonde__mem_frame *)(void *)(t + 1);
    t->fresh = t->shadow + sonde__mem_state.depth_max;
    return t;
}

/* In sampled mode a block is had for one sample only. The one that this thread had last knows its
 * stack: a walk goes up to where both are the same. If there is none, the one that was not used
 * longest. */
static struct sonde__mem_thread *block_take(uint32_t tid)
{
    struct sonde__mem_thread **take = NULL;
    if (sonde__mem_lock(&sonde__mem_gate.thread_lock)) return NULL;
    for (struct sonde__mem_thread **at = &free_list; *at; at = &(*at)->next) {
        take = at;
        if ((*at)->tid == tid) break;
    }
    struct sonde__mem_thread *t = take ? *take : NULL;
    const int sampled = sonde__mem_gate.mode == SONDE__MEM_SAMPLED;
    if (t && sampled && t->tid != tid && blocks < BLOCKS_SAMPLED) t = NULL;
    if (t) *take = t->next;
    else blocks++;
    sonde__mem_unlock(&sonde__mem_gate.thread_lock);
    if (!t) t = block_make();
    if (t) t->tid = tid;
    return t;
}

static void block_give(struct sonde__mem_thread *t)
{
    if (sonde__mem_lock(&sonde__mem_gate.thread_lock)) return;
    t->next = free_list;
    free_list = t;
    sonde__mem_unlock(&sonde__mem_gate.thread_lock);
}

static void lane_set(struct sonde__mem_thread *t, uint32_t lane)
{
    t->lane_index = lane;
    t->lane = &sonde__mem_state.area->lane[lane];
    t->directory = sonde__mem_directory(lane);
    t->allocs = t->lane->allocs;
    t->bytes = t->lane->alloc_bytes;
}

void sonde__mem_lane_leave(struct sonde__mem_thread *t)
{
    if (!t->lane_index) return;
    sonde__mem_tls.allocs += t->lane->allocs - t->allocs;
    sonde__mem_tls.bytes += t->lane->alloc_bytes - t->bytes;
    sonde__mem_lane_give(t->lane_index);
    lane_set(t, 0);
}

struct sonde__mem_thread *sonde__mem_thread_take(void)
{
    struct sonde__mem_thread *t = sonde__mem_tls.self;
    if (t) return t;
    if (!sonde__mem_tls.rng) sonde__mem_thread_enter();
    t = block_take(sonde__mem_tls.tid);
    if (!t) return NULL;
    lane_set(t, 0);
    if (sonde__mem_gate.mode != SONDE__MEM_FULL) return t;
    t->unloads = sonde__unloads() - 1; /* remembers nothing: it would be of another lane */
    t->shadow_depth = 0;
    if (!sonde__mem_tls.ended) lane_set(t, sonde__mem_lane_take(sonde__mem_tls.tid));
    if (!t->directory) sonde__mem_lane_leave(t);
    t->event_countdown = sonde__mem_draw(&sonde__mem_tls.rng, sonde__mem_state.mean);
    t->live_delta = 0;
    t->coarse_left = t->coarse_every = 0;
    if (!sonde__mem_tls.ended) sonde__mem_tls.self = t;
    return t;
}

void sonde__mem_thread_give(struct sonde__mem_thread *t)
{
    if (t == sonde__mem_tls.self) return;
    sonde__mem_flush(t);
    block_give(t);
}

/* ---- Threads --------------------------------------------------------------------------------- */

void sonde__mem_thread_enter(void)
{
    struct sonde__mem_tls *tls = &sonde__mem_tls;
    const uint64_t number = __atomic_fetch_add(&sonde__mem_state.threads, 1, __ATOMIC_RELAXED);
    tls->tid = (uint32_t)syscall(SYS_gettid);
    tls->rng = sonde__mem_seed(sonde__mem_state.seed, number);
    if (have_key && !tls->ended) pthread_setspecific(key, tls);
}

void sonde__mem_thread_tell(void)
{
    const struct sonde__mem_tls *tls = &sonde__mem_tls;
    const struct sonde__mem_thread *t = tls->self;
    uint64_t w[5] = { tls->tid, tls->bytes, tls->allocs, 0, 0 };
    if (t && t->lane_index) {
        w[1] = t->lane->alloc_bytes - t->bytes;
        w[2] = t->lane->allocs - t->allocs;
    }
    if (!w[2]) return;
    if (!sonde__g.silent) prctl(PR_GET_NAME, &w[3]);
    sonde__mem_tell(SONDE__MEM_THREAD, w, 5);
}

static void thread_end(void *arg)
{
    struct sonde__mem_tls *tls = &sonde__mem_tls;
    struct sonde__mem_thread *t = tls->self;
    if (arg != tls || !sonde__mem_gate.mode) return;
    if (++tls->rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(key, tls);
        return;
    }
    const int saved = errno;
    sonde__mem_busy(1);
    sonde__mem_thread_tell();
    tls->ended = 1;
    tls->self = NULL;
    if (t) {
        sonde__mem_lane_leave(t);
        sonde__mem_thread_give(t);
    }
    sonde__mem_busy(0);
    errno = saved;
}

void sonde__mem_threads_init(void)
{
    free_list = NULL;
    blocks = 0;
    if (!have_key) have_key = !pthread_key_create(&key, thread_end);
}
