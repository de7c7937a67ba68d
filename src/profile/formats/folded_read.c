/* folded_read.c - folded stacks are read. Made for files of 100 MB and more: one thread takes the
 * text apart (folded_scan.h), the other one puts the stacks into the profile, each about half of
 * the work. Batches are handed over in a ring, so the result does not depend on who is faster.
 * Small files are read in turns, without a thread.
 *
 * Rejected: each thread reading one half. Adding the second profile to the first takes half as long
 * as reading it, and memory twice. */
#include "profile/formats/folded.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/lock.h"
#include "base/thread.h"
#include "profile/formats/folded_scan.h"
#include "sonde/sonde.h"

#define KERNEL_SUFFIX "_[k]"
#define THREAD_FROM ((size_t)4 << 20) /* bytes of text */

enum { RING = 4 };

struct folded_reader {
    struct sonde_profile *p;
    struct sonde_err *err;
    struct sonde_folded_scan scan;
    uint32_t *locations;  /* name -> location */
    uint32_t location_count, location_cap;
    uint32_t *path;       /* stacks down to each frame of the line */
    uint32_t count, cap;
    int truncated;        /* the first frame says so */
    uint32_t kernel;      /* module of names with the suffix; 0 = none seen */

    /* Of the thread. */
    struct sonde_folded_batch *ring;
    struct sonde_lock lock;
    struct sonde_cond moved;
    uint64_t filled, used; /* batches; under lock */
    int stop;              /* under lock */
};

static int folded_read_no_room(const struct folded_reader *r)
{
    return sonde_err_set(r->err, SONDE_ENOMEM, "the profile needs more than its %zu MB of memory",
                         r->p->bytes_max >> 20);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static uint32_t kernel_location(struct folded_reader *r, const char *name, size_t len)
{
    struct sonde_profile *p = r->p;
    if (!r->kernel) {
        const struct sonde_profile_module m = { .path = sonde_profile_cstring(p, "[kernel]"),
                                                .flags = SONDE_MODULE_KERNEL };
        r->kernel = sonde_profile_module(p, &m);
        if (!r->kernel) return 0;
    }
    const struct sonde_profile_function f = { .name = sonde_profile_string(p, name, len),
                                              .module = r->kernel };
    const struct sonde_profile_line line = { .function = sonde_profile_function(p, &f) };
    return f.name && line.function ? sonde_profile_lines_location(p, r->kernel, 0, &line, 1) : 0;
}

static int add_names(struct folded_reader *r, const struct sonde_folded_batch *b)
{
    const size_t suffix = strlen(KERNEL_SUFFIX);
    for (uint32_t i = 0; i < b->name_count; i++) {
        const struct sonde_folded_name *n = &b->names[i];
        if (SONDE_ARRAY_ROOM(r->locations, r->location_count, r->location_cap)) return SONDE_ENOMEM;
        const int kernel =
            n->len > suffix && !memcmp(n->text + n->len - suffix, KERNEL_SUFFIX, suffix);
        const uint32_t location = kernel ? kernel_location(r, n->text, n->len - suffix)
                                         : sonde_profile_named_location(r->p, n->text, n->len);
        if (!location) return SONDE_ENOMEM;
        r->locations[r->location_count++] = location;
    }
    return 0;
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static int push_frame(struct folded_reader *r, uint32_t word)
{
    assert(word < SONDE_FOLDED_NAMES + r->location_count);
    if (r->count == r->cap && SONDE_ARRAY_ROOM(r->path, r->count, r->cap)) return SONDE_ENOMEM;
    uint32_t stack = r->count ? r->path[r->count - 1] : 0;
    if (word >= SONDE_FOLDED_NAMES) {
        stack = sonde_profile_stack(r->p, stack, r->locations[word - SONDE_FOLDED_NAMES]);
        if (!stack) return SONDE_ENOMEM;
    } else if (word == SONDE_FOLDED_TRUNCATED) {
        r->truncated = 1;
    }
    r->path[r->count++] = stack;
    return 0;
}

static int folded_read_add_sample(struct folded_reader *r, uint64_t weight)
{
    const struct sonde_profile_sample s = {
        .stack = r->path[r->count - 1],
        .weight = weight,
        .count = weight < UINT32_MAX ? (uint32_t)weight : UINT32_MAX,
        .kind = SONDE_SAMPLE_OTHER,
        .flags = r->truncated ? SONDE_SAMPLE_TRUNCATED : 0,
    };
    const int rc = sonde_profile_add_sample(r->p, &s);
    if (rc != SONDE_EFORMAT) return rc ? folded_read_no_room(r) : 0;
    return sonde_err_set(r->err, rc, "the numbers at the ends of lines add up to more than 2^64");
}

static int use_batch(struct folded_reader *r, const struct sonde_folded_batch *b)
{
    if (add_names(r, b)) return folded_read_no_room(r);
    for (uint32_t i = 0; i < b->token_count; i++) {
        const uint32_t token = b->tokens[i];
        if (token & SONDE_FOLDED_LINE) {
            r->count = token & ~SONDE_FOLDED_LINE;
            if (!r->count) r->truncated = 0;
        } else if (token & SONDE_FOLDED_END) {
            const int rc =
                folded_read_add_sample(r, (uint64_t)b->tokens[i + 2] << 32 | b->tokens[i + 1]);
            if (rc) return rc;
            i += 2;
        } else if (push_frame(r, token)) {
            return folded_read_no_room(r);
        }
    }
    return b->rc ? sonde_err_set(r->err, b->rc, "%s", b->err.text) : 0;
}

/* ---- Two threads ----------------------------------------------------------------------------- */

static void *fill_ring(void *arg)
{
    struct folded_reader *r = arg;
    for (int last = 0; !last;) {
        sonde_lock(&r->lock);
        while (r->filled - r->used == RING && !r->stop) sonde_cond_wait(&r->moved, &r->lock);
        struct sonde_folded_batch *b = &r->ring[r->filled % RING];
        last = r->stop;
        sonde_unlock(&r->lock);
        if (last) break;
        sonde_folded_scan_fill(&r->scan, b);
        last = b->last;
        sonde_lock(&r->lock);
        r->filled++;
        sonde_cond_signal(&r->moved);
        sonde_unlock(&r->lock);
    }
    return NULL;
}

static int use_ring(struct folded_reader *r)
{
    int rc = 0;
    for (int last = 0; !last && !rc;) {
        sonde_lock(&r->lock);
        while (r->filled == r->used) sonde_cond_wait(&r->moved, &r->lock);
        const struct sonde_folded_batch *b = &r->ring[r->used % RING];
        sonde_unlock(&r->lock);
        rc = use_batch(r, b);
        last = b->last;
        sonde_lock(&r->lock);
        r->used++;
        r->stop = rc != 0;
        sonde_cond_signal(&r->moved);
        sonde_unlock(&r->lock);
    }
    return rc;
}

static int folded_read_all(struct folded_reader *r, size_t len)
{
    const int threads = len >= THREAD_FROM;
    struct sonde_thread thread = { 0 };
    r->ring = sonde__alloc((threads ? RING : 1) * sizeof(*r->ring));
    if (!r->ring) return folded_read_no_room(r);
    if (threads && !sonde_thread_start(&thread, "sonde-folded", fill_ring, r, NULL)) {
        const int rc = use_ring(r);
        sonde_thread_join(&thread);
        return rc;
    }
    int rc;
    do {
        sonde_folded_scan_fill(&r->scan, r->ring);
        rc = use_batch(r, r->ring);
    } while (!rc && !r->ring->last);
    return rc;
}

/* A few lines that are no stack are passed over; with as many as there are stacks, it is another
 * kind of file. */
static int folded_read_judge(const struct sonde_folded_scan *s, struct sonde_import *how,
                             struct sonde_err *err)
{
    if (!s->good && !s->bad) return sonde_err_set(err, SONDE_EFORMAT, "no stacks in the file");
    if (s->bad >= s->good) return sonde_err_set(err, SONDE_EFORMAT, "%s", s->first_bad.text);
    if (s->bad) {
        sonde_import_note(how,
                          "%zu of %zu lines are no stacks and were passed over, the first is %s",
                          s->bad, s->good + s->bad, s->first_bad.text);
    }
    return 0;
}

int sonde_folded_read(const char *data, size_t len, struct sonde_import *how,
                      struct sonde_profile *p, struct sonde_err *err)
{
    struct folded_reader r = { .p = p, .err = err,
                               .lock = SONDE_LOCK_INITIALIZER(SONDE_RANK_FOLDED_READER) };
    sonde_cond_init(&r.moved);
    sonde_folded_scan_init(&r.scan, data, len, p->bytes_max);
    int rc = 0;
    if (sonde_folded_scan_survey(&r.scan) && !(how && how->format)) {
        rc = sonde_err_set(err, SONDE_EFORMAT, "line 1: two numbers at the ends of lines, as "
                           "difffolded.pl writes them; compare the profiles themselves: sonde diff "
                           "BEFORE AFTER (--format folded: the first number belongs to the name)");
    }
    if (!rc) rc = folded_read_all(&r, len);
    if (!rc) rc = folded_read_judge(&r.scan, how, err);
    if (!rc && r.scan.scale > 1) {
        sonde_import_note(how, "weights have fractions: one sample stands for 1/%u", r.scan.scale);
    }
    sonde_folded_scan_release(&r.scan);
    sonde__free(r.ring);
    sonde__free(r.locations);
    sonde__free(r.path);
    if (rc) return rc;
    p->engine = sonde_profile_cstring(p, "import");
    return 0;
}
