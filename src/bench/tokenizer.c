/* tokenizer.c - see tokenizer.h. */
#include "bench/tokenizer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/json_read.h"
#include "sonde/sonde.h"

enum { TOKENIZER_OUTPUT_MAX = 16 << 20, TOKENIZER_READ = 65536, TOKENIZER_ROWS_GUESS = 16 };

void sonde_tokenizer_release(struct sonde_tokenizer_bench *b)
{
    sonde__free(b->rows);
    memset(b, 0, sizeof(*b));
}

/* ---- What it printed ------------------------------------------------------------------------- */

static void tokenizer_text(struct sonde_json_reader *r, char *out, size_t size)
{
    struct sonde_buf buf;
    struct sonde_json_text text;
    sonde_buf_init(&buf, 4096);
    if (sonde_json_string(r, &buf, &text)) snprintf(out, size, "%.*s", (int)text.len, text.s);
    sonde_buf_release(&buf);
}

/* Rates: finite and above 0. */
static void tokenizer_rates(struct sonde_json_reader *r, double *out, size_t *count)
{
    *count = 0;
    if (!sonde_json_enter(r, '[')) return;
    while (sonde_json_element(r)) {
        double v = 0;
        if (!sonde_json_number(r, &v)) return;
        if (v > 0 && isfinite(v) && *count < SONDE_TOKENIZER_TURNS_MAX) out[(*count)++] = v;
    }
}

static void tokenizer_row(struct sonde_json_reader *r, struct sonde_tokenizer_row *row)
{
    const struct { const char *name; uint64_t *to; } numbers[] = {
        { "length", &row->length }, { "inputs", &row->inputs }, { "bytes", &row->bytes },
        { "tokens", &row->tokens }, { "round_trips", &row->trips },
        { "round_trips_same", &row->trips_same }, { "cache_hits", &row->cache_hits },
        { "cache_misses", &row->cache_misses }, { "words_long", &row->words_long },
    };
    struct sonde_json_text key;
    if (!sonde_json_enter(r, '{')) return;
    while (sonde_json_member(r, &key)) {
        size_t i = 0;
        while (i < SONDE_COUNT(numbers) && !sonde_json_text_is(key, numbers[i].name)) i++;
        if (i < SONDE_COUNT(numbers)) {
            sonde_json_number_u64(r, numbers[i].to);
        } else if (sonde_json_text_is(key, "kind")) {
            tokenizer_text(r, row->kind, sizeof(row->kind));
        } else if (sonde_json_text_is(key, "encode_bytes_per_s")) {
            sonde_json_number(r, &row->encode_bytes_per_s);
        } else if (sonde_json_text_is(key, "encode_tokens_per_s")) {
            tokenizer_rates(r, row->encode, &row->encode_count);
        } else if (sonde_json_text_is(key, "decode_tokens_per_s")) {
            tokenizer_rates(r, row->decode, &row->decode_count);
        } else {
            sonde_json_skip(r);
        }
    }
}

static void tokenizer_slow(struct sonde_json_reader *r, struct sonde_tokenizer_slow *s)
{
    struct sonde_json_text key;
    if (!sonde_json_enter(r, '{')) return;
    while (sonde_json_member(r, &key)) {
        if (sonde_json_text_is(key, "bytes")) sonde_json_number_u64(r, &s->bytes);
        else if (sonde_json_text_is(key, "tokens")) sonde_json_number_u64(r, &s->tokens);
        else if (sonde_json_text_is(key, "merges")) sonde_json_number_u64(r, &s->merges);
        else if (sonde_json_text_is(key, "seconds")) sonde_json_number(r, &s->seconds);
        else sonde_json_skip(r);
    }
}

static int tokenizer_rows(struct sonde_json_reader *r, struct sonde_tokenizer_bench *b)
{
    if (!sonde_json_enter(r, '[')) return 0;
    while (sonde_json_element(r)) {
        if (b->count == SONDE_TOKENIZER_ROWS_MAX) return SONDE_EFULL;
        struct sonde_tokenizer_row *row = SONDE_ARRAY_ADD(b->rows, b->count, b->cap);
        if (!row) return SONDE_ENOMEM;
        memset(row, 0, sizeof(*row));
        tokenizer_row(r, row);
    }
    return 0;
}

int sonde_tokenizer_parse(const char *text, size_t len, struct sonde_tokenizer_bench *out,
                          struct sonde_err *err)
{
    struct sonde_json_reader r;
    struct sonde_json_text key;
    int rc = 0;
    memset(out, 0, sizeof(*out));
    sonde_json_reader_init(&r, text, len);
    if (sonde_json_enter(&r, '{')) while (!rc && sonde_json_member(&r, &key)) {
        if (sonde_json_text_is(key, "tokenizer")) {
            tokenizer_text(&r, out->tokenizer, sizeof(out->tokenizer));
        } else if (sonde_json_text_is(key, "vocabulary")) {
            sonde_json_number_u64(&r, &out->vocabulary);
        } else if (sonde_json_text_is(key, "rows")) {
            rc = tokenizer_rows(&r, out);
        } else if (sonde_json_text_is(key, "slowest") && sonde_json_enter(&r, '[')) {
            while (sonde_json_element(&r)) {
                if (out->slow_count < SONDE_TOKENIZER_SLOWEST_MAX) {
                    tokenizer_slow(&r, &out->slowest[out->slow_count++]);
                } else {
                    sonde_json_skip(&r);
                }
            }
        } else {
            sonde_json_skip(&r);
        }
    }
    if (rc == SONDE_ENOMEM) return sonde_err_memory(err);
    if (rc || r.error || !sonde_json_at_end(&r) || !out->count) {
        return sonde_err_set(err, SONDE_EIO, "sonde-engine printed what is not its result: %s",
                             r.error ? r.error : rc ? "too many rows" : "no rows");
    }
    return 0;
}

/* ---- Running it ------------------------------------------------------------------------------ */

/* Beside this program, where builds and packages have it, else by PATH. */
static void tokenizer_find(char *out, size_t size)
{
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) {
        slash[1] = '\0';
        if (snprintf(out, size, "%ssonde-engine", self) < (int)size && !access(out, X_OK)) return;
    }
    snprintf(out, size, "sonde-engine");
}

static int tokenizer_spawn(const struct sonde_tokenizer_options *o, pid_t *pid, int *fd,
                           struct sonde_err *err)
{
    char program[PATH_MAX], seconds[32], turns[16];
    const char *argv[20] = { program, "tokenize", "--bench", "-m", o->model, "--seconds", seconds,
                             "--turns", turns };
    size_t n = 9;
    int ends[2];
    posix_spawn_file_actions_t files;
    if (o->engine) snprintf(program, sizeof(program), "%s", o->engine);
    else tokenizer_find(program, sizeof(program));
    snprintf(seconds, sizeof(seconds), "%g", o->seconds);
    snprintf(turns, sizeof(turns), "%u", o->turns);
    const char *const more[][2] = { { "--lengths", o->lengths }, { "--kinds", o->kinds },
                                    { "--input", o->input } };
    for (size_t i = 0; i < SONDE_COUNT(more); i++) {
        if (!more[i][1]) continue;
        argv[n++] = more[i][0];
        argv[n++] = more[i][1];
    }
    if (pipe2(ends, O_CLOEXEC)) {
        return sonde_err_set(err, SONDE_EIO, "no pipe to sonde-engine: %s", strerror(errno));
    }
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    const int bad = posix_spawnp(pid, program, &files, NULL, (char *const *)(uintptr_t)argv,
                                 environ);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    if (bad) {
        close(ends[0]);
        return sonde_err_set(err, SONDE_ENOENT, "cannot run '%.300s': %s; the tokenizer is that of "
                             "sonde-engine: name the program with --engine", program,
                             strerror(bad));
    }
    *fd = ends[0];
    return 0;
}

/* Rows are its to count: the share is a guess by time, which stays below 1. */
static void tokenizer_tell(const struct sonde_tokenizer_options *o, double since_s)
{
    const double all = o->seconds * 1.3 * TOKENIZER_ROWS_GUESS;
    const double share = (sonde_clock_s(CLOCK_MONOTONIC) - since_s) / all;
    if (o->tell) o->tell(o->arg, share < 0.99 ? share : 0.99, NULL);
}

static int tokenizer_listen(const struct sonde_tokenizer_options *o, int fd, struct sonde_buf *out)
{
    const double since_s = sonde_clock_s(CLOCK_MONOTONIC);
    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const int ready = poll(&p, 1, 500);
        tokenizer_tell(o, since_s);
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        char *to = sonde_buf_reserve(out, TOKENIZER_READ);
        if (!to) return out->error;
        const ssize_t n = read(fd, to, TOKENIZER_READ);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return SONDE_EIO;
        if (n == 0) return 0;
        out->len += (size_t)n;
    }
}

int sonde_tokenizer_run(const struct sonde_tokenizer_options *o, struct sonde_tokenizer_bench *out,
                        struct sonde_err *err)
{
    struct sonde_buf text;
    pid_t pid = 0;
    int fd = -1, status = 0;
    memset(out, 0, sizeof(*out));
    int rc = tokenizer_spawn(o, &pid, &fd, err);
    if (rc) return rc;
    sonde_buf_init(&text, TOKENIZER_OUTPUT_MAX);
    rc = tokenizer_listen(o, fd, &text);
    close(fd);
    if (rc) kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) { }
    if (rc) {
        rc = sonde_err_set(err, rc, "reading from sonde-engine failed: %s", sonde_strerror(rc));
    } else if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        rc = sonde_err_set(err, code == 2 ? SONDE_EINVAL : SONDE_EIO,
                           "sonde-engine tokenize ended with status %d", code);
    } else {
        rc = sonde_tokenizer_parse(text.data ? text.data : "", text.len, out, err);
    }
    sonde_buf_release(&text);
    return rc;
}

/* ---- As a result ----------------------------------------------------------------------------- */

static int tokenizer_rate_figure(struct sonde_bench_result *r,
                                 const struct sonde_tokenizer_row *row, const char *way,
                                 const double *rates, size_t count)
{
    char name[SONDE_BENCH_NAME_MAX + 1];
    snprintf(name, sizeof(name), "%s.%" PRIu64 ".%s_tokens_per_s", row->kind, row->length, way);
    struct sonde_bench_figure *f = sonde_bench_figure_add(r, name, "1/s", 1);
    if (!f || sonde_bench_figure_parts(f, rates, count)) return SONDE_ENOMEM;
    sonde_bench_figure_mean(f);
    return 0;
}

static void tokenizer_row_json(const struct sonde_tokenizer_row *row, struct sonde_buf *out)
{
    const double words = (double)(row->cache_hits + row->cache_misses + row->words_long);
    sonde_json_open(out, '{');
    sonde_json_str(out, "kind", row->kind);
    sonde_json_u64(out, "length_bytes", row->length);
    sonde_json_u64(out, "inputs", row->inputs);
    sonde_json_u64(out, "tokens", row->tokens);
    sonde_json_num(out, "bytes_per_token",
                   row->tokens ? (double)row->bytes / (double)row->tokens : (double)NAN);
    sonde_json_num(out, "encode_bytes_per_s", row->encode_bytes_per_s);
    sonde_json_num(out, "cache_hit_ratio",
                   words > 0 ? (double)row->cache_hits / words : (double)NAN);
    sonde_json_u64(out, "round_trips", row->trips);
    sonde_json_u64(out, "round_trips_same", row->trips_same);
    sonde_json_close(out, '}');
}

int sonde_tokenizer_result(const struct sonde_tokenizer_bench *b, struct sonde_bench_result *r)
{
    struct sonde_buf *out = &r->extra;
    int rc = 0;
    sonde_json_str(out, "tokenizer", b->tokenizer);
    sonde_json_u64(out, "vocabulary", b->vocabulary);
    sonde_json_key_open(out, "rows", '[');
    for (size_t i = 0; i < b->count; i++) tokenizer_row_json(&b->rows[i], out);
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "slowest", '[');
    for (size_t i = 0; i < b->slow_count; i++) {
        sonde_json_open(out, '{');
        sonde_json_u64(out, "bytes", b->slowest[i].bytes);
        sonde_json_u64(out, "tokens", b->slowest[i].tokens);
        sonde_json_u64(out, "merges", b->slowest[i].merges);
        sonde_json_num(out, "seconds", b->slowest[i].seconds);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    for (size_t i = 0; i < b->count && !rc; i++) {
        const struct sonde_tokenizer_row *row = &b->rows[i];
        rc = tokenizer_rate_figure(r, row, "encode", row->encode, row->encode_count);
        if (!rc) rc = tokenizer_rate_figure(r, row, "decode", row->decode, row->decode_count);
    }
    return rc ? rc : out->error;
}
