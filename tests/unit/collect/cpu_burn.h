/* cpu_burn.h - tests: the burn program started under the profiler, what it says of itself, and how
 * a profile divides between the parts it names. */
#ifndef SONDE_TESTS_CPU_BURN_H
#define SONDE_TESTS_CPU_BURN_H

#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/cpu.h"

#define BURN_ARGS 16

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

/* Weight of the samples of a kind; with a part's name, of those with a frame in it. */
static inline double burn_weight(const struct burn *b, const struct sonde_profile *p, int kind,
                                 const char *part)
{
    unsigned long long start = 0, end = UINT64_MAX;
    double sum = 0;
    if (part) assert_true(burn_said(b, "range", part, &start, &end));
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind != kind) continue;
        for (uint32_t at = s->stack; at; at = p->stacks[at].parent) {
            const uint64_t ip = p->locations[p->stacks[at].location].address;
            if (part && !(ip >= start && ip < end)) continue;
            sum += (double)s->weight;
            break;
        }
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

#endif
