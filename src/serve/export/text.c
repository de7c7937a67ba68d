/* text.c - see text.h.
 *
 * A scrape of 100,000 counters should cost little more than copying the answer: a sample is the
 * family's name, the series' labels (escaped once, by the model), and a number. Room is reserved
 * once a series, for the most it can take, and series are fetched from memory ahead of their
 * turn, since they lie anywhere. */
#include "serve/export/text.h"

#include <math.h>
#include <string.h>

#include "base/put.h"
#include "model/classic.h"
#include "model/export_name.h"

enum {
    NUMBER_MAX = 32,     /* bytes of any number */
    SAMPLE_MAX = 160,    /* bytes of a sample beside name and labels, exemplar included */
    AHEAD = 16,          /* series fetched ahead */
};

struct export_text_writer {
    struct sonde_buf *out;
    struct sonde_buf scratch;     /* help and numbers, before they are copied */
    struct sonde_buf labels;      /* labels of a series that has to give up `le` */
    enum sonde_export_text style;
    struct sonde_export_twins twins;
    const struct sonde_model_family *family;
    struct sonde_export_name name;
    struct sonde_classic classic;
    char le[SONDE_CLASSIC_MAX][NUMBER_MAX]; /* text of each bound */
    size_t le_len[SONDE_CLASSIC_MAX];
};

static void export_text_put_escaped(struct export_text_writer *w, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\') {
            sonde_buf_add(w->out, "\\\\", 2);
        } else if (text[i] == '\n') {
            sonde_buf_add(w->out, "\\n", 2);
        } else if (text[i] == '"' && w->style == SONDE_TEXT_OPENMETRICS) {
            sonde_buf_add(w->out, "\\\"", 2);
        } else {
            sonde_buf_putc(w->out, text[i]);
        }
    }
}

static const char *export_text_type_of(const struct export_text_writer *w)
{
    if (w->family->shown == SONDE_SHOWN_HISTOGRAM) return "histogram";
    if (w->family->shown == SONDE_SHOWN_SUMMARY) return "summary";
    const int open = w->style == SONDE_TEXT_OPENMETRICS;
    if (w->family->shown == SONDE_SHOWN_UNKNOWN) return open ? "unknown" : "untyped";
    if (open && w->name.unknown) return "unknown";
    return sonde_type_name(w->family->type);
}

/* # HELP, # TYPE and # UNIT. */
static void export_text_put_head(struct export_text_writer *w)
{
    const int open = w->style == SONDE_TEXT_OPENMETRICS;
    const char *name = w->name.text;
    const int len = (int)(open && !w->name.unknown ? w->name.stem : w->name.len);

    sonde_buf_reset(&w->scratch);
    sonde_export_help(w->family, &w->scratch);
    sonde_buf_printf(w->out, "# HELP %.*s ", len, name);
    if (w->scratch.len) export_text_put_escaped(w, w->scratch.data, w->scratch.len);
    sonde_buf_printf(w->out, "\n# TYPE %.*s %s\n", len, name, export_text_type_of(w));
    if (open && !w->name.unknown && sonde_export_has_unit(w->family, &w->name)) {
        sonde_buf_printf(w->out, "# UNIT %.*s %s\n", len, name, w->family->unit);
    }
}

/* Number as text in scratch. OpenMetrics wants a bound to look like a float. */
static void export_text_bound(struct export_text_writer *w, size_t i)
{
    sonde_buf_reset(&w->scratch);
    sonde_buf_double(&w->scratch, w->classic.bound[i]);
    if (w->style == SONDE_TEXT_OPENMETRICS && w->scratch.len &&
        !strpbrk(w->scratch.data, ".e")) {
        sonde_buf_add(&w->scratch, ".0", 2);
    }
    w->le_len[i] = w->scratch.len < NUMBER_MAX ? w->scratch.len : 0;
    if (w->le_len[i]) memcpy(w->le[i], w->scratch.data, w->le_len[i]);
}

static void put_created(struct export_text_writer *w, const struct sonde_model_series *s,
                        const char *labels, size_t labels_len)
{
    if (w->style != SONDE_TEXT_OPENMETRICS || w->name.unknown || w->name.no_created ||
        !(s->created_s > 0)) {
        return;
    }
    char *at = sonde_buf_reserve(w->out, w->name.len + labels_len + SAMPLE_MAX), *const start = at;
    if (!at) return;
    at = sonde_put(at, w->name.text, w->name.stem);
    at = SONDE_PUT(at, "_created");
    if (labels_len) {
        *at++ = '{';
        at = sonde_put(at, labels, labels_len);
        *at++ = '}';
    }
    *at++ = ' ';
    at = sonde_put_time(at, s->created_s);
    *at++ = '\n';
    w->out->len += (size_t)(at - start);
}

/* `name{labels} ` */
static inline char *export_text_put_start(const struct export_text_writer *w,
                                          char *at, const char *suffix,
                                          size_t suffix_len, const char *labels, size_t labels_len)
{
    at = sonde_put(at, w->name.text, w->name.len);
    at = sonde_put(at, suffix, suffix_len);
    if (labels_len) {
        *at++ = '{';
        at = sonde_put(at, labels, labels_len);
        *at++ = '}';
    }
    *at++ = ' ';
    return at;
}

/* The end of a sample that begins at start and goes up to at so far. */
static void export_text_put_value(struct export_text_writer *w, const char *start, const char *at,
                                  double value)
{
    w->out->len += (size_t)(at - start);
    sonde_buf_double(w->out, value);
    sonde_buf_putc(w->out, '\n');
}

/* What others count: whole numbers look like it. */
static void export_text_put_real(struct export_text_writer *w, char *start, char *at, double value)
{
    if (!(value >= 0 && value < 0x1p53 && !(value > floor(value)))) {
        export_text_put_value(w, start, at, value);
        return;
    }
    at = sonde_put_u64(at, (uint64_t)value);
    *at++ = '\n';
    w->out->len += (size_t)(at - start);
}

static void put_counter(struct export_text_writer *w, const struct sonde_model_series *s)
{
    char *start =
        sonde_buf_reserve(w->out, w->name.len + s->label_text_len + SAMPLE_MAX);
    if (!start) return;
    char *at = export_text_put_start(w, start, "", 0, s->label_text, s->label_text_len);
    if (s->real) {
        export_text_put_real(w, start, at, s->gauge);
    } else if (w->family->scale == 1) {
        at = sonde_put_u64(at, s->counter);
        *at++ = '\n';
        w->out->len += (size_t)(at - start);
    } else {
        export_text_put_value(w, start, at, sonde_family_value(w->family, s->counter));
    }
    put_created(w, s, s->label_text, s->label_text_len);
}

static void put_gauge(struct export_text_writer *w, const struct sonde_model_series *s)
{
    char *start =
        sonde_buf_reserve(w->out, w->name.len + s->label_text_len + SAMPLE_MAX);
    if (!start) return;
    export_text_put_value(w, start,
                          export_text_put_start(w, start, "", 0, s->label_text, s->label_text_len),
                          s->gauge);
}

/* ` # {trace_id="…"} value time` */
static void export_text_put_exemplar(struct export_text_writer *w, const struct sonde_exemplar *e)
{
    char *at = sonde_buf_reserve(w->out, SAMPLE_MAX), *const start = at;
    if (!at) return;
    at = SONDE_PUT(at, " # {trace_id=\"");
    at = sonde_put_hex(at, e->trace_hi);
    at = sonde_put_hex(at, e->trace_lo);
    at = SONDE_PUT(at, "\"} ");
    w->out->len += (size_t)(at - start);
    sonde_buf_double(w->out, e->value);
    if (e->time_s > 0 && (at = sonde_buf_reserve(w->out, NUMBER_MAX)) != NULL) {
        *at = ' ';
        w->out->len += (size_t)(sonde_put_time(at + 1, e->time_s) - at);
    }
}

static void export_text_put_bucket(struct export_text_writer *w, const char *labels,
                                   size_t labels_len, const char *le, size_t le_len, uint64_t count,
                                   const struct sonde_exemplar *e)
{
    char *at = sonde_buf_reserve(w->out, w->name.len + labels_len + SAMPLE_MAX), *const start = at;
    if (!at) return;
    at = sonde_put(at, w->name.text, w->name.len);
    at = SONDE_PUT(at, "_bucket{");
    if (labels_len) {
        at = sonde_put(at, labels, labels_len);
        *at++ = ',';
    }
    at = SONDE_PUT(at, "le=\"");
    at = sonde_put(at, le, le_len);
    at = SONDE_PUT(at, "\"} ");
    at = sonde_put_u64(at, count);
    w->out->len += (size_t)(at - start);
    if (e && w->style == SONDE_TEXT_OPENMETRICS) export_text_put_exemplar(w, e);
    sonde_buf_putc(w->out, '\n');
}

/* label_text with `le` renamed. The first match at a label's start is the name itself: values
 * are in quotes, and a quote inside one is escaped. */
static void rename_le(struct export_text_writer *w, const struct sonde_model_series *s)
{
    sonde_buf_reset(&w->labels);
    const char *text = s->label_text, *const end = text + s->label_text_len;
    while (text < end) {
        const char *quote = memchr(text, '"', (size_t)(end - text));
        if (!quote) break;
        if (quote - text == 3 && memcmp(text, "le=", 3) == 0) {
            sonde_buf_puts(&w->labels, "exported_");
        }
        const char *p = quote + 1;
        while (p < end && *p != '"') {
            p += *p == '\\' ? 2 : 1;
        }
        p = p < end ? p + 1 : end;
        if (p < end) p++; /* the comma */
        sonde_buf_add(&w->labels, text, (size_t)(p - text));
        text = p;
    }
}

static void export_text_put_histogram(struct export_text_writer *w,
                                      const struct sonde_model_series *s)
{
    const struct sonde_hist_value *h = s->hist;
    const char *labels = s->label_text;
    size_t labels_len = s->label_text_len;
    if (sonde_export_has_le(s)) {
        rename_le(w, s);
        labels = w->labels.data;
        labels_len = w->labels.len;
    }
    uint64_t cumulative[SONDE_CLASSIC_MAX];
    const struct sonde_exemplar *exemplars[SONDE_CLASSIC_MAX + 1];
    sonde_classic_counts(&w->classic, s, cumulative);
    sonde_classic_exemplars(&w->classic, s, exemplars);
    for (size_t i = 0; i < w->classic.count; i++) {
        export_text_put_bucket(w, labels, labels_len, w->le[i], w->le_len[i], cumulative[i],
                               exemplars[i]);
    }
    export_text_put_bucket(w, labels, labels_len, "+Inf", 4, h ? h->count : 0,
                           exemplars[w->classic.count]);

    char *start = sonde_buf_reserve(w->out, 2 * (w->name.len + labels_len + SAMPLE_MAX));
    if (!start) return;
    export_text_put_value(w, start, export_text_put_start(w, start, "_sum", 4, labels, labels_len),
                          sonde_model_series_sum(s));
    start = sonde_buf_reserve(w->out, w->name.len + labels_len + SAMPLE_MAX);
    if (!start) return;
    char *at = export_text_put_start(w, start, "_count", 6, labels, labels_len);
    at = sonde_put_u64(at, h ? h->count : 0);
    *at++ = '\n';
    w->out->len += (size_t)(at - start);
    put_created(w, s, labels, labels_len);
}

/* Ask memory for what comes AHEAD series later, and half way there, when its address is known,
 * for the labels' text. */
static inline void fetch_ahead(const struct sonde_model_family *family, size_t i)
{
    if (i + AHEAD >= family->series_count) return;
    const struct sonde_model_series *s = family->series[i + AHEAD];
    __builtin_prefetch(s);
    __builtin_prefetch(&s->counter);
    s = family->series[i + AHEAD / 2];
    __builtin_prefetch(s->label_text);
    __builtin_prefetch(s->label_text + s->label_text_len);
}

/* ---- Others' histograms and summaries -------------------------------------------------------- */

/* 1 if they have the same labels, but for `but` of the first. Both are in order of names. */
static int same_labels(const struct sonde_model_series *a, const struct sonde_model_series *b,
                       const char *but)
{
    size_t k = 0;
    for (size_t i = 0; i < a->label_count; i++) {
        if (strcmp(a->labels[i].name, but) == 0) continue;
        if (k == b->label_count || strcmp(a->labels[i].name, b->labels[k].name) != 0 ||
            strcmp(a->labels[i].value, b->labels[k].value) != 0) {
            return 0;
        }
        k++;
    }
    return k == b->label_count;
}

static void export_text_put_part(struct export_text_writer *w, const struct sonde_model_series *s,
                                 const char *suffix)
{
    const size_t len = strlen(suffix);
    char *start =
        sonde_buf_reserve(w->out, w->name.len + len + s->label_text_len + SAMPLE_MAX);
    if (!start) return;
    char *at = export_text_put_start(w, start, suffix, len, s->label_text, s->label_text_len);
    if (s->real) export_text_put_real(w, start, at, s->gauge);
    else export_text_put_value(w, start, at, s->gauge);
}

struct export_text_part {
    const struct sonde_model_family *family;
    const char *suffix;
    size_t next;
};

/* Series of a part that go with s; s NULL: all that are left. They were made in the order in which
 * their source named them, all of one histogram together, so those of the next one are the next. */
static void export_text_put_parts(struct export_text_writer *w, struct export_text_part *p,
                                  const struct sonde_model_series *s, const char *but,
                                  const struct sonde_filter *f)
{
    for (; p->family && p->next < p->family->series_count; p->next++) {
        const struct sonde_model_series *one = p->family->series[p->next];
        if (s && !same_labels(one, s, but)) return;
        if (!f || sonde_filter_series(f, one)) export_text_put_part(w, one, p->suffix);
    }
}

static int any_passes(const struct sonde_export_group *g, const struct sonde_filter *f)
{
    for (size_t i = 0; i < SONDE_EXPORT_PARTS; i++) {
        for (size_t k = 0; g->part[i] && k < g->part[i]->series_count; k++) {
            if (sonde_filter_series(f, g->part[i]->series[k])) return 1;
        }
    }
    return 0;
}

static void export_text_put_group(struct export_text_writer *w, const struct sonde_model *m,
                                  struct sonde_model_family *family, const struct sonde_filter *f)
{
    struct sonde_export_group g;
    if (!sonde_export_group(m, family, f, &g)) return;
    const int summary = family->shown == SONDE_SHOWN_SUMMARY;
    if (f && !any_passes(&g, f)) return;
    w->family = family;
    w->name = g.name;
    export_text_put_head(w);
    struct export_text_part values =
        summary ? (struct export_text_part){ g.part[SONDE_PART_PLAIN], "", 0 }
                : (struct export_text_part){ g.part[SONDE_PART_BUCKET], "_bucket", 0 };
    struct export_text_part sum = { g.part[SONDE_PART_SUM], "_sum", 0 };
    struct export_text_part count = { g.part[SONDE_PART_COUNT], "_count", 0 };
    const char *but = summary ? "quantile" : "le";
    for (size_t i = 0; count.family && i < count.family->series_count; i++) {
        const struct sonde_model_series *s = count.family->series[i];
        export_text_put_parts(w, &values, s, but, f);
        export_text_put_parts(w, &sum, s, "", f);
        count.next = i;
        export_text_put_parts(w, &count, s, "", f);
    }
    export_text_put_parts(w, &values, NULL, but, f);
    export_text_put_parts(w, &sum, NULL, "", f);
}

static void export_text_put_family(struct export_text_writer *w, const struct sonde_model *m,
                                   struct sonde_model_family *family, const struct sonde_filter *f)
{
    int head = 0;
    if (family->shown == SONDE_SHOWN_HISTOGRAM || family->shown == SONDE_SHOWN_SUMMARY) {
        export_text_put_group(w, m, family, f);
        return;
    }
    for (size_t i = 0; i < family->series_count; i++) {
        const struct sonde_model_series *s = family->series[i];
        fetch_ahead(family, i);
        if ((f && !sonde_filter_series(f, s)) || sonde_export_hidden(&w->twins, s)) continue;
        if (!head) {
            head = 1;
            w->family = family;
            sonde_export_name(m, family, &w->name);
            export_text_put_head(w);
            if (family->type == SONDE_HISTOGRAM) {
                sonde_classic_bounds(family, &w->classic);
                for (size_t b = 0; b < w->classic.count; b++) {
                    export_text_bound(w, b);
                }
            }
        }
        switch (family->type) {
        case SONDE_COUNTER: put_counter(w, s); break;
        case SONDE_GAUGE: put_gauge(w, s); break;
        case SONDE_HISTOGRAM: export_text_put_histogram(w, s); break;
        }
    }
}

void sonde_export_text(const struct sonde_model *m, const struct sonde_filter *f,
                       enum sonde_export_text style, struct sonde_buf *out)
{
    struct export_text_writer w = { .out = out, .style = style };
    sonde_buf_init(&w.scratch, 1 << 20);
    sonde_buf_init(&w.labels, 1 << 20);
    if (!out->error) out->error = sonde_export_twins_init(m, &w.twins);
    for (size_t i = 0; i < m->family_count && !out->error; i++) {
        if (f && !sonde_filter_family(f, m->families[i])) continue;
        export_text_put_family(&w, m, m->families[i], f);
    }
    if (style == SONDE_TEXT_OPENMETRICS) sonde_buf_puts(out, "# EOF\n");
    sonde_buf_add(out, "", 0); /* the NUL after what was put in place */
    if (!out->error) out->error = w.scratch.error ? w.scratch.error : w.labels.error;
    sonde_export_twins_release(&w.twins);
    sonde_buf_release(&w.scratch);
    sonde_buf_release(&w.labels);
}
