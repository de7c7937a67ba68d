/* cpu_burn.h - tests: the burn program started under the profiler, what it says of itself, and how
 * a profile divides between the parts it names. */
#ifndef SONDE_TESTS_CPU_BURN_H
#define SONDE_TESTS_CPU_BURN_H

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/cpu/cpu.h"

#define BURN_ARGS 16
#define BURN_IMAGES 32

struct burn {
    pid_t pid;
    int go;             /* a byte lets it exec; then its stdin */
    FILE *out;
    char text[16384];   /* all it printed */
    int status;
};

static inline void burn_path(const char *name, char *out, size_t size)
{
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(n > 0);
    self[n] = '\0';
    snprintf(out, size, "%s/../programs/%s", dirname(self), name);
}

/* Forked, and waiting for burn_go() before it becomes the program. */
static inline void burn_fork(struct burn *b, const char *const *args)
{
    char path[4352];
    char *argv[BURN_ARGS + 2] = { path };
    int in[2], out[2];
    memset(b, 0, sizeof(*b));
    burn_path("burn", path, sizeof(path));
    for (int i = 0; i < BURN_ARGS && args && args[i]; i++) argv[i + 1] = (char *)(uintptr_t)args[i];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    b->pid = fork();
    assert_true(b->pid >= 0);
    if (b->pid == 0) {
        char c;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        if (read(0, &c, 1) == 1) execv(path, argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    b->go = in[1];
    b->out = fdopen(out[0], "r");
    assert_non_null(b->out);
}

static inline void burn_go(struct burn *b)
{
    assert_int_equal(write(b->go, "\n", 1), 1);
}

/* Read until a line begins with text, or to the end. */
static inline int burn_read_until(struct burn *b, const char *text)
{
    char line[256];
    while (fgets(line, sizeof(line), b->out)) {
        const size_t len = strlen(b->text);
        snprintf(b->text + len, sizeof(b->text) - len, "%s", line);
        if (text && !strncmp(line, text, strlen(text))) return 1;
    }
    return text == NULL;
}

static inline void burn_end(struct burn *b)
{
    burn_read_until(b, NULL);
    assert_int_equal(waitpid(b->pid, &b->status, 0), b->pid);
    close(b->go);
    fclose(b->out);
}

/* All threads of it wait for something. */
static inline int burn_sleeps(const struct burn *b)
{
    char path[64], line[512];
    int threads = 0, asleep = 0;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)b->pid);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.') continue;
        char stat[sizeof(path) + sizeof(e->d_name) + 8];
        snprintf(stat, sizeof(stat), "%s/%s/stat", path, e->d_name);
        FILE *f = fopen(stat, "r");
        if (!f) continue;
        const char *end = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
        threads++;
        asleep += end && !strncmp(end, ") S", 3);
        fclose(f);
    }
    closedir(d);
    return threads > 0 && threads == asleep;
}

static inline void burn_wait_until_asleep(const struct burn *b)
{
    for (int i = 0; i < 4000 && !burn_sleeps(b); i++) usleep(5000);
    assert_true(burn_sleeps(b));
}

/* "KEY NAME number …" of what it printed: 1 if there. */
static inline int burn_said(const struct burn *b, const char *key, const char *name,
                            unsigned long long *first, unsigned long long *second)
{
    char start[64];
    snprintf(start, sizeof(start), "%s %s ", key, name);
    const char *at = strstr(b->text, start);
    if (!at) return 0;
    char *end;
    *first = strtoull(at + strlen(start), &end, 0);
    if (second) *second = strtoull(end, NULL, 0);
    return 1;
}

static inline double burn_truth(const struct burn *b, const char *name)
{
    unsigned long long v = 0;
    assert_true(burn_said(b, "truth", name, &v, NULL));
    return (double)v;
}

/* Where a part is: more than once after an exec. */
struct burn_ranges {
    unsigned long long start[BURN_IMAGES], end[BURN_IMAGES];
    int count;
};

static inline void burn_ranges_of(const struct burn *b, const char *part, struct burn_ranges *r)
{
    char start[64];
    const int len = snprintf(start, sizeof(start), "range %s ", part);
    r->count = 0;
    for (const char *at = strstr(b->text, start); at; at = strstr(at + 1, start)) {
        char *end;
        assert_true(r->count < BURN_IMAGES);
        r->start[r->count] = strtoull(at + len, &end, 0);
        r->end[r->count++] = strtoull(end, NULL, 0);
    }
    assert_true(r->count > 0);
}

static inline int burn_is_in(const struct sonde_profile *p, uint32_t stack,
                             const struct burn_ranges *r)
{
    for (uint32_t at = stack; at; at = p->stacks[at].parent) {
        const uint64_t ip = p->locations[p->stacks[at].location].address;
        for (int i = 0; i < r->count; i++) {
            if (ip >= r->start[i] && ip < r->end[i]) return 1;
        }
    }
    return 0;
}

/* Weight of the samples of a kind; with a part's name, of those with a frame in it. */
static inline double burn_weight(const struct burn *b, const struct sonde_profile *p, int kind,
                                 const char *part)
{
    struct burn_ranges ranges = { .count = 0 };
    double sum = 0;
    if (part) burn_ranges_of(b, part, &ranges);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind != kind || (part && !burn_is_in(p, s->stack, &ranges))) continue;
        sum += (double)s->weight;
    }
    return sum;
}

static inline uint64_t burn_count(const struct sonde_profile *p, int kind, uint16_t flags)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (p->samples[i].kind == kind && (p->samples[i].flags & flags) == flags) n++;
    }
    return n;
}

/* ---- Figures --------------------------------------------------------------------------------- */

static inline int burn_near(const char *what, double got, double wanted, double off)
{
    if (got >= wanted - off && got <= wanted + off) return 1;
    print_message("%s: %g, wanted %g +- %g\n", what, got, wanted, off);
    return 0;
}

/* Weight by part, as shares of the named parts, within two points of the truth. */
static inline int burn_shares_are_true(const struct burn *b, const struct sonde_profile *p)
{
    static const char *const parts[] = { "alpha", "beta", "gamma" };
    double truth = 0, all = 0;
    int good = 1;
    for (int i = 0; i < 3; i++) {
        truth += burn_truth(b, parts[i]);
        all += burn_weight(b, p, SONDE_SAMPLE_CPU, parts[i]);
    }
    for (int i = 0; i < 3; i++) {
        good &= burn_near(parts[i], burn_weight(b, p, SONDE_SAMPLE_CPU, parts[i]) / all * 100,
                          burn_truth(b, parts[i]) / truth * 100, 2);
    }
    return good & burn_near("CPU time", burn_weight(b, p, SONDE_SAMPLE_CPU, NULL) / truth, 1, 0.05);
}

/* The machine itself can spoil a figure: a virtual CPU is taken away for a while, others want it.
 * So one of a few runs must have it right; a fault of ours is in all of them. */
static inline void burn_some_run(int (*run)(int which), int which)
{
    enum { RUNS = 6 };
    for (int i = 0; i < RUNS; i++) {
        if (run(which)) return;
    }
    fail_msg("in none of %d runs", RUNS);
}

/* 99.9 % of the stacks begin where their thread does, and of a few all but three: a sample can be
 * taken at one of the few instructions that neither a table nor their own look explains. */
static inline void burn_check_complete(const struct sonde_profile *p)
{
    const uint64_t all = burn_count(p, SONDE_SAMPLE_CPU, 0);
    const uint64_t cut = burn_count(p, SONDE_SAMPLE_CPU, SONDE_SAMPLE_TRUNCATED);
    if (cut * 1000 > all + 3000) {
        fail_msg("%llu of %llu stacks are truncated", (unsigned long long)cut,
                 (unsigned long long)all);
    }
}

#endif
