/* phases.h - what a request goes through. Included by inference.h, and by the agent. */
#ifndef SONDE_PHASES_H
#define SONDE_PHASES_H

#include <stdint.h>

/* Names are those of spans, of --span and of the label phase="…". Append only. */
#define SONDE_PHASES(X)                                                                        \
    X(QUEUE, "queue")           /* waits to be served */                                       \
    X(ENCODE, "encode")         /* text to tokens */                                           \
    X(PREFILL, "prefill")       /* forward pass over the prompt */                             \
    X(DECODE, "decode")         /* forward pass for the next token */                          \
    X(SAMPLE, "sample")         /* choose the token */                                         \
    X(DETOKENIZE, "detokenize") /* tokens to text */

enum sonde_phase_kind {
    SONDE_PHASE_NONE = 0,
#define SONDE__X(id, name) SONDE_PHASE_##id,
    SONDE_PHASES(SONDE__X)
#undef SONDE__X
    SONDE_PHASE_COUNT,
    SONDE_PHASE_NAMED = 64       /* this and more: SONDE_PHASE_NAME(sonde_name("rerank")) */
};
#define SONDE_PHASE_NAME(name_id) ((uint32_t)SONDE_PHASE_NAMED + (uint32_t)(name_id))

#endif
