/* prometheus.c - the Prometheus text format 0.0.4. */
#include "serve/export/export.h"
#include "serve/export/text.h"

static void export_prometheus_render(const struct sonde_model *m, const struct sonde_filter *f,
                                     struct sonde_buf *out)
{
    if (m->shared) sonde_assert_held(&m->lock);
    sonde_export_text(m, f, SONDE_TEXT_PROMETHEUS, out);
}

extern const struct sonde_export_ops sonde_export_prometheus;
const struct sonde_export_ops sonde_export_prometheus = {
    .name = "prometheus",
    .summary = "Prometheus text format 0.0.4",
    .content_type = "text/plain; version=0.0.4; charset=utf-8",
    .render = export_prometheus_render,
};
