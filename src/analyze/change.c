/* change.c - see change.h: bins, what is reported, and what went away. */
#include "analyze/change.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "analyze/change_private.h"
#include "base/alloc.h"
#include "sonde/sonde.h"

#define CHANGE_THRESHOLD 6.5
#define CHANGE_MIN_RELATIVE 0.01
#define CHANGE_WARMUP_S 600.0
#define CHANGE_HOLE_S 45.0        /* without a value … */
#define CHANGE_HOLE_RARE_S 3600.0 /* … and none so long before */
#define CHANGE_BIN_FILLED 0.3     /* a bin of which less is there is missing */
#define CHANGE_HOLDS 0.4          /* of the change that each third of the window must show */
#define CHANGE_BACK 0.35          /* of a change that may be left when it went away */
#define CHANGE_FAR 6.0            /* usual distances; minutes further away are spikes */
#define CHANGE_SPREADS 4.0
#define CHANGE_NEW_FACTOR 3.0     /* more is needed before the rhythm of days is known … */
#define CHANGE_YOUNG_FACTOR 2.0   /* … and before four of them are */
#define CHANGE_AGAIN 0.5          /* more is needed for each change of the last days */
#define CHANGE_CALM 3.5           /* scales: forecasts of a calm series are never off by more … */
#define CHANGE_CALM_FACTOR 0.9    /* … and then less is needed */

enum {
    CHANGE_LEARN = CHANGE_DAY + 3 * CHANGE_WINDOW,
    CHANGE_MISSING_MAX = 2,
    CHANGE_YOUNG = 4 * CHANGE_DAY,
    CHANGE_FIT_EVERY = 12,
    CHANGE_FOUND_MEMORY = 4 * CHANGE_DAY,
};

const char *sonde_change_state_name(enum sonde_change_state state)
{
    return state == SONDE_CHANGE_WENT_AWAY ? "went_away" : "open";
}

int sonde_change_create(const struct sonde_change_options *options,
                        struct sonde_change_series **out)
{
    assert(out);
    struct sonde_change_series *s = sonde__calloc(1, sizeof(*s));
    if (!s) return SONDE_ENOMEM;
    if (options) s->o = *options;
    if (!(s->o.threshold > 0)) s->o.threshold = CHANGE_THRESHOLD;
    if (!(s->o.min_relative > 0)) s->o.min_relative = CHANGE_MIN_RELATIVE;
    if (!(s->o.warmup_s > 0)) s->o.warmup_s = CHANGE_WARMUP_S;
    s->first = 0;
    s->last = -1;
    s->now = INT64_MIN;
    s->last_time_s = s->hole_time_s = -INFINITY;
    *out = s;
    return 0;
}

void sonde_change_destroy(struct sonde_change_series *s)
{
    sonde__free(s);
}

/* ---- Bins ------------------------------------------------------------------------------------ */

static void change_means(struct sonde_change_series *s, int64_t from, int64_t to)
{
    for (int64_t i = from < s->first ? s->first : from; i <= to && i <= s->last; i++) {
        s->mean[change_slot(i)] = (float)change_window_mean(s, i);
    }
}

static int64_t change_oldest(const struct sonde_change_series *s)
{
    const int64_t oldest = s->last - CHANGE_RING + 1;
    return oldest > s->first ? oldest : s->first;
}

/* From logarithms to values: there is one of 0 or below. */
static void change_make_linear(struct sonde_change_series *s)
{
    s->linear = 1;
    for (int64_t i = change_oldest(s); i <= s->last; i++) {
        float *x = &s->bin[change_slot(i)];
        *x = expf(*x);
    }
    change_means(s, change_oldest(s), s->last);
    s->open_count = 0; /* their effects were logarithms */
    s->bin_scale = 0;
    s->fit = (struct change_fit){ .at = 0 };
}

static void change_put_bin(struct sonde_change_series *s, int64_t at, double value)
{
    if (s->last < s->first || at - s->last >= CHANGE_RING) {
        s->first = at;
        s->last = at - 1;
        s->fit = (struct change_fit){ .at = 0 };
        s->open_count = 0;
    }
    while (s->last < at - 1) { /* missing */
        s->last++;
        s->bin[change_slot(s->last)] = NAN;
        s->mean[change_slot(s->last)] = (float)change_window_mean(s, s->last);
    }
    if (!s->linear && value <= 0) change_make_linear(s);
    s->last = at;
    s->bin[change_slot(at)] = (float)(s->linear || isnan(value) ? value : log(value));
    s->mean[change_slot(at)] = (float)change_window_mean(s, at);
    if (s->last - s->first >= CHANGE_RING) s->first = s->last - CHANGE_RING + 1;
}

/* ---- Judging the window that has just ended -------------------------------------------------- */

static double change_bin_at(const struct sonde_change_series *s, int64_t at)
{
    return at < s->first || at > s->last ? NAN : (double)s->bin[change_slot(at)];
}

/* The middle of the bins [from, to] that are there. */
static double change_bins_middle(const struct sonde_change_series *s, int64_t from, int64_t to)
{
    double v[CHANGE_WINDOW];
    size_t n = 0;
    for (int64_t i = from; i <= to && n < CHANGE_WINDOW; i++) {
        const double x = change_bin_at(s, i);
        if (isnan(x)) continue;
        size_t k = n++;
        for (; k && v[k - 1] > x; k--) v[k] = v[k - 1];
        v[k] = x;
    }
    if (!n) return NAN;
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* 1 if each third of the window is off in the same direction. */
static int change_persists(const struct sonde_change_series *s, double error)
{
    const double expected = change_mean_at(s, s->last) - error;
    const int64_t from = s->last - CHANGE_WINDOW + 1;
    static const int thirds[][2] = { { 0, 2 }, { 3, 5 }, { 6, 9 } };
    for (size_t i = 0; i < 3; i++) {
        const double middle = change_bins_middle(s, from + thirds[i][0], from + thirds[i][1]);
        if (isnan(middle)) continue;
        if ((middle - expected) * (error > 0 ? 1 : -1) < CHANGE_HOLDS * fabs(error)) return 0;
    }
    /* And it has not ended by now. */
    const double now = change_bin_at(s, s->last);
    return (now - expected) * (error > 0 ? 1 : -1) >= CHANGE_HOLDS / 2 * fabs(error);
}

/* 1 if next to nothing is missing from the window and from the one before it. */
static int change_is_whole(const struct sonde_change_series *s)
{
    int missing[2] = { 0 };
    for (int i = 0; i < 2 * CHANGE_WINDOW; i++) {
        missing[i / CHANGE_WINDOW] += isnan(change_bin_at(s, s->last - i));
    }
    return missing[0] <= CHANGE_MISSING_MAX && missing[1] <= CHANGE_MISSING_MAX;
}

/* How much more is needed since the series has changed of late. */
static double change_again(const struct sonde_change_series *s)
{
    double factor = 1;
    const size_t n = s->found < CHANGE_OPEN_MAX ? s->found : CHANGE_OPEN_MAX;
    for (size_t i = 0; i < n; i++) {
        if (s->last - s->found_at[i] < CHANGE_FOUND_MEMORY) factor += CHANGE_AGAIN;
    }
    return factor;
}

/* Scales that a change must exceed, of a series that has not changed of late. What alarms falsely
 * is rarely chance, which 5 scales would rule out, but what no forecast knows: weekends, jobs, a
 * rhythm that differs. Such a series has had large errors before. */
static double change_needed(const struct sonde_change_series *s)
{
    if (!s->fit.seasons) return CHANGE_NEW_FACTOR * s->o.threshold;
    if (s->last - s->first < CHANGE_YOUNG) return CHANGE_YOUNG_FACTOR * s->o.threshold;
    const int calm = s->fit.sizes && !s->linear && s->fit.largest <= CHANGE_CALM * s->fit.scale;
    return (calm ? CHANGE_CALM_FACTOR : 1) * s->o.threshold;
}

/* The scale of errors where this much is expected. Logarithms have the same everywhere; what is
 * counted, and so has zeros, spreads by the root of its level, which differs from hour to hour. */
static double change_scale_now(const struct sonde_change_series *s, double expected)
{
    if (!s->linear || !(s->fit.level > 0) || !(expected > s->fit.level)) return s->fit.scale;
    return s->fit.scale * sqrt(expected / s->fit.level);
}

/* 1 if the window is higher, or lower, than all that ended before it: what is counted now and then
 * has a forecast of little worth, above all where its rhythm rises steeply. */
static int change_is_new(const struct sonde_change_series *s, double error)
{
    const double now = change_mean_at(s, s->last) * (error > 0 ? 1 : -1);
    for (int64_t i = change_oldest(s); i <= s->last - CHANGE_WINDOW; i++) {
        if (change_mean_at(s, i) * (error > 0 ? 1 : -1) >= now) return 0;
    }
    return 1;
}

static double change_relative_of(const struct sonde_change_series *s, double effect)
{
    if (!s->linear) return fabs(expm1(effect));
    const double before = fabs(change_mean_at(s, s->last) - effect);
    return before > 0 ? fabs(effect) / before : INFINITY;
}

/* ---- What is reported ------------------------------------------------------------------------ */

struct change_split { int64_t at, low, high; }; /* the first bin after it */

/* Where two levels fit best; those splits that fit almost as well are where it may have been. */
static struct change_split change_find_split(const struct sonde_change_series *s)
{
    enum { SPAN = 2 * CHANGE_WINDOW, EDGE = 3 };
    double v[SPAN], left[SPAN + 1] = { 0 };
    const int64_t from = s->last - SPAN + 1;
    struct change_split out = { s->last - CHANGE_WINDOW + 1, 0, 0 };
    int there = 0;
    for (int i = 0; i < SPAN; i++) {
        v[i] = change_bin_at(s, from + i);
        there += !isnan(v[i]);
    }
    double best = INFINITY;
    for (int k = EDGE; k <= SPAN - EDGE; k++) {
        const double a = change_bins_middle(s, from + (k > CHANGE_WINDOW ? k - CHANGE_WINDOW : 0),
                                            from + k - 1);
        const double b = change_bins_middle(s, from + k, from + k + CHANGE_WINDOW - 1 < s->last
                                            ? from + k + CHANGE_WINDOW - 1 : s->last);
        double sum = 0;
        for (int i = 0; i < SPAN; i++) {
            if (!isnan(v[i])) sum += fabs(v[i] - (i < k ? a : b));
        }
        left[k] = isnan(a) || isnan(b) ? INFINITY : sum;
        if (left[k] < best) {
            best = left[k];
            out.at = from + k;
        }
    }
    out.low = out.high = out.at;
    for (int k = EDGE; k <= SPAN - EDGE; k++) {
        if (!(left[k] <= best * (1 + 4.0 / (there + 1)))) continue;
        if (from + k < out.low) out.low = from + k;
        if (from + k > out.high) out.high = from + k;
    }
    return out;
}

/* Independent values that the window amounts to: the variance of single bins by that of what the
 * window's mean is off, which has the likeness of neighbours in it. */
static double change_n_eff(const struct sonde_change_series *s)
{
    double sum = 0;
    int n = 0;
    for (int64_t i = s->last - CHANGE_DAY + 1; i <= s->last; i++) {
        const double d = change_bin_at(s, i) - change_bin_at(s, i - 1);
        if (isnan(d)) continue;
        sum += fmin(fabs(d), 10 * s->fit.scale);
        n++;
    }
    if (n < CHANGE_WINDOW) return NAN;
    const double sd = sum / n / 1.128; /* of differences: E|d| = 2 sd / sqrt(pi) */
    const double effective = 2 * sd * sd / (s->fit.scale * s->fit.scale);
    return fmin(CHANGE_WINDOW, fmax(1, effective));
}

/* expected: the level that was forecast, as bins are. */
static void change_tell(const struct sonde_change_series *s, double expected, double effect,
                        double needed, struct change_split split, struct sonde_change *out)
{
    const int64_t bins = s->last - split.at + 1;
    const double fewer = bins < CHANGE_WINDOW ? sqrt((double)CHANGE_WINDOW / (double)bins) : 1;
    const double half = 1.96 * s->fit.scale * fewer;
    const double now = expected + effect;
    const double scales = fabs(effect) / s->fit.scale;
    *out = (struct sonde_change){
        .time_s = (double)split.at * SONDE_CHANGE_BIN_S,
        .time_low_s = (double)(split.low - 1) * SONDE_CHANGE_BIN_S,
        .time_high_s = (double)(split.high + 1) * SONDE_CHANGE_BIN_S,
        .found_s = (double)(s->last + 1) * SONDE_CHANGE_BIN_S,
        .scales = scales,
        .n_eff = change_n_eff(s),
        /* At the threshold about one report in ten is false (a week of 1,000 series has less than
         * one); with each scale beyond it, far fewer. */
        .confidence = 1 - 0.1 * exp(-1.5 * fmax(0, scales - needed)),
        .state = SONDE_CHANGE_OPEN,
    };
    if (s->linear) {
        out->after = now;
        out->before = now - effect;
        out->absolute = effect;
        out->absolute_low = effect - half;
        out->absolute_high = effect + half;
        const double by = fabs(out->before) > 0 ? fabs(out->before) : NAN;
        out->relative = effect / by;
        out->relative_low = out->absolute_low / by;
        out->relative_high = out->absolute_high / by;
    } else {
        out->after = exp(now);
        out->before = exp(now - effect);
        out->relative = expm1(effect);
        out->relative_low = expm1(effect - half);
        out->relative_high = expm1(effect + half);
        out->absolute = out->before * out->relative;
        out->absolute_low = out->before * out->relative_low;
        out->absolute_high = out->before * out->relative_high;
    }
}

/* Bins before the split are raised to the level after it. */
static void change_absorb(struct sonde_change_series *s, double effect, int64_t split)
{
    for (int64_t i = change_oldest(s); i < split; i++) {
        s->bin[change_slot(i)] += (float)effect;
        s->mean[change_slot(i)] += (float)effect;
    }
    change_means(s, split, s->last);
    s->found_at[s->found++ % CHANGE_OPEN_MAX] = s->last;
}

/* A change that this one takes back, or -1. */
static int change_find_open(const struct sonde_change_series *s, double effect)
{
    for (size_t i = s->open_count; i-- > 0;) {
        const double was = s->open[i].effect;
        if (was * effect < 0 && fabs(was + effect) < CHANGE_BACK * fabs(was)) return (int)i;
    }
    return -1;
}

/* The first window that shows a change often begins before it: the effect is that of the bins after
 * the split. */
static double change_refine(const struct sonde_change_series *s, double effect, int64_t split)
{
    double v[CHANGE_WINDOW], sorted[CHANGE_WINDOW];
    size_t n = 0;
    double expected = change_mean_at(s, s->last) - effect;
    const double rise = expected - change_mean_at(s, s->last - CHANGE_WINDOW);
    for (int64_t i = split; i <= s->last && n < CHANGE_WINDOW; i++) {
        const double x = change_bin_at(s, i);
        if (isnan(x)) continue;
        sorted[n] = x;
        v[n++] = x;
    }
    if (n < 3 || split <= s->last - CHANGE_WINDOW) return effect;
    /* Their middle is later than that of the window, by then a rhythm goes on. */
    if (!isnan(rise)) expected += rise / CHANGE_WINDOW * (CHANGE_WINDOW - (double)n) / 2;
    const double middle = change_middle(sorted, n);
    const double refined = change_near_mean(v, n, middle, 3 * s->bin_scale, n / 4) - expected;
    return refined * effect > 0 && fabs(refined) < 2 * fabs(effect) ? refined : effect;
}

static enum sonde_change_event change_report(struct sonde_change_series *s, double effect,
                                             double needed, struct sonde_change *out)
{
    const struct change_split split = change_find_split(s);
    const double expected = change_mean_at(s, s->last) - effect;
    effect = change_refine(s, effect, split.at);
    /* What is left without the bins before it is less: the window had something else in it. */
    if (fabs(effect) <= needed * change_scale_now(s, expected)) return SONDE_CHANGE_NONE;
    const int back = change_find_open(s, effect);
    enum sonde_change_event event = SONDE_CHANGE_FOUND;
    change_tell(s, expected, effect, needed, split, out);
    if (back >= 0) {
        const double until_s = out->time_s;
        *out = s->open[back].told;
        out->state = SONDE_CHANGE_WENT_AWAY;
        out->until_s = until_s;
        s->open_count--;
        memmove(&s->open[back], &s->open[back + 1],
                (s->open_count - (size_t)back) * sizeof(s->open[0]));
        event = SONDE_CHANGE_RETURNED;
    } else {
        if (s->open_count == CHANGE_OPEN_MAX) {
            s->open_count--;
            memmove(&s->open[0], &s->open[1], s->open_count * sizeof(s->open[0]));
        }
        s->open[s->open_count++] = (struct change_open){ out->time_s, effect, *out };
    }
    change_absorb(s, effect, split.at);
    change_fit_make(s);
    s->quiet_until = s->last + CHANGE_WINDOW;
    return event;
}

static enum sonde_change_event change_judge(struct sonde_change_series *s,
                                            struct sonde_change *out)
{
    struct change_fit *fit = &s->fit;
    if (s->last - s->first < CHANGE_LEARN) return SONDE_CHANGE_NONE;
    if (!(fit->scale > 0) ? s->last - fit->at >= 1 : s->last - fit->at >= CHANGE_FIT_EVERY) {
        change_fit_make(s);
    }
    if (!(fit->scale > 0) || s->last < s->quiet_until || !change_is_whole(s)) {
        return SONDE_CHANGE_NONE;
    }
    const double error = change_error(s, s->last), size = fabs(error);
    double needed = change_needed(s);
    const double scale = change_scale_now(s, change_mean_at(s, s->last) - error);
    if (isnan(error) || !(size > needed * scale)) return SONDE_CHANGE_NONE;
    /* A return costs no more than the change did. */
    if (change_find_open(s, error) < 0) needed *= change_again(s);
    if (size <= needed * scale || size <= fit->largest ||
        change_relative_of(s, error) < s->o.min_relative || !change_persists(s, error) ||
        (s->linear && !change_is_new(s, error))) {
        return SONDE_CHANGE_NONE;
    }
    /* At this time of the day the series does this and that. */
    if (size <= CHANGE_SPREADS * change_spread(s, s->last)) return SONDE_CHANGE_NONE;
    /* The window before was off the other way: what ends now is an excursion, which is no news. */
    if (change_is_excursion(error, change_error(s, s->last - CHANGE_WINDOW))) {
        return SONDE_CHANGE_NONE;
    }
    return change_report(s, error, needed, out);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* The mean of a bin's minutes, without those that are far from the others. How far is far is
 * learned: from bin to bin the estimate moves by a tenth, whatever was seen. */
static double change_bin_value(struct sonde_change_series *s)
{
    double v[CHANGE_MINUTES], off[CHANGE_MINUTES], seconds = 0;
    size_t n = 0;
    for (int i = 0; i < CHANGE_MINUTES; i++) {
        seconds += s->seconds[i];
        if (s->seconds[i] > 0) v[n++] = s->sum[i] / s->seconds[i];
    }
    if (!n || seconds < CHANGE_BIN_FILLED * SONDE_CHANGE_BIN_S) return NAN;
    const double middle = change_middle(v, n);
    const double size = fabs(middle) > 0 ? fabs(middle) : 1;
    for (size_t i = 0; i < n; i++) off[i] = fabs(v[i] - middle) / size;
    const double usual = change_middle(off, n);
    if (n >= 3) {
        if (!(s->minute_scale > 0)) s->minute_scale = usual;
        else s->minute_scale += 0.1 * (fmin(usual, 3 * s->minute_scale) - s->minute_scale);
    }
    const double bound = fabs(middle) > 0 ? CHANGE_FAR * s->minute_scale * size : INFINITY;
    return n < 3 ? middle : change_near_mean(v, n, middle, bound, n / 2);
}

/* From bin to bin, alike. */
static void change_bin_scale(struct sonde_change_series *s)
{
    const double d = fabs(change_bin_at(s, s->last) - change_bin_at(s, s->last - 1)) / 0.954;
    if (isnan(d)) return;
    if (!(s->bin_scale > 0)) s->bin_scale = d;
    else if (d > s->bin_scale) s->bin_scale *= 1.02; /* a walk towards the median */
    else s->bin_scale /= 1.02;
}

static enum sonde_change_event change_close_bin(struct sonde_change_series *s,
                                                struct sonde_change *out)
{
    const double value = s->now == INT64_MIN ? NAN : change_bin_value(s);
    memset(s->sum, 0, sizeof(s->sum));
    memset(s->seconds, 0, sizeof(s->seconds));
    if (isnan(value)) return SONDE_CHANGE_NONE;
    change_put_bin(s, s->now, value);
    change_bin_scale(s);
    return change_judge(s, out);
}

enum sonde_change_event sonde_change_add(struct sonde_change_series *s, double time_s,
                                         double seconds, double value, struct sonde_change *out)
{
    assert(s && out);
    enum sonde_change_event event = SONDE_CHANGE_NONE;
    if (!isfinite(value) || !isfinite(time_s) || !(seconds > 0) || fabs(time_s) > 1e12 ||
        time_s <= s->last_time_s) {
        return event;
    }
    /* Who is silent for once was most likely restarted, whether that was told or not; a series that
     * has values now and then is silent again and again. */
    if (time_s - seconds - s->last_time_s > CHANGE_HOLE_S) {
        const int rare = time_s - s->hole_time_s > CHANGE_HOLE_RARE_S;
        if (rare && s->last >= s->first) sonde_change_restart(s, time_s);
        s->hole_time_s = time_s;
    }
    s->last_time_s = time_s;
    if (time_s < s->warm_until_s) return event;
    const int64_t at = (int64_t)floor(time_s / SONDE_CHANGE_BIN_S);
    if (at != s->now) {
        event = change_close_bin(s, out);
        s->now = at;
    }
    const double part = (time_s - (double)at * SONDE_CHANGE_BIN_S) / SONDE_CHANGE_BIN_S;
    const int minute = part < 0 ? 0 : part >= 1 ? CHANGE_MINUTES - 1 : (int)(part * CHANGE_MINUTES);
    s->sum[minute] += value * seconds;
    s->seconds[minute] += seconds;
    return event;
}

void sonde_change_restart(struct sonde_change_series *s, double time_s)
{
    if (time_s + s->o.warmup_s > s->warm_until_s) s->warm_until_s = time_s + s->o.warmup_s;
}

size_t sonde_change_bins(const struct sonde_change_series *s)
{
    return s->last < s->first ? 0 : (size_t)(s->last - s->first + 1);
}

double sonde_change_smallest(const struct sonde_change_series *s)
{
    if (!(s->fit.scale > 0)) return NAN;
    const double least = fmax(change_needed(s) * change_again(s) * s->fit.scale, s->fit.largest);
    return fmax(s->o.min_relative, change_relative_of(s, least));
}
