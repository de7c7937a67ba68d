/* fragmentation.c - a mail store: message bodies and small index entries are allocated in turn; the
 * bodies are freed and the entries stay, so that no page can be given back: resident memory is a
 * multiple of what is in use. */
#include "bench.h"

struct entry { unsigned number, bytes; char subject[40]; };

static struct entry **entries;
static char **bodies;
static unsigned messages, body_bytes;

BENCH_NOINLINE static void message_receive(unsigned number, uint64_t *random)
{
    const unsigned bytes = bench_between(random, body_bytes / 2, body_bytes * 3 / 2);
    bodies[number] = bench_alloc(bytes); /* PLANTED: freed, but between entries that stay */
    memset(bodies[number], 'm', bytes);
    entries[number] = bench_alloc(sizeof(struct entry));
    *entries[number] = (struct entry){ number, bytes, "hello" };
}

BENCH_NOINLINE static void messages_deliver(void)
{
    for (unsigned i = 0; i < messages; i++) free(bodies[i]);
    memset(bodies, 0, messages * sizeof(*bodies));
}

BENCH_NOINLINE static unsigned entries_search(unsigned wanted)
{
    unsigned found = 0;
    for (unsigned i = 0; i < messages; i += 16) found += entries[i]->bytes == wanted;
    return found;
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    /* under a page: none becomes free as a whole */
    body_bytes = bench_between(&b.random, 400, 900);
    messages = bench_between(&b.random, 100, 300) * 1000000u / body_bytes;
    entries = bench_alloc(messages * sizeof(*entries));
    bodies = bench_alloc(messages * sizeof(*bodies));
    for (unsigned i = 0; i < messages; i++) message_receive(i, &b.random);
    messages_deliver();
    unsigned found = 0;
    while (bench_running(&b)) {
        found += entries_search(bench_between(&b.random, 0, body_bytes));
        bench_sleep_us(5000);
    }
    return found == 1;
}
