/* subject.c - see subject.h. */
#include "alert/subject.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "sonde/sonde.h"

enum { LABEL_BYTES_MAX = 4096, /* of all names and values of an alert */
       LABEL_TEXT_MAX = 500 };  /* of one; longer ones are left out */

int alert_kind_ok(const char *kind)
{
    const size_t len = kind ? strlen(kind) : 0;
    if (!len || len > SONDE_ALERT_KIND_MAX) return 0;
    for (const char *c = kind; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("_.:-", *c)) return 0;
    }
    return 1;
}

void alert_text_copy(char *out, size_t out_size, const char *text)
{
    int changed = 0;
    out[sonde__utf8_copy(out, out_size - 1, text, strlen(text), &changed)] = '\0';
}

void alert_time_text(double unix_s, char out[32])
{
    const double s = unix_s > 0 && unix_s < 1e11 ? unix_s : 0;
    const time_t whole = (time_t)s;
    const unsigned ms = (unsigned)((s - (double)whole) * 1e3) % 1000;
    struct tm tm;
    char text[24];
    if (!gmtime_r(&whole, &tm)) memset(&tm, 0, sizeof(tm));
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, 32, "%.20s.%03uZ", text, ms);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static int alert_labels_order(const void *a, const void *b)
{
    const struct sonde_label *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int alert_label_ok(const char *text)
{
    const size_t len = strlen(text);
    return len <= LABEL_TEXT_MAX && sonde__utf8_valid(text, len);
}

int alert_labels_copy(struct alert_labels *out, const struct sonde_label *labels, size_t count)
{
    struct sonde_label sorted[SONDE_ALERT_LABELS_MAX];
    size_t n = 0, bytes = 0;
    *out = (struct alert_labels){ 0 };
    for (size_t i = 0; i < count && n < SONDE_ALERT_LABELS_MAX; i++) {
        const size_t more = strlen(labels[i].name) + strlen(labels[i].value) + 2;
        int skip = !alert_label_ok(labels[i].name) || !alert_label_ok(labels[i].value);
        for (size_t k = 0; k < n && !skip; k++) skip = !strcmp(sorted[k].name, labels[i].name);
        if (skip || bytes + more > LABEL_BYTES_MAX) continue;
        sorted[n++] = labels[i];
        bytes += more;
    }
    if (!n) return 0;
    qsort(sorted, n, sizeof(sorted[0]), alert_labels_order);
    out->at = sonde__alloc(n * sizeof(sorted[0]) + bytes);
    if (!out->at) return SONDE_ENOMEM;
    char *text = (char *)(out->at + n);
    for (size_t i = 0; i < n; i++) {
        const size_t name = strlen(sorted[i].name) + 1, value = strlen(sorted[i].value) + 1;
        memcpy(text, sorted[i].name, name);
        memcpy(text + name, sorted[i].value, value);
        out->at[i] = (struct sonde_label){ text, text + name };
        text += name + value;
    }
    out->count = n;
    return 0;
}

void alert_labels_release(struct alert_labels *l)
{
    sonde__free(l->at);
    *l = (struct alert_labels){ 0 };
}

const char *alert_label_value(const struct alert_labels *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++) {
        if (!strcmp(l->at[i].name, name)) return l->at[i].value;
    }
    return "";
}

/* ---- Subjects -------------------------------------------------------------------------------- */

void alert_subject_key(const char *kind, const char *key, const struct alert_labels *labels,
                       char out[ALERT_KEY_MAX])
{
    char text[ALERT_KEY_MAX];
    size_t n = (size_t)snprintf(text, sizeof(text), "%s|%s", kind, key ? key : "");
    for (size_t i = 0; i < labels->count && n < sizeof(text); i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "|%s=%s", labels->at[i].name,
                              labels->at[i].value);
    }
    alert_text_copy(out, ALERT_KEY_MAX, text); /* it may have been cut inside a character */
}

int alert_subject_copy(struct alert_subject *out, const struct alert_subject *from)
{
    struct alert_labels labels;
    const int rc = alert_labels_copy(&labels, from->labels.at, from->labels.count);
    if (rc) return rc;
    *out = *from;
    out->labels = labels;
    return 0;
}

void alert_subject_release(struct alert_subject *s) { alert_labels_release(&s->labels); }

static void alert_labels_state(struct sonde_state *s, struct alert_labels *l)
{
    uint64_t count = l->count;
    sonde_state_count(s, &count, SONDE_ALERT_LABELS_MAX);
    if (!sonde_state_loading(s)) {
        for (size_t i = 0; i < l->count; i++) {
            sonde_state_put_text(s, l->at[i].name);
            sonde_state_put_text(s, l->at[i].value);
        }
        return;
    }
    char text[SONDE_ALERT_LABELS_MAX * 2][LABEL_TEXT_MAX + 1];
    struct sonde_label read[SONDE_ALERT_LABELS_MAX];
    for (size_t i = 0; i < count && !s->bad; i++) {
        sonde_state_text(s, text[2 * i], sizeof(text[0]));
        sonde_state_text(s, text[2 * i + 1], sizeof(text[0]));
        read[i] = (struct sonde_label){ text[2 * i], text[2 * i + 1] };
    }
    if (!s->bad && alert_labels_copy(l, read, count) != 0) s->bad = 1;
}

void alert_subject_state(struct sonde_state *s, struct alert_subject *subject)
{
    sonde_state_u64(s, &subject->hash);
    sonde_state_text(s, subject->kind, sizeof(subject->kind));
    sonde_state_text(s, subject->summary, sizeof(subject->summary));
    sonde_state_text(s, subject->link, sizeof(subject->link));
    sonde_state_u32(s, &subject->severity);
    sonde_state_double(s, &subject->value);
    alert_labels_state(s, &subject->labels);
    if (subject->severity > SONDE_SEVERITY_CRITICAL) s->bad = 1;
    if (!alert_kind_ok(subject->kind)) s->bad = 1;
}
