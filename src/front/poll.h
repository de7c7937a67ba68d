/* poll.h - shall the front look for the next event for a moment instead of sleeping?
 *
 * On a virtual machine a CPU that waits is given back to the host, and to be woken there takes some
 * 40 us: several times what the front does with a request. So where waits of late were that short,
 * it looks again and again, yielding in between, and sleeps only if nothing comes. Waits for an
 * answer and for the next request are judged apart.
 *
 * What that may cost is bounded, whatever comes: a share of a CPU, saved up for some milliseconds. A
 * look that finds something within what being put to sleep and woken takes anyway is free. Where
 * other threads wait for the CPU it ends at once: there it does not sleep, and is theirs. */
#ifndef SONDE_FRONT_POLL_H
#define SONDE_FRONT_POLL_H

#include <stdint.h>

#define FRONT_POLL_NS 60000u         /* looked at most at a time */
#define FRONT_POLL_SHORT_NS 150000u  /* a wait with sleep that looking would have spared: with the
                                        time to wake */
#define FRONT_POLL_FREE_NS 25000u    /* of a look that finds something, that much costs nothing */
#define FRONT_POLL_SHARE 33u         /* one part of the time in so many */
#define FRONT_POLL_SAVED_NS 20000000u
#define FRONT_POLL_BUSY_NS 20000u    /* another thread had the CPU meanwhile */

enum front_wait { FRONT_WAIT_ANSWER, FRONT_WAIT_REQUEST, FRONT_WAITS };

struct front_poll {
    uint32_t off;              /* 1: there is one CPU, where looking keeps others from working */
    uint32_t score[FRONT_WAITS]; /* how many of the last waits were short */
    int64_t credit_ns;
    uint64_t paid_ns;          /* when credit was last given */
};

/* How long to look before sleeping; 0 = not at all. */
uint32_t front_poll_time(struct front_poll *p, enum front_wait kind, uint64_t now_ns);

/* It was looked for looked_ns of a wait of waited_ns, and then something had come or not. */
void front_poll_done(struct front_poll *p, enum front_wait kind, uint64_t looked_ns,
                     uint64_t waited_ns, int found);

#endif
