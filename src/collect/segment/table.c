/* table.c - families, names and series of a segment, as they are added.
 *
 * A descriptor and its text are copied first and checked in the copy, so that what was checked
 * is what is used, even if somebody writes to the file at that moment. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/utf8.h"
#include "collect/segment/private.h"

#define TEXT_MAX 65536u  /* of one string; a writer cuts help at 1000 */

static int segment_table_damaged(struct sonde_err *err, const char *what, uint32_t id,
                                 const char *how)
{
    return sonde_err_set(err, SONDE_EFORMAT, "damaged: %s %" PRIu32 " %s", what, id, how);
}

static int segment_table_str_inside(struct sonde__str s, uint64_t strings)
{
    return s.len == 0 || (s.len <= TEXT_MAX && s.off <= strings && s.len <= strings - s.off);
}

static int name_valid(const char *s, size_t len)
{
    if (len == 0 || len > SONDE_NAME_MAX || (s[0] >= '0' && s[0] <= '9')) return 0;
    for (size_t i = 0; i < len; i++) {
        char c = s[i];
        if (c != '_' && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
            !(c >= 'A' && c <= 'Z')) {
            return 0;
        }
    }
    return 1;
}

/* le and quantile would make lines that mean something else; __ is Prometheus' own. */
static int label_valid(const char *s)
{
    return name_valid(s, strlen(s)) && strncmp(s, "__", 2) != 0 && strcmp(s, "le") != 0 &&
           strcmp(s, "quantile") != 0;
}

/* Copy count packed strings (u16 length, bytes) to *at, each with a NUL. They must be text and
 * fill len exactly. */
static int segment_table_unpack(const char *packed, size_t len, uint32_t count, char **at,
                                const char **out)
{
    const char *end = packed + len;
    for (uint32_t i = 0; i < count; i++) {
        uint16_t n;
        if (end - packed < 2) return SONDE_EFORMAT;
        memcpy(&n, packed, sizeof(n));
        packed += 2;
        if (end - packed < n || !sonde__utf8_valid(packed, n)) return SONDE_EFORMAT;
        out[i] = memcpy(*at, packed, n);
        (*at)[n] = '\0';
        *at += (size_t)n + 1;
        packed += n;
    }
    return packed == end ? 0 : SONDE_EFORMAT;
}

/* ---- Families ----------------------------------------------------------------------------- */

static int family_fields_check(const struct sonde__family *f, uint32_t id, uint64_t strings,
                               struct sonde_err *err)
{
    if (!segment_table_str_inside(f->name, strings) ||
        !segment_table_str_inside(f->help, strings) ||
        !segment_table_str_inside(f->unit, strings) ||
        !segment_table_str_inside(f->source, strings) ||
        !segment_table_str_inside(f->labels, strings) ||
        !segment_table_str_inside(f->tags, strings)) {
        return segment_table_damaged(err, "family", id, "has text outside the string area");
    }
    if (f->type < SONDE_COUNTER || f->type > SONDE__TYPE_NAME) {
        return segment_table_damaged(err, "family", id, "is of no known type");
    }
    if (f->label_count > SONDE_LABELS_MAX || f->tag_count > SONDE_LABELS_MAX) {
        return segment_table_damaged(err, "family", id, "has too many labels");
    }
    if (!isfinite(f->scale) || f->scale < 0) {
        return segment_table_damaged(err, "family", id, "has an impossible scale");
    }
    return 0;
}

/* One string of f, copied behind *at. */
static const char *text_copy(const char *strings, struct sonde__str s, char **at)
{
    char *text = *at;
    if (s.len) memcpy(text, strings + s.off, s.len);
    text[s.len] = '\0';
    *at += s.len + 1;
    return sonde__utf8_valid(text, s.len) ? text : NULL;
}

static int label_known(const struct segment_family *f, const char *name)
{
    for (uint32_t i = 0; i < f->label_count; i++) {
        if (strcmp(f->label[i], name) == 0) return 1;
    }
    for (uint32_t i = 0; i < f->tag_count; i++) {
        if (strcmp(f->tag[i].name, name) == 0) return 1;
    }
    return 0;
}

static int family_labels(const struct sonde__family *raw, const char *strings, char **at,
                         struct segment_family *f, uint32_t id, struct sonde_err *err)
{
    const char *names[SONDE_LABELS_MAX], *tags[2 * SONDE_LABELS_MAX];
    char *packed = *at;  /* checked as it lies here, not in the file */
    size_t bytes = (size_t)raw->labels.len + raw->tags.len;
    if (raw->labels.len) memcpy(packed, strings + raw->labels.off, raw->labels.len);
    if (raw->tags.len) memcpy(packed + raw->labels.len, strings + raw->tags.off, raw->tags.len);
    *at += bytes;
    if (segment_table_unpack(packed, raw->labels.len, raw->label_count, at, names) != 0 ||
        segment_table_unpack(packed + raw->labels.len, raw->tags.len, 2 * raw->tag_count, at,
                             tags) != 0) {
        return segment_table_damaged(err, "family", id, "has labels that are not well-formed");
    }
    for (uint32_t i = 0; i < raw->label_count; i++) {
        if (!label_valid(names[i]) || label_known(f, names[i])) {
            return segment_table_damaged(err, "family", id, "has a label with an invalid name");
        }
        f->label[f->label_count++] = names[i];
    }
    for (uint32_t i = 0; i < raw->tag_count; i++) {
        if (!label_valid(tags[2 * i])) {
            return segment_table_damaged(err, "family", id, "has a tag with an invalid name");
        }
        if (label_known(f, tags[2 * i])) continue; /* the label of that name says more */
        f->tag[f->tag_count++] = (struct sonde_label){ tags[2 * i], tags[2 * i + 1] };
    }
    return 0;
}

static int family_read(struct sonde_segment *s, uint32_t id, uint64_t string_bytes,
                       struct segment_family *f, struct sonde_err *err)
{
    const char *strings = s->map.base + s->h.string_off;
    struct sonde__family raw;
    memcpy(&raw, s->map.base + s->h.family_off + (uint64_t)id * sizeof(raw), sizeof(raw));
    int rc = family_fields_check(&raw, id, string_bytes, err);
    if (rc != 0) return rc;
    if (raw.check != sonde__family_check(&raw, strings)) {
        return segment_table_damaged(err, "family", id, "has a wrong check sum");
    }
    memset(f, 0, sizeof(*f));
    size_t labels = (size_t)raw.labels.len + raw.tags.len;
    f->text = sonde__alloc((size_t)raw.name.len + raw.help.len + raw.unit.len + raw.source.len +
                           4 + 2 * labels + 3 * SONDE_LABELS_MAX);
    if (!f->text) return sonde_err_set(err, SONDE_ENOMEM, "no memory to read it");
    char *at = f->text;
    f->name = text_copy(strings, raw.name, &at);
    f->help = text_copy(strings, raw.help, &at);
    f->unit = text_copy(strings, raw.unit, &at);
    f->source = text_copy(strings, raw.source, &at);
    f->type = raw.type;
    f->kind = raw.kind > SONDE_KIND_PERCENTAGE ? SONDE_KIND_CUSTOM : raw.kind;
    f->scale = raw.scale > 0 ? raw.scale : 1;
    if (!f->name || !f->help || !f->unit || !f->source) {
        rc = segment_table_damaged(err, "family", id, "has text that is not UTF-8");
    } else if (raw.type == SONDE__TYPE_NAME ? raw.name.len == 0 || raw.name.len > SONDE_NAME_MAX
                                            : !name_valid(f->name, raw.name.len)) {
        rc = segment_table_damaged(err, "family", id, "has an invalid name");
    } else {
        rc = family_labels(&raw, strings, &at, f, id, err);
    }
    if (rc != 0) sonde__free(f->text);
    return rc;
}

/* ---- Series ------------------------------------------------------------------------------- */

/* Tags, then own labels; an overflow series has overflow="true" in their place. */
static int series_labels(const struct segment_family *f, const struct sonde__series *raw,
                         const char *packed, char *text, struct sonde_label *labels)
{
    int count = 0;
    for (uint32_t i = 0; i < f->tag_count; i++) labels[count++] = f->tag[i];
    if (raw->flags & SONDE__SERIES_OVERFLOW) {
        labels[count++] = (struct sonde_label){ "overflow", "true" };
        return count;
    }
    const char *values[SONDE_LABELS_MAX];
    if (segment_table_unpack(packed, raw->values.len, f->label_count, &text, values) != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < f->label_count; i++) {
        labels[count++] = (struct sonde_label){ f->label[i], values[i] };
    }
    return count;
}

static void series_add(struct sonde_segment *s, struct sonde_model *m,
                       struct sonde_model_process *p, const struct sonde__series *raw,
                       const struct sonde_label *labels, int count, struct segment_series *out)
{
    const struct segment_family *f = &s->family[raw->family];
    struct sonde_model_family_spec spec = {
        .name = f->name, .help = f->help, .unit = f->unit, .source = f->source,
        .type = (enum sonde_type)f->type, .kind = (enum sonde_kind)f->kind, .scale = f->scale,
    };
    *out = (struct segment_series){ .family = raw->family, .type = f->type };
    struct sonde_model_family *family = sonde_model_family(m, &spec);
    if (!family) return;
    out->model = sonde_model_series(m, family, p, labels, (size_t)count);
    if (!out->model) return;
    double created_s = (double)raw->created_ns * 1e-9;
    if (created_s > 0 && created_s < out->model->created_s) out->model->created_s = created_s;
    if (s->fresh || s->tables_read || created_s > m->now_s) out->model->from_zero = 1;
}

static int segment_table_series_read(struct sonde_segment *s, struct sonde_model *m,
                                     struct sonde_model_process *p, uint32_t id,
                                     uint64_t string_bytes, struct sonde_err *err)
{
    enum { VALUES_MAX = SONDE_LABELS_MAX * (2 + SONDE_LABEL_VALUE_MAX) };
    const char *strings = s->map.base + s->h.string_off;
    struct sonde__series raw;
    char packed[VALUES_MAX], text[VALUES_MAX];
    struct sonde_label labels[2 * SONDE_LABELS_MAX + 1];
    memcpy(&raw, s->map.base + s->h.series_off + (uint64_t)id * sizeof(raw), sizeof(raw));
    if (!segment_table_str_inside(raw.values, string_bytes) || raw.values.len > VALUES_MAX) {
        return segment_table_damaged(err, "series", id, "has text outside the string area");
    }
    if (raw.check != sonde__series_check(&raw, strings)) {
        return segment_table_damaged(err, "series", id, "has a wrong check sum");
    }
    if (raw.family == 0 || raw.family >= s->family_count ||
        s->family[raw.family].type == SONDE__TYPE_NAME) {
        return segment_table_damaged(err, "series", id, "belongs to no family");
    }
    if (raw.values.len) memcpy(packed, strings + raw.values.off, raw.values.len);
    int count = series_labels(&s->family[raw.family], &raw, packed, text, labels);
    if (count < 0) {
        return segment_table_damaged(err, "series", id,
                                     "has label values that are not well-formed");
    }
    series_add(s, m, p, &raw, labels, count, &s->series[id]);
    return 0;
}

int segment_tables_read(struct sonde_segment *s, struct sonde_model *m,
                        struct sonde_model_process *p, struct sonde_err *err)
{
    assert(s->family_count > 0 && s->series_count > 0); /* 0 is "none" */
    struct segment_counts c;
    int rc = segment_counts_load(s, &c, err);
    if (rc != 0) return rc;
    /* Sum has one for each series, as long as it grows with them. */
    uint32_t sum_cap = s->series_cap;
    if (SONDE_ARRAY_RESERVE(s->family, s->family_cap, c.families) ||
        SONDE_ARRAY_RESERVE(s->sum, sum_cap, c.series) ||
        SONDE_ARRAY_RESERVE(s->series, s->series_cap, c.series)) {
        return sonde_err_set(err, SONDE_ENOMEM, "no memory to read it");
    }
    for (; s->family_count < c.families; s->family_count++) {
        uint32_t id = s->family_count;
        rc = family_read(s, id, c.strings, &s->family[id], err);
        if (rc != 0) return rc;
    }
    for (; s->series_count < c.series; s->series_count++) {
        rc = segment_table_series_read(s, m, p, s->series_count, c.strings, err);
        if (rc != 0) return rc;
    }
    s->tables_read = 1;
    return 0;
}

void segment_tables_free(struct sonde_segment *s)
{
    for (uint32_t i = 1; s->family && i < s->family_count; i++) sonde__free(s->family[i].text);
    for (uint32_t i = 1; s->series && i < s->series_count; i++) {
        segment_hist_free(s->series[i].hist);
    }
    sonde__free(s->family);
    sonde__free(s->series);
}
