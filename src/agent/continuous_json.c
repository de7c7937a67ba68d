/* continuous_json.c - how continuous profiling stands, as JSON; see continuous.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "agent/continuous_private.h"
#include "sonde/sonde.h"

/* What is wanted, whether it is so, and why not. */
static void put_source(struct sonde_buf *out, const char *key, int wanted, int active,
                       const char *reason)
{
    sonde_json_key_open(out, key, '{');
    sonde_json_bool(out, "wanted", wanted);
    sonde_json_bool(out, "active", active);
    sonde_json_str(out, "reason", active || !wanted ? NULL : reason);
}

static void put_cpu(struct sonde_continuous *c, struct sonde_buf *out)
{
    sonde_assert_held(&c->lock);
    const struct sonde_continuous_settings *s = &c->settings;
    struct sonde_capture_status status = { 0 };
    const char *reason = "it is off";
    if (c->capture) sonde_profiler_capture_status(c->o.profiler, c->capture, &status);
    if (s->enabled && !c->capture) {
        reason = s->duration_s > 0 && s->duration_s < s->interval_s
                     ? "between two intervals' samples: see duration_seconds"
                     : "it begins";
    } else if (c->capture) {
        reason = status.note[0] ? status.note : "no process records now";
    }
    if (c->problem[0] && !c->capture) reason = c->problem;
    put_source(out, "cpu", s->enabled && s->cpu, status.processes > 0, reason);
    sonde_json_u64(out, "processes", status.processes);
    sonde_json_num(out, "rate_hz", status.processes ? status.rate_hz : NAN);
    sonde_json_str(out, "note", status.note[0] ? status.note : NULL);
    sonde_json_close(out, '}');
}

static void continuous_json_put_memory(const struct sonde_continuous *c, struct sonde_buf *out)
{
    sonde_assert_held(&c->lock);
    put_source(out, "memory", c->settings.enabled && c->settings.memory, c->sampled_heaps > 0,
               c->sampled_heaps < 0
                   ? "heaps are looked at when an interval ends; only those of programs that were "
                     "started with `sonde run` are profiled"
                   : "no allocation was sampled up to the last look: only those of programs that "
                     "were started with `sonde run` are, one in 512 KiB");
    sonde_json_u64(out, "processes", c->sampled_heaps > 0 ? (uint64_t)c->sampled_heaps : 0);
    sonde_json_u64(out, "snapshots", c->parts.heaps);
    sonde_json_close(out, '}');
}

static void put_gpu(const struct sonde_continuous *c, struct sonde_buf *out)
{
    put_source(out, "gpu", c->settings.enabled && c->settings.gpu, 0,
               "kernels of GPUs are not profiled; figures of devices are read all the time: "
               "/api/gpu");
    sonde_json_close(out, '}');
}

static void put_burst(const struct sonde_continuous *c, struct sonde_buf *out)
{
    sonde_assert_held(&c->lock);
    const double left_s = c->burst_until_s - sonde_clock_s(CLOCK_MONOTONIC);
    const int active = left_s > 0;
    sonde_json_key_open(out, "burst", '{');
    sonde_json_bool(out, "active", active);
    sonde_json_num(out, "rate_hz", active ? c->burst_hz : NAN);
    sonde_json_time(out, "until",
                    active ? sonde_clock_s(CLOCK_REALTIME) + left_s : 0);
    sonde_json_close(out, '}');
}

static void put_overhead(const struct sonde_continuous *c, struct sonde_buf *out)
{
    const struct continuous_cost *cost = &c->cost;
    sonde_json_key_open(out, "overhead", '{');
    sonde_json_num(out, "agent_cpu_seconds", (double)cost->agent_ns * 1e-9);
    sonde_json_num(out, "agent_cpu_ratio", continuous_cost_agent(cost));
    sonde_json_num(out, "sample_cost_seconds",
                   cost->sample_ns > 0 ? cost->sample_ns * 1e-9 : NAN);
    sonde_json_num(out, "target_cpu_ratio", continuous_cost_target(cost));
    sonde_json_str(out, "reason", cost->why[0] ? cost->why : NULL);
    sonde_json_close(out, '}');
}

struct stored { uint64_t parts[SONDE_HISTORY_TIERS], bytes; double first_s, last_s; };

static void continuous_json_count_part(const struct sonde_history_part *part, void *arg)
{
    struct stored *s = arg;
    s->parts[part->tier]++;
    s->bytes += part->bytes;
    if (!(s->first_s > 0) || part->start_s < s->first_s) s->first_s = part->start_s;
    if (part->end_s > s->last_s) s->last_s = part->end_s;
}

static int count_stored(const struct sonde_continuous *c, struct stored *out, struct sonde_err *err)
{
    struct sonde_history_query q = { .heap = 0 };
    *out = (struct stored){ .bytes = 0 };
    int rc =
        sonde_history_each(c->o.store_ops, c->o.store, &q, continuous_json_count_part, out, err);
    q.heap = 1;
    if (!rc) {
        rc = sonde_history_each(c->o.store_ops, c->o.store, &q, continuous_json_count_part, out,
                                err);
    }
    return rc;
}

static void continuous_json_put_history(const struct sonde_continuous *c, const struct stored *s,
                                        struct sonde_buf *out)
{
    sonde_json_key_open(out, "history", '{');
    sonde_json_str(out, "kept_in", c->memory ? "memory" : "store");
    sonde_json_time(out, "from", s->first_s);
    sonde_json_time(out, "to", s->last_s);
    for (int t = 0; t < SONDE_HISTORY_TIERS; t++) {
        char key[32];
        snprintf(key, sizeof(key), "%ss", sonde_history_tier_names[t]);
        sonde_json_u64(out, key, s->parts[t]);
    }
    sonde_json_u64(out, "bytes", s->bytes);
    sonde_json_u64(out, "max_bytes", c->o.bytes_max);
    sonde_json_u64(out, "samples", c->parts.samples);
    sonde_json_u64(out, "lost_samples", c->parts.lost_records);
    sonde_json_u64(out, "writes", c->parts.written);
    sonde_json_time(out, "last_write", c->parts.last_s);
    sonde_json_u64(out, "merges", c->merges);
    sonde_json_u64(out, "deleted", c->deleted);
    sonde_json_u64(out, "dropped", c->parts.dropped);
    sonde_json_close(out, '}');
}

int sonde_continuous_json(struct sonde_continuous *c, struct sonde_buf *out, struct sonde_err *err)
{
    struct stored stored;
    const int rc = count_stored(c, &stored, err);
    if (rc) return rc;
    sonde_lock(&c->lock);
    const struct sonde_continuous_settings *s = &c->settings;
    const int always = !(s->duration_s > 0) || s->duration_s >= s->interval_s;
    sonde_buf_putc(out, '{');
    sonde_json_bool(out, "enabled", s->enabled);
    sonde_json_num(out, "rate_hz", s->rate_hz);
    sonde_json_num(out, "interval_seconds", s->interval_s);
    sonde_json_num(out, "duration_seconds", always ? s->interval_s : s->duration_s);
    sonde_json_num(out, "duty", always ? 1 : s->duration_s / s->interval_s);
    sonde_json_num(out, "flush_seconds", c->o.flush_s);
    put_cpu(c, out);
    continuous_json_put_memory(c, out);
    put_gpu(c, out);
    put_burst(c, out);
    continuous_json_put_history(c, &stored, out);
    put_overhead(c, out);
    sonde_json_str(out, "problem", c->problem[0] ? c->problem : NULL);
    sonde_buf_puts(out, "}\n");
    sonde_unlock(&c->lock);
    return 0;
}
