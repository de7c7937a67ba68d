/* bench_tokenizer.c - `sonde bench tokenizer`: tokens per second of a model's vocabulary. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/path.h"
#include "bench/tokenizer.h"
#include "cli/bench_form.h"
#include "cli/progress.h"
#include "present/units.h"
#include "sonde/sonde.h"

struct bench_tokenizer_values {
    struct sonde_bench_form_values form;
    const char *lengths, *kinds, *input, *engine;
    double time_s;
    uint64_t turns;
};

#define AT(field) .offset = offsetof(struct bench_tokenizer_values, field)
static const struct sonde_cli_opt bench_tokenizer_options[] = {
    { .name = "lengths", .type = SONDE_OPT_STR, .value = "N,…", AT(lengths),
      .help = "of inputs, in bytes (default 100,1000,10000,100000)" },
    { .name = "kind", .type = SONDE_OPT_STR, .value = "NAME,…", AT(kinds),
      .help = "text, code, json, unicode (default: all)" },
    { .name = "input", .type = SONDE_OPT_STR, .value = "FILE", AT(input),
      .help = "pieces of this file instead" },
    { .name = "time", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.001, .max = 600,
      AT(time_s), .help = "for each row (default 0.5)" },
    { .name = "turns", .type = SONDE_OPT_UINT, .value = "N", .min = 1,
      .max = SONDE_TOKENIZER_TURNS_MAX, AT(turns),
      .help = "that this time is split into, rows taking turns (default 5)" },
    { .name = "engine", .type = SONDE_OPT_STR, .value = "PROGRAM", AT(engine),
      .help = "the sonde-engine to run (default: beside this program, else in PATH)" },
    SONDE_OPT_BENCH_FORM(struct bench_tokenizer_values, form),
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

static const struct sonde_column bench_tokenizer_columns[] = {
    { .title = "kind" },
    { .title = "bytes", .align = SONDE_RIGHT },
    { .title = "encode tokens/s", .align = SONDE_RIGHT },
    { .title = "MB/s", .align = SONDE_RIGHT },
    { .title = "decode tokens/s", .align = SONDE_RIGHT },
    { .title = "bytes/token", .align = SONDE_RIGHT },
    { .title = "word cache", .align = SONDE_RIGHT },
    { .title = "inputs", .align = SONDE_RIGHT, .drop = 1 },
    { .title = "same again", .align = SONDE_RIGHT },
};

/* Mean of a figure of the result, with its interval. */
static void bench_tokenizer_rate(struct sonde_table *t, size_t column,
                                 const struct sonde_bench_result *r,
                                 const struct sonde_tokenizer_row *row, const char *way)
{
    char name[SONDE_BENCH_NAME_MAX + 1], text[SONDE_VALUE_BYTES];
    snprintf(name, sizeof(name), "%s.%llu.%s_tokens_per_s", row->kind,
             (unsigned long long)row->length, way);
    const struct sonde_bench_figure *f = sonde_bench_figure_find(r, name);
    if (!f) return;
    sonde_value_format(text, f->value, SONDE_UNIT_COUNT, 0);
    if (isnan(f->high)) sonde_table_cell(t, column, "%s", text);
    else sonde_table_cell(t, column, "%s ±%.1f%%", text, 100 * (f->high - f->value) / f->value);
}

static void bench_tokenizer_table(const struct sonde_tokenizer_bench *b,
                                  const struct sonde_bench_result *r, struct sonde_table *t)
{
    char text[SONDE_VALUE_BYTES];
    for (size_t i = 0; i < b->count; i++) {
        const struct sonde_tokenizer_row *row = &b->rows[i];
        const double words = (double)(row->cache_hits + row->cache_misses + row->words_long);
        sonde_table_row(t);
        sonde_table_cell(t, 0, "%s", row->kind);
        sonde_table_cell(t, 1, "%llu", (unsigned long long)row->length);
        bench_tokenizer_rate(t, 2, r, row, "encode");
        sonde_table_cell(t, 3, "%.1f", row->encode_bytes_per_s * 1e-6);
        bench_tokenizer_rate(t, 4, r, row, "decode");
        if (row->tokens) {
            sonde_table_cell(t, 5, "%.2f", (double)row->bytes / (double)row->tokens);
        }
        sonde_table_cell(t, 6, "%s",
                         sonde_value_format(text, words > 0 ? (double)row->cache_hits / words
                                                            : (double)NAN, SONDE_UNIT_RATIO, 0));
        sonde_table_cell(t, 7, "%llu", (unsigned long long)row->inputs);
        sonde_table_cell(t, 8, "%s", row->trips_same == row->trips ? "all" : "");
        if (row->trips_same != row->trips) {
            sonde_table_cell(t, 8, "%llu of %llu", (unsigned long long)row->trips_same,
                             (unsigned long long)row->trips);
        }
    }
}

static int bench_tokenizer_report(const struct sonde_cli *cli,
                                  const struct sonde_tokenizer_bench *b,
                                  const struct sonde_bench_result *r)
{
    const struct bench_tokenizer_values *v = cli->values;
    struct sonde_table table;
    struct sonde_buf head, tail;
    char text[SONDE_VALUE_BYTES];
    sonde_table_init(&table, bench_tokenizer_columns, SONDE_COUNT(bench_tokenizer_columns));
    sonde_buf_init(&head, 1 << 16);
    sonde_buf_init(&tail, 1 << 16);
    sonde_buf_printf(&head, "%s: tokenizer %s, %llu tokens\n", r->name, b->tokenizer,
                     (unsigned long long)b->vocabulary);
    bench_tokenizer_table(b, r, &table);
    for (size_t i = 0; i < b->slow_count && i < 3; i++) {
        const struct sonde_tokenizer_slow *s = &b->slowest[i];
        sonde_buf_printf(&tail, "%s %llu bytes to %llu tokens with %llu merges in %s\n",
                         i ? "        " : "slowest:", (unsigned long long)s->bytes,
                         (unsigned long long)s->tokens, (unsigned long long)s->merges,
                         sonde_value_format(text, s->seconds, SONDE_UNIT_SECONDS, 0));
    }
    sonde_bench_form_doubts(r, &tail);
    return sonde_bench_form_write(cli, &v->form, r, &head, &table, &tail);
}

static void bench_tokenizer_doubts(const struct sonde_tokenizer_bench *b,
                                   struct sonde_bench_result *r)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct sonde_tokenizer_row *row = &b->rows[i];
        if (row->trips_same == row->trips) continue;
        sonde_bench_result_doubt(r, "%s of %llu bytes: %llu of %llu inputs did not come back as "
                                 "they were; this vocabulary cannot say all of them", row->kind,
                                 (unsigned long long)row->length,
                                 (unsigned long long)(row->trips - row->trips_same),
                                 (unsigned long long)row->trips);
    }
}

static int bench_tokenizer_run(struct sonde_cli *cli)
{
    const struct bench_tokenizer_values *v = cli->values;
    struct sonde_tokenizer_bench b = { 0 };
    struct sonde_bench_result r;
    struct sonde_progress progress;
    struct sonde_err err = { "" };
    int status = sonde_bench_form_check(cli, &v->form);
    if (status) return status;
    if (!cli->operand_count) {
        return sonde_cli_usage(cli, "say which vocabulary: sonde bench tokenizer MODEL.gguf");
    }
    const char *model = cli->operands[0];
    sonde_bench_result_init(&r, "tokenizer", sonde_path_base(model));
    sonde_bench_result_command(&r, cli->operands, (size_t)cli->operand_count);
    sonde_progress_begin(&progress, cli, "tokenizing with", model);
    const struct sonde_tokenizer_options o = { .engine = v->engine, .model = model,
        .lengths = v->lengths, .kinds = v->kinds, .input = v->input,
        .seconds = v->time_s > 0 ? v->time_s : 0.5, .turns = v->turns ? (uint32_t)v->turns : 5,
        .tell = sonde_progress_told, .arg = &progress };
    const int rc = sonde_tokenizer_run(&o, &b, &err);
    sonde_progress_end(&progress);
    sonde_bench_result_end(&r);
    if (rc) {
        status = rc == SONDE_EINVAL ? sonde_cli_usage(cli, "%s", err.text)
                                    : sonde_cli_fail(cli, "%s", err.text);
    } else {
        bench_tokenizer_doubts(&b, &r);
        status = sonde_tokenizer_result(&b, &r) ? sonde_cli_fail(cli, "out of memory")
                                                : bench_tokenizer_report(cli, &b, &r);
    }
    sonde_tokenizer_release(&b);
    sonde_bench_result_release(&r);
    return status;
}

const struct sonde_command sonde_bench_cmd_tokenizer = {
    .name = "bench tokenizer",
    .summary = "tokens per second of a GGUF's vocabulary, both ways, by kind and length of input",
    .usage = "[options] MODEL.gguf",
    .details =
        "Encodes pieces of text, code, JSON and other scripts with the vocabulary of a GGUF file "
        "(one without weights will do) and decodes them again; every result is compared with the "
        "input. The tokenizer is that of sonde-engine, which is run for it. Of inputs only counts "
        "and times are kept, never their text.\n"
        "\n"
        "examples:\n"
        "  sonde bench tokenizer model.gguf\n"
        "  sonde bench tokenizer model.gguf --kind text,code --lengths 1000 --json -o t.json",
    .options = bench_tokenizer_options,
    .values_size = sizeof(struct bench_tokenizer_values),
    .operands_max = 1,
    .run = bench_tokenizer_run,
};
