/* foreign.c - see foreign.h. */
#include "cli/foreign.h"

#include "sonde/sonde.h"

int sonde_cli_foreign_open(const struct sonde_cli *cli, const struct sonde_cli_list *urls,
                           struct sonde_cli_foreign *out)
{
    const struct sonde_config_values *c = &cli->config;
    struct sonde_err err = { "" };
    *out = (struct sonde_cli_foreign){
        .options = { .interval_s = c->scrape_interval_seconds,
                     .timeout_s = c->scrape_timeout_seconds,
                     .series_max = (size_t)c->scrape_max_series,
                     .body_max = (size_t)c->scrape_max_megabytes << 20 },
    };
    int rc = sonde_scrape_targets_parse(&out->targets, c->scrape_targets, &out->options, &err);
    for (size_t i = 0; !rc && i < urls->count; i++) {
        rc = sonde_scrape_targets_add(&out->targets, urls->item[i], &out->options, &err);
    }
    if (!rc) return SONDE_EXIT_OK;
    sonde_scrape_targets_release(&out->targets);
    return rc == SONDE_EINVAL ? sonde_cli_usage(cli, "%s", err.text)
                              : sonde_cli_fail(cli, "%s", err.text);
}

int sonde_cli_foreign_listen(const struct sonde_cli *cli, struct sonde_cli_foreign *f,
                             struct sonde_collector *c, struct sonde_err *err)
{
    const struct sonde_otlp_options o = { .series_max = (size_t)cli->config.ingest_max_series,
                                          .stale_s = cli->config.ingest_stale_seconds };
    if (!cli->config.ingest_enabled) return 0;
    const int rc = sonde_otlp_create(sonde_collector_model(c), &o, &f->otlp);
    return rc ? sonde_err_set(err, rc, "no memory to take OTLP") : 0;
}

int sonde_cli_foreign_start(struct sonde_cli_foreign *f, struct sonde_collector *c,
                            struct sonde_err *err)
{
    if (!f->targets.count) return 0;
    return sonde_scrape_start(sonde_collector_model(c), &f->targets, &f->options, &f->scrape, err);
}

void sonde_cli_foreign_close(struct sonde_cli_foreign *f)
{
    sonde_scrape_stop(f->scrape);
    sonde_otlp_destroy(f->otlp);
    sonde_scrape_targets_release(&f->targets);
    *f = (struct sonde_cli_foreign){ 0 };
}
