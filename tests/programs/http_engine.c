/* http_engine.c - a small inference server with a thread a connection, whose requests each work and
 * allocate in functions of their own: POST /v1/chat/completions?work=N&ms=CPU_MS&mb=ALLOCATED, N
 * from 0 to 7. Prints its port. Tells about itself by the C API, in the trace that it is given;
 * ?quiet=1: not at all. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "sonde/inference.h"

static volatile uint64_t sink;

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* In pieces that are kept to the end, so that nothing is found again. */
enum { PIECE = 64 << 10, PIECES_MAX = 1024 };

#define WORKER(n)                                                                              \
    static __attribute__((noinline)) void work_##n(uint64_t ns)                                \
    {                                                                                          \
        const uint64_t until = cpu_ns() + ns;                                                  \
        do {                                                                                   \
            for (unsigned i = 0; i < 20000; i++) sink += i ^ n;                                \
        } while (cpu_ns() < until);                                                            \
    }                                                                                          \
    static __attribute__((noinline)) void allocate_##n(void **pieces, unsigned count)          \
    {                                                                                          \
        for (unsigned i = 0; i < count; i++) {                                                 \
            pieces[i] = malloc(PIECE);                                                         \
            if (pieces[i]) *(volatile char *)pieces[i] = n;                                    \
        }                                                                                      \
    }
WORKER(0) WORKER(1) WORKER(2) WORKER(3) WORKER(4) WORKER(5) WORKER(6) WORKER(7)

static void (*const works[])(uint64_t) = { work_0, work_1, work_2, work_3,
                                           work_4, work_5, work_6, work_7 };
static void (*const allocations[])(void **, unsigned) = {
    allocate_0, allocate_1, allocate_2, allocate_3, allocate_4, allocate_5, allocate_6,
    allocate_7 };

static unsigned number(const char *line, const char *name, unsigned otherwise, unsigned max)
{
    const char *at = strstr(line, name);
    const unsigned v = at ? (unsigned)strtoul(at + strlen(name), NULL, 10) : otherwise;
    return v > max ? max : v;
}

/* The value of a field of the head; "" = none. */
static void field(const char *head, const char *name, char *out, size_t size)
{
    const char *at = strcasestr(head, name);
    out[0] = 0;
    if (!at) return;
    at += strlen(name);
    at += strspn(at, ": ");
    const size_t len = strcspn(at, "\r\n");
    snprintf(out, size, "%.*s", (int)len, at);
}

static void say(int fd, const char *text)
{
    for (size_t len = strlen(text); len;) {
        const ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
        if (n <= 0) return;
        text += n;
        len -= (size_t)n;
    }
}

static void serve(int fd, const char *head)
{
    static const char token[] = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    char text[128], line[256];
    /* On the stack it would hide the callers. */
    void **pieces = calloc(PIECES_MAX, sizeof(*pieces));
    struct sonde_request r = { 0 };
    struct sonde_phase phase;
    struct sonde_trace trace = { 0, 0, 0 };
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(head, "\r\n"), head);
    const unsigned n = number(line, "work=", 0, 7), ms = number(line, "ms=", 10, 60000);
    const unsigned mb = pieces ? number(line, "mb=", 0, PIECES_MAX * PIECE >> 20) : 0;
    const unsigned count = mb * (1 << 20) / PIECE;
    const int quiet = strstr(line, "quiet=1") != NULL;
    field(head, "\r\ntraceparent", text, sizeof(text));
    if (sonde_traceparent_parse(text, &trace) != 0) trace = (struct sonde_trace){ 0, 0, 0 };
    field(head, "\r\nx-profile", text, sizeof(text));
    if (!quiet) {
        sonde_request_begin(&r, &(struct sonde_request_info){
            .size = sizeof(struct sonde_request_info), .model = sonde_name("burner"),
            .route = sonde_name("/v1/chat/completions"), .trace = trace,
            .profile = strcmp(text, "true") == 0 });
        sonde_request_prompt(&r, 7, 2);
        sonde_phase_begin(&phase, &r, SONDE_PHASE_PREFILL);
    }
    allocations[n](pieces, count);
    works[n]((uint64_t)ms * 1000000u);
    if (!quiet) {
        sonde_phase_end(&phase, 5);
        sonde_request_tokens(&r, 1);
    }
    say(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    say(fd, token);
    if (!quiet) sonde_request_tokens(&r, 1);
    say(fd, token);
    say(fd, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n"
            "data: [DONE]\n\n");
    if (!quiet) sonde_request_end(&r, SONDE_OK, NULL);
    for (unsigned i = 0; i < count; i++) free(pieces[i]);
    free(pieces);
}

/* A head, and as much of a body as it announces. */
static void *connection(void *arg)
{
    const int fd = (int)(intptr_t)arg;
    static const char end[] = "\r\n\r\n";
    enum { HEAD_MAX = 16384 };
    char *head = malloc(HEAD_MAX), text[32];
    size_t len = 0;
    const char *body = NULL;
    while (head && !body && len < HEAD_MAX - 1) {
        const ssize_t n = read(fd, head + len, HEAD_MAX - 1 - len);
        if (n <= 0) break;
        len += (size_t)n;
        head[len] = 0;
        body = strstr(head, end);
    }
    if (body) {
        field(head, "\r\ncontent-length", text, sizeof(text));
        size_t left = strtoul(text, NULL, 10);
        const size_t have = len - (size_t)(body + sizeof(end) - 1 - head);
        char drop[256];
        for (left -= have < left ? have : left; left;) {
            const ssize_t n = read(fd, drop, left < sizeof(drop) ? left : sizeof(drop));
            if (n <= 0) break;
            left -= (size_t)n;
        }
        serve(fd, head);
    }
    free(head);
    close(fd);
    return NULL;
}

int main(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(at);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    signal(SIGPIPE, SIG_IGN);
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0) {
        perror("http_engine");
        return 1;
    }
    if (sonde_open(NULL) != 0) fprintf(stderr, "http_engine: nothing is recorded\n");
    printf("%u\n", ntohs(at.sin_port));
    fflush(stdout);
    for (;;) {
        const int client = accept(fd, NULL, NULL);
        pthread_t thread;
        if (client < 0) continue;
        if (pthread_create(&thread, NULL, connection, (void *)(intptr_t)client) != 0) close(client);
        else pthread_detach(thread);
    }
}
