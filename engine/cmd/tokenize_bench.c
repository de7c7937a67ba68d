/* tokenize_bench.c - see tokenize_bench.h.
 *
 * A row is a kind and a length. Its inputs are pieces of a larger text of that kind, each a
 * little further on than the one before, so that words come again as they do in prompts and the
 * cache of words is neither useless nor all there is; how often it hit is counted for every row.
 * Rows take turns. Encoding is tokenizer_encode(), decoding the pieces of all its tokens in one
 * buffer, and that buffer is compared with the input: SentencePiece puts a blank in front, which
 * is not a difference.
 *
 * Text is this project's documents, code its headers; JSON and other scripts are made up. Nothing
 * of the input is printed, nor kept. */
#include "cmd/tokenize_bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/command.h"
#include "file/corpus.h"
#include "sonde/sonde.h"

enum { BENCH_ROWS_MAX = 256, BENCH_LENGTHS_MAX = 16, BENCH_INPUT_MAX = 64 << 20,
       BENCH_MADE_BYTES = 1 << 20, BENCH_LENGTH_MAX = 1 << 20, BENCH_TURNS_MAX = 100 };

static const char *const bench_kinds[] = { "text", "code", "json", "unicode" };
enum { KIND_TEXT, KIND_CODE, KIND_JSON, KIND_UNICODE, KIND_INPUT, KIND_COUNT };

struct bench_material { const char *at; size_t bytes; char *made; /* owned */ };

struct bench_row {
    int kind;
    size_t length, at;           /* at: where the next input begins */
    uint64_t inputs, bytes, tokens, trips, trips_same;
    uint64_t hits, misses, words_long;
    double encode[BENCH_TURNS_MAX], decode[BENCH_TURNS_MAX]; /* tokens per second, by turn */
    double encode_bytes_s, encode_s;
};

struct token_bench {
    const struct tokenizer *t;
    const struct tokenize_bench_options *o;
    struct bench_material material[KIND_COUNT];
    struct bench_row *rows;      /* owned */
    size_t count;
    int32_t *tokens;             /* owned: 3 * BENCH_LENGTH_MAX + 8 */
    char *back;                  /* owned: room for their pieces */
    size_t back_size;
};

/* ---- Inputs ---------------------------------------------------------------------------------- */

static char *bench_make_json(size_t bytes)
{
    char *text = malloc(bytes + 512);
    size_t at = 0;
    for (uint32_t i = 0; text && at < bytes; i++) {
        const uint32_t r = i * 2654435761u;
        at += (size_t)snprintf(text + at, 512, "{\"id\":%u,\"name\":\"item-%x\",\"price\":%u.%02u,"
                               "\"tags\":[\"a%u\",\"b%u\"],\"active\":%s,\"note\":null,"
                               "\"created\":\"2024-%02u-%02uT%02u:%02u:00Z\"}\n", i, r >> 8,
                               r >> 20, r % 100, r >> 28, r >> 16 & 63, r & 64 ? "true" : "false",
                               1 + (r >> 7) % 12, 1 + (r >> 11) % 28, (r >> 3) % 24, (r >> 5) % 60);
    }
    return text;
}

static size_t bench_put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) return (void)(out[0] = (char)c), 1;
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    const size_t n = c < 0x10000 ? 3 : 4;
    out[0] = (char)(n == 3 ? 0xE0 | c >> 12 : 0xF0 | c >> 18);
    for (size_t i = 1; i < n; i++) out[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 63));
    return n;
}

/* Words of Greek, Cyrillic, Arabic, Devanagari, Han, Hangul, accented Latin, and emoji. */
static char *bench_make_unicode(size_t bytes)
{
    static const struct { uint32_t first, count; } scripts[] = {
        { 0x3B1, 24 }, { 0x430, 32 }, { 0x628, 30 }, { 0x905, 50 }, { 0x4E00, 3000 },
        { 0xAC00, 2000 }, { 0xE0, 23 }, { 0x1F600, 60 },
    };
    char *text = malloc(bytes + 256);
    size_t at = 0;
    uint32_t r = 1;
    while (text && at < bytes) {
        r = r * 1664525u + 1013904223u;
        const uint32_t script = r >> 29, letters = 1 + (r >> 20) % 8;
        for (uint32_t i = 0; i < letters; i++) {
            r = r * 1664525u + 1013904223u;
            /* The square of a uniform number: some letters are frequent. */
            const uint64_t u = r >> 16, c = u * u * scripts[script].count >> 32;
            at += bench_put_utf8(text + at, scripts[script].first + (uint32_t)c);
        }
        text[at++] = (r >> 8) % 12 ? ' ' : '\n';
    }
    return text;
}

static int bench_input_read(const char *path, struct bench_material *m)
{
    FILE *f = fopen(path, "rb");
    if (!f) return command_bad("tokenize", "cannot open '%s': %s", path, strerror(errno));
    m->made = malloc(BENCH_INPUT_MAX);
    m->bytes = m->made ? fread(m->made, 1, BENCH_INPUT_MAX, f) : 0;
    m->at = m->made;
    const int bad = ferror(f);
    fclose(f);
    if (!m->made) return 1;
    if (bad) return command_bad("tokenize", "cannot read '%s'", path);
    if (!m->bytes) return command_bad("tokenize", "'%s' is empty", path);
    return 0;
}

static int bench_materials(struct token_bench *b)
{
    size_t bytes;
    const char *corpus = corpus_text(&bytes);
    if (b->o->input) return bench_input_read(b->o->input, &b->material[KIND_INPUT]);
    /* Documents come first, headers last. */
    b->material[KIND_TEXT] = (struct bench_material){ .at = corpus, .bytes = bytes / 3 };
    b->material[KIND_CODE] = (struct bench_material){ .at = corpus + bytes - bytes / 4,
                                                      .bytes = bytes / 4 };
    for (int kind = KIND_JSON; kind <= KIND_UNICODE; kind++) {
        char *made = kind == KIND_JSON ? bench_make_json(BENCH_MADE_BYTES)
                                       : bench_make_unicode(BENCH_MADE_BYTES);
        if (!made) return 1;
        b->material[kind] = (struct bench_material){ .at = made, .bytes = BENCH_MADE_BYTES,
                                                     .made = made };
    }
    return 0;
}

/* The row's next input: begins and ends between characters. */
static const char *bench_row_next(struct token_bench *b, struct bench_row *r, size_t *bytes)
{
    const struct bench_material *m = &b->material[r->kind];
    size_t from = r->at, to = from + r->length;
    if (to > m->bytes) {
        from = 0;
        to = r->length < m->bytes ? r->length : m->bytes;
    }
    while (from < to && ((unsigned char)m->at[from] & 0xC0) == 0x80) from++;
    while (to > from && to < m->bytes && ((unsigned char)m->at[to] & 0xC0) == 0x80) to--;
    r->at = from + r->length / 3 + 1;
    *bytes = to - from;
    return m->at + from;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static double bench_since(uint64_t begin)
{
    return (double)sonde_ticks_ns(sonde_ticks() - begin) * 1e-9;
}

static int bench_decode(struct token_bench *b, size_t count, size_t *bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n = tokenizer_piece(b->t, b->tokens[i], 1, b->back + at, b->back_size - at);
        if (n > b->back_size - at) {
            char *larger = realloc(b->back, b->back_size * 2 + n);
            if (!larger) return -1;
            b->back = larger;
            b->back_size = b->back_size * 2 + n;
            n = tokenizer_piece(b->t, b->tokens[i], 1, b->back + at, b->back_size - at);
        }
        at += n;
    }
    *bytes = at;
    return 0;
}

static int bench_same(const struct token_bench *b, const char *text, size_t bytes, size_t got)
{
    if (got == bytes && !memcmp(b->back, text, bytes)) return 1;
    return got == bytes + 1 && b->back[0] == ' ' && !memcmp(b->back + 1, text, bytes);
}

static int bench_row_turn(struct token_bench *b, struct bench_row *r, uint32_t turn)
{
    const double share_s = (double)b->o->seconds / b->o->turns;
    struct tokenizer_counts before, after;
    double encode_s = 0, decode_s = 0;
    uint64_t tokens = 0;
    tokenizer_counts(b->t, &before);
    do {
        size_t bytes, count = 0, got = 0;
        const char *text = bench_row_next(b, r, &bytes);
        uint64_t begin = sonde_ticks();
        if (tokenizer_encode(b->t, text, bytes, 0, b->tokens, 3 * BENCH_LENGTH_MAX + 8, &count)) {
            return -1;
        }
        encode_s += bench_since(begin);
        begin = sonde_ticks();
        if (bench_decode(b, count, &got)) return -1;
        decode_s += bench_since(begin);
        tokens += count;
        r->inputs++;
        r->bytes += bytes;
        r->encode_bytes_s += (double)bytes;
        r->trips++;
        r->trips_same += bench_same(b, text, bytes, got) ? 1u : 0u;
    } while (encode_s < share_s || decode_s < share_s / 10);
    tokenizer_counts(b->t, &after);
    r->tokens += tokens;
    r->encode_s += encode_s;
    r->hits += after.cache_hits - before.cache_hits;
    r->misses += after.cache_misses - before.cache_misses;
    r->words_long += after.words_long - before.words_long;
    r->encode[turn] = (double)tokens / encode_s;
    r->decode[turn] = decode_s > 0 ? (double)tokens / decode_s : 0;
    return 0;
}

/* ---- What was asked for ---------------------------------------------------------------------- */

static int bench_lengths_read(const char *text, size_t *out, size_t *count)
{
    for (*count = 0;; text++) {
        char *end;
        errno = 0;
        const unsigned long long n = strtoull(text, &end, 10);
        if (end == text || errno || n < 1 || n > BENCH_LENGTH_MAX || (*end && *end != ',')) {
            return command_bad("tokenize", "--lengths: '%s' is not a list of lengths from 1 to %d",
                               text, BENCH_LENGTH_MAX);
        }
        if (*count == BENCH_LENGTHS_MAX) {
            return command_bad("tokenize", "--lengths: more than %d", BENCH_LENGTHS_MAX);
        }
        out[(*count)++] = (size_t)n;
        if (!*end) return 0;
        text = end;
    }
}

static int bench_kinds_read(const char *text, unsigned *bits)
{
    *bits = text ? 0 : ~0u;
    for (; text; text = strchr(text, ','), text = text ? text + 1 : NULL) {
        const size_t len = strcspn(text, ",");
        int k = 0;
        while (k < KIND_INPUT &&
               (strlen(bench_kinds[k]) != len || strncmp(bench_kinds[k], text, len) != 0)) k++;
        if (k == KIND_INPUT) {
            return command_bad("tokenize", "--kinds: '%s' is not of text, code, json, unicode",
                               text);
        }
        *bits |= 1u << k;
    }
    return 0;
}

static int bench_rows_make(struct token_bench *b)
{
    size_t lengths[BENCH_LENGTHS_MAX], count;
    unsigned kinds;
    int bad = bench_lengths_read(b->o->lengths ? b->o->lengths : "100,1000,10000,100000", lengths,
                                 &count);
    if (!bad) bad = bench_kinds_read(b->o->kinds, &kinds);
    if (bad) return bad;
    b->rows = calloc(BENCH_ROWS_MAX, sizeof(*b->rows));
    b->tokens = malloc((3 * (size_t)BENCH_LENGTH_MAX + 8) * sizeof(*b->tokens));
    b->back_size = 4 << 20;
    b->back = malloc(b->back_size);
    if (!b->rows || !b->tokens || !b->back) return 1;
    for (int k = 0; k < KIND_COUNT; k++) {
        if (b->o->input ? k != KIND_INPUT : k == KIND_INPUT || !(kinds >> k & 1)) continue;
        for (size_t i = 0; i < count; i++) {
            b->rows[b->count++] = (struct bench_row){ .kind = k, .length = lengths[i] };
        }
    }
    return 0;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void bench_turns_json(const char *name, const double *v, uint32_t count)
{
    printf(",\"%s\":[", name);
    for (uint32_t i = 0; i < count; i++) printf("%s%.9g", i ? "," : "", v[i]);
    putchar(']');
}

static void bench_json(const struct token_bench *b)
{
    struct tokenizer_slow slow[TOKENIZER_SLOWEST];
    const size_t slow_count = tokenizer_slowest(b->t, slow);
    printf("{\"tokenizer\":\"%s\",\"vocabulary\":%u,\"rows\":[", tokenizer_model(b->t),
           tokenizer_size(b->t));
    for (size_t i = 0; i < b->count; i++) {
        const struct bench_row *r = &b->rows[i];
        printf("%s{\"kind\":\"%s\",\"length\":%zu,\"inputs\":%" PRIu64 ",\"bytes\":%" PRIu64
               ",\"tokens\":%" PRIu64 ",\"round_trips\":%" PRIu64 ",\"round_trips_same\":%" PRIu64
               ",\"cache_hits\":%" PRIu64 ",\"cache_misses\":%" PRIu64 ",\"words_long\":%" PRIu64
               ",\"encode_bytes_per_s\":%.9g", i ? "," : "",
               r->kind == KIND_INPUT ? "input" : bench_kinds[r->kind], r->length, r->inputs,
               r->bytes, r->tokens, r->trips, r->trips_same, r->hits, r->misses, r->words_long,
               r->encode_s > 0 ? r->encode_bytes_s / r->encode_s : 0);
        bench_turns_json("encode_tokens_per_s", r->encode, b->o->turns);
        bench_turns_json("decode_tokens_per_s", r->decode, b->o->turns);
        putchar('}');
    }
    printf("],\"slowest\":[");
    for (size_t i = 0; i < slow_count; i++) {
        printf("%s{\"bytes\":%" PRIu64 ",\"tokens\":%" PRIu64 ",\"merges\":%" PRIu64
               ",\"seconds\":%.9f}", i ? "," : "", slow[i].bytes, slow[i].tokens, slow[i].merges,
               (double)slow[i].ns * 1e-9);
    }
    puts("]}");
}

int tokenize_bench(const struct tokenizer *t, const struct tokenize_bench_options *o)
{
    struct token_bench b = { .t = t, .o = o };
    int rc = bench_rows_make(&b);
    if (!rc) rc = bench_materials(&b);
    for (uint32_t turn = 0; !rc && turn < o->turns; turn++) {
        for (size_t i = 0; !rc && i < b.count; i++) {
            rc = bench_row_turn(&b, &b.rows[i], turn) ? 1 : 0;
        }
    }
    if (rc == 1) fputs("sonde-engine tokenize: out of memory\n", stderr);
    if (!rc) bench_json(&b);
    for (int k = 0; k < KIND_COUNT; k++) free(b.material[k].made);
    free(b.rows);
    free(b.tokens);
    free(b.back);
    if (!rc && fflush(stdout)) rc = 1;
    return rc;
}
