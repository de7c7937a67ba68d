/* llama_http: a server on the real llama.cpp, one request at a time, that also tells sonde about
 * each of them (sonde/inference.h). So one request is seen three ways: by the hooks in llama.cpp's
 * functions, by these calls, and by a front before it. What it did by its own clock goes to stdout,
 * a line of JSON a request, after a first line with its port.
 *
 *   llama_http MODEL PASS_MS     wait so long before each forward pass: what is compared are then
 *                                tens of milliseconds, and not how two processes get the CPU
 *
 * A prompt is {"prompt":"…","max_tokens":N}, without escapes. The order of clocks is that of what
 * they enclose: the front has the request before this, this before llama_tokenize; a token is
 * sampled, told to sonde, written to the socket, read by the front. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ggml-backend.h"
#include "llama.h"
#include "sonde/inference.h"

enum { CTX = 1024, CHUNK = 32, HEAD_MAX = 32768 };

static struct llama_context *ctx;
static const struct llama_vocab *vocab;
static struct llama_sampler *sampler;
static struct llama_batch batch;
static llama_token cache[CTX]; /* what sequence 0 holds */
static int cached, pass_ms;
static uint32_t model_name, route_name;

struct truth { int64_t arrival_ns, first_ns, last_ns, end_ns; int prompt, reused, output; };

static void die(const char *what)
{
    fprintf(stderr, "llama_http: %s\n", what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void load(const char *path)
{
    struct sonde_model_load l;
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(LLAMA_LIBRARY);
    llama_backend_init();
    sonde_model_load_begin(&l, model_name);
    struct llama_model *model = llama_model_load_from_file(path, llama_model_default_params());
    if (!model) die("cannot load the model");
    sonde_model_load_end(&l, llama_model_size(model), SONDE_OK);
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = CTX;
    params.n_batch = params.n_ubatch = CHUNK;
    params.n_threads = params.n_threads_batch = 1;
    ctx = llama_init_from_model(model, params);
    if (!ctx) die("cannot make a context");
    vocab = llama_model_get_vocab(model);
    sampler = llama_sampler_chain_init(llama_sampler_chain_default_params());
    llama_sampler_chain_add(sampler, llama_sampler_init_greedy());
    batch = llama_batch_init(CHUNK, 0, 1);
}

/* ---- Computing ------------------------------------------------------------------------------ */

/* Tokens at the end of sequence 0, in one pass; more of them follow before one is sampled, or
 * not. */
static void decode(const struct sonde_request *r, uint32_t phase_kind, const llama_token *tokens,
                   int count, int more)
{
    struct sonde_phase phase;
    nanosleep(&(struct timespec){ .tv_nsec = pass_ms * 1000000L }, NULL);
    batch.n_tokens = count;
    for (int i = 0; i < count; i++) {
        batch.token[i] = cache[cached] = tokens[i];
        batch.pos[i] = cached++;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = i == count - 1 && !more;
    }
    sonde_phase_begin(&phase, r, phase_kind);
    if (llama_decode(ctx, batch)) die("llama_decode failed");
    sonde_phase_end(&phase, (uint64_t)count);
}

static int prompt_take(const struct sonde_request *r, const char *text, llama_token *prompt,
                       struct truth *t)
{
    struct sonde_phase phase;
    sonde_phase_begin(&phase, r, SONDE_PHASE_ENCODE);
    t->prompt = llama_tokenize(vocab, text, (int32_t)strlen(text), prompt, CTX / 2, true, true);
    if (t->prompt < 1) return -1;
    sonde_phase_end(&phase, (uint64_t)t->prompt);
    while (t->reused < cached && t->reused < t->prompt - 1 && cache[t->reused] == prompt[t->reused])
        t->reused++;
    if (!llama_memory_seq_rm(llama_get_memory(ctx), 0, t->reused, -1)) {
        die("cannot cut the sequence");
    }
    cached = t->reused;
    sonde_request_prompt(r, (uint64_t)t->prompt, (uint64_t)t->reused);
    return 0;
}

/* ---- HTTP ----------------------------------------------------------------------------------- */

/* Whether somebody still reads. */
static int say(int fd, const char *text)
{
    for (size_t len = strlen(text); len;) {
        const ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
        if (n <= 0) return 0;
        text += n;
        len -= (size_t)n;
    }
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

/* One token: sampled, told, sent. 0 = the client is gone. */
static int token_give(int fd, const struct sonde_request *r, struct truth *t, llama_token *token)
{
    char piece[64], line[512], *to = line;
    *token = llama_sampler_sample(sampler, ctx, -1);
    t->last_ns = now_ns();
    if (!t->output++) t->first_ns = t->last_ns;
    sonde_request_tokens(r, 1);
    const int length = llama_token_to_piece(vocab, *token, piece, sizeof(piece), 0, true);
    to = stpcpy(to, "data: {\"choices\":[{\"text\":\"");
    for (int i = 0; i < length; i++) to += sprintf(to, "\\u%04x", (unsigned char)piece[i] & 0x7f);
    /* A token without text is one all the same. */
    strcpy(to, length > 0 ? "\"}]}\n\n" : ".\"}]}\n\n");
    return say(fd, line);
}

/* 1 = all of it was sent. */
static int generate(int fd, const struct sonde_request *r, const llama_token *prompt,
                    int tokens_max, struct truth *t)
{
    llama_token token;
    for (int at = t->reused; at < t->prompt; at += CHUNK) {
        const int left = t->prompt - at;
        decode(r, SONDE_PHASE_PREFILL, prompt + at, left < CHUNK ? left : CHUNK, left > CHUNK);
    }
    if (!say(fd,
             "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")) {
        return 0;
    }
    while (token_give(fd, r, t, &token)) {
        if (t->output == tokens_max) return 1;
        decode(r, SONDE_PHASE_DECODE, &token, 1, 0);
    }
    return 0;
}

static void serve(int fd, const char *head, const char *body, uint64_t arrived, int64_t arrival_ns)
{
    static int number;
    llama_token prompt[CTX / 2];
    struct truth t = { .arrival_ns = arrival_ns };
    struct sonde_request_info info = { .size = sizeof(info), .model = model_name,
                                       .route = route_name, .arrived = arrived };
    struct sonde_request r;
    char id[24], text[4096], line[256], trace[SONDE_TRACEPARENT_SIZE];
    int tokens_max = 0;
    const char *parent = strcasestr(head, "\r\ntraceparent:"),
               *max = strstr(body, "\"max_tokens\":");
    if (parent && sscanf(parent + 14, " %55s", trace) == 1) {
        sonde_traceparent_parse(trace, &info.trace);
    }
    if (max) tokens_max = atoi(max + 13);
    if (sscanf(body, "%*[^:]:\"%4095[^\"]\"", text) != 1 || tokens_max < 1 ||
        tokens_max > CTX / 2) {
        say(fd, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return;
    }
    snprintf(id, sizeof(id), "way-%d", number++);
    info.id = id;
    info.tokens_max = (uint32_t)tokens_max;
    sonde_request_begin(&r, &info);
    if (prompt_take(&r, text, prompt, &t)) die("the prompt is too long");
    const int whole = generate(fd, &r, prompt, tokens_max, &t);
    t.end_ns = now_ns();
    sonde_request_end(&r, whole ? SONDE_OK : SONDE_CANCELLED, NULL);
    if (whole) {
        snprintf(line, sizeof(line), "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,"
                 "\"completion_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":%d}}}\n\n"
                 "data: [DONE]\n\n", t.prompt, t.output, t.reused);
        say(fd, line);
    }
    printf("{\"id\":\"%s\",\"outcome\":\"%s\",\"tokens_in\":%d,\"tokens_reused\":%d,"
           "\"tokens_out\":%d,\"ttft_ns\":%" PRId64 ",\"last_ns\":%" PRId64
           ",\"total_ns\":%" PRId64 "}\n", id, whole ? "ok" : "cancelled", t.prompt, t.reused,
           t.output, t.first_ns - t.arrival_ns, t.last_ns - t.first_ns, t.end_ns - t.arrival_ns);
    fflush(stdout);
}

/* A head and as much of a body as it announces. */
static void connection(int fd)
{
    static char text[HEAD_MAX];
    size_t length = 0, wanted = 0;
    char *body = NULL;
    uint64_t arrived = 0;
    int64_t arrival_ns = 0;
    do {
        const ssize_t n = read(fd, text + length, sizeof(text) - 1 - length);
        if (n <= 0) return;
        if (!arrived) {
            arrival_ns = now_ns();
            arrived = sonde_ticks();
        }
        text[length += (size_t)n] = 0;
        if (!body && (body = strstr(text, "\r\n\r\n"))) {
            const char *said = strcasestr(text, "\r\ncontent-length:");
            body += 4;
            wanted = said && said < body ? strtoul(said + 17, NULL, 10) : 0;
        }
    } while (!body || length - (size_t)(body - text) < wanted);
    serve(fd, text, body, arrived, arrival_ns);
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(at);
    if (argc != 3) die("usage: llama_http MODEL PASS_MS");
    pass_ms = atoi(argv[2]);
    model_name = sonde_name("tiny");
    route_name = sonde_name("/v1/completions");
    load(argv[1]);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 16) ||
        getsockname(fd, (struct sockaddr *)&at, &size)) die("cannot listen");
    printf("%u\n", ntohs(at.sin_port));
    fflush(stdout);
    for (;;) {
        const int client = accept(fd, NULL, NULL);
        if (client < 0) continue;
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        connection(client);
        close(client);
    }
}
