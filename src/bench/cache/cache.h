/* cache.h - how fast a file or an object behind a URL is read, by pattern, block and thread, and
 * from which tier it came: the page cache, the disk, or a cache on the way of HTTP.
 *
 * A row is a pattern from a state:
 *
 *   pattern  sequential; random, all blocks alike; zipf, some again and again
 *   state    of a file: cold, its pages were dropped before; warm, all of it was read before;
 *            direct, O_DIRECT past the page cache. Of a URL: plain; no-cache, caches are asked
 *            to go and look; revalidate, If-None-Match with the ETag, to be answered 304
 *
 * Whether a read was a hit is seen, not guessed from its time: preadv2(RWF_NOWAIT) reads only
 * what is cached, and what it does not give is read again and waited for. Of HTTP caches, by what
 * they say of themselves (Age, X-Cache, Cache-Status …). Where neither is possible it is not
 * known.
 *
 * Cold means that this kernel has no page of it: below it, a hypervisor or a disk may have caches
 * that nobody here can empty. */
#ifndef SONDE_BENCH_CACHE_CACHE_H
#define SONDE_BENCH_CACHE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/result.h"
#include "bench/trust.h"

#define SONDE_CACHE_THREADS_MAX 256u
#define SONDE_CACHE_BLOCK_MAX ((size_t)64 << 20)
#define SONDE_CACHE_WINDOWS 5

#define SONDE_CACHE_PATTERNS(X) X(SEQUENTIAL, "sequential") X(RANDOM, "random") X(ZIPF, "zipf")
#define SONDE_CACHE_STATES(X) X(COLD, "cold") X(WARM, "warm") X(DIRECT, "direct") \
    X(PLAIN, "plain") X(NO_CACHE, "no-cache") X(REVALIDATE, "revalidate")
enum sonde_cache_pattern {
#define SONDE__X(id, name) SONDE_CACHE_##id,
    SONDE_CACHE_PATTERNS(SONDE__X)
    SONDE_CACHE_PATTERN_COUNT
};
enum sonde_cache_state {
    SONDE_CACHE_STATES(SONDE__X)
#undef SONDE__X
    SONDE_CACHE_STATE_COUNT
};
const char *sonde_cache_pattern_name(enum sonde_cache_pattern p);
const char *sonde_cache_state_name(enum sonde_cache_state s);

/* ---- Latencies: 64 buckets a power of two, so a percentile is at most 0.8 % off -------------- */

#define SONDE_CACHE_BUCKETS (64 * 40) /* up to 2^45 ns */
struct sonde_cache_latency { uint64_t counts[SONDE_CACHE_BUCKETS], count; };
void sonde_cache_latency_add(struct sonde_cache_latency *l, uint64_t ns);
void sonde_cache_latency_merge(struct sonde_cache_latency *into,
                               const struct sonde_cache_latency *from);
/* Seconds; NaN where fewer than 5 are beyond it, so that it would be chance. */
double sonde_cache_latency_quantile(const struct sonde_cache_latency *l, double q);

/* ---- Rows ------------------------------------------------------------------------------------ */

struct sonde_cache_row {
    enum sonde_cache_pattern pattern;
    enum sonde_cache_state state;
    size_t block;                /* bytes of a read */
    uint32_t threads;

    int measured;                /* 0: why says what was in the way */
    char why[200];
    uint64_t reads, bytes;
    uint64_t hits, misses;       /* their sum may be less than reads: not known of the others */
    uint64_t errors;             /* HTTP: not as asked for; kept out of latencies */
    uint64_t revalidated;        /* HTTP: 304 */
    uint64_t connects;           /* HTTP: connections made */
    double seconds;
    double resident_before;      /* share of the pages in the page cache; NaN = not known */
    double rates[SONDE_CACHE_WINDOWS]; /* bytes per second by fifths of the time */
    size_t rate_count;
    struct sonde_cache_latency latency;
};

struct sonde_cache_options {
    double duration_s;           /* of a row at most */
    uint64_t bytes_max;          /* of the file or object, from its beginning */
    double exponent;             /* of zipf */
    uint64_t seed;
    struct sonde_bench_trust trust; /* of an object behind https */
    void (*tell)(void *arg, double share, const char *state); /* NULL = nobody listens */
    void *arg;
};

/* What is known of the file or object before. */
struct sonde_cache_target {
    uint64_t bytes;              /* that are read from */
    uint64_t bytes_all;
    char what[64];               /* "ext4", "tmpfs", "HTTP with ranges" */
    int in_memory;               /* a file system without a disk: cold cannot be had */
};

/* fd: a file that is open for reading, of path. 0, also when rows could not be measured, or
 * SONDE_EINVAL with a sentence: empty, too small. */
int sonde_cache_file_run(int fd, const char *path, const struct sonde_cache_options *o,
                         struct sonde_cache_row *rows, size_t count,
                         struct sonde_cache_target *target, struct sonde_err *err);

/* SONDE_EIO: no answer, or not one with the bytes in it. */
int sonde_cache_http_run(const char *url, const struct sonde_cache_options *o,
                         struct sonde_cache_row *rows, size_t count,
                         struct sonde_cache_target *target, struct sonde_err *err);

int sonde_cache_result(const struct sonde_cache_row *rows, size_t count,
                       const struct sonde_cache_target *target, struct sonde_bench_result *r);

/* ---- pages.c: the page cache's view of a file ------------------------------------------------ */

/* Share of the first bytes that is in the page cache, by mincore(2); NaN = the kernel does not tell
 * (it does not of files of others). */
double sonde_cache_pages_resident(int fd, uint64_t bytes);
/* Written out and dropped, as far as that goes: what remains, as above. */
double sonde_cache_pages_drop(int fd, uint64_t bytes);
/* The name of its file system in out; 1 if that is memory alone. */
int sonde_cache_pages_system(int fd, char *out, size_t size);

#endif
