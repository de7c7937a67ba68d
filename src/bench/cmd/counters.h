/* counters.h - what the CPU itself counts of a process and those that it makes: instructions and
 * cycles, through perf events that the process inherits and that begin with its exec. */
#ifndef SONDE_BENCH_CMD_COUNTERS_H
#define SONDE_BENCH_CMD_COUNTERS_H

#include <stdint.h>

enum { SONDE_COUNTER_INSTRUCTIONS, SONDE_COUNTER_CYCLES, SONDE_COUNTERS };

struct sonde_counters {
    int available;
    int user_only;           /* the kernel's share may not be seen */
    char why_not[192];       /* and what to do; "" = they are available */
    struct { uint32_t type; uint64_t config; } events[SONDE_COUNTERS];
};

/* Tries them. */
void sonde_counters_init(struct sonde_counters *c);

/* For what this process starts from here on, from its exec on; allocates nothing. fds: -1 =
 * none. */
void sonde_counters_open(const struct sonde_counters *c, int fds[SONDE_COUNTERS]);

/* Once that has ended; closes them. NaN = not counted. What the kernel counted for a part of the
 * time only, since there were too few counters, is scaled. */
void sonde_counters_read(int fds[SONDE_COUNTERS], double out[SONDE_COUNTERS]);

#endif
