/* load.c - a run of the load generator; see load.h and load_private.h. */
#include "bench/http/load.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/http/load_private.h"
#include "sonde/sonde.h"

enum { CONNECTIONS_DEFAULT = 10000, THREADS_MAX = 256, OTHER_FILES = 256 };

const char *sonde_load_outcome_name(enum sonde_load_outcome o)
{
    static const char *const names[] = {
#define SONDE__X(id, name) name,
        SONDE_LOAD_OUTCOMES(SONDE__X)
#undef SONDE__X
    };
    return o < SONDE_LOAD_OUTCOME_COUNT ? names[o] : "?";
}

/* Descriptors for so many connections: the soft limit is raised as far as need be. */
static int run_raise_files(uint32_t *connections, int wanted, struct sonde_err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return 0;
    const rlim_t needed = (rlim_t)*connections + OTHER_FILES;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) return 0;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < needed) {
        if (!wanted && limit.rlim_max > 2 * OTHER_FILES) {
            *connections = (uint32_t)(limit.rlim_max - OTHER_FILES);
        } else {
            return sonde_err_set(err, SONDE_EINVAL,
                                 "cannot have %u connections: this process may have %llu open "
                                 "files (RLIMIT_NOFILE); raise the limit (ulimit -Hn), or ask for "
                                 "fewer",
                                 *connections, (unsigned long long)limit.rlim_max);
        }
    }
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || needed < limit.rlim_max ? needed
                                                                                : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return 0;
}

/* ---- What the loops leave -------------------------------------------------------------------- */

static int record_by_intended(const void *a, const void *b)
{
    const struct sonde_load_record *x = a, *y = b;
    if (x->intended_ns != y->intended_ns) return x->intended_ns < y->intended_ns ? -1 : 1;
    return x->request < y->request ? -1 : x->request > y->request;
}

/* Blocks are freed as they are copied, so that there is no time at which all is there twice. */
static int run_collect_records(struct load_run *run, struct sonde_load_result *out)
{
    size_t count = 0;
    for (uint32_t i = 0; i < run->loop_count; i++) count += run->loops[i].record_count;
    out->records = sonde__calloc(count ? count : 1, sizeof(*out->records));
    if (!out->records) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < run->loop_count; i++) {
        struct load_loop *loop = &run->loops[i];
        size_t left = loop->record_count;
        for (uint32_t b = 0; b < loop->block_count; b++) {
            const size_t n = left < LOAD_BLOCK ? left : LOAD_BLOCK;
            memcpy(out->records + out->record_count, loop->blocks[b], n * sizeof(*out->records));
            out->record_count += n;
            left -= n;
            sonde__free(loop->blocks[b]);
            loop->blocks[b] = NULL;
        }
    }
    qsort(out->records, out->record_count, sizeof(*out->records), record_by_intended);
    out->begin_ns = run->begin_ns;
    out->end_ns = run->begin_ns;
    for (size_t i = 0; i < out->record_count; i++) {
        if (out->records[i].end_ns > out->end_ns) out->end_ns = out->records[i].end_ns;
    }
    return 0;
}

/* Of the counts at this offset of each loop; 0 = there are none. */
static uint64_t run_quantile(const struct load_run *run, size_t offset, uint64_t percent)
{
    uint64_t all = 0, below = 0;
    const size_t buckets = sonde_load_gap_buckets();
    for (int second = 0; second < 2; second++) {
        for (size_t b = 0; b < buckets; b++) {
            uint64_t n = 0;
            for (uint32_t i = 0; i < run->loop_count; i++) {
                n += (*(uint32_t *const *)((const char *)&run->loops[i] + offset))[b];
            }
            if (!second) all += n;
            else if ((below += n) && below * 100 >= all * percent) {
                return (uint64_t)sonde_load_gap_middle_ns(b);
            }
        }
    }
    return 0;
}

static void run_collect_setup(const struct load_run *run, struct sonde_load_setup *out)
{
    const struct sonde_bench_trust *trust = run->options->trust;
    for (uint32_t i = 0; i < run->loop_count; i++) {
        const struct sonde_load_setup *s = &run->loops[i].setup;
        out->opened += s->opened;
        out->resumed += s->resumed;
        for (size_t p = 0; p < SONDE_BENCH_TLS_PROBLEM_COUNT; p++) out->failed[p] += s->failed[p];
        if (!out->version[0]) {
            memcpy(out->version, s->version, sizeof(out->version));
            memcpy(out->cipher, s->cipher, sizeof(out->cipher));
        }
        if (!out->why[0]) memcpy(out->why, s->why, sizeof(out->why));
    }
    out->tls = run->target.https;
    out->verified = out->tls && !(trust && trust->insecure);
    out->connect_p50_ns = run_quantile(run, offsetof(struct load_loop, connects), 50);
    out->connect_p99_ns = run_quantile(run, offsetof(struct load_loop, connects), 99);
    out->tls_p50_ns = run_quantile(run, offsetof(struct load_loop, shakes), 50);
    out->tls_p99_ns = run_quantile(run, offsetof(struct load_loop, shakes), 99);
}

/* Times of the busiest loop, the rest of all. */
static void run_collect_client(struct load_run *run, struct sonde_load_result *out)
{
    struct sonde_load_client *c = &out->client;
    for (uint32_t i = 0; i < run->loop_count; i++) {
        const struct sonde_load_client *l = &run->loops[i].client;
        const int busier = i == 0 || l->cpu_ns - l->spun_ns > c->cpu_ns - c->spun_ns;
        if (busier) {
            c->cpu_ns = l->cpu_ns;
            c->wall_ns = l->wall_ns;
            c->spun_ns = l->spun_ns;
        }
        if (l->queued_ns > c->queued_ns) c->queued_ns = l->queued_ns;
        if (l->late_max_ns > c->late_max_ns) c->late_max_ns = l->late_max_ns;
        c->starved += l->starved;
        c->involuntary += l->involuntary;
        c->resent += l->resent;
        out->unsent += run->loops[i].unsent;
    }
    c->ready_delay_p99_ns = run_quantile(run, offsetof(struct load_loop, delays), 99);
}

static int run_collect(struct load_run *run, struct sonde_load_result *out)
{
    const int rc = run_collect_records(run, out);
    if (rc) return rc;
    run_collect_client(run, out);
    run_collect_setup(run, &out->setup);
    for (uint32_t i = 1; i < run->loop_count; i++) {
        load_gaps_merge(&run->loops[0].gaps, &run->loops[i].gaps);
    }
    out->gaps = run->loops[0].gaps;
    run->loops[0].gaps = (struct sonde_load_gaps){ 0 };
    return 0;
}

/* ---- The run --------------------------------------------------------------------------------- */

/* Until all loops have ended; meanwhile, how far they are. */
static void run_watch(struct load_run *run)
{
    const struct sonde_load_options *o = run->options;
    sonde_lock(&run->lock);
    while (run->loops_ended < run->loop_count) {
        const uint64_t now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
        const struct timespec until = sonde_clock_timespec(now_ns + 100000000u);
        if (!sonde_cond_timedwait(&run->ended, &run->lock, &until) || !o->progress) continue;
        sonde_unlock(&run->lock);
        uint64_t sent = 0, done = 0, failed = 0;
        for (uint32_t i = 0; i < run->loop_count; i++) {
            sent += __atomic_load_n(&run->loops[i].sent, __ATOMIC_RELAXED);
            done += __atomic_load_n(&run->loops[i].done, __ATOMIC_RELAXED);
            failed += __atomic_load_n(&run->loops[i].failed, __ATOMIC_RELAXED);
        }
        const uint64_t elapsed = now_ns > run->begin_ns ? now_ns - run->begin_ns : 0;
        const int stop = o->progress(o->progress_arg, elapsed, sent, done, failed);
        if (stop) __atomic_store_n(&run->stop, 1, __ATOMIC_RELAXED);
        sonde_lock(&run->lock);
    }
    sonde_unlock(&run->lock);
}

static int run_threads(struct load_run *run, uint32_t connections, struct sonde_err *err)
{
    int rc = 0;
    const uint32_t count = run->loop_count;
    /* Time for threads to start and for connections to be opened. */
    run->begin_ns = sonde_clock_ns(CLOCK_MONOTONIC) + 20000000u;
    for (uint32_t i = 0; i < count && !rc; i++) {
        const uint32_t places = connections / count + (i < connections % count);
        rc = load_loop_init(&run->loops[i], run, i, places);
        if (rc) return sonde_err_memory(err);
    }
    for (uint32_t i = 0; i < count && !rc; i++) {
        rc = sonde_thread_start(&run->loops[i].thread, "sonde-load", load_loop_run, &run->loops[i],
                                err);
        if (rc) {
            __atomic_store_n(&run->stop, 1, __ATOMIC_RELAXED);
            sonde_lock(&run->lock);
            run->loops_ended += count - i;
            sonde_unlock(&run->lock);
        }
    }
    run_watch(run);
    for (uint32_t i = 0; i < count; i++) {
        sonde_thread_join(&run->loops[i].thread);
        if (!rc && run->loops[i].error) {
            rc = run->loops[i].error == SONDE_ENOMEM
                     ? sonde_err_memory(err)
                     : sonde_err_set(err, run->loops[i].error, "the load broke off: %s",
                                     sonde_strerror(run->loops[i].error));
        }
    }
    return rc;
}

int sonde_load_run(const struct sonde_load_options *o, struct sonde_load_result *out,
                   struct sonde_err *err)
{
    assert(o && o->source && o->source->next && out);
    struct sonde_load_result result = { 0 };
    uint32_t connections = o->connections_max ? o->connections_max : CONNECTIONS_DEFAULT;
    uint32_t threads = o->threads ? o->threads : 1;
    int rc = run_raise_files(&connections, o->connections_max != 0, err);
    if (rc) return rc;
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    if (threads > connections) threads = connections;
    struct load_run *run = sonde__calloc(1, sizeof(*run));
    if (!run) return sonde_err_memory(err);
    run->options = o;
    run->loop_count = threads;
    run->answer_max = o->answer_max ? o->answer_max : 1ull << 30;
    rc = load_target_parse(o->url, &run->target, err);
    if (!rc) rc = load_tls_init(run, err);
    if (rc) goto free_run;
    rc = load_feed_init(run, err);
    if (rc) goto release_feed;
    run->loops = sonde__calloc(threads, sizeof(*run->loops));
    if (!run->loops) {
        rc = sonde_err_memory(err);
        goto release_feed;
    }
    rc = run_threads(run, connections, err);
    if (!rc && run_collect(run, &result)) rc = sonde_err_memory(err);
    if (!rc) *out = result;
    else sonde_load_result_release(&result);
    for (uint32_t i = 0; i < threads; i++) load_loop_release(&run->loops[i]);
    sonde__free(run->loops);
release_feed:
    load_feed_release(run);
    load_tls_release(run);
free_run:
    sonde__free(run);
    return rc;
}

void sonde_load_result_release(struct sonde_load_result *r)
{
    sonde__free(r->records);
    sonde_load_gaps_release(&r->gaps);
    *r = (struct sonde_load_result){ 0 };
}
