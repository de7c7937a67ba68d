/* A plugin that records. Built several times: with a copy of libsonde inside that it hides, with
 * one that it exports, and linked to libsonde.so. */
#include <stdio.h>

#include "programs/plugin/plugin.h"
#include "sonde/sonde.h"

void plugin_work(uint64_t n, unsigned id)
{
    const struct sonde_counter total = sonde_counter("plugin_total", "Calls.");
    const struct sonde_hist hist = sonde_hist("plugin_seconds", "Durations.", 1e-9);
    const struct sonde_metric m = { .size = sizeof(m),
                                    .name = "plugin_labelled_total",
                                    .labels = (const char *const[]){ "id", NULL } };
    struct sonde_family f;
    char value[24];
    sonde_define(SONDE_COUNTER, &m, &f);
    for (uint64_t i = 0; i < n; i++) {
        SONDE_SCOPE("plugin");
        sonde_counter_add(total, 1);
        sonde_hist_record(hist, 1000 + i);
        snprintf(value, sizeof(value), "%u", (unsigned)(id + i % 3));
        sonde_counter_add(sonde_counter_bind(f, (const char *const[]){ value }), 1);
    }
}
