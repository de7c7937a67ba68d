/* The timer engine, agent and libsonde_preload together, on programs whose profile is known and on
 * programs that are hard to sample from within. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collect/cpu/timer.h"
#include "sonde/sonde.h"
#include "unit/collect/preload_host.h"

static int under_way; /* tests that began and did not come to their end: none, or failed */

/* ---- Running programs ------------------------------------------------------------------------ */

static struct sonde_cpu *host_start(struct burn *b, const char *program, const char *const *args,
                                    struct sonde_cpu_options o)
{
    struct sonde_cpu *c = NULL;
    struct sonde_err err = { "" };
    size_t size;
    host_fork(b, program, args);
    o.pid = (uint32_t)b->pid;
    o.engine = SONDE_CPU_TIMER;
    o.dir = host_dir;
    if (sonde_cpu_start_on_exec(&o, &c, &err)) fail_msg("%s", err.text);
    const char *env = sonde_cpu_environment(c, &size);
    assert_true(size > 0);
    host_go(b, env, size);
    return c;
}

static struct sonde_profile *host_profile(struct burn *b, const char *program,
                                          const char *const *args, struct sonde_cpu_options o,
                                          struct sonde_cpu_status *st)
{
    struct sonde_profile *p = NULL;
    struct sonde_cpu *c = host_start(b, program, args, o);
    burn_end(b);
    sonde_cpu_status(c, st); /* drains what is left */
    assert_int_equal(sonde_cpu_stop(c, &p), 0);
    print_message("%s %s: %llu samples, %u records, %llu lost, %llu truncated, %.1f Hz%s%s\n",
                  program, args && args[0] ? args[0] : "", (unsigned long long)st->samples,
                  p->samples_count,
                  (unsigned long long)st->lost, (unsigned long long)st->truncated, p->achieved_hz,
                  st->note[0] ? "; " : "", st->note);
    assert_string_equal(sonde_profile_str(p, p->engine), "timer");
    assert_int_equal(st->lost, 0);
    return p;
}

#define NEED_LIBRARY()                                                                         \
    do {                                                                                       \
        if (!host_library[0]) skip();                                                          \
        under_way++;                                                                           \
    } while (0)

static void check_complete(const struct sonde_profile *p)
{
    assert_true(burn_count(p, SONDE_SAMPLE_CPU, 0) > 0);
    burn_check_complete(p);
}

/* A virtual machine whose ticks are missing for long makes samples late as well. */
static int says_nothing(const char *note) { return !note[0] || strstr(note, "came late"); }

static int has_thread(const struct sonde_profile *p, const char *name)
{
    for (uint32_t i = 1; i < p->threads_count; i++) {
        if (!strcmp(sonde_profile_str(p, p->threads[i].name), name)) return 1;
    }
    return 0;
}

static double weight_of_module(const struct sonde_profile *p, const char *name)
{
    double sum = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const uint32_t location = p->stacks[p->samples[i].stack].location;
        const struct sonde_profile_module *m = &p->modules[p->locations[location].module];
        if (strstr(sonde_profile_str(p, m->path), name)) sum += (double)p->samples[i].weight;
    }
    return sum;
}

/* ---- What is known --------------------------------------------------------------------------- */

static int shares(int which)
{
    static const char *const args[] = { "shares", NULL };
    struct burn b;
    struct sonde_cpu_status st;
    (void)which;
    struct sonde_profile *p =
        host_profile(&b, "timer_host", args, (struct sonde_cpu_options){ 0 }, &st);
    assert_int_equal(b.status, 0);
    const int good =
        burn_shares_are_true(&b, p) & burn_near("achieved", p->achieved_hz / 1000, 1, 0.05);
    check_complete(p);
    assert_true(says_nothing(st.note));
    assert_string_equal(sonde_profile_str(p, p->program), "timer_host");
    assert_non_null(strstr(sonde_profile_str(p, p->command), "shares"));
    assert_true(has_thread(p, "posix") && has_thread(p, "c11"));
    assert_non_null(strstr(b.text, "result 7\n"));
    sonde_profile_destroy(p);
    return good;
}

static void test_shares(void **state)
{
    (void)state;
    NEED_LIBRARY();
    burn_some_run(shares, 0);
    under_way--;
}

static void test_deep(void **state)
{
    static const struct { const char *depth; uint32_t depth_max; } cases[] = {
        { "100", 0 }, { "300", 0 }, { "600", 1024 }, { "3000", 0 }, { "300", 16 },
    };
    (void)state;
    NEED_LIBRARY();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const args[] = { "deep", cases[i].depth, NULL };
        struct burn b;
        struct sonde_cpu_status st;
        struct sonde_profile *p = host_profile(
            &b, "timer_host", args, (struct sonde_cpu_options){ .depth_max = cases[i].depth_max },
            &st);
        const uint32_t max = cases[i].depth_max ? cases[i].depth_max : 128;
        uint32_t deepest = 0, gaps = 0;
        check_complete(p);
        for (uint32_t k = 0; k < p->samples_count; k++) {
            uint32_t depth = 0;
            for (uint32_t at = p->samples[k].stack; at; at = p->stacks[at].parent) {
                const struct sonde_profile_location *l = &p->locations[p->stacks[at].location];
                gaps += l->line_count && !strcmp(sonde_profile_str(
                    p, p->functions[p->lines[l->line].function].name), "[frames left out]");
                depth++;
            }
            if (depth > deepest) deepest = depth;
        }
        assert_true(deepest <= max + 1);
        assert_true(deepest >= (max < 100 ? max : 100));
        assert_int_equal(gaps > 0, (uint32_t)atoi(cases[i].depth) > max);
        sonde_profile_destroy(p);
    }
    under_way--;
}

static void test_plugin(void **state)
{
    char plugin[4352];
    struct burn b;
    struct sonde_cpu_status st;
    (void)state;
    NEED_LIBRARY();
    burn_path("burn_plugin.so", plugin, sizeof(plugin));
    const char *const args[] = { "--dlopen", "2000", plugin, NULL };
    struct sonde_profile *p = host_profile(&b, "burn", args, (struct sonde_cpu_options){ 0 }, &st);
    assert_non_null(strstr(b.text, "done plugins 2000\n"));
    /* Loading takes its time too, on some machines more than burning in it. */
    assert_true(weight_of_module(p, "burn_plugin.so") >
                0.2 * burn_weight(&b, p, SONDE_SAMPLE_CPU, NULL));
    check_complete(p);
    sonde_profile_destroy(p);
    under_way--;
}

/* ---- Processes ------------------------------------------------------------------------------- */

/* Threads that a sample was taken of. */
static uint32_t sampled_threads(const struct sonde_profile *p)
{
    uint32_t n = 0;
    for (uint32_t t = 1; t < p->threads_count; t++) {
        uint32_t i = 0;
        while (i < p->samples_count && p->samples[i].thread != t) i++;
        n += i < p->samples_count;
    }
    return n;
}

static int exec_self(int which)
{
    static const char *const args[] = { "exec", "20", NULL };
    struct burn b;
    struct sonde_cpu_status st;
    (void)which;
    struct sonde_profile *p =
        host_profile(&b, "timer_host", args, (struct sonde_cpu_options){ 0 }, &st);
    assert_string_equal(b.text, "exec 0\n");
    /* The first thread is the same one in all of the 21 images, and each has another besides. */
    const int good = sampled_threads(p) > 2;
    check_complete(p);
    sonde_profile_destroy(p);
    return good;
}

static void test_exec(void **state)
{
    (void)state;
    NEED_LIBRARY();
    burn_some_run(exec_self, 0);
    under_way--;
}

static void test_children(void **state)
{
    static const char *const args[] = { "fork", "40", NULL };
    (void)state;
    NEED_LIBRARY();
    for (int children = 0; children <= 1; children++) {
        struct burn b;
        struct sonde_cpu_status st;
        struct sonde_profile *p = host_profile(
            &b, "timer_host", args, (struct sonde_cpu_options){ .children = children }, &st);
        uint32_t others = 0;
        assert_string_equal(b.text, "children 40\n");
        for (uint32_t i = 1; i < p->threads_count; i++) {
            others += p->threads[i].pid != (uint32_t)b.pid;
        }
        assert_int_equal(others > 0, children);
        sonde_profile_destroy(p);
    }
    under_way--;
}

/* ---- What cannot be done is said ------------------------------------------------------------- */

static void test_notes(void **state)
{
    static const struct { const char *mode, *output, *note; int sampled; } cases[] = {
        { "own", "handled 50\n", "handles the signal", 1 },
        { "prof", "profiled\n", "", 1 },
        { "blocked", "unblocked\n", "came late", 1 },
        { "tiny-stack", "handled 20\n", "alternate signal stack", 1 },
        { "alt-stack", "handled 50\n", "", 1 },
        { "few-timers", "joined 64\n", "no more timers", 1 },
        { "storm", "joined 5000\n", "", 1 },
        { "cancel", "cancelled 50\n", "", 1 },
    };
    (void)state;
    NEED_LIBRARY();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const args[] = { cases[i].mode, NULL };
        struct burn b;
        struct sonde_cpu_status st;
        struct sonde_profile *p =
            host_profile(&b, "timer_host", args, (struct sonde_cpu_options){ 0 }, &st);
        assert_int_equal(b.status, 0);
        assert_string_equal(b.text, cases[i].output);
        if (cases[i].note[0]) assert_non_null(strstr(st.note, cases[i].note));
        else assert_true(says_nothing(st.note));
        check_complete(p);
        sonde_profile_destroy(p);
    }
    under_way--;
}

static uint32_t deepest_of(const struct sonde_profile *p)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        uint32_t depth = 0;
        for (uint32_t s = p->samples[i].stack; s; s = p->stacks[s].parent) depth++;
        if (depth > deepest) deepest = depth;
    }
    return deepest;
}

/* In code without tables and without a frame pointer the caller is found where nothing else is on
 * the stack. Where something is it may be missing: nobody says that such a stack is complete. */
static void test_bare(void **state)
{
    static const char *const args[] = { "bare", NULL }, *const leaf[] = { "leaf", NULL };
    (void)state;
    NEED_LIBRARY();
    struct burn b;
    struct sonde_cpu_status st;
    struct sonde_profile *whole =
        host_profile(&b, "timer_host", leaf, (struct sonde_cpu_options){ 0 }, &st);
    check_complete(whole);
    /* _start, libc's two, main, mode_leaf, leaf_caller, leaf_spin */
    assert_true(deepest_of(whole) >= 7);
    sonde_profile_destroy(whole);
    struct sonde_profile *p =
        host_profile(&b, "timer_host", args, (struct sonde_cpu_options){ 0 }, &st);
    uint64_t cut = 0, all = 0;
    assert_string_equal(b.text, "spun\n");
    for (uint32_t i = 0; i < p->samples_count; i++) {
        all += p->samples[i].count;
        if (p->samples[i].flags & SONDE_SAMPLE_TRUNCATED) cut += p->samples[i].count;
    }
    assert_true(all > 50);
    assert_true(cut >= all - all / 10);
    sonde_profile_destroy(p);
    under_way--;
}

/* A program whose parts do not lie side by side. */
static void test_apart(void **state)
{
    static const char *const args[] = { "deep", NULL };
    (void)state;
    NEED_LIBRARY();
    struct burn b;
    struct sonde_cpu_status st;
    struct sonde_profile *p =
        host_profile(&b, "timer_host_apart", args, (struct sonde_cpu_options){ 0 }, &st);
    check_complete(p);
    sonde_profile_destroy(p);
    under_way--;
}

static void test_ignored_signals(void **state)
{
    static const char *const args[] = { "longjmp", NULL };
    (void)state;
    NEED_LIBRARY();
    for (host_ignores = 1; host_ignores <= 2; host_ignores++) {
        struct burn b;
        struct sonde_cpu_status st;
        struct sonde_profile *p =
            host_profile(&b, "timer_host", args, (struct sonde_cpu_options){ 0 }, &st);
        assert_string_equal(b.text, "jumped 500\n");
        assert_int_equal(p->samples_count > 0, host_ignores == 1);
        if (host_ignores == 2) assert_non_null(strstr(st.note, "ignored"));
        sonde_profile_destroy(p);
    }
    host_ignores = 0;
    under_way--;
}

static void test_static(void **state)
{
    struct burn b;
    struct sonde_cpu_status st;
    (void)state;
    NEED_LIBRARY();
    struct sonde_profile *p =
        host_profile(&b, "unwind_steps_static", NULL, (struct sonde_cpu_options){ 0 }, &st);
    assert_non_null(strstr(st.note, "statically"));
    assert_int_equal(p->samples_count, 0);
    sonde_profile_destroy(p);
    under_way--;
}

static void refused(struct sonde_cpu_options o, int on_exec, const char *text)
{
    struct sonde_cpu *c = NULL;
    struct sonde_err err = { "" };
    o.engine = SONDE_CPU_TIMER;
    o.dir = host_dir;
    if (!o.pid) o.pid = (uint32_t)getpid();
    const int rc = on_exec ? sonde_cpu_start_on_exec(&o, &c, &err) : sonde_cpu_start(&o, &c, &err);
    assert_int_equal(rc, SONDE_EOFF);
    assert_null(c);
    if (!strstr(err.text, text)) fail_msg("\"%s\" is not in \"%s\"", text, err.text);
}

static void test_refusals(void **state)
{
    (void)state;
    NEED_LIBRARY();
    refused((struct sonde_cpu_options){ .off_cpu = 1 }, 1, "needs perf events");
    refused((struct sonde_cpu_options){ 0 }, 0, "was not started with libsonde_preload");
    setenv("SONDE_PRELOAD", "/nowhere/at/all.so", 1);
    refused((struct sonde_cpu_options){ 0 }, 1, "/nowhere/at/all.so");

    char odd[128];
    snprintf(odd, sizeof(odd), "%s/a b", host_dir);
    const int fd = open(odd, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    close(fd);
    setenv("SONDE_PRELOAD", odd, 1);
    refused((struct sonde_cpu_options){ 0 }, 1, "' '");
    unlink(odd);
    setenv("SONDE_PRELOAD", host_library, 1);
    under_way--;
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void test_environment(void **state)
{
    char env[SONDE_TIMER_ENV_MAX], wanted[SONDE_TIMER_ENV_MAX];
    struct sonde_err err;
    size_t size;
    (void)state;
    NEED_LIBRARY();
    setenv("LD_PRELOAD", "libm.so.6", 1);
    const int rc = sonde_timer_environment(0xabcd, 1000000, 64, 1, env, &size, &err);
    unsetenv("LD_PRELOAD");
    assert_int_equal(rc, 0);
    char real[4096];
    assert_non_null(realpath(host_library, real));
    snprintf(wanted, sizeof(wanted), "LD_PRELOAD=%s:libm.so.6", real);
    assert_string_equal(env, wanted);
    assert_string_equal(env + strlen(env) + 1,
                        "SONDE_SAMPLER=session=000000000000abcd,period=1000000,depth=64,"
                        "children=1");
    assert_int_equal(size, strlen(env) + 1 + strlen(env + strlen(env) + 1) + 1);
    under_way--;
}

/* Another agent looks at a process that is being sampled; the first takes a snapshot. */
static void test_attach(void **state)
{
    static const char *const args[] = { "shares", NULL };
    struct burn b;
    struct sonde_profile *early = NULL, *p = NULL;
    struct sonde_cpu *second = NULL;
    struct sonde_err err = { "" };
    (void)state;
    NEED_LIBRARY();
    struct sonde_cpu *c = host_start(&b, "timer_host", args, (struct sonde_cpu_options){ 0 });
    assert_true(burn_read_until(&b, "range alpha"));
    const struct sonde_cpu_options o = { .pid = (uint32_t)b.pid, .engine = SONDE_CPU_TIMER,
                                         .dir = host_dir };
    for (int i = 0; i < 1000; i++) { /* until the first sample is there */
        sonde_profile_destroy(early);
        early = NULL;
        assert_int_equal(sonde_cpu_snapshot(c, 0, &early), 0);
        if (early->samples_count) break;
        usleep(5000);
    }
    assert_true(early->samples_count > 0);
    if (sonde_cpu_start(&o, &second, &err)) fail_msg("%s", err.text);
    burn_end(&b);
    assert_int_equal(sonde_cpu_stop(second, &p), 0);
    assert_true(p->samples_count > 0);
    check_complete(p);
    sonde_profile_destroy(p);
    assert_int_equal(sonde_cpu_stop(c, &p), 0);
    assert_true(p->samples_count > early->samples_count);
    sonde_profile_destroy(p);
    sonde_profile_destroy(early);
    under_way--;
}

/* A test that fails leaves everything as it is. */
static void test_nothing_left(void **state)
{
    if (under_way) skip();
    host_nothing_left(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),    cmocka_unit_test(test_deep),
        cmocka_unit_test(test_plugin),    cmocka_unit_test(test_exec),
        cmocka_unit_test(test_children),  cmocka_unit_test(test_notes),
        cmocka_unit_test(test_bare),      cmocka_unit_test(test_apart),
        cmocka_unit_test(test_ignored_signals), cmocka_unit_test(test_static),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_environment),
        cmocka_unit_test(test_attach),    cmocka_unit_test(test_nothing_left),
    };
    return cmocka_run_group_tests(tests, host_set_up, host_tear_down);
}
