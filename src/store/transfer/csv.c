/* csv.c - series as CSV (RFC 4180), one row a point:
 *
 *   name,labels,type,kind,unit,source,program,pid,scale,help,time_ms,value,start,zero,sum,buckets
 *
 * labels as Prometheus has them, a="b",c="d". value: a counter's total (whole, to be multiplied by
 * scale) or a gauge's value. start: "zero" or "base" where a counter does not go on from the row
 * before (transfer.h). Histograms: zero, sum and buckets ("bucket:count …") are what was added.
 * Files of others need only name, type, time_ms and value; columns may be in any order. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "model/exposition.h"
#include "sonde/sonde.h"
#include "store/transfer/transfer.h"

enum transfer_csv_column {
    NAME, LABELS, TYPE, KIND, UNIT, SOURCE, PROGRAM, PID, SCALE, HELP, TIME, VALUE, START,
    ZERO, SUM, BUCKETS, COLUMNS
};
static const char *const columns[COLUMNS] = {
    "name", "labels", "type", "kind", "unit", "source", "program", "pid", "scale", "help",
    "time_ms", "value", "start", "zero", "sum", "buckets",
};
enum { FIELDS_MAX = 64 };

/* ---- Writing --------------------------------------------------------------------------------- */

/* Without what a terminal would obey: names and labels may be of others. */
static void transfer_csv_put_text(struct sonde_buf *out, const char *text)
{
    const int quoted = strpbrk(text, "\",\r\n") != NULL;
    const size_t begin = out->len;
    if (quoted) sonde_buf_putc(out, '"');
    for (; quoted && *text; text++) {
        if (*text == '"') sonde_buf_putc(out, '"');
        sonde_buf_putc(out, *text);
    }
    sonde_buf_puts(out, quoted ? "\"" : text);
    if (!out->error) out->len = begin + sonde_visible(out->data + begin, out->len - begin);
}

void sonde_transfer_csv_write(struct sonde_transfer_writer *w,
                              const struct sonde_transfer_series *s)
{
    struct sonde_buf head, *out = w->out;
    const char *const texts[] = { s->spec.name, s->spec.labels, sonde_type_name(s->spec.type),
                                  sonde_kind_name(s->spec.kind), s->spec.unit, s->spec.source,
                                  s->spec.program };
    sonde_buf_init(&head, 1 << 20);
    for (size_t i = 0; i < SONDE_COUNT(texts); i++) {
        transfer_csv_put_text(&head, texts[i]);
        sonde_buf_putc(&head, ',');
    }
    sonde_buf_printf(&head, "%u,", s->spec.pid);
    sonde_buf_double(&head, s->spec.scale);
    sonde_buf_putc(&head, ',');
    transfer_csv_put_text(&head, s->spec.help);
    for (size_t i = 0; i < s->count; i++) {
        const struct sonde_transfer_point *p = &s->point[i];
        sonde_buf_add(out, head.data, head.len);
        sonde_buf_printf(out, ",%lld,", (long long)p->time_ms);
        if (s->spec.type == SONDE_COUNTER) {
            sonde_buf_u64(out, p->value);
        } else if (s->spec.type == SONDE_GAUGE) {
            sonde_buf_double(out, sonde_transfer_double(p->value));
        }
        sonde_buf_puts(out, p->start == SONDE_START_ZERO ? ",zero,"
                            : p->start == SONDE_START_BASE && i ? ",base," : ",,");
        if (s->spec.type == SONDE_HISTOGRAM) {
            sonde_buf_printf(out, "%llu,%lld,", (unsigned long long)p->zero, (long long)p->sum_raw);
            for (uint32_t b = 0; b < p->count; b++) {
                const struct sonde_transfer_bucket *one = &s->bucket[p->first + b];
                sonde_buf_printf(out, "%s%u:%llu", b ? " " : "", one->p,
                                 (unsigned long long)one->n);
            }
            sonde_buf_puts(out, "\r\n");
        } else {
            sonde_buf_puts(out, ",,\r\n");
        }
    }
    if (head.error && !out->error) out->error = head.error;
    sonde_buf_release(&head);
    w->series++;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct transfer_csv_reader {
    const char *at, *end;
    size_t line;
    struct sonde_buf text;               /* of a row: fields, each with a NUL */
    size_t offset[FIELDS_MAX];
    size_t count;
    int column[FIELDS_MAX];              /* which one a field is; -1 = none of ours */
    const char *field[COLUMNS];          /* of the row; "" = not there */
    struct sonde_transfer *x;
    struct sonde_transfer_series *s;     /* of the row before */
    struct sonde_err *err;
};

static int transfer_csv_bad(const struct transfer_csv_reader *r, const char *column,
                            const char *what)
{
    return sonde_err_set(r->err, SONDE_EFORMAT, "line %zu: %s%s%s", r->line, column,
                         *column ? " " : "", what);
}

static int transfer_csv_read_quoted(struct transfer_csv_reader *r)
{
    for (r->at++;; r->at++) {
        if (r->at == r->end) return transfer_csv_bad(r, "", "a quote that is not closed");
        if (*r->at == '"') {
            if (r->at + 1 == r->end || r->at[1] != '"') break;
            r->at++;
        }
        if (*r->at == '\n') r->line++;
        sonde_buf_putc(&r->text, *r->at);
    }
    r->at++;
    return 0;
}

/* 1: a row is there; 0: the end; else SONDE_E…. */
static int transfer_csv_read_row(struct transfer_csv_reader *r)
{
    r->count = 0;
    sonde_buf_reset(&r->text);
    if (r->at == r->end) return 0;
    r->line++;
    for (;;) {
        if (r->count == FIELDS_MAX) return transfer_csv_bad(r, "", "too many fields");
        r->offset[r->count++] = r->text.len;
        if (r->at < r->end && *r->at == '"') {
            const int rc = transfer_csv_read_quoted(r);
            if (rc) return rc;
        } else {
            const char *from = r->at;
            while (r->at < r->end && *r->at != ',' && *r->at != '\n' && *r->at != '\r') r->at++;
            sonde_buf_add(&r->text, from, (size_t)(r->at - from));
        }
        sonde_buf_add(&r->text, "", 1);
        if (r->text.error) {
            return r->text.error == SONDE_ENOMEM ? SONDE_ENOMEM
                                                 : transfer_csv_bad(r, "", "too long");
        }
        if (r->at == r->end) return 1;
        if (*r->at == ',') {
            r->at++;
            continue;
        }
        if (*r->at == '\r') r->at++;
        if (r->at == r->end || *r->at != '\n') {
            return transfer_csv_bad(r, "", "something behind a quote");
        }
        r->at++;
        return 1;
    }
}

static int transfer_csv_read_head(struct transfer_csv_reader *r)
{
    int rc = transfer_csv_read_row(r), seen[COLUMNS] = { 0 };
    if (rc < 0) return rc;
    for (size_t i = 0; i < r->count; i++) {
        r->column[i] = -1;
        for (int c = 0; c < COLUMNS; c++) {
            if (strcmp(r->text.data + r->offset[i], columns[c]) != 0 || seen[c]) continue;
            r->column[i] = c;
            seen[c] = 1;
        }
    }
    if (!seen[NAME] || !seen[TYPE] || !seen[TIME] || !seen[VALUE]) {
        return transfer_csv_bad(
            r, "", "the first row must name columns: name, type, time_ms and value at least");
    }
    return 0;
}

static int transfer_csv_whole(const char *text, int is_signed, uint64_t *out)
{
    char *end;
    if (!*text || text[strspn(text, "-0123456789")] || (*text == '-' && !is_signed)) return -1;
    errno = 0;
    *out = is_signed ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
    return errno || *end ? -1 : 0;
}

static int transfer_csv_read_buckets(struct transfer_csv_reader *r, struct sonde_transfer_point *p)
{
    uint64_t before = 0;
    p->first = (uint32_t)r->s->bucket_count;
    for (const char *at = r->field[BUCKETS]; *at;) {
        char *stop;
        const unsigned long bucket = strtoul(at, &stop, 10);
        if (stop == at || *stop != ':' || bucket >= SONDE__HIST_BUCKETS ||
            (p->count && bucket <= before)) {
            return transfer_csv_bad(r, "buckets", "are not bucket:count, ascending");
        }
        at = stop + 1;
        errno = 0;
        const uint64_t n = strtoull(at, &stop, 10);
        if (stop == at || errno || *at == '-' || (*stop && *stop != ' ')) {
            return transfer_csv_bad(r, "buckets", "are not bucket:count, ascending");
        }
        at = stop + (*stop == ' ');
        before = bucket;
        if (sonde_transfer_bucket(r->s, (uint16_t)bucket, n)) return SONDE_ENOMEM;
        p->count++;
    }
    return 0;
}

static int transfer_csv_read_point(struct transfer_csv_reader *r)
{
    struct sonde_transfer_point p = { 0 };
    const char *start = r->field[START], *value = r->field[VALUE];
    uint64_t time_ms;
    double d;
    int rc = 0;
    if (transfer_csv_whole(r->field[TIME], 1, &time_ms)) {
        return transfer_csv_bad(r, "time_ms", "is not a whole number");
    }
    p.time_ms = (int64_t)time_ms;
    if (r->s->spec.type == SONDE_COUNTER) {
        if (transfer_csv_whole(value, 0, &p.value)) {
            return transfer_csv_bad(r, "value", "of a counter is not a whole number");
        }
        p.start = r->s->count ? SONDE_START_NONE : SONDE_START_BASE;
        if (!strcmp(start, "zero")) p.start = SONDE_START_ZERO;
        else if (!strcmp(start, "base")) p.start = SONDE_START_BASE;
        else if (*start) return transfer_csv_bad(r, "start", "is neither empty nor zero nor base");
    } else if (r->s->spec.type == SONDE_GAUGE) {
        if (sonde_exposition_number(value, value + strlen(value), &d)) {
            return transfer_csv_bad(r, "value", "is not a number");
        }
        p.value = sonde_transfer_bits(d);
    } else {
        if (transfer_csv_whole(r->field[ZERO], 0, &p.zero) ||
            transfer_csv_whole(r->field[SUM], 1, &p.sum_raw)) {
            return transfer_csv_bad(r, "zero or sum", "of a histogram is not a whole number");
        }
        rc = transfer_csv_read_buckets(r, &p);
    }
    return rc ? rc : sonde_transfer_point(r->s, &p);
}

/* The series of the row: that of the row before, or a new one. */
static int transfer_csv_find_series(struct transfer_csv_reader *r)
{
    const int type = sonde_transfer_type(r->field[TYPE]);
    const int kind = *r->field[KIND] ? sonde_transfer_kind(r->field[KIND]) : 0;
    double scale = 1;
    uint64_t pid = 0;
    if (!*r->field[NAME]) return transfer_csv_bad(r, "name", "is empty");
    if (type < 0) return transfer_csv_bad(r, "type", "is not counter, gauge or histogram");
    if (kind < 0) return transfer_csv_bad(r, "kind", "is none that there is");
    if (*r->field[PID] && transfer_csv_whole(r->field[PID], 0, &pid)) {
        return transfer_csv_bad(r, "pid", "is not a whole number");
    }
    const char *text = r->field[SCALE];
    if (*text && (sonde_exposition_number(text, text + strlen(text), &scale) || !(scale > 0) ||
                  isinf(scale))) {
        return transfer_csv_bad(r, "scale", "is not a number above 0");
    }
    const struct sonde_store_series *now = r->s ? &r->s->spec : NULL;
    if (now && !strcmp(now->name, r->field[NAME]) && !strcmp(now->labels, r->field[LABELS]) &&
        (int)now->type == type && !(now->scale < scale) && !(now->scale > scale)) {
        return 0;
    }
    for (int c = 0; c < COLUMNS; c++) {
        if (!sonde__utf8_valid(r->field[c], strlen(r->field[c]))) {
            return transfer_csv_bad(r, columns[c], "is not UTF-8");
        }
    }
    char *copy = sonde__strdup(r->field[LABELS]);
    struct sonde_label l[64];
    const int n = copy ? sonde_store_labels(copy, l, 64) : 0;
    sonde__free(copy);
    if (n < 0) return transfer_csv_bad(r, "labels", "are not a=\"b\",c=\"d\"");
    const struct sonde_store_series spec = {
        .name = r->field[NAME], .labels = r->field[LABELS], .unit = r->field[UNIT],
        .source = r->field[SOURCE], .program = r->field[PROGRAM], .help = r->field[HELP],
        .pid = (uint32_t)pid, .scale = scale, .type = (enum sonde_type)type,
        .kind = (enum sonde_kind)kind,
    };
    r->s = sonde_transfer_add(r->x, &spec);
    return r->s ? 0 : SONDE_ENOMEM;
}

int sonde_transfer_csv_read(const char *text, size_t len, struct sonde_transfer *x,
                            struct sonde_err *err)
{
    struct transfer_csv_reader r = { .at = text, .end = text + len, .x = x, .err = err };
    sonde_buf_init(&r.text, 1 << 22);
    int rc = transfer_csv_read_head(&r);
    const size_t fields = r.count;
    while (!rc && (rc = transfer_csv_read_row(&r)) > 0) {
        if (r.count == 1 && !r.text.data[0]) {
            rc = 0; /* an empty line */
            continue;
        }
        if (r.count != fields) {
            rc = transfer_csv_bad(&r, "", "it has more or fewer fields than the first row");
            break;
        }
        for (int c = 0; c < COLUMNS; c++) r.field[c] = "";
        for (size_t i = 0; i < r.count; i++) {
            if (r.column[i] >= 0) r.field[r.column[i]] = r.text.data + r.offset[i];
        }
        rc = transfer_csv_find_series(&r);
        if (!rc) rc = transfer_csv_read_point(&r);
    }
    sonde_buf_release(&r.text);
    return rc == SONDE_ENOMEM ? sonde_err_set(err, rc, "no memory for what is imported") : rc;
}
