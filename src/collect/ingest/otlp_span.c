/* otlp_span.c - spans of OTLP to spans of the model; see otlp.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "collect/ingest/otlp_private.h"
#include "sonde/sonde.h"

enum { STATUS_ERROR = 2, NAME_MAX_BYTES = 200 };

struct span {
    struct sonde_model_span s;
    struct sonde_model_attr attr[SONDE_SPAN_ATTRS_MAX];
    char key[SONDE_SPAN_ATTRS_MAX][128];
    char name[NAME_MAX_BYTES + 1];
    uint64_t end_ns;
};

/* What fits of text, without half a character at the end. */
static void otlp_span_copy_text(char *out, size_t max, const void *data, size_t len)
{
    if (len > max) len = max;
    len = strnlen(data, len);
    memcpy(out, data, len);
    while (len && !sonde__utf8_valid(out, len)) len--;
    out[len] = '\0';
}

static uint64_t big_endian(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v = v << 8 | p[i];
    return v;
}

/* The first few are kept; of text as much as a span of ours has room for. */
static int take_attribute(struct span *x, const struct sonde_pb_field *f)
{
    struct sonde_pb_reader r = sonde_pb_reader(f->data, f->len);
    struct sonde_pb_field k;
    struct otlp_value v = { .type = OTLP_NOTHING };
    char key[sizeof(x->key[0])] = "";
    int more;
    if (f->wire != SONDE_PB_BYTES) return SONDE_EFORMAT;
    while ((more = sonde_pb_next(&r, &k)) > 0) {
        if (k.wire != SONDE_PB_BYTES) continue;
        if (k.number == 1 && !sonde__utf8_valid((const char *)k.data, k.len)) return SONDE_EFORMAT;
        if (k.number == 1) otlp_span_copy_text(key, sizeof(key) - 1, k.data, k.len);
        if (k.number == 2 && otlp_value(k.data, k.len, &v) != 0) return SONDE_EFORMAT;
    }
    if (more < 0) return SONDE_EFORMAT;
    if (!strcmp(key, "thread.id") && v.type == OTLP_INT) {
        x->s.tid = (uint32_t)v.i;
        return 0;
    }
    if (!key[0] || v.type == OTLP_NOTHING || x->s.attr_count == SONDE_SPAN_ATTRS_MAX) return 0;
    struct sonde_model_attr *a = &x->attr[x->s.attr_count];
    memcpy(x->key[x->s.attr_count], key, sizeof(key));
    *a = (struct sonde_model_attr){ .key = x->key[x->s.attr_count] };
    x->s.attr_count++;
    if (v.type == OTLP_INT || v.type == OTLP_DOUBLE) {
        a->type = v.type == OTLP_INT ? SONDE__ATTR_INT : SONDE__ATTR_DOUBLE;
        if (v.type == OTLP_INT) a->value.i = v.i;
        else a->value.d = v.d;
        return 0;
    }
    struct sonde_buf text;
    sonde_buf_init(&text, (size_t)1 << 20);
    a->type = SONDE__ATTR_STR;
    otlp_value_text(&v, &text);
    if (text.len) otlp_span_copy_text(a->value.str, SONDE__ATTR_BYTES, text.data, text.len);
    sonde_buf_release(&text);
    return 0;
}

static int take_status(struct span *x, const struct sonde_pb_field *f)
{
    struct sonde_pb_reader r = sonde_pb_reader(f->data, f->len);
    struct sonde_pb_field k;
    int more;
    while ((more = sonde_pb_next(&r, &k)) > 0) {
        if (k.number == 3 && k.wire == SONDE_PB_VARINT && k.value == STATUS_ERROR) {
            x->s.outcome = SONDE_ERROR;
        }
    }
    return more < 0 ? SONDE_EFORMAT : 0;
}

static int take_field(struct span *x, const struct sonde_pb_field *f)
{
    const int bytes = f->wire == SONDE_PB_BYTES, fixed = f->wire == SONDE_PB_FIXED64;
    switch (f->number) {
    case 1:
        if (!bytes) return SONDE_EFORMAT;
        if (f->len == 16) {
            x->s.trace_hi = big_endian(f->data);
            x->s.trace_lo = big_endian(f->data + 8);
        }
        return 0;
    case 2:
    case 4:
        if (!bytes) return SONDE_EFORMAT;
        if (f->len == 8) *(f->number == 2 ? &x->s.id : &x->s.parent) = big_endian(f->data);
        return 0;
    case 5:
        if (!bytes || !sonde__utf8_valid((const char *)f->data, f->len)) return SONDE_EFORMAT;
        otlp_span_copy_text(x->name, NAME_MAX_BYTES, f->data, f->len);
        return 0;
    case 7:
        if (fixed) x->s.start_ns = f->value;
        return fixed ? 0 : SONDE_EFORMAT;
    case 8:
        if (fixed) x->end_ns = f->value;
        return fixed ? 0 : SONDE_EFORMAT;
    case 9: return take_attribute(x, f);
    case 15: return bytes ? take_status(x, f) : SONDE_EFORMAT;
    default: return 0;
    }
}

int otlp_span(struct otlp_capture *t, const struct sonde_pb_field *in)
{
    struct sonde_pb_reader r = sonde_pb_reader(in->data, in->len);
    struct sonde_pb_field f;
    struct span x = { .s = { .program = t->program, .pid = t->pid } };
    int more, rc = 0;
    if (in->wire != SONDE_PB_BYTES) return SONDE_EFORMAT;
    while (!rc && (more = sonde_pb_next(&r, &f)) > 0) rc = take_field(&x, &f);
    if (rc || more < 0) return SONDE_EFORMAT;
    const char *problem = !(x.s.trace_hi | x.s.trace_lo) ? "it has no trace id of 16 bytes"
                          : !x.s.id                      ? "it has no id of 8 bytes"
                          : !x.s.start_ns                ? "it has no start"
                          : x.end_ns < x.s.start_ns      ? "it ends before it starts"
                                                         : NULL;
    if (problem) {
        otlp_reject(t, 1, "span \"%.100s\": %s", x.name, problem);
        return 0;
    }
    t->result->accepted++;
    if (!t->apply) return 0;
    x.s.name = x.name[0] ? x.name : "unnamed";
    x.s.attrs = x.attr;
    x.s.duration_ns = x.end_ns - x.s.start_ns;
    sonde_model_span(t->o->model, &x.s);
    otlp_breathe(t);
    return 0;
}
