/* llama_tokenize: tokens as the real llama.cpp makes them, to compare a tokenizer with.
 *
 *   llama_tokenize --model FILE [--special] [--vocab LISTING] <INPUTS
 *       Inputs end with a NUL byte; a line of numbers for each. With --special, texts of special
 *       tokens are those tokens. The listing has every token: number, "end" or "-", its bytes.
 *   llama_tokenize --model FILE --time N <TEXT
 *       All of it as one text, N times: how many tokens, seconds.
 *
 * What `sonde-engine tokenize --lines --null` prints, and what it prints with --vocab. */
#include "ggml-backend.h"
#include "llama.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void on_log(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void die(const char *what)
{
    fprintf(stderr, "llama_tokenize: %s\n", what);
    exit(1);
}

struct tokens { llama_token *items; int32_t count, capacity; };

static void text_tokenize(const struct llama_vocab *vocab, const char *text, size_t bytes,
                          bool special, struct tokens *to)
{
    to->count = llama_tokenize(vocab, text, (int32_t)bytes, to->items, to->capacity, true, special);
    if (to->count >= 0) return;
    to->capacity = -to->count;
    to->items = realloc(to->items, (size_t)to->capacity * sizeof(*to->items));
    if (!to->items) die("out of memory");
    to->count = llama_tokenize(vocab, text, (int32_t)bytes, to->items, to->capacity, true, special);
}

static void inputs_print(const struct llama_vocab *vocab, bool special)
{
    struct tokens tokens = { 0 };
    char *line = NULL;
    size_t size = 0;
    for (ssize_t bytes; (bytes = getdelim(&line, &size, '\0', stdin)) > 0;) {
        if (!line[bytes - 1]) bytes--;
        text_tokenize(vocab, line, (size_t)bytes, special, &tokens);
        for (int32_t i = 0; i < tokens.count; i++) printf("%s%d", i ? " " : "", tokens.items[i]);
        putchar('\n');
    }
    free(line);
    free(tokens.items);
}

static void vocab_write(const struct llama_vocab *vocab, const char *path)
{
    char piece[65536];
    FILE *to = fopen(path, "w");
    if (!to) die(path);
    for (llama_token i = 0; i < llama_vocab_n_tokens(vocab); i++) {
        const int32_t bytes = llama_token_to_piece(vocab, i, piece, sizeof(piece), 0, true);
        fprintf(to, "%d %s '", i, llama_vocab_is_eog(vocab, i) ? "end" : "-");
        for (int32_t k = 0; k < bytes; k++) {
            if (piece[k] == '\n') {
                fputs("\\n", to);
            } else if (piece[k] == '\\' || piece[k] == '\'') {
                fprintf(to, "\\%c", piece[k]);
            } else if (piece[k] < ' ' || piece[k] > '~') {
                fprintf(to, "\\x%02x", (unsigned char)piece[k]);
            } else {
                fputc(piece[k], to);
            }
        }
        fputs("'\n", to);
    }
    if (fclose(to)) die(path);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void input_time(const struct llama_vocab *vocab, int rounds)
{
    static char text[1 << 24];
    struct tokens tokens = { 0 };
    const size_t bytes = fread(text, 1, sizeof(text), stdin);
    for (int i = 0; i < rounds; i++) {
        const double start = now();
        text_tokenize(vocab, text, bytes, false, &tokens);
        printf("%d %.6f\n", tokens.count, now() - start);
    }
    free(tokens.items);
}

int main(int argc, char **argv)
{
    const char *model = NULL, *listing = NULL;
    bool special = false;
    int rounds = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--special")) special = true;
        else if (i + 1 == argc) die("see the top of llama_tokenize.c for its options");
        else if (!strcmp(argv[i], "--model")) model = argv[++i];
        else if (!strcmp(argv[i], "--vocab")) listing = argv[++i];
        else if (!strcmp(argv[i], "--time")) rounds = atoi(argv[++i]);
        else die("see the top of llama_tokenize.c for its options");
    }
    if (!model) die("--model is missing");
    llama_log_set(on_log, NULL);
    ggml_backend_load_all_from_path(LLAMA_LIBRARY);
    llama_backend_init();
    struct llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    struct llama_model *loaded = llama_model_load_from_file(model, params);
    if (!loaded) die("the file cannot be loaded");
    if (listing) vocab_write(llama_model_get_vocab(loaded), listing);
    if (rounds) input_time(llama_model_get_vocab(loaded), rounds);
    else inputs_print(llama_model_get_vocab(loaded), special);
    llama_model_free(loaded);
    llama_backend_free();
    return 0;
}
