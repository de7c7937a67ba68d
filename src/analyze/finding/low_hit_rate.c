/* low_hit_rate.c - a cache that is asked often and hardly ever has the answer. Tiers of a program
 * are looked at together: that the first misses much is as it should be if the next one hits. */
#include <math.h>
#include <string.h>

#include "analyze/finding/rule.h"
#include "base/array.h"
#include "profile/track.h"

#define INFO_RATIO 0.50
#define WARNING_RATIO 0.30
#define ACCESSES_MIN 1000.0

enum { TIERS_MAX = 64 };

struct cache_tier {
    uint32_t pid;
    char name[64];
    double hits, misses;
};

/* The value of tier="…" in labels. */
static int cache_tier_name(const char *labels, char out[64])
{
    const char *at = strstr(labels, "tier=\"");
    if (!at) return 0;
    at += strlen("tier=\"");
    const size_t len = strcspn(at, "\"");
    if (len >= 64) return 0;
    memcpy(out, at, len);
    out[len] = '\0';
    return 1;
}

static double cache_track_sum(const struct sonde_tracks *t, const struct sonde_track *row)
{
    double sum = 0;
    for (uint32_t k = 0; k < t->tick_count; k++) {
        if (!isnan(row->values[k])) sum += row->values[k] * t->ticks[k].length_s;
    }
    return sum;
}

static size_t cache_tiers(const struct sonde_tracks *t, struct cache_tier *out)
{
    size_t count = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct sonde_track *row = &t->rows[i];
        char name[64];
        size_t at = 0;
        if (strcmp(row->family, "sonde_cache_accesses_total") != 0 ||
            !cache_tier_name(row->labels, name)) {
            continue;
        }
        while (at < count && (out[at].pid != row->pid || strcmp(out[at].name, name) != 0)) at++;
        if (at == TIERS_MAX) continue;
        if (at == count) {
            out[count] = (struct cache_tier){ .pid = row->pid };
            strcpy(out[count++].name, name);
        }
        const int hit = strstr(row->labels, "result=\"hit\"") != NULL;
        *(hit ? &out[at].hits : &out[at].misses) += cache_track_sum(t, row);
    }
    return count;
}

static void cache_add(struct finding_look *l, const struct cache_tier *best)
{
    const double all = best->hits + best->misses, ratio = best->hits / all;
    const double high = finding_share_high(best->hits, all);
    struct sonde_finding *f = finding_add(
        l, high < WARNING_RATIO ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO, 1 - ratio);
    finding_subject(l, f, best->name, "", 0);
    f->share = ratio;
    f->count = all;
    finding_text(l, f,
                 "cache %.60s has the answer to %.1f %% of %.0f look-ups, and no other tier of the "
                 "program does better",
                 best->name, 100 * ratio, all);
    finding_advise(l, f,
                   "make %.60s larger until its hit rate stops rising (double it and compare), or "
                   "leave it out: %.0f look-ups per second find nothing",
                   best->name, l->seconds > 0 ? best->misses / l->seconds : 0);
    finding_prove_series(l, f, &(struct finding_series){ .family = "sonde_cache_accesses_total",
                                                         .label = "result=\"miss\"",
                                                         .pid = best->pid },
                         "per second", "misses");
}

static void cache_look(struct finding_look *l)
{
    struct cache_tier tiers[TIERS_MAX];
    const size_t count = l->p->tracks ? cache_tiers(l->p->tracks, tiers) : 0;
    for (size_t i = 0; i < count; i++) {
        const double all = tiers[i].hits + tiers[i].misses;
        int best = all >= ACCESSES_MIN && tiers[i].hits / all < INFO_RATIO;
        for (size_t k = 0; k < count && best; k++) {
            const double other = tiers[k].hits + tiers[k].misses;
            if (k == i || tiers[k].pid != tiers[i].pid || !(other > 0)) continue;
            const double ratio = tiers[k].hits / other, mine = tiers[i].hits / all;
            best = ratio < mine || (ratio == mine && i < k);
        }
        if (best) cache_add(l, &tiers[i]);
    }
}

extern const struct finding_rule finding_rule_low_hit_rate;
const struct finding_rule finding_rule_low_hit_rate = {
    .kind = "low_hit_rate",
    .title = "Low hit rate",
    .summary = "a cache has the answer to fewer than half of at least 1000 look-ups; a warning "
               "below 30 %",
    .look = cache_look,
};
