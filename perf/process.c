/* process.c - what the library adds to starting a program and to fork. Each variant lives in a
 * process of its own, made before this one opens anything, and is told through a pipe how often to
 * do it; so a process that records and one that does not can take turns. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "sonde/sonde.h"

enum kind { PLAIN, OPEN, COUNT, KINDS };

struct order { uint64_t what, n; };
enum { FORK, FORK_RECORD, FIRST_USE };

static struct { int to, from; } servants[KINDS];
static struct sonde_counter counter;

static void must_wait(pid_t pid)
{
    int status;
    if (pid < 0) bench_die("fork: %s", strerror(errno));
    if (waitpid(pid, &status, 0) != pid || status) bench_die("a child failed (status %d)", status);
}

/* Nanoseconds for n times fork, and wait for the child, which may record something. */
static uint64_t forks(uint64_t n, int record)
{
    const uint64_t begin = bench_now_ns();
    for (uint64_t i = 0; i < n; i++) {
        const pid_t pid = fork();
        if (!pid) {
            if (record) sonde_counter_add(counter, 1);
            _exit(0);
        }
        must_wait(pid);
    }
    return bench_now_ns() - begin;
}

/* Nanoseconds that the first use took inside n fresh processes. */
static uint64_t first_uses(uint64_t n, enum kind kind)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        int p[2];
        uint64_t ns = 0;
        if (pipe(p)) bench_die("pipe: %s", strerror(errno));
        const pid_t pid = fork();
        if (!pid) {
            const uint64_t begin = bench_now_ns();
            if (kind == OPEN) sonde_open(NULL);
            if (kind == COUNT) sonde_counter_add(sonde_counter("bench_first_total", "h"), 1);
            ns = bench_now_ns() - begin;
            _exit(write(p[1], &ns, sizeof(ns)) != sizeof(ns));
        }
        must_wait(pid);
        if (read(p[0], &ns, sizeof(ns)) != sizeof(ns)) bench_die("a child said nothing");
        close(p[0]), close(p[1]);
        sum += ns ? ns : 1;
    }
    return sum;
}

_Noreturn static void serve(int from, int to, enum kind kind)
{
    struct order o;
    int opened = 0;
    while (read(from, &o, sizeof(o)) == sizeof(o)) {
        uint64_t ns;
        if (o.what == FIRST_USE) {
            ns = first_uses(o.n, kind);
        } else {
            if (kind != PLAIN && !opened) {
                counter = sonde_counter("bench_fork_total", "h");
                sonde_counter_add(counter, 1);
                opened = 1;
            }
            ns = forks(o.n, o.what == FORK_RECORD);
        }
        if (write(to, &ns, sizeof(ns)) != sizeof(ns)) break;
    }
    _exit(0);
}

static void setup(void)
{
    for (enum kind k = 0; k < KINDS; k++) {
        int down[2], up[2];
        if (pipe(down) || pipe(up)) bench_die("pipe: %s", strerror(errno));
        const pid_t pid = fork();
        if (pid < 0) bench_die("fork: %s", strerror(errno));
        if (!pid) {
            close(down[1]), close(up[0]);
            for (enum kind j = 0; j < k; j++) close(servants[j].to), close(servants[j].from);
            serve(down[0], up[1], k);
        }
        close(down[0]), close(up[1]);
        servants[k].to = down[1], servants[k].from = up[0];
    }
}

static void teardown(void)
{
    for (enum kind k = 0; k < KINDS; k++) close(servants[k].to), close(servants[k].from);
    while (wait(NULL) > 0) {}
}

static uint64_t tell(enum kind kind, uint64_t what, uint64_t n)
{
    const struct order o = { what, n };
    uint64_t ns;
    if (write(servants[kind].to, &o, sizeof(o)) != sizeof(o) ||
        read(servants[kind].from, &ns, sizeof(ns)) != sizeof(ns)) {
        bench_die("a servant is gone");
    }
    return ns;
}

#define VARIANT(id, kind, what)                                                                \
    static uint64_t id(uint64_t n, unsigned thread) { return (void)thread, tell(kind, what, n); }
VARIANT(fork_plain, PLAIN, FORK)
VARIANT(fork_open, OPEN, FORK)
VARIANT(fork_record, COUNT, FORK_RECORD)
VARIANT(first_plain, PLAIN, FIRST_USE)
VARIANT(first_open, OPEN, FIRST_USE)
VARIANT(first_count, COUNT, FIRST_USE)

static const struct bench_row rows[] = {
    { .id = "open", .figure = "sonde_open in a new process", .unit = "us", .ours = "open",
      .bare = "nothing" },
    { .id = "open_count", .figure = "first counter defined and added to", .unit = "us",
      .ours = "count", .bare = "nothing" },
    { .id = "fork", .figure = "fork and wait, libsonde open", .unit = "us", .ours = "fork open",
      .bare = "fork" },
    { .id = "fork_record", .figure = "fork and wait, the child records", .unit = "us",
      .ours = "fork record", .bare = "fork", .note = "the child opens a segment of its own" },
    { .id = NULL },
};

BENCH_GROUP(group) = {
    .name = "process",
    .threads = 1,
    .setup = setup,
    .teardown = teardown,
    .variants = {
        { .name = "fork", .run = fork_plain },
        { .name = "fork open", .run = fork_open },
        { .name = "fork record", .run = fork_record },
        /* Its clock runs for 50 ns of a process that takes 200 us: two milliseconds of it would be
         * 40,000 processes a round. */
        { .name = "nothing", .run = first_plain, .round_ms = 0.005 },
        { .name = "open", .run = first_open },
        { .name = "count", .run = first_count },
    },
    .rows = rows,
};
