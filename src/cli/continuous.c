/* continuous.c - see continuous.h. */
#include "cli/continuous.h"

#include "sonde/sonde.h"

#define RECENT_COST_S 10  /* short commands are not to share a core with that */
#define RECENT_FLUSH_S 20 /* nothing would be left of it after a crash; who asks has it up to now */

int sonde_cli_continuous(const struct sonde_cli *cli, const char *rate,
                         struct sonde_continuous_options *o)
{
    struct sonde_config_values c = cli->config;
    struct sonde_err err = { "" };
    if (rate && rate[0] &&
        sonde_config_set(&c, "continuous.rate_hz", rate, "--continuous", &err) != 0) {
        return sonde_cli_usage(cli, "%s", err.text);
    }
    const uint64_t own_max = (uint64_t)c.continuous_max_megabytes << 20;
    const uint64_t quarter = ((uint64_t)c.storage_max_megabytes << 20) / 4;
    o->settings = (struct sonde_continuous_settings){
        .enabled = rate || c.continuous_enabled,
        .cpu = c.continuous_cpu,
        .memory = c.continuous_memory,
        .gpu = 0,
        .rate_hz = c.continuous_rate_hz,
        .interval_s = c.continuous_interval_seconds,
        .duration_s = c.continuous_duration_seconds,
    };
    o->flush_s = c.continuous_flush_seconds;
    o->minutes_s = c.continuous_keep_minutes * 60;
    o->hours_s = c.continuous_keep_hours * 3600;
    o->bytes_max = own_max < quarter ? own_max : quarter;
    return SONDE_EXIT_OK;
}

void sonde_cli_continuous_recent(struct sonde_continuous_options *o, double rate_hz, int heap)
{
    o->store_ops = NULL;
    o->store = NULL;
    o->flush_s = RECENT_FLUSH_S;
    o->cost_after_s = RECENT_COST_S;
    o->settings.cpu = o->settings.cpu && rate_hz > 0;
    o->settings.memory = o->settings.memory && heap;
    o->settings.enabled = o->settings.cpu || o->settings.memory;
    /* More than the engine that runs would take another one. */
    if (rate_hz < o->settings.rate_hz && rate_hz > 0) o->settings.rate_hz = rate_hz;
}
