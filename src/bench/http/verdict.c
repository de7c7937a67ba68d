/* verdict.c - see verdict.h. */
#include "bench/http/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "present/units.h"
#include "sonde/sonde.h"

/* Limits. */
#define CPU_MAX 0.85          /* of a core: beyond it the loop has no time left for what is due */
#define DELAY_SHARE 0.05      /* send delay p99 by the median latency it is part of … */
#define DELAY_LEAST_S 0.001   /* … and below this nobody minds */
#define QUEUED_MAX 0.1        /* of the run, that a thread was ready to run and had no CPU */
#define STARVED_MAX 0.01      /* of requests that had no free connection */
#define RATE_MIN 0.95         /* of the planned rate that was sent */
#define FAILED_MAX 0.05       /* of requests */
#define EFFECTIVE_MIN 30.0    /* independent values */
#define LITTLE_MAX 0.1        /* relative difference, beyond what the ends of the window explain */
#define GROWTH_MAX 0.1        /* of what arrived, that piled up */
#define TREND_MAX 0.2         /* relative change from the first to the last third, … */
#define TREND_P 0.001         /* … that is not chance */
#define STOLEN_MAX 0.05       /* of CPU time */
#define STOLEN_REMARK 0.005

void sonde_load_remark(struct sonde_load_remarks *r, const char *format, ...)
{
    if (r->count >= SONDE_LOAD_REMARKS_MAX) return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->text[r->count++], SONDE_LOAD_REMARK_SIZE, format, args);
    va_end(args);
}

static const char *verdict_time(char out[SONDE_VALUE_BYTES], double s)
{
    return sonde_value_format(out, s, SONDE_UNIT_SECONDS, 0);
}

static uint64_t verdict_all(const struct sonde_load_measures *m)
{
    uint64_t all = 0;
    for (size_t i = 0; i < SONDE_LOAD_OUTCOME_COUNT; i++) all += m->outcomes[i];
    return all;
}

static int verdict_outcomes(const struct sonde_load_measures *m, const struct sonde_load_setup *s,
                            struct sonde_bench_result *r)
{
    const uint64_t all = verdict_all(m), ok = m->outcomes[SONDE_LOAD_OK];
    const uint64_t wanted = m->outcomes[SONDE_LOAD_CANCELLED]; /* by us */
    if (!all) return sonde_bench_result_doubt(r, "no request was sent");
    size_t most = SONDE_LOAD_STATUS;
    for (size_t i = SONDE_LOAD_STATUS; i < SONDE_LOAD_CANCELLED; i++) {
        if (m->outcomes[i] > m->outcomes[most]) most = i;
    }
    const char *class = sonde_load_outcome_name((enum sonde_load_outcome)most);
    const char *why = most == SONDE_LOAD_TLS ? s->why : "";
    if (!ok) {
        return sonde_bench_result_doubt(r, "all %llu requests failed, most by: %s%s%s",
                                        (unsigned long long)all, class, *why ? ": " : "", why);
    }
    const uint64_t failed = all - ok - wanted;
    if ((double)failed > FAILED_MAX * (double)all) {
        return sonde_bench_result_doubt(r, "%llu of %llu requests failed, most by: %s; latencies "
                                        "are of the others%s%s%s", (unsigned long long)failed,
                                        (unsigned long long)all, class, *why ? " (" : "", why,
                                        *why ? ")" : "");
    }
    return 0;
}

/* What the client's delays are compared with: the shortest time that is reported. */
static double verdict_scale(const struct sonde_load_measures *m)
{
    const double ttft = m->metrics[SONDE_LOAD_METRIC_TTFT].q[SONDE_LOAD_P50].value;
    const double e2e = m->metrics[SONDE_LOAD_METRIC_E2E].q[SONDE_LOAD_P50].value;
    return isnan(ttft) ? e2e : ttft;
}

static int verdict_client(const struct sonde_load_measures *m, const struct sonde_load_client *c,
                          int open, struct sonde_bench_result *r, struct sonde_load_remarks *k)
{
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    const double busy = c->wall_ns && c->cpu_ns > c->spun_ns
                            ? (double)(c->cpu_ns - c->spun_ns) / (double)c->wall_ns : 0;
    const double scale = verdict_scale(m), seen = (double)c->ready_delay_p99_ns * 1e-9;
    const double least = fmax(DELAY_LEAST_S, DELAY_SHARE * (isnan(scale) ? 0 : scale));
    const uint64_t all = verdict_all(m);
    int rc = 0;
    if (busy > CPU_MAX) {
        rc = sonde_bench_result_doubt(r, "the client was the limit: its busiest thread used %.0f "
                                      "%% of a CPU; give it more with --threads, or send less",
                                      100 * busy);
    }
    const double queued = c->wall_ns ? (double)c->queued_ns / (double)c->wall_ns : 0;
    if (!rc && queued > QUEUED_MAX) {
        rc = sonde_bench_result_doubt(r, "the client was the limit: other programs had the CPU for "
                                      "%.0f %% of the run while it was ready to use it; leave it "
                                      "a CPU", 100 * queued);
    }
    const int starved = open && (double)c->starved > STARVED_MAX * (double)all;
    if (!rc && starved) {
        rc = sonde_bench_result_doubt(r, "the client was the limit: %llu of %llu requests waited "
                                      "for a free connection; raise --connections, or the server "
                                      "is overloaded", (unsigned long long)c->starved,
                                      (unsigned long long)all);
    }
    if (!rc && !starved && m->send_delay_p99_s > least) {
        rc = sonde_bench_result_doubt(r, "the client was the limit: 1 %% of requests were sent %s "
                                      "or more after they were due (median latency %s)",
                                      verdict_time(a, m->send_delay_p99_s), verdict_time(b, scale));
    }
    if (!rc && seen > least) {
        rc = sonde_bench_result_doubt(r, "the client was the limit: answers waited up to %s (p99) "
                                      "before it read them (median latency %s)",
                                      verdict_time(a, seen), verdict_time(b, scale));
    }
    const double seconds = (double)c->wall_ns * 1e-9;
    if (seconds > 0 && (double)c->involuntary > 100 * seconds) {
        sonde_load_remark(k, "other programs took the CPU from the client %.0f times per second",
                          (double)c->involuntary / seconds);
    }
    return rc;
}

static int verdict_schedule(const struct sonde_load_measures *m, uint64_t unsent,
                            struct sonde_bench_result *r)
{
    /* Random arrivals differ from their rate by chance: three deviations of a Poisson count, which
     * is generous for constant ones and short of clusters, where the rest is. */
    const double planned = m->planned_rate * m->window_s;
    const double chance = planned > 0 ? 3 / sqrt(planned) : 0;
    int rc = 0;
    if (!isnan(m->planned_rate) && m->sent_rate < (RATE_MIN - chance) * m->planned_rate) {
        rc = sonde_bench_result_doubt(r, "the schedule was not kept: %.4g requests/s were planned "
                                      "and %.4g sent", m->planned_rate, m->sent_rate);
    }
    if (!rc && unsent && (double)unsent > STARVED_MAX * (double)m->due) {
        rc = sonde_bench_result_doubt(r, "the schedule was not kept: %llu of %llu requests were "
                                      "due and never sent", (unsigned long long)unsent,
                                      (unsigned long long)m->due);
    }
    return rc;
}

static int verdict_steady(const struct sonde_load_measures *m, int open,
                          struct sonde_bench_result *r, struct sonde_load_remarks *k)
{
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    const double arrived = m->sent_rate * m->window_s;
    const double grown = m->in_flight_last - m->in_flight_first;
    if (open && grown > GROWTH_MAX * arrived && grown > 3 * sqrt(fmax(m->in_flight_first, 1))) {
        return sonde_bench_result_doubt(r, "it was not steady: the server fell behind, %.3g "
                                        "requests were under way at the beginning and %.3g at the "
                                        "end; lower --rate", m->in_flight_first, m->in_flight_last);
    }
    if (m->trend_p < TREND_P &&
        fabs(m->trend_last_s - m->trend_first_s) > TREND_MAX * m->trend_first_s) {
        return sonde_bench_result_doubt(r, "it was not steady: the mean latency went from %s to %s "
                                        "during the window; run longer, or lower the load",
                                        verdict_time(a, m->trend_first_s),
                                        verdict_time(b, m->trend_last_s));
    }
    if (m->steady_known && !m->steady) {
        sonde_load_remark(k, "no clear end of the warm-up was found; the first half was left out");
    }
    return 0;
}

static int verdict_samples(const struct sonde_load_measures *m, struct sonde_bench_result *r)
{
    if (m->measured && m->effective < EFFECTIVE_MIN) {
        return sonde_bench_result_doubt(r, "too few independent samples: %llu requests were "
                                        "measured, worth %.0f independent ones, and %.0f are "
                                        "needed; run longer", (unsigned long long)m->measured,
                                        m->effective, EFFECTIVE_MIN);
    }
    if (m->outcomes[SONDE_LOAD_OK] && !m->measured) {
        return sonde_bench_result_doubt(r, "no request is in the steady window; run longer");
    }
    return 0;
}

static int verdict_little(const struct sonde_load_measures *m, struct sonde_bench_result *r)
{
    if (!(m->in_flight > 0) || !(m->little > 0) || m->at_once) return 0;
    /* At each end of the window requests are cut: as many as are under way, by half. */
    const double arrived = m->sent_rate * m->window_s;
    const double ends = arrived > 0 ? m->in_flight / arrived : 1;
    const double off = fabs(m->little / m->in_flight - 1);
    if (off <= LITTLE_MAX + 2 * ends) return 0;
    return sonde_bench_result_doubt(r, "Little's law does not hold: %.3g requests were under way "
                                    "on average, and rate times latency is %.3g; it was not steady",
                                    m->in_flight, m->little);
}

static int verdict_machine(const struct sonde_bench_machine *machine, struct sonde_bench_result *r,
                           struct sonde_load_remarks *k)
{
    if (machine->governor[0] && strcmp(machine->governor, "performance")) {
        sonde_load_remark(k, "the CPU's governor is %s: latencies at low load include the time to "
                          "speed up; `cpupower frequency-set -g performance` avoids it",
                          machine->governor);
    }
    if (machine->stolen_ratio > STOLEN_MAX) {
        return sonde_bench_result_doubt(r, "the host took %.1f %% of this machine's CPU time "
                                        "meanwhile", 100 * machine->stolen_ratio);
    }
    if (machine->stolen_ratio > STOLEN_REMARK) {
        sonde_load_remark(k, "the host took %.1f %% of this machine's CPU time meanwhile",
                          100 * machine->stolen_ratio);
    }
    return 0;
}

static void verdict_tokens(const struct sonde_load_measures *m, struct sonde_load_remarks *k)
{
    if (!m->measured) return;
    if (m->token_basis == SONDE_LOAD_TOKENS_EVENTS) {
        sonde_load_remark(k, "the server reports no usage: every event with text was counted as a "
                          "token, which it may not be");
    } else if (m->token_basis == SONDE_LOAD_TOKENS_NONE) {
        sonde_load_remark(k, "the server reports no usage and does not stream: tokens are not "
                          "known");
    } else if (!m->itl_of_gaps) {
        sonde_load_remark(k, "an event carries %.2f tokens on average: times between tokens are "
                          "each answer's mean, since those within an event cannot be seen",
                          m->tokens_per_chunk);
    }
}

int sonde_load_judge(const struct sonde_load_measures *m, const struct sonde_load_result *load,
                     int open, struct sonde_bench_result *result,
                     struct sonde_load_remarks *remarks)
{
    const struct sonde_load_setup *s = &load->setup;
    int rc = verdict_outcomes(m, s, result);
    if (s->tls && !s->verified) {
        sonde_load_remark(remarks, "the server's certificate was not verified (--insecure): it may "
                          "have been another server");
    }
    if (!rc && m->measured) {
        rc = verdict_client(m, &load->client, open, result, remarks);
        if (!rc) rc = verdict_schedule(m, load->unsent, result);
        if (!rc) rc = verdict_steady(m, open, result, remarks);
        if (!rc) rc = verdict_little(m, result);
    }
    if (!rc) rc = verdict_samples(m, result);
    if (!rc) rc = verdict_machine(&result->machine, result, remarks);
    verdict_tokens(m, remarks);
    return rc;
}
