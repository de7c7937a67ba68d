/* returns.h - return addresses that the kernel has taken from stacks.
 *
 * To see a function return, the kernel puts an address of its own in place of the return address,
 * in a page that it maps into the process ([uprobes]). A stack that is copied meanwhile ends there
 * for everybody who unwinds it. What was there before is known from the probe at the entry: it is
 * noted here by the thread that reads probes, and put back by the one that unwinds samples.
 *
 * Any thread; one table is for one process. */
#ifndef SONDE_COLLECT_UPROBE_RETURNS_H
#define SONDE_COLLECT_UPROBE_RETURNS_H

#include <stdint.h>

struct sonde_uprobe_returns;

int sonde_uprobe_returns_create(struct sonde_uprobe_returns **out); /* 0 or SONDE_E… */
void sonde_uprobe_returns_destroy(struct sonde_uprobe_returns *r);  /* NULL is fine */

/* A call of a probed function. */
struct sonde_uprobe_return {
    uint64_t place;      /* of its return address on the stack … */
    uint64_t address;    /* … which was there before the kernel put its own */
    uint64_t entry;      /* where the probe is: at the function's beginning */
    uint64_t time_ns;    /* CLOCK_MONOTONIC */
};

/* ---- For who reads probes -------------------------------------------------------------------- */

void sonde_uprobe_returns_put(struct sonde_uprobe_returns *r, uint32_t tid,
                              const struct sonde_uprobe_return *call);
/* Everything up to then (CLOCK_MONOTONIC) has been put; UINT64_MAX = nothing more will come. */
void sonde_uprobe_returns_seen(struct sonde_uprobe_returns *r, uint64_t time_ns);
/* Readable when somebody waits for that. Reading from it takes that back. */
int sonde_uprobe_returns_fd(const struct sonde_uprobe_returns *r);

/* ---- For who unwinds ------------------------------------------------------------------------- */

/* Wait until everything up to time_ns has been put, 20 ms at most. */
void sonde_uprobe_returns_wait(struct sonde_uprobe_returns *r, uint64_t time_ns);

/* What a thread's return address at this place was at time_ns: 0, or -1: not known. Where nothing
 * is known of before, as when another's probe hid it, it is that of the first call of the same
 * function since then, whose time tells. hidden: what stands there instead. A function that was
 * jumped to by another one that is probed as well had that already, and the other has the answer.
 * function: its beginning; 0 = only what is known of before. */
int sonde_uprobe_returns_find(struct sonde_uprobe_returns *r, uint32_t tid, uint64_t place,
                              uint64_t hidden, uint64_t function, uint64_t time_ns,
                              struct sonde_uprobe_return *out);

#endif
