/* gperftools.c - CPU profiles of gperftools (CPUPROFILE), read: words of 4 or 8 bytes in the order
 * of bytes of the machine that wrote them, then its /proc/self/maps.
 *
 *   0, 3, 0, period (µs), 0          header: how many words of header follow, version, …
 *   count, n, pc 1 … pc n            a stack, innermost first
 *   0, 1, 0                          end */
#include <string.h>

#include "base/alloc.h"
#include "profile/formats/import.h"
#include "sonde/sonde.h"

enum { HEADER_WORDS = 5, DEPTH_MAX = 65535, PERIOD_US_MAX = 1000000000 };

struct gperftools_words {
    const char *data;
    size_t len, at;   /* bytes */
    size_t size;      /* of a word */
    int swap;
};

/* The next word; 0 = there is none. */
static int next_word(struct gperftools_words *w, uint64_t *out)
{
    uint64_t v = 0;
    uint32_t half;
    if (w->len - w->at < w->size) return 0;
    if (w->size == 8) {
        memcpy(&v, w->data + w->at, 8);
        *out = w->swap ? __builtin_bswap64(v) : v;
    } else {
        memcpy(&half, w->data + w->at, 4);
        *out = w->swap ? __builtin_bswap32(half) : half;
    }
    w->at += w->size;
    return 1;
}

/* Which size and order of words makes the header right; 0 = none. */
static int find_words(const char *data, size_t len, struct gperftools_words *out,
                      uint64_t *period_us)
{
    for (int form = 0; form < 4; form++) {
        struct gperftools_words w = { .data = data, .len = len, .size = form & 1 ? 4 : 8,
                                      .swap = form & 2 };
        uint64_t v[HEADER_WORDS], skipped;
        int got = 0;
        while (got < HEADER_WORDS && next_word(&w, &v[got])) got++;
        if (got < HEADER_WORDS || v[0] || v[1] < 3 || v[1] > 64 || v[2] || !v[3] ||
            v[3] > PERIOD_US_MAX || v[4]) {
            continue;
        }
        for (uint64_t i = 3; i < v[1]; i++) {
            if (!next_word(&w, &skipped)) return 0;
        }
        *out = w;
        *period_us = v[3];
        return 1;
    }
    return 0;
}

struct gperftools_reader {
    struct sonde_profile *p;
    struct sonde_err *err;
    struct gperftools_words w;
    struct sonde_import_maps maps;
    uint64_t period_ns;
    uint32_t *path;
};

static int gperftools_damaged(const struct gperftools_reader *r, const char *what)
{
    return sonde_err_set(r->err, SONDE_EFORMAT, "byte %zu: %s", r->w.at, what);
}

/* Where the maps begin: behind the record that ends the stacks. */
static int find_end(const struct gperftools_reader *r, size_t *out)
{
    struct gperftools_words w = r->w;
    uint64_t count, depth, pc;
    for (;;) {
        if (!next_word(&w, &count) || !next_word(&w, &depth)) break;
        if (!depth || depth > (w.len - w.at) / w.size) break;
        if (!count && depth == 1 && next_word(&w, &pc) && !pc) {
            *out = w.at;
            return 0;
        }
        w.at += (count || depth != 1 ? depth : 0) * w.size;
    }
    return sonde_err_set(r->err, SONDE_EFORMAT, "byte %zu: a stack that is longer than the file, "
                         "or the file was cut short", w.at);
}

static int gperftools_read_stack(struct gperftools_reader *r, uint64_t count, uint64_t depth)
{
    struct sonde_profile_sample s = { .kind = SONDE_SAMPLE_CPU };
    uint64_t pc, leaf = 0;
    uint32_t n = 0;
    for (uint64_t i = 0; i < depth; i++) {
        if (!next_word(&r->w, &pc)) return gperftools_damaged(r, "the file was cut short");
        if (!i) leaf = pc;
        /* The handler may see the innermost function twice: by its registers and on the stack. */
        if (n == DEPTH_MAX || (i == 1 && pc == leaf)) continue;
        if (i && pc) pc--; /* where the call is, not where it returns to */
        const uint32_t id = sonde_profile_location(r->p, sonde_import_maps_find(&r->maps, pc), pc);
        if (!id) return sonde_import_no_room(r->p, r->err);
        r->path[n++] = id;
    }
    while (n) {
        s.stack = sonde_profile_stack(r->p, s.stack, r->path[--n]);
        if (!s.stack) return sonde_import_no_room(r->p, r->err);
    }
    s.count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    if (__builtin_mul_overflow(count, r->period_ns, &s.weight)) {
        return gperftools_damaged(r, "too large a count");
    }
    return sonde_import_sample(r->p, &s, r->err);
}

static int gperftools_read_file(struct gperftools_reader *r)
{
    size_t maps = 0;
    uint64_t count, depth;
    int rc = find_end(r, &maps);
    if (rc) return rc;
    if (sonde_import_maps_read(&r->maps, r->w.data + maps, r->w.len - maps, r->p)) {
        return sonde_import_no_room(r->p, r->err);
    }
    const size_t end = maps - 3 * r->w.size;
    while (!rc && r->w.at < end && next_word(&r->w, &count) && next_word(&r->w, &depth)) {
        rc = gperftools_read_stack(r, count, depth);
    }
    if (!rc && !r->p->samples_count) rc = gperftools_damaged(r, "no samples in it");
    return rc;
}

static int gperftools_read(const char *data, size_t len, struct sonde_import *how,
                           struct sonde_profile *p, struct sonde_err *err)
{
    struct gperftools_reader r = { .p = p, .err = err };
    uint64_t period_us;
    if (!find_words(data, len, &r.w, &period_us)) {
        return sonde_err_set(err, SONDE_EFORMAT, "byte 0: not the header of a CPU profile");
    }
    r.period_ns = period_us * 1000;
    r.path = sonde__alloc(DEPTH_MAX * sizeof(*r.path));
    int rc = r.path ? gperftools_read_file(&r) : sonde_import_no_room(p, err);
    p->rate_hz = 1e6 / (double)period_us;
    p->engine = sonde_profile_cstring(p, "import");
    if (!rc && how) how->addresses = r.maps.count > 0;
    sonde_import_maps_release(&r.maps);
    sonde__free(r.path);
    return rc;
}

static int gperftools_probe(const char *data, size_t len)
{
    struct gperftools_words w;
    uint64_t period;
    return find_words(data, len, &w, &period);
}

extern const struct sonde_format_ops sonde_format_gperftools;
const struct sonde_format_ops sonde_format_gperftools = {
    .name = "gperftools",
    .summary = "CPU profiles of gperftools (only to be read)",
    .content_type = "application/octet-stream",
    .suffix = ".prof",
    .probe = gperftools_probe,
    .read = gperftools_read,
};
