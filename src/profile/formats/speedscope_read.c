/* speedscope_read.c - speedscope's JSON is read: profiles that are "sampled" (a stack and a weight
 * each) and "evented" (frames that open and close at a time), each as a thread.
 *
 * Members of an object come in any order, and frames may stand behind the profiles that use them.
 * So an object is gone through twice: first to take down where its members are, then to read them
 * in the order that is needed. */
#include "profile/formats/speedscope_read.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "profile/formats/import.h"
#include "sonde/sonde.h"

#define TEXT_MAX_BYTES ((size_t)1 << 20)

struct speedscope_reader {
    struct sonde_profile *p;
    struct sonde_err *err;
    struct sonde_json_reader r;
    struct sonde_buf text, other;   /* of strings with escapes */
    uint32_t *frames;               /* number -> location */
    uint32_t frame_count, frame_cap;
    struct speedscope_read_open { uint32_t frame, stack; } *open; /* of an evented profile */
    uint32_t open_count, open_cap;
    uint64_t mended;                /* events that do not fit what is open */
    size_t bytes;                   /* of these tables */
};

/* One profile: where its members are. */
struct speedscope_read_part {
    struct sonde_json_reader type, unit, name, samples, weights, events, end;
    uint32_t thread;
    int kind;
    double scale;                   /* a value times this is in the kind's unit */
};

/* Where the value of a member is, to be read later. */
static void speedscope_read_note_place(struct speedscope_reader *s, struct sonde_json_reader *place)
{
    *place = s->r;
    sonde_json_skip(&s->r);
}

static int speedscope_read_grow(struct speedscope_reader *s, void **table, uint32_t count,
                                uint32_t *cap, size_t size)
{
    return sonde_import_grow(s->p, &s->bytes, table, count, cap, size, s->err);
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static int speedscope_read_frame(struct speedscope_reader *s)
{
    static const struct sonde_import_frame_keys keys = { "name", "file", "line" };
    struct sonde_import_frame_text f;
    if (!sonde_import_frame_read(&s->r, &keys, &s->text, &s->other, &f)) return 0;
    const int rc = speedscope_read_grow(s, (void **)&s->frames, s->frame_count, &s->frame_cap,
                                        sizeof(*s->frames));
    if (rc) return rc;
    const uint32_t line = f.line >= 0 && f.line < 1e9 ? (uint32_t)f.line : 0;
    const uint32_t id = sonde_import_frame(s->p, f.name, f.file, line);
    if (!id) return sonde_import_no_room(s->p, s->err);
    s->frames[s->frame_count++] = id;
    return 0;
}

static int read_shared(struct speedscope_reader *s)
{
    struct sonde_json_text key;
    int rc = 0;
    if (!sonde_json_enter(&s->r, '{')) return 0;
    while (!rc && sonde_json_member(&s->r, &key)) {
        if (!sonde_json_text_is(key, "frames")) {
            sonde_json_skip(&s->r);
            continue;
        }
        if (!sonde_json_enter(&s->r, '[')) return 0;
        while (!rc && sonde_json_element(&s->r)) rc = speedscope_read_frame(s);
    }
    return rc;
}

static uint32_t frame_at(struct speedscope_reader *s, struct sonde_json_reader *r, uint64_t number)
{
    if (number < s->frame_count) return s->frames[number];
    sonde_json_fail(r, "a frame that is not in the list of frames");
    return 0;
}

/* ---- Sampled --------------------------------------------------------------------------------- */

static uint64_t speedscope_read_scaled(double v, double scale)
{
    v = v * scale + 0.5;
    return v >= 18446744073709549568.0 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0;
}

static int read_sampled(struct speedscope_reader *s, struct speedscope_read_part *part)
{
    struct sonde_json_reader *r = &part->samples;
    double time = 0;
    int rc = 0;
    if (!sonde_json_enter(r, '[')) return 0;
    if (part->weights.at) sonde_json_enter(&part->weights, '[');
    while (!rc && sonde_json_element(r)) {
        struct sonde_profile_sample sample = { .thread = part->thread, .count = 1,
                                               .kind = (uint16_t)part->kind };
        uint64_t number;
        double weight = 1;
        if (!sonde_json_enter(r, '[')) break;
        while (sonde_json_element(r) && sonde_json_number_u64(r, &number)) {
            const uint32_t location = frame_at(s, r, number);
            if (r->error) break;
            sample.stack = sonde_profile_stack(s->p, sample.stack, location);
            if (!sample.stack) return sonde_import_no_room(s->p, s->err);
        }
        if (r->error) break;
        if (part->weights.at && (!sonde_json_element(&part->weights) ||
                                 !sonde_json_number(&part->weights, &weight) || weight < 0)) {
            sonde_json_fail(r, "there is no weight for this sample, or it is negative");
            break;
        }
        sample.weight = speedscope_read_scaled(weight, part->scale);
        time += weight;
        if (part->kind == SONDE_SAMPLE_CPU) {
            sample.time_ns = speedscope_read_scaled(time, part->scale);
        }
        /* Nothing on the stack: the thread did nothing. */
        if (sample.stack) rc = sonde_import_sample(s->p, &sample, s->err);
    }
    s->r = *r;
    return rc;
}

/* ---- Evented --------------------------------------------------------------------------------- */

struct speedscope_read_event {
    char type;
    uint64_t frame;
    double at;
};

static int speedscope_read_event(struct speedscope_reader *s, struct sonde_json_reader *r,
                                 struct speedscope_read_event *out)
{
    struct sonde_json_text key, type = { "", 0 };
    int has = 0;
    if (!sonde_json_enter(r, '{')) return 0;
    while (sonde_json_member(r, &key)) {
        if (sonde_json_text_is(key, "type")) has |= sonde_json_string(r, &s->text, &type);
        else if (sonde_json_text_is(key, "frame")) has |= 2 * sonde_json_number_u64(r, &out->frame);
        else if (sonde_json_text_is(key, "at")) has |= 4 * sonde_json_number(r, &out->at);
        else sonde_json_skip(r);
    }
    if (!r->error && (has != 7 || type.len != 1 || !strchr("OC", *type.s) || !*type.s)) {
        sonde_json_fail(r, "an event without a type ('O' or 'C'), a frame or a time");
    }
    if (r->error) return 0;
    out->type = *type.s;
    return 1;
}

/* What is open spent the time since the last event. */
static int speedscope_read_spend(struct speedscope_reader *s,
                                 const struct speedscope_read_part *part, uint64_t from_ns,
                                 uint64_t to_ns)
{
    if (!s->open_count || to_ns <= from_ns) return 0;
    const struct sonde_profile_sample sample = {
        .time_ns = part->kind == SONDE_SAMPLE_WALL ? to_ns : 0,
        .weight = to_ns - from_ns, .stack = s->open[s->open_count - 1].stack,
        .thread = part->thread, .count = 1, .kind = (uint16_t)part->kind,
    };
    return sonde_import_sample(s->p, &sample, s->err);
}

static int apply_event(struct speedscope_reader *s, struct sonde_json_reader *r,
                       const struct speedscope_read_event *e)
{
    const uint32_t location = frame_at(s, r, e->frame);
    if (r->error) return 0;
    if (e->type == 'C') {
        uint32_t at = s->open_count;
        while (at && s->open[at - 1].frame != e->frame) at--;
        s->mended += at != s->open_count || !at;
        if (at) s->open_count = at - 1;
        return 0;
    }
    const int rc =
        speedscope_read_grow(s, (void **)&s->open, s->open_count, &s->open_cap, sizeof(*s->open));
    if (rc) return rc;
    const uint32_t above = s->open_count ? s->open[s->open_count - 1].stack : 0;
    const struct speedscope_read_open o = { (uint32_t)e->frame,
                                            sonde_profile_stack(s->p, above, location) };
    if (!o.stack) return sonde_import_no_room(s->p, s->err);
    s->open[s->open_count++] = o;
    return 0;
}

static int read_evented(struct speedscope_reader *s, struct speedscope_read_part *part)
{
    struct sonde_json_reader *r = &part->events;
    uint64_t now = 0;
    int rc = 0;
    s->open_count = 0;
    if (!sonde_json_enter(r, '[')) return 0;
    for (int first = 1; !rc && sonde_json_element(r); first = 0) {
        struct speedscope_read_event e;
        if (!speedscope_read_event(s, r, &e)) break;
        const uint64_t at = speedscope_read_scaled(e.at, part->scale);
        if (!first && at < now) {
            sonde_json_fail(r, "an event that is earlier than the one before it");
            break;
        }
        rc = speedscope_read_spend(s, part, now, at);
        now = at;
        if (!rc) rc = apply_event(s, r, &e);
    }
    s->r = *r;
    /* What is open at the end lasts until the end of the profile. */
    double end;
    if (!rc && !r->error && part->end.at && sonde_json_peek(&part->end) == '0' &&
        sonde_json_number(&part->end, &end)) {
        rc = speedscope_read_spend(s, part, now, speedscope_read_scaled(end, part->scale));
    }
    return rc;
}

/* ---- Profiles -------------------------------------------------------------------------------- */

static int speedscope_read_head(struct speedscope_reader *s, struct speedscope_read_part *part)
{
    struct sonde_json_text name = { "", 0 }, unit = { "none", 4 };
    if (part->name.at) sonde_json_string(&part->name, &s->text, &name);
    char short_name[256] = "";
    if (name.len) memcpy(short_name, name.s, name.len < 255 ? name.len : 255);
    if (part->unit.at) sonde_json_string(&part->unit, &s->text, &unit);
    part->thread = sonde_profile_thread(s->p, 0, 0, short_name);
    if (!part->thread) return sonde_import_no_room(s->p, s->err);
    part->scale = sonde_import_unit_ns(unit);
    part->kind = part->scale > 0 ? part->events.at ? SONDE_SAMPLE_WALL : SONDE_SAMPLE_CPU
                 : sonde_json_text_is(unit, "bytes") ? SONDE_SAMPLE_ALLOC : SONDE_SAMPLE_OTHER;
    if (!(part->scale > 0)) part->scale = 1;
    return 0;
}

static int read_profile(struct speedscope_reader *s)
{
    struct sonde_json_text key;
    struct speedscope_read_part part = { 0 };
    const struct { const char *key; struct sonde_json_reader *place; } members[] = {
        { "type", &part.type },       { "unit", &part.unit },       { "name", &part.name },
        { "samples", &part.samples }, { "weights", &part.weights }, { "events", &part.events },
        { "endValue", &part.end },
    };
    enum { MEMBERS = SONDE_COUNT(members) };
    if (!sonde_json_enter(&s->r, '{')) return 0;
    while (sonde_json_member(&s->r, &key)) {
        size_t i = 0;
        while (i < MEMBERS && !sonde_json_text_is(key, members[i].key)) i++;
        if (i < MEMBERS) speedscope_read_note_place(s, members[i].place);
        else sonde_json_skip(&s->r);
    }
    if (s->r.error) return 0;
    if (!part.samples.at && !part.events.at) {
        sonde_json_fail(&s->r, "a profile without samples and without events");
        return 0;
    }
    const struct sonde_json_reader behind = s->r;
    int rc = speedscope_read_head(s, &part);
    if (!rc) rc = part.events.at ? read_evented(s, &part) : read_sampled(s, &part);
    if (!rc && !s->r.error) s->r = behind;
    return rc;
}

static int speedscope_read_file(struct speedscope_reader *s)
{
    struct sonde_json_text key, name;
    struct sonde_json_reader shared = { 0 }, profiles = { 0 };
    if (!sonde_json_enter(&s->r, '{')) return 0;
    while (sonde_json_member(&s->r, &key)) {
        if (sonde_json_text_is(key, "shared")) speedscope_read_note_place(s, &shared);
        else if (sonde_json_text_is(key, "profiles")) speedscope_read_note_place(s, &profiles);
        else if (sonde_json_text_is(key, "name") && sonde_json_peek(&s->r) == '"') {
            if (sonde_json_string(&s->r, &s->text, &name)) {
                s->p->program = sonde_profile_string(s->p, name.s, name.len);
            }
        } else sonde_json_skip(&s->r);
    }
    if (!s->r.error && (!shared.at || !profiles.at)) {
        sonde_json_fail(&s->r, "no \"shared\" or no \"profiles\" in it");
    }
    if (s->r.error) return 0;
    s->r = shared;
    int rc = read_shared(s);
    if (rc || s->r.error) return rc;
    s->r = profiles;
    if (!sonde_json_enter(&s->r, '[')) return 0;
    while (!rc && sonde_json_element(&s->r)) rc = read_profile(s);
    return rc;
}

int sonde_speedscope_read(const char *data, size_t len, struct sonde_import *how,
                          struct sonde_profile *p, struct sonde_err *err)
{
    struct speedscope_reader s = { .p = p, .err = err };
    sonde_json_reader_init(&s.r, data, len);
    sonde_buf_init(&s.text, TEXT_MAX_BYTES);
    sonde_buf_init(&s.other, TEXT_MAX_BYTES);
    int rc = speedscope_read_file(&s);
    if (!rc) rc = sonde_import_json_error(&s.r, err);
    if (!rc && !p->samples_count) rc = sonde_err_set(err, SONDE_EFORMAT, "no samples in it");
    if (!rc && s.mended) {
        sonde_import_note(how, "%llu events close a frame that is not the innermost",
                          (unsigned long long)s.mended);
    }
    p->engine = sonde_profile_cstring(p, "import");
    sonde_buf_release(&s.text);
    sonde_buf_release(&s.other);
    sonde__free(s.frames);
    sonde__free(s.open);
    return rc;
}

int sonde_speedscope_probe(const char *data, size_t len)
{
    static const char *const schema[] = { "speedscope.app/file-format-schema", NULL };
    static const char *const members[] = { "\"shared\"", "\"frames\"", NULL };
    return sonde_import_json_has(data, len, schema) || sonde_import_json_has(data, len, members);
}
