/* child.h - run a function in a child process whose end is not ours. */
#ifndef SONDE_PROFILE_SYMBOL_CHILD_H
#define SONDE_PROFILE_SYMBOL_CHILD_H

#include <stddef.h>

struct sonde_symbol_child_limits {
    size_t data_bytes;      /* more than this process has now */
    int silence_ms;         /* killed when it has sent nothing for so long */
};

/* In a copy of this process: work(arg, fd) writes to fd, then the copy ends. Here: each piece of
 * what it wrote goes to take(), which stops it with a value other than 0. Signals do not reach it,
 * it has no other descriptors, and it dies with this process.
 * 0: it has ended, whichever way; what it wrote tells whether it got to its end. SONDE_EIO: it
 * could not be started. Or take()'s value. */
int sonde_symbol_child_run(const struct sonde_symbol_child_limits *limits,
                           void (*work)(void *arg, int fd),
                           int (*take)(void *arg, const void *data, size_t len), void *arg);

/* In the child: from now on it may use this much more CPU. */
void sonde_symbol_child_cpu_limit(unsigned seconds);

#endif
