/* Options of llama_drive: one row each. */
#include "drive.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, NUMBER, TEXT, SAMPLER };

#define AT(field) offsetof(struct drive_options, field)
static const struct {
    const char *name;
    enum kind kind;
    size_t at;
    int least, most;
    const char *help;
} rows[] = {
    { "--model", TEXT, AT(model), 0, 0, "FILE.gguf to load (required)" },
    { "--truth", TEXT, AT(truth), 0, 0, "write what happened, as JSON, to this file" },
    { "--ready-file", TEXT, AT(ready_file), 0, 0, "create this file once the model is loaded" },
    { "--wait-for-file", TEXT, AT(wait_for_file), 0, 0,
      "serve when this file is there; 2 min at most" },
    { "--requests", NUMBER, AT(requests), 1, 100000, "requests in a round (8)" },
    { "--repeat", NUMBER, AT(repeat), 1, 100000, "rounds (1)" },
    { "--seqs", NUMBER, AT(seqs), 1, 64, "sequences that are served at once (3)" },
    { "--seed", NUMBER, AT(seed), 0, INT_MAX, "of prompts and samplers (1)" },
    { "--prompt-tokens", NUMBER, AT(prompt_tokens), 2, 100000, "tokens of a prompt (40)" },
    { "--shared-prefix", NUMBER, AT(shared_prefix), 0, 100000,
      "of which all have these in common (16)" },
    { "--max-tokens", NUMBER, AT(max_tokens), 1, 100000, "tokens to generate at most (16)" },
    { "--spread", NUMBER, AT(spread), 0, 100, "percent by which both vary (50)" },
    { "--arrive", NUMBER, AT(arrive), 0, 100000,
      "forward passes between arrivals; 0: all at once (2)" },
    { "--cancel", NUMBER, AT(cancel), 0, 100000,
      "give up every nth request half-way; 0: none (0)" },
    { "--batch", NUMBER, AT(batch), 1, 4096, "tokens in one llama_decode (32)" },
    { "--ctx", NUMBER, AT(ctx_seq), 16, 1 << 20, "positions of a sequence (512)" },
    { "--end-bias", NUMBER, AT(end_bias), -100, 100, "added to the logit of a text's end (3)" },
    { "--threads", NUMBER, AT(threads), 1, 256, "threads that compute (1)" },
    { "--delay", NUMBER, AT(delay_ms), 0, 3600000, "ms between rounds (0)" },
    { "--step-delay", NUMBER, AT(step_delay_ms), 0, 3600000, "ms before each forward pass (0)" },
    { "--sampler", SAMPLER, AT(sampler), 0, 0, "apply, sample or greedy (apply)" },
    { "--get-one", FLAG, AT(get_one), 0, 0, "batches of llama_batch_get_one; one sequence" },
    { "--tokenize-thread", FLAG, AT(tokenize_thread), 0, 0, "tokenize prompts on another thread" },
    { "--no-reuse", FLAG, AT(no_reuse), 0, 0, "compute what a sequence has in its cache again" },
    { "--no-mmap", FLAG, AT(no_mmap), 0, 0, "read the weights into memory" },
    { "--no-warmup", FLAG, AT(no_warmup), 0, 0, "no passes before the first request" },
    { "--text", FLAG, AT(text), 0, 0, "print what was generated" },
    { "--verbose", FLAG, AT(verbose), 0, 0, "all that the library logs" },
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const char *const samplers[] = { "apply", "sample", "greedy" };

_Noreturn static void usage(int status)
{
    FILE *out = status ? stderr : stdout;
    fprintf(out, "usage: llama_drive --model FILE [options]\n");
    for (size_t i = 0; i < ROWS; i++) fprintf(out, "  %-18s %s\n", rows[i].name, rows[i].help);
    exit(status);
}

_Noreturn static void wrong(const char *name, const char *what)
{
    fprintf(stderr, "llama_drive: %s: %s\n", name, what);
    usage(2);
}

static void set(size_t row, const char *value, struct drive_options *out)
{
    char *const field = (char *)out + rows[row].at;
    switch (rows[row].kind) {
    case FLAG: memcpy(field, &(bool){ true }, sizeof(bool)); break;
    case TEXT: memcpy(field, &value, sizeof(value)); break;
    case NUMBER: {
        char *end;
        errno = 0;
        const long n = strtol(value, &end, 10);
        if (errno || end == value || *end || n < rows[row].least || n > rows[row].most)
            wrong(rows[row].name, "not a number that it can be");
        memcpy(field, &(int){ (int)n }, sizeof(int));
        break;
    }
    case SAMPLER:
        for (unsigned i = 0; i < 3; i++) {
            if (strcmp(value, samplers[i])) continue;
            out->sampler = (enum drive_sampler)i;
            return;
        }
        wrong(rows[row].name, "apply, sample or greedy");
    }
}

static void check(struct drive_options *o)
{
    if (!o->model) wrong("--model", "is required");
    if (o->get_one) o->seqs = 1;
    if (o->batch < o->seqs) wrong("--batch", "must hold a token of each sequence");
    if (o->shared_prefix >= o->prompt_tokens)
        wrong("--shared-prefix", "must be less than --prompt-tokens");
    const long most = (long)(o->prompt_tokens + o->max_tokens) * (100 + o->spread) / 100 + 2;
    if (most > o->ctx_seq) wrong("--ctx", "must hold a prompt and what follows");
}

void drive_options_read(int argc, char **argv, struct drive_options *out)
{
    *out = (struct drive_options){ .requests = 8, .repeat = 1, .seqs = 3, .seed = 1,
        .prompt_tokens = 40, .shared_prefix = 16, .max_tokens = 16, .spread = 50, .arrive = 2,
        .batch = 32, .ctx_seq = 512, .end_bias = 3, .threads = 1 };
    for (int i = 1; i < argc; i++) {
        size_t row = 0;
        if (!strcmp(argv[i], "--help")) usage(0);
        while (row < ROWS && strcmp(argv[i], rows[row].name)) row++;
        if (row == ROWS) wrong(argv[i], "there is no such option");
        if (rows[row].kind != FLAG && i + 1 == argc) wrong(argv[i], "needs a value");
        set(row, rows[row].kind == FLAG ? NULL : argv[++i], out);
    }
    check(out);
}
