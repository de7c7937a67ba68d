/* heap_json.c - the heap's part of a report for programs. docs/heap.md says what its members
 * mean. */
#include <math.h>

#include "base/json.h"
#include "present/report/heap.h"
#include "profile/formats/report_json.h"

enum { FRAMES_MAX = 64 };

static void heap_report_json_put_amount(struct sonde_buf *out, const char *key,
                                        const struct sonde_heap_amount *a)
{
    sonde_json_key_open(out, key, '{');
    sonde_json_num(out, "value", round(a->value));
    sonde_json_num(out, "low", round(a->low));
    sonde_json_num(out, "high", round(a->high));
    sonde_json_close(out, '}');
}

/* 0 = unknown */
static void heap_report_json_put_known(struct sonde_buf *out, const char *key, uint64_t v)
{
    sonde_json_num(out, key, v ? (double)v : NAN);
}

static void heap_report_json_put_time(struct sonde_buf *out, const char *key, uint64_t ns)
{
    sonde_json_time(out, key, (double)ns * 1e-9);
}

static void heap_report_json_put_totals(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    sonde_json_str(out, "mode", h->full ? "full" : "sampled");
    sonde_json_num(out, "mean_bytes", h->full ? NAN : (double)h->mean);
    sonde_json_num(out, "seconds", r->seconds > 0 ? r->seconds : NAN);
    heap_report_json_put_amount(out, "in_use_bytes", &h->live_bytes);
    heap_report_json_put_amount(out, "in_use_count", &h->live_count);
    heap_report_json_put_amount(out, "allocated_bytes", &h->alloc_bytes);
    heap_report_json_put_amount(out, "allocated_count", &h->alloc_count);
    sonde_json_num(out, "allocated_bytes_per_second", r->alloc_rate);
    sonde_json_num(out, "allocations_per_second", r->count_rate);
    sonde_json_num(out, "temporary_bytes", round(r->temp_bytes));
    sonde_json_num(out, "temporary_count", round(r->temp_count));
    sonde_json_u64(out, "peak_bytes", h->peak_bytes);
    heap_report_json_put_time(out, "peak_time", h->peak_ns);
    heap_report_json_put_known(out, "rss_bytes", h->rss_bytes);
    heap_report_json_put_known(out, "rss_peak_bytes", h->rss_peak_bytes);
    heap_report_json_put_known(out, "pss_bytes", h->pss_bytes);
    heap_report_json_put_time(out, "mark_time", h->mark_ns);
    sonde_json_bool(out, "mark_automatic", h->mark_automatic);
    sonde_json_bool(out, "ended", h->ended);
}

static void put_allocator(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    sonde_json_key_open(out, "allocator", '{');
    sonde_json_str(out, "file", h->allocator ? sonde_profile_str(r->p, h->allocator) : NULL);
    if (h->arena_known) {
        sonde_json_u64(out, "arenas", h->arenas);
        sonde_json_u64(out, "system_bytes", h->arena_system);
        sonde_json_u64(out, "used_bytes", h->arena_used);
        sonde_json_u64(out, "free_bytes", h->arena_free);
        sonde_json_u64(out, "mapped_bytes", h->arena_mapped);
        sonde_json_u64(out, "trim_bytes", h->arena_trim);
    }
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "not_seen", '{');
    sonde_json_u64(out, "refused", h->refused);
    sonde_json_u64(out, "reentrant", h->reentrant);
    sonde_json_u64(out, "unmatched", h->unmatched);
    sonde_json_u64(out, "lost_events", h->lost_events);
    sonde_json_u64(out, "truncated", h->truncated);
    sonde_json_close(out, '}');
    sonde_json_u64(out, "failed", h->failed);
}

static void heap_report_json_put_frames(const struct heap_report *r, uint32_t stack,
                                        struct sonde_buf *out)
{
    struct heap_frame frames[FRAMES_MAX];
    const size_t count = heap_frames(r->p, stack, frames, FRAMES_MAX);
    sonde_json_key_open(out, "frames", '[');
    for (size_t i = 0; i < count; i++) {
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", heap_frame_name(&frames[i]));
        if (*frames[i].module) sonde_json_str(out, "module", frames[i].module);
        if (*frames[i].file) sonde_json_str(out, "file", frames[i].file);
        if (frames[i].line) sonde_json_u64(out, "line", frames[i].line);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void put_site(const struct heap_report *r, const struct sonde_heap_site *s,
                     struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "verdict", sonde_heap_verdict_name((enum sonde_heap_verdict)s->verdict));
    sonde_json_key_open(out, "bytes_per_second", '{');
    sonde_json_num(out, "value", s->slope);
    sonde_json_num(out, "low", s->slope_low);
    sonde_json_num(out, "high", s->slope_high);
    sonde_json_close(out, '}');
    heap_report_json_put_amount(out, "in_use_bytes", &s->live_bytes);
    heap_report_json_put_amount(out, "in_use_count", &s->live_count);
    heap_report_json_put_amount(out, "allocated_bytes", &s->alloc_bytes);
    heap_report_json_put_amount(out, "allocated_count", &s->alloc_count);
    sonde_json_num(out, "peak_bytes", round(s->peak_bytes));
    sonde_json_num(out, "grown_bytes", round(s->grown_bytes));
    sonde_json_num(out, "temporary_bytes", round(s->temp_bytes));
    sonde_json_num(out, "temporary_count", round(s->temp_count));
    sonde_json_num(out, "mapped_bytes", round(s->mapped_bytes));
    sonde_json_num(out, "lifetime_s", s->lifetime_s >= 0 ? s->lifetime_s : NAN);
    if (r->h->scanned) {
        sonde_json_num(out, "lost_bytes", s->lost_bytes > 0 ? s->lost_bytes : 0);
        sonde_json_num(out, "lost_count", s->lost_count > 0 ? s->lost_count : 0);
    }
    heap_report_json_put_frames(r, s->stack, out);
    sonde_json_close(out, '}');
}

static void heap_report_json_put_sites(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    sonde_json_u64(out, "leaks", r->leak_count);
    sonde_json_num(out, "leaks_bytes_per_second", r->leak_slope);
    sonde_json_bool(out, "scanned", h->scanned);
    sonde_json_num(out, "lost_bytes", h->scanned ? r->lost_bytes : NAN);
    sonde_json_num(out, "lost_count", h->scanned ? r->lost_count : NAN);
    sonde_json_u64(out, "sites_total", h->site_count);
    sonde_json_key_open(out, "sites", '[');
    for (uint32_t i = 0; i < h->site_count && i < r->limit; i++) {
        put_site(r, &h->sites[r->order[i]], out);
    }
    sonde_json_close(out, ']');
}

static void put_classes(const char *key, const char *from, const char *to,
                        const struct heap_class *c, size_t count, struct sonde_buf *out)
{
    sonde_json_key_open(out, key, '[');
    for (size_t i = 0; i < count; i++) {
        sonde_json_open(out, '{');
        sonde_json_num(out, from, c[i].from);
        sonde_json_num(out, to, c[i].to);
        sonde_json_num(out, "count", round(c[i].count));
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void heap_report_json_put_threads(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    sonde_json_key_open(out, "threads", '[');
    for (uint32_t i = 0; i < h->thread_count && i < r->limit; i++) {
        const struct sonde_heap_thread *row = &h->threads[i];
        const struct sonde_profile_thread *t = &r->p->threads[row->thread];
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", row->thread ? sonde_profile_str(r->p, t->name) : NULL);
        sonde_json_u64(out, "pid", t->pid);
        sonde_json_u64(out, "tid", t->tid);
        sonde_json_u64(out, "allocated_bytes", row->alloc_bytes);
        sonde_json_u64(out, "allocated_count", row->alloc_count);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "pools", '[');
    for (uint32_t i = 0; i < h->pool_count && i < r->limit; i++) {
        const struct sonde_heap_pool *pool = &h->pools[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", sonde_profile_str(r->p, pool->name));
        sonde_json_str(out, "told_by", pool->mapped ? "mappings" : "program");
        sonde_json_u64(out, "bytes", pool->bytes);
        if (pool->mapped) sonde_json_u64(out, "rss_bytes", pool->rss_bytes);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void heap_report_json_put_curve(const struct sonde_heap *h, struct sonde_buf *out)
{
    sonde_json_key_open(out, "curve", '[');
    for (uint32_t i = 0; i < h->point_count; i++) {
        const struct sonde_heap_point *p = &h->points[i];
        sonde_json_open(out, '{');
        heap_report_json_put_time(out, "time", p->time_ns);
        sonde_json_u64(out, "in_use_bytes", p->live_bytes);
        sonde_json_u64(out, "in_use_count", p->live_count);
        sonde_json_u64(out, "allocated_bytes", p->alloc_bytes);
        sonde_json_u64(out, "allocated_count", p->alloc_count);
        heap_report_json_put_known(out, "rss_bytes", p->rss_bytes);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

void heap_report_json(const struct heap_report *r, struct sonde_buf *out)
{
    struct heap_class classes[HEAP_CLASSES_MAX];
    if (!r->h) return;
    sonde_json_key_open(out, "memory", '{');
    sonde_report_short_memory(r->p, &(struct sonde_profile_filter){ .kind = -1 }, out);
    heap_report_json_put_totals(r, out);
    put_allocator(r, out);
    heap_report_json_put_sites(r, out);
    put_classes("sizes", "from_bytes", "below_bytes", classes, heap_size_classes(r->h, classes),
                out);
    put_classes("lifetimes", "from_s", "below_s", classes, heap_lifetime_classes(r->h, classes),
                out);
    heap_report_json_put_threads(r, out);
    heap_report_json_put_curve(r->h, out);
    sonde_json_close(out, '}');
}
