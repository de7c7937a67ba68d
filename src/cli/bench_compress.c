/* bench_compress.c - `sonde bench compress`: what compression makes of a file, or of a sample. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "bench/compress/compress.h"
#include "bench/compress/sample.h"
#include "cli/bench_form.h"
#include "cli/progress.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { BENCH_COMPRESS_LEVELS_MAX = 256, BENCH_COMPRESS_SPANS = 16 };
#define BENCH_COMPRESS_BYTES ((uint64_t)256 << 20)  /* of a file, unless --max-bytes says else */
#define BENCH_COMPRESS_SAMPLE ((uint64_t)16 << 20)
#define BENCH_COMPRESS_BYTES_MAX ((uint64_t)64 << 30)

struct bench_compress_values {
    struct sonde_bench_form_values form;
    struct sonde_cli_list codecs;
    const char *sample, *type, *size, *levels, *threads, *block, *max_bytes, *until, *bandwidth,
               *saving;
    uint64_t seed, turns;
    double time_s, limit_s;
};

#define AT(field) .offset = offsetof(struct bench_compress_values, field)
static const struct sonde_cli_opt bench_compress_options[] = {
    { .name = "sample", .type = SONDE_OPT_STR, .value = "KIND", AT(sample),
      .choices = "kv|weights|activations|embeddings|text|json",
      .help = "instead of a file: made up, of this kind" },
    { .name = "type", .type = SONDE_OPT_STR, .value = "TYPE", AT(type),
      .choices = "f32|f16|bf16|q8_0|q4_0", .help = "how the sample's numbers are stored" },
    { .name = "size", .type = SONDE_OPT_STR, .value = "BYTES", AT(size),
      .help = "of the sample (default 16M)" },
    { .name = "seed", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1e15, AT(seed),
      .help = "of the sample (default 1)" },
    { .name = "codec", .letter = 'c', .type = SONDE_OPT_LIST, .value = "CODEC[:LEVELS]",
      AT(codecs), .help = "only this: zstd, zstd:3, zstd:1-19, lz4,brotli:1,5 (default: all)" },
    { .name = "levels", .type = SONDE_OPT_STR, .value = "LEVELS", AT(levels),
      .help = "of codecs that are named without: 1,3..9 (default: some of each)" },
    { .name = "threads", .letter = 't', .type = SONDE_OPT_STR, .value = "N,…", AT(threads),
      .help = "how many at a time: 1,2,4 (default 1)" },
    { .name = "block", .letter = 'b', .type = SONDE_OPT_STR, .value = "BYTES,…", AT(block),
      .help = "compressed on their own: 64K,1M,whole (default whole)" },
    { .name = "max-bytes", .type = SONDE_OPT_STR, .value = "BYTES", AT(max_bytes),
      .help = "of the file, from its beginning (default 256M)" },
    { .name = "time", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.001, .max = 3600,
      AT(time_s), .help = "for each row and direction (default 1)" },
    { .name = "turns", .type = SONDE_OPT_UINT, .value = "N", .min = 1,
      .max = SONDE_COMPRESS_TURNS_MAX, AT(turns),
      .help = "that this time is split into, rows taking turns (default 5)" },
    { .name = "until", .type = SONDE_OPT_STR, .value = "PERCENT%", AT(until),
      .help = "more turns until the means are this well known, at most 200" },
    { .name = "limit", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.001, .max = 86400,
      AT(limit_s), .help = "leave out what takes longer for one pass (default 10)" },
    { .name = "bandwidth", .type = SONDE_OPT_STR, .value = "RATE", AT(bandwidth),
      .help = "of the network: 10Gbit/s, 100MB/s (default 1Gbit/s)" },
    { .name = "min-saving", .type = SONDE_OPT_STR, .value = "PERCENT%", AT(saving),
      .help = "what a fast path has to save to be worth a call (default 5%)" },
    SONDE_OPT_BENCH_FORM(struct bench_compress_values, form),
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

struct bench_compress_state {
    char *data;                  /* owned */
    uint64_t bytes, file_bytes;  /* measured with, and of all of the file */
    char source[320];            /* what it is, in words */
    struct sonde_compress_row *rows; /* owned */
    size_t count, cap;
    uint64_t threads[SONDE_BENCH_FORM_MAX], blocks[SONDE_BENCH_FORM_MAX];
    size_t thread_count, block_count;
    struct sonde_compress_needs needs;
    double until;
};

/* ---- Codecs and levels ----------------------------------------------------------------------- */

/* "3", "1-19", "-5..19" into levels; where it ends. NULL: it is not that. */
static const char *bench_compress_range(const char *at, long *from, long *to)
{
    char *end;
    if (at[0] != '-' && (at[0] < '0' || at[0] > '9')) return NULL;
    *from = *to = strtol(at, &end, 10);
    if (end == at || (end == at + 1 && at[0] == '-')) return NULL;
    const char *second = end[0] == '-' && end[1] ? end + 1
                         : end[0] == '.' && end[1] == '.' ? end + 2 : NULL;
    if (second) {
        *to = strtol(second, &end, 10);
        if (end == second || *to < *from) return NULL;
    }
    return end;
}

static int bench_compress_add(const struct sonde_cli *cli, struct bench_compress_state *s,
                              const struct sonde_codec *codec, int level)
{
    for (size_t t = 0; t < s->thread_count; t++) {
        for (size_t b = 0; b < s->block_count; b++) {
            if (s->count == SONDE_COMPRESS_ROWS_MAX) {
                return sonde_cli_usage(cli, "more than %u combinations of codec, level, threads "
                                       "and block", SONDE_COMPRESS_ROWS_MAX);
            }
            struct sonde_compress_row *row = SONDE_ARRAY_ADD(s->rows, s->count, s->cap);
            if (!row) return sonde_cli_fail(cli, "out of memory");
            *row = (struct sonde_compress_row){ .codec = codec, .level = level,
                                                .threads = (uint32_t)s->threads[t],
                                                .block_bytes = (size_t)s->blocks[b] };
        }
    }
    return 0;
}

/* levels: up to a comma that a name follows. strict: what the codec has not is a mistake, else it
 * is left out. */
static int bench_compress_levels(const struct sonde_cli *cli, struct bench_compress_state *s,
                                 const struct sonde_codec *codec, const char *levels, int strict)
{
    size_t added = 0;
    for (const char *at = levels;;) {
        long from, to;
        const char *end = bench_compress_range(at, &from, &to);
        if (!end || (*end && *end != ',')) {
            return sonde_cli_usage(cli, "'%.60s' is not a level or a range of levels, as 3 or 1-19",
                                   at);
        }
        if (strict && (from < codec->level_min || to > codec->level_max)) {
            return sonde_cli_usage(cli, "%s has levels %d to %d, not '%.*s'", codec->name,
                                   codec->level_min, codec->level_max, (int)(end - at), at);
        }
        if (from < codec->level_min) from = codec->level_min;
        if (to > codec->level_max) to = codec->level_max;
        for (long level = from; level <= to; level++) {
            if (++added > BENCH_COMPRESS_LEVELS_MAX) {
                return sonde_cli_usage(cli, "more than %d levels of %s", BENCH_COMPRESS_LEVELS_MAX,
                                       codec->name);
            }
            const int bad = bench_compress_add(cli, s, codec, (int)level);
            if (bad) return bad;
        }
        if (!*end) return 0;
        at = end + 1;
        if (*at >= 'a' && *at <= 'z') return 0;
    }
}

static int bench_compress_codec(const struct sonde_cli *cli, struct bench_compress_state *s,
                                const struct sonde_codec *codec)
{
    const struct bench_compress_values *v = cli->values;
    if (!codec->level_min && !codec->level_max) return bench_compress_add(cli, s, codec, 0);
    return bench_compress_levels(cli, s, codec, v->levels ? v->levels : codec->levels, 0);
}

/* "lz4,zstd:1-3,5,snappy": what begins with a letter is a codec. */
static int bench_compress_named(const struct sonde_cli *cli, struct bench_compress_state *s,
                                const char *text)
{
    for (const char *at = text; at;) {
        const size_t len = strcspn(at, ":,");
        const struct sonde_codec *codec = sonde_codec_find(at, len);
        if (!codec) {
            return sonde_cli_usage(cli, "there is no codec '%.*s'; there are none, lz4, lz4hc, "
                                   "snappy, zstd, deflate, gzip, libdeflate and brotli",
                                   (int)(len < 60 ? len : 60), at);
        }
        const int has = codec->level_min || codec->level_max;
        if (at[len] == ':' && !has) return sonde_cli_usage(cli, "%s has no levels", codec->name);
        const int bad = at[len] == ':' ? bench_compress_levels(cli, s, codec, at + len + 1, 1)
                                       : bench_compress_codec(cli, s, codec);
        if (bad) return bad;
        do at = strchr(at, ','), at = at ? at + 1 : NULL;
        while (at && (*at < 'a' || *at > 'z') && *at);
    }
    return 0;
}

static int bench_compress_rows(const struct sonde_cli *cli, struct bench_compress_state *s)
{
    const struct bench_compress_values *v = cli->values;
    int bad = sonde_bench_list_parse(cli, "threads", v->threads ? v->threads : "1", NULL, 1,
                                     SONDE_COMPRESS_THREADS_MAX, s->threads, &s->thread_count);
    if (!bad) {
        bad = sonde_bench_list_parse(cli, "block", v->block ? v->block : "whole", "whole",
                                     SONDE_COMPRESS_BLOCK_MIN, BENCH_COMPRESS_BYTES_MAX, s->blocks,
                                     &s->block_count);
    }
    for (size_t i = 0; !bad && i < v->codecs.count; i++) {
        /* A copy comes first in any case: what the others are compared with. */
        if (!i && !strstr(v->codecs.item[0], "none")) {
            bad = bench_compress_codec(cli, s, sonde_codec_find("none", 4));
        }
        if (!bad) bad = bench_compress_named(cli, s, v->codecs.item[i]);
    }
    for (size_t i = 0; !bad && !v->codecs.count && sonde_codecs[i]; i++) {
        bad = bench_compress_codec(cli, s, sonde_codecs[i]);
    }
    if (!bad && s->count <= s->thread_count * s->block_count) {
        bad = sonde_cli_usage(cli, "no codec has any of the levels '%s'",
                              v->levels ? v->levels : "");
    }
    return bad;
}

/* ---- The input ------------------------------------------------------------------------------- */

static int bench_compress_bytes(const struct sonde_cli *cli, const char *option, const char *text,
                                uint64_t otherwise, uint64_t *out)
{
    *out = otherwise;
    if (!text) return 0;
    if (!sonde_bench_bytes_parse(text, strlen(text), out) && *out <= BENCH_COMPRESS_BYTES_MAX) {
        return 0;
    }
    return sonde_cli_usage(cli, "--%s: '%.60s' is not a size up to 64G, as 16M", option, text);
}

static int bench_compress_sample(const struct sonde_cli *cli, struct bench_compress_state *s)
{
    const struct bench_compress_values *v = cli->values;
    const struct sonde_compress_sample *sample = sonde_compress_sample_find(v->sample);
    const enum sonde_sample_type type = v->type ? sonde_sample_type_find(v->type) : sample->type;
    const int bad = bench_compress_bytes(cli, "size", v->size, BENCH_COMPRESS_SAMPLE, &s->bytes);
    if (bad) return bad;
    if (v->type && sample->type == SONDE_SAMPLE_NONE) {
        return sonde_cli_usage(cli, "--type is for samples of numbers, not for '%s'", v->sample);
    }
    s->data = sonde__alloc((size_t)s->bytes + 1);
    if (!s->data) return sonde_cli_fail(cli, "out of memory for a sample of %s", v->size);
    sonde_compress_sample_make(sample, type, v->seed ? v->seed : 1, s->data, (size_t)s->bytes);
    s->file_bytes = s->bytes;
    snprintf(s->source, sizeof(s->source), "made up, %s%s%s", sonde_sample_type_name(type),
             type ? ": " : "", sample->summary);
    return 0;
}

/* Files of /proc say that they are empty: what can be read counts. */
static int bench_compress_read(const struct sonde_cli *cli, struct bench_compress_state *s,
                               const char *path, int fd, uint64_t most)
{
    const uint64_t room = s->file_bytes && s->file_bytes < most ? s->file_bytes
                          : s->file_bytes ? most : most < 1u << 20 ? most : 1u << 20;
    s->data = sonde__alloc((size_t)room + 1);
    if (!s->data) {
        return sonde_cli_fail(cli, "out of memory for '%s': measure less of it with --max-bytes",
                              path);
    }
    const ssize_t n = sonde_file_read_full(fd, s->data, (size_t)room);
    if (n < 0) return sonde_cli_usage(cli, "cannot read '%s': %s", path, sonde_strerror((int)n));
    s->bytes = (uint64_t)n;
    if (s->file_bytes < s->bytes) s->file_bytes = s->bytes;
    return 0;
}

static int bench_compress_input(const struct sonde_cli *cli, struct bench_compress_state *s)
{
    const struct bench_compress_values *v = cli->values;
    uint64_t most;
    if (!v->sample == !cli->operand_count) {
        return sonde_cli_usage(cli, v->sample ? "FILE or --sample, not both"
                                              : "say what to compress: FILE, or --sample KIND");
    }
    if (!v->sample && (v->type || v->size || v->seed)) {
        return sonde_cli_usage(cli, "--type, --size and --seed are for --sample");
    }
    int bad = bench_compress_bytes(cli, "max-bytes", v->max_bytes, BENCH_COMPRESS_BYTES, &most);
    if (bad) return bad;
    if (v->sample) return bench_compress_sample(cli, s);
    const char *path = cli->operands[0];
    const int fd = sonde_bench_file_open(cli, path, &s->file_bytes);
    if (fd < 0) return SONDE_EXIT_USAGE;
    bad = bench_compress_read(cli, s, path, fd, most);
    close(fd);
    snprintf(s->source, sizeof(s->source), "%.300s", sonde_path_base(path));
    return bad;
}

/* ---- What was found -------------------------------------------------------------------------- */

static const struct sonde_column bench_compress_columns[] = {
    { .title = "codec" },
    { .title = "threads", .align = SONDE_RIGHT },
    { .title = "block", .align = SONDE_RIGHT },
    { .title = "ratio", .align = SONDE_RIGHT },
    { .title = "compress MB/s", .align = SONDE_RIGHT },
    { .title = "mean", .align = SONDE_RIGHT, .drop = 2 },
    { .title = "decompress MB/s", .align = SONDE_RIGHT },
    { .title = "mean", .align = SONDE_RIGHT, .drop = 2 },
    { .title = "memory", .align = SONDE_RIGHT, .drop = 1 },
    { .title = "to unpack", .align = SONDE_RIGHT, .drop = 1 },
    { .title = "front" },
    { .title = "" },
};

static void bench_compress_speed(struct sonde_table *t, size_t column, const double *seconds,
                                 size_t turns, uint64_t bytes)
{
    const double mega = (double)bytes * 1e-6, noise = sonde_compress_noise(seconds, turns);
    if (!turns) return;
    sonde_table_cell(t, column, "%.1f", mega / sonde_compress_best(seconds, turns));
    sonde_table_cell(t, column + 1, isnan(noise) ? "%.1f" : "%.1f ±%.1f%%",
                     mega / sonde_compress_mean(seconds, turns), 100 * noise);
}

static void bench_compress_memory(struct sonde_table *t, size_t column, int64_t bytes)
{
    char text[SONDE_VALUE_BYTES];
    sonde_table_cell(t, column, "%s", sonde_value_format(text, bytes < 0 ? (double)NAN
                                                                         : (double)bytes,
                                                         SONDE_UNIT_BYTES, 0));
}

static void bench_compress_table(const struct bench_compress_state *s, struct sonde_table *t)
{
    char name[SONDE_COMPRESS_NAME_BYTES], text[SONDE_VALUE_BYTES];
    for (size_t i = 0; i < s->count; i++) {
        const struct sonde_compress_row *r = &s->rows[i];
        sonde_table_row(t);
        sonde_table_cell(t, 0, "%s", sonde_compress_row_name(r, name));
        sonde_table_cell(t, 1, "%u%s", r->threads, r->own_threads ? "*" : "");
        sonde_table_cell(t, 2, "%s", r->block_bytes
                         ? sonde_value_format(text, (double)r->block_bytes, SONDE_UNIT_BYTES, 0)
                         : "whole");
        if (r->state != SONDE_COMPRESS_MEASURED) {
            sonde_table_cell(t, 11, "%s: %s", r->state == SONDE_COMPRESS_FAILED ? "FAILED"
                                                                               : "left out",
                             r->why);
            continue;
        }
        if (s->bytes) {
            sonde_table_cell(t, 3, "%.3f", (double)s->bytes / (double)r->packed_bytes);
        }
        bench_compress_speed(t, 4, r->pack_s, r->turns, s->bytes);
        bench_compress_speed(t, 6, r->unpack_s, r->turns, s->bytes);
        bench_compress_memory(t, 8, r->pack_memory_bytes);
        bench_compress_memory(t, 9, r->unpack_memory_bytes);
        sonde_table_cell(t, 10, "%s%s", r->pack_front ? "c" : " ", r->unpack_front ? "d" : " ");
    }
}

static const char *bench_compress_which(const struct sonde_compress_row *r, char *out, size_t size)
{
    char name[SONDE_COMPRESS_NAME_BYTES], text[SONDE_VALUE_BYTES];
    snprintf(out, size, "%s%s%s", sonde_compress_row_name(r, name),
             r->block_bytes ? " in blocks of " : "",
             r->block_bytes ? sonde_value_format(text, (double)r->block_bytes, SONDE_UNIT_BYTES, 0)
                            : "");
    return out;
}

static void bench_compress_spans(const struct bench_compress_state *s, uint32_t threads,
                                 struct sonde_buf *out)
{
    struct sonde_compress_span spans[BENCH_COMPRESS_SPANS];
    char which[96];
    const size_t n = sonde_compress_spans(s->rows, s->count, threads, spans, SONDE_COUNT(spans));
    if (n < 2) return;
    sonde_buf_puts(out, "fastest over a network, by its bandwidth: ");
    for (size_t i = 0; i < n; i++) {
        if (i) sonde_buf_printf(out, ", below %.4g MB/s ", spans[i].to_bytes_per_s * 1e-6);
        sonde_buf_puts(out, bench_compress_which(spans[i].row, which, sizeof(which)));
    }
    sonde_buf_putc(out, '\n');
}

static void bench_compress_tail(const struct bench_compress_state *s, struct sonde_buf *out)
{
    char which[96], tie[96];
    sonde_buf_puts(out, "front: no other row has both a better ratio and a higher speed of c "
                        "compressing, d decompressing\n");
    for (size_t t = 0; t < s->thread_count && s->bytes; t++) {
        struct sonde_compress_needs needs = s->needs;
        needs.threads = (uint32_t)s->threads[t];
        for (int use = 0; use < SONDE_COMPRESS_USE_COUNT; use++) {
            struct sonde_compress_choice c;
            sonde_compress_choose(s->rows, s->count, &needs, (enum sonde_compress_use)use, &c);
            sonde_buf_printf(out, "%s", sonde_compress_use_name((enum sonde_compress_use)use));
            if (s->thread_count > 1) {
                sonde_buf_printf(out, " (%u thread%s)", needs.threads,
                                 needs.threads > 1 ? "s" : "");
            }
            if (!c.row) sonde_buf_printf(out, ": %s\n", c.why);
            else sonde_buf_printf(out, ": %s: %s%s%s%s\n",
                                  bench_compress_which(c.row, which, sizeof(which)), c.why,
                                  c.tie ? " (as good: " : "",
                                  c.tie ? bench_compress_which(c.tie, tie, sizeof(tie)) : "",
                                  c.tie ? ")" : "");
        }
        bench_compress_spans(s, needs.threads, out);
    }
}

static int bench_compress_report(const struct sonde_cli *cli, struct bench_compress_state *s,
                                 struct sonde_bench_result *r)
{
    const struct bench_compress_values *v = cli->values;
    struct sonde_table table;
    struct sonde_buf head, tail;
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    sonde_table_init(&table, bench_compress_columns, SONDE_COUNT(bench_compress_columns));
    sonde_buf_init(&head, 1 << 16);
    sonde_buf_init(&tail, 1 << 20);
    sonde_buf_printf(&head, "%s, %s", s->source,
                     sonde_value_format(a, (double)s->bytes, SONDE_UNIT_BYTES, 0));
    if (s->file_bytes > s->bytes) {
        sonde_buf_printf(&head, ", the beginning of %s",
                         sonde_value_format(b, (double)s->file_bytes, SONDE_UNIT_BYTES, 0));
    }
    sonde_buf_puts(&head, "; every row was unpacked again and compared\n");
    sonde_bench_form_doubts(r, &tail);
    bench_compress_table(s, &table);
    bench_compress_tail(s, &tail);
    return sonde_bench_form_write(cli, &v->form, r, &head, &table, &tail);
}

/* ---- The command ----------------------------------------------------------------------------- */

/* Reasons not to trust it, and how many rows failed. */
static size_t bench_compress_doubts(const struct bench_compress_state *s,
                                    struct sonde_bench_result *r)
{
    char which[96];
    size_t failed = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->rows[i].state != SONDE_COMPRESS_FAILED) continue;
        failed++;
        sonde_bench_result_doubt(r, "%s: %s",
                                 bench_compress_which(&s->rows[i], which, sizeof(which)),
                                 s->rows[i].why);
    }
    if (!s->bytes) {
        sonde_bench_result_doubt(r, "the input is empty: round trips were checked, there is "
                                 "nothing to time");
    }
    return failed;
}

static int bench_compress_measure(const struct sonde_cli *cli, struct bench_compress_state *s)
{
    const struct bench_compress_values *v = cli->values;
    const char *what = v->sample ? v->sample : cli->operands[0];
    struct sonde_bench_result r;
    struct sonde_progress progress;
    struct sonde_err err = { "" };
    sonde_bench_result_init(&r, "compress", sonde_path_base(what));
    r.seed = v->sample ? (v->seed ? v->seed : 1) : 0;
    sonde_bench_result_command(&r, cli->operands, (size_t)cli->operand_count);
    sonde_progress_begin(&progress, cli, "compressing", what);
    const struct sonde_compress_options o = {
        .data = s->data, .bytes = (size_t)s->bytes, .time_s = v->time_s > 0 ? v->time_s : 1,
        .turns_min = v->turns ? (uint32_t)v->turns : 5, .until_ratio = s->until,
        .limit_s = v->limit_s > 0 ? v->limit_s : 10, .tell = sonde_progress_told,
        .arg = &progress };
    int status = sonde_compress_run(&o, s->rows, s->count, &err);
    sonde_progress_end(&progress);
    sonde_bench_result_end(&r);
    if (status) {
        status = sonde_cli_fail(cli, "%s", err.text);
    } else {
        const size_t failed = bench_compress_doubts(s, &r);
        sonde_json_str(&r.extra, "source", s->source);
        sonde_json_u64(&r.extra, "file_bytes", s->file_bytes);
        status = sonde_compress_result(s->rows, s->count, &s->needs, &r)
                     ? sonde_cli_fail(cli, "out of memory") : bench_compress_report(cli, s, &r);
        if (!status && failed) status = SONDE_EXIT_FAIL;
    }
    sonde_bench_result_release(&r);
    return status;
}

static int bench_compress_run(struct sonde_cli *cli)
{
    const struct bench_compress_values *v = cli->values;
    struct bench_compress_state s = {
        .needs = { .saving_min = 0.05, .bandwidth_bytes_per_s = 125e6, .archive_slack = 0.01 } };
    int status = sonde_bench_form_check(cli, &v->form);
    if (!status && v->until && (sonde_bench_share_parse(v->until, &s.until) || s.until <= 0)) {
        status = sonde_cli_usage(cli, "--until: '%.60s' is not a share, as 2%%", v->until);
    }
    if (!status && v->saving && sonde_bench_share_parse(v->saving, &s.needs.saving_min)) {
        status = sonde_cli_usage(cli, "--min-saving: '%.60s' is not a share, as 5%%", v->saving);
    }
    if (!status && v->bandwidth &&
        sonde_bench_rate_parse(v->bandwidth, &s.needs.bandwidth_bytes_per_s)) {
        status = sonde_cli_usage(cli, "--bandwidth: '%.60s' is not a rate, as 10Gbit/s or 100MB/s",
                                 v->bandwidth);
    }
    if (!status) status = bench_compress_rows(cli, &s);
    if (!status) status = bench_compress_input(cli, &s);
    s.needs.bytes = (size_t)s.bytes;
    if (!status) status = bench_compress_measure(cli, &s);
    for (size_t i = 0; i < s.count; i++) sonde_compress_row_release(&s.rows[i]);
    sonde__free(s.rows);
    sonde__free(s.data);
    return status;
}

const struct sonde_command sonde_bench_cmd_compress = {
    .name = "bench compress",
    .summary = "ratio, speed and memory of compression, verified, and which to use for what",
    .usage = "[options] FILE | --sample KIND",
    .details =
        "Compresses a file, or data made up as inference moves it about, with deflate, gzip, LZ4, "
        "LZ4 HC, Zstandard, Snappy, Brotli and libdeflate, by their own libraries, and back; every "
        "result is compared with the input byte by byte. Rows take turns, so that a machine that "
        "is slow for a while is slow for all of them; the best turn is what zstd -b and lz4 -b "
        "print.\n"
        "\n"
        "What to use is computed from what was measured: the fast path is the least time for both "
        "ways of those that save at least --min-saving; network the least time to compress, send "
        "at --bandwidth and decompress; archive the smallest, and of those within 1 % of it the "
        "fastest.\n"
        "\n"
        "examples:\n"
        "  sonde bench compress model.gguf --max-bytes 64M\n"
        "  sonde bench compress --sample kv --type q8_0 --codec zstd:1-9 --codec lz4\n"
        "  sonde bench compress trace.json --threads 1,2 --block 64K,1M,whole --bandwidth 10Gbit/s",
    .options = bench_compress_options,
    .values_size = sizeof(struct bench_compress_values),
    .operands_max = 1,
    .run = bench_compress_run,
};
