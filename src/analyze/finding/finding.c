/* finding.c - see finding.h: the list of findings, what explains what, and in which order they are
 * told. */
#include "analyze/finding/finding.h"

#include <assert.h>
#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/finding/rule.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum { LIMIT_DEFAULT = 20, TEXT_MAX = 1000 };
#define SHARE_MIN 0.05
#define SECONDS_MIN 0.01

#define SONDE_FINDING_RULE(id) extern const struct finding_rule finding_rule_##id;
#include "analyze/finding/rule_list.h"
#undef SONDE_FINDING_RULE

static const struct finding_rule *const rules[] = {
#define SONDE_FINDING_RULE(id) &finding_rule_##id,
#include "analyze/finding/rule_list.h"
#undef SONDE_FINDING_RULE
};

const char *sonde_evidence_type_name(enum sonde_evidence_type t)
{
    static const char *const names[] = {
#define SONDE__X(id, name) name,
        SONDE_EVIDENCE_TYPES(SONDE__X)
#undef SONDE__X
    };
    assert((size_t)t < SONDE_COUNT(names));
    return names[t];
}

const char *sonde_finding_kind(size_t i, const char **title, const char **summary)
{
    if (i >= SONDE_COUNT(rules)) return NULL;
    if (title) *title = rules[i]->title;
    if (summary) *summary = rules[i]->summary;
    return rules[i]->kind;
}

int sonde_finding_kind_known(const char *kind)
{
    for (size_t i = 0; i < SONDE_COUNT(rules); i++) {
        if (!strcmp(rules[i]->kind, kind)) return 1;
    }
    return 0;
}

/* The pattern at *at as kind and glob ("" = any subject), and *at behind it; 0 = there is none. */
static int finding_next_mute(const char **at, char kind[64], char glob[256])
{
    const char *from = *at + strspn(*at, " ,");
    const size_t len = strcspn(from, ","), kind_len = strcspn(from, ":,");
    *at = from + len;
    if (!len) return 0;
    snprintf(kind, 64, "%.*s", (int)kind_len, from);
    snprintf(glob, 256, "%.*s", kind_len < len ? (int)(len - kind_len - 1) : 0,
             from + kind_len + (kind_len < len));
    return 1;
}

int sonde_finding_is_muted(const char *muted, const char *kind, const char *subject)
{
    char its_kind[64], glob[256];
    while (muted && finding_next_mute(&muted, its_kind, glob)) {
        if (strcmp(its_kind, kind) != 0) continue;
        if (!*glob || fnmatch(glob, subject, 0) == 0) return 1;
    }
    return 0;
}

int sonde_finding_mute_check(const char *muted, struct sonde_err *err)
{
    char kind[64], glob[256];
    while (muted && finding_next_mute(&muted, kind, glob)) {
        if (sonde_finding_kind_known(kind)) continue;
        return sonde_err_set(err, SONDE_EINVAL,
                             "there is no kind of finding called '%s'; `sonde findings --kinds` "
                             "lists them",
                             kind);
    }
    return 0;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

static void finding_release(struct sonde_finding *f)
{
    sonde__free(f->subject);
    sonde__free(f->file);
    sonde__free(f->text);
    sonde__free(f->advice);
    for (uint32_t i = 0; i < f->evidence_count; i++) {
        sonde__free(f->evidence[i].subject);
        sonde__free(f->evidence[i].labels);
        sonde__free(f->evidence[i].file);
    }
    *f = (struct sonde_finding){ .kind = "" };
}

void sonde_findings_destroy(struct sonde_findings *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->count; i++) finding_release(&f->rows[i]);
    for (size_t i = 0; i < f->note_count; i++) sonde__free(f->notes[i]);
    sonde__free(f->rows);
    sonde__free(f);
}

/* *to becomes a copy of text, which may be NULL. */
static void finding_put_text(struct finding_look *l, char **to, const char *text)
{
    char *copy = sonde__strdup(text ? text : "");
    if (!copy) l->rc = SONDE_ENOMEM;
    sonde__free(*to);
    *to = copy;
}

struct sonde_finding *finding_add(struct finding_look *l, enum sonde_severity severity,
                                  double impact)
{
    struct sonde_findings *all = l->out;
    struct sonde_finding *f = SONDE_ARRAY_ADD(all->rows, all->count, all->cap);
    if (!f) {
        l->rc = SONDE_ENOMEM;
        f = &l->spare;
        finding_release(f);
    }
    assert(impact >= 0);
    *f = (struct sonde_finding){
        .kind = l->rule->kind, .title = l->rule->title, .severity = severity,
        .impact = fmin(impact, 1), .confidence = 1, .share = NAN, .seconds = NAN, .bytes = NAN,
        .count = NAN, .avg_s = NAN, .gain = NAN, .gain_of = "",
        .since_ns = l->p->start_ns, .until_ns = l->p->end_ns,
    };
    finding_subject(l, f, "", "", 0);
    finding_put_text(l, &f->text, "");
    finding_put_text(l, &f->advice, "");
    return f;
}

void finding_subject(struct finding_look *l, struct sonde_finding *f, const char *subject,
                     const char *file, uint32_t line)
{
    finding_put_text(l, &f->subject, subject);
    finding_put_text(l, &f->file, file);
    f->line = line;
}

__attribute__((format(printf, 3, 0))) static void
finding_print(struct finding_look *l, char **to, const char *format, va_list args)
{
    char text[TEXT_MAX];
    vsnprintf(text, sizeof(text), format, args);
    finding_put_text(l, to, text);
}

void finding_text(struct finding_look *l, struct sonde_finding *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    finding_print(l, &f->text, format, args);
    va_end(args);
}

void finding_advise(struct finding_look *l, struct sonde_finding *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    finding_print(l, &f->advice, format, args);
    va_end(args);
}

void finding_prove(struct finding_look *l, struct sonde_finding *f, const struct sonde_evidence *e)
{
    if (f->evidence_count == SONDE_EVIDENCE_MAX) return;
    struct sonde_evidence copy = *e;
    copy.subject = copy.labels = copy.file = NULL;
    finding_put_text(l, &copy.subject, e->subject);
    finding_put_text(l, &copy.labels, e->labels);
    finding_put_text(l, &copy.file, e->file);
    if (!copy.unit) copy.unit = "";
    if (!copy.what) copy.what = "";
    f->evidence[f->evidence_count++] = copy;
}

void finding_prove_function(struct finding_look *l, struct sonde_finding *f,
                            const struct sonde_flat *row, const char *what)
{
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_FUNCTION, .subject = (char *)(uintptr_t)row->name,
        .file = (char *)(uintptr_t)row->file, .line = row->line,
        .value = (double)row->self * 1e-9, .unit = "seconds", .what = what });
}

void finding_note(struct finding_look *l, const char *format, ...)
{
    struct sonde_findings *all = l->out;
    va_list args;
    if (all->note_count == SONDE_FINDING_NOTES_MAX) return;
    all->notes[all->note_count] = NULL;
    va_start(args, format);
    finding_print(l, &all->notes[all->note_count], format, args);
    va_end(args);
    if (all->notes[all->note_count]) all->note_count++;
}

/* ---- What explains what, and the order ------------------------------------------------------- */

static int finding_compare(const void *x, const void *y)
{
    const struct sonde_finding *a = x, *b = y;
    if (a->severity != b->severity) return SONDE_CMP(b->severity, a->severity);
    if (a->impact != b->impact) return SONDE_CMP(b->impact, a->impact);
    if (strcmp(a->kind, b->kind) != 0) return strcmp(a->kind, b->kind);
    return strcmp(a->subject, b->subject);
}

/* 1 if kind is among the words of list. */
static int finding_has_word(const char *list, const char *kind)
{
    const size_t len = strlen(kind);
    for (const char *at = list; at && (at = strstr(at, kind)); at += len) {
        if ((at == list || at[-1] == ' ') && (at[len] == ' ' || !at[len])) return 1;
    }
    return 0;
}

static const struct finding_rule *finding_rule_of(const char *kind)
{
    for (size_t i = 0; i < SONDE_COUNT(rules); i++) {
        if (rules[i]->kind == kind) return rules[i];
    }
    return NULL;
}

/* Rows are in order: the first that explains another is the weightiest that does. What is only
 * worth knowing explains nothing that is worth acting on. */
static void finding_explain(struct sonde_findings *all)
{
    for (size_t i = 0; i < all->count; i++) {
        for (size_t k = 0; k < all->count && !all->rows[i].cause; k++) {
            const struct finding_rule *r = finding_rule_of(all->rows[k].kind);
            if (k == i || all->rows[k].cause || !r) continue;
            if (all->rows[k].severity < all->rows[i].severity &&
                all->rows[k].severity == SONDE_SEVERITY_INFO) {
                continue;
            }
            if (r->explains_one && !r->explains_one(&all->rows[i])) continue;
            if (finding_has_word(r->explains, all->rows[i].kind) ||
                finding_has_word(all->rows[k].explains, all->rows[i].kind)) {
                all->rows[i].cause = (uint32_t)k + 1;
            }
        }
    }
}

/* Causes before symptoms, each in the order that they have; symptoms point to where their cause is
 * then. A symptom of a symptom is one of that one's cause. */
static int finding_causes_first(struct sonde_findings *all)
{
    uint32_t *now = sonde__calloc(all->count ? all->count : 1, sizeof(*now));
    struct sonde_finding *rows = sonde__calloc(all->count ? all->count : 1, sizeof(*rows));
    if (!now || !rows) {
        sonde__free(now);
        sonde__free(rows);
        return SONDE_ENOMEM;
    }
    size_t n = 0;
    for (int symptoms = 0; symptoms < 2; symptoms++) {
        for (size_t i = 0; i < all->count; i++) {
            if (!!all->rows[i].cause != symptoms) continue;
            now[i] = (uint32_t)n;
            rows[n++] = all->rows[i];
        }
        if (!symptoms) all->causes = n;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t cause = rows[i].cause;
        for (size_t steps = 0; cause && all->rows[cause - 1].cause && steps < n; steps++) {
            cause = all->rows[cause - 1].cause;
        }
        if (cause) rows[i].cause = now[cause - 1] + 1;
    }
    if (n) memcpy(all->rows, rows, n * sizeof(*rows));
    sonde__free(now);
    sonde__free(rows);
    return 0;
}

static void finding_mute(struct finding_look *l)
{
    struct sonde_findings *all = l->out;
    size_t n = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (sonde_finding_is_muted(l->o.muted, all->rows[i].kind, all->rows[i].subject)) {
            finding_release(&all->rows[i]);
            all->muted++;
        } else {
            all->rows[n++] = all->rows[i];
        }
    }
    all->count = n;
}

int sonde_findings_look(const struct sonde_profile *p, const struct sonde_finding_options *o,
                        struct sonde_findings **out)
{
    struct finding_look l = { .p = p, .o = *o, .spare = { .kind = "" } };
    if (!l.o.limit) l.o.limit = LIMIT_DEFAULT;
    if (!(l.o.share_min > 0)) l.o.share_min = SHARE_MIN;
    if (!(l.o.seconds_min > 0)) l.o.seconds_min = SECONDS_MIN;
    l.out = sonde__calloc(1, sizeof(*l.out));
    l.rc = l.out ? finding_look_init(&l) : SONDE_ENOMEM;
    for (size_t i = 0; !l.rc && i < SONDE_COUNT(rules); i++) {
        l.rule = rules[i];
        rules[i]->look(&l);
    }
    finding_look_release(&l);
    finding_release(&l.spare);
    if (!l.rc) {
        finding_mute(&l);
        if (l.out->count) {
            qsort(l.out->rows, l.out->count, sizeof(*l.out->rows), finding_compare);
        }
        finding_explain(l.out);
        l.rc = finding_causes_first(l.out);
    }
    if (l.rc) {
        sonde_findings_destroy(l.out);
        return l.rc;
    }
    *out = l.out;
    return 0;
}
