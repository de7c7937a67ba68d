/* sum.c - what the heap profiles of processes add up to by stack, and a profile made of it. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "collect/heap/private.h"
#include "sonde/sonde.h"

static struct sonde_budget heap_sum_budget(struct heap_sum *s)
{
    return (struct sonde_budget){ .used = &s->p->bytes, .max = s->p->bytes_max };
}

/* ---- Life ------------------------------------------------------------------------------------ */

int heap_sum_create(size_t bytes_max, struct heap_sum *out)
{
    assert(out);
    struct heap_sum s = { 0 };
    if (sonde_profile_create(bytes_max, &s.p) != 0) return SONDE_ENOMEM;
    s.h = sonde__calloc(1, sizeof(*s.h));
    if (!s.h) {
        sonde_profile_destroy(s.p);
        return SONDE_ENOMEM;
    }
    *out = s;
    return 0;
}

void heap_sum_release(struct heap_sum *s)
{
    sonde_profile_destroy(s->p);
    sonde_heap_destroy(s->h);
    sonde__free(s->aux);
    sonde_map_release(&s->by_stack);
    sonde_map_release(&s->by_thread);
    *s = (struct heap_sum){ 0 };
}

/* What the budget has paid for its tables. */
static size_t tables_bytes(const struct heap_sum *s)
{
    return s->site_cap * sizeof(*s->h->sites) + s->aux_cap * sizeof(*s->aux) +
           s->thread_cap * sizeof(*s->h->threads) +
           (s->by_stack.cap + s->by_thread.cap) * sizeof(struct sonde_map_slot);
}

/* Ids are found again by the same interning that made them. */
static int index_again(struct heap_sum *s)
{
    const struct sonde_budget b = heap_sum_budget(s);
    for (uint32_t i = 0; i < s->h->site_count; i++) {
        if (sonde_intern_reserve(&s->by_stack, &b) != 0) return SONDE_ENOMEM;
        sonde_map_put(&s->by_stack, sonde_hash_end(s->h->sites[i].stack), i + 1);
    }
    for (uint32_t i = 0; i < s->h->thread_count; i++) {
        if (sonde_intern_reserve(&s->by_thread, &b) != 0) return SONDE_ENOMEM;
        sonde_map_put(&s->by_thread, sonde_hash_end(s->h->threads[i].thread), i + 1);
    }
    return 0;
}

/* Through a merge, which carries the ids of heap facts over. */
int heap_sum_copy(const struct heap_sum *from, struct heap_sum *out)
{
    assert(from->h && !from->p->heap);
    struct heap_sum s = { .stacks_refused = from->stacks_refused, .processes = from->processes };
    int rc = sonde_profile_create(from->p->bytes_max, &s.p);
    if (rc != 0) return rc;
    from->p->heap = from->h; /* lent */
    rc = sonde_profile_merge(s.p, from->p);
    from->p->heap = NULL;
    s.h = s.p->heap;
    s.p->heap = NULL;
    if (rc == 0) {
        s.site_cap = s.aux_cap = s.h->site_count;
        s.thread_cap = s.h->thread_count;
        s.p->bytes += tables_bytes(&s) - sonde_heap_bytes(s.h);
        s.aux = s.aux_cap ? sonde__alloc(s.aux_cap * sizeof(*s.aux)) : NULL;
        if (s.aux) memcpy(s.aux, from->aux, s.aux_cap * sizeof(*s.aux));
        else if (s.aux_cap) rc = SONDE_ENOMEM;
    }
    if (rc == 0) rc = index_again(&s);
    if (rc != 0) {
        heap_sum_release(&s);
        return rc;
    }
    *out = s;
    return 0;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

uint32_t heap_sum_site(struct heap_sum *s, uint32_t stack)
{
    assert(s->p && s->h && !s->p->heap); /* not finished yet */
    const struct sonde_budget b = heap_sum_budget(s);
    struct sonde_heap *h = s->h;
    const uint32_t hash = sonde_hash_end(stack);
    uint32_t at = hash, i;
    while ((i = sonde_map_next(&s->by_stack, hash, &at))) {
        if (h->sites[i - 1].stack == stack) return i - 1;
    }
    struct sonde_heap_site *sites =
        sonde_table_grow(h->sites, h->site_count, &s->site_cap, sizeof(*sites), &b);
    if (!sites) return UINT32_MAX;
    h->sites = sites;
    struct heap_aux *aux = sonde_table_grow(s->aux, h->site_count, &s->aux_cap, sizeof(*aux), &b);
    if (!aux) return UINT32_MAX;
    s->aux = aux;
    if (sonde_intern_reserve(&s->by_stack, &b) != 0) return UINT32_MAX;
    h->sites[h->site_count] = (struct sonde_heap_site){ .stack = stack, .lifetime_s = -1,
                                                        .lost_bytes = -1, .lost_count = -1 };
    s->aux[h->site_count] = (struct heap_aux){ 0 };
    sonde_map_put(&s->by_stack, hash, ++h->site_count);
    return h->site_count - 1;
}

struct sonde_heap_thread *heap_sum_thread(struct heap_sum *s, uint32_t thread)
{
    assert(s->p && s->h && !s->p->heap);
    const struct sonde_budget b = heap_sum_budget(s);
    struct sonde_heap *h = s->h;
    const uint32_t hash = sonde_hash_end(thread);
    uint32_t at = hash, i;
    while ((i = sonde_map_next(&s->by_thread, hash, &at))) {
        if (h->threads[i - 1].thread == thread) return &h->threads[i - 1];
    }
    struct sonde_heap_thread *threads =
        sonde_table_grow(h->threads, h->thread_count, &s->thread_cap, sizeof(*threads), &b);
    if (!threads) return NULL;
    h->threads = threads;
    if (sonde_intern_reserve(&s->by_thread, &b) != 0) return NULL;
    h->threads[h->thread_count] = (struct sonde_heap_thread){ .thread = thread };
    sonde_map_put(&s->by_thread, hash, ++h->thread_count);
    return &h->threads[h->thread_count - 1];
}

uint64_t heap_whole(double v) { return v > 0 ? v < 1.8e19 ? (uint64_t)(v + 0.5) : UINT64_MAX : 0; }

void heap_sum_sample(struct sonde_profile *p, const struct sonde_profile_sample *like, double bytes,
                     double count)
{
    uint64_t left = heap_whole(count);
    struct sonde_profile_sample sample = *like;
    sample.weight = heap_whole(bytes);
    if (!sample.weight && !left) return;
    do {
        sample.count = left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
        left -= sample.count;
        if (sonde_profile_add_sample(p, &sample) != 0) return;
        sample.weight = 0;
    } while (left);
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* What one sample more would change: as those that there are, or else as those that there were. */
static double one_sample(double var, double samples, double all_var, double all_samples)
{
    if (samples > 0 && var > 0) return sqrt(var / samples);
    return all_samples > 0 && all_var > 0 ? sqrt(all_var / all_samples) : 0;
}

static void bound_site(struct sonde_heap_site *site, const struct heap_aux *a)
{
    const double live_bytes = one_sample(a->live_bytes_var, a->live_samples, a->alloc_bytes_var,
                                         a->alloc_samples);
    const double live_count = one_sample(a->live_count_var, a->live_samples, a->alloc_count_var,
                                         a->alloc_samples);
    const double bytes = one_sample(a->alloc_bytes_var, a->alloc_samples, 0, 0);
    const double count = one_sample(a->alloc_count_var, a->alloc_samples, 0, 0);
    site->live_bytes = sonde_heap_amount(site->live_bytes.value, a->live_bytes_var, live_bytes);
    site->live_count = sonde_heap_amount(site->live_count.value, a->live_count_var, live_count);
    site->alloc_bytes = sonde_heap_amount(site->alloc_bytes.value, a->alloc_bytes_var, bytes);
    site->alloc_count = sonde_heap_amount(site->alloc_count.value, a->alloc_count_var, count);
    if (a->frees > 0) site->lifetime_s = a->lifetime_us / a->frees * 1e-6;
}

static void add_aux(struct heap_aux *to, const struct heap_aux *a)
{
    to->live_bytes_var += a->live_bytes_var;
    to->live_count_var += a->live_count_var;
    to->alloc_bytes_var += a->alloc_bytes_var;
    to->alloc_count_var += a->alloc_count_var;
    to->live_samples += a->live_samples;
    to->alloc_samples += a->alloc_samples;
}

/* ---- The profile ----------------------------------------------------------------------------- */

static void count_left(struct sonde_heap_site *site, struct heap_aux *a)
{
    site->live_bytes.value += a->left_bytes;
    site->live_count.value += a->left_count;
    site->mark_bytes += a->left_mark_bytes;
    site->mark_count += a->left_mark_count;
    a->live_bytes_var += a->left_bytes_var;
    a->live_count_var += a->left_count_var;
    a->live_samples += a->left_samples;
}

static void site_samples(struct sonde_profile *p, const struct sonde_heap_site *site,
                         const struct heap_aux *a)
{
    const struct { uint16_t kind; double bytes, count; } kinds[] = {
        { SONDE_SAMPLE_LIVE, site->live_bytes.value, site->live_count.value },
        { SONDE_SAMPLE_PEAK, site->peak_bytes, a->peak_count },
        { SONDE_SAMPLE_TEMPORARY, site->temp_bytes, site->temp_count },
    };
    for (size_t i = 0; i < SONDE_COUNT(kinds); i++) {
        const struct sonde_profile_sample like = {
            .stack = site->stack, .kind = kinds[i].kind,
            .flags = a->truncated ? SONDE_SAMPLE_TRUNCATED : 0,
        };
        heap_sum_sample(p, &like, kinds[i].bytes, kinds[i].count);
    }
}

static int heap_sum_by_size(const void *a, const void *b)
{
    const struct sonde_heap_site *x = a, *y = b;
    if (x->live_bytes.value != y->live_bytes.value) {
        return SONDE_CMP(y->live_bytes.value, x->live_bytes.value);
    }
    if (x->alloc_bytes.value != y->alloc_bytes.value) {
        return SONDE_CMP(y->alloc_bytes.value, x->alloc_bytes.value);
    }
    return SONDE_CMP(x->stack, y->stack);
}

static int heap_sum_by_bytes(const void *a, const void *b)
{
    const struct sonde_heap_thread *x = a, *y = b;
    if (x->alloc_bytes != y->alloc_bytes) return SONDE_CMP(y->alloc_bytes, x->alloc_bytes);
    return SONDE_CMP(x->thread, y->thread);
}

static void finish_sites(struct heap_sum *s, int left)
{
    struct sonde_heap *h = s->h;
    struct heap_aux all = { 0 };
    struct sonde_heap_site sum = { 0 };
    for (uint32_t i = 0; i < h->site_count; i++) {
        struct sonde_heap_site *site = &h->sites[i];
        if (left) count_left(site, &s->aux[i]);
        bound_site(site, &s->aux[i]);
        if (h->mark_ns) site->grown_bytes = site->live_bytes.value - site->mark_bytes;
        site_samples(s->p, site, &s->aux[i]);
        add_aux(&all, &s->aux[i]);
        sum.live_bytes.value += site->live_bytes.value;
        sum.live_count.value += site->live_count.value;
        sum.alloc_bytes.value += site->alloc_bytes.value;
        sum.alloc_count.value += site->alloc_count.value;
        h->peak_bytes += heap_whole(site->peak_bytes);
    }
    bound_site(&sum, &all);
    h->live_bytes = sum.live_bytes;
    h->live_count = sum.live_count;
    h->alloc_bytes = sum.alloc_bytes;
    h->alloc_count = sum.alloc_count;
}

/* The budget has paid for the tables while they grew; as the profile's they count by their rows. */
static int give_heap(struct heap_sum *s)
{
    struct sonde_profile *p = s->p;
    p->bytes -= tables_bytes(s);
    sonde__free(s->aux);
    sonde_map_release(&s->by_stack);
    sonde_map_release(&s->by_thread);
    s->aux = NULL;
    s->site_cap = s->aux_cap = s->thread_cap = 0;
    const size_t bytes = sonde_heap_bytes(s->h);
    if (bytes > p->bytes_max - p->bytes) p->bytes_max = p->bytes + bytes; /* points, pools */
    const int rc = sonde_profile_take_heap(p, s->h);
    if (rc == 0) s->h = NULL;
    return rc;
}

int heap_sum_finish(struct heap_sum *s, int left)
{
    assert(s->h && !s->p->heap);
    struct sonde_heap *h = s->h;
    finish_sites(s, left);
    if (h->site_count) qsort(h->sites, h->site_count, sizeof(*h->sites), heap_sum_by_size);
    if (h->thread_count) qsort(h->threads, h->thread_count, sizeof(*h->threads), heap_sum_by_bytes);
    return give_heap(s);
}
