/* foreign.h - what commands that stay have in common about series of others: what is scraped, and
 * what is sent to us. */
#ifndef SONDE_CLI_FOREIGN_H
#define SONDE_CLI_FOREIGN_H

#include "cli/cli.h"
#include "collect/ingest/otlp.h"
#include "collect/ingest/scrape.h"

#define SONDE_OPT_SCRAPE(values, field)                                                          \
    { .name = "scrape", .type = SONDE_OPT_LIST, .value = "URL", .offset = offsetof(values, field), \
      .help = "read this exporter too, as Prometheus does; may be given several times" }

struct sonde_cli_foreign {
    struct sonde_otlp *otlp;      /* NULL = none is taken */
    struct sonde_scrape_options options;
    struct sonde_scrape_targets targets;
    struct sonde_scrape *scrape;  /* NULL = there is nothing to scrape */
};

/* What settings and flags name; tells and returns the exit status. Nothing is started yet. */
int sonde_cli_foreign_open(const struct sonde_cli *cli, const struct sonde_cli_list *urls,
                           struct sonde_cli_foreign *out);
/* OTLP is taken from here on, for a server that is started later. 0 or SONDE_E…. */
int sonde_cli_foreign_listen(const struct sonde_cli *cli, struct sonde_cli_foreign *f,
                             struct sonde_collector *c, struct sonde_err *err);
int sonde_cli_foreign_start(struct sonde_cli_foreign *f, struct sonde_collector *c,
                            struct sonde_err *err);
/* After the server was stopped, before the collector is destroyed. */
void sonde_cli_foreign_close(struct sonde_cli_foreign *f);

#endif
