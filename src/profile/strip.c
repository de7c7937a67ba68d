/* strip.c - see strip.h.
 *
 * Texts are changed where they stand, by what refers to them; one that nobody refers to any more (a
 * second command line, after a merge) is blotted out, since files keep all texts there are. Two
 * texts may be alike afterwards, which only costs their bytes. */
#include "profile/strip.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "base/strip.h"
#include "profile/final.h"
#include "profile/track.h"
#include "profile/gpu.h"
#include "profile/heap.h"
#include "profile/infer.h"
#include "sonde/sonde.h"

/* What a text is, the later the stricter. */
enum role { NOTHING, HOST, KEEP, TEXT, PATH };

struct profile_strip_place { const char *text; uint32_t string; };

struct marks {
    const struct sonde_profile *p;
    unsigned char *role; /* of each string */
    struct profile_strip_place *places; /* where each is, ascending */
};

static void profile_strip_mark(struct marks *m, uint32_t string, enum role role)
{
    if (string < m->p->strings_count && m->role[string] < role) {
        m->role[string] = (unsigned char)role;
    }
}

static int profile_strip_by_place(const void *a, const void *b)
{
    const struct profile_strip_place *x = a, *y = b;
    return SONDE_CMP(x->text, y->text);
}

/* text: one of the profile's strings. By its place, since those that were stripped before are not
 * found by what they say. */
static void mark_text(struct marks *m, const char *text, enum role role)
{
    const struct profile_strip_place key = { text, 0 };
    const struct profile_strip_place *found =
        bsearch(&key, m->places, m->p->strings_count, sizeof(*m->places), profile_strip_by_place);
    if (found) profile_strip_mark(m, found->string, role);
}

static void mark_tables(struct marks *m)
{
    const struct sonde_profile *p = m->p;
    for (uint32_t i = 1; i < p->modules_count; i++) {
        profile_strip_mark(m, p->modules[i].path, PATH);
        profile_strip_mark(m, p->modules[i].build_id, KEEP);
    }
    for (uint32_t i = 1; i < p->functions_count; i++) {
        profile_strip_mark(m, p->functions[i].name, TEXT);
        profile_strip_mark(m, p->functions[i].file, PATH);
    }
    for (uint32_t i = 1; i < p->threads_count; i++) profile_strip_mark(m, p->threads[i].name, TEXT);
    for (uint32_t i = 0; i < p->spans_count; i++) profile_strip_mark(m, p->spans[i].name, KEEP);
    for (uint32_t i = 0; i < p->attrs_count; i++) {
        const struct sonde_profile_attr *a = &p->attrs[i];
        const int kept = sonde_strip_kind(sonde_profile_str(p, a->key)) == SONDE_STRIP_KEEP;
        profile_strip_mark(m, a->key, KEEP);
        profile_strip_mark(m, a->text, kept ? KEEP : TEXT);
    }
    profile_strip_mark(m, p->program, PATH);
    profile_strip_mark(m, p->engine, KEEP);
    profile_strip_mark(m, p->cost.text, KEEP);
    profile_strip_mark(m, p->host, HOST);
    profile_strip_mark(m, p->notes, KEEP);
}

static void mark_heap(struct marks *m, const struct sonde_heap *h)
{
    profile_strip_mark(m, h->allocator, PATH);
    for (uint32_t i = 0; i < h->pool_count; i++) {
        profile_strip_mark(m, h->pools[i].name, h->pools[i].mapped ? PATH : TEXT);
    }
}

static void mark_gpu(struct marks *m, const struct sonde_gpu_work *g)
{
    for (uint32_t i = 0; i < g->kernel_count; i++) {
        profile_strip_mark(m, g->kernels[i].name, g->kernels[i].is_kernel ? TEXT : KEEP);
        profile_strip_mark(m, g->kernels[i].device, TEXT);
    }
    for (uint32_t i = 0; i < g->queue_count; i++) {
        profile_strip_mark(m, g->queues[i].device, TEXT);
    }
}

static void mark_request(struct marks *m, const struct sonde_infer_request *r)
{
    mark_text(m, r->program, PATH);
    mark_text(m, r->model, PATH);
    mark_text(m, r->route, KEEP);
    mark_text(m, r->backend, TEXT);
    mark_text(m, r->error, TEXT);
    mark_text(m, r->invalid, TEXT);
    for (uint32_t i = 0; i < r->item_count; i++) mark_text(m, r->items[i].name, TEXT);
    for (uint32_t i = 0; i < r->attr_count; i++) mark_text(m, r->attrs[i].key, KEEP);
}

static void mark_infer(struct marks *m, const struct sonde_infer_run *r)
{
    for (uint32_t i = 0; i < r->invalid_count; i++) mark_text(m, r->invalid[i].reason, TEXT);
    for (size_t i = 0; i < r->request_count; i++) mark_request(m, &r->requests[i]);
    for (size_t i = 0; i < r->model_count; i++) {
        const struct sonde_infer_model *model = &r->models[i];
        mark_text(m, model->program, PATH);
        mark_text(m, model->model, PATH);
        mark_text(m, model->backend, TEXT);
        for (uint32_t k = 0; k < model->memory_count; k++) {
            mark_text(m, model->memory[k].kind, TEXT);
        }
    }
}

static void mark_final(struct marks *m, const struct sonde_final *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        mark_text(m, r->series[i].family, KEEP);
        mark_text(m, r->series[i].program, PATH);
        mark_text(m, r->series[i].subject, TEXT);
        mark_text(m, r->series[i].detail, TEXT);
        mark_text(m, r->series[i].extra, TEXT);
    }
}

/* Labels hold names of models and mount points, quoted, so paths in them are found as in texts. */
static void mark_tracks(struct marks *m, const struct sonde_tracks *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        mark_text(m, t->rows[i].family, KEEP);
        mark_text(m, t->rows[i].labels, TEXT);
        mark_text(m, t->rows[i].program, PATH);
    }
}

static void strip_attrs(struct sonde_infer_run *r)
{
    for (size_t i = 0; i < r->request_count; i++) {
        for (uint32_t k = 0; k < r->requests[i].attr_count; k++) {
            struct sonde_infer_attr *a = &r->requests[i].attrs[k];
            const enum sonde_strip_kind kind = sonde_strip_kind(a->key);
            if (kind == SONDE_STRIP_GONE) strcpy(a->value, "-");
            else if (kind == SONDE_STRIP_PATHS) sonde_strip_paths(a->value);
        }
    }
}

/* Texts of which nothing may stay; who else has them is asked for himself. */
static void strip_span_attrs(struct sonde_profile *p)
{
    for (uint32_t i = 0; i < p->attrs_count; i++) {
        const char *key = sonde_profile_str(p, p->attrs[i].key);
        if (sonde_strip_kind(key) == SONDE_STRIP_GONE) p->attrs[i].text = 0;
    }
}

static void strip_string(char *text, enum role role)
{
    char *rest;
    switch (role) {
    case PATH: sonde_strip_path(text); break;
    case TEXT: sonde_strip_paths(text); break;
    case KEEP: break;
    case HOST: /* "name, Linux 6.1 x86_64, 2 CPUs": two commas, unless it was stripped before */
        rest = strstr(text, ", ");
        if (rest && strstr(rest + 1, ", ")) memmove(text, rest + 2, strlen(rest + 2) + 1);
        else if (!rest) strip_string(text, NOTHING);
        break;
    default:
        text[0] = '-';
        text[1] = '\0'; /* there is room: only string 0 is empty */
    }
}

static int profile_strip_prepare(struct marks *m)
{
    const uint32_t count = m->p->strings_count;
    m->role = sonde__calloc(count, 1);
    m->places = sonde__calloc(count, sizeof(*m->places));
    if (!m->role || !m->places) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        m->places[i] = (struct profile_strip_place){ m->p->strings[i], i };
    }
    qsort(m->places, count, sizeof(*m->places), profile_strip_by_place);
    return 0;
}

int sonde_profile_strip(struct sonde_profile *p)
{
    struct marks m = { .p = p };
    const int rc = profile_strip_prepare(&m);
    if (!rc) {
        p->command = 0;
        for (uint32_t i = 1; i < p->modules_count; i++) p->modules[i].open_path = 0;
        strip_span_attrs(p);
        mark_tables(&m);
        if (p->heap) mark_heap(&m, p->heap);
        if (p->gpu) mark_gpu(&m, p->gpu);
        if (p->infer) mark_infer(&m, p->infer);
        if (p->infer) strip_attrs(p->infer);
        if (p->final) mark_final(&m, p->final);
        if (p->tracks) mark_tracks(&m, p->tracks);
        for (uint32_t i = 1; i < p->strings_count; i++) strip_string(p->strings[i], m.role[i]);
    }
    sonde__free(m.role);
    sonde__free(m.places);
    return rc;
}
