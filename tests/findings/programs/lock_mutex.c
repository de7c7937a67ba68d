/* lock_mutex.c - threads that post payments to one ledger, under one mutex that is held for
 * most of the work. */
#include <pthread.h>

#include "bench.h"

enum { ACCOUNTS = 4096, THREADS_MAX = 8 };

static struct bench b;
static pthread_mutex_t ledger_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t ledger[ACCOUNTS], ledger_digest;
static unsigned audit_rounds, own_rounds;

BENCH_NOINLINE static uint64_t payment_check(uint64_t payment)
{
    for (unsigned i = 0; i < own_rounds; i++) payment = bench_random(&payment);
    return payment;
}

BENCH_NOINLINE static void ledger_audit(void)
{
    for (unsigned i = 0; i < audit_rounds; i++) {
        ledger_digest = (ledger_digest ^ ledger[i % ACCOUNTS]) * 1099511628211u;
    }
}

BENCH_NOINLINE static void ledger_post(uint64_t payment)
{
    pthread_mutex_lock(&ledger_lock); /* PLANTED: all that follows is under the lock */
    ledger[payment % ACCOUNTS] += payment >> 40;
    ledger_audit();
    pthread_mutex_unlock(&ledger_lock);
}

static void *teller(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    while (bench_running(&b)) ledger_post(payment_check(bench_random(&random)));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    bench_options(&b, argc, argv);
    const unsigned count = bench_between(&b.random, 4, THREADS_MAX);
    audit_rounds = bench_between(&b.random, 60000, 240000);
    own_rounds = audit_rounds / bench_between(&b.random, 8, 16);
    for (unsigned i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, teller, (void *)(uintptr_t)bench_random(&b.random))) {
            return 1;
        }
    }
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return 0;
}
