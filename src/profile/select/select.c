/* select.c - see select.h. Everything is worked out before anything is changed. */
#include "profile/select/select.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "profile/select/private.h"

/* Parts of samples as whole numbers: what has been given is always the sum, rounded. */
struct select_parts { double exact; uint64_t given; };

static uint64_t select_part_of(struct select_parts *t, uint64_t whole, double share)
{
    if (share >= 1) return whole;
    t->exact += (double)whole * share;
    const uint64_t sum = (uint64_t)(t->exact + 0.5), own = sum - t->given;
    t->given = sum;
    return own;
}

int sonde_select_asks(const struct sonde_select *s)
{
    return s->phase || s->request || s->slowest || s->slowest_share > 0 || s->trace_count ||
           s->given || s->among;
}

/* What of sample i is selected; where its rest belongs is counted in out. */
static double select_share_of(const struct select_work *w, uint32_t i, struct sonde_selected *out)
{
    const struct sonde_profile_sample *s = &w->p->samples[i];
    if (!s->time_ns || !s->thread) {
        out->untimed[s->kind] += s->weight;
        return 0;
    }
    const double weight = (double)s->weight;
    if (w->of_sample[i]) {
        const double share = fmax(w->span_share[w->of_sample[i] - 1], 0);
        out->own[s->kind] += (uint64_t)(weight * share);
        return share;
    }
    const double share = w->sample_share[i];
    if (share < 0) {
        out->ambiguous[s->kind] += s->weight;
        return 0;
    }
    out->workers[s->kind] += (uint64_t)(weight * share);
    return w->s->workers ? share : 0;
}

static void select_count_requests(const struct select_work *w, struct sonde_selected *out)
{
    if (!w->chosen) return;
    for (uint32_t i = 0; i < w->request_count; i++) {
        out->requests_all += !w->s->among || w->s->among[i] || w->chosen[i];
        out->requests += w->chosen[i];
    }
}

/* ---- What stays ------------------------------------------------------------------------------ */

static void keep_samples(struct select_work *w)
{
    struct sonde_profile *p = w->p;
    struct select_parts weight[SONDE_SAMPLE_KIND_COUNT] = { { 0, 0 } };
    struct select_parts count[SONDE_SAMPLE_KIND_COUNT] = { { 0, 0 } };
    struct sonde_selected unused = { 0 };
    uint32_t kept = 0;
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) p->weights[k] = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        struct sonde_profile_sample s = p->samples[i];
        const double share = select_share_of(w, i, &unused);
        if (share <= 0) continue;
        s.weight = select_part_of(&weight[s.kind], s.weight, share);
        s.count = (uint32_t)select_part_of(&count[s.kind], s.count, share);
        p->weights[s.kind] += s.weight;
        if (s.weight || s.count) p->samples[kept++] = s;
    }
    p->samples_count = kept;
}

static void keep_spans(struct select_work *w)
{
    struct sonde_profile *p = w->p;
    uint32_t kept = 0, part = 0, parts = 0, attr = 0, attrs = 0;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const int stays = w->span_share[i] >= 0;
        for (; part < p->parts_count && p->parts[part].span == i; part++) {
            if (!stays) continue;
            p->parts[parts] = p->parts[part];
            p->parts[parts++].span = kept;
        }
        for (; attr < p->attrs_count && p->attrs[attr].span == i; attr++) {
            if (!stays) continue;
            p->attrs[attrs] = p->attrs[attr];
            p->attrs[attrs++].span = kept;
        }
        if (stays) p->spans[kept++] = p->spans[i];
    }
    p->spans_count = kept;
    p->parts_count = parts;
    p->attrs_count = attrs;
}

static void keep_requests(struct select_work *w)
{
    struct sonde_infer_run *run = w->p->infer;
    uint32_t kept = 0;
    if (!w->chosen) return;
    for (uint32_t i = 0; i < w->request_count; i++) {
        if (w->chosen[i]) run->requests[kept++] = run->requests[i];
        else sonde_infer_request_release(&run->requests[i]);
    }
    run->request_count = kept;
}

/* ---- The call -------------------------------------------------------------------------------- */

static int select_nothing(struct select_work *w, const struct sonde_selected *found)
{
    int outside = 0, untimed = 0;
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
        outside |= found->workers[k] != 0;
        untimed |= found->untimed[k] != 0;
    }
    if (outside) w->hint = SONDE_SELECT_HINT_WORKERS;
    return sonde_err_set(w->err, SONDE_ENOENT, "no sample was taken inside%s%.60s%s%s",
                         w->s->phase ? " the phase '" : w->s->request ? " that request"
                                                                      : " those requests",
                         w->s->phase ? w->s->phase : "", w->s->phase ? "'" : "",
                         outside ? "; only threads without a span of their own were sampled in "
                                   "that time"
                         : untimed ? "; samples of this kind have no time" : "");
}

static int select_all(struct select_work *w, struct sonde_selected *found)
{
    int rc = select_requests(w);
    if (!rc) rc = sonde_profile_innermost_spans(w->p, &w->of_sample, &w->of_span);
    if (!rc) rc = select_spans(w);
    if (!rc) rc = select_workers(w);
    if (rc) return rc;
    select_count_requests(w, found);
    double all = 0;
    for (uint32_t i = 0; i < w->p->samples_count; i++) all += select_share_of(w, i, found);
    return all > 0 ? 0 : select_nothing(w, found);
}

int sonde_profile_select(struct sonde_profile *p, const struct sonde_select *s,
                         struct sonde_selected *out, struct sonde_err *err)
{
    assert(p && s);
    struct select_work w = { .p = p, .s = s, .err = err };
    struct sonde_selected found = { 0 };
    const int rc = select_all(&w, &found);
    if (!rc) {
        keep_samples(&w);
        keep_spans(&w);
        keep_requests(&w);
        sonde_profile_drop_heap(p);
        sonde_profile_drop_gpu(p);
    }
    if (rc) found = (struct sonde_selected){ .hint = w.hint };
    if (out) *out = found;
    sonde__free(w.chosen);
    sonde__free(w.by_id);
    sonde__free(w.by_trace);
    sonde__free(w.names);
    sonde__free(w.span_ids);
    sonde__free(w.of_sample);
    sonde__free(w.of_span);
    sonde__free(w.span_share);
    sonde__free(w.sample_share);
    return rc == SONDE_ENOMEM ? sonde_err_set(err, rc, "no memory to look through the profile")
                              : rc;
}
