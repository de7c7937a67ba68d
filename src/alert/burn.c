/* burn.c - see burn.h. */
#include "alert/burn.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/percent.h"
#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

#define MONTH_S (30 * 86400.0)
#define CLEAR_PART 0.9 /* once it fires, the rate must be back below this part of its factor */

static const struct burn_pair {
    const char *name;
    double long_s, short_s, factor;
    const char *long_text, *short_text;
    enum sonde_severity severity;
} burn_pairs[] = {
    { "fast", 3600, 300, 14.4, "hour", "5 min", SONDE_SEVERITY_CRITICAL },
    { "slow", 6 * 3600, 1800, 6, "6 h", "30 min", SONDE_SEVERITY_WARNING },
};

void alert_burn_release(struct alert_burn *b)
{
    for (size_t i = 0; i < b->group_count; i++) sonde__free(b->group[i].at);
    b->group_count = 0;
}

/* ---- Counting -------------------------------------------------------------------------------- */

static struct alert_burn_group *burn_group(struct alert_burn *b, const char *model)
{
    char name[sizeof(b->group[0].model)];
    alert_text_copy(name, sizeof(name), model);
    for (size_t i = 0; i < b->group_count; i++) {
        if (!strcmp(b->group[i].model, name)) return &b->group[i];
    }
    if (b->group_count == ALERT_BURN_GROUPS_MAX) return NULL;
    struct alert_burn_group *g = &b->group[b->group_count];
    *g = (struct alert_burn_group){ .at = sonde__calloc(ALERT_BURN_SLOTS, sizeof(*g->at)) };
    if (!g->at) return NULL;
    memcpy(g->model, name, sizeof(name));
    b->group_count++;
    return g;
}

static uint64_t burn_slot_of(double time_s)
{
    return time_s > 0 && time_s < 1e11 ? (uint64_t)(time_s / ALERT_BURN_SLOT_S) : 0;
}

/* Slots that time passed over are empty, not what was there six hours ago. */
static void burn_group_reach(struct alert_burn_group *g, uint64_t slot)
{
    if (slot <= g->slot) return;
    const uint64_t steps = slot - g->slot < ALERT_BURN_SLOTS ? slot - g->slot : ALERT_BURN_SLOTS;
    for (uint64_t i = 0; i < steps; i++) {
        g->at[(slot - i) % ALERT_BURN_SLOTS] = (struct alert_burn_slot){ 0, 0 };
    }
    g->slot = slot;
}

static void burn_count_add(uint32_t *to, double n)
{
    const double sum = (double)*to + (n > 0 ? floor(n + 0.5) : 0);
    *to = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

int alert_burn_add(struct alert_burn *b, const char *model, double time_s, double met,
                   double missed)
{
    if (!(met > 0) && !(missed > 0)) return 0;
    struct alert_burn_group *g = burn_group(b, model);
    if (!g) return b->group_count == ALERT_BURN_GROUPS_MAX ? SONDE_EFULL : SONDE_ENOMEM;
    burn_group_reach(g, burn_slot_of(time_s));
    struct alert_burn_slot *s = &g->at[g->slot % ALERT_BURN_SLOTS];
    burn_count_add(&s->met, met);
    burn_count_add(&s->missed, missed);
    return 0;
}

struct alert_burn_sum alert_burn_window(const struct alert_burn_group *g, double now_s,
                                        double window_s)
{
    struct alert_burn_sum sum = { 0, 0 };
    const uint64_t now = burn_slot_of(now_s), slots = (uint64_t)(window_s / ALERT_BURN_SLOT_S);
    assert(slots <= ALERT_BURN_SLOTS);
    for (uint64_t i = 0; i < slots && i <= now; i++) {
        const uint64_t slot = now - i;
        if (slot > g->slot || slot + ALERT_BURN_SLOTS <= g->slot) continue;
        sum.met += g->at[slot % ALERT_BURN_SLOTS].met;
        sum.missed += g->at[slot % ALERT_BURN_SLOTS].missed;
    }
    return sum;
}

double alert_burn_rate(const struct alert_burn_sum *sum, double target)
{
    const double all = sum->met + sum->missed;
    return all > 0 && target < 1 ? sum->missed / all / (1 - target) : NAN;
}

/* ---- Looking at the model -------------------------------------------------------------------- */

static const char *burn_label(const struct sonde_model_series *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++) {
        if (!strcmp(s->labels[i].name, name)) return s->labels[i].value;
    }
    return "";
}

static void burn_read_series(struct alert_burn *b, const struct sonde_model *m,
                             const struct sonde_model_series *s, uint64_t ticks)
{
    const int missed = !strcmp(burn_label(s, "result"), "missed");
    if (!s->history) return;
    for (uint64_t age = ticks < s->history_count ? ticks : s->history_count; age-- > 0;) {
        const double n = s->history[(m->tick - 1 - age) % SONDE_HISTORY];
        if (!(n > 0)) continue;
        alert_burn_add(b, burn_label(s, "model"), sonde_model_tick_end(m, (uint32_t)age),
                       missed ? 0 : n, missed ? n : 0);
    }
}

static void burn_read(struct alert_burn *b, const struct sonde_model *m)
{
    const struct sonde_model_family *f =
        sonde_model_family_find(m, "sonde_infer_slo_requests_total");
    uint64_t ticks = m->tick - b->tick;
    if (m->tick < b->tick || ticks > SONDE_HISTORY) ticks = SONDE_HISTORY;
    b->tick = m->tick;
    for (size_t i = 0; f && ticks && i < f->series_count; i++) {
        burn_read_series(b, m, f->series[i], ticks);
    }
}

/* ---- Judging --------------------------------------------------------------------------------- */

/* 1 = both windows are over the factor. */
static int burn_holds(const struct alert_burn *b, const struct burn_pair *p, int firing,
                      const struct alert_burn_sum *in_long, const struct alert_burn_sum *in_short)
{
    const double factor = firing ? CLEAR_PART * p->factor : p->factor;
    if (!firing && in_long->met + in_long->missed < b->requests_min) return 0;
    return alert_burn_rate(in_long, b->target) > factor &&
           alert_burn_rate(in_short, b->target) > factor;
}

static void burn_summary(const struct alert_burn *b, const struct burn_pair *p, const char *model,
                         const struct alert_burn_sum *l, const struct alert_burn_sum *s, int holds,
                         char *out, size_t out_size)
{
    const double rate = alert_burn_rate(l, b->target), all = l->met + l->missed;
    const double recent = s->met + s->missed;
    char share[SONDE_PERCENT_BYTES], now[SONDE_PERCENT_BYTES], allowed[SONDE_PERCENT_BYTES];
    sonde_percent_text(share, all > 0 ? l->missed / all : 0);
    sonde_percent_text(now, recent > 0 ? s->missed / recent : 0);
    sonde_percent_text(allowed, 1 - b->target);
    const char *of = *model ? " of " : "";
    if (holds) {
        snprintf(out, out_size, "Requests%s%s miss their objectives: %s of %.0f in the last "
                 "%s, %s in the last %s; the target of %g %% allows %s. At this rate "
                 "(%.3g times) the budget of 30 days is used up in %.3g h",
                 of, model, share, all, p->long_text, now, p->short_text, 100 * b->target,
                 allowed, rate, MONTH_S / 3600 / rate);
    } else {
        snprintf(out, out_size, "Requests%s%s meet their objectives again: %s of %.0f missed "
                 "them in the last %s, %s in the last %s (target %g %%)",
                 of, model, share, all, p->long_text, now, p->short_text, 100 * b->target);
    }
}

/* What one pair of windows says. worse: a faster pair says so already, which is the same trouble:
 * one alert for it is enough, unless this one fires already. 1 = it holds. */
static int burn_look_pair(const struct alert_burn *b, const struct alert_burn_group *g,
                          const struct burn_pair *p, int worse, struct alert_table *t,
                          uint64_t round, double now_s)
{
    struct sonde_label labels[2] = { { "window", p->name }, { "model", g->model } };
    const struct alert_labels sorted = { (struct sonde_label[]){ labels[1], labels[0] }, 2 };
    const struct alert_labels alone = { labels, 1 };
    char key[ALERT_KEY_MAX], summary[800];
    alert_subject_key(ALERT_BURN_KIND, NULL, g->model[0] ? &sorted : &alone, key);
    const struct alert_entry *known = alert_table_find(t, key);
    const struct alert_burn_sum l = alert_burn_window(g, now_s, p->long_s);
    const struct alert_burn_sum s = alert_burn_window(g, now_s, p->short_s);
    const int firing = known && known->active && known->state == ALERT_FIRING;
    const int holds = burn_holds(b, p, firing, &l, &s) && (firing || !worse);
    burn_summary(b, p, g->model, &l, &s, holds, summary, sizeof(summary));
    const struct sonde_alert_event e = {
        .kind = ALERT_BURN_KIND, .severity = p->severity, .labels = labels,
        .label_count = g->model[0] ? 2 : 1, .summary = summary,
        .value = alert_burn_rate(&l, b->target), .link = "/profiling/inference", .firing = holds,
        .time_s = now_s,
    };
    alert_table_tell(t, &e, ALERT_SLO, round, NULL);
    return holds;
}

void alert_burn_look(struct alert_burn *b, const struct sonde_model *m, struct alert_table *t,
                     uint64_t round, double now_s)
{
    if (!(b->target > 0)) return;
    if (m) burn_read(b, m);
    for (size_t i = 0; i < b->group_count; i++) {
        int worse = 0;
        for (size_t k = 0; k < SONDE_COUNT(burn_pairs); k++) {
            worse |= burn_look_pair(b, &b->group[i], &burn_pairs[k], worse, t, round, now_s);
        }
    }
}

/* ---- Kept ------------------------------------------------------------------------------------ */

/* Only slots that have something: how far back they are, and their counts. */
static void burn_group_state(struct sonde_state *s, struct alert_burn_group *g)
{
    uint64_t used = 0;
    if (!sonde_state_loading(s)) {
        for (size_t i = 0; i < ALERT_BURN_SLOTS; i++) used += g->at[i].met || g->at[i].missed;
    }
    sonde_state_count(s, &used, ALERT_BURN_SLOTS);
    if (sonde_state_loading(s)) {
        for (uint64_t i = 0; i < used && !s->bad; i++) {
            uint64_t at = 0;
            struct alert_burn_slot slot = { 0, 0 };
            sonde_state_count(s, &at, ALERT_BURN_SLOTS - 1);
            sonde_state_u32(s, &slot.met);
            sonde_state_u32(s, &slot.missed);
            if (!s->bad) g->at[at] = slot;
        }
        return;
    }
    for (uint64_t i = 0; i < ALERT_BURN_SLOTS; i++) {
        if (!g->at[i].met && !g->at[i].missed) continue;
        sonde_state_u64(s, &i);
        sonde_state_u32(s, &g->at[i].met);
        sonde_state_u32(s, &g->at[i].missed);
    }
}

void alert_burn_state(struct sonde_state *s, struct alert_burn *b)
{
    uint64_t count = b->group_count;
    sonde_state_count(s, &count, ALERT_BURN_GROUPS_MAX);
    for (uint64_t i = 0; i < count && !s->bad; i++) {
        struct alert_burn_group none = { .slot = 0 }, *g = &none;
        char model[sizeof(none.model)] = "";
        uint64_t slot = 0;
        if (!sonde_state_loading(s)) {
            g = &b->group[i];
            memcpy(model, g->model, sizeof(model));
            slot = g->slot;
        }
        sonde_state_text(s, model, sizeof(model));
        sonde_state_u64(s, &slot);
        if (sonde_state_loading(s)) {
            g = s->bad ? NULL : burn_group(b, model);
            if (!g) s->bad = 1;
            else g->slot = slot;
        }
        if (g) burn_group_state(s, g);
    }
}
