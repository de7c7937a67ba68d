/* round.c - what the heap profiler does over and over: looking for processes, draining events,
 * counting ticks, putting away what has ended.
 *
 * Ticks begin sixteen times a second and become twice as long whenever there are 64 of them, until
 * they take a second: so a program that ran for three seconds has as many points of growth to be
 * judged by as one that ran for a minute. Where reading all sites takes long, they become longer
 * sooner. */
#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "collect/heap/private.h"
#include "collect/proc/describe.h"
#include "sonde/sonde.h"

#define TICK_SHARE 50u            /* a tick may take this part of the time between two */
#define CATCH_UP 8u               /* readings at once of ticks that are late */
#define RATE_EVERY_NS 500000000u

void heap_give_up(struct sonde_heap_reader *m, struct heap_target *t, int rc,
                  const struct sonde_err *why)
{
    sonde_assert_held(&m->lock);
    assert(rc);
    if (rc == SONDE_ENOMEM) return; /* next time */
    snprintf(m->broken, sizeof(m->broken), "the heap profile of process %u cannot be read any "
             "more: %.160s", t->base.id.pid, why->text);
    sonde_log(SONDE_LOG_WARN, "%s", m->broken);
    t->broken = 1;
    heap_target_release(&m->reader, t);
}

/* ---- Totals ---------------------------------------------------------------------------------- */

static double heap_round_live_bytes(const struct heap_target *t)
{
    const struct sonde_segment_heap_totals *a = &t->totals;
    return a->alloc_bytes > a->free_bytes ? (double)(a->alloc_bytes - a->free_bytes) : 0;
}

static double live_count(const struct heap_target *t)
{
    const struct sonde_segment_heap_totals *a = &t->totals;
    return a->allocs > a->frees ? heap_count(t, a->allocs - a->frees) : 0;
}

struct heap_now heap_totals(struct sonde_heap_reader *m)
{
    sonde_assert_held(&m->lock);
    struct heap_now n = { .alloc_bytes = (double)m->ended_totals.alloc_bytes,
                          .alloc_count = (double)m->ended_totals.allocs };
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        struct heap_target *t = heap_target_at(m, i);
        if (!heap_is_open(t)) continue;
        sonde_segment_heap_totals(t->base.segment, &t->totals);
        n.alloc_bytes += (double)t->totals.alloc_bytes;
        n.alloc_count += heap_count(t, t->totals.allocs);
        if (t->base.replaced) continue;
        n.live_bytes += heap_round_live_bytes(t);
        n.live_count += live_count(t);
        n.rss_bytes += (double)t->rss_bytes;
    }
    return n;
}

/* The curve begins where the process did, with nothing, if that was after us: most programs
 * allocate a good part of all while they start, before anybody can have looked. */
static void add_origin(struct sonde_heap_reader *m)
{
    uint64_t first_ns = UINT64_MAX;
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        const struct heap_target *t = heap_target_at(m, i);
        if (!heap_is_open(t)) continue;
        const uint64_t start_ns = sonde_tick_unix_ns(
            &m->reader.clock, sonde_segment_header(t->base.segment)->tsc != 0, t->info.start_ticks);
        if (start_ns < first_ns) first_ns = start_ns;
    }
    const uint64_t now_ns = m->reader.clock.unix_ns + m->reader.now_ns;
    if (first_ns < m->start_ns || first_ns >= now_ns) return;
    m->points[m->point_count++] = (struct sonde_heap_point){ .time_ns = first_ns };
}

static void heap_round_add_point(struct sonde_heap_reader *m, const struct heap_now *n, int always)
{
    if (!always && m->point_skip++ % m->point_every != 0) return;
    if (!m->point_count) add_origin(m);
    if (m->point_count == HEAP_POINTS_MAX) {
        for (uint32_t i = 0; i < HEAP_POINTS_MAX / 2; i++) m->points[i] = m->points[2 * i];
        m->point_count = HEAP_POINTS_MAX / 2;
        m->point_every *= 2;
    }
    m->points[m->point_count++] = (struct sonde_heap_point){
        .time_ns = m->reader.clock.unix_ns + m->reader.now_ns,
        .live_bytes = heap_whole(n->live_bytes),
        .live_count = heap_whole(n->live_count),
        .alloc_bytes = heap_whole(n->alloc_bytes),
        .alloc_count = heap_whole(n->alloc_count),
        .rss_bytes = heap_whole(n->rss_bytes),
    };
}

static void add_rate(struct sonde_heap_reader *m, const struct heap_now *n)
{
    const uint32_t last = (m->rate_next + HEAP_RATES - 1) % HEAP_RATES;
    if (m->rates[last].at_ns && m->reader.now_ns - m->rates[last].at_ns < RATE_EVERY_NS) return;
    m->rates[m->rate_next].at_ns = m->reader.now_ns;
    m->rates[m->rate_next].bytes = n->alloc_bytes;
    m->rates[m->rate_next].count = n->alloc_count;
    m->rate_next = (m->rate_next + 1) % HEAP_RATES;
}

/* ---- Ticks ----------------------------------------------------------------------------------- */

static void heap_round_coarsen(struct sonde_heap_reader *m)
{
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        struct heap_target *t = heap_target_at(m, i);
        for (uint32_t k = 0; k < t->site_count; k++) heap_site_coarsen(&t->sites[k]);
    }
    for (uint32_t i = 0; i < m->ended.h->site_count; i++) {
        sonde_curve_coarsen(&m->ended.h->sites[i].growth);
    }
    sonde_curve_coarsen(&m->growth);
    m->reader.tick /= 2;
    m->tick_ns *= 2;
}

/* A reading that stands for so many ticks. */
static void heap_round_tick(struct sonde_heap_reader *m, uint32_t times)
{
    struct sonde_err err;
    /* CPU time: that others keep us waiting is no reason to look less often. */
    const uint64_t start = sonde_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    m->reader.times = times;
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        struct heap_target *t = heap_target_at(m, i);
        if (!heap_is_open(t)) continue;
        const int rc = heap_target_tick(&m->reader, t, &err);
        if (rc != 0) heap_give_up(m, t, rc, &err);
    }
    const struct heap_now n = heap_totals(m);
    for (uint32_t i = 0; i < times; i++) sonde_curve_add(&m->growth, n.live_bytes);
    heap_round_add_point(m, &n, 0);
    m->reader.tick += times;
    const uint64_t took = sonde_clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    if (m->tick_ns < HEAP_TICK_LAST_NS && m->reader.tick % 2 == 0 &&
        (m->reader.tick == SONDE_CURVE_POINTS || took * TICK_SHARE > m->tick_ns)) {
        heap_round_coarsen(m);
    }
}

/* Ticks are as far apart as they say; when the thread comes late, a reading stands for several. */
static void ticks_due(struct sonde_heap_reader *m)
{
    const uint64_t now = m->reader.now_ns;
    if (!m->tick0_ns) {
        m->tick0_ns = now;
        m->tick0_unix_ns = m->reader.clock.unix_ns + now;
    }
    for (uint32_t i = 0; i < CATCH_UP; i++) {
        const uint64_t next = m->tick0_ns + m->reader.tick * m->tick_ns;
        if (now < next) return;
        uint64_t times = 1 + (now - next) / m->tick_ns;
        if (times > SONDE_CURVE_POINTS) times = SONDE_CURVE_POINTS;
        if (m->tick_ns < HEAP_TICK_LAST_NS && m->reader.tick + times > SONDE_CURVE_POINTS) {
            times = SONDE_CURVE_POINTS - m->reader.tick;
        }
        heap_round_tick(m, (uint32_t)times);
    }
    /* The machine was asleep: time goes on from here. */
    m->tick0_ns = now + m->tick_ns - m->reader.tick * m->tick_ns;
}

/* ---- Reading --------------------------------------------------------------------------------- */

int heap_is_ours(const struct sonde_heap_reader *m, struct heap_target *t, struct sonde_err *err)
{
    const int rc = sonde_segment_heap(t->base.segment, &t->info, err);
    if (rc == 0 && m->found.only && t->info.session != m->found.only) return SONDE_ENOENT;
    return rc;
}

static void heap_round_target_read(struct sonde_heap_reader *m, struct heap_target *t)
{
    struct sonde_err err;
    if (!t->base.segment || t->broken || t->folded) return;
    sonde_preload_look(&m->found, &t->base);
    if (!t->base.ours) {
        const int rc = heap_is_ours(m, t, &err);
        if (rc == SONDE_ENOENT) {
            if (t->base.gone) sonde_preload_close(&t->base);
            return;
        }
        if (rc != 0) {
            heap_give_up(m, t, rc, &err);
            return;
        }
        t->base.ours = m->any = 1;
        if (t->base.id.pid == m->options.pid) {
            sonde_proc_describe(m->ended.p, t->base.id.pid,
                                sonde_segment_header(t->base.segment)->program);
        }
    }
    const int rc = heap_target_read(&m->reader, t, &err);
    if (rc != 0) heap_give_up(m, t, rc, &err);
}

static void thin_events(struct sonde_heap_reader *m)
{
    while (m->reader.event_count > HEAP_EVENTS_MAX) {
        for (uint32_t i = 0; i < m->found.target_count; i++) {
            heap_target_thin(&m->reader, heap_target_at(m, i));
        }
        m->reader.event_shift++;
    }
}

struct heap_build_options heap_build_options(struct sonde_heap_reader *m, struct heap_sum *into,
                                             int last)
{
    sonde_assert_held(&m->lock);
    into->p->bytes_max = m->options.bytes_max - m->reader.series_bytes;
    return (struct heap_build_options){
        .tick = m->reader.tick, .root = m->options.pid, .clock = &m->reader.clock,
        .now_ns = m->reader.clock.unix_ns + m->reader.now_ns,
        .series = last ? &m->reader.series : NULL,
    };
}

/* It has ended: what it leaves goes to the sum. */
static void put_away(struct sonde_heap_reader *m, struct heap_target *t)
{
    assert(t->base.gone && !t->folded);
    struct sonde_err err;
    const struct heap_build_options o = heap_build_options(m, &m->ended, 1);
    const int rc = heap_build(t, &o, &m->ended, &err);
    if (rc != 0) {
        heap_give_up(m, t, rc, &err);
        return;
    }
    m->ended_totals.allocs += heap_whole(heap_count(t, t->totals.allocs));
    m->ended_totals.alloc_bytes += t->totals.alloc_bytes;
    m->ended_peak += (double)t->info.peak_bytes;
    m->ended_lost += t->lost;
    m->ended_sites += t->info.sites ? t->info.sites - 1 : 0;
    m->refused += t->info.refused;
    m->reentrant += t->info.reentrant;
    m->scans_given_up += t->info.scanned == 2;
    if (!t->base.replaced) {
        m->left_bytes += heap_round_live_bytes(t);
        m->left_count += live_count(t);
        if (t->base.id.pid == m->options.pid) m->root_ended = 1;
    }
    t->folded = 1;
    heap_target_release(&m->reader, t);
}

void heap_round(struct sonde_heap_reader *m)
{
    sonde_assert_held(&m->lock);
    int open = 0, gone = 0;
    sonde_tick_clock_update(&m->reader.clock);
    m->reader.now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    sonde_preload_scan(&m->found);
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        heap_round_target_read(m, heap_target_at(m, i));
    }
    thin_events(m);
    for (uint32_t i = 0; i < m->found.target_count; i++) open |= heap_is_open(heap_target_at(m, i));
    if (!open) return;
    ticks_due(m);
    const struct heap_now n = heap_totals(m);
    add_rate(m, &n);
    for (uint32_t i = 0; i < m->found.target_count; i++) {
        struct heap_target *t = heap_target_at(m, i);
        if (!heap_is_open(t) || !t->base.gone) continue;
        if (!gone++) heap_round_add_point(m, &n, 1);
        put_away(m, t);
    }
}
