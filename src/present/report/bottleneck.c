/* bottleneck.c - see bottleneck.h. */
#include "present/report/bottleneck.h"

#include <math.h>

#include "base/json.h"

/* The same members of all kinds, whatever is not known null, so that readers need not tell kinds
 * apart; "function" is the name of what it is about, be it a function or a span. */
static void findings_put_one(const struct sonde_finding *f, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "kind", sonde_finding_kind_name(f->kind));
    sonde_json_str(out, "function", f->subject);
    sonde_json_num(out, "avg_time_ms", round(f->avg_s * 1e6) / 1e3);
    sonde_json_num(out, "call_count", round(f->count));
    sonde_json_str(out, "severity", sonde_severity_name(f->severity));
    sonde_json_num(out, "percent", round(f->share * 1e4) / 100);
    sonde_json_num(out, "seconds", f->seconds);
    sonde_json_num(out, "bytes", round(f->bytes));
    if (*f->file) sonde_json_str(out, "file", f->file);
    if (f->line) sonde_json_u64(out, "line", f->line);
    sonde_json_str(out, "text", f->text);
    sonde_json_close(out, '}');
}

void sonde_findings_json(const struct sonde_findings *f, struct sonde_buf *out)
{
    sonde_buf_putc(out, '[');
    for (size_t i = 0; i < f->count; i++) findings_put_one(&f->rows[i], out);
    sonde_json_close(out, ']');
}

void sonde_findings_text(const struct sonde_findings *f, struct sonde_buf *out)
{
    if (!f->count && !*f->note) sonde_buf_puts(out, "nothing takes 5 % or more of its kind\n");
    for (size_t i = 0; i < f->count; i++) {
        const struct sonde_finding *row = &f->rows[i];
        sonde_buf_printf(out, "%-8s  %-8s  %s", sonde_severity_name(row->severity),
                         sonde_finding_kind_name(row->kind), row->text);
        if (*row->file) sonde_buf_printf(out, "  (%s", row->file);
        if (*row->file && row->line) sonde_buf_printf(out, ":%u", row->line);
        sonde_buf_puts(out, *row->file ? ")\n" : "\n");
    }
    if (*f->note) sonde_buf_printf(out, "%s\n", f->note);
}
