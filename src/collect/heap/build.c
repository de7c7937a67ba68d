/* build.c - what a target has, added to a sum.
 *
 * Sites with the most memory come first, so that what is left out when there is no room are small
 * ones. Rows say how much was allocated at a site; events say when and by whom. An event
 * of S bytes was chosen with probability 1 - exp(-(S + 1) / mean) and stands for the inverse of
 * that; then the events of a site are scaled so that together they are what its row says. So
 * profiles by time, thread or span agree with the whole. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "collect/heap/private.h"
#include "sonde/sonde.h"

#define BYTES_VAR_UNIT 4096.0
#define FORGET_SITES 1024u      /* after so many, pages of the segment are given back */
#define FORGET_NODES 65536u

struct fold {
    struct heap_target *t;
    const struct heap_build_options *o;
    struct heap_sum *into;
    struct sonde_err *err;
    struct heap_stacks stacks;
    uint32_t sites;                  /* counted */
    uint32_t *node_of;               /* owned; by site; 0 = none */
    struct heap_build_place *order;        /* owned; sites that have allocated, the largest first */
    uint32_t order_count;
    struct sonde__heap_peak *peaks;   /* owned; NULL = what is in use now is the peak */
    double live, peak;               /* all bytes of them */
};

struct heap_build_place { uint32_t magnitude, site; }; /* magnitude: bits of the bytes in use */

static uint64_t heap_build_less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
static double heap_build_live_bytes(const struct sonde__heap_row *r)
{
    return (double)heap_build_less(r->alloc_bytes, r->free_bytes);
}

static int heap_build_no_memory(struct sonde_err *err)
{
    return sonde_err_set(err, SONDE_ENOMEM, "no memory for the heap profile");
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Which sites there are, and how large. Their rows are read again one by one: all of them at once
 * are 16 MB. */
static int read_sizes(struct fold *f)
{
    struct sonde__heap_row rows[SONDE__HEAP_ROWS];
    f->order = sonde__alloc(f->sites * sizeof(*f->order));
    if (!f->order) return heap_build_no_memory(f->err);
    for (uint32_t first = 0; first < f->sites; first += SONDE__HEAP_ROWS) {
        const int rc = sonde_segment_heap_rows(f->t->base.segment, first / SONDE__HEAP_ROWS, rows,
                                               f->err);
        if (rc != 0) return rc;
        for (uint32_t i = 0; i < SONDE__HEAP_ROWS && first + i < f->sites; i++) {
            if (!rows[i].allocs) continue;
            const uint64_t live = heap_build_less(rows[i].alloc_bytes, rows[i].free_bytes);
            const uint32_t bits = live ? 64u - (uint32_t)__builtin_clzll(live) : 0;
            f->order[f->order_count++] = (struct heap_build_place){ bits, first + i };
            f->live += (double)live;
        }
    }
    return 0;
}

/* The tables of the peak may be a hundredth behind. */
static int read_peaks(struct fold *f)
{
    f->peaks = sonde__alloc(f->sites * sizeof(*f->peaks));
    if (!f->peaks) return heap_build_no_memory(f->err);
    const int rc = sonde_segment_heap_peak(f->t->base.segment, f->peaks, f->sites, f->err);
    if (rc != 0 && rc != SONDE_ENOENT) return rc;
    for (uint32_t i = 1; rc == 0 && i < f->sites; i++) f->peak += (double)f->peaks[i].bytes;
    if (rc == SONDE_ENOENT || f->live >= f->peak) {
        sonde__free(f->peaks);
        f->peaks = NULL;
        f->peak = f->live;
    }
    return 0;
}

static int read_nodes(struct fold *f)
{
    struct sonde_segment *s = f->t->base.segment;
    f->node_of = sonde__calloc(f->sites, sizeof(*f->node_of));
    if (!f->node_of) return heap_build_no_memory(f->err);
    for (uint32_t id = 1; id < f->t->info.nodes; id++) {
        struct sonde__heap_node n;
        const int rc = sonde_segment_heap_node(s, id, &n, f->err);
        if (rc != 0) return rc;
        if (n.site && n.site < f->sites) f->node_of[n.site] = id;
        if (id % FORGET_NODES == 0) sonde_segment_forget(s);
    }
    return 0;
}

/* By powers of two of their size, those of one as they come: so the segment is read from its
 * beginning to its end a few times rather than at random. */
static int heap_build_by_size(const void *a, const void *b)
{
    const struct heap_build_place *x = a, *y = b;
    if (x->magnitude != y->magnitude) return SONDE_CMP(y->magnitude, x->magnitude);
    return SONDE_CMP(x->site, y->site);
}

static int heap_build_read_all(struct fold *f)
{
    int rc = read_sizes(f);
    if (rc == 0) rc = read_peaks(f);
    if (rc == 0) rc = read_nodes(f);
    if (rc == 0 && f->order_count) {
        qsort(f->order, f->order_count, sizeof(*f->order), heap_build_by_size);
    }
    sonde_segment_forget(f->t->base.segment);
    if (rc == 0 && heap_stacks_init(&f->stacks, f->t, f->into->p) != 0) {
        rc = heap_build_no_memory(f->err);
    }
    return rc;
}

/* ---- Sites ----------------------------------------------------------------------------------- */

/* In use: now; or when the process ended; or, before it replaced itself, not any more. */
static void add_live(const struct fold *f, const struct sonde__heap_row *r,
                     const struct heap_site *s, struct sonde_heap_site *site, struct heap_aux *a)
{
    const double bytes = heap_build_live_bytes(r),
                 count = heap_count(f->t, heap_build_less(r->allocs, r->frees));
    const double bytes_var =
        BYTES_VAR_UNIT * (double)heap_build_less(r->alloc_bytes_var, r->free_bytes_var);
    const double count_var = (double)heap_build_less(r->alloc_count_var, r->free_count_var);
    const double samples = (double)heap_build_less(r->samples, r->samples_freed);
    if (f->t->base.replaced) return;
    if (!f->t->base.gone) {
        site->live_bytes.value += bytes;
        site->live_count.value += count;
        a->live_bytes_var += bytes_var;
        a->live_count_var += count_var;
        a->live_samples += samples;
        site->mark_bytes += s ? (double)s->mark_bytes : 0;
        site->mark_count += s ? (double)s->mark_count : 0;
    } else {
        a->left_bytes += bytes;
        a->left_count += count;
        a->left_bytes_var += bytes_var;
        a->left_count_var += count_var;
        a->left_samples += samples;
        a->left_mark_bytes += s ? (double)s->mark_bytes : 0;
        a->left_mark_count += s ? (double)s->mark_count : 0;
    }
}

static void heap_build_add_row(const struct fold *f, uint32_t number,
                               const struct sonde__heap_row *r, struct sonde_heap_site *site,
                               struct heap_aux *a)
{
    const struct heap_target *t = f->t;
    const struct heap_site *s = number < t->site_count ? &t->sites[number] : NULL;
    add_live(f, r, s, site, a);
    site->alloc_bytes.value += (double)r->alloc_bytes;
    site->alloc_count.value += heap_count(t, r->allocs);
    a->alloc_bytes_var += BYTES_VAR_UNIT * (double)r->alloc_bytes_var;
    a->alloc_count_var += (double)r->alloc_count_var;
    a->alloc_samples += (double)r->samples;
    site->peak_bytes += f->peaks ? (double)f->peaks[number].bytes : heap_build_live_bytes(r);
    a->peak_count +=
        heap_count(t, f->peaks ? f->peaks[number].count : heap_build_less(r->allocs, r->frees));
    site->temp_bytes += (double)r->temp_bytes;
    site->temp_count += heap_count(t, r->temps);
    site->mapped_bytes += (double)r->mapped_bytes;
    a->frees += heap_count(t, r->frees);
    a->lifetime_us += (double)r->lifetime_us;
    if (t->info.scanned == 1) {
        site->lost_bytes = (site->lost_bytes > 0 ? site->lost_bytes : 0) + (double)r->lost_bytes;
        site->lost_count = (site->lost_count > 0 ? site->lost_count : 0) + heap_count(t, r->lost);
    }
    if (s) {
        struct sonde_curve growth;
        heap_site_growth(s, f->o->tick, &growth);
        sonde_curve_sum(&site->growth, &growth);
    }
}

/* ---- Events ---------------------------------------------------------------------------------- */

static int by_node(const void *a, const void *b)
{
    const struct heap_event *x = a, *y = b;
    if (x->node != y->node) return SONDE_CMP(x->node, y->node);
    if (x->time_ns != y->time_ns) return SONDE_CMP(x->time_ns, y->time_ns);
    return 0;
}

/* Index of the first event of a node that is not less. */
static uint32_t first_event(const struct heap_target *t, uint32_t node)
{
    uint32_t low = 0, high = t->event_count;
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (t->events[mid].node < node) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* Whole numbers that add up to the whole: each is the difference of two rounded sums. */
struct heap_build_share { double whole, part, parts; uint64_t given; };

static double share_next(struct heap_build_share *s, double part)
{
    s->part += part;
    const double ratio = s->parts > 0 ? s->part / s->parts : 1;
    const uint64_t sum = heap_whole(s->whole * (ratio < 1 ? ratio : 1));
    const uint64_t own = sum - s->given;
    s->given = sum;
    return (double)own;
}

static void heap_build_add_allocs(struct fold *f, uint32_t node, const struct sonde__heap_row *r,
                                  struct sonde_profile_sample like)
{
    struct heap_target *t = f->t;
    const uint32_t first = first_event(t, node);
    struct heap_build_share bytes = { .whole = (double)r->alloc_bytes };
    struct heap_build_share count = { .whole = heap_count(t, r->allocs) };
    uint32_t end = first;
    for (; end < t->event_count && t->events[end].node == node; end++) {
        const double inverse = heap_inverse_chance(t, &t->events[end]);
        bytes.parts += inverse * (double)t->events[end].size;
        count.parts += inverse;
    }
    if (end == first) {
        heap_sum_sample(f->into->p, &like, bytes.whole, count.whole);
        return;
    }
    for (uint32_t i = first; i < end; i++) {
        const struct heap_event *e = &t->events[i];
        struct heap_thread *thread = heap_target_thread(t, e->tid);
        const double inverse = heap_inverse_chance(t, e);
        const int last = i + 1 == end; /* sums of parts need not be the same in another order */
        const double b = share_next(&bytes, last ? bytes.parts : inverse * (double)e->size);
        const double c = share_next(&count, last ? count.parts : inverse);
        like.time_ns = e->time_ns;
        like.thread = sonde_profile_thread(f->into->p, t->base.id.pid, e->tid,
                                           thread ? thread->name : "");
        heap_sum_sample(f->into->p, &like, b, c);
        if (!thread) continue;
        thread->seen_bytes += b;
        thread->seen_allocs += c;
    }
}

static int add_site(struct fold *f, uint32_t number)
{
    struct sonde__heap_row row;
    uint32_t stack = 0;
    int truncated = 0;
    const uint32_t node = f->node_of[number];
    if (!node) return 0; /* it was given one since the nodes were read */
    int rc = sonde_segment_heap_row(f->t->base.segment, number, &row, f->err);
    if (rc == 0) rc = heap_stacks_get(&f->stacks, node, &stack, &truncated, f->err);
    if (rc != 0) return rc;
    const uint32_t at = stack ? heap_sum_site(f->into, stack) : UINT32_MAX;
    if (at == UINT32_MAX) {
        f->into->stacks_refused++;
        return 0;
    }
    f->into->aux[at].truncated |= truncated;
    heap_build_add_row(f, number, &row, &f->into->h->sites[at], &f->into->aux[at]);
    heap_build_add_allocs(f, node, &row, (struct sonde_profile_sample){
        .stack = stack, .kind = SONDE_SAMPLE_ALLOC,
        .flags = truncated ? SONDE_SAMPLE_TRUNCATED : 0 });
    return 0;
}

/* Growth that has been added makes room for the rest. */
static void take_series(struct fold *f, uint32_t number)
{
    const struct sonde_budget *b = f->o->series;
    if (!b || number >= f->t->site_count) return;
    const size_t had = *b->used;
    heap_site_release(&f->t->sites[number], b);
    f->into->p->bytes_max += had - *b->used;
}

static int add_sites(struct fold *f)
{
    struct heap_target *t = f->t;
    if (t->event_count) qsort(t->events, t->event_count, sizeof(*t->events), by_node);
    for (uint32_t i = 0; i < f->order_count; i++) {
        const int rc = add_site(f, f->order[i].site);
        if (rc != 0) return rc;
        take_series(f, f->order[i].site);
        if (i % FORGET_SITES == FORGET_SITES - 1) sonde_segment_forget(t->base.segment);
    }
    return 0;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void heap_build_add_thread(struct fold *f, const struct heap_thread *thread, double bytes,
                                  double allocs)
{
    const uint32_t id = sonde_profile_thread(f->into->p, f->t->base.id.pid, thread->tid,
                                             thread->name);
    struct sonde_heap_thread *to = id ? heap_sum_thread(f->into, id) : NULL;
    if (!to) return;
    to->alloc_bytes += heap_whole(bytes);
    to->alloc_count += heap_whole(allocs);
}

/* Of threads that have ended, and of those that have had a lane to themselves from the start, it is
 * known. What is left is of the others, by their events. */
static void add_threads(struct fold *f)
{
    struct heap_target *t = f->t;
    struct sonde__heap_lane lane;
    double bytes = (double)t->totals.alloc_bytes, allocs = heap_count(t, t->totals.allocs);
    double seen_bytes = 0, seen_allocs = 0;
    for (uint32_t i = 1; i < t->info.lanes; i++) {
        sonde_segment_heap_lane(t->base.segment, i, &lane);
        struct heap_thread *owner =
            lane.tid && lane.claims == 1 ? heap_target_thread(t, lane.tid) : NULL;
        if (!owner || owner->ended) continue;
        heap_build_add_thread(f, owner, (double)lane.alloc_bytes, heap_count(t, lane.allocs));
        bytes -= (double)lane.alloc_bytes;
        allocs -= heap_count(t, lane.allocs);
        owner->seen_bytes = owner->seen_allocs = 0;
    }
    for (uint32_t i = 0; i < t->thread_count; i++) {
        struct heap_thread *thread = &t->threads[i];
        if (thread->ended) {
            heap_build_add_thread(f, thread, (double)thread->bytes, heap_count(t, thread->allocs));
            bytes -= (double)thread->bytes;
            allocs -= heap_count(t, thread->allocs);
            thread->seen_bytes = thread->seen_allocs = 0;
        }
        seen_bytes += thread->seen_bytes;
        seen_allocs += thread->seen_allocs;
    }
    for (uint32_t i = 0; i < t->thread_count && seen_bytes > 0 && bytes > 0; i++) {
        struct heap_thread *thread = &t->threads[i];
        if (thread->seen_bytes <= 0 && thread->seen_allocs <= 0) continue;
        const double part = seen_allocs > 0 && allocs > 0
                                ? allocs * thread->seen_allocs / seen_allocs : 0;
        heap_build_add_thread(f, thread, bytes * thread->seen_bytes / seen_bytes, part);
    }
    for (uint32_t i = 0; i < t->thread_count; i++) {
        t->threads[i].seen_bytes = t->threads[i].seen_allocs = 0;
    }
}

/* ---- Facts ----------------------------------------------------------------------------------- */

static void add_pool(struct heap_sum *s, const char *name, uint32_t mapped, uint64_t bytes,
                     uint64_t rss_bytes)
{
    struct sonde_heap *h = s->h;
    const uint32_t string = sonde_profile_cstring(s->p, name);
    uint32_t i = 0;
    if (!string || (!bytes && !rss_bytes)) return;
    while (i < h->pool_count && (h->pools[i].name != string || h->pools[i].mapped != mapped)) i++;
    if (i == h->pool_count) {
        if (i == HEAP_POOLS_MAX) return;
        if (!h->pools) h->pools = sonde__calloc(HEAP_POOLS_MAX, sizeof(*h->pools));
        if (!h->pools) return;
        h->pools[h->pool_count++] = (struct sonde_heap_pool){ .name = string, .mapped = mapped };
    }
    h->pools[i].bytes += bytes;
    h->pools[i].rss_bytes += rss_bytes;
}

static void heap_build_on_pool(void *arg, const char *name, double bytes)
{
    if (bytes > 0 && bytes < 1.8e19) add_pool(arg, name, 0, (uint64_t)bytes, 0);
}

/* Of processes that are there, and of the one that was asked for also when it has ended. */
static void add_memory(struct fold *f)
{
    const struct heap_target *t = f->t;
    struct sonde_heap *h = f->into->h;
    const struct sonde__heap_arena *a = &t->info.arena;
    if (t->base.replaced || (t->base.gone && t->base.id.pid != f->o->root)) return;
    h->rss_bytes += t->rss_bytes;
    h->rss_peak_bytes += t->rss_peak_bytes;
    h->pss_bytes += t->pss_bytes;
    sonde_segment_pools(t->base.segment, heap_build_on_pool, f->into);
    for (uint32_t i = 0; i < t->smaps.count; i++) {
        const struct sonde_smaps_row *r = &t->smaps.rows[i];
        add_pool(f->into, r->name, 1, r->bytes, r->rss_bytes);
    }
    if (!a->ticks) return;
    h->arena_known = 1;
    h->arenas += a->arenas;
    h->arena_system += a->system_bytes;
    h->arena_used += a->used_bytes;
    h->arena_free += a->free_bytes;
    h->arena_mapped += a->mapped_bytes;
    h->arena_trim += a->trim_bytes;
}

static void add_peak(struct fold *f)
{
    const struct heap_target *t = f->t;
    const int tsc = sonde_segment_header(t->base.segment)->tsc != 0;
    if (f->peak <= f->into->peak_most) return;
    f->into->peak_most = f->peak;
    f->into->h->peak_ns =
        f->peaks ? sonde_tick_unix_ns(f->o->clock, tsc, t->info.peak_ticks) : f->o->now_ns;
}

static void heap_build_add_facts(struct fold *f)
{
    const struct heap_target *t = f->t;
    struct sonde_heap *h = f->into->h;
    struct sonde__heap_lane lane;
    h->full = t->info.mode == SONDE__HEAP_FULL;
    h->mean = t->info.mean;
    if (!h->allocator || t->base.id.pid == f->o->root) {
        h->allocator = sonde_profile_cstring(f->into->p, t->info.allocator);
    }
    h->lost_events += t->lost;
    h->reentrant += t->info.reentrant;
    h->refused += t->info.refused;
    h->truncated += t->info.truncated;
    h->unmatched += t->info.unmatched;
    h->failed += t->info.failed;
    h->scanned |= t->info.scanned == 1;
    for (uint32_t i = 0; i < t->info.lanes; i++) {
        sonde_segment_heap_lane(t->base.segment, i, &lane);
        for (uint32_t k = 0; k < SONDE_HEAP_SIZES; k++) {
            h->size_class[k] += heap_count(t, lane.size_class[k]);
        }
        for (uint32_t k = 0; k < SONDE_HEAP_LIFETIMES; k++) {
            h->lifetime[k] += heap_count(t, lane.lifetime[k]);
        }
    }
    _Static_assert(SONDE_HEAP_SIZES == SONDE__HEAP_SIZES, "the same classes");
    _Static_assert(SONDE_HEAP_LIFETIMES == SONDE__HEAP_LIFETIMES, "the same classes");
}

int heap_build(struct heap_target *t, const struct heap_build_options *o, struct heap_sum *into,
               struct sonde_err *err)
{
    assert(t->base.segment && !t->folded);
    struct fold f = { .t = t, .o = o, .into = into, .err = err,
                      .sites = t->info.sites ? t->info.sites : 1 };
    int rc = heap_build_read_all(&f);
    if (rc == 0) rc = add_sites(&f);
    if (rc == 0) {
        sonde_segment_heap_totals(t->base.segment, &t->totals);
        add_threads(&f);
        add_memory(&f);
        add_peak(&f);
        heap_build_add_facts(&f);
        into->processes++;
    }
    heap_stacks_release(&f.stacks);
    sonde__free(f.node_of);
    sonde__free(f.order);
    sonde__free(f.peaks);
    sonde_segment_forget(t->base.segment);
    return rc;
}
