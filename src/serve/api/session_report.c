/* session_report.c - see session_report.h. */
#include "serve/api/session_report.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "present/report/finding.h"
#include "present/report/compare.h"
#include "present/flamegraph/flamegraph.h"
#include "profile/format.h"
#include "sonde/sonde.h"

/* ---- One ------------------------------------------------------------------------------------- */

/* Of a profile without a sample: what is known of it. */
static void session_report_put_empty(const struct sonde_profile *p, struct sonde_buf *out)
{
    const time_t start = (time_t)(p->start_ns / 1000000000u);
    char id[64] = "prof_imported";
    struct tm tm;
    if (p->start_ns && gmtime_r(&start, &tm)) {
        strftime(id, sizeof(id), "prof_%Y%m%d_%H%M%S", &tm);
    }
    sonde_buf_putc(out, '{');
    sonde_json_str(out, "profile_id", id);
    sonde_json_num(out, "duration_seconds", (double)(p->end_ns - p->start_ns) * 1e-9);
    const char *program = sonde_profile_str(p, p->program);
    if (*program) sonde_json_str(out, "program", program);
}

int sonde_session_report(const struct sonde_http_request *r, const struct sonde_profile *p,
                         struct sonde_buf *out, struct sonde_err *err)
{
    const struct sonde_profile_filter all = { .kind = -1 };
    struct sonde_findings *found;
    const size_t before = out->len;
    assert(!before); /* what is cut off at the end is the report's own bracket */
    int rc = sonde_format_find("report-json")->write(p, &all, out, err);
    if (rc == SONDE_ENOENT) {
        out->len = before;
        session_report_put_empty(p, out);
    } else if (rc) {
        return rc;
    } else {
        while (out->len && out->data[out->len - 1] != '}') out->len--;
        out->len--;
    }
    rc = sonde_findings_look(p, &r->agent->rules, &found);
    if (rc) return sonde_err_memory(err);
    sonde_json_key(out, "bottlenecks");
    sonde_findings_json(found, out);
    if (found->note_count) sonde_json_str(out, "bottlenecks_note", found->notes[0]);
    sonde_findings_destroy(found);
    return 0;
}

void sonde_api_put_notes(struct sonde_buf *out, const char (*notes)[256], size_t count)
{
    sonde_json_key_open(out, "notes", '[');
    for (size_t i = 0; i < count; i++) {
        if (i) sonde_buf_putc(out, ',');
        sonde_buf_json_str(out, notes[i], strlen(notes[i]));
    }
    sonde_json_close(out, ']');
}

void sonde_session_keep_answer(struct sonde_sessions *s, const char *name, const char *kind,
                               const struct sonde_profile *p, struct sonde_response *answer)
{
    struct sonde_buf *out = &answer->body;
    struct sonde_err err = { "" };
    uint64_t id = 0;
    if (!s || out->error || !out->len || answer->status >= 400) return;
    const int rc = sonde_sessions_keep(s, name, kind, p, &id, &err);
    if (answer->content_type && strcmp(answer->content_type, "application/json") != 0) return;
    while (out->len && out->data[out->len - 1] != '}') out->len--;
    out->len--;
    if (rc) {
        sonde_json_str(out, "id", NULL);
        sonde_json_str(out, "note", err.text);
    } else {
        sonde_json_u64(out, "id", id);
        sonde_json_str(out, "name", name);
    }
    sonde_buf_puts(out, "}\n");
}

int sonde_api_picture(const struct sonde_http_request *r, const struct sonde_profile *p,
                      const struct sonde_profile_filter *f, const struct sonde_api_picture *look,
                      struct sonde_response *answer, struct sonde_err *err)
{
    struct sonde_flamegraph_options o = sonde_http_picture(r, look->html);
    struct sonde_tree *tree;
    o.title = look->title;
    o.subtitle = look->subtitle;
    const struct sonde_tree_options t = sonde_flamegraph_tree(&o, look->html);
    int rc = sonde_tree_build(p, f, &t, &tree, err);
    if (rc) return rc;
    rc = look->html ? sonde_flamegraph_html(tree, &o, &answer->body)
                    : sonde_flamegraph_svg(tree, &o, &answer->body);
    sonde_tree_destroy(tree);
    if (rc) return sonde_err_memory(err);
    answer->content_type = look->html ? "text/html; charset=utf-8" : "image/svg+xml";
    return 0;
}

int sonde_api_format(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                     const char *format, const char *filename, struct sonde_response *answer,
                     struct sonde_err *err)
{
    const struct sonde_format_ops *ops = sonde_format_find(format);
    assert(ops && filename);
    const int rc = ops->write(p, f, &answer->body, err);
    if (rc) return rc;
    answer->content_type = ops->content_type;
    answer->packed = !strcmp(ops->suffix, ".pb.gz");
    if (answer->packed) answer->filename = filename;
    return 0;
}

void sonde_session_picture(const struct sonde_http_request *r, const struct sonde_profile *p,
                           int kind, const char *label, int html, struct sonde_response *answer)
{
    char subtitle[200];
    struct sonde_err err = { "" };
    snprintf(subtitle, sizeof(subtitle), "%.100s, %.1f s", label,
             (double)(p->end_ns - p->start_ns) * 1e-9);
    const int rc =
        sonde_api_picture(r, p, &(struct sonde_profile_filter){ .kind = kind },
                          &(struct sonde_api_picture){ NULL, subtitle, html }, answer, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
}

/* ---- Two ------------------------------------------------------------------------------------- */

struct comparing {
    struct sonde_compare_run run[2];
    struct sonde_tree *tree[2];      /* of a picture */
    struct sonde_tree *diff;
    int kind;
    const struct sonde_http_request *request;
};

/* A profile may have spans and requests alone: then there are figures, and no functions. */
static int session_report_build(struct comparing *c, int i, int picture, struct sonde_err *err)
{
    const struct sonde_tree_options whole = { 0 };
    struct sonde_profile_filter f = c->run[i].filter;
    const struct sonde_profile *p = c->run[i].profile;
    f.kind = c->kind;
    if (picture) {
        const int rc = sonde_tree_build(p, &f, &whole, &c->tree[i], err);
        if (!rc) c->kind = (int)c->tree[i]->kind;
        return rc;
    }
    struct sonde_profile_match *match = NULL;
    const int rc = sonde_profile_match_some(p, &f, &match, err);
    if (!rc) c->kind = sonde_profile_match_kind(match);
    sonde_profile_match_destroy(match);
    return rc == SONDE_ENOENT && (p->infer || p->spans_count) ? 0 : rc;
}

static int put_comparison(struct comparing *c, const struct sonde_session_side *const side[2],
                          const char *format, struct sonde_response *answer, struct sonde_err *err)
{
    const struct sonde_compare_options o = { .kind = c->kind };
    struct sonde_comparison *comparison;
    const struct sonde_compare_view view = {
        .before = side[0]->label, .after = side[1]->label, .all_figures = "format=json",
        .style = !strcmp(format, "text")       ? SONDE_REPORT_TEXT
                 : !strcmp(format, "markdown") ? SONDE_REPORT_MARKDOWN
                                               : SONDE_REPORT_JSON };
    int rc = sonde_compare(&c->run[0], 1, &c->run[1], 1, &o, &comparison, err);
    if (rc) return rc;
    rc = sonde_compare_report(comparison, &view, &answer->body, err);
    sonde_comparison_destroy(comparison);
    if (view.style == SONDE_REPORT_TEXT) answer->content_type = "text/plain; charset=utf-8";
    if (view.style == SONDE_REPORT_MARKDOWN) answer->content_type = "text/markdown; charset=utf-8";
    return rc;
}

static int session_report_put_picture(const struct comparing *c,
                                      const struct sonde_session_side *const side[2], int html,
                                      struct sonde_response *answer, struct sonde_err *err)
{
    char subtitle[300];
    snprintf(subtitle, sizeof(subtitle), "%.120s compared with %.120s", side[1]->label,
             side[0]->label);
    struct sonde_flamegraph_options o = sonde_http_picture(c->request, html);
    o.subtitle = subtitle;
    const int rc = html ? sonde_flamegraph_html(c->diff, &o, &answer->body)
                        : sonde_flamegraph_svg(c->diff, &o, &answer->body);
    answer->content_type = html ? "text/html; charset=utf-8" : "image/svg+xml";
    return rc ? sonde_err_memory(err) : 0;
}

static int session_report_compare(struct comparing *c,
                                  const struct sonde_session_side *const side[2],
                                  const char *format, struct sonde_response *answer,
                                  struct sonde_err *err)
{
    const int html = !strcmp(format, "html"), picture = html || !strcmp(format, "svg");
    for (int i = 0; i < 2; i++) {
        c->run[i] = (struct sonde_compare_run){
            .profile = side[i]->profile,
            .filter = { .from_ns = side[i]->from_ns, .to_ns = side[i]->to_ns } };
        const int rc = session_report_build(c, i, picture, err);
        if (rc) return rc;
    }
    if (c->tree[0] && c->tree[1]) {
        const int rc = sonde_tree_diff(c->tree[0], c->tree[1], &c->diff);
        if (rc) return sonde_err_memory(err);
    }
    return picture ? session_report_put_picture(c, side, html, answer, err)
                   : put_comparison(c, side, format, answer, err);
}

void sonde_session_compare(const struct sonde_http_request *r,
                           const struct sonde_session_side *before,
                           const struct sonde_session_side *after, int kind, const char *format,
                           struct sonde_response *answer)
{
    const struct sonde_session_side *const side[2] = { before, after };
    struct comparing c = { .kind = kind, .request = r };
    struct sonde_err err = { "" };
    assert(before->profile && after->profile && format);
    const int rc = session_report_compare(&c, side, format, answer, &err);
    for (int i = 0; i < 2; i++) sonde_tree_destroy(c.tree[i]);
    sonde_tree_destroy(c.diff);
    if (rc) sonde_response_failed(answer, rc, &err);
}
