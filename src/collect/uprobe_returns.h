/* uprobe_returns.h - return addresses that the kernel has taken from stacks.
 *
 * To see a function return, the kernel puts an address of its own in place of the return address, in
 * a page that it maps into the process ([uprobes]). A stack that is copied meanwhile ends there for
 * everybody who unwinds it. What was there before is known from the probe at the entry: it is noted
 * here by the thread that reads probes, and put back by the one that unwinds samples.
 *
 * Any thread; one table is for one process. */
#ifndef SONDE_COLLECT_UPROBE_RETURNS_H
#define SONDE_COLLECT_UPROBE_RETURNS_H

#include <stdint.h>

struct sonde_uprobe_returns;

int sonde_uprobe_returns_create(struct sonde_uprobe_returns **out); /* 0 or SONDE_E… */
void sonde_uprobe_returns_destroy(struct sonde_uprobe_returns *r);  /* NULL is fine */

/* ---- For who reads probes -------------------------------------------------------------------- */

/* A call of a thread whose return is probed: at this place of the stack was its return address. */
void sonde_uprobe_returns_put(struct sonde_uprobe_returns *r, uint32_t tid, uint64_t place,
                              uint64_t address, uint64_t time_ns);
/* Everything up to then (CLOCK_MONOTONIC) has been put; UINT64_MAX = nothing more will come. */
void sonde_uprobe_returns_seen(struct sonde_uprobe_returns *r, uint64_t time_ns);
/* Readable when somebody waits for that. Reading from it takes that back. */
int sonde_uprobe_returns_fd(const struct sonde_uprobe_returns *r);

/* ---- For who unwinds ------------------------------------------------------------------------- */

/* Wait until everything up to time_ns has been put, 20 ms at most. */
void sonde_uprobe_returns_wait(struct sonde_uprobe_returns *r, uint64_t time_ns);

struct sonde_uprobe_return { uint64_t place, address, time_ns; };
#define SONDE_UPROBE_RETURNS_MAX 32u

/* Of a thread, what was last put before time_ns for each place in [low, high): newest first.
 * Returns how many. */
uint32_t sonde_uprobe_returns_find(struct sonde_uprobe_returns *r, uint32_t tid, uint64_t low,
                                   uint64_t high, uint64_t time_ns,
                                   struct sonde_uprobe_return out[SONDE_UPROBE_RETURNS_MAX]);

#endif
