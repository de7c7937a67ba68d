/* cmd_run.c - sonde-engine run: go on with a text, on the terminal. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/device_option.h"
#include "cmd/option.h"
#include "cmd/solo.h"
#include "model/sampler.h"
#include "sonde/sonde.h"
#include "text/tokenizer.h"

enum { PROMPT_BYTES_MAX = 16 << 20, PIECE_BYTES = 256 };

struct run_options {
    struct solo_options solo;
    const char *prompt, *prompt_path, *logits_path;
    uint32_t tokens_max;
    struct sampler_params sampler;
    int ids, ignore_end, prompt_set, file_set;
};

struct run_text {
    struct run_options o;
    struct solo solo;
    struct tokenizer *tokenizer;
    int32_t *prompt;
    size_t prompt_count;
    FILE *logits;
    int logits_failed;
};

/* ---- The prompt ------------------------------------------------------------------------------ */

/* All of a file, with a 0 behind it; NULL after it said why not. */
static char *file_text(const char *path, size_t *bytes)
{
    FILE *f = !strcmp(path, "-") ? stdin : fopen(path, "rb");
    char *text = f ? malloc(PROMPT_BYTES_MAX + 1) : NULL;
    if (!text) {
        fprintf(stderr, "sonde-engine run: cannot read %s: %s\n", path, strerror(errno));
        if (f && f != stdin) fclose(f);
        return NULL;
    }
    *bytes = fread(text, 1, PROMPT_BYTES_MAX + 1, f);
    const int bad = ferror(f) != 0;
    if (f != stdin) fclose(f);
    if (bad || *bytes > PROMPT_BYTES_MAX) {
        fprintf(stderr, "sonde-engine run: %s %s\n", path,
                bad ? "cannot be read" : "is larger than 16 MiB");
        free(text);
        return NULL;
    }
    text[*bytes] = 0;
    return text;
}

/* The exit status, as all of these. */
static int ids_read(struct run_text *r, const char *text)
{
    const char *at = text + strspn(text, " ,\t\r\n");
    r->prompt = malloc((strlen(text) / 2 + 1) * sizeof(*r->prompt));
    if (!r->prompt) return 1;
    while (*at) {
        char *end;
        const unsigned long id = strtoul(at, &end, 10);
        if (end == at || id >= r->solo.model->vocab) {
            return command_bad("run",
                               "'%.20s' in the prompt is not a token of this vocabulary: 0 to %u",
                               at, r->solo.model->vocab - 1);
        }
        r->prompt[r->prompt_count++] = (int32_t)id;
        at = end + strspn(end, " ,\t\r\n");
    }
    return 0;
}

static int text_read(struct run_text *r, const char *text, size_t bytes)
{
    const unsigned flags = TOKENIZE_BOS | TOKENIZE_SPECIAL;
    r->prompt = malloc((bytes + 8) * sizeof(*r->prompt));
    if (!r->prompt || tokenizer_encode(r->tokenizer, text, bytes, flags, r->prompt, bytes + 8,
                                       &r->prompt_count) || r->prompt_count > bytes + 8) {
        fprintf(stderr, "sonde-engine run: the prompt could not be tokenized\n");
        return 1;
    }
    return 0;
}

static int prompt_read(struct run_text *r)
{
    size_t bytes = r->o.prompt ? strlen(r->o.prompt) : 0;
    char *text = r->o.file_set ? file_text(r->o.prompt_path, &bytes) : NULL;
    if (r->o.file_set && !text) return 2;
    const char *prompt = text ? text : r->o.prompt;
    const int bad = r->o.ids ? ids_read(r, prompt) : text_read(r, prompt, bytes);
    free(text);
    if (bad) return bad;
    if (!r->prompt_count && tokenizer_bos(r->tokenizer) >= 0) {
        r->prompt[r->prompt_count++] = tokenizer_bos(r->tokenizer);
    }
    if (r->prompt_count) return 0;
    fprintf(stderr, "sonde-engine run: the prompt is empty\n");
    return 2;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static void logits_write(void *context, const float *logits)
{
    struct run_text *r = context;
    const size_t vocab = r->solo.model->vocab;
    if (fwrite(logits, sizeof(*logits), vocab, r->logits) != vocab) r->logits_failed = 1;
}

static void token_print(struct run_text *r, int32_t token)
{
    char piece[PIECE_BYTES];
    if (r->o.ids) {
        printf("%d\n", token);
    } else {
        const size_t bytes = tokenizer_piece(r->tokenizer, token, 0, piece, sizeof(piece));
        fwrite(piece, 1, bytes < sizeof(piece) ? bytes : sizeof(piece), stdout);
    }
    fflush(stdout);
}

static int run_generate(struct run_text *r)
{
    struct sampler sampler;
    sampler_init(&sampler, &r->o.sampler);
    struct sampler_scratch *scratch = sampler_scratch_create(r->solo.model->vocab);
    if (!scratch) return -1;
    const float *logits;
    int32_t next;
    int rc = 0;
    uint32_t made = 0;
    void (*each)(void *, const float *) = r->logits ? logits_write : NULL;
    if (solo_eval(&r->solo, r->prompt, (uint32_t)r->prompt_count, &logits, each, r)) {
        fprintf(stderr, "sonde-engine run: a prompt of %zu tokens does not fit a context of %u: "
                "give --ctx\n", r->prompt_count, r->solo.context);
        rc = -1;
    }
    while (!rc && made < r->o.tokens_max) {
        next = sampler_choose(&sampler, scratch, logits, r->solo.model->vocab);
        if (!r->o.ignore_end && tokenizer_is_end(r->tokenizer, next)) break;
        token_print(r, next);
        if (++made == r->o.tokens_max) break;
        if (solo_eval(&r->solo, &next, 1, &logits, each, r)) break; /* the context is full */
    }
    if (!rc && !r->o.ids && made) putchar('\n');
    sampler_scratch_destroy(scratch);
    return rc;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int run_options_read(int argc, char **argv, struct run_options *o)
{
    struct solo_env env;
    int bad = solo_env("run", &env);
    if (bad) return bad;
    *o = (struct run_options){ .solo = { .threads = env.threads, .memory_limit = env.memory_limit,
                                         .batch = env.batch ? env.batch : 256 },
                               .tokens_max = 128,
                               .sampler = { 0, 0, 1, 0, env.seed } };
    const struct option_row rows[] = {
        { "--model", "-m", OPTION_TEXT, &o->solo.model_path, 0, 0, NULL },
        { "--prompt", "-p", OPTION_TEXT, &o->prompt, 0, 0, &o->prompt_set },
        { "--file", "-f", OPTION_TEXT, &o->prompt_path, 0, 0, &o->file_set },
        { "--tokens", "-n", OPTION_U32, &o->tokens_max, 0, 1 << 24, NULL },
        { "--temp", NULL, OPTION_FLOAT, &o->sampler.temperature, 0, 100, NULL },
        { "--top-k", NULL, OPTION_U32, &o->sampler.top_k, 0, 1 << 24, NULL },
        { "--top-p", NULL, OPTION_FLOAT, &o->sampler.top_p, 0, 1, NULL },
        { "--min-p", NULL, OPTION_FLOAT, &o->sampler.min_p, 0, 1, NULL },
        { "--seed", NULL, OPTION_U64, &o->sampler.seed, 0, 0, NULL },
        { "--threads", "-t", OPTION_U32, &o->solo.threads, 1, 256, NULL },
        { "--ctx", "-c", OPTION_U32, &o->solo.context, 1, 1 << 20, NULL },
        { "--batch", "-b", OPTION_U32, &o->solo.batch, 1, 4096, NULL },
        { "--device", NULL, OPTION_TEXT, &o->solo.device, 0, 0, NULL },
        { "--device-memory", NULL, OPTION_BYTES, &o->solo.device_memory, 0, 0, NULL },
        { "--ids", NULL, OPTION_FLAG, &o->ids, 0, 0, NULL },
        { "--ignore-end", NULL, OPTION_FLAG, &o->ignore_end, 0, 0, NULL },
        { "--logits", NULL, OPTION_TEXT, &o->logits_path, 0, 0, NULL },
    };
    bad = option_read(argc, argv, rows, sizeof(rows) / sizeof(rows[0]));
    if (bad) return bad;
    const int listed = device_list(argv[0], o->solo.device);
    if (listed) return listed;
    if (!o->solo.model_path) return command_bad("run", "which model? -m FILE");
    if (o->prompt_set == o->file_set) {
        return command_bad("run", "the prompt is either -p TEXT or -f FILE");
    }
    return 0;
}

static int run_open(struct run_text *r)
{
    struct fail why;
    struct gguf *g;
    if (gguf_open(r->o.solo.model_path, &g, &why)) goto failed;
    if (tokenizer_load(g, &r->tokenizer, &why)) {
        gguf_close(g);
        goto failed;
    }
    if (solo_open(&r->solo, g, &r->o.solo, &why)) goto failed;
    if (r->solo.device) fprintf(stderr, "sonde-engine run: %s\n", r->solo.placement.text);
    if (r->solo.notice[0]) fprintf(stderr, "sonde-engine run: %s\n", r->solo.notice);
    return 0;

failed:
    return command_bad_model("run", r->solo.device_refused ? "" : r->o.solo.model_path, why.text);
}

static int command_run_run(int argc, char **argv)
{
    struct run_text r = { 0 };
    const int bad = run_options_read(argc, argv, &r.o);
    if (bad) return bad == DEVICE_LISTED ? 0 : bad;
    sonde_open(&(struct sonde_config){ .size = sizeof(struct sonde_config),
                                       .name = "sonde-engine" });
    int rc = run_open(&r);
    if (rc) {
        tokenizer_destroy(r.tokenizer);
        return rc;
    }
    rc = prompt_read(&r);
    if (!rc && r.o.logits_path && !(r.logits = fopen(r.o.logits_path, "wb"))) {
        fprintf(stderr, "sonde-engine run: cannot write %s: %s\n", r.o.logits_path,
                strerror(errno));
        rc = 2;
    }
    if (!rc && run_generate(&r)) rc = 2;
    if (r.logits && (fclose(r.logits) || r.logits_failed)) {
        fprintf(stderr, "sonde-engine run: cannot write %s\n", r.o.logits_path);
        rc = 1;
    }
    free(r.prompt);
    solo_close(&r.solo);
    tokenizer_destroy(r.tokenizer);
    return rc;
}

const struct command command_run = {
    .name = "run",
    .usage = "-m FILE {-p TEXT | -f FILE} [options]",
    .summary = "continue a text, on the terminal",
    .help = "  -m, --model FILE      a GGUF file\n"
            "  -p, --prompt TEXT     what to go on with\n"
            "  -f, --file FILE       the same, from a file; - is standard input\n"
            "  -n, --tokens N        at most so many tokens (128)\n"
            "      --temp X          temperature; 0 takes the likeliest token (0)\n"
            "      --top-k N         only the N likeliest; 0 is all (0)\n"
            "      --top-p X         only the likeliest that are X together (1)\n"
            "      --min-p X         only what is at least X times as likely as the likeliest (0)\n"
            "      --seed N          the same seed draws the same tokens (0)\n"
            "  -t, --threads N       (as many as there are CPUs)\n"
            "  -c, --ctx N           positions at most (the model's, at most 4096)\n"
            "  -b, --batch N         tokens of the prompt in one pass (256)\n"
            "      --device NAME     computes matrix products: cpu (default), opencl, opencl:N;\n"
            "                        list prints what there is\n"
            "      --device-memory N of it: 512MB; what does not fit stays on the CPU (all)\n"
            "      --ids             the prompt is token ids, and ids are printed, a line each\n"
            "      --ignore-end      go on after tokens that end a text\n"
            "      --logits FILE     write the logits of every token, prompt and answer, as f32\n"
            "SONDE_NUM_THREADS, SONDE_BATCH_SIZE, SONDE_SEED and SONDE_MEMORY_LIMIT set "
            "defaults.\n",
    .run = command_run_run,
};
