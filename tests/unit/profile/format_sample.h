/* format_sample.h - a small profile with everything in it that formats must carry. */
#ifndef SONDE_TESTS_FORMAT_SAMPLE_H
#define SONDE_TESTS_FORMAT_SAMPLE_H

#include "unit/profile/profile_build.h"

enum { SAMPLE_BASE = 1700000000 }; /* its start, unix time in seconds */

static inline void sample_add(struct sonde_profile *p, uint32_t stack, uint32_t thread,
                              unsigned ms, unsigned flags, enum sonde_sample_kind kind)
{
    const struct sonde_profile_sample s = {
        .time_ns = SAMPLE_BASE * UINT64_C(1000000000) + ms * UINT64_C(1000000),
        .weight = 1000000, .stack = stack, .thread = thread, .count = 1,
        .kind = (uint16_t)kind, .flags = (uint16_t)flags };
    sonde_profile_add_sample(p, &s);
}

static inline struct sonde_profile *sample_create(void)
{
    struct sonde_profile *p;
    if (sonde_profile_create(0, &p)) return NULL;
    const uint32_t one = sonde_profile_thread(p, 100, 100, "prog");
    const uint32_t two = sonde_profile_thread(p, 100, 101, "worker \"1\"");
    const uint32_t prog = sonde_profile_module(
        p, &(struct sonde_profile_module){ .path = sonde_profile_cstring(p, "/usr/bin/prog"),
                                           .build_id = sonde_profile_cstring(p, "c0ffee"),
                                           .start = 0x400000, .end = 0x500000 });
    const uint32_t lib = sonde_profile_module(
        p, &(struct sonde_profile_module){ .path = sonde_profile_cstring(p, "/lib/libx.so"),
                                           .start = 0x7f0000, .end = 0x7f9000, .offset = 0x1000,
                                           .flags = SONDE_MODULE_STRIPPED });
    const uint32_t kernel = sonde_profile_module(
        p, &(struct sonde_profile_module){ .path = sonde_profile_cstring(p, "[kernel]"),
                                           .flags = SONDE_MODULE_KERNEL | SONDE_MODULE_NO_LINES });
    struct sonde_profile_line lines[2];
    static const char *const names[] = { "std::map<int, char>::find(int const&)", "run loop" };
    for (uint32_t i = 0; i < 2; i++) {
        const struct sonde_profile_function f = { .name = sonde_profile_cstring(p, names[i]),
                                                  .file = sonde_profile_cstring(p, "src/a.cc"),
                                                  .start_line = 10 + i, .module = prog };
        lines[i] = (struct sonde_profile_line){ sonde_profile_function(p, &f), 20 + i };
    }
    const uint32_t inlined = sonde_profile_location(p, prog, 0x401234);
    sonde_profile_set_lines(p, inlined, lines, 2);
    const uint32_t sys = sonde_profile_location(p, kernel, 0xffffffff81000000u);
    const struct sonde_profile_function f = { .name = sonde_profile_cstring(p, "do_syscall_64"),
                                              .module = kernel };
    const struct sonde_profile_line sys_line = { sonde_profile_function(p, &f), 0 };
    sonde_profile_set_lines(p, sys, &sys_line, 1);

    const uint32_t main = build_stack(p, "main");
    const uint32_t loop = sonde_profile_stack(p, main, inlined);
    const uint32_t unknown = sonde_profile_stack(p, loop, sonde_profile_location(p, lib, 0x7f0010));
    const uint32_t deep = sonde_profile_stack(p, unknown, sys);
    sample_add(p, loop, one, 1, 0, SONDE_SAMPLE_CPU);
    sample_add(p, deep, one, 2, 0, SONDE_SAMPLE_CPU);
    sample_add(p, deep, one, 3, 0, SONDE_SAMPLE_CPU);
    sample_add(p, loop, two, 1, 0, SONDE_SAMPLE_CPU);
    sample_add(p, unknown, two, 9, SONDE_SAMPLE_TRUNCATED, SONDE_SAMPLE_CPU);
    sample_add(p, deep, two, 5, 0, SONDE_SAMPLE_OFFCPU);
    p->start_ns = SAMPLE_BASE * UINT64_C(1000000000);
    p->end_ns = p->start_ns + 10000000;
    p->rate_hz = 1000;
    p->achieved_hz = 998.5;
    p->lost_records = 2;
    p->program = sonde_profile_cstring(p, "/usr/bin/prog");
    return p;
}

static inline void sample_add_spans(struct sonde_profile *p)
{
    const uint64_t base = SAMPLE_BASE * UINT64_C(1000000000);
    static const struct {
        const char *name;
        unsigned start_ms, end_ms, outcome;
    } spans[] = { { "request", 0, 4, 0 }, { "decode", 2, 3, 1 }, { "crossing", 1, 5, 2 } };
    for (size_t i = 0; i < 3; i++) {
        const struct sonde_profile_span s = {
            .start_ns = base + spans[i].start_ms * UINT64_C(1000000),
            .end_ns = base + spans[i].end_ms * UINT64_C(1000000),
            .trace_hi = 0xabc, .trace_lo = 0xdef, .id = i + 1, .parent = i ? 1 : 0, .thread = 1,
            .name = sonde_profile_cstring(p, spans[i].name), .outcome = spans[i].outcome };
        sonde_profile_add_span(p, &s);
    }
}

#endif
