#include "profile/format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/gz.h"
#include "sonde/sonde.h"

#define SONDE_FORMAT(id) extern const struct sonde_format_ops sonde_format_##id;
#include "profile/format_list.h"
#undef SONDE_FORMAT

const struct sonde_format_ops *const sonde_formats[] = {
#define SONDE_FORMAT(id) &sonde_format_##id,
#include "profile/format_list.h"
#undef SONDE_FORMAT
    NULL
};

const struct sonde_format_ops *sonde_format_find(const char *name)
{
    for (size_t i = 0; sonde_formats[i]; i++) {
        if (!strcmp(sonde_formats[i]->name, name)) return sonde_formats[i];
    }
    return NULL;
}

const struct sonde_format_ops *sonde_format_guess(const char *data, size_t len)
{
    for (size_t i = 0; sonde_formats[i]; i++) {
        if (sonde_formats[i]->probe && sonde_formats[i]->probe(data, len)) return sonde_formats[i];
    }
    return NULL;
}

void sonde_import_note(struct sonde_import *how, const char *format, ...)
{
    if (!how) return;
    char text[sizeof(how->note.text)];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    sonde_err_set(&how->note, 0, "%s%s%s", how->note.text, how->note.text[0] ? "; " : "", text);
}

/* ---- What is around a file ------------------------------------------------------------------- */

int sonde_format_unpack(const char *data, size_t len, struct sonde_buf *out, struct sonde_err *err)
{
    const int rc = sonde_gz_unpack(data, len, out);
    if (rc == SONDE_EFORMAT) {
        return sonde_err_set(err, rc, "the gzip data is damaged or cut short");
    }
    if (rc == SONDE_EFULL) {
        return sonde_err_set(err, SONDE_EFORMAT,
                             "the gzip data unpacks to more than %zu MB, or %d times its size",
                             SONDE_FORMAT_UNPACKED_MAX >> 20, SONDE_GZ_RATIO_MAX);
    }
    return rc ? sonde_err_set(err, rc, "no memory to unpack it") : 0;
}

static size_t utf8_encode(uint32_t code, char *out)
{
    if (code < 0x80) return out[0] = (char)code, 1;
    const size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00u >> n) | code);
    return n;
}

/* UTF-16 as UTF-8; what has no partner becomes U+FFFD. */
static int from_utf16(const char *data, size_t len, int big, struct sonde_buf *out,
                      struct sonde_err *err)
{
    const unsigned char *d = (const unsigned char *)data;
#define UNIT(i) (big ? (uint32_t)(d[i] << 8 | d[(i) + 1]) : (uint32_t)(d[(i) + 1] << 8 | d[i]))
    for (size_t i = 0; i + 2 <= len && !out->error; i += 2) {
        uint32_t code = UNIT(i);
        char utf8[4];
        if (code >= 0xd800 && code < 0xdc00 && i + 4 <= len && (UNIT(i + 2) & 0xfc00u) == 0xdc00) {
            code = 0x10000 + ((code & 0x3ff) << 10 | (UNIT(i + 2) & 0x3ff));
            i += 2;
        } else if ((code & 0xf800) == 0xd800) {
            code = 0xfffd;
        }
        sonde_buf_add(out, utf8, utf8_encode(code, utf8));
    }
#undef UNIT
    return out->error ? sonde_err_set(err, out->error, "no memory to read it") : 0;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int not_known(const char *name, struct sonde_err *err)
{
    char known[400] = "a run file";
    for (size_t i = 0, n = strlen(known); sonde_formats[i]; i++) {
        if (!sonde_formats[i]->read) continue;
        n += (size_t)snprintf(known + n, sizeof(known) - n, ", %s", sonde_formats[i]->name);
        if (n >= sizeof(known)) break;
    }
    return sonde_err_set(err, SONDE_EFORMAT, "'%s' is not a profile that can be read: not %s", name,
                         known);
}

static int read_plain(const char *data, size_t len, const char *name, struct sonde_import *how,
                      struct sonde_profile *p, struct sonde_err *err)
{
    const struct sonde_format_ops *f = how && how->format ? sonde_format_find(how->format)
                                                          : sonde_format_guess(data, len);
    struct sonde_err why = { "" };
    if (how && how->format && (!f || !f->read)) {
        return sonde_err_set(err, SONDE_EINVAL, "there is no format '%s' that can be read",
                             how->format);
    }
    if (!f) return not_known(name, err);
    const int rc = f->read(data, len, how, p, &why);
    if (rc) return sonde_err_set(err, rc, "'%s', read as %s: %s", name, f->name, why.text);
    if (!p->engine) p->engine = sonde_profile_cstring(p, "import");
    if (p->shortened) {
        sonde_import_note(how, "%llu names longer than %zu bytes or stacks deeper than %u frames "
                          "were shortened", (unsigned long long)p->shortened,
                          SONDE_PROFILE_TEXT_MAX, SONDE_PROFILE_DEPTH_MAX);
    }
    return 0;
}

static int format_read_text(const char *data, size_t len, const char *name,
                            struct sonde_import *how, struct sonde_profile *p,
                            struct sonde_err *err)
{
    const int little = len >= 2 && !memcmp(data, "\xff\xfe", 2);
    const int big = len >= 2 && !memcmp(data, "\xfe\xff", 2);
    if (len >= 3 && !memcmp(data, "\xef\xbb\xbf", 3)) {
        return read_plain(data + 3, len - 3, name, how, p, err);
    }
    if (!little && !big) return read_plain(data, len, name, how, p, err);
    struct sonde_buf text;
    struct sonde_err why = { "" };
    sonde_buf_init(&text, p->bytes_max);
    int rc = from_utf16(data + 2, len - 2, big, &text, &why);
    if (rc) sonde_err_set(err, rc, "'%s': %s", name, why.text);
    else rc = read_plain(text.data ? text.data : "", text.len, name, how, p, err);
    sonde_buf_release(&text);
    return rc;
}

int sonde_format_read(const char *data, size_t len, const char *name, struct sonde_import *how,
                      struct sonde_profile *p, struct sonde_err *err)
{
    if (!len) return sonde_err_set(err, SONDE_EFORMAT, "'%s' is empty", name);
    if (!sonde_gz_is(data, len)) return format_read_text(data, len, name, how, p, err);
    struct sonde_buf unpacked;
    struct sonde_err why = { "" };
    sonde_buf_init(&unpacked, SONDE_FORMAT_UNPACKED_MAX);
    int rc = sonde_format_unpack(data, len, &unpacked, &why);
    if (rc) sonde_err_set(err, rc, "'%s': %s", name, why.text);
    else if (!unpacked.len) rc = sonde_err_set(err, SONDE_EFORMAT, "'%s' is empty", name);
    else rc = format_read_text(unpacked.data, unpacked.len, name, how, p, err);
    sonde_buf_release(&unpacked);
    return rc;
}
