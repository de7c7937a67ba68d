/* The states of alerts: transitions, timers and what is told, against a plain reading of the rules;
 * muted alerts; what is kept; no memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "alert/alert_table.h"
#include "base/alloc.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- A table, and what it had to say --------------------------------------------------------- */

struct told { double time_s; int firing; };

struct world {
    struct alert_table table;
    struct alert_advance how;
    struct told told[4096];
    size_t told_count;
    enum alert_held held;
    int fail; /* notifications cannot be made */
};

static enum alert_held world_held(struct alert_entry *e, void *arg)
{
    (void)e;
    return ((struct world *)arg)->held;
}

static int world_due(struct alert_entry *e, int firing, void *arg)
{
    struct world *w = arg;
    (void)e;
    if (w->fail) return SONDE_ENOMEM;
    assert_true(w->told_count < COUNT(w->told));
    w->told[w->told_count++] = (struct told){ w->how.now_s, firing };
    return 0;
}

static void world_init(struct world *w)
{
    memset(w, 0, sizeof(*w));
    w->how = (struct alert_advance){ .held = world_held, .due = world_due, .arg = w };
}

static struct sonde_alert_event event(double time_s, int firing, double for_s, double keep_s)
{
    return (struct sonde_alert_event){ .kind = "k", .severity = SONDE_SEVERITY_WARNING,
                                       .summary = "it is so", .value = time_s, .firing = firing,
                                       .time_s = time_s, .for_s = for_s, .keep_s = keep_s };
}

static void step(struct world *w, double time_s, int firing, double for_s, double keep_s)
{
    const struct sonde_alert_event e = event(time_s, firing, for_s, keep_s);
    assert_int_equal(alert_table_tell(&w->table, &e, ALERT_RULE, 1, NULL), 0);
    w->how.now_s = time_s;
    alert_table_advance(&w->table, &w->how);
}

/* ---- Transitions ----------------------------------------------------------------------------- */

/* '+' = the condition holds, one second each; what is told when, as "F3 R7". */
static void transitions(void **state)
{
    (void)state;
    static const struct { const char *name, *conditions; double for_s, keep_s; const char *told; }
    cases[] = {
        { "never", "------", 0, 0, "" },
        { "at once", "+", 0, 0, "F0" },
        { "once however long", "++++++", 0, 0, "F0" },
        { "and over", "++--", 0, 0, "F0 R2" },
        { "again", "+-+-+", 0, 0, "F0 R1 F2 R3 F4" },
        { "not long enough", "++-++-", 2, 0, "" },
        { "long enough", "+++-", 2, 0, "F2 R3" },
        { "begins anew", "++-+++", 2, 0, "F5" },
        { "gone for too short", "++-+--+-", 0, 2, "F0" },
        { "gone for long enough", "+---+", 0, 2, "F0 R3 F4" },
        { "both", "+++--+---+++", 2, 2, "F2 R8 F11" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct world w;
        char told[256] = "";
        world_init(&w);
        for (size_t t = 0; cases[i].conditions[t]; t++) {
            step(&w, 1000 + (double)t, cases[i].conditions[t] == '+', cases[i].for_s,
                 cases[i].keep_s);
        }
        for (size_t k = 0; k < w.told_count; k++) {
            char one[32];
            snprintf(one, sizeof(one), "%s%c%.0f", k ? " " : "", w.told[k].firing ? 'F' : 'R',
                     w.told[k].time_s - 1000);
            strcat(told, one);
        }
        if (strcmp(told, cases[i].told)) {
            fail_msg("%s: '%s', expected '%s'", cases[i].name, told, cases[i].told);
        }
        alert_table_release(&w.table);
    }
}

static uint64_t rng = 7;

static unsigned dice(unsigned n)
{
    rng = rng * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(rng >> 33) % n;
}

/* Of the whole past: it held in each second of the last for_s, or did not in those of keep_s. */
static int all_same(const char *past, size_t now, double seconds, char what)
{
    const size_t n = (size_t)seconds;
    if (now < n) return 0;
    for (size_t t = now - n; t <= now; t++) {
        if (past[t] != what) return 0;
    }
    return 1;
}

static void random_transitions(void **state)
{
    (void)state;
    static struct world w;
    for (int round = 0; round < 200; round++) {
        char past[400];
        const double for_s = dice(5), keep_s = dice(5);
        const unsigned stay = 1 + dice(8);
        int firing = 0;
        size_t expected = 0;
        world_init(&w);
        for (size_t t = 0; t < COUNT(past); t++) {
            past[t] = t && dice(stay) ? past[t - 1] : dice(2) ? '+' : '-';
            step(&w, 5000 + (double)t, past[t] == '+', for_s, keep_s);
            const int was = firing;
            if (!firing && all_same(past, t, for_s, '+')) firing = 1;
            else if (firing && all_same(past, t, keep_s, '-')) firing = 0;
            if (was == firing) continue;
            assert_true(expected < w.told_count);
            assert_int_equal(w.told[expected].firing, firing);
            assert_true(w.told[expected].time_s == 5000 + (double)t);
            expected++;
        }
        assert_int_equal(w.told_count, expected);
        alert_table_release(&w.table);
    }
}

/* Told once, then only time passes: findings are told when they begin and when they end. */
static void told_once(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    step(&w, 1000, 1, 10, 5);
    for (double t = 1001; t < 1020; t++) {
        w.how.now_s = t;
        alert_table_advance(&w.table, &w.how);
    }
    assert_int_equal(w.told_count, 1);
    assert_true(w.told[0].time_s == 1010);
    step(&w, 1020, 0, 10, 5);
    for (double t = 1021; t < 1030; t++) {
        w.how.now_s = t;
        alert_table_advance(&w.table, &w.how);
    }
    assert_int_equal(w.told_count, 2);
    assert_true(w.told[1].time_s == 1025);
    assert_int_equal(w.table.count, 1);
    w.how.now_s = 1026 + 90000;
    alert_table_advance(&w.table, &w.how);
    assert_int_equal(w.table.count, 0); /* a day later it is forgotten */
    alert_table_release(&w.table);
}

static void clock_set_back(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    step(&w, 100000, 1, 10, 0);
    w.how.now_s = 1000; /* set back by a day */
    alert_table_advance(&w.table, &w.how);
    w.how.now_s = 1011;
    alert_table_advance(&w.table, &w.how);
    assert_int_equal(w.told_count, 1);
    alert_table_release(&w.table);
}

static void repeated(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    w.how.repeat_s = 10;
    for (double t = 0; t <= 25; t++) step(&w, 1000 + t, 1, 0, 0);
    assert_int_equal(w.told_count, 3);
    assert_int_equal(w.table.at[0]->repeats, 2);
    alert_table_release(&w.table);
}

/* ---- Held back ------------------------------------------------------------------------------- */

static void muted(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    w.held = ALERT_HELD_MUTED;
    step(&w, 1000, 1, 0, 0);
    step(&w, 1001, 0, 0, 0);
    assert_int_equal(w.told_count, 0); /* neither is told */
    step(&w, 1002, 1, 0, 0);
    assert_int_equal(w.table.at[0]->state, ALERT_FIRING);
    w.held = ALERT_NOT_HELD;
    step(&w, 1003, 1, 0, 0);
    assert_int_equal(w.told_count, 1); /* it still fires: told now */
    w.held = ALERT_HELD_MUTED;
    step(&w, 1004, 0, 0, 0);
    assert_int_equal(w.told_count, 1);
    step(&w, 1005, 1, 0, 0); /* the same episode, to who was told of no end */
    w.held = ALERT_NOT_HELD;
    step(&w, 1006, 1, 0, 0);
    assert_int_equal(w.told_count, 1);
    assert_true(w.table.at[0]->started_s == 1002);
    w.held = ALERT_HELD_MUTED;
    step(&w, 1007, 0, 0, 0);
    w.held = ALERT_NOT_HELD;
    step(&w, 1008, 0, 0, 0);
    assert_int_equal(w.told_count, 2); /* its end is told late rather than never */
    assert_int_equal(w.told[1].firing, 0);
    alert_table_release(&w.table);
}

static void no_memory_for_a_notification(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    w.fail = 1;
    step(&w, 1000, 1, 0, 0);
    w.fail = 0;
    step(&w, 1001, 1, 0, 0);
    assert_int_equal(w.told_count, 1);
    alert_table_release(&w.table);
}

static void severity_of_an_episode(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    struct sonde_alert_event e = event(1000, 1, 5, 0);
    alert_table_tell(&w.table, &e, ALERT_TOLD, 1, NULL);
    e.severity = SONDE_SEVERITY_CRITICAL; /* still pending: as it is now */
    e.time_s = w.how.now_s = 1005;
    alert_table_tell(&w.table, &e, ALERT_TOLD, 1, NULL);
    alert_table_advance(&w.table, &w.how);
    e.severity = SONDE_SEVERITY_INFO; /* told: labels at receivers must stay what they are */
    alert_table_tell(&w.table, &e, ALERT_TOLD, 1, NULL);
    assert_int_equal(w.table.at[0]->what.severity, SONDE_SEVERITY_CRITICAL);
    alert_table_release(&w.table);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void keys(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    const struct sonde_label ab[] = { { "a", "1" }, { "b", "2" } };
    const struct sonde_label ba[] = { { "b", "2" }, { "a", "1" } };
    const struct sonde_label other[] = { { "a", "1" }, { "b", "3" } };
    struct sonde_alert_event e = event(1000, 1, 0, 0);
    const struct { const struct sonde_label *labels; const char *kind, *key; size_t count; } told[] = {
        { ab, "k", NULL, 1 }, { ba, "k", NULL, 1 }, { other, "k", NULL, 2 }, { ab, "l", NULL, 3 },
        { ab, "k", "x", 4 }, { ab, "k", "x", 4 },
    };
    for (size_t i = 0; i < COUNT(told); i++) {
        e.kind = told[i].kind;
        e.key = told[i].key;
        e.labels = told[i].labels;
        e.label_count = 2;
        assert_int_equal(alert_table_tell(&w.table, &e, ALERT_TOLD, 1, NULL), 0);
        assert_int_equal(w.table.count, told[i].count);
    }
    /* Labels that are too long or no text are left out, and what is too long for a key is cut. */
    static char lengthy[600];
    memset(lengthy, 'x', sizeof(lengthy) - 1);
    const struct sonde_label bad[] = { { "long", lengthy }, { "no", "\xff" }, { "ok", "\xc3\xa4" } };
    e.labels = bad;
    e.label_count = 3;
    struct alert_entry *entry;
    assert_int_equal(alert_table_tell(&w.table, &e, ALERT_TOLD, 1, &entry), 0);
    assert_int_equal(entry->what.labels.count, 1);
    alert_table_release(&w.table);
    assert_true(alert_kind_ok("a.b:c-d_9") && !alert_kind_ok("") && !alert_kind_ok("a b"));
    assert_true(!alert_kind_ok(NULL) && !alert_kind_ok(lengthy));
}

static void bounded(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    char name[32];
    struct sonde_alert_event e = event(1000, 1, 0, 0);
    for (size_t i = 0; i < SONDE_ALERTS_MAX + 10; i++) {
        snprintf(name, sizeof(name), "k%zu", i);
        e.kind = name;
        assert_int_equal(alert_table_tell(&w.table, &e, ALERT_TOLD, 1, NULL),
                         i < SONDE_ALERTS_MAX ? 0 : SONDE_EFULL);
    }
    assert_int_equal(w.table.full, 10);
    alert_table_release(&w.table);
}

/* ---- Kept ------------------------------------------------------------------------------------ */

static void kept(void **state)
{
    (void)state;
    static struct world w;
    world_init(&w);
    const struct sonde_label labels[] = { { "process", "caf\xc3\xa9" }, { "pid", "7" } };
    struct sonde_alert_event e = event(1000, 1, 0, 3);
    e.labels = labels;
    e.label_count = 2;
    e.link = "/x";
    e.value = NAN;
    alert_table_tell(&w.table, &e, ALERT_SLO, 1, NULL);
    w.how.now_s = 1000;
    alert_table_advance(&w.table, &w.how);
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    struct sonde_state s = { .to = &b };
    alert_table_state(&s, &w.table);
    alert_table_release(&w.table);

    world_init(&w);
    s = (struct sonde_state){ .from = (const unsigned char *)b.data, .len = b.len };
    alert_table_state(&s, &w.table);
    assert_int_equal(s.bad, 0);
    assert_int_equal(w.table.count, 1);
    const struct alert_entry *a = w.table.at[0];
    assert_string_equal(a->key, "k||pid=7|process=caf\xc3\xa9");
    assert_string_equal(a->what.summary, "it is so");
    assert_string_equal(a->what.link, "/x");
    assert_true(isnan(a->what.value) && a->source == ALERT_SLO && a->seen == 0);
    step(&w, 1001, 0, 0, 0); /* another key: this one is still told about, and once */
    assert_int_equal(w.told_count, 0);
    alert_table_release(&w.table);

    for (size_t cut = 0; cut < b.len; cut++) { /* cut off anywhere: bad, and nothing leaks */
        world_init(&w);
        s = (struct sonde_state){ .from = (const unsigned char *)b.data, .len = cut };
        alert_table_state(&s, &w.table);
        assert_int_equal(s.bad, 1);
        alert_table_release(&w.table);
    }
    for (int round = 0; round < 3000; round++) { /* changed anywhere: whatever, but in bounds */
        char *const at = &b.data[dice((unsigned)b.len)], was = *at;
        *at = (char)dice(256);
        world_init(&w);
        s = (struct sonde_state){ .from = (const unsigned char *)b.data, .len = b.len };
        alert_table_state(&s, &w.table);
        w.how.now_s = 2000;
        alert_table_advance(&w.table, &w.how);
        alert_table_release(&w.table);
        *at = was;
    }
    sonde_buf_release(&b);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void no_memory(void **state)
{
    (void)state;
    static struct world w;
    const struct sonde_label label = { "a", "b" };
    struct sonde_alert_event e = event(1000, 1, 0, 0);
    e.labels = &label;
    e.label_count = 1;
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 100; nth++) {
        world_init(&w);
        sonde__alloc_fail_nth(nth);
        rc = alert_table_tell(&w.table, &e, ALERT_TOLD, 1, NULL);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        assert_int_equal(w.table.count, rc == 0);
        alert_table_release(&w.table);
        assert_int_equal(sonde__alloc_live(), 0);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transitions),     cmocka_unit_test(random_transitions),
        cmocka_unit_test(told_once),       cmocka_unit_test(clock_set_back),
        cmocka_unit_test(repeated),        cmocka_unit_test(muted),
        cmocka_unit_test(no_memory_for_a_notification),
        cmocka_unit_test(severity_of_an_episode), cmocka_unit_test(keys),
        cmocka_unit_test(bounded),         cmocka_unit_test(kept),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
