/* call.h - one call of a llama.cpp function, whoever saw it: the hooks of libsonde_preload
 * through the process's segment, or uprobes from outside. What calls mean together (requests,
 * phases, tokens, memory) is worked out by infer/llama/llama.h, once for both. */
#ifndef SONDE_INFER_LLAMA_CALL_H
#define SONDE_INFER_LLAMA_CALL_H

#include <stdint.h>

#include "segment/llama.h"

#define SONDE_LLAMA_SHARED 1u  /* its tokens are also those of an earlier part, and counted there */
#define SONDE_LLAMA_IMPLIED 2u /* the batch does not say which tokens give logits: the last one
                                  does, whether anybody wants them or not */

/* Tokens of one sequence that stand side by side in a batch. */
struct sonde_llama_part {
    int32_t seq, pos;        /* pos of its first token; -1 = not told (the library counts on) */
    uint32_t row;            /* index in the batch of its first token */
    uint32_t tokens, outputs;/* of which `outputs` are to give logits */
    uint32_t flags;
    uint64_t tail;           /* SONDE__LLAMA_TAIL of its tokens, or SONDE__LLAMA_TAIL_NONE */
};

#define SONDE_LLAMA_PARTS_MAX 256 /* in one batch; the rest is in parts_dropped */

struct sonde_llama_call {
    uint16_t fn;          /* enum sonde__llama_fn */
    uint32_t tid;
    uint64_t begin_ns, end_ns;   /* unix time */
    uint64_t stamp;       /* when it began, as it was written down: the same for all who read it,
                             which unix time is not quite. 0 = begin_ns */
    uint64_t end_stamp;   /* alike, when it ended; 0 = not known */
    uint64_t object;      /* first argument: context, model, vocabulary, memory, buffer */
    uint64_t arg[3];      /* what segment/llama.h says of fn; signed ones sign-extended */
    uint64_t prefix;      /* TOKENIZE: signature of its tokens (sonde/prefix.h); 0 = not known */
    int64_t result;       /* the register; bits that are not of the function's type do not matter */
    uint32_t part_count, parts_dropped; /* DECODE and ENCODE */
    const struct sonde_llama_part *parts; /* borrowed */
    const char *text;     /* MODEL_LOAD: the file's path or its last part; ALLOC_CTX: name of the
                             first tensor; "" = none. Borrowed, any bytes */
};

#endif
