/* cpu_share.c - see cpu_share.h. */
#include "analyze/finding/cpu_share.h"

#include <math.h>
#include <string.h>

#include "profile/track.h"

const struct finding_series finding_series_cpu = { .family = "sonde_process_cpu_seconds_total" };
const struct finding_series finding_series_run_delay = {
    .family = "sonde_process_run_delay_seconds_total" };

static double cpu_share_last(const struct sonde_tracks *t, const struct sonde_track *row)
{
    for (uint32_t k = t->tick_count; k--;) {
        if (!isnan(row->values[k])) return row->values[k];
    }
    return NAN;
}

/* Of all processes the most (sign 1) or the least (-1), as it was last. */
static double cpu_share_extreme(const struct finding_look *l, const char *family, double sign)
{
    const struct sonde_tracks *t = l->p->tracks;
    double best = NAN;
    for (uint32_t i = 0; t && i < t->count; i++) {
        if (strcmp(t->rows[i].family, family) != 0 || !t->rows[i].pid) continue;
        const double v = cpu_share_last(t, &t->rows[i]);
        if (!isnan(v) && (isnan(best) || sign * v > sign * best)) best = v;
    }
    return best;
}

static const char *cpu_share_busiest(const struct finding_look *l)
{
    const struct sonde_tracks *t = l->p->tracks;
    const char *program = "";
    double most = 0;
    for (uint32_t i = 0; t && i < t->count; i++) {
        const struct sonde_track *row = &t->rows[i];
        double sum = 0;
        if (strcmp(row->family, finding_series_cpu.family) != 0 || !row->pid) continue;
        for (uint32_t k = 0; k < t->tick_count; k++) {
            if (!isnan(row->values[k])) sum += row->values[k] * t->ticks[k].length_s;
        }
        if (sum > most) {
            most = sum;
            program = row->program;
        }
    }
    return program;
}

/* Each process in a cgroup with a quota has the quota's series. */
static double cpu_share_in_cgroups(const struct finding_look *l)
{
    const struct sonde_tracks *t = l->p->tracks;
    double sum = 0, length = 0;
    for (uint32_t k = 0; t && k < t->tick_count; k++) {
        double here = 0;
        for (uint32_t i = 0; i < t->count; i++) {
            here += !strcmp(t->rows[i].family, "sonde_process_cgroup_throttled_seconds_total") &&
                    !isnan(t->rows[i].values[k]);
        }
        if (here > 0) length += t->ticks[k].length_s;
        sum += here * t->ticks[k].length_s;
    }
    return length > 0 ? sum / length : 0;
}

void finding_cpu_share(const struct finding_look *l, struct finding_cpu_share *out)
{
    const struct finding_series involuntary = {
        .family = "sonde_process_context_switches_total", .label = "type=\"involuntary\"" };
    const struct finding_series voluntary = {
        .family = "sonde_process_context_switches_total", .label = "type=\"voluntary\"" };
    double used_s = 0, delayed_s = 0;
    *out = (struct finding_cpu_share){
        .cpus = l->cpus,
        .used = finding_series_mean(l, &finding_series_cpu, &used_s),
        .delayed = finding_series_mean(l, &finding_series_run_delay, &delayed_s),
        .quota = cpu_share_extreme(l, "sonde_process_cgroup_quota_cpus", -1),
        .involuntary = finding_series_mean(l, &involuntary, NULL),
        .voluntary = finding_series_mean(l, &voluntary, NULL),
        .processes = cpu_share_in_cgroups(l),
        .program = cpu_share_busiest(l),
    };
    out->known_s = fmin(used_s, delayed_s);
    const double allowed = cpu_share_extreme(l, "sonde_process_allowed_cpus", 1);
    if (allowed > 0 && !(out->cpus <= allowed)) out->cpus = allowed;
}
