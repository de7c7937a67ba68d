/* openmetrics.c - OpenMetrics 1.0 text, with exemplars that carry trace ids. */
#include "serve/export/export.h"
#include "serve/export/text.h"

static void export_openmetrics_render(const struct sonde_model *m, const struct sonde_filter *f,
                                      struct sonde_buf *out)
{
    if (m->shared) sonde_assert_held(&m->lock);
    sonde_export_text(m, f, SONDE_TEXT_OPENMETRICS, out);
}

extern const struct sonde_export_ops sonde_export_openmetrics;
const struct sonde_export_ops sonde_export_openmetrics = {
    .name = "openmetrics",
    .summary = "OpenMetrics 1.0 text, with exemplars",
    .content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8",
    .render = export_openmetrics_render,
};
