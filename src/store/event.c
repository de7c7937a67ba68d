/* event.c - see event.h. */
#include "store/event.h"

#include <endian.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/varint.h"
#include "sonde/sonde.h"

enum { RECORD_MAX = 1 << 20, PARTS_MAX = 4096 };

/* ---- Pieces ---------------------------------------------------------------------------------- */

static void put_word(struct sonde_buf *out, uint64_t v)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(v >> 8 * i);
    sonde_buf_add(out, bytes, sizeof(bytes));
}

static void event_put_real(struct sonde_buf *out, double d)
{
    uint64_t v;
    memcpy(&v, &d, sizeof(v));
    put_word(out, v);
}

/* Others' programs say how long something took and how much it was, and one such record that could
 * not be read would take all of its batch with it: what get_… refuses is never put. */
static void event_put_number(struct sonde_buf *out, uint64_t v)
{
    sonde_chunk_put_varint(out, v < INT64_MAX ? v : INT64_MAX);
}

static void event_put_amount(struct sonde_buf *out, double d)
{
    event_put_real(out, isfinite(d) && d > 0 ? d : 0);
}

static void event_put_text(struct sonde_buf *out, const char *text)
{
    const size_t len = text ? strlen(text) : 0;
    sonde_chunk_put_varint(out, len);
    sonde_buf_add(out, len ? text : "", len + 1);
}

static uint64_t event_get_word(struct sonde_chunk_in *in)
{
    uint64_t v;
    if (in->bad || in->end - in->at < 8) {
        in->bad = 1;
        return 0;
    }
    memcpy(&v, in->at, sizeof(v));
    in->at += 8;
    return le64toh(v);
}

static double get_real(struct sonde_chunk_in *in)
{
    const uint64_t v = event_get_word(in);
    double d;
    memcpy(&d, &v, sizeof(d));
    if (!isfinite(d)) in->bad = 1;
    return in->bad ? 0 : d;
}

static const char *get_text(struct sonde_chunk_in *in)
{
    const uint64_t len = sonde_chunk_get_varint(in);
    const char *text = (const char *)in->at;
    if (in->bad || len >= (uint64_t)(in->end - in->at) || text[len] || memchr(text, 0, len)) {
        in->bad = 1;
        return "";
    }
    in->at += len + 1;
    return text;
}

static uint64_t get_number(struct sonde_chunk_in *in, uint64_t max)
{
    const uint64_t v = sonde_chunk_get_varint(in);
    if (v > max) in->bad = 1;
    return in->bad ? 0 : v;
}

static uint32_t get_u32(struct sonde_chunk_in *in, uint32_t max)
{
    return (uint32_t)get_number(in, max);
}

static void event_copy_text(struct sonde_chunk_in *in, char *out, size_t size)
{
    const char *text = get_text(in);
    const size_t len = strlen(text);
    if (len >= size) in->bad = 1;
    else memcpy(out, text, len + 1);
}

/* A record is made apart, since its length comes first. */
static void put_record(struct sonde_buf *out, struct sonde_buf *record)
{
    if (record->error) {
        out->error = out->error ? out->error : record->error;
    } else {
        sonde_chunk_put_varint(out, record->len);
        sonde_buf_add(out, record->data, record->len);
    }
    sonde_buf_release(record);
}

int sonde_event_next(struct sonde_chunk_in *in, struct sonde_chunk_in *record)
{
    if (in->bad || in->at == in->end) return 0;
    const uint64_t len = sonde_chunk_get_varint(in);
    if (in->bad || len > (uint64_t)(in->end - in->at)) {
        in->bad = 1;
        return 0;
    }
    *record = (struct sonde_chunk_in){ in->at, in->at + len, 0 };
    in->at += len;
    return 1;
}

void sonde_event_room_release(struct sonde_event_room *room)
{
    sonde__free(room->parts);
    room->parts = NULL;
}

/* ---- Spans ----------------------------------------------------------------------------------- */

static void event_put_attr(struct sonde_buf *b, const struct sonde_model_attr *a)
{
    event_put_text(b, a->key);
    const int number = a->type == SONDE__ATTR_INT || a->type == SONDE__ATTR_DOUBLE;
    sonde_chunk_put_varint(b, number ? a->type : SONDE__ATTR_STR);
    if (a->type == SONDE__ATTR_INT) sonde_chunk_put_varint(b, sonde_zigzag((uint64_t)a->value.i));
    else if (a->type == SONDE__ATTR_DOUBLE)
        event_put_real(b, isfinite(a->value.d) ? a->value.d : 0);
    else event_put_text(b, a->value.str);
}

void sonde_event_put_span(struct sonde_buf *out, const struct sonde_model_span *span)
{
    struct sonde_buf b;
    sonde_buf_init(&b, RECORD_MAX);
    event_put_text(&b, span->name);
    event_put_text(&b, span->program);
    sonde_chunk_put_varint(&b, span->pid);
    sonde_chunk_put_varint(&b, span->tid);
    put_word(&b, span->start_ns);
    event_put_number(&b, span->duration_ns);
    put_word(&b, span->trace_hi);
    put_word(&b, span->trace_lo);
    put_word(&b, span->id);
    put_word(&b, span->parent);
    sonde_chunk_put_varint(&b, span->outcome <= SONDE_TIMEOUT ? span->outcome : SONDE_ERROR);
    const uint32_t attrs = span->attr_count < SONDE_SPAN_ATTRS_MAX ? span->attr_count
                                                                   : SONDE_SPAN_ATTRS_MAX;
    sonde_chunk_put_varint(&b, attrs);
    for (uint32_t i = 0; i < attrs; i++) event_put_attr(&b, &span->attrs[i]);
    const uint32_t parts = span->part_count < PARTS_MAX ? span->part_count : PARTS_MAX;
    sonde_chunk_put_varint(&b, parts);
    for (uint32_t i = 0; i < parts; i++) {
        put_word(&b, span->parts[i].request);
        sonde_chunk_put_varint(&b, span->parts[i].tokens_in);
        sonde_chunk_put_varint(&b, span->parts[i].tokens_out);
    }
    put_record(out, &b);
}

static void get_attr(struct sonde_chunk_in *in, struct sonde_model_attr *out)
{
    out->key = get_text(in);
    out->type = get_u32(in, SONDE__ATTR_STR);
    if (out->type == SONDE__ATTR_INT) {
        out->value.i = (int64_t)sonde_unzigzag(sonde_chunk_get_varint(in));
    } else if (out->type == SONDE__ATTR_DOUBLE) {
        out->value.d = get_real(in);
    } else if (out->type == SONDE__ATTR_STR) {
        event_copy_text(in, out->value.str, sizeof(out->value.str));
    } else {
        in->bad = 1;
    }
}

static int get_parts(struct sonde_chunk_in *in, struct sonde_event_room *room,
                     struct sonde_model_span *out)
{
    out->part_count = get_u32(in, PARTS_MAX);
    if (SONDE_ARRAY_RESERVE(room->parts, room->part_cap, out->part_count)) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < out->part_count; i++) {
        room->parts[i].request = event_get_word(in);
        room->parts[i].tokens_in = get_u32(in, UINT32_MAX);
        room->parts[i].tokens_out = get_u32(in, UINT32_MAX);
    }
    out->parts = room->parts;
    return 0;
}

int sonde_event_get_span(struct sonde_chunk_in *in, struct sonde_event_room *room,
                         struct sonde_model_span *out)
{
    *out = (struct sonde_model_span){ .name = get_text(in) };
    out->program = get_text(in);
    out->pid = get_u32(in, UINT32_MAX);
    out->tid = get_u32(in, UINT32_MAX);
    out->start_ns = event_get_word(in);
    out->duration_ns = get_number(in, INT64_MAX);
    out->trace_hi = event_get_word(in);
    out->trace_lo = event_get_word(in);
    out->id = event_get_word(in);
    out->parent = event_get_word(in);
    out->outcome = get_u32(in, SONDE_TIMEOUT);
    out->attr_count = get_u32(in, SONDE_SPAN_ATTRS_MAX);
    for (uint32_t i = 0; i < out->attr_count; i++) get_attr(in, &room->attrs[i]);
    out->attrs = room->attrs;
    const int rc = get_parts(in, room, out);
    return rc ? rc : in->bad || in->at != in->end ? SONDE_EFORMAT : 0;
}

/* ---- Requests -------------------------------------------------------------------------------- */

enum event_how { WORD, NUMBER, SMALL, REAL, TEXT };

#define R(field, how) { offsetof(struct sonde_infer_request, field), how }
static const struct { size_t at; enum event_how how; } fields[] = {
    R(id, WORD), R(trace_hi, WORD), R(trace_lo, WORD), R(parent, WORD), R(pid, SMALL),
    R(source, SMALL), R(outcome, SMALL), R(flags, SMALL), R(program, TEXT), R(model, TEXT),
    R(route, TEXT), R(backend, TEXT), R(error, TEXT), R(invalid, TEXT), R(arrived_ns, WORD),
    R(tokens_max, NUMBER), R(tokens_in, NUMBER), R(tokens_reused, NUMBER), R(tokens_out, NUMBER),
    R(total_s, REAL), R(ttft_s, REAL), R(itl_count, NUMBER), R(itl_s, REAL), R(itl_min_s, REAL),
    R(itl_p50_s, REAL), R(itl_p95_s, REAL), R(itl_p99_s, REAL), R(itl_max_s, REAL),
    R(tokens_per_s, REAL), R(hit_ratio, REAL), R(efficiency, REAL), R(memory_bytes, NUMBER),
    R(batches, NUMBER),
};
#undef R

static void event_put_field(struct sonde_buf *b, const void *at, enum event_how how)
{
    double d = 0;
    switch (how) {
    case WORD: put_word(b, *(const uint64_t *)at); break;
    case NUMBER: event_put_number(b, *(const uint64_t *)at); break;
    case SMALL: sonde_chunk_put_varint(b, *(const uint32_t *)at); break;
    case REAL:
        memcpy(&d, at, sizeof(d));
        event_put_amount(b, d);
        break;
    case TEXT: event_put_text(b, *(const char *const *)at); break;
    }
}

static void put_items(struct sonde_buf *b, const struct sonde_infer_request *r, uint32_t count)
{
    uint64_t before_ns = r->arrived_ns;
    sonde_chunk_put_varint(b, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct sonde_infer_item *item = &r->items[i];
        event_put_text(b, item->name);
        sonde_chunk_put_varint(b, item->kind);
        sonde_chunk_put_varint(b, sonde_zigzag(item->start_ns - before_ns));
        event_put_number(b, item->end_ns > item->start_ns ? item->end_ns - item->start_ns : 0);
        event_put_number(b, item->busy_ns);
        event_put_number(b, item->tokens);
        sonde_chunk_put_varint(b, item->count ? item->count : 1);
        sonde_chunk_put_varint(b, item->batch);
        before_ns = item->start_ns;
    }
}

void sonde_event_put_request(struct sonde_buf *out, const struct sonde_infer_request *r,
                             int timeline)
{
    struct sonde_buf b;
    sonde_buf_init(&b, RECORD_MAX);
    for (size_t i = 0; i < SONDE_COUNT(fields); i++) {
        event_put_field(&b, (const char *)r + fields[i].at, fields[i].how);
    }
    event_put_text(&b, r->own_id);
    sonde_chunk_put_varint(&b, SONDE_PHASE_COUNT);
    for (uint32_t i = 0; i < SONDE_PHASE_COUNT; i++) {
        event_put_number(&b, r->phase_count[i]);
        if (r->phase_count[i]) event_put_amount(&b, r->phase_s[i]);
    }
    sonde_chunk_put_varint(&b, r->attr_count);
    for (uint32_t i = 0; i < r->attr_count; i++) {
        event_put_text(&b, r->attrs[i].key);
        event_put_text(&b, r->attrs[i].value);
    }
    put_items(&b, r, timeline ? r->item_count : 0);
    put_record(out, &b);
}

static void event_get_field(struct sonde_chunk_in *in, void *at, enum event_how how)
{
    double d;
    switch (how) {
    case WORD: *(uint64_t *)at = event_get_word(in); break;
    case NUMBER: *(uint64_t *)at = get_number(in, INT64_MAX); break;
    case SMALL: *(uint32_t *)at = get_u32(in, UINT32_MAX); break;
    case REAL:
        d = get_real(in);
        if (d < 0) in->bad = 1;
        memcpy(at, &d, sizeof(d));
        break;
    case TEXT: *(const char **)at = get_text(in); break;
    }
}

static void get_item(struct sonde_chunk_in *in, uint64_t *before_ns, struct sonde_infer_item *out)
{
    *out = (struct sonde_infer_item){ .name = get_text(in) };
    out->kind = get_u32(in, UINT32_MAX);
    out->start_ns = *before_ns + sonde_unzigzag(sonde_chunk_get_varint(in));
    const uint64_t length_ns = get_number(in, INT64_MAX);
    out->busy_ns = get_number(in, INT64_MAX);
    out->tokens = get_number(in, INT64_MAX);
    out->count = get_u32(in, UINT32_MAX);
    out->batch = get_u32(in, UINT32_MAX);
    out->end_ns = out->start_ns + length_ns;
    *before_ns = out->start_ns;
    const int known = out->kind < SONDE_PHASE_COUNT || out->kind == SONDE_PHASE_NAMED;
    if (!known || out->end_ns < out->start_ns || !out->count) in->bad = 1;
}

int sonde_event_get_request(struct sonde_chunk_in *in, struct sonde_event_room *room,
                            struct sonde_infer_request *out)
{
    *out = (struct sonde_infer_request){ 0 };
    for (size_t i = 0; i < SONDE_COUNT(fields); i++) {
        event_get_field(in, (char *)out + fields[i].at, fields[i].how);
    }
    event_copy_text(in, out->own_id, sizeof(out->own_id));
    const uint32_t phases = get_u32(in, SONDE_PHASE_COUNT);
    for (uint32_t i = 0; i < phases; i++) {
        out->phase_count[i] = get_number(in, INT64_MAX);
        if (out->phase_count[i]) out->phase_s[i] = get_real(in);
    }
    out->attr_count = get_u32(in, SONDE_INFER_ATTRS_MAX);
    for (uint32_t i = 0; i < out->attr_count; i++) {
        room->request_attrs[i].key = get_text(in);
        event_copy_text(in, room->request_attrs[i].value, sizeof(room->request_attrs[i].value));
    }
    out->attrs = room->request_attrs;
    out->item_count = get_u32(in, SONDE_INFER_ITEMS_MAX);
    uint64_t before_ns = out->arrived_ns;
    for (uint32_t i = 0; i < out->item_count; i++) get_item(in, &before_ns, &room->items[i]);
    out->items = out->item_count ? room->items : NULL;
    const char *source = sonde_infer_source_name(out->source);
    if (out->outcome >= SONDE_INFER_OUTCOMES || sonde_infer_source_find(source) < 0) in->bad = 1;
    return in->bad || in->at != in->end ? SONDE_EFORMAT : 0;
}
