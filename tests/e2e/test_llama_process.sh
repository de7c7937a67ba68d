#!/usr/bin/env bash
# Batches that are made by calls (llama_batch_ext_…, llama_process), as newer libraries have them: a
# stand-in of such a library, and a server on it whose requests are known.
. "$(dirname "$0")/../cli/common.sh"
preload=$SONDE_BUILD/libsonde_preload.so
[ -e "$preload" ] || exit 0 # not under the sanitizers
cd "$scratch" || exit

cat >llama.h <<'C'
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
struct embd { const float *data; size_t rows, n; };
void *llama_model_load_from_file(const char *path);
void *llama_init_from_model(void *model);
void *llama_get_memory(void *context);
bool llama_memory_seq_rm(void *memory, int32_t seq, int32_t p0, int32_t p1);
int32_t llama_tokenize(void *vocab, const char *text, int32_t len, int32_t *out, int32_t room);
void *llama_batch_ext_init(void *context);
void llama_batch_ext_free(void *batch);
void llama_batch_ext_clear(void *batch);
int32_t llama_batch_ext_add(void *batch, int32_t seq);
int32_t llama_batch_ext_add_token(void *batch, int32_t seq, int32_t token);
int32_t llama_batch_ext_add_embd(void *batch, int32_t seq, struct embd e);
bool llama_batch_ext_add_seq(void *batch, int32_t row, int32_t seq);
bool llama_batch_ext_set_pos(void *batch, int32_t row, const int32_t *pos);
bool llama_batch_ext_set_output_logits(void *batch, int32_t row, bool on);
bool llama_batch_ext_set_output_embd(void *batch, int32_t row, bool on);
int32_t llama_process(void *context, int type, void *batch);
float *llama_get_logits_ith(void *context, int32_t row);
void llama_sampler_apply(void *sampler, void *tokens);
C
cat >library.c <<'C'
#include <stdlib.h>
#include <unistd.h>
#include "llama.h"
struct batch { int32_t tokens; };
static int model, context, memory;
static float logits;
void *llama_model_load_from_file(const char *path) { (void)path; return &model; }
void *llama_init_from_model(void *m) { (void)m; return &context; }
void *llama_get_memory(void *c) { (void)c; return &memory; }
bool llama_memory_seq_rm(void *m, int32_t s, int32_t a, int32_t b) { (void)m, (void)s, (void)a, (void)b; return true; }
int32_t llama_tokenize(void *v, const char *t, int32_t n, int32_t *out, int32_t room)
{
    (void)v;
    for (int32_t i = 0; i < n && i < room; i++) out[i] = t[i];
    return n <= room ? n : -n;
}
void *llama_batch_ext_init(void *c) { (void)c; return calloc(1, sizeof(struct batch)); }
void llama_batch_ext_free(void *b) { free(b); }
void llama_batch_ext_clear(void *b) { ((struct batch *)b)->tokens = 0; }
int32_t llama_batch_ext_add(void *b, int32_t s) { return s < 0 ? -3 : ((struct batch *)b)->tokens++; }
int32_t llama_batch_ext_add_token(void *b, int32_t s, int32_t t) { (void)t; return llama_batch_ext_add(b, s); }
int32_t llama_batch_ext_add_embd(void *b, int32_t s, struct embd e) { return e.n == 7 ? llama_batch_ext_add(b, s) : -2; }
bool llama_batch_ext_add_seq(void *b, int32_t r, int32_t s) { return r < ((struct batch *)b)->tokens && s >= 0; }
bool llama_batch_ext_set_pos(void *b, int32_t r, const int32_t *p) { return r < ((struct batch *)b)->tokens && p; }
bool llama_batch_ext_set_output_logits(void *b, int32_t r, bool on) { (void)on; return r < ((struct batch *)b)->tokens; }
bool llama_batch_ext_set_output_embd(void *b, int32_t r, bool on) { (void)on; return r < ((struct batch *)b)->tokens; }
int32_t llama_process(void *c, int type, void *b) { (void)c, (void)type; usleep(500); return ((struct batch *)b)->tokens ? 0 : -1; }
float *llama_get_logits_ith(void *c, int32_t row) { (void)c, (void)row; return &logits; }
void llama_sampler_apply(void *s, void *t) { (void)s, (void)t; }
C
cat >server.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "llama.h"
static void *context, *batch;
static int add(int32_t seq, int32_t token, int32_t pos, int out)
{
    const int32_t row = llama_batch_ext_add_token(batch, seq, token);
    if (row < 0 || !llama_batch_ext_set_pos(batch, row, &pos)) abort();
    if (out && !llama_batch_ext_set_output_logits(batch, row, 1)) abort();
    return row;
}
static void sample(int row)
{
    llama_get_logits_ith(context, row);
    llama_sampler_apply(&batch, &batch);
}
/* Requests with one and the same prompt, one after the other, for ever. A connection makes tokens of
 * it, on a thread of its own. What its client could have measured at most goes to the file. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static int asked;
static double asked_s;
static double clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static void *connection(void *memory)
{
    int32_t tokens[64];
    for (;;) {
        pthread_mutex_lock(&lock);
        while (asked) pthread_cond_wait(&turn, &lock);
        asked_s = clock_s();
        llama_tokenize(memory, "the same prompt", 15, tokens, 64);
        asked = 1;
        pthread_cond_broadcast(&turn);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}
static void loop(void *memory, const char *path)
{
    pthread_t thread;
    double longest_s = 0;
    pthread_create(&thread, NULL, connection, memory);
    for (long n = 0;; n++) {
        const int32_t seq = (int32_t)(n % 4);
        int row = 0;
        pthread_mutex_lock(&lock);
        while (!asked) pthread_cond_wait(&turn, &lock);
        llama_memory_seq_rm(memory, seq, 0, -1);
        llama_batch_ext_clear(batch);
        for (int32_t i = 0; i < 15; i++) row = add(seq, "the same prompt"[i], i, i == 14);
        for (int i = 0; i < 5; i++) {
            llama_process(context, 1, batch);
            sample(row);
            llama_batch_ext_clear(batch);
            if (!i && clock_s() - asked_s > longest_s) longest_s = clock_s() - asked_s;
            row = add(seq, 100 + i, 15 + i, 1);
        }
        asked = 0;
        pthread_cond_broadcast(&turn);
        pthread_mutex_unlock(&lock);
        FILE *f = n % 50 ? NULL : fopen("truth.new", "w");
        if (!f) continue;
        fprintf(f, "%ld %.9f\n", n, longest_s);
        fclose(f);
        rename("truth.new", path);
    }
}
int main(int argc, char **argv)
{
    static const char *const text[] = { "a text of some length", "another one" };
    int32_t tokens[64], pos[2], row[2];
    void *model = llama_model_load_from_file("/somewhere/stand-in.gguf");
    context = llama_init_from_model(model);
    void *memory = llama_get_memory(context), *other = llama_batch_ext_init(context);
    batch = llama_batch_ext_init(context);
    if (argc > 1) loop(memory, argv[1]);
    if (llama_batch_ext_add_token(other, -1, 5) != -3 || llama_batch_ext_add_embd(other, 0, (struct embd){ 0, 1, 7 }) != 0) return 1;
    if (llama_process(context, 1, batch) != -1) return 1; /* nothing in it */
    /* Two prompts in one batch, then four tokens for each. */
    for (int s = 0; s < 2; s++) {
        pos[s] = llama_tokenize(memory, text[s], (int32_t)strlen(text[s]), tokens, 64);
        llama_memory_seq_rm(memory, s, 0, -1);
        for (int32_t i = 0; i < pos[s]; i++) row[s] = add(s, tokens[i], i, i == pos[s] - 1);
    }
    for (int n = 0; n < 5; n++) {
        if (llama_process(context, 1, batch) != 0) return 1;
        for (int s = 0; s < 2; s++) sample(row[s]);
        llama_batch_ext_clear(batch);
        for (int s = 0; s < 2; s++) row[s] = add(s, 100 + n, pos[s]++, 1);
    }
    /* A prompt for three, which stop with their first token. */
    llama_batch_ext_clear(batch);
    for (int s = 4; s < 7; s++) llama_memory_seq_rm(memory, s, 0, -1);
    const int32_t n = llama_tokenize(memory, "shared", 6, tokens, 64);
    for (int32_t i = 0; i < n; i++) {
        row[0] = llama_batch_ext_add_token(batch, 4, tokens[i]);
        llama_batch_ext_set_pos(batch, row[0], &i);
        for (int s = 5; s < 7; s++) llama_batch_ext_add_seq(batch, row[0], s);
        if (i == n - 1) llama_batch_ext_set_output_logits(batch, row[0], 1);
    }
    if (llama_process(context, 1, batch) != 0) return 1;
    for (int s = 4; s < 7; s++) {
        sample(row[0]);
        llama_sampler_apply(&batch, &batch);
        llama_tokenize(memory, "x", 1, tokens, 64); /* the thread goes on */
    }
    llama_batch_ext_free(batch);
    llama_batch_ext_free(other);
    /* A server stays: all have ended while it does. */
    sleep(3);
    puts("done");
    return 0;
}
C
cc -shared -fPIC -O1 -o libllama.so library.c && cc -O1 -pthread -o server server.c ./libllama.so -Wl,-rpath,"$scratch" || complain "cannot build the stand-in"
status 0 "$sonde" record -q -o run -- ./server
has "computes as ever" '^done$' out
status 0 "$sonde" requests --json run
python3 - out <<'P' 2>bad || complain "requests:" "$(cat bad)"
import json, sys
got = json.load(open(sys.argv[1]))["requests"]
def key(r): return (r["tokens_in"], r["tokens_out"], r["tokens_reused"], r["model"], r["outcome"])
got = sorted(map(key, got))
want = sorted([(21, 5, 0, "stand-in", "ok"), (11, 5, 0, "stand-in", "ok"), (6, 1, 0, "stand-in", "ok"),
               (6, 1, 6, "stand-in", "ok"), (6, 1, 6, "stand-in", "ok")])
assert got == want, "%s, not %s" % (got, want)
P

# Readers that come when the rings have long wrapped, two at a time: they know of the requests of their
# time, by the same ids, and of nothing that others have told.
LD_PRELOAD="$preload" SONDE_LLAMA=children=0 ./server truth &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$SONDE_DIR" "$scratch"' EXIT
many() { [ "$(cut -d ' ' -f 1 truth 2>/dev/null || echo 0)" -ge "$1" ]; }
until_true many 2000
date +%s.%N >begun
"$sonde" record -q -F 19 -d 6 -o one.run -p $server 2>one.err &
one=$!
"$sonde" record -q -F 19 -d 6 -o two.run -p $server 2>two.err &
two=$!
if ! wait $one; then
    grep -q perf_event one.err || complain "a recording: $(cat one.err)"
    wait $two # forbidden here
    finish
fi
wait $two || complain "a second recording: $(cat two.err)"
kill $server
wait $server 2>/dev/null
for run in one two; do
    status 0 "$sonde" requests --json -n 1000 --sort newest $run.run
    mv out $run.json
done
python3 - one.json two.json begun truth <<'P' 2>bad || complain "readers:" "$(cat bad)"
import json, sys
runs = [json.load(open(p))["requests"] for p in sys.argv[1:3]]
begun, longest = float(open(sys.argv[3]).read()), float(open(sys.argv[4]).read().split()[1])
for run in runs:
    assert len(run) > 10, "%d requests" % len(run)
    for r in run:
        assert r["model"] == "stand-in", r["model"]
        assert r["arrived"] + r["total_s"] > begun, "one of before"
        assert r["tokens_in"] == 15 and (r["tokens_out"] <= 5), (r["tokens_in"], r["tokens_out"])
        if r.get("incomplete"):
            assert r["ttft_s"] is None, r
        else:
            assert r["ttft_s"] <= longest + 1e-4, "%g s to the first token, at most %g" % (r["ttft_s"], longest)
    ids = [r["id"] for r in run]
    assert len(set(ids)) == len(ids), "an id twice"
one, two = ({r["id"]: r for r in run} for run in runs)
both = set(one) & set(two)
assert len(both) > 10, "%d ids of %d and %d are the same" % (len(both), len(one), len(two))
P
finish
