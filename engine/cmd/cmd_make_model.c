/* cmd_make_model.c - `sonde-engine make-model`: a model with random weights and a real
 * tokenizer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/command.h"
#include "cmd/option.h"
#include "file/corpus.h"
#include "file/random_model.h"

#define TEXT_BYTES_MAX ((size_t)64 << 20)

struct make_options {
    struct random_model model;
    enum random_vocab_kind vocab;
    const char *output, *size, *arch, *type, *tokenizer;
    struct option_list texts;
    int force;
};

static const char name[] = "make-model";

/* Words to values. */
static int options_apply(struct make_options *o)
{
    if (!o->size) return command_bad(name, "--size is missing: tiny, small or medium");
    if (!o->output) return command_bad(name, "-o is missing: the file to write");
    o->model.size = random_model_size_named(o->size);
    if (!o->model.size) {
        return command_bad(name, "--size is '%s', but there are tiny, small and medium", o->size);
    }
    const int bitnet = !strcmp(o->arch, "bitnet");
    if (!bitnet && strcmp(o->arch, "llama")) {
        return command_bad(name, "--arch is '%s', but there are llama and bitnet", o->arch);
    }
    o->model.arch = bitnet ? RANDOM_MODEL_BITNET : RANDOM_MODEL_LLAMA;
    const struct weight_kind *kind = weight_kind_named(o->type);
    if (!kind) {
        return command_bad(
            name, "--type is '%s', but there are F32, F16, Q8_0, Q4_0, TQ2_0 and I2_S", o->type);
    }
    o->model.type = kind->type;
    const int spm = !strcmp(o->tokenizer, "spm");
    if (!spm && strcmp(o->tokenizer, "bpe")) {
        return command_bad(name, "--tokenizer is '%s', but there are bpe and spm", o->tokenizer);
    }
    o->vocab = spm ? RANDOM_VOCAB_SPM : RANDOM_VOCAB_BPE;
    struct stat st;
    if (o->force || lstat(o->output, &st)) return 0;
    return command_bad(name, "%s is there already; --force replaces it", o->output);
}

static int engine_cmd_make_model_options_read(struct make_options *o, int argc, char **argv)
{
    const struct option_row rows[] = {
        { .name = "--size", .kind = OPTION_TEXT, .to = &o->size },
        { .name = "--output", .other = "-o", .kind = OPTION_TEXT, .to = &o->output },
        { .name = "--arch", .kind = OPTION_TEXT, .to = &o->arch },
        { .name = "--type", .kind = OPTION_TEXT, .to = &o->type },
        { .name = "--tokenizer", .kind = OPTION_TEXT, .to = &o->tokenizer },
        { .name = "--text", .kind = OPTION_LIST, .to = &o->texts },
        { .name = "--seed", .kind = OPTION_U64, .to = &o->model.seed },
        { .name = "--force", .kind = OPTION_FLAG, .to = &o->force },
    };
    const int rc = option_read(argc, argv, rows, sizeof(rows) / sizeof(rows[0]));
    return rc ? rc : options_apply(o);
}

/* Adds a file to the text; 0 or the exit status. */
static int text_append(const char *path, char **text, size_t *bytes)
{
    FILE *f = fopen(path, "r");
    if (!f) return command_bad(name, "--text %s: %s", path, strerror(errno));
    int rc = 0;
    for (;;) {
        char *grown = realloc(*text, *bytes + (1 << 16));
        if (!grown) {
            rc = command_bad(name, "--text %s: out of memory", path);
            break;
        }
        *text = grown;
        const size_t n = fread(*text + *bytes, 1, 1 << 16, f);
        *bytes += n;
        if (ferror(f)) {
            rc = command_bad(name, "--text %s: %s", path, strerror(errno));
        } else if (*bytes > TEXT_BYTES_MAX) {
            rc = command_bad(name, "--text %s: more than 64 MiB", path);
        }
        if (rc || !n) break;
    }
    fclose(f);
    return rc;
}

static int text_gather(const struct make_options *o, char **text, size_t *bytes)
{
    const char *own = corpus_text(bytes);
    *text = malloc(*bytes);
    if (!*text) return command_bad(name, "out of memory");
    memcpy(*text, own, *bytes);
    for (size_t i = 0; i < o->texts.count; i++) {
        const int rc = text_append(o->texts.items[i], text, bytes);
        if (rc) return rc;
    }
    return 0;
}

static int make_model_run(int argc, char **argv)
{
    struct make_options o = { .arch = "llama", .type = "F16", .tokenizer = "bpe",
                              .model = { .seed = 1 } };
    int rc = engine_cmd_make_model_options_read(&o, argc, argv);
    if (rc) return rc;
    char *text = NULL;
    size_t bytes;
    struct random_vocab *vocab = NULL;
    struct fail why;
    rc = text_gather(&o, &text, &bytes);
    if (!rc) {
        if (random_vocab_train(o.vocab, text, bytes, o.model.size->vocab, &vocab, &why)) {
            rc = command_bad(name, "%s", why.text);
        } else {
            o.model.vocab = vocab;
            if (random_model_write(&o.model, o.output, &why)) {
                rc = command_bad(name, "%s", why.text);
            }
        }
    }
    random_vocab_destroy(vocab);
    free(text);
    return rc;
}

const struct command command_make_model = {
    .name = "make-model",
    .usage = "--size tiny|small|medium -o FILE [options]",
    .summary = "write a model with random weights and a tokenizer trained on text",
    .help = "  --size SIZE         tiny (3 MB as F16), small (30 MB) or medium (205 MB)\n"
            "  -o, --output FILE   the GGUF file to write\n"
            "  --arch ARCH         llama (default) or bitnet\n"
            "  --type TYPE         of the weights: F32, F16 (default), Q8_0, Q4_0, TQ2_0, I2_S\n"
            "  --tokenizer KIND    bpe (byte-level, default) or spm (SentencePiece)\n"
            "  --text FILE         train the tokenizer on this too; may be repeated\n"
            "  --seed N            another seed, other weights (default 1)\n"
            "  --force             replace FILE if it is there\n"
            "The same options give the same bytes, on every machine.\n",
    .run = make_model_run,
};
