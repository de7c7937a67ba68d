/* cmd_import.c - `sonde import`: a profile of another tool as a run file, or series as a store. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "base/visible.h"
#include "base/alloc.h"
#include "cli/cli.h"
#include "base/strip.h"
#include "cli/profile.h"
#include "cli/progress.h"
#include "profile/format.h"
#include "profile/strip.h"
#include "sonde/sonde.h"
#include "store/transfer/transfer.h"
#include "store/history.h"
#include "store/run/run.h"

enum { READ_AT_ONCE = 1 << 16, HEAD_BYTES = 4096 };
static const size_t series_max_bytes = (size_t)1 << 30;

struct import_values {
    const char *output, *format, *event;
    int periods;
};

static const struct sonde_cli_opt options[] = {
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE",
      .offset = offsetof(struct import_values, output),
      .help = "the run file to write, which is replaced when all is written; of series, the store, "
              "to which they are added" },
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT",
      .offset = offsetof(struct import_values, format),
      .help = "what IN is, if its content does not tell: one of the names above" },
    { .name = "event", .letter = 'e', .type = SONDE_OPT_STR, .value = "NAME",
      .offset = offsetof(struct import_values, event),
      .help = "of `perf script` and callgrind with several events: this one (default: the first)" },
    { .name = "periods", .type = SONDE_OPT_FLAG, .offset = offsetof(struct import_values, periods),
      .help = "of `perf script`: weigh samples by their periods, not one each" },
    { .name = NULL },
};

/* ---- Series ------------------------------------------------------------------------------- */

/* All of a file, or of the standard input. */
static int cmd_import_read_all(const char *path, struct sonde_buf *out, struct sonde_err *err)
{
    const int input = strcmp(path, "-") == 0;
    const int rc = input ? sonde_file_read_fd(STDIN_FILENO, out) : sonde_file_read(path, out, err);
    if (rc == SONDE_EFULL) {
        return sonde_err_set(err, rc, "'%s' is larger than %zu bytes: export shorter times", path,
                             out->max);
    }
    return rc && input ? sonde_err_set(err, rc, "cannot read the standard input") : rc;
}

/* What text looks like; -1 = not like series. The end counts too: only OpenMetrics says that it has
 * come. */
static int cmd_import_format_of(const char *text, size_t len)
{
    static const char eof[] = "# EOF";
    const size_t line = len ? strcspn(text, "\r\n") : 0;
    size_t end = len;
    while (end && isspace((unsigned char)text[end - 1])) end--;
    if (len > 1 && *text == '{' &&
        memmem(text, len < HEAD_BYTES ? len : HEAD_BYTES, "\"sonde-series\"", 14)) {
        return SONDE_TRANSFER_JSON;
    }
    if (memmem(text, line, "time_ms", 7) && memchr(text, ',', line)) return SONDE_TRANSFER_CSV;
    const int head = len > 7 && (!memcmp(text, "# HELP ", 7) || !memcmp(text, "# TYPE ", 7));
    if (end >= 5 && !memcmp(text + end - 5, eof, 5)) return SONDE_TRANSFER_OPENMETRICS;
    return head ? SONDE_TRANSFER_PROMETHEUS : -1;
}

static int import_series(struct sonde_cli *cli, const struct sonde_buf *in, int format)
{
    const struct import_values *v = cli->values;
    const char *path = cli->operands[0];
    struct sonde_transfer x = { 0 };
    struct sonde_transfer_result result;
    struct sonde_err err = { "" };
    char name[64];
    if (access(v->output, F_OK) == 0 && !sonde_store_is_file(v->output)) {
        return sonde_cli_usage(cli, "--output: '%s' is there and no store", v->output);
    }
    snprintf(name, sizeof(name), "import of %.40s",
             strcmp(path, "-") ? sonde_path_base(path) : "standard input");
    struct sonde_progress progress;
    sonde_progress_begin(&progress, cli, "reading", path);
    int rc = sonde_transfer_read(in->len ? in->data : "", in->len,
                                 (enum sonde_transfer_format)format, &x, &result, &err);
    const int is_read = !rc;
    int status = SONDE_EXIT_OK;
    if (!rc) rc = sonde_transfer_import(&sonde_store_sqlite, v->output, name, &x, &err);
    sonde_progress_end(&progress);
    if (rc) status = is_read ? sonde_cli_fail(cli, "%s", err.text)
                             : sonde_cli_fail(cli, "%s: %s", path, err.text);
    if (!status && !cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde: %s: %llu points of %llu series\n", v->output,
                             (unsigned long long)result.points, (unsigned long long)result.series);
        if (result.left_out) {
            sonde_visible_printf(STDERR_FILENO, "sonde: %llu of them were rounded to a billionth, "
                                 "since they are no whole number of anything\n",
                                 (unsigned long long)result.left_out);
        }
    }
    sonde_transfer_release(&x);
    return status;
}

/* ---- Profiles ----------------------------------------------------------------------------- */

/* What only a file can be asked for; other profiles come from where every command finds them. */
static int load_profile(struct sonde_cli *cli, struct sonde_profile **out)
{
    const struct import_values *v = cli->values;
    struct sonde_import how = { .format = v->format, .event = v->event, .periods = v->periods };
    if (!v->format && !v->event && !v->periods) {
        return sonde_cli_profile(cli, cli->operands[0], 0, NULL, out);
    }
    if (sonde_cli_is_url(cli->operands[0])) {
        return sonde_cli_usage(cli, "--format, --event and --periods go with a file");
    }
    const int status = sonde_cli_import(cli, cli->operands[0], &how, out);
    if (!status && sonde_strip_on() && sonde_profile_strip(*out) != 0) {
        sonde_profile_destroy(*out);
        return sonde_cli_fail(cli, "out of memory");
    }
    return status;
}

/* How many different stacks the samples have; those of their callers are in p->stacks too. */
static uint32_t count_stacks(const struct sonde_profile *p)
{
    uint8_t *seen = sonde__calloc(p->stacks_count, 1);
    uint32_t count = 0;
    for (uint32_t i = 0; seen && i < p->samples_count; i++) {
        count += !seen[p->samples[i].stack];
        seen[p->samples[i].stack] = 1;
    }
    sonde__free(seen);
    return count;
}

static int import_profile(struct sonde_cli *cli)
{
    const struct import_values *v = cli->values;
    struct sonde_profile *p;
    int status = load_profile(cli, &p);
    if (status) return status;
    struct sonde_err err = { "" };
    struct sonde_progress progress;
    sonde_progress_begin(&progress, cli, "writing", v->output);
    const int rc = sonde_run_save(v->output, p, &err);
    sonde_progress_end(&progress);
    if (rc == SONDE_EINVAL) status = sonde_cli_usage(cli, "--output: %s", err.text);
    else if (rc) status = sonde_cli_fail(cli, "%s", err.text);
    else if (!cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde: %s: %u samples of %u stacks\n", v->output,
                             p->samples_count, count_stacks(p));
    }
    sonde_profile_destroy(p);
    return status;
}

static int cmd_import_run(struct sonde_cli *cli)
{
    const struct import_values *v = cli->values;
    if (!cli->operand_count) return sonde_cli_usage(cli, "say what: sonde import IN -o FILE");
    if (!v->output) {
        return sonde_cli_usage(cli, "say where to: -o FILE.run, or of series -o FILE.db");
    }
    const char *path = cli->operands[0];
    const int series = v->format ? sonde_transfer_format(v->format) : -1;
    if (v->format && series < 0) {
        const struct sonde_format_ops *f = sonde_format_find(v->format);
        if (!f || !f->read) {
            return sonde_cli_usage(cli, "--format: there is no '%s' that can be read", v->format);
        }
        return import_profile(cli);
    }
    /* The standard input can be read once only: that it is series must be said. */
    if ((!strcmp(path, "-") && !v->format) || sonde_cli_is_url(path)) return import_profile(cli);
    struct sonde_buf in;
    struct sonde_err err = { "" };
    sonde_buf_init(&in, series_max_bytes);
    int status = SONDE_EXIT_OK;
    struct sonde_progress progress;
    sonde_progress_begin(&progress, cli, "reading", path);
    const int rc = cmd_import_read_all(path, &in, &err);
    sonde_progress_end(&progress);
    const int format = v->format ? series : rc ? -1 : cmd_import_format_of(in.data, in.len);
    if (rc && v->format) status = sonde_cli_fail(cli, "%s", err.text);
    else if (format < 0) {
        sonde_buf_release(&in);
        return import_profile(cli);
    } else {
        status = import_series(cli, &in, format);
    }
    sonde_buf_release(&in);
    return status;
}

const struct sonde_command sonde_cmd_import = {
    .name = "import",
    .summary = "make a run file of a profile of another tool, or a store of series",
    .usage = "IN -o FILE",
    .details = "IN is a profile of another tool, recognized by its content, gzipped or not; - is "
               "the standard input. Commands that read profiles take such files as they are; a run "
               "file is smaller and read faster.\n"
               "\n"
               "  pprof        protobuf of Go, pprof and many others\n"
               "  perf-script  the text of `perf script`\n"
               "  folded       `main;f;g 42`, a stack a line\n"
               "  gperftools   CPU profiles of gperftools\n"
               "  heap-text    heap profiles of gperftools, jemalloc and Go, as text\n"
               "  speedscope   speedscope's JSON\n"
               "  cpuprofile   V8's, of node --cpu-prof and browsers\n"
               "  chrome       trace events (B and E, X): Chrome, Perfetto and others\n"
               "  callgrind    of valgrind --tool=callgrind\n"
               "\n"
               "What had to be left out, shortened or estimated is said.\n"
               "\n"
               "Or IN is series, as `sonde export` writes them from a store (json, "
               "csv, openmetrics, prometheus), or as others do: CSV with the columns name, type, "
               "time_ms and value at least (labels, help, scale … as export has them), OpenMetrics "
               "or Prometheus' text with times. They are added to the store FILE, which is made if "
               "it is not there.\n"
               "\n"
               "examples:\n"
               "  perf script -i perf.data | sonde import - -o server.run\n"
               "  sonde import --event page-faults --periods perf.txt -o faults.run\n"
               "  sonde export --format csv -o week.csv store.db && sonde import week.csv -o "
               "copy.db",
    .options = options,
    .values_size = sizeof(struct import_values),
    .operands_max = 1,
    .run = cmd_import_run,
};
