/* fuzz_exposition.c - texts of exporters, both formats, into a model.
 * The first byte says which format. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/exposition.h"
#include "collect/ingest/ingest.h"

static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("0# HELP h of\\n lines\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 3\nh_sum 4\nh_count 3\n"
         "x 1\n"),
    SEED("0# TYPE s summary\ns{quantile=\"0.5\"} NaN\ns_sum 2e9 123\ns_count 3\n"
         "x{a=\"\\\\ \\\" \\n\"} 1\n"),
    SEED("1# TYPE c counter\n# UNIT c bytes\nc_total{a=\"b\"} 5 1.5 # {trace_id=\"7\"} 3 1\n"
         "c_created 1\n"
         "# TYPE i info\ni_info{v=\"1\"} 1\n# EOF\n"),
};

static int put(const struct sonde_exposition_sample *s, void *arg)
{
    struct sonde_ingest_point p;
    if (!sonde_ingest_exposition(s, &p)) return 0;
    p.source = "fuzz";
    p.now_s = 1;
    sonde_ingest_put(arg, &p);
    return 0;
}

#include "fuzz/fuzz_seeds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sonde_model *m;
    struct sonde_ingest *f;
    struct sonde_err err;
    if (!size) return 0;
    const struct sonde_model_limits limits = { 64, 64, 16 };
    const struct sonde_label labels[] = { { "instance", "i" }, { "job", "j" } };
    const struct sonde_ingest_options o = { .labels = labels, .label_count = 2, .series_max = 32 };
    CHECK(sonde_model_create(&limits, &m) == 0);
    CHECK(sonde_ingest_create(m, &o, &f) == 0);
    const struct sonde_exposition_sink sink = { put, f };
    for (double now_s = 1; now_s < 3; now_s++) {
        sonde_wrlock(&m->lock);
        sonde_ingest_begin(f);
        sonde_exposition_read((const char *)data + 1, size - 1, data[0] & 1, &sink, &err);
        sonde_ingest_end(f);
        CHECK(sonde_ingest_count(f) <= 32);
        sonde_model_tick(m, now_s);
        sonde_rwunlock(&m->lock);
    }
    sonde_ingest_destroy(f);
    CHECK(!m->series_count && !m->family_count);
    sonde_model_destroy(m);
    return 0;
}
