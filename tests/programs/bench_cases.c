/* bench_cases.c - benchmarks whose figures are known, and some that go wrong: sleeps, which cannot take
 * less time, pauses, bytes and items, threads, and what a benchmark may do badly. */
#include <sonde/bench.h>
#include <unistd.h>

SONDE_BENCH(nap)
{
    const struct timespec t = { 0, sonde_bench_param(state) * 1000 };
    sonde_bench_bytes(state, 1000);
    sonde_bench_items(state, 10);
    SONDE_BENCH_LOOP(state) { nanosleep(&t, NULL); }
}
SONDE_BENCH_PARAMS(nap, 200, 1000);

/* Much longer outside of what is timed. */
SONDE_BENCH(paused)
{
    const struct timespec pause = { 0, 200000000 }, work = { 0, 20000 };
    SONDE_BENCH_LOOP(state) {
        sonde_bench_pause(state);
        nanosleep(&pause, NULL);
        sonde_bench_resume(state);
        nanosleep(&work, NULL);
    }
}

static unsigned arrived;

/* Each thread waits in its loop until all are in theirs: without threads it would not end. */
SONDE_BENCH(together)
{
    const struct timespec t = { 0, 100000 };
    unsigned long long round = 0;
    SONDE_BENCH_LOOP(state) {
        round++;
        __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < round * sonde_bench_threads(state)) {
            nanosleep(&t, NULL);
        }
    }
    /* The last to leave makes room for the next sample. */
    static unsigned left;
    if (__atomic_add_fetch(&left, 1, __ATOMIC_SEQ_CST) == sonde_bench_threads(state)) {
        __atomic_store_n(&left, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&arrived, 0, __ATOMIC_SEQ_CST);
    }
}
SONDE_BENCH_THREADS(together, 1, 2, 4);

SONDE_BENCH(prints)
{
    SONDE_BENCH_LOOP(state) {
        printf("{\"error\":\"this is output\"}\n");
        fflush(stdout);
        usleep(100);
    }
}

SONDE_BENCH(bad_fails) { sonde_bench_fail(state, "there is no \"device\""); }
SONDE_BENCH(bad_loopless) { SONDE_BENCH_KEEP(state); }
SONDE_BENCH(bad_break)
{
    SONDE_BENCH_LOOP(state) {
        if (sonde_bench_iterations(state) > 0) break;
    }
}
SONDE_BENCH(bad_empty) { SONDE_BENCH_LOOP(state) { } }
SONDE_BENCH(worse_crash)
{
    SONDE_BENCH_LOOP(state) { abort(); }
}
SONDE_BENCH(worse_exit)
{
    SONDE_BENCH_LOOP(state) { exit(5); }
}
SONDE_BENCH(worse_hang)
{
    SONDE_BENCH_LOOP(state) { pause(); }
}

SONDE_BENCH_MAIN()
