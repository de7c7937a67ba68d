/* infer.c - inference requests and models in a run file: tables of structures, see rows.h.
 *
 *   inference           one row: the objectives that were set, and what did not fit
 *   inference_invalid   events that were not used, by reason
 *   inference_models    id 1 … : facts of a model in a process
 *   inference_memory    bytes by kind; model is the id of its row
 *   inference_requests  id 1 … : in the order they ended, with all figures
 *
 * A request's attributes are a JSON object of texts. Its timeline, where it was kept, is a blob:
 * deflated varints, seven for each item: string (its name), kind, start (zigzag difference to that
 * of the item before, of the first to arrival), length, busy time (difference to the length),
 * tokens, count, batch. Neighbours are alike, so an item takes some five bytes where a row of a
 * table would be 50. */
#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/intern.h"
#include "base/json.h"
#include "base/varint.h"
#include "profile/infer.h"
#include "sonde/sonde.h"
#include "store/run/private.h"
#include "store/run/rows.h"

enum {
    ITEM_FIELDS = 8,
    ITEMS_BYTES = SONDE_INFER_ITEMS_MAX * ITEM_FIELDS * SONDE_VARINT_MAX,
    ATTRS_BYTES = 1 << 16,
    MEMORY_MAX = 1 << 16,     /* rows */
};
#define FIGURE_MAX 1e18       /* sums stay far from any limit */
#define TOTAL_MAX_S 1e9       /* so that it can be told in nanoseconds */
#define NS_MAX ((uint64_t)1000000000 * 1000000000)

/* ---- Timelines ------------------------------------------------------------------------------- */

static size_t pack_items(const struct sonde_profile *p, const struct sonde_infer_request *r,
                         unsigned char *out)
{
    unsigned char *at = out;
    uint64_t before_ns = r->arrived_ns;
    for (uint32_t i = 0; i < r->item_count && i < SONDE_INFER_ITEMS_MAX; i++) {
        const struct sonde_infer_item *item = &r->items[i];
        const uint64_t length = item->end_ns - item->start_ns;
        const uint64_t fields[ITEM_FIELDS] = {
            sonde_profile_find_string(p, item->name),
            item->kind,
            sonde_zigzag(item->start_ns - before_ns),
            length,
            sonde_zigzag(item->busy_ns - length),
            item->tokens,
            item->count,
            item->batch,
        };
        for (size_t k = 0; k < ITEM_FIELDS; k++) at = sonde_varint_put(at, fields[k]);
        before_ns = item->start_ns;
    }
    return (size_t)(at - out);
}

static int bind_items(const struct sonde_profile *p, sqlite3_stmt *s, int column, const void *row,
                      size_t at)
{
    const struct sonde_infer_request *r = row;
    (void)at;
    if (!r->item_count) return sqlite3_bind_zeroblob(s, column, 0);
    unsigned char *plain = sonde__alloc(ITEMS_BYTES);
    if (!plain) return SQLITE_NOMEM;
    const size_t plain_len = pack_items(p, r, plain);
    uLongf len = compressBound((uLong)plain_len);
    unsigned char *packed = sonde__alloc(len);
    int rc = SQLITE_NOMEM;
    if (packed && !compress2(packed, &len, plain, (uLong)plain_len, Z_DEFAULT_COMPRESSION)) {
        rc = sqlite3_bind_blob64(s, column, packed, len, SQLITE_TRANSIENT);
    }
    sonde__free(packed);
    sonde__free(plain);
    return rc;
}

/* 0, or -1: that is no item. */
static int unpack_item(const struct run_reader *r, const unsigned char **at,
                       const unsigned char *end, uint64_t arrived_ns, uint64_t *before_ns,
                       struct sonde_infer_item *out)
{
    uint64_t v[ITEM_FIELDS];
    for (size_t k = 0; k < ITEM_FIELDS; k++) {
        if (sonde_varint_get(at, end, &v[k])) return -1;
    }
    const uint64_t start_ns = *before_ns + sonde_unzigzag(v[2]), length = v[3];
    const uint64_t busy_ns = length + sonde_unzigzag(v[4]);
    const int kind_known = v[1] < SONDE_PHASE_COUNT || v[1] == SONDE_PHASE_NAMED;
    if (!v[0] || v[0] >= r->strings.count || !kind_known || start_ns < arrived_ns ||
        start_ns - arrived_ns > NS_MAX || length > NS_MAX || busy_ns > NS_MAX ||
        start_ns > UINT64_MAX - length || v[5] > INT64_MAX || !v[6] || v[6] > UINT32_MAX ||
        v[7] > UINT32_MAX) {
        return -1;
    }
    *before_ns = start_ns;
    *out = (struct sonde_infer_item){
        .start_ns = start_ns, .end_ns = start_ns + length, .busy_ns = busy_ns, .tokens = v[5],
        .name = sonde_profile_str(r->p, r->strings.id[v[0]]), .kind = (uint32_t)v[1],
        .count = (uint32_t)v[6], .batch = (uint32_t)v[7],
    };
    return 0;
}

static int unpack_items(struct run_reader *r, const unsigned char *plain, size_t len,
                        struct sonde_infer_request *to)
{
    const unsigned char *at = plain, *end = plain + len;
    uint64_t before_ns = to->arrived_ns;
    to->items = sonde__calloc(SONDE_INFER_ITEMS_MAX, sizeof(*to->items));
    if (!to->items) return run_no_memory(r);
    while (at < end) {
        if (to->item_count == SONDE_INFER_ITEMS_MAX ||
            unpack_item(r, &at, end, to->arrived_ns, &before_ns, &to->items[to->item_count])) {
            return run_bad(r, "timeline: item %u cannot be", to->item_count + 1);
        }
        to->item_count++;
    }
    return 0;
}

/* After arrived_ns, which times count from: fields are read in the order of the list. */
static int get_items(struct run_reader *r, sqlite3_stmt *s, int column, void *row, size_t at)
{
    (void)at;
    const void *data = sqlite3_column_blob(s, column);
    const size_t len = (size_t)sqlite3_column_bytes(s, column);
    if (sqlite3_column_type(s, column) != SQLITE_BLOB) {
        return run_bad(r, "%s is not a blob", sqlite3_column_name(s, column));
    }
    if (!len) return 0;
    uLongf plain_len = ITEMS_BYTES;
    unsigned char *plain = sonde__alloc(plain_len);
    if (!plain) return run_no_memory(r);
    const int unpacked = uncompress(plain, &plain_len, data, (uLong)len);
    const int rc = unpacked == Z_OK          ? unpack_items(r, plain, plain_len, row)
                   : unpacked == Z_MEM_ERROR ? run_no_memory(r)
                                             : run_bad(r, "timeline: it cannot be unpacked");
    sonde__free(plain);
    return rc;
}

static const struct run_field_ops items_ops = { "BLOB", bind_items, get_items };

/* ---- Attributes ------------------------------------------------------------------------------ */

static int bind_attrs(const struct sonde_profile *p, sqlite3_stmt *s, int column, const void *row,
                      size_t at)
{
    const struct sonde_infer_request *r = row;
    (void)p;
    (void)at;
    struct sonde_buf b;
    sonde_buf_init(&b, ATTRS_BYTES);
    sonde_buf_putc(&b, '{');
    for (uint32_t i = 0; i < r->attr_count; i++) {
        sonde_json_str(&b, r->attrs[i].key, r->attrs[i].value);
    }
    sonde_buf_putc(&b, '}');
    const int rc = b.error ? SQLITE_NOMEM
                           : sqlite3_bind_text(s, column, b.data, (int)b.len, SQLITE_TRANSIENT);
    sonde_buf_release(&b);
    return rc;
}

static int take_attrs(struct run_reader *r, json_t *object, struct sonde_infer_request *to)
{
    const char *key;
    json_t *value;
    if (!json_object_size(object)) return 0;
    to->attrs = sonde__calloc(SONDE_INFER_ATTRS_MAX, sizeof(*to->attrs));
    if (!to->attrs) return run_no_memory(r);
    json_object_foreach(object, key, value) {
        const char *text = json_string_value(value);
        struct sonde_infer_attr *a = &to->attrs[to->attr_count];
        if (to->attr_count == SONDE_INFER_ATTRS_MAX || !text || strlen(text) >= sizeof(a->value)) {
            return run_bad(r, "attributes: '%.40s' cannot be", key);
        }
        const uint32_t id = sonde_profile_cstring(r->p, key);
        if (*key && !id) return run_no_memory(r);
        a->key = sonde_profile_str(r->p, id);
        memcpy(a->value, text, strlen(text) + 1);
        to->attr_count++;
    }
    return 0;
}

static int get_attrs(struct run_reader *r, sqlite3_stmt *s, int column, void *row, size_t at)
{
    (void)at;
    const char *text = sqlite3_column_type(s, column) == SQLITE_TEXT
                           ? (const char *)sqlite3_column_text(s, column) : NULL;
    const size_t len = text ? strlen(text) : 0;
    json_t *object = text && len <= ATTRS_BYTES ? json_loadb(text, len, 0, NULL) : NULL;
    const int rc = json_is_object(object) ? take_attrs(r, object, row)
                                          : run_bad(r, "attributes are not a JSON object");
    json_decref(object);
    return rc;
}

static const struct run_field_ops attrs_ops = { "TEXT", bind_attrs, get_attrs };

/* ---- Words ----------------------------------------------------------------------------------- */

static const uint32_t *u32_at(const void *row, size_t at)
{
    return (const void *)((const char *)row + at);
}

static int run_infer_get_word(struct run_reader *r, sqlite3_stmt *s, int column,
                              int (*find)(const char *), void *row, size_t at)
{
    const char *name = sqlite3_column_type(s, column) == SQLITE_TEXT
                           ? (const char *)sqlite3_column_text(s, column) : NULL;
    const int found = name ? find(name) : -1;
    if (found < 0) {
        return run_bad(r, "there is no %s '%.40s'", sqlite3_column_name(s, column),
                       name ? name : "");
    }
    *(uint32_t *)(void *)((char *)row + at) = (uint32_t)found;
    return 0;
}

static int bind_outcome(const struct sonde_profile *p, sqlite3_stmt *s, int column,
                        const void *row, size_t at)
{
    (void)p;
    return sqlite3_bind_text(s, column, sonde_infer_outcome_name(*u32_at(row, at)), -1,
                             SQLITE_STATIC);
}

static int get_outcome(struct run_reader *r, sqlite3_stmt *s, int column, void *row, size_t at)
{
    return run_infer_get_word(r, s, column, sonde_infer_outcome_find, row, at);
}

static int bind_source(const struct sonde_profile *p, sqlite3_stmt *s, int column, const void *row,
                       size_t at)
{
    (void)p;
    return sqlite3_bind_text(s, column, sonde_infer_source_name(*u32_at(row, at)), -1,
                             SQLITE_STATIC);
}

static int get_source(struct run_reader *r, sqlite3_stmt *s, int column, void *row, size_t at)
{
    return run_infer_get_word(r, s, column, sonde_infer_source_find, row, at);
}

static const struct run_field_ops outcome_ops = { "TEXT", bind_outcome, get_outcome };
static const struct run_field_ops source_ops = { "TEXT", bind_source, get_source };

/* ---- Tables ---------------------------------------------------------------------------------- */

#define F(strct, field, kind)                                                                  \
    { .name = #field, .at = offsetof(struct strct, field), .type = RUN_##kind }
#define OWN(strct, field, column, how)                                                         \
    { .name = column, .at = offsetof(struct strct, field), .type = RUN_OWN, .ops = &how }
#define PHASE(strct, field, number, column, kind)                                              \
    { .name = column, .at = offsetof(struct strct, field) + (number) * sizeof(uint64_t),       \
      .type = RUN_##kind }

#define R(field, kind) F(sonde_infer_request, field, kind)
static const struct run_field request_fields[] = {
    { .name = "request_id", .at = offsetof(struct sonde_infer_request, id), .type = RUN_U64 },
    R(trace_hi, U64), R(trace_lo, U64), R(pid, U32),
    OWN(sonde_infer_request, source, "source", source_ops),
    OWN(sonde_infer_request, outcome, "outcome", outcome_ops), R(flags, U32), R(program, TEXT),
    R(model, TEXT), R(route, TEXT), R(backend, TEXT), R(error, TEXT), R(invalid, TEXT),
    { .name = "own_id", .at = offsetof(struct sonde_infer_request, own_id),
      .size = SONDE_INFER_ID_MAX + 1, .type = RUN_CHARS },
    R(arrived_ns, U64), R(tokens_max, U64), R(tokens_in, U64), R(tokens_reused, U64),
    R(tokens_shared, U64), R(prefix_known, U64),
    R(tokens_out, U64), R(total_s, REAL), R(ttft_s, REAL),
#define SONDE__X(phase, name)                                                                  \
    PHASE(sonde_infer_request, phase_s, SONDE_PHASE_##phase, name "_s", REAL),                 \
        PHASE(sonde_infer_request, phase_count, SONDE_PHASE_##phase, name "_count", U64),
    SONDE__X(NONE, "other")
    SONDE_PHASES(SONDE__X)
#undef SONDE__X
    R(itl_count, U64), R(itl_s, REAL), R(itl_min_s, REAL), R(itl_p50_s, REAL),
    R(itl_p95_s, REAL), R(itl_p99_s, REAL), R(itl_max_s, REAL), R(tokens_per_s, REAL),
    R(hit_ratio, REAL), R(efficiency, REAL), R(memory_bytes, U64), R(batches, U64),
    OWN(sonde_infer_request, items, "timeline", items_ops),
    OWN(sonde_infer_request, attrs, "attributes", attrs_ops),
};
#undef R

#define M(field, kind) F(sonde_infer_model, field, kind)
static const struct run_field model_fields[] = {
    M(pid, U32), OWN(sonde_infer_model, source, "source", source_ops), M(program, TEXT),
    M(model, TEXT), M(backend, TEXT), M(load_s, REAL), M(load_bytes, U64), M(memory_peak, U64),
    M(kv_used, U64), M(kv_total, U64), M(kv_peak, U64), M(batches, U64), M(batch_requests, U64),
    M(batch_tokens, U64),
#define SONDE__X(phase, name)                                                                  \
    PHASE(sonde_infer_model, phase_s, SONDE_PHASE_##phase, name "_s", REAL),                   \
        PHASE(sonde_infer_model, phase_tokens, SONDE_PHASE_##phase, name "_tokens", U64),
    SONDE__X(NONE, "other")
    SONDE_PHASES(SONDE__X)
#undef SONDE__X
};
#undef M
_Static_assert(SONDE_COUNT(request_fields) <= RUN_FIELDS_MAX,
               "RUN_FIELDS_MAX");
_Static_assert(SONDE_COUNT(model_fields) <= RUN_FIELDS_MAX,
               "RUN_FIELDS_MAX");

static const struct run_field fact_fields[] = {
    F(sonde_infer_run, slo_ttft_s, REAL), F(sonde_infer_run, slo_itl_s, REAL),
    F(sonde_infer_run, slo_total_s, REAL), F(sonde_infer_run, dropped, U64),
};

static const struct run_field invalid_fields[] = {
    F(sonde_infer_invalid, reason, TEXT), F(sonde_infer_invalid, count, U64),
};

struct memory { uint32_t model; struct sonde_infer_memory m; };

static const struct run_field memory_fields[] = {
    F(memory, model, U32),
    { .name = "kind", .at = offsetof(struct memory, m.kind), .type = RUN_TEXT },
    { .name = "bytes", .at = offsetof(struct memory, m.bytes), .type = RUN_U64 },
    { .name = "peak", .at = offsetof(struct memory, m.peak), .type = RUN_U64 },
};

static const struct run_table
    facts_table = RUN_TABLE("inference", fact_fields, struct sonde_infer_run),
    invalid_table = RUN_TABLE("inference_invalid", invalid_fields, struct sonde_infer_invalid),
    model_table = RUN_TABLE("inference_models", model_fields, struct sonde_infer_model),
    memory_table = RUN_TABLE("inference_memory", memory_fields, struct memory),
    request_table = RUN_TABLE("inference_requests", request_fields, struct sonde_infer_request);

/* ---- Writing --------------------------------------------------------------------------------- */

static int write_memory(sqlite3 *db, const struct sonde_profile *p)
{
    const struct sonde_infer_run *run = p->infer;
    size_t count = 0;
    for (size_t i = 0; i < run->model_count; i++) count += run->models[i].memory_count;
    struct memory *rows = sonde__calloc(count + 1, sizeof(*rows));
    if (!rows) return SQLITE_NOMEM;
    count = 0;
    for (size_t i = 0; i < run->model_count; i++) {
        for (uint32_t k = 0; k < run->models[i].memory_count; k++) {
            rows[count++] = (struct memory){ (uint32_t)i + 1, run->models[i].memory[k] };
        }
    }
    const int rc = run_rows_write(db, p, &memory_table, rows, count);
    sonde__free(rows);
    return rc;
}

int sonde_run_infer_write(sqlite3 *db, const struct sonde_profile *p)
{
    assert(p->infer);
    const struct sonde_infer_run *run = p->infer;
    int rc = run_rows_write(db, p, &facts_table, run, 1);
    if (!rc) rc = run_rows_write(db, p, &invalid_table, run->invalid, run->invalid_count);
    if (!rc) rc = run_rows_write(db, p, &model_table, run->models, run->model_count);
    if (!rc) rc = write_memory(db, p);
    return rc ? rc : run_rows_write(db, p, &request_table, run->requests, run->request_count);
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct memories { struct memory *rows; uint32_t count, cap; };

/* Figures that anybody may add up. */
static int check_reals(struct run_reader *r, const struct run_table *t, const void *row)
{
    for (size_t i = 0; i < t->count; i++) {
        double v;
        if (t->fields[i].type != RUN_REAL) continue;
        memcpy(&v, (const char *)row + t->fields[i].at, sizeof(v));
        if (!(v >= 0 && v <= FIGURE_MAX)) return run_bad(r, "%s is %g", t->fields[i].name, v);
    }
    return 0;
}

static int take_facts(struct run_reader *r, void *row, void *arg)
{
    const struct sonde_infer_run *from = row;
    struct sonde_infer_run *to = arg;
    const int rc = check_reals(r, &facts_table, row);
    if (rc) return rc;
    to->slo_ttft_s = from->slo_ttft_s;
    to->slo_itl_s = from->slo_itl_s;
    to->slo_total_s = from->slo_total_s;
    to->dropped = from->dropped;
    return 0;
}

static int take_invalid(struct run_reader *r, void *row, void *arg)
{
    const struct sonde_infer_invalid *i = row;
    (void)arg;
    return sonde_infer_run_invalid(r->p, i->reason, i->count) ? run_no_memory(r) : 0;
}

static int take_memory(struct run_reader *r, void *row, void *arg)
{
    struct memories *m = arg;
    size_t used = 0;
    const struct sonde_budget b = { &used, MEMORY_MAX * sizeof(struct memory) };
    struct memory *rows = sonde_table_grow(m->rows, m->count, &m->cap, sizeof(*rows), &b);
    if (!rows) return run_no_memory(r);
    m->rows = rows;
    rows[m->count++] = *(const struct memory *)row;
    return 0;
}

static int take_model(struct run_reader *r, void *row, void *arg)
{
    struct sonde_infer_model *to = row;
    const struct memories *m = arg;
    const int rc = check_reals(r, &model_table, row);
    if (rc) return rc;
    for (uint32_t i = 0; i < m->count && to->memory_count < SONDE_INFER_MEMORY_KINDS; i++) {
        if (m->rows[i].model == r->row) to->memory[to->memory_count++] = m->rows[i].m;
    }
    return sonde_infer_run_model(r->p, to) ? run_no_memory(r) : 0;
}

static int run_infer_take_request(struct run_reader *r, void *row, void *arg)
{
    struct sonde_infer_request *q = row;
    struct sonde_err why = { "" };
    (void)arg;
    int rc = check_reals(r, &request_table, row);
    /* Of one that is marked, nothing else is believed. */
    if (!rc && !*q->invalid && sonde_infer_validate(q, NULL, &why)) {
        rc = run_bad(r, "%s", why.text);
    }
    if (!rc && q->total_s > TOTAL_MAX_S) rc = run_bad(r, "total_s is %g", q->total_s);
    if (!rc && q->arrived_ns > INT64_MAX) rc = run_bad(r, "arrived_ns is too large");
    if (!rc && sonde_infer_run_add(r->p, q)) rc = run_no_memory(r);
    sonde_infer_request_release(q);
    return rc;
}

int run_infer_read(struct run_reader *r)
{
    union {
        struct sonde_infer_run run;
        struct sonde_infer_invalid invalid;
        struct sonde_infer_model model;
        struct memory memory;
    } row;
    struct sonde_infer_request request = { 0 };
    struct memories m = { 0 };
    if (!run_has_table(r, facts_table.name)) return 0;
    struct sonde_infer_run *run = sonde_infer_run(r->p);
    if (!run) return run_no_memory(r);
    int rc = run_rows_read(r, &facts_table, &row, take_facts, run);
    if (!rc) rc = run_rows_read(r, &invalid_table, &row, take_invalid, NULL);
    if (!rc) rc = run_rows_read(r, &memory_table, &row, take_memory, &m);
    if (!rc) rc = run_rows_read(r, &model_table, &row, take_model, &m);
    if (!rc) rc = run_rows_read(r, &request_table, &request, run_infer_take_request, NULL);
    sonde_infer_request_release(&request); /* of a row that was not taken */
    sonde__free(m.rows);
    return rc;
}
