/* llama.c - calls of llama.cpp out of the rings, as "Calls of llama.cpp" in segment.h lays
 * them out, for the tracker (llama.h), and what comes out of that into the model.
 *
 * Parts and texts stand before their call and wait here for it. Rings are read one after the other;
 * the tracker puts calls in order once all have been read. */
#include <string.h>

#include "base/alloc.h"
#include "infer/llama/llama.h"
#include "collect/segment/private.h"

#define PARTS 1024u
#define TEXTS 16u
#define TEXT_BYTES 40u
#define SLACK_NS 50000000u  /* a thread may be kept from running between its clock and its record */

struct segment_llama {
    struct sonde_llama *tracker;
    struct segment_drain *d;   /* the one that is under way */
    uint32_t part_next, text_next;
    struct { uint64_t key; struct sonde_llama_part part; } part[PARTS];
    struct { uint64_t key; char text[2 * TEXT_BYTES + 1]; } text[TEXTS];
    struct sonde_llama_part taken[SONDE_LLAMA_PARTS_MAX];
    struct sonde_model_series *calls[SONDE__LLAMA_COUNT];
    uint64_t calls_before[SONDE__LLAMA_COUNT]; /* counted by another agent */
    struct sonde_model_series *ratio[2];
};

/* ---- What the tracker tells ------------------------------------------------------------------ */

static void segment_llama_on_event(void *arg, const struct sonde_infer_event *e)
{
    segment_infer_deliver(((const struct segment_llama *)arg)->d, e);
}

static void segment_llama_on_span(void *arg, const struct sonde_model_span *span)
{
    struct segment_drain *d = ((const struct segment_llama *)arg)->d;
    struct sonde_model_span copy = *span;
    struct sonde_model_series **series = &d->s->request_duration[span->outcome];
    for (uint32_t k = 1; k < SONDE_PHASE_COUNT; k++) {
        if (!strcmp(span->name, sonde_phase_name(k))) series = &d->s->phase_duration[k];
    }
    segment_span_deliver(d, &copy, series);
}

static const struct sonde_llama_ops ops = { segment_llama_on_event, segment_llama_on_span };

/* ---- Records --------------------------------------------------------------------------------- */

static struct segment_llama *llama_of(struct segment_drain *d)
{
    struct segment_llama *l = d->s->llama;
    if (!l) l = sonde__calloc(1, sizeof(*l));
    if (!l) return NULL;
    l->d = d; /* a call that there is no room for has the tracker tell of earlier ones */
    if (l->tracker) return l;
    l->tracker = sonde_llama_create(d->p->pid, SONDE_INFER_HOOK, &ops, l);
    if (!l->tracker) {
        sonde__free(l);
        return NULL;
    }
    d->s->llama = l;
    if (d->s->llama_replay) {
        sonde_llama_replay(l->tracker, d->s->llama_told, d->s->llama_told_ns);
    }
    return l;
}

static void part_keep(struct segment_llama *l, uint64_t key, const uint64_t w[3])
{
    const uint32_t tokens = (uint32_t)(w[1] >> 20 & 0xfffff);
    if (!tokens || !key) return;
    const uint32_t at = l->part_next++ % PARTS;
    l->part[at].key = key;
    l->part[at].part = (struct sonde_llama_part){
        .seq = (int32_t)(w[0] >> 32 & 0x3fffffff), .pos = (int32_t)(uint32_t)w[0],
        .row = (uint32_t)(w[1] >> 40), .tokens = tokens, .outputs = (uint32_t)(w[1] & 0xfffff),
        .flags = (w[0] >> 63 ? SONDE_LLAMA_SHARED : 0) | (w[0] >> 62 & 1 ? SONDE_LLAMA_IMPLIED : 0),
        .tail = w[2],
    };
}

/* Into l->taken. keep: they will be asked for again. */
static uint32_t parts_take(struct segment_llama *l, uint64_t key, uint32_t count, int keep)
{
    uint32_t n = 0;
    const uint32_t look = l->part_next < PARTS ? l->part_next : PARTS;
    for (uint32_t i = look; i-- > 0 && n < count && n < SONDE_LLAMA_PARTS_MAX;) {
        const uint32_t at = (l->part_next - 1 - i) % PARTS;
        if (l->part[at].key != key) continue;
        l->taken[n++] = l->part[at].part;
        if (!keep) l->part[at].key = 0;
    }
    return n;
}

static void segment_llama_text_keep(struct segment_llama *l, const uint64_t w[8])
{
    const uint64_t at = w[2] >> 32, n = w[2] & UINT32_MAX;
    if (at % TEXT_BYTES || at > TEXT_BYTES || n > TEXT_BYTES || !w[1]) return;
    uint32_t slot = (l->text_next + TEXTS - 1) % TEXTS;
    if (at == 0) {
        slot = l->text_next++ % TEXTS;
        memset(&l->text[slot], 0, sizeof(l->text[slot]));
        l->text[slot].key = w[1];
    }
    if (l->text[slot].key == w[1]) memcpy(l->text[slot].text + at, &w[3], n);
}

static const char *segment_llama_text_take(struct segment_llama *l, uint64_t key)
{
    for (uint32_t i = 0; i < TEXTS; i++) {
        if (l->text[i].key != key) continue;
        l->text[i].key = 0;
        return l->text[i].text;
    }
    return "";
}

/* Where a and b are not the arguments themselves. */
static void segment_llama_arguments(struct sonde_llama_call *c, uint64_t a, uint64_t b)
{
    c->arg[0] = a;
    c->arg[1] = b;
    switch (c->fn) {
    case SONDE__LLAMA_TOKENIZE:
        c->arg[0] = a >> 32;
        c->arg[1] = a & UINT32_MAX;
        c->arg[2] = b;
        c->prefix = c->object;
        c->object = 0;
        break;
    case SONDE__LLAMA_SEQ_RM:
        c->arg[1] = (uint64_t)(int64_t)(int32_t)(b >> 32);
        c->arg[2] = (uint64_t)(int64_t)(int32_t)b;
        break;
    case SONDE__LLAMA_DECODE:
    case SONDE__LLAMA_ENCODE:
        c->arg[1] = 0;
        c->parts_dropped = b < UINT32_MAX ? (uint32_t)b : UINT32_MAX;
        break;
    case SONDE__LLAMA_PERF:
        c->arg[2] = (uint64_t)c->result;
        c->result = 0;
        break;
    default: break;
    }
}

static void segment_llama_on_call(struct segment_drain *d, struct segment_llama *l,
                                  const uint64_t w[8])
{
    const int tsc = d->s->h.tsc != 0;
    struct sonde_llama_call c = {
        .fn = (uint16_t)(w[7] >> 24 & 0xff), .tid = (uint32_t)(w[7] >> 32),
        .begin_ns = sonde_tick_unix_ns(d->clock, tsc, w[1]), .stamp = w[1], .end_stamp = w[2],
        .object = w[3], .result = (int64_t)w[4], .parts = l->taken,
    };
    c.end_ns = w[2] >= w[1] && c.begin_ns
                   ? c.begin_ns + sonde_tick_span_ns(d->clock, tsc, w[1], w[2]) : 0;
    const uint64_t key = sonde__phase_id(w[1], w[3], c.tid, c.fn);
    const uint32_t parts = (uint32_t)(w[7] & 0xffffff);
    segment_llama_arguments(&c, w[5], w[6]);
    c.text = segment_llama_text_take(l, key);
    if (parts) c.part_count = parts_take(l, key, parts, 0);
    sonde_llama_track(l->tracker, &c);
}

int segment_llama_gap(struct segment_drain *d, const struct sonde__span_rec *r)
{
    struct segment_llama *l = llama_of(d);
    const uint64_t type = r->seq_type & 0xff;
    if (!l || (type != SONDE__REC_LLAMA_CALL && type != SONDE__REC_LLAMA_PASS)) return 0;
    /* A call's parts may be among the lost. */
    const uint64_t ticks = type == SONDE__REC_LLAMA_CALL ? r->end : r->start;
    const uint64_t until_ns = sonde_tick_unix_ns(d->clock, d->s->h.tsc != 0, ticks);
    const uint64_t now_ns = d->clock->unix_ns + d->clock->now_mono_ns;
    sonde_llama_lost(l->tracker, until_ns < now_ns ? until_ns : now_ns);
    return 1;
}

static void segment_llama_on_pass(struct segment_drain *d, struct segment_llama *l,
                                  const uint64_t w[8])
{
    const uint32_t tid = (uint32_t)(w[7] >> 32), parts = (uint32_t)(w[7] & 0xffffff);
    const uint64_t key = sonde__phase_id(w[1], w[3], tid, (uint32_t)(w[7] >> 24 & 0xff));
    const uint32_t got = parts ? parts_take(l, key, parts, 1) : 0;
    sonde_llama_pass(l->tracker, tid, w[3], sonde_tick_unix_ns(d->clock, d->s->h.tsc != 0, w[1]),
                     l->taken, got == parts ? got : 0);
}

static void on_known(struct segment_llama *l, const uint64_t w[8])
{
    const uint64_t key = sonde__phase_id(w[1], w[3], (uint32_t)(w[7] >> 32), 0);
    sonde_llama_known(l->tracker, w[3], w[5], w[4], segment_llama_text_take(l, key));
}

void segment_llama_record(struct segment_drain *d, const struct sonde__span_rec *r)
{
    struct segment_llama *l = llama_of(d);
    uint64_t w[8];
    if (!l) return;
    memcpy(w, r, sizeof(*r));
    switch (w[0] & 0xff) {
    case SONDE__REC_LLAMA_CALL: segment_llama_on_call(d, l, w); break;
    case SONDE__REC_LLAMA_KNOWN: on_known(l, w); break;
    case SONDE__REC_LLAMA_PASS: segment_llama_on_pass(d, l, w); break;
    case SONDE__REC_LLAMA_PART:
        part_keep(l, w[1], &w[2]);
        part_keep(l, w[1], &w[5]);
        break;
    default: segment_llama_text_keep(l, w); break;
    }
}

/* ---- Series ---------------------------------------------------------------------------------- */

static struct sonde_model_series *
segment_llama_series_of(struct segment_drain *d, const struct sonde_model_family_spec *spec,
                        const char *label, const char *value)
{
    const struct sonde_label labels[] = { { label, value } };
    return sonde_model_own_series(d->m, spec, d->p, labels, 1);
}

static void calls_set(struct segment_drain *d, struct segment_llama *l,
                      const struct sonde_llama_figures *f)
{
    static const char *const names[] = {
#define SONDE__X(id, symbol, a, b, c, absent) symbol,
        SONDE__LLAMA_FUNCTIONS(SONDE__X)
#undef SONDE__X
    };
    static const struct sonde_model_family_spec spec = {
        .name = "sonde_llama_calls_total", .help = "Calls of llama.cpp's functions that were seen.",
        .source = "sonde", .type = SONDE_COUNTER, .kind = SONDE_KIND_THROUGHPUT, .scale = 1,
    };
    for (uint32_t i = 0; i < SONDE__LLAMA_COUNT; i++) {
        if (!f->seen[i]) continue;
        if (!l->calls[i]) {
            l->calls[i] = segment_llama_series_of(d, &spec, "function", names[i]);
            l->calls_before[i] = l->calls[i] ? l->calls[i]->counter : 0;
        }
        if (l->calls[i]) l->calls[i]->counter = l->calls_before[i] + f->seen[i];
    }
}

static void check_set(struct segment_drain *d, struct segment_llama *l,
                      const struct sonde_llama_check *c)
{
    static const struct sonde_model_family_spec spec = {
        .name = "sonde_llama_check_ratio",
        .help = "Time by the calls that were seen, of what llama.cpp measured itself; 1 is right.",
        .unit = "ratio", .source = "sonde", .type = SONDE_GAUGE, .kind = SONDE_KIND_CUSTOM,
        .scale = 1,
    };
    const uint64_t theirs[2] = { c->theirs_prompt_ns, c->theirs_eval_ns };
    const uint64_t ours[2] = { c->ours_prompt_ns, c->ours_eval_ns };
    for (uint32_t i = 0; i < 2; i++) {
        if (!theirs[i]) continue;
        if (!l->ratio[i]) {
            l->ratio[i] = segment_llama_series_of(d, &spec, "phase", i ? "eval" : "prompt_eval");
        }
        if (l->ratio[i]) l->ratio[i]->gauge = (double)ours[i] / (double)theirs[i];
    }
}

/* ---- Draining -------------------------------------------------------------------------------- */

void segment_llama_drained(struct segment_drain *d, int last)
{
    struct segment_llama *l = d->s->llama;
    struct sonde_llama_figures f;
    if (!l) return;
    const uint64_t now_ns = d->clock->unix_ns + d->clock->now_mono_ns;
    l->d = d;
    if (last) sonde_llama_end(l->tracker);
    else sonde_llama_drained(l->tracker, now_ns - SLACK_NS);
    const uint64_t told = sonde_llama_told(l->tracker);
    if (told > d->s->llama_told) d->s->llama_told = told;
    d->s->llama_told_ns = now_ns - SLACK_NS;
    sonde_llama_figures(l->tracker, &f);
    calls_set(d, l, &f);
    check_set(d, l, &f.check);
    if (!sonde_llama_check_text(&f.check, d->p->llama_note, sizeof(d->p->llama_note)) &&
        !sonde_llama_lost_text(&f, d->p->llama_note, sizeof(d->p->llama_note))) {
        d->p->llama_note[0] = '\0';
    }
    l->d = NULL;
}

void segment_llama_free(struct sonde_segment *s)
{
    if (!s->llama) return;
    sonde_llama_destroy(s->llama->tracker);
    sonde__free(s->llama);
    s->llama = NULL;
}
