/* The agent's model: order, identity, escaping, history, limits, and that nothing is leaked
 * whichever allocation fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "model/model.h"

static struct sonde_model *model_new(size_t series, size_t history, size_t spans)
{
    struct sonde_model_limits limits = { series, history, spans };
    struct sonde_model *m = NULL;
    assert_int_equal(sonde_model_create(&limits, &m), 0);
    return m;
}

static struct sonde_model_family *family(struct sonde_model *m, const char *name,
                                         enum sonde_type type)
{
    struct sonde_model_family_spec spec = { .name = name, .type = type };
    return sonde_model_family(m, &spec);
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(sonde__alloc_live(), 0);
    return 0;
}

static void families_are_sorted(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(0, 0, 0);
    char name[32];
    for (unsigned i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "f_%u_total", (i * 7919u) % 500u);
        assert_non_null(family(m, name, SONDE_COUNTER));
    }
    assert_int_equal(m->family_count, 500);
    for (size_t i = 1; i < m->family_count; i++) {
        assert_true(strcmp(m->families[i - 1]->name, m->families[i]->name) < 0);
    }
    for (unsigned i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "f_%u_total", i);
        assert_string_equal(family(m, name, SONDE_COUNTER)->name, name);
    }
    assert_int_equal(m->family_count, 500);
    sonde_model_destroy(m);
}

static void family_conflicts_are_counted(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(0, 0, 0);
    struct sonde_model_family_spec spec = { .name = "a", .type = SONDE_HISTOGRAM, .scale = 1e-9 };
    assert_non_null(sonde_model_family(m, &spec));
    assert_non_null(sonde_model_family(m, &spec));
    spec.scale = 0;
    assert_null(sonde_model_family(m, &spec));
    spec.type = SONDE_GAUGE;
    spec.scale = 1e-9;
    assert_null(sonde_model_family(m, &spec));
    assert_int_equal(m->dropped_conflicts, 2);
    sonde_model_destroy(m);
}

static void labels_are_escaped(void **state)
{
    (void)state;
    static const struct { const char *value, *text; } cases[] = {
        { "", "l=\"\"" },
        { "plain", "l=\"plain\"" },
        { "a\"b", "l=\"a\\\"b\"" },
        { "a\\b", "l=\"a\\\\b\"" },
        { "a\nb", "l=\"a\\nb\"" },
        { "\\\"\n", "l=\"\\\\\\\"\\n\"" },
        { "\t{}=,", "l=\"\t{}=,\"" },
        { "gr\xc3\xbc\xc3\x9f", "l=\"gr\xc3\xbc\xc3\x9f\"" },
    };
    struct sonde_model *m = model_new(0, 0, 0);
    struct sonde_model_family *f = family(m, "a", SONDE_GAUGE);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_label label = { "l", cases[i].value };
        struct sonde_model_series *s = sonde_model_series(m, f, NULL, &label, 1);
        assert_string_equal(s->label_text, cases[i].text);
        assert_int_equal(s->label_text_len, strlen(cases[i].text));
        assert_string_equal(s->labels[0].value, cases[i].value);
    }
    struct sonde_model_series *bare = sonde_model_series(m, f, NULL, NULL, 0);
    assert_string_equal(bare->label_text, "");
    sonde_model_destroy(m);
}

static void series_are_found_again(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(0, 0, 0);
    struct sonde_model_family *f = family(m, "a", SONDE_COUNTER);
    struct sonde_model_process *p = sonde_model_process(m, 7, 1, "x");
    assert_ptr_equal(p, sonde_model_process(m, 7, 1, "x"));
    struct sonde_model_process *q = sonde_model_process(m, 7, 2, "x");
    struct sonde_model_process *r = sonde_model_process(m, 7, 1, "y");
    assert_ptr_not_equal(p, q);
    assert_ptr_not_equal(p, r);
    char text[3000][8];
    struct sonde_model_series *all[3000];
    for (unsigned i = 0; i < 3000; i++) {
        snprintf(text[i], sizeof(text[i]), "%u", i / 3);
        struct sonde_label label = { "k", text[i] };
        all[i] = sonde_model_series(m, f, i % 3 == 0 ? NULL : i % 3 == 1 ? p : q, &label, 1);
        assert_non_null(all[i]);
    }
    assert_int_equal(m->series_count, 3000);
    for (unsigned i = 0; i < 3000; i++) {
        struct sonde_label label = { "k", text[i] };
        assert_ptr_equal(all[i], sonde_model_series(m, f, all[i]->process, &label, 1));
    }
    assert_int_equal(m->series_count, 3000);
    assert_string_equal(all[1]->label_text, "k=\"0\",process=\"x\",pid=\"7\"");
    struct sonde_label clash[2] = { { "pid", "1" }, { "process", "z" } };
    struct sonde_model_series *s = sonde_model_series(m, f, p, clash, 2);
    assert_string_equal(s->label_text,
                        "exported_pid=\"1\",exported_process=\"z\",process=\"x\",pid=\"7\"");
    assert_ptr_equal(s, sonde_model_series(m, f, p, clash, 2));
    sonde_model_destroy(m);
}

static void forgetting_frees_everything(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(0, 0, 0);
    struct sonde_model_process *p = sonde_model_process(m, 1, 1, "gone");
    struct sonde_model_process *q = sonde_model_process(m, 2, 1, "stays");
    struct sonde_model_series *kept = NULL;
    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%03u", i);
        struct sonde_model_family *f = family(m, name, SONDE_HISTOGRAM);
        struct sonde_model_series *s = sonde_model_series(m, f, p, NULL, 0);
        sonde_hist_value_add(sonde_model_hist(s), i, 1);
        if (i == 50) kept = sonde_model_series(m, f, q, NULL, 0);
    }
    sonde_model_tick(m, 1);
    sonde_model_tick(m, 2);
    assert_int_equal(p->series_count, 100);
    sonde_model_process_forget(m, p);
    assert_int_equal(m->process_count, 1);
    assert_int_equal(m->series_count, 1);
    assert_int_equal(m->family_count, 1);
    assert_ptr_equal(m->families[0]->series[0], kept);
    assert_ptr_equal(sonde_model_series(m, kept->family, q, NULL, 0), kept);
    assert_int_equal(q->series_count, 1);
    sonde_model_series_forget(m, kept);
    assert_int_equal(q->series_count, 0);
    assert_non_null(family(m, "f001", SONDE_GAUGE)); /* the name is free again */
    sonde_model_destroy(m);
}

static double newest(const struct sonde_model *m, const struct sonde_model_series *s)
{
    return s->history[(m->tick - 1) % SONDE_HISTORY];
}

static void processes_are_renamed(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(0, 0, 4);
    struct sonde_model_process *p = sonde_model_process(m, 7, 1, "before");
    struct sonde_model_process *other = sonde_model_process(m, 7, 1, "taken");
    struct sonde_model_family *f = family(m, "a_total", SONDE_COUNTER);
    struct sonde_label own = { "code", "200" };
    struct sonde_model_series *a = sonde_model_series(m, f, p, &own, 1);
    struct sonde_model_series *b = sonde_model_series(m, family(m, "b", SONDE_GAUGE), p, NULL, 0);
    struct sonde_model_series *c = sonde_model_series(m, f, other, &own, 1);
    a->counter = 5;
    a->stored = 1;
    assert_int_equal(sonde_model_process_rename(m, p, "taken"), SONDE_EEXIST);
    assert_string_equal(p->program, "before");
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "again" : "a \"name\"";
        uint64_t nth = 0;
        int rc = SONDE_ENOMEM;
        while (rc == SONDE_ENOMEM) {
            sonde__alloc_fail_nth(++nth);
            rc = sonde_model_process_rename(m, p, name);
            sonde__alloc_fail_nth(0);
            if (rc != 0) assert_true(strstr(a->label_text, i ? "a \\\"name" : "before") != NULL);
        }
        assert_int_equal(rc, 0);
        assert_true(nth >= 3);
        assert_string_equal(p->program, name);
        assert_string_equal(a->labels[1].value, name);
        assert_string_equal(a->label_text, i ? "code=\"200\",process=\"again\",pid=\"7\""
                                             : "code=\"200\",process=\"a \\\"name\\\"\",pid=\"7\"");
        assert_ptr_equal(sonde_model_series(m, f, p, &own, 1), a);
        assert_ptr_equal(sonde_model_series(m, b->family, p, NULL, 0), b);
        assert_ptr_equal(sonde_model_process(m, 7, 1, name), p);
    }
    assert_int_equal(a->counter, 5);
    assert_int_equal(a->stored, 0);
    assert_int_equal(m->series_count, 3);
    assert_string_equal(c->labels[1].value, "taken");
    sonde_model_span(m, &(struct sonde_model_span){ .name = "s", .program = "again", .pid = 7 });
    sonde_model_span(m, &(struct sonde_model_span){ .name = "s", .program = "again", .pid = 8 });
    assert_int_equal(sonde_model_process_rename(m, p, "last"), 0);
    assert_string_equal(m->spans[0].program, "last");
    assert_string_equal(m->spans[1].program, "again");
    sonde_model_process_forget(m, p);
    assert_int_equal(m->series_count, 1);
    sonde_model_destroy(m);
}

static void counter_history_is_increase(void **state)
{
    (void)state;
    static const struct { uint64_t value; double increase; } ticks[] = {
        { 1000, -1 }, /* where it starts; nothing known of before */
        { 1000, 0 }, { 1010, 10 }, { 1011, 1 },
        { 5, 5 },     /* restarted */
        { 6, 1 },
    };
    struct sonde_model *m = model_new(0, 0, 0);
    struct sonde_model_family_spec spec = { .name = "a_total", .type = SONDE_COUNTER,
                                            .scale = 0.5 };
    struct sonde_model_series *s =
        sonde_model_series(m, sonde_model_family(m, &spec), NULL, NULL, 0);
    struct sonde_label label = { "fresh", "1" };
    struct sonde_model_series *fresh = sonde_model_series(m, s->family, NULL, &label, 1);
    fresh->from_zero = 1;
    fresh->counter = 4;
    for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++) {
        s->counter = ticks[i].value;
        sonde_model_tick(m, 100 + (double)i);
        assert_int_equal(s->history_count, i);
        assert_int_equal(fresh->history_count, i + 1);
        if (i == 0) assert_true(newest(m, fresh) == 2);
        if (i > 0) assert_true(newest(m, s) == ticks[i].increase * 0.5);
    }
    sonde_model_destroy(m);
}

static void history_wraps(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(0, 0, 0);
    struct sonde_model_series *s =
        sonde_model_series(m, family(m, "g", SONDE_GAUGE), NULL, NULL, 0);
    for (unsigned i = 0; i < 150; i++) {
        s->gauge = i;
        sonde_model_tick(m, 1000 + 2.0 * i);
    }
    assert_int_equal(s->history_count, SONDE_HISTORY);
    for (unsigned age = 0; age < SONDE_HISTORY; age++) {
        assert_true(s->history[(m->tick - 1 - age) % SONDE_HISTORY] == 149.0 - age);
        assert_true(sonde_model_tick_end(m, age) == 1000 + 2.0 * (149 - age));
        assert_true(sonde_model_tick_len(m, age) == 2);
    }
    sonde_model_tick(m, 10); /* clock set back: the length stays */
    assert_true(m->interval_s == 2);
    sonde_model_destroy(m);
}

static void hist_history_is_sparse(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(0, 0, 0);
    struct sonde_model_series *s =
        sonde_model_series(m, family(m, "h", SONDE_HISTOGRAM), NULL, NULL, 0);
    sonde_model_tick(m, 1);
    assert_null(s->history_hist);
    assert_int_equal(s->history_count, 1);
    struct sonde_hist_value *h = sonde_model_hist(s);
    assert_int_equal(sonde_hist_value_add(h, SONDE__HIST_BUCKETS, 1), SONDE_EINVAL);
    sonde_hist_value_add(h, 700, 2);
    sonde_hist_value_add(h, 10, 3);
    h->zero = 4;
    h->count += 4;
    h->sum_raw = 77;
    sonde_model_tick(m, 2);
    const struct sonde_hist_delta *d = &s->history_hist[1];
    assert_int_equal(d->count, 9);
    assert_int_equal(d->zero, 4);
    assert_int_equal(d->sum_raw, 77);
    assert_int_equal(d->bucket_count, 2);
    assert_int_equal(d->bucket[0].p, 10);
    assert_int_equal(d->bucket[0].n, 3);
    assert_int_equal(d->bucket[1].p, 700);
    assert_int_equal(d->bucket[1].n, 2);
    sonde_model_tick(m, 3);
    assert_int_equal(s->history_hist[2].count, 0);
    assert_int_equal(s->history_hist[2].bucket_count, 0);
    h->octave[10][60] = 1; /* 700 = 10 * 64 + 60: gone back, as a restarted source does */
    h->count = 4;
    h->zero = 0;
    h->sum_raw = 5;
    sonde_model_tick(m, 4);
    assert_int_equal(s->history_hist[3].count, 4);
    assert_int_equal(s->history_hist[3].bucket_count, 2);
    assert_int_equal(s->history_hist[3].bucket[1].n, 1);
    assert_int_equal(s->history_count, 4);
    sonde_model_destroy(m);
}

static void limits_hold(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(10, 4, 16);
    struct sonde_model_family *f = family(m, "a", SONDE_GAUGE);
    for (unsigned i = 0; i < 15; i++) {
        char text[8];
        snprintf(text, sizeof(text), "%u", i);
        struct sonde_label label = { "k", text };
        struct sonde_model_series *s = sonde_model_series(m, f, NULL, &label, 1);
        assert_int_equal(s != NULL, i < 10);
    }
    assert_int_equal(m->series_count, 10);
    assert_int_equal(m->dropped_series, 5);
    sonde_model_tick(m, 1);
    size_t with = 0;
    for (size_t i = 0; i < f->series_count; i++) with += f->series[i]->history != NULL;
    assert_int_equal(with, 4);
    sonde_model_destroy(m);
}

static void exemplars_one_a_bucket(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(0, 0, 0);
    struct sonde_model_series *s =
        sonde_model_series(m, family(m, "h", SONDE_HISTOGRAM), NULL, NULL, 0);
    sonde_model_exemplar(s, &(struct sonde_exemplar){ 1.0, 1, 1, 10 });
    sonde_model_exemplar(s, &(struct sonde_exemplar){ 1.0, 1, 1, 20 }); /* known */
    assert_int_equal(s->exemplar_count, 1);
    assert_true(s->exemplar[0].time_s == 10);
    sonde_model_exemplar(s, &(struct sonde_exemplar){ 1.0, 2, 2, 30 }); /* newer, same bucket */
    assert_int_equal(s->exemplar_count, 1);
    assert_int_equal(s->exemplar[0].trace_hi, 2);
    for (unsigned i = 1; i < 20; i++) {
        double value = (double)(1u << i);
        sonde_model_exemplar(s, &(struct sonde_exemplar){ value, 3, 3, 30 + (double)i });
    }
    assert_int_equal(s->exemplar_count, SONDE_EXEMPLARS_MAX);
    for (size_t i = 0; i < s->exemplar_count; i++) assert_true(s->exemplar[i].time_s > 41);
    sonde_model_destroy(m);
}

static void spans_ring(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(0, 0, 16);
    enum { ATTRS = SONDE_SPAN_ATTRS_MAX + 2 };
    struct sonde_model_attr attrs[ATTRS];
    for (unsigned i = 0; i < ATTRS; i++) {
        attrs[i] = (struct sonde_model_attr){ .key = "k", .type = SONDE__ATTR_INT };
        attrs[i].value.i = i;
    }
    for (unsigned i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof(name), "span%u", i);
        struct sonde_model_span span = { .name = name, .program = "p", .id = i, .attrs = attrs,
                                         .attr_count = i % 2 ? ATTRS : 0 };
        sonde_model_span(m, &span);
    }
    assert_int_equal(m->span_next, 40);
    for (unsigned age = 0; age < 16; age++) {
        const struct sonde_model_span *s = &m->spans[(m->span_next - 1 - age) % m->spans_max];
        char name[16];
        snprintf(name, sizeof(name), "span%u", 39 - age);
        assert_string_equal(s->name, name);
        assert_int_equal(s->attr_count, s->id % 2 ? SONDE_SPAN_ATTRS_MAX : 0);
        assert_string_equal(s->program, "p");
    }
    sonde_model_destroy(m);
}

static void count_span(const struct sonde_model_span *span, void *arg)
{
    *(uint64_t *)arg += span->id;
}

/* More than the ring holds, for as long as they listen; parts are kept with the span. */
static void span_listeners(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(0, 0, 16);
    uint64_t first = 0, second = 0;
    struct sonde_model_listener a = { .on_span = count_span, .arg = &first };
    struct sonde_model_listener b = { .on_span = count_span, .arg = &second };
    struct sonde_model_part parts[] = { { 7, 30, 0 }, { 8, 0, 1 } };
    struct sonde_model_span span = { .name = "s", .program = "p", .id = 1, .parts = parts,
                                     .part_count = 2 };
    sonde_model_listen(m, &a);
    for (int i = 0; i < 100; i++) sonde_model_span(m, &span);
    sonde_model_listen(m, &b);
    sonde_model_unlisten(m, &a);
    sonde_model_unlisten(m, &a); /* again: it is not there */
    sonde_model_span(m, &span);
    sonde_model_unlisten(m, &b);
    sonde_model_span(m, &span);
    assert_int_equal(first, 100);
    assert_int_equal(second, 1);
    const struct sonde_model_span *kept = &m->spans[(m->span_next - 1) % m->spans_max];
    assert_int_equal(kept->part_count, 2);
    assert_memory_equal(kept->parts, parts, sizeof(parts));
    sonde_model_destroy(m);
}

static void filters(void **state)
{
    (void)state;
    struct sonde_model *m = model_new(0, 0, 0);
    struct sonde_model_family_spec spec = { .name = "app_seconds", .type = SONDE_HISTOGRAM,
                                            .kind = SONDE_KIND_TIME, .source = "db" };
    struct sonde_model_process *p = sonde_model_process(m, 42, 1, "server");
    struct sonde_label label = { "path", "/a/b" };
    struct sonde_model_series *s =
        sonde_model_series(m, sonde_model_family(m, &spec), p, &label, 1);
    static const struct { struct sonde_filter f; int family, series; } cases[] = {
        { { 0 }, 1, 1 },
        { { .name = "app_*" }, 1, 1 },
        { { .name = "app" }, 0, 0 },
        { { .name = "app|x|app_*" }, 1, 1 },
        { { .name = "x|app" }, 0, 0 },
        { { .name = "|" }, 0, 0 },
        { { .source = "d?" }, 1, 1 },
        { { .source = "x*" }, 0, 0 },
        { { .type = "histogram" }, 1, 1 },
        { { .type = "time" }, 1, 1 },
        { { .type = "counter" }, 0, 0 },
        { { .process = "ser*" }, 1, 1 },
        { { .process = "x" }, 1, 0 },
        { { .pid = 42 }, 1, 1 },
        { { .pid = 43 }, 1, 0 },
        { { .label = { { "path", "/a/*" } }, .label_count = 1 }, 1, 1 },
        { { .label = { { "path", "/b" } }, .label_count = 1 }, 1, 0 },
        { { .label = { { "none", "" } }, .label_count = 1 }, 1, 1 },
        { { .label = { { "none", "?" } }, .label_count = 1 }, 1, 0 },
        { { .name = "*", .type = "time", .pid = 42, .process = "server" }, 1, 1 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sonde_filter_family(&cases[i].f, s->family), cases[i].family);
        assert_int_equal(sonde_filter_series(&cases[i].f, s), cases[i].series);
    }
    assert_true(sonde_filter_series(NULL, s));
    sonde_model_destroy(m);
}

/* Everything once, with whatever allocation failing. */
static void exercise(struct sonde_model *m)
{
    struct sonde_model_process *p = sonde_model_process(m, 1, 1, "p");
    static const char *const names[] = { "c", "g", "h" };
    for (int type = SONDE_COUNTER; p && type <= SONDE_HISTOGRAM; type++) {
        struct sonde_model_family *f = family(m, names[type - 1], (enum sonde_type)type);
        for (unsigned i = 0; f && i < 70; i++) {
            char text[8];
            snprintf(text, sizeof(text), "%u", i);
            struct sonde_label label = { "k", text };
            struct sonde_model_series *s = sonde_model_series(m, f, p, &label, 1);
            if (!s || type != SONDE_HISTOGRAM) continue;
            sonde_model_exemplar(s, &(struct sonde_exemplar){ 1.0, 1, 1, 10 });
            struct sonde_hist_value *h = sonde_model_hist(s);
            s->from_zero = 1;
            if (h) sonde_hist_value_add(h, i * 30, 1);
        }
    }
    struct sonde_model_attr attr = { .key = "k", .type = SONDE__ATTR_INT };
    struct sonde_model_span span = { .name = "s", .program = "p", .attrs = &attr,
                                     .attr_count = 1 };
    sonde_model_span(m, &span);
    sonde_model_tick(m, 1);
    sonde_model_tick(m, 2);
    if (p) sonde_model_process_forget(m, p);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    int64_t live = sonde__alloc_live();
    for (uint64_t nth = 1; nth < 1500; nth++) {
        struct sonde_model *m = NULL;
        sonde__alloc_fail_nth(nth);
        int rc = sonde_model_create(NULL, &m);
        if (rc == 0) exercise(m);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        sonde_model_destroy(m);
        assert_int_equal(sonde__alloc_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(families_are_sorted, teardown),
        cmocka_unit_test_teardown(family_conflicts_are_counted, teardown),
        cmocka_unit_test_teardown(labels_are_escaped, teardown),
        cmocka_unit_test_teardown(series_are_found_again, teardown),
        cmocka_unit_test_teardown(forgetting_frees_everything, teardown),
        cmocka_unit_test_teardown(processes_are_renamed, teardown),
        cmocka_unit_test_teardown(counter_history_is_increase, teardown),
        cmocka_unit_test_teardown(history_wraps, teardown),
        cmocka_unit_test_teardown(hist_history_is_sparse, teardown),
        cmocka_unit_test_teardown(limits_hold, teardown),
        cmocka_unit_test_teardown(exemplars_one_a_bucket, teardown),
        cmocka_unit_test_teardown(spans_ring, teardown),
        cmocka_unit_test_teardown(span_listeners, teardown),
        cmocka_unit_test_teardown(filters, teardown),
        cmocka_unit_test_teardown(any_allocation_may_fail, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
