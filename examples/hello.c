/* hello.c - a counter, a histogram and spans: the README's first program. */
#include <sonde/sonde.h>
#include <stdio.h>

static struct sonde_counter requests;
static struct sonde_hist latency;

static unsigned handle(unsigned request)
{
    SONDE_SCOPE("request");                      /* a span, closed by leaving the block */
    const uint64_t start = sonde_ticks();
    {
        SONDE_SCOPE("compute");                  /* its child */
        for (int i = 0; i < 100000; i++) request = request * 1664525u + 1013904223u;
    }
    sonde_counter_add(requests, 1);              /* one add to memory */
    sonde_hist_record_traced(latency, sonde_ticks_ns(sonde_ticks() - start));
    return request;
}

int main(void)
{
    unsigned sum = 0;
    requests = sonde_counter("hello_requests_total", "Requests answered.");
    latency = sonde_hist("hello_request_duration_seconds", "Time to answer.", 1e-9);
    for (unsigned i = 0; i < 1000; i++) sum += handle(i);
    printf("1000 requests answered: %u\n", sum);
    return 0;
}
