/* result_read.c - a result read back (result.h has the format). Files are mailed around and
 * edited, so nothing in one is believed: numbers are finite and in range, texts and arrays have a
 * length, intervals hold their order. What only a kind has is passed on as it stands. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json_read.h"
#include "bench/result.h"
#include "sonde/sonde.h"

#define RESULT_TEXT_MAX ((size_t)1 << 20)    /* of one string */
#define RESULT_STRINGS_MAX 10000u            /* of the command line, of reasons */
#define RESULT_SAMPLES_MAX 1e18

struct result_reader {
    struct sonde_json_reader *json;
    struct sonde_bench_result *r;
    struct sonde_buf text;
    int memory;      /* there is none */
    int schema;      /* 0 = not said */
};

static void result_no_memory(struct result_reader *in)
{
    in->memory = 1;
    sonde_json_fail(in->json, "no memory");
}

/* A number, or null for what is not known. */
static void result_read_number(struct result_reader *in, double *out)
{
    *out = NAN;
    if (sonde_json_peek(in->json) == 'n') sonde_json_skip(in->json);
    else sonde_json_number(in->json, out);
}

static double result_read_in_range(struct result_reader *in, double min, double max, double unknown)
{
    double v;
    result_read_number(in, &v);
    if (isnan(v)) return unknown;
    if (v >= min && v <= max) return v;
    sonde_json_fail(in->json, "a number that cannot be");
    return unknown;
}

/* A text or null; what is longer than the room is an error. */
static void result_read_text(struct result_reader *in, char *out, size_t size)
{
    struct sonde_json_text t;
    out[0] = '\0';
    if (sonde_json_peek(in->json) == 'n') {
        sonde_json_skip(in->json);
        return;
    }
    if (!sonde_json_string(in->json, &in->text, &t)) return;
    if (t.len >= size) {
        sonde_json_fail(in->json, "a text that is too long");
        return;
    }
    memcpy(out, t.s, t.len);
    out[t.len] = '\0';
}

static char *result_read_copy(struct result_reader *in)
{
    struct sonde_json_text t;
    if (!sonde_json_string(in->json, &in->text, &t)) return NULL;
    char *copy = sonde__alloc(t.len + 1);
    if (!copy) {
        result_no_memory(in);
        return NULL;
    }
    memcpy(copy, t.s, t.len);
    copy[t.len] = '\0';
    return copy;
}

static void result_read_strings(struct result_reader *in, char ***list, size_t *count, size_t *cap)
{
    if (!sonde_json_enter(in->json, '[')) return;
    while (sonde_json_element(in->json)) {
        if (*count >= RESULT_STRINGS_MAX) {
            sonde_json_fail(in->json, "a list that is too long");
            return;
        }
        char *copy = result_read_copy(in);
        if (!copy) return;
        char **at = SONDE_ARRAY_ADD(*list, *count, *cap);
        if (!at) {
            sonde__free(copy);
            result_no_memory(in);
            return;
        }
        *at = copy;
    }
}

static void result_read_machine(struct result_reader *in)
{
    struct sonde_bench_machine *m = &in->r->machine;
    struct sonde_json_text key;
    const struct { const char *key; char *to; size_t size; } texts[] = {
        { "cpu", m->cpu, sizeof(m->cpu) },
        { "kernel", m->kernel, sizeof(m->kernel) },
        { "governor", m->governor, sizeof(m->governor) },
        { "host", m->host, sizeof(m->host) },
    };
    if (!sonde_json_enter(in->json, '{')) return;
    while (sonde_json_member(in->json, &key)) {
        size_t i = 0;
        while (i < SONDE_COUNT(texts) && !sonde_json_text_is(key, texts[i].key)) i++;
        if (i < SONDE_COUNT(texts)) {
            result_read_text(in, texts[i].to, texts[i].size);
        } else if (sonde_json_text_is(key, "cpus")) {
            m->cpus = (uint32_t)result_read_in_range(in, 0, 1e6, 0);
        } else if (sonde_json_text_is(key, "memory_bytes")) {
            m->memory_bytes = (uint64_t)result_read_in_range(in, 0, 1e18, 0);
        } else if (sonde_json_text_is(key, "virtual")) {
            m->virtual = sonde_json_peek(in->json) == 't';
            sonde_json_skip(in->json);
        } else if (sonde_json_text_is(key, "load_before")) {
            m->load_before = result_read_in_range(in, 0, 1e9, NAN);
        } else if (sonde_json_text_is(key, "stolen_ratio")) {
            m->stolen_ratio = result_read_in_range(in, 0, 1, NAN);
        } else {
            sonde_json_skip(in->json);
        }
    }
}

static void result_read_verdict(struct result_reader *in)
{
    struct sonde_json_text key;
    struct sonde_bench_result *r = in->r;
    int valid = 1;
    if (!sonde_json_enter(in->json, '{')) return;
    while (sonde_json_member(in->json, &key)) {
        if (sonde_json_text_is(key, "reasons")) {
            result_read_strings(in, &r->reasons, &r->reason_count, &r->reason_cap);
        } else if (sonde_json_text_is(key, "valid")) {
            valid = sonde_json_peek(in->json) == 't';
            sonde_json_skip(in->json);
        } else {
            sonde_json_skip(in->json);
        }
    }
    if (!in->json->error && valid != !r->reason_count) {
        sonde_json_fail(in->json, "a verdict that contradicts its reasons");
    }
}

static void result_read_parts(struct result_reader *in, struct sonde_bench_figure *f)
{
    size_t cap = 0;
    if (!sonde_json_enter(in->json, '[')) return;
    while (sonde_json_element(in->json)) {
        if (f->part_count >= SONDE_BENCH_PARTS_MAX) {
            sonde_json_fail(in->json, "a figure of too many parts");
            return;
        }
        double *at = SONDE_ARRAY_ADD(f->parts, f->part_count, cap);
        if (!at) {
            result_no_memory(in);
            return;
        }
        result_read_number(in, at);
    }
}

static void result_read_figure(struct result_reader *in)
{
    struct sonde_json_text key;
    struct sonde_bench_figure *f = sonde_bench_figure_add(in->r, "", "", 0);
    if (!f) {
        if (in->r->figure_count >= SONDE_BENCH_FIGURES_MAX) {
            sonde_json_fail(in->json, "too many figures");
        } else {
            result_no_memory(in);
        }
        return;
    }
    if (!sonde_json_enter(in->json, '{')) return;
    while (sonde_json_member(in->json, &key)) {
        if (sonde_json_text_is(key, "name")) result_read_text(in, f->name, sizeof(f->name));
        else if (sonde_json_text_is(key, "unit")) result_read_text(in, f->unit, sizeof(f->unit));
        else if (sonde_json_text_is(key, "better")) {
            f->better = (int)result_read_in_range(in, -1, 1, 0);
        } else if (sonde_json_text_is(key, "value")) {
            result_read_number(in, &f->value);
        } else if (sonde_json_text_is(key, "low")) {
            result_read_number(in, &f->low);
        } else if (sonde_json_text_is(key, "high")) {
            result_read_number(in, &f->high);
        } else if (sonde_json_text_is(key, "samples")) {
            f->samples = (uint64_t)result_read_in_range(in, 0, RESULT_SAMPLES_MAX, 0);
        } else if (sonde_json_text_is(key, "parts") && !f->parts) {
            result_read_parts(in, f);
        } else {
            sonde_json_skip(in->json);
        }
    }
    if (in->json->error) return;
    if (!f->name[0]) sonde_json_fail(in->json, "a figure without a name");
    else if (f->low > f->high) sonde_json_fail(in->json, "an interval that ends before it begins");
}

/* A member of this kind's own: `"key":value` as it stands. */
static void result_read_extra(struct result_reader *in, struct sonde_json_text key)
{
    sonde_json_peek(in->json); /* passes over blanks */
    const char *begin = in->json->at;
    sonde_json_skip(in->json);
    if (in->json->error) return;
    struct sonde_buf *out = &in->r->extra;
    if (out->len) sonde_buf_putc(out, ',');
    sonde_buf_putc(out, '"');
    sonde_buf_add(out, key.s, key.len);
    sonde_buf_puts(out, "\":");
    sonde_buf_add(out, begin, (size_t)(in->json->at - begin));
    if (out->error == SONDE_ENOMEM) result_no_memory(in);
    else if (out->error) sonde_json_fail(in->json, "it is too large");
}

static void result_read_member(struct result_reader *in, struct sonde_json_text key)
{
    struct sonde_bench_result *r = in->r;
    size_t cap = 0;
    if (sonde_json_text_is(key, "schema")) {
        in->schema = (int)result_read_in_range(in, 1, 1e6, 0);
    } else if (sonde_json_text_is(key, "kind") && !r->kind_owned) {
        r->kind_owned = result_read_copy(in);
        if (r->kind_owned && strlen(r->kind_owned) > SONDE_BENCH_NAME_MAX) {
            sonde_json_fail(in->json, "a kind that is too long");
        }
    } else if (sonde_json_text_is(key, "name")) {
        result_read_text(in, r->name, sizeof(r->name));
    } else if (sonde_json_text_is(key, "sonde")) {
        result_read_text(in, r->sonde, sizeof(r->sonde));
    } else if (sonde_json_text_is(key, "time_s")) {
        r->time_s = result_read_in_range(in, 0, 1e11, 0);
    } else if (sonde_json_text_is(key, "seed")) {
        sonde_json_number_u64(in->json, &r->seed);
    } else if (sonde_json_text_is(key, "command") && !r->command) {
        result_read_strings(in, &r->command, &r->command_count, &cap);
    } else if (sonde_json_text_is(key, "machine")) {
        result_read_machine(in);
    } else if (sonde_json_text_is(key, "verdict") && !r->reason_count) {
        result_read_verdict(in);
    } else if (sonde_json_text_is(key, "figures") && !r->figure_count) {
        if (!sonde_json_enter(in->json, '[')) return;
        while (sonde_json_element(in->json)) result_read_figure(in);
    } else {
        result_read_extra(in, key);
    }
}

int sonde_bench_result_read(struct sonde_json_reader *json, struct sonde_bench_result *out,
                            struct sonde_err *err)
{
    struct result_reader in = { .json = json, .r = out };
    struct sonde_json_text key;
    memset(out, 0, sizeof(*out));
    out->machine.load_before = out->machine.stolen_ratio = NAN;
    sonde_buf_init(&out->extra, SONDE_BENCH_JSON_MAX);
    sonde_buf_init(&in.text, RESULT_TEXT_MAX);
    if (sonde_json_enter(json, '{')) {
        while (sonde_json_member(json, &key)) result_read_member(&in, key);
    }
    if (in.text.error == SONDE_ENOMEM) in.memory = 1;
    sonde_buf_release(&in.text);
    out->kind = out->kind_owned;
    int rc = 0;
    if (in.memory) rc = sonde_err_memory(err);
    else if (in.schema > SONDE_BENCH_SCHEMA) {
        rc = sonde_err_set(err, SONDE_EVERSION, "it is of a newer sonde (schema %d, this one reads "
                           "up to %d): update sonde", in.schema, SONDE_BENCH_SCHEMA);
    } else if (json->error) {
        rc = sonde_err_set(err, SONDE_EFORMAT, "%s", json->error);
    } else if (!in.schema || !out->kind) {
        rc = sonde_err_set(err, SONDE_EFORMAT, "it has no schema or no kind, which every result of "
                           "`sonde bench` has");
    }
    if (rc) sonde_bench_result_release(out);
    return rc;
}
