/* finding_build.h - profiles with something wrong in them, and what is found there, for tests. */
#ifndef SONDE_TESTS_FINDING_BUILD_H
#define SONDE_TESTS_FINDING_BUILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/finding/finding.h"
#include "base/alloc.h"
#include "profile/infer.h"
#include "profile/track.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"

#define T0 1700000000000000000ull
#define MS 1000000ull

static inline struct sonde_profile *find_make(uint64_t length_ms)
{
    struct sonde_profile *p = NULL;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    p->start_ns = T0;
    p->end_ns = T0 + length_ms * MS;
    return p;
}

static inline struct sonde_findings *find_look(const struct sonde_profile *p)
{
    struct sonde_findings *f = NULL;
    const struct sonde_finding_options o = { 0 };
    assert_int_equal(sonde_findings_look(p, &o, &f), 0);
    return f;
}

/* So many samples of a millisecond each. */
static inline void find_samples(struct sonde_profile *p, const char *stack, int count)
{
    for (int i = 0; i < count; i++) build_sample(p, stack, MS, 0, T0);
}

/* The finding of a kind, or NULL. */
static inline const struct sonde_finding *find_kind(const struct sonde_findings *f,
                                                    const char *kind)
{
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->rows[i].kind, kind) == 0) return &f->rows[i];
    }
    return NULL;
}

/* The first finding of p is of that kind and at least so severe; NULL = there is none but info. */
static inline void find_expect(struct sonde_profile *p, const char *kind)
{
    struct sonde_findings *f = find_look(p);
    const int some = f->causes && f->rows[0].severity > SONDE_SEVERITY_INFO;
    if (!kind && some) print_error("%s: %s\n", f->rows[0].kind, f->rows[0].text);
    if (!kind) {
        assert_false(some);
    } else {
        assert_true(some);
        assert_string_equal(f->rows[0].kind, kind);
        assert_true(f->rows[0].text[0] && f->rows[0].advice[0]);
        assert_true(f->rows[0].impact >= 0 && f->rows[0].impact <= 1);
    }
    sonde_findings_destroy(f);
    sonde_profile_destroy(p);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static inline struct sonde_infer_request find_request(uint64_t id, uint64_t at_ms, double total_s)
{
    struct sonde_infer_request r = { .id = id, .program = "", .model = "", .route = "",
                                     .backend = "", .error = "", .invalid = "",
                                     .arrived_ns = T0 + at_ms * MS, .total_s = total_s };
    snprintf(r.own_id, sizeof(r.own_id), "r-%llu", (unsigned long long)id);
    return r;
}

static inline void find_add(struct sonde_profile *p, const struct sonde_infer_request *r)
{
    assert_int_equal(sonde_infer_run_add(p, r), 0);
}

/* A pass from one time to another; then find_part for each request in it. */
static inline void find_pass(struct sonde_profile *p, uint64_t from_ms, uint64_t to_ms)
{
    const struct sonde_profile_span s = {
        .start_ns = T0 + from_ms * MS, .end_ns = T0 + to_ms * MS,
        .name = sonde_profile_cstring(p, "pass"), .thread = sonde_profile_thread(p, 1, 1, "t"),
        .id = 1000 + p->spans_count,
    };
    assert_int_equal(sonde_profile_add_span(p, &s), 0);
}

static inline void find_part(struct sonde_profile *p, uint64_t request, uint32_t in, uint32_t out)
{
    const struct sonde_profile_part part = { .request = request, .span = p->spans_count - 1,
                                             .tokens_in = in, .tokens_out = out };
    assert_int_equal(sonde_profile_add_part(p, &part), 0);
}

/* ---- Series ---------------------------------------------------------------------------------- */

/* One tick of a second; values by find_value. */
static inline void find_tick(struct sonde_profile *p, uint64_t at_ms)
{
    assert_int_equal(sonde_tracks_tick(p, (double)(T0 + at_ms * MS) * 1e-9, 1), 0);
}

static inline void find_value(struct sonde_profile *p, const char *family, const char *labels,
                              uint32_t pid, int gauge, double value)
{
    const struct sonde_track t = { .family = family, .labels = labels,
                                   .program = pid ? "program" : "", .pid = pid,
                                   .gauge = (uint32_t)gauge };
    assert_int_equal(sonde_tracks_put(p, &t, value), 0);
}

#endif
