/* csv.c - see csv.h. */
#include "present/report/csv.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "sonde/sonde.h"

/* What a spreadsheet takes for the beginning of a formula, or for what may precede one; also as the
 * wide forms that East Asian input methods make. */
static int csv_is_formula(const char *s)
{
    static const char *const wide[] = { "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d",
                                        "\xef\xbc\xa0" };
    if (strchr("=+-@\t\r\n", *s)) return *s != '\0';
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        if (!strncmp(s, wide[i], 3)) return 1;
    }
    return 0;
}

static void csv_put_valid(struct sonde_buf *out, const char *s)
{
    const int formula = csv_is_formula(s);
    if (!formula && !strpbrk(s, "\",\r\n'")) {
        sonde_buf_puts(out, s);
        return;
    }
    sonde_buf_puts(out, formula ? "\"'" : "\"");
    for (; *s; s++) {
        if (*s == '"') sonde_buf_putc(out, '"');
        sonde_buf_putc(out, *s);
    }
    sonde_buf_putc(out, '"');
}

/* Names come from other programs: a reader of UTF-8 is to be able to read all of the file. */
static void csv_put(struct sonde_buf *out, const char *s)
{
    const size_t len = strlen(s), max = 3 * len + 1;
    int changed = 0;
    if (sonde__utf8_valid(s, len)) {
        csv_put_valid(out, s);
        return;
    }
    char *valid = sonde__alloc(max);
    if (!valid) {
        out->error = SONDE_ENOMEM;
        return;
    }
    valid[sonde__utf8_copy(valid, max - 1, s, len, &changed)] = '\0';
    csv_put_valid(out, valid);
    sonde__free(valid);
}

void report_csv_head(struct sonde_buf *out)
{
    sonde_buf_puts(out, "section,program,pid,name,detail,figure,value,unit,text\r\n");
}

static void csv_begin(const struct report_csv *c, const char *figure)
{
    sonde_buf_puts(c->out, c->section);
    sonde_buf_putc(c->out, ',');
    if (c->program) csv_put(c->out, c->program);
    sonde_buf_putc(c->out, ',');
    if (c->pid) sonde_buf_u64(c->out, c->pid);
    sonde_buf_putc(c->out, ',');
    if (c->name) csv_put(c->out, c->name);
    sonde_buf_putc(c->out, ',');
    if (c->detail) csv_put(c->out, c->detail);
    sonde_buf_putc(c->out, ',');
    csv_put(c->out, figure);
    sonde_buf_putc(c->out, ',');
}

void report_csv_num(const struct report_csv *c, const char *figure, double value, const char *unit)
{
    if (!isfinite(value)) return;
    csv_begin(c, figure);
    sonde_buf_double(c->out, value);
    sonde_buf_printf(c->out, ",%s,\r\n", unit);
}

void report_csv_u64(const struct report_csv *c, const char *figure, uint64_t value,
                    const char *unit)
{
    csv_begin(c, figure);
    sonde_buf_u64(c->out, value);
    sonde_buf_printf(c->out, ",%s,\r\n", unit);
}

void report_csv_text(const struct report_csv *c, const char *figure, const char *text)
{
    if (!text || !*text) return;
    csv_begin(c, figure);
    sonde_buf_puts(c->out, ",,");
    csv_put(c->out, text);
    sonde_buf_puts(c->out, "\r\n");
}
