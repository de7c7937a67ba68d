/* split_rules.h - the matchers of split_rules.c and split_words.c; see split.h. */
#ifndef ENGINE_TEXT_SPLIT_RULES_H
#define ENGINE_TEXT_SPLIT_RULES_H

#include "text/split.h"

#define SPLIT_RULES(X)                                                                         \
    X(gpt2) X(llama3) X(qwen2) X(qwen35) X(seed_coder) X(tekken) X(gpt4o)                      \
    X(deepseek3) X(bloom) X(no_newlines)                                                       \
    X(number) X(numbers) X(numbers_3) X(digits_3) X(newline) X(punctuation_default)            \
    X(punctuation_falcon) X(space_letters) X(space_punctuation) X(space_end)                   \
    X(deepseek_letters) X(deepseek_punctuation) X(deepseek_cjk) X(deepseek3_cjk)

#define SPLIT_RULE(name) size_t split_##name(const uint32_t *u, size_t n);
SPLIT_RULES(SPLIT_RULE)
#undef SPLIT_RULE

#endif
