/* trace.c - see trace.h. */
#include "bench/http/trace.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"
#include "base/cmp.h"
#include "base/file.h"
#include "bench/http/prompt.h"
#include "sonde/sonde.h"

/* Where reading is, for sentences. */
struct trace_reader {
    const char *name;
    size_t line;
    struct sonde_load_trace *out;
    struct sonde_err *err;
    /* CSV: which column is what; -1 = there is none */
    int at, in, made;
};

static int trace_bad(const struct trace_reader *r, const char *why)
{
    return sonde_err_set(r->err, SONDE_EINVAL, "%.200s, line %zu: %s", r->name, r->line, why);
}

static struct sonde_load_item *trace_item(struct trace_reader *r)
{
    struct sonde_load_trace *t = r->out;
    if (SONDE_ARRAY_ROOM_MAX(t->items, t->count, t->cap, SONDE_LOAD_TRACE_MAX)) {
        sonde_err_set(r->err, SONDE_ENOMEM, "%.200s: no room for more than %zu requests", r->name,
                      t->count);
        return NULL;
    }
    struct sonde_load_item *i = &t->items[t->count++];
    *i = (struct sonde_load_item){ .at_s = NAN };
    return i;
}

/* A number of tokens: 0 = it is not one. */
static uint32_t trace_tokens(double n)
{
    return n >= 1 && n <= SONDE_LOAD_TOKENS_MAX ? (uint32_t)n : 0;
}

/* ---- Lines of JSON --------------------------------------------------------------------------- */

static int trace_hashes(struct trace_reader *r, const json_t *ids, struct sonde_load_item *item)
{
    const size_t n = json_array_size(ids);
    if (n > SONDE_LOAD_HASHES_MAX) return trace_bad(r, "hash_ids has too many elements");
    if (!n) return 0;
    item->hashes = sonde__calloc(n, sizeof(*item->hashes));
    if (!item->hashes) return sonde_err_memory(r->err);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id)) return trace_bad(r, "hash_ids has to hold whole numbers");
        item->hashes[item->hash_count++] = (uint64_t)json_integer_value(id);
    }
    return 0;
}

static int trace_timed(struct trace_reader *r, const json_t *o)
{
    const json_t *at = json_object_get(o, "timestamp"), *in = json_object_get(o, "input_length");
    const double ms = json_number_value(at);
    struct sonde_load_item *item = trace_item(r);
    if (!item) return SONDE_ENOMEM;
    if (at && (!json_is_number(at) || !(ms >= 0) || ms > 1e15)) {
        return trace_bad(r, "timestamp has to be milliseconds, not negative");
    }
    item->at_s = at ? ms / 1e3 : NAN;
    item->tokens_in = trace_tokens(json_number_value(in));
    item->tokens_out = trace_tokens(json_number_value(json_object_get(o, "output_length")));
    if (!item->tokens_in) return trace_bad(r, "input_length has to be a number of tokens");
    return trace_hashes(r, json_object_get(o, "hash_ids"), item);
}

static int trace_conversation(struct trace_reader *r, const json_t *turns)
{
    const size_t n = json_array_size(turns);
    struct sonde_load_item *item = trace_item(r);
    if (!item) return SONDE_ENOMEM;
    item->turns = sonde__calloc(n ? n : 1, sizeof(*item->turns));
    if (!item->turns) return sonde_err_memory(r->err);
    for (size_t i = 0; i < n; i++) {
        const json_t *turn = json_array_get(turns, i);
        const char *from = json_string_value(json_object_get(turn, "from"));
        const char *text = json_string_value(json_object_get(turn, "value"));
        if (!from || !text) return trace_bad(r, "a turn needs the texts from and value");
        if (strcmp(from, "human") && strcmp(from, "user")) continue;
        item->turns[item->turn_count] = sonde__strdup(text);
        if (!item->turns[item->turn_count]) return sonde_err_memory(r->err);
        item->turn_count++;
    }
    if (item->turn_count) return 0;
    /* Conversations without a human are in such files; they are nothing to send. */
    sonde__free(item->turns);
    r->out->count--;
    r->out->skipped++;
    return 0;
}

static int trace_body(struct trace_reader *r, const json_t *o)
{
    struct sonde_load_item *item = trace_item(r);
    if (!item) return SONDE_ENOMEM;
    char *text = json_dumps(o, JSON_COMPACT);
    item->body = text ? sonde__strdup(text) : NULL;
    free(text);
    if (!item->body) return sonde_err_memory(r->err);
    const json_t *at = json_object_get(o, "timestamp");
    if (json_is_number(at) && json_number_value(at) >= 0) item->at_s = json_number_value(at) / 1e3;
    return 0;
}

static int trace_object(struct trace_reader *r, const json_t *o)
{
    const json_t *turns = json_object_get(o, "conversations"),
                 *prompt = json_object_get(o, "prompt");
    if (!json_is_object(o)) return trace_bad(r, "it is not an object of JSON");
    if (json_object_get(o, "input_length")) return trace_timed(r, o);
    if (json_is_array(turns)) return trace_conversation(r, turns);
    if (json_is_array(json_object_get(o, "messages")) || json_is_string(prompt) ||
        json_is_array(prompt) || json_is_string(json_object_get(o, "inputs"))) {
        return trace_body(r, o);
    }
    return trace_bad(r, "it has none of messages, prompt, inputs, conversations, input_length");
}

static int trace_json(struct trace_reader *r, const char *text, size_t len)
{
    json_error_t why;
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!o) {
        char sentence[220];
        snprintf(sentence, sizeof(sentence), "it is not JSON: %.160s", why.text);
        return trace_bad(r, sentence);
    }
    const int rc = trace_object(r, o);
    json_decref(o);
    return rc;
}

/* One array of objects, as ShareGPT's files are. */
static int trace_array(struct trace_reader *r, const char *text, size_t len)
{
    json_error_t why;
    json_t *all = json_loadb(text, len, 0, &why);
    int rc = 0;
    if (!json_is_array(all)) {
        r->line = (size_t)(why.line > 0 ? why.line : 1);
        rc = trace_bad(r, "it is not JSON");
    }
    for (size_t i = 0; !rc && i < json_array_size(all); i++) {
        r->line = i + 1;
        rc = trace_object(r, json_array_get(all, i));
    }
    json_decref(all);
    return rc;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static int trace_is(const char *s, size_t len, const char *name)
{
    return len == strlen(name) && !strncasecmp(s, name, len);
}

static void trace_csv_head(struct trace_reader *r, const char *s, size_t len)
{
    r->at = r->in = r->made = -1;
    int column = 0;
    for (size_t at = 0; at <= len; column++) {
        const char *comma = memchr(s + at, ',', len - at);
        const size_t n = comma ? (size_t)(comma - s) - at : len - at;
        const char *f = s + at;
        if (trace_is(f, n, "timestamp") || trace_is(f, n, "arrived_at")) r->at = column;
        if (trace_is(f, n, "request tokens") || trace_is(f, n, "contexttokens") ||
            trace_is(f, n, "input_length") || trace_is(f, n, "num_prefill_tokens")) {
            r->in = column;
        }
        if (trace_is(f, n, "response tokens") || trace_is(f, n, "generatedtokens") ||
            trace_is(f, n, "output_length") || trace_is(f, n, "num_decode_tokens")) {
            r->made = column;
        }
        at += n + 1;
    }
}

/* Seconds, or a date and time of which only the course counts: 2023-11-16 18:17:03.9799600. */
static int trace_csv_time(const char *s, size_t len, double *out)
{
    char text[64], *end;
    if (!len || len >= sizeof(text)) return -1;
    memcpy(text, s, len);
    text[len] = '\0';
    int year, month, day, hour, minute, used = 0;
    double second;
    if (sscanf(text, "%4d-%2d-%2d%*1[ T]%2d:%2d:%lf%n", &year, &month, &day, &hour, &minute,
               &second, &used) == 6 && used) {
        /* Days of the civil calendar, counted from March on so that leap days come last. */
        const int y = year - (month <= 2), m = (month + 9) % 12;
        const double days = 365.0 * y + y / 4 - y / 100 + y / 400 + (m * 306 + 5) / 10 + day;
        *out = ((days * 24 + hour) * 60 + minute) * 60 + second;
        return isfinite(*out) && *out >= 0 ? 0 : -1;
    }
    *out = strtod(text, &end);
    return *end || !isfinite(*out) || *out < 0 ? -1 : 0;
}

static int trace_csv(struct trace_reader *r, const char *s, size_t len)
{
    double at_s = NAN, in = 0, made = 0;
    int column = 0;
    for (size_t at = 0; at <= len; column++) {
        const char *comma = memchr(s + at, ',', len - at);
        const size_t n = comma ? (size_t)(comma - s) - at : len - at;
        if (column == r->at && trace_csv_time(s + at, n, &at_s)) {
            return trace_bad(r, "its time is neither seconds nor a date");
        }
        double *number = column == r->in ? &in : column == r->made ? &made : NULL;
        if (number && trace_csv_time(s + at, n, number)) {
            return trace_bad(r, "a number of tokens is not a number");
        }
        at += n + 1;
    }
    /* BurstGPT lists requests that failed with no tokens in their answer. */
    if (!trace_tokens(in) || !trace_tokens(made)) {
        r->out->skipped++;
        return 0;
    }
    struct sonde_load_item *item = trace_item(r);
    if (!item) return SONDE_ENOMEM;
    item->at_s = at_s;
    item->tokens_in = trace_tokens(in);
    item->tokens_out = trace_tokens(made);
    return 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int trace_item_cmp(const void *a, const void *b)
{
    const struct sonde_load_item *x = a, *y = b;
    return sonde_cmp_double(&x->at_s, &y->at_s);
}

void sonde_load_trace_sort(struct sonde_load_trace *t)
{
    t->timed = t->count > 0;
    for (size_t i = 0; i < t->count; i++) t->timed &= !isnan(t->items[i].at_s);
    if (!t->timed) return;
    int sorted = 1;
    for (size_t i = 1; i < t->count; i++) sorted &= t->items[i - 1].at_s <= t->items[i].at_s;
    if (!sorted) qsort(t->items, t->count, sizeof(*t->items), trace_item_cmp);
    const double first = t->items[0].at_s;
    for (size_t i = 0; i < t->count; i++) t->items[i].at_s -= first;
}

int sonde_load_trace_add(struct sonde_load_trace *t, double at_s, uint32_t tokens_in,
                         uint32_t tokens_out)
{
    const int rc = SONDE_ARRAY_ROOM_MAX(t->items, t->count, t->cap, SONDE_LOAD_TRACE_MAX);
    if (rc) return rc;
    t->items[t->count++] = (struct sonde_load_item){ .at_s = at_s, .tokens_in = tokens_in,
                                                     .tokens_out = tokens_out };
    return 0;
}

static int trace_lines(struct trace_reader *r, const char *text, size_t len)
{
    int csv = 0, rc = 0;
    for (size_t at = 0; !rc && at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        const char *line = text + at;
        at += n + 1;
        r->line++;
        while (n && (line[n - 1] == '\r' || line[n - 1] == ' ')) n--;
        if (!n) continue;
        if (r->line == 1 && line[0] != '{') {
            trace_csv_head(r, line, n);
            csv = r->in >= 0 && r->made >= 0;
            if (csv) continue;
            return trace_bad(r, "it is neither JSON nor the head of CSV with columns Timestamp, "
                                "Request tokens and Response tokens");
        }
        rc = csv ? trace_csv(r, line, n) : trace_json(r, line, n);
    }
    return rc;
}

int sonde_load_trace_parse(const char *text, size_t len, const char *name,
                           struct sonde_load_trace *out, struct sonde_err *err)
{
    struct sonde_load_trace t = { 0 };
    struct trace_reader r = { .name = name, .out = &t, .err = err };
    size_t blank = 0;
    while (blank < len && strchr(" \t\r\n", text[blank]) && text[blank]) blank++;
    int rc = blank < len && text[blank] == '[' ? trace_array(&r, text, len)
                                               : trace_lines(&r, text, len);
    if (!rc && !t.count) {
        rc = sonde_err_set(err, SONDE_EINVAL, "%.200s: there is no request in it", name);
    }
    if (rc) {
        sonde_load_trace_release(&t);
        return rc;
    }
    sonde_load_trace_sort(&t);
    *out = t;
    return 0;
}

int sonde_load_trace_read(const char *path, struct sonde_load_trace *out, struct sonde_err *err)
{
    struct sonde_buf b;
    sonde_buf_init(&b, SONDE_LOAD_TRACE_BYTES);
    int rc = sonde_file_read(path, &b, err);
    if (!rc) rc = sonde_load_trace_parse(b.data ? b.data : "", b.len, path, out, err);
    sonde_buf_release(&b);
    return rc;
}

void sonde_load_trace_release(struct sonde_load_trace *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct sonde_load_item *item = &t->items[i];
        sonde__free(item->body);
        for (uint32_t k = 0; k < item->turn_count; k++) sonde__free(item->turns[k]);
        sonde__free(item->turns);
        sonde__free(item->hashes);
    }
    sonde__free(t->items);
    *t = (struct sonde_load_trace){ 0 };
}
