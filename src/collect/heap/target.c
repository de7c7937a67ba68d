/* target.c - one segment with a heap profile: what of it must be looked at while the process
 * runs. Files of code are opened then, since paths mean what the process means by them and build
 * ids can be read; nodes are looked at once, for code without a file. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "collect/heap/private.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

#define NAME_EVERY_NS 1000000000u
#define ADDRESS ((1ull << 48) - 1)
#define FORGET_NODES 65536u  /* read at once: a megabyte of them */
#define FORGET_SITES 16384u  /* the same: two megabytes in each lane */
#define FIND_AT_ONCE 64u
#define REFUSED UINT32_MAX   /* as `first` of a site: there was no memory for its growth */

double heap_count(const struct heap_target *t, uint64_t units)
{
    return (double)units / (double)(1ull << t->info.count_shift);
}

static int heap_target_no_memory(struct sonde_err *err)
{
    return sonde_err_set(err, SONDE_ENOMEM, "no memory for the heap profile");
}

/* ---- The growth of a site --------------------------------------------------------------------
 *
 * Most sites allocate while the program starts and never again: as long as the amount is the same,
 * tick and amount say it all. */

void heap_site_growth(const struct heap_site *s, uint32_t tick, struct sonde_curve *out)
{
    assert(!s->first || s->first == REFUSED || s->first <= tick + 1);
    if (s->series) {
        *out = *s->series;
        return;
    }
    *out = (struct sonde_curve){ 0 };
    if (!s->first || s->first == REFUSED) return;
    out->first = s->first - 1;
    for (uint32_t i = out->first; i < tick; i++) sonde_curve_add(out, (double)s->last);
}

int heap_site_add(struct heap_site *s, uint32_t tick, double value, const struct sonde_budget *b)
{
    if (s->series) {
        sonde_curve_add(s->series, value);
        return 0;
    }
    if (!s->first) {
        s->first = tick + 1;
        s->last = (float)value;
        return 0;
    }
    if ((float)value == s->last || s->first == REFUSED) return 0;
    struct sonde_curve *series =
        *b->used + sizeof(*series) <= b->max ? sonde__alloc(sizeof(*series)) : NULL;
    if (!series) {
        s->first = REFUSED;
        return SONDE_ENOMEM;
    }
    *b->used += sizeof(*series);
    heap_site_growth(s, tick, series);
    sonde_curve_add(series, value);
    s->series = series;
    return 0;
}

void heap_site_coarsen(struct heap_site *s)
{
    if (s->series) sonde_curve_coarsen(s->series);
    /* Beside a series as well: it says a tick, and ticks have new numbers. */
    if (s->first && s->first != REFUSED) s->first = (s->first - 1) / 2 + 1;
}

void heap_site_release(struct heap_site *s, const struct sonde_budget *b)
{
    if (!s->series) return;
    assert(*b->used >= sizeof(*s->series));
    sonde__free(s->series);
    *b->used -= sizeof(*s->series);
    s->series = NULL;
}

/* ---- Code ------------------------------------------------------------------------------------ */

/* It is mapped, looked at, and then covered by whatever comes to be mapped there. */
static int module_read(struct heap_target *t, uint32_t id, struct sonde_err *err)
{
    struct sonde_mapping map;
    struct sonde_aspace_texts texts;
    struct sonde_module found;
    char path[SONDE_HEAP_PATH_MAX + 1];
    const int rc = sonde_segment_heap_module(t->base.segment, id, &map, path, err);
    if (rc != 0) return rc;
    if (sonde_preload_map(&t->base, t->as, &map) != 0 ||
        sonde_aspace_module(t->as, map.start, &texts, &found) != 0) {
        found = (struct sonde_module){ .path = path, .build_id = "", .open_path = "",
                                       .start = map.start, .end = map.end, .offset = map.offset,
                                       .pid = t->base.id.pid };
    }
    return sonde_module_copy(&found, &t->modules[id]) ? heap_target_no_memory(err) : 0;
}

static int modules_read(struct heap_target *t, struct sonde_err *err)
{
    if (SONDE_ARRAY_RESERVE(t->modules, t->module_cap, t->info.modules)) {
        return heap_target_no_memory(err);
    }
    if (!t->module_count) t->module_count = 1;
    for (; t->module_count < t->info.modules; t->module_count++) {
        const int rc = module_read(t, t->module_count, err);
        if (rc != 0) return rc;
    }
    return 0;
}

/* New nodes in code that is in no module: where that is now is what there is to know of it. */
static int nodes_read(struct heap_reader *r, struct heap_target *t, struct sonde_err *err)
{
    uint64_t ips[FIND_AT_ONCE];
    uint32_t count = 0;
    const uint32_t from =
        t->nodes_seen > SONDE__HEAP_NODE_TRUNCATED ? t->nodes_seen : SONDE__HEAP_NODE_TRUNCATED + 1;
    for (uint32_t id = from; id < t->info.nodes; id++) {
        struct sonde__heap_node n;
        const int rc = sonde_segment_heap_node(t->base.segment, id, &n, err);
        if (rc != 0) return rc;
        if (id % FORGET_NODES == 0) sonde_segment_forget(t->base.segment);
        if (n.ip <= ADDRESS && n.ip && count < FIND_AT_ONCE &&
            !sonde_aspace_mapping(t->as, n.ip)) {
            ips[count++] = n.ip;
        }
    }
    sonde_preload_find_code(&t->base, r->modules, t->as, ips, count, r->now_ns);
    t->nodes_seen = t->info.nodes;
    return 0;
}

/* ---- Threads --------------------------------------------------------------------------------- */

struct heap_thread *heap_target_thread(struct heap_target *t, uint32_t tid)
{
    const uint32_t hash = sonde_hash_end(tid);
    uint32_t at = hash, i;
    while ((i = sonde_map_next(&t->thread_index, hash, &at))) {
        if (t->threads[i - 1].tid == tid) return &t->threads[i - 1];
    }
    if (t->thread_count == HEAP_THREADS_MAX || sonde_map_reserve(&t->thread_index)) return NULL;
    struct heap_thread *thread = SONDE_ARRAY_ADD(t->threads, t->thread_count, t->thread_cap);
    if (!thread) return NULL;
    *thread = (struct heap_thread){ .tid = tid };
    sonde_map_put(&t->thread_index, hash, t->thread_count);
    return thread;
}

/* The name as it is now, at most once a second: threads name themselves after they begin. */
static void heap_target_look_at_name(const struct heap_reader *r, struct heap_target *t,
                                     uint32_t tid)
{
    char name[64];
    struct heap_thread *thread = heap_target_thread(t, tid);
    if (!thread || t->base.gone) return;
    if (thread->named_ns && r->now_ns - thread->named_ns < NAME_EVERY_NS) return;
    thread->named_ns = r->now_ns;
    sonde_preload_thread_name(t->base.id.pid, tid, name);
    if (name[0]) memcpy(thread->name, name, sizeof(name));
}

/* ---- Events ---------------------------------------------------------------------------------- */

struct heap_target_reading {
    struct heap_reader *r;
    struct heap_target *t;
};

static uint64_t heap_target_draw(struct heap_reader *r)
{
    uint64_t x = r->random ? r->random : 0x9e3779b97f4a7c15ull;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return r->random = x;
}

static void heap_target_on_event(void *arg, const struct sonde_segment_heap_event *e)
{
    const struct heap_target_reading *g = arg;
    struct heap_target *t = g->t;
    if (e->freed) return; /* rows say what was freed of each site */
    heap_target_look_at_name(g->r, t, e->tid);
    if (heap_target_draw(g->r) & ((1ull << g->r->event_shift) - 1)) return;
    struct heap_event *event = SONDE_ARRAY_ADD(t->events, t->event_count, t->event_cap);
    if (!event) return;
    const int tsc = sonde_segment_header(t->base.segment)->tsc != 0;
    *event = (struct heap_event){
        .time_ns = sonde_tick_unix_ns(&g->r->clock, tsc, e->ticks),
        .size = e->size,
        .node = e->node,
        .tid = e->tid,
    };
    g->r->event_count++;
}

static void heap_target_on_thread(void *arg, const struct sonde_segment_heap_thread *ended)
{
    const struct heap_target_reading *g = arg;
    struct heap_thread *thread = heap_target_thread(g->t, ended->tid);
    int changed = 0;
    if (!thread) return;
    thread->name[sonde__utf8_copy(thread->name, sizeof(thread->name) - 1, ended->name,
                                  strlen(ended->name), &changed)] = '\0';
    thread->ended = 1;
    thread->bytes += ended->bytes; /* numbers come again */
    thread->allocs += ended->allocs;
}

void heap_target_thin(struct heap_reader *r, struct heap_target *t)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->event_count; i++) {
        if (heap_target_draw(r) & 1) t->events[kept++] = t->events[i];
    }
    r->event_count -= t->event_count - kept;
    t->event_count = kept;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* What the kernel says of it. */
static void look_at_memory(const struct heap_reader *r, struct heap_target *t)
{
    struct sonde_smaps smaps;
    struct sonde_err err;
    if (sonde_smaps_read(t->base.id.pid, &smaps, &err) == 0) {
        sonde_smaps_release(&t->smaps);
        t->smaps = smaps;
        t->pss_bytes = smaps.all.pss_bytes;
    }
    sonde_smaps_done(&t->pace, r->now_ns, sonde_clock_ns(CLOCK_MONOTONIC));
}

int heap_target_read(struct heap_reader *r, struct heap_target *t, struct sonde_err *err)
{
    assert(t->base.segment && !t->folded);
    struct heap_target_reading g = { r, t };
    const struct sonde_segment_heap_sink sink = { heap_target_on_event, heap_target_on_thread, &g };
    int rc = sonde_segment_heap(t->base.segment, &t->info, err);
    if (rc == 0 && !t->as && sonde_aspace_create(r->modules, t->base.id.pid, &t->as) != 0) {
        rc = heap_target_no_memory(err);
    }
    if (rc == 0) rc = modules_read(t, err);
    if (rc == 0) rc = nodes_read(r, t, err);
    if (rc == 0) {
        rc = sonde_segment_heap_events(t->base.segment, &sink, t->base.gone, &t->lost, err);
    }
    const int due = !t->base.gone && sonde_smaps_is_due(&t->pace, r->now_ns);
    if (rc == 0 && due) look_at_memory(r, t);
    return rc;
}

void heap_target_look_at_last(const struct heap_reader *r, struct heap_target *t)
{
    if (!t->base.gone && sonde_smaps_is_due_at_last(&t->pace, r->now_ns)) look_at_memory(r, t);
}

/* Rows of all sites, chunk by chunk. */
static int heap_target_each_row(struct heap_target *t,
                                void (*row)(void *arg, struct heap_site *s,
                                            const struct sonde__heap_row *row),
                                void *arg, struct sonde_err *err)
{
    struct sonde__heap_row rows[SONDE__HEAP_ROWS];
    const uint32_t known = t->site_count;
    if (SONDE_ARRAY_RESERVE(t->sites, t->site_cap, t->info.sites)) {
        return heap_target_no_memory(err);
    }
    if (t->info.sites > known) {
        memset(t->sites + known, 0, (t->info.sites - known) * sizeof(*t->sites));
    }
    t->site_count = t->info.sites;
    for (uint32_t first = 0; first < t->site_count; first += SONDE__HEAP_ROWS) {
        const int rc = sonde_segment_heap_rows(t->base.segment, first / SONDE__HEAP_ROWS,
                                               rows, err);
        if (rc != 0) return rc;
        for (uint32_t i = 0; i < SONDE__HEAP_ROWS && first + i < t->site_count; i++) {
            if (rows[i].allocs) row(arg, &t->sites[first + i], &rows[i]);
        }
    }
    return 0;
}

static double heap_target_live_bytes(const struct sonde__heap_row *row)
{
    return row->alloc_bytes > row->free_bytes ? (double)(row->alloc_bytes - row->free_bytes) : 0;
}

static void tick_row(void *arg, struct heap_site *s, const struct sonde__heap_row *row)
{
    struct heap_reader *r = arg;
    for (uint32_t i = 0; i < r->times; i++) {
        if (heap_site_add(s, r->tick + i, heap_target_live_bytes(row), &r->series) != 0) {
            r->series_refused++;
        }
    }
}

int heap_target_tick(struct heap_reader *r, struct heap_target *t, struct sonde_err *err)
{
    assert(t->base.segment && r->times > 0);
    uint64_t rss, peak;
    sonde_segment_heap_totals(t->base.segment, &t->totals);
    if (!t->base.gone && sonde_smaps_resident(t->base.id.pid, &rss, &peak) == 0) {
        t->rss_bytes = rss;
        t->rss_peak_bytes = peak;
    }
    const int rc = heap_target_each_row(t, tick_row, r, err);
    if (t->site_count > FORGET_SITES) sonde_segment_forget(t->base.segment);
    return rc;
}

static void mark_row(void *arg, struct heap_site *s, const struct sonde__heap_row *row)
{
    const struct heap_target *t = arg;
    s->mark_bytes = (float)heap_target_live_bytes(row);
    s->mark_count = row->allocs > row->frees ? (float)heap_count(t, row->allocs - row->frees) : 0;
}

int heap_target_mark(struct heap_target *t, struct sonde_err *err)
{
    return heap_target_each_row(t, mark_row, t, err);
}

/* ---- A stretch of time ------------------------------------------------------------------------
 *
 * What was allocated in it, by events alone: see sonde_heap_reader_window. */

double heap_inverse_chance(const struct heap_target *t, const struct heap_event *e)
{
    return -1 / expm1(-((double)e->size + 1) / (double)t->info.mean);
}

static int heap_window_add_event(struct heap_target *t, struct heap_stacks *stacks,
                                 const struct heap_event *e, double factor, struct sonde_profile *p,
                                 struct sonde_err *err)
{
    uint32_t stack = 0;
    int truncated = 0;
    const int rc = heap_stacks_get(stacks, e->node, &stack, &truncated, err);
    if (rc || !stack) return rc;
    const struct heap_thread *thread = heap_target_thread(t, e->tid);
    const double many = heap_inverse_chance(t, e) * factor;
    const struct sonde_profile_sample like = {
        .stack = stack, .kind = SONDE_SAMPLE_ALLOC, .time_ns = e->time_ns,
        .flags = truncated ? SONDE_SAMPLE_TRUNCATED : 0,
        .thread = sonde_profile_thread(p, t->base.id.pid, e->tid, thread ? thread->name : "") };
    heap_sum_sample(p, &like, many * (double)e->size, many);
    return 0;
}

int heap_window(struct heap_target *t, uint32_t shift, uint64_t from_ns, uint64_t to_ns,
                struct sonde_profile *p, struct sonde_err *err)
{
    assert(shift < 64);
    struct heap_stacks stacks;
    /* Events may name nodes that are newer than what was read before them. */
    int rc = sonde_segment_heap(t->base.segment, &t->info, err);
    if (rc) return rc;
    rc = heap_stacks_init(&stacks, t, p) ? SONDE_ENOMEM : 0;
    for (uint32_t i = 0; !rc && i < t->event_count; i++) {
        const struct heap_event *e = &t->events[i];
        if (e->time_ns < from_ns || e->time_ns >= to_ns || e->node >= t->info.nodes) continue;
        rc = heap_window_add_event(t, &stacks, e, ldexp(1, (int)shift), p, err);
    }
    heap_stacks_release(&stacks);
    sonde_segment_forget(t->base.segment);
    return rc;
}

/* ---- The end --------------------------------------------------------------------------------- */

void heap_target_release(struct heap_reader *r, struct heap_target *t)
{
    for (uint32_t i = 0; i < t->site_count; i++) heap_site_release(&t->sites[i], &r->series);
    for (uint32_t i = 1; i < t->module_count; i++) sonde_module_release(&t->modules[i]);
    sonde__free(t->sites);
    sonde__free(t->modules);
    sonde__free(t->events);
    sonde__free(t->threads);
    sonde_map_release(&t->thread_index);
    sonde_smaps_release(&t->smaps);
    sonde_aspace_destroy(t->as);
    assert(r->event_count >= t->event_count);
    r->event_count -= t->event_count;
    t->sites = NULL;
    t->modules = NULL;
    t->events = NULL;
    t->threads = NULL;
    t->as = NULL;
    t->site_count = t->site_cap = t->module_count = t->module_cap = 0;
    t->event_count = t->event_cap = t->thread_count = t->thread_cap = 0;
    sonde_preload_close(&t->base);
}
