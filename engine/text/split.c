/* split.c - the table of pre-tokenizers, and walking through their rules; see split.h. */
#include "text/split.h"

#include <string.h>

#include "text/split_rules.h"
#include "text/unicode.h"

#define GPT2 { split_gpt2 }
#define LLAMA3 { split_llama3 }
#define QWEN2 { split_qwen2 }
#define NUMBER_GPT2 { split_number, split_gpt2 }
#define GPT4O { split_gpt4o }
#define BLOOM { split_bloom }
#define DEEPSEEK3 { split_numbers_3, split_deepseek3_cjk, split_deepseek3 }

static const struct split splits[] = {
    { .name = "default",
      .rules = { split_punctuation_default, split_gpt2, split_numbers, split_digits_3 } },
    { .name = "gpt-2", .rules = GPT2 },
    { .name = "phi-2", .rules = GPT2 },
    { .name = "jina-es", .rules = GPT2 },
    { .name = "jina-de", .rules = GPT2 },
    { .name = "jina-v1-en", .rules = GPT2 },
    { .name = "jina-v2-es", .rules = GPT2 },
    { .name = "jina-v2-de", .rules = GPT2 },
    { .name = "jina-v2-code", .rules = GPT2 },
    { .name = "roberta-bpe", .rules = GPT2 },
    { .name = "gigachat", .rules = GPT2 },
    { .name = "a.x-4.0", .rules = GPT2 },
    { .name = "mellum", .rules = GPT2 },
    { .name = "modern-bert", .rules = GPT2 },
    { .name = "exaone4", .rules = GPT2 },
    { .name = "mpt", .rules = GPT2 },
    { .name = "olmo", .rules = GPT2 },
    { .name = "jais", .rules = GPT2 },
    { .name = "trillion", .rules = GPT2 },
    { .name = "granite-docling", .rules = GPT2 },
    { .name = "llama3", .rules = LLAMA3, .ignore_merges = 1, .adds_bos = 1 },
    { .name = "llama-v3", .rules = LLAMA3, .ignore_merges = 1, .adds_bos = 1 },
    { .name = "llama-bpe", .rules = LLAMA3, .ignore_merges = 1, .adds_bos = 1 },
    { .name = "falcon3", .rules = LLAMA3, .ignore_merges = 1, .adds_bos = 1 },
    { .name = "falcon-h1", .rules = LLAMA3, .ignore_merges = 1, .adds_bos = 1 },
    { .name = "pixtral", .rules = LLAMA3, .ignore_merges = 1, .adds_bos = 1 },
    { .name = "midm-2.0", .rules = LLAMA3, .ignore_merges = 1, .adds_bos = 1 },
    { .name = "lfm2", .rules = LLAMA3, .ignore_merges = 1, .adds_bos = 1 },
    { .name = "jina-v5-nano", .rules = LLAMA3, .ignore_merges = 1, .adds_bos = 1 },
    { .name = "dbrx", .rules = LLAMA3 },
    { .name = "smaug-bpe", .rules = LLAMA3 },
    { .name = "glm4", .rules = LLAMA3, .no_default_bos = 1 },
    { .name = "chatglm-bpe", .rules = LLAMA3, .no_default_bos = 1 },
    { .name = "qwen2", .rules = QWEN2 },
    { .name = "deepseek-r1-qwen", .rules = QWEN2 },
    { .name = "kormo", .rules = QWEN2 },
    { .name = "f2llmv2", .rules = QWEN2 },
    { .name = "megrez", .rules = QWEN2 },
    { .name = "stablelm2", .rules = QWEN2 },
    { .name = "hunyuan", .rules = QWEN2 },
    { .name = "solar-open", .rules = QWEN2 },
    { .name = "grok-2", .rules = QWEN2 },
    { .name = "bailingmoe", .rules = QWEN2 }, /* its \s*[\r\n] ends where \s*[\r\n]+ does */
    { .name = "bailingmoe2", .rules = QWEN2 },
    { .name = "llada-moe", .rules = QWEN2 },
    { .name = "laguna", .rules = { split_no_newlines, split_qwen2 } },
    { .name = "qwen35", .rules = { split_qwen35 } },
    { .name = "seed-coder", .rules = { split_seed_coder } },
    { .name = "starcoder", .rules = NUMBER_GPT2 },
    { .name = "refact", .rules = NUMBER_GPT2 },
    { .name = "command-r", .rules = NUMBER_GPT2 },
    { .name = "smollm", .rules = NUMBER_GPT2 },
    { .name = "codeshell", .rules = NUMBER_GPT2 },
    { .name = "exaone", .rules = NUMBER_GPT2 },
    { .name = "minerva-7b", .rules = NUMBER_GPT2 },
    { .name = "mellum2", .rules = NUMBER_GPT2 },
    { .name = "falcon", .rules = { split_punctuation_falcon, split_gpt2, split_digits_3 } },
    { .name = "deepseek-llm",
      .rules = { split_newline, split_deepseek_letters, split_deepseek_punctuation, split_space_end,
                 split_deepseek_cjk, split_numbers } },
    { .name = "deepseek-coder",
      .rules = { split_newline, split_space_letters, split_space_punctuation, split_deepseek_cjk,
                 split_number } },
    { .name = "deepseek-v3", .rules = DEEPSEEK3 },
    { .name = "hunyuan-dense", .rules = DEEPSEEK3 },
    { .name = "hy_v4", .rules = DEEPSEEK3 },
    { .name = "joyai-llm", .rules = DEEPSEEK3 },
    { .name = "gpt-4o", .rules = GPT4O },
    { .name = "llama4", .rules = GPT4O },
    { .name = "kanana2", .rules = GPT4O },
    { .name = "talkie", .rules = GPT4O },
    { .name = "minimax-m2", .rules = GPT4O },
    { .name = "tekken", .rules = { split_tekken }, .ignore_merges = 1, .adds_bos = 1 },
    { .name = "bloom", .rules = BLOOM },
    { .name = "poro-chat", .rules = BLOOM },
    { .name = "gpt3-finnish", .rules = BLOOM },
    { .name = "viking", .rules = { split_bloom, split_number } },
};

const struct split *split_named(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++) {
        if (strlen(splits[i].name) == bytes && !memcmp(splits[i].name, name, bytes)) {
            return &splits[i];
        }
    }
    return NULL;
}

struct split_walk {
    int (*word)(void *context, const uint32_t *units, size_t count);
    void *context;
};

/* Cuts count units by the first rule, and what that gives by the ones behind it. */
static int rules_walk(const struct split_walk *walk,
                      size_t (*const *rules)(const uint32_t *u, size_t n), const uint32_t *units,
                      size_t count)
{
    if (!rules[0]) return count ? walk->word(walk->context, units, count) : 0;
    size_t gap = 0; /* where what did not match starts */
    size_t at = 0;
    if (rules[0] == split_space_end) { /* can match there only; trying everywhere is quadratic */
        for (at = count; at > 0 && (units[at - 1] & UNIT_SPACE);) at--;
    }
    while (at < count) {
        const size_t match = rules[0](units + at, count - at);
        if (!match) {
            at++;
            continue;
        }
        int rc = gap < at ? rules_walk(walk, rules + 1, units + gap, at - gap) : 0;
        if (!rc) rc = rules_walk(walk, rules + 1, units + at, match);
        if (rc) return rc;
        gap = at += match;
    }
    return gap < count ? rules_walk(walk, rules + 1, units + gap, count - gap) : 0;
}

int split_words(const struct split *s, const uint32_t *units, size_t count,
                int (*word)(void *context, const uint32_t *units, size_t count), void *context)
{
    const struct split_walk walk = { word, context };
    return rules_walk(&walk, s->rules, units, count);
}
