/* lttng_provider.h - two tracepoints as LTTng wants them described. It is included by its own
 * macros more than once, hence the unusual guard. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER sonde_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_provider.h"

#if !defined(SONDE_PERF_LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define SONDE_PERF_LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* What a span of ours carries: ids, parent, name and outcome. */
LTTNG_UST_TRACEPOINT_EVENT(sonde_bench, begin,
    LTTNG_UST_TP_ARGS(uint64_t, id, uint64_t, parent, uint32_t, name),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, id, id)
        lttng_ust_field_integer(uint64_t, parent, parent)
        lttng_ust_field_integer(uint32_t, name, name)))

LTTNG_UST_TRACEPOINT_EVENT(sonde_bench, end,
    LTTNG_UST_TP_ARGS(uint64_t, id, uint32_t, outcome),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, id, id)
        lttng_ust_field_integer(uint32_t, outcome, outcome)))

#endif

#include <lttng/tracepoint-event.h>
