/* The heap profiler, agent and libsonde_preload together, on a program that knows what it
 * allocates: exact in full mode, within the stated bounds in sampled mode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "collect/heap/heap.h"
#include "sonde/sonde.h"
#include "unit/collect/preload_host.h"

#define NEED_LIBRARY()                                                                         \
    do {                                                                                       \
        if (!host_library[0]) skip();                                                          \
    } while (0)

/* ---- Running programs ------------------------------------------------------------------------ */

static struct sonde_heap_reader *host_start(struct burn *b,
                                            const char *program, const char *const *args,
                                            struct sonde_heap_reader_options o)
{
    struct sonde_heap_reader *m = NULL;
    struct sonde_err err = { "" };
    size_t size;
    host_fork(b, program, args);
    o.pid = (uint32_t)b->pid;
    o.dir = host_dir;
    if (sonde_heap_reader_start_on_exec(&o, &m, &err)) fail_msg("%s", err.text);
    const char *env = sonde_heap_reader_environment(m, &size);
    host_go(b, env, size);
    return m;
}

static struct sonde_profile *host_profile(
    struct burn *b, const char *program, const char *const *args,
    struct sonde_heap_reader_options o, struct sonde_heap_reader_status *st)
{
    struct sonde_profile *p = NULL;
    struct sonde_heap_reader *m = host_start(b, program, args, o);
    burn_end(b);
    sonde_heap_reader_status(m, st);
    assert_int_equal(sonde_heap_reader_stop(m, &p), 0);
    return p;
}

static const struct sonde_heap_reader_options full = { .full = 1 };

/* ---- The program's own truth ----------------------------------------------------------------- */

struct truth { unsigned long start, stop, allocs, bytes, frees, freed; };

static int truth_of(const struct burn *b, const char *name, struct truth *out)
{
    char start[64];
    snprintf(start, sizeof(start), "site %s ", name);
    const char *at = strstr(b->text, start);
    if (!at) return 0;
    assert_int_equal(sscanf(at + strlen(start), "0x%lx 0x%lx %lu %lu %lu %lu", &out->start,
                            &out->stop, &out->allocs, &out->bytes, &out->frees, &out->freed), 6);
    return 1;
}

/* 1 if a frame of the stack is in there. */
static int passes(const struct sonde_profile *p, uint32_t stack, const struct truth *t)
{
    for (; stack; stack = p->stacks[stack].parent) {
        const uint64_t ip = p->locations[p->stacks[stack].location].address;
        if (ip >= t->start && ip < t->stop) return 1;
    }
    return 0;
}

static uint64_t weight_of(const struct sonde_profile *p, int kind, const struct truth *t,
                          uint64_t *count)
{
    uint64_t sum = 0;
    *count = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind != kind || (t && !passes(p, s->stack, t))) continue;
        sum += s->weight;
        *count += s->count;
    }
    return sum;
}

static const char *const names[] = { "one", "two", "three", "four", "early", "deep", "tls" };
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void check_exact(const struct burn *b, const struct sonde_profile *p)
{
    uint64_t count;
    for (int i = 0; i < NAMES; i++) {
        struct truth t;
        assert_true(truth_of(b, names[i], &t));
        const uint64_t bytes = weight_of(p, SONDE_SAMPLE_ALLOC, &t, &count);
        if (bytes != t.bytes || count != t.allocs) {
            fail_msg("%s: %llu bytes in %llu allocations, and it says %lu in %lu", names[i],
                     (unsigned long long)bytes, (unsigned long long)count, t.bytes, t.allocs);
        }
        const uint64_t live = weight_of(p, SONDE_SAMPLE_LIVE, &t, &count);
        if (live != t.bytes - t.freed || count != t.allocs - t.frees) {
            fail_msg("%s: %llu bytes in use in %llu blocks, and it says %lu in %lu", names[i],
                     (unsigned long long)live, (unsigned long long)count, t.bytes - t.freed,
                     t.allocs - t.frees);
        }
    }
}

/* What is said in several ways is the same. */
static void check_sums(const struct sonde_profile *p)
{
    const struct sonde_heap *h = p->heap;
    uint64_t count;
    double live = 0, threads = 0, sizes = 0;
    assert_non_null(h);
    assert_true((double)weight_of(p, SONDE_SAMPLE_ALLOC, NULL, &count) == h->alloc_bytes.value);
    assert_true((double)count == h->alloc_count.value);
    assert_true((double)weight_of(p, SONDE_SAMPLE_LIVE, NULL, &count) == h->live_bytes.value);
    assert_true((double)count == h->live_count.value);
    assert_int_equal(weight_of(p, SONDE_SAMPLE_PEAK, NULL, &count), h->peak_bytes);
    assert_true((double)h->peak_bytes >= h->live_bytes.value);
    for (uint32_t i = 0; i < h->site_count; i++) live += h->sites[i].live_bytes.value;
    for (uint32_t i = 0; i < h->thread_count; i++) threads += (double)h->threads[i].alloc_bytes;
    for (uint32_t i = 0; i < SONDE_HEAP_SIZES; i++) sizes += h->size_class[i];
    assert_true(live == h->live_bytes.value && sizes == h->alloc_count.value);
    if (fabs(threads - h->alloc_bytes.value) > 1 + 0.01 * h->alloc_bytes.value) {
        fail_msg("threads have allocated %g of %g bytes", threads, h->alloc_bytes.value);
    }
}

static void test_full(void **state)
{
    static const struct { const char *mode, *n; } cases[] = {
        { "basic", "2000" }, { "deep", "60" }, { "threads", "2000" }, { "crowd", "100" },
        { "known", "3000" },
    };
    (void)state;
    NEED_LIBRARY();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const args[] = { cases[i].mode, cases[i].n, NULL };
        struct burn b;
        struct sonde_heap_reader_status st;
        struct sonde_profile *p = host_profile(&b, "mem_host", args, full, &st);
        print_message("%s: %u sites, %u stacks, %u threads, %llu bytes, peak %llu, %s\n",
                      cases[i].mode, p->heap->site_count, p->stacks_count, p->heap->thread_count,
                      (unsigned long long)p->heap->alloc_bytes.value,
                      (unsigned long long)p->heap->peak_bytes, st.note[0] ? st.note : "no note");
        assert_int_equal(b.status, 0);
        check_exact(&b, p);
        check_sums(p);
        assert_true(p->heap->full && p->heap->ended);
        assert_non_null(strstr(sonde_profile_str(p, p->heap->allocator), "libc"));
        assert_string_equal(sonde_profile_str(p, p->program), "mem_host");
        assert_int_equal(p->heap->refused, 0);
        sonde_profile_destroy(p);
    }
}

/* It grows to n × 10,000 bytes and shrinks again. */
static void test_peak(void **state)
{
    static const char *const args[] = { "hill", "800", NULL };
    struct burn b;
    struct truth t;
    struct sonde_heap_reader_status st;
    uint64_t count;
    (void)state;
    NEED_LIBRARY();
    struct sonde_profile *p = host_profile(&b, "mem_host", args, full, &st);
    assert_true(truth_of(&b, "one", &t));
    const uint64_t peak = weight_of(p, SONDE_SAMPLE_PEAK, &t, &count);
    assert_in_range(peak, 8000000 - 8000000 / 40, 8000000);
    assert_int_equal(peak / count, 10000);
    assert_int_equal(weight_of(p, SONDE_SAMPLE_LIVE, &t, &count), 0);
    assert_true(p->heap->peak_ns >= p->start_ns && p->heap->peak_ns <= p->end_ns);
    assert_true(st.peak_bytes > peak - peak / 20); /* it runs behind rows a little */
    assert_true(p->heap->growth.count > 0 && p->heap->point_count > 1);
    /* The curve begins with the process, so that rates are of all that was allocated. */
    assert_int_equal(p->heap->points[0].alloc_count, 0);
    assert_true(p->heap->points[0].time_ns < p->heap->points[1].time_ns);
    sonde_profile_destroy(p);
}

/* ---- Estimates ------------------------------------------------------------------------------- */

static int within(struct sonde_heap_amount a, double truth)
{
    return a.low <= truth && truth <= a.high;
}

/* The amounts of a place, whose stacks may be several. */
static struct sonde_heap_amount add(struct sonde_heap_amount a, struct sonde_heap_amount b)
{
    return (struct sonde_heap_amount){ a.value + b.value, a.low + b.low, a.high + b.high };
}

static void test_sampled(void **state)
{
    static const char *const args[] = { "known", "2000", NULL };
    static const char *const places[] = { "one", "two", "deep" };
    enum { RUNS = 15 };
    struct burn b;
    struct sonde_heap_reader_status st;
    uint32_t asked = 0, held = 0;
    double sum = 0, sum_truth = 0;
    (void)state;
    NEED_LIBRARY();
    struct sonde_profile *exact = host_profile(&b, "mem_host", args, full, &st);
    const double total = exact->heap->alloc_bytes.value, live = exact->heap->live_bytes.value;
    sonde_profile_destroy(exact);
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        const struct sonde_heap_reader_options o = { .mean = 8192, .seed = seed };
        struct sonde_profile *p = host_profile(&b, "mem_host", args, o, &st);
        const struct sonde_heap *h = p->heap;
        assert_true(!h->full && h->mean == 8192 && h->ended);
        held += (uint32_t)(within(h->alloc_bytes, total) + within(h->live_bytes, live));
        asked += 2;
        sum += h->alloc_bytes.value;
        sum_truth += total;
        for (int k = 0; k < 3; k++) {
            struct truth t;
            struct sonde_heap_amount bytes = { 0 }, count = { 0 }, in_use = { 0 };
            assert_true(truth_of(&b, places[k], &t));
            for (uint32_t i = 0; i < h->site_count; i++) {
                if (!passes(p, h->sites[i].stack, &t)) continue;
                bytes = add(bytes, h->sites[i].alloc_bytes);
                count = add(count, h->sites[i].alloc_count);
                in_use = add(in_use, h->sites[i].live_bytes);
            }
            held += (uint32_t)(within(bytes, (double)t.bytes) + within(count, (double)t.allocs) +
                               within(in_use, (double)(t.bytes - t.freed)));
            asked += 3;
        }
        sonde_profile_destroy(p);
    }
    print_message("%u of %u within bounds, %.1f %% off on average\n", held, asked,
                  100 * (sum / sum_truth - 1));
    assert_true(held * 100 >= asked * 85);
    assert_true(fabs(sum / sum_truth - 1) < 0.05);
}

/* ---- Processes ------------------------------------------------------------------------------- */

static void test_exec(void **state)
{
    static const char *const args[] = { "exec", "500", NULL };
    struct burn b;
    struct sonde_heap_reader_status st;
    (void)state;
    NEED_LIBRARY();
    struct sonde_profile *p = host_profile(&b, "mem_host", args, full, &st);
    struct truth t;
    uint64_t count;
    assert_true(truth_of(&b, "one", &t));
    /* Only what the last image says: what the first one had is not in use any more. */
    assert_int_equal(weight_of(p, SONDE_SAMPLE_LIVE, &t, &count), t.bytes - t.freed);
    assert_int_equal(weight_of(p, SONDE_SAMPLE_ALLOC, &t, &count), t.bytes);
    assert_true(p->heap->alloc_count.value > 0 && p->heap->ended);
    sonde_profile_destroy(p);
}

static void test_children(void **state)
{
    static const char *const args[] = { "fork", "8", NULL };
    double without = 0;
    (void)state;
    NEED_LIBRARY();
    for (int children = 0; children <= 1; children++) {
        struct burn b;
        struct sonde_heap_reader_status st;
        const struct sonde_heap_reader_options o = { .full = 1, .children = children };
        struct sonde_profile *p = host_profile(&b, "mem_host", args, o, &st);
        uint32_t others = 0;
        assert_non_null(strstr(b.text, "children 8\n"));
        for (uint32_t i = 1; i < p->threads_count; i++) {
            others += p->threads[i].pid != (uint32_t)b.pid;
        }
        check_sums(p);
        assert_true(children ? others > 0 : others == 0);
        if (!children) without = p->heap->live_count.value;
        /* Each child leaves a block, and has those of its parent from before no more. */
        else assert_true(p->heap->live_count.value > 0 && without > 0);
        sonde_profile_destroy(p);
    }
}

/* Killed, with a second agent looking on. */
static void test_killed(void **state)
{
    static const char *const args[] = { "wait", "1000", NULL };
    struct burn b;
    struct sonde_profile *p = NULL, *same = NULL;
    struct sonde_heap_reader *second = NULL;
    struct sonde_err err = { "" };
    (void)state;
    NEED_LIBRARY();
    struct sonde_heap_reader *m = host_start(&b, "mem_host", args, full);
    assert_true(burn_read_until(&b, "waiting"));
    assert_int_equal(sonde_heap_reader_snapshot(m, &p), 0);
    const double bytes = p->heap->alloc_bytes.value;
    assert_true(p->heap->live_bytes.value >= 100000 && !p->heap->ended);
    sonde_profile_destroy(p);
    const struct sonde_heap_reader_options o = { .pid = (uint32_t)b.pid, .dir = host_dir };
    if (sonde_heap_reader_start(&o, &second, &err) != 0) fail_msg("%s", err.text);
    kill(b.pid, SIGKILL);
    burn_end(&b);
    assert_int_equal(sonde_heap_reader_stop(m, &p), 0);
    assert_int_equal(sonde_heap_reader_stop(second, &same), 0);
    assert_true(p->heap->ended && p->heap->alloc_bytes.value == bytes);
    assert_true(same->heap->ended && same->heap->alloc_bytes.value == bytes);
    sonde_profile_destroy(p);
    sonde_profile_destroy(same);
}

/* The segment that is there, as a path. */
static void host_segment(char *out, size_t size)
{
    struct sonde_segment_name id;
    DIR *d = opendir(host_dir);
    const struct dirent *e;
    assert_non_null(d);
    while ((e = readdir(d)) != NULL && sonde_segment_name_parse(e->d_name, &id) != 0) continue;
    assert_non_null(e);
    snprintf(out, size, "%s/%s", host_dir, e->d_name);
    closedir(d);
}

/* Somebody cuts the segment short: the thread that reads it gives it up, and the agent goes on. */
static void test_truncated(void **state)
{
    static const char *const args[] = { "wait", "1000", NULL };
    const struct timespec pause = { .tv_nsec = 200000000 }; /* the thread looks four times */
    struct burn b;
    struct sonde_profile *p = NULL;
    struct sonde_heap_reader_status st = { .running = 0 };
    char path[512];
    (void)state;
    NEED_LIBRARY();
    struct sonde_heap_reader *m = host_start(&b, "mem_host", args, full);
    assert_true(burn_read_until(&b, "waiting"));
    for (; !st.running; sonde_heap_reader_status(m, &st)) nanosleep(&pause, NULL);
    host_segment(path, sizeof(path));
    kill(b.pid, SIGSTOP); /* or it would die of it first */
    assert_int_equal(truncate(path, 4096), 0);
    do {
        nanosleep(&pause, NULL);
        sonde_heap_reader_status(m, &st);
    } while (!strstr(st.note, "cannot be read any more"));
    kill(b.pid, SIGKILL);
    burn_end(&b);
    assert_int_equal(sonde_heap_reader_stop(m, &p), 0);
    sonde_profile_destroy(p);
    unlink(path);
}

/* Code that is loaded and unloaded again and again keeps its name. */
static void test_plugin(void **state)
{
    char plugin[4352];
    struct burn b;
    struct sonde_heap_reader_status st;
    uint64_t bytes = 0;
    (void)state;
    NEED_LIBRARY();
    burn_path("burn_mem.so", plugin, sizeof(plugin));
    const char *const args[] = { "plugin", "40", plugin, NULL };
    struct sonde_profile *p = host_profile(&b, "mem_host", args, full, &st);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (p->samples[i].kind != SONDE_SAMPLE_ALLOC) continue;
        for (uint32_t at = p->samples[i].stack; at; at = p->stacks[at].parent) {
            const uint32_t module = p->locations[p->stacks[at].location].module;
            if (!strstr(sonde_profile_str(p, p->modules[module].path), "burn_mem.so")) continue;
            bytes += p->samples[i].weight;
            break;
        }
    }
    assert_int_equal(bytes, 40 * (333 + 77)); /* when it is asked to, and when it is loaded */
    sonde_profile_destroy(p);
}

static void test_static(void **state)
{
    struct burn b;
    struct sonde_heap_reader_status st;
    (void)state;
    NEED_LIBRARY();
    struct sonde_profile *p = host_profile(&b, "unwind_steps_static", NULL, full, &st);
    assert_non_null(strstr(st.note, "statically"));
    assert_true(!st.running && p->samples_count == 0 && p->heap && p->heap->site_count == 0);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),     cmocka_unit_test(test_peak),
        cmocka_unit_test(test_sampled),  cmocka_unit_test(test_exec),
        cmocka_unit_test(test_children), cmocka_unit_test(test_killed),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_plugin),   cmocka_unit_test(test_static),
        cmocka_unit_test(host_nothing_left),
    };
    return cmocka_run_group_tests(tests, host_set_up, host_tear_down);
}
