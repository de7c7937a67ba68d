/* why_truth.c - requests whose latency has known parts, and a log of them by the program's own
 * clocks: the oracle of tests/e2e/test_why.sh.
 *
 * why_truth GROUPS [FACTOR]: one server thread serves groups of three requests, a, b and c, which
 * arrive together:
 *
 *   encode a, encode b, encode c     1 ms each: b and c wait
 *   prefill a 8, b 4, c 4 tokens     4 ms, one batch
 *   decode a 1, b 1 tokens           3 ms: c waits for its mates
 *   decode a 1, b 1, c 2 tokens      2 ms, then a lock that another thread holds for 5 ms
 *   tools of a                       reads a slow pipe, sleeps, hands over to a worker, which
 *                                    computes and sleeps; b and c wait
 *   detokenize c, b, a               1 ms each, and the end of each
 *
 * and then a call to another process, which computes and sleeps. In some of the groups the lock is
 * held FACTOR (default 1) times as long: those are the slow ones.
 *
 * The server's time is cut into intervals without a hole, each a line: "i GROUP NAME begin end ran
 * cpu", nanoseconds of CLOCK_MONOTONIC, and of the thread's CPU time. ran is CPU time too, but of
 * intervals that compute it is what is left when the time it was runnable, as the scheduler counts
 * it, is taken off: CPU time as such lacks what interrupts and the machine's host take. Those named
 * "-" are what is between the others. "r GROUP WHO begin end" is a request, "w …" the worker's
 * intervals and "s …" those of the other process. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sonde/inference.h"

#define MS 1000000ull

enum { MAX_LINES = 65536 };

struct line { char type; int group; const char *name; uint64_t begin, end, cpu, delay; };

/* Of one thread; the last line is open. */
struct log { char type; int group, fd; unsigned count; struct line lines[MAX_LINES]; };

static struct log server_log, worker_log;

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void log_open(struct log *l, char type)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)syscall(SYS_gettid));
    l->type = type;
    l->fd = open(path, O_RDONLY | O_CLOEXEC);
}

/* Nanoseconds that the thread could run but did not. */
static uint64_t log_delay(const struct log *l)
{
    char text[128];
    unsigned long long ran = 0, delay = 0;
    const ssize_t n = pread(l->fd, text, sizeof(text) - 1, 0);
    if (n <= 0) abort();
    text[n] = '\0';
    if (sscanf(text, "%llu %llu", &ran, &delay) != 2) abort();
    return delay;
}

/* From here on it is this. Returns the time. */
static uint64_t log_next(struct log *l, const char *name)
{
    const uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), delay = log_delay(l);
    const uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (l->count + 1 >= MAX_LINES) abort();
    if (l->count) {
        struct line *open = &l->lines[l->count - 1];
        if (!open->end) {
            open->end = now;
            open->cpu = cpu - open->cpu;
            open->delay = delay - open->delay;
        }
    }
    l->lines[l->count++] = (struct line){ l->type, l->group, name, now, 0, cpu, delay };
    return now;
}

static void log_print(const struct log *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        const struct line *at = &l->lines[i];
        static const char *const waits[] = { "lock", "io", "sleep", "work", "call" };
        uint64_t ran = at->end - at->begin > at->delay ? at->end - at->begin - at->delay : 0;
        if (!at->end) continue;
        for (int k = 0; k < 5; k++) ran = strcmp(at->name, waits[k]) ? ran : at->cpu;
        printf("%c %d %s %llu %llu %llu %llu\n", at->type, at->group, at->name,
               (unsigned long long)at->begin, (unsigned long long)at->end,
               (unsigned long long)ran, (unsigned long long)at->cpu);
    }
}

/* So much CPU time. */
__attribute__((noinline)) static void compute(uint64_t ns)
{
    const uint64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
    volatile uint64_t x = 1;
    do {
        for (int i = 0; i < 2000; i++) x = x * 6364136223846793005ull + 1;
    } while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until);
}

static void sleep_ns(uint64_t ns)
{
    const struct timespec t = { (time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull) };
    nanosleep(&t, NULL);
}

static void computed(const char *name, uint64_t ns)
{
    log_next(&server_log, name);
    compute(ns);
    log_next(&server_log, "-");
}

/* ---- Other threads --------------------------------------------------------------------------- */

/* The holder and the writer look now and then, so that asking them wakes nobody, who would take the
 * CPU. */
static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t hold_ns;
static _Atomic int held, write_asked, stop;
static int pipe_fds[2];

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; /* of the rest */
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static int work_asked, work_done, work_group;
static struct sonde_trace work_trace;
static uint32_t span_work, span_call, span_serve;

static void *holder(void *arg)
{
    (void)arg;
    while (!stop) {
        const uint64_t ns = hold_ns;
        if (ns) {
            hold_ns = 0;
            pthread_mutex_lock(&contended);
            held = 1;
            sleep_ns(ns);
            pthread_mutex_unlock(&contended);
        }
        sleep_ns(MS);
    }
    return NULL;
}

static void *writer(void *arg)
{
    (void)arg;
    while (!stop) {
        if (write_asked) {
            write_asked = 0;
            sleep_ns(4 * MS);
            if (write(pipe_fds[1], "x", 1) != 1) abort();
        }
        sleep_ns(MS);
    }
    return NULL;
}

static void *worker(void *arg)
{
    (void)arg;
    log_open(&worker_log, 'w');
    for (;;) {
        pthread_mutex_lock(&m);
        while (!work_asked) pthread_cond_wait(&asked, &m);
        work_asked = 0;
        worker_log.group = work_group;
        const struct sonde_trace trace = work_trace;
        pthread_mutex_unlock(&m);
        if (stop) return NULL;
        const struct sonde_trace before = sonde_trace_set(trace);
        struct sonde_span s;
        sonde_span_begin(&s, span_work);
        log_next(&worker_log, "compute");
        compute(2 * MS);
        log_next(&worker_log, "sleep");
        sleep_ns(3 * MS);
        log_next(&worker_log, "-");
        sonde_span_end(&s, SONDE_OK);
        sonde_trace_set(before);
        pthread_mutex_lock(&m);
        work_done = 1;
        pthread_mutex_unlock(&m);
        pthread_cond_signal(&answered);
        log_next(&worker_log, "-");
    }
}

/* ---- The other process ----------------------------------------------------------------------- */

struct served { uint64_t compute_ns, sleep_ns; };

static void serve(int fd)
{
    char text[SONDE_TRACEPARENT_SIZE];
    while (recv(fd, text, sizeof(text), MSG_WAITALL) == (ssize_t)sizeof(text)) {
        struct sonde_trace t, before;
        struct sonde_span s;
        if (sonde_traceparent_parse(text, &t) != 0) abort();
        before = sonde_trace_set(t);
        sonde_span_begin(&s, span_serve);
        const uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        compute(2 * MS);
        struct served out = { clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu, 0 };
        const uint64_t slept = clock_ns(CLOCK_MONOTONIC);
        sleep_ns(2 * MS);
        out.sleep_ns = clock_ns(CLOCK_MONOTONIC) - slept;
        sonde_span_end(&s, SONDE_OK);
        sonde_trace_set(before);
        if (send(fd, &out, sizeof(out), 0) != (ssize_t)sizeof(out)) abort();
    }
    _exit(0);
}

static void call(int fd)
{
    char text[SONDE_TRACEPARENT_SIZE];
    struct sonde_span s;
    struct served out;
    const struct sonde_trace none = { 0, 0, 0 }, before = sonde_trace_set(none);
    const uint64_t begin = log_next(&server_log, "call");
    sonde_span_begin(&s, span_call);
    sonde_traceparent_format(sonde_trace_current(), text);
    if (send(fd, text, sizeof(text), 0) != (ssize_t)sizeof(text)) abort();
    if (recv(fd, &out, sizeof(out), MSG_WAITALL) != (ssize_t)sizeof(out)) abort();
    sonde_span_end(&s, SONDE_OK);
    const uint64_t end = log_next(&server_log, "-");
    sonde_trace_set(before);
    printf("s %d call %llu %llu 0 0\ns %d compute 0 %llu 0 0\ns %d sleep 0 %llu 0 0\n",
           server_log.group, (unsigned long long)begin, (unsigned long long)end, server_log.group,
           (unsigned long long)out.compute_ns, server_log.group, (unsigned long long)out.sleep_ns);
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Inside of a batch, which computes until the lock is held. */
static void locked(uint64_t ns)
{
    log_next(&server_log, "decode_abc");
    hold_ns = ns;
    while (!held) compute(MS / 100);
    held = 0;
    log_next(&server_log, "lock");
    pthread_mutex_lock(&contended);
    log_next(&server_log, "-");
    pthread_mutex_unlock(&contended);
}

static void tools(const struct sonde_request *r, uint32_t name)
{
    struct sonde_phase phase;
    char byte;
    sonde_phase_begin(&phase, r, SONDE_PHASE_NAME(name));
    write_asked = 1;
    log_next(&server_log, "io");
    if (read(pipe_fds[0], &byte, 1) != 1) abort();
    log_next(&server_log, "sleep");
    sleep_ns(3 * MS);
    log_next(&server_log, "-");
    pthread_mutex_lock(&m);
    work_group = server_log.group;
    work_trace = sonde_trace_current();
    work_asked = 1;
    work_done = 0;
    pthread_mutex_unlock(&m);
    pthread_cond_signal(&asked);
    pthread_mutex_lock(&m);
    log_next(&server_log, "work");
    while (!work_done) pthread_cond_wait(&answered, &m);
    log_next(&server_log, "-");
    pthread_mutex_unlock(&m);
    sonde_phase_end(&phase, 0);
}

static void phase_of(const struct sonde_request *r, uint32_t kind, const char *name)
{
    struct sonde_phase phase;
    sonde_phase_begin(&phase, r, kind);
    computed(name, MS);
    sonde_phase_end(&phase, 0);
}

static void serve_group(int group, uint64_t lock_ns, uint32_t model, uint32_t tools_name)
{
    static const char *const encodes[] = { "encode_a", "encode_b", "encode_c" };
    static const char *const texts[] = { "text_a", "text_b", "text_c" };
    static const char *const who[] = { "a", "b", "c" };
    static const uint64_t prompt[] = { 8, 4, 4 };
    struct sonde_request r[3];
    struct sonde_batch batch;
    uint64_t begins[3];
    server_log.group = group;
    for (int i = 0; i < 3; i++) {
        char id[24];
        snprintf(id, sizeof(id), "%s%d", who[i], group);
        begins[i] = log_next(&server_log, "-");
        sonde_request_begin(&r[i], &(struct sonde_request_info){
            .size = sizeof(struct sonde_request_info), .model = model, .id = id });
        sonde_request_prompt(&r[i], prompt[i], 0);
    }
    for (int i = 0; i < 3; i++) phase_of(&r[i], SONDE_PHASE_ENCODE, encodes[i]);
    sonde_batch_begin(&batch);
    for (int i = 0; i < 3; i++) sonde_batch_add(&batch, &r[i], prompt[i], 0);
    computed("prefill", 4 * MS);
    sonde_batch_end(&batch);
    for (int i = 0; i < 3; i++) sonde_request_tokens(&r[i], 1);

    sonde_batch_begin(&batch);
    sonde_batch_add(&batch, &r[0], 0, 1);
    sonde_batch_add(&batch, &r[1], 0, 1);
    computed("decode_ab", 3 * MS);
    sonde_batch_end(&batch);

    sonde_batch_begin(&batch);
    sonde_batch_add(&batch, &r[0], 0, 1);
    sonde_batch_add(&batch, &r[1], 0, 1);
    sonde_batch_add(&batch, &r[2], 0, 2);
    computed("decode_abc", 2 * MS);
    locked(lock_ns);
    sonde_batch_end(&batch);

    tools(&r[0], tools_name);
    for (int i = 2; i >= 0; i--) {
        phase_of(&r[i], SONDE_PHASE_DETOKENIZE, texts[i]);
        sonde_request_end(&r[i], SONDE_OK, NULL);
        const uint64_t end = log_next(&server_log, "-");
        printf("r %d %s %llu %llu 0 0\n", group, who[i], (unsigned long long)begins[i],
               (unsigned long long)end);
    }
}

int main(int argc, char **argv)
{
    const int groups = argc > 1 ? atoi(argv[1]) : 10;
    const uint64_t factor = argc > 2 ? (uint64_t)atoi(argv[2]) : 1;
    pthread_t threads[3];
    int fds[2];
    log_open(&server_log, 'i');
    if (pipe(pipe_fds) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) return 1;
    span_work = sonde_name("work");
    span_call = sonde_name("call");
    span_serve = sonde_name("serve");
    const uint32_t model = sonde_name("truth"), tools_name = sonde_name("tools");
    const pid_t pid = fork();
    if (pid < 0) return 1;
    if (pid == 0) {
        close(fds[0]);
        serve(fds[1]);
    }
    close(fds[1]);
    pthread_create(&threads[0], NULL, holder, NULL);
    pthread_create(&threads[1], NULL, writer, NULL);
    pthread_create(&threads[2], NULL, worker, NULL);
    /* Recorders that are told of a process by its first record get to know it. */
    sleep_ns(200 * MS);
    for (int g = 0; g < groups; g++) {
        /* Of fifty five, without a rhythm. */
        const int slow = g == 4 || g == 13 || g == 20 || g == 33 || g == 46;
        serve_group(g, (slow ? factor : 1) * 5 * MS, model, tools_name);
        call(fds[0]);
    }
    close(fds[0]);
    waitpid(pid, NULL, 0);
    stop = 1;
    pthread_mutex_lock(&m);
    work_asked = 1;
    pthread_mutex_unlock(&m);
    pthread_cond_signal(&asked);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    log_print(&server_log);
    log_print(&worker_log);
    return 0;
}
