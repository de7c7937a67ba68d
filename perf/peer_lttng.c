/* peer_lttng.c - LTTng-UST: the tracer that other C programs use for what a span is to us. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_provider.h"

#include "harness.h"
#include "peers.h"

uint64_t peer_lttng_span(uint64_t n, unsigned thread)
{
    BENCH_LOOP(i, n)
    {
        lttng_ust_tracepoint(sonde_bench, begin, i, thread, 1);
        bench_clobber();
        lttng_ust_tracepoint(sonde_bench, end, i, 0);
    }
    return 0;
}
