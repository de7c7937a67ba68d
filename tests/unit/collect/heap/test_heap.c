/* The agent's half of the heap profiler, on segments made by hand for processes that do nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/alloc.h"
#include "collect/heap/heap.h"
#include "sonde/sonde.h"
#include "unit/collect/segment/segment_build.h"

#define POOL_BYTES ((size_t)3 << 20)

struct process {                 /* a child that sleeps, and its segment */
    pid_t pid;
    char name[64];
    struct build b;
    struct sonde__heap *m;
    uint32_t module, load, serve, load_site, serve_site;
};

struct fixture {
    char dir[64];
    int dirfd;
    struct process p;
    struct sonde_heap_reader *reader;
    struct sonde_profile *profile;
};

static uint64_t monotonic(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void nap(void) { usleep(10000); }

/* ---- Processes ------------------------------------------------------------------------------- */

static pid_t sleeper(void)
{
    int ready[2];
    char c = 0;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        char *pool = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                          0);
        if (pool != MAP_FAILED) memset(pool, 1, POOL_BYTES);
        prctl(0x53564d41 /* PR_SET_VMA */, 0, pool, POOL_BYTES, "weights");
        if (write(ready[1], &c, 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end_process(struct process *p)
{
    if (p->pid <= 0) return;
    kill(p->pid, SIGKILL);
    assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
    p->pid = 0;
}

/* main calls load and serve, which both allocate. */
static void segment_init(struct process *p, uint32_t mode, const char *suffix)
{
    const uint64_t start = sonde__start_time((uint32_t)p->pid);
    assert_true(start > 0);
    snprintf(p->name, sizeof(p->name), "%d.%llu%s", (int)p->pid, (unsigned long long)start, suffix);
    build_init(&p->b, (uint32_t)p->pid, start, "prog");
    p->m = build_mem(&p->b, mode, 256);
    p->module = build_module(&p->b, 0x400000, 0x500000, 0x1000, "/no/such/file");
    const uint32_t begin = build_node(&p->b, 0, p->module, 0x401000);
    p->load = build_node(&p->b, begin, p->module, 0x402000);
    p->serve = build_node(&p->b, begin, p->module, 0x403000);
    p->load_site = build_site(&p->b, p->load);
    p->serve_site = build_site(&p->b, p->serve);
}

/* Whole from the start, as a program's. */
static void segment_write(const struct fixture *f, const struct process *p)
{
    build_write(&p->b, f->dirfd, "new", p->b.bytes);
    assert_int_equal(renameat(f->dirfd, "new", f->dirfd, p->name), 0);
}

static void segment_update(const struct fixture *f, const struct process *p)
{
    build_update(&p->b, f->dirfd, p->name);
}

static void fixture_init(struct fixture *f, uint32_t mode)
{
    memset(f, 0, sizeof(*f));
    strcpy(f->dir, "/tmp/sonde-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    f->p.pid = sleeper();
    segment_init(&f->p, mode, "");
}

static void fixture_start(struct fixture *f, struct sonde_heap_reader_options o)
{
    struct sonde_err err = { "" };
    o.pid = (uint32_t)f->p.pid;
    o.dir = f->dir;
    if (sonde_heap_reader_start(&o, &f->reader, &err) != 0) fail_msg("%s", err.text);
}

static void fixture_snapshot(struct fixture *f)
{
    sonde_profile_destroy(f->profile);
    f->profile = NULL;
    assert_int_equal(sonde_heap_reader_snapshot(f->reader, &f->profile), 0);
    assert_non_null(f->profile->heap);
}

static void fixture_stop(struct fixture *f)
{
    sonde_profile_destroy(f->profile);
    f->profile = NULL;
    assert_int_equal(sonde_heap_reader_stop(f->reader, &f->profile), 0);
    f->reader = NULL;
}

static void fixture_release(struct fixture *f)
{
    if (f->reader) fixture_stop(f);
    sonde_profile_destroy(f->profile);
    end_process(&f->p);
    build_free(&f->p.b);
    unlinkat(f->dirfd, f->p.name, 0);
    unlinkat(f->dirfd, "agent.lock", 0);
    close(f->dirfd);
    assert_int_equal(rmdir(f->dir), 0);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- Looking at profiles --------------------------------------------------------------------- */

static uint64_t sum_of(const struct sonde_profile *p, int kind, uint64_t address, uint64_t *count)
{
    uint64_t bytes = 0;
    *count = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        const uint64_t at = p->locations[p->stacks[s->stack].location].address;
        if (s->kind != kind || (address && at != address)) continue;
        bytes += s->weight;
        *count += s->count;
    }
    return bytes;
}

static void check_sum(const struct sonde_profile *p, int kind, uint64_t address, uint64_t bytes,
                      uint64_t count)
{
    uint64_t n;
    const uint64_t got = sum_of(p, kind, address, &n);
    if (got != bytes || n != count) {
        fail_msg("%s at %llx: %llu bytes, %llu times; wanted %llu, %llu",
                 sonde_sample_kind_name((enum sonde_sample_kind)kind), (unsigned long long)address,
                 (unsigned long long)got, (unsigned long long)n, (unsigned long long)bytes,
                 (unsigned long long)count);
    }
}

static const struct sonde_heap_site *site_at(const struct sonde_profile *p, uint64_t address)
{
    for (uint32_t i = 0; i < p->heap->site_count; i++) {
        const struct sonde_heap_site *s = &p->heap->sites[i];
        if (p->locations[p->stacks[s->stack].location].address == address) return s;
    }
    fail_msg("no site at %llx", (unsigned long long)address);
    return NULL;
}

static void check_amount(struct sonde_heap_amount a, double value)
{
    assert_true(a.value == value && a.low == value && a.high == value);
}

/* ---- Exact ----------------------------------------------------------------------------------- */

static void test_full(void **state)
{
    struct fixture f;
    struct sonde_heap_reader_status st;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    build_allocs(&f.p.b, 0, f.p.load_site, 10, 0, 1000);
    build_allocs(&f.p.b, 1, f.p.serve_site, 100, 60, 50);
    build_allocs(&f.p.b, 2, f.p.serve_site, 1, 1, 7);
    struct sonde__heap_row *r = build_row(&f.p.b, 1, f.p.serve_site);
    r->temps = 5;
    r->temp_bytes = 250;
    r->lifetime_us = 61 * 2000000ull;
    r->mapped_bytes = 100;
    f.p.m->arena = (struct sonde__heap_arena){ 1, 2, 30000, 12000, 18000, 4000, 3000, 2 };
    f.p.m->truncated = 3;
    f.p.m->unmatched = 4;
    f.p.m->failed = 5;
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    fixture_snapshot(&f);
    const struct sonde_profile *p = f.profile;
    const struct sonde_heap *h = p->heap;
    check_sum(p, SONDE_SAMPLE_LIVE, 0x402000, 10000, 10);
    check_sum(p, SONDE_SAMPLE_LIVE, 0x403000, 2000, 40);
    check_sum(p, SONDE_SAMPLE_ALLOC, 0x403000, 5007, 101);
    check_sum(p, SONDE_SAMPLE_TEMPORARY, 0, 250, 5);
    check_sum(p, SONDE_SAMPLE_PEAK, 0, 12000, 50); /* never more than now */
    check_amount(h->live_bytes, 12000);
    check_amount(h->live_count, 50);
    check_amount(h->alloc_bytes, 15007);
    check_amount(h->alloc_count, 111);
    assert_int_equal(h->peak_bytes, 12000);
    assert_int_equal(h->site_count, 2);
    const struct sonde_heap_site *s = site_at(p, 0x403000);
    assert_true(s == &h->sites[1]);
    check_amount(s->live_bytes, 2000);
    check_amount(s->alloc_count, 101);
    assert_true(fabs(s->lifetime_s - 2) < 1e-9 && h->sites[0].lifetime_s < 0);
    assert_true(s->temp_count == 5 && s->mapped_bytes == 100 && s->lost_bytes == -1);
    assert_int_equal(s->verdict, SONDE_HEAP_UNKNOWN);
    /* The stack: main, serve; in the module that the segment says. */
    const uint32_t caller = p->stacks[s->stack].parent;
    assert_int_equal(p->locations[p->stacks[caller].location].address, 0x401000);
    assert_int_equal(p->stacks[caller].parent, 0);
    const struct sonde_profile_module *m =
        &p->modules[p->locations[p->stacks[s->stack].location].module];
    assert_string_equal(sonde_profile_str(p, m->path), "/no/such/file");
    assert_int_equal(m->start, 0x400000);
    assert_int_equal(m->offset, 0x1000);
    assert_true(h->full && !h->ended && !h->scanned && h->arena_known);
    assert_int_equal(h->arena_trim, 3000);
    assert_int_equal(h->truncated * 100 + h->unmatched * 10 + h->failed, 345);
    assert_true(h->size_class[sonde__heap_size_class(50)] == 100);
    assert_string_equal(sonde_profile_str(p, h->allocator), "libc.so.6");
    assert_string_equal(sonde_profile_str(p, p->engine), "heap");
    assert_true(h->rss_bytes > POOL_BYTES && h->rss_peak_bytes >= h->rss_bytes);
    assert_true(h->point_count > 0 && h->points[0].live_bytes == 12000);

    sonde_heap_reader_status(f.reader, &st);
    assert_true(st.running);
    assert_int_equal(st.live_bytes, 12000);
    assert_int_equal(st.alloc_count, 111);
    assert_int_equal(st.sites, 2);
    assert_string_equal(st.note, "");
    end_process(&f.p);
    fixture_stop(&f);
    assert_true(f.profile->heap->ended);
    check_sum(f.profile, SONDE_SAMPLE_LIVE, 0, 12000, 50); /* left at the end */
    check_amount(f.profile->heap->live_bytes, 12000);
    assert_int_equal(faccessat(f.dirfd, f.p.name, F_OK, 0), -1); /* taken away */
    fixture_release(&f);
}

static void test_peak_and_scan(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    build_allocs(&f.p.b, 0, f.p.load_site, 10, 9, 1000);
    build_allocs(&f.p.b, 0, f.p.serve_site, 10, 5, 100);
    *build_peak(&f.p.b, 1, f.p.load_site) = (struct sonde__heap_peak){ 8, 8000, 0, 0 };
    *build_peak(&f.p.b, 1, f.p.serve_site) = (struct sonde__heap_peak){ 2, 200, 0, 0 };
    f.p.m->peak_seq = 1;
    f.p.m->peak_ticks = monotonic();
    f.p.m->scanned = 1;
    build_row(&f.p.b, 0, f.p.serve_site)->lost = 3;
    build_row(&f.p.b, 0, f.p.serve_site)->lost_bytes = 300;
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    fixture_snapshot(&f);
    check_sum(f.profile, SONDE_SAMPLE_PEAK, 0x402000, 8000, 8);
    check_sum(f.profile, SONDE_SAMPLE_PEAK, 0x403000, 200, 2);
    assert_int_equal(f.profile->heap->peak_bytes, 8200);
    const uint64_t now = (uint64_t)time(NULL) * 1000000000u;
    assert_in_range(f.profile->heap->peak_ns, now - 60000000000u, now + 60000000000u);
    assert_true(f.profile->heap->scanned);
    assert_true(site_at(f.profile, 0x403000)->lost_bytes == 300);
    assert_true(site_at(f.profile, 0x403000)->lost_count == 3);
    assert_true(site_at(f.profile, 0x402000)->lost_bytes == 0);
    assert_true(site_at(f.profile, 0x403000)->peak_bytes == 200);
    fixture_release(&f);
}

/* ---- Times and threads ----------------------------------------------------------------------- */

static void test_events(void **state)
{
    struct fixture f;
    const uint64_t now = monotonic();
    uint64_t count, by_main = 0, by_other = 0, last = 0;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    build_allocs(&f.p.b, 0, f.p.load_site, 7, 0, 1000);
    build_allocs(&f.p.b, 0, f.p.serve_site, 1001, 1001, 64);
    for (uint32_t i = 0; i < 10; i++) {
        build_event(&f.p.b, SONDE__HEAP_ALLOC, now + i, i % 4 ? 71 : 72, 64, f.p.serve);
        build_event(&f.p.b, SONDE__HEAP_FREE, now + i, 71, 64, f.p.serve);
    }
    build_event(&f.p.b, SONDE__HEAP_ALLOC, now, 71, 64, 9999); /* of no node that there is */
    build_mem_thread(&f.p.b, 72, 64 * 300, 300, "ended");
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    fixture_snapshot(&f);
    const struct sonde_profile *p = f.profile;
    check_sum(p, SONDE_SAMPLE_ALLOC, 0x402000, 7000, 7);
    check_sum(p, SONDE_SAMPLE_ALLOC, 0x403000, 64 * 1001, 1001);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind != SONDE_SAMPLE_ALLOC) continue;
        if (p->locations[p->stacks[s->stack].location].address == 0x402000) {
            assert_int_equal(s->time_ns, 0); /* nobody has told of any */
            continue;
        }
        assert_true(s->time_ns > last);
        last = s->time_ns;
        assert_in_range(s->count, 99, 102);
        if (p->threads[s->thread].tid == 71) by_main += s->weight;
        if (p->threads[s->thread].tid == 72) by_other += s->weight;
    }
    assert_int_equal(by_main + by_other, 64 * 1001);
    assert_in_range(by_main, 64 * 690, 64 * 710);
    assert_in_range(last, (uint64_t)time(NULL) * 1000000000u - 60000000000u,
                    (uint64_t)time(NULL) * 1000000000u + 60000000000u);
    sum_of(p, SONDE_SAMPLE_ALLOC, 0, &count);
    assert_int_equal(count, 1008);
    /* Of the one that has ended it is known; the rest is the other's. */
    assert_int_equal(p->heap->thread_count, 2);
    assert_int_equal(p->threads[p->heap->threads[0].thread].tid, 71);
    assert_int_equal(p->heap->threads[0].alloc_bytes, 7000 + 64 * 701);
    assert_int_equal(p->heap->threads[0].alloc_count, 7 + 701);
    assert_int_equal(p->heap->threads[1].alloc_count, 300);
    assert_string_equal(sonde_profile_str(p, p->threads[p->heap->threads[1].thread].name), "ended");
    fixture_release(&f);
}

/* A thread that has had a lane to itself. */
static void test_lanes(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    build_allocs(&f.p.b, 1, f.p.load_site, 7, 0, 1000);
    build_allocs(&f.p.b, 2, f.p.serve_site, 3, 0, 10);
    f.p.m->lane[1].tid = (uint32_t)f.p.pid;
    f.p.m->lane[1].claims = 1;
    f.p.m->lane[2].tid = 99999;
    f.p.m->lane[2].claims = 2;
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    fixture_snapshot(&f);
    const struct sonde_heap *h = f.profile->heap;
    assert_int_equal(h->thread_count, 1); /* of the other nothing is known for certain */
    assert_int_equal(f.profile->threads[h->threads[0].thread].tid, f.p.pid);
    assert_int_equal(h->threads[0].alloc_bytes, 7000);
    assert_int_equal(h->threads[0].alloc_count, 7);
    fixture_release(&f);
}

/* ---- Estimates ------------------------------------------------------------------------------- */

/* As libsonde_preload weighs samples. */
static void build_samples(struct process *p, uint32_t site, uint64_t samples, uint64_t freed,
                          double size)
{
    const double chance = -expm1(-(size + 1) / (double)p->m->mean);
    const double var = (1 - chance) / (chance * chance);
    struct sonde__heap_row *r = build_row(&p->b, 0, site);
    r->allocs += samples * (uint64_t)(65536 / chance + 0.5);
    r->alloc_bytes += samples * (uint64_t)(size / chance + 0.5);
    r->alloc_bytes_var += samples * (uint64_t)(var * size * size / 4096 + 0.5);
    r->alloc_count_var += samples * (uint64_t)(var + 0.5);
    r->samples += samples;
    r->frees += freed * (uint64_t)(65536 / chance + 0.5);
    r->free_bytes += freed * (uint64_t)(size / chance + 0.5);
    r->free_bytes_var += freed * (uint64_t)(var * size * size / 4096 + 0.5);
    r->free_count_var += freed * (uint64_t)(var + 0.5);
    r->samples_freed += freed;
}

static void test_sampled(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SONDE__HEAP_SAMPLED);
    build_samples(&f.p, f.p.load_site, 100, 0, 1024);
    build_samples(&f.p, f.p.serve_site, 50, 50, 64 << 20); /* all of these are seen */
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    fixture_snapshot(&f);
    const struct sonde_heap_site *load = site_at(f.profile, 0x402000);
    const struct sonde_heap_site *serve = site_at(f.profile, 0x403000);
    const double expected = 100 * 524288.0; /* nearly */
    assert_true(fabs(load->live_bytes.value / expected - 1) < 0.01);
    assert_true(fabs(load->live_count.value / (expected / 1024) - 1) < 0.01);
    /* 100 samples: about a tenth, twice. */
    assert_true(load->live_bytes.low > 0.75 * expected && load->live_bytes.low < 0.85 * expected);
    assert_true(load->live_bytes.high > 1.17 * expected && load->live_bytes.high < 1.25 * expected);
    assert_true(load->alloc_count.low > 0.75 * expected / 1024);
    check_amount(serve->live_bytes, 0);
    check_amount(serve->alloc_bytes, 50.0 * (64 << 20));
    check_amount(serve->alloc_count, 50);
    const struct sonde_heap *h = f.profile->heap;
    assert_true(!h->full && h->live_bytes.low < h->live_bytes.value &&
                h->live_bytes.value < h->live_bytes.high);
    uint64_t n;
    const uint64_t live = sum_of(f.profile, SONDE_SAMPLE_LIVE, 0, &n);
    assert_true(live == (uint64_t)(h->live_bytes.value + 0.5));
    fixture_release(&f);
}

/* ---- Over time ------------------------------------------------------------------------------- */

static void test_growth(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    build_allocs(&f.p.b, 0, f.p.serve_site, 1, 0, 5);
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    const struct sonde_heap *h = NULL;
    for (int i = 0; i < 3000; i++) {
        build_allocs(&f.p.b, 0, f.p.load_site, 1, 0, 1000);
        segment_update(&f, &f.p);
        fixture_snapshot(&f);
        h = f.profile->heap;
        /* One reading may stand for many ticks, when the thread gets no CPU. */
        if (h->growth.count >= 8 && h->point_count >= 4) break;
        nap();
    }
    assert_in_range(h->growth.count, 8, SONDE_CURVE_POINTS);
    assert_true(h->tick_s >= 1.0 / 16 && h->tick0_ns > 0 && h->point_count >= 4);
    const struct sonde_curve *g = &site_at(f.profile, 0x402000)->growth;
    assert_int_equal(g->first + g->count, h->growth.first + h->growth.count);
    for (uint32_t i = 1; i < g->count; i++) assert_true(g->value[i] >= g->value[i - 1]);
    assert_true(g->value[g->count - 1] > g->value[0]);
    /* What stays the same does. */
    g = &site_at(f.profile, 0x403000)->growth;
    assert_int_equal(g->count, h->growth.count);
    for (uint32_t i = 0; i < g->count; i++) assert_true(g->value[i] == 5);
    for (uint32_t i = 1; i < h->point_count; i++) {
        assert_true(h->points[i].time_ns > h->points[i - 1].time_ns);
        assert_true(h->points[i].live_bytes >= h->points[i - 1].live_bytes);
    }
    fixture_release(&f);
}

static void test_mark(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    build_allocs(&f.p.b, 0, f.p.load_site, 10, 0, 1000);
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    sonde_heap_reader_mark(f.reader);
    build_allocs(&f.p.b, 0, f.p.load_site, 5, 1, 1000);
    build_allocs(&f.p.b, 0, f.p.serve_site, 1, 0, 10);
    segment_update(&f, &f.p);
    for (int ended = 0; ended <= 1; ended++) {
        if (ended) {
            end_process(&f.p);
            fixture_stop(&f);
        } else {
            fixture_snapshot(&f);
        }
        assert_true(f.profile->heap->mark_ns > 0);
        const struct sonde_heap_site *s = site_at(f.profile, 0x402000);
        assert_true(s->mark_bytes == 10000 && s->mark_count == 10 && s->grown_bytes == 4000);
        s = site_at(f.profile, 0x403000);
        assert_true(s->mark_bytes == 0 && s->grown_bytes == 10);
    }
    fixture_release(&f);
}

/* ---- Processes ------------------------------------------------------------------------------- */

/* What the first image had in use is gone with it; what it allocated was allocated. */
static void test_exec(void **state)
{
    struct fixture f;
    struct process second = { 0 };
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    build_allocs(&f.p.b, 0, f.p.load_site, 10, 0, 1000);
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    fixture_snapshot(&f);
    check_sum(f.profile, SONDE_SAMPLE_LIVE, 0, 10000, 10);
    second.pid = f.p.pid;
    segment_init(&second, SONDE__HEAP_FULL, ".1");
    build_allocs(&second.b, 0, second.serve_site, 3, 1, 10);
    segment_write(&f, &second);
    for (int ended = 0; ended <= 1; ended++) {
        if (ended) {
            end_process(&f.p);
            fixture_stop(&f);
        } else {
            fixture_snapshot(&f);
        }
        check_sum(f.profile, SONDE_SAMPLE_LIVE, 0, 20, 2);
        check_sum(f.profile, SONDE_SAMPLE_ALLOC, 0, 10030, 13);
        check_amount(f.profile->heap->alloc_bytes, 10030);
        assert_int_equal(f.profile->heap->ended, ended);
    }
    build_free(&second.b);
    fixture_release(&f);
}

static void test_children(void **state)
{
    (void)state;
    for (int children = 0; children <= 1; children++) {
        struct fixture f;
        struct process child = { 0 };
        struct sonde_heap_reader_status st;
        fixture_init(&f, SONDE__HEAP_FULL);
        build_allocs(&f.p.b, 0, f.p.load_site, 10, 0, 1000);
        segment_write(&f, &f.p);
        child.pid = sleeper();
        segment_init(&child, SONDE__HEAP_FULL, "");
        build_allocs(&child.b, 0, child.load_site, 2, 0, 100);
        build_allocs(&child.b, 0, child.serve_site, 1, 0, 5);
        segment_write(&f, &child);
        fixture_start(&f, (struct sonde_heap_reader_options){ .children = children });
        fixture_snapshot(&f);
        /* The same code at the same place is the same site. */
        assert_int_equal(f.profile->heap->site_count, children ? 2 : 1);
        check_sum(f.profile, SONDE_SAMPLE_LIVE, 0x402000, children ? 10200 : 10000,
                  children ? 12 : 10);
        end_process(&child);
        sonde_heap_reader_status(f.reader, &st);
        assert_int_equal(st.live_bytes, 10000); /* what it had is nobody's now */
        assert_int_equal(st.alloc_bytes, children ? 10205 : 10000);
        fixture_snapshot(&f);
        check_sum(f.profile, SONDE_SAMPLE_LIVE, 0, 10000, 10);
        check_sum(f.profile, SONDE_SAMPLE_ALLOC, 0, children ? 10205 : 10000, children ? 13 : 10);
        fixture_snapshot(&f); /* once more: nothing is counted twice */
        check_sum(f.profile, SONDE_SAMPLE_ALLOC, 0, children ? 10205 : 10000, children ? 13 : 10);
        end_process(&f.p);
        fixture_stop(&f);
        /* At the end it is what each process had in use at its own. */
        check_sum(f.profile, SONDE_SAMPLE_LIVE, 0, children ? 10205 : 10000, children ? 13 : 10);
        assert_true(f.profile->heap->ended);
        unlinkat(f.dirfd, child.name, 0);
        build_free(&child.b);
        fixture_release(&f);
    }
}

static void test_pools(void **state)
{
    struct fixture f;
    static const char *const labels[] = { "pool", NULL }, *const kv[] = { "kv", NULL };
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    const uint32_t family =
        build_family(&f.p.b, SONDE_GAUGE, "sonde_memory_pool_bytes", 1, labels, NULL);
    build_gauge(&f.p.b, build_series(&f.p.b, family, kv), 4096);
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    int named = 0, own = 0;
    fixture_snapshot(&f);
    const struct sonde_heap *h = f.profile->heap;
    for (uint32_t i = 0; i < h->pool_count; i++) {
        const char *name = sonde_profile_str(f.profile, h->pools[i].name);
        own += !strcmp(name, "kv") && !h->pools[i].mapped && h->pools[i].bytes == 4096;
        named += !strcmp(name, "[anon:weights]") && h->pools[i].rss_bytes == POOL_BYTES;
    }
    assert_int_equal(own, 1);
    assert_true(h->pool_count > 1);
    print_message("mappings are named: %s\n", named ? "yes" : "this kernel does not do that");
    fixture_release(&f);
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

static void test_truncated_stacks(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    const uint32_t cut = build_node(&f.p.b, SONDE__HEAP_NODE_TRUNCATED, f.p.module, 0x404000);
    uint32_t deep = build_node(&f.p.b, 0, f.p.module, 0x405000);
    for (uint32_t i = 0; i < 1500; i++) deep = build_node(&f.p.b, deep, f.p.module, 0x406000);
    build_allocs(&f.p.b, 0, build_site(&f.p.b, cut), 1, 0, 11);
    build_allocs(&f.p.b, 0, build_site(&f.p.b, deep), 1, 0, 22);
    build_allocs(&f.p.b, 0, build_site(&f.p.b, SONDE__HEAP_NODE_TRUNCATED), 1, 0, 33);
    build_allocs(&f.p.b, 0, f.p.load_site, 1, 0, 44);
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    fixture_snapshot(&f);
    const struct sonde_profile *p = f.profile;
    check_sum(p, SONDE_SAMPLE_LIVE, 0, 110, 4);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        assert_int_equal((s->flags & SONDE_SAMPLE_TRUNCATED) != 0, s->weight != 44);
    }
    assert_int_equal(p->stacks[site_at(p, 0x404000)->stack].parent, 0);
    fixture_release(&f);
}

static void damage_nodes(struct process *p) { build_node_at(&p->b, p->load)->parent = p->load; }
static void damage_rows(struct process *p) { p->m->lane[0].rows = 1 << 30; }
static void damage_modules(struct process *p) { build_module_at(&p->b, p->module)->end = 0; }
static void damage_counts(struct process *p) { p->m->site_count = 1; }
static void damage_ring(struct process *p) { p->m->reserve = UINT64_MAX; }

static void test_damaged(void **state)
{
    static void (*const damages[])(struct process *) = { damage_nodes, damage_rows, damage_modules,
                                                         damage_counts, damage_ring };
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        for (int late = 0; late <= 1; late++) {
            struct fixture f;
            struct sonde_heap_reader_status st;
            fixture_init(&f, SONDE__HEAP_FULL);
            build_allocs(&f.p.b, 0, f.p.load_site, 10, 0, 1000);
            if (!late) damages[i](&f.p);
            segment_write(&f, &f.p);
            fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
            if (late) {
                sonde_heap_reader_status(f.reader, &st);
                damages[i](&f.p);
                segment_update(&f, &f.p);
            }
            fixture_snapshot(&f);
            sonde_heap_reader_status(f.reader, &st);
            /* Modules and nodes are read once; sites that are fewer are what they are at first. */
            const int harmless = (damages[i] == damage_modules && late) ||
                                 (damages[i] == damage_counts && !late);
            if (!harmless) {
                assert_non_null(strstr(st.note, "cannot be read any more: damaged"));
                assert_int_equal(f.profile->samples_count, 0);
            }
            fixture_release(&f);
        }
    }
}

static void test_notes(void **state)
{
    struct fixture f;
    struct sonde_heap_reader_status st;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    f.p.m->refused = 11;
    f.p.m->reentrant = 22;
    f.p.m->scanned = 2;
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    for (int ended = 0; ended <= 1; ended++) {
        if (ended) end_process(&f.p);
        sonde_heap_reader_status(f.reader, &st);
        assert_non_null(strstr(st.note, "11 allocations were not recorded: there was no memory"));
        assert_non_null(strstr(st.note, "the scan for lost memory was given up"));
        assert_true(strlen(st.note) < SONDE_HEAP_NOTE_MAX);
    }
    fixture_release(&f);
}

/* More stacks than there is room for: the large ones are kept. */
static void test_little_memory(void **state)
{
    struct fixture f;
    struct sonde_heap_reader_status st;
    enum { NODES = 4000 };
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    f.p.m->site_count = 1;
    for (uint32_t i = 0; i < NODES; i++) {
        const uint32_t node = build_node(&f.p.b, 2, f.p.module, 0x410000 + i);
        build_allocs(&f.p.b, 0, build_site(&f.p.b, node), 1, 0, 1000 + i);
    }
    segment_write(&f, &f.p);
    /* As little as possible. */
    fixture_start(&f, (struct sonde_heap_reader_options){ .bytes_max = 1 });
    end_process(&f.p);
    sonde_heap_reader_status(f.reader, &st);
    fixture_stop(&f);
    const struct sonde_heap *h = f.profile->heap;
    if (h->site_count < NODES) assert_non_null(strstr(st.note, "for lack of memory"));
    assert_in_range(h->site_count, 1000, NODES);
    for (uint32_t i = 0; i <= 1000 + NODES - 1 - 4096; i++) { /* by powers of two, then sorted */
        assert_true(h->sites[i].live_bytes.value == 1000 + NODES - 1 - i);
    }
    assert_true(f.profile->bytes <= f.profile->bytes_max);
    fixture_release(&f);
}

static void test_failed_allocations(void **state)
{
    struct fixture f;
    int rc = SONDE_ENOMEM;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    build_allocs(&f.p.b, 0, f.p.load_site, 10, 0, 1000);
    build_event(&f.p.b, SONDE__HEAP_ALLOC, monotonic(), 71, 1000, f.p.load);
    segment_write(&f, &f.p);
    fixture_start(&f, (struct sonde_heap_reader_options){ 0 });
    fixture_snapshot(&f);
    for (uint64_t nth = 1, good = 0; good < 5 && nth < 1000; nth++) {
        struct sonde_profile *p = NULL;
        sonde__alloc_fail_nth(nth); /* also the thread's, which tries again */
        rc = sonde_heap_reader_snapshot(f.reader, &p);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        assert_int_equal(p != NULL, rc == 0);
        good = rc == 0 ? good + 1 : 0;
        sonde_profile_destroy(p);
    }
    assert_int_equal(rc, 0);
    fixture_snapshot(&f);
    check_sum(f.profile, SONDE_SAMPLE_ALLOC, 0, 10000, 10);
    fixture_release(&f);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static void test_environment(void **state)
{
    struct fixture f;
    struct sonde_err err = { "" };
    char library[128];
    size_t size;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    snprintf(library, sizeof(library), "%s/libsonde_preload.so", f.dir);
    close(open(library, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    setenv("SONDE_PRELOAD", library, 1);
    const struct sonde_heap_reader_options o = { .pid = (uint32_t)f.p.pid, .dir = f.dir, .full = 1,
                                                 .mean = 4096, .scan = 1, .seed = 77 };
    if (sonde_heap_reader_start_on_exec(&o, &f.reader, &err) != 0) fail_msg("%s", err.text);
    const char *env = sonde_heap_reader_environment(f.reader, &size);
    assert_int_equal(strncmp(env, "LD_PRELOAD=/", 12), 0);
    const char *heap = env + strlen(env) + 1;
    assert_int_equal(strncmp(heap, "SONDE_HEAP=session=", 19), 0);
    assert_string_equal(strchr(heap, ','),
                        ",mode=full,mean=4096,depth=128,children=0,scan=1,seed=77");
    assert_int_equal(heap + strlen(heap) + 1 - env, size);

    /* A segment of another session is none of its business; the right one is. */
    struct sonde_heap_reader_status st;
    segment_write(&f, &f.p);
    sonde_heap_reader_status(f.reader, &st);
    assert_true(!st.running && strstr(st.note, "has not loaded libsonde_preload"));
    f.p.m->session = strtoull(heap + 19, NULL, 16);
    segment_update(&f, &f.p);
    sonde_heap_reader_status(f.reader, &st);
    assert_true(st.running);
    assert_string_equal(st.note, "");
    unsetenv("SONDE_PRELOAD");
    fixture_stop(&f);
    unlink(library);
    fixture_release(&f);
}

static void refused(struct sonde_heap_reader_options o, int rc, const char *text)
{
    struct sonde_heap_reader *m = NULL;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_heap_reader_start(&o, &m, &err), rc);
    assert_null(m);
    if (!strstr(err.text, text)) fail_msg("\"%s\" is not in \"%s\"", text, err.text);
}

static void test_refusals(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    const uint32_t pid = (uint32_t)f.p.pid;
    refused((struct sonde_heap_reader_options){ .dir = f.dir }, SONDE_EINVAL, "no process");
    refused((struct sonde_heap_reader_options){ .pid = pid, .dir = f.dir, .mean = 1ull << 50 },
            SONDE_EINVAL, "bytes between samples");
    refused((struct sonde_heap_reader_options){ .pid = pid, .dir = f.dir, .depth_max = 5000 },
            SONDE_EINVAL, "5000 frames");
    refused((struct sonde_heap_reader_options){ .pid = pid, .dir = f.dir }, SONDE_EOFF,
            "was not started with the heap profiler");
    f.p.b.h->heap = 0; /* recorded, but without a heap profile */
    segment_write(&f, &f.p);
    refused((struct sonde_heap_reader_options){ .pid = pid, .dir = f.dir }, SONDE_EOFF,
            "was not started with the heap profiler");
    setenv("SONDE_PRELOAD", "/nowhere/at/all.so", 1);
    struct sonde_heap_reader *m = NULL;
    struct sonde_err err = { "" };
    const struct sonde_heap_reader_options o = { .pid = pid, .dir = f.dir };
    assert_int_equal(sonde_heap_reader_start_on_exec(&o, &m, &err), SONDE_EOFF);
    assert_non_null(strstr(err.text, "/nowhere/at/all.so"));
    unsetenv("SONDE_PRELOAD");
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),       cmocka_unit_test(test_peak_and_scan),
        cmocka_unit_test(test_events),     cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_sampled),    cmocka_unit_test(test_growth),
        cmocka_unit_test(test_mark),       cmocka_unit_test(test_exec),
        cmocka_unit_test(test_children),   cmocka_unit_test(test_pools),
        cmocka_unit_test(test_truncated_stacks), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_notes),      cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_failed_allocations), cmocka_unit_test(test_environment),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
