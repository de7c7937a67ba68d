/* tune_guide.h - what a search of `sonde tune` may expect before it begins. */
#ifndef SONDE_CLI_TUNE_GUIDE_H
#define SONDE_CLI_TUNE_GUIDE_H

#include "bench/tune/tune.h"
#include "cli/cli.h"

/* One load on the server as given, with as many slots as there is a level for, recorded; of that
 * the model of `sonde predict` says how many requests per second each level of slots and batch
 * would hold, and knobs->space has that as what is expected. The recording stays beside the
 * journal, in JOURNAL.run, and serves again when the search is resumed.
 *
 * That nothing can be expected is not an error: out->why says it. Exit status of a command that was
 * stopped, else 0. */
int sonde_cli_tune_guide(struct sonde_cli *cli, const struct sonde_tune_plan *plan,
                         const struct sonde_tune_knobs_options *command, const char *journal,
                         int fresh, struct sonde_tune_knobs *knobs, struct sonde_tune_guide *out);

#endif
