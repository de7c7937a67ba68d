/* prometheus.c - the series of a recording as Prometheus' text format: see profile.h.
 *
 * Samples of a family have to stand together under one head, and those of a recording come in the
 * order they were first seen: so all are gathered as rows, sorted, and written. Label values in
 * tracks are escaped as Prometheus wants them; those of final.h are escaped here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/final_model.h"
#include "analyze/final_tracks.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "present/report/profile.h"
#include "segment/segment.h"
#include "sonde/sonde.h"

enum { NAME_BYTES = 256, OCTAVE = 64 };

enum prom_type { PROM_COUNTER, PROM_GAUGE, PROM_HISTOGRAM, PROM_SUMMARY, PROM_UNTYPED };
static const char *const type_names[] = { "counter", "gauge", "histogram", "summary", "untyped" };

struct prom_row {
    char *name;                 /* owned: of the family, as it is shown */
    char *labels;               /* owned: `a="b"` … */
    enum prom_type type;
    int gained;                 /* the value is what came while it was recorded */
    double value, sum;          /* of a histogram or summary: count and sum */
    const struct sonde_final_series *hist; /* NULL = no buckets */
};

struct prom {
    const struct sonde_profile *p;
    struct prom_row *rows;
    size_t count, cap;
    double from_s, to_s;
    int rc;
};

/* ---- Rows ------------------------------------------------------------------------------------ */

static void prom_put_label(struct sonde_buf *b, const char *name, const char *value)
{
    sonde_buf_printf(b, "%s%s=\"", b->len ? "," : "", name);
    for (; *value; value++) {
        if (*value == '\n') sonde_buf_puts(b, "\\n");
        else if (*value == '\\' || *value == '"') sonde_buf_printf(b, "\\%c", *value);
        else sonde_buf_putc(b, *value);
    }
    sonde_buf_putc(b, '"');
}

static void prom_put_process(struct sonde_buf *b, const char *program, uint32_t pid)
{
    char text[16];
    if (!pid) return;
    snprintf(text, sizeof(text), "%u", pid);
    prom_put_label(b, "process", program);
    prom_put_label(b, "pid", text);
}

/* Takes the labels over. */
static void prom_add(struct prom *m, const char *name, struct sonde_buf *labels,
                     struct prom_row row)
{
    if (labels->error) m->rc = labels->error;
    char *text = labels->error ? NULL : sonde_buf_take(labels);
    sonde_buf_release(labels);
    struct prom_row *to = m->rc ? NULL : SONDE_ARRAY_ADD(m->rows, m->count, m->cap);
    if (!to) {
        m->rc = SONDE_ENOMEM;
        sonde__free(text);
        return;
    }
    *to = row;
    to->labels = text;
    to->name = sonde__strdup(name);
    if (!to->name) m->rc = SONDE_ENOMEM;
}

static enum prom_type prom_type_of(enum sonde_type t)
{
    return t == SONDE_COUNTER ? PROM_COUNTER : t == SONDE_GAUGE ? PROM_GAUGE : PROM_HISTOGRAM;
}

static void prom_add_final(struct prom *m, const struct sonde_final_series *s)
{
    const struct sonde_final_family *f = sonde_final_family_find(s->family);
    struct sonde_buf labels;
    if (!f || m->rc) return;
    sonde_buf_init(&labels, 1 << 20);
    prom_put_label(&labels, f->subject, s->subject);
    if (f->detail) prom_put_label(&labels, f->detail, s->detail);
    if (s->extra && *s->extra) prom_put_label(&labels, "outcome", s->extra);
    prom_put_process(&labels, s->program, s->pid);
    struct prom_row row = { .type = prom_type_of(f->type), .value = s->value };
    if (f->type == SONDE_HISTOGRAM) {
        row.sum = s->value;
        row.value = (double)s->count;
        row.hist = s;
    }
    prom_add(m, s->family, &labels, row);
}

static int prom_ends(const char *name, const char *suffix)
{
    const size_t len = strlen(name), cut = strlen(suffix);
    return len > cut && !strcmp(name + len - cut, suffix);
}

/* The track of the same series under another name of the same stem. */
static const struct sonde_track *prom_beside(const struct prom *m, const struct sonde_track *t,
                                             size_t stem, const char *suffix)
{
    const struct sonde_tracks *all = m->p->tracks;
    for (uint32_t i = 0; i < all->count; i++) {
        const struct sonde_track *x = &all->rows[i];
        if (x->pid == t->pid && !x->gauge && !strncmp(x->family, t->family, stem) &&
            !strcmp(x->family + stem, suffix) && !strcmp(x->labels, t->labels) &&
            !strcmp(x->program, t->program)) {
            return x;
        }
    }
    return NULL;
}

static int prom_has_family(const struct prom *m, const char *name)
{
    for (uint32_t i = 0; i < m->p->tracks->count; i++) {
        if (!strcmp(m->p->tracks->rows[i].family, name)) return 1;
    }
    return 0;
}

struct prom_span { double gained, last; int known; };

static struct prom_span prom_value_of(const struct prom *m, const struct sonde_track *t)
{
    struct prom_span v = { 0, NAN, 0 };
    for (uint32_t k = 0; k < m->p->tracks->tick_count; k++) {
        const struct sonde_track_tick *tick = &m->p->tracks->ticks[k];
        const double from = fmax(tick->end_s - tick->length_s, m->from_s);
        const double to = m->to_s > 0 ? fmin(tick->end_s, m->to_s) : tick->end_s;
        if (isnan(t->values[k]) || to <= from) continue;
        v.gained += t->values[k] * (to - from);
        v.last = t->values[k];
        v.known = 1;
    }
    return v;
}

static void prom_add_track(struct prom *m, const struct sonde_track *t)
{
    char name[NAME_BYTES];
    const size_t count = prom_ends(t->family, "_count") ? strlen(t->family) - 6 : 0;
    const size_t sum = prom_ends(t->family, "_sum") ? strlen(t->family) - 4 : 0;
    const struct prom_span v = prom_value_of(m, t);
    struct prom_row row = { .type = t->gauge ? PROM_GAUGE : PROM_COUNTER, .gained = !t->gauge,
                            .value = t->gauge ? v.last : v.gained };
    if (!v.known || m->rc) return;
    snprintf(name, sizeof(name), "%.200s", t->family);
    if (!t->gauge && sum && prom_beside(m, t, sum, "_count")) return; /* told with its count */
    const struct sonde_track *other = !t->gauge && count ? prom_beside(m, t, count, "_sum") : NULL;
    if (other) {
        row.type = PROM_SUMMARY;
        row.value = round(row.value);
        row.sum = prom_value_of(m, other).gained;
        name[count < NAME_BYTES ? count : 0] = '\0';
    } else if (row.type == PROM_COUNTER && !prom_ends(t->family, "_total")) {
        snprintf(name, sizeof(name), "%.200s_total", t->family);
        if (prom_has_family(m, name)) { /* another's */
            snprintf(name, sizeof(name), "%.200s", t->family);
            row.type = PROM_UNTYPED;
        }
    }
    struct sonde_buf labels;
    sonde_buf_init(&labels, 1 << 20);
    sonde_buf_puts(&labels, t->labels);
    prom_put_process(&labels, t->program, t->pid);
    prom_add(m, name, &labels, row);
}

/* Those that are written from the end of the recording are not written once more. */
static int prom_is_told(const struct prom *m, const struct sonde_track *t)
{
    const struct sonde_final *final = m->p->final;
    for (uint32_t i = 0; final && i < final->count; i++) {
        const char *family = final->series[i].family;
        const size_t len = strlen(family);
        if (!strncmp(t->family, family, len) &&
            (!t->family[len] || !strcmp(t->family + len, "_count") ||
             !strcmp(t->family + len, "_sum"))) {
            return 1;
        }
    }
    return 0;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static int prom_by_name(const void *a, const void *b)
{
    const struct prom_row *x = a, *y = b;
    const int name = strcmp(x->name, y->name);
    if (name || x->type != y->type) return name ? name : SONDE_CMP(x->type, y->type);
    return strcmp(x->labels ? x->labels : "", y->labels ? y->labels : "");
}

static void prom_put_sample(struct sonde_buf *out, const struct prom_row *r, const char *suffix,
                            const char *le, double value)
{
    const int labels = r->labels && *r->labels;
    sonde_buf_printf(out, "%s%s", r->name, suffix);
    if (labels || le) {
        sonde_buf_printf(out, "{%s%s", labels ? r->labels : "", labels && le ? "," : "");
        if (le) sonde_buf_printf(out, "le=\"%s\"", le);
        sonde_buf_putc(out, '}');
    }
    sonde_buf_putc(out, ' ');
    sonde_buf_double(out, value);
    sonde_buf_putc(out, '\n');
}

/* Bounds are powers of two, as /metrics has them. Bucket p ends at p / 64 of that scale: the
 * exponent that is not below it. */
static uint32_t prom_octave(uint32_t p) { return (p + OCTAVE - 1) / OCTAVE; }

/* Octaves that any series of a family has used: all of them show the same bounds, so that they can
 * be added up. */
static void prom_octaves(const struct prom_row *rows, size_t count, uint32_t *low, uint32_t *high)
{
    *low = UINT32_MAX;
    *high = 0;
    for (size_t i = 0; i < count; i++) {
        const struct sonde_final_series *s = rows[i].hist;
        if (!s || !s->bucket_count) continue;
        const uint32_t first = prom_octave(s->buckets[0].p);
        const uint32_t last = prom_octave(s->buckets[s->bucket_count - 1].p);
        if (first < *low) *low = first;
        if (last > *high) *high = last;
    }
}

static void prom_put_buckets(struct sonde_buf *out, const struct prom_row *r, uint32_t low,
                             uint32_t high)
{
    uint64_t below = r->hist->zero;
    uint32_t at = 0;
    for (uint32_t o = low; low != UINT32_MAX && o <= high; o++) {
        struct sonde_buf le;
        for (; at < r->hist->bucket_count && prom_octave(r->hist->buckets[at].p) <= o;
             at++) {
            below += r->hist->buckets[at].n;
        }
        sonde_buf_init(&le, 64);
        sonde_buf_double(&le, sonde__hist_upper(o * OCTAVE));
        prom_put_sample(out, r, "_bucket", le.error ? "+Inf" : le.data, (double)below);
        if (le.error) out->error = le.error;
        sonde_buf_release(&le);
    }
    prom_put_sample(out, r, "_bucket", "+Inf", r->value);
}

static void prom_put_family(struct sonde_buf *out, const struct prom_row *rows, size_t count)
{
    uint32_t low, high;
    const struct prom_row *first = rows;
    sonde_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", first->name,
                     first->type == PROM_GAUGE ? "As it was when the recording ended."
                     : first->gained           ? "What it gained while it was recorded."
                                               : "Since its program began, when the recording "
                                                 "ended.",
                     first->name, type_names[first->type]);
    prom_octaves(rows, count, &low, &high);
    for (size_t i = 0; i < count; i++) {
        const struct prom_row *r = &rows[i];
        const int parts = r->type == PROM_HISTOGRAM || r->type == PROM_SUMMARY;
        if (r->type == PROM_HISTOGRAM) prom_put_buckets(out, r, low, high);
        if (parts) prom_put_sample(out, r, "_sum", NULL, r->sum);
        prom_put_sample(out, r, parts ? "_count" : "", NULL, r->value);
    }
}

/* A family has one type: where two of one name differ, the second kind is left out. */
static void prom_put_all(struct prom *m, struct sonde_buf *out)
{
    if (m->count) qsort(m->rows, m->count, sizeof(*m->rows), prom_by_name);
    for (size_t i = 0, end; i < m->count; i = end) {
        for (end = i + 1; end < m->count && !strcmp(m->rows[end].name, m->rows[i].name) &&
                          m->rows[end].type == m->rows[i].type;) {
            end++;
        }
        prom_put_family(out, &m->rows[i], end - i);
        while (end < m->count && !strcmp(m->rows[end].name, m->rows[i].name)) end++;
    }
}

int sonde_report_prometheus(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                            struct sonde_buf *out, struct sonde_err *err)
{
    const int whole = !f->from_ns && !f->to_ns;
    struct prom m = { .p = p, .from_s = (double)f->from_ns * 1e-9,
                      .to_s = (double)f->to_ns * 1e-9 };
    for (uint32_t i = 0; whole && p->final && i < p->final->count; i++) {
        prom_add_final(&m, &p->final->series[i]);
    }
    for (uint32_t i = 0; p->tracks && i < p->tracks->count; i++) {
        const struct sonde_track *t = &p->tracks->rows[i];
        if (!whole || !prom_is_told(&m, t)) prom_add_track(&m, t);
    }
    if (!m.rc) prom_put_all(&m, out);
    const int rc = m.rc ? m.rc : out->error;
    const int any = m.count > 0;
    for (size_t i = 0; i < m.count; i++) {
        sonde__free(m.rows[i].name);
        sonde__free(m.rows[i].labels);
    }
    sonde__free(m.rows);
    if (rc) return sonde_err_set(err, rc, "no memory for the report");
    return any ? 0 : sonde_err_set(err, SONDE_ENOENT, "there are no series in it: only what `sonde "
                                   "record`, `run` or an agent recorded has some");
}
