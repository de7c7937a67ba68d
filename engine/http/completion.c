/* completion.c - from a client's question to the engine and back.
 *
 * Every request is told to sonde, with the time when its head had arrived and in its caller's
 * trace; those that are refused too, as errors by type. Times are read once and given to sonde
 * and to the event log. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/server_private.h"

/* ---- For sonde and the event log ------------------------------------------------------------ */

static void call_event(struct http_call *c, struct engine_event event)
{
    struct event_log *log = engine_event_log(c->server->engine);
    if (!log) return;
    memcpy(event.request, c->id, sizeof(event.request));
    event_log_put(log, &event, 1);
}

static void http_completion_request_begin(struct http_call *c)
{
    struct http_server *s = c->server;
    const char *parent = http_header(c, "traceparent"), *profile = http_header(c, "X-Profile");
    struct sonde_trace trace = { 0, 0, 0 };
    if (parent && sonde_traceparent_parse(parent, &trace)) trace = (struct sonde_trace){ 0, 0, 0 };
    c->profiled = profile && (!strcasecmp(profile, "true") || !strcmp(profile, "1"));
    /* Spread over all digits: lists have room for the first ones only. */
    const uint64_t number = __atomic_add_fetch(&s->ids, 1, __ATOMIC_RELAXED);
    snprintf(c->id, sizeof(c->id), "%s-%016" PRIx64, c->ask.chat ? "chatcmpl" : "cmpl",
             s->id_base + number * 0x9e3779b97f4a7c15u);
    sonde_request_begin(&c->sonde, &(struct sonde_request_info){
        .size = sizeof(struct sonde_request_info), .model = engine_name(s->engine),
        .route = sonde_name(c->route->path), .arrived = c->arrived, .trace = trace, .id = c->id,
        .tokens_max = c->ask.tokens_max, .profile = (uint32_t)c->profiled });
    call_event(c,
               (struct engine_event){
                   .kind = EVENT_ARRIVAL, .at = c->arrived, .text = c->route->path });
}

static void request_attrs(const struct http_call *c)
{
    const struct http_server *s = c->server;
    const struct sampler_params *p = &c->ask.sampler;
    sonde_request_attr_double(&c->sonde, s->name_temperature, (double)p->temperature);
    if (p->top_k) sonde_request_attr_int(&c->sonde, s->name_top_k, p->top_k);
    if (p->top_p < 1) sonde_request_attr_double(&c->sonde, s->name_top_p, (double)p->top_p);
    if (p->min_p > 0) sonde_request_attr_double(&c->sonde, s->name_min_p, (double)p->min_p);
    sonde_request_attr_int(&c->sonde, s->name_stream, c->ask.stream);
}

/* type: of the error, for sonde; code: for the client, or NULL. */
static enum MHD_Result request_refuse(struct http_call *c, unsigned status, const char *param,
                                      const char *type, const char *code, const char *why)
{
    const uint64_t at = sonde_ticks();
    sonde_request_end_at(&c->sonde, SONDE_ERROR, type, at);
    call_event(c, (struct engine_event){
                      .kind = EVENT_END, .at = at, .text = "error", .error = type });
    return http_reply_error(c, status, param, code, "%s", why);
}

/* ---- Callbacks, on the engine's thread ------------------------------------------------------ */

static void piece_put(struct http_call *c, const char *text, long bytes)
{
    const uint32_t length = (uint32_t)bytes;
    if (bytes <= 0 || c->gone) return;
    const size_t before = c->out.bytes;
    if (http_text_add(&c->out, &length, sizeof(length)) || http_text_add(&c->out, text, length)) {
        c->out.bytes = before; /* out of memory: the text lacks a piece, and is marked below */
        c->failed = 1;
    }
}

static int on_token(void *context, int32_t token, const char *piece, size_t bytes)
{
    struct http_call *c = context;
    const char *text;
    (void)token;
    const long n = text_stream_add(&c->text, piece, bytes, &text);
    pthread_mutex_lock(&c->lock);
    piece_put(c, text, n);
    if (n < 0) c->failed = 1;
    if (c->ask.stream && n > 0) http_call_wake(c);
    const int enough =
        c->text.stopped || c->failed; /* a client that is gone cancels, and is counted so */
    pthread_mutex_unlock(&c->lock);
    return enough;
}

static void http_completion_on_end(void *context, enum engine_finish finish, const char *why,
                                   const struct engine_timings *timings)
{
    struct http_call *c = context;
    const char *text;
    json_t *profile = timings->profile ? http_answer_profile(c, timings) : NULL;
    const long n = text_stream_end(&c->text, &text);
    pthread_mutex_lock(&c->lock);
    piece_put(c, text, n);
    c->finish = c->failed ? ENGINE_FAILED : finish;
    snprintf(c->why, sizeof(c->why), "%s", c->failed ? "out of memory" : why);
    c->timings = *timings;
    c->timings.profile = NULL;
    c->profile = profile;
    c->done = 1;
    http_call_wake(c);
    pthread_mutex_unlock(&c->lock);
    http_call_release(c);
}

/* ---- From text to the queue ----------------------------------------------------------------- */

/* Tokens of what was asked into out, at most max; how many there are in all, -1: out of memory. */
static long prompt_encode(struct http_call *c, int32_t *out, size_t max)
{
    const struct tokenizer *t = engine_tokenizer(c->server->engine);
    const struct ask *a = &c->ask;
    size_t count = 0;
    if (a->tokens) {
        count = a->tokens_count;
        memcpy(out, a->tokens, (count < max ? count : max) * sizeof(*out));
        return (long)count;
    }
    char *chat = a->chat ? tokenizer_chat(t, a->messages, a->messages_count) : NULL;
    if (a->chat && !chat) return -1;
    const int failed = tokenizer_encode(t, chat ? chat : a->prompt,
                                        chat ? strlen(chat) : a->prompt_bytes,
                                        TOKENIZE_SPECIAL | TOKENIZE_BOS, out, max, &count);
    free(chat);
    return failed ? -1 : (long)count;
}

static long prompt_encode_timed(struct http_call *c, int32_t *out, size_t max)
{
    struct sonde_phase phase;
    const uint64_t begin = sonde_ticks();
    sonde_phase_begin_at(&phase, &c->sonde, SONDE_PHASE_ENCODE, begin);
    const long count = prompt_encode(c, out, max);
    const uint64_t end = sonde_ticks(), tokens = count > 0 ? (uint64_t)count : 0;
    sonde_phase_end_at(&phase, tokens, end);
    call_event(c, (struct engine_event){
                      .kind = EVENT_ENCODE, .begin = begin, .at = end, .a = tokens });
    c->encode_ms = (double)sonde_ticks_ns(end - begin) / 1e6;
    return count;
}

static enum MHD_Result submit_refused(struct http_call *c, enum engine_refusal refusal,
                                      const char *why)
{
    switch (refusal) {
    case ENGINE_REFUSED_FULL:
        return request_refuse(c, MHD_HTTP_TOO_MANY_REQUESTS, NULL, "queue_full", "queue_full", why);
    case ENGINE_REFUSED_STOPPING:
        return request_refuse(c, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, "stopping", "stopping", why);
    case ENGINE_REFUSED_TOO_LONG:
        return request_refuse(c, MHD_HTTP_BAD_REQUEST, c->ask.chat ? "messages" : "prompt",
                              "invalid_request", NULL, why);
    default:
        return request_refuse(c, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "oom", NULL, why);
    }
}

static enum MHD_Result call_submit(struct http_call *c, const int32_t *tokens, uint32_t count)
{
    struct fail why;
    struct http_server *s = c->server;
    const struct engine_request r = {
        .prompt = tokens, .prompt_count = count, .tokens_max = c->ask.tokens_max,
        .sampler = c->ask.sampler, .seed_set = c->ask.seed_set, .ignore_end = c->ask.ignore_eos,
        .profile = c->profiled, .sonde = c->sonde, .name = c->id, .on_token = on_token,
        .on_end = http_completion_on_end, .context = c };
    text_stream_init(&c->text, c->ask.stops, c->ask.stops_count);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED); /* the engine's */
    const enum engine_refusal refusal = engine_submit(s->engine, &r, &c->engine_id, &why);
    if (refusal) {
        c->engine_id = 0;
        __atomic_sub_fetch(&c->refs, 1, __ATOMIC_RELAXED);
        return submit_refused(c, refusal, why.text);
    }
    if (info) {
        c->watched_fd = info->connect_fd;
        http_watch_add(s->watch, c->watched_fd, c->engine_id);
    }
    if (c->ask.stream) return http_reply_stream(c);
    pthread_mutex_lock(&c->lock);
    const int done = c->done;
    if (!done) {
        c->suspended = 1;
        MHD_suspend_connection(c->connection);
    }
    pthread_mutex_unlock(&c->lock);
    return done ? http_completion_done(c) : MHD_YES;
}

static enum MHD_Result call_start(struct http_call *c, int chat)
{
    struct ask_error error;
    const int wrong = ask_parse(&c->ask, chat, c->body.at, c->body.bytes, &error);
    const uint32_t context = engine_context(c->server->engine);
    c->ask.chat = chat;
    http_completion_request_begin(c);
    if (wrong) {
        return request_refuse(c, MHD_HTTP_BAD_REQUEST, error.param, "invalid_request", NULL,
                              error.why.text);
    }
    request_attrs(c);
    int32_t *tokens = malloc(context * sizeof(*tokens));
    const long count = tokens ? prompt_encode_timed(c, tokens, context) : -1;
    enum MHD_Result result;
    if (count < 0) {
        result =
            request_refuse(c, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "oom", NULL, "out of memory");
    } else if (count >= (long)context) {
        char why[160];
        snprintf(why, sizeof(why),
                 "the prompt has %ld tokens, and with the answer there is room for %u", count,
                 context);
        result = request_refuse(c, MHD_HTTP_BAD_REQUEST, chat ? "messages" : "prompt",
                                "context_length_exceeded", "context_length_exceeded", why);
    } else {
        result = call_submit(c, tokens, (uint32_t)count);
    }
    free(tokens);
    return result;
}

enum MHD_Result http_chat(struct http_call *c) { return call_start(c, 1); }

enum MHD_Result http_completion(struct http_call *c) { return call_start(c, 0); }

enum MHD_Result http_completion_done(struct http_call *c)
{
    if (c->finish == ENGINE_CANCELLED) {
        return http_reply_error(c, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, "cancelled",
                                "the request was cancelled: the server is stopping");
    }
    if (c->finish == ENGINE_FAILED) {
        return http_reply_error(c, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, NULL, "%s", c->why);
    }
    return http_reply_json(c, MHD_HTTP_OK, http_answer_json(c));
}
