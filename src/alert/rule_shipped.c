/* rule_shipped.c - rules that come with sonde and are switched on by alerts.resources: CPU, memory
 * and disk of the machine, requests and operations that fail, caches that miss. They are written as
 * users write theirs, so that what a user can read in the docs is what is in force. */
#include <stdio.h>

#include "alert/rule.h"
#include "base/array.h"
#include "sonde/sonde.h"

enum { SHIPPED_TEXT_MAX = 1024 };

/* %1$g: the threshold; %2$g: where it is clear. */
static const char shipped_cpu[] =
    "{\"name\":\"cpu\",\"series\":\"system_cpu_usage_percent\",\"function\":\"avg\","
    "\"above\":%1$g,\"clear\":%2$g,\"severity\":\"warning\"}";
static const char shipped_memory[] =
    "{\"name\":\"memory\",\"series\":\"system_memory_usage_percent\",\"above\":%1$g,"
    "\"clear\":%2$g,\"severity\":\"critical\"}";
static const char shipped_disk[] =
    "{\"name\":\"disk\",\"series\":\"system_disk_usage_percent\",\"above\":%1$g,"
    "\"clear\":%2$g,\"severity\":\"critical\"}";
static const char shipped_errors[] =
    "{\"name\":\"error_rate\",\"series\":\"sonde_infer_errors_total\","
    "\"per\":{\"series\":\"sonde_infer_requests_total\"},\"by\":[\"model\",\"process\"],"
    "\"above\":%1$g,\"clear\":%2$g,\"severity\":\"critical\"},"
    "{\"name\":\"operation_error_rate\",\"series\":\"sonde_operation_errors_total\","
    "\"per\":{\"series\":\"sonde_operation_duration_seconds\"},\"by\":[\"operation\",\"process\"],"
    "\"above\":%1$g,\"clear\":%2$g,\"severity\":\"warning\"}";
static const char shipped_cache[] =
    "{\"name\":\"cache_hit_rate\",\"series\":\"sonde_cache_accesses_total\","
    "\"labels\":{\"result\":\"hit\"},\"per\":{\"series\":\"sonde_cache_accesses_total\"},"
    "\"by\":[\"tier\",\"process\"],\"min_count\":100,\"below\":%1$g,\"clear\":%2$g,"
    "\"severity\":\"warning\"}";

/* Once it fires it must get better by a twentieth, or it would come and go with noise. */
#define CLEAR_UNDER 0.95
#define CLEAR_OVER 1.05

static int alert_rules_ship_one(struct alert_rules *r, const char *format, double limit,
                                double clear, const struct alert_rule_defaults *d,
                                struct sonde_err *err)
{
    char one[SHIPPED_TEXT_MAX], all[SHIPPED_TEXT_MAX + 2];
    if (!(limit > 0)) return 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const int n = snprintf(one, sizeof(one), format, limit, clear);
#pragma GCC diagnostic pop
    if (n < 0 || n >= (int)sizeof(one)) return sonde_err_set(err, SONDE_EINVAL, "too long a rule");
    snprintf(all, sizeof(all), "[%s]", one);
    const size_t before = r->count;
    const int rc = alert_rules_parse(r, all, d, err);
    for (size_t i = before; i < r->count; i++) r->at[i].shipped = 1;
    return rc;
}

int alert_rules_ship(struct alert_rules *r, const struct sonde_alert_shipped *s,
                     const struct alert_rule_defaults *d, struct sonde_err *err)
{
    const struct { const char *format; double limit, clear; } rows[] = {
        { shipped_cpu, s->cpu_percent, CLEAR_UNDER * s->cpu_percent },
        { shipped_memory, s->memory_percent, CLEAR_UNDER * s->memory_percent },
        { shipped_disk, s->disk_percent, CLEAR_UNDER * s->disk_percent },
        { shipped_errors, s->error_ratio, CLEAR_UNDER * s->error_ratio },
        { shipped_cache, s->cache_hit_ratio, CLEAR_OVER * s->cache_hit_ratio },
    };
    int rc = 0;
    for (size_t i = 0; i < SONDE_COUNT(rows) && !rc; i++) {
        rc = alert_rules_ship_one(r, rows[i].format, rows[i].limit, rows[i].clear, d, err);
    }
    return rc;
}
