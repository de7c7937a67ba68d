/* mute.c - see mute.h. */
#include "alert/mute.h"

#include <assert.h>
#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

enum { FIXED_ID = 1000001 };

static void alert_mute_release(struct alert_mute *m) { alert_labels_release(&m->labels); }

void alert_mutes_release(struct alert_mutes *m)
{
    for (size_t i = 0; i < m->count; i++) alert_mute_release(&m->at[i]);
    sonde__free(m->at);
    *m = (struct alert_mutes){ 0 };
}

/* ---- Hours of a week ------------------------------------------------------------------------- */

static const char *const mute_days[] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };

static int mute_day_parse(const char **at)
{
    for (int i = 0; i < 7; i++) {
        if (!strncasecmp(*at, mute_days[i], 3)) {
            *at += 3;
            return i;
        }
    }
    return -1;
}

/* "Mon-Fri,Sun" */
static int mute_days_parse(const char **at, uint32_t *days)
{
    for (;;) {
        int day = mute_day_parse(at), last = day;
        if (day < 0) return -1;
        if (**at == '-') {
            ++*at;
            last = mute_day_parse(at);
            if (last < 0) return -1;
        }
        *days |= 1u << day;
        while (day != last) {
            day = (day + 1) % 7;
            *days |= 1u << day;
        }
        if (**at != ',') return 0;
        ++*at;
    }
}

/* "22:00", up to 24:00. */
static int mute_clock_parse(const char **at, uint32_t *minutes)
{
    unsigned h, m;
    int n = 0;
    if (sscanf(*at, "%2u:%2u%n", &h, &m, &n) != 2 || n < 4 || h > 24 || m > 59 ||
        (h == 24 && m)) {
        return -1;
    }
    *at += n;
    *minutes = h * 60 + m;
    return 0;
}

static void mute_blanks_skip(const char **at)
{
    while (**at == ' ') ++*at;
}

int alert_hours_parse(const char *text, struct alert_hours out[ALERT_MUTE_HOURS_MAX],
                      uint32_t *count, struct sonde_err *err)
{
    const char *at = text;
    *count = 0;
    for (;;) {
        struct alert_hours h = { 0, 0, 24 * 60 };
        mute_blanks_skip(&at);
        int bad = mute_days_parse(&at, &h.days) != 0;
        mute_blanks_skip(&at);
        if (!bad && *at && *at != ';') {
            bad = mute_clock_parse(&at, &h.from_min) != 0 || *at++ != '-' ||
                  mute_clock_parse(&at, &h.to_min) != 0 || h.from_min == 24 * 60;
            if (!bad) mute_blanks_skip(&at);
        }
        if (bad || (*at && *at != ';')) {
            return sonde_err_set(err, SONDE_EINVAL, "\"weekly\": '%.100s' is not days and hours "
                                 "such as \"Mon-Fri 22:00-06:00; Sat,Sun\"", text);
        }
        if (*count == ALERT_MUTE_HOURS_MAX) {
            return sonde_err_set(err, SONDE_EINVAL, "\"weekly\": more than %d parts",
                                 ALERT_MUTE_HOURS_MAX);
        }
        out[(*count)++] = h;
        if (!*at) return 0;
        at++;
    }
}

int alert_hours_has(const struct alert_hours *h, const struct tm *tm)
{
    const uint32_t now = (uint32_t)(tm->tm_hour * 60 + tm->tm_min);
    const uint32_t today = 1u << tm->tm_wday, yesterday = 1u << (tm->tm_wday + 6) % 7;
    if (h->from_min < h->to_min) {
        return (h->days & today) && now >= h->from_min && now < h->to_min;
    }
    return ((h->days & today) && now >= h->from_min) || ((h->days & yesterday) && now < h->to_min);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int mute_time(const json_t *v, const char *key, double *out, struct sonde_err *err)
{
    const double t = json_number_value(v);
    if (!json_is_number(v) || !(t > 0 && t < 1e11)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"%s\" is not a number of seconds above 0", key);
    }
    *out = t;
    return 0;
}

static int mute_labels_parse(const json_t *v, struct alert_mute *m, struct sonde_err *err)
{
    struct sonde_label labels[ALERT_MUTE_LABELS_MAX];
    size_t n = 0;
    const char *name;
    json_t *glob;
    if (!json_is_object(v)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"labels\" is not an object of globs");
    }
    json_object_foreach((json_t *)(uintptr_t)v, name, glob) {
        const char *text = json_string_value(glob);
        if (!text || strlen(text) > 200 || strlen(name) > 200) {
            return sonde_err_set(err, SONDE_EINVAL, "\"labels\": '%.80s' is not a glob of at most "
                                 "200 bytes", name);
        }
        if (n == ALERT_MUTE_LABELS_MAX) {
            return sonde_err_set(err, SONDE_EINVAL, "\"labels\": more than %d",
                                 ALERT_MUTE_LABELS_MAX);
        }
        labels[n++] = (struct sonde_label){ name, text };
    }
    return alert_labels_copy(&m->labels, labels, n) ? sonde_err_memory(err) : 0;
}

static int mute_member(struct alert_mute *m, const char *key, const json_t *v, double now_s,
                       struct sonde_err *err)
{
    const char *text = json_string_value(v);
    double seconds = 0;
    if (json_is_null(v)) return 0;
    if (!strcmp(key, "labels")) return mute_labels_parse(v, m, err);
    if (!strcmp(key, "from")) return mute_time(v, key, &m->from_s, err);
    if (!strcmp(key, "to")) return mute_time(v, key, &m->to_s, err);
    if (!strcmp(key, "seconds")) {
        const int rc = mute_time(v, key, &seconds, err);
        if (!rc) m->to_s = now_s + seconds;
        return rc;
    }
    if (!strcmp(key, "weekly") && text && strlen(text) < sizeof(m->weekly)) {
        memcpy(m->weekly, text, strlen(text) + 1);
        return alert_hours_parse(text, m->hours, &m->hour_count, err);
    }
    if (!strcmp(key, "comment") && text && strlen(text) < sizeof(m->comment)) {
        memcpy(m->comment, text, strlen(text) + 1);
        return 0;
    }
    if (!strcmp(key, "weekly") || !strcmp(key, "comment")) {
        return sonde_err_set(err, SONDE_EINVAL, "\"%s\" is not a text, or too long", key);
    }
    return sonde_err_set(err, SONDE_EINVAL, "\"%.40s\" is unknown: a mute has labels, from, to, "
                         "seconds, weekly and comment", key);
}

static int mute_read(const json_t *json, struct alert_mute *m, double now_s, struct sonde_err *err)
{
    const char *key;
    json_t *v;
    int rc = 0;
    if (!json_is_object(json)) {
        return sonde_err_set(err, SONDE_EINVAL, "not a JSON object such as {\"labels\": {\"kind\": "
                             "\"memory\"}, \"seconds\": 3600}");
    }
    json_object_foreach((json_t *)(uintptr_t)json, key, v) {
        if (!rc) rc = mute_member(m, key, v, now_s, err);
    }
    if (!rc && json_object_get(json, "to") && json_object_get(json, "seconds")) {
        rc = sonde_err_set(err, SONDE_EINVAL, "\"to\" and \"seconds\" say the same: give one");
    }
    if (!rc && m->to_s > 0 && m->from_s >= m->to_s) {
        rc = sonde_err_set(err, SONDE_EINVAL, "\"to\" is not after \"from\"");
    }
    return rc;
}

static int alert_mutes_take(struct alert_mutes *m, const json_t *json, double now_s, int fixed,
                            uint64_t *id, struct sonde_err *err)
{
    struct alert_mute mute = { .fixed = (uint32_t)fixed };
    int rc = mute_read(json, &mute, now_s, err);
    if (!rc && m->count >= ALERT_MUTES_MAX) {
        rc = sonde_err_set(err, SONDE_EFULL, "there are %d mutes: delete some first",
                           ALERT_MUTES_MAX);
    }
    if (!rc && SONDE_ARRAY_ROOM(m->at, m->count, m->cap) != 0) rc = sonde_err_memory(err);
    if (rc) {
        alert_mute_release(&mute);
        return rc;
    }
    /* Numbers of their own, so that a setting more does not take that of a mute that was kept. */
    mute.id = fixed ? FIXED_ID + m->count : ++m->last_id;
    m->at[m->count++] = mute;
    if (id) *id = mute.id;
    return 0;
}

int alert_mutes_add(struct alert_mutes *m, const char *body, size_t len, double now_s,
                    uint64_t *id, struct sonde_err *err)
{
    json_error_t problem;
    json_t *json = json_loadb(body, len, JSON_REJECT_DUPLICATES, &problem);
    const int rc = json ? alert_mutes_take(m, json, now_s, 0, id, err)
                        : sonde_err_set(err, SONDE_EINVAL, "the body is not JSON: %s",
                                        problem.text);
    json_decref(json);
    return rc;
}

int alert_mutes_parse(struct alert_mutes *m, const char *text, double now_s, struct sonde_err *err)
{
    struct sonde_err why = { "" };
    json_error_t problem;
    if (!text || !*text) return 0;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    int rc = json_is_array(json) ? 0 : sonde_err_set(err, SONDE_EINVAL,
                                                     "alerts.mute is not a JSON array");
    for (size_t i = 0; !rc && i < json_array_size(json); i++) {
        rc = alert_mutes_take(m, json_array_get(json, i), now_s, 1, NULL, &why);
        if (rc) sonde_err_set(err, rc, "alerts.mute, number %zu: %s", i + 1, why.text);
    }
    json_decref(json);
    return rc;
}

/* ---- Using them ------------------------------------------------------------------------------ */

static void alert_mutes_drop(struct alert_mutes *m, size_t at)
{
    alert_mute_release(&m->at[at]);
    m->count--;
    memmove(&m->at[at], &m->at[at + 1], (m->count - at) * sizeof(m->at[0]));
}

int alert_mutes_remove(struct alert_mutes *m, uint64_t id, struct sonde_err *err)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->at[i].id != id) continue;
        if (m->at[i].fixed) {
            return sonde_err_set(err, SONDE_EACCES, "mute %llu is of the setting alerts.mute: "
                                 "change it there", (unsigned long long)id);
        }
        alert_mutes_drop(m, i);
        return 0;
    }
    return sonde_err_set(err, SONDE_ENOENT, "there is no mute %llu", (unsigned long long)id);
}

int alert_mutes_tidy(struct alert_mutes *m, double now_s)
{
    int some = 0;
    for (size_t i = m->count; i-- > 0;) {
        if (!(m->at[i].to_s > 0 && m->at[i].to_s <= now_s) || m->at[i].fixed) continue;
        alert_mutes_drop(m, i);
        some = 1;
    }
    return some;
}

int alert_mute_now(const struct alert_mute *m, double now_s, const struct tm *local)
{
    if (now_s < m->from_s || (m->to_s > 0 && now_s >= m->to_s)) return 0;
    if (!m->hour_count) return 1;
    for (uint32_t i = 0; i < m->hour_count; i++) {
        if (alert_hours_has(&m->hours[i], local)) return 1;
    }
    return 0;
}

static int alert_mute_matches(const struct alert_mute *m, const struct alert_subject *what)
{
    for (size_t i = 0; i < m->labels.count; i++) {
        const char *name = m->labels.at[i].name;
        const char *value = !strcmp(name, "kind") ? what->kind
                            : !strcmp(name, "severity")
                                ? sonde_severity_name((enum sonde_severity)what->severity)
                                : alert_label_value(&what->labels, name);
        if (fnmatch(m->labels.at[i].value, value, 0) != 0) return 0;
    }
    return 1;
}

uint64_t alert_mutes_match(const struct alert_mutes *m, const struct alert_subject *what,
                           double now_s, const struct tm *local)
{
    for (size_t i = 0; i < m->count; i++) {
        if (alert_mute_now(&m->at[i], now_s, local) && alert_mute_matches(&m->at[i], what)) {
            return m->at[i].id;
        }
    }
    return 0;
}

/* ---- Kept ------------------------------------------------------------------------------------ */

/* As JSON, which is checked when it is read again as what is posted is. */
static void mute_save(struct sonde_state *s, const struct alert_mute *m)
{
    json_t *labels = json_object(), *json = json_object();
    for (size_t i = 0; i < m->labels.count; i++) {
        json_object_set_new(labels, m->labels.at[i].name, json_string(m->labels.at[i].value));
    }
    json_object_set_new(json, "labels", labels);
    if (m->from_s > 0) json_object_set_new(json, "from", json_real(m->from_s));
    if (m->to_s > 0) json_object_set_new(json, "to", json_real(m->to_s));
    if (m->hour_count) json_object_set_new(json, "weekly", json_string(m->weekly));
    json_object_set_new(json, "comment", json_string(m->comment));
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    uint64_t id = m->id;
    sonde_state_u64(s, &id);
    sonde_state_put_text(s, text ? text : "{}");
    if (text) free(text);
    json_decref(json);
}

static void mute_load(struct sonde_state *s, struct alert_mutes *m, double now_s)
{
    char text[ALERT_MUTE_LABELS_MAX * 1024];
    uint64_t id = 0, added = 0;
    struct sonde_err err;
    sonde_state_u64(s, &id);
    sonde_state_text(s, text, sizeof(text));
    if (s->bad || alert_mutes_add(m, text, strlen(text), now_s, &added, &err) != 0) return;
    m->at[m->count - 1].id = id;
    if (m->last_id < id) m->last_id = id;
}

void alert_mutes_state(struct sonde_state *s, struct alert_mutes *m)
{
    uint64_t count = 0;
    for (size_t i = 0; i < m->count; i++) count += !m->at[i].fixed;
    sonde_state_count(s, &count, ALERT_MUTES_MAX);
    if (sonde_state_loading(s)) {
        for (uint64_t i = 0; i < count && !s->bad; i++) mute_load(s, m, 0);
        return;
    }
    for (size_t i = 0; i < m->count; i++) {
        if (!m->at[i].fixed) mute_save(s, &m->at[i]);
    }
}
