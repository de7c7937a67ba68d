#include "front/poll.h"

#include <assert.h>

enum {
    ENOUGH_MIN = 4,
    ENOUGH_MAX = 1024,
    BEYOND = 4 /* score above enough: a long wait in between does not stop it at once */
};

static int64_t saved_max(const struct front_poll *p)
{
    return (int64_t)(FRONT_POLL_OVER_NS / 100 * p->percent);
}

void front_poll_init(struct front_poll *p, uint32_t percent)
{
    assert(percent <= 100);
    *p = (struct front_poll){ .percent = percent };
    for (int i = 0; i < FRONT_WAITS; i++) p->kinds[i].enough = ENOUGH_MIN;
    p->credit_ns = saved_max(p);
}

static void credit_earn(struct front_poll *p, uint64_t now_ns)
{
    if (now_ns <= p->paid_ns) return;
    const uint64_t since = now_ns - p->paid_ns;
    p->credit_ns += (int64_t)((since < FRONT_POLL_OVER_NS ? since : FRONT_POLL_OVER_NS) *
                              p->percent / 100);
    if (p->credit_ns > saved_max(p)) p->credit_ns = saved_max(p);
    p->paid_ns = now_ns;
}

uint32_t front_poll_time(struct front_poll *p, enum front_wait kind, uint64_t now_ns)
{
    assert(kind < FRONT_WAITS);
    const struct front_poll_kind *k = &p->kinds[kind];
    credit_earn(p, now_ns);
    return p->percent && k->score >= k->enough && p->credit_ns > 0 ? FRONT_POLL_NS : 0;
}

void front_poll_done(struct front_poll *p, enum front_wait kind, uint64_t looked_ns,
                     uint64_t waited_ns, int found)
{
    assert(kind < FRONT_WAITS);
    struct front_poll_kind *k = &p->kinds[kind];
    const int looked = looked_ns != 0, seen = looked && found && waited_ns == looked_ns;
    if (seen) {
        k->enough = ENOUGH_MIN;
        looked_ns -= looked_ns < FRONT_POLL_FREE_NS ? looked_ns : FRONT_POLL_FREE_NS;
    } else if (looked_ns >= FRONT_POLL_NS) { /* not one that others cut short */
        k->enough = k->enough < ENOUGH_MAX / 2 ? k->enough * 2 : ENOUGH_MAX;
    }
    if (looked && !seen) k->score = 0; /* others have to show first that it is worth while */
    else if (found && waited_ns <= FRONT_POLL_SHORT_NS) k->score++;
    else k->score -= k->score < 2 ? k->score : 2;
    if (k->score > k->enough + BEYOND) k->score = k->enough + BEYOND;
    p->credit_ns -= (int64_t)looked_ns;
}
