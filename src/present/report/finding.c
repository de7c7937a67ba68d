/* finding.c - see finding.h. */
#include "present/report/finding.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "present/report/profile_private.h"
#include "present/units.h"

enum { WIDTH_DEFAULT = 80, INDENT = 10, PROOFS_SHOWN = 4 };

/* ---- JSON ------------------------------------------------------------------------------------ */

static double finding_per_cent(double share) { return round(share * 1e4) / 100; }

/* Where a browser or a program finds the data: pages of the dashboard and routes of the agent. */
static void finding_put_link(const struct sonde_finding *f, const struct sonde_evidence *e,
                             struct sonde_buf *out)
{
    static const struct { const char *path, *parameter; } places[] = {
        [SONDE_EVIDENCE_FUNCTION] = { "/profiling/cpu", "search" },
        [SONDE_EVIDENCE_SERIES] = { "/api/query", "name" },
        [SONDE_EVIDENCE_REQUEST] = { "/profiling/requests", "request" },
        [SONDE_EVIDENCE_SPAN] = { "/profiling/cpu", "span" },
        [SONDE_EVIDENCE_THREAD] = { "/profiling/cpu", "thread" },
        [SONDE_EVIDENCE_SITE] = { "/profiling/memory", "search" },
    };
    struct sonde_buf link;
    sonde_buf_init(&link, 4096);
    sonde_buf_printf(&link, "%s?%s=", places[e->type].path, places[e->type].parameter);
    sonde_buf_url(&link, e->subject);
    if (f->since_ns) {
        sonde_buf_printf(&link, "&from=%llu", (unsigned long long)(f->since_ns / 1000000000u));
    }
    if (f->until_ns) {
        sonde_buf_printf(&link, "&to=%llu", (unsigned long long)(f->until_ns / 1000000000u + 1));
    }
    sonde_json_str(out, "link", link.error ? NULL : link.data);
    sonde_buf_release(&link);
}

static void finding_put_evidence(const struct sonde_finding *f, struct sonde_buf *out)
{
    sonde_json_key_open(out, "evidence", '[');
    for (uint32_t i = 0; i < f->evidence_count; i++) {
        const struct sonde_evidence *e = &f->evidence[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "type", sonde_evidence_type_name(e->type));
        sonde_json_str(out, "subject", e->subject);
        if (*e->labels) sonde_json_str(out, "labels", e->labels);
        if (*e->file) sonde_json_str(out, "file", e->file);
        if (e->line) sonde_json_u64(out, "line", e->line);
        sonde_json_num(out, "value", e->value);
        sonde_json_str(out, "unit", e->unit);
        sonde_json_str(out, "what", e->what);
        finding_put_link(f, e, out);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void finding_put_time(struct sonde_buf *out, const char *key, uint64_t ns)
{
    if (ns) sonde_json_time(out, key, (double)ns * 1e-9);
    else sonde_json_num(out, key, NAN);
}

static void finding_put(const struct sonde_findings *all, size_t at, struct sonde_buf *out)
{
    const struct sonde_finding *f = &all->rows[at];
    sonde_json_open(out, '{');
    sonde_json_str(out, "kind", f->kind);
    sonde_json_str(out, "title", f->title);
    sonde_json_str(out, "severity", sonde_severity_name(f->severity));
    sonde_json_str(out, "subject", f->subject);
    sonde_json_str(out, "function", f->subject);
    sonde_json_num(out, "avg_time_ms", round(f->avg_s * 1e6) / 1e3);
    sonde_json_num(out, "call_count", round(f->count));
    sonde_json_num(out, "percent", finding_per_cent(f->share));
    sonde_json_num(out, "seconds", f->seconds);
    sonde_json_num(out, "bytes", round(f->bytes));
    if (*f->file) sonde_json_str(out, "file", f->file);
    if (f->line) sonde_json_u64(out, "line", f->line);
    sonde_json_str(out, "text", f->text);
    sonde_json_str(out, "advice", *f->advice ? f->advice : NULL);
    sonde_json_num(out, "impact", round(f->impact * 1e4) / 1e4);
    sonde_json_num(out, "confidence", round(f->confidence * 1e3) / 1e3);
    sonde_json_num(out, "gain", round(f->gain * 1e4) / 1e4);
    sonde_json_str(out, "gain_of", *f->gain_of ? f->gain_of : NULL);
    finding_put_time(out, "since", f->since_ns);
    finding_put_time(out, "until", f->until_ns);
    finding_put_evidence(f, out);
    sonde_json_key_open(out, "symptoms", '[');
    for (size_t i = all->causes; i < all->count; i++) {
        if (all->rows[i].cause == at + 1) finding_put(all, i, out);
    }
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

void sonde_findings_json(const struct sonde_findings *f, struct sonde_buf *out)
{
    sonde_buf_putc(out, '[');
    for (size_t i = 0; i < f->causes; i++) finding_put(f, i, out);
    sonde_json_close(out, ']');
}

void sonde_findings_json_answer(const struct sonde_findings *f, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_key(out, "findings");
    sonde_findings_json(f, out);
    sonde_json_key_open(out, "notes", '[');
    for (size_t i = 0; i < f->note_count; i++) {
        if (i) sonde_buf_putc(out, ',');
        sonde_buf_json_str(out, f->notes[i], strlen(f->notes[i]));
    }
    sonde_json_close(out, ']');
    sonde_json_u64(out, "muted", f->muted);
    sonde_json_close(out, '}');
    sonde_buf_putc(out, '\n');
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* text wrapped to width, its lines after the first indented; the first begins at column at. */
static void finding_put_wrapped(struct sonde_buf *out, const char *text, size_t at, size_t indent,
                                size_t width)
{
    while (*text) {
        size_t len = strcspn(text, " ");
        size_t columns = 0; /* of UTF-8, one for each character: nothing wider is printed here */
        for (size_t i = 0; i < len; i++) columns += (text[i] & 0xc0) != 0x80;
        if (at > indent && at + 1 + columns > width) {
            sonde_buf_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            sonde_buf_putc(out, ' ');
            at++;
        }
        sonde_buf_add(out, text, len);
        at += columns;
        text += len;
        while (*text == ' ') text++;
    }
    sonde_buf_putc(out, '\n');
}

static void finding_value_text(const struct sonde_evidence *e, char out[64])
{
    static const struct { const char *name; enum sonde_unit unit; const char *after; } units[] = {
        { "seconds", SONDE_UNIT_SECONDS, "" },
        { "bytes", SONDE_UNIT_BYTES, "" },
        { "bytes per second", SONDE_UNIT_BYTES, "/s" },
    };
    char text[SONDE_VALUE_BYTES];
    out[0] = '\0';
    if (isnan(e->value)) return;
    for (size_t i = 0; i < SONDE_COUNT(units); i++) {
        if (strcmp(e->unit, units[i].name) != 0) continue;
        snprintf(out, 64, "%s%s", sonde_value_format(text, e->value, units[i].unit, 0),
                 units[i].after);
        return;
    }
    if (!strcmp(e->unit, "ratio")) snprintf(out, 64, "%.1f %%", 100 * e->value);
    else snprintf(out, 64, "%.4g%s%s", e->value, *e->unit ? " " : "", e->unit);
}

static void finding_put_proof(const struct sonde_evidence *e, struct sonde_buf *out)
{
    char value[64];
    finding_value_text(e, value);
    sonde_buf_printf(out, "%*s  %s%s%s%s", INDENT, "", e->subject, *e->labels ? "{" : "",
                     e->labels, *e->labels ? "}" : "");
    if (*value || *e->what) {
        sonde_buf_printf(out, ": %s%s%s", e->what, *e->what && *value ? " " : "", value);
    }
    if (*e->file) sonde_buf_printf(out, "  %s", e->file);
    if (*e->file && e->line) sonde_buf_printf(out, ":%u", e->line);
    sonde_buf_putc(out, '\n');
}

static void finding_put_text_of(const struct sonde_findings *all, size_t at, size_t width,
                                struct sonde_buf *out)
{
    const struct sonde_finding *f = &all->rows[at];
    sonde_buf_printf(out, "%-8s  %s%s%s%s", sonde_severity_name(f->severity), f->title,
                     *f->file ? "  " : "", f->file, *f->file && f->line ? ":" : "");
    if (*f->file && f->line) sonde_buf_printf(out, "%u", f->line);
    sonde_buf_putc(out, '\n');
    sonde_buf_printf(out, "%*s", INDENT, "");
    finding_put_wrapped(out, f->text, INDENT, INDENT, width);
    if (*f->advice) {
        sonde_buf_printf(out, "%*s→ ", INDENT, "");
        finding_put_wrapped(out, f->advice, INDENT + 2, INDENT + 2, width);
    }
    if (!isnan(f->gain)) {
        sonde_buf_printf(out, "%*sgain: up to %.0f %% of the %s\n", INDENT, "",
                         ceil(100 * f->gain), f->gain_of);
    }
    for (uint32_t i = 0; i < f->evidence_count && i < PROOFS_SHOWN; i++) {
        finding_put_proof(&f->evidence[i], out);
    }
    for (size_t i = all->causes; i < all->count; i++) {
        if (all->rows[i].cause != at + 1) continue;
        sonde_buf_printf(out, "%*s+ %s:", INDENT, "", all->rows[i].title);
        finding_put_wrapped(out, all->rows[i].text, INDENT + 3 + strlen(all->rows[i].title),
                            INDENT + 2, width);
    }
}

static void finding_put_all(const struct sonde_findings *f, size_t width, size_t limit,
                            struct sonde_buf *out)
{
    const size_t shown = limit && limit < f->causes ? limit : f->causes;
    if (!f->causes) sonde_buf_puts(out, "nothing found\n");
    for (size_t i = 0; i < shown; i++) {
        if (i) sonde_buf_putc(out, '\n');
        finding_put_text_of(f, i, width, out);
    }
    if (shown < f->causes) sonde_buf_printf(out, "\nand %zu more\n", f->causes - shown);
    for (size_t i = 0; i < f->note_count; i++) {
        sonde_buf_puts(out, i || !f->causes ? "not judged: " : "\nnot judged: ");
        finding_put_wrapped(out, f->notes[i], 12, 12, width);
    }
    if (f->muted) sonde_buf_printf(out, "%zu muted\n", f->muted);
}

/* Names are of other people's files: whatever a terminal would act on is made visible. */
static void finding_put_clean(struct sonde_buf *text, struct sonde_buf *out)
{
    char *at = text->data;
    if (text->error) out->error = text->error;
    while (!out->error && at && *at) {
        char *end = strchr(at, '\n');
        if (end) *end = '\0';
        report_put_clean(out, at, 0);
        sonde_buf_putc(out, '\n');
        at = end ? end + 1 : NULL;
    }
}

void sonde_findings_text(const struct sonde_findings *f, size_t width, size_t limit,
                         struct sonde_buf *out)
{
    struct sonde_buf text;
    sonde_buf_init(&text, out->max);
    finding_put_all(f, width ? width : WIDTH_DEFAULT, limit, &text);
    finding_put_clean(&text, out);
    sonde_buf_release(&text);
}

void sonde_findings_markdown(const struct sonde_findings *f, const struct sonde_report_options *o,
                             size_t limit, struct sonde_buf *out)
{
    for (size_t i = 0; i < f->causes && i < limit; i++) {
        const struct sonde_finding *row = &f->rows[i];
        sonde_buf_printf(out, "- **%s: %s.** ", sonde_severity_name(row->severity), row->title);
        report_put_text(o, out, row->text);
        if (*row->file) {
            char where[REPORT_LINE_MAX];
            snprintf(where, sizeof(where), " (%.3000s:%u)", row->file, row->line);
            report_put_text(o, out, where);
        }
        sonde_buf_puts(out, ".\n");
        if (!*row->advice) continue;
        sonde_buf_puts(out, "  *What to do:* ");
        report_put_text(o, out, row->advice);
        sonde_buf_puts(out, ".\n");
    }
}
