#include "harness.h"
#include "peers.h"

#include <cstdio>
#include <memory>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sstream>
#include <string>
#include <vector>

namespace {

/* The boundaries that Prometheus' client libraries give when none are asked for. */
const prometheus::Histogram::BucketBoundaries kBounds{ .005, .01, .025, .05, .1, .25,
                                                       .5,   1,   2.5,  5,   10 };

prometheus::Registry registry;
auto &counter = prometheus::BuildCounter().Name("a_total").Help("h").Register(registry).Add({});
auto &labelled = prometheus::BuildCounter().Name("b_total").Help("h").Register(registry);
auto &gauge = prometheus::BuildGauge().Name("c").Help("h").Register(registry).Add({});
auto &histogram =
    prometheus::BuildHistogram().Name("d").Help("h").Register(registry).Add({}, kBounds);

std::unique_ptr<prometheus::Registry> rendered;

} // namespace

uint64_t peer_prom_counter(uint64_t n, unsigned)
{
    for (uint64_t i = 0; i < n; i++, bench_clobber()) counter.Increment();
    return 0;
}

uint64_t peer_prom_counter_labels(uint64_t n, unsigned)
{
    for (uint64_t i = 0; i < n; i++, bench_clobber()) {
        const char *const *v = bench_label_sets[i % BENCH_LABEL_SETS];
        labelled.Add({ { "method", v[0] }, { "status", v[1] } }).Increment();
    }
    return 0;
}

uint64_t peer_prom_gauge_set(uint64_t n, unsigned)
{
    for (uint64_t i = 0; i < n; i++, bench_clobber()) gauge.Set(static_cast<double>(i));
    return 0;
}

uint64_t peer_prom_gauge_add(uint64_t n, unsigned)
{
    for (uint64_t i = 0; i < n; i++, bench_clobber()) gauge.Increment(1.0);
    return 0;
}

uint64_t peer_prom_histogram(uint64_t n, unsigned)
{
    const uint64_t *v = bench_latencies_ns();
    for (uint64_t i = 0; i < n; i++, bench_clobber()) {
        histogram.Observe(static_cast<double>(v[i % BENCH_LATENCIES]) * 1e-9);
    }
    return 0;
}

void peer_prom_render_setup(size_t counters, size_t histograms)
{
    rendered = std::make_unique<prometheus::Registry>();
    char host[32], id[32];
    if (counters) {
        auto &f =
            prometheus::BuildCounter().Name("bench_requests_total").Help("h").Register(*rendered);
        for (size_t i = 0; i < counters; i++) {
            std::snprintf(host, sizeof(host), "host%zu", i % 100);
            std::snprintf(id, sizeof(id), "%zu", i);
            f.Add({ { "host", host }, { "id", id } }).Increment(static_cast<double>(i * 7919));
        }
    }
    if (histograms) {
        auto &f = prometheus::BuildHistogram().Name("bench_seconds").Help("h").Register(*rendered);
        const uint64_t *v = bench_latencies_ns();
        for (size_t i = 0; i < histograms; i++) {
            std::snprintf(id, sizeof(id), "%zu", i);
            auto &h = f.Add({ { "id", id } }, kBounds);
            for (size_t j = 0; j < BENCH_LATENCIES; j++) {
                h.Observe(static_cast<double>(v[j]) * 1e-9);
            }
        }
    }
}

/* What its exposer does on a scrape: collect a snapshot, write it to a stream, take the text. */
uint64_t peer_prom_render(uint64_t n, unsigned)
{
    for (uint64_t i = 0; i < n; i++) {
        std::ostringstream out;
        prometheus::TextSerializer{}.Serialize(out, rendered->Collect());
        __asm__ volatile("" ::"r"(out.str().size()) : "memory");
    }
    return 0;
}

void peer_prom_render_teardown(void) { rendered.reset(); }
