/* compare_fail.c - see compare_fail.h. */
#include "analyze/compare_fail.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sonde/sonde.h"

#define LIMIT_MAX 1e6 /* per cent */

enum named { NEVER, MAYBE, ALWAYS };

/* Other names of measures, as people write them who think of a floor. */
static const struct { const char *alias, *measure; } aliases[] = {
    { "tokens_per_s", "tokens" }, { "requests_per_s", "requests" },
    { "prompt_tokens_per_s", "prompt" }, { "alloc_per_s", "alloc" },
};

static const struct { const char *name, *kind; double factor; } units[] = {
    { "ns", "seconds", 1e-9 }, { "us", "seconds", 1e-6 }, { "µs", "seconds", 1e-6 },
    { "ms", "seconds", 1e-3 }, { "s", "seconds", 1 },     { "min", "seconds", 60 },
    { "h", "seconds", 3600 },  { "B", "bytes", 1 },       { "KB", "bytes", 1e3 },
    { "kB", "bytes", 1e3 },    { "MB", "bytes", 1e6 },    { "GB", "bytes", 1e9 },
    { "TB", "bytes", 1e12 },   { "KiB", "bytes", 1024 },  { "MiB", "bytes", 1048576.0 },
    { "GiB", "bytes", 1073741824.0 }, { "TiB", "bytes", 1099511627776.0 },
};

/* kind: what it is measured in, whatever the runs are; NULL = a count, a rate, a share, or as they
 * are. */
static const struct { const char *measure; enum named named; const char *kind; } measures[] = {
    { "p50", MAYBE, "seconds" }, { "p95", MAYBE, "seconds" }, { "p99", MAYBE, "seconds" },
    { "ttft.p50", NEVER, "seconds" }, { "ttft.p95", NEVER, "seconds" },
    { "ttft.p99", NEVER, "seconds" }, { "itl.p50", NEVER, "seconds" },
    { "itl.p95", NEVER, "seconds" }, { "itl.p99", NEVER, "seconds" },
    { "requests", NEVER, NULL }, { "tokens", NEVER, NULL }, { "prompt", NEVER, NULL },
    { "errors", NEVER, NULL },
    { "phase.p50", ALWAYS, "seconds" }, { "phase.p95", ALWAYS, "seconds" },
    { "phase.p99", ALWAYS, "seconds" },
    { "spans", ALWAYS, NULL }, { "cpu", MAYBE, NULL }, { "cores", NEVER, NULL },
    { "off-cpu", NEVER, NULL }, { "time", NEVER, "seconds" }, { "peak", NEVER, "bytes" },
    { "live", NEVER, "bytes" }, { "alloc", NEVER, "bytes" }, { "rss", NEVER, "bytes" },
    { "self", ALWAYS, NULL }, { "total", ALWAYS, NULL },
};
#define MEASURES SONDE_COUNT(measures)

static int compare_fail_bad(struct sonde_err *err, const char *text, const char *why)
{
    return sonde_err_set(err, SONDE_EINVAL, "'%.100s' %s, for example 'p95>5%%', "
                         "'cpu:handle>3%%', 'tokens<50' or 'rss>1GB'", text, why);
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
    return sonde_err_set(err, SONDE_EINVAL, "'%.60s': there is no figure '%s'; there "
                         "are %s", text, measure, all);
}

/* 200 may be meant as milliseconds, and would never be reached as seconds. unit: of the figure. */
static int unit_missing(const struct sonde_fail_on *f, const char *unit)
{
    return f->absolute && !f->kind && unit &&
           (!strcmp(unit, "seconds") || !strncmp(unit, "bytes", strlen("bytes")));
}

static int no_unit(struct sonde_err *err, const struct sonde_fail_on *f, const char *unit)
{
    const int time = *unit == 's';
    return sonde_err_set(err, SONDE_EINVAL, "'%.100s': %s is a %s and its limit needs a unit, "
                         "%s, or %% for a change", f->text, f->measure, time ? "time" : "size",
                         time ? "such as 200ms, 1.5s or 50us (ns us ms s min h)"
                              : "such as 1GB or 512MiB (B KB MB GB TB KiB MiB GiB TiB)");
}

/* Why a figure is not there. */
static const char *compare_fail_lack(const char *measure)
{
    static const char heap[] = ": memory is known where every run was recorded with its heap";
    static const struct { const char *measure, *why; } lacks[] = {
        { "peak", heap }, { "live", heap }, { "alloc", heap }, { "rss", heap },
        { "off-cpu", ": they were recorded without the time that threads were blocked" },
        { "time", ": it takes several runs of each" },
    };
    for (size_t i = 0; i < SONDE_COUNT(lacks); i++) {
        if (!strcmp(lacks[i].measure, measure)) return lacks[i].why;
    }
    return "";
}

static int no_figure(struct sonde_err *err, const struct sonde_fail_on *f, int of_spans)
{
    char hint[200];
    if (of_spans) snprintf(hint, sizeof(hint), "; of spans say %s:NAME", f->measure);
    else snprintf(hint, sizeof(hint), "%s", compare_fail_lack(f->measure));
    return sonde_err_set(err, SONDE_ENOENT, "'%.100s': these runs have no such figure%s",
                         f->text, hint);
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

int sonde_fail_on_limit(const char *text, struct sonde_fail_on *out)
{
    while (*text == ' ') text++;
    char *end;
    errno = 0;
    const double v = strtod(text, &end);
    /* strtod takes "inf", "nan" and hexadecimal too. */
    const size_t plain = strspn(text, "0123456789.eE+-");
    if (end == text || (size_t)(end - text) > plain || errno || !(v >= 0)) return -1;
    char unit[8];
    if (copy_trimmed(unit, sizeof(unit), end, strlen(end))) return -1;
    if (!strcmp(unit, "%")) {
        out->limit = v / 100;
        return v <= LIMIT_MAX ? 0 : -1;
    }
    out->absolute = 1;
    out->limit = v;
    if (!*unit) return 0;
    for (size_t i = 0; i < SONDE_COUNT(units); i++) {
        if (strcmp(units[i].name, unit) != 0) continue;
        out->limit = v * units[i].factor;
        out->kind = units[i].kind;
        return 0;
    }
    return -1;
}

int sonde_fail_on_parse(const char *text, struct sonde_fail_on *out, struct sonde_err *err)
{
    assert(text && out);
    struct sonde_fail_on f = { .text = text };
    /* The last one: names of functions hold them too ("operator<", "Map<int>"). */
    const char *op = NULL;
    for (const char *s = text; *s; s++) {
        if (*s == '<' || *s == '>') op = s;
    }
    if (!op) return compare_fail_bad(err, text, "has neither > nor <");
    f.sign = *op == '>' ? 1 : -1;
    const size_t before = (size_t)(op - text);
    const char *colon = memchr(text, ':', before);
    const size_t name = colon ? (size_t)(colon - text) : before;
    if (copy_trimmed(f.measure, sizeof(f.measure), text, name) || !*f.measure) {
        return compare_fail_bad(err, text, "does not start with the name of a figure");
    }
    if (colon && (copy_trimmed(f.glob, sizeof(f.glob), colon + 1, before - name - 1) || !*f.glob)) {
        return compare_fail_bad(err, text, "has no name, or too long a one, after the colon");
    }
    if (sonde_fail_on_limit(op + 1, &f)) {
        return compare_fail_bad(
            err, text, "does not end in a number of per cent, or one with a unit that there is");
    }
    for (size_t k = 0; k < SONDE_COUNT(aliases); k++) {
        if (!strcmp(aliases[k].alias, f.measure)) strcpy(f.measure, aliases[k].measure);
    }
    size_t i = 0;
    while (i < MEASURES && strcmp(measures[i].measure, f.measure) != 0) i++;
    if (i == MEASURES) return unknown_measure(err, text, f.measure);
    if (measures[i].named == ALWAYS && !*f.glob) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.100s': %s of what? Say %s:NAME, or "
                             "%s:* for any", text, f.measure, f.measure, f.measure);
    }
    if (measures[i].named == NEVER && *f.glob) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.100s': %s has no name", text,
                             f.measure);
    }
    if (unit_missing(&f, measures[i].kind)) return no_unit(err, &f, measures[i].kind);
    *out = f;
    return 0;
}

/* How much it moved in the direction that is watched; what was nothing before has grown without
 * bounds. */
static double compare_fail_moved(const struct sonde_fail_on *f,
                                 const struct sonde_compare_measure *g)
{
    if (isnan(g->d.relative)) return g->d.change * f->sign > 0 ? INFINITY : 0;
    return g->d.relative * f->sign;
}

int sonde_fail_on_matches(const struct sonde_fail_on *f, const struct sonde_compare_measure *g)
{
    if (strcmp(g->measure, f->measure) != 0) return 0;
    return *f->glob ? *g->subject && !fnmatch(f->glob, g->subject, 0) : !*g->subject;
}

double sonde_fail_on_excess(const struct sonde_fail_on *f, const struct sonde_compare_measure *g,
                            int unknown_ok)
{
    if (f->absolute) return (g->after - f->limit) * f->sign;
    if (g->verdict == SONDE_VERDICT_UNKNOWN) return unknown_ok ? 0 : DBL_MIN;
    return sonde_compare_measure_changed(g) ? compare_fail_moved(f, g) - f->limit : 0;
}

int sonde_fail_on_check(const struct sonde_fail_on *f, const struct sonde_comparison *c,
                        int unknown_ok, const struct sonde_compare_measure **out,
                        struct sonde_err *err)
{
    assert(f->text && *f->measure && out);
    const struct sonde_compare_measure *worst = NULL;
    size_t seen = 0, named = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *g = &c->figures[i];
        if (strcmp(g->measure, f->measure) != 0) continue;
        named += *g->subject != '\0';
        if (!sonde_fail_on_matches(f, g)) continue;
        if (f->kind && strncmp(g->unit, f->kind, strlen(f->kind)) != 0) {
            return sonde_err_set(err, SONDE_EINVAL, "'%.100s': %s is measured in %s, not "
                                 "in %s", f->text, f->measure, g->unit, f->kind);
        }
        if (unit_missing(f, g->unit)) return no_unit(err, f, g->unit);
        seen++;
        const double by = sonde_fail_on_excess(f, g, unknown_ok);
        if (by > 0 && (!worst || by > sonde_fail_on_excess(f, worst, unknown_ok))) worst = g;
    }
    if (!seen) return no_figure(err, f, named && !*f->glob);
    if (!worst) return 0;
    *out = worst;
    return 1;
}
