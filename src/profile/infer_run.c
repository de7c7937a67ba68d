/* infer_run.c - see infer.h: requests and models kept with a profile. Their texts are strings of
 * it, so that they live as long and are stored once. */
#include <string.h>

#include "base/alloc.h"
#include "base/intern.h"
#include "profile/infer.h"
#include "profile/profile.h"

enum { REQUESTS_MAX = 1 << 22, MODELS_MAX = 4096 };

struct sonde_infer_run *sonde_infer_run(struct sonde_profile *p)
{
    if (!p->infer) p->infer = sonde__calloc(1, sizeof(*p->infer));
    return p->infer;
}

void sonde_infer_run_destroy(struct sonde_infer_run *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->request_count; i++) sonde_infer_request_release(&r->requests[i]);
    sonde__free(r->requests);
    sonde__free(r->models);
    sonde__free(r);
}

/* One more, within p's memory. */
static int infer_run_grow(struct sonde_profile *p, void **array, uint32_t *cap, uint32_t count,
                          uint32_t max, size_t item_bytes)
{
    const struct sonde_budget b = { .used = &p->bytes, .max = p->bytes_max };
    void *grown = count < max ? sonde_table_grow(*array, count, cap, item_bytes, &b) : NULL;
    if (!grown) return SONDE_ENOMEM;
    *array = grown;
    return 0;
}

/* p's copy of a text; *failed is set when there is no memory for it. */
static const char *infer_run_keep(struct sonde_profile *p, const char *text, int *failed)
{
    if (!text || !*text) return "";
    const uint32_t id = sonde_profile_cstring(p, text);
    if (!id) *failed = 1;
    return id ? p->strings[id] : "";
}

static void *infer_run_copy(struct sonde_profile *p, const void *from, size_t bytes, int *failed)
{
    if (!bytes) return NULL;
    void *to = p->bytes + bytes <= p->bytes_max ? sonde__alloc(bytes) : NULL;
    if (!to) {
        *failed = 1;
        return NULL;
    }
    p->bytes += bytes;
    return memcpy(to, from, bytes);
}

static int request_copy(struct sonde_profile *p, const struct sonde_infer_request *from,
                        struct sonde_infer_request *to)
{
    int failed = 0;
    *to = *from;
    to->program = infer_run_keep(p, from->program, &failed);
    to->model = infer_run_keep(p, from->model, &failed);
    to->route = infer_run_keep(p, from->route, &failed);
    to->backend = infer_run_keep(p, from->backend, &failed);
    to->error = infer_run_keep(p, from->error, &failed);
    to->invalid = infer_run_keep(p, from->invalid, &failed);
    to->items = infer_run_copy(p, from->items, from->item_count * sizeof(*from->items), &failed);
    to->attrs = infer_run_copy(p, from->attrs, from->attr_count * sizeof(*from->attrs), &failed);
    if (!to->items) to->item_count = 0;
    if (!to->attrs) to->attr_count = 0;
    for (uint32_t i = 0; i < to->item_count; i++) {
        to->items[i].name = infer_run_keep(p, from->items[i].name, &failed);
    }
    for (uint32_t i = 0; i < to->attr_count; i++) {
        to->attrs[i].key = infer_run_keep(p, from->attrs[i].key, &failed);
    }
    if (!failed) return 0;
    sonde_infer_request_release(to);
    return SONDE_ENOMEM;
}

int sonde_infer_run_add(struct sonde_profile *p, const struct sonde_infer_request *r)
{
    struct sonde_infer_run *run = sonde_infer_run(p);
    struct sonde_infer_request kept;
    if (!run) return SONDE_ENOMEM;
    for (size_t i = run->request_count; r->flags & SONDE_INFER_WENT_ON && i-- > 0;) {
        struct sonde_infer_request *before = &run->requests[i];
        if (before->id != r->id || before->pid != r->pid || before->source != r->source) continue;
        if (request_copy(p, r, &kept)) return SONDE_ENOMEM;
        sonde_infer_request_release(before);
        *before = kept;
        return 0;
    }
    if (infer_run_grow(p, (void **)&run->requests, &run->request_cap, run->request_count,
                       REQUESTS_MAX, sizeof(*run->requests)) ||
        request_copy(p, r, &kept)) {
        run->dropped++;
        return SONDE_ENOMEM;
    }
    run->requests[run->request_count++] = kept;
    return 0;
}

int sonde_infer_run_model(struct sonde_profile *p, const struct sonde_infer_model *m)
{
    struct sonde_infer_run *run = sonde_infer_run(p);
    struct sonde_infer_model kept = *m;
    int failed = !run;
    kept.program = infer_run_keep(p, m->program, &failed);
    kept.model = infer_run_keep(p, m->model, &failed);
    kept.backend = infer_run_keep(p, m->backend, &failed);
    for (uint32_t i = 0; i < m->memory_count; i++) {
        kept.memory[i].kind = infer_run_keep(p, m->memory[i].kind, &failed);
    }
    if (failed) return SONDE_ENOMEM;
    size_t at = 0;
    while (at < run->model_count &&
           (run->models[at].pid != m->pid || run->models[at].source != m->source ||
            strcmp(run->models[at].model, kept.model) != 0)) {
        at++;
    }
    if (at == run->model_count &&
        infer_run_grow(p, (void **)&run->models, &run->model_cap, run->model_count, MODELS_MAX,
                       sizeof(*run->models))) {
                  return SONDE_ENOMEM;
              }
    if (at == run->model_count) run->model_count++;
    run->models[at] = kept;
    return 0;
}

int sonde_infer_run_invalid(struct sonde_profile *p, const char *reason, uint64_t count)
{
    struct sonde_infer_run *run = sonde_infer_run(p);
    int failed = !run;
    const char *kept = infer_run_keep(p, reason, &failed);
    if (failed) return SONDE_ENOMEM;
    uint32_t at = 0;
    while (at < run->invalid_count && strcmp(run->invalid[at].reason, kept) != 0) at++;
    if (at == SONDE_INFER_INVALID_MAX) return 0;
    if (at == run->invalid_count) run->invalid[run->invalid_count++].reason = kept;
    run->invalid[at].count += count;
    return 0;
}

int sonde_infer_run_merge(struct sonde_profile *p, const struct sonde_profile *from)
{
    const struct sonde_infer_run *run = from->infer;
    int rc = 0;
    if (!run) return 0;
    for (size_t i = 0; !rc && i < run->request_count; i++) {
        rc = sonde_infer_run_add(p, &run->requests[i]);
    }
    for (size_t i = 0; !rc && i < run->model_count; i++) {
        rc = sonde_infer_run_model(p, &run->models[i]);
    }
    for (uint32_t i = 0; !rc && i < run->invalid_count; i++) {
        rc = sonde_infer_run_invalid(p, run->invalid[i].reason, run->invalid[i].count);
    }
    struct sonde_infer_run *own = sonde_infer_run(p);
    if (!own) return SONDE_ENOMEM;
    own->dropped += run->dropped;
    if (!(own->slo_ttft_s > 0) && !(own->slo_itl_s > 0) && !(own->slo_total_s > 0)) {
        own->slo_ttft_s = run->slo_ttft_s;
        own->slo_itl_s = run->slo_itl_s;
        own->slo_total_s = run->slo_total_s;
    }
    return rc;
}
