/* store.h - the store of `serve` and `run`: opened as the settings say, fed by the collector. */
#ifndef SONDE_CLI_STORE_H
#define SONDE_CLI_STORE_H

#include "cli/cli.h"
#include "profile/profile.h"
#include "store/store.h"

#define SONDE_OPT_STORE                                                                        \
    { .name = "store", .type = SONDE_OPT_SETTING, .value = "FILE", .setting = "storage.path",  \
      .help = "keep every reading in this file, beyond the end of sonde" }

struct sonde_cli_store {
    const struct sonde_store_ops *ops;
    struct sonde_store *store;      /* NULL = the settings name none */
    struct sonde_store *recent;     /* instead of it, until sonde ends; NULL = none */
    struct sonde_store_feed *feed;
};

/* Open what the settings name and have o feed it. Tells and returns the exit status. name: of the
 * run; NULL = none. */
int sonde_cli_store_open(const struct sonde_cli *cli, const char *name, struct sonde_cli_store *out,
                         struct sonde_collector_options *o);
/* For an agent that serves HTTP, after the other: without a store what was lately is kept all the same,
 * unless the settings say no. That it cannot be is logged. */
void sonde_cli_store_recent(const struct sonde_cli *cli, struct sonde_cli_store *s,
                            struct sonde_collector_options *o);
/* Spans of the collector's model from now on; for sonde_collector_options.attach. And a request that
 * ended. Both do nothing without either. */
void sonde_cli_store_attach(const struct sonde_cli_store *s, struct sonde_model *m);
void sonde_cli_store_request(const struct sonde_cli_store *s, const struct sonde_infer_request *r);
/* After the collector is gone. */
void sonde_cli_store_close(struct sonde_cli_store *s);

/* The run file at path, which is p, as a profile of the store. name: anything; what a name cannot
 * have becomes "_". */
int sonde_cli_store_profile(struct sonde_store *s, const char *path, const struct sonde_profile *p,
                            const char *name, struct sonde_err *err);

/* What is to be kept, from the settings. */
struct sonde_store_retention sonde_cli_retention(const struct sonde_cli *cli);

#endif
