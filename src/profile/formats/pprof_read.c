/* pprof_read.c - see pprof.c. The order of fields in a file is free, and rows refer to others by
 * ids of any size, so the file is gone through once a table, each after those it refers to.
 *
 * Sample types that are known become kinds, each with its count; Go's names for them too. If none
 * is known, the default type, else the last, is read as samples of an import. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/gz.h"
#include "base/pb_read.h"
#include "profile/formats/pprof.h"
#include "profile/frame.h"
#include "sonde/sonde.h"

#define UNPACKED_MAX ((size_t)2 << 30)
enum { TYPES_MAX = 64, DEPTH_MAX = 1 << 20, LINES_MAX = 1 << 16 };

struct text {
    const char *s;
    size_t len;
};

/* Ids of a table in the file, with what they became. Most files number their rows 1, 2, 3 …, which
 * needs no search. */
struct ids {
    struct id { uint64_t id; uint32_t value; } *rows;
    uint32_t count, cap;
    int dense;
};

/* One kind of samples to be read out of each sample's values. */
struct column {
    int kind;
    uint32_t weight, count; /* indexes of values; count == weight: none of its own */
    uint64_t scale;         /* weight times this is in the kind's unit */
    int count_is_weight;    /* unit is count and there is no other */
};

struct reader {
    struct sonde_profile *p;
    struct sonde_err *err;
    const char *data;
    size_t len;
    struct text *strings;
    uint32_t strings_count, strings_cap;
    struct ids mappings, functions, locations;
    struct { uint64_t type, unit; } types[TYPES_MAX];
    uint32_t types_count;
    uint64_t default_type, period, duration;
    struct column columns[SONDE_SAMPLE_KIND_COUNT];
    uint32_t columns_count;
    uint64_t *path;          /* of a sample, the leaf first */
    uint32_t path_cap;
    struct sonde_profile_line *lines;
    uint32_t lines_cap;
    uint64_t row;            /* number of the row that is read, for messages */
    size_t bytes;
};

#define DAMAGED(r, ...) sonde_err_set((r)->err, SONDE_EFORMAT, __VA_ARGS__)

static int no_room(const struct reader *r)
{
    return sonde_err_set(r->err, SONDE_ENOMEM,
                         "the profile needs more than its %zu MB of memory", r->p->bytes_max >> 20);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static int add_id(struct reader *r, struct ids *ids, const char *what, uint64_t id, uint32_t value)
{
    if (!id) return DAMAGED(r, "%s %" PRIu64 " has no id", what, r->row);
    if (!value) return no_room(r);
    const struct sonde_budget b = { .used = &r->bytes, .max = r->p->bytes_max };
    struct id *rows = sonde_table_grow(ids->rows, ids->count, &ids->cap, sizeof(*rows), &b);
    if (!rows) return no_room(r);
    ids->rows = rows;
    ids->rows[ids->count++] = (struct id){ id, value };
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const struct id *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* After the last add_id. */
static int seal_ids(struct reader *r, struct ids *ids, const char *what)
{
    ids->dense = 1;
    for (uint32_t i = 0; i < ids->count && ids->dense; i++) ids->dense = ids->rows[i].id == i + 1u;
    if (ids->dense) return 0;
    qsort(ids->rows, ids->count, sizeof(*ids->rows), by_id);
    for (uint32_t i = 1; i < ids->count; i++) {
        if (ids->rows[i].id == ids->rows[i - 1].id) {
            return DAMAGED(r, "two %ss have the id %" PRIu64, what, ids->rows[i].id);
        }
    }
    return 0;
}

/* What an id became; 0 = there is none such. */
static uint32_t find_id(const struct ids *ids, uint64_t id)
{
    if (ids->dense) return id && id <= ids->count ? ids->rows[id - 1].value : 0;
    const struct id key = { .id = id };
    const struct id *found = bsearch(&key, ids->rows, ids->count, sizeof(key), by_id);
    return found ? found->value : 0;
}

static int get_text(struct reader *r, uint64_t index, struct text *out)
{
    *out = (struct text){ 0 }; /* gcc cannot see that DAMAGED is never 0 */
    if (index >= r->strings_count) {
        return DAMAGED(r, "a string with the number %" PRIu64 " is used, of %u there are", index,
                       r->strings_count);
    }
    *out = r->strings[index];
    return 0;
}

static int text_is(struct text t, const char *s)
{
    return t.len == strlen(s) && !memcmp(t.s, s, t.len);
}

/* A string of the file as one of the profile. */
static int get_string(struct reader *r, uint64_t index, uint32_t *out)
{
    struct text t;
    int rc = get_text(r, index, &t);
    if (rc) return rc;
    *out = sonde_profile_string(r->p, t.s, t.len);
    return !*out && t.len && *t.s ? no_room(r) : 0;
}

/* ---- Going through the file ------------------------------------------------------------------ */

typedef int message_reader(struct reader *r, struct sonde_pb_reader message);

/* Call read for each message in that field of the profile. */
static int each(struct reader *r, uint32_t field, const char *what, message_reader *read)
{
    struct sonde_pb_reader file = sonde_pb_reader(r->data, r->len);
    struct sonde_pb_field f;
    int more, rc = 0;
    r->row = 0;
    while (!rc && (more = sonde_pb_next(&file, &f)) > 0) {
        if (f.number != field) continue;
        if (f.wire != SONDE_PB_BYTES) return DAMAGED(r, "a %s is not a message", what);
        r->row++;
        rc = read(r, sonde_pb_reader(f.data, f.len));
    }
    return rc;
}

static int damaged_row(struct reader *r, const char *what)
{
    return DAMAGED(r, "%s %" PRIu64 " is damaged or cut short", what, r->row);
}

/* Fields 1 … max of a message that are numbers, into v; the others are left to the caller. */
static int get_numbers(struct sonde_pb_reader message, uint64_t *v, uint32_t max)
{
    struct sonde_pb_field f;
    int more;
    while ((more = sonde_pb_next(&message, &f)) > 0) {
        if (f.number <= max && f.wire == SONDE_PB_VARINT) v[f.number] = f.value;
    }
    return more;
}

static int read_type(struct reader *r, struct sonde_pb_reader message)
{
    uint64_t v[3] = { 0 };
    if (get_numbers(message, v, 2)) return damaged_row(r, "sample type");
    if (r->types_count == TYPES_MAX) return DAMAGED(r, "more than %d sample types", TYPES_MAX);
    struct text ignored;
    if (get_text(r, v[PPROF_TYPE_TYPE], &ignored) || get_text(r, v[PPROF_TYPE_UNIT], &ignored)) {
        return SONDE_EFORMAT;
    }
    r->types[r->types_count].type = v[PPROF_TYPE_TYPE];
    r->types[r->types_count++].unit = v[PPROF_TYPE_UNIT];
    return 0;
}

/* Strings, and the facts that are single fields; also checks that the file is whole. */
static int read_top(struct reader *r)
{
    struct sonde_pb_reader file = sonde_pb_reader(r->data, r->len);
    struct sonde_pb_field f;
    const struct sonde_budget b = { .used = &r->bytes, .max = r->p->bytes_max };
    int more;
    while ((more = sonde_pb_next(&file, &f)) > 0) {
        if (f.number == PPROF_TIME_NANOS && f.value < INT64_MAX) r->p->start_ns = f.value;
        if (f.number == PPROF_DURATION_NANOS && f.value < INT64_MAX) r->duration = f.value;
        if (f.number == PPROF_PERIOD) r->period = f.value;
        if (f.number == PPROF_DEFAULT_SAMPLE_TYPE) r->default_type = f.value;
        if (f.number != PPROF_STRING) continue;
        if (f.wire != SONDE_PB_BYTES) return DAMAGED(r, "a string is not text");
        struct text *strings =
            sonde_table_grow(r->strings, r->strings_count, &r->strings_cap, sizeof(*strings), &b);
        if (!strings) return no_room(r);
        r->strings = strings;
        r->strings[r->strings_count++] = (struct text){ (const char *)f.data, f.len };
    }
    if (more < 0) {
        return DAMAGED(r, "not a pprof file, or damaged, at byte %zu of %zu of the protobuf",
                       (size_t)(file.at - (const unsigned char *)r->data), r->len);
    }
    if (!r->strings_count) return DAMAGED(r, "no strings in it: this is not a pprof file");
    if (r->strings[0].len) return DAMAGED(r, "its first string is not empty");
    if (r->p->start_ns) r->p->end_ns = r->p->start_ns + r->duration;
    return 0;
}

/* ---- Mappings, functions, locations ---------------------------------------------------------- */

static uint32_t module_flags(const char *path, const uint64_t *v)
{
    static const char *const not_kernel[] = { "[vdso]", "[vsyscall]", "[heap]", "[stack]",
                                              "[anon", "[unknown]" };
    uint32_t flags = 0;
    if (!v[PPROF_MAPPING_HAS_FUNCTIONS]) flags |= SONDE_MODULE_STRIPPED;
    else if (!v[PPROF_MAPPING_HAS_LINES]) flags |= SONDE_MODULE_NO_LINES;
    if (*path != '[') return flags;
    if (!strcmp(path, "[vdso]")) return flags | SONDE_MODULE_VDSO;
    for (size_t i = 0; i < sizeof(not_kernel) / sizeof(not_kernel[0]); i++) {
        if (!strncmp(path, not_kernel[i], strlen(not_kernel[i]))) return flags;
    }
    return flags | SONDE_MODULE_KERNEL;
}

static int read_mapping(struct reader *r, struct sonde_pb_reader message)
{
    uint64_t v[PPROF_MAPPING_HAS_INLINES + 1] = { 0 };
    if (get_numbers(message, v, PPROF_MAPPING_HAS_INLINES)) return damaged_row(r, "mapping");
    struct sonde_profile_module m = { .start = v[PPROF_MAPPING_START],
                                      .end = v[PPROF_MAPPING_LIMIT],
                                      .offset = v[PPROF_MAPPING_OFFSET] };
    int rc = get_string(r, v[PPROF_MAPPING_FILE], &m.path);
    if (!rc) rc = get_string(r, v[PPROF_MAPPING_BUILD_ID], &m.build_id);
    if (rc) return rc;
    m.flags = module_flags(sonde_profile_str(r->p, m.path), v);
    return add_id(r, &r->mappings, "mapping", v[PPROF_MAPPING_ID], sonde_profile_module(r->p, &m));
}

static int read_function(struct reader *r, struct sonde_pb_reader message)
{
    uint64_t v[PPROF_FUNCTION_START_LINE + 1] = { 0 };
    if (get_numbers(message, v, PPROF_FUNCTION_START_LINE)) return damaged_row(r, "function");
    const uint64_t line = v[PPROF_FUNCTION_START_LINE];
    struct sonde_profile_function f = { .start_line = line <= UINT32_MAX ? (uint32_t)line : 0 };
    int rc = get_string(r, v[PPROF_FUNCTION_NAME], &f.name);
    if (!rc) rc = get_string(r, v[PPROF_FUNCTION_FILE], &f.file);
    if (rc) return rc;
    return add_id(r, &r->functions, "function", v[PPROF_FUNCTION_ID],
                  sonde_profile_function(r->p, &f));
}

static int read_line(struct reader *r, const struct sonde_pb_field *f, uint32_t count)
{
    uint64_t v[PPROF_LINE_LINE + 1] = { 0 };
    if (f->wire != SONDE_PB_BYTES ||
        get_numbers(sonde_pb_reader(f->data, f->len), v, PPROF_LINE_LINE)) {
        return damaged_row(r, "location");
    }
    if (count == LINES_MAX) {
        return DAMAGED(r, "location %" PRIu64 " has more than %d lines", r->row, LINES_MAX);
    }
    if (count == r->lines_cap) {
        const uint32_t cap = count ? count * 2 : 16;
        struct sonde_profile_line *grown = sonde__realloc(r->lines, cap * sizeof(*grown));
        if (!grown) return no_room(r);
        r->lines = grown;
        r->lines_cap = cap;
    }
    const uint32_t function = find_id(&r->functions, v[PPROF_LINE_FUNCTION]);
    if (!function) {
        return DAMAGED(r, "location %" PRIu64 ": there is no function %" PRIu64, r->row,
                       v[PPROF_LINE_FUNCTION]);
    }
    const uint64_t line = v[PPROF_LINE_LINE];
    r->lines[count] = (struct sonde_profile_line){ function,
                                                   line <= UINT32_MAX ? (uint32_t)line : 0 };
    return 0;
}

static int read_location(struct reader *r, struct sonde_pb_reader message)
{
    uint64_t v[PPROF_LOCATION_ADDRESS + 1] = { 0 };
    uint32_t count = 0, module = 0;
    struct sonde_pb_reader fields = message;
    struct sonde_pb_field f;
    if (get_numbers(message, v, PPROF_LOCATION_ADDRESS)) return damaged_row(r, "location");
    while (sonde_pb_next(&fields, &f) > 0) {
        if (f.number != PPROF_LOCATION_LINE) continue;
        const int rc = read_line(r, &f, count);
        if (rc) return rc;
        count++;
    }
    if (v[PPROF_LOCATION_MAPPING]) {
        module = find_id(&r->mappings, v[PPROF_LOCATION_MAPPING]);
        if (!module) {
            return DAMAGED(r, "location %" PRIu64 ": there is no mapping %" PRIu64, r->row,
                           v[PPROF_LOCATION_MAPPING]);
        }
    }
    return add_id(r, &r->locations, "location", v[PPROF_LOCATION_ID],
                  sonde_profile_lines_location(r->p, module, v[PPROF_LOCATION_ADDRESS], r->lines,
                                               count));
}

/* ---- Sample types ---------------------------------------------------------------------------- */

/* How many of the kind's unit are in one of this unit; 0 = it is another thing. */
static uint64_t unit_scale(const char *unit, struct text t)
{
    static const struct { const char *unit, *name; uint64_t scale; } units[] = {
        { "nanoseconds", "nanoseconds", 1 },     { "nanoseconds", "microseconds", 1000 },
        { "nanoseconds", "milliseconds", 1000000 }, { "nanoseconds", "seconds", 1000000000 },
        { "bytes", "bytes", 1 },                 { "count", "count", 1 },
    };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!strcmp(units[i].unit, unit) && text_is(t, units[i].name)) return units[i].scale;
    }
    return 0;
}

static int find_type(const struct reader *r, const char *name)
{
    for (uint32_t i = 0; i < r->types_count; i++) {
        if (text_is(r->strings[r->types[i].type], name)) return (int)i;
    }
    return -1;
}

static void add_column(struct reader *r, int kind, const char *weight_name, const char *count_name)
{
    const int weight = find_type(r, weight_name), count = find_type(r, count_name);
    if (weight < 0) return;
    const struct text unit = r->strings[r->types[weight].unit];
    const uint64_t scale = unit_scale(sonde_pprof_kinds[kind].unit, unit);
    if (!scale) return;
    for (uint32_t i = 0; i < r->columns_count; i++) {
        if (r->columns[i].kind == kind) return;
    }
    r->columns[r->columns_count++] =
        (struct column){ .kind = kind, .weight = (uint32_t)weight, .scale = scale,
                         .count = (uint32_t)(count < 0 ? weight : count) };
}

static int choose_columns(struct reader *r)
{
    if (!r->types_count) return DAMAGED(r, "no sample types in it");
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
        add_column(r, k, sonde_pprof_kinds[k].weight, sonde_pprof_kinds[k].count);
    }
    add_column(r, SONDE_SAMPLE_OFFCPU, "delay", "contentions"); /* Go's block and mutex profiles */
    if (r->columns_count) return 0;
    uint32_t type = r->types_count - 1;
    for (uint32_t i = 0; i < r->types_count && r->default_type; i++) {
        if (r->types[i].type == r->default_type) type = i;
    }
    r->columns[r->columns_count++] = (struct column){
        .kind = SONDE_SAMPLE_OTHER, .weight = type, .count = type, .scale = 1,
        .count_is_weight = text_is(r->strings[r->types[type].unit], "count"),
    };
    return 0;
}

/* ---- Samples --------------------------------------------------------------------------------- */

struct sample {
    uint32_t depth, values;
    uint64_t value[TYPES_MAX];
    struct text thread;
    uint64_t pid, tid;
};

static int add_value(struct reader *r, struct sample *s, uint64_t v)
{
    if (s->values == r->types_count) {
        return DAMAGED(r, "sample %" PRIu64 " has more values than there are sample types",
                       r->row);
    }
    if (v > INT64_MAX) {
        return DAMAGED(r, "sample %" PRIu64 " has a negative value: differences of profiles "
                       "cannot be read, read both and use sonde diff", r->row);
    }
    s->value[s->values++] = v;
    return 0;
}

static int add_frame(struct reader *r, struct sample *s, uint64_t id)
{
    const uint32_t location = find_id(&r->locations, id);
    if (!location) {
        return DAMAGED(r, "sample %" PRIu64 ": there is no location %" PRIu64, r->row, id);
    }
    if (s->depth == DEPTH_MAX) {
        return DAMAGED(r, "sample %" PRIu64 " is deeper than %d frames", r->row, DEPTH_MAX);
    }
    if (s->depth == r->path_cap) {
        const uint32_t cap = s->depth ? s->depth * 2 : 256;
        uint64_t *grown = sonde__realloc(r->path, cap * sizeof(*grown));
        if (!grown) return no_room(r);
        r->path = grown;
        r->path_cap = cap;
    }
    r->path[s->depth++] = location;
    return 0;
}

static int read_label(struct reader *r, struct sample *s, const struct sonde_pb_field *f)
{
    uint64_t v[PPROF_LABEL_NUM + 1] = { 0 };
    struct text key;
    if (f->wire != SONDE_PB_BYTES ||
        get_numbers(sonde_pb_reader(f->data, f->len), v, PPROF_LABEL_NUM)) {
        return damaged_row(r, "sample");
    }
    if (get_text(r, v[PPROF_LABEL_KEY], &key)) return SONDE_EFORMAT;
    if (text_is(key, "thread")) return get_text(r, v[PPROF_LABEL_STR], &s->thread);
    if (text_is(key, "tid")) s->tid = v[PPROF_LABEL_NUM];
    if (text_is(key, "pid")) s->pid = v[PPROF_LABEL_NUM];
    return 0;
}

/* Numbers come packed, or one a field. */
static int read_numbers(struct reader *r, struct sample *s, const struct sonde_pb_field *f,
                        int (*add)(struct reader *, struct sample *, uint64_t))
{
    if (f->wire == SONDE_PB_VARINT) return add(r, s, f->value);
    if (f->wire != SONDE_PB_BYTES) return damaged_row(r, "sample");
    struct sonde_pb_reader packed = sonde_pb_reader(f->data, f->len);
    uint64_t v;
    int more, rc = 0;
    while (!rc && (more = sonde_pb_next_varint(&packed, &v)) > 0) rc = add(r, s, v);
    return rc ? rc : more < 0 ? damaged_row(r, "sample") : 0;
}

static int is_truncated(const struct reader *r, uint64_t location)
{
    const struct sonde_profile *p = r->p;
    const struct sonde_profile_location *l = &p->locations[location];
    return !l->module && !l->address && l->line_count == 1 &&
           !strcmp(sonde_profile_str(p, p->functions[p->lines[l->line].function].name),
                   SONDE_TRUNCATED_NAME);
}

static int make_stack(struct reader *r, const struct sample *s, struct sonde_profile_sample *out)
{
    uint32_t depth = s->depth;
    if (depth > 1 && is_truncated(r, r->path[depth - 1])) {
        depth--;
        out->flags = SONDE_SAMPLE_TRUNCATED;
    }
    while (depth) {
        out->stack = sonde_profile_stack(r->p, out->stack, (uint32_t)r->path[--depth]);
        if (!out->stack) return no_room(r);
    }
    if (s->depth) return 0;
    out->stack = sonde_profile_stack(r->p, 0, sonde_profile_named_location(r->p, "[unknown]", 9));
    return out->stack ? 0 : no_room(r);
}

static int make_thread(struct reader *r, const struct sample *s, struct sonde_profile_sample *out)
{
    if (!s->thread.len && !s->tid && !s->pid) return 0;
    const uint32_t pid = s->pid <= UINT32_MAX ? (uint32_t)s->pid : 0;
    const uint32_t tid = s->tid <= UINT32_MAX ? (uint32_t)s->tid : 0;
    const uint32_t name = sonde_profile_string(r->p, s->thread.s ? s->thread.s : "", s->thread.len);
    out->thread = sonde_profile_thread(r->p, pid, tid, sonde_profile_str(r->p, name));
    return out->thread ? 0 : no_room(r);
}

static int add_samples(struct reader *r, const struct sample *s, struct sonde_profile_sample row)
{
    for (uint32_t i = 0; i < r->columns_count; i++) {
        const struct column *c = &r->columns[i];
        const uint64_t value = s->value[c->weight];
        if (__builtin_mul_overflow(value, c->scale, &row.weight)) {
            return DAMAGED(r, "sample %" PRIu64 " has a value that is too large", r->row);
        }
        const uint64_t count =
            c->count != c->weight || c->count_is_weight ? s->value[c->count] : 1;
        if (!row.weight && (c->count == c->weight || !count)) continue;
        row.count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
        row.kind = (uint16_t)c->kind;
        const int rc = sonde_profile_add_sample(r->p, &row);
        if (rc == SONDE_EFORMAT) return DAMAGED(r, "its values add up to more than 2^64");
        if (rc) return no_room(r);
    }
    return 0;
}

static int read_sample(struct reader *r, struct sonde_pb_reader message)
{
    struct sample s = { 0 };
    struct sonde_profile_sample row = { 0 };
    struct sonde_pb_field f;
    int more, rc = 0;
    while (!rc && (more = sonde_pb_next(&message, &f)) > 0) {
        if (f.number == PPROF_SAMPLE_LOCATION) rc = read_numbers(r, &s, &f, add_frame);
        else if (f.number == PPROF_SAMPLE_VALUE) rc = read_numbers(r, &s, &f, add_value);
        else if (f.number == PPROF_SAMPLE_LABEL) rc = read_label(r, &s, &f);
    }
    if (rc) return rc;
    if (more < 0) return damaged_row(r, "sample");
    if (s.values != r->types_count) {
        return DAMAGED(r, "sample %" PRIu64 " has %u values for %u sample types", r->row, s.values,
                       r->types_count);
    }
    rc = make_stack(r, &s, &row);
    if (!rc) rc = make_thread(r, &s, &row);
    return rc ? rc : add_samples(r, &s, row);
}

/* ---- Facts ----------------------------------------------------------------------------------- */

/* What follows key in a comment; NULL: it is another comment. */
static const char *comment_value(const char *comment, const char *key)
{
    const size_t n = strlen(key);
    return strncmp(comment, key, n) ? NULL : comment + n;
}

static int read_comment(struct reader *r, uint64_t index)
{
    struct text t;
    const char *value;
    char copy[4096];
    if (get_text(r, index, &t)) return SONDE_EFORMAT;
    if (t.len >= sizeof(copy)) return 0;
    memcpy(copy, t.s, t.len);
    copy[t.len] = '\0';
    if ((value = comment_value(copy, PPROF_COMMENT_PROGRAM))) {
        r->p->program = sonde_profile_cstring(r->p, value);
    } else if ((value = comment_value(copy, PPROF_COMMENT_ACHIEVED))) {
        const double hz = strtod(value, NULL);
        if (hz > 0 && hz < 1e9) r->p->achieved_hz = hz;
    } else if ((value = comment_value(copy, PPROF_COMMENT_LOST))) {
        r->p->lost_records = strtoull(value, NULL, 10);
    } else if ((value = comment_value(copy, PPROF_COMMENT_DROPPED))) {
        r->p->dropped_samples = strtoull(value, NULL, 10);
    }
    return 0;
}

static int read_period_type(struct reader *r, struct sonde_pb_reader message)
{
    uint64_t v[3] = { 0 };
    struct text type, unit;
    if (get_numbers(message, v, 2)) return damaged_row(r, "period type");
    if (get_text(r, v[PPROF_TYPE_TYPE], &type) || get_text(r, v[PPROF_TYPE_UNIT], &unit)) {
        return SONDE_EFORMAT;
    }
    const uint64_t scale = unit_scale("nanoseconds", unit);
    uint64_t ns;
    if (text_is(type, "cpu") && scale && r->period &&
        !__builtin_mul_overflow(r->period, scale, &ns)) {
        r->p->rate_hz = 1e9 / (double)ns;
    }
    return 0;
}

static int read_comments(struct reader *r)
{
    struct sonde_pb_reader file = sonde_pb_reader(r->data, r->len);
    struct sonde_pb_field f;
    int rc = 0;
    while (!rc && sonde_pb_next(&file, &f) > 0) {
        if (f.number != PPROF_COMMENT) continue;
        if (f.wire == SONDE_PB_VARINT) {
            rc = read_comment(r, f.value);
            continue;
        }
        struct sonde_pb_reader packed = sonde_pb_reader(f.data, f.len);
        uint64_t v;
        while (!rc && sonde_pb_next_varint(&packed, &v) > 0) rc = read_comment(r, v);
    }
    return rc;
}

static int read_all(struct reader *r)
{
    int rc = read_top(r);
    if (!rc) rc = each(r, PPROF_SAMPLE_TYPE, "sample type", read_type);
    if (!rc) rc = choose_columns(r);
    if (!rc) rc = each(r, PPROF_MAPPING, "mapping", read_mapping);
    if (!rc) rc = seal_ids(r, &r->mappings, "mapping");
    if (!rc) rc = each(r, PPROF_FUNCTION, "function", read_function);
    if (!rc) rc = seal_ids(r, &r->functions, "function");
    if (!rc) rc = each(r, PPROF_LOCATION, "location", read_location);
    if (!rc) rc = seal_ids(r, &r->locations, "location");
    if (!rc) rc = each(r, PPROF_SAMPLE, "sample", read_sample);
    if (!rc) rc = each(r, PPROF_PERIOD_TYPE, "period type", read_period_type);
    if (!rc) rc = read_comments(r);
    if (!rc && !r->p->samples_count) rc = DAMAGED(r, "no samples in the file");
    return rc;
}

int sonde_pprof_read(const char *data, size_t len, struct sonde_profile *p, struct sonde_err *err)
{
    struct sonde_buf unpacked;
    struct reader r = { .p = p, .err = err, .data = data, .len = len };
    int rc = 0;
    sonde_buf_init(&unpacked, UNPACKED_MAX);
    if (sonde_gz_is(data, len)) {
        rc = sonde_gz_unpack(data, len, &unpacked);
        r.data = unpacked.data;
        r.len = unpacked.len;
        if (rc == SONDE_EFORMAT) DAMAGED(&r, "the gzip data is damaged or cut short");
        else if (rc) sonde_err_set(err, rc, "it unpacks to more than %zu MB", UNPACKED_MAX >> 20);
    }
    if (!rc) rc = read_all(&r);
    p->engine = sonde_profile_cstring(p, "import");
    sonde_buf_release(&unpacked);
    sonde__free(r.strings);
    sonde__free(r.mappings.rows);
    sonde__free(r.functions.rows);
    sonde__free(r.locations.rows);
    sonde__free(r.path);
    sonde__free(r.lines);
    return rc;
}
