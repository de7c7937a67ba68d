/* receiver.c - see receiver.h: receivers as the settings have them, and one try. */
#include "alert/receiver.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "sonde/sonde.h"

enum { HEADERS_FILE_MAX = 1 << 16, ARGUMENTS_MAX = 64, ANSWER_MAX = 1 << 14, BODY_MAX = 1 << 16 };

#define ALERT_RECEIVER(id) extern const struct alert_receiver_ops alert_receiver_##id;
#include "alert/alert_list.h"
#undef ALERT_RECEIVER

const struct alert_receiver_ops *const alert_receiver_kinds[] = {
#define ALERT_RECEIVER(id) &alert_receiver_##id,
#include "alert/alert_list.h"
#undef ALERT_RECEIVER
    NULL,
};

static const struct alert_receiver_ops *receiver_kind(const char *name)
{
    for (size_t i = 0; alert_receiver_kinds[i]; i++) {
        if (!strcmp(alert_receiver_kinds[i]->name, name)) return alert_receiver_kinds[i];
    }
    return NULL;
}

static void receiver_release(struct alert_receiver *r)
{
    if (r->url) explicit_bzero(r->url, strlen(r->url));
    sonde__free(r->url);
    push_headers_free(r->headers);
    for (char **a = r->argv; a && *a; a++) sonde__free(*a);
    sonde__free(r->argv);
    *r = (struct alert_receiver){ 0 };
}

void alert_receivers_release(struct alert_receivers *r)
{
    for (size_t i = 0; i < r->count; i++) receiver_release(&r->at[i]);
    r->count = 0;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* What one is made of; NULL or "" = not given. */
struct receiver_spec {
    const char *kind, *name, *url, *url_file, *headers, *token;
    const json_t *command;
};

static int receiver_read_file(const char *path, struct sonde_buf *out, struct sonde_err *err)
{
    struct sonde_err why = { "" };
    sonde_buf_init(out, HEADERS_FILE_MAX);
    const int rc = sonde_file_read(path, out, &why);
    if (rc) return sonde_err_set(err, rc == SONDE_ENOMEM ? rc : SONDE_EINVAL, "%s", why.text);
    if (!out->data || memchr(out->data, 0, out->len)) {
        return sonde_err_set(err, SONDE_EINVAL, "'%s' is empty or holds a NUL", path);
    }
    return 0;
}

static int receiver_set_url(struct alert_receiver *r, const struct receiver_spec *s,
                            struct sonde_err *err)
{
    char url[PUSH_WEBHOOK_MAX];
    struct sonde_buf file;
    const char *given = s->url;
    int rc = 0;
    sonde_buf_init(&file, 0);
    if (s->url_file && *s->url_file) {
        rc = receiver_read_file(s->url_file, &file, err);
        if (!rc) {
            file.data[strcspn(file.data, "\r\n \t")] = '\0';
            given = file.data;
        }
    }
    if (!rc && (!given || !*given)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "\"url\" is missing");
    }
    if (!rc) rc = push_url_check_webhook(given, r->ops->path, url, err);
    if (!rc) {
        push_url_shown(url, r->shown, sizeof(r->shown));
        r->url = sonde__strdup(url);
        if (!r->url) rc = sonde_err_memory(err);
    }
    if (file.data) explicit_bzero(file.data, file.len);
    sonde_buf_release(&file);
    return rc;
}

static int receiver_set_headers(struct alert_receiver *r, const struct receiver_spec *s,
                                struct sonde_err *err)
{
    static const char *const fixed[] = { "Content-Type: application/json", NULL };
    struct sonde_buf text;
    int rc = 0;
    sonde_buf_init(&text, HEADERS_FILE_MAX);
    if (s->headers && *s->headers) rc = receiver_read_file(s->headers, &text, err);
    if (!rc && s->token && *s->token) {
        if (s->token[strcspn(s->token, "\r\n")]) {
            rc = sonde_err_set(err, SONDE_EINVAL, "SONDE_WEBHOOK_TOKEN: a token is one line");
        }
        sonde_buf_printf(&text, "\nAuthorization: Bearer %s\n", s->token);
    }
    if (!rc && text.error) rc = sonde_err_set(err, text.error, "too many headers");
    if (!rc) rc = push_headers_parse(r->ops->name, fixed, text.data, &r->headers, err);
    if (text.data) explicit_bzero(text.data, text.len);
    sonde_buf_release(&text);
    return rc;
}

static int receiver_set_command(struct alert_receiver *r, const json_t *command,
                                struct sonde_err *err)
{
    const size_t n = json_array_size(command);
    const char *program = json_string_value(json_array_get(command, 0));
    if (!json_is_array(command) || !n || n > ARGUMENTS_MAX || !program || program[0] != '/') {
        return sonde_err_set(err, SONDE_EINVAL, "\"command\" is not an array of a program's full "
                             "path and at most %d arguments", ARGUMENTS_MAX - 1);
    }
    r->argv = sonde__calloc(n + 1, sizeof(*r->argv));
    if (!r->argv) return sonde_err_memory(err);
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(command, i));
        if (!text) return sonde_err_set(err, SONDE_EINVAL, "\"command\": %zu is not a text", i);
        r->argv[i] = sonde__strdup(text);
        if (!r->argv[i]) return sonde_err_memory(err);
    }
    snprintf(r->shown, sizeof(r->shown), "%s", program);
    return 0;
}

/* As it was named, or after its kind, with a number from the second on. */
static int receiver_set_name(const struct alert_receivers *all, struct alert_receiver *r,
                             const char *name, struct sonde_err *err)
{
    for (unsigned i = 1;; i++) {
        int taken = 0;
        if (name && *name) snprintf(r->name, sizeof(r->name), "%s", name);
        else if (i == 1) snprintf(r->name, sizeof(r->name), "%s", r->ops->name);
        else snprintf(r->name, sizeof(r->name), "%s-%u", r->ops->name, i);
        for (size_t k = 0; k < all->count; k++) taken |= !strcmp(all->at[k].name, r->name);
        if (!taken) return 0;
        if (name && *name) {
            return sonde_err_set(err, SONDE_EINVAL, "there is a receiver '%s' already", r->name);
        }
    }
}

static int receiver_add(struct alert_receivers *all, const struct receiver_spec *s,
                        struct sonde_err *err)
{
    struct alert_receiver r = { .ops = receiver_kind(s->kind) };
    int rc = 0;
    if (!r.ops) {
        rc = sonde_err_set(err, SONDE_EINVAL, "'%.40s' is not one of webhook, slack, alertmanager, "
                           "command, log", s->kind);
    } else if (all->count == SONDE_ALERT_RECEIVERS_MAX) {
        rc = sonde_err_set(err, SONDE_EINVAL, "more than %d receivers", SONDE_ALERT_RECEIVERS_MAX);
    } else if (s->name && *s->name && (!alert_kind_ok(s->name) || strlen(s->name) > 60)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "\"name\" is not letters, digits and _.:-");
    }
    if (!rc) rc = receiver_set_name(all, &r, s->name, err);
    if (!rc && r.ops->posts) rc = receiver_set_url(&r, s, err);
    if (!rc && r.ops->posts) rc = receiver_set_headers(&r, s, err);
    if (!rc && !strcmp(r.ops->name, "command")) rc = receiver_set_command(&r, s->command, err);
    if (!rc && !strcmp(r.ops->name, "log")) snprintf(r.shown, sizeof(r.shown), "sonde's log");
    if (rc) receiver_release(&r);
    else all->at[all->count++] = r;
    return rc;
}

static int receiver_parse(struct alert_receivers *all, const json_t *json, struct sonde_err *err)
{
    struct receiver_spec s = { 0 };
    const char *key;
    json_t *v;
    if (!json_is_object(json)) return sonde_err_set(err, SONDE_EINVAL, "not an object");
    json_object_foreach((json_t *)(uintptr_t)json, key, v) {
        const char *text = json_string_value(v);
        const char **to = !strcmp(key, "kind") ? &s.kind : !strcmp(key, "name") ? &s.name
                          : !strcmp(key, "url") ? &s.url : !strcmp(key, "url_file") ? &s.url_file
                          : !strcmp(key, "headers") ? &s.headers : NULL;
        if (!strcmp(key, "command")) {
            s.command = v;
        } else if (!to) {
            return sonde_err_set(err, SONDE_EINVAL, "\"%.40s\" is unknown; a receiver has kind, "
                                 "name, url, url_file, headers and command", key);
        } else if (!text) {
            return sonde_err_set(err, SONDE_EINVAL, "\"%s\" is not a text", key);
        } else {
            *to = text;
        }
    }
    if (!s.kind) return sonde_err_set(err, SONDE_EINVAL, "\"kind\" is missing");
    return receiver_add(all, &s, err);
}

static int receivers_parse(struct alert_receivers *all, const char *text, struct sonde_err *err)
{
    struct sonde_err why = { "" };
    if (!text || !*text) return 0;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    int rc = json_is_array(json) ? 0 : sonde_err_set(err, SONDE_EINVAL,
                                                     "alerts.receivers is not a JSON array");
    for (size_t i = 0; !rc && i < json_array_size(json); i++) {
        rc = receiver_parse(all, json_array_get(json, i), &why);
        if (rc) sonde_err_set(err, rc, "alerts.receivers, number %zu: %.400s", i + 1, why.text);
    }
    json_decref(json);
    return rc;
}

static int receivers_command(struct alert_receivers *all, const char *text, struct sonde_err *err)
{
    struct sonde_err why = { "" };
    json_t *json = text && *text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    int rc = 0;
    if (text && *text && !json_is_array(json)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "alerts.command is not a JSON array");
    } else if (json_array_size(json)) {
        rc = receiver_add(all, &(struct receiver_spec){ .kind = "command", .command = json }, &why);
        if (rc) sonde_err_set(err, rc, "alerts.command: %.400s", why.text);
    }
    json_decref(json);
    return rc;
}

int alert_receivers_open(struct alert_receivers *all, const struct sonde_alerts_options *o,
                         struct sonde_err *err)
{
    struct sonde_err why = { "" };
    int rc = 0;
    if (o->log) rc = receiver_add(all, &(struct receiver_spec){ .kind = "log" }, err);
    if (!rc && o->webhook && *o->webhook) {
        const int generic = !o->webhook_form || !strcmp(o->webhook_form, "generic");
        rc = receiver_add(all, &(struct receiver_spec){ .kind = generic ? "webhook"
                                                                        : o->webhook_form,
                                                        .url = o->webhook, .token = o->token,
                                                        .headers = o->webhook_headers }, &why);
        if (rc) sonde_err_set(err, rc, "alerts.webhook: %.400s", why.text);
    }
    if (!rc) rc = receivers_command(all, o->command, err);
    if (!rc) rc = receivers_parse(all, o->receivers, err);
    if (rc) alert_receivers_release(all);
    return rc;
}

/* ---- One try --------------------------------------------------------------------------------- */

static enum alert_result receiver_result(int rc, const struct push_answer *a, struct alert_try *t)
{
    snprintf(t->text, sizeof(t->text), "%s", a->text);
    t->retry_after_s = a->retry_after_s;
    if (rc) return ALERT_RESULT_RETRY;
    if (a->status >= 200 && a->status < 300) return ALERT_RESULT_SENT;
    const int later = push_again_later(a->status) || a->status == 408 || a->status == 425;
    return later ? ALERT_RESULT_RETRY : ALERT_RESULT_REFUSED;
}

enum alert_result alert_receiver_post(const struct alert_receiver *r, const char *id,
                                      const struct sonde_buf *body, struct alert_try *t)
{
    /* Those of r, and one by which a receiver knows what it has seen before. */
    char key[96], *headers[ARGUMENTS_MAX + 2];
    size_t n = 0;
    struct push_answer answer = { 0 };
    if (body->error || !body->data) {
        snprintf(t->text, sizeof(t->text), "out of memory");
        return ALERT_RESULT_RETRY;
    }
    for (char **h = r->headers; h && *h && n < ARGUMENTS_MAX; h++) headers[n++] = *h;
    snprintf(key, sizeof(key), "Idempotency-Key: %s", id);
    if (*id) headers[n++] = key;
    headers[n] = NULL;
    sonde_buf_init(&answer.body, ANSWER_MAX);
    const struct push_http_request request = { .url = r->url, .headers = headers,
                                               .body = body->data, .body_len = body->len,
                                               .timeout_s = t->timeout_s };
    const int rc = push_http_send(t->curl, &request, t->stop, t->arg, &answer);
    const enum alert_result result = receiver_result(rc, &answer, t);
    sonde_buf_release(&answer.body);
    return result;
}

enum alert_result alert_receiver_send(const struct alert_receiver *r, const struct alert_notice *n,
                                      const struct alert_origin *o, struct alert_try *t)
{
    t->retry_after_s = 0;
    t->text[0] = '\0';
    if (r->ops->send) return r->ops->send(r, n, o, t);
    struct sonde_buf body;
    sonde_buf_init(&body, BODY_MAX);
    r->ops->body(n, o, &body);
    const enum alert_result result = alert_receiver_post(r, n->id, &body, t);
    sonde_buf_release(&body);
    return result;
}

int alert_receiver_reach(const struct alert_receiver *r, double timeout_s, struct sonde_err *err)
{
    if (r->ops->posts) return push_http_reach(r->url, timeout_s, err);
    if (r->argv && access(r->argv[0], X_OK) != 0) {
        return sonde_err_set(err, SONDE_ENOENT, "%s: %s", r->argv[0], strerror(errno));
    }
    return 0;
}

/* ---- What receivers share -------------------------------------------------------------------- */

const char *alert_notice_state(const struct alert_notice *n)
{
    return n->firing ? "firing" : "resolved";
}

int alert_notice_link(const struct alert_notice *n, const struct alert_origin *o, char *out,
                      size_t out_size)
{
    if (!o->url[0] || !n->what.link[0]) return 0;
    const size_t len = strlen(o->url), cut = o->url[len - 1] == '/';
    return snprintf(out, out_size, "%.*s%s", (int)(len - cut), o->url, n->what.link) <
           (int)out_size;
}
