/* fuzz_plot_data.c - data files of `sonde plot`: whatever the bytes are, they are refused with a
 * reason, or every kind of picture is made of them: charts without a place that is no number. */
static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("{\"sonde_plot\":1,\"kind\":\"training\",\"series\":[{\"name\":\"train_loss\",\"x\":[1,2],\"y\":[3,"
         "NaN]},{\"name\":\"lr\",\"x\":[1,2],\"y\":[0.1,1e-9]}]}"),
    SEED("{\"sonde_plot\":1,\"series\":[{\"role\":\"latency\",\"name\":\"t\",\"x\":[1700000000,1.7e9],\"y\":[0."
         "1,2],\"weight\":[1,5],\"failed\":[0,1],\"sum\":3}]}"),
    SEED("{\"sonde_plot\":1,\"series\":[{\"role\":\"batch\",\"name\":\"m\",\"x\":[1,8],\"y\":[0.1,0.2]},"
         "{\"role\":\"scaling\",\"x\":[1,2,4],\"y\":[1,2,3],\"low\":[1,1,1],\"high\":[2,3,4]}]}"),
    SEED("{\"sonde_plot\":1,\"series\":[{\"role\":\"hits\",\"name\":\"a\",\"y\":[1]},{\"role\":\"misses\","
         "\"name\":\"a\",\"y\":[0]},{\"role\":\"figure\",\"group\":\"r\",\"name\":\"f\",\"unit\":\"s\",\"y\":[-"
         "Infinity]},{\"role\":\"memory\",\"name\":\"process: x\",\"x\":[1,2],\"y\":[1e308,-1e308]}]}"),
};

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz_seeds.h"
#include "present/plot/data_file.h"
#include "present/plot/kind.h"
#include "sonde/sonde.h"

static void chart_check(const struct sonde_chart *c)
{
    for (size_t s = 0; s < c->series_count; s++) {
        for (size_t i = 0; i < c->series[s].count; i++) {
            const struct sonde_chart_point *p = &c->series[s].points[i];
            CHECK(isfinite(p->x) && !isinf(p->y));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sonde_plot_data d = { .kind = "" };
    struct sonde_err err = { "" };
    const int rc = sonde_plot_file_read((const char *)data, size, "f", SONDE_ROLE_LATENCY, "", &d,
                                        &err);
    CHECK(!rc || err.text[0]);
    for (size_t i = 0; !rc && sonde_plot_kinds[i]; i++) {
        struct sonde_plot_page page = { .title = "" };
        int empty;
        CHECK(!sonde_plot_kind_draw(sonde_plot_kinds[i], &d, &page, &empty));
        for (size_t k = 0; k < page.count; k++) chart_check(&page.charts[k]);
        sonde_plot_page_release(&page);
    }
    sonde_plot_data_release(&d);
    CHECK(sonde__alloc_live() == 0);
    return 0;
}
