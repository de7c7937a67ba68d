/* perf_python_private.h - an interpreter as it is seen from outside, in parts: found
 * (perf_python_find.c), its code objects (perf_python_code.c), its frames (perf_python.c). */
#ifndef SONDE_COLLECT_CPU_PERF_PYTHON_PRIVATE_H
#define SONDE_COLLECT_CPU_PERF_PYTHON_PRIVATE_H

#include <string.h>
#include <sys/uio.h>

#include "collect/cpu/perf_python.h"
#include "segment/python_layout.h"

struct perf_python_codes;

struct sonde_perf_python {
    uint32_t pid;
    struct sonde__python_layout layout;
    uint64_t runtime, type_code, type_text, type_bytes;
    uint64_t thread;           /* state of the thread that was read last */
    int elsewhere;             /* in another pid namespace: threads have other numbers there */
    struct perf_python_codes *codes; /* shared with the processes that this one has forked */
};

/* ---- perf_python_code.c ---------------------------------------------------------------------- */

struct perf_python_codes *sonde__perf_python_codes_create(void); /* NULL: no memory */
struct perf_python_codes *sonde__perf_python_codes_share(struct perf_python_codes *c);
void sonde__perf_python_codes_release(struct perf_python_codes *c); /* NULL is fine */
void sonde__perf_python_codes_forget(struct perf_python_codes *c);  /* ids of the profile */

/* The location of an instruction in the code object at addr. key: which one that was
 * (sonde_python_bpf_key), 0 = the one that is there now. 0: it is not there any more, or no
 * memory. */
uint32_t sonde__perf_python_location(struct sonde_perf_python *y, struct sonde_profile *p,
                                     uint64_t addr, uint64_t key, uint64_t at);

/* ---- Memory ---------------------------------------------------------------------------------- */

static inline int sonde__perf_python_copy(uint32_t pid, uint64_t addr, void *to, size_t n)
{
    const struct iovec here = { to, n }, there = { (void *)(uintptr_t)addr, n };
    return process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0) == (ssize_t)n ? 0 : -1;
}

static inline int sonde__perf_python_word(uint32_t pid, uint64_t addr, uint64_t *out)
{
    return sonde__perf_python_copy(pid, addr, out, sizeof(*out));
}

static inline uint64_t sonde__perf_python_field(const char *object, uint32_t off)
{
    uint64_t v;
    memcpy(&v, object + off, sizeof(v));
    return v;
}

#endif
