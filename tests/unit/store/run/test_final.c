/* Series as they stood at the end, in run files: what was saved comes back, not if it was tampered
 * with. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "unit/profile/engine_build.h"
#include "unit/profile/profile_build.h"
#include "unit/store/run/run_file.h"

static struct sonde_profile *create(void)
{
    static struct engine_built b;
    struct sonde_profile *p;
    memset(&b, 0, sizeof(b));
    engine_built_times(&b, "sonde_device_operation_seconds", "cpu", "matmul", 99, 2000000,
                       102000000);
    engine_built_value(&b, "sonde_memory_pool_bytes", "kv", "", 4096);
    b.series[1].peak = 8192;
    b.series[1].seconds = 12.5;
    engine_built_value(&b, "sonde_tokenizer_cache_accesses_total", "bpe", "hit", 12);
    engine_built_add(&b, "sonde_device_operation_seconds", "cpu", "never");
    assert_int_equal(sonde_profile_create(0, &p), 0);
    build_sample(p, "main;forward", 5, 0, 0);
    for (size_t i = 0; i < b.count; i++) assert_int_equal(sonde_final_add(p, &b.series[i]), 0);
    return p;
}

static void comes_back(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    save(p);
    struct sonde_profile *q = load();
    assert_non_null(q->final);
    assert_int_equal(q->final->count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct sonde_final_series *a = &p->final->series[i],
                                         *b = &q->final->series[i];
        assert_string_equal(a->family, b->family);
        assert_string_equal(a->program, b->program);
        assert_string_equal(a->subject, b->subject);
        assert_string_equal(a->detail, b->detail);
        assert_int_equal(a->pid, b->pid);
        assert_true(a->value == b->value && a->peak == b->peak && a->seconds == b->seconds);
        assert_int_equal(a->count, b->count);
        assert_int_equal(a->bucket_count, b->bucket_count);
        if (a->bucket_count) {
            assert_memory_equal(a->buckets, b->buckets, a->bucket_count * sizeof(*a->buckets));
        }
    }
    struct sonde_profile *merged; /* of two the series are those of the later one */
    assert_int_equal(sonde_profile_create(0, &merged), 0);
    p->final->series[1].value = 5;
    assert_int_equal(sonde_profile_merge(merged, q), 0);
    assert_int_equal(sonde_profile_merge(merged, p), 0);
    assert_int_equal(merged->final->count, 4);
    assert_true(merged->final->series[1].value == 5);
    sonde_profile_destroy(merged);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void what_cannot_be_is_refused(void **state)
{
    static const struct { const char *sql, *says; } rows[] = {
        { "UPDATE engine_series SET count=7 WHERE id=1", "count is not that of its buckets" },
        { "UPDATE engine_series SET buckets='text' WHERE id=1", "buckets is not a blob" },
        { "UPDATE engine_series SET buckets=x'80' WHERE id=1", "bucket 1 cannot be" },
        { "UPDATE engine_series SET buckets=x'ffffffffffffffffff7f01' WHERE id=1",
          "bucket 1 cannot" },
        { "UPDATE engine_series SET buckets=x'05010001' WHERE id=1", "bucket 2 cannot be" },
        { "UPDATE engine_series SET buckets=x'0500' WHERE id=1", "bucket 1 cannot be" },
        { "UPDATE engine_series SET value=1e300 WHERE id=2", "value is 1e+300" },
        { "UPDATE engine_series SET peak=-1e300 WHERE id=2", "peak is -1e+300" },
        { "UPDATE engine_series SET seconds=-1 WHERE id=2", "seconds is -1" },
        { "UPDATE engine_series SET subject=9999 WHERE id=2", "subject is 9999" },
        { "UPDATE engine_series SET pid=-1 WHERE id=2", "pid" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sonde_profile *p = create(), *q = NULL;
        struct sonde_err err = { "" };
        save(p);
        edit(rows[i].sql);
        assert_int_equal(sonde_run_load(path, &q, &err), SONDE_EFORMAT);
        if (!strstr(err.text, rows[i].says)) fail_msg("%s: %s", rows[i].sql, err.text);
        sonde_profile_destroy(p);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

static void none_and_other_columns(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    save(p);
    edit("ALTER TABLE engine_series DROP COLUMN peak; ALTER TABLE engine_series ADD COLUMN later "
         "TEXT");
    struct sonde_profile *q = load();
    assert_int_equal(q->final->count, 4);
    assert_true(q->final->series[1].peak == 0);
    sonde_profile_destroy(q);
    edit("DROP TABLE engine_series");
    q = load();
    assert_null(q->final);
    sonde_profile_destroy(q);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(none_and_other_columns),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
