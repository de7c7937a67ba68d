/* probe.c - see probe.h. By libcurl: these few questions are no part of what is measured. */
#include "bench/http/probe.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "bench/http/load.h"
#include "sonde/sonde.h"

#define ANSWER_MAX ((size_t)8 << 20)
#define TIMEOUT_S 60.0
enum { WORDS_FEW = 24, WORDS_MANY = 216 }; /* of the two prompts that are counted */

static size_t probe_on_body(char *data, size_t size, size_t count, void *arg)
{
    struct sonde_buf *b = arg;
    sonde_buf_add(b, data, size * count);
    return b->error ? 0 : size * count;
}

int sonde_load_ask_http(const char *url, const struct sonde_bench_trust *trust,
                        const char *const *headers, const char *body, size_t max, double timeout_s,
                        struct sonde_buf *out, long *status, struct sonde_err *err)
{
    char why[CURL_ERROR_SIZE] = "", of_tls[400];
    struct curl_slist *list = NULL;
    *status = 0;
    sonde_buf_init(out, max);
    CURL *curl = curl_easy_init();
    if (!curl) return sonde_err_memory(err);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "sonde/" SONDE_VERSION);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, probe_on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(timeout_s * 1e3));
    sonde_bench_trust_curl(trust, curl);
    for (const char *const *h = headers; h && *h; h++) list = curl_slist_append(list, *h);
    if (body) {
        list = curl_slist_append(list, "Content-Type: application/json");
        list = curl_slist_append(list, "Expect:");
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    }
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    const CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    const int tls = sonde_bench_tls_of_curl(curl, code, why, of_tls, sizeof(of_tls));
    curl_easy_cleanup(curl);
    curl_slist_free_all(list);
    if (code == CURLE_OK) return 0;
    if (tls) return sonde_err_set(err, SONDE_EIO, "%.100s: %s", url, of_tls);
    return sonde_err_set(err, SONDE_EIO, "%.200s: %s; check that a server listens there", url,
                         out->error == SONDE_EFULL ? "the answer is too long"
                         : why[0]                  ? why : curl_easy_strerror(code));
}

/* ---- Where ----------------------------------------------------------------------------------- */

/* url's scheme and host, then path. */
static int probe_url(char *out, const char *url, const char *path)
{
    const char *host = strstr(url, "://") + 3;
    const int origin = (int)((size_t)(host - url) + strcspn(host, "/?#"));
    const int n = snprintf(out, SONDE_LOAD_URL_MAX, "%.*s%s", origin, url, path);
    return n > 0 && n < (int)SONDE_LOAD_URL_MAX ? 0 : SONDE_EINVAL;
}

static const char *probe_path(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    return host + strcspn(host, "/?#");
}

/* An answer of JSON to a GET; NULL = there is none. */
static json_t *probe_get(const struct sonde_load_probe_options *o, const char *path, int *reached)
{
    char url[SONDE_LOAD_URL_MAX];
    struct sonde_buf b = { 0 };
    struct sonde_err ignored;
    long status = 0;
    json_t *j = NULL;
    if (probe_url(url, o->url, path)) return NULL;
    const double limit = o->timeout_s > 0 ? o->timeout_s : TIMEOUT_S;
    const int rc = sonde_load_ask_http(url, &o->trust, o->headers, NULL, ANSWER_MAX, limit, &b,
                                       &status, &ignored);
    if (status) *reached = 1;
    if (!rc && status == 200 && b.len) j = json_loadb(b.data, b.len, 0, NULL);
    sonde_buf_release(&b);
    return j;
}

static void probe_keep_model(struct sonde_load_target *t, const json_t *name)
{
    const char *text = json_string_value(name);
    if (text && !t->model[0]) snprintf(t->model, sizeof(t->model), "%s", text);
}

/* The name of the model as the server lists it. 1 = the server has such a list. */
static int probe_models(const struct sonde_load_probe_options *o, struct sonde_load_target *t,
                        int *reached)
{
    json_t *j = probe_get(o, "/v1/models", reached);
    const json_t *data = json_object_get(j, "data");
    const int found = json_is_array(data);
    if (found) probe_keep_model(t, json_object_get(json_array_get(data, 0), "id"));
    json_decref(j);
    return found;
}

static int probe_dialect(const struct sonde_load_probe_options *o, struct sonde_load_target *t,
                         struct sonde_err *err)
{
    int reached = 0, api = -1;
    if (probe_models(o, t, &reached)) api = SONDE_LOAD_API_OPENAI_CHAT;
    static const struct { const char *path, *member; enum sonde_load_api api; } rows[] = {
        { "/props", "default_generation_settings", SONDE_LOAD_API_LLAMA },
        { "/api/tags", "models", SONDE_LOAD_API_OLLAMA_CHAT },
        { "/info", "model_id", SONDE_LOAD_API_TGI },
    };
    for (size_t i = 0; i < SONDE_COUNT(rows) && api < 0; i++) {
        json_t *j = probe_get(o, rows[i].path, &reached);
        const json_t *member = json_object_get(j, rows[i].member);
        if (member) api = (int)rows[i].api;
        if (json_is_array(member)) {
            probe_keep_model(t, json_object_get(json_array_get(member, 0), "name"));
        }
        json_decref(j);
        if (!reached) break;
    }
    if (!reached) {
        struct sonde_buf b = { 0 };
        long status;
        const int rc = sonde_load_ask_http(o->url, &o->trust, o->headers, NULL, ANSWER_MAX,
                                           TIMEOUT_S, &b, &status, err);
        sonde_buf_release(&b);
        if (rc) return rc;
    }
    if (api < 0) {
        snprintf(t->notes[0], sizeof(t->notes[0]), "the server does not say what it is: it is "
                 "asked as OpenAI's; --api says otherwise");
        api = SONDE_LOAD_API_OPENAI_CHAT;
    }
    t->api = (enum sonde_load_api)api;
    return 0;
}

/* ---- What it takes --------------------------------------------------------------------------- */

/* One small request of the load's kind, not streamed. *tokens: of its prompt, as counted. */
static int probe_send(const struct sonde_load_probe_options *o, struct sonde_load_target *t,
                      uint32_t words, uint32_t *tokens, long *status, struct sonde_err *err)
{
    char url[SONDE_LOAD_URL_MAX];
    struct sonde_buf text, body, answer = { 0 };
    struct sonde_load_random r = sonde_load_random_of(words, 0);
    sonde_buf_init(&text, 1 << 20);
    sonde_buf_init(&body, 1 << 20);
    sonde_load_prompt_words(&r, words, &text);
    const struct sonde_load_message m = { "user", text.data ? text.data : "", text.len };
    const struct sonde_load_ask ask = {
        .api = t->api, .model = t->model[0] ? t->model : NULL, .messages = &m, .message_count = 1,
        .max_tokens = 1, .ignore_eos = t->ignore_eos, .plain = t->plain, .seed = -1 };
    sonde_load_api_body(&ask, &body);
    snprintf(url, sizeof(url), "%s", t->url);
    if (t->api == SONDE_LOAD_API_TGI) probe_url(url, o->url, sonde_load_api_path(t->api, 0));
    int rc = text.error || body.error ? sonde_err_memory(err) : 0;
    const double limit = o->timeout_s > 0 ? o->timeout_s : TIMEOUT_S;
    if (!rc) {
        rc = sonde_load_ask_http(url, &o->trust, o->headers, body.data, ANSWER_MAX, limit, &answer,
                                 status, err);
    }
    if (!rc && (*status < 200 || *status > 299)) {
        char why[300] = "";
        if (answer.len) sonde_load_api_error(answer.data, answer.len, why, sizeof(why));
        rc = sonde_err_set(err, SONDE_EACCES, "%.200s refuses a first request with status %ld%s%s",
                           url, *status, why[0] ? ": " : "", why);
    }
    *tokens = rc || !answer.len ? SONDE_LOAD_UNKNOWN
                                : sonde_load_api_prompt_tokens(answer.data, answer.len);
    sonde_buf_release(&text);
    sonde_buf_release(&body);
    sonde_buf_release(&answer);
    return rc;
}

/* The first request decides what is left out for servers that refuse what they do not know. */
static int probe_first(const struct sonde_load_probe_options *o, struct sonde_load_target *t,
                       int may_change, uint32_t *tokens, struct sonde_err *err)
{
    long status = 0;
    int rc = probe_send(o, t, WORDS_FEW, tokens, &status, err);
    if (rc == SONDE_EACCES && (status == 400 || status == 422) && t->ignore_eos) {
        struct sonde_err first = *err;
        t->ignore_eos = 0;
        rc = probe_send(o, t, WORDS_FEW, tokens, &status, err);
        if (rc) *err = first;
        else snprintf(t->notes[1], sizeof(t->notes[1]),
                      "the server refuses ignore_eos: answers may end before max_tokens");
    }
    if (rc == SONDE_EACCES && (status == 404 || status == 405 || status == 501) && may_change &&
        t->api == SONDE_LOAD_API_OPENAI_CHAT) {
        t->api = SONDE_LOAD_API_OPENAI_COMPLETIONS;
        if (probe_url(t->url, o->url, sonde_load_api_path(t->api, o->stream))) return rc;
        rc = probe_send(o, t, WORDS_FEW, tokens, &status, err);
    }
    return rc;
}

static int probe_check_url(const char *url, struct sonde_err *err)
{
    const int known = !strncmp(url, "http://", 7) || !strncmp(url, "https://", 8);
    const char *host = known ? strstr(url, "://") + 3 : url;
    if (known && strcspn(host, "/?#") && strlen(url) < SONDE_LOAD_URL_MAX - 64) return 0;
    return sonde_err_set(err, SONDE_EINVAL, "'%.100s' is not the URL of a server: say "
                         "http://HOST:PORT or https://HOST, or with a path, as "
                         "http://HOST:PORT/v1/chat/completions",
                         url);
}

int sonde_load_probe(const struct sonde_load_probe_options *o, struct sonde_load_target *out,
                     struct sonde_err *err)
{
    struct sonde_load_target t = { .api = SONDE_LOAD_API_OPENAI_CHAT };
    int rc = probe_check_url(o->url, err);
    if (rc) return rc;
    const char *path = probe_path(o->url);
    const int by_path = sonde_load_api_of_path(path), own_path = by_path >= 0;
    const int base = !path[0] || !strcmp(path, "/") || !strcmp(path, "/v1") ||
                     !strcmp(path, "/v1/");
    int reached = 0;
    if (o->model) snprintf(t.model, sizeof(t.model), "%s", o->model);
    if (o->api >= 0) t.api = (enum sonde_load_api)o->api;
    else if (own_path) t.api = (enum sonde_load_api)by_path;
    else if (!o->silent && (rc = probe_dialect(o, &t, err))) return rc;
    if (!o->silent && !t.model[0] && (own_path || o->api >= 0)) probe_models(o, &t, &reached);
    if (base) rc = probe_url(t.url, o->url, sonde_load_api_path(t.api, o->stream));
    else snprintf(t.url, sizeof(t.url), "%s", o->url);
    if (rc) return sonde_err_set(err, rc, "'%.100s' is too long", o->url);
    t.ignore_eos = o->ignore_eos && sonde_load_api_ignores_eos(t.api);
    t.calibration = (struct sonde_load_calibration){ 0, 1, 0 };
    if (!o->silent) {
        uint32_t few = 0, many = 0;
        long status;
        rc = probe_first(o, &t, o->api < 0 && base, &few, err);
        if (rc) return rc;
        struct sonde_err ignored;
        const int counted = o->calibrate && few != SONDE_LOAD_UNKNOWN &&
                            !probe_send(o, &t, WORDS_MANY, &many, &status, &ignored) &&
                            many != SONDE_LOAD_UNKNOWN;
        if (counted) sonde_load_calibrate(&t.calibration, WORDS_FEW, few, WORDS_MANY, many);
    }
    if (o->calibrate && !t.calibration.known) {
        snprintf(t.notes[2], sizeof(t.notes[2]),
                 "%s: a word of a made-up prompt is taken for a token",
                 o->silent ? "the server was not asked how long its tokens are"
                           : "the server does not count prompts");
    }
    *out = t;
    return 0;
}
