/* arm.c - which of two servers gets a request; see struct sonde_front_ab.
 *
 * The choice is a hash compared with the share: no state, so that it is the same after a restart
 * and in a second front, and what belongs together stays together. The hash is kept for good
 * (FNV-1a and the end of splitmix64, which makes all of its bits equally good): base/hash.h's
 * others may change with the next version, and sessions would then change servers. The trace id is
 * hashed as well, though it should be random, since clients that sample their traces by its low
 * bits would otherwise send only sampled ones to one of the servers.
 *
 * Rejected: every tenth request. Load that comes in a rhythm (a health check every ten requests)
 * would be one server's only, and a conversation would be everybody's. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/hash.h"
#include "front/front_private.h"
#include "sonde/sonde.h"

const char *sonde_front_drop_name(enum sonde_front_drop reason)
{
    static const char *const names[] = {
#define SONDE__X(id, text) [SONDE_FRONT_DROP_##id] = text,
        SONDE_FRONT_DROP_REASONS(SONDE__X)
#undef SONDE__X
    };
    assert((size_t)reason < SONDE_COUNT(names));
    return names[reason];
}

int sonde_front_share_parse(const char *text, uint32_t *ppm, struct sonde_err *err)
{
    char *end;
    double share = strtod(text, &end);
    /* strtod reads more than people mean by a number. */
    const int number = end != text && strspn(text, "0123456789.") == (size_t)(end - text);
    while (*end == ' ') end++;
    const int percent = *end == '%';
    if (percent) end++;
    if (percent) share /= 100;
    const double parts = nearbyint(share * SONDE_FRONT_SHARE_ALL);
    if (!number || *end || parts < 1 || parts > SONDE_FRONT_SHARE_ALL) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "'%.40s' is not a share of requests: say 10%% or 0.1, more than 0 and "
                             "at most 100%%", text);
    }
    *ppm = (uint32_t)parts;
    return 0;
}

enum sonde_front_arm sonde_front_arm_of(uint32_t share_ppm, const char *session,
                                        size_t session_len, uint64_t trace_hi, uint64_t trace_lo)
{
    uint64_t h = sonde_hash_u64(trace_hi + SONDE_HASH_MUL) ^ trace_lo;
    if (session_len) h = sonde_fnv64(SONDE_FNV64_SEED, session, session_len);
    h = sonde_hash_u64(h + SONDE_HASH_MUL);
    /* h / 2^64 < share, without rounding. */
    const uint64_t part = (uint64_t)(((__uint128_t)h * SONDE_FRONT_SHARE_ALL) >> 64);
    return part < share_ppm ? SONDE_FRONT_B : SONDE_FRONT_A;
}

static struct sonde_http_span arm_session(const struct sonde_http_head *h, const char *head,
                                          const char *name)
{
    const size_t len = strlen(name);
    for (uint32_t i = 0; len && i < h->field_count; i++) {
        const struct sonde_http_field *f = &h->field[i];
        if (f->name.len == len && strncasecmp(head + f->name.at, name, len) == 0) return f->value;
    }
    return (struct sonde_http_span){ 0, 0 };
}

void front_arm_assign(struct front_client *c, const char *head)
{
    struct sonde_front *f = c->front;
    struct sonde_front_request *r = &c->proxied.r;
    const struct sonde_front_ab *ab = &f->o.ab;
    if (c->memory) {
        r->arm = SONDE_FRONT_B;
        r->copy = 1;
        r->profile = 0;
        return;
    }
    /* A file that is uploaded, a model that is loaded: done once, at the one server that is
     * known to be right. */
    if (r->route == SONDE_FRONT_OTHER || c->proxied.upgrade) return;
    const struct sonde_http_span session = arm_session(&c->head, head, ab->session);
    const enum sonde_front_arm arm =
        sonde_front_arm_of(ab->share_ppm, head + session.at, session.len, r->trace_hi, r->trace_lo);
    if (ab->mode == SONDE_FRONT_MIRROR) {
        if (arm == SONDE_FRONT_B) front_copy_gather(c, head);
        return;
    }
    r->arm = arm;
    if (arm != SONDE_FRONT_B) return;
    if (f->b_rests_ns > front_now_ns()) {
        snprintf(r->fell_back, sizeof(r->fell_back), "resting");
    } else {
        c->proxied.may_fall_back = 1;
    }
}

const struct sonde_front_upstream *front_arm_server(const struct front_upstream *u)
{
    return u->b ? &u->front->o.ab.upstream : &u->front->o.upstream;
}
