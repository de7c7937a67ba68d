/* heap_text.c - heap profiles as text: gperftools (HEAPPROFILE), jemalloc (prof:true) and Go
 * (debug=1).
 *
 *   heap profile:    2:   96 [     5:    240] @ heap_v2/524288      or heapprofile, heap/1048576, …
 *        1:       64 [     3:      192] @ 0x401136 0x401200
 *   #  0x401135  main.leak+0x15  /src/main.go:12                    Go: names of that stack
 *
 *   heap_v2/524288                                                  jemalloc
 *     t*: 2: 96 [0: 0]                                              sum of all
 *   @ 0x401136 0x401200
 *     t*: 1: 64 [0: 0]                                              all threads
 *     t1: 1: 64 [0: 0]                                              one of them: passed over
 *
 *   MAPPED_LIBRARIES:                                               as in /proc/PID/maps
 *
 * Before the brackets is what is in use, in them what was ever allocated: count and bytes. With a
 * rate they are a sample, in which an object of n bytes is with the probability 1 - e^(-n/rate):
 * counts and bytes are divided by that, as pprof and jeprof do. Go writes twice its rate. Addresses
 * are where calls return to. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "profile/formats/import.h"
#include "sonde/sonde.h"

enum { DEPTH_MAX = 4096, LINE_MAX_BYTES = 1 << 17 };

struct numbers {
    uint64_t live, live_bytes, all, all_bytes;
};

struct heap_text_reader {
    struct sonde_profile *p;
    struct sonde_err *err;
    struct sonde_import_maps maps;
    size_t number;               /* of the line */
    double rate;                 /* 0 = everything is counted */
    int jemalloc;
    int named;                   /* the stack at hand has names, read so far */
    struct numbers sample;
    int has_sample;
    uint32_t path[DEPTH_MAX];    /* of the stack at hand, innermost first */
    uint32_t depth;
    char *line;                  /* the one at hand, NUL-terminated */
    uint64_t samples;
};

#define DAMAGED(r, text) sonde_err_set((r)->err, SONDE_EFORMAT, "line %zu: " text, (r)->number)

/* ---- Lines ----------------------------------------------------------------------------------- */

/* "1: 64 [3: 192]", and what follows it in *rest; 0 = it is something else. */
static int parse_numbers(const char *s, struct numbers *n, const char **rest)
{
    unsigned long long a, b, c, d;
    int at = 0;
    if (sscanf(s, " %llu : %llu [ %llu : %llu ]%n", &a, &b, &c, &d, &at) < 4 || !at) return 0;
    *n = (struct numbers){ a, b, c, d };
    *rest = s + at;
    return 1;
}

/* Innermost first, as they stand. */
static int parse_stack(struct heap_text_reader *r, const char *s)
{
    r->depth = 0;
    for (char *end; *s; s = end) {
        const unsigned long long address = strtoull(s, &end, 16);
        if (end == s) {
            while (isspace((unsigned char)*s)) s++;
            return *s ? DAMAGED(r, "an address is expected behind '@'") : 0;
        }
        if (r->depth == DEPTH_MAX) continue;
        const uint64_t call = address ? address - 1 : 0;
        const uint32_t id =
            sonde_profile_location(r->p, sonde_import_maps_find(&r->maps, call), call);
        if (!id) return sonde_import_no_room(r->p, r->err);
        r->path[r->depth++] = id;
    }
    return 0;
}

/* Go: "#\t0x45e2a1\tmain.leak+0x41\t/src/main.go:12"; a frame of the stack at hand. */
static int heap_text_parse_name(struct heap_text_reader *r, char *s)
{
    char *address = strtok_r(s + 1, "\t ", &s), *name = strtok_r(NULL, "\t", &s);
    char *file = name ? strtok_r(NULL, "\t", &s) : NULL;
    if (!address || strncmp(address, "0x", 2) || !name) return 0;
    char *offset = strstr(name, "+0x"), *line = file ? strrchr(file, ':') : NULL;
    if (offset) *offset = '\0';
    if (line) *line++ = '\0';
    while (file && isspace((unsigned char)*file)) file++;
    if (!r->named) r->depth = 0;
    r->named = 1;
    if (r->depth == DEPTH_MAX) return 0;
    const struct sonde_json_text text = { name, strlen(name) };
    const struct sonde_json_text where = { file ? file : "", file ? strlen(file) : 0 };
    const uint32_t id =
        sonde_import_frame(r->p, text, where, line ? (uint32_t)strtoul(line, NULL, 10) : 0);
    if (!id) return sonde_import_no_room(r->p, r->err);
    r->path[r->depth++] = id;
    return 0;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static int add_kind(struct heap_text_reader *r, int kind, uint32_t stack, uint64_t count,
                    uint64_t bytes)
{
    if (!count || !bytes) return 0;
    double scale = 1;
    if (r->rate > 0) scale = 1 / (1 - exp(-((double)bytes / (double)count) / r->rate));
    const double many = (double)count * scale, much = (double)bytes * scale;
    if (!(many < 1e18 && much < 1e18)) return DAMAGED(r, "a count or size that is too large");
    const struct sonde_profile_sample s = {
        .weight = scale > 1 ? (uint64_t)(much + 0.5) : bytes,
        .count = many < UINT32_MAX ? (uint32_t)(many + 0.5) : UINT32_MAX,
        .stack = stack, .kind = (uint16_t)kind,
    };
    return sonde_import_sample(r->p, &s, r->err);
}

/* The sample at hand, when its stack is complete. */
static int heap_text_end_sample(struct heap_text_reader *r)
{
    if (!r->has_sample) return 0;
    uint32_t stack = 0;
    if (!r->depth) r->path[r->depth++] = sonde_profile_named_location(r->p, "[unknown]", 9);
    while (r->depth) {
        stack = sonde_profile_stack(r->p, stack, r->path[--r->depth]);
        if (!stack) return sonde_import_no_room(r->p, r->err);
    }
    r->has_sample = r->named = 0;
    r->samples++;
    int rc = add_kind(r, SONDE_SAMPLE_LIVE, stack, r->sample.live, r->sample.live_bytes);
    if (!rc) rc = add_kind(r, SONDE_SAMPLE_ALLOC, stack, r->sample.all, r->sample.all_bytes);
    return rc;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* "heap_v2/524288" and the like. */
static void parse_type(struct heap_text_reader *r, const char *s)
{
    while (isspace((unsigned char)*s)) s++;
    const char *slash = strchr(s, '/');
    const size_t n = slash ? (size_t)(slash - s) : strcspn(s, " \t\r");
    const double rate = slash ? strtod(slash + 1, NULL) : 0;
    if (!(rate > 1 && rate < 1e12)) return;
    if (n == 4 && !memcmp(s, "heap", 4)) r->rate = rate / 2;
    else if (n > 3 && !memcmp(s + n - 3, "_v2", 3)) r->rate = rate;
}

static int heap_text_read_header(struct heap_text_reader *r)
{
    static const char start[] = "heap profile:";
    const char *rest;
    struct numbers all;
    if (!strncmp(r->line, start, sizeof(start) - 1)) {
        if (!parse_numbers(r->line + sizeof(start) - 1, &all, &rest)) {
            return DAMAGED(r,
                           "a heap profile's first line has counts: '1: 64 [3: 192] @ heap_v2/N'");
        }
        const char *at = strchr(rest, '@');
        if (at) parse_type(r, at + 1);
        return 0;
    }
    r->jemalloc = 1;
    parse_type(r, r->line);
    return strncmp(r->line, "heap_v2/", 8) ? DAMAGED(r, "not the first line of a heap profile") : 0;
}

/* 1: it is no such line. */
static int read_jemalloc(struct heap_text_reader *r, const char *s)
{
    const char *rest;
    if (*s == '@') {
        const int rc = heap_text_end_sample(r);
        return rc ? rc : parse_stack(r, s + 1);
    }
    if (strncmp(s, "t*:", 3)) return *s == 't' && isdigit((unsigned char)s[1]) ? 0 : 1;
    if (!parse_numbers(s + 3, &r->sample, &rest)) return 1;
    r->has_sample = r->depth > 0; /* the first is the sum of all */
    return heap_text_end_sample(r);
}

static int heap_text_read_line(struct heap_text_reader *r)
{
    const char *s = r->line, *rest;
    while (isspace((unsigned char)*s)) s++;
    if (!*s) return 0;
    if (*s == '#') return r->has_sample ? heap_text_parse_name(r, r->line + (s - r->line)) : 0;
    if (r->jemalloc) {
        const int rc = read_jemalloc(r, s);
        return rc == 1
                   ? DAMAGED(r, "neither '@ address …' nor 't*: count: bytes [count: bytes]'") : rc;
    }
    const int rc = heap_text_end_sample(r);
    if (rc) return rc;
    if (!parse_numbers(s, &r->sample, &rest)) {
        return DAMAGED(r, "not 'count: bytes [count: bytes] @ address …'");
    }
    while (isspace((unsigned char)*rest)) rest++;
    if (*rest != '@') return DAMAGED(r, "'@' and addresses are expected behind the counts");
    r->has_sample = 1;
    return parse_stack(r, rest + 1);
}

static const char *find_maps(const char *data, size_t len)
{
    static const char *const heads[] = { "\nMAPPED_LIBRARIES:", "\n--- Memory map: ---" };
    for (size_t i = 0; i < SONDE_COUNT(heads); i++) {
        const char *found = memmem(data, len, heads[i], strlen(heads[i]));
        if (found) return found + 1;
    }
    return data + len;
}

static int heap_text_read_file(struct heap_text_reader *r, const char *data, size_t len)
{
    const char *end = find_maps(data, len);
    int rc = 0;
    if (sonde_import_maps_read(&r->maps, end, (size_t)(data + len - end), r->p)) {
        return sonde_import_no_room(r->p, r->err);
    }
    for (const char *at = data; at < end && !rc;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t n = (size_t)((newline ? newline : end) - at);
        r->number++;
        if (n >= LINE_MAX_BYTES) return DAMAGED(r, "a line that is too long");
        memcpy(r->line, at, n);
        r->line[n] = '\0';
        rc = r->number == 1 ? heap_text_read_header(r) : heap_text_read_line(r);
        at = newline ? newline + 1 : end;
    }
    return rc ? rc : heap_text_end_sample(r);
}

static int heap_text_read(const char *data, size_t len, struct sonde_import *how,
                          struct sonde_profile *p, struct sonde_err *err)
{
    struct heap_text_reader *r = sonde__calloc(1, sizeof(*r));
    if (r) r->line = sonde__alloc(LINE_MAX_BYTES);
    if (!r || !r->line) {
        sonde__free(r);
        return sonde_import_no_room(p, err);
    }
    r->p = p;
    r->err = err;
    int rc = heap_text_read_file(r, data, len);
    if (!rc && !p->samples_count) rc = sonde_err_set(err, SONDE_EFORMAT, "no allocations in it");
    if (!rc && how) how->addresses = r->maps.count > 0;
    p->engine = sonde_profile_cstring(p, "import");
    sonde_import_maps_release(&r->maps);
    sonde__free(r->line);
    sonde__free(r);
    return rc;
}

static int heap_text_probe(const char *data, size_t len)
{
    static const char *const starts[] = { "heap profile:", "heap_v2/" };
    for (size_t i = 0; i < SONDE_COUNT(starts); i++) {
        const size_t n = strlen(starts[i]);
        if (len > n && !memcmp(data, starts[i], n)) return 1;
    }
    return 0;
}

extern const struct sonde_format_ops sonde_format_heap_text;
const struct sonde_format_ops sonde_format_heap_text = {
    .name = "heap-text",
    .summary = "heap profiles of gperftools, jemalloc and Go, as text (only to be read)",
    .content_type = "text/plain; charset=utf-8",
    .suffix = ".heap",
    .probe = heap_text_probe,
    .read = heap_text_read,
};
