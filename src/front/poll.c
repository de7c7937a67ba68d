#include "front/poll.h"

enum { SCORE_MAX = 8, SCORE_ENOUGH = 4, SCORE_LONG = 2 };

uint32_t front_poll_time(struct front_poll *p, enum front_wait kind, uint64_t now_ns)
{
    if (now_ns > p->paid_ns) {
        const uint64_t earned = (now_ns - p->paid_ns) / FRONT_POLL_SHARE;
        p->credit_ns += earned < FRONT_POLL_SAVED_NS ? (int64_t)earned
                                                     : (int64_t)FRONT_POLL_SAVED_NS;
        if (p->credit_ns > (int64_t)FRONT_POLL_SAVED_NS) p->credit_ns = FRONT_POLL_SAVED_NS;
        p->paid_ns = now_ns;
    }
    return !p->off && p->score[kind] >= SCORE_ENOUGH && p->credit_ns > 0 ? FRONT_POLL_NS : 0;
}

void front_poll_done(struct front_poll *p, enum front_wait kind, uint64_t looked_ns,
                     uint64_t waited_ns, int found)
{
    uint32_t *score = &p->score[kind];
    if (found && waited_ns <= FRONT_POLL_SHORT_NS) *score += *score < SCORE_MAX;
    else *score -= *score < SCORE_LONG ? *score : SCORE_LONG;
    if (found && waited_ns == looked_ns) {
        looked_ns -= looked_ns < FRONT_POLL_FREE_NS ? looked_ns : FRONT_POLL_FREE_NS;
    }
    p->credit_ns -= (int64_t)looked_ns;
}
