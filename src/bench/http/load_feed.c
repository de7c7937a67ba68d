/* load_feed.c - requests out of the source, with heads; see load_private.h.
 *
 * A head is written before its request is due, with a trace id of its own by which the server's
 * side of it is found again. Ids come from a key that is drawn for each run: two runs with the
 * same seed send the same requests, but are not taken for one another. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/put.h"
#include "bench/http/load_private.h"
#include "sonde/sonde.h"

enum { FIELDS_MAX = 64 << 10, HEAD_MAX = 128 << 10 };

/* 1 if one of the caller's fields has this name. */
static int feed_has_field(const struct sonde_load_options *o, const char *name)
{
    const size_t len = strlen(name);
    for (const char *const *h = o->headers; h && *h; h++) {
        if (!strncasecmp(*h, name, len) && (*h)[len] == ':') return 1;
    }
    return 0;
}

static int feed_field_add(struct load_run *run, const char *field, struct sonde_err *err)
{
    static const char *const ours[] = { "content-length", "transfer-encoding", "connection",
                                        "traceparent", "expect" };
    const size_t name_len = strcspn(field, ":");
    int bad = !field[name_len] || !name_len;
    for (const char *c = field; *c; c++) bad |= (*c < ' ' && *c != '\t' && *c >= 0) || *c == 0x7f;
    for (size_t i = 0; i < name_len; i++) bad |= field[i] <= ' ' || field[i] >= 0x7f;
    if (bad) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "cannot send the header \"%.100s\": it is not \"Name: value\" in one "
                             "line", field);
    }
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (strlen(ours[i]) == name_len && !strncasecmp(field, ours[i], name_len)) {
            return sonde_err_set(err, SONDE_EINVAL,
                                 "cannot send the header \"%.100s\": sonde sets %s itself; leave "
                                 "it out", field, ours[i]);
        }
    }
    sonde_buf_puts(&run->fields, field);
    sonde_buf_puts(&run->fields, "\r\n");
    return 0;
}

int load_feed_init(struct load_run *run, struct sonde_err *err)
{
    const struct sonde_load_options *o = run->options;
    struct sonde_buf *f = &run->fields;
    sonde_lock_init(&run->lock, SONDE_RANK_LOAD);
    sonde_cond_init(&run->ended);
    if (getrandom(&run->key, sizeof(run->key), GRND_NONBLOCK) != sizeof(run->key)) {
        run->key = sonde_clock_ns(CLOCK_REALTIME);
    }
    sonde_buf_init(f, FIELDS_MAX);
    if (!feed_has_field(o, "host")) sonde_buf_printf(f, "Host: %s\r\n", run->target.authority);
    if (!feed_has_field(o, "user-agent")) sonde_buf_puts(f, "User-Agent: sonde\r\n");
    if (!feed_has_field(o, "accept")) sonde_buf_puts(f, "Accept: */*\r\n");
    if (!feed_has_field(o, "content-type")) {
        sonde_buf_puts(f, "Content-Type: application/json\r\n");
    }
    if (o->no_keep_alive) sonde_buf_puts(f, "Connection: close\r\n");
    for (const char *const *h = o->headers; h && *h; h++) {
        const int rc = feed_field_add(run, *h, err);
        if (rc) return rc;
    }
    if (f->error == SONDE_EFULL) {
        return sonde_err_set(err, SONDE_EINVAL, "the headers are longer than 64 KiB");
    }
    return f->error ? sonde_err_memory(err) : 0;
}

void load_feed_release(struct load_run *run)
{
    sonde_buf_release(&run->fields);
    sonde_cond_destroy(&run->ended);
    sonde_lock_destroy(&run->lock);
}

static char *feed_put_hex(char *at, uint64_t v)
{
    static const char digits[] = "0123456789abcdef";
    for (int shift = 60; shift >= 0; shift -= 4) *at++ = digits[v >> shift & 15];
    return at;
}

static int feed_write_head(struct load_loop *loop, struct load_prepared *p)
{
    const struct load_run *run = loop->run;
    const char *path = p->request.path ? p->request.path : run->target.path;
    const size_t path_len = strlen(path);
    if (!p->head.max) sonde_buf_init(&p->head, HEAD_MAX);
    sonde_buf_reset(&p->head);
    char *at = sonde_buf_reserve(&p->head, path_len + run->fields.len + 256);
    if (!at) return p->head.error;
    char *begin = at;
    p->trace[0] = sonde_draw_u64(&loop->draw);
    p->trace[1] = sonde_draw_u64(&loop->draw);
    at = p->request.body ? SONDE_PUT(at, "POST ") : SONDE_PUT(at, "GET ");
    at = sonde_put(at, path, path_len);
    at = SONDE_PUT(at, " HTTP/1.1\r\n");
    at = sonde_put(at, run->fields.data, run->fields.len);
    at = SONDE_PUT(at, "traceparent: 00-");
    at = feed_put_hex(at, p->trace[0]);
    at = feed_put_hex(at, p->trace[1]);
    at = SONDE_PUT(at, "-");
    at = feed_put_hex(at, sonde_draw_u64(&loop->draw) | 1); /* a span's id is not 0 */
    at = SONDE_PUT(at, "-01\r\n");
    if (p->request.body) {
        at = SONDE_PUT(at, "Content-Length: ");
        at = sonde_put_u64(at, p->request.body_len);
        at = SONDE_PUT(at, "\r\n");
    }
    at = SONDE_PUT(at, "\r\n");
    p->head.len += (size_t)(at - begin);
    return 0;
}

int load_feed_next(struct load_loop *loop, struct load_prepared *out)
{
    struct load_run *run = loop->run;
    struct sonde_load_source *source = run->options->source;
    out->request = (struct sonde_load_request){ 0 };
    sonde_lock(&run->lock);
    int rc = run->source_ended ? SONDE_ENOENT : source->next(source, &out->request);
    if (rc == SONDE_ENOENT) run->source_ended = 1;
    sonde_unlock(&run->lock);
    if (rc) return rc;
    out->intended_ns = run->begin_ns + out->request.at_ns;
    return feed_write_head(loop, out);
}

void load_feed_done(struct load_loop *loop, const struct sonde_load_request *request,
                    const struct sonde_load_record *record, const struct sonde_buf *text)
{
    struct load_run *run = loop->run;
    struct sonde_load_source *source = run->options->source;
    sonde_lock(&run->lock);
    if (source->done) {
        source->done(source, request, record, text ? text->data : NULL, text ? text->len : 0);
    }
    __atomic_store_n(&run->done_serial, run->done_serial + 1, __ATOMIC_RELEASE);
    sonde_unlock(&run->lock);
}
