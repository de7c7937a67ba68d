/* perf script's text: headers of all shapes, frames of all shapes, and lines that are neither. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "profile/format.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"

static const struct {
    const char *name;
    const char *line;
    const char *comm;
    uint32_t pid, tid;
    uint64_t time_ns, weight;
    int kind;
} headers[] = {
    { "everything", "prog 4242/4243 [001] 1234.567890: 1000000 cpu-clock:u:", "prog", 4242, 4243,
      1234567890000, 1000000, SONDE_SAMPLE_CPU },
    { "only a tid", "java 25607 4794564.109216: cycles:", "java", 0, 25607, 4794564109216000, 1,
      SONDE_SAMPLE_OTHER },
    { "comm with spaces and numbers", "V8 Worker 2 1.5 12/13 1.000000001: 250 cycles:P:",
      "V8 Worker 2 1.5", 12, 13, 1000000001, 1, SONDE_SAMPLE_OTHER },
    { "aligned to the right", "      swapper     0 [000]  1.5: 1 task-clock:ppp: ", "swapper", 0, 0,
      1500000000, 1, SONDE_SAMPLE_CPU },
    { "clock without a period", "x 1/2 3.25: cpu-clock: ", "x", 1, 2, 3250000000, 1,
      SONDE_SAMPLE_OTHER },
    { "tracepoint with text", "x 1/2 [003] 3.25: 1 sched:sched_switch: prev_comm=a ==> b", "x", 1,
      2, 3250000000, 1, SONDE_SAMPLE_OTHER },
    { "no time", "java  3244 cpu-clock: ", "java", 0, 3244, 0, 1, SONDE_SAMPLE_OTHER },
    { "no time, all else", "my prog 12/13 [002] 500 cpu-clock:u: ", "my prog", 12, 13, 0, 500,
      SONDE_SAMPLE_CPU },
    { "a probe's address", "x 1/2 [000] 3.25: probe_libc:malloc: (7fa9195fe260)", "x", 1, 2,
      3250000000, 1, SONDE_SAMPLE_OTHER },
    { "an event of a PMU", "x 1/2 3.25: 77 cpu_core/cycles,period=0x9/u:", "x", 1, 2, 3250000000, 1,
      SONDE_SAMPLE_OTHER },
};

static int read_text(const char *text, struct sonde_profile **p, struct sonde_err *err)
{
    assert_int_equal(sonde_profile_create(0, p), 0);
    return sonde_format_find("perf-script")->read(text, strlen(text), NULL, *p, err);
}

static void test_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        char text[300];
        snprintf(text, sizeof(text), "# comment\n%s\n\t  401000 main+0x10 (/bin/prog)\n\n",
                 headers[i].line);
        const int rc = read_text(text, &p, &err);
        if (rc || p->samples_count != 1) print_error("%s: %s\n", headers[i].name, err.text);
        assert_int_equal(rc, 0);
        assert_ptr_equal(sonde_format_guess(text, strlen(text)), sonde_format_find("perf-script"));
        assert_int_equal(p->samples_count, 1);
        const struct sonde_profile_sample *s = &p->samples[0];
        const struct sonde_profile_thread *t = &p->threads[s->thread];
        assert_string_equal(sonde_profile_str(p, t->name), headers[i].comm);
        assert_int_equal(t->pid, headers[i].pid);
        assert_int_equal(t->tid, headers[i].tid);
        assert_int_equal(s->time_ns, headers[i].time_ns);
        assert_int_equal(s->weight, headers[i].weight);
        assert_int_equal(s->kind, headers[i].kind);
        sonde_profile_destroy(p);
    }
}

/* -F chooses any fields: what perf 6.1 prints, of "burn", 22760, with a call chain. */
static const struct {
    const char *fields, *line, *comm;
    uint32_t pid, tid;
    uint64_t time_ns, weight;
    int kind;
} sparse[] = {
    { "ip,sym", "", "", 0, 0, 0, 1, SONDE_SAMPLE_OTHER },
    { "comm", "burn ", "burn", 0, 0, 0, 1, SONDE_SAMPLE_OTHER },
    { "comm with a number", "V8 Worker 2 ", "V8 Worker 2", 0, 0, 0, 1, SONDE_SAMPLE_OTHER },
    { "comm,tid", "burn 22760 ", "burn", 0, 22760, 0, 1, SONDE_SAMPLE_OTHER },
    { "comm,pid,tid", "V8 Worker 2   127/128   ", "V8 Worker 2", 127, 128, 0, 1,
      SONDE_SAMPLE_OTHER },
    { "time", " 1942.292599: ", "", 0, 0, 1942292599000, 1, SONDE_SAMPLE_OTHER },
    { "tid,time", "22760  1942.292599: ", "", 0, 22760, 1942292599000, 1, SONDE_SAMPLE_OTHER },
    { "tid,cpu", "   60 [001] ", "", 0, 60, 0, 1, SONDE_SAMPLE_OTHER },
    { "comm,time", "burn  1942.292599: ", "burn", 0, 0, 1942292599000, 1, SONDE_SAMPLE_OTHER },
    { "event", "cpu-clock: ", "", 0, 0, 0, 1, SONDE_SAMPLE_OTHER },
    { "pid,event", "   60 cpu-clock: ", "", 0, 60, 0, 1, SONDE_SAMPLE_OTHER },
    { "period", "   5025125 ", "", 0, 0, 0, 1, SONDE_SAMPLE_OTHER },
    { "period,event", "    250000 cpu-clock: ", "", 0, 0, 0, 250000, SONDE_SAMPLE_CPU },
    { "comm,tid,period", "burn 22760     250000 ", "burn", 0, 22760, 0, 1, SONDE_SAMPLE_OTHER },
    { "time,period,event", " 3.25:     250000 task-clock:u: ", "", 0, 0, 3250000000, 250000,
      SONDE_SAMPLE_CPU },
    { "comm,tid,misc", "burn 22760 U      ", "burn", 0, 22760, 0, 1, SONDE_SAMPLE_OTHER },
    { "+misc", "burn 22760 U      1942.292599:    5025125 cpu-clock: ", "burn", 0, 22760,
      1942292599000, 5025125, SONDE_SAMPLE_CPU },
    { "+misc,+cpu", "burn 1/2 [000] KM     3.25:    7 cpu-clock: ", "burn", 1, 2, 3250000000, 7,
      SONDE_SAMPLE_CPU },
};

static void test_any_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(sparse) / sizeof(sparse[0]); i++) {
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        struct sonde_import how = { .format = NULL };
        struct sonde_buf b;
        char text[600];
        int n = 0;
        for (int k = 0; k < 2; k++) {
            n += snprintf(text + n, sizeof(text) - (size_t)n, "%s\n\t            1153 a\n"
                          "\t            1172 b\n\t            119e main\n\n", sparse[i].line);
        }
        assert_int_equal(sonde_profile_create(0, &p), 0);
        const int rc = sonde_format_read(text, (size_t)n, "x", &how, p, &err);
        if (rc || how.note.text[0] || p->samples_count != 2) {
            print_error("%s: %s %s\n", sparse[i].fields, err.text, how.note.text);
        }
        assert_int_equal(rc, 0);
        assert_string_equal(how.note.text, "");
        const struct sonde_profile_sample *s = &p->samples[0];
        const struct sonde_profile_thread *t = &p->threads[s->thread];
        assert_string_equal(sonde_profile_str(p, t->name), sparse[i].comm);
        assert_int_equal(t->pid, sparse[i].pid);
        assert_int_equal(t->tid, sparse[i].tid);
        assert_int_equal(s->time_ns, sparse[i].time_ns);
        assert_int_equal(p->weights[sparse[i].kind], 2 * sparse[i].weight);
        const struct sonde_profile_filter any = { .kind = -1 };
        sonde_buf_init(&b, 1 << 16);
        assert_int_equal(sonde_format_find("folded")->write(p, &any, &b, NULL), 0);
        assert_memory_equal(b.data, "main;b;a ", 9);
        sonde_buf_release(&b);
        sonde_profile_destroy(p);
    }
}

/* Registers, instructions and records of other kinds are neither frames nor mistakes. */
static void test_other_lines(void **state)
{
    (void)state;
    static const char text[] =
        "b     0     0.000000: PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x1206448) @ 0]: x "
        "[k]_t\n"
        "b 27206  1942.280503: PERF_RECORD_COMM exec: b:27206/27206\n"
        "PERF_RECORD_MMAP2 22760/22760: [0x5646f269e000(0x1000) @ 0x1000 fe:00 99 22]: r-xp /b\n"
        "b 27206  2764.464969:     250000 cpu-clock: \n\t           14f02 f+0x122 (/b)\n"
        " ABI:2    AX:0x4000121    IP:0x7f7d9e6e4f02 \n"
        "b 27206  2764.464970:     250000 cpu-clock: \n\t           14f02 f+0x122 (/b)\n"
        " ilen: 2 insn: 89 c2\n"
        "b 27206  2764.464971:     250000 cpu-clock: \n\t           14f02 f+0x122 (/b)\n"
        " insn: 89\n";
    const struct sonde_profile_filter any = { .kind = -1 };
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    struct sonde_import how = { .format = NULL };
    struct sonde_buf b;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_format_read(text, sizeof(text) - 1, "x", &how, p, &err), 0);
    assert_string_equal(how.note.text, "");
    assert_int_equal(p->weights[SONDE_SAMPLE_CPU], 750000);
    sonde_buf_init(&b, 1 << 16);
    assert_int_equal(sonde_format_find("folded")->write(p, &any, &b, NULL), 0);
    assert_int_equal(b.len, strlen("f 3\n"));
    assert_memory_equal(b.data, "f 3\n", b.len);
    sonde_buf_release(&b);
    sonde_profile_destroy(p);
}

#define HEADER "prog 1/1 1.0: 10 cpu-clock:\n"

static const struct {
    const char *name, *frames, *folded;
} stacks[] = {
    { "innermost first", "\t1 g+0x1 (/b)\n\t2 f+0x2f (/b)\n\t3 main+0x0 (/b)\n", "main;f;g 1\n" },
    { "unknown symbol", "\t401010 [unknown] (/usr/lib/x.so)\n\t2 main (/b)\n",
      "main;x.so+0x401010 1\n" },
    { "unknown module", "\t401010 [unknown] ([unknown])\n", "0x401010 1\n" },
    { "inlined", "\t9 in (inlined)\n\t9 mid (inlined)\n\t9 out+0x3 (/b)\n\t2 main (/b)\n",
      "main;out;mid;in 1\n" },
    { "kernel", "\tffffffff81000010 do_idle+0x1 ([kernel.kallsyms])\n\t1 x ([nf_nat])\n",
      "x_[k];do_idle_[k] 1\n" },
    { "vdso is no kernel", "\t1 clock ([vdso])\n", "clock 1\n" },
    { "C++", "\t1 std::vector<int, a (b)>::operator()(int) const+0x1f (/b c (d)/e)\n",
      "std::vector<int, a (b)>::operator()(int) const 1\n" },
    { "deleted", "\t1 f+0x1 (/tmp/x (deleted))\n", "f 1\n" },
    { "plus in a name", "\t1 operator+ (/b)\n", "operator+ 1\n" },
    { "no frames", "", "[unknown] 1\n" },
    { "only inlined", "\t9 in (inlined)\n", "in 1\n" },
    { "JIT", "\tc6 LazyCompile:~body_0 evalmachine.<anonymous>:1 (/tmp/perf-31912.map)\n"
             "\tc7 RegExp:\\bFoo ?Bar(?:/[\\d.]+|[ \\w.]*) (/tmp/perf-31912.map)\n",
      "RegExp:\\bFoo ?Bar(?:/[\\d.]+|[ \\w.]*);LazyCompile:~body_0 evalmachine.<anonymous>:1 1\n" },
    { "not indented", "1 g+0x1 (/b)\nabc f (/b)\n3 main(int, char**) (/b)\n",
      "main(int, char**);f;g 1\n" },
    { "no modules", "\t1 g+0x1\n\t2 main\n", "main;g 1\n" },
    { "no addresses", "\tg (/b)\n\tf\n\tmain (/b)\n", "main;f;g 1\n" },
    { "lines of source", "\t1 g+0x1 (/b)\n  g.c:12\n\t2 main (/b)\n  /src/main.c:7\n",
      "main;g 1\n" },
};

static void test_stacks(void **state)
{
    (void)state;
    const struct sonde_profile_filter any = { .kind = -1 };
    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        struct sonde_buf b;
        char text[400];
        snprintf(text, sizeof(text), HEADER "%s\n", stacks[i].frames);
        const int rc = read_text(text, &p, &err);
        if (rc) print_error("%s: %s\n", stacks[i].name, err.text);
        assert_int_equal(rc, 0);
        sonde_buf_init(&b, 1 << 16);
        assert_int_equal(sonde_format_find("folded")->write(p, &any, &b, NULL), 0);
        if (strcmp(b.data, stacks[i].folded)) print_error("case %s\n", stacks[i].name);
        assert_string_equal(b.data, stacks[i].folded);
        sonde_buf_release(&b);
        sonde_profile_destroy(p);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_without_call_chains(void **state)
{
    (void)state;
    struct sonde_profile *p;
    struct sonde_err err;
    assert_int_equal(read_text("a 1/1 1.0: 10 cpu-clock:  401000 f+0x1 (/b)\n"
                               "a 1/1 2.0: 10 cpu-clock:  401000 f+0x1 (/b)\n"
                               "a 1/1 3.0: PERF_RECORD_COMM: exec: a:1/1\n", &p, &err), 0);
    assert_int_equal(p->samples_count, 2);
    assert_int_equal(p->samples[0].stack, p->samples[1].stack);
    assert_int_equal(p->end_ns - p->start_ns, 1000000000);
    sonde_profile_destroy(p);
    static const char *const lines[] = {
        "     7ff821461f02 f\n ffffffff821efaa7 g\n",
        "               b      7ff821461f02 f\n               b  ffffffff821efaa7 g\n",
        "               b 27219      7ff821461f02 f (/b)\n"
        "               b 27219  ffffffff821efaa7 g ([kernel.kallsyms])\n",
        "  1.000000:     401136 f+0x16 (/b)\n  1.100000:     401136 f+0x16 (/b)\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_ptr_equal(sonde_format_guess(lines[i], strlen(lines[i])),
                         sonde_format_find("perf-script"));
        assert_int_equal(read_text(lines[i], &p, &err), 0);
        assert_int_equal(p->samples_count, 2);
        assert_string_equal(sonde_profile_str(p, p->threads[p->samples[1].thread].name),
                            i % 3 ? "b" : "");
        assert_int_equal(p->threads[p->samples[1].thread].tid, i == 2 ? 27219 : 0);
        sonde_profile_destroy(p);
    }
}

static void test_damaged(void **state)
{
    (void)state;
    static const struct { const char *text, *says; } cases[] = {
        { "", "no samples" },
        { "# nothing\n", "no samples" },
        { "garbage\n", "line 1: neither" },
        { "1 f (/b)\n", "line 1: neither" },
        { HEADER "x\ny\nz\n", "line 2: neither" },
        { "x 99999999999/1 1.0: cycles:\n", "line 1: neither" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        assert_int_equal(read_text(cases[i].text, &p, &err), SONDE_EFORMAT);
        if (!strstr(err.text, cases[i].says)) print_error("got: %s\n", err.text);
        assert_non_null(strstr(err.text, cases[i].says));
        sonde_profile_destroy(p);
    }
}

/* Of several events one is read, and that is said; periods count on request. */
static void test_events(void **state)
{
    (void)state;
    static const char text[] =
        "# ========\n# cmdline : perf record -e cycles,faults\n# ========\n#\n"
        "a 1/1 1.0: 100 cycles:u:\n\t1 f (/b)\n\na 1/1 2.0: 7 page-faults:\n\t2 g (/b)\n\n"
        "a 1/1 3.0: 200 cycles:u:\n\t1 f (/b)\n\nError: something else\n";
    static const struct {
        struct sonde_import how;
        int rc;
        uint32_t samples;
        uint64_t weight;
        const char *note;
    } cases[] = {
        { { .event = NULL }, 0, 2, 2, "the event is 'cycles:u'; 1 samples of 'page-faults'" },
        { { .periods = 1 }, 0, 2, 300, "1 lines were passed over, the first is line 14" },
        { { .event = "page-faults" }, 0, 1, 1, "1 lines" },
        { { .event = "page-faults", .periods = 1 }, 0, 1, 7, "1 lines" },
        { { .event = "cycles" }, 0, 2, 2, "1 lines" },
        { { .event = "cycle" }, SONDE_EINVAL, 0, 0, "" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        struct sonde_import how = cases[i].how;
        assert_int_equal(sonde_profile_create(0, &p), 0);
        const int rc = sonde_format_read(text, sizeof(text) - 1, "x", &how, p, &err);
        assert_int_equal(rc, cases[i].rc);
        assert_int_equal(p->samples_count, cases[i].samples);
        assert_int_equal(p->weights[SONDE_SAMPLE_OTHER], cases[i].weight);
        if (!strstr(how.note.text, cases[i].note)) print_error("%zu: %s\n", i, how.note.text);
        assert_non_null(strstr(how.note.text, cases[i].note));
        if (rc) {
            assert_non_null(strstr(err.text, "no samples of the event 'cycle'; there are: "
                                   "'cycles:u', 'page-faults'"));
        }
        sonde_profile_destroy(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_any_fields),
        cmocka_unit_test(test_other_lines),
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_without_call_chains),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
