/* What pictures are drawn of, out of a recording whose values are known: tracks added up by label and
 * told apart by it, ticks that are too short, buckets, totals, spans, requests. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/plot_gather.h"
#include "base/alloc.h"
#include "profile/final.h"
#include "profile/infer.h"
#include "profile/profile.h"
#include "profile/track.h"
#include "segment/segment.h"
#include "sonde/sonde.h"

static const struct sonde_plot_series *series_of(const struct sonde_plot_data *d,
                                                 enum sonde_plot_role role, const char *name)
{
    for (size_t i = 0; i < d->count; i++) {
        if (d->series[i].role == role && !strcmp(d->series[i].name, name)) return &d->series[i];
    }
    return NULL;
}

static void track_add(struct sonde_profile *p, const char *family, const char *labels, int gauge,
                      float a, float b, float c)
{
    float values[] = { a, b, c };
    const struct sonde_track t = { .family = family, .labels = labels, .program = "prog", .pid = 1,
                                   .gauge = (uint32_t)gauge, .values = values };
    assert_int_equal(sonde_tracks_add(p, &t), 0);
}

static void tracks(void **state)
{
    (void)state;
    struct sonde_profile *p;
    struct sonde_plot_data d = { .kind = "" };
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_tracks_tick(p, 1000, 1), 0);
    assert_int_equal(sonde_tracks_tick(p, 1001, 1), 0);
    assert_int_equal(sonde_tracks_tick(p, 1001.01, 0.01), 0);
    track_add(p, "sonde_infer_tokens_total", "model=\"a\",type=\"output\"", 0, 10, 20, 900);
    track_add(p, "sonde_infer_tokens_total", "model=\"b, \\\"type=\\\"\",type=\"output\"", 0, 1, NAN, 0);
    track_add(p, "sonde_infer_tokens_total", "model=\"a\",type=\"input\"", 0, 5, 6, 0);
    track_add(p, "sonde_infer_requests_total", "outcome=\"error\"", 0, 0, 0, 0);
    track_add(p, "sonde_process_resident_memory_bytes", "", 1, 100, 200, 300);
    track_add(p, "sonde_cache_accesses_total", "tier=\"l1\",result=\"hit\"", 0, 8, 4, 100);
    track_add(p, "own_things_total", "", 0, 3, 4, 0);
    assert_int_equal(sonde_plot_gather(p, "", &d), 0);
    const struct sonde_plot_series *s = series_of(&d, SONDE_ROLE_RATE, "tokens: output");
    assert_non_null(s);
    assert_int_equal(s->count, 3);
    assert_true(s->values[0].x == 1000 && s->values[0].y == 11 && s->values[1].y == 20);
    assert_true(isnan(s->values[2].y)); /* a hundredth of a second says nothing of one */
    assert_string_equal(s->group, "");
    assert_null(series_of(&d, SONDE_ROLE_RATE, "requests: error")); /* never */
    s = series_of(&d, SONDE_ROLE_MEMORY, "process: resident");
    assert_true(s && s->values[2].y == 300);
    s = series_of(&d, SONDE_ROLE_HITS, "l1");
    assert_true(s && fabs(sonde_plot_sum(s) - 13) < 1e-6); /* 8 + 4 + 100 / s of 10 ms */
    assert_non_null(series_of(&d, SONDE_ROLE_RATE, "counters: own_things"));
    sonde_plot_data_release(&d);
    assert_int_equal(sonde_plot_gather(p, "run", &d), 0);
    assert_string_equal(series_of(&d, SONDE_ROLE_RATE, "tokens: input")->group, "run");
    sonde_plot_data_release(&d);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void final_add(struct sonde_profile *p, const char *family, const char *subject,
                      const char *detail, double value, struct sonde_final_bucket *buckets,
                      uint32_t count)
{
    struct sonde_final_series s = { .family = family, .program = "prog", .subject = subject,
                                    .detail = detail, .value = value, .buckets = buckets,
                                    .bucket_count = count };
    for (uint32_t i = 0; i < count; i++) s.count += buckets[i].n;
    assert_int_equal(sonde_final_add(p, &s), 0);
}

static void finals(void **state)
{
    (void)state;
    struct sonde_final_bucket buckets[] = { { .p = 900, .n = 3 }, { .p = 1000, .n = 1 } };
    struct sonde_profile *p;
    struct sonde_plot_data d = { .kind = "" };
    size_t count;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    final_add(p, "sonde_operation_duration_seconds", "load", "ok", 12.5, buckets, 2);
    final_add(p, "sonde_operation_duration_seconds", "load", "error", 1.5, buckets, 1);
    final_add(p, "sonde_ml_inference_seconds", "bert", "8", 2, buckets, 1);
    final_add(p, "sonde_ml_inference_seconds", "bert", "many", 2, buckets, 1);
    final_add(p, "sonde_cache_accesses_total", "l1", "hit", 750, NULL, 0);
    final_add(p, "sonde_cache_accesses_total", "l1", "miss", 250, NULL, 0);
    final_add(p, "sonde_ml_dataset_bytes_total", "train", "", 1e9, NULL, 0);
    assert_int_equal(sonde_plot_gather(p, "", &d), 0);
    const struct sonde_plot_series *s = series_of(&d, SONDE_ROLE_LATENCY, "load");
    assert_true(s && sonde_plot_weight(s) == 7 && sonde_plot_sum(s) == 14);
    struct sonde_plot_value *sorted = sonde_plot_sorted(s, &count);
    assert_int_equal(count, 3);
    assert_true(sonde_plot_quantile(sorted, count, 0.5) == sonde__hist_middle(900, 1e-9));
    assert_true(sonde_plot_quantile(sorted, count, 0.99) == sonde__hist_middle(1000, 1e-9));
    sonde__free(sorted);
    s = series_of(&d, SONDE_ROLE_BATCH, "bert");
    assert_true(s && s->count == 1 && s->values[0].x == 8 && s->values[0].weight == 3);
    assert_true(sonde_plot_sum(s) == 2);
    assert_true(sonde_plot_sum(series_of(&d, SONDE_ROLE_HITS, "l1")) == 750);
    assert_true(sonde_plot_sum(series_of(&d, SONDE_ROLE_MISSES, "l1")) == 250);
    assert_true(sonde_plot_sum(series_of(&d, SONDE_ROLE_BYTES, "train")) == 1e9);
    sonde_plot_data_release(&d);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void requests(void **state)
{
    (void)state;
    struct sonde_profile *p;
    struct sonde_plot_data d = { .kind = "" };
    assert_int_equal(sonde_profile_create(0, &p), 0);
    for (uint64_t i = 0; i < 4; i++) {
        struct sonde_infer_request r = { .id = i + 1, .program = "", .model = "", .route = "",
                                         .backend = "", .error = "", .invalid = i == 3 ? "x" : "",
                                         .arrived_ns = (100 + i) * 1000000000, .tokens_out = 5,
                                         .total_s = 1 + (double)i, .ttft_s = 0.1, .itl_s = 0.01,
                                         .itl_count = 4, .outcome = i == 2 ? SONDE_ERROR : SONDE_OK };
        r.phase_s[SONDE_PHASE_DECODE] = 0.5;
        r.phase_count[SONDE_PHASE_DECODE] = 2;
        assert_int_equal(sonde_infer_run_add(p, &r), 0);
    }
    const struct sonde_profile_span span = { .start_ns = 1000000000, .end_ns = 1250000000,
                                             .name = sonde_profile_cstring(p, "parse") };
    assert_int_equal(sonde_profile_add_span(p, &span), 0);
    assert_int_equal(sonde_plot_gather(p, "", &d), 0);
    const struct sonde_plot_series *s =
        series_of(&d, SONDE_ROLE_LATENCY, "time to first token (TTFT)");
    assert_true(s && s->count == 3 && s->values[2].x == 102);
    s = series_of(&d, SONDE_ROLE_LATENCY, "whole request (e2e)");
    assert_true(s && s->count == 2 && s->values[1].y == 2); /* one failed, one is not valid */
    s = series_of(&d, SONDE_ROLE_PHASE, "decode");
    assert_true(s && sonde_plot_sum(s) == 1.5);
    s = series_of(&d, SONDE_ROLE_LATENCY, "parse" SONDE_PLOT_SPANS);
    assert_true(s && s->values[0].x == 1 && s->values[0].y == 0.25);
    sonde_plot_data_release(&d);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A rank is of weights; what is no number has none. */
static void quantiles(void **state)
{
    (void)state;
    struct sonde_plot_data d = { .kind = "" };
    struct sonde_plot_series *s = sonde_plot_series_add(&d, SONDE_ROLE_LATENCY, "", "n");
    static const double weights[] = { 1, 98, 1, 0, 5, 5 }, ys[] = { 3, 2, 1, 9, NAN, INFINITY };
    size_t count;
    for (int i = 0; i < 6; i++) {
        const struct sonde_plot_value v = { .x = NAN, .y = ys[i], .weight = weights[i] };
        assert_int_equal(sonde_plot_value_add(&d, s, &v), 0);
    }
    struct sonde_plot_value *sorted = sonde_plot_sorted(s, &count);
    assert_int_equal(count, 3);
    assert_true(sonde_plot_quantile(sorted, count, 0) == 1);
    assert_true(sonde_plot_quantile(sorted, count, 0.01) == 1);
    assert_true(sonde_plot_quantile(sorted, count, 0.5) == 2);
    assert_true(sonde_plot_quantile(sorted, count, 0.99) == 2);
    assert_true(sonde_plot_quantile(sorted, count, 0.995) == 3);
    assert_true(isnan(sonde_plot_quantile(NULL, 0, 0.5)));
    assert_int_equal(sonde_plot_not_finite(s), 1);
    sonde__free(sorted);
    sonde_plot_data_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tracks),
        cmocka_unit_test(finals),
        cmocka_unit_test(requests),
        cmocka_unit_test(quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
