/* push_otlp_traces.c - spans that have come, as ExportTraceServiceRequest. */
#include <string.h>

#include "base/pb.h"
#include "push/otlp.h"
#include "sonde/sonde.h"

enum { REQUEST_RESOURCE = 1, RESOURCE_RESOURCE = 1, RESOURCE_SCOPE = 2, SCOPE_SCOPE = 1 };

static void push_otlp_traces_put_group(const struct push_span_group *g, struct push_otlp_scratch *s,
                                       struct sonde_buf *scope, struct sonde_buf *resource,
                                       struct sonde_buf *out)
{
    sonde_buf_reset(scope);
    sonde_buf_reset(resource);
    push_otlp_scope(scope, SCOPE_SCOPE, s);
    sonde_buf_add(scope, g->spans.data, g->spans.len);
    sonde_pb_message(resource, RESOURCE_RESOURCE, &g->resource);
    sonde_pb_message(resource, RESOURCE_SCOPE, scope);
    sonde_pb_message(out, REQUEST_RESOURCE, resource);
}

/* A group is not divided: one of more than the usual size is a request by itself. */
int push_otlp_traces(struct push_dest *d, const struct push_spans *spans)
{
    struct push_otlp_scratch s;
    struct sonde_buf scope, resource, out;
    uint32_t count = 0;
    int rc = 0;
    push_otlp_scratch_init(&s, 1 << 20);
    sonde_buf_init(&scope, PUSH_BODY_MAX);
    sonde_buf_init(&resource, PUSH_BODY_MAX);
    sonde_buf_init(&out, PUSH_BODY_MAX);
    for (size_t i = 0; i < spans->group_count && !rc; i++) {
        const struct push_span_group *g = &spans->groups[i];
        if (!g->count) continue;
        push_otlp_traces_put_group(g, &s, &scope, &resource, &out);
        count += g->count;
        rc = out.error;
        if (rc || (i + 1 < spans->group_count && out.len < OTLP_RAW_MAX)) continue;
        push_emit(d, SONDE_PUSH_TRACES, "/v1/traces", count, &out);
        count = 0;
    }
    if (!rc && count) push_emit(d, SONDE_PUSH_TRACES, "/v1/traces", count, &out);
    push_otlp_scratch_release(&s);
    sonde_buf_release(&scope);
    sonde_buf_release(&resource);
    sonde_buf_release(&out);
    return rc;
}
