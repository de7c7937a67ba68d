/* own_cost_read.c - what programs have got done until now, out of the model. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/own_cost_private.h"
#include "base/clock.h"
#include "base/hash.h"

#define DURATION "gen_ai_server_request_duration_seconds"
#define TOKENS "sonde_infer_tokens_total"
#define SPANS "sonde_span_duration_seconds"

/* Those that are sampled: of this machine, and alive. */
static int own_cost_read_is_sampled(const struct sonde_model_process *p)
{
    return p && p->state == SONDE_PROCESS_RUNNING && !p->elsewhere;
}

/* To the nanosecond, which /proc/PID/stat is not. */
static double own_cost_read_cpu(uint32_t pid)
{
    clockid_t clock;
    if (clock_getcpuclockid((pid_t)pid, &clock) != 0) return NAN;
    const double s = sonde_clock_s(clock);
    return s > 0 ? s : NAN;
}

static const char *own_cost_read_label(const struct sonde_model_series *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++) {
        if (!strcmp(s->labels[i].name, name)) return s->labels[i].value;
    }
    return "";
}

/* What a family counts, as work; -1 = nothing of the kind. What sonde counts itself is not the
 * program's work, but for requests and spans. */
static int own_cost_read_rank(const struct sonde_model_family *f, const char *named)
{
    if (f->foreign || f->type == SONDE_GAUGE) return -1;
    if (*named) return strcmp(f->name, named) ? -1 : SONDE_OWN_COST_NAMED;
    if (!strcmp(f->name, TOKENS)) return SONDE_OWN_COST_TOKENS;
    if (!strcmp(f->name, DURATION)) return SONDE_OWN_COST_REQUESTS;
    if (!strcmp(f->name, SPANS)) return SONDE_OWN_COST_TIMED;
    if (!strncmp(f->name, "sonde_", 6) || !strncmp(f->name, "gen_ai_", 7)) return -1;
    if (f->type == SONDE_HISTOGRAM) return SONDE_OWN_COST_TIMED;
    /* Seconds that are added up are no units, and follow the clock. */
    return strcmp(f->unit, "seconds") ? SONDE_OWN_COST_COUNTED : -1;
}

static void own_cost_read_name(const struct sonde_model_series *s, char *out)
{
    const char *name = s->family->name;
    if (!strcmp(name, TOKENS)) {
        snprintf(out, SONDE_OWN_COST_NAME_MAX, "output token");
    } else if (!strcmp(name, DURATION)) {
        snprintf(out, SONDE_OWN_COST_NAME_MAX, "request");
    } else if (!strcmp(name, SPANS)) {
        snprintf(out, SONDE_OWN_COST_NAME_MAX, "span %.120s", own_cost_read_label(s, "span"));
    } else {
        snprintf(out, SONDE_OWN_COST_NAME_MAX, "%.127s", name);
    }
}

/* The same work of several processes or labels is added up. */
static void own_cost_read_add(struct own_cost_reading *r, const struct sonde_model_series *s,
                              enum sonde_own_cost_rank rank)
{
    const struct sonde_model_family *f = s->family;
    const int timed = f->type == SONDE_HISTOGRAM && !strcmp(f->unit, "seconds");
    char name[SONDE_OWN_COST_NAME_MAX];
    size_t at = 0;
    if (f->type == SONDE_HISTOGRAM && !s->hist) return;
    own_cost_read_name(s, name);
    while (at < r->work_count && strcmp(r->works[at].name, name) != 0) at++;
    if (at == SONDE_OWN_COST_WORKS_MAX) return;
    if (at == r->work_count) {
        r->work_count++;
        r->done[at] = (struct sonde_own_cost_done){ 0 };
        r->works[at].rank = rank;
        memcpy(r->works[at].name, name, sizeof(name));
    }
    r->done[at].count += f->type == SONDE_HISTOGRAM ? (double)s->hist->count
                                                    : sonde_model_series_total(s);
    if (timed) r->done[at].sum_s += sonde_model_series_sum(s);
}

/* Ranks in turn, so that where there is no room for all it is the last that are left out. */
static void own_cost_read_works(const struct sonde_model *m, const char *named,
                                enum sonde_own_cost_rank rank, struct own_cost_reading *out)
{
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *f = m->families[i];
        if (own_cost_read_rank(f, named) != (int)rank) continue;
        for (size_t k = 0; k < f->series_count; k++) {
            const struct sonde_model_series *s = f->series[k];
            /* What the front counts has no process: whether that is one of ours only the user
             * knows, who then names it. */
            const int counts = s->process ? own_cost_read_is_sampled(s->process)
                                          : rank == SONDE_OWN_COST_NAMED;
            if (s->foreign || !counts) continue;
            if (!strcmp(f->name, TOKENS) && strcmp(own_cost_read_label(s, "type"), "output")) {
                continue;
            }
            own_cost_read_add(out, s, rank);
        }
    }
}

void own_cost_read(const struct sonde_model *m, const char *work, struct own_cost_reading *out)
{
    out->time_s = sonde_clock_s(CLOCK_MONOTONIC);
    out->cpu_s = 0;
    out->processes = 0;
    out->work_count = 0;
    for (size_t i = 0; i < m->process_count; i++) {
        const struct sonde_model_process *p = m->processes[i];
        if (!own_cost_read_is_sampled(p)) continue;
        out->cpu_s += own_cost_read_cpu(p->pid);
        out->processes = sonde_hash_mix(out->processes, p->serial);
    }
    for (int rank = SONDE_OWN_COST_NAMED; rank <= SONDE_OWN_COST_COUNTED; rank++) {
        own_cost_read_works(m, work, (enum sonde_own_cost_rank)rank, out);
    }
}
