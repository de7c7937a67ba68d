/* Labels, programs and attributes of a model that is shown to others. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/strip.h"
#include "model/model.h"

static void labels_are_stripped_and_stay_apart(void **state)
{
    (void)state;
    static const struct { const char *name, *value, *shown; } cases[] = {
        { "mount", "/home/bob/data", "data" },
        { "mount", "/srv/data", "data~2" },
        { "mount", "/opt/data", "data~3" },
        { "mount", "/home/bob/data", "data" },   /* the first again */
        { "mount", "/", "/" },
        { "device", "/dev/data", "data" },       /* another label */
        { "route", "/v1/chat", "/v1/chat" },
        { "type", "text/html", "text/html" },
        { "cmdline", "app --key x", "-" },
        { "cmdline", "app --key y", "-~2" },
        { "user", "bob", "-" },
        { "plain", "value", "value" },
        { "empty", "", "" },
    };
    struct sonde_model *m;
    sonde_strip_set(1);
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    sonde_wrlock(&m->lock);
    struct sonde_model_family *f = sonde_model_family(m, &(struct sonde_model_family_spec){
        .name = "a", .type = SONDE_GAUGE });
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct sonde_label l = { cases[i].name, cases[i].value };
        const struct sonde_model_series *s = sonde_model_series(m, f, NULL, &l, 1);
        assert_non_null(s);
        assert_string_equal(s->labels[0].value, cases[i].shown);
        assert_null(strstr(s->label_text, "bob"));
        assert_ptr_equal(s, sonde_model_series(m, f, NULL, &l, 1)); /* and is found again */
    }
    assert_int_equal(f->series_count, sizeof(cases) / sizeof(cases[0]) - 1);

    struct sonde_model_process *p = sonde_model_process(m, 7, 1, "/home/bob/app");
    assert_string_equal(p->program, "app");
    assert_ptr_equal(p, sonde_model_process(m, 7, 1, "/home/bob/app"));

    struct sonde_model_attr attrs[] = {
        { .key = "file", .type = SONDE__ATTR_STR, .value.str = "/home/bob/x" },
        { .key = "user", .type = SONDE__ATTR_STR, .value.str = "bob" },
        { .key = "route", .type = SONDE__ATTR_STR, .value.str = "/v1" },
        { .key = "n", .type = SONDE__ATTR_INT, .value.i = 7 },
    };
    sonde_model_span(m, &(struct sonde_model_span){ .name = "/v1", .program = "app", .attrs = attrs,
                                                    .attr_count = 4, .start_ns = 1 });
    const struct sonde_model_span *span = &m->spans[0];
    assert_string_equal(span->attrs[0].value.str, "x");
    assert_string_equal(span->attrs[1].value.str, "-");
    assert_string_equal(span->attrs[2].value.str, "/v1");
    assert_int_equal(span->attrs[3].value.i, 7);
    assert_string_equal(span->name, "/v1");
    sonde_rwunlock(&m->lock);
    sonde_model_destroy(m);
    sonde_strip_set(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(labels_are_stripped_and_stay_apart) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
