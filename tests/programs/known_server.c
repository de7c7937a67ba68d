/* known_server.c - an inference server that computes nothing and whose times are known: it answers
 * when it was told to, and logs when it did.
 *
 *   known_server [--log FILE] [--ttft-us N] [--itl-us N] [--tokens N] [--stall-at-ms N]
 *                [--stall-ms N] [--no-spin | --spin-always] [--cert FILE --key FILE] [--tls12]
 *
 * Prints "port N" and serves on 127.0.0.1 until SIGTERM; then it writes its log and "served N".
 * Delays and counts of a request are in its query (ttft_us, itl_us, tokens, reasoning, prompt,
 * stream), or else the ones of the command line. The path says how it answers: one of the APIs
 * (answer_kinds) or something that no server should do (hostile_kinds).
 *
 * The log has a line for each request, with tabs: trace id, arrival, first token, last token, end
 * (CLOCK_MONOTONIC in ns, taken just before the write), tokens, path. With the query log_events=1 the
 * times of all tokens follow, with commas. Timers are met within microseconds: the last 200 µs before
 * one are not slept through, unless --no-spin. With --spin-always nothing is, so that a request's
 * arrival is logged when it came and not when a sleeper was woken.
 *
 * With a certificate and its key, in PEM, it serves TLS, of version 1.2 alone with --tls12. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { IN_MAX = 256 << 10, OUT_MAX = 256 << 10, CONNS_MAX = 65536, TRACE_LEN = 32 };

enum answer_api { CHAT, COMPLETIONS, LLAMA, OLLAMA_CHAT, OLLAMA_GENERATE, TGI, FAST, FLOOD, HOSTILE };
static const struct { const char *path; enum answer_api api; } answer_kinds[] = {
    { "/v1/chat/completions", CHAT },  { "/v1/completions", COMPLETIONS },
    { "/completion", LLAMA },          { "/api/chat", OLLAMA_CHAT },
    { "/api/generate", OLLAMA_GENERATE }, { "/generate_stream", TGI },
    { "/fast", FAST },                 { "/flood", FLOOD },
};

#define SSE_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
#define TOKEN "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
/* What is sent, and then: 'k' the connection is kept, 'c' it is closed, 'r' reset, 's' nothing more
 * is ever sent; 'h' it is closed without TLS's goodbye. */
static const struct hostile_kind { const char *path, *sends; char then; } hostile_kinds[] = {
    { "/reset-early", "", 'r' },
    { "/close-early", "", 'c' },
    { "/stall", "", 's' },
    { "/reset", SSE_HEAD "Transfer-Encoding: chunked\r\n\r\n2f\r\n" TOKEN, 'r' },
    { "/stall-mid", SSE_HEAD "\r\n" TOKEN, 's' },
    { "/stall-head", "HTTP/1.1 200 OK\r\nContent-", 's' },
    { "/half-utf8", SSE_HEAD "\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"\xe2\x82\"}}]}\n\n"
                    "data: {\"choices\":[{\"delta\":{\"content\":\"\xac\"}}]}\n\ndata: [DONE]\n\n", 'c' },
    { "/garbage", SSE_HEAD "\r\ndata: {\"choices\":[}\n\ndata: \x01\x02\xff\n\ndata: [DONE]\n\n", 'c' },
    { "/wrong-length", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                       "Content-Length: 1000\r\n\r\n{}", 'c' },
    { "/bad-chunk", SSE_HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n" TOKEN, 'c' },
    { "/two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 'c' },
    { "/no-done", SSE_HEAD "\r\n" TOKEN, 'c' },
    { "/http10", "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" TOKEN
                 "data: [DONE]\n\n", 'c' },
    { "/conn-close", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                     "Content-Length: 2\r\n\r\n{}", 'c' },
    { "/continue", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
      'k' },
    { "/trailing", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}and more", 'k' },
    { "/no-content", "HTTP/1.1 204 No Content\r\n\r\n", 'k' },
    { "/error-event", SSE_HEAD "Transfer-Encoding: chunked\r\n\r\n2f\r\n" TOKEN
                      "\r\n24\r\ndata: {\"error\":{\"message\":\"full\"}}\n\n\r\n0\r\n\r\n", 'k' },
    { "/status500", "HTTP/1.1 500 Oh\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
      'k' },
    { "/by-close", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}", 'c' },
    { "/hang-up", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}", 'h' },
    { "/not-http", "SSH-2.0-OpenSSH_9.2\r\n", 'c' },
    { "/stale", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
      'c' },
    { "/long-line", SSE_HEAD "\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"", 'l' },
    { "/big-head", "HTTP/1.1 200 OK\r\nX: ", 'l' },
    { "/early-answer", "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 'c' },
};

struct server_conn {
    int fd;
    SSL *ssl;                   /* NULL = plain */
    int rude;                   /* no goodbye */
    uint32_t heap_at;           /* place in the timers' heap + 1; 0 = it has no timer */
    uint64_t timer_ns;
    char *in, *out;
    size_t in_len, out_at, out_len;
    uint64_t skip;              /* bytes of a body that are still to come */
    int wants_out, closing, endless;
    /* The request at hand. */
    int busy, api, stream, log_events;
    char trace[TRACE_LEN + 1], path[64];
    uint64_t arrived_ns, first_ns, last_ns;
    uint32_t tokens, reasoning, prompt, sent, itl_us, ttft_us;
    uint64_t *times;
};

static struct {
    int epoll, listener, spin;
    struct server_conn *conns[CONNS_MAX];
    struct server_conn **heap;
    uint32_t heap_count;
    uint64_t first_ns, stall_at_ns, stall_ns, served;
    uint32_t ttft_us, itl_us, tokens;
    FILE *log;
    SSL_CTX *tls;
    const char *cert, *key;
    int tls12;
} server = { .spin = 1, .tokens = 16, .ttft_us = 1000, .itl_us = 200 };
static volatile sig_atomic_t server_over;

static void server_on_signal(int signal)
{
    (void)signal;
    server_over = 1;
}

static uint64_t server_now(void) { return sonde_clock_ns(CLOCK_MONOTONIC); }

/* ---- Timers: a heap --------------------------------------------------------------------------- */

static void heap_put(uint32_t at, struct server_conn *c)
{
    server.heap[at] = c;
    c->heap_at = at + 1;
}

static void heap_sift(uint32_t at)
{
    struct server_conn *c = server.heap[at];
    while (at && server.heap[(at - 1) / 2]->timer_ns > c->timer_ns) {
        heap_put(at, server.heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (uint32_t child; (child = 2 * at + 1) < server.heap_count; at = child) {
        if (child + 1 < server.heap_count &&
            server.heap[child + 1]->timer_ns < server.heap[child]->timer_ns) child++;
        if (server.heap[child]->timer_ns >= c->timer_ns) break;
        heap_put(at, server.heap[child]);
    }
    heap_put(at, c);
}

static void timer_clear(struct server_conn *c)
{
    if (!c->heap_at) return;
    const uint32_t at = c->heap_at - 1;
    struct server_conn *last = server.heap[--server.heap_count];
    c->heap_at = 0;
    if (last == c) return;
    heap_put(at, last);
    heap_sift(at);
}

static void timer_set(struct server_conn *c, uint64_t ns)
{
    c->timer_ns = ns;
    if (!c->heap_at) heap_put(server.heap_count++, c);
    heap_sift(c->heap_at - 1);
}

/* ---- Connections ------------------------------------------------------------------------------ */

/* As errno says it. */
static ssize_t conn_tls_result(struct server_conn *c, int n)
{
    if (n > 0) return n;
    const int error = SSL_get_error(c->ssl, n);
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

static ssize_t conn_recv(struct server_conn *c, char *data, size_t len)
{
    return c->ssl ? conn_tls_result(c, SSL_read(c->ssl, data, (int)len)) : recv(c->fd, data, len, 0);
}

static ssize_t conn_send(struct server_conn *c, const char *data, size_t len)
{
    return c->ssl ? conn_tls_result(c, SSL_write(c->ssl, data, (int)len))
                  : send(c->fd, data, len, MSG_NOSIGNAL);
}

static void conn_drop(struct server_conn *c, int reset)
{
    const struct linger hard = { .l_onoff = 1, .l_linger = 0 };
    if (reset) setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    timer_clear(c);
    if (c->ssl && !reset && !c->rude) SSL_shutdown(c->ssl);
    SSL_free(c->ssl);
    close(c->fd);
    server.conns[c->fd] = NULL;
    free(c->in);
    free(c->out);
    free(c->times);
    free(c);
}

static void conn_want_out(struct server_conn *c, int out)
{
    struct epoll_event e = { .events = EPOLLIN | (out ? (uint32_t)EPOLLOUT : 0u), .data.fd = c->fd };
    if (out == c->wants_out) return;
    c->wants_out = out;
    epoll_ctl(server.epoll, EPOLL_CTL_MOD, c->fd, &e);
}

/* What was put out; 0 = the connection is gone. */
static int conn_flush(struct server_conn *c)
{
    while (c->out_at < c->out_len) {
        const ssize_t n = conn_send(c, c->out + c->out_at, c->out_len - c->out_at);
        if (n > 0) c->out_at += (size_t)n;
        else if (n < 0 && errno == EAGAIN) break;
        else {
            conn_drop(c, 0);
            return 0;
        }
    }
    if (c->out_at == c->out_len) c->out_at = c->out_len = 0;
    conn_want_out(c, c->out_len != 0);
    if (c->out_len == 0 && c->closing) {
        conn_drop(c, 0);
        return 0;
    }
    return 1;
}

static void conn_put(struct server_conn *c, const char *data, size_t len)
{
    if (!c->out && !(c->out = malloc(OUT_MAX))) abort();
    if (c->out_at && c->out_len + len > OUT_MAX) {
        memmove(c->out, c->out + c->out_at, c->out_len - c->out_at);
        c->out_len -= c->out_at;
        c->out_at = 0;
    }
    if (c->out_len + len > OUT_MAX) abort(); /* nobody asks for so much */
    memcpy(c->out + c->out_len, data, len);
    c->out_len += len;
}

static void conn_puts(struct server_conn *c, const char *text) { conn_put(c, text, strlen(text)); }

static void conn_put_chunk(struct server_conn *c, const char *data, size_t len)
{
    char size[16];
    const int n = snprintf(size, sizeof(size), "%zx\r\n", len);
    conn_put(c, size, (size_t)n);
    conn_put(c, data, len);
    conn_put(c, "\r\n", 2);
}

/* ---- Answers ---------------------------------------------------------------------------------- */

static void answer_log(struct server_conn *c, uint64_t end_ns)
{
    server.served++;
    c->busy = 0;
    if (!server.log) return;
    fprintf(server.log, "%s\t%llu\t%llu\t%llu\t%llu\t%u\t%s", c->trace[0] ? c->trace : "-",
            (unsigned long long)c->arrived_ns, (unsigned long long)c->first_ns,
            (unsigned long long)c->last_ns, (unsigned long long)end_ns, c->sent, c->path);
    for (uint32_t i = 0; c->times && i < c->sent; i++) {
        fprintf(server.log, "%c%llu", i ? ',' : '\t', (unsigned long long)c->times[i]);
    }
    fputc('\n', server.log);
    free(c->times);
    c->times = NULL;
}

/* One token, as the API's event. */
static int answer_token_text(const struct server_conn *c, char *text, size_t size)
{
    const int thinks = c->sent < c->reasoning;
    switch (c->api) {
    case CHAT:
        return snprintf(text, size,
                        "data: {\"id\":\"chatcmpl-%.16s\",\"object\":\"chat.completion.chunk\","
                        "\"created\":1700000000,\"model\":\"known\",\"choices\":[{\"index\":0,"
                        "\"delta\":{\"%s\":\" t%u\"},\"finish_reason\":null}]}\n\n",
                        c->trace, thinks ? "reasoning_content" : "content", c->sent);
    case COMPLETIONS:
        return snprintf(text, size,
                        "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"choices\":[{"
                        "\"text\":\" t%u\",\"index\":0,\"finish_reason\":null}]}\n\n", c->sent);
    case LLAMA:
        return snprintf(text, size,
                        "data: {\"index\":0,\"content\":\" t%u\",\"tokens\":[%u],\"stop\":false,"
                        "\"id_slot\":-1}\n\n", c->sent, c->sent);
    case OLLAMA_CHAT:
        return snprintf(text, size,
                        "{\"model\":\"known\",\"created_at\":\"2026-01-01T00:00:%02u.%09uZ\","
                        "\"message\":{\"role\":\"assistant\",\"content\":\" t%u\"},"
                        "\"done\":false}\n", c->sent % 60, c->sent, c->sent);
    case OLLAMA_GENERATE:
        return snprintf(text, size, "{\"model\":\"known\",\"response\":\" t%u\",\"done\":false}\n",
                        c->sent);
    default:
        return snprintf(text, size,
                        "data:{\"index\":%u,\"token\":{\"id\":%u,\"text\":\" t%u\",\"logprob\":-0.5,"
                        "\"special\":false},\"generated_text\":null,\"details\":null}\n\n",
                        c->sent + 1, c->sent, c->sent);
    }
}

/* What follows the last token: usage, and the mark of the end. */
static int answer_end_text(const struct server_conn *c, char *text, size_t size)
{
    switch (c->api) {
    case CHAT:
        return snprintf(text, size,
                        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
                        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,"
                        "\"prompt_tokens_details\":{\"cached_tokens\":3},"
                        "\"completion_tokens_details\":{\"reasoning_tokens\":%u}}}\n\n"
                        "data: [DONE]\n\n", c->prompt, c->sent, c->reasoning);
    case COMPLETIONS:
        return snprintf(text, size,
                        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%u,"
                        "\"completion_tokens\":%u}}\n\ndata: [DONE]\n\n", c->prompt, c->sent);
    case LLAMA:
        return snprintf(text, size,
                        "data: {\"index\":0,\"content\":\"\",\"stop\":true,\"tokens_predicted\":%u,"
                        "\"tokens_evaluated\":%u,\"timings\":{\"cache_n\":3,\"prompt_n\":%u,"
                        "\"predicted_n\":%u}}\n\n", c->sent, c->prompt, c->prompt - 3, c->sent);
    case OLLAMA_CHAT:
        return snprintf(text, size,
                        "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,"
                        "\"prompt_eval_count\":%u,\"eval_count\":%u}\n", c->prompt, c->sent);
    case OLLAMA_GENERATE:
        return snprintf(text, size,
                        "{\"response\":\"\",\"done\":true,\"prompt_eval_count\":%u,"
                        "\"eval_count\":%u}\n", c->prompt, c->sent);
    default:
        return snprintf(text, size,
                        "data:{\"index\":%u,\"token\":{\"id\":2,\"text\":\"\",\"special\":true},"
                        "\"generated_text\":\"all\",\"details\":{\"finish_reason\":\"length\","
                        "\"generated_tokens\":%u,\"input_length\":%u}}\n\n",
                        c->sent + 1, c->sent, c->prompt);
    }
}

/* The whole of an answer that is not streamed. */
static void answer_document(struct server_conn *c)
{
    char body[512], head[128];
    c->sent = c->tokens;
    const int n = snprintf(body, sizeof(body),
                           "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"hello\"},"
                           "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":%u,"
                           "\"completion_tokens\":%u}}", c->prompt, c->sent);
    const int h = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                           "Content-Length: %d\r\n\r\n", n);
    conn_put(c, head, (size_t)h);
    conn_put(c, body, (size_t)n);
    c->first_ns = c->last_ns = server_now();
    answer_log(c, c->last_ns);
    conn_flush(c);
}

static void answer_step(struct server_conn *c)
{
    char text[1024];
    timer_clear(c);
    if (!c->stream) {
        answer_document(c);
        return;
    }
    if (c->sent < c->tokens) {
        const uint64_t now = server_now();
        const int n = answer_token_text(c, text, sizeof(text));
        conn_put_chunk(c, text, (size_t)n);
        if (!c->first_ns) c->first_ns = now;
        c->last_ns = now;
        if (c->times) c->times[c->sent] = now;
        c->sent++;
    }
    if (c->sent < c->tokens) {
        /* From when it should have been, so that delays do not add up. */
        timer_set(c, c->arrived_ns + c->ttft_us * 1000ull + (uint64_t)c->sent * c->itl_us * 1000u);
        conn_flush(c);
        return;
    }
    const int n = answer_end_text(c, text, sizeof(text));
    conn_put_chunk(c, text, (size_t)n);
    conn_puts(c, "0\r\n\r\n");
    answer_log(c, server_now());
    conn_flush(c);
}

/* As many events as fit: the client is what is measured. */
static void answer_flood(struct server_conn *c)
{
    static char block[64 << 10];
    static size_t block_len, event_len;
    if (!block_len) {
        const int n = answer_token_text(&(struct server_conn){ .api = CHAT, .trace = "00000000" },
                                        block, 1024);
        char event[1024];
        event_len = (size_t)snprintf(event, sizeof(event), "%x\r\n%.*s\r\n", (unsigned)n, n, block);
        while (block_len + event_len <= sizeof(block)) {
            memcpy(block + block_len, event, event_len);
            block_len += event_len;
        }
    }
    while (c->sent < c->tokens && c->out_len == 0) {
        size_t events = block_len / event_len;
        if (events > c->tokens - c->sent) events = c->tokens - c->sent;
        if (!c->first_ns) c->first_ns = server_now();
        c->sent += (uint32_t)events;
        conn_put(c, block, events * event_len);
        if (c->sent == c->tokens) {
            conn_put_chunk(c, "data: [DONE]\n\n", 14);
            conn_puts(c, "0\r\n\r\n");
            c->last_ns = server_now();
            answer_log(c, c->last_ns);
        }
        if (!conn_flush(c)) return;
    }
}

static void answer_endless(struct server_conn *c)
{
    char block[16384];
    memset(block, 'x', sizeof(block));
    while (c->out_len == 0) {
        conn_put(c, block, sizeof(block));
        if (!conn_flush(c)) return;
    }
}

static void answer_hostile(struct server_conn *c)
{
    for (size_t i = 0; i < sizeof(hostile_kinds) / sizeof(hostile_kinds[0]); i++) {
        const struct hostile_kind *k = &hostile_kinds[i];
        if (strcmp(k->path, c->path)) continue;
        conn_puts(c, k->sends);
        answer_log(c, server_now());
        if (k->then == 'c' || k->then == 'h') c->closing = 1;
        c->rude = k->then == 'h';
        if (k->then == 'l') c->endless = 1;
        if (!conn_flush(c)) return;
        if (k->then == 'r') conn_drop(c, 1);
        else if (k->then == 'l') answer_endless(c);
        return;
    }
    conn_puts(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    answer_log(c, server_now());
    conn_flush(c);
}

static void answer_begin(struct server_conn *c)
{
    static const char fast[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                               "Content-Length: 27\r\n\r\n{\"choices\":[{\"text\":\"hi\"}]}";
    _Static_assert(sizeof("{\"choices\":[{\"text\":\"hi\"}]}") == 28, "its length");
    if (c->api == FAST) {
        conn_put(c, fast, sizeof(fast) - 1);
        answer_log(c, 0);
        conn_flush(c);
        return;
    }
    if (c->api == HOSTILE) {
        answer_hostile(c);
        return;
    }
    if (c->stream) {
        const int lines = c->api == OLLAMA_CHAT || c->api == OLLAMA_GENERATE;
        conn_puts(c, lines ? "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
                             "Transfer-Encoding: chunked\r\n\r\n"
                           : SSE_HEAD "Transfer-Encoding: chunked\r\n\r\n");
        if (c->api == CHAT) {
            static const char role[] = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":"
                                       "\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
            conn_put_chunk(c, role, sizeof(role) - 1);
        }
        if (!conn_flush(c)) return;
    }
    if (c->api == FLOOD) answer_flood(c);
    else timer_set(c, c->arrived_ns + c->ttft_us * 1000ull);
}

/* ---- Requests --------------------------------------------------------------------------------- */

static uint32_t query_number(const char *query, size_t len, const char *name, uint32_t otherwise)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i + n < len; i++) {
        if ((i == 0 || query[i - 1] == '&' || query[i - 1] == '?') && !memcmp(query + i, name, n) &&
            query[i + n] == '=') {
            return (uint32_t)strtoul(query + i + n + 1, NULL, 10);
        }
    }
    return otherwise;
}

/* The value of a field in the head, or NULL. */
static const char *head_field(const char *head, size_t len, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = head; (at = memchr(at, '\n', len - (size_t)(at - head)));) {
        at++;
        if (len - (size_t)(at - head) <= n) return NULL;
        if (!strncasecmp(at, name, n)) return at + n;
    }
    return NULL;
}

static void request_read(struct server_conn *c, const char *head, size_t len, const char *body,
                         size_t body_len)
{
    const char *target = memchr(head, ' ', len);
    const char *end = target ? memchr(target + 1, ' ', len - (size_t)(target + 1 - head)) : NULL;
    const char *trace = head_field(head, len, "traceparent: 00-");
    if (!end) {
        conn_drop(c, 0);
        return;
    }
    target++;
    const size_t target_len = (size_t)(end - target);
    const char *query = memchr(target, '?', target_len);
    const size_t path_len = query ? (size_t)(query - target) : target_len;
    const size_t query_len = query ? (size_t)(end - query) : 0;
    snprintf(c->path, sizeof(c->path), "%.*s", (int)path_len, target);
    c->trace[0] = 0;
    if (trace && trace + TRACE_LEN <= head + len) {
        memcpy(c->trace, trace, TRACE_LEN);
        c->trace[TRACE_LEN] = 0;
    }
    c->api = HOSTILE;
    for (size_t i = 0; i < sizeof(answer_kinds) / sizeof(answer_kinds[0]); i++) {
        if (!strcmp(answer_kinds[i].path, c->path)) c->api = (int)answer_kinds[i].api;
    }
    c->busy = 1;
    c->first_ns = c->last_ns = 0;
    c->sent = 0;
    c->ttft_us = query_number(query, query_len, "ttft_us", server.ttft_us);
    c->itl_us = query_number(query, query_len, "itl_us", server.itl_us);
    c->tokens = query_number(query, query_len, "tokens", server.tokens);
    c->reasoning = query_number(query, query_len, "reasoning", 0);
    c->prompt = query_number(query, query_len, "prompt", 11);
    c->stream = query_number(query, query_len, "stream", 1) != 0 &&
                !(body && memmem(body, body_len, "\"stream\":false", 14));
    if (query_number(query, query_len, "log_events", 0)) c->times = calloc(c->tokens, 8);
    const char *max = body ? memmem(body, body_len, "\"max_tokens\":", 13) : NULL;
    if (max) c->tokens = (uint32_t)strtoul(max + 13, NULL, 10);
    if (!server.first_ns) server.first_ns = c->arrived_ns;
    answer_begin(c);
}

/* Requests that are whole, one after the other; those behind one that is under way wait. */
static void conn_requests(int fd)
{
    struct server_conn *c;
    while ((c = server.conns[fd]) && !c->busy && !c->closing && c->in_len) {
        const char *blank = memmem(c->in, c->in_len, "\r\n\r\n", 4);
        if (!blank) return;
        const size_t head = (size_t)(blank + 4 - c->in);
        const char *length = head_field(c->in, head, "content-length: ");
        const size_t body = length ? strtoul(length, NULL, 10) : 0;
        const int early = !memcmp(c->in, "POST /early", 11);
        if (c->in_len < head + body && !early) return;
        const size_t used = early ? c->in_len : head + body;
        char *in = c->in;
        const size_t left = c->in_len - used;
        c->in = malloc(IN_MAX);
        if (!c->in) abort();
        memcpy(c->in, in + used, left);
        c->in_len = left;
        request_read(c, in, head, body ? in + head : NULL, early ? 0 : body);
        free(in);
    }
}

static void conn_readable(struct server_conn *c)
{
    if (!c->in && !(c->in = malloc(IN_MAX))) abort();
    const ssize_t n = conn_recv(c, c->in + c->in_len, IN_MAX - c->in_len);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        if (c->busy) answer_log(c, server_now());
        conn_drop(c, 0);
        return;
    }
    if (!c->ssl && c->in[0] == 22) { /* TLS, to a server without */
        conn_puts(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        c->closing = 1;
        conn_flush(c);
        return;
    }
    c->arrived_ns = c->busy ? c->arrived_ns : server_now();
    c->in_len += (size_t)n;
    const int fd = c->fd;
    conn_requests(fd);
    /* What OpenSSL has read already makes no event. */
    if (server.conns[fd] == c && c->ssl && SSL_pending(c->ssl) > 0) conn_readable(c);
}

static void server_accept(void)
{
    for (int fd; (fd = accept4(server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        const int one = 1;
        struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };
        struct server_conn *c = fd < CONNS_MAX ? calloc(1, sizeof(*c)) : NULL;
        if (!c) {
            close(fd);
            return;
        }
        c->fd = fd;
        if (server.tls) {
            c->ssl = SSL_new(server.tls);
            if (!c->ssl || !SSL_set_fd(c->ssl, fd)) abort();
            SSL_set_accept_state(c->ssl);
        }
        server.conns[fd] = c;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        epoll_ctl(server.epoll, EPOLL_CTL_ADD, fd, &e);
    }
}

static void server_event(const struct epoll_event *e)
{
    const int fd = e->data.fd;
    struct server_conn *c = server.conns[fd];
    if (fd == server.listener) {
        server_accept();
        return;
    }
    if (c && (e->events & EPOLLOUT)) {
        if (!conn_flush(c)) return;
        if (c->endless && !c->out_len) answer_endless(c);
        else if (c->busy && c->api == FLOOD && !c->out_len) answer_flood(c);
        if (!(c = server.conns[fd])) return;
    }
    if (c && (e->events & ~(uint32_t)EPOLLOUT)) conn_readable(c);
}

/* ---- The whole -------------------------------------------------------------------------------- */

static void server_stall(uint64_t now)
{
    if (!server.stall_ns || !server.first_ns || now < server.first_ns + server.stall_at_ns) return;
    const struct timespec until = sonde_clock_timespec(now + server.stall_ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) { }
    server.stall_ns = 0;
}

static void server_run(void)
{
    struct epoll_event events[256];
    while (!server_over) {
        uint64_t now = server_now();
        server_stall(now);
        while (server.heap_count && server.heap[0]->timer_ns <= (now = server_now())) {
            struct server_conn *c = server.heap[0];
            const int fd = c->fd;
            answer_step(c);
            if (server.conns[fd] == c) conn_requests(fd);
        }
        uint64_t sleep_ns = 20000000;
        if (server.heap_count) {
            const uint64_t early = server.spin ? 200000 : 0, due = server.heap[0]->timer_ns;
            const uint64_t left = due > now + early ? due - now - early : 0;
            if (left < sleep_ns) sleep_ns = left;
        }
        const struct timespec timeout = sonde_clock_timespec(server.spin > 1 ? 0 : sleep_ns);
        const int n = epoll_pwait2(server.epoll, events, 256, &timeout, NULL);
        for (int i = 0; i < n; i++) server_event(&events[i]);
    }
}

static void server_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(a, "--no-spin")) {
            server.spin = 0;
            continue;
        }
        if (!strcmp(a, "--spin-always")) {
            server.spin = 2;
            continue;
        }
        if (!strcmp(a, "--tls12")) {
            server.tls12 = 1;
            continue;
        }
        if (!v) exit(2);
        i++;
        if (!strcmp(a, "--cert")) server.cert = v;
        else if (!strcmp(a, "--key")) server.key = v;
        else if (!strcmp(a, "--log")) server.log = fopen(v, "w");
        else if (!strcmp(a, "--ttft-us")) server.ttft_us = (uint32_t)strtoul(v, NULL, 10);
        else if (!strcmp(a, "--itl-us")) server.itl_us = (uint32_t)strtoul(v, NULL, 10);
        else if (!strcmp(a, "--tokens")) server.tokens = (uint32_t)strtoul(v, NULL, 10);
        else if (!strcmp(a, "--stall-at-ms")) server.stall_at_ns = strtoull(v, NULL, 10) * 1000000u;
        else if (!strcmp(a, "--stall-ms")) server.stall_ns = strtoull(v, NULL, 10) * 1000000u;
        else exit(2);
    }
}

static void server_tls(void)
{
    if (!server.cert) return;
    server.tls = SSL_CTX_new(TLS_server_method());
    signal(SIGPIPE, SIG_IGN);
    if (!server.tls || SSL_CTX_use_certificate_chain_file(server.tls, server.cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(server.tls, server.key, SSL_FILETYPE_PEM) != 1) {
        fprintf(stderr, "known_server: cannot use %s and %s\n", server.cert, server.key);
        exit(1);
    }
    if (server.tls12) SSL_CTX_set_max_proto_version(server.tls, TLS1_2_VERSION);
    SSL_CTX_set_mode(server.tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
                                     SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    struct rlimit files;
    struct epoll_event e = { .events = EPOLLIN };
    const struct sigaction stop = { .sa_handler = server_on_signal };
    server_options(argc, argv);
    server_tls();
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    server.heap = calloc(CONNS_MAX, sizeof(struct server_conn *));
    server.epoll = epoll_create1(EPOLL_CLOEXEC);
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!server.heap || bind(server.listener, (struct sockaddr *)&at, len) ||
        listen(server.listener, 16384) ||
        getsockname(server.listener, (struct sockaddr *)&at, &len)) {
        perror("known_server");
        return 1;
    }
    e.data.fd = server.listener;
    epoll_ctl(server.epoll, EPOLL_CTL_ADD, server.listener, &e);
    printf("port %u\n", ntohs(at.sin_port));
    fflush(stdout);
    server_run();
    for (int fd = 0; fd < CONNS_MAX; fd++) {
        if (server.conns[fd]) conn_drop(server.conns[fd], 0);
    }
    if (server.log) fclose(server.log);
    SSL_CTX_free(server.tls);
    free(server.heap);
    printf("served %llu\n", (unsigned long long)server.served);
    return 0;
}
