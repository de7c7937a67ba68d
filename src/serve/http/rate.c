/* rate.c - see rate.h.
 *
 * Buckets are in a table of fixed size: a client's may be in one of WAYS places, and takes the one
 * that was not used for longest. Who is forgotten begins with a full bucket, so nobody is refused
 * for what others do; who has thousands of addresses gets through, and no memory. */
#include "serve/http/rate.h"

#include <assert.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/lock.h"

enum { SETS = 1024, WAYS = 4, NETWORK = 8 };

struct bucket {
    struct sonde_rate_client client;
    double left;   /* requests */
    double seen_s; /* when that was so; 0 = nobody's */
};

struct sonde_rate {
    struct sonde_lock lock; /* of the buckets */
    double per_s, burst;
    uint64_t seed;        /* so that nobody can choose whose place to take */
    struct bucket buckets[SETS][WAYS];
};

/* ---- Who asks -------------------------------------------------------------------------------- */

static void from_v4(const void *address, struct sonde_rate_client *out)
{
    memset(out, 0, sizeof(*out));
    memset(out->address + 10, 0xff, 2);
    memcpy(out->address + 12, address, 4);
}

/* Who has one address of a network has all of them. */
static void from_v6(const struct in6_addr *address, struct sonde_rate_client *out)
{
    memset(out, 0, sizeof(*out));
    memcpy(out->address, address, IN6_IS_ADDR_V4MAPPED(address) ? sizeof(out->address) : NETWORK);
}

/* The last element: the one that our own proxy wrote. An address with or without a port; anything
 * else is one client, of which nothing is known. */
static void from_header(const char *forwarded, struct sonde_rate_client *out)
{
    const char *comma = strrchr(forwarded, ',');
    char text[64];
    struct in_addr v4;
    struct in6_addr v6;
    const char *from = comma ? comma + 1 : forwarded;
    from += strspn(from, " \t[");
    size_t len = strcspn(from, " \t]");
    const char *colon = memchr(from, ':', len);
    if (colon && !memchr(colon + 1, ':', len - (size_t)(colon - from) - 1)) {
        len = (size_t)(colon - from); /* of IPv4, a port */
    }
    memset(out, 0, sizeof(*out));
    if (len >= sizeof(text)) return;
    memcpy(text, from, len);
    text[len] = '\0';
    if (inet_pton(AF_INET, text, &v4) == 1) from_v4(&v4, out);
    else if (inet_pton(AF_INET6, text, &v6) == 1) from_v6(&v6, out);
}

int sonde_rate_client(const struct sockaddr *peer, const char *forwarded,
                      struct sonde_rate_client *out)
{
    int local = 0;
    if (peer && peer->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)peer;
        local = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
        from_v4(&v4->sin_addr, out);
    } else if (peer && peer->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)peer;
        local = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
                (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
        from_v6(&v6->sin6_addr, out);
    } else {
        return 0;
    }
    if (local && forwarded) from_header(forwarded, out);
    return !local || forwarded;
}

/* ---- Buckets --------------------------------------------------------------------------------- */

struct sonde_rate *sonde_rate_create(double per_s, double burst)
{
    assert(per_s > 0);
    struct sonde_rate *r = sonde__calloc(1, sizeof(*r));
    if (!r) return NULL;
    sonde_lock_init(&r->lock, SONDE_RANK_RATE);
    r->per_s = per_s;
    r->burst = burst < 1 ? 1 : burst;
    if (getrandom(&r->seed, sizeof(r->seed), GRND_NONBLOCK) < 0) r->seed = (uintptr_t)r;
    return r;
}

void sonde_rate_destroy(struct sonde_rate *r)
{
    if (!r) return;
    sonde_lock_destroy(&r->lock);
    sonde__free(r);
}

static struct bucket *rate_bucket_of(struct sonde_rate *r, const struct sonde_rate_client *c)
{
    sonde_assert_held(&r->lock);
    uint64_t hash = r->seed;
    for (size_t i = 0; i < sizeof(c->address); i++) {
        hash = (hash ^ c->address[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    struct bucket *set = r->buckets[hash % SETS], *oldest = set;
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].seen_s > 0 && memcmp(&set[i].client, c, sizeof(*c)) == 0) return &set[i];
        if (set[i].seen_s < oldest->seen_s) oldest = &set[i];
    }
    *oldest = (struct bucket){ .client = *c, .left = r->burst };
    return oldest;
}

double sonde_rate_take(struct sonde_rate *r, const struct sonde_rate_client *c, double now_s)
{
    double wait_s = 0;
    sonde_lock(&r->lock);
    struct bucket *b = rate_bucket_of(r, c);
    if (b->seen_s > 0 && now_s > b->seen_s) {
        b->left += (now_s - b->seen_s) * r->per_s;
        if (b->left > r->burst) b->left = r->burst;
    }
    if (b->seen_s < now_s) b->seen_s = now_s;
    assert(b->left >= 0 && b->left <= r->burst);
    if (b->left >= 1) b->left -= 1;
    else wait_s = (1 - b->left) / r->per_s;
    sonde_unlock(&r->lock);
    return wait_s;
}
