/* pprof_read_sample.c - samples out of pprof.
 *
 * Sample types that are known become kinds, each with its count; Go's names for them too. If none
 * is known, the default type, else the last, is read as samples of an import. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "profile/formats/pprof_reader.h"
#include "profile/tree/frame.h"
#include "sonde/sonde.h"

enum { DEPTH_MAX = 1 << 20 };

/* ---- Sample types ---------------------------------------------------------------------------- */

uint64_t pprof_unit_scale(const char *unit, struct pprof_text t)
{
    static const struct { const char *unit, *name; uint64_t scale; } units[] = {
        { "nanoseconds", "nanoseconds", 1 },     { "nanoseconds", "microseconds", 1000 },
        { "nanoseconds", "milliseconds", 1000000 }, { "nanoseconds", "seconds", 1000000000 },
        { "bytes", "bytes", 1 },                 { "count", "count", 1 },
    };
    for (size_t i = 0; i < SONDE_COUNT(units); i++) {
        if (!strcmp(units[i].unit, unit) && pprof_text_is(t, units[i].name)) return units[i].scale;
    }
    return 0;
}

static int find_type(const struct pprof_reader *r, const char *name)
{
    for (uint32_t i = 0; i < r->types_count; i++) {
        if (pprof_text_is(r->strings[r->types[i].type], name)) return (int)i;
    }
    return -1;
}

static void add_column(struct pprof_reader *r, int kind, const char *weight_name,
                       const char *count_name)
{
    const int weight = find_type(r, weight_name), count = find_type(r, count_name);
    if (weight < 0) return;
    const struct pprof_text unit = r->strings[r->types[weight].unit];
    const uint64_t scale = pprof_unit_scale(sonde_pprof_kinds[kind].unit, unit);
    if (!scale) return;
    for (uint32_t i = 0; i < r->columns_count; i++) {
        if (r->columns[i].kind == kind) return;
    }
    r->columns[r->columns_count++] =
        (struct pprof_column){ .kind = kind, .weight = (uint32_t)weight, .scale = scale,
                               .count = (uint32_t)(count < 0 ? weight : count) };
}

int pprof_choose_columns(struct pprof_reader *r)
{
    if (!r->types_count) return PPROF_DAMAGED(r, "no sample types in it");
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
        add_column(r, k, sonde_pprof_kinds[k].weight, sonde_pprof_kinds[k].count);
    }
    add_column(r, SONDE_SAMPLE_OFFCPU, "delay", "contentions"); /* Go's block and mutex profiles */
    if (r->columns_count) return 0;
    uint32_t type = r->types_count - 1;
    for (uint32_t i = 0; i < r->types_count && r->default_type; i++) {
        if (r->types[i].type == r->default_type) type = i;
    }
    r->columns[r->columns_count++] = (struct pprof_column){
        .kind = SONDE_SAMPLE_OTHER, .weight = type, .count = type, .scale = 1,
        .count_is_weight = pprof_text_is(r->strings[r->types[type].unit], "count"),
    };
    return 0;
}

/* ---- Samples --------------------------------------------------------------------------------- */

struct pprof_read_sample_state {
    uint32_t depth, values;
    uint64_t value[PPROF_TYPES_MAX];
    struct pprof_text thread;
    uint64_t pid, tid;
};

static int pprof_read_sample_add_value(struct pprof_reader *r, struct pprof_read_sample_state *s,
                                       uint64_t v)
{
    if (s->values == r->types_count) {
        return PPROF_DAMAGED(r, "sample %" PRIu64 " has more values than there are sample types",
                             r->row);
    }
    if (v > INT64_MAX) {
        return PPROF_DAMAGED(r, "sample %" PRIu64 " has a negative value: differences of profiles "
                                "cannot be read, read both and use sonde diff", r->row);
    }
    s->value[s->values++] = v;
    return 0;
}

static int add_frame(struct pprof_reader *r, struct pprof_read_sample_state *s, uint64_t id)
{
    const uint32_t location = pprof_find_id(&r->locations, id);
    if (!location) {
        return PPROF_DAMAGED(r, "sample %" PRIu64 ": there is no location %" PRIu64, r->row, id);
    }
    if (s->depth == DEPTH_MAX) {
        return PPROF_DAMAGED(r, "sample %" PRIu64 " is deeper than %d frames", r->row, DEPTH_MAX);
    }
    if (s->depth == r->path_cap) {
        const uint32_t cap = s->depth ? s->depth * 2 : 256;
        uint64_t *grown = sonde__realloc(r->path, cap * sizeof(*grown));
        if (!grown) return pprof_no_room(r);
        r->path = grown;
        r->path_cap = cap;
    }
    r->path[s->depth++] = location;
    return 0;
}

static int pprof_read_sample_read_label(struct pprof_reader *r, struct pprof_read_sample_state *s,
                                        const struct sonde_pb_field *f)
{
    uint64_t v[PPROF_LABEL_NUM + 1] = { 0 };
    struct pprof_text key;
    if (f->wire != SONDE_PB_BYTES ||
        pprof_get_numbers(sonde_pb_reader(f->data, f->len), v, PPROF_LABEL_NUM)) {
        return pprof_damaged_row(r, "sample");
    }
    if (pprof_get_text(r, v[PPROF_LABEL_KEY], &key)) return SONDE_EFORMAT;
    if (pprof_text_is(key, "thread")) return pprof_get_text(r, v[PPROF_LABEL_STR], &s->thread);
    if (pprof_text_is(key, "tid")) s->tid = v[PPROF_LABEL_NUM];
    if (pprof_text_is(key, "pid")) s->pid = v[PPROF_LABEL_NUM];
    return 0;
}

/* Numbers come packed, or one a field. */
static int read_numbers(
    struct pprof_reader *r, struct pprof_read_sample_state *s, const struct sonde_pb_field *f,
    int (*add)(struct pprof_reader *, struct pprof_read_sample_state *, uint64_t))
{
    if (f->wire == SONDE_PB_VARINT) return add(r, s, f->value);
    if (f->wire != SONDE_PB_BYTES) return pprof_damaged_row(r, "sample");
    struct sonde_pb_reader packed = sonde_pb_reader(f->data, f->len);
    uint64_t v;
    int more, rc = 0;
    while (!rc && (more = sonde_pb_next_varint(&packed, &v)) > 0) rc = add(r, s, v);
    return rc ? rc : more < 0 ? pprof_damaged_row(r, "sample") : 0;
}

static int pprof_read_sample_is_truncated(const struct pprof_reader *r, uint64_t location)
{
    const struct sonde_profile *p = r->p;
    const struct sonde_profile_location *l = &p->locations[location];
    return !l->module && !l->address && l->line_count == 1 &&
           !strcmp(sonde_profile_str(p, p->functions[p->lines[l->line].function].name),
                   SONDE_TRUNCATED_NAME);
}

static int pprof_read_sample_make_stack(struct pprof_reader *r,
                                        const struct pprof_read_sample_state *s,
                                        struct sonde_profile_sample *out)
{
    uint32_t depth = s->depth;
    if (depth > 1 && pprof_read_sample_is_truncated(r, r->path[depth - 1])) {
        depth--;
        out->flags = SONDE_SAMPLE_TRUNCATED;
    }
    while (depth) {
        out->stack = sonde_profile_stack(r->p, out->stack, (uint32_t)r->path[--depth]);
        if (!out->stack) return pprof_no_room(r);
    }
    if (s->depth) return 0;
    out->stack = sonde_profile_stack(r->p, 0, sonde_profile_named_location(r->p, "[unknown]", 9));
    return out->stack ? 0 : pprof_no_room(r);
}

static int make_thread(struct pprof_reader *r, const struct pprof_read_sample_state *s,
                       struct sonde_profile_sample *out)
{
    if (!s->thread.len && !s->tid && !s->pid) return 0;
    const uint32_t pid = s->pid <= UINT32_MAX ? (uint32_t)s->pid : 0;
    const uint32_t tid = s->tid <= UINT32_MAX ? (uint32_t)s->tid : 0;
    const uint32_t name = sonde_profile_string(r->p, s->thread.s ? s->thread.s : "", s->thread.len);
    out->thread = sonde_profile_thread(r->p, pid, tid, sonde_profile_str(r->p, name));
    return out->thread ? 0 : pprof_no_room(r);
}

static int pprof_read_sample_add(struct pprof_reader *r, const struct pprof_read_sample_state *s,
                                 struct sonde_profile_sample row)
{
    for (uint32_t i = 0; i < r->columns_count; i++) {
        const struct pprof_column *c = &r->columns[i];
        const uint64_t value = s->value[c->weight];
        if (__builtin_mul_overflow(value, c->scale, &row.weight)) {
            return PPROF_DAMAGED(r, "sample %" PRIu64 " has a value that is too large", r->row);
        }
        const uint64_t count =
            c->count != c->weight || c->count_is_weight ? s->value[c->count] : 1;
        if (!row.weight && (c->count == c->weight || !count)) continue;
        row.count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
        row.kind = (uint16_t)c->kind;
        const int rc = sonde_profile_add_sample(r->p, &row);
        if (rc == SONDE_EFORMAT) return PPROF_DAMAGED(r, "its values add up to more than 2^64");
        if (rc) return pprof_no_room(r);
    }
    return 0;
}

int pprof_read_sample(struct pprof_reader *r, struct sonde_pb_reader message)
{
    struct pprof_read_sample_state s = { 0 };
    struct sonde_profile_sample row = { 0 };
    struct sonde_pb_field f;
    int more, rc = 0;
    while (!rc && (more = sonde_pb_next(&message, &f)) > 0) {
        if (f.number == PPROF_SAMPLE_LOCATION) rc = read_numbers(r, &s, &f, add_frame);
        else if (f.number == PPROF_SAMPLE_VALUE)
            rc = read_numbers(r, &s, &f, pprof_read_sample_add_value);
        else if (f.number == PPROF_SAMPLE_LABEL) rc = pprof_read_sample_read_label(r, &s, &f);
    }
    if (rc) return rc;
    if (more < 0) return pprof_damaged_row(r, "sample");
    if (s.values != r->types_count) {
        return PPROF_DAMAGED(r, "sample %" PRIu64 " has %u values for %u sample types", r->row,
                             s.values, r->types_count);
    }
    rc = pprof_read_sample_make_stack(r, &s, &row);
    if (!rc) rc = make_thread(r, &s, &row);
    return rc ? rc : pprof_read_sample_add(r, &s, row);
}
