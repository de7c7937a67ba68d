/* changes.c - simulated weeks: false alarms of a host with 1,000 series, how often a 2 % shift of
 * a series with 5 % noise is found within an hour, how often a function that gets slower is named,
 * and what shifts of cost do; Otava's algorithm beside it on the same series (five-minute means).
 *
 *   bench_changes [SERIES [WEEKS [SHIFTS [DAYS [SEED]]]]]      1000 2 100 100 0
 *
 * The simulations are tests/unit/analyze/change_sim.h and cost_sim.h: the figures are those of
 * seeds, not of luck; those of seed 0 are what the default threshold was chosen on, others have
 * been seen by nobody. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analyze/change.h"
#include "analyze/cost.h"
#include "base/alloc.h"
#include "otava.h"
#include "unit/analyze/change_sim.h"
#include "unit/analyze/cost_sim.h"

enum { BIN = 300, HOUR = 3600 };

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Means of five minutes, for Otava. */
struct bins { double v[OTAVA_POINTS_MAX]; size_t count; double sum, n; };

static void bins_add(struct bins *b, int t, double x)
{
    b->sum += x;
    b->n++;
    if (t % BIN != BIN - 1 || !(b->n > 0) || b->count == OTAVA_POINTS_MAX) return;
    b->v[b->count++] = b->sum / b->n;
    b->sum = b->n = 0;
}

struct week { int alarms, better, returned, otava; double cpu; };

static void host_series(uint64_t seed, int days, struct week *out)
{
    static struct sim_series s;
    static struct bins b;
    static size_t points[OTAVA_POINTS_MAX];
    static double values[SIM_DAY];
    static signed char restarts[SIM_DAY];
    struct sonde_change_series *d;
    struct sonde_change c;
    sim_host_series(&s, seed, days);
    const int worse = s.kind == SIM_THROUGHPUT ? -1 : 1;
    if (sonde_change_create(NULL, &d) != 0) exit(1);
    b.count = 0;
    for (int day = 0; day < days; day++) {
        for (int t = 0; t < SIM_DAY; t++) {
            int restart;
            values[t] = sim_next(&s, day * SIM_DAY + t, &restart);
            restarts[t] = (signed char)restart;
            if (!isnan(values[t])) bins_add(&b, t, values[t]);
        }
        const double before = cpu_s();
        for (int t = 0; t < SIM_DAY; t++) {
            const double at = (double)day * SIM_DAY + t;
            if (restarts[t]) sonde_change_restart(d, at);
            if (isnan(values[t])) continue;
            const enum sonde_change_event e = sonde_change_add(d, at, 1, values[t], &c);
            if (e == SONDE_CHANGE_RETURNED) out->returned++;
            else if (e == SONDE_CHANGE_FOUND && c.absolute * worse > 0) out->alarms++;
            else if (e == SONDE_CHANGE_FOUND) out->better++;
        }
        out->cpu += cpu_s() - before;
    }
    sonde_change_destroy(d);
    out->otava += (int)otava_find(b.v, b.count, points);
}

/* 1 = found by us, 2 = by Otava. *held: our interval has the truth in it. */
static int shift_series(uint64_t seed, double phi, double rhythm, int *held)
{
    static struct sim_series s;
    static struct bins b;
    static size_t points[OTAVA_POINTS_MAX];
    struct sonde_change_series *d;
    struct sonde_change c;
    int found = 0;
    sim_shift_series(&s, seed, 8, phi, rhythm, 0.02);
    if (sonde_change_create(NULL, &d) != 0) exit(1);
    b.count = 0;
    const int end = s.shift_at + HOUR;
    for (int t = 0; t <= end; t++) {
        int restart;
        const double x = sim_next(&s, t, &restart);
        bins_add(&b, t, x);
        if (sonde_change_add(d, t, 1, x, &c) != SONDE_CHANGE_FOUND || t < s.shift_at) continue;
        if (!(c.absolute > 0)) continue;
        found = 1;
        *held += c.relative_low <= 0.02 && c.relative_high >= 0.02;
    }
    sonde_change_destroy(d);
    const size_t n = otava_find(b.v, b.count, points);
    for (size_t i = 0; i < n; i++) {
        if (fabs((double)points[i] * BIN - s.shift_at) <= 1800) {
            found |= 2;
            break;
        }
    }
    return found;
}

static void measure_weeks(int series, int weeks, uint64_t seed)
{
    struct week w = { 0 };
    for (int i = 0; i < series; i++) host_series(seed + 7000000 + (uint64_t)i, 7 * weeks, &w);
    const double host_weeks = weeks * series / 1000.0;
    printf("%d series, %d weeks (days are learned in them, too)\n", series, weeks);
    printf("  %-44s %10s %12s\n", "per host (1,000 series) and week", "sonde", "Otava");
    printf("  %-44s %10.2f %12.0f\n", "false alarms", w.alarms / host_weeks, w.otava / host_weeks);
    printf("  %-44s %10.2f %12s\n", "reported as better, not an alarm", w.better / host_weeks, "");
    printf("  %-44s %10.2f %12s\n", "recognised as gone again", w.returned / host_weeks, "");
    printf("  CPU of 1,000 series at one value per second: %.2f %% of a core\n",
           100 * w.cpu / (weeks * 7.0 * SIM_DAY) * 1000 / series);
    fflush(stdout);
}

static void measure_shifts(int n, uint64_t seed)
{
    static const struct { double phi, rhythm; } rows[] = {
        { 0, 0 }, { 0, 0.1 }, { 0.5, 0 }, { 0.5, 0.05 }, { 0.5, 0.1 }, { 0.8, 0 },
    };
    printf("\na 2 %% shift of 5 %% noise, found within an hour (%d each, 7 days before)\n", n);
    printf("  %-18s %-14s %8s %16s %8s\n", "noise AR(1)", "daily rhythm", "sonde",
           "interval holds", "Otava");
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        int found = 0, other = 0, held = 0;
        for (int i = 0; i < n; i++) {
            const int f = shift_series(seed + 9000000 + (uint64_t)i, rows[r].phi,
                                       rows[r].rhythm, &held);
            found += f & 1;
            other += f >> 1;
        }
        printf("  %-18.1f %11.0f %%  %6.0f %% %11d/%d %6.0f %%\n", rows[r].phi,
               100 * rows[r].rhythm, 100.0 * found / n, held, found, 100.0 * other / n);
        fflush(stdout);
    }
}

static void measure_functions(int days, uint64_t seed)
{
    static const char *const names[] = { "nothing", "target 20 % slower", "inlined",
        "moved to a sibling", "renamed", "one became three", "three became one",
        "50 % slower for two hours" };
    printf("\nfunctions, %d days each: 19 Hz, one busy thread, target has 1 %%\n", days);
    printf("  %-28s %8s %8s %8s %8s %8s\n", "", "named", "alarms", "shifts", "gone", "better");
    for (int kind = 0; kind < COST_SIM_KINDS; kind++) {
        int named = 0, alarms = 0, shifts = 0, gone = 0, better = 0;
        for (int i = 0; i < days; i++) {
            struct cost_sim s;
            struct sonde_profile *p;
            struct sonde_cost *t;
            struct sonde_cost_change *c;
            size_t n;
            cost_sim_init(&s, seed + (uint64_t)i * 131 + (uint64_t)kind);
            if (sonde_profile_create(0, &p) != 0 || sonde_cost_create(NULL, &t) != 0) exit(1);
            cost_sim_day(&s, (enum cost_sim_kind)kind, p);
            if (sonde_cost_add(t, p) != 0 || sonde_cost_judge(t, &c, &n) != 0) exit(1);
            for (size_t k = 0; k < n; k++) {
                const int target = !strcmp(c[k].function, "target");
                if (c[k].until_s > 0) gone++;
                else if (c[k].kind == SONDE_COST_SHIFT) shifts++;
                else if (c[k].kind == SONDE_COST_IMPROVEMENT) better++;
                else if (target && kind == COST_SIM_SLOWER) named++;
                else alarms++;
            }
            sonde__free(c);
            sonde_cost_destroy(t);
            sonde_profile_destroy(p);
        }
        printf("  %-28s %8d %8d %8d %8d %8d\n", names[kind], named, alarms, shifts, gone, better);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    const int series = argc > 1 ? atoi(argv[1]) : 1000, weeks = argc > 2 ? atoi(argv[2]) : 2;
    const int shifts = argc > 3 ? atoi(argv[3]) : 100, days = argc > 4 ? atoi(argv[4]) : 100;
    const uint64_t seed = argc > 5 ? 100000000 * strtoull(argv[5], NULL, 10) : 0;
    if (series < 0 || weeks < 1 || weeks > 2 || shifts < 0 || days < 0) {
        fprintf(stderr, "usage: bench_changes [SERIES [WEEKS, 1 or 2 [SHIFTS [DAYS [SEED]]]]]\n");
        return 2;
    }
    if (series) measure_weeks(series, weeks, seed);
    if (shifts) measure_shifts(shifts, seed);
    if (days) measure_functions(days, seed);
    return 0;
}
