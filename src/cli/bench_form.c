/* bench_form.c - see bench_form.h. */
#include "cli/bench_form.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/visible.h"
#include "sonde/sonde.h"

#define BENCH_FORM_OUTPUT_MAX SONDE_BENCH_JSON_MAX

struct form_unit { const char *name; double factor; };

static const struct form_unit form_bytes[] = {
    { "", 1 },            { "B", 1 },           { "K", 1024 },          { "KiB", 1024 },
    { "M", 1048576.0 },   { "MiB", 1048576.0 }, { "G", 1073741824.0 },  { "GiB", 1073741824.0 },
    { "kB", 1e3 },        { "KB", 1e3 },        { "MB", 1e6 },          { "GB", 1e9 },
};

static const struct form_unit form_rates[] = {
    { "B", 1 },      { "kB", 1e3 },       { "KB", 1e3 },      { "MB", 1e6 },     { "GB", 1e9 },
    { "KiB", 1024 }, { "MiB", 1048576.0 }, { "GiB", 1073741824.0 }, { "bit", 0.125 },
    { "kbit", 125 }, { "Kbit", 125 },     { "Mbit", 125e3 },  { "Gbit", 125e6 },
};

/* The number at text and where it ends; -1: there is none. No signs, blanks, hexadecimal. */
static double form_number(const char *text, char **end)
{
    *end = (char *)(uintptr_t)text;
    if ((text[0] < '0' || text[0] > '9') && text[0] != '.') return -1;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) return -1;
    const double v = strtod(text, end);
    return *end != text && isfinite(v) ? v : -1;
}

static double form_scaled(const char *text, size_t len, const struct form_unit *units, size_t count)
{
    char copy[64], *end;
    if (!len || len >= sizeof(copy)) return -1;
    memcpy(copy, text, len);
    copy[len] = '\0';
    const double v = form_number(copy, &end);
    for (size_t i = 0; v >= 0 && i < count; i++) {
        if (!strcmp(end, units[i].name)) return v * units[i].factor;
    }
    return -1;
}

int sonde_bench_bytes_parse(const char *text, size_t len, uint64_t *out)
{
    const double v = form_scaled(text, len, form_bytes, SONDE_COUNT(form_bytes));
    if (v < 0 || v > 9e18 || v != floor(v)) return SONDE_EINVAL;
    *out = (uint64_t)v;
    return 0;
}

int sonde_bench_rate_parse(const char *text, double *out)
{
    size_t len = strlen(text);
    if (len > 2 && !strcmp(text + len - 2, "/s")) len -= 2;
    const double v = form_scaled(text, len, form_rates, SONDE_COUNT(form_rates));
    if (!(v > 0)) return SONDE_EINVAL;
    *out = v;
    return 0;
}

int sonde_bench_share_parse(const char *text, double *out)
{
    static const struct form_unit units[] = { { "", 1 }, { "%", 0.01 } };
    const double v = form_scaled(text, strlen(text), units, SONDE_COUNT(units));
    if (v < 0 || v > 1) return SONDE_EINVAL;
    *out = v;
    return 0;
}

int sonde_bench_list_parse(const struct sonde_cli *cli, const char *option, const char *text,
                           const char *word, uint64_t min, uint64_t max,
                           uint64_t out[SONDE_BENCH_FORM_MAX], size_t *count)
{
    *count = 0;
    for (const char *at = text;; at++) {
        const size_t len = strcspn(at, ",");
        uint64_t v = 0;
        const int is_word = word && len == strlen(word) && !strncmp(at, word, len);
        if (!is_word && (sonde_bench_bytes_parse(at, len, &v) || v < min || v > max)) {
            return sonde_cli_usage(cli, "--%s: '%.*s' is not a number from %llu to %llu%s%s",
                                   option, (int)(len < 60 ? len : 60), at, (unsigned long long)min,
                                   (unsigned long long)max, word ? ", or " : "", word ? word : "");
        }
        if (*count == SONDE_BENCH_FORM_MAX) {
            return sonde_cli_usage(cli, "--%s: more than %u items", option, SONDE_BENCH_FORM_MAX);
        }
        out[(*count)++] = v;
        at += len;
        if (!*at) return 0;
    }
}

/* ---- Forms ----------------------------------------------------------------------------------- */

int sonde_bench_form_check(const struct sonde_cli *cli, const struct sonde_bench_form_values *v)
{
    return sonde_cli_bench_begin(cli, &v->out, cli->command->name);
}

/* Quoted if it holds what CSV is made of. */
static void form_csv_cell(struct sonde_buf *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        sonde_buf_puts(out, text);
        return;
    }
    sonde_buf_putc(out, '"');
    for (; *text; text++) {
        if (*text == '"') sonde_buf_putc(out, '"');
        sonde_buf_putc(out, *text);
    }
    sonde_buf_putc(out, '"');
}

static void form_markdown_cell(struct sonde_buf *out, const char *text)
{
    sonde_buf_putc(out, ' ');
    for (; *text; text++) {
        if (*text == '|') sonde_buf_putc(out, '\\');
        sonde_buf_putc(out, *text == '\n' ? ' ' : *text);
    }
    sonde_buf_puts(out, " |");
}

static void form_table_lines(const struct sonde_table *t, int markdown, struct sonde_buf *out)
{
    for (size_t r = 0; r <= t->row_count; r++) {
        if (markdown) sonde_buf_putc(out, '|');
        for (size_t c = 0; c < t->column_count; c++) {
            const char *text = r ? sonde_table_text(t, r - 1, c) : t->columns[c].title;
            if (markdown) {
                form_markdown_cell(out, text);
            } else {
                if (c) sonde_buf_putc(out, ',');
                form_csv_cell(out, text);
            }
        }
        sonde_buf_putc(out, '\n');
        if (!markdown || r) continue;
        sonde_buf_putc(out, '|');
        for (size_t c = 0; c < t->column_count; c++) {
            sonde_buf_puts(out, t->columns[c].align == SONDE_RIGHT ? " ---: |" : " --- |");
        }
        sonde_buf_putc(out, '\n');
    }
}

/* Lines as paragraphs: an empty one between any two. */
static void form_paragraphs(const struct sonde_buf *text, struct sonde_buf *out)
{
    for (size_t i = 0; i < text->len; i++) {
        sonde_buf_putc(out, text->data[i]);
        if (text->data[i] == '\n') sonde_buf_putc(out, '\n');
    }
}

void sonde_bench_form_doubts(const struct sonde_bench_result *r, struct sonde_buf *out)
{
    for (size_t i = 0; i < r->reason_count; i++) {
        sonde_buf_printf(out, "not valid: %s\n", r->reasons[i]);
    }
}

int sonde_bench_form_write(const struct sonde_cli *cli, const struct sonde_bench_form_values *v,
                           const struct sonde_bench_result *r, struct sonde_buf *head,
                           struct sonde_table *table, struct sonde_buf *tail)
{
    const char *format = sonde_cli_bench_form(&v->out);
    struct sonde_buf out;
    sonde_buf_init(&out, BENCH_FORM_OUTPUT_MAX);
    if (!strcmp(format, "json")) {
        sonde_bench_result_json(r, &out);
    } else if (!strcmp(format, "csv")) {
        form_table_lines(table, 0, &out);
    } else if (!strcmp(format, "markdown")) {
        form_paragraphs(head, &out);
        form_table_lines(table, 1, &out);
        sonde_buf_putc(&out, '\n');
        form_paragraphs(tail, &out);
    } else {
        sonde_buf_add(&out, head->data, head->len);
        sonde_table_render(table, v->out.output ? 0 : sonde_cli_width(), 0, &out);
        sonde_buf_add(&out, tail->data, tail->len);
        if (out.data && !out.error) out.len = sonde_visible(out.data, out.len);
    }
    const int bad = out.error || table->error || head->error || tail->error;
    const int status = bad ? sonde_cli_fail(cli, "out of memory")
                           : sonde_cli_write(cli, v->out.output, &out);
    sonde_buf_release(&out);
    sonde_buf_release(head);
    sonde_buf_release(tail);
    sonde_table_release(table);
    const int kept = sonde_cli_bench_keep(cli, &v->out, r);
    return status ? status : kept;
}

/* ---- Files ----------------------------------------------------------------------------------- */

int sonde_bench_file_open(const struct sonde_cli *cli, const char *path, uint64_t *bytes)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        sonde_cli_usage(cli, "cannot open '%s': %s", path, strerror(errno));
        return -1;
    }
    const char *why = fstat(fd, &st)        ? strerror(errno)
                      : S_ISREG(st.st_mode) ? NULL
                      : S_ISDIR(st.st_mode) ? "it is a directory: name a file in it"
                      : S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)
                          ? "it is a pipe: write what comes out of it to a file first"
                          : "it is a device, not a file";
    if (!why) {
        *bytes = (uint64_t)st.st_size;
        return fd;
    }
    close(fd);
    sonde_cli_usage(cli, "cannot measure with '%s': %s", path, why);
    return -1;
}
