/* continuous_part.c - what was sampled, into a profile for each program and minute, and those into
 * the store. Runs on the thread of continuous.c. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "profile/compact.h"
#include "profile/thin.h"
#include "agent/continuous_private.h"
#include "sonde/sonde.h"

#define MINUTE_NS 60000000000ull
#define MINUTE_BYTES_MAX ((size_t)64 << 20)
#define ROWS_MAX (1u << 17)    /* of a minute; then half of them stand for all */
#define OVER_NS 30000000000ull /* after its end a minute is held so long, for what comes late */
#define KIND(id) (1u << SONDE_SAMPLE_##id)
#define TIMED (KIND(CPU) | KIND(OFFCPU) | KIND(ALLOC) | KIND(OTHER)) /* that add up over time */

enum {
    PIDS_MAX = 1024,
    SPANS_MAX = 8192, /* of a minute; more only of samples that are inside of them */
};

void continuous_problem(struct sonde_continuous *c, const char *format, ...)
{
    char text[sizeof(c->problem)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    sonde_lock(&c->lock);
    const int news = strcmp(text, c->problem) != 0;
    memcpy(c->problem, text, sizeof(text));
    sonde_unlock(&c->lock);
    if (news && text[0]) sonde_log(SONDE_LOG_WARN, "continuous profiling: %s", text);
}

static void continuous_part_count(struct sonde_continuous *c, uint64_t *what, uint64_t n)
{
    sonde_lock(&c->lock);
    *what += n;
    sonde_unlock(&c->lock);
}

/* ---- Minutes --------------------------------------------------------------------------------- */

/* It is over, or there is no room for it: nothing is added to it any more. */
static void continuous_part_forget(struct sonde_continuous *c, size_t i)
{
    struct continuous_parts *parts = &c->parts;
    struct sonde_profile *p = parts->minutes[i].profile;
    if (c->o.on_minute && p->samples_count) c->o.on_minute(p, c->o.on_minute_arg);
    sonde_profile_destroy(p);
    memmove(&parts->minutes[i], &parts->minutes[i + 1],
            (--parts->count - i) * sizeof(parts->minutes[0]));
}

void continuous_parts_release(struct sonde_continuous *c)
{
    while (c->parts.count) continuous_part_forget(c, 0);
}

/* The oldest makes room: it has been tried to be written all along. */
static void continuous_part_make_room(struct sonde_continuous *c)
{
    if (c->parts.count < CONTINUOUS_MINUTES_MAX) return;
    if (c->parts.minutes[0].dirty) continuous_part_count(c, &c->parts.dropped, 1);
    continuous_part_forget(c, 0);
}

static struct continuous_minute *find_minute(struct sonde_continuous *c, const char *program,
                                             uint64_t start_ns)
{
    struct continuous_parts *parts = &c->parts;
    for (size_t i = 0; i < parts->count; i++) {
        struct continuous_minute *m = &parts->minutes[i];
        if (m->start_ns == start_ns && !strcmp(m->program, program)) return m;
    }
    continuous_part_make_room(c);
    struct continuous_minute *m = &parts->minutes[parts->count];
    *m = (struct continuous_minute){ .start_ns = start_ns };
    snprintf(m->program, sizeof(m->program), "%s", program);
    if (sonde_profile_create(MINUTE_BYTES_MAX, &m->profile) != 0) return NULL;
    m->profile->program = sonde_profile_cstring(m->profile, program);
    parts->count++;
    return m;
}

/* One process' part of a minute. If it does not fit, what was there stays in the store as it is,
 * and a new part is begun. */
static int add_to_minute(struct sonde_continuous *c, const struct sonde_profile *p,
                         const char *program, uint64_t start_ns, struct sonde_compact_part part)
{
    for (int i = 0; i < 2; i++) {
        struct continuous_minute *m = find_minute(c, program, start_ns);
        if (!m) return SONDE_ENOMEM;
        const uint32_t had = m->profile->samples_count, spans = m->profile->spans_count;
        part.others_max = spans < SPANS_MAX ? SPANS_MAX - spans : 0;
        const int rc = sonde_compact_add(m->profile, p, &part);
        if (!rc) {
            m->dirty |= m->profile->samples_count > had;
            return 0;
        }
        if (m->dirty) continuous_part_count(c, &c->parts.dropped, 1);
        continuous_part_forget(c, (size_t)(m - c->parts.minutes));
    }
    return SONDE_ENOMEM;
}

/* ---- Programs -------------------------------------------------------------------------------- */

/* Processes that have samples of these kinds. */
static size_t continuous_part_find_pids(const struct sonde_profile *p, uint32_t kinds,
                                        uint32_t *pids)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const uint32_t pid = p->threads[p->samples[i].thread].pid;
        if (!(kinds >> p->samples[i].kind & 1) || !p->samples[i].thread) continue;
        size_t k = n;
        while (k > 0 && pids[k - 1] != pid) k--;
        if (!k && n < PIDS_MAX) pids[n++] = pid;
    }
    return n;
}

/* The newest process of that number; what the model does not know has the profile's own name. */
static void program_of(const struct sonde_continuous *c, uint32_t pid, const char *other,
                       char *out, size_t size)
{
    struct sonde_model *m = sonde_collector_model(c->o.collector);
    snprintf(out, size, "%s", other[0] ? other : "unknown");
    sonde_rdlock(&m->lock);
    for (size_t i = m->process_count; i-- > 0;) {
        if (m->processes[i]->pid != pid) continue;
        snprintf(out, size, "%s", m->processes[i]->program);
        break;
    }
    sonde_rwunlock(&m->lock);
}

/* ---- In -------------------------------------------------------------------------------------- */

static void continuous_part_count_samples(struct sonde_continuous *c, const struct sonde_profile *p,
                                          uint64_t from_ns, uint64_t to_ns)
{
    uint64_t samples = 0, weight = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind != SONDE_SAMPLE_CPU || s->time_ns < from_ns) continue;
        if (to_ns && s->time_ns >= to_ns) continue;
        samples += s->count;
        weight += s->weight;
    }
    sonde_lock(&c->lock);
    c->parts.samples += samples;
    c->parts.weight_ns += weight;
    c->parts.lost_records += p->lost_records + p->dropped_samples;
    sonde_unlock(&c->lock);
}

void continuous_take_in(struct sonde_continuous *c, struct sonde_profile *p, uint64_t from_ns,
                        uint64_t to_ns)
{
    uint32_t pids[PIDS_MAX];
    char program[64], other[64];
    const size_t pid_count = continuous_part_find_pids(p, TIMED, pids);
    const uint64_t end_ns = to_ns ? to_ns : p->end_ns + 1;
    snprintf(other, sizeof(other), "%s", sonde_profile_str(p, p->program));
    p->program = p->command = 0; /* of one process; parts have a name of their own */
    for (size_t i = 0; i < pid_count; i++) {
        program_of(c, pids[i], other, program, sizeof(program));
        for (uint64_t at = from_ns; at < end_ns;) {
            const uint64_t start = at - at % MINUTE_NS, next = start + MINUTE_NS;
            const struct sonde_compact_part part = {
                .from_ns = at, .to_ns = next < end_ns ? next : end_ns, .pid = pids[i],
                .kinds = TIMED, .spans = 1 };
            if (add_to_minute(c, p, program, start, part) != 0) {
                continuous_part_count(c, &c->parts.dropped, 1);
                continuous_problem(c, "no memory for a minute of %s", program);
            }
            at = next;
        }
    }
    continuous_part_count_samples(c, p, from_ns, to_ns);
}

/* ---- Heaps ----------------------------------------------------------------------------------- */

static void continuous_part_put_heap(struct sonde_continuous *c, const struct sonde_profile *p)
{
    struct sonde_err err = { "" };
    uint64_t id = 0;
    const int rc = sonde_history_put(&c->history, SONDE_HISTORY_HEAP, p, &id, &err);
    if (rc) continuous_problem(c, "%s", err.text);
    else continuous_part_count(c, &c->parts.heaps, 1);
}

/* Of several processes each has its own part. */
static void put_heap_of(struct sonde_continuous *c, uint32_t pid, const char *program)
{
    struct sonde_profile *one = NULL;
    struct sonde_err err = { "" };
    const int rc = sonde_profiler_heap(c->o.profiler, pid, 1, &one, &err);
    if (rc == SONDE_ENOENT) return; /* gone meanwhile */
    if (rc) {
        continuous_problem(c, "%s", err.text);
        return;
    }
    one->program = sonde_profile_cstring(one, program);
    continuous_part_put_heap(c, one);
    sonde_profile_destroy(one);
}

/* What is standing has no thread: of one process it is that one's. */
void continuous_take_heaps(struct sonde_continuous *c, struct sonde_profile *p, uint64_t from_ns)
{
    uint32_t pids[PIDS_MAX];
    char program[64], other[64];
    const size_t pid_count = continuous_part_find_pids(p, KIND(ALLOC), pids);
    const int standing = p->weights[SONDE_SAMPLE_LIVE] || p->weights[SONDE_SAMPLE_PEAK];
    sonde_lock(&c->lock);
    c->sampled_heaps = standing ? (int)(pid_count ? pid_count : 1) : 0;
    sonde_unlock(&c->lock);
    snprintf(other, sizeof(other), "%s", sonde_profile_str(p, p->program));
    if (standing && pid_count <= 1) {
        program_of(c, pid_count ? pids[0] : 0, other, program, sizeof(program));
        p->program = sonde_profile_cstring(p, program);
        continuous_part_put_heap(c, p);
    } else {
        for (size_t i = 0; standing && i < pid_count; i++) {
            program_of(c, pids[i], other, program, sizeof(program));
            put_heap_of(c, pids[i], program);
        }
    }
    continuous_take_in(c, p, from_ns, 0);
}

/* ---- Out ------------------------------------------------------------------------------------- */

void continuous_write(struct sonde_continuous *c, uint64_t now_ns)
{
    struct continuous_parts *parts = &c->parts;
    int failed = 0;
    for (size_t i = 0; i < parts->count && !failed; i++) {
        struct continuous_minute *m = &parts->minutes[i];
        struct sonde_err err = { "" };
        if (!m->dirty) continue;
        /* Of a long burst, or of many threads. */
        while (m->profile->samples_count > ROWS_MAX) sonde_profile_halve(m->profile);
        failed = sonde_history_put(&c->history, SONDE_HISTORY_MINUTE, m->profile, &m->id, &err);
        if (failed) {
            continuous_problem(c, "%s", err.text);
            break;
        }
        m->dirty = 0;
        sonde_lock(&c->lock);
        parts->written++;
        parts->last_s = (double)now_ns * 1e-9;
        sonde_unlock(&c->lock);
    }
    if (!failed) continuous_problem(c, "%s", "");
    for (size_t i = parts->count; i-- > 0;) {
        const struct continuous_minute *m = &parts->minutes[i];
        if (!m->dirty && m->start_ns + MINUTE_NS + OVER_NS < now_ns) continuous_part_forget(c, i);
    }
}
