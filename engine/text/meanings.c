/* meanings.c - tokens that mean something because of their text.
 *
 * Files seldom say all: which token ends a turn is in the chat template of the original. So texts
 * that are known decide, as in llama.cpp: it makes them control tokens, and ends of generation.
 * Where it takes the one it meets first in a hash table, this takes the lowest number. */
#include "text/vocab.h"

#include <ctype.h>
#include <string.h>

enum meaning { EOT, EOM, FIM_PRE, FIM_SUF, FIM_MID, FIM_PAD, FIM_REP, FIM_SEP, MEANINGS };

static const struct { const char *text; enum meaning meaning; } meanings[] = {
    { "<|eot_id|>", EOT }, { "<|im_end|>", EOT }, { "<|end|>", EOT }, { "<end_of_turn>", EOT },
    { "<|endoftext|>", EOT }, { "<|end_of_text|>", EOT }, { "<EOT>", EOT }, { "_<EOT>", EOT },
    { "[EOT]", EOT }, { "<｜end▁of▁sentence｜>", EOT }, { "<end_of_utterance>", EOT },
    { "<|eom_id|>", EOM },
    { "<|fim_prefix|>", FIM_PRE }, { "<fim-prefix>", FIM_PRE }, { "<fim_prefix>", FIM_PRE },
    { "<｜fim▁begin｜>", FIM_PRE }, { "<PRE>", FIM_PRE }, { "▁<PRE>", FIM_PRE },
    { "<|code_prefix|>", FIM_PRE }, { "<|prefix|>", FIM_PRE },
    { "<|fim_suffix|>", FIM_SUF }, { "<fim-suffix>", FIM_SUF }, { "<fim_suffix>", FIM_SUF },
    { "<｜fim▁hole｜>", FIM_SUF }, { "<SUF>", FIM_SUF }, { "▁<SUF>", FIM_SUF },
    { "<|code_suffix|>", FIM_SUF }, { "<|suffix|>", FIM_SUF },
    { "<|fim_middle|>", FIM_MID }, { "<fim-middle>", FIM_MID }, { "<fim_middle>", FIM_MID },
    { "<｜fim▁end｜>", FIM_MID }, { "<MID>", FIM_MID }, { "▁<MID>", FIM_MID },
    { "<|code_middle|>", FIM_MID }, { "<|middle|>", FIM_MID },
    { "<|fim_pad|>", FIM_PAD }, { "<fim-pad>", FIM_PAD }, { "<fim_pad>", FIM_PAD },
    { "<PAD>", FIM_PAD }, { "[PAD]", FIM_PAD },
    { "<|fim_repo|>", FIM_REP }, { "<|repo_name|>", FIM_REP }, { "<fim-repo>", FIM_REP },
    { "<REPO>", FIM_REP }, { "<reponame>", FIM_REP },
    { "<|file_sep|>", FIM_SEP },
};

static const char *const meaning_keys[][2] = {
    [EOT] = { "tokenizer.ggml.eot_token_id" },
    [EOM] = { "tokenizer.ggml.eom_token_id" },
    [FIM_PRE] = { "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id" },
    [FIM_SUF] = { "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id" },
    [FIM_MID] = { "tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id" },
    [FIM_PAD] = { "tokenizer.ggml.fim_pad_token_id" },
    [FIM_REP] = { "tokenizer.ggml.fim_rep_token_id" },
    [FIM_SEP] = { "tokenizer.ggml.fim_sep_token_id" },
};

static const char *const ends[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<｜end▁of▁sentence｜>", "[e~[",
};

/* Parts of a message that are shown, whatever the file says. */
static const char *const shown[] = { "<|channel|>", "<|message|>", "<|start|>", "<|constrain|>" };

static int vocab_meanings_text_is(const struct vocab *v, uint32_t token, const char *text)
{
    const struct vocab_token *t = &v->tokens[token];
    return t->text_bytes == strlen(text) && !memcmp(v->texts + t->text, text, t->text_bytes);
}

int32_t vocab_token_of_text(const struct vocab *v, const char *text)
{
    for (uint32_t i = 0; i < v->count; i++) {
        if (vocab_meanings_text_is(v, i, text)) return (int32_t)i;
    }
    return -1;
}

/* Only texts that start like one of those in the tables are compared: a vocabulary is large. */
static int may_mean(const char *text)
{
    return text[0] == '<' || text[0] == '[' || text[0] == '_' || text[0] == '\xE2';
}

static void ids_find(struct vocab *v, const struct gguf *g, int32_t ids[MEANINGS])
{
    for (int m = 0; m < MEANINGS; m++) {
        ids[m] = -1;
        for (int k = 0; k < 2 && meaning_keys[m][k]; k++) {
            uint32_t number;
            if (gguf_get_u32(g, meaning_keys[m][k], &number) && number < v->count) {
                ids[m] = (int32_t)number;
            }
        }
    }
    for (uint32_t i = 0; i < v->count; i++) {
        if (!may_mean(vocab_text(v, i))) continue;
        for (size_t k = 0; k < sizeof(meanings) / sizeof(meanings[0]); k++) {
            int32_t *id = &ids[meanings[k].meaning];
            if (*id >= 0 || !vocab_meanings_text_is(v, i, meanings[k].text)) continue;
            *id = (int32_t)i;
            v->tokens[i].kind |= TOKEN_CONTROL;
        }
    }
}

static void end_mark(struct vocab *v, int32_t id)
{
    if (id >= 0) v->tokens[id].kind |= TOKEN_END;
}

static void ends_find(struct vocab *v)
{
    for (uint32_t i = 0; i < v->count; i++) {
        if (!may_mean(vocab_text(v, i))) continue;
        for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++) {
            if (vocab_meanings_text_is(v, i, ends[k])) {
                v->tokens[i].kind |= TOKEN_END | TOKEN_CONTROL;
            }
        }
        for (size_t k = 0; k < sizeof(shown) / sizeof(shown[0]); k++) {
            if (vocab_meanings_text_is(v, i, shown[k])) v->tokens[i].kind = TOKEN_USER_DEFINED;
        }
    }
}

static int is_end(const struct vocab *v, int32_t id)
{
    return id >= 0 && (v->tokens[id].kind & TOKEN_END);
}

/* Where a vocabulary has the ends of several formats, one of them is not meant. */
static void ends_correct(struct vocab *v)
{
    const int32_t end = vocab_token_of_text(v, "<|end|>"), s = vocab_token_of_text(v, "</s>");
    const int call = is_end(v, vocab_token_of_text(v, "<|call|>")) ||
                     is_end(v, vocab_token_of_text(v, "<|calls|>"));
    if (is_end(v, end) && call && (is_end(v, vocab_token_of_text(v, "<|return|>")) ||
                                   is_end(v, vocab_token_of_text(v, "<|flush|>")))) {
        v->tokens[end].kind = TOKEN_USER_DEFINED;
    }
    if (is_end(v, s) && is_end(v, vocab_token_of_text(v, "<|tool_response>"))) {
        v->tokens[s].kind = TOKEN_NORMAL;
    }
}

/* Whether text of any case has the word, which is in lower case. */
static int text_has(const struct gguf_text *text, const char *word)
{
    const size_t bytes = strlen(word);
    for (size_t i = 0; i + bytes <= text->bytes; i++) {
        size_t same = 0;
        while (same < bytes && tolower((unsigned char)text->at[i + same]) == word[same]) same++;
        if (same == bytes) return 1;
    }
    return 0;
}

static void strip_set(struct vocab *v, const char *text, uint32_t bit, int on)
{
    const int32_t token = vocab_token_of_text(v, text);
    if (token < 0) return;
    if (on) v->tokens[token].kind |= bit;
    else v->tokens[token].kind &= ~bit;
}

/* Files do not say which tokens swallow white space beside them: names of models do. */
static void strips_find(struct vocab *v, const struct gguf *g)
{
    struct gguf_text name = { "", 0 }, pre = { "", 0 };
    gguf_get_text(g, "general.name", &name);
    gguf_get_text(g, "tokenizer.ggml.pre", &pre);
    if (text_has(&pre, "jina-v2-de") || text_has(&pre, "jina-v2-es") ||
        text_has(&pre, "jina-v2-code")) {
        strip_set(v, "<mask>", TOKEN_STRIP_LEFT, 1);
    } else if (text_has(&name, "phi-3") || text_has(&name, "phi3")) {
        for (uint32_t i = 0; i < v->count; i++) {
            if (v->tokens[i].kind & (TOKEN_CONTROL | TOKEN_USER_DEFINED | TOKEN_UNKNOWN)) {
                v->tokens[i].kind |= TOKEN_STRIP_RIGHT;
            }
        }
        strip_set(v, "</s>", TOKEN_STRIP_RIGHT, 1);
        strip_set(v, "<unk>", TOKEN_STRIP_RIGHT, 0);
        strip_set(v, "<s>", TOKEN_STRIP_RIGHT, 0);
        strip_set(v, "<|endoftext|>", TOKEN_STRIP_RIGHT, 0);
    } else if (text_has(&name, "modern-bert")) {
        strip_set(v, "[MASK]", TOKEN_STRIP_LEFT, 1);
    }
}

void vocab_meanings_find(struct vocab *v, const struct gguf *g)
{
    int32_t ids[MEANINGS];
    ids_find(v, g, ids);
    end_mark(v, ids[FIM_PAD]);
    end_mark(v, ids[FIM_REP]);
    end_mark(v, ids[FIM_SEP]);
    ends_find(v);
    end_mark(v, v->eos);
    end_mark(v, ids[EOT]);
    end_mark(v, ids[EOM]);
    ends_correct(v);
    strips_find(v, g);
}
