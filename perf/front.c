/* front.c - what the front adds to a request and to a token on their way. Each round gives the median
 * of its requests, and those of both ways take turns within it.
 *
 * Requests: the upstream is a thread that sleeps until one comes, and the client one that sleeps until
 * the answer does, with the front between them or without. Both are woken on either way, so what is
 * left is the front's: its work, and its own being woken. Where CPUs sleep that is what takes long.
 *
 * Rejected for them: this thread as client and upstream at once. On the direct way it then never
 * sleeps, and its being woken twice, which any client and any upstream are, counted as the front's.
 *
 * Tokens: this thread is both, so the client's being woken is in the figure. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "front/metrics.h"
#include "front/front_private.h"
#include "harness.h"

enum { SAMPLES_MAX = 4096 };

static const char request[] = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                              "Content-Type: application/json\r\nContent-Length: 62\r\n\r\n"
                              "{\"model\":\"llama-3\",\"stream\":true,\"max_tokens\":5,\"messages\":[]}";
static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                             "Keep-Alive: timeout=100\r\nContent-Length: 2\r\n\r\n{}";
static const char stream[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                             "Transfer-Encoding: chunked\r\n\r\n";
static const char token[] =
    "cc\r\ndata: {\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":"
    "\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"llama-3\",\"choices\":[{\"index\":0,"
    "\"delta\":{\"content\":\" token\"},\"finish_reason\":null}]}\n\n\r\n";

struct way { int client, upstream; };
static struct way direct, through;           /* to a thread that answers */
static struct way plain, streaming;          /* for tokens: this thread is at both ends */
static pthread_t servers[2];
static int listener;
static struct sonde_front *front;
static struct sonde_front_metrics *figures;
static struct sonde_model *model;
static uint64_t token_seen_ns; /* by the front; written before the client can read the token */

/* ---- Sockets ------------------------------------------------------------------------------- */

static int listen_on(struct sockaddr_in *a)
{
    socklen_t len = sizeof(*a);
    *a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)a, len) || listen(fd, 16) ||
        getsockname(fd, (struct sockaddr *)a, &len)) {
        bench_die("cannot listen: %s", strerror(errno));
    }
    return fd;
}

static int dial(const struct sockaddr_in *a)
{
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)a, sizeof(*a))) {
        bench_die("cannot connect: %s", strerror(errno));
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static int take_connection(void)
{
    const int on = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) bench_die("accept: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static void put(int fd, const char *text, size_t len)
{
    if (send(fd, text, len, MSG_NOSIGNAL) != (ssize_t)len) bench_die("send: %s", strerror(errno));
}

/* Until what was read ends in this. */
static void get(int fd, const char *end)
{
    char text[4096];
    size_t len = 0;
    const size_t end_len = strlen(end);
    while (len < end_len || memcmp(text + len - end_len, end, end_len) != 0) {
        const ssize_t n = recv(fd, text + len, sizeof(text) - len, 0);
        if (n <= 0) bench_die("recv: %s", n ? strerror(errno) : "the connection ended");
        len += (size_t)n;
    }
}

/* ---- The upstream --------------------------------------------------------------------------- */

static int has_request(int fd)
{
    char text[4096];
    size_t len = 0;
    do {
        const ssize_t n = recv(fd, text + len, sizeof(text) - len, 0);
        if (n <= 0) return 0;
        len += (size_t)n;
    } while (text[len - 1] != '}');
    return 1;
}

static void *serve(void *arg)
{
    const int fd = *(const int *)arg;
    while (has_request(fd)) put(fd, answer, sizeof(answer) - 1);
    return NULL;
}

/* ---- Setting up ---------------------------------------------------------------------------- */

static void on_event(void *arg, enum sonde_front_event event, struct sonde_front_request *r)
{
    const struct sonde_front_observer *o = arg;
    if (event == SONDE_FRONT_TOKEN) {
        __atomic_store_n(&token_seen_ns, r->last_token_ns, __ATOMIC_RELEASE);
    }
    o->event(o->arg, event, r);
}

static void on_tick(void *arg, const struct sonde_front_state *state)
{
    const struct sonde_front_observer *o = arg;
    o->tick(o->arg, state);
}

/* The front may run on any CPU, also where this thread is bound to one. */
static void start_front(const struct sonde_front_options *o)
{
    struct sonde_err err = { "" };
    cpu_set_t bound, any;
    memset(&any, 0xff, sizeof(any));
    const int was_bound = sched_getaffinity(0, sizeof(bound), &bound) == 0;
    sched_setaffinity(0, sizeof(any), &any);
    if (sonde_front_start(o, &front, &err) != 0) bench_die("%s", err.text);
    if (was_bound) sched_setaffinity(0, sizeof(bound), &bound);
}

static void setup(void)
{
    static struct sonde_front_observer inner;
    const struct sonde_model_limits limits = { 0, 0, 0 };
    struct sockaddr_in up, at;
    listener = listen_on(&up);
    if (sonde_model_create(&limits, &model) || sonde_front_metrics_create(model, NULL, &figures)) {
        bench_die("out of memory");
    }
    inner = sonde_front_metrics_observer(figures);
    struct sonde_front_options o = { .listen_fd = listen_on(&at),
                                     .poll_percent = FRONT_POLL_PERCENT,
                                     .observer = { on_event, on_tick, &inner } };
    strcpy(o.upstream.authority, "127.0.0.1");
    memcpy(&o.upstream.address[0], &up, sizeof(up));
    o.upstream.address_count = 1;
    start_front(&o);

    plain.client = dial(&up);
    plain.upstream = take_connection();
    direct.client = dial(&up);
    direct.upstream = take_connection();
    through.client = dial(&at);
    put(through.client, request, sizeof(request) - 1);
    through.upstream = take_connection();
    get(through.upstream, "}");
    put(through.upstream, answer, sizeof(answer) - 1);
    get(through.client, "{}");
    streaming.client = dial(&at);
    /* One request is under way on the pooled connection, so that the stream gets its own. */
    put(through.client, request, sizeof(request) - 1);
    get(through.upstream, "}");
    put(streaming.client, request, sizeof(request) - 1);
    streaming.upstream = take_connection();
    get(streaming.upstream, "}");
    put(streaming.upstream, stream, sizeof(stream) - 1);
    get(streaming.client, "\r\n\r\n");
    put(through.upstream, answer, sizeof(answer) - 1);
    get(through.client, "{}");
    if (pthread_create(&servers[0], NULL, serve, &direct.upstream) ||
        pthread_create(&servers[1], NULL, serve, &through.upstream)) {
        bench_die("cannot start a thread");
    }
}

static void teardown(void)
{
    sonde_front_stop(front);
    sonde_front_metrics_destroy(figures);
    sonde_model_destroy(model);
    const struct way *all[] = { &direct, &through, &plain, &streaming };
    for (size_t i = 0; i < 4; i++) close(all[i]->client);
    for (size_t i = 0; i < 2; i++) pthread_join(servers[i], NULL);
    for (size_t i = 0; i < 4; i++) close(all[i]->upstream);
    close(listener);
}

/* ---- Measuring ----------------------------------------------------------------------------- */

static uint64_t send_request(const struct way *w)
{
    const uint64_t begin = bench_now_ns();
    put(w->client, request, sizeof(request) - 1);
    get(w->client, "{}");
    return bench_now_ns() - begin;
}

static uint64_t send_token(const struct way *w)
{
    const uint64_t begin = bench_now_ns();
    put(w->upstream, token, sizeof(token) - 1);
    get(w->client, "\n\n\r\n");
    return bench_now_ns() - begin;
}

/* How long after it was sent the front says that the token came. */
static uint64_t token_late(const struct way *w)
{
    const uint64_t begin = bench_now_ns();
    put(w->upstream, token, sizeof(token) - 1);
    get(w->client, "\n\n\r\n");
    return __atomic_load_n(&token_seen_ns, __ATOMIC_ACQUIRE) - begin;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* n times the median of ours, less that of the direct way; or another of a thousand parts. */
static uint64_t quantile(uint64_t n, uint64_t (*measure)(const struct way *w),
                         const struct way *ours, const struct way *less, uint64_t thousandth)
{
    static uint64_t a[SAMPLES_MAX], b[SAMPLES_MAX];
    const uint64_t count = n < SAMPLES_MAX ? n : SAMPLES_MAX;
    const uint64_t at = count * thousandth / 1000;
    for (uint64_t i = 0; i < count; i++) {
        if (less) b[i] = measure(less);
        a[i] = measure(ours);
    }
    qsort(a, count, sizeof(a[0]), by_size);
    qsort(b, less ? count : 0, sizeof(b[0]), by_size);
    const uint64_t base = less ? b[at] : 0;
    return n * (a[at] > base ? a[at] - base : 1);
}

/* CPU time of the front's thread for n requests, one after the other. */
static uint64_t request_cpu(uint64_t n, unsigned thread)
{
    clockid_t clock;
    struct timespec before, after;
    (void)thread;
    if (pthread_getcpuclockid(front->thread.id, &clock)) bench_die("the front's clock is not known");
    clock_gettime(clock, &before);
    for (uint64_t i = 0; i < n; i++) send_request(&through);
    clock_gettime(clock, &after);
    return (uint64_t)((after.tv_sec - before.tv_sec) * 1000000000l + after.tv_nsec - before.tv_nsec);
}

#define VARIANT(id, measure, ours, less, thousandth)                                           \
    static uint64_t id(uint64_t n, unsigned thread)                                            \
    {                                                                                          \
        return (void)thread, quantile(n, measure, ours, less, thousandth);                     \
    }
VARIANT(request_direct, send_request, &direct, NULL, 500)
VARIANT(request_added, send_request, &through, &direct, 500)
VARIANT(request_late, send_request, &through, &direct, 990)
VARIANT(token_direct, send_token, &plain, NULL, 500)
VARIANT(token_added, send_token, &streaming, &plain, 500)
VARIANT(token_seen, token_late, &streaming, NULL, 500)

static const struct bench_row rows[] = {
    { .id = "front_request", .figure = "front: added to a request, p50", .unit = "us",
      .ours = "request added", .bare = "request direct", .budget = 150,
      .note = "client and upstream sleep until something comes, on both ways" },
    { .id = "front_request_p99", .figure = "front: added to a request, p99", .unit = "us",
      .ours = "request added, p99", .bare = "request direct" },
    { .id = "front_request_cpu", .figure = "front: its CPU time for a request", .unit = "us",
      .ours = "request cpu", .note = "one after the other; looking for events included" },
    { .id = "front_token", .figure = "front: added to a token, p50", .unit = "us",
      .ours = "token added", .bare = "token direct" },
    { .id = "front_seen", .figure = "front: a token's time, after it was sent, p50", .unit = "us",
      .ours = "token seen", .bare = "token direct", .budget = 1000 },
    { .id = NULL },
};

BENCH_GROUP(group) = {
    .name = "front",
    .threads = 1,
    .setup = setup,
    .teardown = teardown,
    .variants = {
        { .name = "request direct", .run = request_direct, .round_ms = 5 },
        { .name = "request added", .run = request_added, .round_ms = 5 },
        { .name = "request added, p99", .run = request_late, .round_ms = 20 },
        { .name = "request cpu", .run = request_cpu, .round_ms = 5 },
        { .name = "token direct", .run = token_direct, .round_ms = 5 },
        { .name = "token added", .run = token_added, .round_ms = 5 },
        { .name = "token seen", .run = token_seen, .round_ms = 5 },
    },
    .rows = rows,
};
