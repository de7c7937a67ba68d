/* peers.h - what others do, in loops that bench_variant.run can point at. The loop is inside, so
 * that a peer pays for no call of ours. */
#ifndef SONDE_PERF_PEERS_H
#define SONDE_PERF_PEERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* peer_prometheus.cpp: prometheus-cpp, Debian's prometheus-cpp-dev. */
uint64_t peer_prom_counter(uint64_t n, unsigned thread);
uint64_t peer_prom_counter_labels(uint64_t n, unsigned thread);
uint64_t peer_prom_gauge_set(uint64_t n, unsigned thread);
uint64_t peer_prom_gauge_add(uint64_t n, unsigned thread);
uint64_t peer_prom_histogram(uint64_t n, unsigned thread);

/* One family with two labels and that many series, or that many histograms; then text of it. */
void peer_prom_render_setup(size_t counters, size_t histograms);
uint64_t peer_prom_render(uint64_t n, unsigned thread);
void peer_prom_render_teardown(void);

/* peer_lttng.c: LTTng-UST, Debian's liblttng-ust-dev. Two tracepoints, begin and end. Off unless
 * a session daemon has switched them on. */
uint64_t peer_lttng_span(uint64_t n, unsigned thread);

#ifdef __cplusplus
}
#endif

#endif
