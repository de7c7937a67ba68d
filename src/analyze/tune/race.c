/* race.c - see race.h: trials are counted, and the next one is chosen. */
#include "analyze/tune/race.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "analyze/tune/race_private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "sonde/sonde.h"

#define FINAL_PAIRS_MIN 3u
#define FINAL_PAIRS_MAX 8u
#define LOSS_SMALL 0.0015        /* expected: the search has found what there is */
#define NEIGHBOUR_SD 4.0
#define NEAR_ENOUGH 0.995

const char *sonde_tune_phase_name(enum sonde_tune_phase p)
{
    static const char *const names[] = { "begin", "search", "final", "done" };
    return names[p];
}

const char *sonde_tune_outcome_name(enum sonde_tune_outcome o)
{
    static const char *const names[] = { "ok", "broken", "failed" };
    return names[o];
}

uint32_t sonde_tune_trials_for(uint32_t points)
{
    /* Of a search that tries each point three times. */
    const uint32_t quarter = (3 * points + 3) / 4;
    return quarter < 12 ? 12 : quarter > 60 ? 60 : quarter;
}

/* ---- Chance: by seed and number of trials, so that a resumed race goes on as it would have --- */

static void race_seed(struct sonde_tune_race *r)
{
    r->random = sonde_hash_u64(r->o.seed + SONDE_HASH_MUL) + sonde_hash_u64(r->trial_count);
}

static uint64_t race_random(struct sonde_tune_race *r)
{
    r->random += SONDE_HASH_MUL; /* splitmix64 */
    return sonde_hash_u64(r->random);
}

double race_uniform(struct sonde_tune_race *r)
{
    return ((double)(race_random(r) >> 11) + 0.5) * 0x1p-53;
}

double race_normal(struct sonde_tune_race *r)
{
    const double radius = sqrt(-2 * log(race_uniform(r)));
    return radius * cos(2 * 3.14159265358979323846 * race_uniform(r));
}

/* ---- Its life -------------------------------------------------------------------------------- */

int sonde_tune_race_create(const struct sonde_tune_race_options *o, struct sonde_tune_race **out)
{
    const uint32_t points = sonde_tune_points(o->space);
    if (!points) return SONDE_EINVAL;
    struct sonde_tune_race *r = sonde__calloc(1, sizeof(*r));
    if (!r) return SONDE_ENOMEM;
    r->o = *o;
    r->points = points;
    r->given = sonde_tune_start(o->space);
    if (!r->o.trials_max) r->o.trials_max = sonde_tune_trials_for(points);
    if (r->o.trials_max > SONDE_TUNE_TRIALS_MAX) r->o.trials_max = SONDE_TUNE_TRIALS_MAX;
    r->guesses = sonde__calloc(points, sizeof(*r->guesses));
    r->point_ok = sonde__calloc(points, 1);
    r->point_bad = sonde__calloc(points, 1);
    r->pairs = sonde__calloc(SONDE_TUNE_KNOBS_MAX * SONDE_TUNE_KNOBS_MAX, sizeof(*r->pairs));
    if (!r->guesses || !r->point_ok || !r->point_bad || !r->pairs) {
        sonde_tune_race_destroy(r);
        return SONDE_ENOMEM;
    }
    *out = r;
    return 0;
}

void sonde_tune_race_destroy(struct sonde_tune_race *r)
{
    if (!r) return;
    sonde_tune_surrogate_release(&r->surrogate);
    sonde__free(r->trials);
    sonde__free(r->guesses);
    sonde__free(r->point_ok);
    sonde__free(r->point_bad);
    sonde__free(r->pairs);
    sonde__free(r);
}

static struct tune_counts *race_pair(const struct sonde_tune_race *r, const uint8_t *levels,
                                     size_t k, size_t l)
{
    return &r->pairs[k * SONDE_TUNE_KNOBS_MAX + l][levels[k] * SONDE_TUNE_LEVELS_MAX + levels[l]];
}

static void race_count(struct sonde_tune_race *r, uint32_t point, int good)
{
    uint8_t levels[SONDE_TUNE_KNOBS_MAX];
    sonde_tune_levels(r->o.space, point, levels);
    uint8_t *count = good ? &r->point_ok[point] : &r->point_bad[point];
    if (*count < UINT8_MAX) (*count)++;
    for (size_t k = 0; k < r->o.space->knob_count; k++) {
        for (size_t l = k; l < r->o.space->knob_count; l++) {
            struct tune_counts *c = race_pair(r, levels, k, l);
            if (good) c->good++;
            else c->bad++;
        }
    }
}

int sonde_tune_race_tell(struct sonde_tune_race *r, struct sonde_tune_step step,
                         enum sonde_tune_outcome outcome, double value)
{
    if (step.point >= r->points) return SONDE_EINVAL;
    if (outcome != SONDE_TUNE_FAILED && !(value > 0 && value < INFINITY)) {
        outcome = SONDE_TUNE_FAILED;
    }
    const int rc = SONDE_ARRAY_ROOM_MAX(r->trials, r->trial_count, r->trial_cap,
                                        SONDE_TUNE_TRIALS_MAX);
    if (rc) return rc;
    r->trials[r->trial_count++] = (struct sonde_tune_trial){
        .step = step, .outcome = outcome, .value = outcome == SONDE_TUNE_FAILED ? NAN : value };
    race_count(r, step.point, outcome == SONDE_TUNE_OK);
    return 0;
}

const struct sonde_tune_trial *sonde_tune_race_trials(const struct sonde_tune_race *r,
                                                      size_t *count)
{
    *count = r->trial_count;
    return r->trials;
}

int race_allowed(const struct sonde_tune_race *r, uint32_t point)
{
    enum { BAD_MIN = 2 };
    if (r->point_bad[point] > r->point_ok[point]) return 0;
    if (r->point_ok[point]) return 1;
    uint8_t levels[SONDE_TUNE_KNOBS_MAX];
    sonde_tune_levels(r->o.space, point, levels);
    for (size_t k = 0; k < r->o.space->knob_count; k++) {
        for (size_t l = k; l < r->o.space->knob_count; l++) {
            const struct tune_counts *c = race_pair(r, levels, k, l);
            if (c->bad >= BAD_MIN && !c->good) return 0;
        }
    }
    return 1;
}

/* ---- What is known --------------------------------------------------------------------------- */

int race_learn(struct sonde_tune_race *r)
{
    if (r->learnt == r->trial_count && r->learnt) return r->surrogate.count ? 0 : SONDE_ENOENT;
    struct sonde_tune_seen *seen = sonde__calloc(r->trial_count + 1, sizeof(*seen));
    if (!seen) return SONDE_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < r->trial_count; i++) {
        const struct sonde_tune_trial *t = &r->trials[i];
        if (t->outcome == SONDE_TUNE_FAILED) continue;
        const double y = log(t->value);
        seen[n++] = (struct sonde_tune_seen){ .point = t->step.point, .time = (uint32_t)i,
                                              .y = r->o.less ? -y : y };
    }
    int rc = n ? sonde_tune_surrogate_learn(&r->surrogate, r->o.space, seen, n) : SONDE_ENOENT;
    sonde__free(seen);
    if (rc == SONDE_ENOENT) r->learnt = r->trial_count;
    if (rc) return rc;
    for (uint32_t p = 0; p < r->points; p++) {
        r->guesses[p] = sonde_tune_guess(&r->surrogate, p, NULL);
    }
    r->learnt = r->trial_count;
    return 0;
}

int race_leader(const struct sonde_tune_race *r, uint32_t *out)
{
    int found = 0;
    for (uint32_t p = 0; p < r->points; p++) {
        if (!r->point_ok[p] || !race_allowed(r, p)) continue;
        if (!found || r->guesses[p].mean > r->guesses[*out].mean) *out = p;
        found = 1;
    }
    return found;
}

/* ---- What is next ---------------------------------------------------------------------------- */

/* Trials of the beginning: as many as the two knobs with most levels have pairs, but no more than
 * two fifths of all. */
static uint32_t race_begin_count(const struct sonde_tune_race *r)
{
    uint32_t most = 1, second = 1;
    for (size_t k = 0; k < r->o.space->knob_count; k++) {
        const uint32_t n = r->o.space->knobs[k].level_count;
        if (n > most) {
            second = most;
            most = n;
        } else if (n > second) {
            second = n;
        }
    }
    const uint32_t want = 1 + most * second, may = 2 * r->o.trials_max / 5;
    return want < may ? want : may ? may : 1;
}

/* Pairs of levels that a point would be the first to have among the first `count` of design. */
static uint32_t race_begin_new(const struct sonde_tune_space *s, const uint8_t *levels,
                               uint8_t (*design)[SONDE_TUNE_KNOBS_MAX], uint32_t count)
{
    uint32_t found = 0;
    for (size_t k = 0; k < s->knob_count; k++) {
        for (size_t l = k; l < s->knob_count; l++) { /* k = l: a level that is new counts more */
            uint32_t i = 0;
            while (i < count && (design[i][k] != levels[k] || design[i][l] != levels[l])) i++;
            if (i == count) found += k == l ? 3 : 1;
        }
    }
    return found;
}

/* The last of the first `count` points of the beginning: the given one, then of some at random each
 * time the one with most pairs of levels that are new, so that what two knobs do together is seen.
 * By the seed alone. */
static uint32_t race_begin_point(struct sonde_tune_race *r, uint32_t count)
{
    enum { CANDIDATES = 32 };
    const struct sonde_tune_space *s = r->o.space;
    uint8_t design[SONDE_TUNE_TRIALS_MAX][SONDE_TUNE_KNOBS_MAX] = { { 0 } };
    r->random = sonde_hash_u64(r->o.seed + 1);
    sonde_tune_levels(s, r->given, design[0]);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t most = 0;
        for (int c = 0; c < CANDIDATES; c++) {
            uint8_t levels[SONDE_TUNE_KNOBS_MAX] = { 0 };
            for (size_t k = 0; k < s->knob_count; k++) {
                levels[k] = (uint8_t)(race_random(r) % s->knobs[k].level_count);
            }
            const uint32_t found = race_begin_new(s, levels, design, i);
            if (c && found <= most) continue;
            most = found;
            memcpy(design[i], levels, sizeof(levels));
        }
    }
    return sonde_tune_point(s, design[count - 1]);
}

/* By how much a normal variable exceeds 0 on average. */
static double race_improvement(double mean, double variance)
{
    if (!(variance > 1e-14)) return mean > 0 ? mean : 0;
    const double sd = sqrt(variance), z = mean / sd;
    return mean * 0.5 * erfc(-z * 0.7071067811865476) + sd * 0.3989422804014327 * exp(-0.5 * z * z);
}

/* The rival of leader; the same point if there is none. Loads: room for both. */
static uint32_t race_rival(struct sonde_tune_race *r, uint32_t leader, double *load_leader,
                           double *load_rival)
{
    const struct sonde_tune_surrogate *s = &r->surrogate;
    const struct sonde_tune_guess best = sonde_tune_guess(s, leader, load_leader);
    uint32_t rival = leader;
    double most = -1;
    for (uint32_t p = 0; p < r->points; p++) {
        const struct sonde_tune_guess *g = &r->guesses[p];
        if (p == leader) continue;
        /* Cheap bound first: most points are far from being rivals. */
        const double apart = sqrt(g->variance) + sqrt(best.variance);
        if (race_improvement(g->mean - best.mean, RACE_DOUBT * apart * apart) <= most) continue;
        if (!race_allowed(r, p)) continue;
        sonde_tune_guess(s, p, load_rival);
        const double variance = g->variance + best.variance -
                                2 * sonde_tune_covariance(s, leader, load_leader, p, load_rival);
        const double improvement = race_improvement(g->mean - best.mean, RACE_DOUBT * variance);
        if (improvement > most) {
            most = improvement;
            rival = p;
        }
    }
    return rival;
}

/* A point that differs from the leader in one knob, was never tried, and could be better: the
 * nearest thing to a proof that nothing is. 0 = there is none. Others are looked at as often. */
static int race_neighbour(const struct sonde_tune_race *r, uint32_t leader,
                          struct sonde_tune_step *out)
{
    const struct sonde_tune_space *s = r->o.space;
    double most = r->guesses[leader].mean;
    int found = 0;
    if (r->trial_count % 2) return 0;
    for (size_t k = 0; k < s->knob_count; k++) {
        for (uint8_t l = 0; l < s->knobs[k].level_count; l++) {
            const uint32_t p = sonde_tune_moved(s, leader, k, l);
            if (r->point_ok[p] || !race_allowed(r, p)) continue;
            const double may = r->guesses[p].mean + NEIGHBOUR_SD * sqrt(r->guesses[p].variance);
            if (may <= most) continue;
            most = may;
            found = 1;
            *out = (struct sonde_tune_step){ .point = p, .phase = SONDE_TUNE_SEARCH };
        }
    }
    return found;
}

/* Of leader and rival the one whose trial says more of their difference. */
static uint32_t race_search(struct sonde_tune_race *r, uint32_t leader)
{
    double load_a[SONDE_TUNE_TRIALS_MAX], load_b[SONDE_TUNE_TRIALS_MAX];
    const struct sonde_tune_surrogate *s = &r->surrogate;
    const uint32_t rival = race_rival(r, leader, load_a, load_b);
    if (rival == leader) return leader;
    const struct sonde_tune_guess a = sonde_tune_guess(s, leader, load_a);
    const struct sonde_tune_guess b = sonde_tune_guess(s, rival, load_b);
    const double noise = s->weights.noise + s->weights.drift;
    const double both = sonde_tune_covariance(s, leader, load_a, rival, load_b);
    const double by_a = (a.variance - both) * (a.variance - both) / (a.variance + noise);
    const double by_b = (b.variance - both) * (b.variance - both) / (b.variance + noise);
    return by_a > by_b ? leader : rival;
}

static void race_final_next(const struct sonde_tune_race *r, struct sonde_tune_step *out)
{
    struct tune_final f;
    uint32_t leader = 0;
    *out = (struct sonde_tune_step){ .phase = SONDE_TUNE_FINAL, .point = r->given };
    if (!race_final(r, &f)) {
        if (race_leader(r, &leader)) leader = race_simplest(r, leader);
        f = (struct tune_final){ .winner = leader };
        /* Nothing to decide between. */
        if (leader == r->given || !r->point_ok[r->given] || !race_allowed(r, r->given)) {
            out->phase = SONDE_TUNE_DONE;
            return;
        }
        out->point = leader;
        return;
    }
    if (f.decided || f.pairs >= FINAL_PAIRS_MAX ||
        (r->trial_count >= r->o.trials_max && f.given_count == f.winner_count)) {
        out->phase = SONDE_TUNE_DONE;
        return;
    }
    /* winner given, given winner, winner given …: a drift that is even favours neither. */
    const size_t done = f.given_count + f.winner_count;
    if (f.given_count != f.winner_count) {
        out->point = f.given_count < f.winner_count ? r->given : f.winner;
    } else {
        out->point = done / 2 % 2 ? r->given : f.winner;
    }
}

/* Trials that are kept for the final. */
static uint32_t race_final_reserve(const struct sonde_tune_race *r)
{
    const uint32_t third = r->o.trials_max / 3 & ~1u;
    return third < 2 * FINAL_PAIRS_MIN ? third : 2 * FINAL_PAIRS_MIN;
}

/* The points of a round in an order of its own, by the seed alone: the i-th has the i-th lowest
 * hash. */
static void race_all_next(const struct sonde_tune_race *r, struct sonde_tune_step *out)
{
    const uint64_t round = r->trial_count / r->points, place = r->trial_count % r->points;
    *out = (struct sonde_tune_step){ .point = r->given, .phase = SONDE_TUNE_SEARCH };
    if (round >= r->o.all) {
        out->phase = SONDE_TUNE_DONE;
        return;
    }
    for (uint32_t p = 0; p < r->points; p++) {
        const uint64_t own = sonde_hash_u64(sonde_hash_u64(r->o.seed + round) + p);
        uint64_t lower = 0;
        for (uint32_t q = 0; q < r->points; q++) {
            lower += sonde_hash_u64(sonde_hash_u64(r->o.seed + round) + q) < own;
        }
        if (lower == place) out->point = p;
    }
}

int sonde_tune_race_next(struct sonde_tune_race *r, struct sonde_tune_step *out)
{
    struct tune_final f;
    const uint32_t begin = race_begin_count(r), reserve = race_final_reserve(r);
    double loss = 1, near = 0;
    uint32_t leader;
    race_seed(r);
    if (r->o.all) {
        race_all_next(r, out);
        return 0;
    }
    if (r->trial_count < begin) {
        *out = (struct sonde_tune_step){
            .point = race_begin_point(r, (uint32_t)r->trial_count + 1),
            .phase = SONDE_TUNE_BEGIN };
        if (race_allowed(r, out->point)) return 0;
        race_seed(r);
    }
    int rc = race_learn(r);
    if (rc && rc != SONDE_ENOENT) return rc;
    const int found = !rc && race_leader(r, &leader);
    if (!found && r->trial_count + reserve < r->o.trials_max) {
        /* Nothing has worked yet: anything that is not ruled out. */
        for (int i = 0; i < 64; i++) {
            const uint32_t p = (uint32_t)(race_random(r) % r->points);
            if (!race_allowed(r, p)) continue;
            *out = (struct sonde_tune_step){ .point = p, .phase = SONDE_TUNE_SEARCH };
            return 0;
        }
    }
    if (!found) {
        *out = (struct sonde_tune_step){ .point = r->given, .phase = SONDE_TUNE_DONE };
        return 0;
    }
    if (race_final(r, &f) || r->trial_count + reserve >= r->o.trials_max) {
        race_final_next(r, out);
        return 0;
    }
    if (race_neighbour(r, leader, out)) return 0;
    rc = race_loss(r, leader, &loss, &near);
    if (rc) return rc;
    if (r->trial_count % 2 == 0 && loss < LOSS_SMALL && near > NEAR_ENOUGH) race_final_next(r, out);
    else *out = (struct sonde_tune_step){ .point = race_search(r, leader),
                                          .phase = SONDE_TUNE_SEARCH };
    return 0;
}
