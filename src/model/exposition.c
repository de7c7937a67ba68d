/* exposition.c - see exposition.h.
 *
 * A line at a time, in one pass. Names and unescaped label values of a sample are put into one
 * buffer of bounded size; the family that TYPE, HELP and UNIT speak of is the last one that was
 * named, since all lines of a family stand together. */
#include "model/exposition.h"

#include <ctype.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "sonde/sonde.h"

enum { NUMBER_BYTES = 64, NAME_BYTES = 512, TEXT_BYTES = 1 << 16 };

struct exposition_reader {
    const char *at, *end;           /* of the line: without its newline */
    size_t line;
    int openmetrics;
    const struct sonde_exposition_sink *sink;
    struct sonde_err *err;
    struct sonde_buf text;          /* of the sample at hand */
    struct sonde_buf help;
    char family[NAME_BYTES], unit[NAME_BYTES];
    enum sonde_exposition_type type;
    struct sonde_label label[SONDE_EXPOSITION_LABELS_MAX];
    size_t offset[SONDE_EXPOSITION_LABELS_MAX][2]; /* of name and value in text, until it is
                                                    * whole */
    size_t label_count;
};

static const struct {
    const char *name;
    enum sonde_exposition_type type;
    int openmetrics;
} types[] = {
    { "counter", SONDE_EXPOSITION_COUNTER, 0 },
    { "gauge", SONDE_EXPOSITION_GAUGE, 0 },
    { "histogram", SONDE_EXPOSITION_HISTOGRAM, 0 },
    { "summary", SONDE_EXPOSITION_SUMMARY, 0 },
    { "untyped", SONDE_EXPOSITION_UNKNOWN, 0 },
    { "unknown", SONDE_EXPOSITION_UNKNOWN, 1 },
    { "info", SONDE_EXPOSITION_INFO, 1 },
    { "stateset", SONDE_EXPOSITION_STATESET, 1 },
    { "gaugehistogram", SONDE_EXPOSITION_GAUGEHISTOGRAM, 1 },
};

static int exposition_bad(struct exposition_reader *r, const char *what)
{
    char shown[41] = "";
    const size_t left = (size_t)(r->end - r->at), n = left < 40 ? left : 40;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)r->at[i];
        shown[i] = c < 0x20 || c > 0x7e ? '?' : (char)c;
    }
    shown[n] = '\0';
    return sonde_err_set(r->err, SONDE_EFORMAT, "line %zu: %s at \"%s\"", r->line, what, shown);
}

static int exposition_no_memory(struct exposition_reader *r)
{
    return sonde_err_set(r->err, SONDE_ENOMEM, "no memory for what it sent");
}

static void skip_blanks(struct exposition_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t')) r->at++;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static size_t exposition_name_len(const struct exposition_reader *r, int colons)
{
    const char *p = r->at;
    if (p == r->end || isdigit((unsigned char)*p)) return 0;
    while (p < r->end && (isalnum((unsigned char)*p) || *p == '_' || (colons && *p == ':'))) p++;
    return (size_t)(p - r->at);
}

int sonde_exposition_number(const char *text, const char *end, double *out)
{
    char copy[NUMBER_BYTES];
    const size_t len = (size_t)(end - text);
    if (!len || len >= sizeof(copy)) return -1;
    memcpy(copy, text, len);
    copy[len] = '\0';
    const char *word = copy + (copy[0] == '+' || copy[0] == '-');
    const int known = !strcasecmp(word, "inf") || !strcasecmp(word, "infinity") ||
                      !strcasecmp(copy, "nan");
    /* strtod takes more than is allowed: spaces, nan(…). */
    if (!known && copy[strspn(copy, "+-.0123456789eExXpPaAbBcCdDfF")]) return -1;
    char *stop;
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    *out = strtod_l(copy, &stop, plain);
    freelocale(plain);
    return *stop || stop == copy ? -1 : 0;
}

static const char *exposition_word_end(const struct exposition_reader *r)
{
    const char *p = r->at;
    while (p < r->end && *p != ' ' && *p != '\t') p++;
    return p;
}

static int exposition_read_number(struct exposition_reader *r, double *out, const char *what)
{
    const char *stop = exposition_word_end(r);
    if (sonde_exposition_number(r->at, stop, out) != 0) return exposition_bad(r, what);
    r->at = stop;
    return 0;
}

/* ---- Labels ---------------------------------------------------------------------------------- */

/* From behind the opening quote to behind the closing one. */
static int exposition_read_quoted(struct exposition_reader *r)
{
    const size_t from = r->text.len;
    for (;; r->at++) {
        const char *plain = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\') r->at++;
        sonde_buf_add(&r->text, plain, (size_t)(r->at - plain));
        if (r->at == r->end) return exposition_bad(r, "a label's value does not end");
        if (*r->at == '"') break;
        if (++r->at == r->end) return exposition_bad(r, "a label's value does not end");
        if (*r->at == 'n') sonde_buf_putc(&r->text, '\n');
        else if (*r->at == '\\' || *r->at == '"') sonde_buf_putc(&r->text, *r->at);
        else return exposition_bad(r, "an escape that there is not");
    }
    r->at++;
    if (r->text.error == SONDE_ENOMEM) return exposition_no_memory(r);
    if (r->text.error) return exposition_bad(r, "too long a sample");
    if (memchr(r->text.data + from, 0, r->text.len - from) ||
        !sonde__utf8_valid(r->text.data + from, r->text.len - from)) {
        return exposition_bad(r, "a label's value is not UTF-8 text, before");
    }
    sonde_buf_add(&r->text, "", 1);
    return 0;
}

static int exposition_read_label(struct exposition_reader *r)
{
    const size_t len = exposition_name_len(r, 0);
    if (!len) return exposition_bad(r, "no label's name");
    if (r->label_count == SONDE_EXPOSITION_LABELS_MAX) return exposition_bad(r, "too many labels");
    r->offset[r->label_count][0] = r->text.len;
    sonde_buf_add(&r->text, r->at, len);
    sonde_buf_add(&r->text, "", 1);
    r->at += len;
    skip_blanks(r);
    if (r->at == r->end || *r->at++ != '=') return exposition_bad(r, "no = behind a label's name");
    skip_blanks(r);
    if (r->at == r->end || *r->at++ != '"') return exposition_bad(r, "no quoted value of a label");
    r->offset[r->label_count++][1] = r->text.len;
    return exposition_read_quoted(r);
}

/* Behind { to behind }. keep = 0: an exemplar's, which are forgotten. */
static int read_labels(struct exposition_reader *r, int keep)
{
    const size_t text = r->text.len, count = r->label_count;
    for (;;) {
        skip_blanks(r);
        if (r->at < r->end && *r->at == '}') break;
        const int rc = exposition_read_label(r);
        if (rc) return rc;
        skip_blanks(r);
        if (r->at < r->end && *r->at == ',') r->at++;
        else if (r->at == r->end || *r->at != '}')
            return exposition_bad(r, "neither , nor } behind a label");
    }
    r->at++;
    if (!keep) {
        r->text.len = text;
        r->label_count = count;
    }
    return 0;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static const char *const suffixes[][5] = {
    [SONDE_EXPOSITION_COUNTER] = { "_total", "_created" },
    [SONDE_EXPOSITION_HISTOGRAM] = { "_bucket", "_sum", "_count", "_created" },
    [SONDE_EXPOSITION_SUMMARY] = { "_sum", "_count", "_created" },
    [SONDE_EXPOSITION_INFO] = { "_info" },
    [SONDE_EXPOSITION_GAUGEHISTOGRAM] = { "_bucket", "_gsum", "_gcount" },
    [SONDE_EXPOSITION_STATESET] = { NULL },
};

/* 1 if a sample of this name is of the family that was named last. */
static int of_family(const struct exposition_reader *r, const char *name)
{
    const size_t len = strlen(r->family);
    if (!len || strncmp(name, r->family, len) != 0) return 0;
    if (!name[len]) return 1;
    for (size_t i = 0; i < 4 && suffixes[r->type][i]; i++) {
        if (strcmp(name + len, suffixes[r->type][i]) == 0) return 1;
    }
    return 0;
}

static void forget_family(struct exposition_reader *r)
{
    r->family[0] = r->unit[0] = '\0';
    r->type = SONDE_EXPOSITION_UNKNOWN;
    sonde_buf_reset(&r->help);
}

static int exposition_read_time(struct exposition_reader *r, struct sonde_exposition_sample *s)
{
    const int rc = exposition_read_number(r, &s->time_s, "no time");
    if (rc) return rc;
    if (!r->openmetrics) s->time_s *= 1e-3;
    s->has_time = 1;
    return 0;
}

/* ` # {a="b"} value [time]` */
static int read_exemplar(struct exposition_reader *r)
{
    double ignored;
    r->at++;
    skip_blanks(r);
    if (!r->openmetrics || r->at == r->end || *r->at != '{') {
        return exposition_bad(r, "no exemplar");
    }
    r->at++;
    int rc = read_labels(r, 0);
    skip_blanks(r);
    if (!rc) rc = exposition_read_number(r, &ignored, "no value of an exemplar");
    skip_blanks(r);
    if (!rc && r->at < r->end) rc = exposition_read_number(r, &ignored, "no time of an exemplar");
    return rc;
}

static int exposition_give(struct exposition_reader *r, struct sonde_exposition_sample *s)
{
    for (size_t i = 0; i < r->label_count; i++) {
        r->label[i] = (struct sonde_label){ r->text.data + r->offset[i][0],
                                            r->text.data + r->offset[i][1] };
    }
    s->name = r->text.data;
    if (!of_family(r, s->name)) forget_family(r);
    s->labels = r->label;
    s->label_count = r->label_count;
    s->type = r->type;
    s->family = r->family[0] ? r->family : s->name;
    s->help = r->help.len ? r->help.data : "";
    s->unit = r->unit;
    return r->sink->sample(s, r->sink->arg);
}

static int read_sample(struct exposition_reader *r)
{
    struct sonde_exposition_sample s = { 0 };
    const size_t len = exposition_name_len(r, 1);
    int rc = 0;
    if (!len || len >= NAME_BYTES) return exposition_bad(r, "no name of a metric");
    sonde_buf_reset(&r->text);
    r->label_count = 0;
    sonde_buf_add(&r->text, r->at, len);
    sonde_buf_add(&r->text, "", 1);
    r->at += len;
    const int apart = r->at < r->end && (*r->at == ' ' || *r->at == '\t');
    skip_blanks(r);
    if (r->at < r->end && *r->at == '{') {
        r->at++;
        rc = read_labels(r, 1);
        if (rc) return rc;
    } else if (!apart) {
        return exposition_bad(r, "no value of a sample");
    }
    skip_blanks(r);
    rc = exposition_read_number(r, &s.value, "no value of a sample");
    skip_blanks(r);
    if (!rc && r->at < r->end && *r->at != '#') rc = exposition_read_time(r, &s);
    skip_blanks(r);
    if (!rc && r->at < r->end && *r->at == '#') rc = read_exemplar(r);
    skip_blanks(r);
    if (!rc && r->at < r->end) rc = exposition_bad(r, "more than a sample");
    if (!rc && r->text.error) {
        rc =
            r->text.error == SONDE_ENOMEM ? exposition_no_memory(r) : exposition_bad(r, "too long");
    }
    return rc ? rc : exposition_give(r, &s);
}

/* ---- Comments -------------------------------------------------------------------------------- */

static int name_family(struct exposition_reader *r)
{
    const size_t len = exposition_name_len(r, 1);
    if (!len || len >= NAME_BYTES) return exposition_bad(r, "no name of a metric");
    if (strlen(r->family) != len || memcmp(r->family, r->at, len) != 0) {
        forget_family(r);
        memcpy(r->family, r->at, len);
        r->family[len] = '\0';
    }
    r->at += len;
    skip_blanks(r);
    return 0;
}

static int exposition_read_type(struct exposition_reader *r)
{
    const size_t len = (size_t)(exposition_word_end(r) - r->at);
    for (size_t i = 0; i < SONDE_COUNT(types); i++) {
        if (strlen(types[i].name) != len || memcmp(types[i].name, r->at, len) != 0) continue;
        if (types[i].openmetrics && !r->openmetrics) break;
        r->type = types[i].type;
        return 0;
    }
    return exposition_bad(r, "no type of a metric");
}

static int read_help(struct exposition_reader *r)
{
    sonde_buf_reset(&r->help);
    for (; r->at < r->end; r->at++) {
        char c = *r->at;
        if (c == '\\' && r->at + 1 < r->end) {
            const char next = r->at[1];
            if (next == 'n' || next == '\\' || (next == '"' && r->openmetrics)) {
                c = next == 'n' ? '\n' : next;
                r->at++;
            }
        }
        sonde_buf_putc(&r->help, c);
    }
    if (r->help.error == SONDE_ENOMEM) return exposition_no_memory(r);
    if (r->help.error) return exposition_bad(r, "too long a help text");
    if (r->help.len && (memchr(r->help.data, 0, r->help.len) ||
                        !sonde__utf8_valid(r->help.data, r->help.len))) {
        return exposition_bad(r, "a help text that is not UTF-8, before");
    }
    return 0;
}

static int exposition_read_comment(struct exposition_reader *r)
{
    r->at++;
    skip_blanks(r);
    const size_t len = (size_t)(exposition_word_end(r) - r->at);
    const char *word = r->at;
    const int help = len == 4 && !memcmp(word, "HELP", 4),
              type = len == 4 && !memcmp(word, "TYPE", 4),
              unit = len == 4 && !memcmp(word, "UNIT", 4) && r->openmetrics;
    if ((!help && !type && !unit) || r->at + len == r->end) {
        return r->openmetrics ? exposition_bad(r, "a comment that OpenMetrics does not have") : 0;
    }
    r->at += len;
    skip_blanks(r);
    const int rc = name_family(r);
    if (rc || help) return rc ? rc : read_help(r);
    if (type) return exposition_read_type(r);
    const size_t n = (size_t)(r->end - r->at);
    if (n >= sizeof(r->unit) || !sonde__utf8_valid(r->at, n) || memchr(r->at, 0, n)) {
        return exposition_bad(r, "no unit");
    }
    memcpy(r->unit, r->at, n);
    r->unit[n] = '\0';
    return 0;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int exposition_read_line(struct exposition_reader *r)
{
    if (!r->openmetrics) skip_blanks(r);
    if (r->at == r->end) return r->openmetrics ? exposition_bad(r, "an empty line") : 0;
    return *r->at == '#' ? exposition_read_comment(r) : read_sample(r);
}

static int exposition_read_lines(struct exposition_reader *r, const char *text, size_t len)
{
    const char *const stop = text + len;
    int ended = 0;
    for (const char *p = text; p < stop;) {
        const char *newline = memchr(p, '\n', (size_t)(stop - p));
        r->at = p;
        r->end = newline ? newline : stop;
        r->line++;
        if (ended) return exposition_bad(r, "something behind # EOF");
        if (r->openmetrics && r->end - p == 5 && !memcmp(p, "# EOF", 5)) {
            ended = 1;
        } else {
            /* A last line without an end may have been cut. */
            if (!newline) return exposition_bad(r, "a line that does not end");
            if (!r->openmetrics && r->end > p && r->end[-1] == '\r') r->end--;
            const int rc = exposition_read_line(r);
            if (rc) return rc;
        }
        p = newline ? newline + 1 : stop;
    }
    if (r->openmetrics && !ended) {
        return sonde_err_set(r->err, SONDE_EFORMAT, "it does not end with # EOF: cut short?");
    }
    return 0;
}

int sonde_exposition_read(const char *text, size_t len, int openmetrics,
                          const struct sonde_exposition_sink *sink, struct sonde_err *err)
{
    struct exposition_reader r = { .openmetrics = openmetrics, .sink = sink, .err = err };
    sonde_buf_init(&r.text, TEXT_BYTES);
    sonde_buf_init(&r.help, TEXT_BYTES);
    const int rc = exposition_read_lines(&r, text, len);
    sonde_buf_release(&r.text);
    sonde_buf_release(&r.help);
    return rc;
}
