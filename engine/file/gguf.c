/* gguf.c - the reader of gguf.h.
 *
 *   "GGUF", u32 version, u64 tensors, u64 pairs
 *   pairs:    text key, u32 type, value            text: u64 bytes, then the bytes
 *   tensors:  text name, u32 dims, u64 each, u32 type, u64 offset
 *   (to the next multiple of general.alignment)
 *   data:     at offset from here
 *
 * The file is walked once with a cursor that cannot leave it; what is found is kept as pointers
 * into it, pairs and tensors each with an order by name for looking them up. */
#include "file/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/gguf_private.h"
#include "file/weight.h"

enum {
    KEY_BYTES_MAX = 65535,
    NAME_BYTES_MAX = 255,
    PAIR_BYTES_MIN = 8 + 1 + 4 + 1,
    TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 4 + 8,
    ALIGNMENT_DEFAULT = 32,
    ALIGNMENT_MAX = 1 << 20,
    DIMS_MAX = 4,
    COUNT_MAX = 1 << 20,         /* of keys, of tensors */
};
#define DIM_MAX ((uint64_t)UINT32_MAX)

/* ---- A cursor that stays in the file ------------------------------------------------------- */

struct gguf_cursor { const unsigned char *at, *end; };

static size_t cursor_left(const struct gguf_cursor *c)
{
    return (size_t)(c->end - c->at);
}

static int cursor_skip(struct gguf_cursor *c, uint64_t bytes)
{
    if (bytes > cursor_left(c)) return -1;
    c->at += bytes;
    return 0;
}

static int cursor_read(struct gguf_cursor *c, void *out, size_t bytes)
{
    if (bytes > cursor_left(c)) return -1;
    memcpy(out, c->at, bytes);
    c->at += bytes;
    return 0;
}

static int cursor_text(struct gguf_cursor *c, struct gguf_text *out)
{
    uint64_t bytes;
    if (cursor_read(c, &bytes, sizeof(bytes)) || bytes > cursor_left(c)) return -1;
    out->at = (const char *)c->at;
    out->bytes = (size_t)bytes;
    c->at += bytes;
    return 0;
}

/* ---- Values -------------------------------------------------------------------------------- */

static int array_skip(struct gguf_cursor *c, struct fail *why, const char *in)
{
    uint32_t type;
    uint64_t count;
    if (cursor_read(c, &type, sizeof(type)) || cursor_read(c, &count, sizeof(count))) return -1;
    if (type == GGUF_STRING) {
        if (count > cursor_left(c) / 8) return -1; /* before a loop that a count makes long */
        struct gguf_text text;
        for (uint64_t i = 0; i < count; i++) {
            if (cursor_text(c, &text)) return -1;
        }
        return 0;
    }
    const size_t bytes = gguf_type_bytes(type);
    if (!bytes) {
        fail_set(why, "%s: an array of values of type %u, which is not supported", in, type);
        return 1;
    }
    if (count > cursor_left(c) / bytes) return -1;
    return cursor_skip(c, count * bytes);
}

/* 0; -1: the file ends in it; 1: said in why. */
static int value_skip(struct gguf_cursor *c, uint32_t type, struct fail *why, const char *in)
{
    struct gguf_text text;
    if (type == GGUF_STRING) return cursor_text(c, &text);
    if (type == GGUF_ARRAY) return array_skip(c, why, in);
    const size_t bytes = gguf_type_bytes(type);
    if (bytes) return cursor_skip(c, bytes);
    fail_set(why, "%s: a value of type %u, which there is not", in, type);
    return 1;
}

/* ---- Orders by name ------------------------------------------------------------------------ */

static int pair_compare(const void *a, const void *b, void *arg)
{
    const struct gguf *g = arg;
    return gguf_text_compare(&g->pairs[*(const uint32_t *)a].key,
                             &g->pairs[*(const uint32_t *)b].key);
}

static int tensor_compare(const void *a, const void *b, void *arg)
{
    const struct gguf *g = arg;
    return gguf_text_compare(&g->tensors[*(const uint32_t *)a].name,
                             &g->tensors[*(const uint32_t *)b].name);
}

static int tensor_place_compare(const void *a, const void *b, void *arg)
{
    const struct gguf *g = arg;
    const struct gguf_tensor *x = &g->tensors[*(const uint32_t *)a];
    const struct gguf_tensor *y = &g->tensors[*(const uint32_t *)b];
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static uint32_t *order_create(struct gguf *g, uint64_t count,
                              int (*compare)(const void *, const void *, void *))
{
    uint32_t *order = malloc((count + 1) * sizeof(*order));
    if (!order) return NULL;
    for (uint64_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    qsort_r(order, count, sizeof(*order), compare, g);
    return order;
}

/* ---- Pairs --------------------------------------------------------------------------------- */

/* For a sentence: what is not printable in a name is not printed, and a long one is cut. */
static const char *text_print(const struct gguf_text *t, char out[64])
{
    size_t n = 0;
    for (; n < t->bytes && n < 60; n++) {
        const unsigned char c = (unsigned char)t->at[n];
        out[n] = c < 0x20 || c >= 0x7f ? '?' : (char)c;
    }
    out[n] = '\0';
    return out;
}

static int pair_read(struct gguf *g, struct gguf_cursor *c, uint64_t i, struct fail *why)
{
    struct gguf_pair *p = &g->pairs[i];
    uint32_t type;
    char shown[64], in[300];
    if (cursor_text(c, &p->key)) goto truncated;
    if (!p->key.bytes || p->key.bytes > KEY_BYTES_MAX) {
        return fail_set(why, "%s: key %llu is %zu bytes long", g->name, (unsigned long long)i,
                        p->key.bytes);
    }
    p->raw = c->at;
    if (cursor_read(c, &type, sizeof(type))) goto truncated;
    snprintf(in, sizeof(in), "%s: key %s", g->name, text_print(&p->key, shown));
    const int rc = value_skip(c, type, why, in);
    if (rc > 0) return -1;
    if (rc < 0) goto truncated;
    p->type = (enum gguf_type)type;
    p->raw_bytes = (size_t)(c->at - p->raw);
    return 0;
truncated:
    return fail_set(why, "%s: truncated: the file ends in metadata, key %llu of %llu", g->name,
                    (unsigned long long)i + 1, (unsigned long long)g->pair_count);
}

static int pairs_read(struct gguf *g, struct gguf_cursor *c, struct fail *why)
{
    if (g->pair_count > cursor_left(c) / PAIR_BYTES_MIN || g->pair_count > COUNT_MAX) {
        return fail_set(why, "%s: truncated or damaged: %llu keys do not fit into %zu bytes",
                        g->name, (unsigned long long)g->pair_count, g->bytes);
    }
    g->pairs = calloc(g->pair_count + 1, sizeof(*g->pairs));
    if (!g->pairs) return fail_set(why, "%s: out of memory", g->name);
    for (uint64_t i = 0; i < g->pair_count; i++) {
        if (pair_read(g, c, i, why)) return -1;
    }
    g->pair_order = order_create(g, g->pair_count, pair_compare);
    if (!g->pair_order) return fail_set(why, "%s: out of memory", g->name);
    for (uint64_t i = 1; i < g->pair_count; i++) {
        const struct gguf_text *key = &g->pairs[g->pair_order[i]].key;
        char shown[64];
        if (gguf_text_compare(&g->pairs[g->pair_order[i - 1]].key, key)) continue;
        return fail_set(why, "%s: key %s is there twice", g->name, text_print(key, shown));
    }
    return 0;
}

/* ---- Tensors ------------------------------------------------------------------------------- */

static int gguf_tensor_fail(const struct gguf *g, const struct gguf_tensor *t, struct fail *why,
                            const char *what)
{
    char shown[64];
    return fail_set(why, "%s: tensor %s %s", g->name, text_print(&t->name, shown), what);
}

/* Sets bytes from type and dimensions. */
static int tensor_measure(const struct gguf *g, struct gguf_tensor *t, struct fail *why)
{
    uint64_t numbers = 1;
    for (uint32_t d = 0; d < t->dims_count; d++) {
        if (!t->dims[d] || t->dims[d] > DIM_MAX) {
            return gguf_tensor_fail(g, t, why,
                                    "has a dimension of 0, or one that is far too large");
        }
        if (__builtin_mul_overflow(numbers, t->dims[d], &numbers) || numbers > INT64_MAX / 8) {
            return gguf_tensor_fail(g, t, why, "has dimensions that are far too large");
        }
    }
    const struct weight_kind *kind = weight_kind(t->type);
    if (!kind) return 0; /* whoever wants it says so */
    if (t->dims[0] % kind->block) {
        return gguf_tensor_fail(g, t, why,
                                "has rows that are not a multiple of the block of its type");
    }
    t->bytes = weight_bytes(kind->type, t->dims[0], numbers / t->dims[0]);
    return 0;
}

/* offset: where the file has it, kept in data until it is known where data begins. */
static int tensor_read(struct gguf *g, struct gguf_cursor *c, uint64_t i, uint64_t *offset,
                       struct fail *why)
{
    struct gguf_tensor *t = &g->tensors[i];
    if (cursor_text(c, &t->name)) goto truncated;
    if (!t->name.bytes || t->name.bytes > NAME_BYTES_MAX) {
        return fail_set(why, "%s: the name of tensor %llu is %zu bytes long", g->name,
                        (unsigned long long)i, t->name.bytes);
    }
    if (cursor_read(c, &t->dims_count, sizeof(t->dims_count))) goto truncated;
    if (!t->dims_count || t->dims_count > DIMS_MAX) {
        return gguf_tensor_fail(g, t, why, "does not have 1 to 4 dimensions");
    }
    for (uint32_t d = 0; d < DIMS_MAX; d++) t->dims[d] = 1;
    if (cursor_read(c, t->dims, t->dims_count * sizeof(t->dims[0])) ||
        cursor_read(c, &t->type, sizeof(t->type)) || cursor_read(c, offset, sizeof(*offset))) {
        goto truncated;
    }
    return tensor_measure(g, t, why);
truncated:
    return fail_set(why, "%s: truncated: the file ends in the list of tensors, at %llu of %llu",
                    g->name, (unsigned long long)i + 1, (unsigned long long)g->tensor_count);
}

static int alignment_read(const struct gguf *g, uint32_t *alignment, struct fail *why)
{
    *alignment = ALIGNMENT_DEFAULT;
    if (!gguf_get_u32(g, "general.alignment", alignment) &&
        gguf_pair_find(g, "general.alignment")) {
        return fail_set(why, "%s: general.alignment is not an integer", g->name);
    }
    if (*alignment < 8 || *alignment > ALIGNMENT_MAX || *alignment & (*alignment - 1)) {
        return fail_set(why, "%s: general.alignment is %u, not a power of two from 8 to %d",
                        g->name, *alignment, ALIGNMENT_MAX);
    }
    return 0;
}

static int tensors_place(struct gguf *g, uint64_t header_bytes, const uint64_t *offsets,
                         struct fail *why)
{
    uint32_t alignment;
    if (alignment_read(g, &alignment, why)) return -1;
    const uint64_t begin = (header_bytes + alignment - 1) / alignment * alignment;
    const uint64_t room = begin < g->bytes ? g->bytes - begin : 0;
    for (uint64_t i = 0; i < g->tensor_count; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        if (offsets[i] % alignment) return gguf_tensor_fail(g, t, why, "is not aligned");
        if (offsets[i] > room || t->bytes > room - offsets[i]) {
            return gguf_tensor_fail(g, t, why, "reaches beyond the end of the file: truncated?");
        }
        t->data = g->data + (begin < g->bytes ? begin + offsets[i] : g->bytes);
    }
    uint32_t *order = order_create(g, g->tensor_count, tensor_place_compare);
    if (!order) return fail_set(why, "%s: out of memory", g->name);
    int rc = 0;
    for (uint64_t i = 1; i < g->tensor_count && !rc; i++) {
        const struct gguf_tensor *a = &g->tensors[order[i - 1]], *b = &g->tensors[order[i]];
        const uint64_t apart = (uint64_t)((const char *)b->data - (const char *)a->data);
        if (apart < a->bytes) rc = gguf_tensor_fail(g, b, why, "lies in another one");
    }
    free(order);
    return rc;
}

static int tensors_read(struct gguf *g, struct gguf_cursor *c, struct fail *why)
{
    if (g->tensor_count > cursor_left(c) / TENSOR_BYTES_MIN || g->tensor_count > COUNT_MAX) {
        return fail_set(why, "%s: truncated or damaged: %llu tensors do not fit into %zu bytes",
                        g->name, (unsigned long long)g->tensor_count, g->bytes);
    }
    g->tensors = calloc(g->tensor_count + 1, sizeof(*g->tensors));
    uint64_t *offsets = calloc(g->tensor_count + 1, sizeof(*offsets));
    int rc = g->tensors && offsets ? 0 : fail_set(why, "%s: out of memory", g->name);
    for (uint64_t i = 0; i < g->tensor_count && !rc; i++) {
        rc = tensor_read(g, c, i, &offsets[i], why);
    }
    if (!rc) rc = tensors_place(g, (uint64_t)(c->at - g->data), offsets, why);
    free(offsets);
    if (rc) return rc;
    g->tensor_order = order_create(g, g->tensor_count, tensor_compare);
    if (!g->tensor_order) return fail_set(why, "%s: out of memory", g->name);
    for (uint64_t i = 1; i < g->tensor_count; i++) {
        const struct gguf_tensor *t = &g->tensors[g->tensor_order[i]];
        if (gguf_text_compare(&g->tensors[g->tensor_order[i - 1]].name, &t->name)) continue;
        return gguf_tensor_fail(g, t, why, "is there twice");
    }
    return 0;
}

/* ---- Opening ------------------------------------------------------------------------------- */

static int gguf_header_read(struct gguf *g, struct gguf_cursor *c, struct fail *why)
{
    unsigned char magic[4] = { 0 };
    uint32_t version;
    if (cursor_read(c, magic, sizeof(magic)) || memcmp(magic, "GGUF", sizeof(magic))) {
        return fail_set(why, "%s: is not a GGUF file", g->name);
    }
    if (cursor_read(c, &version, sizeof(version))) goto truncated;
    if (version && !(version & 0xffff)) {
        return fail_set(why, "%s: a big-endian GGUF file; convert it (gguf_convert_endian.py)",
                        g->name);
    }
    if (version != 2 && version != 3) {
        return fail_set(why, "%s: version %u of GGUF; 2 and 3 are supported", g->name, version);
    }
    if (cursor_read(c, &g->tensor_count, 8) || cursor_read(c, &g->pair_count, 8)) goto truncated;
    return 0;
truncated:
    return fail_set(why, "%s: truncated: the file ends in its header", g->name);
}

static int gguf_parse(struct gguf *g, struct fail *why)
{
    struct gguf_cursor c = { g->data, g->data + g->bytes };
    if (gguf_header_read(g, &c, why)) {
        g->tensor_count = g->pair_count = 0;
        return -1;
    }
    return pairs_read(g, &c, why) || tensors_read(g, &c, why) ? -1 : 0;
}

static struct gguf *gguf_over(const void *data, size_t bytes, const char *name)
{
    struct gguf *g = calloc(1, sizeof(*g));
    if (!g) return NULL;
    g->data = data;
    g->bytes = bytes;
    snprintf(g->name, sizeof(g->name), "%s", name);
    return g;
}

int gguf_open_memory(const void *data, size_t bytes, const char *name, struct gguf **out,
                     struct fail *why)
{
    struct gguf *g = gguf_over(data, bytes, name);
    if (!g) return fail_set(why, "%s: out of memory", name);
    if (gguf_parse(g, why)) {
        gguf_close(g);
        return -1;
    }
    *out = g;
    return 0;
}

static int file_map(const char *path, const void **data, size_t *bytes, struct fail *why)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_set(why, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    void *map = MAP_FAILED;
    int rc = 0;
    if (fstat(fd, &st)) {
        rc = fail_set(why, "%s: cannot read: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        rc = fail_set(why, "%s: is not a regular file", path);
    } else if (!st.st_size) {
        rc = fail_set(why, "%s: is not a GGUF file: it is empty", path);
    } else {
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) rc = fail_set(why, "%s: cannot map: %s", path, strerror(errno));
    }
    close(fd);
    if (rc) return rc;
    *data = map;
    *bytes = (size_t)st.st_size;
    return 0;
}

int gguf_open(const char *path, struct gguf **out, struct fail *why)
{
    const void *data = NULL;
    size_t bytes = 0;
    if (file_map(path, &data, &bytes, why)) return -1;
    struct gguf *g = gguf_over(data, bytes, path);
    if (!g) {
        munmap((void *)(uintptr_t)data, bytes);
        return fail_set(why, "%s: out of memory", path);
    }
    g->mapped = 1;
    if (gguf_parse(g, why)) {
        gguf_close(g);
        return -1;
    }
    *out = g;
    return 0;
}

void gguf_close(struct gguf *g)
{
    if (!g) return;
    if (g->mapped) munmap((void *)(uintptr_t)g->data, g->bytes);
    free(g->pairs);
    free(g->tensors);
    free(g->pair_order);
    free(g->tensor_order);
    free(g);
}

uint64_t gguf_file_bytes(const struct gguf *g)
{
    return g->bytes;
}

const char *gguf_name(const struct gguf *g)
{
    return g->name;
}
