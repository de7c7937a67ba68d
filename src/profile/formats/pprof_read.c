/* pprof_read.c - see pprof.c. The order of fields in a file is free, and rows refer to others by
 * ids of any size, so the file is gone through once a table, each after those it refers to. Samples
 * are read in pprof_read_sample.c. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/gz.h"
#include "base/intern.h"
#include "profile/formats/pprof_reader.h"
#include "sonde/sonde.h"

enum { LINES_MAX = 1 << 16 };

int pprof_no_room(const struct pprof_reader *r)
{
    return sonde_err_set(r->err, SONDE_ENOMEM,
                         "the profile needs more than its %zu MB of memory", r->p->bytes_max >> 20);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static int add_id(struct pprof_reader *r, struct pprof_ids *ids, const char *what, uint64_t id,
                  uint32_t value)
{
    if (!id) return PPROF_DAMAGED(r, "%s %" PRIu64 " has no id", what, r->row);
    if (!value) return pprof_no_room(r);
    const struct sonde_budget b = { .used = &r->bytes, .max = r->p->bytes_max };
    struct pprof_id *rows = sonde_table_grow(ids->rows, ids->count, &ids->cap, sizeof(*rows), &b);
    if (!rows) return pprof_no_room(r);
    ids->rows = rows;
    ids->rows[ids->count++] = (struct pprof_id){ id, value };
    return 0;
}

static int pprof_read_by_id(const void *a, const void *b)
{
    const struct pprof_id *x = a, *y = b;
    return SONDE_CMP(x->id, y->id);
}

/* After the last add_id. */
static int seal_ids(struct pprof_reader *r, struct pprof_ids *ids, const char *what)
{
    ids->dense = 1;
    for (uint32_t i = 0; i < ids->count && ids->dense; i++) ids->dense = ids->rows[i].id == i + 1u;
    if (ids->dense) return 0;
    qsort(ids->rows, ids->count, sizeof(*ids->rows), pprof_read_by_id);
    for (uint32_t i = 1; i < ids->count; i++) {
        if (ids->rows[i].id == ids->rows[i - 1].id) {
            return PPROF_DAMAGED(r, "two %ss have the id %" PRIu64, what, ids->rows[i].id);
        }
    }
    return 0;
}

uint32_t pprof_find_id(const struct pprof_ids *ids, uint64_t id)
{
    if (ids->dense) return id && id <= ids->count ? ids->rows[id - 1].value : 0;
    assert(!ids->count || ids->rows[0].id <= ids->rows[ids->count - 1].id); /* sealed */
    const struct pprof_id key = { .id = id };
    const struct pprof_id *found =
        bsearch(&key, ids->rows, ids->count, sizeof(key), pprof_read_by_id);
    return found ? found->value : 0;
}

int pprof_get_text(struct pprof_reader *r, uint64_t index, struct pprof_text *out)
{
    *out = (struct pprof_text){ 0 }; /* gcc cannot see that PPROF_DAMAGED is never 0 */
    if (index >= r->strings_count) {
        return PPROF_DAMAGED(r, "a string with the number %" PRIu64 " is used, of %u there are",
                             index, r->strings_count);
    }
    *out = r->strings[index];
    return 0;
}

int pprof_text_is(struct pprof_text t, const char *s)
{
    return t.len == strlen(s) && !memcmp(t.s, s, t.len);
}

/* A string of the file as one of the profile. */
static int get_string(struct pprof_reader *r, uint64_t index, uint32_t *out)
{
    struct pprof_text t;
    int rc = pprof_get_text(r, index, &t);
    if (rc) return rc;
    *out = sonde_profile_string(r->p, t.s, t.len);
    return !*out && t.len && *t.s ? pprof_no_room(r) : 0;
}

/* ---- Going through the file ------------------------------------------------------------------ */

typedef int message_reader(struct pprof_reader *r, struct sonde_pb_reader message);

/* Call read for each message in that field of the profile. */
static int pprof_read_each(struct pprof_reader *r, uint32_t field, const char *what,
                           message_reader *read)
{
    struct sonde_pb_reader file = sonde_pb_reader(r->data, r->len);
    struct sonde_pb_field f;
    int more, rc = 0;
    r->row = 0;
    while (!rc && (more = sonde_pb_next(&file, &f)) > 0) {
        if (f.number != field) continue;
        if (f.wire != SONDE_PB_BYTES) return PPROF_DAMAGED(r, "a %s is not a message", what);
        r->row++;
        rc = read(r, sonde_pb_reader(f.data, f.len));
    }
    return rc;
}

int pprof_damaged_row(struct pprof_reader *r, const char *what)
{
    return PPROF_DAMAGED(r, "%s %" PRIu64 " is damaged or cut short", what, r->row);
}

int pprof_get_numbers(struct sonde_pb_reader message, uint64_t *v, uint32_t max)
{
    struct sonde_pb_field f;
    int more;
    while ((more = sonde_pb_next(&message, &f)) > 0) {
        if (f.number <= max && f.wire == SONDE_PB_VARINT) v[f.number] = f.value;
    }
    return more;
}

static int pprof_read_type(struct pprof_reader *r, struct sonde_pb_reader message)
{
    uint64_t v[3] = { 0 };
    if (pprof_get_numbers(message, v, 2)) return pprof_damaged_row(r, "sample type");
    if (r->types_count == PPROF_TYPES_MAX) {
        return PPROF_DAMAGED(r, "more than %d sample types", PPROF_TYPES_MAX);
    }
    struct pprof_text ignored;
    if (pprof_get_text(r, v[PPROF_TYPE_TYPE], &ignored) ||
        pprof_get_text(r, v[PPROF_TYPE_UNIT], &ignored)) {
        return SONDE_EFORMAT;
    }
    r->types[r->types_count].type = v[PPROF_TYPE_TYPE];
    r->types[r->types_count++].unit = v[PPROF_TYPE_UNIT];
    return 0;
}

/* Strings, and the facts that are single fields; also checks that the file is whole. */
static int read_top(struct pprof_reader *r)
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
        if (f.wire != SONDE_PB_BYTES) return PPROF_DAMAGED(r, "a string is not text");
        struct pprof_text *strings =
            sonde_table_grow(r->strings, r->strings_count, &r->strings_cap, sizeof(*strings), &b);
        if (!strings) return pprof_no_room(r);
        r->strings = strings;
        r->strings[r->strings_count++] = (struct pprof_text){ (const char *)f.data, f.len };
    }
    if (more < 0) {
        return PPROF_DAMAGED(r, "not a pprof file, or damaged, at byte %zu of %zu of the protobuf",
                             (size_t)(file.at - (const unsigned char *)r->data), r->len);
    }
    if (!r->strings_count) return PPROF_DAMAGED(r, "no strings in it: this is not a pprof file");
    if (r->strings[0].len) return PPROF_DAMAGED(r, "its first string is not empty");
    if (r->p->start_ns) r->p->end_ns = r->p->start_ns + r->duration;
    return 0;
}

/* ---- Mappings, functions, locations ---------------------------------------------------------- */

static uint32_t pprof_read_module_flags(const char *path, const uint64_t *v)
{
    static const char *const not_kernel[] = { "[vdso]", "[vsyscall]", "[heap]", "[stack]",
                                              "[anon", "[unknown]" };
    uint32_t flags = 0;
    if (!v[PPROF_MAPPING_HAS_FUNCTIONS]) flags |= SONDE_MODULE_STRIPPED;
    else if (!v[PPROF_MAPPING_HAS_LINES]) flags |= SONDE_MODULE_NO_LINES;
    if (*path != '[') return flags;
    if (!strcmp(path, "[vdso]")) return flags | SONDE_MODULE_VDSO;
    if (!strcmp(path, SONDE_PYTHON_MODULE)) return flags | SONDE_MODULE_PYTHON;
    for (size_t i = 0; i < SONDE_COUNT(not_kernel); i++) {
        if (!strncmp(path, not_kernel[i], strlen(not_kernel[i]))) return flags;
    }
    return flags | SONDE_MODULE_KERNEL;
}

static int read_mapping(struct pprof_reader *r, struct sonde_pb_reader message)
{
    uint64_t v[PPROF_MAPPING_HAS_INLINES + 1] = { 0 };
    if (pprof_get_numbers(message, v, PPROF_MAPPING_HAS_INLINES)) {
        return pprof_damaged_row(r, "mapping");
    }
    struct sonde_profile_module m = { .start = v[PPROF_MAPPING_START],
                                      .end = v[PPROF_MAPPING_LIMIT],
                                      .offset = v[PPROF_MAPPING_OFFSET] };
    int rc = get_string(r, v[PPROF_MAPPING_FILE], &m.path);
    if (!rc) rc = get_string(r, v[PPROF_MAPPING_BUILD_ID], &m.build_id);
    if (rc) return rc;
    m.flags = pprof_read_module_flags(sonde_profile_str(r->p, m.path), v);
    return add_id(r, &r->mappings, "mapping", v[PPROF_MAPPING_ID], sonde_profile_module(r->p, &m));
}

static int pprof_read_function(struct pprof_reader *r, struct sonde_pb_reader message)
{
    uint64_t v[PPROF_FUNCTION_START_LINE + 1] = { 0 };
    if (pprof_get_numbers(message, v, PPROF_FUNCTION_START_LINE)) {
        return pprof_damaged_row(r, "function");
    }
    const uint64_t line = v[PPROF_FUNCTION_START_LINE];
    struct sonde_profile_function f = { .start_line = line <= UINT32_MAX ? (uint32_t)line : 0 };
    int rc = get_string(r, v[PPROF_FUNCTION_NAME], &f.name);
    if (!rc) rc = get_string(r, v[PPROF_FUNCTION_FILE], &f.file);
    if (rc) return rc;
    return add_id(r, &r->functions, "function", v[PPROF_FUNCTION_ID],
                  sonde_profile_function(r->p, &f));
}

static int pprof_read_line(struct pprof_reader *r, const struct sonde_pb_field *f, uint32_t count)
{
    uint64_t v[PPROF_LINE_LINE + 1] = { 0 };
    if (f->wire != SONDE_PB_BYTES ||
        pprof_get_numbers(sonde_pb_reader(f->data, f->len), v, PPROF_LINE_LINE)) {
        return pprof_damaged_row(r, "location");
    }
    if (count == LINES_MAX) {
        return PPROF_DAMAGED(r, "location %" PRIu64 " has more than %d lines", r->row, LINES_MAX);
    }
    if (count == r->lines_cap) {
        const uint32_t cap = count ? count * 2 : 16;
        struct sonde_profile_line *grown = sonde__realloc(r->lines, cap * sizeof(*grown));
        if (!grown) return pprof_no_room(r);
        r->lines = grown;
        r->lines_cap = cap;
    }
    const uint32_t function = pprof_find_id(&r->functions, v[PPROF_LINE_FUNCTION]);
    if (!function) {
        return PPROF_DAMAGED(r, "location %" PRIu64 ": there is no function %" PRIu64, r->row,
                             v[PPROF_LINE_FUNCTION]);
    }
    const uint64_t line = v[PPROF_LINE_LINE];
    r->lines[count] = (struct sonde_profile_line){ function,
                                                   line <= UINT32_MAX ? (uint32_t)line : 0 };
    return 0;
}

static int pprof_read_location(struct pprof_reader *r, struct sonde_pb_reader message)
{
    uint64_t v[PPROF_LOCATION_ADDRESS + 1] = { 0 };
    uint32_t count = 0, module = 0;
    struct sonde_pb_reader fields = message;
    struct sonde_pb_field f;
    if (pprof_get_numbers(message, v, PPROF_LOCATION_ADDRESS)) {
        return pprof_damaged_row(r, "location");
    }
    while (sonde_pb_next(&fields, &f) > 0) {
        if (f.number != PPROF_LOCATION_LINE) continue;
        const int rc = pprof_read_line(r, &f, count);
        if (rc) return rc;
        count++;
    }
    if (v[PPROF_LOCATION_MAPPING]) {
        module = pprof_find_id(&r->mappings, v[PPROF_LOCATION_MAPPING]);
        if (!module) {
            return PPROF_DAMAGED(r, "location %" PRIu64 ": there is no mapping %" PRIu64, r->row,
                                 v[PPROF_LOCATION_MAPPING]);
        }
    }
    return add_id(r, &r->locations, "location", v[PPROF_LOCATION_ID],
                  sonde_profile_lines_location(r->p, module, v[PPROF_LOCATION_ADDRESS], r->lines,
                                               count));
}

/* ---- Facts ----------------------------------------------------------------------------------- */

/* What follows key in a comment; NULL: it is another comment. */
static const char *comment_value(const char *comment, const char *key)
{
    const size_t n = strlen(key);
    return strncmp(comment, key, n) ? NULL : comment + n;
}

static int pprof_read_comment(struct pprof_reader *r, uint64_t index)
{
    struct pprof_text t;
    const char *value;
    char copy[4096];
    if (pprof_get_text(r, index, &t)) return SONDE_EFORMAT;
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

static int read_period_type(struct pprof_reader *r, struct sonde_pb_reader message)
{
    uint64_t v[3] = { 0 };
    struct pprof_text type, unit;
    if (pprof_get_numbers(message, v, 2)) return pprof_damaged_row(r, "period type");
    if (pprof_get_text(r, v[PPROF_TYPE_TYPE], &type) ||
        pprof_get_text(r, v[PPROF_TYPE_UNIT], &unit)) {
        return SONDE_EFORMAT;
    }
    const uint64_t scale = pprof_unit_scale("nanoseconds", unit);
    uint64_t ns;
    if (pprof_text_is(type, "cpu") && scale && r->period &&
        !__builtin_mul_overflow(r->period, scale, &ns)) {
        r->p->rate_hz = 1e9 / (double)ns;
    }
    return 0;
}

static int read_comments(struct pprof_reader *r)
{
    struct sonde_pb_reader file = sonde_pb_reader(r->data, r->len);
    struct sonde_pb_field f;
    int rc = 0;
    while (!rc && sonde_pb_next(&file, &f) > 0) {
        if (f.number != PPROF_COMMENT) continue;
        if (f.wire == SONDE_PB_VARINT) {
            rc = pprof_read_comment(r, f.value);
            continue;
        }
        struct sonde_pb_reader packed = sonde_pb_reader(f.data, f.len);
        uint64_t v;
        while (!rc && sonde_pb_next_varint(&packed, &v) > 0) rc = pprof_read_comment(r, v);
    }
    return rc;
}

static int pprof_read_all(struct pprof_reader *r)
{
    int rc = read_top(r);
    if (!rc) rc = pprof_read_each(r, PPROF_SAMPLE_TYPE, "sample type", pprof_read_type);
    if (!rc) rc = pprof_choose_columns(r);
    if (!rc) rc = pprof_read_each(r, PPROF_MAPPING, "mapping", read_mapping);
    if (!rc) rc = seal_ids(r, &r->mappings, "mapping");
    if (!rc) rc = pprof_read_each(r, PPROF_FUNCTION, "function", pprof_read_function);
    if (!rc) rc = seal_ids(r, &r->functions, "function");
    if (!rc) rc = pprof_read_each(r, PPROF_LOCATION, "location", pprof_read_location);
    if (!rc) rc = seal_ids(r, &r->locations, "location");
    if (!rc) rc = pprof_read_each(r, PPROF_SAMPLE, "sample", pprof_read_sample);
    if (!rc) rc = pprof_read_each(r, PPROF_PERIOD_TYPE, "period type", read_period_type);
    if (!rc) rc = read_comments(r);
    if (!rc && !r->p->samples_count) rc = PPROF_DAMAGED(r, "no samples in the file");
    return rc;
}

int sonde_pprof_read(const char *data, size_t len, struct sonde_import *how,
                     struct sonde_profile *p, struct sonde_err *err)
{
    (void)how;
    struct sonde_buf unpacked;
    struct pprof_reader r = { .p = p, .err = err, .data = data, .len = len };
    int rc = 0;
    sonde_buf_init(&unpacked, SONDE_FORMAT_UNPACKED_MAX);
    if (sonde_gz_is(data, len)) {
        rc = sonde_format_unpack(data, len, &unpacked, err);
        r.data = unpacked.data;
        r.len = unpacked.len;
    }
    if (!rc) rc = pprof_read_all(&r);
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
