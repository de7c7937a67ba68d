/* uprobe.h - calls of llama.cpp's functions in a process, seen from outside: nothing is put into
 * it, it need not have been started by us, and the functions may be linked into the program without
 * being exported. The same calls in the same form as the hooks of libsonde_preload give.
 *
 * Probes are put into every file that the process has code of and that has one of the functions
 * (symbols.h), also into those that it loads later; not into libraries where such hooks are in
 * the process and see them. A thread of the agent reads their hits
 * (event.h), fetches from the process's memory what is not in registers, as long as the call
 * lasts (memory.h), and makes calls of them (pair.h). */
#ifndef SONDE_COLLECT_UPROBE_UPROBE_H
#define SONDE_COLLECT_UPROBE_UPROBE_H

#include "base/err.h"
#include "infer/llama/call.h"

struct sonde_uprobe;
struct sonde_uprobe_returns;

struct sonde_uprobe_options {
    uint32_t pid;
    const char *program;       /* file that pid is about to execute, to miss nothing of it; NULL */
    /* All from one thread of the agent, or from within start and stop. c is borrowed. */
    void (*call)(void *arg, const struct sonde_llama_call *c);
    /* All calls that ended before unix time since_ns have been told. */
    void (*drained)(void *arg, uint64_t since_ns);
    /* A forward pass begins (sonde_llama_pass). NULL = nobody wants to know. */
    void (*pass)(void *arg, uint32_t tid, uint64_t object, uint64_t begin_ns);
    void *arg;
    struct sonde_uprobe_returns *returns; /* is told return addresses; NULL = nobody unwinds. Must
                                             live until stop */
};

struct sonde_uprobe_status {
    uint32_t files, functions; /* that are probed; 0 = there is no llama.cpp in it, so far */
    uint64_t hits, calls;
    uint64_t lost;             /* hits for which a ring had no room */
    uint64_t late;             /* batches of which only the number of tokens is known */
    uint64_t unpaired;         /* entries without return, and the other way round */
    uint64_t found;            /* bit fn: the function is probed */
    double cpu_s;              /* CPU time the agent spent on it */
    struct sonde_err problem;  /* why something that is there is not probed; "" = nothing */
};

/* 0, also when there is no llama.cpp in the process yet. SONDE_EOFF: the kernel has no uprobes.
 * SONDE_EACCES, SONDE_EFULL …: there is llama.cpp in it, and it cannot be probed. */
int sonde_uprobe_start(const struct sonde_uprobe_options *options, struct sonde_uprobe **out,
                       struct sonde_err *err);
void sonde_uprobe_status(struct sonde_uprobe *u, struct sonde_uprobe_status *out);
/* Tells what is left; nothing is called afterwards. out may be NULL, u as well. */
void sonde_uprobe_stop(struct sonde_uprobe *u, struct sonde_uprobe_status *out);

/* 1 if the file has llama_decode in it, so that no hook can see it be called. */
int sonde_uprobe_is_static(const char *path);

#endif
