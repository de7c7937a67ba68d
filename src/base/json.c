/* json.c - see json.h. */
#include "base/json.h"

#include <string.h>

#include "base/put.h"

/* A comma, unless this is the first element or the value of a key. Strings end in a quote, so
 * a bracket or colon here is never part of one. */
static void json_separate(struct sonde_buf *out)
{
    const char last = out->len ? out->data[out->len - 1] : '{';
    if (last != '{' && last != '[' && last != ':') sonde_buf_putc(out, ',');
}

void sonde_json_open(struct sonde_buf *out, char bracket)
{
    json_separate(out);
    sonde_buf_putc(out, bracket);
}

void sonde_json_close(struct sonde_buf *out, char bracket) { sonde_buf_putc(out, bracket); }

void sonde_json_key(struct sonde_buf *out, const char *key)
{
    json_separate(out);
    if (!key) return;
    sonde_buf_json_str(out, key, strlen(key));
    sonde_buf_putc(out, ':');
}

void sonde_json_key_open(struct sonde_buf *out, const char *key, char bracket)
{
    sonde_json_key(out, key);
    sonde_buf_putc(out, bracket);
}

void sonde_json_str(struct sonde_buf *out, const char *key, const char *value)
{
    sonde_json_key(out, key);
    if (value) sonde_buf_json_str(out, value, strlen(value));
    else sonde_buf_puts(out, "null");
}

void sonde_json_num(struct sonde_buf *out, const char *key, double value)
{
    sonde_json_key(out, key);
    sonde_buf_json_double(out, value);
}

void sonde_json_u64(struct sonde_buf *out, const char *key, uint64_t value)
{
    sonde_json_key(out, key);
    sonde_buf_u64(out, value);
}

void sonde_json_u64_or_null(struct sonde_buf *out, const char *key, uint64_t value)
{
    if (value) sonde_json_u64(out, key, value);
    else sonde_json_str(out, key, NULL);
}

void sonde_json_bool(struct sonde_buf *out, const char *key, int value)
{
    sonde_json_key(out, key);
    sonde_buf_puts(out, value ? "true" : "false");
}

void sonde_json_time(struct sonde_buf *out, const char *key, double time_s)
{
    char text[32];
    sonde_json_key(out, key);
    if (time_s > 0) sonde_buf_add(out, text, (size_t)(sonde_put_time(text, time_s) - text));
    else sonde_buf_puts(out, "null");
}

void sonde_json_ns(struct sonde_buf *out, const char *key, uint64_t ns)
{
    sonde_json_key(out, key);
    sonde_buf_printf(out, "%llu.%09llu", (unsigned long long)(ns / 1000000000),
                     (unsigned long long)(ns % 1000000000));
}

void sonde_json_id(struct sonde_buf *out, const char *key, const uint64_t *words, size_t count)
{
    sonde_json_key(out, key);
    sonde_buf_putc(out, '"');
    for (size_t i = 0; i < count; i++) {
        char hex[16];
        sonde_put_hex(hex, words[i]);
        sonde_buf_add(out, hex, sizeof(hex));
    }
    sonde_buf_putc(out, '"');
}
