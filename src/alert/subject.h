/* subject.h - what an alert and its notifications have in common: texts and numbers that are copied
 * from one to the other, shown, and kept in the state's file. */
#ifndef SONDE_ALERT_SUBJECT_H
#define SONDE_ALERT_SUBJECT_H

#include "alert/alert.h"
#include "base/state.h"

#define ALERT_KEY_MAX 2048 /* kind, key and labels as one text */

/* Owned copies; at most SONDE_ALERT_LABELS_MAX, ascending by name, without doubles. */
struct alert_labels {
    struct sonde_label *at;      /* the texts are in the same block */
    size_t count;
};

struct alert_subject {
    uint64_t hash;               /* of the key, with the host: names the alert */
    char kind[SONDE_ALERT_KIND_MAX + 1];
    char summary[SONDE_ALERT_SUMMARY_MAX + 1];
    char link[256];              /* "" = none */
    uint32_t severity;
    double value;                /* NAN = none */
    struct alert_labels labels;
};

int alert_labels_copy(struct alert_labels *out, const struct sonde_label *labels, size_t count);
void alert_labels_release(struct alert_labels *l);
const char *alert_label_value(const struct alert_labels *l, const char *name); /* "" = none */

/* `kind|key|name=value|…` cut to the buffer. */
void alert_subject_key(const char *kind, const char *key, const struct alert_labels *labels,
                       char out[ALERT_KEY_MAX]);
int alert_subject_copy(struct alert_subject *out, const struct alert_subject *from);
void alert_subject_release(struct alert_subject *s);
/* Either way (base/state.h); sets s->bad for what cannot be. Loading: *subject is empty before, and
 * to be released whatever happens. */
void alert_subject_state(struct sonde_state *s, struct alert_subject *subject);

/* 1 = may be a kind or a rule's name. */
int alert_kind_ok(const char *kind);
/* Cut to fit, never inside a character; what is not UTF-8 becomes U+FFFD. Not in place. */
void alert_text_copy(char *out, size_t out_size, const char *text);
/* RFC 3339 in UTC with milliseconds: 2026-11-18T00:10:12.345Z. */
void alert_time_text(double unix_s, char out[32]);

#endif
