/* bench_cache.c - `sonde bench cache`: how fast a file or URL is read, and from which tier. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/path.h"
#include "bench/cache/cache.h"
#include "cli/bench_form.h"
#include "cli/bench_options.h"
#include "cli/progress.h"
#include "present/units.h"
#include "sonde/sonde.h"

#define BENCH_CACHE_BYTES ((uint64_t)1 << 30) /* unless --max-bytes says else */
enum { BENCH_CACHE_ROWS_MAX = 4096 };

struct bench_cache_values {
    struct sonde_bench_form_values form;
    const char *url, *blocks, *threads, *patterns, *states, *max_bytes;
    struct sonde_bench_trust trust;
    double duration_s, exponent;
    uint64_t seed;
};

#define AT(field) .offset = offsetof(struct bench_cache_values, field)
static const struct sonde_cli_opt bench_cache_options[] = {
    { .name = "url", .type = SONDE_OPT_STR, .value = "URL", AT(url),
      .help = "instead of a file: an object of an HTTP server, by range requests" },
    SONDE_OPT_BENCH_TRUST(struct bench_cache_values, trust),
    { .name = "block", .letter = 'b', .type = SONDE_OPT_STR, .value = "BYTES,…", AT(blocks),
      .help = "read at a time (default 4K,64K,1M; of a URL 64K)" },
    { .name = "threads", .letter = 't', .type = SONDE_OPT_STR, .value = "N,…", AT(threads),
      .help = "that read at a time (default 1)" },
    { .name = "pattern", .type = SONDE_OPT_STR, .value = "NAME,…", AT(patterns),
      .help = "sequential, random, zipf (default: all)" },
    { .name = "state", .type = SONDE_OPT_STR, .value = "NAME,…", AT(states),
      .help = "cold, warm, direct; of a URL plain, no-cache, revalidate (default: all)" },
    { .name = "duration", .letter = 'd', .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.001,
      .max = 3600, AT(duration_s), .help = "for each row at most (default 1)" },
    { .name = "max-bytes", .type = SONDE_OPT_STR, .value = "BYTES", AT(max_bytes),
      .help = "of the file, from its beginning (default 1G)" },
    { .name = "zipf", .type = SONDE_OPT_NUM, .value = "S", .min = 0.1, .max = 5, AT(exponent),
      .help = "how much the popular blocks are asked for: block k by 1 / k^S (default 0.99)" },
    { .name = "seed", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1e15, AT(seed),
      .help = "of what is random (default 1)" },
    SONDE_OPT_BENCH_FORM(struct bench_cache_values, form),
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

struct bench_cache_state {
    struct sonde_cache_row *rows; /* owned */
    size_t count, cap;
    struct sonde_cache_target target;
};

/* Names of a list, comma-separated, as bits; 0 after saying what is wrong. */
static unsigned bench_cache_names(const struct sonde_cli *cli, const char *option, const char *text,
                                  const char *(*name)(int), int first, int last)
{
    unsigned bits = 0;
    for (const char *at = text; at; at = strchr(at, ','), at = at ? at + 1 : NULL) {
        const size_t len = strcspn(at, ",");
        int i = first;
        while (i <= last && (strlen(name(i)) != len || strncmp(name(i), at, len) != 0)) i++;
        if (i > last) {
            sonde_cli_usage(cli, "--%s: there is no '%.*s' of this; see sonde help bench cache",
                            option, (int)(len < 60 ? len : 60), at);
            return 0;
        }
        bits |= 1u << i;
    }
    return bits;
}

static const char *bench_cache_pattern(int i)
{
    return sonde_cache_pattern_name((enum sonde_cache_pattern)i);
}

static const char *bench_cache_state_of(int i)
{
    return sonde_cache_state_name((enum sonde_cache_state)i);
}

static int bench_cache_rows(const struct sonde_cli *cli, struct bench_cache_state *s)
{
    const struct bench_cache_values *v = cli->values;
    uint64_t blocks[SONDE_BENCH_FORM_MAX], threads[SONDE_BENCH_FORM_MAX];
    size_t block_count, thread_count;
    const int first = v->url ? SONDE_CACHE_PLAIN : SONDE_CACHE_COLD;
    const int last = v->url ? SONDE_CACHE_REVALIDATE : SONDE_CACHE_DIRECT;
    int bad = sonde_bench_list_parse(cli, "block", v->blocks ? v->blocks
                                     : v->url ? "64K" : "4K,64K,1M", NULL, 1, SONDE_CACHE_BLOCK_MAX,
                                     blocks, &block_count);
    if (!bad) {
        bad = sonde_bench_list_parse(cli, "threads", v->threads ? v->threads : "1", NULL, 1,
                                     SONDE_CACHE_THREADS_MAX, threads, &thread_count);
    }
    if (bad) return bad;
    const unsigned patterns = !v->patterns ? ~0u : bench_cache_names(
        cli, "pattern", v->patterns, bench_cache_pattern, 0, SONDE_CACHE_PATTERN_COUNT - 1);
    const unsigned states = !patterns ? 0 : !v->states ? ~0u : bench_cache_names(
        cli, "state", v->states, bench_cache_state_of, first, last);
    if (!patterns || !states) return SONDE_EXIT_USAGE;
    for (int state = first; state <= last; state++) {
        for (int p = 0; p < SONDE_CACHE_PATTERN_COUNT; p++) {
            if (!(patterns >> p & 1) || !(states >> state & 1)) continue;
            for (size_t i = 0; i < block_count * thread_count; i++) {
                if (s->count == BENCH_CACHE_ROWS_MAX) {
                    return sonde_cli_usage(cli, "more than %d combinations", BENCH_CACHE_ROWS_MAX);
                }
                struct sonde_cache_row *row = SONDE_ARRAY_ADD(s->rows, s->count, s->cap);
                if (!row) return sonde_cli_fail(cli, "out of memory");
                memset(row, 0, sizeof(*row));
                row->pattern = (enum sonde_cache_pattern)p;
                row->state = (enum sonde_cache_state)state;
                row->block = (size_t)blocks[i / thread_count];
                row->threads = (uint32_t)threads[i % thread_count];
            }
        }
    }
    return 0;
}

/* ---- What was found -------------------------------------------------------------------------- */

static const struct sonde_column bench_cache_columns[] = {
    { .title = "state" },
    { .title = "pattern" },
    { .title = "block", .align = SONDE_RIGHT },
    { .title = "threads", .align = SONDE_RIGHT },
    { .title = "MB/s", .align = SONDE_RIGHT },
    { .title = "reads/s", .align = SONDE_RIGHT },
    { .title = "p50", .align = SONDE_RIGHT },
    { .title = "p90", .align = SONDE_RIGHT, .drop = 1 },
    { .title = "p99", .align = SONDE_RIGHT },
    { .title = "p99.9", .align = SONDE_RIGHT, .drop = 2 },
    { .title = "hits", .align = SONDE_RIGHT },
    { .title = "reads", .align = SONDE_RIGHT, .drop = 3 },
    { .title = "" },
};

static void bench_cache_value(struct sonde_table *t, size_t column, double v, enum sonde_unit unit)
{
    char text[SONDE_VALUE_BYTES];
    sonde_table_cell(t, column, "%s", sonde_value_format(text, v, unit, 0));
}

static void bench_cache_table(const struct bench_cache_state *s, struct sonde_table *t)
{
    static const double quantiles[] = { 0.5, 0.9, 0.99, 0.999 };
    for (size_t i = 0; i < s->count; i++) {
        const struct sonde_cache_row *r = &s->rows[i];
        const double known = (double)(r->hits + r->misses);
        sonde_table_row(t);
        sonde_table_cell(t, 0, "%s", sonde_cache_state_name(r->state));
        sonde_table_cell(t, 1, "%s", sonde_cache_pattern_name(r->pattern));
        bench_cache_value(t, 2, (double)r->block, SONDE_UNIT_BYTES);
        sonde_table_cell(t, 3, "%u", r->threads);
        if (!r->measured) {
            sonde_table_cell(t, 12, "left out: %s", r->why);
            continue;
        }
        sonde_table_cell(t, 4, "%.1f", (double)r->bytes / r->seconds * 1e-6);
        bench_cache_value(t, 5, (double)r->reads / r->seconds, SONDE_UNIT_COUNT);
        for (size_t q = 0; q < SONDE_COUNT(quantiles); q++) {
            bench_cache_value(t, 6 + q, sonde_cache_latency_quantile(&r->latency, quantiles[q]),
                              SONDE_UNIT_SECONDS);
        }
        bench_cache_value(t, 10, known > 0 ? (double)r->hits / known : (double)NAN,
                          SONDE_UNIT_RATIO);
        sonde_table_cell(t, 11, "%llu", (unsigned long long)r->reads);
        if (r->errors) {
            sonde_table_cell(t, 12, "%llu errors: %s", (unsigned long long)r->errors, r->why);
        } else if (r->state >= SONDE_CACHE_PLAIN) {
            sonde_table_cell(t, 12, "%llu connections%s", (unsigned long long)r->connects,
                             r->revalidated == r->reads ? ", all 304" : "");
        }
    }
}

/* Tiers side by side, for what was measured in more than one state. */
static void bench_cache_tiers(const struct bench_cache_state *s, struct sonde_buf *out)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct sonde_cache_row *cold = &s->rows[i];
        if (cold->state != SONDE_CACHE_COLD || !cold->measured) continue;
        for (size_t k = 0; k < s->count; k++) {
            const struct sonde_cache_row *warm = &s->rows[k];
            if (warm->state != SONDE_CACHE_WARM || !warm->measured || warm->block != cold->block ||
                warm->pattern != cold->pattern || warm->threads != cold->threads) continue;
            char block[SONDE_VALUE_BYTES];
            sonde_buf_printf(out, "%s, %s%s: warm is %.3g times as fast as cold\n",
                             sonde_cache_pattern_name(cold->pattern),
                             sonde_value_format(block, (double)cold->block, SONDE_UNIT_BYTES, 0),
                             cold->threads > 1 ? ", threads" : "",
                             (double)warm->bytes / warm->seconds /
                                 ((double)cold->bytes / cold->seconds));
        }
    }
}

static int bench_cache_report(const struct sonde_cli *cli, const struct bench_cache_state *s,
                              const struct sonde_bench_result *r)
{
    const struct bench_cache_values *v = cli->values;
    const struct sonde_cache_target *target = &s->target;
    struct sonde_table table;
    struct sonde_buf head, tail;
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    sonde_table_init(&table, bench_cache_columns, SONDE_COUNT(bench_cache_columns));
    sonde_buf_init(&head, 1 << 16);
    sonde_buf_init(&tail, 1 << 20);
    sonde_buf_printf(&head, "%s, %s", target->what,
                     sonde_value_format(a, (double)target->bytes, SONDE_UNIT_BYTES, 0));
    if (target->bytes_all > target->bytes) {
        sonde_buf_printf(&head, ", the beginning of %s",
                         sonde_value_format(b, (double)target->bytes_all, SONDE_UNIT_BYTES, 0));
    }
    if (target->in_memory) {
        sonde_buf_puts(&head, "; cold cannot be had: this file system is memory, without a disk");
    }
    sonde_buf_putc(&head, '\n');
    bench_cache_table(s, &table);
    bench_cache_tiers(s, &tail);
    if (!v->url && !target->in_memory && r->machine.virtual) {
        sonde_buf_puts(&tail, "This machine is virtual: its host may have what is cold here in its "
                              "own memory.\n");
    }
    sonde_bench_form_doubts(r, &tail);
    return sonde_bench_form_write(cli, &v->form, r, &head, &table, &tail);
}

/* ---- The command ----------------------------------------------------------------------------- */

static size_t bench_cache_doubts(const struct bench_cache_state *s, struct sonde_bench_result *r)
{
    size_t measured = 0;
    uint64_t errors = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct sonde_cache_row *row = &s->rows[i];
        measured += row->measured ? 1 : 0;
        errors += row->errors;
        if (row->measured && row->state == SONDE_CACHE_WARM && row->resident_before < 0.99) {
            sonde_bench_result_doubt(r, "only %.0f %% of the file stayed in the page cache: warm "
                                     "is not; use a smaller --max-bytes",
                                     100 * row->resident_before);
            break;
        }
    }
    if (!measured) sonde_bench_result_doubt(r, "no row could be measured");
    if (errors) {
        sonde_bench_result_doubt(r, "%llu requests were not answered as asked",
                                 (unsigned long long)errors);
    }
    return measured;
}

static int bench_cache_measure(const struct sonde_cli *cli, struct bench_cache_state *s, int fd)
{
    const struct bench_cache_values *v = cli->values;
    const char *what = v->url ? v->url : cli->operands[0];
    struct sonde_cache_options o = { .duration_s = v->duration_s > 0 ? v->duration_s : 1,
        .bytes_max = BENCH_CACHE_BYTES, .exponent = v->exponent > 0 ? v->exponent : 0.99,
        .seed = v->seed ? v->seed : 1, .trust = v->trust, .tell = sonde_progress_told };
    struct sonde_bench_result r;
    struct sonde_progress progress;
    struct sonde_err err = { "" };
    const char *most = v->max_bytes;
    if (most && (sonde_bench_bytes_parse(most, strlen(most), &o.bytes_max) || !o.bytes_max)) {
        return sonde_cli_usage(cli, "--max-bytes: '%.60s' is not a size, as 16M", v->max_bytes);
    }
    sonde_bench_result_init(&r, "cache", v->url ? v->url : sonde_path_base(what));
    r.seed = o.seed;
    sonde_bench_result_command(&r, cli->operands, (size_t)cli->operand_count);
    sonde_progress_begin(&progress, cli, "reading", what);
    o.arg = &progress;
    const int rc = v->url ? sonde_cache_http_run(v->url, &o, s->rows, s->count, &s->target, &err)
                          : sonde_cache_file_run(fd, what, &o, s->rows, s->count, &s->target, &err);
    sonde_progress_end(&progress);
    sonde_bench_result_end(&r);
    int status;
    if (rc) {
        status = rc == SONDE_EINVAL ? sonde_cli_usage(cli, "%s", err.text)
                                    : sonde_cli_fail(cli, "%s", err.text);
    } else {
        const size_t measured = bench_cache_doubts(s, &r);
        status = sonde_cache_result(s->rows, s->count, &s->target, &r)
                     ? sonde_cli_fail(cli, "out of memory") : bench_cache_report(cli, s, &r);
        if (!status && !measured) status = SONDE_EXIT_FAIL;
    }
    sonde_bench_result_release(&r);
    return status;
}

static int bench_cache_run(struct sonde_cli *cli)
{
    const struct bench_cache_values *v = cli->values;
    struct bench_cache_state s = { 0 };
    uint64_t bytes = 0;
    int fd = -1, status = sonde_bench_form_check(cli, &v->form);
    if (!status && !v->url == !cli->operand_count) {
        status = sonde_cli_usage(cli, v->url ? "FILE or --url, not both"
                                             : "say what to read: FILE, or --url URL");
    }
    if (!status && v->url && !sonde_cli_is_url(v->url)) {
        status = sonde_cli_usage(cli, "'%.200s' is not the URL of a web server", v->url);
    }
    if (!status) status = sonde_cli_bench_trust(cli, &v->trust, v->url, NULL);
    if (!status) status = bench_cache_rows(cli, &s);
    if (!status && !v->url) {
        fd = sonde_bench_file_open(cli, cli->operands[0], &bytes);
        if (fd < 0) status = SONDE_EXIT_USAGE;
    }
    if (!status) status = bench_cache_measure(cli, &s, fd);
    if (fd >= 0) close(fd);
    sonde__free(s.rows);
    return status;
}

const struct sonde_command sonde_bench_cmd_cache = {
    .name = "bench cache",
    .summary = "reads of a file or URL by pattern, cold and warm: speed, latency, hits by tier",
    .usage = "[options] FILE | --url URL",
    .details =
        "Reads a file in sequence, at random and by Zipf's law, with its pages dropped from the "
        "page cache before (cold), all of them in it (warm), and past it (direct); or an object of "
        "an HTTP server by range requests, plainly, with Cache-Control: no-cache, and with "
        "If-None-Match. Whether a read was a hit is asked of the kernel, or is what HTTP caches "
        "say of themselves; it is not guessed from the time.\n"
        "\n"
        "The file is only read. Dropping its pages slows down whoever else reads it for a moment.\n"
        "\n"
        "examples:\n"
        "  sonde bench cache model.gguf --max-bytes 2G --duration 3\n"
        "  sonde bench cache model.gguf --state cold,direct --pattern random --threads 1,4,16\n"
        "  sonde bench cache --url http://127.0.0.1:8080/model.gguf --block 256K",
    .options = bench_cache_options,
    .values_size = sizeof(struct bench_cache_values),
    .operands_max = 1,
    .run = bench_cache_run,
};
