/* The step that has just ended, of every series: what the stream's points say of counters. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>

#include "serve/api/api.h"
#include "unit/serve/serve_model.h"

#define START_S 1700000000.0

/* "last" of the only point of the step of 2 s that the last tick has ended; -1 = it has ended
 * none. */
static double last_of(struct sonde_model *m)
{
    struct sonde_buf out;
    sonde_buf_init(&out, 1 << 16);
    sonde_rdlock(&m->lock);
    const int any = sonde_api_points(m, &(struct sonde_api_query){ 0 }, 2, &out);
    sonde_rwunlock(&m->lock);
    assert_int_equal(any, out.len > 0);
    json_t *o = any ? json_loadb(out.data, out.len, 0, NULL) : NULL;
    json_t *point = json_object_get(json_array_get(json_object_get(o, "series"), 0), "point");
    const double last = point ? json_number_value(json_object_get(point, "last")) : -1;
    json_decref(o);
    sonde_buf_release(&out);
    return last;
}

static void tick(struct sonde_model *m, double now_s)
{
    sonde_wrlock(&m->lock);
    sonde_model_tick(m, now_s);
    sonde_rwunlock(&m->lock);
}

/* A counter's last value is that of the end of the step: neither what a later tick added to it, nor
 * what was recorded since the last tick, which is of none yet. */
static void counters(void **state)
{
    (void)state;
    struct sonde_model *m;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    sonde_wrlock(&m->lock);
    struct sonde_model_series *s =
        series1(m, family(m, SONDE_COUNTER, "things", "", "", 1), NULL, NULL);
    s->from_zero = 1;
    sonde_rwunlock(&m->lock);
    s->counter = 10;
    tick(m, START_S);
    s->counter = 20;
    tick(m, START_S + 1);
    s->counter = 50;
    tick(m, START_S + 2); /* the step from 0 to 2 is over */
    assert_true(last_of(m) == 20);
    s->counter = 90;
    assert_true(last_of(m) == 20);
    sonde_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(counters) };
    return cmocka_run_group_tests_name("points", tests, NULL, NULL);
}
