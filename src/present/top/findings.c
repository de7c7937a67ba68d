/* findings.c - what `sonde top` shows of findings, from the answer of /api/findings: see data.h. */
#include "present/top/json.h"

int sonde_top_read_findings(struct sonde_top_data *d, const char *text, size_t len,
                            struct sonde_err *err)
{
    struct sonde_top_findings *out = &d->findings;
    json_t *array;
    const int rc = top_open(d, "findings", "active", text, len, &array, err);
    if (rc) return rc;
    const double looked_s = top_number(d->json[d->json_count - 1], "looked");
    const size_t n = top_at_most(array, SONDE_TOP_FINDINGS_MAX);
    out->known = 1;
    out->looked_s = looked_s > 0 ? looked_s : 0;
    out->count = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(array, i);
        out->rows[out->count++] = (struct sonde_top_finding){
            .title = top_string(o, "title"), .severity = top_string(o, "severity"),
            .subject = top_string(o, "subject"), .file = top_string(o, "file"),
            .text = top_string(o, "text"), .advice = top_string(o, "advice"),
            .gain_of = top_string(o, "gain_of"), .line = top_id(o, "line"),
            .impact = top_number(o, "impact"), .gain = top_number(o, "gain"),
            .since_s = top_number(o, "since"),
            .symptoms = json_array_size(json_object_get(o, "symptoms")),
        };
    }
    return 0;
}
