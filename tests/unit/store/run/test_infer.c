/* Inference requests in run files: what was saved comes back; older files and tampered ones. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "unit/profile/infer_build.h"
#include "unit/profile/profile_build.h"
#include "unit/store/run/run_file.h"

static struct sonde_profile *create(uint32_t requests)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    build_sample(p, "main;forward", 5, 0, 0);
    infer_build(p, requests);
    return p;
}

static void same_request(const struct sonde_infer_request *a, const struct sonde_infer_request *b)
{
    assert_int_equal(b->item_count, a->item_count);
    for (uint32_t i = 0; i < a->item_count; i++) {
        struct sonde_infer_item item = b->items[i];
        assert_string_equal(item.name, a->items[i].name);
        item.name = a->items[i].name;
        assert_memory_equal(&item, &a->items[i], sizeof(item));
    }
    assert_int_equal(b->attr_count, a->attr_count);
    for (uint32_t i = 0; i < a->attr_count; i++) {
        assert_string_equal(b->attrs[i].key, a->attrs[i].key);
        assert_string_equal(b->attrs[i].value, a->attrs[i].value);
    }
    const char *const texts[][2] = { { a->program, b->program }, { a->model, b->model },
                                     { a->route, b->route }, { a->backend, b->backend },
                                     { a->error, b->error }, { a->invalid, b->invalid } };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_string_equal(texts[i][0], texts[i][1]);
    }
    struct sonde_infer_request plain = *b; /* the rest */
    plain.program = a->program;
    plain.model = a->model;
    plain.route = a->route;
    plain.backend = a->backend;
    plain.error = a->error;
    plain.invalid = a->invalid;
    plain.items = a->items;
    plain.attrs = a->attrs;
    assert_memory_equal(&plain, a, sizeof(plain));
}

static void test_comes_back(void **state)
{
    (void)state;
    struct sonde_profile *p = create(9);
    save(p);
    struct sonde_profile *q = load();
    const struct sonde_infer_run *a = p->infer, *b = q->infer;
    assert_non_null(b);
    assert_int_equal(b->request_count, 9);
    for (size_t i = 0; i < 9; i++) same_request(&a->requests[i], &b->requests[i]);
    assert_int_equal(b->requests[3].item_count, 0);
    assert_int_equal(b->model_count, 1);
    const struct sonde_infer_model *m = &b->models[0];
    assert_string_equal(m->model, "tiny");
    assert_string_equal(m->backend, "cpu");
    assert_int_equal(m->kv_peak, 300);
    assert_int_equal(m->phase_tokens[SONDE_PHASE_DECODE], 400);
    assert_true(m->phase_s[SONDE_PHASE_DECODE] == 2 && m->load_s == 0.5);
    assert_int_equal(m->memory_count, 2);
    assert_string_equal(m->memory[1].kind, "kv");
    assert_int_equal(m->memory[1].peak, 2 << 20);
    assert_int_equal(b->invalid_count, 1);
    assert_string_equal(b->invalid[0].reason, "duplicate");
    assert_int_equal(b->invalid[0].count, 3);
    assert_true(b->slo_ttft_s == 0.1 && b->slo_itl_s == 0 && b->slo_total_s == 1);
    assert_int_equal(b->dropped, 2);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_none(void **state)
{
    (void)state;
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    build_sample(p, "main", 5, 0, 0);
    save(p);
    struct sonde_profile *q = load();
    assert_null(q->infer);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

/* Columns of another version: what is missing is 0, what is more is passed over. */
static void test_other_columns(void **state)
{
    (void)state;
    struct sonde_profile *p = create(3);
    save(p);
    edit("ALTER TABLE inference_requests DROP COLUMN batches;"
         "ALTER TABLE inference_requests DROP COLUMN backend;"
         "ALTER TABLE inference_requests ADD COLUMN later TEXT");
    struct sonde_profile *q = load();
    assert_int_equal(q->infer->requests[0].batches, 0);
    assert_string_equal(q->infer->requests[0].backend, "");
    assert_string_equal(q->infer->requests[0].model, "tiny");
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

/* A timeline is small: 256 items of it are less than 2 KiB. */
static void test_is_small(void **state)
{
    (void)state;
    struct sonde_profile *p = create(100);
    size_t items = 0;
    for (size_t i = 0; i < 100; i++) items += p->infer->requests[i].item_count;
    save(p);
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT sum(length(timeline)) FROM inference_requests",
                                        -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    const double bytes = sqlite3_column_double(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    print_message("%.1f bytes an item\n", bytes / (double)items);
    assert_true(bytes < 8 * (double)items);
    sonde_profile_destroy(p);
}

static void test_tampered(void **state)
{
    (void)state;
    static const struct { const char *sql, *says; } cases[] = {
        { "UPDATE inference_requests SET outcome='fine'", "there is no outcome 'fine'" },
        { "UPDATE inference_requests SET source=7", "there is no source '7'" },
        { "UPDATE inference_requests SET model=9999", "model is 9999" },
        { "UPDATE inference_requests SET model='tiny'", "model is not a number" },
        { "UPDATE inference_requests SET ttft_s=-1", "ttft_s is -1" },
        { "UPDATE inference_requests SET ttft_s=9", "ttft_s is 9, more than total_s" },
        { "UPDATE inference_requests SET total_s=2e9", "total_s is 2e+09" },
        { "UPDATE inference_requests SET total_s=9e999", "total_s is not a number" },
        { "UPDATE inference_requests SET tokens_reused=101", "tokens_reused is 101" },
        { "UPDATE inference_requests SET own_id=printf('%050d', 1)", "own_id is not a text" },
        { "UPDATE inference_requests SET arrived_ns=-5", "timeline: item 1 cannot be" },
        { "UPDATE inference_requests SET timeline='x'", "timeline is not a blob" },
        { "UPDATE inference_requests SET timeline=x'00112233'", "cannot be unpacked" },
        { "UPDATE inference_requests SET timeline=x'789c030000000001'", NULL }, /* empty */
        { "UPDATE inference_requests SET attributes=x'7b7d'", "attributes are not" },
        { "UPDATE inference_requests SET attributes='[]'", "attributes are not a JSON object" },
        { "UPDATE inference_requests SET attributes='{\"a\":1}'", "attributes: 'a' cannot be" },
        { "UPDATE inference_models SET load_s=-1", "load_s is -1" },
        { "UPDATE inference_models SET source='x'", "there is no source 'x'" },
        { "UPDATE inference_memory SET bytes='x'", "bytes is not a number" },
        { "UPDATE inference_memory SET model=77", NULL },
        { "UPDATE inference_invalid SET count=1.5", "count is not a number" },
        { "UPDATE inference SET slo_ttft_s=-1", "slo_ttft_s is -1" },
        { "DROP TABLE inference_models", "no such table: inference_models" },
        { "DELETE FROM inference_requests WHERE id=2", NULL },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_profile *p = create(5), *q = NULL;
        struct sonde_err err = { "" };
        save(p);
        sonde_profile_destroy(p);
        edit(cases[i].sql);
        const int rc = sonde_run_load(path, &q, &err);
        if (!cases[i].says) {
            if (rc) fail_msg("%s: %s", cases[i].sql, err.text);
            sonde_profile_destroy(q);
        } else if (rc != SONDE_EFORMAT || !strstr(err.text, cases[i].says)) {
            fail_msg("%s: %d, %s", cases[i].sql, rc, err.text);
        }
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

/* One whose figures cannot be was kept with its mark, and comes back so. */
static void test_invalid_request(void **state)
{
    (void)state;
    struct sonde_profile *p = create(1);
    struct sonde_infer_request r = infer_build_request(5);
    r.ttft_s = 100;
    r.invalid = "ttft_s";
    assert_int_equal(sonde_infer_run_add(p, &r), 0);
    save(p);
    struct sonde_profile *q = load();
    assert_string_equal(q->infer->requests[1].invalid, "ttft_s");
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_back),   cmocka_unit_test(test_none),
        cmocka_unit_test(test_other_columns), cmocka_unit_test(test_is_small),
        cmocka_unit_test(test_tampered),     cmocka_unit_test(test_invalid_request),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
