/* sandbox.h - programs that give up system calls. A seccomp filter that kills for calls which are
 * not on its list does so for ours too, of which the program knows nothing. So a filter is looked
 * at when the program asks for it: if it would kill for a call that this library makes, the library
 * ends what needs calls before the filter holds, and makes none from then on, to the end
 * (sonde__g.silent). Filters that return an error, or allow ours, change nothing. docs/sandbox.md
 * has the list. Strict mode (SECCOMP_MODE_STRICT) kills for all of them, and clocks cannot be read.
 *
 * Not seen: filters that were there before exec, and calls of the kernel past libc. */
#ifndef SONDE_PRELOAD_SANDBOX_H
#define SONDE_PRELOAD_SANDBOX_H

struct sock_fprog;

/* The program is about to enter this mode of seccomp's (SECCOMP_MODE_…; others are passed by), with
 * a filter that may be NULL or nonsense. */
void sonde__sandbox_look(unsigned long mode, const void *filter);

/* Where our own syscall() goes on to, found with all others; and what it needs of C. */
void sonde__sandbox_resolve(void);
void sonde__syscall_look(long number, long a, long b, long c);
long sonde__syscall_failed(long rc);

/* ---- sandbox_filter.c ----------------------------------------------------------------------- */

struct seccomp_data;
struct sock_filter;

/* What a classic BPF program of len instructions returns for data; SECCOMP_RET_KILL_PROCESS for
 * one that makes no sense. */
unsigned sonde__filter_run(const struct sock_filter *code, unsigned len,
                           const struct seccomp_data *data);


#endif
