/* llama.h - calls of llama.cpp's functions, seen from in front of them (thunk.h) and written to
 * the thread's ring ("Calls of llama.cpp" in segment.h). What they mean is the agent's business.
 *
 * A program that uses libllama as libraries are used finds our functions before the library's, even
 * for calls from one of its libraries to another. Functions that it looks up in the library itself
 * (dlsym with a handle, as bindings of scripting languages do) it finds there, and we see nothing;
 * the agent's uprobes do. Functions that the library lacks but a program looks for without naming a
 * library (a weak reference, dlsym(RTLD_DEFAULT)) it would find here: so only those that libraries
 * have had for long are in the list. */
#ifndef SONDE_PRELOAD_LLAMA_LLAMA_H
#define SONDE_PRELOAD_LLAMA_LLAMA_H

#include <stdint.h>

#include "preload/llama/thunk.h"
#include "segment/llama.h"

/* ---- calls.c ---- */

/* Calls are recorded from now on; the segment is made with the first. */
void sonde__llama_start(void);
void sonde__llama_stop(void);

/* ---- real.c ---- */

/* The function behind, as a call from code at `caller` would find it without us. Does not return if
 * there is none: without us the program would not have come this far. */
void *sonde__llama_real(uint32_t fn, uint64_t caller);

/* Functions of the library that are used, not watched. They are those beside the one that was
 * called; NULL = it has no such. */
#define SONDE__LLAMA_USED(X)                                                                   \
    X(PERF, "llama_perf_context")                                                              \
    X(BUFFER_SIZE, "ggml_backend_buffer_get_size")                                             \
    X(FIRST_TENSOR, "ggml_get_first_tensor")                                                   \
    X(TENSOR_NAME, "ggml_get_name")

enum sonde__llama_used {
#define SONDE__X(id, symbol) SONDE__LLAMA_USE_##id,
    SONDE__LLAMA_USED(SONDE__X)
#undef SONDE__X
    SONDE__LLAMA_USED_COUNT
};
void *sonde__llama_use(enum sonde__llama_used id, uint32_t fn, uint64_t caller);

/* ---- batch.c ---- */

/* Parts of a batch (struct llama_batch, at batch) as records with this key; how many, and of how
 * many there was no room for in *dropped. */
uint32_t sonde__llama_parts(const void *batch, uint64_t key, uint32_t *dropped);
int32_t sonde__llama_batch_tokens(const void *batch);

/* The same for batches that are made by calls (llama_batch_ext_…), which are followed here: their
 * layout is C++'s. How many tokens one has; -1 = not known. */
void sonde__llama_made_call(const struct sonde__thunk *c);
uint32_t sonde__llama_made_parts(uint64_t batch, uint64_t key, uint32_t *dropped);
int32_t sonde__llama_made_tokens(uint64_t batch);

#endif
