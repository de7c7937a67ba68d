/* pprof_write.c - see pprof.c. Tables are written in order of first use, a row just before what
 * refers to it, so equal profiles become equal files. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/gz.h"
#include "base/path.h"
#include "base/pb.h"
#include "base/utf8.h"
#include "profile/formats/pprof.h"
#include "profile/tree/frame.h"
#include "profile/heap.h"
#include "sonde/sonde.h"

enum { LEVEL = 3 };
#define STRINGS_MAX ((size_t)1 << 30)

/* Samples of the same kind, stack, thread and span, summed. */
struct pprof_write_row {
    uint32_t stack, thread, span; /* span: string, "" = none */
    uint16_t truncated, column;   /* column: of w->kinds */
    uint64_t count, weight;
};

enum { KINDS_MAX = 5 }; /* of memory */

struct pprof_writer {
    const struct sonde_profile *p;
    struct sonde_buf body, message, inner;
    enum sonde_sample_kind kinds[KINDS_MAX]; /* each has two values of a sample */
    uint32_t kind_count;
    struct sonde_strings strings;    /* the file's string table */
    struct sonde_map functions;   /* those written, by what is written of them */
    uint32_t *mapping_of;            /* module -> id in the file; 0 = not written yet */
    uint32_t *location_of, *function_of;
    uint32_t mappings, locations, written_functions; /* how many are written */
    uint32_t *function_row;          /* id in the file -> function */
    uint32_t truncated;              /* location of "[truncated]"; 0 = not written yet */
    struct pprof_write_row *rows;
    uint32_t row_count, row_cap;
    struct sonde_map row_index;
    uint64_t *path;                  /* locations of a stack */
    size_t path_cap;
    size_t bytes;
};

static struct sonde_budget pprof_write_budget(struct pprof_writer *w)
{
    return (struct sonde_budget){ .used = &w->bytes, .max = STRINGS_MAX };
}

static void pprof_write_fail(struct pprof_writer *w)
{
    if (!w->body.error) w->body.error = SONDE_ENOMEM;
}

/* ---- Strings --------------------------------------------------------------------------------- */

static uint64_t string_len(struct pprof_writer *w, const char *s, size_t len)
{
    const struct sonde_budget b = pprof_write_budget(w);
    uint32_t id;
    if (sonde__utf8_valid(s, len)) {
        id = sonde_strings_add(&w->strings, s, len, &b);
    } else {
        int changed = 0;
        char *clean = sonde__alloc(len * 3 + 1); /* a byte becomes three at most */
        const size_t n = clean ? sonde__utf8_copy(clean, len * 3, s, len, &changed) : 0;
        id = clean ? sonde_strings_add(&w->strings, clean, n, &b) : 0;
        sonde__free(clean);
    }
    if (len && !id) pprof_write_fail(w);
    return id;
}

static uint64_t pprof_write_string(struct pprof_writer *w, const char *s)
{
    return string_len(w, s, strlen(s));
}

static uint64_t string_of(struct pprof_writer *w, uint32_t id)
{
    return pprof_write_string(w, sonde_profile_str(w->p, id));
}

static void pprof_write_put_nonzero(struct sonde_buf *b, uint32_t field, uint64_t v)
{
    if (v) sonde_pb_uint(b, field, v);
}

/* Append w->message as a field of the profile. */
static void pprof_write_put_message(struct pprof_writer *w, uint32_t field)
{
    sonde_pb_message(&w->body, field, &w->message);
    sonde_buf_reset(&w->message);
}

/* ---- Mappings, functions, locations ---------------------------------------------------------- */

static uint32_t pprof_write_mapping(struct pprof_writer *w, uint32_t module)
{
    if (!module || w->mapping_of[module]) return w->mapping_of[module];
    const struct sonde_profile_module *m = &w->p->modules[module];
    const int named = !(m->flags & SONDE_MODULE_STRIPPED);
    const int lines = named && !(m->flags & SONDE_MODULE_NO_LINES);
    w->mapping_of[module] = ++w->mappings;
    sonde_pb_uint(&w->message, PPROF_MAPPING_ID, w->mappings);
    pprof_write_put_nonzero(&w->message, PPROF_MAPPING_START, m->start);
    pprof_write_put_nonzero(&w->message, PPROF_MAPPING_LIMIT, m->end);
    pprof_write_put_nonzero(&w->message, PPROF_MAPPING_OFFSET, m->offset);
    pprof_write_put_nonzero(&w->message, PPROF_MAPPING_FILE, string_of(w, m->path));
    pprof_write_put_nonzero(&w->message, PPROF_MAPPING_BUILD_ID, string_of(w, m->build_id));
    pprof_write_put_nonzero(&w->message, PPROF_MAPPING_HAS_FUNCTIONS, (uint64_t)named);
    pprof_write_put_nonzero(&w->message, PPROF_MAPPING_HAS_FILENAMES, (uint64_t)lines);
    pprof_write_put_nonzero(&w->message, PPROF_MAPPING_HAS_LINES, (uint64_t)lines);
    pprof_write_put_nonzero(&w->message, PPROF_MAPPING_HAS_INLINES, (uint64_t)lines);
    pprof_write_put_message(w, PPROF_MAPPING);
    return w->mapping_of[module];
}

/* A function's row in the file. The file has no module there, so some rows are the same. */
static uint32_t pprof_write_function(struct pprof_writer *w, uint32_t id)
{
    if (w->function_of[id]) return w->function_of[id];
    const struct sonde_profile_function *f = &w->p->functions[id];
    const uint32_t hash = sonde_hash_end(
        sonde_hash_mix((uint64_t)f->name << 32 | f->file, f->start_line));
    uint32_t at = hash, known;
    while ((known = sonde_map_next(&w->functions, hash, &at))) {
        const struct sonde_profile_function *o = &w->p->functions[w->function_row[known]];
        if (o->name == f->name && o->file == f->file && o->start_line == f->start_line) {
            return w->function_of[id] = known;
        }
    }
    const struct sonde_budget b = pprof_write_budget(w);
    if (sonde_intern_reserve(&w->functions, &b)) {
        pprof_write_fail(w);
        return 0;
    }
    const uint32_t number = ++w->written_functions;
    sonde_map_put(&w->functions, hash, number);
    w->function_row[number] = id;
    sonde_pb_uint(&w->message, PPROF_FUNCTION_ID, number);
    pprof_write_put_nonzero(&w->message, PPROF_FUNCTION_NAME, string_of(w, f->name));
    pprof_write_put_nonzero(&w->message, PPROF_FUNCTION_FILE, string_of(w, f->file));
    pprof_write_put_nonzero(&w->message, PPROF_FUNCTION_START_LINE, f->start_line);
    pprof_write_put_message(w, PPROF_FUNCTION);
    return w->function_of[id] = number;
}

static void pprof_write_put_line(struct pprof_writer *w, uint64_t function_id, uint32_t line)
{
    sonde_pb_uint(&w->inner, PPROF_LINE_FUNCTION, function_id);
    pprof_write_put_nonzero(&w->inner, PPROF_LINE_LINE, line);
    sonde_pb_message(&w->message, PPROF_LOCATION_LINE, &w->inner);
    sonde_buf_reset(&w->inner);
}

static uint32_t pprof_write_location(struct pprof_writer *w, uint32_t id)
{
    if (w->location_of[id]) return w->location_of[id];
    const struct sonde_profile_location *l = &w->p->locations[id];
    const struct sonde_profile_line *lines = l->line_count ? &w->p->lines[l->line] : NULL;
    const uint32_t mapping_id = pprof_write_mapping(w, l->module);
    for (uint32_t i = 0; i < l->line_count; i++) pprof_write_function(w, lines[i].function);
    w->location_of[id] = ++w->locations;
    sonde_pb_uint(&w->message, PPROF_LOCATION_ID, w->locations);
    pprof_write_put_nonzero(&w->message, PPROF_LOCATION_MAPPING, mapping_id);
    pprof_write_put_nonzero(&w->message, PPROF_LOCATION_ADDRESS, l->address);
    for (uint32_t i = 0; i < l->line_count; i++) {
        pprof_write_put_line(w, pprof_write_function(w, lines[i].function), lines[i].line);
    }
    pprof_write_put_message(w, PPROF_LOCATION);
    return w->location_of[id];
}

/* A frame of its own at the start of stacks that do not reach it. */
static uint32_t truncated_location(struct pprof_writer *w)
{
    if (w->truncated) return w->truncated;
    const uint32_t number = ++w->written_functions;
    sonde_pb_uint(&w->message, PPROF_FUNCTION_ID, number);
    sonde_pb_uint(&w->message, PPROF_FUNCTION_NAME, pprof_write_string(w, SONDE_TRUNCATED_NAME));
    pprof_write_put_message(w, PPROF_FUNCTION);
    w->truncated = ++w->locations;
    sonde_pb_uint(&w->message, PPROF_LOCATION_ID, w->truncated);
    pprof_write_put_line(w, number, 0);
    pprof_write_put_message(w, PPROF_LOCATION);
    return w->truncated;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static int pprof_write_add_row(struct pprof_writer *w, const struct sonde_profile_sample *s,
                               uint32_t span, uint32_t column)
{
    const struct pprof_write_row key = { .stack = s->stack, .thread = s->thread, .span = span,
                                         .truncated = s->flags & SONDE_SAMPLE_TRUNCATED,
                                         .column = (uint16_t)column };
    const uint32_t hash = sonde_hash_end(
        sonde_hash_mix((uint64_t)key.stack << 32 | key.thread,
                       (uint64_t)key.span << 32 | column << 16 | key.truncated));
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&w->row_index, hash, &at))) {
        struct pprof_write_row *r = &w->rows[id - 1];
        if (r->stack != key.stack || r->thread != key.thread || r->span != key.span ||
            r->truncated != key.truncated || r->column != key.column) {
            continue;
        }
        r->count += s->count;
        r->weight += s->weight;
        return 0;
    }
    const struct sonde_budget b = pprof_write_budget(w);
    if (sonde_intern_reserve(&w->row_index, &b)) return SONDE_ENOMEM;
    struct pprof_write_row *rows =
        sonde_table_grow(w->rows, w->row_count, &w->row_cap, sizeof(*rows), &b);
    if (!rows) return SONDE_ENOMEM;
    w->rows = rows;
    w->rows[w->row_count] = key;
    w->rows[w->row_count].count = s->count;
    w->rows[w->row_count].weight = s->weight;
    sonde_map_put(&w->row_index, hash, ++w->row_count);
    return 0;
}

static int pprof_write_collect_rows(struct pprof_writer *w, const struct sonde_profile_match *m,
                                    uint32_t column)
{
    uint32_t *span_of;
    if (sonde_profile_innermost_spans(w->p, &span_of, NULL)) return SONDE_ENOMEM;
    int rc = 0;
    for (uint32_t i = 0; i < w->p->samples_count && !rc; i++) {
        if (!sonde_profile_matches(m, i)) continue;
        const uint32_t span = span_of[i] ? w->p->spans[span_of[i] - 1].name : 0;
        rc = pprof_write_add_row(w, &w->p->samples[i], span, column);
    }
    sonde__free(span_of);
    return rc;
}

static void pprof_write_put_label(struct pprof_writer *w, const char *key, const char *text,
                                  uint64_t number)
{
    sonde_pb_uint(&w->inner, PPROF_LABEL_KEY, pprof_write_string(w, key));
    if (text) sonde_pb_uint(&w->inner, PPROF_LABEL_STR, pprof_write_string(w, text));
    else sonde_pb_uint(&w->inner, PPROF_LABEL_NUM, number);
    sonde_pb_message(&w->message, PPROF_SAMPLE_LABEL, &w->inner);
    sonde_buf_reset(&w->inner);
}

static void pprof_write_put_labels(struct pprof_writer *w, const struct pprof_write_row *r)
{
    const struct sonde_profile_thread *t = &w->p->threads[r->thread];
    const char *name = sonde_profile_str(w->p, t->name);
    if (*name) pprof_write_put_label(w, "thread", name, 0);
    if (t->tid) pprof_write_put_label(w, "tid", NULL, t->tid);
    if (t->pid) pprof_write_put_label(w, "pid", NULL, t->pid);
    if (r->span) pprof_write_put_label(w, "span", sonde_profile_str(w->p, r->span), 0);
}

/* The locations of a row, the leaf first. Returns how many; 0 = no memory. */
static size_t row_path(struct pprof_writer *w, const struct pprof_write_row *r)
{
    size_t depth = 1;
    for (uint32_t at = r->stack; at; at = w->p->stacks[at].parent) depth++;
    if (depth > w->path_cap) {
        uint64_t *grown = sonde__realloc(w->path, depth * 2 * sizeof(*grown));
        if (!grown) return 0;
        w->path = grown;
        w->path_cap = depth * 2;
    }
    size_t n = 0;
    for (uint32_t at = r->stack; at; at = w->p->stacks[at].parent) {
        w->path[n++] = pprof_write_location(w, w->p->stacks[at].location);
    }
    if (r->truncated) w->path[n++] = truncated_location(w);
    return n;
}

static void pprof_write_put_rows(struct pprof_writer *w)
{
    for (uint32_t i = 0; i < w->row_count && !w->body.error; i++) {
        const struct pprof_write_row *r = &w->rows[i];
        uint64_t values[2 * KINDS_MAX] = { 0 };
        values[2 * r->column] = r->count;
        values[2 * r->column + 1] = r->weight;
        const size_t depth = row_path(w, r);
        if (!depth) pprof_write_fail(w);
        sonde_pb_packed_uint(&w->message, PPROF_SAMPLE_LOCATION, w->path, depth);
        sonde_pb_packed_uint(&w->message, PPROF_SAMPLE_VALUE, values, 2 * (size_t)w->kind_count);
        pprof_write_put_labels(w, r);
        pprof_write_put_message(w, PPROF_SAMPLE);
    }
}

/* ---- The profile ----------------------------------------------------------------------------- */

static void put_value_type(struct pprof_writer *w, uint32_t field, const char *type,
                           const char *unit)
{
    sonde_pb_uint(&w->message, PPROF_TYPE_TYPE, pprof_write_string(w, type));
    sonde_pb_uint(&w->message, PPROF_TYPE_UNIT, pprof_write_string(w, unit));
    pprof_write_put_message(w, field);
}

/* The first mapping is the one pprof takes for the program's. */
static void put_main_mapping(struct pprof_writer *w)
{
    const char *program = sonde_path_base(sonde_profile_str(w->p, w->p->program));
    for (uint32_t i = 1; *program && i < w->p->modules_count; i++) {
        if (!strcmp(sonde_path_base(sonde_profile_str(w->p, w->p->modules[i].path)),
                    program)) {
            pprof_write_mapping(w, i);
            return;
        }
    }
}

static void put_comment(struct pprof_writer *w, const char *key, const char *text)
{
    struct sonde_buf b;
    sonde_buf_init(&b, (size_t)1 << 20);
    sonde_buf_puts(&b, key);
    sonde_buf_puts(&b, text);
    if (b.error) pprof_write_fail(w);
    else sonde_pb_uint(&w->body, PPROF_COMMENT, string_len(w, b.data, b.len));
    sonde_buf_release(&b);
}

static void put_comment_number(struct pprof_writer *w, const char *key, double v)
{
    struct sonde_buf b;
    if (!(v > 0)) return;
    sonde_buf_init(&b, 32);
    sonde_buf_double(&b, v);
    if (b.error) pprof_write_fail(w);
    else put_comment(w, key, b.data);
    sonde_buf_release(&b);
}

static void pprof_write_put_facts(struct pprof_writer *w, enum sonde_sample_kind kind)
{
    const struct sonde_profile *p = w->p;
    const char *program = sonde_profile_str(p, p->program);
    pprof_write_put_nonzero(&w->body, PPROF_TIME_NANOS, p->start_ns);
    if (p->end_ns > p->start_ns) {
        sonde_pb_uint(&w->body, PPROF_DURATION_NANOS, p->end_ns - p->start_ns);
    }
    if (kind == SONDE_SAMPLE_CPU && p->rate_hz > 0) {
        put_value_type(w, PPROF_PERIOD_TYPE, "cpu", "nanoseconds");
        sonde_pb_uint(&w->body, PPROF_PERIOD, (uint64_t)(1e9 / p->rate_hz + 0.5));
    } else if (w->kind_count > 1) {
        put_value_type(w, PPROF_PERIOD_TYPE, "space", "bytes");
        sonde_pb_uint(&w->body, PPROF_PERIOD, p->heap && !p->heap->full ? p->heap->mean : 1);
    }
    if (*program) put_comment(w, PPROF_COMMENT_PROGRAM, program);
    put_comment_number(w, PPROF_COMMENT_ACHIEVED, p->achieved_hz);
    put_comment_number(w, PPROF_COMMENT_LOST, (double)p->lost_records);
    put_comment_number(w, PPROF_COMMENT_DROPPED, (double)p->dropped_samples);
    sonde_pb_uint(&w->body, PPROF_DEFAULT_SAMPLE_TYPE,
                  pprof_write_string(w, sonde_pprof_kinds[kind].weight));
}

static int writer_init(struct pprof_writer *w, size_t max)
{
    const struct sonde_profile *p = w->p;
    const struct sonde_budget b = pprof_write_budget(w);
    sonde_buf_init(&w->body, max);
    sonde_buf_init(&w->message, max);
    sonde_buf_init(&w->inner, 256);
    w->mapping_of = sonde__calloc(p->modules_count, sizeof(*w->mapping_of));
    w->location_of = sonde__calloc(p->locations_count, sizeof(*w->location_of));
    w->function_of = sonde__calloc(p->functions_count, sizeof(*w->function_of));
    w->function_row = sonde__calloc((size_t)p->functions_count + 1, sizeof(*w->function_row));
    if (!w->mapping_of || !w->location_of || !w->function_of || !w->function_row) {
        return SONDE_ENOMEM;
    }
    return sonde_strings_init(&w->strings, &b);
}

static void pprof_write_writer_release(struct pprof_writer *w)
{
    sonde_buf_release(&w->body);
    sonde_buf_release(&w->message);
    sonde_buf_release(&w->inner);
    sonde_strings_release(&w->strings);
    sonde_map_release(&w->functions);
    sonde_map_release(&w->row_index);
    sonde__free(w->mapping_of);
    sonde__free(w->location_of);
    sonde__free(w->function_of);
    sonde__free(w->function_row);
    sonde__free(w->rows);
    sonde__free(w->path);
}

/* main: the kind that is shown unless another is asked for. */
static int pprof_write_put_profile(struct pprof_writer *w, enum sonde_sample_kind main)
{
    for (uint32_t i = 0; i < w->kind_count; i++) {
        const struct pprof_kind *names = &sonde_pprof_kinds[w->kinds[i]];
        put_value_type(w, PPROF_SAMPLE_TYPE, names->count, "count");
        put_value_type(w, PPROF_SAMPLE_TYPE, names->weight, names->unit);
    }
    put_main_mapping(w);
    pprof_write_put_rows(w);
    pprof_write_put_facts(w, main);
    for (uint32_t i = 0; i < w->strings.count; i++) {
        sonde_pb_str(&w->body, PPROF_STRING, w->strings.strings[i], w->strings.lengths[i]);
    }
    return w->body.error;
}

static int pprof_write_finish(struct pprof_writer *w, int rc, enum sonde_sample_kind main,
                              struct sonde_buf *out, struct sonde_err *err)
{
    if (!rc) rc = pprof_write_put_profile(w, main);
    if (!rc) rc = sonde_gz_pack(w->body.data, w->body.len, LEVEL, out);
    pprof_write_writer_release(w);
    return rc ? sonde_err_set(err, rc, "no memory for the pprof file") : 0;
}

int sonde_pprof_write(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                      struct sonde_buf *out, struct sonde_err *err)
{
    struct sonde_profile_match *m;
    int rc = sonde_profile_match_some(p, f, &m, err);
    if (rc) return rc;
    struct pprof_writer w = { .p = p, .kind_count = 1,
                              .kinds = { (enum sonde_sample_kind)sonde_profile_match_kind(m) } };
    rc = writer_init(&w, out->max);
    if (!rc) rc = pprof_write_collect_rows(&w, m, 0);
    sonde_profile_match_destroy(m);
    return pprof_write_finish(&w, rc, w.kinds[0], out, err);
}

int sonde_pprof_write_heap(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                           struct sonde_buf *out, struct sonde_err *err)
{
    static const enum sonde_sample_kind kinds[KINDS_MAX] = {
        SONDE_SAMPLE_ALLOC, SONDE_SAMPLE_LIVE, SONDE_SAMPLE_PEAK, SONDE_SAMPLE_LEAKED,
        SONDE_SAMPLE_TEMPORARY };
    const uint32_t always = 2; /* those that Go has */
    struct pprof_writer w = { .p = p };
    struct sonde_profile_filter one = *f;
    int rc = writer_init(&w, out->max);
    for (uint32_t i = 0; !rc && i < KINDS_MAX; i++) {
        struct sonde_profile_match *m;
        one.kind = (int)kinds[i];
        rc = sonde_profile_match_create(p, &one, &m, err);
        if (rc == SONDE_EINVAL) {
            pprof_write_writer_release(&w);
            return rc;
        }
        if (rc) break;
        if (i < always || sonde_profile_match_count(m)) {
            w.kinds[w.kind_count++] = kinds[i];
            rc = pprof_write_collect_rows(&w, m, w.kind_count - 1);
        }
        sonde_profile_match_destroy(m);
    }
    one.kind = SONDE_SAMPLE_LIVE;
    if (!rc && !w.row_count && !p->heap) {
        pprof_write_writer_release(&w);
        return sonde_profile_match_none(p, &one, err);
    }
    return pprof_write_finish(&w, rc, SONDE_SAMPLE_LIVE, out, err);
}
