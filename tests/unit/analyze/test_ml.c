/* Machine learning out of series, spans and tracks of a recording, and out of a model. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "analyze/ml.h"
#include "base/alloc.h"
#include "base/array.h"
#include "model/model.h"
#include "profile/profile.h"
#include "profile/track.h"
#include "sonde/sonde.h"
#include "unit/profile/engine_build.h"

static struct engine_built b;

#define MS 1000000ull

static int about(double value, double wanted) { return fabs(value - wanted) <= wanted * 0.006; }

static struct sonde_profile *with_series(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    for (size_t i = 0; i < b.count; i++) {
        assert_int_equal(sonde_final_add(p, &b.series[i]), 0);
    }
    return p;
}

static void begin(void)
{
    memset(&b, 0, sizeof(b));
    b.program = "train";
    b.pid = 7;
}

static struct sonde_ml *ml_of(struct sonde_profile *p)
{
    struct sonde_ml *ml;
    assert_int_equal(sonde_ml_of_profile(p, &ml), 0);
    assert_non_null(ml);
    return ml;
}

static void nothing(void **state)
{
    (void)state;
    struct sonde_ml *ml = (void *)1;
    begin();
    engine_built_value(&b, "sonde_cache_accesses_total", "l1", "hit", 1);
    engine_built_times(&b, "sonde_ml_inference_seconds", "net", "1", 0, MS, 0);
    b.series[1].count = b.series[1].bucket_count = 0; /* defined, and never done */
    struct sonde_profile *p = with_series();
    assert_int_equal(sonde_ml_of_profile(p, &ml), 0);
    assert_null(ml);
    sonde_ml_destroy(ml);
    sonde_profile_destroy(p);
}

static void inference_by_batch_size(void **state)
{
    (void)state;
    begin();
    engine_built_times(&b, "sonde_ml_model_load_seconds", "net", "load", 1, 500 * MS, 0);
    engine_built_times(&b, "sonde_ml_model_load_seconds", "net", "init", 2, 10 * MS, 0);
    engine_built_value(&b, "sonde_ml_model_bytes", "net", "", 1e6);
    engine_built_times(&b, "sonde_ml_inference_seconds", "net", "16", 9, 8 * MS, 80 * MS);
    engine_built_times(&b, "sonde_ml_inference_seconds", "net", "2", 100, MS, 0);
    engine_built_times(&b, "sonde_ml_inference_seconds", "net", "many", 1, MS, 0);
    engine_built_value(&b, "sonde_ml_inference_items_total", "net", "", 360);
    b.pid = 8; /* the same program once more */
    engine_built_times(&b, "sonde_ml_inference_seconds", "net", "2", 100, 3 * MS, 0);
    engine_built_value(&b, "sonde_ml_model_bytes", "net", "", 1e6);
    for (size_t i = 0; i < b.count; i++) b.series[i].seconds = 10;
    struct sonde_profile *p = with_series();
    struct sonde_ml *ml = ml_of(p);
    assert_int_equal(ml->model_count, 1);
    assert_int_equal(ml->models[0].load.count, 1);
    assert_int_equal(ml->models[0].init.count, 2);
    assert_true(about(ml->models[0].load.p50_s, 0.5) && ml->models[0].bytes == 2e6);
    assert_int_equal(ml->inference_count, 1);
    const struct sonde_ml_inference *n = &ml->inferences[0];
    assert_string_equal(n->model, "net");
    assert_int_equal(n->time.count, 211);
    assert_int_equal(n->items, 360);
    assert_true(fabs(n->rate - 21.1) < 1e-9);
    assert_int_equal(n->batch_count, 3);
    assert_string_equal(n->batches[0].label, "many"); /* not a number */
    assert_true(isnan(n->batches[0].items_per_s));
    assert_int_equal(n->batches[1].size, 2);
    assert_int_equal(n->batches[1].time.count, 200);
    assert_true(about(n->batches[1].time.min_s, 0.001) && about(n->batches[1].time.p99_s, 0.003));
    assert_true(fabs(n->batches[1].items_per_s - 400 / 0.4) < 1e-6);
    assert_int_equal(n->batches[2].size, 16);
    assert_true(about(n->batches[2].time.p50_s, 0.008) && about(n->batches[2].time.max_s, 0.08));
    assert_true(fabs(n->batches[2].items_per_s - 160 / 0.152) < 1e-6);
    assert_int_equal(ml->several, 0);
    sonde_ml_destroy(ml);
    sonde_profile_destroy(p);
}

/* An epoch of 2 s with 3 steps of 100 ms, of which the first took 500 ms. */
static void epoch_add(struct sonde_profile *p, const char *model, int64_t epoch, double loss)
{
    const uint64_t start = (uint64_t)(1000 + 10 * epoch) * 1000000000ull;
    const struct sonde_profile_span span = {
        .start_ns = start, .end_ns = start + 2000 * MS,
        .thread = sonde_profile_thread(p, 7, 7, "main"),
        .name = sonde_profile_cstring(p, "ml.epoch"), .id = (uint64_t)epoch + 1 };
    assert_int_equal(sonde_profile_add_span(p, &span), 0);
    const struct { const char *key; uint32_t type; double d; } rows[] = {
        { "model", SONDE_PROFILE_ATTR_TEXT, 0 },
        { "epoch", SONDE_PROFILE_ATTR_INT, (double)epoch },
        { "num_samples", SONDE_PROFILE_ATTR_INT, 96 },
        { "steps", SONDE_PROFILE_ATTR_INT, 3 },
        { "step_seconds", SONDE_PROFILE_ATTR_DOUBLE, 0.7 },
        { "first_step_seconds", SONDE_PROFILE_ATTR_DOUBLE, 0.5 },
        { "zeal", SONDE_PROFILE_ATTR_INT, 3 },
        { "val_loss", SONDE_PROFILE_ATTR_DOUBLE, loss + 0.1 },
        { "train_loss", SONDE_PROFILE_ATTR_DOUBLE, loss },
    };
    for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
        struct sonde_profile_attr a = { .span = p->spans_count - 1, .type = rows[i].type,
                                        .key = sonde_profile_cstring(p, rows[i].key) };
        if (rows[i].type == SONDE_PROFILE_ATTR_INT) a.value.i = (int64_t)rows[i].d;
        else if (rows[i].type == SONDE_PROFILE_ATTR_DOUBLE) a.value.d = rows[i].d;
        else a.text = sonde_profile_cstring(p, model);
        assert_int_equal(sonde_profile_add_attr(p, &a), 0);
    }
}

static void training_series(void)
{
    begin();
    engine_built_times(&b, "sonde_ml_epoch_seconds", "net", "", 3, 2000 * MS, 0);
    engine_built_times(&b, "sonde_ml_step_seconds", "net", "", 6, 100 * MS, 0);
    engine_built_times(&b, "sonde_ml_first_step_seconds", "net", "", 3, 500 * MS, 0);
    engine_built_times(&b, "sonde_ml_phase_seconds", "net", "augment", 6, MS, 0);
    engine_built_times(&b, "sonde_ml_phase_seconds", "net", "other", 6, 2 * MS, 0);
    engine_built_times(&b, "sonde_ml_phase_seconds", "net", "backward", 6, 60 * MS, 0);
    engine_built_times(&b, "sonde_ml_phase_seconds", "net", "data_wait", 6, 37 * MS, 0);
    engine_built_value(&b, "sonde_ml_samples_total", "net", "", 288);
    engine_built_value(&b, "sonde_ml_steps_total", "net", "", 9);
    engine_built_value(&b, "sonde_ml_epoch", "net", "", 2);
    engine_built_value(&b, "sonde_ml_value", "net", "train_loss", 0.25);
}

static void training(void **state)
{
    (void)state;
    training_series();
    struct sonde_profile *p = with_series();
    epoch_add(p, "net", 1, 0.5);
    epoch_add(p, "net", 0, 1.0);
    epoch_add(p, "net", 2, NAN); /* it has diverged */
    struct sonde_ml *ml = ml_of(p);
    assert_int_equal(ml->training_count, 1);
    const struct sonde_ml_training *t = &ml->trainings[0];
    assert_int_equal(t->samples, 288);
    assert_int_equal(t->steps, 9);
    assert_true(fabs(t->samples_per_s - 48) < 1e-9 && t->epoch_now == 2);
    assert_int_equal(t->first_step.count, 3);
    assert_true(about(t->first_step.p50_s, 0.5) && about(t->step.p50_s, 0.1));
    /* In the order of a step; what is not of ours after that, and the rest at last. */
    static const char *const phases[] = { "data_wait", "backward", "augment", "other" };
    assert_int_equal(t->phase_count, 4);
    double shares = 0;
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(t->phases[i].phase, phases[i]);
        shares += t->phases[i].share;
    }
    assert_true(fabs(shares - 1) < 1e-9 && fabs(t->phases[1].share - 0.6) < 1e-9);
    assert_int_equal(t->epoch_count, 3);
    for (int64_t i = 0; i < 3; i++) {
        const struct sonde_ml_epoch *e = &t->epochs[i];
        assert_int_equal(e->epoch, i);
        assert_int_equal(e->samples, 96);
        assert_int_equal(e->steps, 3);
        assert_true(fabs(e->start_s - (double)(1000 + 10 * i)) < 1e-6);
        assert_true(fabs(e->duration_s - 2) < 1e-9 && fabs(e->samples_per_s - 48) < 1e-6);
        assert_true(e->first_step_s == 0.5);
        assert_true(fabs(e->later_step_mean_s - 0.1) < 1e-9);
        assert_true(sonde_ml_epoch_value(e, "zeal") == 3);
        assert_true(isnan(sonde_ml_epoch_value(e, "unheard")));
    }
    assert_true(sonde_ml_epoch_value(&t->epochs[0], "train_loss") == 1);
    assert_true(sonde_ml_epoch_value(&t->epochs[1], "val_loss") == 0.6);
    assert_true(isnan(sonde_ml_epoch_value(&t->epochs[2], "train_loss")));
    assert_int_equal(t->curve_count, 3);
    assert_string_equal(t->curve_names[0], "train_loss");
    assert_string_equal(t->curve_names[1], "val_loss");
    assert_string_equal(t->curve_names[2], "zeal");
    assert_int_equal(t->latest_count, 1);
    assert_true(t->latest[0].value == 0.25);
    sonde_ml_destroy(ml);
    sonde_profile_destroy(p);
}

/* Attributes hold 40 bytes of a name. */
static void long_name_of_a_model(void **state)
{
    (void)state;
    static const char name[] = "a-model-whose-name-is-rather-longer-than-attributes-are";
    char cut[41];
    begin();
    engine_built_times(&b, "sonde_ml_epoch_seconds", name, "", 1, 2000 * MS, 0);
    struct sonde_profile *p = with_series();
    snprintf(cut, sizeof(cut), "%.40s", name);
    epoch_add(p, cut, 0, 1);
    struct sonde_ml *ml = ml_of(p);
    assert_int_equal(ml->training_count, 1);
    assert_int_equal(ml->trainings[0].epoch_count, 1);
    assert_string_equal(ml->trainings[0].model, name);
    sonde_ml_destroy(ml);
    sonde_profile_destroy(p);
}

/* Spans without series, of a recording that began behind the program's end, say. */
static void epochs_alone(void **state)
{
    (void)state;
    begin();
    struct sonde_profile *p = with_series();
    epoch_add(p, "net", 4, 1);
    struct sonde_ml *ml = ml_of(p);
    assert_int_equal(ml->trainings[0].epochs[0].epoch, 4);
    assert_int_equal(ml->trainings[0].epoch.count, 0);
    assert_true(isnan(ml->trainings[0].epoch.mean_s) && isnan(ml->trainings[0].samples_per_s));
    sonde_ml_destroy(ml);
    sonde_profile_destroy(p);
}

static void data_and_workers(void **state)
{
    (void)state;
    begin();
    engine_built_times(&b, "sonde_ml_dataset_load_seconds", "digits", "csv", 3, 100 * MS, 0);
    engine_built_times(&b, "sonde_ml_dataset_load_seconds", "digits", "parquet", 7, 100 * MS, 0);
    engine_built_value(&b, "sonde_ml_dataset_bytes_total", "digits", "", 5000);
    engine_built_value(&b, "sonde_ml_dataset_items_total", "digits", "", 200);
    engine_built_times(&b, "sonde_ml_dataset_wait_seconds", "digits", "", 10, MS, 0);
    engine_built_times(&b, "sonde_ml_dataset_use_seconds", "digits", "", 10, 3 * MS, 0);
    engine_built_times(&b, "sonde_ml_dataset_first_wait_seconds", "digits", "", 2, 4 * MS, 0);
    engine_built_times(&b, "sonde_ml_preprocess_seconds", "scale", "", 4, MS, 0);
    engine_built_times(&b, "sonde_ml_preprocess_seconds", "crop", "", 4, 2 * MS, 0);
    engine_built_times(&b, "sonde_ml_task_seconds", "shard", "w10", 9, 10 * MS, 0);
    b.series[b.count - 1].extra = "ok";
    engine_built_times(&b, "sonde_ml_task_seconds", "shard", "w10", 1, 10 * MS, 0);
    b.series[b.count - 1].extra = "timeout";
    engine_built_times(&b, "sonde_ml_task_seconds", "shard", "w2", 2, 10 * MS, 0);
    b.series[b.count - 1].extra = "ok";
    engine_built_times(&b, "sonde_ml_communication_seconds", "allreduce", "w2", 5, 4 * MS, 0);
    engine_built_value(&b, "sonde_ml_communication_bytes_total", "allreduce", "w2", 4000);
    engine_built_value(&b, "sonde_ml_worker_utilization_ratio", "w2", "", 0.75);
    engine_built_value(&b, "sonde_ml_worker_memory_bytes", "w2", "", 1e9);
    b.series[b.count - 1].peak = 2e9;
    b.program = "other";
    engine_built_value(&b, "sonde_ml_worker_active_tasks", "w3", "", 5);
    struct sonde_profile *p = with_series();
    struct sonde_ml *ml = ml_of(p);
    assert_int_equal(ml->dataset_count, 1);
    assert_string_equal(ml->datasets[0].format, "parquet");
    assert_int_equal(ml->datasets[0].load.count, 10);
    assert_true(fabs(ml->datasets[0].bytes_per_s - 5000) < 1e-6);
    assert_true(fabs(ml->datasets[0].items_per_s - 200) < 1e-6);
    assert_int_equal(ml->datasets[0].wait.count, 10);
    assert_int_equal(ml->datasets[0].first_wait.count, 2);
    assert_true(fabs(ml->datasets[0].wait_share - 0.25) < 1e-9);
    assert_string_equal(ml->preprocesses[0].operation, "crop");
    assert_int_equal(ml->task_count, 2);
    assert_string_equal(ml->tasks[0].worker, "w10");
    assert_int_equal(ml->tasks[0].time.count, 10);
    assert_int_equal(ml->tasks[0].failed, 1);
    assert_int_equal(ml->worker_count, 3);
    assert_string_equal(ml->workers[0].worker, "w2"); /* w2, w3, w10 */
    assert_string_equal(ml->workers[2].worker, "w10");
    assert_int_equal(ml->workers[0].tasks, 2);
    assert_true(ml->workers[0].utilization == 0.75 && ml->workers[0].memory_peak_bytes == 2e9);
    assert_true(ml->workers[0].communication_bytes == 4000);
    assert_true(fabs(ml->communications[0].bytes_per_s - 200000) < 1e-3);
    assert_true(ml->workers[1].active_tasks == 5 && isnan(ml->workers[1].utilization));
    assert_int_equal(ml->several, 1);
    sonde_ml_destroy(ml);
    sonde_profile_destroy(p);
}

static void histories(void **state)
{
    (void)state;
    begin();
    engine_built_value(&b, "sonde_ml_value", "a\"b\\c", "loss", 0.5);
    engine_built_value(&b, "sonde_ml_worker_utilization_ratio", "w0", "", 1);
    struct sonde_profile *p = with_series();
    const struct sonde_track loss = { .family = "sonde_ml_value", .program = "train", .pid = 7,
                                      .labels = "model=\"a\\\"b\\\\c\",name=\"loss\"",
                                      .gauge = 1 };
    const struct sonde_track busy = { .family = "sonde_ml_worker_utilization_ratio",
                                      .program = "train", .pid = 7, .labels = "worker=\"w0\"",
                                      .gauge = 1 };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sonde_tracks_tick(p, 100 + i, 1), 0);
        assert_int_equal(sonde_tracks_put(p, &busy, 0.25 * i), 0);
        if (i > 1) assert_int_equal(sonde_tracks_put(p, &loss, 10 - i), 0);
    }
    struct sonde_ml *ml = ml_of(p);
    const struct sonde_ml_history *h = &ml->trainings[0].latest[0].history;
    assert_int_equal(h->count, 2); /* from when it was there */
    assert_true(h->time_s[0] == 102 && h->value[0] == 8 && h->value[1] == 7);
    assert_int_equal(ml->workers[0].utilizations.count, 4);
    assert_true(ml->workers[0].utilizations.value[3] == 0.75);
    sonde_ml_destroy(ml);
    sonde_profile_destroy(p);
}

/* ---- Of an agent ----------------------------------------------------------------------------- */

static struct sonde_model *live(void)
{
    struct sonde_model *m;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    struct sonde_model_process *process = sonde_model_process(m, 7, 1, "train");
    const struct sonde_model_family_spec value = { .name = "sonde_ml_value", .type = SONDE_GAUGE };
    const struct sonde_label labels[] = { { "model", "net" }, { "name", "train_loss" } };
    struct sonde_model_series *s =
        sonde_model_series(m, sonde_model_family(m, &value), process, labels, 2);
    const struct sonde_model_family_spec steps = { .name = "sonde_ml_step_seconds",
                                                   .type = SONDE_HISTOGRAM, .scale = 1e-9 };
    struct sonde_model_series *h =
        sonde_model_series(m, sonde_model_family(m, &steps), process, labels, 1);
    sonde_model_record(h, 100 * MS, 5);
    for (int i = 0; i < 3; i++) {
        s->gauge = 3 - i;
        sonde_model_tick(m, 100 + i);
    }
    struct sonde_model_attr attrs[4] = {
        { .key = "model", .type = SONDE__ATTR_STR, .value.str = "net" },
        { .key = "epoch", .type = SONDE__ATTR_INT, .value.i = 6 },
        { .key = "train_loss", .type = SONDE__ATTR_DOUBLE, .value.d = 0.125 },
        { .key = "note", .type = SONDE__ATTR_STR, .value.str = "not a number" },
    };
    const struct sonde_model_span span = { .name = "ml.epoch", .program = "train", .pid = 7,
                                           .start_ns = 1000 * MS, .duration_ns = 500 * MS,
                                           .attrs = attrs, .attr_count = 4 };
    sonde_model_span(m, &span);
    return m;
}

static void of_a_model(void **state)
{
    (void)state;
    struct sonde_model *m = live();
    struct sonde_ml *ml;
    assert_int_equal(sonde_ml_of_model(m, &ml), 0);
    const struct sonde_ml_training *t = &ml->trainings[0];
    assert_int_equal(ml->training_count, 1);
    assert_int_equal(t->step.count, 5);
    assert_true(about(t->step.p99_s, 0.1));
    assert_int_equal(t->epoch_count, 1);
    assert_int_equal(t->epochs[0].epoch, 6);
    assert_int_equal(t->epochs[0].value_count, 1);
    assert_true(sonde_ml_epoch_value(&t->epochs[0], "train_loss") == 0.125);
    assert_true(t->latest[0].value == 1 && t->latest[0].history.count == 3);
    assert_true(t->latest[0].history.value[0] == 3 && t->latest[0].history.time_s[2] == 102);
    sonde_ml_destroy(ml);

    /* A loss that is not a number is not 0. */
    struct sonde_model_family *f = sonde_model_family_find(m, "sonde_ml_value");
    f->series[0]->gauge = NAN;
    assert_int_equal(sonde_ml_of_model(m, &ml), 0);
    assert_int_equal(ml->trainings[0].latest_count, 0);
    sonde_ml_destroy(ml);
    sonde_model_destroy(m);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    training_series();
    engine_built_times(&b, "sonde_ml_inference_seconds", "net", "8", 3, MS, 0);
    engine_built_times(&b, "sonde_ml_task_seconds", "shard", "w0", 3, MS, 0);
    engine_built_times(&b, "sonde_ml_communication_seconds", "send", "w0", 3, MS, 0);
    engine_built_value(&b, "sonde_ml_dataset_items_total", "digits", "", 5);
    struct sonde_profile *p = with_series();
    epoch_add(p, "net", 0, 1);
    struct sonde_model *m = live();
    int rc = SONDE_ENOMEM;
    uint64_t n = 0;
    while (rc && ++n < 1000) {
        struct sonde_ml *ml = NULL;
        sonde__alloc_fail_nth(n);
        rc = sonde_ml_of_profile(p, &ml);
        if (!rc) {
            sonde_ml_destroy(ml);
            rc = sonde_ml_of_model(m, &ml);
        }
        sonde__alloc_fail_nth(0);
        assert_int_equal(ml != NULL, rc == 0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        if (!rc) sonde_ml_destroy(ml);
    }
    assert_int_equal(rc, 0);
    assert_true(n > 10);
    sonde_model_destroy(m);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing),
        cmocka_unit_test(inference_by_batch_size),
        cmocka_unit_test(training),
        cmocka_unit_test(long_name_of_a_model),
        cmocka_unit_test(epochs_alone),
        cmocka_unit_test(data_and_workers),
        cmocka_unit_test(histories),
        cmocka_unit_test(of_a_model),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
