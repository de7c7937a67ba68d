/* cmd_bench.c - sonde-engine bench: how fast a model is here, and where the time goes.
 *
 * A round is a prompt and an answer, each token of which is given (what a random model would say is
 * not of interest, and choosing it is not measured). Of the rounds the median is printed, and the
 * slowest and the fastest beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench_cost.h"
#include "cmd/command.h"
#include "cmd/device_option.h"
#include "cmd/option.h"
#include "cmd/solo.h"
#include "sonde/sonde.h"

enum { ROUNDS_MAX = 1000 };

struct bench_options {
    struct solo_options solo;
    uint32_t prompt, answer, rounds;
    int json, operations, instrumentation;
};

struct bench_figure { double low, median, high; }; /* tokens per second */

struct bench {
    struct bench_options o;
    struct solo solo;
    int32_t *tokens;             /* prompt, then answer */
    double prefill_s[ROUNDS_MAX], decode_s[ROUNDS_MAX];
};

static int double_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct bench_figure figure_of(double *seconds, uint32_t rounds, uint32_t tokens)
{
    qsort(seconds, rounds, sizeof(*seconds), double_order);
    return (struct bench_figure){ tokens / seconds[rounds - 1], tokens / seconds[rounds / 2],
                                  tokens / seconds[0] };
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static double ticks_seconds(uint64_t begin)
{
    return (double)sonde_ticks_ns(sonde_ticks() - begin) * 1e-9;
}

static int bench_round(struct bench *b, uint32_t round)
{
    const float *logits;
    solo_clear(&b->solo);
    uint64_t begin = sonde_ticks();
    if (b->o.prompt && solo_eval(&b->solo, b->tokens, b->o.prompt, &logits, NULL, NULL)) return -1;
    b->prefill_s[round] = ticks_seconds(begin);
    begin = sonde_ticks();
    for (uint32_t i = 0; i < b->o.answer; i++) {
        if (solo_eval(&b->solo, &b->tokens[b->o.prompt + i], 1, &logits, NULL, NULL)) return -1;
    }
    b->decode_s[round] = ticks_seconds(begin);
    return 0;
}

static int bench_rounds(struct bench *b)
{
    const float *logits;
    if (solo_eval(&b->solo, b->tokens, 1, &logits, NULL, NULL)) return -1; /* warm */
    if (b->o.operations) forward_times_enable(b->solo.forward, 1);
    for (uint32_t i = 0; i < b->o.rounds; i++) {
        if (bench_round(b, i)) return -1;
    }
    return 0;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void figure_print(const char *name, uint32_t tokens, double *seconds, uint32_t rounds)
{
    if (!tokens) return;
    const struct bench_figure f = figure_of(seconds, rounds, tokens);
    printf("%-8s %5u tokens  %10.1f tokens/s   (%.1f to %.1f in %u rounds)\n", name, tokens,
           f.median, f.low, f.high, rounds);
}

static void figure_json(const char *name, uint32_t tokens, double *seconds, uint32_t rounds)
{
    const struct bench_figure f = figure_of(seconds, rounds, tokens);
    printf("\"%s\":{\"tokens\":%u,\"tokens_per_second\":{\"min\":%.6g,\"median\":%.6g,"
           "\"max\":%.6g},\"seconds\":[", name, tokens, f.low, f.median, f.high);
    for (uint32_t i = 0; i < rounds; i++) printf("%s%.9f", i ? "," : "", seconds[i]);
    printf("]}");
}

static uint64_t op_ns(const struct bench *b, uint32_t layer, enum forward_op op)
{
    uint64_t ns, calls;
    forward_times(b->solo.forward, layer, op, &ns, &calls);
    return ns;
}

/* Milliseconds in all rounds: a line an operation, a column for each layer and for what is
 * outside. */
static void operations_print(const struct bench *b)
{
    const uint32_t layers = b->solo.model->layers;
    double all = 0;
    for (uint32_t layer = 0; layer <= layers; layer++) {
        for (int op = 0; op < FORWARD_OPS; op++) {
            all += (double)op_ns(b, layer, (enum forward_op)op);
        }
    }
    printf("\n%-12s %7s %10s", "operation", "share", "ms");
    for (uint32_t layer = 0; layer < layers; layer++) printf(" %8s%-2u", "layer ", layer);
    printf(" %10s\n", "outside");
    for (int op = 0; op < FORWARD_OPS; op++) {
        double sum = 0;
        for (uint32_t layer = 0; layer <= layers; layer++) {
            sum += (double)op_ns(b, layer, (enum forward_op)op);
        }
        printf("%-12s %6.1f%% %10.3f", forward_op_name((enum forward_op)op),
               all > 0 ? 100 * sum / all : 0, sum * 1e-6);
        for (uint32_t layer = 0; layer <= layers; layer++) {
            printf(" %10.3f", (double)op_ns(b, layer, (enum forward_op)op) * 1e-6);
        }
        putchar('\n');
    }
}

static void engine_cmd_bench_operations_json(const struct bench *b)
{
    printf(",\"operations\":{");
    for (int op = 0; op < FORWARD_OPS; op++) {
        printf("%s\"%s\":[", op ? "," : "", forward_op_name((enum forward_op)op));
        for (uint32_t layer = 0; layer <= b->solo.model->layers; layer++) {
            printf("%s%llu", layer ? "," : "",
                   (unsigned long long)op_ns(b, layer, (enum forward_op)op));
        }
        putchar(']');
    }
    putchar('}');
}

static void bench_print(struct bench *b)
{
    const struct model *m = b->solo.model;
    const struct bench_options *o = &b->o;
    if (o->json) {
        printf("{\"type\":\"%s\",\"kernel\":\"%s\",\"device\":\"%s\",\"threads\":%u,\"vocab\":%u,"
               "\"weight_bytes\":%llu,", m->type, b->solo.ops->name,
               b->solo.device ? b->solo.device->name : "cpu", team_threads(b->solo.team), m->vocab,
               (unsigned long long)m->weight_bytes);
        figure_json("prefill", o->prompt, b->prefill_s, o->rounds);
        putchar(',');
        figure_json("decode", o->answer, b->decode_s, o->rounds);
        if (o->operations) engine_cmd_bench_operations_json(b);
        puts("}");
        return;
    }
    printf("%s, %s, %.1f MB of weights, kernel %s, threads %u\n", m->name, m->type,
           (double)m->weight_bytes * 1e-6, b->solo.ops->name, team_threads(b->solo.team));
    if (b->solo.device) printf("%s\n", b->solo.placement.text);
    figure_print("prefill", o->prompt, b->prefill_s, o->rounds);
    figure_print("decode", o->answer, b->decode_s, o->rounds);
    if (o->operations) operations_print(b);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int bench_options_read(int argc, char **argv, struct bench_options *o)
{
    struct solo_env env;
    int bad = solo_env("bench", &env);
    if (bad) return bad;
    *o = (struct bench_options){ .solo = { .threads = env.threads, .memory_limit = env.memory_limit,
                                           .batch = env.batch ? env.batch : 512 },
                                 .prompt = 512, .answer = 128, .rounds = 5 };
    const struct option_row rows[] = {
        { "--model", "-m", OPTION_TEXT, &o->solo.model_path, 0, 0, NULL },
        { "--prompt", "-p", OPTION_U32, &o->prompt, 0, 1 << 16, NULL },
        { "--tokens", "-n", OPTION_U32, &o->answer, 0, 1 << 16, NULL },
        { "--repeat", "-r", OPTION_U32, &o->rounds, 1, ROUNDS_MAX, NULL },
        { "--threads", "-t", OPTION_U32, &o->solo.threads, 1, 256, NULL },
        { "--batch", "-b", OPTION_U32, &o->solo.batch, 1, 4096, NULL },
        { "--device", NULL, OPTION_TEXT, &o->solo.device, 0, 0, NULL },
        { "--device-memory", NULL, OPTION_BYTES, &o->solo.device_memory, 0, 0, NULL },
        { "--json", NULL, OPTION_FLAG, &o->json, 0, 0, NULL },
        { "--operations", NULL, OPTION_FLAG, &o->operations, 0, 0, NULL },
        { "--instrumentation", NULL, OPTION_FLAG, &o->instrumentation, 0, 0, NULL },
    };
    bad = option_read(argc, argv, rows, sizeof(rows) / sizeof(rows[0]));
    if (bad) return bad;
    const int listed = device_list(argv[0], o->solo.device);
    if (listed) return listed;
    if (!o->solo.model_path) return command_bad("bench", "which model? -m FILE");
    if (!(o->prompt + o->answer)) {
        return command_bad("bench", "-p 0 and -n 0 leave nothing to measure");
    }
    o->solo.context = o->prompt + o->answer + 1;
    return 0;
}

static int bench_open(struct bench *b)
{
    struct fail why;
    struct gguf *g;
    if (gguf_open(b->o.solo.model_path, &g, &why) || solo_open(&b->solo, g, &b->o.solo, &why)) {
        return command_bad_model("bench", b->solo.device_refused ? "" : b->o.solo.model_path,
                                 why.text);
    }
    const uint32_t count = b->o.prompt + b->o.answer;
    b->tokens = malloc(count * sizeof(*b->tokens));
    for (uint32_t i = 0; b->tokens && i < count; i++) {
        b->tokens[i] = (int32_t)((i * 37 + 11) % b->solo.model->vocab);
    }
    return b->tokens ? 0 : 1;
}

static int command_bench_run(int argc, char **argv)
{
    static struct bench b;
    const int bad = bench_options_read(argc, argv, &b.o);
    if (bad) return bad == DEVICE_LISTED ? 0 : bad;
    sonde_open(&(struct sonde_config){ .size = sizeof(struct sonde_config),
                                       .name = "sonde-engine" });
    if (b.o.instrumentation) return bench_cost(&b.o.solo, b.o.prompt, b.o.rounds, b.o.json);
    int rc = bench_open(&b);
    if (rc) return rc;
    rc = bench_rounds(&b);
    if (rc) {
        fprintf(stderr, "sonde-engine bench: %u tokens do not fit a context of %u%s%s\n",
                b.o.prompt + b.o.answer, b.solo.context, b.solo.notice[0] ? ": " : "",
                b.solo.notice);
    } else {
        bench_print(&b);
    }
    free(b.tokens);
    solo_close(&b.solo);
    return rc ? 1 : 0;
}

const struct command command_bench = {
    .name = "bench",
    .usage = "-m FILE [options]",
    .summary = "measure tokens per second, and where the time goes",
    .help = "  -m, --model FILE      a GGUF file\n"
            "  -p, --prompt N        tokens of the prompt (512)\n"
            "  -n, --tokens N        tokens of the answer (128)\n"
            "  -r, --repeat N        rounds (5); the median is printed, the range beside it\n"
            "  -t, --threads N       (as many as there are CPUs)\n"
            "  -b, --batch N         tokens of the prompt in one pass (512)\n"
            "      --device NAME     computes matrix products: cpu (default), opencl, opencl:N;\n"
            "                        list prints what there is\n"
            "      --device-memory N of it: 512MB; what does not fit stays on the CPU (all)\n"
            "      --json            print an object\n"
            "      --operations      also the time by operation and layer\n"
            "      --instrumentation what telling sonde costs: passes with recording on and off "
            "take\n"
            "                        turns; -r is then seconds\n",
    .run = command_bench_run,
};
