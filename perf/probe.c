/* probe.c - what a probe from outside costs the call that it is in: functions of this very program
 * that have the names of llama.cpp's are probed as in any other process (collect/uprobe/uprobe.h). */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "collect/uprobe/uprobe.h"
#include "collect/uprobe/event.h"
#include "harness.h"

/* By hand, since it counts how they begin: with what the kernel emulates, as most functions do, or
 * with an instruction that it must step through. */
#define FUNCTION(name, code)                                                                   \
    int name(const void *object, int value);                                                   \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n.p2align 6\n" #name ":\n" code   \
            "\n\tret\n.size " #name ", . - " #name "\n")

FUNCTION(bare_call, "\tendbr64\n\tpush %rbx\n\tpop %rbx");
FUNCTION(llama_memory_clear, "\tendbr64\n\tpush %rbx\n\tpop %rbx");
FUNCTION(llama_get_logits_ith, "\tendbr64\n\tpush %rbx\n\tpop %rbx");
FUNCTION(llama_get_embeddings_ith, "\txor %eax, %eax\n\tpush %rbx\n\tpop %rbx");

static struct sonde_uprobe *probes;

static void on_call(void *arg, const struct sonde_llama_call *c) { (void)arg, (void)c; }
static void on_drained(void *arg, uint64_t since_ns) { (void)arg, (void)since_ns; }

static void setup(void)
{
    struct sonde_err err = { "" };
    const struct sonde_uprobe_options o = { .pid = (uint32_t)getpid(), .call = on_call,
                                            .drained = on_drained };
    if (sonde_uprobe_check(&err) != 0) {
        fprintf(stderr, "probes are not measured: %s\n", err.text);
        exit(0);
    }
    if (sonde_uprobe_start(&o, &probes, &err) != 0) bench_die("%s", err.text);
}

static void teardown(void)
{
    struct sonde_uprobe_status s;
    sonde_uprobe_stop(probes, &s);
    /* A hit that finds no room is cheaper than one that does. */
    if (s.lost * 20 > s.hits) {
        fprintf(stderr, "probes: %llu of %llu hits were lost, so that these figures are too low\n",
                (unsigned long long)s.lost, (unsigned long long)(s.hits + s.lost));
    }
}

#define VARIANT(id, function)                                                                  \
    static uint64_t id(uint64_t n, unsigned thread)                                            \
    {                                                                                          \
        (void)thread;                                                                          \
        BENCH_LOOP (i, n) bench_use((uint64_t)function(&probes, (int)i));                      \
        return 0;                                                                              \
    }
VARIANT(bare, bare_call)
VARIANT(entry, llama_memory_clear)
VARIANT(both, llama_get_logits_ith)
VARIANT(stepped, llama_get_embeddings_ith)

static const struct bench_row rows[] = {
    { .id = "probe_entry", .figure = "probe at a function's entry", .unit = "us", .ours = "entry",
      .bare = "call" },
    { .id = "probe_both", .figure = "probes at its entry and its return", .unit = "us",
      .ours = "both", .bare = "call" },
    { .id = "probe_stepped", .figure = "the same, first instruction stepped through", .unit = "us",
      .ours = "stepped", .bare = "call" },
    { .id = NULL },
};

BENCH_GROUP(group) = {
    .name = "probe",
    .threads = 1,
    .setup = setup,
    .teardown = teardown,
    .variants = {
        { .name = "call", .run = bare },
        { .name = "entry", .run = entry },
        { .name = "both", .run = both },
        { .name = "stepped", .run = stepped },
    },
    .rows = rows,
};
