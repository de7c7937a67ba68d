/* lock_contention.c - threads that wait for locks which others hold.
 *
 * Measured against the time in which threads had something to do: CPU time, locks, disk, page
 * faults. Threads that are idle (waiting for work, a timer, the network) do not make it look
 * smaller, and semaphores and condition variables, which idle threads wait with, are not locks. */
#include <math.h>
#include <stdio.h>

#include "analyze/finding/lock_holder.h"
#include "analyze/finding/rule.h"
#include "analyze/finding/waits.h"
#include "base/alloc.h"

enum { SAMPLES_MIN = 10, SITES_LOOKED_AT = 16, GROUP_OTHERS = 3 };
#define WARNING_SHARE 0.15  /* of the time threads had something to do … */
#define WARNING_THREADS 0.1 /* … and so many of them wait, on average over all the time */
#define CRITICAL_SHARE 0.60
#define DISK_SHARE 0.3      /* of what the holder does: then that is what to change */

static void lock_advise(struct finding_look *l, struct sonde_finding *f,
                        const struct finding_wait_site *s, const struct finding_lock_holder *h)
{
    const char *holder = h->function ? finding_function_name(l, h->function) : f->subject;
    const char *disk = finding_call_name(l, h->disk_call);
    switch (s->lock) {
    case FINDING_LOCK_SQLITE:
        finding_advise(l, f,
                       "SQLite has one writer at a time: let one thread write, or make each "
                       "transaction in %.150s shorter (prepare data before BEGIN, synchronous="
                       "NORMAL with WAL); a longer busy timeout only waits longer", holder);
        return;
    case FINDING_LOCK_POSTGRES:
        finding_advise(l, f,
                       "see pg_stat_activity.wait_event and pg_locks for the relation and the "
                       "blocking pid; hold row locks for a shorter time, or spread updates of hot "
                       "rows over several");
        return;
    case FINDING_LOCK_FILE:
        finding_advise(l, f, "hold the file lock in %.150s for a shorter time, or give each writer "
                       "a file of its own", holder);
        return;
    case FINDING_LOCK_ALLOCATOR:
        finding_advise(l, f,
                       "threads wait for the allocator: allocate less in %.150s (reuse buffers), "
                       "raise MALLOC_ARENA_MAX, or link jemalloc, tcmalloc or mimalloc",
                       f->subject);
        return;
    case FINDING_LOCK_GIL:
        finding_advise(l, f,
                       "threads wait for Python's global interpreter lock: use processes, or code "
                       "that releases it, for the work in %.150s", holder);
        return;
    default: break;
    }
    if (h->disk_share >= DISK_SHARE) {
        finding_advise(l, f,
                       "%.150s calls %.60s with the lock held (%.0f %% of what others did "
                       "meanwhile): do the I/O after the lock is released, or collect what several "
                       "threads have to write and sync it once (group commit)",
                       holder, *disk ? disk : "I/O", 100 * h->disk_share);
    } else if (h->function) {
        finding_advise(l, f,
                       "the lock is held for %.150s: do less under it (compute before, publish "
                       "after; build a copy and swap it), or split the lock so that threads need "
                       "different ones", holder);
    } else {
        finding_advise(l, f,
                       "do less under the lock that %.150s takes, or split it so that threads need "
                       "different ones", f->subject);
    }
}

/* Places that wait for one lock, as far as can be told: while they wait the same function holds
 * it. */
struct lock_group {
    const struct finding_wait_site *site; /* that waits the most */
    struct finding_lock_holder holder;
    double seconds;          /* of all its sites */
    uint64_t samples;
    uint32_t others[GROUP_OTHERS]; /* further sites */
    size_t other_count;
};

static int lock_is_same(const struct lock_group *g, const struct finding_wait_site *s,
                        const struct finding_lock_holder *h)
{
    if (s->lock != g->site->lock) return 0;
    if (s->lock == FINDING_LOCK_SQLITE || s->lock == FINDING_LOCK_GIL) return 1;
    return s->site == g->site->site || (h->function && h->function == g->holder.function);
}

static void lock_prove(struct finding_look *l, struct sonde_finding *f, const struct lock_group *g,
                       const struct finding_wait_site *sites)
{
    const struct finding_lock_holder *h = &g->holder;
    finding_prove_site(l, f, g->site, "time waiting for the lock");
    if (g->site->caller) {
        finding_prove(l, f, &(struct sonde_evidence){
            .type = SONDE_EVIDENCE_FUNCTION,
            .subject = (char *)(uintptr_t)finding_function_name(l, g->site->caller),
            .file = (char *)(uintptr_t)finding_function_file(l, g->site->caller),
            .line = g->site->caller_line, .value = NAN, .what = "calls it" });
    }
    if (h->function) {
        finding_prove(l, f, &(struct sonde_evidence){
            .type = SONDE_EVIDENCE_FUNCTION,
            .subject = (char *)(uintptr_t)finding_function_name(l, h->function),
            .file = (char *)(uintptr_t)finding_function_file(l, h->function), .line = h->line,
            .value = h->share, .unit = "ratio",
            .what = "holds it: of other threads' time meanwhile" });
    }
    for (size_t i = 0; i < g->other_count; i++) {
        finding_prove_site(l, f, &sites[g->others[i]], "time waiting for it too");
    }
}

static void lock_add(struct finding_look *l, const struct finding_waits *w,
                     const struct lock_group *g, const struct finding_wait_site *sites)
{
    struct finding_wait_site shown = *g->site;
    const struct finding_wait_site *s = &shown;
    struct finding_lock_holder holds = g->holder;
    const struct finding_lock_holder *h = &holds;
    const double share = g->seconds / w->active_s, waiting = g->seconds / fmax(l->seconds, 1e-9);
    const enum sonde_severity severity =
        share < WARNING_SHARE || waiting < WARNING_THREADS ? SONDE_SEVERITY_INFO
        : share >= CRITICAL_SHARE                          ? SONDE_SEVERITY_CRITICAL
                                                           : SONDE_SEVERITY_WARNING;
    finding_wait_site_unwrap(l, &shown);
    if (h->function && h->function == g->site->site) holds.function = shown.site;
    const char *name = finding_function_name(l, s->site ? s->site : s->call);
    struct sonde_finding *f = finding_add(l, severity, share);
    finding_subject(l, f, *name ? name : "[unknown]", finding_function_file(l, s->site), s->line);
    f->share = share;
    f->seconds = g->seconds;
    f->count = (double)g->samples;
    f->avg_s = g->seconds / (double)g->samples;
    f->confidence = h->function ? 0.95 : 0.8;
    /* Those that wait could work instead, as far as there are CPUs for it. */
    const double spare = l->cpus * l->seconds - l->cpu.seconds;
    f->gain = isnan(spare) ? share : fmax(0, fmin(g->seconds, spare)) / w->active_s;
    f->gain_of = "thread time";
    char holder[256] = "";
    if (h->function) {
        snprintf(holder, sizeof(holder),
                 "; %.0f %% of what others did meanwhile was in %.100s%s%.60s", 100 * h->share,
                 finding_function_name(l, h->function), h->inside ? ", mostly " : "",
                 finding_function_name(l, h->inside));
    }
    finding_text(l, f,
                 "%u thread%s waited %.2f s for the lock that %.150s takes (%.60s), %.0f %% of the "
                 "time in which threads had something to do%s",
                 s->threads, s->threads == 1 ? "" : "s", g->seconds, f->subject ? f->subject : "",
                 finding_call_name(l, s->call), 100 * share, holder);
    if (h->disk_share >= DISK_SHARE) f->explains = "io_wait";
    lock_advise(l, f, s, h);
    lock_prove(l, f, g, sites);
}

static size_t lock_group_sites(struct finding_look *l, const struct finding_wait_site *sites,
                               size_t count, struct lock_group groups[SITES_LOOKED_AT])
{
    size_t n = 0;
    for (size_t i = 0; i < count && i < SITES_LOOKED_AT && !l->rc; i++) {
        struct finding_lock_holder h;
        size_t k = 0;
        l->rc = finding_lock_holder(l, &sites[i], &h);
        while (k < n && !lock_is_same(&groups[k], &sites[i], &h)) k++;
        if (k == n) groups[n++] = (struct lock_group){ .site = &sites[i], .holder = h };
        else if (groups[k].other_count < GROUP_OTHERS) {
            groups[k].others[groups[k].other_count++] = (uint32_t)i;
        }
        groups[k].seconds += sites[i].seconds;
        groups[k].samples += sites[i].samples;
    }
    return n;
}

static void lock_look(struct finding_look *l)
{
    const struct finding_waits *w = finding_waits(l);
    struct lock_group groups[SITES_LOOKED_AT];
    size_t count = 0;
    if (!w) {
        if (l->cpu.samples && !l->rc) {
            finding_note(l, "waiting was not recorded, so locks and I/O are not judged: record "
                         "with --off-cpu");
        }
        return;
    }
    if (w->samples[FINDING_WAIT_LOCK] < SAMPLES_MIN || !(w->active_s > 0)) return;
    struct finding_wait_site *sites = finding_wait_sites(l, 1u << FINDING_WAIT_LOCK, &count);
    const size_t n = lock_group_sites(l, sites, count, groups);
    for (size_t i = 0; i < n && i < l->o.limit && !l->rc; i++) {
        if (groups[i].seconds < l->o.share_min * w->active_s ||
            groups[i].seconds < l->o.seconds_min) {
            continue;
        }
        lock_add(l, w, &groups[i], sites);
    }
    sonde__free(sites);
}

extern const struct finding_rule finding_rule_lock_contention;
const struct finding_rule finding_rule_lock_contention = {
    .kind = "lock_contention",
    .title = "Lock contention",
    .summary = "threads spend 15 % or more of the time in which they have something to do waiting "
               "for locks; names who waits and who holds it (needs --off-cpu)",
    .look = lock_look,
};
