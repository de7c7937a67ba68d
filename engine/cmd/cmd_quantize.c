/* cmd_quantize.c - `sonde-engine quantize`: a model's weights as another type. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cmd/command.h"
#include "file/quantize.h"

static const char name[] = "quantize";

struct quantize_progress { time_t told; };

static time_t clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static void progress_tell(void *arg, const struct quantize_report *r, const struct gguf_tensor *t,
                          enum weight_type type, int fallback)
{
    struct quantize_progress *p = arg;
    if (fallback) {
        fprintf(stderr, "%.*s: rows of %llu do not fit the block; it is written as %s\n",
                (int)t->name.bytes, t->name.at, (unsigned long long)t->dims[0],
                weight_kind(type)->name);
    }
    if (clock_s() - p->told < 2) return; /* whole seconds: at least one has passed */
    p->told = clock_s();
    fprintf(stderr, "%llu of %llu tensors, %.0f MB\n", (unsigned long long)r->done,
            (unsigned long long)r->tensors, (double)r->bytes_in / 1e6);
}

static int same_file(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int quantize_run(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') return command_bad(name, "there is no option '%s'", argv[i]);
    }
    if (argc != 4) return command_bad(name, "it needs three arguments: IN OUT TYPE");
    const char *in = argv[1], *out = argv[2];
    const struct weight_kind *kind = weight_kind_named(argv[3]);
    if (!kind) {
        return command_bad(
            name, "the type is '%s', but there are F32, F16, Q8_0, Q4_0, TQ2_0 and I2_S", argv[3]);
    }
    struct fail why;
    struct gguf *g;
    struct quantize_report r;
    if (gguf_open(in, &g, &why)) return command_bad(name, "%s", why.text);
    if (same_file(in, out)) {
        gguf_close(g);
        return command_bad(name, "%s would replace what it is made from; name another file", out);
    }
    struct quantize_progress progress = { .told = clock_s() };
    const struct quantize_watch watch = { progress_tell, &progress };
    const int rc = quantize_file(g, kind->type, out, &watch, &r, &why);
    gguf_close(g);
    if (rc) return command_bad(name, "%s", why.text);
    printf("%s: %llu of %llu tensors converted, %.1f MB of weights from %.1f MB", out,
           (unsigned long long)r.converted, (unsigned long long)r.tensors,
           (double)r.bytes_out / 1e6, (double)r.bytes_in / 1e6);
    if (r.fallbacks) printf(", %llu as F16 instead", (unsigned long long)r.fallbacks);
    puts("");
    return 0;
}

const struct command command_quantize = {
    .name = "quantize",
    .usage = "IN OUT TYPE",
    .summary = "convert a model's weights to another type",
    .help = "  IN      a GGUF file with weights of the types below\n"
            "  OUT     the file to write; it is there when it is complete, or not at all\n"
            "  TYPE    F32, F16, Q8_0, Q4_0, TQ2_0 or I2_S\n"
            "Norms stay as they are; with TQ2_0 and I2_S embeddings and output become F16.\n",
    .run = quantize_run,
};
