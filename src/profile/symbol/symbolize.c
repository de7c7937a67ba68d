/* symbolize.c - from a profile's locations to jobs, from a child's answers to lines.
 *
 *   profile ─▶ cache ─▶ plan ─▶ child: one job after the other ─▶ profile, cache
 *
 * A job during which the child ended unasked is tried once more without debug information, then
 * left alone, and the jobs after it get a new child. The symbolizer remembers such files. */
#include "profile/own.h"
#include "base/hash.h"
#include "profile/symbol/symbolize.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/log.h"
#include "base/strip.h"
#include "profile/strip.h"
#include "profile/symbol/cache.h"
#include "profile/symbol/child.h"
#include "profile/symbol/plan.h"
#include "profile/symbol/spin.h"
#include "profile/symbol/wire.h"
#include "sonde/sonde.h"

#define JOB_CPU_SECONDS 60
#define SILENCE_MS 180000       /* more than the CPU time: debug files may come over a network */
#define CHILD_BYTES ((size_t)2 << 30)
#define BAD_MAX 256

struct bad_file {
    uint64_t key;
    int symbols_only;           /* else nothing of it is read */
};

struct sonde_symbolizer {
    char *debug_root;
    struct sonde_symbol_cache cache;
    struct bad_file bad[BAD_MAX]; /* a ring */
    uint32_t bad_count;
    int said_hidden;
};

int sonde_symbolizer_create(struct sonde_symbolizer **out)
{
    assert(out);
    struct sonde_symbolizer *s = sonde__calloc(1, sizeof(*s));
    if (!s) return SONDE_ENOMEM;
    *out = s;
    return 0;
}

void sonde_symbolizer_destroy(struct sonde_symbolizer *s)
{
    if (!s) return;
    sonde_symbol_cache_release(&s->cache);
    sonde__free(s->debug_root);
    sonde__free(s);
}

int sonde_symbolizer_debug_root(struct sonde_symbolizer *s, const char *path)
{
    char *copy = path ? sonde__strdup(path) : NULL;
    if (path && !copy) return SONDE_ENOMEM;
    sonde__free(s->debug_root);
    s->debug_root = copy;
    return 0;
}

/* ---- Files that ended a child -------------------------------------------------------------- */

static uint64_t job_key(const struct sonde_symbol_job *job)
{
    const char *text = job->build_id[0] ? job->build_id : job->places[0].path;
    return sonde_fnv64_text(SONDE_FNV64_SEED + (uint64_t)job->kind, text);
}

static struct bad_file *find_bad(struct sonde_symbolizer *s, uint64_t key)
{
    for (uint32_t i = 0; i < BAD_MAX && i < s->bad_count; i++) {
        if (s->bad[i].key == key) return &s->bad[i];
    }
    return NULL;
}

/* One step down: from all to symbols only, then to nothing. */
static void mark_bad(struct sonde_symbolizer *s, const struct sonde_symbol_job *job)
{
    const uint64_t key = job_key(job);
    struct bad_file *bad = find_bad(s, key);
    if (bad) {
        bad->symbols_only = 0;
        return;
    }
    s->bad[s->bad_count++ % BAD_MAX] = (struct bad_file){ key, 1 };
    if (s->bad_count == 2 * BAD_MAX) s->bad_count = BAD_MAX;
}

/* ---- In the child -------------------------------------------------------------------------- */

struct symbolize_run {
    struct sonde_symbolizer *s;
    struct sonde_profile *p;
    struct sonde_symbol_plan plan;
    uint32_t next;              /* job to begin with */
    struct sonde_symbol_wire_reader reader;
    int started;                /* a job has begun and not ended: next */
    int done;                   /* all have ended */
    uint32_t children;          /* started so far */
};

static int send_frames(void *arg, size_t index, const struct sonde_symbol_frame *frames,
                       uint32_t count)
{
    return sonde_symbol_wire_frames(arg, (uint32_t)index, frames, count);
}

static void symbolize_work(void *arg, int fd)
{
    struct symbolize_run *r = arg;
    static struct sonde_symbol_wire_writer writer;
    writer.fd = fd;
    writer.len = 0;
    for (uint32_t j = r->next; j < r->plan.job_count; j++) {
        struct sonde_symbol_job *job = &r->plan.jobs[j].job;
        const struct bad_file *bad = find_bad(r->s, job_key(job));
        uint32_t flags = 0;
        sonde_symbol_child_cpu_limit(JOB_CPU_SECONDS);
        if (sonde_symbol_wire_send(&writer, SONDE_SYMBOL_WIRE_START, j, 0) != 0) return;
        job->symbols_only = bad != NULL;
        if (!bad || bad->symbols_only) {
            if (sonde_symbol_resolve(job, send_frames, &writer, &flags) != 0) return;
        } else {
            flags = SONDE_MODULE_STRIPPED;
        }
        if (sonde_symbol_wire_send(&writer, SONDE_SYMBOL_WIRE_END, j, flags) != 0) return;
    }
    sonde_symbol_wire_send(&writer, SONDE_SYMBOL_WIRE_DONE, 0, 0);
}

/* ---- Its answers --------------------------------------------------------------------------- */

static int symbolize_take_frames(struct symbolize_run *r, const struct sonde_symbol_wire_message *m)
{
    const struct sonde_symbol_plan_job *job = &r->plan.jobs[r->next];
    if (!r->started || m->a >= job->job.at_count || m->b == 0) return SONDE_EFORMAT;
    for (uint32_t i = 0; i < m->b; i++) {
        if (m->frames[i].name[0] == '\0') return SONDE_EFORMAT;
    }
    for (uint32_t i = job->first[m->a]; i < job->first[m->a + 1]; i++) {
        const uint32_t location = r->plan.items[i].location;
        if (r->p->locations[location].line_count) continue; /* from before the child ended */
        const int rc = sonde_symbol_set(r->p, location, r->p->locations[location].module,
                                        m->frames, m->b);
        if (rc) return rc;
    }
    sonde_symbol_cache_put(&r->s->cache, &job->job, m->a, m->frames, m->b);
    return 0;
}

static void add_flags(struct symbolize_run *r, uint32_t flags)
{
    const struct sonde_symbol_plan_job *job = &r->plan.jobs[r->next];
    if ((flags & SONDE_SYMBOL_HIDDEN) && !r->s->said_hidden) {
        r->s->said_hidden = 1;
        sonde_log(SONDE_LOG_WARN, "the kernel hides its symbols, so its frames are all shown as "
                  "[kernel]: run as root or set kernel.kptr_restrict to 0");
    }
    flags &= SONDE_MODULE_DELETED | SONDE_MODULE_STRIPPED | SONDE_MODULE_NO_LINES;
    for (size_t i = 0; i < job->job.place_count; i++) {
        r->p->modules[job->modules[i]].flags |= flags;
    }
    /* Whether its file is still there is not a property of the build. */
    sonde_symbol_cache_flags(&r->s->cache, &job->job, flags & ~SONDE_MODULE_DELETED);
}

static int take_message(struct symbolize_run *r, const struct sonde_symbol_wire_message *m)
{
    switch (m->type) {
    case SONDE_SYMBOL_WIRE_START:
        if (r->started || m->a != r->next || m->a >= r->plan.job_count) return SONDE_EFORMAT;
        r->started = 1;
        return 0;
    case SONDE_SYMBOL_WIRE_FRAMES:
        return symbolize_take_frames(r, m);
    case SONDE_SYMBOL_WIRE_END:
        if (!r->started || m->a != r->next) return SONDE_EFORMAT;
        add_flags(r, m->b);
        r->started = 0;
        r->next++;
        return 0;
    default:
        if (r->started || r->next != r->plan.job_count) return SONDE_EFORMAT;
        r->done = 1;
        return 0;
    }
}

static int symbolize_take(void *arg, const void *data, size_t len)
{
    struct symbolize_run *r = arg;
    struct sonde_symbol_wire_message m;
    int more, rc = sonde_symbol_wire_feed(&r->reader, data, len);
    if (rc) return rc;
    while ((more = sonde_symbol_wire_next(&r->reader, &m)) == 1) {
        rc = take_message(r, &m);
        if (rc) return rc;
    }
    return more;
}

/* ---- All of it ----------------------------------------------------------------------------- */

/* One child, to its end. What is left to do begins at r->next then. */
static int symbolize_run_child(struct symbolize_run *r)
{
    static const struct sonde_symbol_child_limits limits = { CHILD_BYTES, SILENCE_MS };
    /* Each ends with a job less, or with one that is tried with less; anything more is no file's
     * fault (the system kills them for lack of memory, say). */
    if (r->children++ > 2 * r->plan.job_count) return SONDE_EIO;
    r->started = 0;
    sonde_symbol_wire_reader_init(&r->reader);
    int rc = sonde_symbol_child_run(&limits, symbolize_work, symbolize_take, r);
    sonde_symbol_wire_reader_release(&r->reader);
    if (rc && rc != SONDE_EFORMAT) return rc;
    if (r->done) return 0;
    if (!r->started) return SONDE_EIO;
    const struct sonde_symbol_job *job = &r->plan.jobs[r->next].job;
    const struct bad_file *bad = find_bad(r->s, job_key(job));
    sonde_log(SONDE_LOG_WARN, "%s: its %s cannot be read (damaged, or too large): going on "
              "without", job->places[0].path, bad ? "symbols" : "debug information");
    mark_bad(r->s, job);
    return 0;
}

int sonde_symbolize(struct sonde_symbolizer *s, struct sonde_profile *p)
{
    int rc = sonde_symbol_cache_use(&s->cache, p);
    if (rc) return rc;
    struct symbolize_run *r = sonde__calloc(1, sizeof(*r));
    if (!r) return SONDE_ENOMEM;
    r->s = s;
    r->p = p;
    rc = sonde_symbol_plan_create(p, s->debug_root, &r->plan);
    r->done = r->plan.item_count == 0;
    while (!rc && !r->done) rc = symbolize_run_child(r);
    sonde_symbol_plan_release(&r->plan);
    sonde__free(r);
    if (!rc) rc = sonde_symbol_mark_spins(p);
    if (!rc) rc = sonde_profile_fold_own(p);
    if (!rc && sonde_strip_on()) rc = sonde_profile_strip(p);
    return rc;
}
