/* otlp.c - OTLP/HTTP with protobuf bodies: /v1/metrics, /v1/traces, /v1/logs,
 * /v1development/profiles. */
#include "push/otlp.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/gz.h"
#include "base/path.h"
#include "base/pb.h"
#include "base/pb_read.h"
#include "base/utf8.h"
#include "profile/formats/otlp_profile.h"
#include "push/put_pb.h"
#include "sonde/sonde.h"

enum { RESOURCE_ATTRIBUTE = 1, SCOPE_NAME = 1, SCOPE_VERSION = 2 };
enum { RESPONSE_PARTIAL = 1, PARTIAL_REJECTED = 1, PARTIAL_MESSAGE = 2 };
enum { GZIP_LEVEL = 1 }; /* a third of the time of 6, some per cent larger */

void push_otlp_scratch_init(struct push_otlp_scratch *s, size_t max)
{
    sonde_buf_init(&s->pair, max);
    sonde_buf_init(&s->value, max);
}

void push_otlp_scratch_release(struct push_otlp_scratch *s)
{
    sonde_buf_release(&s->pair);
    sonde_buf_release(&s->value);
}

static void push_otlp_begin(struct push_otlp_scratch *s, const char *key)
{
    sonde_buf_reset(&s->pair);
    sonde_buf_reset(&s->value);
    sonde_pb_str(&s->pair, KEY_VALUE_KEY, key, strlen(key));
}

static void push_otlp_end(struct sonde_buf *to, uint32_t field, struct push_otlp_scratch *s)
{
    sonde_pb_message(&s->pair, KEY_VALUE_VALUE, &s->value);
    sonde_pb_message(to, field, &s->pair);
}

/* Most of what is sent is this: written in one go. */
void push_otlp_str(struct sonde_buf *to, uint32_t field, const char *key, const char *value)
{
    const size_t key_len = strlen(key), value_len = strlen(value);
    const size_t any = push_bytes_size(value_len);
    const size_t pair = push_bytes_size(key_len) + push_bytes_size(any);
    char *at = sonde_buf_reserve(to, push_bytes_size(pair));
    if (!at) return;
    at = push_put_head(at, field, pair);
    at = push_put_bytes(at, KEY_VALUE_KEY, key, key_len);
    at = push_put_head(at, KEY_VALUE_VALUE, any);
    push_put_bytes(at, ANY_STRING, value, value_len);
    to->len += push_bytes_size(pair);
}

void push_otlp_int(struct sonde_buf *to, uint32_t field, struct push_otlp_scratch *s,
                   const char *key, int64_t value)
{
    push_otlp_begin(s, key);
    sonde_pb_uint(&s->value, ANY_INT, (uint64_t)value);
    push_otlp_end(to, field, s);
}

void push_otlp_double(struct sonde_buf *to, uint32_t field, struct push_otlp_scratch *s,
                      const char *key, double value)
{
    push_otlp_begin(s, key);
    sonde_pb_double(&s->value, ANY_DOUBLE, value);
    push_otlp_end(to, field, s);
}

/* Ids are bytes, the highest first. */
void push_otlp_id(struct sonde_buf *to, uint32_t field, const uint64_t *words, size_t count)
{
    uint64_t bytes[2];
    assert(count <= 2);
    for (size_t i = 0; i < count; i++) bytes[i] = __builtin_bswap64(words[i]);
    sonde_pb_bytes(to, field, bytes, count * sizeof(*bytes));
}

void push_otlp_resource(struct sonde_buf *to, struct push_otlp_scratch *s,
                        const struct push_origin *o, const struct push_otlp_who *who)
{
    char instance[320];
    snprintf(instance, sizeof(instance), "%s:%u:%llu", o->host, who->pid,
             (unsigned long long)who->start_time);
    push_otlp_str(to, RESOURCE_ATTRIBUTE, "service.name",
                  *who->program ? who->program : "sonde");
    push_otlp_str(to, RESOURCE_ATTRIBUTE, "service.instance.id", who->pid ? instance : o->host);
    push_otlp_str(to, RESOURCE_ATTRIBUTE, "host.name", o->host);
    push_otlp_str(to, RESOURCE_ATTRIBUTE, "os.type", "linux");
    if (who->pid) {
        push_otlp_int(to, RESOURCE_ATTRIBUTE, s, "process.pid", who->pid);
        push_otlp_str(to, RESOURCE_ATTRIBUTE, "process.executable.name", who->program);
    }
    for (size_t i = 0; i < o->label_count; i++) {
        push_otlp_str(to, RESOURCE_ATTRIBUTE, o->labels[i].name, o->labels[i].value);
    }
}

void push_otlp_scope(struct sonde_buf *to, uint32_t field, struct push_otlp_scratch *s)
{
    sonde_buf_reset(&s->pair);
    sonde_pb_str(&s->pair, SCOPE_NAME, "sonde", 5);
    sonde_pb_str(&s->pair, SCOPE_VERSION, SONDE_VERSION, strlen(SONDE_VERSION));
    sonde_pb_message(to, field, &s->pair);
}

/* ---- The destination ------------------------------------------------------------------------- */

static int push_otlp_pack(const struct sonde_buf *raw, struct sonde_buf *out)
{
    return sonde_gz_pack(raw->data, raw->len, GZIP_LEVEL, out);
}

static int push_otlp_again(long status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

/* Export…ServiceResponse: all signals' have the same fields. */
static uint64_t push_otlp_rejected(const char *body, size_t len, char *why, size_t why_size)
{
    struct sonde_pb_reader r = sonde_pb_reader(body, len);
    struct sonde_pb_field f, g;
    uint64_t count = 0;
    while (sonde_pb_next(&r, &f) > 0) {
        if (f.number != RESPONSE_PARTIAL || f.wire != SONDE_PB_BYTES) continue;
        struct sonde_pb_reader part = sonde_pb_reader(f.data, f.len);
        while (sonde_pb_next(&part, &g) > 0) {
            if (g.number == PARTIAL_REJECTED && g.wire == SONDE_PB_VARINT) {
                count = g.value <= INT32_MAX ? g.value : 0; /* more than any batch holds */
            }
            if (g.number == PARTIAL_MESSAGE && g.wire == SONDE_PB_BYTES && g.len) {
                int changed = 0;
                sonde__utf8_copy(why, why_size - 1, (const char *)g.data, g.len, &changed);
                for (char *c = why; *c; c++) {
                    if ((unsigned char)*c < ' ') *c = ' ';
                }
            }
        }
    }
    return count;
}

/* Each kind of samples is a profile of its own. */
static int push_otlp_profile_kind(struct push_dest *d, const struct sonde_profile *p, int kind,
                                  const struct sonde_buf *resource, struct sonde_err *err)
{
    const struct sonde_profile_filter one = { .kind = kind };
    struct sonde_buf raw;
    sonde_buf_init(&raw, PUSH_BODY_MAX);
    const int rc = sonde_otlp_profile_write(p, &one, resource, &raw, err);
    if (!rc) push_emit(d, SONDE_PUSH_PROFILES, "/v1development/profiles", 1, &raw);
    sonde_buf_release(&raw);
    return rc;
}

/* Its process, or one of them. */
static uint32_t push_otlp_pid_of(const struct sonde_profile *p)
{
    for (uint32_t i = 1; i < p->threads_count; i++) {
        if (p->threads[i].pid) return p->threads[i].pid;
    }
    return 0;
}

static int push_otlp_profile(struct push_dest *d, const struct sonde_profile *p,
                             struct sonde_err *err)
{
    const char *name = sonde_path_base(sonde_profile_str(p, p->program));
    const int named = *name && sonde__utf8_valid(name, strlen(name));
    struct push_otlp_scratch s;
    struct sonde_buf resource;
    push_otlp_scratch_init(&s, 1 << 20);
    sonde_buf_init(&resource, 1 << 20);
    push_otlp_resource(
        &resource, &s, push_origin(d),
        &(struct push_otlp_who){ named ? name : "unknown_service", push_otlp_pid_of(p), 0 });
    int rc = SONDE_ENOENT;
    for (int kind = 0; kind < SONDE_SAMPLE_KIND_COUNT && (!rc || rc == SONDE_ENOENT); kind++) {
        const int one = push_otlp_profile_kind(d, p, kind, &resource, err);
        if (one != SONDE_ENOENT) rc = one;
    }
    push_otlp_scratch_release(&s);
    sonde_buf_release(&resource);
    return rc;
}

static const char *const headers[] = { "Content-Type: application/x-protobuf",
                                       "Content-Encoding: gzip", NULL };

extern const struct sonde_push_ops sonde_push_otlp;
const struct sonde_push_ops sonde_push_otlp = {
    .name = "otlp",
    .path = "",
    .headers = headers,
    .metrics = push_otlp_metrics,
    .traces = push_otlp_traces,
    .profile = push_otlp_profile,
    .log = push_otlp_log,
    .pack = push_otlp_pack,
    .again = push_otlp_again,
    .rejected = push_otlp_rejected,
};
