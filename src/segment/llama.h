/* llama.h - functions of llama.cpp that are watched, by the name they are exported with, and what is
 * kept of a call. Both halves of the system and the probes from outside use this one list.
 *
 *     X(id, symbol, arg[0], arg[1], arg[2])      result is the function's own unless said
 *
 * A function that a build lacks is left out, and what it alone would tell is absent. */
#ifndef SONDE_SEGMENT_LLAMA_H
#define SONDE_SEGMENT_LLAMA_H

#define SONDE__LLAMA_FUNCTIONS(X)                                                              \
    X(TOKENIZE,     "llama_tokenize",         "bytes of text", "room for tokens", "")          \
    X(DETOKENIZE,   "llama_detokenize",       "tokens", "", "")                                \
    X(PIECE,        "llama_token_to_piece",   "token", "", "")                                 \
    X(DECODE,       "llama_decode",           "tokens of the batch", "", "")                   \
    X(ENCODE,       "llama_encode",           "tokens of the batch", "", "")                   \
    X(SYNCHRONIZE,  "llama_synchronize",      "", "", "")                                      \
    X(LOGITS_ITH,   "llama_get_logits_ith",   "row", "", "")                                   \
    X(SAMPLE,       "llama_sampler_sample",   "context", "row", "")                            \
    X(APPLY,        "llama_sampler_apply",    "", "", "")                                      \
    X(IS_EOG,       "llama_vocab_is_eog",     "token", "", "")                                 \
    X(SEQ_RM,       "llama_memory_seq_rm",    "sequence", "p0", "p1")                          \
    X(CLEAR,        "llama_memory_clear",     "", "", "")                                      \
    X(STATE_SET,    "llama_state_seq_set_data_ext", "", "", "")                                \
    X(MODEL_LOAD,   "llama_model_load_from_file", "", "", "")                                  \
    X(CONTEXT_NEW,  "llama_init_from_model",  "", "", "")                                      \
    X(CONTEXT_FREE, "llama_free",             "", "", "")                                      \
    X(MODEL_FREE,   "llama_model_free",       "", "", "")                                      \
    X(SET_USAGE,    "ggml_backend_buffer_set_usage", "usage", "bytes of the buffer", "")       \
    X(ALLOC_CTX,    "ggml_backend_alloc_ctx_tensors_from_buft", "", "bytes of the buffer", "") \
    X(BUFFER_FREE,  "ggml_backend_buffer_free", "", "", "")

enum sonde__llama_fn {
#define SONDE__X(id, symbol, a, b, c) SONDE__LLAMA_##id,
    SONDE__LLAMA_FUNCTIONS(SONDE__X)
#undef SONDE__X
    SONDE__LLAMA_COUNT
};

#endif
