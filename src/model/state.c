/* state.c - series that the agent itself counts, as bytes for the next agent and back (state.h).
 *
 *   families, each: name help unit source, type kind scale, bounds
 *     its series, each: process, labels (without the process's), when it was made, value
 *
 * A family is written whole, since a process that has ended makes no events that would define it
 * again. A histogram is its buckets that are not empty. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/state.h"
#include "model/private.h"

#define TEXT_MAX 4096u
#define LABELS_MAX 32u
#define FAMILIES_MAX (1u << 16)

int sonde_model_known(const struct sonde_model_knowns *k, uint64_t serial,
                      struct sonde_model_process **out)
{
    assert(!k->count || k->known[0].serial <= k->known[k->count - 1].serial);
    *out = NULL;
    if (serial == 0) return 1;
    size_t lo = 0, hi = k->count;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (k->known[mid].serial < serial) lo = mid + 1;
        else hi = mid;
    }
    if (lo < k->count && k->known[lo].serial == serial) *out = k->known[lo].process;
    return *out != NULL;
}

/* ---- Histograms --------------------------------------------------------------------------- */

static uint64_t hist_used(const struct sonde_hist_value *h)
{
    uint64_t n = 0;
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
        for (uint32_t i = 0; h->octave[o] && i < 64; i++) n += h->octave[o][i] != 0;
    }
    return n;
}

static void hist_save(struct sonde_state *s, const struct sonde_hist_value *h)
{
    uint64_t last = 0;
    for (uint32_t p = 0; p < SONDE__HIST_BUCKETS; p++) {
        if (!h->octave[p / 64]) {
            p |= 63;
            continue;
        }
        uint64_t n = h->octave[p / 64][p % 64], step = p - last;
        if (!n) continue;
        sonde_state_u64(s, &step);
        sonde_state_u64(s, &n);
        last = p;
    }
}

void sonde_hist_value_state(struct sonde_state *s, struct sonde_hist_value *h)
{
    uint64_t used = hist_used(h);
    sonde_state_u64(s, &h->zero);
    sonde_state_u64(s, &h->sum_raw);
    sonde_state_u64(s, &h->last_raw);
    sonde_state_count(s, &used, SONDE__HIST_BUCKETS);
    if (!sonde_state_loading(s)) {
        hist_save(s, h);
        return;
    }
    h->count = h->zero;
    for (uint64_t i = 0, p = 0; i < used && !s->bad; i++) {
        uint64_t step = 0, n = 0;
        sonde_state_count(s, &step, SONDE__HIST_BUCKETS);
        sonde_state_u64(s, &n);
        p += step;
        if (p >= SONDE__HIST_BUCKETS || sonde_hist_value_add(h, (uint32_t)p, n) != 0) s->bad = 1;
    }
}

/* ---- Series ------------------------------------------------------------------------------- */

static size_t own_labels(const struct sonde_model_series *s)
{
    return s->label_count - (s->process ? 2 : 0);
}

static void series_save(const struct sonde_model_series *from, struct sonde_state *s)
{
    struct sonde_model_series copy = *from;
    uint64_t serial = from->process ? from->process->serial : 0, labels = own_labels(from);
    uint64_t has = (from->hist != NULL) | (from->le ? 2u : 0);
    sonde_state_u64(s, &serial);
    sonde_state_u64(s, &labels);
    for (size_t i = 0; i < labels; i++) {
        sonde_state_put_text(s, from->labels[i].name);
        sonde_state_put_text(s, from->labels[i].value);
    }
    sonde_state_double(s, &copy.created_s);
    sonde_state_u64(s, &copy.counter);
    sonde_state_double(s, &copy.gauge);
    sonde_state_u64(s, &has);
    if (copy.hist) sonde_hist_value_state(s, copy.hist);
    for (size_t i = 0; copy.le && i < from->family->bound_count; i++) {
        sonde_state_u64(s, &copy.le[i]);
    }
}

struct loaded {
    uint64_t serial, labels, counter, has;
    struct sonde_label label[LABELS_MAX];
    double created_s, gauge;
    struct sonde_hist_value *hist;
    uint64_t *le;
    char *text;                    /* of the labels */
    size_t text_len;
};

static const char *model_state_label_text(struct sonde_state *s, struct loaded *l)
{
    if (s->bad) return "";
    char *at = l->text + l->text_len;
    sonde_state_text(s, at, TEXT_MAX + 1 - l->text_len);
    l->text_len += strlen(at) + 1;
    return at;
}

static void loaded_read(struct sonde_state *s, struct loaded *l, size_t bound_count)
{
    sonde_state_u64(s, &l->serial);
    sonde_state_count(s, &l->labels, LABELS_MAX);
    for (uint64_t i = 0; i < l->labels; i++) {
        l->label[i].name = model_state_label_text(s, l);
        l->label[i].value = model_state_label_text(s, l);
    }
    sonde_state_double(s, &l->created_s);
    sonde_state_u64(s, &l->counter);
    sonde_state_double(s, &l->gauge);
    sonde_state_u64(s, &l->has);
    if (l->has & 1) {
        l->hist = sonde__calloc(1, sizeof(*l->hist));
        if (l->hist) sonde_hist_value_state(s, l->hist);
        else s->bad = 1;
    }
    if (l->has & 2 && bound_count && !s->bad) {
        l->le = sonde__calloc(bound_count, sizeof(*l->le));
        if (!l->le) s->bad = 1;
        for (size_t i = 0; l->le && i < bound_count; i++) sonde_state_u64(s, &l->le[i]);
    }
}

static void loaded_add(struct sonde_model *m, struct sonde_model_family *f, struct loaded *l,
                       struct sonde_model_process *p)
{
    struct sonde_model_series *to = sonde_model_series(m, f, p, l->label, (size_t)l->labels);
    if (!to || to->ticks_seen || to->hist || to->counter) return;
    to->kept = 1;
    if (l->created_s > 0 && l->created_s < to->created_s) to->created_s = l->created_s;
    to->counter = l->counter;
    to->gauge = l->gauge;
    if (f->type == SONDE_HISTOGRAM) {
        to->hist = l->hist;
        to->le = l->le;
        l->hist = NULL;
        l->le = NULL;
    }
    sonde_model_series_continue(m, to);
}

static void series_load(struct sonde_model *m, struct sonde_model_family *f, size_t bound_count,
                        struct sonde_state *s, const struct sonde_model_knowns *k)
{
    char text[TEXT_MAX + 2];
    struct sonde_model_process *p;
    struct loaded l = { .text = text };
    loaded_read(s, &l, bound_count);
    if (!s->bad && f && sonde_model_known(k, l.serial, &p)) loaded_add(m, f, &l, p);
    sonde_hist_value_free(l.hist);
    sonde__free(l.le);
}

/* ---- Families ----------------------------------------------------------------------------- */

static uint64_t family_kept(const struct sonde_model_family *f)
{
    uint64_t n = 0;
    for (size_t i = 0; i < f->series_count; i++) n += f->series[i]->kept != 0;
    return n;
}

static void family_save(const struct sonde_model_family *f, uint64_t kept, struct sonde_state *s)
{
    uint64_t type = (uint64_t)f->type, kind = (uint64_t)f->kind, bounds = f->bound_count;
    double scale = f->scale;
    sonde_state_put_text(s, f->name);
    sonde_state_put_text(s, f->help);
    sonde_state_put_text(s, f->unit);
    sonde_state_put_text(s, f->source);
    sonde_state_u64(s, &type);
    sonde_state_u64(s, &kind);
    sonde_state_double(s, &scale);
    sonde_state_u64(s, &bounds);
    for (size_t i = 0; i < bounds; i++) {
        double bound = f->bounds[i];
        sonde_state_double(s, &bound);
    }
    sonde_state_u64(s, &kept);
    for (size_t i = 0; i < f->series_count; i++) {
        if (f->series[i]->kept) series_save(f->series[i], s);
    }
}

void sonde_model_save(const struct sonde_model *m, struct sonde_state *s)
{
    uint64_t families = 0;
    for (size_t i = 0; i < m->family_count; i++) families += family_kept(m->families[i]) != 0;
    sonde_state_u64(s, &families);
    for (size_t i = 0; i < m->family_count; i++) {
        const uint64_t kept = family_kept(m->families[i]);
        if (kept) family_save(m->families[i], kept, s);
    }
}

/* NULL: out of memory, or it is something else here. */
static struct sonde_model_family *model_state_family_add(struct sonde_model *m,
                                                         const struct sonde_model_family_spec *spec)
{
    struct sonde_model_family_spec plain = *spec;
    plain.bounds = NULL;
    struct sonde_model_family *f = sonde_model_family(m, &plain);
    if (!f || f->bounds || !spec->bound_count || f->series_count) return f;
    f->bounds_own = sonde__alloc(spec->bound_count * sizeof(*f->bounds_own));
    if (!f->bounds_own) return NULL;
    memcpy(f->bounds_own, spec->bounds, spec->bound_count * sizeof(*f->bounds_own));
    f->bounds = f->bounds_own;
    f->bound_count = spec->bound_count;
    return f;
}

static void family_load(struct sonde_model *m, struct sonde_state *s,
                        const struct sonde_model_knowns *k)
{
    char name[256], help[1024], unit[64], source[64];
    double scale = 0, bounds[SONDE_BOUNDS_MAX];
    uint64_t type = 0, kind = 0, bound_count = 0, count = 0;
    sonde_state_text(s, name, sizeof(name));
    sonde_state_text(s, help, sizeof(help));
    sonde_state_text(s, unit, sizeof(unit));
    sonde_state_text(s, source, sizeof(source));
    sonde_state_count(s, &type, SONDE_HISTOGRAM);
    sonde_state_count(s, &kind, SONDE_KIND_PERCENTAGE);
    sonde_state_double(s, &scale);
    sonde_state_count(s, &bound_count, SONDE_BOUNDS_MAX);
    for (uint64_t i = 0; i < bound_count; i++) sonde_state_double(s, &bounds[i]);
    sonde_state_u64(s, &count);
    if (!(scale > 0) || type < SONDE_COUNTER) s->bad = 1;
    if (s->bad) return;
    const struct sonde_model_family_spec spec = {
        .name = name, .help = help, .unit = unit, .source = source, .type = (enum sonde_type)type,
        .kind = (enum sonde_kind)kind, .scale = scale, .bounds = bound_count ? bounds : NULL,
        .bound_count = (size_t)bound_count,
    };
    struct sonde_model_family *f = model_state_family_add(m, &spec);
    if (f && f->bound_count != bound_count) f = NULL;
    for (uint64_t i = 0; i < count && !s->bad; i++) series_load(m, f, (size_t)bound_count, s, k);
}

void sonde_model_load(struct sonde_model *m, struct sonde_state *s,
                      const struct sonde_model_knowns *k)
{
    uint64_t families = 0;
    sonde_state_count(s, &families, FAMILIES_MAX);
    for (uint64_t i = 0; i < families && !s->bad; i++) family_load(m, s, k);
}
