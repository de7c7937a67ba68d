/* What the parts of llama_drive share. It behaves as a server built on llama.cpp does, and writes
 * down by its own clock what happened: the truth that what sonde says is compared with.
 *
 * When a request arrives is counted in forward passes, not in time: so batches, and with them every
 * token, are the same in each run, however slow it is, and outputs can be compared. */
#ifndef LLAMA_DRIVE_H
#define LLAMA_DRIVE_H

#include "llama.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum drive_sampler {
    DRIVE_APPLY,  /* logits, then llama_sampler_apply: as llama-server does */
    DRIVE_SAMPLE, /* llama_sampler_sample */
    DRIVE_GREEDY, /* llama_sampler_sample of a chain that takes the likeliest */
};

struct drive_options {
    const char *model;
    const char *truth;         /* NULL: not written */
    const char *ready_file;    /* created once the model is loaded; NULL: none */
    const char *wait_for_file; /* waited for before the first request; NULL: none */
    int requests;              /* a round */
    int repeat;                /* rounds; sequences keep their caches from one to the next */
    int seqs;
    int seed;
    int prompt_tokens;
    int shared_prefix; /* tokens at the front of every prompt that all have in common */
    int max_tokens;
    int spread;  /* percent that a request's prompt and limit may be longer or shorter */
    int arrive;  /* forward passes between two arrivals; 0: all come at once */
    int cancel;  /* every nth request is given up after half its tokens; 0: none */
    int batch;   /* tokens in one llama_decode at most */
    int ctx_seq; /* positions of a sequence */
    int end_bias; /* added to the logit of the token that ends a text */
    int threads;
    int delay_ms;      /* before each round but the first */
    int step_delay_ms; /* before each forward pass */
    enum drive_sampler sampler;
    bool get_one;         /* batches of llama_batch_get_one: no positions, sequences, flags */
    bool tokenize_thread; /* prompts are tokenized on a thread of their own, as HTTP servers do */
    bool no_reuse; /* a sequence's cache is dropped before each of its requests */
    bool no_mmap;
    bool no_warmup;
    bool text; /* what was generated goes to stdout too */
    bool verbose;
};

struct drive_token {
    llama_token id;
    int64_t ns; /* when it was sampled */
};

struct drive_request {
    int id;
    char *text;
    llama_token *prompt;
    int prompt_count;
    int limit; /* tokens at most */
    int give_up_at; /* tokens; 0: never */
    int seq;
    int reused;         /* tokens of the prompt that were in the sequence's cache */
    int prompt_passes;  /* llama_decode calls that held some of the prompt */
    int64_t arrival_ns; /* before llama_tokenize; CLOCK_MONOTONIC like all of them */
    int64_t tokenized_ns;
    int64_t started_ns;     /* has a sequence, before llama_memory_seq_rm */
    int64_t first_pass_ns;  /* before the first llama_decode that holds some of it */
    int64_t prompt_done_ns; /* after the one that holds the last of its prompt */
    int64_t sampling_ns;    /* in all */
    int64_t text_ns;        /* llama_token_to_piece, in all */
    int64_t text_bytes;
    int64_t end_ns;
    const char *outcome; /* "stop", "length", "cancelled" */
    struct drive_token *tokens;
    int count;
};

/* One llama_decode. */
struct drive_pass {
    int64_t start_ns;
    int64_t end_ns;
    int prompt_tokens;
    int decode_tokens;
    int sequences;
    int outputs;
    int waiting;  /* requests that have arrived and have no sequence */
    int kv_cells; /* in use after it */
};

/* "CPU KV buffer size = 1.50 MiB", as the library logs it. */
struct drive_buffer {
    char what[40];
    double bytes;
};

struct drive {
    struct drive_options options;
    struct llama_model *model;
    const struct llama_vocab *vocab;
    struct llama_context *ctx;
    int64_t start_ns; /* and the same moment in CLOCK_REALTIME */
    int64_t start_realtime_ns;
    int64_t load_start_ns, load_end_ns;
    int64_t context_start_ns, context_end_ns;
    int64_t serve_start_ns, serve_end_ns;
    int64_t serve_cpu_ns; /* time on a CPU of all threads while serving */
    int warmup_passes;
    struct drive_request *requests; /* of all rounds */
    int requests_count;
    struct drive_pass *passes;
    int passes_count;
    struct drive_buffer buffers[16];
    int buffers_count;
    struct llama_perf_context_data perf;
};

/* drive_options.c: exits with 2 and says why when one is wrong. */
void drive_options_read(int argc, char **argv, struct drive_options *out);

/* drive_engine.c: serves all rounds; fills requests and passes. */
void drive_serve(struct drive *d);

/* drive_truth.c */
void drive_truth_write(const struct drive *d, FILE *out);
void drive_digest_print(const struct drive *d, FILE *out);

/* llama_drive.c: what went wrong, and exit with 1. */
_Noreturn __attribute__((format(printf, 1, 2))) void drive_die(const char *format, ...);
int64_t drive_now_ns(void);
void drive_sleep_ms(int ms);
bool drive_stopping(void); /* SIGTERM or SIGINT came: end after this round */
void *drive_calloc(size_t count, size_t size);

#endif
