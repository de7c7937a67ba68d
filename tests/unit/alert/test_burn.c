/* Burn rates: windows against a list of all requests, alerts against the definition, what the model
 * counts, what is kept. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alert/burn.h"
#include "base/alloc.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define T0 1700000000.0

static uint64_t rng = 3;

static double dice(void) /* 0 … 1 */
{
    rng = rng * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(rng >> 33) / 2147483648.0;
}

struct request { double time_s; int missed; };

/* Each request looked at: those in the slots that the window has. */
static struct alert_burn_sum brute(const struct request *r, size_t n, double now_s, double window_s)
{
    struct alert_burn_sum sum = { 0, 0 };
    const double last = floor(now_s / ALERT_BURN_SLOT_S), first = last - window_s / ALERT_BURN_SLOT_S;
    for (size_t i = 0; i < n; i++) {
        const double slot = floor(r[i].time_s / ALERT_BURN_SLOT_S);
        if (slot <= first || slot > last) continue;
        if (r[i].missed) sum.missed++;
        else sum.met++;
    }
    return sum;
}

static void windows(void **state)
{
    (void)state;
    static const double lengths[] = { 300, 1800, 3600, 6 * 3600 };
    enum { MANY = 40000 };
    struct request *r = malloc(MANY * sizeof(*r));
    for (int round = 0; round < 5; round++) {
        static struct alert_burn b;
        memset(&b, 0, sizeof(b));
        double t = T0;
        size_t looks = 0;
        for (size_t n = 0; n < MANY; n++) {
            /* Mostly a stream, sometimes hours of silence. */
            t += dice() < 0.0005 ? dice() * 8 * 3600 : dice() * 3;
            r[n] = (struct request){ t, dice() < 0.1 };
            assert_int_equal(alert_burn_add(&b, "m", t, !r[n].missed, r[n].missed), 0);
            if (n % 997) continue;
            const double now = t + (n % 2 ? 0 : dice() * 7200);
            for (size_t k = 0; k < COUNT(lengths); k++) {
                const struct alert_burn_sum got = alert_burn_window(&b.group[0], now, lengths[k]);
                const struct alert_burn_sum want = brute(r, n + 1, now, lengths[k]);
                assert_true(got.met == want.met && got.missed == want.missed);
                const double all = want.met + want.missed;
                const double rate = alert_burn_rate(&got, 0.99);
                if (all > 0) assert_true(fabs(rate - want.missed / all / 0.01) < 1e-9);
                else assert_true(isnan(rate));
                looks++;
            }
        }
        assert_true(looks > 100);
        alert_burn_release(&b);
    }
    free(r);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- Alerts ---------------------------------------------------------------------------------- */

static const struct alert_entry *find(const struct alert_table *t, const char *key)
{
    return alert_table_find(t, key);
}

static int is_active(const struct alert_table *t, const char *window)
{
    char key[100];
    snprintf(key, sizeof(key), "slo_burn||model=m|window=%s", window);
    const struct alert_entry *e = find(t, key);
    return e && e->active;
}

static enum alert_held not_held(struct alert_entry *e, void *arg)
{
    (void)e, (void)arg;
    return ALERT_NOT_HELD;
}

static int any_due(struct alert_entry *e, int firing, void *arg)
{
    (void)e, (void)firing, (void)arg;
    return 0;
}

/* Seconds, one request in each; of them this share misses. Looked at each minute. Returns when the
 * fast alert became active, in minutes from the start; -1 = never. */
static int run(struct alert_burn *b, struct alert_table *t, double *now, int minutes, double share)
{
    int began = -1;
    double due = 0;
    for (int m = 0; m < minutes; m++) {
        for (int s = 0; s < 60; s++) {
            due += share;
            const int missed = due >= 1;
            due -= missed;
            *now += 1;
            alert_burn_add(b, "m", *now, !missed, missed);
        }
        alert_burn_look(b, NULL, t, 1, *now);
        const struct alert_advance how = { .now_s = *now, .held = not_held, .due = any_due };
        alert_table_advance(t, &how);
        if (began < 0 && is_active(t, "fast")) began = m + 1;
    }
    return began;
}

static void two_windows(void **state)
{
    (void)state;
    static struct alert_burn b;
    struct alert_table t = { 0 };
    double now = T0;
    memset(&b, 0, sizeof(b));
    b.target = 0.99;
    b.requests_min = 20;
    /* An hour at half the budget's rate: nothing. */
    assert_int_equal(run(&b, &t, &now, 360, 0.005), -1);
    assert_int_equal(t.count, 0);
    /* Everything misses: the long window is over 14.4 % after x minutes with
     * x + 0.005 (60 - x) = 0.144 * 60, so 8.4. */
    const int began = run(&b, &t, &now, 20, 1);
    assert_in_range(began, 8, 10);
    assert_true(is_active(&t, "fast"));
    /* Over: the short window says so in five minutes, the long one would take most of an hour. */
    run(&b, &t, &now, 4, 0);
    assert_true(is_active(&t, "fast"));
    run(&b, &t, &now, 2, 0);
    assert_false(is_active(&t, "fast"));
    assert_string_equal(find(&t, "slo_burn||model=m|window=fast")->what.kind, "slo_burn");
    assert_int_equal(find(&t, "slo_burn||model=m|window=fast")->what.severity,
                     SONDE_SEVERITY_CRITICAL);
    alert_table_release(&t);
    alert_burn_release(&b);

    /* 8 %: never fast, but slow, once the six hours have 6 %. */
    memset(&b, 0, sizeof(b));
    b.target = 0.99;
    now = T0;
    run(&b, &t, &now, 360, 0);
    assert_int_equal(run(&b, &t, &now, 260, 0.08), -1);
    assert_false(is_active(&t, "slow"));
    run(&b, &t, &now, 20, 0.08);
    assert_true(is_active(&t, "slow"));
    alert_table_release(&t);
    alert_burn_release(&b);
}

static void too_little(void **state)
{
    (void)state;
    static struct alert_burn b;
    struct alert_table t = { 0 };
    memset(&b, 0, sizeof(b));
    b.target = 0.99;
    b.requests_min = 20;
    for (int i = 0; i < 19; i++) alert_burn_add(&b, "m", T0 + i, 0, 1);
    alert_burn_look(&b, NULL, &t, 1, T0 + 30);
    assert_int_equal(t.count, 0);
    alert_burn_add(&b, "m", T0 + 30, 0, 1);
    alert_burn_look(&b, NULL, &t, 1, T0 + 31);
    assert_int_equal(t.count, 1); /* fast; slow would say the same */
    assert_true(is_active(&t, "fast"));
    alert_table_release(&t);
    b.target = 0; /* off */
    alert_burn_look(&b, NULL, &t, 1, T0 + 31);
    assert_int_equal(t.count, 0);
    alert_burn_release(&b);
}

/* ---- From the model -------------------------------------------------------------------------- */

static void from_the_model(void **state)
{
    (void)state;
    struct sonde_model *m;
    static struct alert_burn b;
    struct alert_table t = { 0 };
    memset(&b, 0, sizeof(b));
    b.target = 0.9;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    const struct sonde_model_family_spec spec = { .name = "sonde_infer_slo_requests_total",
                                                  .type = SONDE_COUNTER };
    const struct sonde_label met[] = { { "model", "m" }, { "result", "met" } };
    const struct sonde_label missed[] = { { "model", "m" }, { "result", "missed" } };
    struct sonde_model_series *good = sonde_model_own_series(m, &spec, NULL, met, 2);
    struct sonde_model_series *bad = sonde_model_own_series(m, &spec, NULL, missed, 2);
    uint64_t total[2] = { 0, 0 };
    for (int i = 1; i <= 200; i++) {
        const uint64_t ok = (uint64_t)(dice() * 10), no = (uint64_t)(dice() * 3);
        good->counter += ok;
        bad->counter += no;
        total[0] += ok;
        total[1] += no;
        sonde_model_tick(m, T0 + i);
        /* Not after every tick, and twice after some: each is counted once. */
        if (i % 3 && i != 200) continue;
        alert_burn_look(&b, m, &t, 1, T0 + i);
        alert_burn_look(&b, m, &t, 1, T0 + i);
    }
    const struct alert_burn_sum sum = alert_burn_window(&b.group[0], T0 + 200, 3600);
    assert_true(sum.met == (double)total[0] && sum.missed == (double)total[1]);
    assert_int_equal(b.group_count, 1);
    alert_table_release(&t);
    alert_burn_release(&b);
    sonde_model_destroy(m);
}

static void kept(void **state)
{
    (void)state;
    static struct alert_burn b, again;
    struct sonde_buf out;
    memset(&b, 0, sizeof(b));
    memset(&again, 0, sizeof(again));
    sonde_buf_init(&out, 1 << 20);
    for (int i = 0; i < 20000; i += 1 + (int)(dice() * 100)) {
        alert_burn_add(&b, i % 2 ? "odd" : "even", T0 + i, 3, 1);
    }
    struct sonde_state s = { .to = &out };
    alert_burn_state(&s, &b);
    s = (struct sonde_state){ .from = (const unsigned char *)out.data, .len = out.len };
    alert_burn_state(&s, &again);
    assert_int_equal(s.bad, 0);
    assert_int_equal(again.group_count, 2);
    for (size_t g = 0; g < 2; g++) {
        assert_string_equal(again.group[g].model, b.group[g].model);
        for (double w = 300; w <= 21600; w += 300) {
            const struct alert_burn_sum x = alert_burn_window(&b.group[g], T0 + 20000, w);
            const struct alert_burn_sum y = alert_burn_window(&again.group[g], T0 + 20000, w);
            assert_true(x.met == y.met && x.missed == y.missed);
        }
    }
    alert_burn_release(&again);
    for (size_t cut = 0; cut < out.len; cut += 7) {
        memset(&again, 0, sizeof(again));
        s = (struct sonde_state){ .from = (const unsigned char *)out.data, .len = cut };
        alert_burn_state(&s, &again);
        assert_int_equal(s.bad, 1);
        alert_burn_release(&again);
    }
    alert_burn_release(&b);
    sonde_buf_release(&out);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void many_models(void **state)
{
    (void)state;
    static struct alert_burn b;
    char name[32];
    memset(&b, 0, sizeof(b));
    for (int i = 0; i < ALERT_BURN_GROUPS_MAX + 3; i++) {
        snprintf(name, sizeof(name), "m%d", i);
        assert_int_equal(alert_burn_add(&b, name, T0, 1, 0),
                         i < ALERT_BURN_GROUPS_MAX ? 0 : SONDE_EFULL);
    }
    alert_burn_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows),    cmocka_unit_test(two_windows),
        cmocka_unit_test(too_little), cmocka_unit_test(from_the_model),
        cmocka_unit_test(kept),       cmocka_unit_test(many_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
