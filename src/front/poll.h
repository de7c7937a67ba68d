/* poll.h - shall the front look for the next event for a moment instead of sleeping?
 *
 * On a virtual machine a CPU that waits is given back to the host, and to be woken there takes 40
 * to 100 us: several times what the front does with a request. So where waits of late were short,
 * it looks again and again, yielding in between, and sleeps only if nothing comes. Waits for an
 * answer and for the next request are judged apart.
 *
 * Short means: whoever is waited for has to be woken as well, so nothing can come before that time
 * has passed. A look that gives up earlier is always in vain on a machine that does nothing else.
 *
 * What that may cost is bounded, whatever comes: a share of a CPU, over a minute. A look that finds
 * something within what being put to sleep and woken takes anyway is free. Looks in vain become
 * rarer, to one in a thousand waits. Where other threads wait for the CPU it ends at once: there it
 * does not sleep, and is theirs. */
#ifndef SONDE_FRONT_POLL_H
#define SONDE_FRONT_POLL_H

#include <stdint.h>

#define FRONT_POLL_NS 200000u        /* looked at most at a time: someone is woken, and works */
#define FRONT_POLL_SHORT_NS 300000u  /* a wait with sleep that looking would have spared: with the
                                        time to wake */
#define FRONT_POLL_FREE_NS 25000u    /* of a look that finds something, that much costs nothing */
#define FRONT_POLL_PERCENT 5u        /* of a CPU, unless told otherwise */
#define FRONT_POLL_OVER_NS 60000000000ull /* what is not used of that is saved up for so long */
#define FRONT_POLL_BUSY_NS 20000u    /* another thread had the CPU meanwhile */

enum front_wait { FRONT_WAIT_ANSWER, FRONT_WAIT_REQUEST, FRONT_WAITS };

struct front_poll {
    uint32_t percent;          /* of a CPU that it may cost; 0 = it never looks */
    struct front_poll_kind {
        uint32_t score;        /* how many of the last waits were short … */
        uint32_t enough;       /* … and how many have to be: more after each look in vain */
    } kinds[FRONT_WAITS];
    int64_t credit_ns;
    uint64_t paid_ns;          /* when credit was last given */
};

/* Starts with all that can be saved up. */
void front_poll_init(struct front_poll *p, uint32_t percent);

/* How long to look before sleeping; 0 = not at all. */
uint32_t front_poll_time(struct front_poll *p, enum front_wait kind, uint64_t now_ns);

/* It was looked for looked_ns of a wait of waited_ns, and then something had come or not. Less than
 * front_poll_time said, and nothing seen: another thread needed the CPU. */
void front_poll_done(struct front_poll *p, enum front_wait kind, uint64_t looked_ns,
                     uint64_t waited_ns, int found);

#endif
