/* model.c - every tick, span and request of a model to a store.
 *
 * Runs on the collector's thread, under the model's lock, so it only copies. A series is made known
 * to the store the first time it is seen; which slot that got is noted in the series itself. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"
#include "store/chunk_hist.h"
#include "store/store.h"

enum { DATA_MAX = 16 << 20, UNKNOWN = 0, REFUSED = UINT32_MAX };

struct sonde_store_feed {
    const struct sonde_store_ops *ops;
    struct sonde_store *store;
    struct sonde_store_tick tick;
    uint32_t cap;
    struct sonde_buf data;
    struct sonde_model_listener spans;
    int off;                     /* the store takes no more */
};

int sonde_store_feed_create(const struct sonde_store_ops *ops, struct sonde_store *s,
                            struct sonde_store_feed **out)
{
    struct sonde_store_feed *f = sonde__calloc(1, sizeof(*f));
    if (!f) return SONDE_ENOMEM;
    f->ops = ops;
    f->store = s;
    sonde_buf_init(&f->data, DATA_MAX);
    *out = f;
    return 0;
}

void sonde_store_feed_destroy(struct sonde_store_feed *f)
{
    if (!f) return;
    sonde__free(f->tick.values);
    sonde_buf_release(&f->data);
    sonde__free(f);
}

/* What others count is a double, and the store keeps whole numbers: of one, or of a billionth.
 * Times have fractions sooner or later; of others that is found out. A total that was of the wrong
 * kind goes on as another series of the store. */
static void choose_scale(struct sonde_model_series *s)
{
    static const double billionth = 1e-9, fraction_max = 1e9;
    static const double billionths_max = 9.2e9; /* more of them are over 2^63 */
    const double v = s->gauge;
    if (!(v >= 0 && v < 0x1p63)) return; /* stands still */
    double scale = s->stored_scale;
    if (!(scale > 0)) scale = strstr(s->family->name, "_seconds") ? billionth : 1;
    if (scale >= 1 && v > floor(v) && v < fraction_max) scale = billionth;
    if (scale < 1 && v > billionths_max) scale = 1;
    if (scale < s->stored_scale || scale > s->stored_scale) {
        s->stored = UNKNOWN;
        s->stored_scale = scale;
    }
    s->counter = (uint64_t)llround(scale < 1 ? v * 1e9 : v);
}

/* The slot of s, plus 1; 0 = it is not stored. */
static uint32_t store_model_slot_of(struct sonde_store_feed *f, const struct sonde_model *m,
                                    struct sonde_model_series *s)
{
    enum { RETRY_TICKS = 60 };
    if (s->stored != UNKNOWN && s->stored != REFUSED) return s->stored;
    if (s->stored == REFUSED && m->tick % RETRY_TICKS) return 0;
    const struct sonde_model_family *family = s->family;
    const struct sonde_store_series spec = {
        .name = family->name,
        .help = family->help,
        .unit = family->unit,
        .source = family->source,
        .labels = s->label_text,
        .program = s->process ? s->process->program : "",
        .pid = s->process ? s->process->pid : 0,
        .type = family->type,
        .kind = family->kind,
        .scale = s->real && family->type == SONDE_COUNTER ? s->stored_scale : family->scale,
        .from_zero = s->from_zero != 0,
    };
    uint32_t slot = 0;
    s->stored = f->ops->define(f->store, &spec, &slot) == 0 ? slot + 1 : REFUSED;
    return s->stored == REFUSED ? 0 : s->stored;
}

static uint64_t store_model_bits_of(double d)
{
    uint64_t v;
    memcpy(&v, &d, sizeof(v));
    return v;
}

static void store_model_put_value(struct sonde_store_feed *f, const struct sonde_model *m,
                                  const struct sonde_model_series *s, uint32_t slot)
{
    struct sonde_store_value *v = &f->tick.values[f->tick.count];
    *v = (struct sonde_store_value){ .slot = slot };
    if (s->family->type == SONDE_COUNTER) {
        v->value = s->counter;
    } else if (s->family->type == SONDE_GAUGE) {
        v->value = store_model_bits_of(s->gauge);
    } else {
        static const struct sonde_hist_delta nothing;
        const size_t at = (size_t)((m->tick - 1) % SONDE_HISTORY), from = f->data.len;
        const int known = s->history_hist && s->history_count > 0;
        sonde_chunk_put_entry(&f->data, known ? &s->history_hist[at] : &nothing);
        v->value = from;
        v->bytes = (uint32_t)(f->data.len - from);
    }
    f->tick.count++;
}

/* The last reading of a process that has ended is kept; that it stays the same is not. */
static int is_over(const struct sonde_model *m, struct sonde_model_series *s)
{
    if (!s->process || !(s->process->ended_s > 0)) return 0;
    if (m->now_s < s->process->ended_s + 2 * m->interval_s) return 0;
    s->stored = REFUSED;
    return 1;
}

void sonde_store_feed_tick(struct sonde_model *m, void *arg)
{
    if (m->shared) sonde_assert_held_write(&m->lock);
    struct sonde_store_feed *f = arg;
    if (f->off) return;
    if (SONDE_ARRAY_RESERVE(f->tick.values, f->cap, m->series_count + 16)) {
        return; /* the next tick shows what was missed */
    }
    f->tick.count = 0;
    f->tick.time_ms = (int64_t)floor(m->now_s * 1e3);
    sonde_buf_reset(&f->data);
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *family = m->families[i];
        for (size_t k = 0; k < family->series_count && f->tick.count < f->cap; k++) {
            struct sonde_model_series *s = family->series[k];
            if (is_over(m, s)) continue;
            if (s->real && family->type == SONDE_COUNTER) choose_scale(s);
            const uint32_t slot = store_model_slot_of(f, m, s);
            if (slot) store_model_put_value(f, m, s, slot - 1);
        }
    }
    if (f->data.error) return;
    f->tick.data = f->data.data;
    f->off = f->ops->append(f->store, &f->tick) == SONDE_EOFF;
}

static void take_span(const struct sonde_model_span *span, void *arg)
{
    struct sonde_store_feed *f = arg;
    f->ops->span_add(f->store, span); /* what does not fit is counted there */
}

void sonde_store_feed_spans(struct sonde_store_feed *f, struct sonde_model *m)
{
    if (m->shared) sonde_assert_held_write(&m->lock);
    f->spans = (struct sonde_model_listener){ .on_span = take_span, .arg = f };
    sonde_model_listen(m, &f->spans);
}

void sonde_store_feed_request(struct sonde_store_feed *f, const struct sonde_infer_request *r)
{
    f->ops->request_add(f->store, r);
}
