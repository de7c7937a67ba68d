/* memory.h - what a call of llama.cpp says only in the memory of its process: which sequences
 * are in a batch, the name of a model's file, the size of a buffer. It is read while the call
 * lasts.
 *
 * Nothing in there can be trusted: another process wrote it, and may write to it while it is read.
 * Lengths are bounded, pointers that lead nowhere are put up with. */
#ifndef SONDE_COLLECT_UPROBE_MEMORY_H
#define SONDE_COLLECT_UPROBE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "infer/llama/call.h"
#include "collect/uprobe/symbols.h"

#define SONDE_UPROBE_ROWS_MAX 65536u /* of a batch that are looked at; larger ones are not */
#define SONDE_UPROBE_SEQS_MAX 8u     /* sequences of one token */
#define SONDE_UPROBE_TEXT 128u       /* of a name, with its NUL */

/* What was read at one hit of a probe. */
struct sonde_uprobe_memory {
    uint64_t read_ns;            /* CLOCK_MONOTONIC when that was done */
    uint64_t value;              /* bytes of a buffer, or the last tokens (SONDE__LLAMA_TAIL) */
    uint64_t from;               /* where those were */
    char text[SONDE_UPROBE_TEXT];
    uint32_t part_count, parts_dropped;
    struct sonde_llama_part parts[];
};

/* struct llama_batch, which is passed by value. */
struct sonde_uprobe_batch {
    int32_t tokens;
    uint64_t token, embd, pos, seq_count, seq, logits; /* addresses of arrays; 0 = none */
};
#define SONDE_UPROBE_BATCH_STACK 64u /* bytes of the stack at the entry that hold it */

/* From a copy of the stack at the function's entry: 0, or SONDE_EFORMAT when it is too short. */
int sonde_uprobe_batch(const void *stack, size_t len, struct sonde_uprobe_batch *out);

/* Its arrays, read. Sequences of row i are seq[i * SONDE_UPROBE_SEQS_MAX …]. */
struct sonde_uprobe_rows {
    uint32_t count;
    const int32_t *token, *pos;  /* NULL = the batch has none, as the others */
    const int32_t *seq_count, *seq;
    const int8_t *logits;
};

/* Rows that follow each other in the same sequences and at positions that do are one part for each
 * sequence. Returns how many there are, of which the first max are in out. */
uint32_t sonde_uprobe_parts(const struct sonde_uprobe_rows *r, struct sonde_llama_part *out,
                            uint32_t max);

/* ---- Reading --------------------------------------------------------------------------------- */

struct sonde_uprobe_reader {
    /* All pieces, one after the other, into out, which has room for len bytes in all: 0 or -1. */
    int (*read)(void *arg, const struct iovec *pieces, size_t count, void *out, size_t len);
    void *arg;
    char *scratch;               /* owned; grows with the largest batch */
    size_t scratch_size;
    struct sonde_llama_part *parts; /* owned; SONDE_LLAMA_PARTS_MAX */
};

/* Of process pid. 0 or SONDE_ENOMEM. */
int sonde_uprobe_reader_init(struct sonde_uprobe_reader *r, uint32_t pid);
void sonde_uprobe_reader_release(struct sonde_uprobe_reader *r);

/* NULL: it could not be read, or makes no sense; else to be freed by sonde__free. */
struct sonde_uprobe_memory *sonde_uprobe_read_batch(struct sonde_uprobe_reader *r,
                                                    const struct sonde_uprobe_batch *b);
/* The last two of count tokens. */
struct sonde_uprobe_memory *sonde_uprobe_read_tail(struct sonde_uprobe_reader *r, uint64_t tokens,
                                                   int64_t count);
/* The last part of a path. */
struct sonde_uprobe_memory *sonde_uprobe_read_path(struct sonde_uprobe_reader *r, uint64_t at);
struct sonde_uprobe_memory *sonde_uprobe_read_size(struct sonde_uprobe_reader *r,
                                                   const struct sonde_uprobe_symbols *symbols,
                                                   uint64_t buffer);
/* The name of the first tensor in a context of ggml. */
struct sonde_uprobe_memory *sonde_uprobe_read_tensor(struct sonde_uprobe_reader *r,
                                                     const struct sonde_uprobe_symbols *symbols,
                                                     uint64_t context);

#endif
