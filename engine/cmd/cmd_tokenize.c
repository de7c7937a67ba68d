/* cmd_tokenize.c - `sonde-engine tokenize`: text to tokens, on the command line. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/option.h"
#include "cmd/tokenize_bench.h"
#include "text/tokenizer.h"

enum tokenize_form { FORM_TOKENS, FORM_IDS, FORM_TEXT, FORM_JSON };

struct tokenize {
    const char *model, *text;
    int special, no_bos, ids, as_text, json, lines, null, profile, vocab, bench;
    struct tokenize_bench_options bench_options;
    enum tokenize_form form;
    struct tokenizer *tokenizer;
    int32_t *tokens;
    size_t capacity;
};

static int engine_cmd_tokenize_out_of_memory(void)
{
    fputs("sonde-engine tokenize: out of memory\n", stderr);
    return 1;
}

/* ---- Output -------------------------------------------------------------------------------- */

/* The bytes of a token, which stay until the next call. */
static const char *engine_cmd_tokenize_piece_of(const struct tokenize *z, int32_t token,
                                                size_t *bytes)
{
    static char *room;
    static size_t size;
    *bytes = tokenizer_piece(z->tokenizer, token, 1, room, size);
    if (*bytes > size) {
        char *larger = realloc(room, *bytes);
        if (!larger) exit(engine_cmd_tokenize_out_of_memory());
        room = larger;
        size = *bytes;
        tokenizer_piece(z->tokenizer, token, 1, room, size);
    }
    return room;
}

/* Bytes of the UTF-8 character at text, 0: it is not one. Stricter than the tokenizer is. */
static size_t utf8_bytes(const unsigned char *text, size_t bytes)
{
    const size_t length = text[0] < 0x80 ? 1 : text[0] < 0xC2 ? 0 : text[0] < 0xE0 ? 2
                        : text[0] < 0xF0 ? 3 : text[0] < 0xF5 ? 4 : 0;
    if (!length || length > bytes) return 0;
    for (size_t i = 1; i < length; i++) if ((text[i] & 0xC0) != 0x80) return 0;
    if (text[0] == 0xE0 && text[1] < 0xA0) return 0;
    if (text[0] == 0xED && text[1] >= 0xA0) return 0;
    if (text[0] == 0xF0 && text[1] < 0x90) return 0;
    if (text[0] == 0xF4 && text[1] >= 0x90) return 0;
    return length;
}

static int utf8_is(const unsigned char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        const size_t length = utf8_bytes(text + i, bytes - i);
        if (!length) return 0;
        i += length;
    }
    return 1;
}

/* In quotes; what is not printable as \xNN, and what is not ASCII, too, if exact. */
static void piece_quote(const unsigned char *text, size_t bytes, int exact)
{
    putchar('\'');
    for (size_t i = 0; i < bytes;) {
        const size_t length = exact ? text[i] < 0x80 : utf8_bytes(text + i, bytes - i);
        if (text[i] == '\n') fputs("\\n", stdout);
        else if (text[i] == '\\' || text[i] == '\'') printf("\\%c", text[i]);
        else if (!length || iscntrl(text[i])) printf("\\x%02x", text[i]);
        else fwrite(text + i, 1, length, stdout);
        i += length ? length : 1;
    }
    putchar('\'');
}

/* A string, or, where it is part of a character only, an array of its bytes. */
static void piece_json(const unsigned char *text, size_t bytes)
{
    const int whole = utf8_is(text, bytes);
    putchar(whole ? '"' : '[');
    for (size_t i = 0; i < bytes; i++) {
        if (!whole) printf("%s%u", i ? ", " : "", text[i]);
        else if (text[i] == '"' || text[i] == '\\') printf("\\%c", text[i]);
        else if (text[i] < 0x20 || text[i] == 0x7F) printf("\\u%04x", text[i]);
        else putchar(text[i]);
    }
    putchar(whole ? '"' : ']');
}

static void tokens_json(const struct tokenize *z, size_t count)
{
    printf("{\"count\": %zu, \"tokens\": [", count);
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        const char *piece = engine_cmd_tokenize_piece_of(z, z->tokens[i], &bytes);
        printf("%s{\"id\": %d, \"piece\": ", i ? ", " : "", z->tokens[i]);
        piece_json((const unsigned char *)piece, bytes);
        putchar('}');
    }
    puts("]}");
}

static void tokens_print(const struct tokenize *z, size_t count)
{
    if (z->form == FORM_JSON) {
        tokens_json(z, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        const char *piece =
            z->form == FORM_IDS ? NULL : engine_cmd_tokenize_piece_of(z, z->tokens[i], &bytes);
        if (z->form == FORM_IDS) {
            printf("%s%d", i ? " " : "", z->tokens[i]);
        } else if (z->form == FORM_TEXT) {
            fwrite(piece, 1, bytes, stdout);
        } else {
            printf("%6d ", z->tokens[i]);
            piece_quote((const unsigned char *)piece, bytes, 0);
            putchar('\n');
        }
    }
    if (z->form == FORM_IDS) putchar('\n');
    else if (z->form == FORM_TEXT && z->lines) putchar(z->null ? '\0' : '\n');
}

/* Of every token: its number, "end" if generation ends with it, its bytes. */
static void vocab_print(const struct tokenize *z)
{
    for (uint32_t i = 0; i < tokenizer_size(z->tokenizer); i++) {
        size_t bytes;
        const char *piece = engine_cmd_tokenize_piece_of(z, (int32_t)i, &bytes);
        printf("%u %s ", i, tokenizer_is_end(z->tokenizer, (int32_t)i) ? "end" : "-");
        piece_quote((const unsigned char *)piece, bytes, 1);
        putchar('\n');
    }
}

static void profile_print(const struct tokenizer *t)
{
    struct tokenizer_counts c;
    struct tokenizer_slow slow[TOKENIZER_SLOWEST];
    struct tokenizer_advice advice[TOKENIZER_ADVICE_MAX];
    tokenizer_counts(t, &c);
    const size_t slow_count = tokenizer_slowest(t, slow);
    const size_t advice_count = tokenizer_advice(&c, slow, slow_count, advice);
    const uint64_t words = c.cache_hits + c.cache_misses + c.words_long;
    fprintf(stderr, "encodes  %" PRIu64 ": %" PRIu64 " bytes, %" PRIu64 " tokens in %.3f ms",
            c.encodes, c.bytes, c.tokens, (double)c.ns / 1e6);
    if (c.ns) fprintf(stderr, ", %.0f tokens per second", (double)c.tokens * 1e9 / (double)c.ns);
    fprintf(stderr,
            "\nwords    %" PRIu64 ": %" PRIu64 " from the cache, %" PRIu64 " merged, %" PRIu64
            " too long for the cache; %" PRIu64 " of %" PRIu64 " slots taken\n", words,
            c.cache_hits, c.cache_misses, c.words_long, c.cache_used, c.cache_slots);
    fprintf(stderr, "merging  %" PRIu64 " look-ups, %" PRIu64 " merges\n", c.lookups, c.merges);
    fputs("slowest       bytes    tokens    merges        µs\n", stderr);
    for (size_t i = 0; i < slow_count; i++) {
        fprintf(stderr, "        %10" PRIu64 "%10" PRIu64 "%10" PRIu64 "%10.1f\n", slow[i].bytes,
                slow[i].tokens, slow[i].merges, (double)slow[i].ns / 1e3);
    }
    for (size_t i = 0; i < advice_count; i++) fprintf(stderr, "advice   %s\n", advice[i].text);
}

/* ---- Input --------------------------------------------------------------------------------- */

static int text_tokenize(struct tokenize *z, const char *text, size_t bytes)
{
    const unsigned flags = (z->special ? TOKENIZE_SPECIAL : 0u) | (z->no_bos ? 0u : TOKENIZE_BOS);
    /* A byte that is not UTF-8 becomes three; pages cost when used. */
    const size_t most = 3 * bytes + 8;
    size_t count;
    if (most > z->capacity) {
        free(z->tokens);
        z->capacity = most;
        z->tokens = malloc(most * sizeof(*z->tokens));
        if (!z->tokens) return engine_cmd_tokenize_out_of_memory();
    }
    if (tokenizer_encode(z->tokenizer, text, bytes, flags, z->tokens, z->capacity, &count)) {
        return engine_cmd_tokenize_out_of_memory();
    }
    tokens_print(z, count);
    return 0;
}

static int lines_tokenize(struct tokenize *z)
{
    char *line = NULL;
    size_t size = 0;
    const int end = z->null ? '\0' : '\n';
    int rc = 0;
    for (ssize_t bytes; !rc && (bytes = getdelim(&line, &size, end, stdin)) > 0;) {
        if (line[bytes - 1] == end) bytes--;
        rc = text_tokenize(z, line, (size_t)bytes);
    }
    free(line);
    return rc;
}

static int stdin_tokenize(struct tokenize *z)
{
    char *text = NULL;
    size_t bytes = 0, size = 0;
    do {
        if (bytes == size) {
            size = size ? size * 2 : 65536;
            char *larger = realloc(text, size);
            if (!larger) {
                free(text);
                return engine_cmd_tokenize_out_of_memory();
            }
            text = larger;
        }
        bytes += fread(text + bytes, 1, size - bytes, stdin);
    } while (!feof(stdin) && !ferror(stdin));
    const int rc = text_tokenize(z, text, bytes);
    free(text);
    return rc;
}

static int input_tokenize(struct tokenize *z)
{
    int rc = 0;
    if (z->vocab) vocab_print(z);
    else if (z->text) rc = text_tokenize(z, z->text, strlen(z->text));
    else rc = z->lines ? lines_tokenize(z) : stdin_tokenize(z);
    if (!rc && z->profile) profile_print(z->tokenizer);
    if (fflush(stdout) || ferror(stdout)) {
        perror("sonde-engine tokenize: standard output");
        return 1;
    }
    return rc;
}

/* The text is the one argument that is not an option or its value; behind "--" it may look like
 * one. */
static int engine_cmd_tokenize_text_take(int *argc, char **argv, struct tokenize *z)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        const int dashes = !strcmp(argv[i], "--");
        if (!dashes && argv[i][0] == '-' && argv[i][1]) {
            argv[kept++] = argv[i];
            static const char *const valued[] = { "-m", "--model", "--lengths", "--kinds",
                                                  "--input", "--turns", "--seconds" };
            int takes = 0;
            for (size_t k = 0; k < sizeof(valued) / sizeof(valued[0]); k++) {
                takes |= !strcmp(argv[i], valued[k]);
            }
            if (takes && i + 1 < *argc) {
                argv[kept++] = argv[++i];
            }
            continue;
        }
        if (dashes && ++i == *argc) break;
        if (z->text) return command_bad("tokenize", "two texts: '%s' and '%s'", z->text, argv[i]);
        z->text = argv[i];
    }
    *argc = kept;
    return 0;
}

static int tokenize_run(int argc, char **argv)
{
    struct tokenize z = { .bench_options = { .turns = 5, .seconds = 0.5f } };
    int bench_given = 0;
    const struct option_row rows[] = {
        { "--model", "-m", OPTION_TEXT, &z.model, 0, 0, NULL },
        { "--special", NULL, OPTION_FLAG, &z.special, 0, 0, NULL },
        { "--no-bos", NULL, OPTION_FLAG, &z.no_bos, 0, 0, NULL },
        { "--ids", NULL, OPTION_FLAG, &z.ids, 0, 0, NULL },
        { "--text", NULL, OPTION_FLAG, &z.as_text, 0, 0, NULL },
        { "--json", NULL, OPTION_FLAG, &z.json, 0, 0, NULL },
        { "--lines", NULL, OPTION_FLAG, &z.lines, 0, 0, NULL },
        { "--null", "-0", OPTION_FLAG, &z.null, 0, 0, NULL },
        { "--profile", NULL, OPTION_FLAG, &z.profile, 0, 0, NULL },
        { "--vocab", NULL, OPTION_FLAG, &z.vocab, 0, 0, NULL },
        { "--bench", NULL, OPTION_FLAG, &z.bench, 0, 0, NULL },
        { "--lengths", NULL, OPTION_TEXT, &z.bench_options.lengths, 0, 0, &bench_given },
        { "--kinds", NULL, OPTION_TEXT, &z.bench_options.kinds, 0, 0, &bench_given },
        { "--input", NULL, OPTION_TEXT, &z.bench_options.input, 0, 0, &bench_given },
        { "--turns", NULL, OPTION_U32, &z.bench_options.turns, 1, 100, &bench_given },
        { "--seconds", NULL, OPTION_FLOAT, &z.bench_options.seconds, 0.001, 600, &bench_given },
    };
    int bad = engine_cmd_tokenize_text_take(&argc, argv, &z);
    if (!bad) bad = option_read(argc, argv, rows, sizeof(rows) / sizeof(rows[0]));
    if (bad) return bad;
    if (!z.model) return command_bad("tokenize", "-m FILE is missing");
    if (z.null && !z.lines) return command_bad("tokenize", "--null goes with --lines");
    if (z.text && (z.lines || z.vocab)) {
        return command_bad("tokenize", "a text does not go with %s",
                           z.lines ? "--lines" : "--vocab");
    }
    if (z.bench && (z.text || z.lines || z.vocab || z.profile)) {
        return command_bad("tokenize", "--bench makes its own inputs: it goes with no text, "
                           "--lines, --vocab or --profile");
    }
    if (bench_given && !z.bench) {
        return command_bad("tokenize", "--lengths, --kinds, --input, --turns and --seconds go with "
                           "--bench");
    }
    z.form = z.json ? FORM_JSON : z.as_text ? FORM_TEXT : z.ids || z.lines ? FORM_IDS : FORM_TOKENS;

    struct fail why;
    struct gguf *file;
    if (gguf_open(z.model, &file, &why)) {
        return command_bad_model("tokenize", z.model, why.text);
    }
    int rc = tokenizer_load(file, &z.tokenizer, &why);
    gguf_close(file);
    if (rc) {
        return command_bad_model("tokenize", z.model, why.text);
    }
    rc = z.bench ? tokenize_bench(z.tokenizer, &z.bench_options) : input_tokenize(&z);
    free(z.tokens);
    tokenizer_destroy(z.tokenizer);
    return rc;
}

const struct command command_tokenize = {
    .name = "tokenize",
    .usage = "-m FILE [OPTION …] [TEXT | <TEXT]",
    .summary = "print the tokens of a text, by the vocabulary of a model",
    .help = "  -m, --model FILE   a GGUF file; one with a vocabulary only will do\n"
            "  --special          texts of control tokens, as <s>, are those tokens\n"
            "  --no-bos           without the begin and end of text that the vocabulary asks for\n"
            "  --ids              numbers only\n"
            "  --text             the text of the tokens: what a model that got them would have "
            "read\n"
            "  --json             one object, with numbers and pieces\n"
            "  --lines            every line of the input on its own, numbers unless asked "
            "otherwise\n"
            "  -0, --null         with --lines: inputs end with a NUL byte instead of a newline\n"
            "  --profile          counts, times, the slowest inputs and advice to standard error\n"
            "  --vocab            lists the vocabulary instead\n"
            "  --bench            measures tokens per second, both ways, as one JSON object\n"
            "  --lengths N,…      of its inputs, in bytes (100,1000,10000,100000)\n"
            "  --kinds KIND,…     text, code, json, unicode (all)\n"
            "  --input FILE       pieces of this instead\n"
            "  --turns N          that rows take (5)\n"
            "  --seconds S        for each row (0.5)\n",
    .run = tokenize_run,
};
