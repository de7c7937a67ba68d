/* llama_drive: a server on the real llama.cpp without the HTTP. Loads a model, serves requests over
 * some sequences, prints what was generated as digests, and writes the truth for --truth. It knows
 * nothing of sonde: what sonde says of it comes from outside. --help lists the options. */
#include "drive.h"

#include "ggml-backend.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

bool drive_stopping(void)
{
    return stopping;
}

void drive_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("llama_drive: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t drive_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

void drive_sleep_ms(int ms)
{
    if (ms > 0) nanosleep(&(struct timespec){ ms / 1000, (ms % 1000) * 1000000L }, NULL);
}

void *drive_calloc(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (!p) drive_die("out of memory");
    return p;
}

/* "llama_kv_cache:        CPU KV buffer size =     1.50 MiB" */
static void note_buffer(struct drive *d, const char *line)
{
    static const char words[] = " buffer size = ";
    const char *at = strstr(line, words), *from = strchr(line, ':');
    if (!at || !from || from > at || d->buffers_count == 16) return;
    for (from++; *from == ' ';) from++;
    struct drive_buffer *b = &d->buffers[d->buffers_count++];
    snprintf(b->what, sizeof(b->what), "%.*s", (int)(at - from), from);
    b->bytes = strtod(at + sizeof(words) - 1, NULL) * 1024 * 1024;
}

static void on_log(enum ggml_log_level level, const char *text, void *user)
{
    struct drive *d = user;
    note_buffer(d, text);
    if (d->options.verbose || level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void load(struct drive *d)
{
    const struct drive_options *o = &d->options;
    llama_log_set(on_log, d);
    ggml_backend_load_all_from_path(LLAMA_LIBRARY);
    llama_backend_init();

    struct llama_model_params model = llama_model_default_params();
    if (o->no_mmap) model.load_mode = LLAMA_LOAD_MODE_NONE;
    model.use_extra_bufts = false; /* weights are one buffer, whatever this CPU can do */
    d->load_start_ns = drive_now_ns();
    d->model = llama_model_load_from_file(o->model, model);
    d->load_end_ns = drive_now_ns();
    if (!d->model) drive_die("cannot load the model %s: --verbose says why", o->model);
    d->vocab = llama_model_get_vocab(d->model);

    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(o->ctx_seq * o->seqs);
    params.n_batch = params.n_ubatch = (uint32_t)o->batch;
    params.n_seq_max = (uint32_t)o->seqs;
    params.n_threads = params.n_threads_batch = o->threads;
    params.no_perf = false;
    d->context_start_ns = drive_now_ns();
    d->ctx = llama_init_from_model(d->model, params);
    d->context_end_ns = drive_now_ns();
    if (!d->ctx) drive_die("cannot make a context: --verbose says why");
}

/* As common_init_from_params() does it: beginning and end of a text, then all is forgotten. */
static void warm_up(struct drive *d)
{
    llama_token tokens[] = { llama_vocab_bos(d->vocab), llama_vocab_eos(d->vocab) };
    for (d->warmup_passes = 0; d->warmup_passes < 2; d->warmup_passes++) {
        if (llama_decode(d->ctx, llama_batch_get_one(tokens, 2))) {
            drive_die("the first pass failed");
        }
        llama_memory_clear(llama_get_memory(d->ctx), true);
        llama_synchronize(d->ctx);
    }
    llama_perf_context_reset(d->ctx);
}

static void be_ready(const struct drive_options *o)
{
    enum { WAIT_MS = 120000, EVERY_MS = 10 };
    if (o->ready_file) {
        FILE *file = fopen(o->ready_file, "w");
        if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file))
            drive_die("cannot write %s: %s", o->ready_file, strerror(errno));
    }
    if (!o->wait_for_file) return;
    for (int ms = 0; ms < WAIT_MS; ms += EVERY_MS) {
        if (!access(o->wait_for_file, F_OK)) return;
        drive_sleep_ms(EVERY_MS);
    }
    drive_die("%s did not come within two minutes", o->wait_for_file);
}

static void release(struct drive *d)
{
    llama_free(d->ctx);
    llama_model_free(d->model);
    llama_backend_free();
    for (int i = 0; i < d->requests_count; i++) {
        free(d->requests[i].text);
        free(d->requests[i].prompt);
        free(d->requests[i].tokens);
    }
    free(d->requests);
    free(d->passes);
}

int main(int argc, char **argv)
{
    struct drive d = { .start_ns = drive_now_ns(), .start_realtime_ns = clock_ns(CLOCK_REALTIME) };
    drive_options_read(argc, argv, &d.options);
    const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);

    load(&d);
    if (!d.options.no_warmup) warm_up(&d);
    be_ready(&d.options);
    const int64_t cpu_before_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    d.serve_start_ns = drive_now_ns();
    drive_serve(&d);
    d.serve_end_ns = drive_now_ns();
    d.serve_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_before_ns;
    d.perf = llama_perf_context(d.ctx);

    drive_digest_print(&d, stdout);
    if (fflush(stdout)) drive_die("cannot write to stdout: %s", strerror(errno));
    if (d.options.truth) {
        FILE *out = fopen(d.options.truth, "w");
        if (!out) drive_die("cannot write %s: %s", d.options.truth, strerror(errno));
        drive_truth_write(&d, out);
        if (fclose(out)) drive_die("cannot write %s: %s", d.options.truth, strerror(errno));
    }
    release(&d);
    return 0;
}
