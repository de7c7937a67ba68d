/* gguf_get.c - looking up what the reader found in a GGUF file. */
#include <string.h>

#include "file/gguf_private.h"

size_t gguf_type_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {
        [GGUF_U8] = 1,
        [GGUF_I8] = 1, [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
        [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
    };
    return type <= GGUF_F64 ? bytes[type] : 0;
}

int gguf_text_compare(const struct gguf_text *a, const struct gguf_text *b)
{
    const size_t common = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int c = memcmp(a->at, b->at, common);
    if (c) return c;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

const struct gguf_pair *gguf_pair_find(const struct gguf *g, const char *key)
{
    const struct gguf_text text = { key, strlen(key) };
    uint64_t low = 0, high = g->pair_count;
    while (low < high) {
        const uint64_t mid = (low + high) / 2;
        const struct gguf_pair *p = &g->pairs[g->pair_order[mid]];
        const int c = gguf_text_compare(&text, &p->key);
        if (!c) return p;
        if (c < 0) high = mid;
        else low = mid + 1;
    }
    return NULL;
}

/* An integer of any type; 0: it is none, or does not fit. */
static int value_integer(const struct gguf_pair *p, int64_t *out)
{
    union { uint8_t u8; int8_t i8; uint16_t u16; int16_t i16; uint32_t u32; int32_t i32; uint64_t u64;
            int64_t i64; } v = { .u64 = 0 };
    const size_t bytes = gguf_type_bytes(p->type);
    if (!bytes) return 0;
    memcpy(&v, p->raw + 4, bytes);
    switch (p->type) {
    case GGUF_U8: *out = v.u8; return 1;
    case GGUF_I8: *out = v.i8; return 1;
    case GGUF_U16: *out = v.u16; return 1;
    case GGUF_I16: *out = v.i16; return 1;
    case GGUF_U32: *out = v.u32; return 1;
    case GGUF_I32: *out = v.i32; return 1;
    case GGUF_I64: *out = v.i64; return 1;
    case GGUF_U64: *out = v.i64; return v.u64 <= INT64_MAX;
    default: return 0;
    }
}

int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out)
{
    const struct gguf_pair *p = gguf_pair_find(g, key);
    int64_t value;
    if (!p || !value_integer(p, &value) || value < 0 || value > UINT32_MAX) return 0;
    *out = (uint32_t)value;
    return 1;
}

int gguf_get_f32(const struct gguf *g, const char *key, float *out)
{
    const struct gguf_pair *p = gguf_pair_find(g, key);
    if (!p || (p->type != GGUF_F32 && p->type != GGUF_F64)) return 0;
    float single;
    double twice;
    if (p->type == GGUF_F32) {
        memcpy(&single, p->raw + 4, sizeof(single));
    } else {
        memcpy(&twice, p->raw + 4, sizeof(twice));
        single = (float)twice;
    }
    *out = single;
    return 1;
}

int gguf_get_bool(const struct gguf *g, const char *key, int *out)
{
    const struct gguf_pair *p = gguf_pair_find(g, key);
    if (!p || p->type != GGUF_BOOL) return 0;
    *out = p->raw[4] != 0;
    return 1;
}

int gguf_get_text(const struct gguf *g, const char *key, struct gguf_text *out)
{
    const struct gguf_pair *p = gguf_pair_find(g, key);
    if (!p || p->type != GGUF_STRING) return 0;
    *out = (struct gguf_text){ (const char *)p->raw + 4 + 8, p->raw_bytes - 4 - 8 };
    return 1;
}

int gguf_get_array(const struct gguf *g, const char *key, enum gguf_type of, struct gguf_array *out)
{
    const struct gguf_pair *p = gguf_pair_find(g, key);
    uint32_t type;
    if (!p || p->type != GGUF_ARRAY) return 0;
    memcpy(&type, p->raw + 4, sizeof(type));
    if (type != (uint32_t)of) return 0;
    out->type = of;
    memcpy(&out->count, p->raw + 8, sizeof(out->count));
    out->items = p->raw + 16;
    return 1;
}

struct gguf_walk gguf_walk_begin(const struct gguf_array *strings)
{
    return (struct gguf_walk){ strings->items, strings->type == GGUF_STRING ? strings->count : 0 };
}

/* The lengths were checked when the file was opened. */
int gguf_walk_next(struct gguf_walk *w, struct gguf_text *out)
{
    if (!w->left) return 0;
    uint64_t bytes;
    memcpy(&bytes, w->at, sizeof(bytes));
    *out = (struct gguf_text){ (const char *)w->at + 8, (size_t)bytes };
    w->at += 8 + bytes;
    w->left--;
    return 1;
}

uint64_t gguf_pair_count(const struct gguf *g)
{
    return g->pair_count;
}

void gguf_pair(const struct gguf *g, uint64_t i, struct gguf_text *key, const void **raw,
               size_t *raw_bytes)
{
    *key = g->pairs[i].key;
    *raw = g->pairs[i].raw;
    *raw_bytes = g->pairs[i].raw_bytes;
}

uint64_t gguf_tensor_count(const struct gguf *g)
{
    return g->tensor_count;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, uint64_t i)
{
    return &g->tensors[i];
}

const struct gguf_tensor *gguf_tensor_named(const struct gguf *g, const char *name)
{
    const struct gguf_text text = { name, strlen(name) };
    uint64_t low = 0, high = g->tensor_count;
    while (low < high) {
        const uint64_t mid = (low + high) / 2;
        const struct gguf_tensor *t = &g->tensors[g->tensor_order[mid]];
        const int c = gguf_text_compare(&text, &t->name);
        if (!c) return t;
        if (c < 0) high = mid;
        else low = mid + 1;
    }
    return NULL;
}
