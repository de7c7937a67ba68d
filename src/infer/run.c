/* run.c - what a run file gets at the end of a recording: see inference.h. */
#include "infer/private.h"
#include "base/alloc.h"
#include "profile/profile.h"

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

int sonde_infer_complete_run(const struct sonde_infer_tracker *x, struct sonde_profile *p)
{
    int rc = 0;
    for (size_t age = 0; !rc && age < sonde_infer_done_count(x); age++) {
        const struct sonde_infer_request *r = sonde_infer_done(x, age);
        struct sonde_infer_request *kept =
            r->items && p->infer ? tracker_run_find_in(p->infer, r) : NULL;
        if (kept && !kept->items) rc = copy_items(p, kept, r);
    }
    for (size_t i = 0; !rc && i < x->model_count; i++) {
        rc = sonde_infer_run_model(p, &x->models[i]->facts);
    }
    for (int i = 0; !rc && i < SONDE_INFER_REASON_COUNT; i++) {
        const enum sonde_infer_reason reason = (enum sonde_infer_reason)i;
        const uint64_t count = sonde_infer_invalid(x, reason);
        if (count) rc = sonde_infer_run_invalid(p, sonde_infer_reason_name(reason), count);
    }
    if (!rc && p->infer) {
        p->infer->slo_ttft_s = x->o.slo_ttft_s;
        p->infer->slo_itl_s = x->o.slo_itl_s;
        p->infer->slo_total_s = x->o.slo_total_s;
    }
    return rc;
}
