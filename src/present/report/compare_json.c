/* compare_json.c - a comparison as JSON. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "present/report/compare.h"
#include "present/report/profile_private.h"
#include "sonde/sonde.h"

enum { FUNCTIONS_DEFAULT = 30 };

/* What is not known or has no bound is null. */
static void compare_json_put_number(struct sonde_buf *out, const char *key, double v)
{
    sonde_json_num(out, key, isfinite(v) ? v : NAN);
}

static void put_figure(struct sonde_buf *out, const struct sonde_compare_measure *f)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "group", sonde_compare_measure_group_name(f->group));
    sonde_json_str(out, "measure", f->measure);
    if (*f->subject) sonde_json_str(out, "subject", f->subject);
    sonde_json_str(out, "title", f->title);
    sonde_json_str(out, "unit", f->unit);
    compare_json_put_number(out, "before", f->before);
    compare_json_put_number(out, "after", f->after);
    compare_json_put_number(out, "change", f->d.change);
    compare_json_put_number(out, "change_low", f->d.low);
    compare_json_put_number(out, "change_high", f->d.high);
    compare_json_put_number(out, "relative", f->d.relative);
    compare_json_put_number(out, "relative_low", f->d.relative_low);
    compare_json_put_number(out, "relative_high", f->d.relative_high);
    compare_json_put_number(out, "p", f->d.p);
    compare_json_put_number(out, "p_adjusted", f->adjusted);
    sonde_json_str(out, "better", f->better < 0 ? "less" : f->better > 0 ? "more" : NULL);
    sonde_json_str(out, "verdict", sonde_verdict_name(f->verdict));
    sonde_json_close(out, '}');
}

static void put_pair(struct sonde_buf *out, const char *key, uint64_t before, uint64_t after)
{
    sonde_json_key_open(out, key, '[');
    sonde_buf_u64(out, before);
    sonde_buf_putc(out, ',');
    sonde_buf_u64(out, after);
    sonde_json_close(out, ']');
}

void sonde_compare_json(const struct sonde_comparison *c, const struct sonde_compare_view *v,
                        struct sonde_buf *out)
{
    const struct sonde_compare_view plain = { .before = v->before, .after = v->after,
                                              .more_runs = v->more_runs,
                                              .style = SONDE_REPORT_JSON };
    struct sonde_buf sentence;
    sonde_buf_init(&sentence, 1 << 16);
    sonde_compare_headline(c, &plain, &sentence);
    if (sentence.len) sentence.data[--sentence.len] = '\0'; /* its newline */
    sonde_buf_putc(out, '{');
    sonde_json_str(out, "verdict", sonde_verdict_name(c->verdict));
    sonde_json_str(out, "summary", sentence.data ? sentence.data : "");
    if (sentence.error) out->error = sentence.error;
    sonde_buf_release(&sentence);
    sonde_json_str(out, "before", v->before);
    sonde_json_str(out, "after", v->after);
    sonde_json_str(out, "parts", c->by_runs ? "runs" : c->timed ? "windows" : "none");
    put_pair(out, "runs", c->runs[0], c->runs[1]);
    put_pair(out, "part_counts", c->parts[0], c->parts[1]);
    put_pair(out, "requests", c->requests[0], c->requests[1]);
    sonde_json_str(out, "per", sonde_compare_basis_name(c->basis));
    sonde_json_key(out, "headline");
    if (c->headline < c->count) put_figure(out, &c->figures[c->headline]);
    else sonde_buf_puts(out, "null");
    sonde_json_key_open(out, "figures", '[');
    const size_t limit = v->limit ? v->limit : FUNCTIONS_DEFAULT;
    size_t functions = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *f = &c->figures[i];
        /* The heaviest functions, self and total, and all that changed. */
        if (f->group == SONDE_MEASURE_FUNCTIONS && functions++ >= 2 * limit &&
            !sonde_compare_measure_changed(f)) {
            continue;
        }
        put_figure(out, f);
    }
    sonde_json_close(out, ']');
    const struct sonde_report_options o = { .style = SONDE_REPORT_JSON, .limit = v->limit };
    const int rc = report_put_functions(c, &o, out);
    if (rc && !out->error) out->error = rc;
    sonde_buf_puts(out, "}\n");
}
