/* path_build.h - profiles with spans, waits and requests for the tests of src/analyze/path/. Times
 * are milliseconds since BASE. */
#ifndef SONDE_TESTS_PATH_BUILD_H
#define SONDE_TESTS_PATH_BUILD_H

#include <stdio.h>
#include <string.h>

#include "profile/infer.h"
#include "profile/profile.h"

#define BASE 1700000000000000000ull
#define MS 1000000ull

static inline uint64_t build_at(double ms) { return BASE + (uint64_t)(ms * 1e6 + 0.5); }

static inline struct sonde_profile *build_profile(void)
{
    struct sonde_profile *p = NULL;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    p->start_ns = BASE - 1000 * MS;
    p->end_ns = BASE + 1000000 * MS;
    return p;
}

static inline uint32_t build_thread(struct sonde_profile *p, uint32_t pid, uint32_t tid)
{
    return sonde_profile_thread(p, pid, tid, tid ? "t" : "requests");
}

/* "main;handle;pthread_mutex_lock": the last is innermost. Names that begin with @ are of libc, with %
 * of Python's interpreter. */
static inline uint32_t build_stack(struct sonde_profile *p, const char *names)
{
    char text[256];
    uint32_t stack = 0;
    snprintf(text, sizeof(text), "%s", names);
    for (char *at = text, *save = NULL; (at = strtok_r(at, ";", &save)); at = NULL) {
        const char *const path = *at == '@'   ? "/lib/libc.so.6"
                                 : *at == '%' ? "/usr/bin/python3.11"
                                              : "/usr/bin/prog";
        const int libc = *at == '@' || *at == '%';
        const struct sonde_profile_module m = { .path = sonde_profile_cstring(p, path) };
        const uint32_t module = sonde_profile_module(p, &m);
        const struct sonde_profile_function f = { .name = sonde_profile_cstring(p, at + libc),
                                                  .file = sonde_profile_cstring(p, "prog.c"),
                                                  .start_line = 7, .module = module };
        const struct sonde_profile_line line = { sonde_profile_function(p, &f), 12 };
        const uint32_t l = sonde_profile_lines_location(p, module, 0, &line, 1);
        stack = sonde_profile_stack(p, stack, l);
        assert_true(stack);
    }
    return stack;
}

static inline void build_sample(struct sonde_profile *p, uint32_t thread, int kind, double from,
                                double to, const char *stack)
{
    const struct sonde_profile_sample s = {
        .time_ns = build_at(from), .weight = build_at(to) - build_at(from),
        .stack = build_stack(p, stack), .thread = thread, .count = 1, .kind = (uint16_t)kind };
    assert_int_equal(sonde_profile_add_sample(p, &s), 0);
}

static inline void build_off(struct sonde_profile *p, uint32_t thread, double from, double to,
                             const char *stack)
{
    build_sample(p, thread, SONDE_SAMPLE_OFFCPU, from, to, stack);
}

/* Returns its index. */
static inline uint32_t build_span(struct sonde_profile *p, uint32_t thread, const char *name,
                                  uint64_t id, uint64_t parent, double from, double to)
{
    const struct sonde_profile_span s = { .start_ns = build_at(from), .end_ns = build_at(to),
                                          .trace_lo = 9, .id = id, .parent = parent,
                                          .thread = thread,
                                          .name = sonde_profile_cstring(p, name) };
    assert_int_equal(sonde_profile_add_span(p, &s), 0);
    return p->spans_count - 1;
}

/* Of the span that was added last. */
static inline void build_part(struct sonde_profile *p, uint64_t request, uint32_t in, uint32_t out)
{
    const struct sonde_profile_part part = { .request = request, .span = p->spans_count - 1,
                                             .tokens_in = in, .tokens_out = out };
    assert_int_equal(sonde_profile_add_part(p, &part), 0);
}

static inline struct sonde_infer_request build_request(uint32_t pid, uint64_t id, double from,
                                                       double to)
{
    struct sonde_infer_request r = {
        .id = id, .pid = pid, .program = "prog", .model = "", .route = "", .backend = "",
        .error = "", .invalid = "", .arrived_ns = build_at(from),
        .total_s = (double)(build_at(to) - build_at(from)) * 1e-9 };
    snprintf(r.own_id, sizeof(r.own_id), "r%llu", (unsigned long long)id);
    return r;
}

static inline void build_add(struct sonde_profile *p, struct sonde_infer_request r)
{
    assert_int_equal(sonde_infer_run_add(p, &r), 0);
}

#endif
