/* check_json.c - a check as JSON. What is not known is null. */
#include <math.h>

#include "analyze/power.h"
#include "base/json.h"
#include "present/check_report.h"
#include "present/report/compare.h"

static void check_json_number(struct sonde_buf *out, const char *key, double v)
{
    sonde_json_num(out, key, isfinite(v) ? v : NAN);
}

static void check_json_runs(struct sonde_buf *out, const char *key, size_t runs)
{
    if (runs == SONDE_POWER_NEVER) sonde_json_num(out, key, NAN);
    else sonde_json_u64(out, key, runs);
}

static void check_json_row(const struct sonde_check_row *r, struct sonde_buf *out)
{
    const struct sonde_compare_measure *f = r->figure;
    sonde_json_open(out, '{');
    sonde_json_str(out, "limit", r->limit->text);
    sonde_json_str(out, "measure", f->measure);
    if (*f->subject) sonde_json_str(out, "subject", f->subject);
    sonde_json_str(out, "title", f->title);
    sonde_json_str(out, "unit", f->unit);
    check_json_number(out, "before", f->before);
    check_json_number(out, "after", f->after);
    check_json_number(out, "relative", f->d.relative);
    check_json_number(out, "relative_low", f->d.relative_low);
    check_json_number(out, "relative_high", f->d.relative_high);
    check_json_number(out, "p", f->d.p);
    check_json_number(out, "p_adjusted", f->adjusted);
    sonde_json_str(out, "verdict", sonde_check_verdict_name(r->verdict));
    sonde_json_bool(out, "broken", r->broken);
    check_json_number(out, "smallest", r->smallest);
    check_json_number(out, "detect", r->detect);
    check_json_runs(out, "runs_more", r->more);
    check_json_runs(out, "runs_more_each", r->more_each);
    sonde_json_close(out, '}');
}

/* Sentences are the same as in text. */
static void check_json_sentence(const struct sonde_check *k, const struct sonde_comparison *c,
                                const struct sonde_check_view *v, const char *key,
                                void (*put)(const struct sonde_check *k,
                                            const struct sonde_comparison *c,
                                            const struct sonde_check_view *v,
                                            struct sonde_buf *out),
                                struct sonde_buf *out)
{
    struct sonde_buf line;
    sonde_buf_init(&line, 1 << 16);
    put(k, c, v, &line);
    sonde_json_str(out, key, line.len ? line.data : NULL);
    if (line.error) out->error = line.error;
    sonde_buf_release(&line);
}

void sonde_check_json(const struct sonde_check *k, const struct sonde_comparison *c,
                      const struct sonde_check_view *v, struct sonde_buf *out)
{
    const struct sonde_compare_view compared = { .before = v->baseline, .after = v->after,
                                                 .style = SONDE_REPORT_JSON, .limit = v->limit };
    struct sonde_check_view plain = *v;
    plain.ascii = 0;
    sonde_buf_putc(out, '{');
    sonde_json_bool(out, "passed", !k->failed);
    sonde_json_str(out, "verdict", sonde_check_verdict_name(k->verdict));
    check_json_sentence(k, c, &plain, "summary", sonde_check_headline, out);
    check_json_sentence(k, c, &plain, "advice", sonde_check_advice, out);
    sonde_json_str(out, "baseline", v->baseline);
    sonde_json_time(out, "baseline_created_s", v->created_s);
    sonde_json_str(out, "after", v->after);
    sonde_json_bool(out, "default_limits", v->defaults);
    sonde_json_bool(out, "same_build", v->same_build);
    sonde_json_key_open(out, "differences", '[');
    for (size_t i = 0; i < v->difference_count; i++) {
        sonde_json_open(out, '{');
        sonde_json_str(out, "fact", sonde_run_fact_key(v->differences[i].fact));
        sonde_json_str(out, "before", v->differences[i].before);
        sonde_json_str(out, "after", v->differences[i].after);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "limits", '[');
    for (size_t i = 0; i < k->count; i++) check_json_row(&k->rows[i], out);
    sonde_json_close(out, ']');
    sonde_json_key(out, "runs_wanted");
    if (k->lead < k->count) check_json_row(&k->rows[k->lead], out);
    else sonde_buf_puts(out, "null");
    sonde_json_key(out, "comparison");
    sonde_compare_json(c, &compared, out);
    sonde_buf_puts(out, "}\n");
}
