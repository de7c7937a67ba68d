/* done.c - requests that ended: their figures, the ring of them, and which timelines are
 * kept.
 *
 * Every request in flight has a timeline, since nobody knows yet whether it will be slow. When it
 * ends the timeline is kept if it is among the slowest of those in the ring, by total or by first
 * token, if it failed, if somebody asked for a profile of it, or as long as it is among the newest.
 * Each of these lists is short, so it is searched and not sorted. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "infer/private.h"
#include "model/window.h"
#include "base/alloc.h"
#include "profile/profile.h"

enum { KEPT_TOTAL = 1, KEPT_TTFT = 2, KEPT_FAILED = 4, KEPT_RECENT = 8, KEPT_PROFILE = 16 };
enum { KINDS_MAX = 24 };

/* ---- Timelines ------------------------------------------------------------------------------ */

static void infer_done_join(struct sonde_infer_item *to, const struct sonde_infer_item *from)
{
    if (from->end_ns > to->end_ns) to->end_ns = from->end_ns;
    to->busy_ns += from->busy_ns;
    to->tokens += from->tokens;
    to->count += from->count;
    if (from->batch > to->batch) to->batch = from->batch;
}

/* Every second item of a name goes into the one before it. */
static void join_neighbours(struct infer_flight *f)
{
    struct { const char *name; uint32_t at; int open; } kinds[KINDS_MAX];
    size_t kind_count = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->r.item_count; i++) {
        const struct sonde_infer_item item = f->r.items[i];
        size_t k = 0;
        while (k < kind_count && kinds[k].name != item.name) k++;
        if (k < kind_count && kinds[k].open) {
            infer_done_join(&f->r.items[kinds[k].at], &item);
            kinds[k].open = 0;
            continue;
        }
        if (k == kind_count && kind_count < KINDS_MAX) kinds[kind_count++].name = item.name;
        if (k < kind_count) {
            kinds[k].at = kept;
            kinds[k].open = 1;
        }
        f->r.items[kept++] = item;
    }
    f->r.item_count = kept;
}

/* Room for one more item; 0 = there is none. */
static int item_room(struct sonde_infer_tracker *tracker, struct infer_flight *f)
{
    if (f->r.item_count < f->item_cap) return 1;
    const uint32_t cap = f->item_cap ? f->item_cap * 2 : 16;
    if (cap <= SONDE_INFER_ITEMS_MAX &&
        tracker->item_total + cap - f->item_cap <= INFER_ITEMS_MAX) {
        struct sonde_infer_item *grown =
            sonde__realloc(f->r.items, cap * sizeof(*f->r.items));
        if (grown) {
            tracker->item_total += cap - f->item_cap;
            f->r.items = grown;
            f->item_cap = cap;
            return 1;
        }
    }
    join_neighbours(f);
    return f->r.item_count < f->item_cap;
}

void infer_item(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                const struct sonde_infer_item *item)
{
    if (item_room(tracker, f)) {
        f->r.items[f->r.item_count++] = *item;
        return;
    }
    /* Names of all kinds: the last of this one has it. */
    for (uint32_t i = f->r.item_count; i-- > 0;) {
        if (f->r.items[i].name != item->name) continue;
        infer_done_join(&f->r.items[i], item);
        return;
    }
}

/* ---- Figures -------------------------------------------------------------------------------- */

static double infer_done_clamp(double v, double low, double high)
{
    return !(v > low) ? low : v > high ? high : v;
}

static void gap_figures(const struct infer_flight *f, struct sonde_infer_request *out)
{
    const struct sonde_hist_value *h = f->itl;
    /* How many there were is known better than by pieces of a stream. */
    if (out->itl_count && f->exact) out->itl_count = out->tokens_out - 1;
    if (!out->itl_count) return;
    out->itl_s = (double)(f->last_token_ns - f->first_token_ns) * 1e-9 / (double)out->itl_count;
    out->itl_min_s = (double)f->itl_ns_min * 1e-9;
    out->itl_max_s = (double)f->itl_ns_max * 1e-9;
    out->itl_p50_s = out->itl_p95_s = out->itl_p99_s = out->itl_s; /* without memory for more */
    if (h && h->count) {
        const uint64_t *const *octave = (const uint64_t *const *)h->octave;
        out->itl_p50_s = sonde_quantile(0.5, h->zero, octave, 1e-9);
        out->itl_p95_s = sonde_quantile(0.95, h->zero, octave, 1e-9);
        out->itl_p99_s = sonde_quantile(0.99, h->zero, octave, 1e-9);
    }
    /* A bucket's middle may lie outside of what was in it. */
    out->itl_p50_s = infer_done_clamp(out->itl_p50_s, out->itl_min_s, out->itl_max_s);
    out->itl_p95_s = infer_done_clamp(out->itl_p95_s, out->itl_p50_s, out->itl_max_s);
    out->itl_p99_s = infer_done_clamp(out->itl_p99_s, out->itl_p95_s, out->itl_max_s);
}

void infer_figures(const struct infer_flight *f, uint64_t end_ns, struct sonde_infer_request *out)
{
    assert(end_ns >= f->r.arrived_ns);
    *out = f->r;
    const uint64_t total_ns = end_ns - f->r.arrived_ns;
    out->total_s = (double)total_ns * 1e-9;
    if (f->first_token_ns && !(f->r.flags & SONDE_INFER_INCOMPLETE)) {
        out->ttft_s = (double)(f->first_token_ns - f->r.arrived_ns) * 1e-9;
    }
    for (size_t k = 0; k < SONDE_PHASE_COUNT; k++) {
        out->phase_s[k] = (double)f->phase_ns[k] * 1e-9;
    }
    if (!out->phase_count[SONDE_PHASE_QUEUE] && f->work_ns &&
        !(f->r.flags & SONDE_INFER_INCOMPLETE)) {
        const uint64_t before_ns = f->work_ns - f->r.arrived_ns;
        out->phase_s[SONDE_PHASE_QUEUE] =
            before_ns > f->encode_ns ? (double)(before_ns - f->encode_ns) * 1e-9 : 0;
        out->phase_count[SONDE_PHASE_QUEUE] = 1;
        out->flags |= SONDE_INFER_QUEUE_DERIVED;
    }
    gap_figures(f, out);
    if (total_ns) {
        out->tokens_per_s = (double)out->tokens_out / out->total_s;
        out->efficiency = (double)out->tokens_out / (out->total_s * 1e3);
    }
    if (out->tokens_in) {
        out->hit_ratio = (double)out->tokens_reused / (double)out->tokens_in;
    }
    if (f->model) {
        out->backend = f->model->facts.backend;
        out->memory_bytes = f->model->memory_now;
    }
}

/* ---- Statistics ----------------------------------------------------------------------------- */

static uint64_t infer_done_ns_of(double seconds) { return (uint64_t)(seconds * 1e9 + 0.5); }

static void count_slo(struct sonde_infer_tracker *tracker, struct infer_group *g,
                      struct sonde_infer_request *r)
{
    const struct sonde_infer_options *o = &tracker->o;
    const int none = !(o->slo_ttft_s > 0) && !(o->slo_itl_s > 0) && !(o->slo_total_s > 0);
    /* Who went away, and what nobody saw the end of, is no measure of the service. */
    if (none || r->outcome == SONDE_CANCELLED || r->outcome == SONDE_INFER_LOST) return;
    const int ttft = o->slo_ttft_s > 0 && r->tokens_out && r->ttft_s > o->slo_ttft_s;
    const int itl = o->slo_itl_s > 0 && r->itl_count && r->itl_s > o->slo_itl_s;
    const int total = o->slo_total_s > 0 && r->total_s > o->slo_total_s;
    if (ttft) infer_add(tracker, g, SONDE_INFER_G_SLO_TTFT, 1);
    if (itl) infer_add(tracker, g, SONDE_INFER_G_SLO_ITL, 1);
    if (total) infer_add(tracker, g, SONDE_INFER_G_SLO_TOTAL, 1);
    const int met = r->outcome == SONDE_OK && !ttft && !itl && !total;
    infer_add(tracker, g, met ? SONDE_INFER_G_SLO_MET : SONDE_INFER_G_SLO_MISSED, 1);
    r->flags |= met ? SONDE_INFER_SLO_MET : SONDE_INFER_SLO_MISSED;
    if (met) tracker->totals.slo_met++;
    else tracker->totals.slo_missed++;
}

static void count_phases(struct sonde_infer_tracker *tracker, struct infer_group *g,
                         const struct sonde_infer_request *r)
{
    for (uint32_t k = 1; k < SONDE_PHASE_COUNT; k++) {
        if (!r->phase_count[k]) continue;
        infer_record(tracker, g, (enum sonde_infer_group_slot)(SONDE_INFER_G_PHASE_QUEUE + k - 1),
                     infer_done_ns_of(r->phase_s[k]), 1);
    }
}

static void count_done(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                       struct sonde_infer_request *r, uint64_t end_ns)
{
    struct infer_group *g = f->group;
    infer_add(tracker, g, (enum sonde_infer_group_slot)(SONDE_INFER_G_OK + r->outcome), 1);
    tracker->totals.requests[r->outcome]++;
    if (r->outcome == SONDE_INFER_LOST || r->flags & SONDE_INFER_INCOMPLETE) return;
    const uint64_t total_ns = end_ns - r->arrived_ns;
    if (r->outcome != SONDE_OK) {
        infer_error(tracker, g, total_ns, r->outcome,
                    r->error[0] ? r->error : sonde_infer_outcome_name(r->outcome));
    } else {
        infer_record(tracker, g, SONDE_INFER_G_DURATION, total_ns, 1);
        infer_exemplar(g, SONDE_INFER_G_DURATION, total_ns, r, end_ns);
        if (r->itl_count) {
            infer_record(tracker, g, SONDE_INFER_G_TPOT, infer_done_ns_of(r->itl_s), 1);
        }
    }
    if (r->tokens_in) infer_record(tracker, g, SONDE_INFER_G_USAGE_IN, r->tokens_in, 1);
    if (r->tokens_out) infer_record(tracker, g, SONDE_INFER_G_USAGE_OUT, r->tokens_out, 1);
    count_phases(tracker, g, r);
    count_slo(tracker, g, r);
}

/* ---- The ring ------------------------------------------------------------------------------- */

static struct infer_done *infer_done_entry(const struct sonde_infer_tracker *tracker,
                                           uint64_t serial)
{
    return &tracker->done[serial % tracker->o.done_max];
}

static void infer_done_unkeep(struct sonde_infer_tracker *tracker, struct infer_kept *list,
                              uint32_t bit, size_t at)
{
    struct infer_done *d = infer_done_entry(tracker, list->serial[at]);
    d->kept &= ~bit;
    if (!d->kept) {
        sonde__free(d->r.items);
        d->r.items = NULL;
        d->r.item_count = 0;
    }
    assert(at < list->count);
    list->count--;
    memmove(&list->serial[at], &list->serial[at + 1],
            (list->count - at) * sizeof(list->serial[0]));
}

static void infer_done_keep(struct sonde_infer_tracker *tracker, struct infer_kept *list,
                            uint32_t bit, uint64_t serial)
{
    assert(list->count < INFER_KEPT);
    list->serial[list->count++] = serial;
    infer_done_entry(tracker, serial)->kept |= bit;
}

/* The newest of a kind. */
static void keep_newest(struct sonde_infer_tracker *tracker, struct infer_kept *list, uint32_t bit,
                        uint64_t serial)
{
    if (list->count == INFER_KEPT) infer_done_unkeep(tracker, list, bit, 0);
    infer_done_keep(tracker, list, bit, serial);
}

static double infer_done_slowness(const struct sonde_infer_tracker *tracker, uint64_t serial,
                                  uint32_t bit)
{
    const struct sonde_infer_request *r = &infer_done_entry(tracker, serial)->r;
    return bit == KEPT_TOTAL ? r->total_s : r->ttft_s;
}

/* The slowest of those in the ring. */
static void keep_slowest(struct sonde_infer_tracker *tracker, struct infer_kept *list, uint32_t bit,
                         uint64_t serial)
{
    if (list->count == INFER_KEPT) {
        size_t least = 0;
        for (size_t i = 1; i < list->count; i++) {
            if (infer_done_slowness(tracker, list->serial[i], bit) <
                infer_done_slowness(tracker, list->serial[least], bit)) {
                least = i;
            }
        }
        if (infer_done_slowness(tracker, serial, bit) <=
            infer_done_slowness(tracker, list->serial[least], bit)) {
            return;
        }
        infer_done_unkeep(tracker, list, bit, least);
    }
    infer_done_keep(tracker, list, bit, serial);
}

static void evict_from(struct sonde_infer_tracker *tracker, struct infer_kept *list, uint32_t bit,
                       uint64_t serial)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->serial[i] == serial) {
            infer_done_unkeep(tracker, list, bit, i);
            return;
        }
    }
}

/* The entry that serial will take over. */
static void infer_done_evict(struct sonde_infer_tracker *tracker, uint64_t serial)
{
    struct infer_done *d = infer_done_entry(tracker, serial);
    if (serial >= tracker->o.done_max) {
        const uint64_t old = serial - tracker->o.done_max;
        evict_from(tracker, &tracker->slow_total, KEPT_TOTAL, old);
        evict_from(tracker, &tracker->slow_ttft, KEPT_TTFT, old);
        evict_from(tracker, &tracker->failed, KEPT_FAILED, old);
        evict_from(tracker, &tracker->recent, KEPT_RECENT, old);
    }
    sonde_infer_request_release(&d->r);
    *d = (struct infer_done){ 0 };
}

static void infer_done_store(struct sonde_infer_tracker *tracker,
                             const struct sonde_infer_request *r)
{
    if (!tracker->done) tracker->done = sonde__calloc(tracker->o.done_max, sizeof(*tracker->done));
    if (!tracker->done) {
        struct sonde_infer_request gone = *r;
        sonde_infer_request_release(&gone);
        return;
    }
    const uint64_t serial = tracker->done_next++;
    infer_done_evict(tracker, serial);
    struct infer_done *d = infer_done_entry(tracker, serial);
    d->r = *r;
    if (r->flags & SONDE_INFER_PROFILE) d->kept |= KEPT_PROFILE;
    keep_newest(tracker, &tracker->recent, KEPT_RECENT, serial);
    if (r->outcome != SONDE_OK) keep_newest(tracker, &tracker->failed, KEPT_FAILED, serial);
    if (r->outcome == SONDE_INFER_LOST || r->flags & SONDE_INFER_INCOMPLETE || r->invalid[0]) {
        return;
    }
    keep_slowest(tracker, &tracker->slow_total, KEPT_TOTAL, serial);
    if (r->tokens_out) keep_slowest(tracker, &tracker->slow_ttft, KEPT_TTFT, serial);
}

/* NULL: others have taken its place. */
static struct infer_done *counted_entry(const struct sonde_infer_tracker *tracker,
                                        const struct infer_flight *f)
{
    return tracker->done && tracker->done_next - f->counted_serial <= tracker->o.done_max
               ? infer_done_entry(tracker, f->counted_serial) : NULL;
}

void infer_finish(struct sonde_infer_tracker *tracker, struct infer_flight *f, uint32_t outcome,
                  uint64_t end_ns, const char *error)
{
    struct sonde_infer_request r;
    if (end_ns < tracker->from_ns) return; /* f keeps what is its own */
    f->told = 1;
    infer_figures(f, end_ns, &r);
    r.outcome = outcome;
    r.error = infer_name(tracker, error);
    if (f->counted) r.flags |= SONDE_INFER_WENT_ON;
    const char *field = "";
    if (sonde_infer_validate(&r, &field, NULL)) {
        r.invalid = field;
        struct sonde_model_series *s = infer_invalid_request_series(tracker, field);
        if (s) s->counter++;
        if (!f->counted) tracker->totals.requests[outcome]++;
    } else if (!f->counted) {
        count_done(tracker, f, &r, end_ns);
    }
    if (tracker->o.on_done) tracker->o.on_done(&r, tracker->o.on_done_arg);
    f->r.items = NULL;
    f->r.attrs = NULL;
    f->r.item_count = f->r.attr_count = 0;
    struct infer_done *before = f->counted ? counted_entry(tracker, f) : NULL;
    if (before) {
        sonde_infer_request_release(&before->r);
        before->r = r;
        return;
    }
    f->counted_serial = tracker->done_next;
    infer_done_store(tracker, &r);
}

void infer_done_resume(struct sonde_infer_tracker *tracker, struct infer_flight *f)
{
    struct infer_done *d = f->told ? counted_entry(tracker, f) : NULL;
    f->counted = f->told;
    f->item_cap = f->r.item_count; /* of one that was not told they are its own still */
    if (!d) return;
    f->r.items = d->r.items;
    f->r.item_count = f->item_cap = d->r.items ? d->r.item_count : 0;
    f->r.attrs = d->r.attrs;
    f->r.attr_count = d->r.attr_count;
    d->r.items = NULL;
    d->r.attrs = NULL;
    d->r.item_count = d->r.attr_count = 0;
}

void infer_done_release(struct sonde_infer_tracker *tracker)
{
    for (size_t i = 0; tracker->done && i < tracker->o.done_max; i++) {
        sonde_infer_request_release(&tracker->done[i].r);
    }
    sonde__free(tracker->done);
    tracker->done = NULL;
}

static int copy_request(struct sonde_infer_tracker *tracker, const struct sonde_infer_request *r,
                        struct sonde_infer_request *out)
{
    *out = *r;
    out->program = infer_name(tracker, r->program);
    out->model = infer_name(tracker, r->model);
    out->route = infer_name(tracker, r->route);
    out->backend = infer_name(tracker, r->backend);
    out->error = infer_name(tracker, r->error);
    out->invalid = infer_name(tracker, r->invalid);
    out->items = NULL;
    out->attrs = NULL;
    if (r->items) out->items = sonde__alloc((r->item_count + 1u) * sizeof(*r->items));
    if (r->attrs) out->attrs = sonde__alloc((r->attr_count + 1u) * sizeof(*r->attrs));
    if ((r->items && !out->items) || (r->attrs && !out->attrs)) {
        sonde_infer_request_release(out);
        return SONDE_ENOMEM;
    }
    for (uint32_t i = 0; r->items && i < r->item_count; i++) {
        out->items[i] = r->items[i];
        out->items[i].name = infer_name(tracker, r->items[i].name);
    }
    for (uint32_t i = 0; r->attrs && i < r->attr_count; i++) {
        out->attrs[i] = r->attrs[i];
        out->attrs[i].key = infer_name(tracker, r->attrs[i].key);
    }
    return 0;
}

int sonde_infer_adopt(struct sonde_infer_tracker *tracker, const struct sonde_infer_request *r)
{
    INFER_ASSERT_WRITE(tracker);
    struct sonde_infer_request copy;
    if (copy_request(tracker, r, &copy)) return SONDE_ENOMEM;
    infer_done_store(tracker, &copy);
    if (!tracker->done) return SONDE_ENOMEM;
    infer_done_entry(tracker, tracker->done_next - 1)->kept |=
        KEPT_PROFILE; /* its timeline stays, whatever others are */
    tracker->totals
        .requests[copy.outcome < SONDE_INFER_OUTCOMES ? copy.outcome : SONDE_INFER_LOST]++;
    tracker->totals.tokens_in += copy.tokens_in;
    tracker->totals.tokens_reused += copy.tokens_reused;
    tracker->totals.tokens_out += copy.tokens_out;
    return 0;
}

size_t sonde_infer_done_count(const struct sonde_infer_tracker *tracker)
{
    INFER_ASSERT_READ(tracker);
    return tracker->done_next < tracker->o.done_max ? (size_t)tracker->done_next
                                                    : tracker->o.done_max;
}

const struct sonde_infer_request *sonde_infer_done(const struct sonde_infer_tracker *tracker,
                                                   size_t age)
{
    INFER_ASSERT_READ(tracker);
    if (age >= sonde_infer_done_count(tracker)) return NULL;
    return &infer_done_entry(tracker, tracker->done_next - 1 - age)->r;
}

/* ---- Into a run file ------------------------------------------------------------------------- */

static struct sonde_infer_request *tracker_run_find_in(struct sonde_infer_run *run,
                                                       const struct sonde_infer_request *r)
{
    for (size_t i = run->request_count; i-- > 0;) {
        struct sonde_infer_request *o = &run->requests[i];
        if (o->id == r->id && o->pid == r->pid && o->source == r->source &&
            o->arrived_ns == r->arrived_ns) {
            return o;
        }
    }
    return NULL;
}

static int copy_items(struct sonde_profile *p, struct sonde_infer_request *to,
                      const struct sonde_infer_request *from)
{
    struct sonde_infer_item *items = sonde__alloc(from->item_count * sizeof(*items));
    if (!items) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < from->item_count; i++) {
        items[i] = from->items[i];
        const uint32_t name = sonde_profile_cstring(p, items[i].name);
        items[i].name = sonde_profile_str(p, name);
    }
    to->items = items;
    to->item_count = from->item_count;
    p->bytes += from->item_count * sizeof(*items);
    return 0;
}

int sonde_infer_complete_run(const struct sonde_infer_tracker *tracker, struct sonde_profile *p)
{
    int rc = 0;
    for (size_t age = 0; !rc && age < sonde_infer_done_count(tracker); age++) {
        const struct sonde_infer_request *r = sonde_infer_done(tracker, age);
        struct sonde_infer_request *kept =
            r->items && p->infer ? tracker_run_find_in(p->infer, r) : NULL;
        if (kept && !kept->items) rc = copy_items(p, kept, r);
    }
    for (size_t i = 0; !rc && i < tracker->model_count; i++) {
        rc = sonde_infer_run_model(p, &tracker->models[i]->facts);
    }
    for (int i = 0; !rc && i < SONDE_INFER_REASON_COUNT; i++) {
        const enum sonde_infer_reason reason = (enum sonde_infer_reason)i;
        const uint64_t count = sonde_infer_invalid(tracker, reason);
        if (count) rc = sonde_infer_run_invalid(p, sonde_infer_reason_name(reason), count);
    }
    if (!rc && p->infer) {
        p->infer->slo_ttft_s = tracker->o.slo_ttft_s;
        p->infer->slo_itl_s = tracker->o.slo_itl_s;
        p->infer->slo_total_s = tracker->o.slo_total_s;
    }
    return rc;
}
