/* page_file.c - see page_file.h.
 *
 * Data is JSON in a <script> that is not run. What would end that element, or what a text editor
 * would show out of order, can only be inside of strings there, so it is written as \u escapes and
 * reads back as it was. The policy lets run what is named by its hash and nothing else: were there
 * a way out of the data all the same, no browser would follow it. */
#include "present/page_file.h"

#include <string.h>

#include "base/gz.h"
#include "base/json.h"
#include "present/flamegraph/private.h"
#include "present/web.h"
#include "sonde/sonde.h"

/* JSON with '<', '>', '&', line separators and what changes the direction of text as escapes. */
static void put_data(struct sonde_buf *out, const char *json, size_t len)
{
    const unsigned char *p = (const unsigned char *)json;
    size_t from = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned code = 0, bytes = 1;
        if (p[i] == '<' || p[i] == '>' || p[i] == '&') {
            code = p[i];
        } else if (p[i] == 0xe2 && i + 2 < len) { /* U+2000 … U+2FFF */
            const unsigned c = 0x2000u | (p[i + 1] & 0x3fu) << 6 | (p[i + 2] & 0x3fu);
            bytes = 3;
            if (c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
                (c >= 0x2066 && c <= 0x2069)) {
                code = c;
            }
        }
        if (!code) continue;
        sonde_buf_add(out, json + from, i - from);
        sonde_buf_printf(out, "\\u%04x", code);
        i += bytes - 1;
        from = i + 1;
    }
    sonde_buf_add(out, json + from, len - from);
}

void sonde_page_file_add(struct sonde_page_file *f, const char *key, const char *json, size_t len)
{
    while (len && strchr(" \t\r\n", json[len - 1])) len--;
    if (f->answers.len) sonde_buf_puts(&f->answers, ",\n");
    sonde_buf_json_str(&f->answers, key, strlen(key));
    sonde_buf_putc(&f->answers, ':');
    sonde_buf_add(&f->answers, json, len);
}

static void page_file_put_head(const struct sonde_page_file *f, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_u64(out, "version", 1);
    sonde_json_str(out, "title", f->title);
    sonde_json_time(out, "made", f->made_s);
    sonde_json_str(out, "source", f->source);
    sonde_json_key_open(out, "pages", '[');
    for (size_t i = 0; f->pages[i]; i++) {
        if (i) sonde_buf_putc(out, ',');
        sonde_buf_json_str(out, f->pages[i], strlen(f->pages[i]));
    }
    sonde_json_close(out, ']');
    if (f->query[0]) sonde_json_str(out, "query", f->query);
    sonde_buf_puts(out, ",\n\"answers\":{");
}

static void page_file_put(struct sonde_buf *out, const struct sonde_web_file *file)
{
    const int rc = sonde_gz_unpack(file->packed, file->packed_len, out);
    if (rc && !out->error) out->error = rc; /* it is our own: there was no memory */
}

int sonde_page_file_write(const struct sonde_page_file *f, struct sonde_buf *out)
{
    struct sonde_buf head;
    sonde_buf_init(&head, 1 << 20);
    page_file_put_head(f, &head);
    sonde_buf_printf(
        out, "<!doctype html>\n<html lang=\"en\" data-version=\"" SONDE_VERSION "\">\n<head>\n"
             "<meta charset=\"utf-8\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
             "script-src '%s'; style-src '%s'; img-src data: blob:; base-uri 'none'; "
             "form-action 'none'\">\n"
             "<meta name=\"referrer\" content=\"no-referrer\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<meta name=\"color-scheme\" content=\"light dark\">\n"
             "<meta name=\"generator\" content=\"sonde " SONDE_VERSION "\">\n<title>",
        sonde_web_app_js.policy_hash, sonde_web_app_css.policy_hash);
    sonde_flame_put_xml(out, f->title);
    sonde_buf_puts(out, "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>");
    page_file_put(out, &sonde_web_app_css);
    sonde_buf_puts(out, "</style>\n</head>\n<body>\n"
                        "<noscript><p>This page draws with JavaScript, which is off. `sonde "
                        "report` says the same in words.</p></noscript>\n"
                        "<script type=\"application/json\" id=\"sonde-data\">\n");
    put_data(out, head.data ? head.data : "", head.len);
    put_data(out, f->answers.data ? f->answers.data : "", f->answers.len);
    sonde_buf_puts(out, "}}\n</script>\n<script>");
    page_file_put(out, &sonde_web_app_js);
    sonde_buf_puts(out, "</script>\n</body>\n</html>\n");
    if (head.error && !out->error) out->error = head.error;
    if (f->answers.error && !out->error) out->error = f->answers.error;
    sonde_buf_release(&head);
    return out->error;
}
