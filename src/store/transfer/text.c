/* text.c - series as OpenMetrics, or Prometheus' text, with a time at each sample.
 *
 * A counter's `_created` says that it began at zero there. A histogram has, at each tick, all
 * buckets that anything falls in during the time that is exported, added up from its beginning, at
 * the bounds that they really have; `le="0.0"` are the zeros. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/put.h"
#include "base/visible.h"
#include "sonde/sonde.h"
#include "store/transfer/transfer.h"

struct transfer_text_sample {
    struct sonde_transfer_writer *w;
    const struct sonde_transfer_series *s;
    char name[600];              /* of samples, without _bucket and such */
    size_t stem;                 /* bytes of it that are the family's name in OpenMetrics */
    int open;
};

/* Names and labels of others may have what a terminal would obey. */
static void put_visible(struct sonde_buf *out, const char *text)
{
    const size_t begin = out->len;
    sonde_buf_puts(out, text);
    if (!out->error) out->len = begin + sonde_visible(out->data + begin, out->len - begin);
}

static void put_help(struct sonde_buf *out, const char *help, int open)
{
    for (; *help; help++) {
        if (*help == '\\' || *help == '\n' || (*help == '"' && open)) sonde_buf_putc(out, '\\');
        sonde_buf_putc(out, *help == '\n' ? 'n' : *help);
    }
}

/* # HELP, # TYPE and # UNIT, once a family; 0 = another type has the name already. */
static int transfer_text_put_head(const struct transfer_text_sample *k)
{
    struct sonde_transfer_writer *w = k->w;
    struct sonde_buf *out = w->out;
    const struct sonde_store_series *spec = &k->s->spec;
    if (w->name && strcmp(w->name, k->name) == 0) return w->type == spec->type;
    sonde__free(w->name);
    w->name = sonde__strdup(k->name);
    if (!w->name && !out->error) out->error = SONDE_ENOMEM;
    w->type = spec->type;
    const int len = (int)(k->open ? k->stem : strlen(k->name));
    const size_t unit = strlen(spec->unit);
    if (*spec->help) {
        sonde_buf_printf(out, "# HELP %.*s ", len, k->name);
        const size_t begin = out->len;
        put_help(out, spec->help, k->open);
        if (!out->error) out->len = begin + sonde_visible(out->data + begin, out->len - begin);
        sonde_buf_putc(out, '\n');
    }
    sonde_buf_printf(out, "# TYPE %.*s %s\n", len, k->name, sonde_type_name(spec->type));
    if (k->open && unit && k->stem > unit + 1 && k->name[k->stem - unit - 1] == '_' &&
        !memcmp(k->name + k->stem - unit, spec->unit, unit)) {
        sonde_buf_printf(out, "# UNIT %.*s %s\n", len, k->name, spec->unit);
    }
    return 1;
}

static void transfer_text_put_start(const struct transfer_text_sample *k, size_t name_len,
                                    const char *suffix, const char *le)
{
    struct sonde_buf *out = k->w->out;
    const char *labels = k->s->spec.labels;
    sonde_buf_add(out, k->name, name_len);
    sonde_buf_puts(out, suffix);
    if (*labels || le) {
        sonde_buf_putc(out, '{');
        put_visible(out, labels);
        if (le) sonde_buf_printf(out, "%sle=\"%s\"", *labels ? "," : "", le);
        sonde_buf_putc(out, '}');
    }
    sonde_buf_putc(out, ' ');
}

static void transfer_text_put_time(const struct transfer_text_sample *k, int64_t ms)
{
    if (!k->open) {
        sonde_buf_printf(k->w->out, "%lld", (long long)ms);
    } else {
        sonde_buf_printf(k->w->out, "%s%lld.%03lld", ms < 0 ? "-" : "", (long long)llabs(ms) / 1000,
                         (long long)llabs(ms) % 1000);
    }
}

static void transfer_text_put_end(const struct transfer_text_sample *k, int64_t ms)
{
    sonde_buf_putc(k->w->out, ' ');
    transfer_text_put_time(k, ms);
    sonde_buf_putc(k->w->out, '\n');
}

static void transfer_text_put_whole(struct sonde_buf *out, uint64_t v)
{
    if (v <= 1ull << 53) sonde_buf_u64(out, v);
    else sonde_buf_double(out, (double)v);
}

static void put_numbers(const struct transfer_text_sample *k)
{
    struct sonde_buf *out = k->w->out;
    const struct sonde_transfer_series *s = k->s;
    for (size_t i = 0; i < s->count; i++) {
        const struct sonde_transfer_point *p = &s->point[i];
        transfer_text_put_start(k, strlen(k->name), "", NULL);
        if (s->spec.type == SONDE_GAUGE) sonde_buf_double(out, sonde_transfer_double(p->value));
        else if (!(s->spec.scale < 1) && !(s->spec.scale > 1))
            transfer_text_put_whole(out, p->value);
        else sonde_buf_double(out, sonde_transfer_value((double)p->value, s->spec.scale));
        transfer_text_put_end(k, p->time_ms);
        if (!k->open || s->spec.type != SONDE_COUNTER || p->start != SONDE_START_ZERO) continue;
        transfer_text_put_start(k, k->stem, "_created", NULL);
        transfer_text_put_time(k, p->time_ms);
        transfer_text_put_end(k, p->time_ms);
    }
}

/* ---- Histograms ------------------------------------------------------------------------------ */

struct totals {
    uint64_t n[SONDE__HIST_BUCKETS];
    uint8_t used[SONDE__HIST_BUCKETS];
    uint64_t zero, sum_raw;
    int zeros;
};

static void transfer_text_bound(double bound, int open, char out[40])
{
    struct sonde_buf b;
    sonde_buf_init(&b, 36);
    sonde_buf_double(&b, bound);
    if (open && b.len && !strpbrk(b.data, ".eI")) sonde_buf_puts(&b, ".0");
    snprintf(out, 40, "%s", b.error ? "" : b.data);
    sonde_buf_release(&b);
}

static void put_tick(const struct transfer_text_sample *k, const struct totals *t, int64_t ms)
{
    struct sonde_buf *out = k->w->out;
    const size_t len = strlen(k->name);
    uint64_t sum = t->zero;
    char le[40];
    if (t->zeros) {
        transfer_text_bound(0, k->open, le);
        transfer_text_put_start(k, len, "_bucket", le);
        transfer_text_put_whole(out, sum);
        transfer_text_put_end(k, ms);
    }
    for (uint32_t p = 0; p < SONDE__HIST_BUCKETS; p++) {
        if (!t->used[p]) continue;
        sum += t->n[p];
        transfer_text_bound(sonde__hist_upper(p), k->open, le);
        transfer_text_put_start(k, len, "_bucket", le);
        transfer_text_put_whole(out, sum);
        transfer_text_put_end(k, ms);
    }
    transfer_text_put_start(k, len, "_bucket", "+Inf");
    transfer_text_put_whole(out, sum);
    transfer_text_put_end(k, ms);
    transfer_text_put_start(k, len, "_sum", NULL);
    sonde_buf_double(out, sonde_transfer_value((double)(int64_t)t->sum_raw, k->s->spec.scale));
    transfer_text_put_end(k, ms);
    transfer_text_put_start(k, len, "_count", NULL);
    transfer_text_put_whole(out, sum);
    transfer_text_put_end(k, ms);
}

static void transfer_text_put_histogram(const struct transfer_text_sample *k)
{
    const struct sonde_transfer_series *s = k->s;
    struct totals *t = sonde__calloc(1, sizeof(*t));
    if (!t) {
        if (!k->w->out->error) k->w->out->error = SONDE_ENOMEM;
        return;
    }
    for (size_t i = 0; i < s->bucket_count; i++) t->used[s->bucket[i].p] = 1;
    for (size_t i = 0; i < s->count; i++) t->zeros |= s->point[i].zero > 0;
    for (size_t i = 0; i < s->count && !k->w->out->error; i++) {
        const struct sonde_transfer_point *p = &s->point[i];
        t->zero += p->zero;
        t->sum_raw += p->sum_raw;
        for (uint32_t b = 0; b < p->count; b++) {
            t->n[s->bucket[p->first + b].p] += s->bucket[p->first + b].n;
        }
        put_tick(k, t, p->time_ms);
    }
    sonde__free(t);
}

static int has_le(const char *labels)
{
    return strncmp(labels, "le=\"", 4) == 0 || strstr(labels, ",le=\"") != NULL;
}

void sonde_transfer_text_write(struct sonde_transfer_writer *w,
                               const struct sonde_transfer_series *s)
{
    static const char total[] = "_total";
    struct transfer_text_sample k = { .w = w, .s = s,
                                      .open = w->format == SONDE_TRANSFER_OPENMETRICS };
    const size_t len = strlen(s->spec.name), n = sizeof(total) - 1;
    const int ends = len > n && !strcmp(s->spec.name + len - n, total);
    if (len + 32 > sizeof(k.name) || (s->spec.type == SONDE_HISTOGRAM && has_le(s->spec.labels))) {
        w->left_out++;
        return;
    }
    snprintf(k.name, sizeof(k.name), "%s%s", s->spec.name,
             s->spec.type == SONDE_COUNTER && !ends ? total : "");
    k.stem = strlen(k.name) - (s->spec.type == SONDE_COUNTER ? n : 0);
    if (!transfer_text_put_head(&k)) {
        w->left_out++;
        return;
    }
    if (s->spec.type == SONDE_HISTOGRAM) transfer_text_put_histogram(&k);
    else put_numbers(&k);
    w->series++;
}
