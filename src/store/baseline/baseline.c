/* baseline.c - see baseline.h. Files are mailed around, so nothing in one is believed: numbers are
 * finite and in range, texts have a length, the runs fill the file exactly. */
#include "store/baseline/baseline.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "base/gz.h"
#include "base/json.h"
#include "base/json_read.h"
#include "sonde/sonde.h"
#include "store/run/run.h"

#define BASELINE_MAGIC "sonde-baseline "
#define BASELINE_FILE_MAX ((size_t)1 << 30)
#define BASELINE_INDEX_MAX ((size_t)16 << 20)
#define BASELINE_RUN_MAX ((size_t)1 << 30) /* unpacked */

enum { BASELINE_VERSION = 1, BASELINE_GZ_LEVEL = 9 };

int sonde_baseline_name_check(const char *name, struct sonde_err *err)
{
    const size_t len = strlen(name);
    const size_t good = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789._-");
    if (len && good == len && *name != '.' && *name != '-' && len <= SONDE_BASELINE_NAME_MAX) {
        return 0;
    }
    return sonde_err_set(err, SONDE_EINVAL, "'%.120s' is not a name of a baseline: at most %u "
                         "letters, digits, '.', '_' and '-', the first a letter, digit or '_'; or "
                         "the path of a file, with a slash", name, SONDE_BASELINE_NAME_MAX);
}

/* ---- In memory ------------------------------------------------------------------------------- */

static char *baseline_copy(const char *text, size_t len)
{
    char *copy = sonde__alloc(len + 1);
    if (!copy) return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

int sonde_baseline_create(struct sonde_baseline **out)
{
    struct sonde_baseline *b = sonde__calloc(1, sizeof(*b));
    if (!b) return SONDE_ENOMEM;
    b->note = baseline_copy("", 0);
    b->span = baseline_copy("", 0);
    if (!b->note || !b->span) {
        sonde_baseline_destroy(b);
        return SONDE_ENOMEM;
    }
    *out = b;
    return 0;
}

static void baseline_run_release(struct sonde_baseline_run *r)
{
    sonde__free(r->source);
    sonde__free(r->sonde);
    sonde__free(r->data);
}

void sonde_baseline_destroy(struct sonde_baseline *b)
{
    if (!b) return;
    for (size_t i = 0; i < b->count; i++) baseline_run_release(&b->runs[i]);
    sonde__free(b->runs);
    sonde__free(b->note);
    sonde__free(b->span);
    sonde__free(b);
}

static int baseline_text_set(char **to, const char *what, const char *text, struct sonde_err *err)
{
    if (!text) return 0;
    const size_t len = strlen(text);
    if (len > SONDE_BASELINE_TEXT_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "the %s is longer than %u bytes", what,
                             SONDE_BASELINE_TEXT_MAX);
    }
    char *copy = baseline_copy(text, len);
    if (!copy) return sonde_err_memory(err);
    sonde__free(*to);
    *to = copy;
    return 0;
}

int sonde_baseline_describe(struct sonde_baseline *b, const char *note, const char *span,
                            struct sonde_err *err)
{
    const int rc = baseline_text_set(&b->note, "note", note, err);
    return rc ? rc : baseline_text_set(&b->span, "name of spans", span, err);
}

static int baseline_full(const struct sonde_baseline *b, size_t bytes, size_t bytes_max,
                         struct sonde_err *err)
{
    if (b->count >= SONDE_BASELINE_RUNS_MAX) {
        return sonde_err_set(err, SONDE_EFULL, "a baseline has at most %u runs",
                             SONDE_BASELINE_RUNS_MAX);
    }
    if (bytes_max > BASELINE_FILE_MAX - BASELINE_INDEX_MAX) {
        bytes_max = BASELINE_FILE_MAX - BASELINE_INDEX_MAX;
    }
    if (b->bytes + bytes <= bytes_max) return 0;
    return sonde_err_set(err, SONDE_EFULL, "the runs would be %zu MiB in all, and %zu are allowed "
                         "(setting baseline.max_megabytes)", (b->bytes + bytes) >> 20,
                         bytes_max >> 20);
}

static int baseline_pack(const struct sonde_profile *p, struct sonde_buf *out,
                         struct sonde_err *err)
{
    struct sonde_buf plain;
    sonde_buf_init(&plain, BASELINE_RUN_MAX);
    int rc = sonde_run_save_bytes(p, &plain, err);
    if (!rc) {
        rc = sonde_gz_pack(plain.data, plain.len, BASELINE_GZ_LEVEL, out);
        if (rc) sonde_err_set(err, rc, "the run cannot be packed: %s", sonde_strerror(rc));
    }
    sonde_buf_release(&plain);
    return rc;
}

int sonde_baseline_add_run(struct sonde_baseline *b, const struct sonde_baseline_add *add,
                           size_t bytes_max, struct sonde_err *err)
{
    assert(add->profile && add->source);
    const struct sonde_profile *p = add->profile;
    struct sonde_buf packed;
    sonde_buf_init(&packed, BASELINE_RUN_MAX);
    int rc = baseline_pack(p, &packed, err);
    if (!rc) rc = baseline_full(b, packed.len, bytes_max, err);
    struct sonde_baseline_run r = { .added_s = add->now_s, .start_s = (double)p->start_ns / 1e9,
                                    .end_s = (double)p->end_ns / 1e9, .from_s = add->from_s,
                                    .to_s = add->to_s, .requests = add->requests,
                                    .bytes = packed.len };
    if (!rc) {
        sonde_run_facts_of(p, &r.facts);
        const size_t len = strnlen(add->source, SONDE_BASELINE_TEXT_MAX);
        r.source = baseline_copy(add->source, len);
        r.sonde = baseline_copy(SONDE_VERSION, strlen(SONDE_VERSION));
        r.data = sonde_buf_take(&packed);
        if (!r.source || !r.sonde || !r.data || SONDE_ARRAY_ROOM(b->runs, b->count, b->cap)) {
            rc = sonde_err_memory(err);
        }
    }
    sonde_buf_release(&packed);
    if (rc) {
        baseline_run_release(&r);
        return rc;
    }
    if (!b->count) b->created_s = add->now_s;
    b->runs[b->count++] = r;
    b->bytes += r.bytes;
    return 0;
}

int sonde_baseline_profile(const struct sonde_baseline *b, size_t run, struct sonde_profile **out,
                           struct sonde_err *err)
{
    assert(run < b->count);
    const struct sonde_baseline_run *r = &b->runs[run];
    struct sonde_buf plain;
    sonde_buf_init(&plain, BASELINE_RUN_MAX);
    int rc = sonde_gz_unpack(r->data, r->bytes, &plain);
    if (rc) sonde_err_set(err, rc, "run %zu of the baseline is damaged", run + 1);
    else rc = sonde_run_load_bytes(plain.data ? plain.data : "", plain.len, r->source, out, err);
    sonde_buf_release(&plain);
    return rc;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void baseline_put_run(const struct sonde_baseline_run *r, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "source", r->source);
    sonde_json_str(out, "sonde", r->sonde);
    sonde_json_num(out, "added_s", r->added_s);
    sonde_json_num(out, "start_s", r->start_s);
    sonde_json_num(out, "end_s", r->end_s);
    sonde_json_num(out, "from_s", r->from_s);
    sonde_json_num(out, "to_s", r->to_s);
    sonde_json_u64(out, "requests", r->requests);
    for (int i = 0; i < SONDE_FACT_COUNT; i++) {
        if (!r->facts.text[i][0]) continue;
        sonde_json_str(out, sonde_run_fact_key((enum sonde_run_fact)i), r->facts.text[i]);
    }
    sonde_json_u64(out, "bytes", r->bytes);
    sonde_json_close(out, '}');
}

int sonde_baseline_save(const struct sonde_baseline *b, const char *path, struct sonde_err *err)
{
    struct sonde_buf index, out;
    sonde_buf_init(&index, BASELINE_INDEX_MAX);
    sonde_buf_init(&out, BASELINE_FILE_MAX);
    sonde_json_open(&index, '{');
    sonde_json_num(&index, "created_s", b->created_s);
    sonde_json_str(&index, "note", b->note);
    sonde_json_str(&index, "span", b->span);
    sonde_json_key_open(&index, "runs", '[');
    for (size_t i = 0; i < b->count; i++) baseline_put_run(&b->runs[i], &index);
    sonde_json_close(&index, ']');
    sonde_json_close(&index, '}');
    sonde_buf_putc(&index, '\n');
    sonde_buf_printf(&out, BASELINE_MAGIC "%d %zu\n", BASELINE_VERSION, index.len);
    sonde_buf_add(&out, index.data, index.len);
    for (size_t i = 0; i < b->count; i++) sonde_buf_add(&out, b->runs[i].data, b->runs[i].bytes);
    int rc = index.error ? index.error : out.error;
    if (rc) sonde_err_set(err, rc, "'%.200s' cannot be written: %s", path, sonde_strerror(rc));
    else rc = sonde_file_replace(path, out.data, out.len, err);
    sonde_buf_release(&index);
    sonde_buf_release(&out);
    return rc;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct baseline_reader {
    struct sonde_json_reader json;
    struct sonde_buf text;
    int memory;    /* there is none */
};

static void baseline_no_memory(struct baseline_reader *r)
{
    r->memory = 1;
    sonde_json_fail(&r->json, "no memory");
}

static void baseline_read_number(struct baseline_reader *r, double *out)
{
    double v;
    if (!sonde_json_number(&r->json, &v)) return;
    if (v >= 0 && v <= 1e11) *out = v;
    else sonde_json_fail(&r->json, "a time that cannot be");
}

static void baseline_read_u64(struct baseline_reader *r, uint64_t max, uint64_t *out)
{
    uint64_t v;
    if (!sonde_json_number_u64(&r->json, &v)) return;
    if (v <= max) *out = v;
    else sonde_json_fail(&r->json, "a number that is too large");
}

/* out is not NULL before and after. */
static void baseline_read_text(struct baseline_reader *r, char **out)
{
    struct sonde_json_text t;
    if (!sonde_json_string(&r->json, &r->text, &t)) return;
    if (t.len > SONDE_BASELINE_TEXT_MAX) {
        sonde_json_fail(&r->json, "a text that is too long");
        return;
    }
    char *copy = baseline_copy(t.s, t.len);
    if (!copy) {
        baseline_no_memory(r);
        return;
    }
    sonde__free(*out);
    *out = copy;
}

static int baseline_read_fact(struct baseline_reader *r, struct sonde_json_text key,
                              struct sonde_run_facts *facts)
{
    for (int i = 0; i < SONDE_FACT_COUNT; i++) {
        if (!sonde_json_text_is(key, sonde_run_fact_key((enum sonde_run_fact)i))) continue;
        struct sonde_json_text t;
        if (sonde_json_string(&r->json, &r->text, &t)) {
            const size_t len = t.len < SONDE_FACT_BYTES ? t.len : SONDE_FACT_BYTES - 1;
            memcpy(facts->text[i], t.s, len);
            facts->text[i][len] = '\0';
        }
        return 1;
    }
    return 0;
}

static void baseline_read_run(struct baseline_reader *r, struct sonde_baseline *b)
{
    struct sonde_json_text key;
    if (b->count >= SONDE_BASELINE_RUNS_MAX) {
        sonde_json_fail(&r->json, "too many runs");
        return;
    }
    struct sonde_baseline_run *run = SONDE_ARRAY_ADD(b->runs, b->count, b->cap);
    if (!run) {
        baseline_no_memory(r);
        return;
    }
    *run = (struct sonde_baseline_run){ .source = baseline_copy("", 0),
                                        .sonde = baseline_copy("", 0) };
    if (!run->source || !run->sonde) baseline_no_memory(r);
    const struct { const char *key; double *to; } numbers[] = {
        { "added_s", &run->added_s }, { "start_s", &run->start_s }, { "end_s", &run->end_s },
        { "from_s", &run->from_s },   { "to_s", &run->to_s },
    };
    if (!sonde_json_enter(&r->json, '{')) return;
    while (sonde_json_member(&r->json, &key)) {
        size_t i = 0;
        while (i < SONDE_COUNT(numbers) && !sonde_json_text_is(key, numbers[i].key)) i++;
        uint64_t bytes = 0;
        if (i < SONDE_COUNT(numbers)) {
            baseline_read_number(r, numbers[i].to);
        } else if (sonde_json_text_is(key, "source")) {
            baseline_read_text(r, &run->source);
        } else if (sonde_json_text_is(key, "sonde")) {
            baseline_read_text(r, &run->sonde);
        } else if (sonde_json_text_is(key, "requests")) {
            baseline_read_u64(r, UINT64_MAX, &run->requests);
        } else if (sonde_json_text_is(key, "bytes")) {
            baseline_read_u64(r, BASELINE_FILE_MAX, &bytes);
            run->bytes = (size_t)bytes;
        } else if (!baseline_read_fact(r, key, &run->facts)) {
            sonde_json_skip(&r->json);
        }
    }
}

static void baseline_read_index(struct baseline_reader *r, struct sonde_baseline *b)
{
    struct sonde_json_text key;
    if (!sonde_json_enter(&r->json, '{')) return;
    while (sonde_json_member(&r->json, &key)) {
        if (sonde_json_text_is(key, "created_s")) baseline_read_number(r, &b->created_s);
        else if (sonde_json_text_is(key, "note")) baseline_read_text(r, &b->note);
        else if (sonde_json_text_is(key, "span")) baseline_read_text(r, &b->span);
        else if (sonde_json_text_is(key, "runs")) {
            if (!sonde_json_enter(&r->json, '[')) return;
            while (sonde_json_element(&r->json)) baseline_read_run(r, b);
        } else {
            sonde_json_skip(&r->json);
        }
    }
    if (!r->json.error && !sonde_json_at_end(&r->json)) {
        sonde_json_fail(&r->json, "something follows it");
    }
}

static int baseline_damaged(const char *path, const char *why, struct sonde_err *err)
{
    return sonde_err_set(err, SONDE_EFORMAT, "'%.200s' is damaged: %s", path, why);
}

/* The first line: how long it is, and the length of the index. */
static int baseline_read_head(const char *path, const char *data, size_t len, size_t *head,
                              size_t *index, struct sonde_err *err)
{
    const size_t magic = strlen(BASELINE_MAGIC);
    char first[80];
    const char *line = memchr(data, '\n', len < sizeof(first) ? len : sizeof(first) - 1);
    if (!line || (size_t)(line - data) < magic || memcmp(data, BASELINE_MAGIC, magic) != 0) {
        return sonde_err_set(err, SONDE_EFORMAT, "'%.200s' is not a baseline that `sonde baseline "
                             "save` wrote", path);
    }
    snprintf(first, sizeof(first), "%.*s", (int)(line - data), data);
    int version = 0, end = 0;
    unsigned long long bytes = 0;
    if (sscanf(first + magic, "%9d %18llu%n", &version, &bytes, &end) != 2 ||
        (size_t)end + magic != (size_t)(line - data)) {
        return baseline_damaged(path, "its first line", err);
    }
    if (version > BASELINE_VERSION) {
        return sonde_err_set(err, SONDE_EVERSION, "'%.200s' is of a newer sonde (format %d, this "
                             "one reads up to %d): update sonde", path, version, BASELINE_VERSION);
    }
    *head = (size_t)(line + 1 - data);
    if (version != BASELINE_VERSION || bytes > len - *head || bytes > BASELINE_INDEX_MAX) {
        return baseline_damaged(path, "it is cut short", err);
    }
    *index = (size_t)bytes;
    return 0;
}

static int baseline_take_runs(struct sonde_baseline *b, const char *path, const char *data,
                              size_t len, struct sonde_err *err)
{
    for (size_t i = 0; i < b->count; i++) {
        struct sonde_baseline_run *r = &b->runs[i];
        if (r->bytes > len) return baseline_damaged(path, "it is cut short", err);
        r->data = baseline_copy(data, r->bytes);
        if (!r->data) return sonde_err_memory(err);
        data += r->bytes;
        len -= r->bytes;
        b->bytes += r->bytes;
    }
    return len ? baseline_damaged(path, "something follows its runs", err) : 0;
}

static int baseline_parse(const char *path, const char *data, size_t len, struct sonde_baseline *b,
                          struct sonde_err *err)
{
    size_t head = 0, index = 0;
    int rc = baseline_read_head(path, data, len, &head, &index, err);
    if (rc) return rc;
    struct baseline_reader r = { .memory = 0 };
    sonde_json_reader_init(&r.json, data + head, index);
    sonde_buf_init(&r.text, BASELINE_INDEX_MAX);
    baseline_read_index(&r, b);
    sonde_buf_release(&r.text);
    if (r.memory) return sonde_err_memory(err);
    if (r.json.error) return baseline_damaged(path, r.json.error, err);
    if (!b->count) return baseline_damaged(path, "it has no runs", err);
    return baseline_take_runs(b, path, data + head + index, len - head - index, err);
}

int sonde_baseline_load_bytes(const char *data, size_t len, const char *name,
                              struct sonde_baseline **out, struct sonde_err *err)
{
    struct sonde_baseline *b;
    if (sonde_baseline_create(&b)) return sonde_err_memory(err);
    const int rc = baseline_parse(name, data, len, b, err);
    if (rc) sonde_baseline_destroy(b);
    else *out = b;
    return rc;
}

int sonde_baseline_load(const char *path, struct sonde_baseline **out, struct sonde_err *err)
{
    struct sonde_buf file;
    sonde_buf_init(&file, BASELINE_FILE_MAX);
    int rc = sonde_file_read(path, &file, err);
    if (!rc) rc = sonde_baseline_load_bytes(file.data ? file.data : "", file.len, path, out, err);
    sonde_buf_release(&file);
    return rc;
}
