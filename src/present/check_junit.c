/* check_junit.c - a check as JUnit XML, as Jenkins, GitLab and GitHub's actions read it: a test
 * case for each limit and figure; those that could not be made and are allowed to are skipped. */
#include <stdio.h>
#include <time.h>

#include "present/check_report.h"
#include "present/flamegraph/private.h"

struct check_junit_counts { size_t failures, skipped; };

static int check_junit_skips(const struct sonde_check_row *r)
{
    return r->verdict == SONDE_CHECK_UNKNOWN && !r->broken;
}

static struct check_junit_counts check_junit_count(const struct sonde_check *k)
{
    struct check_junit_counts n = { k->broken, 0 };
    for (size_t i = 0; i < k->count; i++) n.skipped += (size_t)check_junit_skips(&k->rows[i]);
    return n;
}

static void check_junit_sums(const struct sonde_check *k, struct sonde_buf *out)
{
    const struct check_junit_counts n = check_junit_count(k);
    const size_t whole = k->undecided ? 1 : 0; /* a case of its own */
    sonde_buf_printf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\" "
                     "time=\"0\"", k->count + whole, n.failures + (k->failed ? whole : 0),
                     n.skipped + (k->failed ? 0 : whole));
}

static void check_junit_row(const struct sonde_check_row *r, const struct sonde_check_view *v,
                            struct sonde_buf *out)
{
    struct sonde_buf line;
    sonde_buf_init(&line, 1 << 16);
    sonde_check_row_sentence(r, v->ascii, &line);
    sonde_buf_puts(out, "    <testcase classname=\"sonde.check.");
    sonde_flame_put_xml(out, v->baseline);
    sonde_buf_puts(out, "\" name=\"");
    sonde_flame_put_xml(out, r->limit->text);
    sonde_buf_puts(out, ", ");
    sonde_flame_put_xml(out, r->figure->subject);
    sonde_buf_puts(out, *r->figure->subject ? ": " : "");
    sonde_flame_put_xml(out, r->figure->title);
    sonde_buf_puts(out, "\" time=\"0\">");
    if (r->broken) {
        sonde_buf_printf(out, "<failure type=\"%s\" message=\"",
                         sonde_check_verdict_name(r->verdict));
    } else {
        sonde_buf_puts(out, check_junit_skips(r) ? "<skipped message=\"" : "<system-out>");
    }
    sonde_flame_put_xml(out, line.len ? line.data : "");
    if (r->broken) {
        sonde_buf_puts(out, "\">");
        sonde_flame_put_xml(out, line.len ? line.data : "");
        sonde_buf_puts(out, "</failure>");
    } else {
        sonde_buf_puts(out, check_junit_skips(r) ? "\"/>" : "</system-out>");
    }
    sonde_buf_puts(out, "</testcase>\n");
    if (line.error) out->error = line.error;
    sonde_buf_release(&line);
}

static void check_junit_undecided(const struct sonde_check *k, const struct sonde_check_view *v,
                                  struct sonde_buf *out)
{
    static const char why[] = "there is too little in the baseline or in what is compared with it";
    sonde_buf_puts(out, "    <testcase classname=\"sonde.check.");
    sonde_flame_put_xml(out, v->baseline);
    sonde_buf_puts(out, "\" name=\"something is known\" time=\"0\">");
    if (k->failed) sonde_buf_printf(out, "<failure type=\"not known\" message=\"%s\"/>", why);
    else sonde_buf_printf(out, "<skipped message=\"%s\"/>", why);
    sonde_buf_puts(out, "</testcase>\n");
}

void sonde_check_junit(const struct sonde_check *k, const struct sonde_comparison *c,
                       const struct sonde_check_view *v, struct sonde_buf *out)
{
    char when[40] = "";
    const time_t now = (time_t)v->now_s;
    struct tm tm;
    if (gmtime_r(&now, &tm)) strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    sonde_buf_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites "
                        "name=\"sonde check\"");
    check_junit_sums(k, out);
    sonde_buf_puts(out, ">\n  <testsuite name=\"sonde check --baseline ");
    sonde_flame_put_xml(out, v->baseline);
    sonde_buf_printf(out, "\" timestamp=\"%s\"", when);
    check_junit_sums(k, out);
    sonde_buf_puts(out, ">\n    <properties>\n");
    for (size_t i = 0; i < v->difference_count; i++) {
        sonde_buf_printf(out, "      <property name=\"differs.%s\" value=\"",
                         sonde_run_fact_key(v->differences[i].fact));
        sonde_flame_put_xml(out, v->differences[i].before);
        sonde_buf_puts(out, " / ");
        sonde_flame_put_xml(out, v->differences[i].after);
        sonde_buf_puts(out, "\"/>\n");
    }
    sonde_buf_printf(out, "      <property name=\"runs.baseline\" value=\"%zu\"/>\n"
                     "      <property name=\"runs.now\" value=\"%zu\"/>\n    </properties>\n",
                     c->runs[0], c->runs[1]);
    for (size_t i = 0; i < k->count; i++) check_junit_row(&k->rows[i], v, out);
    if (k->undecided) check_junit_undecided(k, v, out);
    struct sonde_buf line;
    sonde_buf_init(&line, 1 << 16);
    sonde_check_headline(k, c, v, &line);
    sonde_buf_puts(&line, ". ");
    sonde_check_advice(k, c, v, &line);
    sonde_buf_puts(out, "    <system-out>");
    sonde_flame_put_xml(out, line.len ? line.data : "");
    sonde_buf_puts(out, "</system-out>\n  </testsuite>\n</testsuites>\n");
    if (line.error) out->error = line.error;
    sonde_buf_release(&line);
}
