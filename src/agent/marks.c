/* marks.c - see marks.h. In the store a mark is a finding without a conclusion: severity info, and
 * its value is how long it lasts. */
#include "agent/marks.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "sonde/sonde.h"

struct kept_mark { uint64_t id; double time_s, end_s; char *text; };

struct sonde_marks {
    const struct sonde_store_ops *ops;
    struct sonde_store *store;       /* NULL: those below are all there are */
    struct sonde_lock lock;            /* innermost */
    struct kept_mark list[SONDE_MARKS_MAX]; /* in the order they were made */
    size_t count;
    uint64_t last_id;
};

int sonde_marks_create(const struct sonde_store_ops *ops, struct sonde_store *store,
                       struct sonde_marks **out)
{
    assert(out && (!store || ops));
    struct sonde_marks *m = sonde__calloc(1, sizeof(*m));
    if (!m) return SONDE_ENOMEM;
    m->ops = ops;
    m->store = store && ops->finding_put ? store : NULL;
    sonde_lock_init(&m->lock, SONDE_RANK_MARKS);
    *out = m;
    return 0;
}

void sonde_marks_destroy(struct sonde_marks *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->count; i++) sonde__free(m->list[i].text);
    sonde_lock_destroy(&m->lock);
    sonde__free(m);
}

/* ---- One more, one less ---------------------------------------------------------------------- */

static void mark_remove_at(struct sonde_marks *m, size_t at)
{
    assert(at < m->count);
    sonde__free(m->list[at].text);
    m->count--;
    memmove(&m->list[at], &m->list[at + 1], (m->count - at) * sizeof(m->list[0]));
}

static int mark_keep(struct sonde_marks *m, const struct sonde_mark *mark, uint64_t *id)
{
    char *text = sonde__strdup(mark->text);
    if (!text) return SONDE_ENOMEM;
    sonde_lock(&m->lock);
    if (m->count == SONDE_MARKS_MAX) mark_remove_at(m, 0);
    *id = ++m->last_id;
    m->list[m->count++] = (struct kept_mark){ *id, mark->time_s, mark->end_s, text };
    sonde_unlock(&m->lock);
    return 0;
}

int sonde_marks_add(struct sonde_marks *m, const struct sonde_mark *mark, uint64_t *id,
                    struct sonde_err *err)
{
    if (!mark->text || !*mark->text) {
        return sonde_err_set(err, SONDE_EINVAL, "\"text\" is missing: what should the mark say?");
    }
    if (mark->end_s > 0 && mark->end_s < mark->time_s) {
        return sonde_err_set(err, SONDE_EINVAL, "\"end\" is before \"time\"");
    }
    if (m->store) {
        const struct sonde_store_finding f = {
            .time_s = mark->time_s, .kind = SONDE_MARK_KIND, .severity = SONDE_SEVERITY_INFO,
            .value = mark->end_s > 0 ? mark->end_s - mark->time_s : NAN, .unit = "s",
            .text = mark->text,
        };
        return m->ops->finding_put(m->store, &f, id, err);
    }
    const int rc = mark_keep(m, mark, id);
    return rc ? sonde_err_set(err, rc, "no memory for the mark") : 0;
}

int sonde_marks_delete(struct sonde_marks *m, uint64_t id, struct sonde_err *err)
{
    int rc = SONDE_ENOENT;
    if (m->store) return m->ops->finding_delete(m->store, id, SONDE_MARK_KIND, err);
    sonde_lock(&m->lock);
    for (size_t i = 0; i < m->count && rc; i++) {
        if (m->list[i].id != id) continue;
        mark_remove_at(m, i);
        rc = 0;
    }
    sonde_unlock(&m->lock);
    return rc ? sonde_err_set(err, rc, "there is no mark %llu", (unsigned long long)id) : 0;
}

/* ---- All of a time --------------------------------------------------------------------------- */

struct stored_marks {
    double from_s;
    int (*row)(const struct sonde_mark *mark, void *arg);
    void *arg;
};

/* 1 if it lasts to from_s, or is a moment from there on. */
static int mark_reaches(const struct sonde_mark *mark, double from_s)
{
    return mark->time_s >= from_s || mark->end_s >= from_s;
}

static int stored_mark(const struct sonde_store_finding *f, void *arg)
{
    const struct stored_marks *s = arg;
    const struct sonde_mark mark = { f->id, f->time_s, f->value > 0 ? f->time_s + f->value : 0,
                                     f->text };
    return mark_reaches(&mark, s->from_s) ? s->row(&mark, s->arg) : 0;
}

int sonde_marks_each(struct sonde_marks *m, const struct sonde_store_range *q,
                     int (*row)(const struct sonde_mark *mark, void *arg), void *arg,
                     struct sonde_err *err)
{
    if (m->store) {
        /* The store knows when they began, not how long they last. */
        const struct sonde_store_range begun = { .to_s = q->to_s, .kind = SONDE_MARK_KIND };
        struct stored_marks s = { q->from_s, row, arg };
        return m->ops->findings(m->store, &begun, stored_mark, &s, err);
    }
    int enough = 0;
    sonde_lock(&m->lock);
    for (size_t i = m->count; i-- > 0 && !enough;) {
        const struct kept_mark *k = &m->list[i];
        const struct sonde_mark mark = { k->id, k->time_s, k->end_s, k->text };
        if (!mark_reaches(&mark, q->from_s) || (q->to_s > 0 && k->time_s > q->to_s)) continue;
        enough = row(&mark, arg);
    }
    sonde_unlock(&m->lock);
    return 0;
}

/* ---- What is posted -------------------------------------------------------------------------- */

static int mark_time(const json_t *body, const char *key, double *out, struct sonde_err *err)
{
    const json_t *v = json_object_get(body, key);
    if (!v || json_is_null(v)) return 0;
    const double t = json_number_value(v);
    if (!json_is_number(v) || !(t > 0 && t < 1e11)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"%s\" is not a Unix time in seconds", key);
    }
    *out = t;
    return 0;
}

static int mark_members(const json_t *body, struct sonde_err *err)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)body, key, v) {
        if (strcmp(key, "text") && strcmp(key, "time") && strcmp(key, "end")) {
            return sonde_err_set(err, SONDE_EINVAL,
                                 "\"%.40s\" is unknown: a mark has text, time and end", key);
        }
    }
    return 0;
}

int sonde_mark_parse(const char *body, size_t len, double now_s, struct sonde_mark *out,
                     char text[SONDE_MARK_TEXT_MAX + 1], struct sonde_err *err)
{
    json_error_t problem;
    json_t *json = json_loadb(body, len, JSON_REJECT_DUPLICATES, &problem);
    const char *said = json_string_value(json_object_get(json, "text"));
    struct sonde_mark mark = { .time_s = now_s, .text = text };
    int rc = 0;
    if (!json_is_object(json)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "the body is not a JSON object like {\"text\": "
                           "\"deploy 42\"}");
    } else if (!said || !*said || strlen(said) > SONDE_MARK_TEXT_MAX) {
        rc = sonde_err_set(err, SONDE_EINVAL, "\"text\" is not a text of 1 to %d bytes",
                           SONDE_MARK_TEXT_MAX);
    }
    if (!rc) rc = mark_members(json, err);
    if (!rc) rc = mark_time(json, "time", &mark.time_s, err);
    if (!rc) rc = mark_time(json, "end", &mark.end_s, err);
    if (!rc) {
        strcpy(text, said);
        *out = mark;
    }
    json_decref(json);
    return rc;
}
