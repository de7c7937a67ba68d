/* fuzz_otlp.c - requests of OTLP. The first byte: bit 0, traces or metrics; bit 1, JSON or
 * protobuf. */
#include <string.h>

#include "collect/ingest/otlp.h"

static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("2{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
         "\"value\":{\"stringValue\":\"a\"}}]},\"scopeMetrics\":[{\"metrics\":[{\"name\":\"m\","
         "\"unit\":\"s\",\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,"
         "\"dataPoints\":[{\"asInt\":\"5\"}]}},{\"name\":\"h\",\"histogram\":{\"aggregation"
         "Temporality\":1,\"dataPoints\":[{\"count\":3,\"sum\":1,\"bucketCounts\":[1,2],"
         "\"explicitBounds\":[1]}]}}]}]}]}"),
    SEED("2{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"name\":\"e\","
         "\"exponentialHistogram\":{\"aggregationTemporality\":2,\"dataPoints\":[{\"count\":3,"
         "\"scale\":7,\"zeroCount\":1,\"positive\":{\"offset\":-1,\"bucketCounts\":[1,"
         "1]}}]}},{\"name\":\"s\",\"summary\":{\"dataPoints\":[{\"count\":1,\"quantileValues\":"
         "[{\"quantile\":0.5,\"value\":1}]}]}}]}]}]}"),
    SEED("3{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{"
         "\"traceId\":\"0123456789abcdef0123456789abcdef\",\"spanId\":\"00000000000000ff\","
         "\"name\":\"n\",\"startTimeUnixNano\":\"100\",\"endTimeUnixNano\":250,"
         "\"attributes\":[{\"key\":\"k\",\"value\":{\"doubleValue\":1}}]}]}]}]}"),
    SEED("0\x0a\x1c\x12\x1a\x12\x18\x0a\x01m\x3a\x13\x0a\x0b\x19\x01\0\0\0\0\0\0\0\x31\x05\x10\x02"
         "\x18\x01"),
    SEED("1\x0a\x10\x12\x0e\x12\x0c\x0a\x04""abcd\x2a\x04name"),
};

#include "fuzz/fuzz_seeds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    struct sonde_model *m;
    struct sonde_otlp *o;
    struct sonde_otlp_result r;
    struct sonde_err err;
    struct sonde_buf b;
    const struct sonde_model_limits limits = { 64, 64, 16 };
    const struct sonde_otlp_options options = { .series_max = 32, .stale_s = 1 };
    const enum sonde_otlp_signal signal = data[0] & 1 ? SONDE_OTLP_TRACES : SONDE_OTLP_METRICS;
    const char *body = (const char *)data + 1;
    size_t len = size - 1;
    CHECK(sonde_model_create(&limits, &m) == 0);
    CHECK(sonde_otlp_create(m, &options, &o) == 0);
    sonde_buf_init(&b, 1 << 20);
    int rc = 0;
    if (data[0] & 2) {
        rc = sonde_otlp_from_json(signal, body, len, &b, &err);
        body = b.len ? b.data : "";
        len = b.len;
    }
    for (int i = 0; i < 2 && !rc; i++) {
        rc = sonde_otlp_take(o, signal, body, len, &r, &err);
        sonde_wrlock(&m->lock);
        sonde_model_tick(m, 1 + i);
        sonde_rwunlock(&m->lock);
    }
    CHECK(m->series_count <= 64);
    sonde_buf_release(&b);
    sonde_otlp_destroy(o);
    sonde_model_destroy(m);
    return 0;
}
