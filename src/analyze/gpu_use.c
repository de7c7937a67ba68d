/* gpu_use.c - see gpu_use.h. */
#include "analyze/gpu_use.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "base/hash.h"
#include "base/map.h"
#include "sonde/sonde.h"

#define UP_MAX 64u              /* spans around one another */

struct gpu_sum {
    const struct sonde_profile *p;
    struct sonde_gpu_use *u;
    struct sonde_map by_request, by_span; /* id -> index + 1 */
    double *request_ns, *request_commands;
    uint32_t *of_sample, *of_span;
    unsigned char *phase_of;    /* by string: enum sonde_phase_kind, 0 = none */
};

/* ---- Finding ----------------------------------------------------------------------------- */

static uint32_t gpu_request(const struct gpu_sum *g, uint64_t id)
{
    const uint32_t hash = (uint32_t)sonde_hash_u64(id);
    uint32_t at = hash, i;
    while (id && (i = sonde_map_next(&g->by_request, hash, &at))) {
        if (g->p->infer->requests[i - 1].id == id) return i;
    }
    return 0;
}

static uint32_t gpu_span(const struct gpu_sum *g, uint64_t id)
{
    const uint32_t hash = (uint32_t)sonde_hash_u64(id);
    uint32_t at = hash, i;
    while (id && (i = sonde_map_next(&g->by_span, hash, &at))) {
        if (g->p->spans[i - 1].id == id) return i;
    }
    return 0;
}

/* The first part of a span, by halving; *count of them. */
static const struct sonde_profile_part *gpu_parts(const struct sonde_profile *p, uint32_t span,
                                                  uint32_t *count)
{
    uint32_t low = 0, high = p->parts_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (p->parts[middle].span < span) low = middle + 1;
        else high = middle;
    }
    *count = 0;
    while (low + *count < p->parts_count && p->parts[low + *count].span == span) ++*count;
    return p->parts + low;
}

/* ---- One command ------------------------------------------------------------------------- */

struct gpu_owner {
    uint32_t phase, request;
    const struct sonde_profile_part *parts;
    uint32_t count;
};

/* What is around span (index + 1), from the inside out. */
static void gpu_owner_find(const struct gpu_sum *g, uint32_t span, struct gpu_owner *o)
{
    const struct sonde_profile *p = g->p;
    for (uint32_t n = 0; span && n < UP_MAX; n++) {
        const struct sonde_profile_span *s = &p->spans[span - 1];
        o->parts = gpu_parts(p, span - 1, &o->count);
        if (o->count) return;
        if (!o->phase) o->phase = g->phase_of[s->name];
        if (!o->request) o->request = gpu_request(g, s->id);
        if (!o->request) o->request = gpu_request(g, s->parent);
        if (o->phase && o->request) return;
        const uint32_t parent = gpu_span(g, s->parent);
        span = parent && parent != span ? parent : g->of_span[span - 1];
    }
    o->count = 0;
}

static void gpu_add(struct gpu_sum *g, uint32_t phase, uint32_t request, double ns, double commands)
{
    if (phase) g->u->phase_ns[phase] += ns;
    else g->u->no_phase_ns += ns;
    if (request) {
        g->request_ns[request - 1] += ns;
        g->request_commands[request - 1] += commands;
    } else {
        g->u->no_request_ns += ns;
    }
}

static void gpu_add_sample(struct gpu_sum *g, uint32_t i)
{
    const struct sonde_profile_sample *s = &g->p->samples[i];
    const double ns = (double)s->weight, commands = s->count;
    struct gpu_owner o = { 0, 0, NULL, 0 };
    double tokens = 0;
    g->u->ns += ns;
    gpu_owner_find(g, g->of_sample[i], &o);
    for (uint32_t k = 0; k < o.count; k++) {
        tokens += (double)o.parts[k].tokens_in + (double)o.parts[k].tokens_out;
    }
    if (!(tokens > 0)) {
        gpu_add(g, o.phase, o.request, ns, commands);
        return;
    }
    for (uint32_t k = 0; k < o.count; k++) {
        const uint32_t request = o.request ? o.request : gpu_request(g, o.parts[k].request);
        const double in = o.parts[k].tokens_in / tokens, out = o.parts[k].tokens_out / tokens;
        if (in > 0) {
            gpu_add(g, o.phase ? o.phase : SONDE_PHASE_PREFILL, request, ns * in, commands * in);
        }
        if (out > 0) {
            gpu_add(g, o.phase ? o.phase : SONDE_PHASE_DECODE, request, ns * out, commands * out);
        }
    }
}

/* ---- All of them ------------------------------------------------------------------------- */

static int gpu_index(struct sonde_map *map, uint64_t id, uint32_t row)
{
    if (!id) return 0;
    if (sonde_map_reserve(map)) return SONDE_ENOMEM;
    sonde_map_put(map, (uint32_t)sonde_hash_u64(id), row);
    return 0;
}

static int gpu_prepare(struct gpu_sum *g)
{
    const struct sonde_profile *p = g->p;
    const uint32_t requests = p->infer ? (uint32_t)p->infer->request_count : 0;
    int rc = sonde_profile_innermost_spans(p, &g->of_sample, &g->of_span);
    g->request_ns = sonde__calloc(requests + 1, sizeof(*g->request_ns));
    g->request_commands = sonde__calloc(requests + 1, sizeof(*g->request_commands));
    g->phase_of = sonde__calloc(p->strings_count + 1, 1);
    if (!g->request_ns || !g->request_commands || !g->phase_of) rc = SONDE_ENOMEM;
    for (uint32_t i = 0; !rc && i < requests; i++) {
        rc = gpu_index(&g->by_request, p->infer->requests[i].id, i + 1);
    }
    for (uint32_t i = 0; !rc && i < p->spans_count; i++) {
        rc = gpu_index(&g->by_span, p->spans[i].id, i + 1);
    }
    for (uint32_t i = 0; !rc && i < p->strings_count; i++) {
        for (uint32_t k = 1; k < SONDE_PHASE_COUNT; k++) {
            if (!strcmp(p->strings[i], sonde_phase_name(k))) g->phase_of[i] = (unsigned char)k;
        }
    }
    return rc;
}

static int gpu_by_time(const void *a, const void *b)
{
    const struct sonde_gpu_request *x = a, *y = b;
    if (x->ns > y->ns || x->ns < y->ns) return x->ns > y->ns ? -1 : 1;
    return SONDE_CMP(x->index, y->index);
}

static int gpu_requests_put(struct gpu_sum *g)
{
    const uint32_t count = g->p->infer ? (uint32_t)g->p->infer->request_count : 0;
    struct sonde_gpu_use *u = g->u;
    u->requests = sonde__calloc(count + 1, sizeof(*u->requests));
    if (!u->requests) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        if (!(g->request_commands[i] > 0)) continue;
        u->requests[u->request_count++] =
            (struct sonde_gpu_request){ i, g->request_ns[i], g->request_commands[i] };
    }
    qsort(u->requests, u->request_count, sizeof(*u->requests), gpu_by_time);
    return 0;
}

int sonde_gpu_use_of(const struct sonde_profile *p, struct sonde_gpu_use *out)
{
    struct gpu_sum g = { .p = p, .u = out };
    memset(out, 0, sizeof(*out));
    if (!p->weights[SONDE_SAMPLE_GPU]) return 0;
    int rc = gpu_prepare(&g);
    for (uint32_t i = 0; !rc && i < p->samples_count; i++) {
        if (p->samples[i].kind == SONDE_SAMPLE_GPU) gpu_add_sample(&g, i);
    }
    if (!rc) rc = gpu_requests_put(&g);
    sonde_map_release(&g.by_request);
    sonde_map_release(&g.by_span);
    sonde__free(g.request_ns);
    sonde__free(g.request_commands);
    sonde__free(g.of_sample);
    sonde__free(g.of_span);
    sonde__free(g.phase_of);
    if (rc) sonde_gpu_use_release(out);
    return rc;
}

void sonde_gpu_use_release(struct sonde_gpu_use *u)
{
    sonde__free(u->requests);
    memset(u, 0, sizeof(*u));
}
