/* pyroscope.c - profiles to Pyroscope: POST /ingest with a multipart form of two files, the profile
 * as pprof and what its values are (sample_type_config), as the server's documentation has it; a
 * `format` in the query would make it take the form itself for the profile. It
 * wants one kind of samples at a time; its own name for the kind is appended to the service's. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/path.h"
#include "profile/format.h"
#include "profile/formats/pprof.h"
#include "push/push_private.h"
#include "sonde/sonde.h"

/* Long enough not to be in compressed bytes by chance. */
#define BOUNDARY "sonde-9c1f6a3e5b7d42d08e6f1a2b3c4d5e6f70819a2b"

static const char *const headers[] = { "Content-Type: multipart/form-data; boundary=" BOUNDARY,
                                       NULL };

/* {"cpu":{"units":"nanoseconds","display-name":"cpu",…},"samples":{…}} */
static void pyroscope_put_config(struct sonde_buf *b, int kind)
{
    const struct pprof_kind *k = &sonde_pprof_kinds[kind];
    const int sampled = kind == SONDE_SAMPLE_CPU || kind == SONDE_SAMPLE_OFFCPU;
    const int now = kind == SONDE_SAMPLE_LIVE || kind == SONDE_SAMPLE_PEAK ||
                    kind == SONDE_SAMPLE_LEAKED; /* a state, not what was added */
    const char *sum = now ? "average" : "sum";
    sonde_buf_printf(
        b,
        "{\"%s\":{\"units\":\"samples\",\"display-name\":\"%s\",\"aggregation\":\"%s\","
        "\"sampled\":%s}",
        k->count, k->count, sum, sampled ? "true" : "false");
    sonde_buf_printf(b,
                     ",\"%s\":{\"units\":\"%s\",\"display-name\":\"%s\",\"aggregation\":\"%s\","
                     "\"sampled\":%s}}",
                     k->weight, k->unit, k->weight, sum, sampled ? "true" : "false");
}

static void pyroscope_put_part(struct sonde_buf *b, const char *name, const char *file)
{
    sonde_buf_printf(b,
                     "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"%s\"; "
                     "filename=\"%s\"\r\nContent-Type: application/octet-stream\r\n\r\n",
                     name, file);
}

static void pyroscope_put_body(struct sonde_buf *b, const struct sonde_buf *pprof, int kind)
{
    pyroscope_put_part(b, "profile", "profile.pprof");
    sonde_buf_add(b, pprof->data, pprof->len);
    sonde_buf_puts(b, "\r\n");
    pyroscope_put_part(b, "sample_type_config", "config.json");
    pyroscope_put_config(b, kind);
    sonde_buf_puts(b, "\r\n--" BOUNDARY "--\r\n");
}

/* Its names of applications and labels have no such characters: { } , = " and blanks. */
static void pyroscope_put_name(struct sonde_buf *b, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        sonde_buf_putc(b, c <= ' ' || c == 0x7f || strchr("{},=\"", c) ? '_' : (char)c);
    }
}

static int put_target(struct push_dest *d, const struct sonde_profile *p, struct sonde_buf *out)
{
    const struct push_origin *o = push_origin(d);
    const char *base = sonde_path_base(sonde_profile_str(p, p->program));
    struct sonde_buf name;
    sonde_buf_init(&name, PUSH_TARGET_MAX / 4);
    pyroscope_put_name(&name, *base ? base : "unknown_service");
    sonde_buf_puts(&name, "{host=");
    pyroscope_put_name(&name, o->host);
    for (size_t i = 0; i < o->label_count; i++) {
        sonde_buf_printf(&name, ",%s=", o->labels[i].name);
        pyroscope_put_name(&name, o->labels[i].value);
    }
    sonde_buf_putc(&name, '}');
    char *escaped = name.error ? NULL : curl_easy_escape(NULL, name.data, (int)name.len);
    sonde_buf_release(&name);
    if (!escaped) return SONDE_ENOMEM;
    /* Seconds; a profile shorter than one still has a length. */
    const uint64_t from = p->start_ns / 1000000000, end = (p->end_ns + 999999999) / 1000000000;
    sonde_buf_printf(out, "/ingest?name=%s&from=%llu&until=%llu&spyName=sonde",
                     escaped, (unsigned long long)from,
                     (unsigned long long)(end > from ? end : from + 1));
    if (p->rate_hz >= 1) sonde_buf_printf(out, "&sampleRate=%u", (unsigned)(p->rate_hz + 0.5));
    curl_free(escaped);
    return out->error;
}

static int pyroscope_profile_kind(struct push_dest *d, const struct sonde_profile *p, int kind,
                                  const char *target, struct sonde_err *err)
{
    const struct sonde_profile_filter one = { .kind = kind };
    struct sonde_buf pprof, body;
    sonde_buf_init(&pprof, PUSH_BODY_MAX);
    sonde_buf_init(&body, PUSH_BODY_MAX);
    int rc = sonde_pprof_write(p, &one, &pprof, err);
    if (!rc) {
        pyroscope_put_body(&body, &pprof, kind);
        rc = body.error ? sonde_err_set(err, body.error, "no memory for the profile") : 0;
    }
    if (!rc) push_emit(d, SONDE_PUSH_PROFILES, target, 1, &body);
    sonde_buf_release(&pprof);
    sonde_buf_release(&body);
    return rc;
}

static int pyroscope_profile(struct push_dest *d, const struct sonde_profile *p,
                             struct sonde_err *err)
{
    struct sonde_buf target;
    sonde_buf_init(&target, PUSH_TARGET_MAX - 1);
    if (put_target(d, p, &target) != 0) {
        sonde_buf_release(&target);
        return sonde_err_set(err, SONDE_EINVAL, "its name and labels are too long for a URL");
    }
    int rc = SONDE_ENOENT;
    for (int kind = 0; kind < SONDE_SAMPLE_KIND_COUNT && (!rc || rc == SONDE_ENOENT); kind++) {
        const int one = pyroscope_profile_kind(d, p, kind, target.data, err);
        if (one != SONDE_ENOENT) rc = one;
    }
    sonde_buf_release(&target);
    return rc;
}

extern const struct sonde_push_ops sonde_push_pyroscope;
const struct sonde_push_ops sonde_push_pyroscope = {
    .name = "pyroscope",
    .path = "",
    .headers = headers,
    .profile = pyroscope_profile,
    .again = push_again_later,
};
