/* final_tracks.c - see final_tracks.h. */
#include "analyze/final_tracks.h"

#include <math.h>
#include <string.h>

#include "analyze/final_model.h"
#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

enum { LABEL_MAX = 1 << 16 };

int sonde_track_label(const char *labels, const char *name, struct sonde_buf *out)
{
    const size_t len = strlen(name);
    for (const char *at = labels; *at;) {
        const size_t key = strcspn(at, "=");
        const char *value = at + key;
        if (value[0] != '=' || value[1] != '"') return 0;
        const int wanted = key == len && !memcmp(at, name, len);
        const char *c = value + 2;
        for (; *c && *c != '"'; c++) {
            const int escaped = *c == '\\' && c[1];
            c += escaped;
            if (wanted) sonde_buf_putc(out, escaped && *c == 'n' ? '\n' : *c);
        }
        if (wanted) return out->error;
        at = *c ? c + 1 : c;
        if (*at == ',') at++;
    }
    return 0;
}

/* Seconds of tick k that lie in the range. */
static double tick_overlap(const struct sonde_tracks *t, uint32_t k, double from_s, double to_s)
{
    const double end = t->ticks[k].end_s, begin = end - t->ticks[k].length_s;
    const double first = from_s > begin ? from_s : begin;
    const double last = to_s > 0 && to_s < end ? to_s : end;
    return last > first ? last - first : 0;
}

struct final_gain { double sum, last, most, seconds; };

static struct final_gain track_gain(const struct sonde_tracks *t, const struct sonde_track *row,
                                    double from_s, double to_s)
{
    struct final_gain g = { 0, NAN, NAN, 0 };
    for (uint32_t k = 0; k < t->tick_count; k++) {
        const double seconds = tick_overlap(t, k, from_s, to_s), v = row->values[k];
        if (!(seconds > 0) || isnan(v)) continue;
        g.sum += v * seconds;
        g.seconds += seconds;
        g.last = v;
        g.most = fmax(g.most, v);
    }
    return g;
}

static const char *part_text(struct sonde_final_part *p, const char *labels, const char *name,
                             int *rc)
{
    struct sonde_buf b;
    if (!name || *rc) return "";
    sonde_buf_init(&b, LABEL_MAX);
    *rc = sonde_track_label(labels, name, &b);
    char *text = *rc || !b.len ? NULL : sonde_buf_take(&b);
    sonde_buf_release(&b);
    if (!text) return "";
    if (SONDE_ARRAY_ROOM(p->texts, p->text_count, p->text_cap)) {
        sonde__free(text);
        *rc = SONDE_ENOMEM;
        return "";
    }
    return p->texts[p->text_count++] = text;
}

static const struct sonde_track *track_beside(const struct sonde_tracks *t,
                                              const struct sonde_track *count, const char *family)
{
    const size_t len = strlen(family);
    for (uint32_t i = 0; i < t->count; i++) {
        const struct sonde_track *row = &t->rows[i];
        if (row->pid == count->pid && !strncmp(row->family, family, len) &&
            !strcmp(row->family + len, "_sum") && !strcmp(row->labels, count->labels) &&
            !strcmp(row->program, count->program)) {
            return row;
        }
    }
    return NULL;
}

static int part_add(struct sonde_final_part *p, const struct sonde_tracks *t,
                    const struct sonde_track *row, const struct sonde_final_family *f,
                    double from_s, double to_s)
{
    const struct final_gain g = track_gain(t, row, from_s, to_s);
    struct sonde_final *to = &p->final;
    int rc = 0;
    if (!(g.seconds > 0) || to->count == SONDE_FINAL_MAX) return 0;
    struct sonde_final_series s = {
        .family = f->name, .program = row->program, .pid = row->pid,
        .subject = part_text(p, row->labels, f->subject, &rc),
        .detail = part_text(p, row->labels, f->detail, &rc),
        .extra = f->detail && !strcmp(f->detail, "outcome")
                     ? "" : part_text(p, row->labels, "outcome", &rc),
        .seconds = g.seconds,
        .value = f->type == SONDE_GAUGE ? g.last : g.sum,
        .peak = f->type == SONDE_GAUGE ? g.most : 0,
    };
    if (f->type == SONDE_HISTOGRAM) {
        const struct sonde_track *sum = track_beside(t, row, f->name);
        s.count = g.sum > 0 ? (uint64_t)(g.sum + 0.5) : 0;
        s.value = sum ? track_gain(t, sum, from_s, to_s).sum : 0;
    }
    if (rc || !*s.subject) return rc;
    if (SONDE_ARRAY_ROOM(to->series, to->count, to->cap)) return SONDE_ENOMEM;
    to->series[to->count++] = s;
    return 0;
}

int sonde_final_of_tracks(const struct sonde_tracks *t, double from_s, double to_s,
                          struct sonde_final_part *out)
{
    int rc = 0;
    *out = (struct sonde_final_part){ .texts = NULL };
    for (uint32_t i = 0; t && !rc && i < t->count; i++) {
        const struct sonde_final_family *f = sonde_final_family_of_track(&t->rows[i]);
        if (f) rc = part_add(out, t, &t->rows[i], f, from_s, to_s);
    }
    return rc;
}

void sonde_final_part_release(struct sonde_final_part *p)
{
    for (size_t i = 0; i < p->text_count; i++) sonde__free(p->texts[i]);
    sonde__free(p->texts);
    sonde_final_release(&p->final);
    *p = (struct sonde_final_part){ .texts = NULL };
}
