/* tune_server.c - a server whose speed by its options is known: what `sonde tune` is tested with. It
 * speaks as llama-server does (--help, --port, GET /health, completions as JSON and as events), and
 * instead of computing it sleeps:
 *
 *   a token takes   20 ms, with 2 threads 10 ms, with 8 threads 40 ms; with flash attention on half of
 *                   that; --batch-size makes no difference; 4 threads: it does not start
 *   at a time       --parallel answers; others wait
 *
 * So of threads 1, 2, 4, 8, slots 1, 2, 4 and fa on, off the best is threads=2, slots=4, fa=on. With
 * --heavy it takes 64 MB for each slot. */
#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static sem_t slots;
static long token_us;
static struct timespec ready_at;

static const char help[] =
    "----- common params -----\n"
    "\n"
    "-h,    --help, --usage                  print usage and exit\n"
    "-t,    --threads N                      number of CPU threads to use during generation (default: -1)\n"
    "                                        (env: LLAMA_ARG_THREADS)\n"
    "-b,    --batch-size N                   logical maximum batch size (default: 2048)\n"
    "-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'off')\n"
    "-np,   --parallel N                     number of parallel sequences to decode (default: 1)\n"
    "--heavy                                 takes memory\n"
    "--port PORT                             port to listen (default: 8080)\n";

static void say(int fd, const char *text)
{
    for (size_t at = 0, len = strlen(text); at < len;) {
        const ssize_t n = send(fd, text + at, len - at, MSG_NOSIGNAL);
        if (n <= 0) return;
        at += (size_t)n;
    }
}

static long number_after(const char *text, const char *name, long otherwise)
{
    const char *at = strstr(text, name);
    return at ? strtol(at + strlen(name) + strspn(at + strlen(name), "\": "), NULL, 10) : otherwise;
}

static void answer_json(int fd, int status, const char *json)
{
    char head[256];
    snprintf(head, sizeof(head), "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\nConnection: close\r\n\r\n", status, strlen(json));
    say(fd, head);
    say(fd, json);
}

/* A token is a word: the body's blanks tell how many the prompt has. */
static void complete(int fd, const char *body)
{
    char line[256];
    const long tokens = number_after(body, "\"max_tokens\"", number_after(body, "\"n_predict\"", 4));
    long words = 1;
    for (const char *at = body; *at; at++) words += *at == ' ';
    const int stream = strstr(body, "\"stream\":true") || strstr(body, "\"stream\": true");
    while (sem_wait(&slots)) continue;
    if (stream) say(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                        "Connection: close\r\n\r\n");
    for (long i = 0; i < tokens; i++) {
        usleep((useconds_t)token_us);
        if (stream) say(fd, "data: {\"object\":\"text_completion\",\"choices\":[{\"index\":0,"
                            "\"text\":\"word \",\"finish_reason\":null}]}\n\n");
    }
    sem_post(&slots);
    snprintf(line, sizeof(line), "{\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":"
             "\"%s\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":%ld,"
             "\"completion_tokens\":%ld}}", stream ? "" : "word", words, tokens);
    if (!stream) {
        answer_json(fd, 200, line);
        return;
    }
    say(fd, "data: ");
    say(fd, line);
    say(fd, "\n\ndata: [DONE]\n\n");
}

static void *serve(void *arg)
{
    enum { MAX = 1 << 20 };
    const int fd = (int)(long)arg;
    char *text = calloc(1, MAX + 1), *body = NULL;
    size_t len = 0, need = 0;
    while (text && len < MAX) {
        const ssize_t n = recv(fd, text + len, MAX - len, 0);
        if (n <= 0) break;
        len += (size_t)n;
        if (!body && (body = strstr(text, "\r\n\r\n"))) {
            body += 4;
            const char *length = strcasestr(text, "content-length:");
            need = (size_t)(body - text) + (length && length < body ? strtoul(length + 15, NULL, 10)
                                                                    : 0);
        }
        if (body && len >= need) break;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int ready = now.tv_sec > ready_at.tv_sec ||
                      (now.tv_sec == ready_at.tv_sec && now.tv_nsec >= ready_at.tv_nsec);
    if (!body) ;
    else if (!ready) answer_json(fd, 503, "{\"error\":{\"message\":\"Loading model\"}}");
    else if (!strncmp(text, "GET /health", 11)) answer_json(fd, 200, "{\"status\":\"ok\"}");
    else if (!strncmp(text, "GET /v1/models", 14)) {
        answer_json(fd, 200, "{\"object\":\"list\",\"data\":[{\"id\":\"sleeper\"}]}");
    } else if (!strncmp(text, "POST ", 5)) complete(fd, body);
    else answer_json(fd, 404, "{\"error\":{\"message\":\"not found\"}}");
    free(text);
    shutdown(fd, SHUT_WR);
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = 1, parallel = 1, port = 0;
    int fa = 0, heavy = 0;
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--help")) return fputs(help, stdout) < 0;
        if (!strcmp(argv[i], "-t") || !strcmp(argv[i], "--threads")) threads = atol(next);
        if (!strcmp(argv[i], "-np") || !strcmp(argv[i], "--parallel")) parallel = atol(next);
        if (!strcmp(argv[i], "--flash-attn") || !strcmp(argv[i], "-fa")) fa = !strcmp(next, "on");
        if (!strcmp(argv[i], "--port")) port = atol(next);
        if (!strcmp(argv[i], "--heavy")) heavy = 1;
    }
    if (threads == 4) {
        fputs("loading model\nerror: 4 threads are not for me\n", stderr);
        return 1;
    }
    token_us = (threads == 2 ? 10000 : threads == 8 ? 40000 : 20000) / (fa ? 2 : 1);
    sem_init(&slots, 0, (unsigned)parallel);
    if (heavy) {
        char *block = malloc((size_t)parallel << 26);
        if (block) memset(block, 1, (size_t)parallel << 26);
    }
    clock_gettime(CLOCK_MONOTONIC, &ready_at);
    ready_at.tv_nsec += 50000000;
    if (ready_at.tv_nsec >= 1000000000) {
        ready_at.tv_nsec -= 1000000000;
        ready_at.tv_sec++;
    }
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 64)) {
        perror("listen");
        return 1;
    }
    for (;;) {
        pthread_t t;
        const int c = accept(fd, NULL, NULL);
        if (c < 0) continue;
        if (pthread_create(&t, NULL, serve, (void *)(long)c)) close(c);
        else pthread_detach(t);
    }
}
