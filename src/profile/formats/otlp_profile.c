/* otlp_profile.c - OTLP's profiles (v1development), as opentelemetry-proto 1.9 has them. The layout
 * is not stable yet: 1.8 and before number the fields of Sample and Profile otherwise.
 *
 * Its dictionary is what our tables are: rows named by index, the first of each being none. So
 * strings, modules, functions and locations go out under their own ids. A stack is a list there and
 * a node of a tree here: one row for each that has samples. Samples of one stack, thread and span
 * are added up; the span is a link, the thread is attributes. */
#include "profile/formats/otlp_profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/path.h"
#include "base/pb.h"
#include "base/utf8.h"
#include "profile/formats/pprof.h"
#include "profile/tree/frame.h"
#include "sonde/sonde.h"

enum { REQUEST_RESOURCE = 1, REQUEST_DICTIONARY = 2, RESOURCE_RESOURCE = 1, RESOURCE_SCOPE = 2,
       SCOPE_SCOPE = 1, SCOPE_PROFILE = 2, SCOPE_NAME = 1, SCOPE_VERSION = 2 };
enum { TABLE_MAPPING = 1, TABLE_LOCATION = 2, TABLE_FUNCTION = 3, TABLE_LINK = 4, TABLE_STRING = 5,
       TABLE_ATTRIBUTE = 6, TABLE_STACK = 7 };
enum { PROFILE_TYPE = 1, PROFILE_SAMPLE = 2, PROFILE_TIME = 3, PROFILE_DURATION = 4,
       PROFILE_PERIOD_TYPE = 5, PROFILE_PERIOD = 6, PROFILE_ID = 7 };
enum { TYPE_TYPE = 1, TYPE_UNIT = 2 };
enum { SAMPLE_STACK = 1, SAMPLE_ATTRIBUTE = 2, SAMPLE_LINK = 3, SAMPLE_VALUE = 4 };
enum { MAPPING_START = 1, MAPPING_LIMIT = 2, MAPPING_OFFSET = 3, MAPPING_FILE = 4,
       MAPPING_ATTRIBUTE = 5 };
enum { LOCATION_MAPPING = 1, LOCATION_ADDRESS = 2, LOCATION_LINE = 3, LINE_FUNCTION = 1,
       LINE_LINE = 2 };
enum { FUNCTION_NAME = 1, FUNCTION_FILE = 3, FUNCTION_START_LINE = 4 };
enum { LINK_TRACE = 1, LINK_SPAN = 2, STACK_LOCATION = 1 };
enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_VALUE = 2, ANY_STRING = 1, ANY_INT = 3 };
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2, RESOURCE_ATTRIBUTE = 1 };

/* Strings of ours, after those of the profile. */
static const char *const words[] = { "nanoseconds", "cpu", "thread.name", "thread.id",
                                     "process.executable.build_id.gnu", SONDE_TRUNCATED_NAME };
enum { W_NANOSECONDS, W_CPU, W_THREAD_NAME, W_THREAD_ID, W_BUILD_ID, W_TRUNCATED, W_TYPE, W_UNIT };

struct otlp_profile_row {
    uint32_t stack, thread, link, truncated; /* link: span + 1 */
    uint64_t weight;
};

struct otlp_profile_writer {
    const struct sonde_profile *p;
    enum sonde_sample_kind kind;
    struct sonde_buf dictionary, profile, message, inner;
    struct otlp_profile_row *rows;
    size_t row_count;
    uint32_t *attribute_of;      /* thread -> its first attribute, or 0; a second one follows if it
                                    has a name and a tid */
    uint32_t *build_id_of;       /* module -> attribute */
    uint64_t *path;
    size_t path_cap;
};

static uint64_t otlp_profile_word(const struct otlp_profile_writer *w, uint32_t which)
{
    return w->p->strings_count + which;
}

static void otlp_profile_put_nonzero(struct sonde_buf *b, uint32_t field, uint64_t v)
{
    if (v) sonde_pb_uint(b, field, v);
}

/* w->message as a row of a table. */
static void otlp_profile_put_row(struct otlp_profile_writer *w, uint32_t table)
{
    sonde_pb_message(&w->dictionary, table, &w->message);
    sonde_buf_reset(&w->message);
}

static void otlp_profile_put_id(struct sonde_buf *b, uint32_t field, const uint64_t *ids,
                                size_t count)
{
    uint64_t bytes[2];
    for (size_t i = 0; i < count; i++) bytes[i] = __builtin_bswap64(ids[i]);
    sonde_pb_bytes(b, field, bytes, count * sizeof(*bytes));
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void otlp_profile_put_string(struct otlp_profile_writer *w, const char *s)
{
    const size_t len = strlen(s);
    if (sonde__utf8_valid(s, len)) {
        sonde_pb_str(&w->dictionary, TABLE_STRING, s, len);
        return;
    }
    int changed = 0;
    char *clean = sonde__alloc(len * 3 + 1); /* a byte becomes three at most */
    if (!clean) {
        w->dictionary.error = SONDE_ENOMEM;
        return;
    }
    const size_t n = sonde__utf8_copy(clean, len * 3, s, len, &changed);
    sonde_pb_str(&w->dictionary, TABLE_STRING, clean, n);
    sonde__free(clean);
}

static void otlp_profile_put_strings(struct otlp_profile_writer *w)
{
    const struct pprof_kind *names = &sonde_pprof_kinds[w->kind];
    for (uint32_t i = 0; i < w->p->strings_count; i++) otlp_profile_put_string(w, w->p->strings[i]);
    for (size_t i = 0; i < SONDE_COUNT(words); i++) otlp_profile_put_string(w, words[i]);
    otlp_profile_put_string(w, names->weight);
    otlp_profile_put_string(w, names->unit);
}

static void put_mappings(struct otlp_profile_writer *w)
{
    for (uint32_t i = 0; i < w->p->modules_count; i++) {
        const struct sonde_profile_module *m = &w->p->modules[i];
        const uint64_t attribute = w->build_id_of[i];
        otlp_profile_put_nonzero(&w->message, MAPPING_START, m->start);
        otlp_profile_put_nonzero(&w->message, MAPPING_LIMIT, m->end);
        otlp_profile_put_nonzero(&w->message, MAPPING_OFFSET, m->offset);
        otlp_profile_put_nonzero(&w->message, MAPPING_FILE, m->path);
        sonde_pb_packed_uint(&w->message, MAPPING_ATTRIBUTE, &attribute, attribute != 0);
        otlp_profile_put_row(w, TABLE_MAPPING);
    }
}

/* The last one is that of stacks which do not reach their thread's start. */
static void otlp_profile_put_functions(struct otlp_profile_writer *w)
{
    for (uint32_t i = 0; i < w->p->functions_count; i++) {
        const struct sonde_profile_function *f = &w->p->functions[i];
        otlp_profile_put_nonzero(&w->message, FUNCTION_NAME, f->name);
        otlp_profile_put_nonzero(&w->message, FUNCTION_FILE, f->file);
        otlp_profile_put_nonzero(&w->message, FUNCTION_START_LINE, f->start_line);
        otlp_profile_put_row(w, TABLE_FUNCTION);
    }
    sonde_pb_uint(&w->message, FUNCTION_NAME, otlp_profile_word(w, W_TRUNCATED));
    otlp_profile_put_row(w, TABLE_FUNCTION);
}

static void otlp_profile_put_line(struct otlp_profile_writer *w, uint32_t function, uint32_t line)
{
    otlp_profile_put_nonzero(&w->inner, LINE_FUNCTION, function);
    otlp_profile_put_nonzero(&w->inner, LINE_LINE, line);
    sonde_pb_message(&w->message, LOCATION_LINE, &w->inner);
    sonde_buf_reset(&w->inner);
}

static void put_locations(struct otlp_profile_writer *w)
{
    for (uint32_t i = 0; i < w->p->locations_count; i++) {
        const struct sonde_profile_location *l = &w->p->locations[i];
        otlp_profile_put_nonzero(&w->message, LOCATION_MAPPING, l->module);
        otlp_profile_put_nonzero(&w->message, LOCATION_ADDRESS, l->address);
        for (uint32_t k = 0; k < l->line_count; k++) {
            otlp_profile_put_line(w, w->p->lines[l->line + k].function,
                                  w->p->lines[l->line + k].line);
        }
        otlp_profile_put_row(w, TABLE_LOCATION);
    }
    otlp_profile_put_line(w, w->p->functions_count, 0);
    otlp_profile_put_row(w, TABLE_LOCATION);
}

static void put_attribute(struct otlp_profile_writer *w, uint32_t key, const char *text,
                          uint64_t number)
{
    sonde_pb_uint(&w->message, ATTRIBUTE_KEY, otlp_profile_word(w, key));
    if (text) sonde_pb_str(&w->inner, ANY_STRING, text, strlen(text));
    else sonde_pb_uint(&w->inner, ANY_INT, number);
    sonde_pb_message(&w->message, ATTRIBUTE_VALUE, &w->inner);
    sonde_buf_reset(&w->inner);
    otlp_profile_put_row(w, TABLE_ATTRIBUTE);
}

static const char *clean_name(const struct sonde_profile *p, uint32_t id)
{
    const char *s = sonde_profile_str(p, id);
    return sonde__utf8_valid(s, strlen(s)) ? s : "";
}

/* Numbers them too. */
static void otlp_profile_put_attributes(struct otlp_profile_writer *w)
{
    uint32_t next = 1;
    otlp_profile_put_row(w, TABLE_ATTRIBUTE);
    for (uint32_t i = 0; i < w->p->threads_count; i++) {
        const struct sonde_profile_thread *t = &w->p->threads[i];
        const char *name = clean_name(w->p, t->name);
        w->attribute_of[i] = *name || t->tid ? next : 0;
        if (*name) put_attribute(w, W_THREAD_NAME, name, 0);
        if (t->tid) put_attribute(w, W_THREAD_ID, NULL, t->tid);
        next += (uint32_t)(*name != 0) + (t->tid != 0);
    }
    for (uint32_t i = 0; i < w->p->modules_count; i++) {
        const char *id = clean_name(w->p, w->p->modules[i].build_id);
        if (!*id) continue;
        w->build_id_of[i] = next++;
        put_attribute(w, W_BUILD_ID, id, 0);
    }
}

/* ---- Samples --------------------------------------------------------------------------------- */

static int otlp_profile_by_key(const void *a, const void *b)
{
    const struct otlp_profile_row *x = a, *y = b;
    if (x->stack != y->stack) return SONDE_CMP(x->stack, y->stack);
    if (x->truncated != y->truncated) return SONDE_CMP(x->truncated, y->truncated);
    if (x->link != y->link) return SONDE_CMP(x->link, y->link);
    return SONDE_CMP(x->thread, y->thread);
}

/* Those that pass, sorted, of the same key added up. */
static int otlp_profile_collect_rows(struct otlp_profile_writer *w,
                                     const struct sonde_profile_match *m)
{
    uint32_t *span_of;
    size_t n = 0, kept = 0;
    w->rows = sonde__calloc((size_t)sonde_profile_match_count(m) + 1, sizeof(*w->rows));
    if (!w->rows || sonde_profile_innermost_spans(w->p, &span_of, NULL)) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < w->p->samples_count; i++) {
        const struct sonde_profile_sample *s = &w->p->samples[i];
        if (!sonde_profile_matches(m, i)) continue;
        w->rows[n++] = (struct otlp_profile_row){ s->stack, s->thread, span_of[i],
                                                  s->flags & SONDE_SAMPLE_TRUNCATED, s->weight };
    }
    sonde__free(span_of);
    qsort(w->rows, n, sizeof(*w->rows), otlp_profile_by_key);
    for (size_t i = 0; i < n; i++) {
        if (kept && otlp_profile_by_key(&w->rows[kept - 1], &w->rows[i]) == 0) {
            w->rows[kept - 1].weight += w->rows[i].weight;
        } else {
            w->rows[kept++] = w->rows[i];
        }
    }
    w->row_count = kept;
    return 0;
}

/* The leaf first. */
static int otlp_profile_put_stack(struct otlp_profile_writer *w, const struct otlp_profile_row *r)
{
    size_t depth = 1, n = 0;
    for (uint32_t at = r->stack; at; at = w->p->stacks[at].parent) depth++;
    if (depth > w->path_cap) {
        uint64_t *grown = sonde__realloc(w->path, depth * 2 * sizeof(*grown));
        if (!grown) return SONDE_ENOMEM;
        w->path = grown;
        w->path_cap = depth * 2;
    }
    for (uint32_t at = r->stack; at; at = w->p->stacks[at].parent) {
        w->path[n++] = w->p->stacks[at].location;
    }
    if (r->truncated) w->path[n++] = w->p->locations_count;
    sonde_pb_packed_uint(&w->message, STACK_LOCATION, w->path, n);
    otlp_profile_put_row(w, TABLE_STACK);
    return 0;
}

static void put_link(struct otlp_profile_writer *w, const struct sonde_profile_span *s)
{
    otlp_profile_put_id(&w->message, LINK_TRACE, (const uint64_t[]){ s->trace_hi, s->trace_lo }, 2);
    otlp_profile_put_id(&w->message, LINK_SPAN, &s->id, 1);
    otlp_profile_put_row(w, TABLE_LINK);
}

static void otlp_profile_put_sample(struct otlp_profile_writer *w, const struct otlp_profile_row *r,
                                    uint32_t stack, uint32_t link)
{
    const struct sonde_profile_thread *t = &w->p->threads[r->thread];
    const uint64_t first = w->attribute_of[r->thread], both[2] = { first, first + 1 };
    const size_t count = first ? (size_t)(*clean_name(w->p, t->name) != 0) + (t->tid != 0) : 0;
    sonde_pb_uint(&w->message, SAMPLE_STACK, stack);
    sonde_pb_packed_uint(&w->message, SAMPLE_ATTRIBUTE, both, count);
    otlp_profile_put_nonzero(&w->message, SAMPLE_LINK, link);
    sonde_pb_packed_uint(&w->message, SAMPLE_VALUE, &r->weight, 1);
    sonde_pb_message(&w->profile, PROFILE_SAMPLE, &w->message);
    sonde_buf_reset(&w->message);
}

/* Rows are sorted by stack. Links are numbered as they come; one per span and stack is enough of a
 * bound, since spans of a sample are few. */
static int otlp_profile_put_samples(struct otlp_profile_writer *w)
{
    uint32_t stacks = 1, links = 1;
    uint32_t *link_of = sonde__calloc((size_t)w->p->spans_count + 1, sizeof(*link_of));
    int rc = link_of ? 0 : SONDE_ENOMEM;
    otlp_profile_put_row(w, TABLE_STACK);
    otlp_profile_put_row(w, TABLE_LINK);
    for (size_t i = 0; i < w->row_count && !rc; i++) {
        const struct otlp_profile_row *r = &w->rows[i], *before = i ? r - 1 : NULL;
        if (!before || before->stack != r->stack || before->truncated != r->truncated) {
            rc = otlp_profile_put_stack(w, r);
            stacks++;
        }
        if (r->link && !link_of[r->link]) {
            put_link(w, &w->p->spans[r->link - 1]);
            link_of[r->link] = links++;
        }
        otlp_profile_put_sample(w, r, stacks - 1, r->link ? link_of[r->link] : 0);
    }
    sonde__free(link_of);
    return rc;
}

/* ---- The request ----------------------------------------------------------------------------- */

static void put_type(struct otlp_profile_writer *w, uint32_t field, uint64_t type, uint64_t unit)
{
    sonde_pb_uint(&w->message, TYPE_TYPE, type);
    sonde_pb_uint(&w->message, TYPE_UNIT, unit);
    sonde_pb_message(&w->profile, field, &w->message);
    sonde_buf_reset(&w->message);
}

/* The same profile has the same id, so that one which came twice can be told. */
static void put_profile_id(struct otlp_profile_writer *w)
{
    const struct sonde_profile *p = w->p;
    uint64_t hi = p->start_ns * 0x9e3779b97f4a7c15ull ^ p->end_ns;
    uint64_t lo = p->weights[w->kind] * 0xbf58476d1ce4e5b9ull ^ (p->samples_count + 1);
    for (const char *s = sonde_profile_str(p, p->program); *s; s++) hi = (hi ^ (uint8_t)*s) * 31;
    lo = (lo ^ (uint64_t)w->kind << 56) | 1;
    otlp_profile_put_id(&w->profile, PROFILE_ID, (const uint64_t[]){ hi, lo }, 2);
}

static void otlp_profile_put_facts(struct otlp_profile_writer *w)
{
    const struct sonde_profile *p = w->p;
    put_type(w, PROFILE_TYPE, otlp_profile_word(w, W_TYPE), otlp_profile_word(w, W_UNIT));
    sonde_pb_fixed64(&w->profile, PROFILE_TIME, p->start_ns);
    otlp_profile_put_nonzero(&w->profile, PROFILE_DURATION,
                             p->end_ns > p->start_ns ? p->end_ns - p->start_ns : 0);
    if (w->kind == SONDE_SAMPLE_CPU && p->rate_hz > 0) {
        put_type(w, PROFILE_PERIOD_TYPE, otlp_profile_word(w, W_CPU),
                 otlp_profile_word(w, W_NANOSECONDS));
        sonde_pb_uint(&w->profile, PROFILE_PERIOD, (uint64_t)(1e9 / p->rate_hz + 0.5));
    }
    put_profile_id(w);
}

static int otlp_profile_put_request(struct otlp_profile_writer *w, const struct sonde_buf *resource,
                                    struct sonde_buf *out)
{
    otlp_profile_put_attributes(w);
    put_mappings(w);
    otlp_profile_put_functions(w);
    put_locations(w);
    const int rc = otlp_profile_put_samples(w);
    if (rc) return rc;
    otlp_profile_put_strings(w);
    otlp_profile_put_facts(w);
    /* From the inside out. */
    sonde_pb_str(&w->inner, SCOPE_NAME, "sonde", 5);
    sonde_pb_str(&w->inner, SCOPE_VERSION, SONDE_VERSION, strlen(SONDE_VERSION));
    sonde_pb_message(&w->message, SCOPE_SCOPE, &w->inner);
    sonde_pb_message(&w->message, SCOPE_PROFILE, &w->profile);
    sonde_buf_reset(&w->inner);
    sonde_pb_message(&w->inner, RESOURCE_RESOURCE, resource);
    sonde_pb_message(&w->inner, RESOURCE_SCOPE, &w->message);
    sonde_pb_message(out, REQUEST_RESOURCE, &w->inner);
    sonde_pb_message(out, REQUEST_DICTIONARY, &w->dictionary);
    return out->error;
}

static int otlp_profile_write_all(struct otlp_profile_writer *w,
                                  const struct sonde_profile_match *m,
                                  const struct sonde_buf *resource, struct sonde_buf *out)
{
    struct sonde_buf *const bufs[] = { &w->dictionary, &w->profile, &w->message, &w->inner };
    for (size_t i = 0; i < SONDE_COUNT(bufs); i++) sonde_buf_init(bufs[i], out->max);
    w->attribute_of = sonde__calloc(w->p->threads_count, sizeof(*w->attribute_of));
    w->build_id_of = sonde__calloc(w->p->modules_count, sizeof(*w->build_id_of));
    int rc = w->attribute_of && w->build_id_of ? otlp_profile_collect_rows(w, m) : SONDE_ENOMEM;
    if (!rc) rc = otlp_profile_put_request(w, resource, out);
    for (size_t i = 0; i < SONDE_COUNT(bufs); i++) sonde_buf_release(bufs[i]);
    sonde__free(w->attribute_of);
    sonde__free(w->build_id_of);
    sonde__free(w->rows);
    sonde__free(w->path);
    return rc;
}

int sonde_otlp_profile_write(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                             const struct sonde_buf *resource, struct sonde_buf *out,
                             struct sonde_err *err)
{
    struct sonde_profile_match *m;
    int rc = sonde_profile_match_some(p, f, &m, err);
    if (rc) return rc;
    struct otlp_profile_writer w = { .p = p,
                                     .kind = (enum sonde_sample_kind)sonde_profile_match_kind(m) };
    rc = otlp_profile_write_all(&w, m, resource, out);
    sonde_profile_match_destroy(m);
    return rc ? sonde_err_set(err, rc, "no memory for the OTLP profile") : 0;
}

/* ---- The format ------------------------------------------------------------------------------ */

/* All that a file says of where it is from. */
static int write_file(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                      struct sonde_buf *out, struct sonde_err *err)
{
    const char *program = clean_name(p, p->program);
    const char *name = *program ? sonde_path_base(program) : "unknown_service";
    struct sonde_buf resource, pair, value;
    sonde_buf_init(&resource, 1 << 20);
    sonde_buf_init(&pair, 1 << 20);
    sonde_buf_init(&value, 1 << 20);
    sonde_pb_str(&pair, KEY_VALUE_KEY, "service.name", 12);
    sonde_pb_str(&value, ANY_STRING, name, strlen(name));
    sonde_pb_message(&pair, KEY_VALUE_VALUE, &value);
    sonde_pb_message(&resource, RESOURCE_ATTRIBUTE, &pair);
    const int rc = sonde_otlp_profile_write(p, f, &resource, out, err);
    sonde_buf_release(&resource);
    sonde_buf_release(&pair);
    sonde_buf_release(&value);
    return rc;
}

extern const struct sonde_format_ops sonde_format_otlp_profile;
const struct sonde_format_ops sonde_format_otlp_profile = {
    .name = "otlp-profile",
    .summary = "OTLP profiles (v1development), as collectors take them",
    .content_type = "application/x-protobuf",
    .suffix = ".otlp",
    .write = write_file,
};
