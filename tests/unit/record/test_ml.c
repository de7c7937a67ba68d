/* ml.h: what its calls record, in which series; phases add up to steps and steps to epochs; what is
 * called out of order, while recording is off, and by several threads. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sonde/ml.h"
#include "unit/record/child.h"
#include "unit/record/readback.h"

/* The series with these labels, as a program in another language would find it. */
static struct sonde_family ml_family(enum sonde_type type, const char *name, const char *a,
                                     const char *b, const char *c)
{
    const char *const labels[] = { a, b, c, NULL };
    const struct sonde_metric m = { .size = sizeof(m), .name = name, .labels = labels,
                                    .scale = type == SONDE_HISTOGRAM ? 1e-9 : 0 };
    struct sonde_family f;
    NEED(!sonde_define(type, &m, &f));
    return f;
}

struct ml_sum { uint64_t count, ns; };

static struct ml_sum ml_hist(const char *name, const char *label, const char *value,
                             const char *other_label, const char *other)
{
    static struct readback_hist r;
    readback_hist(sonde_hist_bind(ml_family(SONDE_HISTOGRAM, name, label, other_label, NULL),
                                  (const char *const[]){ value, other }), &r);
    return (struct ml_sum){ r.count, r.sum };
}

static struct ml_sum ml_phase(const char *model, const char *phase)
{
    return ml_hist("sonde_ml_phase_seconds", "model", model, "phase", phase);
}

static uint64_t ml_counter(const char *name, const char *label, const char *value)
{
    return readback_counter(sonde_counter_bind(ml_family(SONDE_COUNTER, name, label, NULL, NULL),
                                               &value));
}

static double ml_gauge(const char *name, const char *label, const char *value,
                       const char *other_label, const char *other)
{
    return readback_gauge(sonde_gauge_bind(ml_family(SONDE_GAUGE, name, label, other_label, NULL),
                                           (const char *const[]){ value, other }));
}

static void ml_work(uint64_t n)
{
    for (volatile uint64_t i = 0; i < n; i++) continue;
}

/* 3 epochs of 5 steps of 4 samples. */
static void ml_train(struct sonde_ml_loop *l)
{
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        sonde_ml_epoch_begin(l, epoch);
        for (int step = 0; step < 5; step++) {
            ml_work(300);
            sonde_ml_step_begin(l, SONDE_ML_FORWARD);
            ml_work(1000);
            sonde_ml_phase(l, SONDE_ML_BACKWARD);
            ml_work(2000);
            sonde_ml_phase(l, SONDE_ML_OPTIMIZER);
            ml_work(500);
            sonde_ml_step_end(l, 4, SONDE_OK);
        }
        sonde_ml_phase(l, SONDE_ML_VALIDATION);
        ml_work(400);
        sonde_ml_value(l, "train_loss", 1.0 / (double)(epoch + 1));
        sonde_ml_value(l, "train_loss", 0.5 / (double)(epoch + 1)); /* the last counts */
        sonde_ml_epoch_end(l, SONDE_OK);
    }
}

/* Each conversion from ticks drops less than one nanosecond. */
static int ml_near(uint64_t a, uint64_t b, uint64_t roundings)
{
    return a <= b + roundings && b <= a + roundings;
}

CHILD_TEST(phases_add_up)
{
    struct sonde_ml_loop l;
    sonde_ml_loop_define(&l, "net");
    ml_train(&l);
    const struct ml_sum step = ml_hist("sonde_ml_step_seconds", "model", "net", NULL, NULL);
    const struct ml_sum epoch = ml_hist("sonde_ml_epoch_seconds", "model", "net", NULL, NULL);
    const struct ml_sum first = ml_hist("sonde_ml_first_step_seconds", "model", "net", NULL, NULL);
    const struct ml_sum forward = ml_phase("net", "forward"), back = ml_phase("net", "backward");
    const struct ml_sum optimizer = ml_phase("net", "optimizer");
    const struct ml_sum wait = ml_phase("net", "data_wait");
    const struct ml_sum validation = ml_phase("net", "validation");
    NEED_EQ(step.count, 15);
    NEED_EQ(epoch.count, 3);
    NEED_EQ(first.count, 3);
    NEED_EQ(forward.count, 15);
    NEED_EQ(back.count, 15);
    NEED_EQ(optimizer.count, 15);
    NEED_EQ(wait.count, 18); /* before each step, and before each validation */
    NEED_EQ(validation.count, 3);
    NEED(first.ns < step.ns);
    const uint64_t inside = forward.ns + back.ns + optimizer.ns;
    NEED(ml_near(inside, step.ns, 15 * 3));
    NEED(ml_near(inside + wait.ns + validation.ns, epoch.ns, 15 * 3 + 18 + 3));
    NEED_EQ(ml_counter("sonde_ml_steps_total", "model", "net"), 15);
    NEED_EQ(ml_counter("sonde_ml_samples_total", "model", "net"), 60);
    NEED(ml_gauge("sonde_ml_epoch", "model", "net", NULL, NULL) == 2);
    NEED(ml_gauge("sonde_ml_value", "model", "net", "name", "train_loss") == 0.5 / 3);
}

/* Without a word about what follows the last step. */
CHILD_TEST(the_end_of_an_epoch_is_no_wait)
{
    struct sonde_ml_loop l;
    sonde_ml_loop_define(&l, NULL);
    sonde_ml_epoch_begin(&l, -3);
    sonde_ml_step_begin(&l, (enum sonde_ml_phase_id)99);
    sonde_ml_step_end(&l, 0, SONDE_ERROR);
    sonde_ml_epoch_end(&l, SONDE_OK);
    const struct ml_sum wait = ml_phase("default", "data_wait"), other = ml_phase("default", "other");
    const struct ml_sum epoch = ml_hist("sonde_ml_epoch_seconds", "model", "default", NULL, NULL);
    NEED_EQ(wait.count, 1);
    NEED_EQ(other.count, 2); /* a phase that there is not, and the end */
    NEED(ml_near(wait.ns + other.ns, epoch.ns, 3));
    NEED(ml_gauge("sonde_ml_epoch", "model", "default", NULL, NULL) == -3);
}

CHILD_TEST(steps_without_epochs)
{
    struct sonde_ml_loop l;
    sonde_ml_loop_define(&l, "net");
    for (int i = 0; i < 4; i++) {
        sonde_ml_step_begin(&l, SONDE_ML_FORWARD);
        sonde_ml_step_end(&l, 2, SONDE_OK);
    }
    NEED_EQ(ml_hist("sonde_ml_step_seconds", "model", "net", NULL, NULL).count, 4);
    NEED_EQ(ml_hist("sonde_ml_first_step_seconds", "model", "net", NULL, NULL).count, 0);
    NEED_EQ(ml_phase("net", "data_wait").count, 3);
    NEED_EQ(sonde_trace_current().hi | sonde_trace_current().span, 0); /* nothing stays open */
    sonde_ml_phase(&l, SONDE_ML_VALIDATION); /* in nothing */
    NEED_EQ(ml_phase("net", "validation").count, 0);
}

CHILD_TEST(out_of_order)
{
    struct sonde_ml_loop l;
    sonde_ml_loop_define(&l, "net");
    sonde_ml_step_end(&l, 1, SONDE_OK);
    sonde_ml_epoch_end(&l, SONDE_OK);
    sonde_ml_epoch_begin(&l, 1);
    sonde_ml_step_begin(&l, SONDE_ML_FORWARD);
    sonde_ml_step_begin(&l, SONDE_ML_FORWARD); /* ends the first */
    sonde_ml_epoch_begin(&l, 2);               /* ends both */
    sonde_ml_epoch_end(&l, SONDE_OK);
    sonde_ml_epoch_end(&l, SONDE_OK);
    NEED_EQ(ml_hist("sonde_ml_step_seconds", "model", "net", NULL, NULL).count, 2);
    NEED_EQ(ml_hist("sonde_ml_epoch_seconds", "model", "net", NULL, NULL).count, 2);
    NEED_EQ(sonde_trace_current().hi | sonde_trace_current().span, 0);
}

CHILD_TEST(off_is_harmless)
{
    struct sonde_ml_loop l;
    struct sonde_ml_scope s;
    sonde_enable(0);
    sonde_ml_loop_define(&l, "net");
    ml_train(&l);
    sonde_ml_inference_begin(&s, "net", 4);
    sonde_ml_inference_end(&s, SONDE_OK);
    sonde_ml_worker("w", 0.5, 1, 1);
    sonde_enable(1);
    ml_train(&l); /* its handles are those of nothing, but for phases, which come later */
    NEED_EQ(ml_hist("sonde_ml_step_seconds", "model", "net", NULL, NULL).count, 0);
    NEED_EQ(ml_hist("sonde_ml_inference_seconds", "model", "net", "batch_size", "4").count, 0);
}

CHILD_TEST(scopes)
{
    struct sonde_ml_scope s;
    sonde_ml_model_load_begin(&s, "net");
    sonde_ml_model_load_end(&s, 1 << 20, SONDE_OK);
    sonde_ml_model_init_begin(&s, "net");
    sonde_ml_model_init_end(&s, SONDE_OK);
    NEED_EQ(ml_hist("sonde_ml_model_load_seconds", "model", "net", "stage", "load").count, 1);
    NEED_EQ(ml_hist("sonde_ml_model_load_seconds", "model", "net", "stage", "init").count, 1);
    NEED(ml_gauge("sonde_ml_model_bytes", "model", "net", NULL, NULL) == 1 << 20);

    for (int i = 0; i < 3; i++) {
        sonde_ml_inference_begin(&s, "net", 32);
        sonde_ml_inference_end(&s, i ? SONDE_OK : SONDE_ERROR);
    }
    sonde_ml_inference_begin(&s, "net", 0);
    sonde_ml_inference_end(&s, SONDE_OK);
    NEED_EQ(ml_hist("sonde_ml_inference_seconds", "model", "net", "batch_size", "32").count, 3);
    NEED_EQ(ml_hist("sonde_ml_inference_seconds", "model", "net", "batch_size", "0").count, 1);
    NEED_EQ(ml_counter("sonde_ml_inference_items_total", "model", "net"), 64); /* that went well */

    sonde_ml_dataset_load_begin(&s, "digits", "csv");
    sonde_ml_dataset_load_end(&s, 1000, 123456, SONDE_OK);
    NEED_EQ(ml_hist("sonde_ml_dataset_load_seconds", "dataset", "digits", "format", "csv").count,
            1);
    NEED_EQ(ml_counter("sonde_ml_dataset_items_total", "dataset", "digits"), 1000);
    NEED_EQ(ml_counter("sonde_ml_dataset_bytes_total", "dataset", "digits"), 123456);
    sonde_ml_preprocess_begin(&s, "scale");
    sonde_ml_preprocess_end(&s, SONDE_OK);
    sonde_ml_preprocess_end(&s, SONDE_OK); /* it is over */
    NEED_EQ(ml_hist("sonde_ml_preprocess_seconds", "operation", "scale", NULL, NULL).count, 1);
}

CHILD_TEST(workers)
{
    static struct readback_hist r;
    struct sonde_ml_scope s;
    sonde_ml_task_begin(&s, "shard", "w0");
    sonde_ml_task_end(&s, SONDE_OK);
    sonde_ml_task_begin(&s, "shard", "w0");
    sonde_ml_task_end(&s, (enum sonde_outcome)77);
    const struct sonde_family task =
        ml_family(SONDE_HISTOGRAM, "sonde_ml_task_seconds", "task", "worker", "outcome");
    readback_hist(sonde_hist_bind(task, (const char *const[]){ "shard", "w0", "ok" }), &r);
    NEED_EQ(r.count, 1);
    readback_hist(sonde_hist_bind(task, (const char *const[]){ "shard", "w0", "error" }), &r);
    NEED_EQ(r.count, 1);
    sonde_ml_communication_begin(&s, "allreduce", "w1");
    sonde_ml_communication_end(&s, 4096, SONDE_OK);
    NEED_EQ(ml_hist("sonde_ml_communication_seconds", "operation", "allreduce", "worker",
                    "w1").count, 1);
    sonde_ml_worker("w0", 0.75, 1e9, 3);
    sonde_ml_worker("w0", NAN, -1, 2); /* only the last is told */
    NEED(ml_gauge("sonde_ml_worker_utilization_ratio", "worker", "w0", NULL, NULL) == 0.75);
    NEED(ml_gauge("sonde_ml_worker_memory_bytes", "worker", "w0", NULL, NULL) == 1e9);
    NEED(ml_gauge("sonde_ml_worker_active_tasks", "worker", "w0", NULL, NULL) == 2);
}

static void *ml_train_many(void *arg)
{
    struct sonde_ml_loop l;
    (void)arg;
    sonde_ml_loop_define(&l, "shared");
    for (int i = 0; i < 100; i++) ml_train(&l);
    return NULL;
}

CHILD_TEST(threads_lose_nothing)
{
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) NEED(!pthread_create(&thread[i], NULL, ml_train_many, NULL));
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    NEED_EQ(ml_hist("sonde_ml_step_seconds", "model", "shared", NULL, NULL).count, 6000);
    NEED_EQ(ml_phase("shared", "backward").count, 6000);
    NEED_EQ(ml_counter("sonde_ml_samples_total", "model", "shared"), 24000);
}

int main(void)
{
    readback_private_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_add_up),
        cmocka_unit_test(the_end_of_an_epoch_is_no_wait),
        cmocka_unit_test(steps_without_epochs),
        cmocka_unit_test(out_of_order),
        cmocka_unit_test(off_is_harmless),
        cmocka_unit_test(scopes),
        cmocka_unit_test(workers),
        cmocka_unit_test(threads_lose_nothing),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
