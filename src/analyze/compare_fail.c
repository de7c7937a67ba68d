/* compare_fail.c - see compare_fail.h. */
#include "analyze/compare_fail.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sonde/sonde.h"

#define LIMIT_MAX 1e6 /* per cent */

enum named { NEVER, MAYBE, ALWAYS };

static const struct { const char *measure; enum named named; } measures[] = {
    { "p50", MAYBE }, { "p95", MAYBE }, { "p99", MAYBE },
    { "ttft.p50", NEVER }, { "ttft.p95", NEVER }, { "ttft.p99", NEVER },
    { "itl.p50", NEVER }, { "itl.p95", NEVER }, { "itl.p99", NEVER },
    { "requests", NEVER }, { "tokens", NEVER }, { "prompt", NEVER }, { "errors", NEVER },
    { "phase.p50", ALWAYS }, { "phase.p95", ALWAYS }, { "phase.p99", ALWAYS },
    { "spans", ALWAYS }, { "cpu", MAYBE }, { "cores", NEVER }, { "off-cpu", NEVER },
    { "time", NEVER }, { "peak", NEVER }, { "live", NEVER }, { "alloc", NEVER }, { "rss", NEVER },
    { "self", ALWAYS }, { "total", ALWAYS },
};
#define MEASURES (sizeof(measures) / sizeof(measures[0]))

static int bad(struct sonde_err *err, const char *text, const char *why)
{
    return sonde_err_set(err, SONDE_EINVAL, "--fail-on: '%.100s' %s, for example 'p95>5%%', "
                         "'cpu:handle>3%%' or 'requests<2%%'", text, why);
}

static int unknown_measure(struct sonde_err *err, const char *text, const char *measure)
{
    char all[300] = "";
    size_t at = 0;
    for (size_t i = 0; i < MEASURES; i++) {
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s", i ? ", " : "",
                               measures[i].measure);
        if (at >= sizeof(all)) break;
    }
    return sonde_err_set(err, SONDE_EINVAL, "--fail-on: '%.60s': there is no figure '%s'; there "
                         "are %s", text, measure, all);
}

/* s[0..len) without blanks at both ends; -1: it does not fit. */
static int copy_trimmed(char *out, size_t out_size, const char *s, size_t len)
{
    while (len && (*s == ' ' || *s == '\t')) {
        s++;
        len--;
    }
    while (len && (s[len - 1] == ' ' || s[len - 1] == '\t')) len--;
    if (len >= out_size) return -1;
    memcpy(out, s, len);
    out[len] = '\0';
    return 0;
}

static int parse_limit(const char *text, double *out)
{
    while (*text == ' ') text++;
    char *end;
    errno = 0;
    const double v = strtod(text, &end);
    /* strtod takes "inf", "nan" and hexadecimal too. */
    const size_t plain = strspn(text, "0123456789.eE+-");
    if (end == text || (size_t)(end - text) > plain || errno || !(v >= 0 && v <= LIMIT_MAX)) {
        return -1;
    }
    while (*end == ' ') end++;
    if (*end++ != '%') return -1;
    while (*end == ' ') end++;
    *out = v / 100;
    return *end ? -1 : 0;
}

int sonde_fail_on_parse(const char *text, struct sonde_fail_on *out, struct sonde_err *err)
{
    struct sonde_fail_on f = { .text = text };
    /* The last one: names of functions hold them too ("operator<", "Map<int>"). */
    const char *op = NULL;
    for (const char *s = text; *s; s++) {
        if (*s == '<' || *s == '>') op = s;
    }
    if (!op) return bad(err, text, "has neither > nor <");
    f.sign = *op == '>' ? 1 : -1;
    const size_t before = (size_t)(op - text);
    const char *colon = memchr(text, ':', before);
    const size_t name = colon ? (size_t)(colon - text) : before;
    if (copy_trimmed(f.measure, sizeof(f.measure), text, name) || !*f.measure) {
        return bad(err, text, "does not start with the name of a figure");
    }
    if (colon && (copy_trimmed(f.glob, sizeof(f.glob), colon + 1, before - name - 1) || !*f.glob)) {
        return bad(err, text, "has no name, or too long a one, after the colon");
    }
    if (parse_limit(op + 1, &f.limit)) {
        return bad(err, text, "does not end in a number of per cent");
    }
    size_t i = 0;
    while (i < MEASURES && strcmp(measures[i].measure, f.measure) != 0) i++;
    if (i == MEASURES) return unknown_measure(err, text, f.measure);
    if (measures[i].named == ALWAYS && !*f.glob) {
        return sonde_err_set(err, SONDE_EINVAL, "--fail-on: '%.100s': %s of what? Say %s:NAME, or "
                             "%s:* for any", text, f.measure, f.measure, f.measure);
    }
    if (measures[i].named == NEVER && *f.glob) {
        return sonde_err_set(err, SONDE_EINVAL, "--fail-on: '%.100s': %s has no name", text,
                             f.measure);
    }
    *out = f;
    return 0;
}

/* How much it moved in the direction that is watched; what was nothing before has grown without
 * bounds. */
static double moved(const struct sonde_fail_on *f, const struct sonde_figure *g)
{
    if (isnan(g->d.relative)) return g->d.change * f->sign > 0 ? INFINITY : 0;
    return g->d.relative * f->sign;
}

int sonde_fail_on_check(const struct sonde_fail_on *f, const struct sonde_comparison *c,
                        const struct sonde_figure **out, struct sonde_err *err)
{
    const struct sonde_figure *worst = NULL;
    size_t seen = 0, known = 0, named = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_figure *g = &c->figures[i];
        if (strcmp(g->measure, f->measure) != 0) continue;
        named += *g->subject != '\0';
        if (*f->glob ? !*g->subject || fnmatch(f->glob, g->subject, 0) : *g->subject) continue;
        seen++;
        known += g->verdict != SONDE_VERDICT_UNKNOWN;
        if (sonde_figure_changed(g) && moved(f, g) > f->limit &&
            (!worst || moved(f, g) > moved(f, worst))) {
            worst = g;
        }
    }
    if (!seen) {
        return sonde_err_set(err, SONDE_ENOENT, "--fail-on: '%.100s': these runs have no such "
                             "figure%s%s%s", f->text, named && !*f->glob ? "; of spans say " : "",
                             named && !*f->glob ? f->measure : "", named && !*f->glob ? ":NAME" : "");
    }
    if (!known) {
        return sonde_err_set(err, SONDE_ENOENT, "--fail-on: '%.100s': it cannot be said whether "
                             "that has changed; compare two or more runs of each: "
                             "sonde diff A1 A2 --with B1 B2", f->text);
    }
    if (!worst) return 0;
    *out = worst;
    return 1;
}
