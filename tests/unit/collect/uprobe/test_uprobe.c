/* Probes in a program that runs: every call is seen, with what it was given and what it returned,
 * though the program is linked statically, exports nothing, and is not touched otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/cpu/cpu.h"
#include "collect/uprobe/uprobe.h"
#include "collect/uprobe/event.h"
#include "collect/uprobe/returns.h"
#include "sonde/sonde.h"

/* ---- The program ----------------------------------------------------------------------------- */

struct program {
    pid_t pid;
    int in, out;
    char text[4096]; /* what it said */
    size_t len;
};

static void program_path(char *out, size_t size)
{
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(n > 0);
    self[n] = '\0';
    snprintf(out, size, "%s/../programs/llama_stand_in", dirname(self));
}

/* Forked; it is executed when a byte comes, and goes on with the next line. */
static void fork_program(struct program *p, int gate)
{
    char path[PATH_MAX + 64], byte;
    int in[2], out[2];
    program_path(path, sizeof(path));
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    *p = (struct program){ .pid = fork() };
    assert_true(p->pid >= 0);
    if (!p->pid) {
        alarm(280); /* probes of the test before may still be taken out, which new ones wait for */
        if (gate && read(in[0], &byte, 1) != 1) _exit(1);
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl(path, path, "6", "4000", NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    p->in = in[1];
    p->out = out[0];
}

static void say(struct program *p, char c) { assert_int_equal(write(p->in, &c, 1), 1); }

static void read_until(struct program *p, const char *text)
{
    while (!text || !strstr(p->text, text)) {
        const ssize_t n = read(p->out, p->text + p->len, sizeof(p->text) - 1 - p->len);
        assert_true(n >= 0);
        if (!n) break;
        p->len += (size_t)n;
        p->text[p->len] = '\0';
    }
}

static void end_program(struct program *p)
{
    int status;
    read_until(p, NULL);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    assert_int_equal(status, 0);
    close(p->in);
    close(p->out);
}

static uint64_t said(const struct program *p, const char *name)
{
    char line[64];
    snprintf(line, sizeof(line), "\n%s ", name);
    const char *at = strstr(p->text, line);
    if (!at) fail_msg("it did not say %s: %s", name, p->text);
    return strtoull(at + strlen(line), NULL, 10);
}

/* ---- What was seen --------------------------------------------------------------------------- */

struct calls {
    uint64_t count[SONDE__LLAMA_COUNT], ns[SONDE__LLAMA_COUNT], drained_ns;
    uint64_t batch_tokens, with_parts, part_tokens, outputs, shared, eogs, retries;
    uint64_t rm_p0, order, bad;
    uint64_t usage_bytes[3], kv_bytes, model, context, memory;
    uint64_t prompt_tails;    /* prompts whose last tokens were seen again in a batch */
    uint64_t tails[256];
    uint32_t tail_count, main_tid;
    char model_name[64], tensor[64];
};

static uint32_t is_tail(const struct calls *x, uint64_t tail)
{
    for (uint32_t i = 0; i < x->tail_count; i++) {
        if (x->tails[i] == tail) return 1;
    }
    return 0;
}

static void on_batch(struct calls *x, const struct sonde_llama_call *c)
{
    x->batch_tokens += c->arg[0];
    x->with_parts += c->part_count > 0;
    x->bad += c->result != 0 || c->parts_dropped || c->object != x->context;
    for (uint32_t i = 0; i < c->part_count; i++) {
        const struct sonde_llama_part *p = &c->parts[i];
        x->part_tokens += p->tokens;
        x->outputs += p->outputs;
        x->shared += p->flags;
        x->prompt_tails += is_tail(x, p->tail);
        x->bad += p->seq < 0 || p->seq > 1 || p->row + p->tokens > c->arg[0];
    }
}

static void on_call(void *arg, const struct sonde_llama_call *c)
{
    struct calls *x = arg;
    assert_true(c->fn < SONDE__LLAMA_COUNT);
    x->count[c->fn]++;
    x->ns[c->fn] += c->end_ns - c->begin_ns;
    x->bad += c->end_ns < c->begin_ns || c->tid == 0;
    x->order += c->end_ns < x->drained_ns;
    switch (c->fn) {
    case SONDE__LLAMA_DECODE: on_batch(x, c); break;
    case SONDE__LLAMA_TOKENIZE:
        x->retries += c->result < 0;
        x->bad += c->tid == x->main_tid;
        if (c->result >= 0 && x->tail_count < 256) x->tails[x->tail_count++] = c->arg[2];
        break;
    case SONDE__LLAMA_IS_EOG: x->eogs += c->result == 1; break;
    case SONDE__LLAMA_PIECE: x->bad += c->result != 1; break;
    case SONDE__LLAMA_GET_MEMORY: x->memory = (uint64_t)c->result; break;
    case SONDE__LLAMA_SEQ_RM:
        x->rm_p0 += c->arg[1];
        x->bad += c->object != x->memory || c->result != 1 || (int64_t)c->arg[2] != -1;
        break;
    case SONDE__LLAMA_MODEL_LOAD:
        snprintf(x->model_name, sizeof(x->model_name), "%s", c->text);
        x->model = (uint64_t)c->result;
        x->main_tid = c->tid;
        break;
    case SONDE__LLAMA_CONTEXT_NEW:
        x->bad += c->object != x->model;
        x->context = (uint64_t)c->result;
        break;
    case SONDE__LLAMA_SET_USAGE:
        if (c->arg[0] < 3) x->usage_bytes[c->arg[0]] = c->arg[1];
        break;
    case SONDE__LLAMA_ALLOC_CTX:
        x->kv_bytes = c->arg[1];
        snprintf(x->tensor, sizeof(x->tensor), "%s", c->text);
        break;
    default: break;
    }
}

static void on_drained(void *arg, uint64_t since_ns)
{
    struct calls *x = arg;
    assert_true(since_ns >= x->drained_ns);
    x->drained_ns = since_ns;
}

static void check_counts(const struct calls *x, const struct program *p,
                         const struct sonde_uprobe_status *s)
{
    const uint64_t requests = said(p, "requests"), outputs = said(p, "output_tokens");
    const uint64_t batches = said(p, "batches");
    assert_int_equal(s->lost, 0);
    assert_int_equal(x->bad, 0);
    assert_int_equal(x->order, 0);
    assert_int_equal(x->count[SONDE__LLAMA_TOKENIZE], 2 * requests);
    assert_int_equal(x->retries, requests);
    assert_int_equal(x->count[SONDE__LLAMA_SEQ_RM], requests);
    assert_int_equal(x->rm_p0, said(p, "reused_tokens"));
    assert_int_equal(x->count[SONDE__LLAMA_DECODE], batches + 1); /* and the warm-up */
    assert_int_equal(x->batch_tokens, said(p, "batch_tokens") + 2);
    assert_int_equal(x->count[SONDE__LLAMA_LOGITS_ITH], outputs);
    /* The inner ones are not told, nor those that llama_sampler_sample makes. */
    assert_int_equal(x->count[SONDE__LLAMA_APPLY] + x->count[SONDE__LLAMA_SAMPLE], outputs);
    assert_true(x->count[SONDE__LLAMA_APPLY] > 0 && x->count[SONDE__LLAMA_SAMPLE] > 0);
    assert_int_equal(x->count[SONDE__LLAMA_PIECE], outputs);
    assert_int_equal(x->count[SONDE__LLAMA_IS_EOG], outputs);
    assert_int_equal(x->eogs, requests);
    assert_int_equal(x->count[SONDE__LLAMA_WARMUP], 2);
    assert_int_equal(x->count[SONDE__LLAMA_BUFFER_FREE], 3);
    assert_int_equal(x->count[SONDE__LLAMA_CONTEXT_FREE], 1);
    assert_int_equal(x->count[SONDE__LLAMA_MODEL_FREE], 1);
    /* One call a batch is never returned from. */
    assert_int_equal(s->unpaired, batches);
    /* In batches that could be read while they were computed, which a busy machine may prevent. */
    assert_int_equal(x->with_parts + s->late, batches + 1);
    if (s->late) {
        printf("%llu of %llu batches were read too late\n", (unsigned long long)s->late,
               (unsigned long long)batches);
    } else {
        assert_int_equal(x->part_tokens, said(p, "batch_tokens") + 2);
        assert_int_equal(x->outputs, outputs + 1);
    }
}

/* Times are those the program took itself, and what a probe costs; it cannot be less. */
static void check_times(const struct calls *x, const struct program *p)
{
    assert_true(x->ns[SONDE__LLAMA_DECODE] >= said(p, "decode_ns"));
    assert_true(x->ns[SONDE__LLAMA_TOKENIZE] >= said(p, "tokenize_ns"));
    assert_true(x->ns[SONDE__LLAMA_MODEL_LOAD] >= said(p, "load_ns"));
}

/* Read from memory, at once: this can be too late as well, then it is not told. */
static void check_memory(const struct calls *x, const struct program *p)
{
    if (x->model_name[0]) assert_string_equal(x->model_name, "stand-in.gguf");
    if (x->tensor[0]) assert_string_equal(x->tensor, "cache_k_l0");
    if (x->usage_bytes[1]) assert_int_equal(x->usage_bytes[1], said(p, "weights_bytes"));
    if (x->usage_bytes[2]) assert_int_equal(x->usage_bytes[2], said(p, "compute_bytes"));
    if (x->kv_bytes) assert_int_equal(x->kv_bytes, said(p, "kv_bytes"));
}

static void skip_if_forbidden(void)
{
    struct sonde_err note = { "" };
    if (sonde_uprobe_check(&note) == 0) return;
    printf("not tested: %s\n", note.text);
    skip();
}

static void test_attach(void **state)
{
    (void)state;
    skip_if_forbidden();
    static struct calls seen;
    struct program p;
    struct sonde_uprobe *u;
    struct sonde_uprobe_status status;
    struct sonde_err err = { "" };
    memset(&seen, 0, sizeof(seen));
    fork_program(&p, 0);
    read_until(&p, "ready");
    const struct sonde_uprobe_options o = { .pid = (uint32_t)p.pid, .call = on_call,
                                            .drained = on_drained, .arg = &seen };
    if (sonde_uprobe_start(&o, &u, &err)) fail_msg("%s", err.text);
    sonde_uprobe_status(u, &status);
    assert_int_equal(status.files, 1);
    assert_true(status.found & 1u << SONDE__LLAMA_DECODE);
    say(&p, '\n');
    end_program(&p);
    sonde_uprobe_stop(u, &status);
    check_counts(&seen, &p, &status);
    check_times(&seen, &p);
    check_memory(&seen, &p);
}

/* Before the program is executed: nothing of it is missed either. */
static void test_from_the_start(void **state)
{
    (void)state;
    skip_if_forbidden();
    static struct calls seen;
    struct program p;
    struct sonde_uprobe *u;
    struct sonde_uprobe_status status;
    struct sonde_err err = { "" };
    char path[PATH_MAX + 64];
    memset(&seen, 0, sizeof(seen));
    program_path(path, sizeof(path));
    assert_int_equal(sonde_uprobe_is_static(path), 1);
    assert_int_equal(sonde_uprobe_is_static("/proc/self/exe"), 0);
    assert_int_equal(sonde_uprobe_is_static("/dev/null"), 0);
    assert_int_equal(sonde_uprobe_is_static("/"), 0);
    fork_program(&p, 1);
    const struct sonde_uprobe_options o = { .pid = (uint32_t)p.pid, .program = path,
                                            .call = on_call, .drained = on_drained, .arg = &seen };
    if (sonde_uprobe_start(&o, &u, &err)) fail_msg("%s", err.text);
    say(&p, 'x');
    say(&p, '\n');
    end_program(&p);
    sonde_uprobe_stop(u, &status);
    check_counts(&seen, &p, &status);
    check_times(&seen, &p);
}

/* Samples of the CPU have whole stacks, though the kernel takes return addresses from them. */
static void test_stacks(void **state)
{
    (void)state;
    skip_if_forbidden();
    static struct calls seen;
    struct program p;
    struct sonde_uprobe *u;
    struct sonde_cpu *cpu;
    struct sonde_uprobe_returns *returns;
    struct sonde_cpu_status sampled;
    struct sonde_profile *profile;
    struct sonde_err err = { "" };
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(sonde_uprobe_returns_create(&returns), 0);
    fork_program(&p, 0);
    read_until(&p, "ready");
    const struct sonde_cpu_options c = { .pid = (uint32_t)p.pid, .rate_hz = 1000,
                                         .engine = SONDE_CPU_PERF, .returns = returns };
    const struct sonde_uprobe_options o = { .pid = (uint32_t)p.pid, .call = on_call,
                                            .drained = on_drained, .arg = &seen,
                                            .returns = returns };
    if (sonde_cpu_start(&c, &cpu, &err)) fail_msg("%s", err.text);
    if (sonde_uprobe_start(&o, &u, &err)) fail_msg("%s", err.text);
    say(&p, '\n');
    end_program(&p);
    /* Nobody is asked any more, and what was put is still there. */
    sonde_uprobe_stop(u, NULL);
    sonde_cpu_status(cpu, &sampled);
    assert_int_equal(sonde_cpu_stop(cpu, &profile), 0);
    sonde_profile_destroy(profile);
    sonde_uprobe_returns_destroy(returns);
    printf("%llu of %llu stacks are cut\n", (unsigned long long)sampled.truncated,
           (unsigned long long)sampled.samples);
    assert_true(sampled.samples > 0);
    assert_true(sampled.truncated * 4 <= sampled.samples);
}

/* A process without llama.cpp costs nothing, and one that is gone is no error. */
static void test_others(void **state)
{
    (void)state;
    skip_if_forbidden();
    static struct calls seen;
    struct sonde_uprobe *u;
    struct sonde_uprobe_status status;
    struct sonde_err err = { "" };
    memset(&seen, 0, sizeof(seen));
    struct sonde_uprobe_options o = { .pid = (uint32_t)getpid(), .call = on_call,
                                      .drained = on_drained, .arg = &seen };
    assert_int_equal(sonde_uprobe_start(&o, &u, &err), 0);
    sonde_uprobe_stop(u, &status);
    assert_int_equal(status.files, 0);
    assert_int_equal(status.hits, 0);
    o.pid = INT32_MAX;
    assert_int_equal(sonde_uprobe_start(&o, &u, &err), 0);
    sonde_uprobe_stop(u, NULL);
    sonde_uprobe_stop(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attach),
        cmocka_unit_test(test_from_the_start),
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
