/* scan_names.h - names of JSON members that scan_request.c and scan_answer.c look for, and paths
 * made of them; nobody else includes it. */
#ifndef SONDE_FRONT_SCAN_NAMES_H
#define SONDE_FRONT_SCAN_NAMES_H

#include "front/json_scan.h"

/* X(name, text of strings is kept) */
#define SONDE_SCAN_NAMES(X)                                                                    \
    X(arguments, 0) X(cache_n, 0) X(cache_read_input_tokens, 0) X(cached_tokens, 0)            \
    X(choices, 0) X(code, 1) X(completion_tokens, 0) X(completion_tokens_details, 0)           \
    X(content, 0) X(delta, 0) X(done, 0) X(error, 0) X(eval_count, 0) X(eval_duration, 0)      \
    X(function_call, 0) X(generated_tokens, 0) X(input_tokens, 0) X(input_tokens_details, 0)   \
    X(load_duration, 0) X(max_completion_tokens, 0) X(max_new_tokens, 0)                       \
    X(max_output_tokens, 0) X(max_tokens, 0) X(message, 0) X(model, 1) X(n_predict, 0)         \
    X(num_predict, 0) X(options, 0) X(output_tokens, 0) X(output_tokens_details, 0)            \
    X(parameters, 0) X(partial_json, 0) X(predicted_ms, 0) X(predicted_n, 0)                   \
    X(prompt_eval_count, 0) X(prompt_eval_duration, 0) X(prompt_ms, 0) X(prompt_n, 0)          \
    X(prompt_tokens, 0) X(prompt_tokens_details, 0) X(reasoning, 0) X(reasoning_content, 0)    \
    X(reasoning_tokens, 0) X(refusal, 0) X(response, 0) X(stop, 0) X(stream, 0) X(text, 0)     \
    X(thinking, 0) X(timings, 0) X(token, 0) X(tokens_evaluated, 0) X(tokens_predicted, 0)     \
    X(tool_calls, 0) X(type, 1) X(usage, 0)

enum sonde_scan_name {
    SONDE_SCAN_BEFORE_NAMES = SONDE_JSON_NAMES - 1,
#define SONDE__X(name, keep) NAME_##name,
    SONDE_SCAN_NAMES(SONDE__X)
#undef SONDE__X
};

extern const struct sonde_json_names sonde_scan_names;

/* Paths: P2(usage, prompt_tokens); any() is an element of an array. */
enum { NAME_any = SONDE_JSON_ELEMENT };
#define P1(a) ((uint64_t)NAME_##a)
#define P2(a, b) (P1(a) << 8 | NAME_##b)
#define P3(a, b, c) (P2(a, b) << 8 | NAME_##c)
#define P4(a, b, c, d) (P3(a, b, c) << 8 | NAME_##d)

/* The first n steps of the value's path; 0 if it has fewer. */
static inline uint64_t sonde_scan_prefix(const struct sonde_json_scan *j, uint32_t n)
{
    return j->depth < n || j->depth > SONDE_JSON_PATH_MAX ? 0 : j->path >> 8 * (j->depth - n);
}

/* A number that counts something: 0 to 2^53, else -1. */
int64_t sonde_scan_count(const struct sonde_json_scan *j);
/* A duration in this unit, in ns: 0 to a year, else -1. */
int64_t sonde_scan_ns(const struct sonde_json_scan *j, double unit_ns);

#endif
