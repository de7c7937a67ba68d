/* chrome_read.c - the Trace Event Format is read: what has a beginning and an end (B and E, X)
 * becomes stacks, as it lies inside of each other on a thread; the weight is the time that is in no
 * inner one.
 *
 * Events come in any order. They are taken down, sorted by thread and time, B and E are paired, and
 * the slices that result are sorted again, outer ones first. A slice that outlasts the one it began
 * in is cut at its end. Asynchronous, counter and other events have no stack and are left out.
 * Chrome's own CPU samples (Profile and ProfileChunk) are read as those of a .cpuprofile: CPU time,
 * beside the time from begin to end of the events. */
#include "profile/formats/chrome_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/intern.h"
#include "profile/formats/cpuprofile.h"
#include "profile/formats/import.h"
#include "sonde/sonde.h"

#define TEXT_MAX_BYTES ((size_t)1 << 20)

struct slice {
    uint64_t start_ns, end_ns;
    uint32_t thread;
    uint32_t location;
    uint32_t seq;
    char phase;          /* B, E, X */
};

/* A Profile or ProfileChunk event. */
struct chunk {
    uint64_t pid, id;    /* of the profile */
    uint32_t seq, thread;
    int head;            /* a Profile: its thread is the one that was sampled */
    struct sonde_json_reader args;
};

/* An open slice. */
struct chrome_read_open {
    uint64_t end_ns, self_ns;
    uint32_t stack, slice;
};

struct chrome_reader {
    struct sonde_profile *p;
    struct sonde_err *err;
    struct sonde_json_reader r;
    struct sonde_buf name, word;
    struct slice *slices;
    uint32_t count, cap;
    struct chrome_read_open *open;
    uint32_t open_count, open_cap;
    struct chunk *chunks;
    uint32_t chunk_count, chunk_cap;
    size_t bytes;
    uint64_t left_out;   /* events without a length */
    uint64_t mended;     /* without an end or a beginning, or not inside of each other */
};

/* One event as it stands in the file. */
struct chrome_event {
    struct sonde_json_text name, thread_name;
    char phase;
    double ts, dur;
    uint64_t pid, tid, id;
    struct sonde_json_reader args; /* at NULL = none */
};

static int chrome_read_grow(struct chrome_reader *s, void **table, uint32_t count, uint32_t *cap,
                            size_t size)
{
    return sonde_import_grow(s->p, &s->bytes, table, count, cap, size, s->err);
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Numbers are numbers, mostly: some writers put them into quotes, or use a thread's name. */
static void read_id(struct chrome_reader *s, uint64_t *out)
{
    struct sonde_json_text text;
    double number;
    if (sonde_json_peek(&s->r) == '0') {
        if (!sonde_json_number(&s->r, &number)) return;
        *out = (uint32_t)(int64_t)(number > -1e15 && number < 1e15 ? number : 0);
    } else if (sonde_json_peek(&s->r) == '"') {
        if (sonde_json_string(&s->r, &s->word, &text)) *out = sonde_hash_bytes(text.s, text.len);
    } else {
        sonde_json_skip(&s->r);
    }
}

static void chrome_read_time(struct chrome_reader *s, double *out)
{
    struct sonde_json_text text;
    char copy[40] = "";
    if (sonde_json_peek(&s->r) == '0') {
        sonde_json_number(&s->r, out);
    } else if (sonde_json_peek(&s->r) == '"') {
        if (!sonde_json_string(&s->r, &s->word, &text)) return;
        memcpy(copy, text.s, text.len < sizeof(copy) ? text.len : sizeof(copy) - 1);
        *out = strtod(copy, NULL);
    } else {
        sonde_json_skip(&s->r);
    }
}

/* "args":{"name":…} of metadata. */
static void read_args(struct chrome_reader *s, struct chrome_event *e)
{
    struct sonde_json_text key, name;
    if (sonde_json_peek(&s->r) != '{') {
        sonde_json_skip(&s->r);
        return;
    }
    sonde_json_enter(&s->r, '{');
    while (sonde_json_member(&s->r, &key)) {
        if (sonde_json_text_is(key, "name") && sonde_json_peek(&s->r) == '"') {
            if (sonde_json_string(&s->r, &s->word, &name)) e->thread_name = name;
        } else {
            sonde_json_skip(&s->r);
        }
    }
}

static int chrome_read_parse_event(struct chrome_reader *s, struct chrome_event *e)
{
    struct sonde_json_text key, phase;
    *e = (struct chrome_event){ .name = { "", 0 }, .ts = -1 };
    if (!sonde_json_enter(&s->r, '{')) return 0;
    while (sonde_json_member(&s->r, &key)) {
        const char comes = sonde_json_peek(&s->r);
        if (comes == '"' && sonde_json_text_is(key, "name")) {
            sonde_json_string(&s->r, &s->name, &e->name);
        } else if (comes == '"' && sonde_json_text_is(key, "ph")) {
            if (sonde_json_string(&s->r, &s->word, &phase) && phase.len == 1) e->phase = *phase.s;
        } else if (sonde_json_text_is(key, "ts")) chrome_read_time(s, &e->ts);
        else if (sonde_json_text_is(key, "dur")) chrome_read_time(s, &e->dur);
        else if (sonde_json_text_is(key, "pid")) read_id(s, &e->pid);
        else if (sonde_json_text_is(key, "tid")) read_id(s, &e->tid);
        else if (sonde_json_text_is(key, "id")) read_id(s, &e->id);
        else {
            if (sonde_json_text_is(key, "args")) e->args = s->r;
            sonde_json_skip(&s->r);
        }
    }
    if (s->r.error) return 0;
    if (e->phase == 'M' && e->args.at) {
        const struct sonde_json_reader behind = s->r;
        s->r = e->args;
        read_args(s, e);
        s->r = behind;
    }
    return 1;
}

static uint32_t event_thread(struct chrome_reader *s, const struct chrome_event *e)
{
    char name[64] = "";
    if (e->phase == 'M' && sonde_json_text_is(e->name, "thread_name")) {
        memcpy(name, e->thread_name.s,
               e->thread_name.len < sizeof(name) ? e->thread_name.len : sizeof(name) - 1);
    }
    /* A tid of 0 would be told apart by name only. */
    return sonde_profile_thread(s->p, (uint32_t)e->pid,
                                (uint32_t)e->tid ? (uint32_t)e->tid : UINT32_MAX, name);
}

static int chrome_read_chunk(struct chrome_reader *s, const struct chrome_event *e)
{
    const int rc =
        chrome_read_grow(s, (void **)&s->chunks, s->chunk_count, &s->chunk_cap, sizeof(*s->chunks));
    if (rc) return rc;
    const struct chunk c = { .pid = e->pid, .id = e->id, .seq = s->chunk_count,
                             .thread = event_thread(s, e), .args = e->args,
                             .head = sonde_json_text_is(e->name, "Profile") };
    if (!c.thread) return sonde_import_no_room(s->p, s->err);
    s->chunks[s->chunk_count++] = c;
    return 0;
}

static int chrome_read_event(struct chrome_reader *s)
{
    struct chrome_event e;
    if (!chrome_read_parse_event(s, &e)) return 0;
    if (e.phase == 'M' && sonde_json_text_is(e.name, "thread_name") && e.thread_name.len) {
        return event_thread(s, &e) ? 0 : sonde_import_no_room(s->p, s->err);
    }
    if (e.phase == 'M') return 0;
    if (e.args.at && sonde_json_peek(&e.args) == '{' &&
        (sonde_json_text_is(e.name, "Profile") || sonde_json_text_is(e.name, "ProfileChunk"))) {
        return chrome_read_chunk(s, &e);
    }
    if (!e.phase || !strchr("BEX", e.phase)) {
        s->left_out++;
        return 0;
    }
    if (!(e.ts >= 0 && e.ts < 1e15 && e.dur >= 0 && e.dur < 1e15)) {
        return sonde_json_fail(&s->r, "an event without a time \"ts\", or one that is negative or "
                               "too large");
    }
    const int rc = chrome_read_grow(s, (void **)&s->slices, s->count, &s->cap, sizeof(*s->slices));
    if (rc) return rc;
    struct slice slice = { .start_ns = (uint64_t)(e.ts * 1e3 + 0.5),
                           .end_ns = (uint64_t)((e.ts + e.dur) * 1e3 + 0.5),
                           .thread = event_thread(s, &e), .seq = s->count, .phase = e.phase };
    if (e.phase != 'E') {
        slice.location = sonde_import_frame(s->p, e.name, (struct sonde_json_text){ "", 0 }, 0);
    }
    if (!slice.thread || (e.phase != 'E' && !slice.location)) {
        return sonde_import_no_room(s->p, s->err);
    }
    s->slices[s->count++] = slice;
    return 0;
}

/* The bracket at the end of an array may be missing, so that programs can write events as they
 * come. */
static int ends_here(const struct chrome_reader *s)
{
    struct sonde_json_reader ahead = s->r;
    if (sonde_json_at_end(&ahead)) return 1;
    if (*ahead.at == ',') ahead.at++;
    return sonde_json_at_end(&ahead);
}

static int chrome_read_events(struct chrome_reader *s)
{
    int rc = 0;
    if (!sonde_json_enter(&s->r, '[')) return 0;
    while (!rc && !ends_here(s) && sonde_json_element(&s->r)) rc = chrome_read_event(s);
    return rc;
}

static int chrome_read_file(struct chrome_reader *s)
{
    struct sonde_json_text key;
    int rc = 0, seen = 0;
    if (sonde_json_peek(&s->r) == '[') return chrome_read_events(s);
    if (!sonde_json_enter(&s->r, '{')) return 0;
    while (!rc && sonde_json_member(&s->r, &key)) {
        if (sonde_json_text_is(key, "traceEvents")) {
            rc = chrome_read_events(s);
            seen = 1;
        } else {
            sonde_json_skip(&s->r);
        }
    }
    if (!rc && !s->r.error && !seen) sonde_json_fail(&s->r, "no \"traceEvents\" in it");
    return rc;
}

/* ---- Slices ---------------------------------------------------------------------------------- */

#define ORDER(x, y) if ((x) != (y)) return (x) < (y) ? -1 : 1

static int chrome_read_by_time(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    ORDER(x->thread, y->thread);
    ORDER(x->start_ns, y->start_ns);
    ORDER(x->seq, y->seq);
    return 0;
}

static int outer_first(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;
    ORDER(x->thread, y->thread);
    ORDER(x->start_ns, y->start_ns);
    ORDER(y->end_ns, x->end_ns);
    ORDER(x->seq, y->seq);
    return 0;
}

static int chrome_read_push_open(struct chrome_reader *s, struct chrome_read_open o)
{
    const int rc =
        chrome_read_grow(s, (void **)&s->open, s->open_count, &s->open_cap, sizeof(*s->open));
    if (!rc) s->open[s->open_count++] = o;
    return rc;
}

/* B gets the end of its E; what is left open ends with the thread's last event. E is dropped. */
static int pair_events(struct chrome_reader *s)
{
    uint32_t kept = 0;
    int rc = 0;
    for (uint32_t i = 0, next; !rc && i < s->count; i = next) {
        uint64_t last_ns = 0;
        s->open_count = 0;
        for (next = i;
             !rc && next < s->count && s->slices[next].thread == s->slices[i].thread; next++) {
            struct slice *e = &s->slices[next];
            if (e->end_ns > last_ns) last_ns = e->end_ns;
            if (e->phase == 'B') {
                rc = chrome_read_push_open(s, (struct chrome_read_open){ .slice = next });
            }
            if (e->phase != 'E') continue;
            if (s->open_count) s->slices[s->open[--s->open_count].slice].end_ns = e->start_ns;
            else s->mended++;
        }
        s->mended += s->open_count;
        while (s->open_count) s->slices[s->open[--s->open_count].slice].end_ns = last_ns;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->slices[i].phase != 'E') s->slices[kept++] = s->slices[i];
    }
    s->count = kept;
    return rc;
}

static int close_open(struct chrome_reader *s)
{
    const struct chrome_read_open *o = &s->open[--s->open_count];
    const struct sonde_profile_sample sample = {
        .time_ns = o->end_ns, .weight = o->self_ns, .stack = o->stack,
        .thread = s->slices[o->slice].thread, .count = 1, .kind = SONDE_SAMPLE_WALL,
    };
    return sonde_import_sample(s->p, &sample, s->err);
}

static int open_slice(struct chrome_reader *s, uint32_t i)
{
    struct slice *slice = &s->slices[i];
    struct chrome_read_open *above = s->open_count ? &s->open[s->open_count - 1] : NULL;
    if (above && slice->end_ns > above->end_ns) {
        slice->end_ns = above->end_ns;
        s->mended++;
    }
    const uint64_t ns = slice->end_ns - slice->start_ns;
    if (above) above->self_ns -= ns;
    const uint32_t stack = sonde_profile_stack(s->p, above ? above->stack : 0, slice->location);
    if (!stack) return sonde_import_no_room(s->p, s->err);
    return chrome_read_push_open(s,
                                 (struct chrome_read_open){ .end_ns = slice->end_ns, .self_ns = ns,
                                                            .stack = stack, .slice = i });
}

static int make_stacks(struct chrome_reader *s)
{
    int rc = 0;
    s->open_count = 0;
    for (uint32_t i = 0; !rc && i < s->count; i++) {
        const int same = i && s->slices[i - 1].thread == s->slices[i].thread;
        while (!rc && s->open_count &&
               (!same || s->open[s->open_count - 1].end_ns <= s->slices[i].start_ns)) {
            rc = close_open(s);
        }
        if (!rc) rc = open_slice(s, i);
    }
    while (!rc && s->open_count) rc = close_open(s);
    return rc;
}

static int use_slices(struct chrome_reader *s)
{
    if (s->count) qsort(s->slices, s->count, sizeof(*s->slices), chrome_read_by_time);
    int rc = pair_events(s);
    if (rc) return rc;
    if (s->count) qsort(s->slices, s->count, sizeof(*s->slices), outer_first);
    return make_stacks(s);
}

/* ---- CPU samples ----------------------------------------------------------------------------- */

static int by_profile(const void *a, const void *b)
{
    const struct chunk *x = a, *y = b;
    ORDER(x->pid, y->pid);
    ORDER(x->id, y->id);
    ORDER(y->head, x->head);
    ORDER(x->seq, y->seq);
    return 0;
}

static int use_chunks(struct chrome_reader *s)
{
    if (!s->chunk_count) return 0;
    struct sonde_json_reader *args = sonde__alloc(s->chunk_count * sizeof(*args));
    int rc = args ? 0 : sonde_import_no_room(s->p, s->err);
    qsort(s->chunks, s->chunk_count, sizeof(*s->chunks), by_profile);
    for (uint32_t i = 0, next; !rc && i < s->chunk_count; i = next) {
        const struct chunk *first = &s->chunks[i];
        for (next = i; next < s->chunk_count && s->chunks[next].pid == first->pid &&
                       s->chunks[next].id == first->id; next++) {
            args[next - i] = s->chunks[next].args;
        }
        rc = sonde_cpuprofile_chunks(args, next - i, first->thread, s->p, s->err);
    }
    sonde__free(args);
    return rc;
}

int sonde_chrome_read(const char *data, size_t len, struct sonde_import *how,
                      struct sonde_profile *p, struct sonde_err *err)
{
    struct chrome_reader s = { .p = p, .err = err };
    sonde_json_reader_init(&s.r, data, len);
    sonde_buf_init(&s.name, TEXT_MAX_BYTES);
    sonde_buf_init(&s.word, TEXT_MAX_BYTES);
    int rc = chrome_read_file(&s);
    if (!rc) rc = sonde_import_json_error(&s.r, err);
    if (!rc) rc = use_slices(&s);
    if (!rc) rc = use_chunks(&s);
    if (!rc && !p->samples_count) {
        rc = sonde_err_set(err, SONDE_EFORMAT, "no events in it that have a length (B and E, or "
                           "X), and no CPU samples (ProfileChunk)");
    }
    if (!rc && s.left_out) {
        sonde_import_note(how, "%llu events without a length are left out",
                          (unsigned long long)s.left_out);
    }
    if (!rc && s.mended) {
        sonde_import_note(how,
                          "%llu events have no beginning or no end, or outlast what they began in",
                          (unsigned long long)s.mended);
    }
    p->engine = sonde_profile_cstring(p, "import");
    sonde_buf_release(&s.name);
    sonde_buf_release(&s.word);
    sonde__free(s.slices);
    sonde__free(s.open);
    sonde__free(s.chunks);
    return rc;
}

int sonde_chrome_probe(const char *data, size_t len)
{
    static const char *const object[] = { "\"traceEvents\"", NULL };
    static const char *const array[] = { "\"ph\"", "\"ts\"", NULL };
    return sonde_import_json_has(data, len, object) || sonde_import_json_has(data, len, array);
}
