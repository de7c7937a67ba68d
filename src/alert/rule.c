/* rule.c - rules as they are written. rule_look.c has what they find. */
#include "alert/rule.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/names.h"
#include "sonde/sonde.h"

#define WINDOW_DEFAULT_S 60.0
#define COUNT_DEFAULT 20.0

static const char *const rule_functions[] = { "last", "avg", "min", "max", "p50", "p90",
                                              "p95", "p99", "rate", "increase", "ratio" };

const char *alert_function_name(uint32_t f) { return SONDE_NAME_OF(rule_functions, f); }

static void rule_which_release(struct alert_which *w)
{
    sonde__free(w->series);
    alert_labels_release(&w->labels);
}

static void rule_release(struct alert_rule *r)
{
    rule_which_release(&r->of);
    rule_which_release(&r->per);
    for (size_t i = 0; i < r->by_count; i++) sonde__free(r->by[i]);
}

void alert_rules_release(struct alert_rules *r)
{
    for (size_t i = 0; i < r->count; i++) rule_release(&r->at[i]);
    sonde__free(r->at);
    *r = (struct alert_rules){ 0 };
}

const struct alert_rule *alert_rules_find(const struct alert_rules *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++) {
        if (!strcmp(r->at[i].name, name)) return &r->at[i];
    }
    return NULL;
}

/* ---- Members --------------------------------------------------------------------------------- */

static int rule_number(const json_t *v, const char *key, double min, double max, double *out,
                       struct sonde_err *err)
{
    const double n = json_number_value(v);
    if (!json_is_number(v) || !(n >= min && n <= max)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"%s\" is not a number from %g to %g", key, min,
                             max);
    }
    *out = n;
    return 0;
}

static int rule_labels(const json_t *v, struct alert_labels *out, struct sonde_err *err)
{
    struct sonde_label labels[ALERT_RULE_LABELS_MAX];
    size_t n = 0;
    const char *name;
    json_t *glob;
    if (!json_is_object(v) || json_object_size(v) > ALERT_RULE_LABELS_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "\"labels\" is not an object of at most %d globs",
                             ALERT_RULE_LABELS_MAX);
    }
    json_object_foreach((json_t *)(uintptr_t)v, name, glob) {
        const char *text = json_string_value(glob);
        if (!text || strlen(text) > 200) {
            return sonde_err_set(err, SONDE_EINVAL, "\"labels\": '%.80s' is not a glob of at most "
                                 "200 bytes", name);
        }
        labels[n++] = (struct sonde_label){ name, text };
    }
    alert_labels_release(out);
    return alert_labels_copy(out, labels, n) ? sonde_err_memory(err) : 0;
}

static int rule_series(const json_t *v, struct alert_which *out, struct sonde_err *err)
{
    const char *text = json_string_value(v);
    if (!text || !*text || strlen(text) > 200) {
        return sonde_err_set(err, SONDE_EINVAL, "\"series\" is not the name of a series, or a "
                             "glob, of at most 200 bytes");
    }
    out->glob = strpbrk(text, "*?[|") != NULL;
    sonde__free(out->series);
    out->series = sonde__strdup(text);
    return out->series ? 0 : sonde_err_memory(err);
}

static int rule_per(const json_t *v, struct alert_which *out, struct sonde_err *err)
{
    const char *key;
    json_t *member;
    int rc = 0;
    if (!json_is_object(v) || !json_object_get(v, "series")) {
        return sonde_err_set(err, SONDE_EINVAL, "\"per\" is not an object with \"series\"");
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, member) {
        if (rc) break;
        if (!strcmp(key, "series")) rc = rule_series(member, out, err);
        else if (!strcmp(key, "labels")) rc = rule_labels(member, &out->labels, err);
        else rc = sonde_err_set(err, SONDE_EINVAL, "\"per\": \"%.40s\" is unknown", key);
    }
    return rc;
}

static int rule_by(const json_t *v, struct alert_rule *r, struct sonde_err *err)
{
    if (!json_is_array(v) || json_array_size(v) > ALERT_RULE_BY_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "\"by\" is not an array of at most %d names of "
                             "labels", ALERT_RULE_BY_MAX);
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));
        if (!name || !*name || strlen(name) > 200) {
            return sonde_err_set(err, SONDE_EINVAL, "\"by\": number %zu is not the name of a label",
                                 i + 1);
        }
        r->by[r->by_count] = sonde__strdup(name);
        if (!r->by[r->by_count]) return sonde_err_memory(err);
        r->by_count++;
    }
    return 0;
}

static int rule_words(struct alert_rule *r, const char *key, const json_t *v, struct sonde_err *err)
{
    const char *text = json_string_value(v);
    if (!strcmp(key, "name")) {
        if (!alert_kind_ok(text)) {
            return sonde_err_set(err, SONDE_EINVAL, "\"name\" is not 1 to %d letters, digits and "
                                 "_.:-", SONDE_ALERT_KIND_MAX);
        }
        memcpy(r->name, text, strlen(text) + 1);
    } else if (!strcmp(key, "severity")) {
        const int s = text ? sonde_severity_find(text) : -1;
        if (s < 0) {
            return sonde_err_set(err, SONDE_EINVAL, "\"severity\" is not one of info, warning, "
                                 "critical");
        }
        r->severity = (enum sonde_severity)s;
    } else {
        assert(!strcmp(key, "function"));
        const int f = text ? SONDE_NAME_FIND(rule_functions, text) : -1;
        if (f < 0 || f == ALERT_RATIO) {
            return sonde_err_set(err, SONDE_EINVAL, "\"function\" is not one of last, avg, min, "
                                 "max, p50, p90, p95, p99, rate, increase");
        }
        r->function = (enum alert_function)f;
    }
    return 0;
}

static int rule_member(struct alert_rule *r, const char *key, const json_t *v,
                       struct sonde_err *err)
{
    if (!strcmp(key, "name") || !strcmp(key, "severity") || !strcmp(key, "function")) {
        return rule_words(r, key, v, err);
    }
    if (!strcmp(key, "series")) return rule_series(v, &r->of, err);
    if (!strcmp(key, "labels")) return rule_labels(v, &r->of.labels, err);
    if (!strcmp(key, "per")) return rule_per(v, &r->per, err);
    if (!strcmp(key, "by")) return rule_by(v, r, err);
    const struct { const char *key; double min, max, *out; } numbers[] = {
        { "window_seconds", 0.001, 3600, &r->window_s }, { "above", -1e300, 1e300, &r->above },
        { "below", -1e300, 1e300, &r->below },           { "clear", -1e300, 1e300, &r->clear },
        { "for_seconds", 0, 86400, &r->for_s },          { "keep_seconds", 0, 86400, &r->keep_s },
        { "min_count", 0, 1e15, &r->count_min },
    };
    for (size_t i = 0; i < SONDE_COUNT(numbers); i++) {
        if (strcmp(key, numbers[i].key)) continue;
        return rule_number(v, key, numbers[i].min, numbers[i].max, numbers[i].out, err);
    }
    return sonde_err_set(err, SONDE_EINVAL, "\"%.40s\" is unknown; a rule has name, series, "
                         "labels, function, window_seconds, above, below, clear, for_seconds, "
                         "keep_seconds, per, by, min_count and severity", key);
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static int rule_check(const struct alert_rule *r, const json_t *json, struct sonde_err *err)
{
    if (!r->name[0]) return sonde_err_set(err, SONDE_EINVAL, "\"name\" is missing");
    if (!r->of.series) return sonde_err_set(err, SONDE_EINVAL, "\"series\" is missing");
    if (isnan(r->above) && isnan(r->below)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"above\" or \"below\" is missing");
    }
    if (!isnan(r->above) && !isnan(r->below) && !(r->below < r->above)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"below\" is not less than \"above\"");
    }
    if (!isnan(r->clear) && !isnan(r->above) && !isnan(r->below)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"clear\" needs one limit, not both");
    }
    if ((!isnan(r->clear) && !isnan(r->above) && r->clear > r->above) ||
        (!isnan(r->clear) && !isnan(r->below) && r->clear < r->below)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"clear\" is on the wrong side of the limit");
    }
    if (r->per.series && json_object_get(json, "function")) {
        return sonde_err_set(err, SONDE_EINVAL, "\"function\" and \"per\" exclude each other");
    }
    if (!r->per.series && (json_object_get(json, "by") || json_object_get(json, "min_count"))) {
        return sonde_err_set(err, SONDE_EINVAL, "\"by\" and \"min_count\" need \"per\"");
    }
    return 0;
}

static int rule_read(const json_t *json, struct alert_rule *r, struct sonde_err *err)
{
    const char *key;
    json_t *v;
    int rc = 0;
    if (!json_is_object(json)) return sonde_err_set(err, SONDE_EINVAL, "not an object");
    json_object_foreach((json_t *)(uintptr_t)json, key, v) {
        if (!rc) rc = rule_member(r, key, v, err);
    }
    if (!rc) rc = rule_check(r, json, err);
    if (r->per.series) r->function = ALERT_RATIO;
    return rc;
}

static int alert_rules_add(struct alert_rules *rules, const json_t *json,
                           const struct alert_rule_defaults *d, struct sonde_err *err)
{
    struct alert_rule r = { .window_s = WINDOW_DEFAULT_S, .above = NAN, .below = NAN, .clear = NAN,
                            .for_s = d->for_s, .keep_s = d->keep_s, .count_min = COUNT_DEFAULT,
                            .severity = SONDE_SEVERITY_WARNING, .value = NAN };
    int rc = rule_read(json, &r, err);
    if (!rc && alert_rules_find(rules, r.name)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "there is a rule '%s' already", r.name);
    }
    if (!rc && rules->count >= ALERT_RULES_MAX) {
        rc = sonde_err_set(err, SONDE_EINVAL, "more than %d rules", ALERT_RULES_MAX);
    }
    if (!rc && SONDE_ARRAY_ROOM(rules->at, rules->count, rules->cap) != 0) {
        rc = sonde_err_memory(err);
    }
    if (rc) rule_release(&r);
    else rules->at[rules->count++] = r;
    return rc;
}

int alert_rules_parse(struct alert_rules *rules, const char *text,
                      const struct alert_rule_defaults *d, struct sonde_err *err)
{
    struct sonde_err why = { "" };
    json_error_t problem;
    if (!text || !*text) return 0;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    int rc = 0;
    if (!json_is_array(json)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "alerts.rules is not a JSON array%s%s",
                           json ? "" : ": ", json ? "" : problem.text);
    }
    for (size_t i = 0; !rc && i < json_array_size(json); i++) {
        const json_t *one = json_array_get(json, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        rc = alert_rules_add(rules, one, d, &why);
        if (rc) {
            sonde_err_set(err, rc, "alerts.rules, number %zu%s%.80s%s: %s", i + 1,
                          name ? " (" : "", name ? name : "", name ? ")" : "", why.text);
        }
    }
    json_decref(json);
    return rc;
}
