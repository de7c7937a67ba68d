/* sweep.c - see sweep.h. */
#include "bench/http/sweep.h"

#include <math.h>
#include <stdio.h>

#define GAIN_MIN 1.05
#define KEPT_MIN 0.95
#define RATE_MAX SONDE_LOAD_RATE_MAX
#define RATE_MIN 1e-3

void sonde_load_sweep_add(struct sonde_load_sweep *s, double load,
                          const struct sonde_load_bench *b, const struct sonde_bench_result *r)
{
    if (s->count >= SONDE_LOAD_SWEEP_MAX) return;
    const struct sonde_load_measures *m = &b->measures;
    struct sonde_load_point *p = &s->points[s->count++];
    uint64_t all = 0;
    for (size_t i = 0; i < SONDE_LOAD_CANCELLED; i++) all += m->outcomes[i];
    *p = (struct sonde_load_point){
        .load = load,
        .requests_per_s = m->rates[SONDE_LOAD_RATE_REQUESTS].value,
        .output_per_s = m->rates[SONDE_LOAD_RATE_OUTPUT].value,
        .good_ratio = m->good_ratio, .good_low = m->good_low, .good_high = m->good_high,
        .ttft_p50_s = m->metrics[SONDE_LOAD_METRIC_TTFT_SCHEDULE].q[SONDE_LOAD_P50].value,
        .ttft_p95_s = m->metrics[SONDE_LOAD_METRIC_TTFT_SCHEDULE].q[SONDE_LOAD_P95].value,
        .itl_p50_s = m->metrics[SONDE_LOAD_METRIC_ITL].q[SONDE_LOAD_P50].value,
        .e2e_p50_s = m->metrics[SONDE_LOAD_METRIC_E2E_SCHEDULE].q[SONDE_LOAD_P50].value,
        .e2e_p95_s = m->metrics[SONDE_LOAD_METRIC_E2E_SCHEDULE].q[SONDE_LOAD_P95].value,
        .e2e_mean_s = m->metrics[SONDE_LOAD_METRIC_E2E_SCHEDULE].mean,
        .sent_per_s = m->sent_rate,
        .failed_ratio = all ? 1 - (double)m->outcomes[SONDE_LOAD_OK] / (double)all : NAN,
        .valid = !r->reason_count,
    };
    if (r->reason_count) snprintf(p->reason, sizeof(p->reason), "%s", r->reasons[0]);
    /* What ends in the window differs from what was sent in it by chance, too. */
    const double sent = m->sent_rate * m->window_s;
    const double chance = sent > 0 ? 3 / sqrt(sent) : 0;
    p->behind = b->open && !(p->requests_per_s >= (KEPT_MIN - chance) * m->sent_rate);
    const double grown = m->in_flight_last - m->in_flight_first;
    if (b->open && grown > 0.1 * sent && grown > 3 * sqrt(fmax(m->in_flight_first, 1))) {
        p->behind = 1;
    }
}

int sonde_load_sweep_saturated(const struct sonde_load_sweep *s)
{
    if (!s->count) return 0;
    const struct sonde_load_point *last = &s->points[s->count - 1];
    if (s->open) return last->behind;
    double best = 0;
    for (size_t i = 0; i + 1 < s->count; i++) best = fmax(best, s->points[i].requests_per_s);
    return s->count > 1 && !(last->requests_per_s >= GAIN_MIN * best);
}

void sonde_load_sweep_knee(struct sonde_load_sweep *s)
{
    double best = 0;
    s->knee = -1;
    for (size_t i = 0; i < s->count; i++) {
        const struct sonde_load_point *p = &s->points[i];
        const double worth = s->open ? (p->behind ? NAN : p->load)
                                     : p->requests_per_s / p->e2e_mean_s;
        if (!(worth > best) || !(p->requests_per_s > 0)) continue;
        best = worth;
        s->knee = (int)i;
    }
}

enum sonde_load_answer sonde_load_find_judge(const struct sonde_load_point *p, double share)
{
    if (p->behind || p->failed_ratio > 1 - share || isnan(p->good_ratio)) return SONDE_LOAD_FAILED;
    if (p->good_low >= share) return SONDE_LOAD_PASSED;
    return p->good_high < share ? SONDE_LOAD_FAILED : SONDE_LOAD_UNDECIDED;
}

void sonde_load_find_begin(struct sonde_load_find *f, double first)
{
    *f = (struct sonde_load_find){ .next = first };
}

void sonde_load_find_told(struct sonde_load_find *f, enum sonde_load_answer answer)
{
    f->steps++;
    if (answer == SONDE_LOAD_PASSED) f->passed = f->next;
    else f->failed = f->next;
    if (f->steps >= SONDE_LOAD_FIND_STEPS_MAX ||
        (f->passed > 0 && f->failed > 0 && f->failed / f->passed <= SONDE_LOAD_FIND_NARROW)) {
        f->next = 0;
    } else if (f->passed > 0 && f->failed > 0) {
        f->next = sqrt(f->passed * f->failed);
    } else {
        f->next = f->passed > 0 ? f->passed * 2 : f->failed / 2;
        if (f->next > RATE_MAX || f->next < RATE_MIN) f->next = 0;
    }
}
