/* engine.c - what pages of `sonde top` show of devices, pools and tokenizers, from the answer of
 * /api/engine: see data.h. */
#include "base/array.h"
#include "present/top/json.h"
#include "sonde/sonde.h"

static void read_devices(const json_t *list, struct sonde_top_engine *out)
{
    const size_t n = top_at_most(list, SONDE_TOP_ENGINE_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        out->devices[out->device_count++] = (struct sonde_top_device){
            .pid = top_id(o, "pid"), .device = top_string(o, "device"),
            .operations = top_number(o, "count"), .seconds = top_number(o, "seconds"),
            .share = top_number(o, "share"), .fallbacks = top_number(o, "fallbacks"),
        };
    }
}

static void read_pools(const json_t *list, struct sonde_top_engine *out)
{
    const size_t n = top_at_most(list, SONDE_TOP_ENGINE_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        out->pools[out->pool_count++] = (struct sonde_top_pool){
            .pid = top_id(o, "pid"), .pool = top_string(o, "pool"),
            .capacity = top_number(o, "capacity_bytes"), .failures = top_number(o, "failures"),
            .external = top_number(o, "fragmentation_external"),
            .internal = top_number(o, "fragmentation_internal"),
        };
    }
}

static void read_tokenizers(const json_t *list, struct sonde_top_engine *out)
{
    const size_t n = top_at_most(list, SONDE_TOP_ENGINE_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        out->tokenizers[out->tokenizer_count++] = (struct sonde_top_tokenizer){
            .pid = top_id(o, "pid"), .tokenizer = top_string(o, "tokenizer"),
            .tokens_per_s = top_number(o, "tokens_per_s"),
            .hit_ratio = top_number(o, "cache_hit_ratio"),
            .merges_per_token = top_number(o, "merges_per_token"),
        };
    }
}

int sonde_top_read_engine(struct sonde_top_data *d, const char *text, size_t len,
                          struct sonde_err *err)
{
    json_error_t why;
    if (d->json_count == SONDE_COUNT(d->json)) return SONDE_EINVAL;
    json_t *root = json_loadb(text, len, 0, &why);
    if (!root) {
        return sonde_err_set(err,
                             SONDE_EFORMAT, "the answer about engines is not JSON: %s (line %d)",
                             why.text, why.line);
    }
    d->json[d->json_count++] = root;
    read_devices(json_object_get(json_object_get(root, "devices"), "list"), &d->engine);
    read_pools(json_object_get(json_object_get(root, "pools"), "list"), &d->engine);
    read_tokenizers(json_object_get(root, "tokenizers"), &d->engine);
    return 0;
}
