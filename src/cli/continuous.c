/* continuous.c - see continuous.h. */
#include "cli/continuous.h"

#include "sonde/sonde.h"

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
