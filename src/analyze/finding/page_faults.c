/* page_faults.c - threads that wait for pages which have to be read from a disk: mapped weights or
 * data that do not fit in memory, or are touched for the first time.
 *
 * A thread that blocks in plain code, in no call of the system, waits for a page. So that nothing
 * else is taken for it (a stopped process, a quota), major faults must have been counted too, or
 * storage has read much. */
#include <math.h>
#include <string.h>

#include "analyze/finding/rule.h"
#include "analyze/finding/waits.h"
#include "base/alloc.h"

enum { SAMPLES_MIN = 10 };
#define WARNING_SHARE 0.15    /* of the time threads had something to do … */
#define WARNING_THREADS 0.1   /* … and so many of them wait, on average over all the time */
#define FAULTS_MIN 1.0        /* per second: fewer are nobody's problem */
#define FAULTS_MANY 50.0      /* per second, where waiting was not recorded … */
#define READ_MANY 1e6         /* … and bytes per second that came from storage */

static const struct finding_series series_major = { .family = "sonde_process_page_faults_total",
                                                    .label = "type=\"major\"" };
static const struct finding_series series_read = { .family = "sonde_process_storage_bytes_total",
                                                   .label = "direction=\"read\"" };
static const struct finding_series series_resident = {
    .family = "sonde_process_resident_memory_bytes" };
static const struct finding_series series_available = {
    .family = "sonde_host_memory_available_bytes", .host = 1 };

/* 1 if code of llama.cpp runs here: then its options are what to change. */
static int faults_is_llama(const struct sonde_profile *p)
{
    for (uint32_t i = 1; i < p->modules_count; i++) {
        const char *path = sonde_profile_str(p, p->modules[i].path);
        if (strstr(path, "libllama") || strstr(path, "libggml")) return 1;
    }
    return 0;
}

static void faults_advise(struct finding_look *l, struct sonde_finding *f)
{
    const double available = finding_series_last(l, &series_available);
    if (faults_is_llama(l->p)) {
        finding_advise(l, f,
                       "weights are read from the disk while they are used (%.1f GB of memory are "
                       "available): load them first (llama.cpp: --mlock, or --no-mmap), use a "
                       "smaller quantization if they do not fit, or read the file once before "
                       "serving so that it is in the page cache",
                       available * 1e-9);
    } else {
        finding_advise(l, f,
                       "mapped pages are read from the disk one fault at a time (%.1f GB of memory "
                       "are available): read them ahead (madvise MADV_WILLNEED or "
                       "MADV_POPULATE_READ, mlock), read the file instead of mapping it, or give "
                       "the machine the memory that the data needs",
                       available * 1e-9);
    }
}

static void faults_prove(struct finding_look *l, struct sonde_finding *f)
{
    finding_prove_series(l, f, &series_major, "per second", "major page faults");
    if (!isnan(finding_series_mean(l, &series_read, NULL))) {
        finding_prove_series(l, f, &series_read, "bytes per second", "read from storage");
    }
    finding_prove_series(l, f, &series_resident, "bytes", "resident memory");
}

static void faults_add_waited(struct finding_look *l, const struct finding_waits *w, double major)
{
    size_t count = 0;
    const double seconds = w->seconds[FINDING_WAIT_FAULT], share = seconds / w->active_s;
    const int much = share >= WARNING_SHARE && seconds / fmax(l->seconds, 1e-9) >= WARNING_THREADS;
    struct finding_wait_site *sites = finding_wait_sites(l, 1u << FINDING_WAIT_FAULT, &count);
    if (!count || l->rc) {
        sonde__free(sites);
        return;
    }
    const char *name = finding_function_name(l, sites[0].site);
    struct sonde_finding *f =
        finding_add(l, much ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO, share);
    finding_subject(l, f, *name ? name : "[unknown]", finding_function_file(l, sites[0].site),
                    sites[0].line);
    f->share = share;
    f->seconds = seconds;
    f->gain = share;
    f->gain_of = "thread time";
    f->confidence = 0.9;
    finding_text(l, f,
                 "threads waited %.2f s for pages to be read from a disk, %.0f %% of the time in "
                 "which they had something to do, mostly in %.150s: %.0f major faults per second, "
                 "%.1f MB per second from storage",
                 seconds, 100 * share, f->subject ? f->subject : "", major,
                 fmax(0, finding_series_mean(l, &series_read, NULL)) * 1e-6);
    faults_advise(l, f);
    for (size_t i = 0; i < count && i < 3; i++) {
        finding_prove_site(l, f, &sites[i], "time waiting for pages");
    }
    faults_prove(l, f);
    sonde__free(sites);
}

static void faults_look(struct finding_look *l)
{
    const struct finding_waits *w = finding_waits(l);
    const double major = finding_series_mean(l, &series_major, NULL);
    const double read = finding_series_mean(l, &series_read, NULL);
    if (!(major >= FAULTS_MIN) && !(read >= READ_MANY)) return;
    if (w) {
        const double seconds = w->seconds[FINDING_WAIT_FAULT];
        if (w->samples[FINDING_WAIT_FAULT] < SAMPLES_MIN || seconds < l->o.seconds_min ||
            seconds < l->o.share_min * w->active_s) {
            return;
        }
        faults_add_waited(l, w, major);
        return;
    }
    if (!(major >= FAULTS_MANY) || !(read >= READ_MANY)) return;
    /* How long threads waited is not known: only that they did. */
    struct sonde_finding *f = finding_add(l, SONDE_SEVERITY_WARNING, 0.1);
    f->confidence = 0.6;
    finding_text(l, f,
                 "%.0f page faults per second had to wait for a disk, which read %.1f MB per "
                 "second; record with --off-cpu to know how long threads waited, and where",
                 major, read * 1e-6);
    faults_advise(l, f);
    faults_prove(l, f);
}

extern const struct finding_rule finding_rule_page_faults;
const struct finding_rule finding_rule_page_faults = {
    .kind = "page_faults",
    .title = "Page faults",
    .summary = "threads spend 15 % or more of the time in which they have something to do waiting "
               "for pages that are read from a disk, such as mapped weights",
    .look = faults_look,
};
