/* perf_blocked.h - where a thread sleeps, looked up from outside: in which system call it is, with
 * its instruction and stack pointers, is in /proc, and its stack can be read while it sleeps.
 *
 * For threads that slept already when sampling began, and where the kernel does not permit stacks
 * at switches. The frame pointer is not to be had this way, so a caller that needs it ends the
 * stack, which is marked as cut. */
#ifndef SONDE_COLLECT_CPU_PERF_BLOCKED_H
#define SONDE_COLLECT_CPU_PERF_BLOCKED_H

#include <stddef.h>
#include <stdint.h>

#include "unwind/unwind.h"

#define SONDE_PERF_BLOCKED_STACK 65536u

struct sonde_perf_blocked {
    struct sonde__regs regs;
    size_t stack_len;
    uint64_t stack[SONDE_PERF_BLOCKED_STACK / 8];
};

/* 1 if the thread sleeps, waiting for something. */
int sonde_perf_is_blocked(uint32_t pid, uint32_t tid);

/* 0; SONDE_EBUSY: it runs; SONDE_EACCES, SONDE_ENOENT, SONDE_EIO. */
int sonde_perf_blocked_read(uint32_t pid, uint32_t tid, struct sonde_perf_blocked *out);

/* What /proc/PID/task/TID/syscall says: 0, or SONDE_EBUSY ("running"), SONDE_EFORMAT. */
int sonde_perf_blocked_parse(const char *text, uint64_t *sp, uint64_t *ip);

#endif
