/* hot_function.c - reads records of a log, parses, cleans, scores, indexes and sums them up.
 * Scoring is where the time goes: it compares a record with every known pattern, letter by
 * letter. */
#include <ctype.h>

#include "bench.h"

enum { RECORDS = 4096, TEXT = 96, PATTERNS = 6, BUCKETS = 8192 };

struct record { char text[TEXT], user[16]; unsigned code, length, score; };

static struct record records[RECORDS];
static char patterns[PATTERNS][32];
static unsigned patterns_count;
static struct { uint64_t key; unsigned count, score; } buckets[BUCKETS];
static volatile uint64_t total;

BENCH_NOINLINE static void record_make(struct record *r, uint64_t *random)
{
    r->length = bench_between(random, TEXT / 2, TEXT - 1);
    for (unsigned i = 0; i < r->length; i++) r->text[i] = (char)('a' + bench_random(random) % 26);
    r->text[r->length] = 0;
    snprintf(r->user, sizeof(r->user), "u%u", bench_between(random, 1, 5000));
    r->code = bench_between(random, 200, 599);
}

BENCH_NOINLINE static void record_clean(struct record *r)
{
    for (unsigned i = 0; i < r->length; i++) r->text[i] = (char)tolower((unsigned char)r->text[i]);
    while (r->length && r->text[r->length - 1] == ' ') r->text[--r->length] = 0;
}

BENCH_NOINLINE static unsigned record_score(const struct record *r)
{
    unsigned best = 0; /* PLANTED: every pattern at every place */
    for (unsigned p = 0; p < patterns_count; p++) {
        for (unsigned at = 0; at < r->length; at++) {
            unsigned same = 0;
            for (unsigned i = 0; patterns[p][i] && r->text[at + i]; i++) {
                same += patterns[p][i] == r->text[at + i];
            }
            if (same > best) best = same;
        }
    }
    return best;
}

BENCH_NOINLINE static uint64_t user_hash(const char *user)
{
    uint64_t h = 1469598103934665603u;
    for (; *user; user++) h = (h ^ (unsigned char)*user) * 1099511628211u;
    return h;
}

BENCH_NOINLINE static void index_add(const struct record *r)
{
    const uint64_t key = user_hash(r->user);
    unsigned at = (unsigned)(key % BUCKETS);
    while (buckets[at].key && buckets[at].key != key) at = (at + 1) % BUCKETS;
    buckets[at].key = key;
    buckets[at].count++;
    buckets[at].score += r->score;
}

BENCH_NOINLINE static void summary_add(const struct record *r)
{
    char line[160];
    total += (uint64_t)snprintf(line, sizeof(line), "%s %u %u %.40s", r->user, r->code, r->score,
                                r->text);
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    patterns_count = bench_between(&b.random, 2, 6);
    for (unsigned p = 0; p < patterns_count; p++) {
        const unsigned length = bench_between(&b.random, 8, 20);
        for (unsigned i = 0; i < length; i++) {
            patterns[p][i] = (char)('a' + bench_random(&b.random) % 26);
        }
    }
    while (bench_running(&b)) {
        memset(buckets, 0, sizeof(buckets));
        for (unsigned i = 0; i < RECORDS && bench_running(&b); i++) {
            record_make(&records[i], &b.random);
            record_clean(&records[i]);
            records[i].score = record_score(&records[i]);
            index_add(&records[i]);
            summary_add(&records[i]);
        }
    }
    return 0;
}
