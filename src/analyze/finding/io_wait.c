/* io_wait.c - threads that are blocked by reading, writing or syncing files.
 *
 * A read may be one of a pipe or a terminal, where waiting is idling: reads and writes only count
 * if storage has moved bytes for the process meanwhile; fsync, pread and the like always do. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/finding/rule.h"
#include "analyze/finding/waits.h"
#include "base/alloc.h"

enum { SAMPLES_MIN = 10 };
#define WARNING_SHARE 0.20   /* of the time threads had something to do … */
#define WARNING_THREADS 0.15 /* … and so many of them wait, on average over all the time */

static void io_advise(struct finding_look *l, struct sonde_finding *f, const char *call,
                      const char *site, double per_second)
{
    if (strstr(call, "sync")) {
        finding_advise(l, f,
                       "%.150s syncs %.0f times per second: sync once for several writes (group "
                       "commit; every 10 ms is 100 per second at most), or let a thread of its own "
                       "do it",
                       site, per_second);
    } else if (strstr(call, "write")) {
        finding_advise(l, f,
                       "%.150s waits for its writes: write larger blocks from a thread of its own, "
                       "without O_SYNC or O_DIRECT where the page cache will do",
                       site);
    } else if (strstr(call, "read")) {
        finding_advise(l, f,
                       "%.150s waits for its reads: keep what is read again in memory (a cache, or "
                       "the page cache instead of O_DIRECT), read ahead (posix_fadvise WILLNEED, "
                       "larger blocks), or have several reads in flight (threads, io_uring)",
                       site);
    } else {
        finding_advise(l, f, "%.150s waits in %.60s: do it less often, or in a thread of its own",
                       site, call);
    }
}

static void io_prove(struct finding_look *l, struct sonde_finding *f,
                     const struct finding_wait_site *sites, size_t count)
{
    static const struct { const char *family, *label, *what; int host; } series[] = {
        { "sonde_process_storage_bytes_total", "direction=\"read\"", "read from storage", 0 },
        { "sonde_process_storage_bytes_total", "direction=\"write\"", "written to storage", 0 },
        { "sonde_host_disk_io_time_seconds_total", NULL, "time disks were busy", 1 },
    };
    for (size_t i = 0; i < count && i < 4; i++) {
        if (sites[i].seconds < 0.05 * sites[0].seconds) break;
        finding_prove_site(l, f, &sites[i], "time blocked by I/O");
    }
    for (size_t i = 0; i < 3; i++) {
        const struct finding_series s = { .family = series[i].family, .label = series[i].label,
                                          .host = series[i].host };
        if (isnan(finding_series_mean(l, &s, NULL))) continue;
        finding_prove_series(l, f, &s, i < 2 ? "bytes per second" : "ratio", series[i].what);
    }
}

static void io_look(struct finding_look *l)
{
    const struct finding_waits *w = finding_waits(l);
    size_t count = 0;
    if (!w || !(w->active_s > 0)) return;
    const unsigned types =
        1u << FINDING_WAIT_DISK | (w->file_is_disk ? 1u << FINDING_WAIT_FILE : 0);
    const double share = w->disk_s / w->active_s, waiting = w->disk_s / fmax(l->seconds, 1e-9);
    if (share < l->o.share_min || w->disk_s < l->o.seconds_min) return;
    struct finding_wait_site *sites = finding_wait_sites(l, types, &count);
    uint64_t samples = 0;
    for (size_t i = 0; i < count; i++) samples += sites[i].samples;
    if (samples >= SAMPLES_MIN && !l->rc) {
        const struct finding_wait_site *s = &sites[0];
        finding_wait_site_unwrap(l, &sites[0]);
        const char *call = finding_call_name(l, s->call);
        const char *name = finding_function_name(l, s->site ? s->site : s->call);
        struct sonde_finding *f = finding_add(
            l, share >= WARNING_SHARE && waiting >= WARNING_THREADS ? SONDE_SEVERITY_WARNING
                                                                    : SONDE_SEVERITY_INFO, share);
        finding_subject(l, f, *name ? name : "[unknown]", finding_function_file(l, s->site),
                        s->line);
        f->share = share;
        f->seconds = w->disk_s;
        f->count = (double)samples;
        f->avg_s = w->disk_s / (double)samples;
        f->gain = share;
        f->gain_of = "thread time";
        f->confidence = 0.9;
        finding_text(l, f,
                     "threads were blocked by I/O for %.2f s, %.0f %% of the time in which they "
                     "had something to do: %.0f %% of it in %.60s, called by %.150s (%.2f ms each)",
                     w->disk_s, 100 * share, 100 * s->seconds / w->disk_s, call,
                     f->subject ? f->subject : "", 1e3 * s->seconds / (double)s->samples);
        io_advise(l, f, call, name, (double)s->samples / fmax(l->seconds, 1e-9));
        io_prove(l, f, sites, count);
    }
    sonde__free(sites);
}

extern const struct finding_rule finding_rule_io_wait;
const struct finding_rule finding_rule_io_wait = {
    .kind = "io_wait",
    .title = "Waiting for I/O",
    .summary = "threads spend 20 % or more of the time in which they have something to do blocked "
               "by reading, writing or syncing files (needs --off-cpu)",
    .look = io_look,
};
