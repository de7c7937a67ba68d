/* quantize.c - the conversion of quantize.h: a row at a time through floats, in one thread. Only
 * I2_S, whose scale is of the whole tensor, needs all of a tensor's numbers at once. */
#include "file/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "file/gguf_write.h"
#include "sonde/engine.h"

struct quantize {
    const struct gguf *in;
    const struct weight_kind *kind;
    struct gguf_writer *writer;
    const struct quantize_watch *watch;
    struct quantize_report *report;
    struct sonde_device_op op;
    struct fail *why;
};

static uint64_t quantize_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int quantize_text_is(struct gguf_text t, const char *is)
{
    return t.bytes == strlen(is) && !memcmp(t.at, is, t.bytes);
}

static int text_ends(struct gguf_text t, const char *with)
{
    const size_t n = strlen(with);
    return t.bytes >= n && !memcmp(t.at + t.bytes - n, with, n);
}

static int quantize_tensor_fail(const struct quantize *q, const struct gguf_tensor *t,
                                const char *what)
{
    return fail_set(q->why, "%s: tensor %.*s %s", gguf_name(q->in), (int)t->name.bytes, t->name.at,
                    what);
}

/* ---- Which tensor becomes what ------------------------------------------------------------- */

static int quantize_type_is_ternary(enum weight_type type)
{
    return type == WEIGHT_TQ2_0 || type == WEIGHT_I2_S;
}

static enum weight_type tensor_type(const struct quantize *q, const struct gguf_tensor *t,
                                    int *fallback)
{
    *fallback = 0;
    if (t->dims_count < 2 || !text_ends(t->name, ".weight") || text_ends(t->name, "_norm.weight")) {
        return (enum weight_type)t->type;
    }
    const int both_ends = quantize_text_is(t->name, "token_embd.weight") ||
                          quantize_text_is(t->name, "output.weight");
    if (both_ends && quantize_type_is_ternary(q->kind->type)) return WEIGHT_F16;
    if (t->dims[0] % q->kind->block == 0) return q->kind->type;
    *fallback = 1;
    return WEIGHT_F16;
}

static uint64_t tensor_rows(const struct gguf_tensor *t)
{
    return t->dims[1] * t->dims[2] * t->dims[3];
}

/* ---- Numbers ------------------------------------------------------------------------------- */

static struct weight quantize_tensor_weight(const struct gguf_tensor *t)
{
    struct weight w = { .type = (enum weight_type)t->type, .cols = (uint32_t)t->dims[0],
                        .data = t->data, .scale = 1 };
    w.row_bytes = weight_row_bytes(w.type, w.cols);
    if (w.type == WEIGHT_I2_S) {
        memcpy(&w.scale, (const char *)t->data + tensor_rows(t) * w.row_bytes, sizeof(w.scale));
    }
    return w;
}

static int row_check(const struct quantize *q, const struct gguf_tensor *t, const float *x)
{
    for (uint64_t i = 0; i < t->dims[0]; i++) {
        if (isfinite(x[i])) continue;
        return quantize_tensor_fail(q, t, "has a number that is infinite or none");
    }
    return 0;
}

/* One scale for all: the rows are needed twice, so they are kept. */
static int tensor_to_i2_s(const struct quantize *q, const struct gguf_tensor *t)
{
    const struct weight w = quantize_tensor_weight(t);
    const uint64_t rows = tensor_rows(t), row_bytes = weight_row_bytes(WEIGHT_I2_S, w.cols);
    float *x = reallocarray(NULL, rows, w.cols * sizeof(*x));
    unsigned char *row = malloc(row_bytes);
    int rc = x && row ? 0 : quantize_tensor_fail(q, t, "does not fit into memory");
    for (uint64_t i = 0; i < rows && !rc; i++) {
        weight_row_to_floats(&w, (uint32_t)i, x + i * w.cols);
        rc = row_check(q, t, x + i * w.cols);
    }
    const float scale = rc ? 0 : weight_ternary_scale(x, rows * w.cols);
    for (uint64_t i = 0; i < rows && !rc; i++) {
        weight_row_from_floats(WEIGHT_I2_S, x + i * w.cols, w.cols, scale, row);
        gguf_write_data(q->writer, row, row_bytes);
    }
    const float tail[8] = { scale };
    if (!rc) gguf_write_data(q->writer, tail, sizeof(tail));
    free(x);
    free(row);
    return rc;
}

static int tensor_by_rows(const struct quantize *q, const struct gguf_tensor *t,
                          enum weight_type type)
{
    const struct weight w = quantize_tensor_weight(t);
    const uint64_t rows = tensor_rows(t), row_bytes = weight_row_bytes(type, w.cols);
    float *x = malloc(w.cols * sizeof(*x));
    unsigned char *row = malloc(row_bytes);
    int rc = x && row ? 0 : quantize_tensor_fail(q, t, "does not fit into memory");
    for (uint64_t i = 0; i < rows && !rc; i++) {
        weight_row_to_floats(&w, (uint32_t)i, x);
        rc = row_check(q, t, x);
        if (rc) break;
        weight_row_from_floats(type, x, w.cols, 1, row);
        gguf_write_data(q->writer, row, row_bytes);
    }
    free(x);
    free(row);
    return rc;
}

static int tensor_convert(const struct quantize *q, const struct gguf_tensor *t)
{
    int fallback;
    const enum weight_type type = tensor_type(q, t, &fallback);
    const uint64_t begin = quantize_clock_ns();
    struct quantize_report *r = q->report;
    int rc = 0;
    if (q->watch) q->watch->before(q->watch->arg, r, t, type, fallback);
    if (type == t->type) {
        gguf_write_data(q->writer, t->data, t->bytes);
    } else {
        rc = type == WEIGHT_I2_S ? tensor_to_i2_s(q, t) : tensor_by_rows(q, t, type);
        r->converted++;
        sonde_device_op_record(q->op, quantize_clock_ns() - begin);
    }
    if (fallback) {
        r->fallbacks++;
        sonde_device_fallback("cpu", "rows do not fit the block");
    }
    r->bytes_in += t->bytes;
    r->bytes_out += weight_bytes(type, t->dims[0], tensor_rows(t));
    r->done++;
    return rc;
}

/* ---- The file ------------------------------------------------------------------------------ */

static void pairs_copy(const struct quantize *q)
{
    uint32_t version;
    for (uint64_t i = 0; i < gguf_pair_count(q->in); i++) {
        struct gguf_text key;
        const void *raw;
        size_t bytes;
        gguf_pair(q->in, i, &key, &raw, &bytes);
        /* The writer aligns as it does by default. */
        if (quantize_text_is(key, "general.file_type") ||
            quantize_text_is(key, "general.alignment")) {
            continue;
        }
        gguf_write_pair(q->writer, key, raw, bytes);
    }
    gguf_write_u32(q->writer, "general.file_type", q->kind->file_type);
    if (!gguf_get_u32(q->in, "general.quantization_version", &version)) {
        gguf_write_u32(q->writer, "general.quantization_version", 2);
    }
}

static int tensors_declare(const struct quantize *q)
{
    for (uint64_t i = 0; i < q->report->tensors; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(q->in, i);
        int fallback;
        if (!weight_kind(t->type)) {
            return fail_set(q->why, "%s: tensor %.*s has type %u, which this engine does not read",
                            gguf_name(q->in), (int)t->name.bytes, t->name.at, t->type);
        }
        if (tensor_rows(t) > UINT32_MAX) {
            return quantize_tensor_fail(q, t, "has more rows than this engine can count");
        }
        const enum weight_type type = tensor_type(q, t, &fallback);
        gguf_write_tensor(q->writer, t->name, type, t->dims, t->dims_count,
                          weight_bytes(type, t->dims[0], tensor_rows(t)));
    }
    return 0;
}

int quantize_file(const struct gguf *in, enum weight_type type, const char *path,
                  const struct quantize_watch *watch, struct quantize_report *report,
                  struct fail *why)
{
    struct quantize q = { .in = in, .kind = weight_kind(type), .watch = watch, .report = report,
                          .op = sonde_device_op("cpu", "quantize"), .why = why };
    *report = (struct quantize_report){ .tensors = gguf_tensor_count(in) };
    if (gguf_write_begin(path, &q.writer, why)) return -1;
    pairs_copy(&q);
    int rc = tensors_declare(&q);
    for (uint64_t i = 0; i < report->tensors && !rc; i++) {
        rc = tensor_convert(&q, gguf_tensor_at(in, i));
    }
    if (!rc) return gguf_write_finish(q.writer, why);
    gguf_write_abandon(q.writer);
    return rc;
}
