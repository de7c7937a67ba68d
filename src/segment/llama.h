/* llama.h - functions of llama.cpp that are watched, by the name they are exported with, and what
 * is kept of a call. Both halves of the system and the probes from outside use this one list.
 *
 *     X(id, symbol, arg[0], arg[1], arg[2], absent)
 *
 * The call's object is the first argument and its result the function's own, unless said. absent:
 * what is not known when a library lacks the function; "" = nothing that others do not tell.
 *
 * But for the last few, only functions that libraries of several years have: a program that looks
 * for a function which its library lacks, without naming the library, would find ours. Nobody who
 * has the last few can do without. */
#ifndef SONDE_SEGMENT_LLAMA_H
#define SONDE_SEGMENT_LLAMA_H

#define SONDE__LLAMA_FUNCTIONS(X)                                                                  \
    /* By the hooks the object is the signature of its tokens (sonde/prefix.h), 0 = none. */       \
    X(TOKENIZE, "llama_tokenize", "bytes of text", "room for tokens",                              \
      "last two tokens (SONDE__LLAMA_TAIL)",                                                       \
      "when requests arrive: they are taken to begin with their first batch")                      \
    X(DETOKENIZE, "llama_detokenize", "tokens", "", "", "")                                        \
    X(PIECE, "llama_token_to_piece", "token", "", "", "time to turn tokens into text")             \
    X(DECODE, "llama_decode", "tokens of the batch", "", "", "everything about requests")          \
    X(ENCODE, "llama_encode", "tokens of the batch", "", "", "encoder passes")                     \
    X(SYNCHRONIZE, "llama_synchronize", "", "", "", "")                                            \
    X(LOGITS, "llama_get_logits", "", "", "", "")                                                  \
    X(LOGITS_ITH, "llama_get_logits_ith", "row", "", "",                                           \
      "tokens that come out, unless llama_sampler_sample is used")                                 \
    X(EMBEDDINGS_ITH, "llama_get_embeddings_ith", "row", "", "", "")                               \
    X(EMBEDDINGS_SEQ, "llama_get_embeddings_seq", "sequence", "", "", "")                          \
    X(SAMPLE, "llama_sampler_sample", "context", "row", "", "")                                    \
    X(APPLY, "llama_sampler_apply", "", "", "", "time to sample")                                  \
    X(IS_EOG, "llama_vocab_is_eog", "token", "", "",                                               \
      "which token ends a request: it ends when its sequence is used again")                       \
    X(GET_MEMORY, "llama_get_memory", "", "", "", "")                                              \
    X(SEQ_RM, "llama_memory_seq_rm", "sequence", "p0", "p1",                                       \
      "prompt tokens reused, where a batch does not tell positions")                               \
    X(CLEAR, "llama_memory_clear", "", "", "", "")                                                 \
    X(STATE_SET, "llama_state_seq_set_data_ext", "bytes of state", "sequence", "", "")             \
    X(WARMUP, "llama_set_warmup", "1 = warm-up begins, 0 = it has ended", "", "", "")              \
    X(PERF_RESET, "llama_perf_context_reset", "", "", "", "")                                      \
    X(MODEL_LOAD, "llama_model_load_from_file", "", "", "", "time to load a model, its name")      \
    X(CONTEXT_NEW, "llama_init_from_model", "", "", "", "which model a context is of")             \
    X(CONTEXT_FREE, "llama_free", "", "", "", "")                                                  \
    X(MODEL_FREE, "llama_model_free", "", "", "", "")                                              \
    X(SET_USAGE, "ggml_backend_buffer_set_usage", "usage: 1 weights, 2 compute",                   \
      "bytes of the buffer", "", "bytes of weights and of compute buffers")                        \
    X(ALLOC_CTX, "ggml_backend_alloc_ctx_tensors_from_buft", "", "bytes of the buffer", "",        \
      "bytes of KV caches")                                                                        \
    X(BUFFER_FREE, "ggml_backend_buffer_free", "", "", "", "memory that is given back")            \
    /* Not watched but asked, where somebody is in the process to ask: result 0, object is a       \
     * context. */                                                                                 \
    X(PERF, "llama_perf_context", "prompt evaluation, ns", "evaluation, ns",                       \
      "tokens: of the former << 32 | of the latter", "llama.cpp's own figures, to compare with")   \
    /* Of libraries since August 2026, whose batches are made one token at a time. The hooks tell  \
     * of a pass as of DECODE or ENCODE, and of the others nothing. */                             \
    X(PROCESS, "llama_process", "0 = encode, 1 = decode", "batch", "", "")                         \
    X(BATCH_FREE, "llama_batch_ext_free", "", "", "", "")                                          \
    X(BATCH_CLEAR, "llama_batch_ext_clear", "", "", "", "")                                        \
    X(BATCH_ADD, "llama_batch_ext_add", "sequence", "", "", "")                                    \
    X(BATCH_TOKEN, "llama_batch_ext_add_token", "sequence", "token", "", "")                       \
    X(BATCH_EMBD, "llama_batch_ext_add_embd", "sequence", "", "", "")                              \
    X(BATCH_SEQ, "llama_batch_ext_add_seq", "row", "sequence", "", "")                             \
    X(BATCH_POS, "llama_batch_ext_set_pos", "row", "address of the position", "", "")              \
    X(BATCH_LOGITS, "llama_batch_ext_set_output_logits", "row", "1 = it gives logits", "", "")     \
    X(BATCH_OUTPUT, "llama_batch_ext_set_output_embd", "row", "1 = it gives them", "", "")

enum sonde__llama_fn {
#define SONDE__X(id, symbol, a, b, c, absent) SONDE__LLAMA_##id,
    SONDE__LLAMA_FUNCTIONS(SONDE__X)
#undef SONDE__X
    SONDE__LLAMA_COUNT
};

/* The last token and the one before it, in one word; an id that is not known is all ones. */
#define SONDE__LLAMA_TAIL(before, last) ((uint64_t)(uint32_t)(before) << 32 | (uint32_t)(last))
#define SONDE__LLAMA_TAIL_NONE UINT64_MAX

#endif
