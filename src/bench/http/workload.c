/* workload.c - see workload.h.
 *
 *   request i ── item of the trace (i mod count) ── its body, its turns, or its lengths
 *            └── else drawn from stream i of the seed: tokens both ways, prefix, words
 *
 * A job is one request on its way; the sender hands it back by done. */
#include "bench/http/workload.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

#define PREFIX_STREAM (UINT64_C(1) << 40) /* of prefixes; requests are below, blocks above */
#define BLOCK_STREAM (UINT64_C(1) << 48)
#define NEVER_NS (UINT64_C(1) << 60)
#define BLOCK_TOKENS 512u                 /* of one hash of Mooncake's */

struct workload_chat {
    struct workload_chat *next;       /* of those that are ready */
    uint32_t first;                   /* number of its first request: what it says follows */
    uint32_t turn, turns;
    struct sonde_load_message *messages; /* owned; texts too */
    uint32_t message_count, message_cap;
    size_t bytes;
};

struct workload_job {
    struct workload_chat *chat;       /* NULL = a single request */
    char *body;                       /* owned, but for prepared ones */
    int prepared;
};

struct workload_prepared { char *body; size_t len; };

struct sonde_load_workload {
    struct sonde_load_source source;  /* first: the sender knows only this */
    struct sonde_load_workload_options o;
    uint64_t made;                    /* requests so far */
    struct workload_prepared *prepared; /* owned */
    size_t prepared_count;
    struct sonde_load_length output;
    struct workload_chat *ready, *ready_last;
    uint32_t chats;                   /* under way or ready */
    uint64_t broken;
};

/* ---- What a request says --------------------------------------------------------------------- */

static const struct sonde_load_item *workload_item(const struct sonde_load_workload *w, uint32_t i)
{
    const struct sonde_load_trace *t = w->o.trace;
    return t && t->count ? &t->items[i % t->count] : NULL;
}

/* tokens of the prompt as words, the first of them shared with others; fixed: what a template adds
 * is part of tokens. */
static void workload_text(const struct sonde_load_workload *w, struct sonde_load_random *r,
                          uint32_t tokens, int fixed, struct sonde_buf *out)
{
    uint32_t words = sonde_load_words(&w->o.calibration, tokens, fixed);
    if (w->o.prefix_tokens && fixed) {
        const uint32_t count = w->o.prefix_count ? w->o.prefix_count : 1;
        const uint32_t which = sonde_load_random_below(r, count);
        uint32_t shared = sonde_load_words(&w->o.calibration, w->o.prefix_tokens, 0);
        struct sonde_load_random p = sonde_load_random_of(w->o.seed, PREFIX_STREAM + which);
        if (shared >= words) shared = words - 1; /* something has to be its own */
        sonde_load_prompt_words(&p, shared, out);
        words -= shared;
    }
    sonde_load_prompt_words(r, words, out);
}

/* Blocks that other prompts have too, by their hashes; the last is cut to the length. */
static void workload_blocks(const struct sonde_load_workload *w, const struct sonde_load_item *item,
                            struct sonde_buf *out)
{
    uint32_t words = sonde_load_words(&w->o.calibration, item->tokens_in, 1);
    const uint32_t block = sonde_load_words(&w->o.calibration, BLOCK_TOKENS, 0);
    for (uint32_t i = 0; i < item->hash_count && words; i++) {
        struct sonde_load_random r =
            sonde_load_random_of(w->o.seed, BLOCK_STREAM + sonde_hash_u64(item->hashes[i]));
        const uint32_t n = i + 1 == item->hash_count || words < block ? words : block;
        sonde_load_prompt_words(&r, n, out);
        words -= n;
    }
}

/* An own body: what is missing is added, what decides how it is measured is set. */
static int workload_own_body(const struct sonde_load_workload *w,
                             const struct sonde_load_item *item, uint32_t max_tokens,
                             struct sonde_buf *out)
{
    json_t *o = json_loads(item->body, 0, NULL);
    if (!o) return SONDE_ENOMEM;
    const int openai = w->o.api == SONDE_LOAD_API_OPENAI_CHAT ||
                       w->o.api == SONDE_LOAD_API_OPENAI_COMPLETIONS;
    json_object_del(o, "timestamp");
    if (w->o.model && !json_object_get(o, "model")) {
        json_object_set_new(o, "model", json_string(w->o.model));
    }
    if (w->o.api != SONDE_LOAD_API_TGI) json_object_set_new(o, "stream", json_boolean(w->o.stream));
    json_object_del(o, "stream_options");
    if (openai && w->o.stream && !w->o.plain) {
        json_object_set_new(o, "stream_options", json_pack("{s:b}", "include_usage", 1));
    }
    if (openai && max_tokens && !json_object_get(o, "max_tokens") &&
        !json_object_get(o, "max_completion_tokens")) {
        json_object_set_new(o, "max_tokens", json_integer(max_tokens));
    }
    char *text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (!text) return SONDE_ENOMEM;
    sonde_buf_puts(out, text);
    free(text);
    return out->error;
}

static struct sonde_load_ask workload_ask(const struct sonde_load_workload *w, uint32_t max_tokens)
{
    return (struct sonde_load_ask){
        .api = w->o.api, .model = w->o.model, .max_tokens = max_tokens, .stream = w->o.stream,
        .ignore_eos = w->o.ignore_eos && max_tokens, .plain = w->o.plain, .seed = -1,
    };
}

/* What the user says in a turn. */
static void workload_say(const struct sonde_load_workload *w, struct sonde_load_random *r,
                         const struct sonde_load_item *item, uint32_t turn, struct sonde_buf *out)
{
    if (item && item->turns) {
        if (turn < item->turn_count) sonde_buf_puts(out, item->turns[turn]);
    } else if (item && item->hashes) {
        workload_blocks(w, item, out);
    } else if (item && item->tokens_in) {
        workload_text(w, r, item->tokens_in, !turn, out);
    } else {
        workload_text(w, r, sonde_load_length_draw(&w->o.prompt, r), !turn, out);
    }
}

static uint32_t workload_max_tokens(const struct sonde_load_workload *w,
                                    const struct sonde_load_item *item, struct sonde_load_random *r)
{
    if (item && item->tokens_out) return item->tokens_out;
    return w->o.output.a > 0 ? sonde_load_length_draw(&w->o.output, r) : 0;
}

/* The body of one turn after messages (of a chat; 0 of a single request). said: what the user says
 * in it, for who keeps it; NULL = nobody does. */
static int workload_make(const struct sonde_load_workload *w, uint32_t i, uint32_t turn,
                         const struct sonde_load_message *before, uint32_t before_count,
                         struct sonde_buf *out, struct sonde_buf *said)
{
    struct sonde_load_random r = sonde_load_random_of(w->o.seed, i);
    for (uint32_t t = 0; t < turn; t++) r.state = sonde_load_random_u64(&r);
    const struct sonde_load_item *item = workload_item(w, i);
    const uint32_t max_tokens = workload_max_tokens(w, item, &r);
    if (item && item->body) return workload_own_body(w, item, max_tokens, out);
    struct sonde_load_message *messages = sonde__calloc(before_count + 1u, sizeof(*messages));
    struct sonde_buf text;
    sonde_buf_init(&text, SONDE_LOAD_BODY_MAX);
    struct sonde_buf *user = said ? said : &text;
    workload_say(w, &r, item, turn, user);
    int rc = messages && !user->error ? 0 : SONDE_ENOMEM;
    if (!rc) {
        if (before_count) memcpy(messages, before, before_count * sizeof(*messages));
        messages[before_count] = (struct sonde_load_message){
            .role = "user", .text = user->data ? user->data : "", .len = user->len };
        struct sonde_load_ask ask = workload_ask(w, max_tokens);
        ask.messages = messages;
        ask.message_count = before_count + 1u;
        sonde_load_api_body(&ask, out);
        rc = out->error;
    }
    sonde_buf_release(&text);
    sonde__free(messages);
    return rc;
}

int sonde_load_workload_body(const struct sonde_load_workload *w, uint32_t request,
                             struct sonde_buf *out)
{
    return workload_make(w, request, 0, NULL, 0, out, NULL);
}

/* ---- Chats ----------------------------------------------------------------------------------- */

static void workload_chat_destroy(struct workload_chat *c)
{
    for (uint32_t i = 0; i < c->message_count; i++) sonde__free((void *)c->messages[i].text);
    sonde__free(c->messages);
    sonde__free(c);
}

/* text is copied. */
static int workload_chat_add(struct workload_chat *c, const char *role, const char *text,
                             size_t len)
{
    if (c->bytes + len > SONDE_LOAD_CHAT_MAX) return SONDE_EFULL;
    char *copy = sonde__strndup(text, len);
    struct sonde_load_message *m =
        copy ? SONDE_ARRAY_ADD(c->messages, c->message_count, c->message_cap) : NULL;
    if (!m) {
        sonde__free(copy);
        return SONDE_ENOMEM;
    }
    *m = (struct sonde_load_message){ role, copy, len };
    c->bytes += len;
    return 0;
}

static uint32_t workload_turns_of(const struct sonde_load_workload *w, uint32_t i)
{
    const struct sonde_load_item *item = workload_item(w, i);
    if (w->o.turns <= 1 || (item && item->body)) return 1;
    return item && item->turns && item->turn_count < w->o.turns ? item->turn_count : w->o.turns;
}

/* A chat whose turn it is: one that is ready, else a new one. NULL and *rc: there is none now. */
static struct workload_chat *workload_chat_next(struct sonde_load_workload *w, uint32_t i, int *rc)
{
    struct workload_chat *c = w->ready;
    const int may = !w->o.chats_max || w->chats < w->o.chats_max;
    if (c) {
        w->ready = c->next;
        if (!w->ready) w->ready_last = NULL;
    } else if (may) {
        w->chats++;
    }
    if (c) return c;
    *rc = SONDE_EBUSY;
    if (!may) return NULL;
    c = sonde__calloc(1, sizeof(*c));
    *rc = SONDE_ENOMEM;
    if (!c) return NULL;
    c->first = i;
    c->turns = workload_turns_of(w, i);
    return c;
}

/* Its turn has been answered, or not. */
static void workload_chat_done(struct sonde_load_workload *w, struct workload_chat *c, int ok,
                               const char *text, size_t len)
{
    c->turn++;
    int on = ok && c->turn < c->turns;
    if (on && workload_chat_add(c, "assistant", text ? text : "", text ? len : 0)) on = 0;
    if (on) {
        c->next = NULL;
        if (w->ready_last) w->ready_last->next = c;
        else w->ready = c;
        w->ready_last = c;
    } else {
        w->chats--;
        w->broken += c->turns - c->turn;
    }
    if (!on) workload_chat_destroy(c);
}

/* ---- The source ------------------------------------------------------------------------------ */

/* When the i-th is due; also where all are sent. */
static int workload_due(struct sonde_load_workload *w, uint64_t i, uint64_t *at_ns)
{
    *at_ns = 0;
    if (w->o.requests_max && i >= w->o.requests_max) return SONDE_ENOENT;
    if (i >= UINT32_MAX) return SONDE_ENOENT;
    if (w->o.replay) {
        if (i >= w->o.trace->count) return SONDE_ENOENT;
        const double speed = w->o.speed > 0 ? w->o.speed : 1;
        *at_ns = (uint64_t)(w->o.trace->items[i].at_s / speed * 1e9);
    } else if (w->o.arrival) {
        const int rc = sonde_load_arrival_next(w->o.arrival, at_ns);
        if (rc) return rc;
    }
    /* Not the end of the source, which would wait for all answers however long they take: the
     * sender, which is to end at that time, gets one that is due long after it. */
    if (w->o.duration_ns && *at_ns >= w->o.duration_ns) *at_ns = NEVER_NS;
    return 0;
}

static int workload_fill(struct sonde_load_workload *w, uint32_t i, struct workload_job *job,
                         struct sonde_load_request *out)
{
    struct sonde_buf body, said;
    struct workload_chat *c = job->chat;
    sonde_buf_init(&body, SONDE_LOAD_BODY_MAX);
    sonde_buf_init(&said, SONDE_LOAD_BODY_MAX);
    int rc = workload_make(w, c ? c->first : i, c ? c->turn : 0, c ? c->messages : NULL,
                           c ? c->message_count : 0, &body, c ? &said : NULL);
    if (!rc && c) rc = workload_chat_add(c, "user", said.data ? said.data : "", said.len);
    sonde_buf_release(&said);
    out->body_len = body.len;
    job->body = rc ? NULL : sonde_buf_take(&body);
    sonde_buf_release(&body);
    return rc ? rc : job->body ? 0 : SONDE_ENOMEM;
}

static int workload_next(struct sonde_load_source *s, struct sonde_load_request *out)
{
    struct sonde_load_workload *w = (struct sonde_load_workload *)s;
    const uint32_t i = (uint32_t)w->made;
    struct workload_chat *chat = NULL;
    uint64_t at_ns;
    int rc = 0;
    if (w->o.requests_max && w->made >= w->o.requests_max) return SONDE_ENOENT;
    if (w->o.turns > 1 && !(chat = workload_chat_next(w, i, &rc))) return rc;
    rc = workload_due(w, w->made, &at_ns);
    struct workload_job *job = rc ? NULL : sonde__calloc(1, sizeof(*job));
    if (!rc && !job) rc = SONDE_ENOMEM;
    *out = (struct sonde_load_request){ .request = i, .at_ns = at_ns, .arg = job };
    if (!rc) {
        job->chat = chat;
        out->keep_text = chat && chat->turn + 1 < chat->turns;
        if (!chat && w->made < w->prepared_count) {
            job->prepared = 1;
            job->body = w->prepared[i].body;
            out->body_len = w->prepared[i].len;
        } else {
            rc = workload_fill(w, i, job, out);
        }
    }
    if (rc) {
        if (job) sonde__free(job->body);
        sonde__free(job);
        if (chat) workload_chat_done(w, chat, 0, NULL, 0);
        return rc;
    }
    out->body = job->body;
    w->made++;
    return 0;
}

static void workload_done(struct sonde_load_source *s, const struct sonde_load_request *r,
                          const struct sonde_load_record *record, const char *text, size_t len)
{
    struct sonde_load_workload *w = (struct sonde_load_workload *)s;
    struct workload_job *job = r->arg;
    if (job->chat) {
        workload_chat_done(w, job->chat, record->outcome == SONDE_LOAD_OK, text, len);
    }
    if (!job->prepared) sonde__free(job->body);
    sonde__free(job);
}

int sonde_load_workload_prepare(struct sonde_load_workload *w, uint64_t count)
{
    if (w->o.turns > 1) return 0; /* what they say follows from answers */
    if (w->o.requests_max && count > w->o.requests_max) count = w->o.requests_max;
    if (w->o.replay && count > w->o.trace->count) count = w->o.trace->count;
    if (count > 1000000) count = 1000000;
    w->prepared = count ? sonde__calloc((size_t)count, sizeof(*w->prepared)) : NULL;
    if (count && !w->prepared) return SONDE_ENOMEM;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count && bytes < SONDE_LOAD_PREPARED_BYTES; i++) {
        struct sonde_buf body;
        sonde_buf_init(&body, SONDE_LOAD_BODY_MAX);
        const int rc = sonde_load_workload_body(w, i, &body);
        w->prepared[i].len = body.len;
        w->prepared[i].body = rc ? NULL : sonde_buf_take(&body);
        sonde_buf_release(&body);
        if (!w->prepared[i].body) return rc ? rc : SONDE_ENOMEM;
        bytes += w->prepared[i].len;
        w->prepared_count++;
    }
    return 0;
}

int sonde_load_workload_create(const struct sonde_load_workload_options *o,
                               struct sonde_load_workload **out, struct sonde_err *err)
{
    if (o->replay && (!o->trace || !o->trace->timed)) {
        return sonde_err_set(err, SONDE_EINVAL, "requests can be replayed only where each has its "
                             "time: this file has none; use --prompts with --rate");
    }
    if (o->turns > 1 && o->replay) {
        return sonde_err_set(err, SONDE_EINVAL, "a replay has its own requests: leave out --turns");
    }
    struct sonde_load_workload *w = sonde__calloc(1, sizeof(*w));
    if (!w) return sonde_err_memory(err);
    w->o = *o;
    w->source = (struct sonde_load_source){ workload_next, workload_done };
    if (o->arrival) sonde_load_arrival_start(o->arrival, o->seed);
    *out = w;
    return 0;
}

void sonde_load_workload_destroy(struct sonde_load_workload *w)
{
    if (!w) return;
    for (struct workload_chat *c = w->ready, *next; c; c = next) {
        next = c->next;
        workload_chat_destroy(c);
    }
    for (size_t i = 0; i < w->prepared_count; i++) sonde__free(w->prepared[i].body);
    sonde__free(w->prepared);
    sonde__free(w);
}

struct sonde_load_source *sonde_load_workload_source(struct sonde_load_workload *w)
{
    return &w->source;
}

uint64_t sonde_load_workload_broken(const struct sonde_load_workload *w)
{
    return w->broken;
}
