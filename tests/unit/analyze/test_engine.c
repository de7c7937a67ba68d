/* Devices, pools and tokenizers, worked out of series whose figures are known. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "analyze/engine.h"
#include "analyze/final_model.h"
#include "base/alloc.h"
#include "model/model.h"
#include "profile/profile.h"
#include "sonde/sonde.h"
#include "unit/profile/engine_build.h"

static struct engine_built b;

static int clear(void **state)
{
    (void)state;
    memset(&b, 0, sizeof(b));
    return 0;
}

static struct sonde_engine *built(void)
{
    struct sonde_engine *e;
    assert_int_equal(sonde_engine_build(b.series, b.count, &e), 0);
    return e;
}

static int is_near(double v, double wanted) { return fabs(v - wanted) <= 0.0055 * wanted; }

static void devices_and_their_operations(void **state)
{
    (void)state;
    engine_built_times(&b, "sonde_device_operation_seconds", "cpu", "norm", 10, 1000000, 0);
    engine_built_times(&b, "sonde_device_operation_seconds", "cpu", "matmul", 99, 2000000,
                       102000000);
    engine_built_times(&b, "sonde_device_operation_seconds", "cuda0", "matmul", 90, 1000000, 0);
    engine_built_add(&b, "sonde_device_operation_seconds", "cpu", "never");
    engine_built_value(&b, "sonde_device_fallbacks_total", "cuda0", "unsupported", 1);
    engine_built_value(&b, "sonde_device_fallbacks_total", "cuda0", "out_of_memory", 5);
    engine_built_value(&b, "sonde_device_fallbacks_total", "opencl0", "never", 0);
    engine_built_value(&b, "sonde_device_memory_bytes", "cuda0", "used", 600);
    engine_built_value(&b, "sonde_device_memory_bytes", "cuda0", "total", 800);
    engine_built_value(&b, "sonde_device_memory_bytes", "cpu", "used", 5);
    struct sonde_engine *e = built();
    assert_int_equal(e->device_count, 2);
    assert_int_equal(e->cpu_operations, 110);
    assert_int_equal(e->gpu_operations, 90);
    assert_int_equal(e->fallbacks, 6);
    assert_true(fabs(e->device_seconds - 0.4) < 1e-12);
    assert_int_equal(e->several, 0);

    const struct sonde_engine_device *cpu = &e->devices[0], *gpu = &e->devices[1];
    assert_string_equal(cpu->device, "cpu");
    assert_int_equal(cpu->gpu, 0);
    assert_int_equal(cpu->op_count, 2); /* what was never done is not shown */
    assert_string_equal(cpu->ops[0].operation, "matmul");
    assert_int_equal(cpu->ops[0].time.count, 100);
    assert_true(fabs(cpu->ops[0].time.mean_s - 0.003) < 1e-12);
    assert_true(is_near(cpu->ops[0].time.p99_s, 0.002) && is_near(cpu->ops[0].time.max_s, 0.102));
    assert_true(fabs(cpu->ops[0].share - 0.75) < 1e-12 && fabs(cpu->share - 0.775) < 1e-12);
    assert_true(cpu->used_bytes == 5 && isnan(cpu->total_bytes) && isnan(cpu->efficiency));
    assert_int_equal(gpu->gpu, 1);
    assert_int_equal(gpu->fallbacks, 6);
    assert_string_equal(gpu->reasons[0].reason, "out_of_memory");
    assert_int_equal(gpu->reasons[1].count, 1);
    assert_true(gpu->efficiency == 0.75);
    sonde_engine_destroy(e);
}

static void pool(const char *name, double capacity, double used, double requested,
                 double free_block)
{
    engine_built_value(&b, "sonde_memory_pool_bytes", name, "", used);
    engine_built_value(&b, "sonde_memory_pool_capacity_bytes", name, "", capacity);
    engine_built_value(&b, "sonde_memory_pool_requested_bytes", name, "", requested);
    engine_built_value(&b, "sonde_memory_pool_free_block_bytes", name, "", free_block);
}

static void pools_and_their_fragmentation(void **state)
{
    (void)state;
    pool("kv", 1000, 600, 450, 100);
    pool("weights", 500, 200, 200, 300);
    engine_built_value(&b, "sonde_memory_pool_bytes", "plain", "", 50); /* by sonde_pool alone */
    b.series[0].peak = 700; /* the agent saw that of kv */
    engine_built_times(&b, "sonde_memory_pool_allocation_seconds", "kv", "", 40, 2000, 0);
    engine_built_times(&b, "sonde_memory_pool_allocation_seconds", "weights", "", 10, 7000, 0);
    engine_built_times(&b, "sonde_memory_pool_free_seconds", "kv", "", 5, 1000, 0);
    engine_built_value(&b, "sonde_memory_pool_failures_total", "kv", "", 3);
    engine_built_value(&b, "sonde_memory_pool_peak_bytes", "weights", "", 400);
    struct sonde_engine *e = built();
    assert_int_equal(e->pool_count, 3);
    const struct sonde_engine_pool *kv = &e->pools[0], *weights = &e->pools[1],
                                   *plain = &e->pools[2];
    assert_string_equal(kv->pool, "kv");
    assert_true(fabs(kv->external - 0.75) < 1e-12 && fabs(kv->internal - 0.25) < 1e-12);
    assert_true(kv->peak_bytes == 700);
    assert_int_equal(kv->allocation.count, 40);
    assert_true(is_near(kv->allocation.p99_s, 2e-6) && is_near(kv->release.mean_s, 1e-6));
    assert_int_equal(kv->failures, 3);
    assert_true(weights->external == 0 && weights->internal == 0 && weights->peak_bytes == 400);
    assert_true(isnan(weights->release.mean_s));
    assert_true(isnan(plain->external) && isnan(plain->internal) && isnan(plain->capacity_bytes));

    const struct sonde_engine_pool *all = &e->all_pools;
    assert_true(all->used_bytes == 850 && all->capacity_bytes == 1500 &&
                all->requested_bytes == 650);
    assert_true(fabs(all->external - (1 - 400.0 / 700)) < 1e-12);
    assert_true(fabs(all->internal - (1 - 650.0 / 800)) < 1e-12);
    assert_int_equal(all->allocation.count, 50);
    assert_true(fabs(all->allocation.mean_s - 3e-6) < 1e-15 &&
                is_near(all->allocation.max_s, 7e-6));
    assert_int_equal(all->failures, 3);
    sonde_engine_destroy(e);
}

/* Gauges are read one after the other, and may be anything. */
static void fragmentation_stays_between_0_and_1(void **state)
{
    (void)state;
    /* More asked for than used, a block larger than what is free. */
    pool("ahead", 100, 60, 80, 90);
    pool("full", 100, 100, 100, 0);
    pool("over", 100, 160, 10, 0);
    pool("below", -100, -60, -10, -5);
    pool("empty", 100, 0, 0, 100);
    struct sonde_engine *e = built();
    for (uint32_t i = 0; i < e->pool_count; i++) {
        const struct sonde_engine_pool *p = &e->pools[i];
        assert_true(isnan(p->external) || (p->external >= 0 && p->external <= 1));
        assert_true(isnan(p->internal) || (p->internal >= 0 && p->internal <= 1));
        assert_true(p->used_bytes >= 0);
    }
    sonde_engine_destroy(e);
}

static void nothing_to_say(void **state)
{
    (void)state;
    assert_null(built());
    /* A pool of sonde.h: the heap's. */
    engine_built_value(&b, "sonde_memory_pool_bytes", "kv", "", 5);
    engine_built_value(&b, "sonde_tokenizer_bytes_total", "bpe", "", 0);
    engine_built_add(&b, "sonde_device_operation_seconds", "cpu", "matmul");
    engine_built_value(&b, "sonde_of_a_later_version", "x", "", 1);
    assert_null(built());
}

/* ---- Tokenizers ------------------------------------------------------------------------------ */

static void tokenizer(double tokens, double lookups, double merges, double hits, double misses)
{
    engine_built_value(&b, "sonde_tokenizer_bytes_total", "bpe", "", 4 * tokens);
    engine_built_value(&b, "sonde_tokenizer_tokens_total", "bpe", "", tokens);
    engine_built_value(&b, "sonde_tokenizer_lookups_total", "bpe", "", lookups);
    engine_built_value(&b, "sonde_tokenizer_merges_total", "bpe", "", merges);
    engine_built_value(&b, "sonde_tokenizer_cache_accesses_total", "bpe", "hit", hits);
    engine_built_value(&b, "sonde_tokenizer_cache_accesses_total", "bpe", "miss", misses);
}

static void encodes(const char *length, uint64_t n, uint64_t ns)
{
    engine_built_times(&b, "sonde_tokenizer_encode_seconds", "bpe", length, n, ns, 0);
}

/* The kinds of advice on it, a bit each. */
static unsigned advised(void)
{
    struct sonde_engine *e = built();
    unsigned kinds = 0;
    assert_int_equal(e->tokenizer_count, 1);
    for (uint32_t i = 0; i < e->tokenizers[0].advice_count; i++) {
        kinds |= 1u << e->tokenizers[0].advice[i].kind;
    }
    sonde_engine_destroy(e);
    memset(&b, 0, sizeof(b));
    return kinds;
}

static void a_tokenizer_and_its_lengths(void **state)
{
    (void)state;
    tokenizer(10000, 30000, 5000, 900, 100);
    encodes("1-64", 100, 50000);
    encodes("257-1024", 20, 250000);
    encodes("of a later version", 10, 1000);
    engine_built_times(&b, "sonde_tokenizer_decode_seconds", "bpe", "", 10, 1000, 0);
    struct sonde_engine *e = built();
    const struct sonde_engine_tokenizer *t = &e->tokenizers[0];
    assert_int_equal(t->encode.count, 130);
    assert_true(fabs(t->encode.sum_s - 0.01001) < 1e-12);
    assert_true(fabs(t->tokens_per_s - 10000 / 0.01001) < 1e-3);
    assert_true(t->bytes_per_token == 4 && t->lookups_per_token == 3 && t->merges_per_token == 0.5);
    assert_true(t->hit_ratio == 0.9);
    assert_int_equal(t->slowest, 2);
    assert_string_equal(t->lengths[2].label, "257-1024");
    assert_int_equal(t->lengths[2].bytes_min, 257);
    assert_true(fabs(t->lengths[2].share - 0.005 / 0.01001) < 1e-9);
    assert_int_equal(t->lengths[1].time.count, 0);
    assert_int_equal(t->decode.count, 10);
    assert_int_equal(t->advice_count, 0);
    sonde_engine_destroy(e);
}

static void advice_follows_from_figures(void **state)
{
    (void)state;
    const unsigned misses = 1u << SONDE_ENGINE_ADVICE_CACHE_MISSES;
    const unsigned none = 1u << SONDE_ENGINE_ADVICE_NO_CACHE;
    const unsigned lengths = 1u << SONDE_ENGINE_ADVICE_LONG_INPUTS;
    const unsigned lookups = 1u << SONDE_ENGINE_ADVICE_LOOKUPS;

    tokenizer(10000, 30000, 5000, 400, 600);
    encodes("1-64", 100, 50000);
    assert_int_equal(advised(), misses);
    tokenizer(10000, 30000, 5000, 400, 600); /* too few inputs to say anything */
    encodes("1-64", 99, 50000);
    assert_int_equal(advised(), 0);
    tokenizer(10000, 30000, 5000, 40, 60);   /* too few look-ups in the cache */
    encodes("1-64", 100, 50000);
    assert_int_equal(advised(), 0);
    tokenizer(10000, 30000, 25000, 0, 0);
    encodes("1-64", 100, 50000);
    assert_int_equal(advised(), none);
    tokenizer(10000, 30000, 500, 0, 0);      /* there is no need of one */
    encodes("1-64", 100, 50000);
    assert_int_equal(advised(), 0);
    tokenizer(10000, 90000, 500, 0, 0);
    encodes("1-64", 100, 50000);
    assert_int_equal(advised(), lookups);
    /* 16 to 64 times as long: up to 64 times the time may be in proportion … */
    tokenizer(10000, 30000, 500, 0, 0);
    encodes("65-256", 100, 1000);
    encodes("1025-4096", 20, 64000);
    assert_int_equal(advised(), 0);
    /* … 1000 times may not. */
    tokenizer(10000, 30000, 500, 0, 0);
    encodes("65-256", 100, 1000);
    encodes("1025-4096", 20, 1000000);
    assert_int_equal(advised(), lengths);
    tokenizer(10000, 30000, 500, 0, 0);      /* too few of those */
    encodes("65-256", 100, 1000);
    encodes("1025-4096", 9, 1000000);
    assert_int_equal(advised(), 0);
}

static void advice_says_the_figures(void **state)
{
    (void)state;
    tokenizer(10000, 30000, 5000, 400, 600);
    encodes("1-64", 100, 50000);
    struct sonde_engine *e = built();
    const char *text = e->tokenizers[0].advice[0].text;
    assert_non_null(strstr(text, "40.0 % of 1000 look-ups"));
    assert_non_null(strstr(text, "600 misses took 8.3 merges"));
    assert_string_equal(sonde_engine_advice_name(e->tokenizers[0].advice[0].kind), "cache_misses");
    sonde_engine_destroy(e);
}

/* ---- Several programs, a model --------------------------------------------------------------- */

static void programs_are_kept_apart(void **state)
{
    (void)state;
    engine_built_times(&b, "sonde_device_operation_seconds", "cpu", "matmul", 10, 1000000, 0);
    b.pid = 43;
    engine_built_times(&b, "sonde_device_operation_seconds", "cpu", "matmul", 20, 1000000, 0);
    struct sonde_engine *e = built();
    assert_int_equal(e->device_count, 2);
    assert_int_equal(e->devices[0].who.pid, 43);
    assert_int_equal(e->devices[0].operations, 20);
    assert_int_equal(e->several, 1);
    sonde_engine_destroy(e);
}

static struct sonde_model_series *model_series(struct sonde_model *m, struct sonde_model_process *p,
                                               const struct sonde_model_family_spec *spec,
                                               const struct sonde_label *labels, size_t count)
{
    struct sonde_model_series *s =
        sonde_model_series(m, sonde_model_family(m, spec), p, labels, count);
    assert_non_null(s);
    return s;
}

static void of_a_model_and_of_its_recording_the_same(void **state)
{
    (void)state;
    struct sonde_model *m;
    struct sonde_profile *p;
    struct sonde_engine *live, *kept;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    struct sonde_model_process *process = sonde_model_process(m, 42, 7, "engine");
    struct sonde_model_series *op = model_series(m, process, &(struct sonde_model_family_spec){
        .name = "sonde_device_operation_seconds", .type = SONDE_HISTOGRAM, .scale = 1e-9 },
        (struct sonde_label[]){ { "device", "cpu" }, { "operation", "matmul" } }, 2);
    sonde_model_record(op, 1000000, 300);
    struct sonde_model_family_spec gauge = { .name = "sonde_memory_pool_bytes",
                                             .type = SONDE_GAUGE };
    struct sonde_model_series *used = model_series(m, process, &gauge,
        (struct sonde_label[]){ { "pool", "kv" } }, 1);
    gauge.name = "sonde_memory_pool_capacity_bytes";
    struct sonde_model_series *capacity = model_series(m, process, &gauge,
        (struct sonde_label[]){ { "pool", "kv" } }, 1);
    gauge.name = "sonde_memory_pool_free_block_bytes";
    model_series(m, process, &gauge, (struct sonde_label[]){ { "pool", "kv" } }, 1)->gauge = NAN;
    capacity->gauge = 4096;
    used->gauge = 3000;
    sonde_model_tick(m, 1000);
    used->gauge = 1024; /* what it was once is its peak */
    sonde_model_tick(m, 1001);

    assert_int_equal(sonde_engine_of_model(m, &live), 0);
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_final_complete_run(m, p), 0);
    assert_int_equal(sonde_final_complete_run(m, p), 0); /* again: the same series, replaced */
    assert_int_equal(p->final->count, 4);
    assert_int_equal(sonde_engine_build(p->final->series, p->final->count, &kept), 0);
    struct sonde_engine *const both[] = { live, kept };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(both[i]->devices[0].operations, 300);
        assert_true(fabs(both[i]->device_seconds - 0.3) < 1e-9);
        assert_true(both[i]->pools[0].used_bytes == 1024 && both[i]->pools[0].peak_bytes == 3000);
        assert_true(both[i]->pools[0].external == 1); /* NaN is no block */
        assert_string_equal(both[i]->pools[0].who.program, "engine");
        sonde_engine_destroy(both[i]);
    }
    sonde_profile_destroy(p);
    sonde_model_destroy(m);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    engine_built_times(&b, "sonde_device_operation_seconds", "cpu", "matmul", 10, 1000000, 0);
    engine_built_value(&b, "sonde_device_fallbacks_total", "cuda0", "x", 1);
    pool("kv", 1000, 600, 450, 100);
    tokenizer(10000, 30000, 5000, 400, 600);
    encodes("1-64", 100, 50000);
    int rc = SONDE_ENOMEM;
    for (uint64_t n = 1; rc; n++) {
        struct sonde_engine *e = NULL;
        sonde__alloc_fail_nth(n);
        rc = sonde_engine_build(b.series, b.count, &e);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || (rc == SONDE_ENOMEM && !e));
        sonde_engine_destroy(e);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(devices_and_their_operations, clear),
        cmocka_unit_test_setup(pools_and_their_fragmentation, clear),
        cmocka_unit_test_setup(fragmentation_stays_between_0_and_1, clear),
        cmocka_unit_test_setup(nothing_to_say, clear),
        cmocka_unit_test_setup(a_tokenizer_and_its_lengths, clear),
        cmocka_unit_test_setup(advice_follows_from_figures, clear),
        cmocka_unit_test_setup(advice_says_the_figures, clear),
        cmocka_unit_test_setup(programs_are_kept_apart, clear),
        cmocka_unit_test_setup(of_a_model_and_of_its_recording_the_same, clear),
        cmocka_unit_test_setup(every_allocation_may_fail, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
