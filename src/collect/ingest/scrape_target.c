/* scrape_target.c - what is to be scraped, out of the settings; every mistake is told by the number
 * of the target and the name of the key. */
#include <curl/curl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collect/ingest/ingest.h"
#include "collect/ingest/scrape.h"
#include "sonde/sonde.h"

enum { TEXT_MAX = 1024, INTERVAL_S_MAX = 86400 };

static void target_release(struct sonde_scrape_target *t)
{
    sonde__free(t->url);
    sonde__free(t->job);
    sonde__free(t->instance);
    sonde__free(t->token_file);
    for (size_t i = 0; i < t->label_count; i++) {
        sonde__free((char *)(uintptr_t)t->label[i].name);
        sonde__free((char *)(uintptr_t)t->label[i].value);
    }
    *t = (struct sonde_scrape_target){ 0 };
}

void sonde_scrape_targets_release(struct sonde_scrape_targets *t)
{
    for (size_t i = 0; i < t->count; i++) target_release(&t->at[i]);
    sonde__free(t->at);
    *t = (struct sonde_scrape_targets){ 0 };
}

static int scrape_target_no_memory(struct sonde_err *err)
{
    return sonde_err_set(err, SONDE_ENOMEM, "no memory for the targets to scrape");
}

/* host:port of a URL, which is checked by that; path /metrics if it has none. */
static int take_url(struct sonde_scrape_target *t, const char *url, size_t nth,
                    struct sonde_err *err)
{
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL, *path = NULL, *full = NULL;
    int rc = 0;
    if (!u) return scrape_target_no_memory(err);
    if (strlen(url) > TEXT_MAX || curl_url_set(u, CURLUPART_URL, url, 0) ||
        curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) ||
        curl_url_get(u, CURLUPART_HOST, &host, 0) ||
        (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "target %zu to scrape: \"%.200s\" is not a URL such "
                           "as http://127.0.0.1:9100/metrics", nth, url);
    } else if (curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) ||
               curl_url_get(u, CURLUPART_PATH, &path, 0) ||
               (strcmp(path, "/") == 0 && curl_url_set(u, CURLUPART_PATH, "/metrics", 0)) ||
               curl_url_get(u, CURLUPART_URL, &full, 0)) {
        rc = scrape_target_no_memory(err);
    } else {
        char where[TEXT_MAX + 32];
        snprintf(where, sizeof(where), "%s:%s", host, port);
        t->url = sonde__strdup(full);
        if (!t->instance) t->instance = sonde__strdup(where);
        if (!t->url || !t->instance) rc = scrape_target_no_memory(err);
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(path);
    curl_free(full);
    curl_url_cleanup(u);
    return rc;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static int bad_key(size_t nth, const char *key, const char *must, struct sonde_err *err)
{
    return sonde_err_set(err, SONDE_EINVAL, "target %zu to scrape: %.60s must be %s", nth,
                         key, must);
}

static int scrape_target_take_text(char **out, const json_t *v, size_t nth, const char *key,
                                   struct sonde_err *err)
{
    const char *text = json_string_value(v);
    if (!text || !*text || strlen(text) > TEXT_MAX) {
        return bad_key(nth, key, "a text of 1 to 1024 bytes", err);
    }
    sonde__free(*out);
    *out = sonde__strdup(text);
    return *out ? 0 : scrape_target_no_memory(err);
}

static int take_seconds(double *out, const json_t *v, size_t nth, const char *key,
                        struct sonde_err *err)
{
    const double s = json_number_value(v);
    if (!json_is_number(v) || !(s >= 0.1 && s <= INTERVAL_S_MAX)) {
        return bad_key(nth, key, "a number from 0.1 to 86400", err);
    }
    *out = s;
    return 0;
}

static int take_labels(struct sonde_scrape_target *t, json_t *labels, size_t nth,
                       struct sonde_err *err)
{
    const char *name;
    json_t *value;
    if (!json_is_object(labels)) return bad_key(nth, "labels", "an object of texts", err);
    json_object_foreach(labels, name, value)
    {
        if (!sonde_ingest_label_ok(name) || strncmp(name, "__", 2) == 0 ||
            strcmp(name, "job") == 0 || strcmp(name, "instance") == 0 || strlen(name) > 200) {
            return sonde_err_set(err, SONDE_EINVAL, "target %zu to scrape: \"%.60s\" cannot be a "
                                 "label here: letters, digits and _, not job or instance, which "
                                 "are keys of their own", nth, name);
        }
        if (t->label_count == SONDE_SCRAPE_LABELS_MAX) {
            return bad_key(nth, "labels", "16 at the most", err);
        }
        struct sonde_label *l = &t->label[t->label_count++];
        char *text = NULL;
        const int rc = scrape_target_take_text(&text, value, nth, name, err);
        l->value = text;
        l->name = sonde__strdup(name);
        if (rc || !l->name) return rc ? rc : scrape_target_no_memory(err);
    }
    return 0;
}

static int scrape_target_take_key(struct sonde_scrape_target *t, const char *key, json_t *v,
                                  size_t nth, struct sonde_err *err)
{
    if (!strcmp(key, "url")) return 0;
    if (!strcmp(key, "job")) return scrape_target_take_text(&t->job, v, nth, key, err);
    if (!strcmp(key, "instance")) return scrape_target_take_text(&t->instance, v, nth, key, err);
    if (!strcmp(key, "bearer_token_file")) {
        return scrape_target_take_text(&t->token_file, v, nth, key, err);
    }
    if (!strcmp(key, "interval_seconds")) return take_seconds(&t->interval_s, v, nth, key, err);
    if (!strcmp(key, "timeout_seconds")) return take_seconds(&t->timeout_s, v, nth, key, err);
    if (!strcmp(key, "labels")) return take_labels(t, v, nth, err);
    return sonde_err_set(err, SONDE_EINVAL, "target %zu to scrape: unknown key \"%.60s\"; "
                         "there are url, job, instance, labels, interval_seconds, timeout_seconds, "
                         "bearer_token_file", nth, key);
}

/* ---- Targets --------------------------------------------------------------------------------- */

static int scrape_target_same_text(const struct sonde_scrape_target *a,
                                   const struct sonde_scrape_target *b)
{
    if (strcmp(a->job, b->job) || strcmp(a->instance, b->instance)) return 0;
    if (a->label_count != b->label_count) return 0;
    for (size_t i = 0; i < a->label_count; i++) {
        if (strcmp(a->label[i].name, b->label[i].name) ||
            strcmp(a->label[i].value, b->label[i].value)) {
            return 0;
        }
    }
    return 1;
}

/* Takes over t, also on failure. */
static int scrape_target_add(struct sonde_scrape_targets *all, struct sonde_scrape_target *t,
                             size_t nth, struct sonde_err *err)
{
    int rc = 0;
    if (t->timeout_s > t->interval_s) t->timeout_s = t->interval_s;
    if (!t->job && !(t->job = sonde__strdup("scrape"))) rc = scrape_target_no_memory(err);
    for (size_t i = 0; !rc && i < all->count; i++) {
        if (!scrape_target_same_text(&all->at[i], t)) continue;
        rc = sonde_err_set(err, SONDE_EINVAL, "target %zu to scrape, %.200s, has the same job, "
                           "instance and labels as %.100s: give it another \"job\"", nth, t->url,
                           all->at[i].url);
    }
    if (!rc && all->count == SONDE_SCRAPE_TARGETS_MAX) {
        rc = sonde_err_set(err, SONDE_EINVAL, "more than %d targets to scrape",
                           SONDE_SCRAPE_TARGETS_MAX);
    }
    struct sonde_scrape_target *grown =
        rc ? NULL : sonde__realloc(all->at, (all->count + 1) * sizeof(*grown));
    if (!rc && !grown) rc = scrape_target_no_memory(err);
    if (grown) {
        all->at = grown;
        all->at[all->count++] = *t;
    } else {
        target_release(t);
    }
    return rc;
}

int sonde_scrape_targets_add(struct sonde_scrape_targets *t, const char *url,
                             const struct sonde_scrape_options *o, struct sonde_err *err)
{
    struct sonde_scrape_target one = { .interval_s = o->interval_s, .timeout_s = o->timeout_s };
    const int rc = take_url(&one, url, t->count + 1, err);
    if (!rc) return scrape_target_add(t, &one, t->count + 1, err);
    target_release(&one);
    return rc;
}

static int scrape_target_parse_one(struct sonde_scrape_targets *t, json_t *v,
                                   const struct sonde_scrape_options *o, struct sonde_err *err)
{
    const size_t nth = t->count + 1;
    if (json_is_string(v)) return sonde_scrape_targets_add(t, json_string_value(v), o, err);
    const char *url = json_string_value(json_object_get(v, "url")), *key;
    if (!url) {
        return sonde_err_set(err, SONDE_EINVAL, "target %zu to scrape is neither a URL nor an "
                             "object with the key url", nth);
    }
    struct sonde_scrape_target one = { .interval_s = o->interval_s, .timeout_s = o->timeout_s };
    json_t *value;
    int rc = 0;
    json_object_foreach(v, key, value)
    {
        rc = scrape_target_take_key(&one, key, value, nth, err);
        if (rc) break;
    }
    if (!rc) rc = take_url(&one, url, nth, err);
    if (!rc) return scrape_target_add(t, &one, nth, err);
    target_release(&one);
    return rc;
}

int sonde_scrape_targets_parse(struct sonde_scrape_targets *t, const char *json,
                               const struct sonde_scrape_options *o, struct sonde_err *err)
{
    json_error_t problem;
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &problem), *value;
    size_t i;
    int rc = 0;
    if (!json_is_array(root)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "the targets to scrape are not a JSON array%s%s",
                           root ? "" : ": ", root ? "" : problem.text);
    } else {
        json_array_foreach(root, i, value)
        {
            rc = scrape_target_parse_one(t, value, o, err);
            if (rc) break;
        }
    }
    json_decref(root);
    return rc;
}
