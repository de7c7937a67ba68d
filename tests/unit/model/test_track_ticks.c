/* Series of a model as tracks of a profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "model/model.h"
#include "model/track_ticks.h"
#include "profile/track.h"

static const struct sonde_track *track(const struct sonde_profile *p, const char *family)
{
    for (uint32_t i = 0; i < p->tracks->count; i++) {
        if (!strcmp(p->tracks->rows[i].family, family)) return &p->tracks->rows[i];
    }
    return NULL;
}

static void ticks_become_tracks(void **state)
{
    (void)state;
    struct sonde_model *m;
    struct sonde_profile *p, *late;
    assert_int_equal(sonde_model_create(&(struct sonde_model_limits){ 0 }, &m), 0);
    struct sonde_model_process *process = sonde_model_process(m, 7, 1, "prog");
    assert_non_null(process);
    const struct sonde_label label = { "mode", "user" };
    struct sonde_model_series *count = sonde_model_series(
        m, sonde_model_family(m, &(struct sonde_model_family_spec){ .name = "c_total",
                                                                    .type = SONDE_COUNTER }),
        process, &label, 1);
    struct sonde_model_series *level = sonde_model_series(
        m, sonde_model_family(m, &(struct sonde_model_family_spec){ .name = "g",
                                                                    .type = SONDE_GAUGE }),
        NULL, NULL, 0);
    struct sonde_model_series *thread = sonde_model_series(
        m, sonde_model_family(m, &(struct sonde_model_family_spec){ .name = "sonde_thread_x",
                                                                    .type = SONDE_GAUGE }),
        NULL, NULL, 0);
    assert_non_null(thread);
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_profile_create(0, &late), 0);
    count->from_zero = 1;
    m->now_s = 1000;
    for (int i = 1; i <= 4; i++) {
        count->counter += 20;
        level->gauge = i;
        sonde_model_tick(m, 1000 + 2 * i);
        sonde_model_track_tick(m, p);
    }
    assert_int_equal(p->tracks->tick_count, 4);
    const struct sonde_track *c = track(p, "c_total"), *g = track(p, "g");
    assert_true(c && g && !track(p, "sonde_thread_x"));
    assert_string_equal(c->labels, "mode=\"user\"");
    assert_string_equal(c->program, "prog");
    assert_int_equal(c->pid, 7);
    assert_true(c->values[0] == 10 && c->values[3] == 10); /* per second */
    assert_true(g->gauge && g->values[0] == 1 && g->values[3] == 4);

    sonde_model_track_since(m, 1004, late);
    assert_int_equal(late->tracks->tick_count, 2);
    assert_true(track(late, "g")->values[0] == 3);
    sonde_model_track_since(m, 0, late); /* it has some */
    assert_int_equal(late->tracks->tick_count, 2);
    sonde_profile_destroy(p);
    sonde_profile_destroy(late);
    sonde_model_destroy(m);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ticks_become_tracks) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
