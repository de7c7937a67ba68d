#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "vocab_file.h"

/* ---- Byte-level BPE ------------------------------------------------------------------------ */

enum { A, B, C, D, AB, CD, ABCD, SPACE_A, NEWLINE, END, USER, UNUSED, E_ACUTE_1, BPE_TOKENS };
static const char *const bpe_tokens[BPE_TOKENS] = {
    "a", "b", "c", "d", "ab", "cd", "abcd", "Ġa", "Ċ", "<|endoftext|>", "[user]", "<unused>", "Ã",
};
static const int32_t bpe_types[BPE_TOKENS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 4, 5, 1 };
/* "b c" comes before "ab cd", but "a b" before it; "abc" is no token, but a step. */
static const char *const bpe_merges[] = { "a b", "c d", "b c", "ab c", "abc d", "ab cd", "Ġ a" };

static void bpe_file(struct vocab_file *f, const char *pre)
{
    vocab_file_begin(f);
    vocab_file_text(f, "tokenizer.ggml.model", "gpt2");
    vocab_file_text(f, "tokenizer.ggml.pre", pre);
    vocab_file_texts(f, "tokenizer.ggml.tokens", bpe_tokens, BPE_TOKENS);
    vocab_file_numbers(f, "tokenizer.ggml.token_type", GGUF_I32, bpe_types, BPE_TOKENS);
    vocab_file_texts(f, "tokenizer.ggml.merges", bpe_merges, sizeof(bpe_merges) / sizeof(char *));
}

static void test_bpe(void **state)
{
    (void)state;
    struct vocab_file f;
    struct fail why;
    bpe_file(&f, "gpt-2");
    struct tokenizer *t = vocab_file_load(&f, &why);
    assert_non_null(t);
    assert_int_equal(tokenizer_size(t), BPE_TOKENS);
    assert_string_equal(tokenizer_model(t), "gpt2");
    EXPECT(t, "abcd", 0, ABCD);
    EXPECT(t, "abcab a", 0, A, B, C, AB, SPACE_A); /* what got stuck at "abc" is its bytes */
    EXPECT(t, "bcd", 0, B, CD);
    tokenizer_destroy(t);
}

static void test_bpe_pieces(void **state)
{
    (void)state;
    struct vocab_file f;
    struct fail why;
    bpe_file(&f, "gpt-2");
    struct tokenizer *t = vocab_file_load(&f, &why);
    char out[16];
    assert_int_equal(tokenizer_piece(t, SPACE_A, 0, out, sizeof(out)), 2);
    assert_memory_equal(out, " a", 2);
    assert_int_equal(tokenizer_piece(t, NEWLINE, 0, out, sizeof(out)), 1);
    assert_memory_equal(out, "\n", 1);
    assert_int_equal(tokenizer_piece(t, E_ACUTE_1, 0, out, sizeof(out)), 1);
    assert_memory_equal(out, "\xC3", 1);
    assert_int_equal(tokenizer_piece(t, ABCD, 0, out, 2), 4); /* says how many there are */
    assert_int_equal(tokenizer_piece(t, ABCD, 0, NULL, 0), 4);
    assert_int_equal(tokenizer_piece(t, END, 0, out, sizeof(out)), 0);
    assert_int_equal(tokenizer_piece(t, END, 1, out, sizeof(out)), 13);
    assert_int_equal(tokenizer_piece(t, USER, 0, out, sizeof(out)), 6);
    assert_int_equal(tokenizer_piece(t, UNUSED, 1, out, sizeof(out)), 0);
    assert_int_equal(tokenizer_piece(t, -1, 1, out, sizeof(out)), 0);
    assert_int_equal(tokenizer_piece(t, BPE_TOKENS, 1, out, sizeof(out)), 0);
    tokenizer_destroy(t);
}

static void test_specials(void **state)
{
    (void)state;
    struct vocab_file f;
    struct fail why;
    bpe_file(&f, "gpt-2");
    struct tokenizer *t = vocab_file_load(&f, &why);
    EXPECT(t, "a[user]b<|endoftext|>c", TOKENIZE_SPECIAL, A, USER, B, END, C);
    EXPECT(t, "a[user]b", 0, A, USER, B); /* user-defined ones always */
    EXPECT(t, "<|endoftext|>", 0, D);     /* the letters that have tokens: "d" */
    EXPECT(t, "[user][user", TOKENIZE_SPECIAL, USER);
    assert_true(tokenizer_is_end(t, END));
    assert_false(tokenizer_is_end(t, USER));
    assert_false(tokenizer_is_end(t, -1));
    tokenizer_destroy(t);
}

/* A word that is a token is that token even if merges lead elsewhere; and begin of text is
 * added. */
static void test_ignore_merges(void **state)
{
    (void)state;
    static const char *const tokens[] = { "a", "b", "c", "ab", "abc", "bc", "<bos>" };
    static const char *const merges[] = { "b c", "a b" };
    for (int llama3 = 0; llama3 < 2; llama3++) {
        struct vocab_file f;
        struct fail why;
        vocab_file_begin(&f);
        vocab_file_text(&f, "tokenizer.ggml.model", "gpt2");
        vocab_file_text(&f, "tokenizer.ggml.pre", llama3 ? "llama-bpe" : "dbrx");
        vocab_file_texts(&f, "tokenizer.ggml.tokens", tokens, 7);
        vocab_file_texts(&f, "tokenizer.ggml.merges", merges, 2);
        vocab_file_u32(&f, "tokenizer.ggml.bos_token_id", 6);
        struct tokenizer *t = vocab_file_load(&f, &why);
        assert_int_equal(tokenizer_adds_bos(t), llama3);
        assert_int_equal(tokenizer_bos(t), 6);
        assert_int_equal(tokenizer_eos(t), -1); /* 11 is not there */
        if (llama3) EXPECT(t, "abc", TOKENIZE_BOS, 6, 4);
        else EXPECT(t, "abc", TOKENIZE_BOS, 0, 5);
        tokenizer_destroy(t);
    }
}

/* ---- SentencePiece ------------------------------------------------------------------------- */

enum { UNK, BOS, EOS, X0A, XE4, XBD, XA0, SP, LO, HE, L, LL, HELLO, SP_HELLO, H, E_, O, SP_TOKENS };
static const char *const sp_tokens[SP_TOKENS] = {
    "<unk>", "<s>", "</s>", "<0x0A>", "<0xE4>", "<0xBD>", "<0xA0>", "▁", "lo", "he", "l", "ll",
    "hello", "▁hello", "h", "e", "o",
};
static const int32_t sp_types[SP_TOKENS] = { 2, 3, 3, 6, 6, 6, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
static const float sp_scores[SP_TOKENS] = { 0, 0, 0, 0, 0, 0, 0, -9, -3, -1, -9, -2, -4, -5, -9, -9,
                                            -9 };

static struct tokenizer *sp_load(int space)
{
    struct vocab_file f;
    struct fail why;
    vocab_file_begin(&f);
    vocab_file_text(&f, "tokenizer.ggml.model", "llama");
    vocab_file_texts(&f, "tokenizer.ggml.tokens", sp_tokens, SP_TOKENS);
    vocab_file_numbers(&f, "tokenizer.ggml.token_type", GGUF_I32, sp_types, SP_TOKENS);
    vocab_file_numbers(&f, "tokenizer.ggml.scores", GGUF_F32, sp_scores, SP_TOKENS);
    if (!space) vocab_file_bool(&f, "tokenizer.ggml.add_space_prefix", 0);
    struct tokenizer *t = vocab_file_load(&f, &why);
    assert_non_null(t);
    return t;
}

static void test_sentencepiece(void **state)
{
    (void)state;
    struct tokenizer *t = sp_load(1);
    assert_string_equal(tokenizer_model(t), "llama");
    /* he (-1) before ll (-2) before lo (-3): "hell" is no token, so hello is not reached. */
    EXPECT(t, "hello", 0, SP, HE, LL, O);
    EXPECT(t, "helo", 0, SP, HE, LO);
    EXPECT(t, "", TOKENIZE_BOS, BOS);
    EXPECT(t, "l l", TOKENIZE_BOS, BOS, SP, L, SP, L);
    EXPECT(t, "\n", 0, SP, X0A);
    EXPECT(t, "\xE4\xBD\xA0", 0, SP, XE4, XBD, XA0);
    EXPECT(t, "z", 0, SP, UNK);           /* there is no <0x7A> */
    EXPECT(t, "\xE4l", 0, SP, XE4, L);    /* cut short: the lead takes what there is */
    EXPECT(t, "l</s>l", TOKENIZE_SPECIAL, SP, L, EOS, SP, L);
    assert_true(tokenizer_is_end(t, EOS));
    assert_int_equal(tokenizer_bos(t), BOS);
    char out[8];
    assert_int_equal(tokenizer_piece(t, SP_HELLO, 0, out, sizeof(out)), 6);
    assert_memory_equal(out, " hello", 6);
    assert_int_equal(tokenizer_piece(t, XE4, 0, out, sizeof(out)), 1);
    assert_memory_equal(out, "\xE4", 1);
    tokenizer_destroy(t);

    t = sp_load(0);
    EXPECT(t, "l l", 0, L, SP, L);
    tokenizer_destroy(t);
}

/* A token that has a space inside: the text must not be cut there. */
static void test_sentencepiece_glue(void **state)
{
    (void)state;
    static const char *const tokens[] = { "<unk>", "<s>", "</s>", "▁", "a", "b", "a▁", "a▁b" };
    static const float scores[] = { 0, 0, 0, -9, -9, -9, -1, -2 };
    struct vocab_file f;
    struct fail why;
    vocab_file_begin(&f);
    vocab_file_text(&f, "tokenizer.ggml.model", "llama");
    vocab_file_texts(&f, "tokenizer.ggml.tokens", tokens, 8);
    vocab_file_numbers(&f, "tokenizer.ggml.scores", GGUF_F32, scores, 8);
    vocab_file_bool(&f, "tokenizer.ggml.add_space_prefix", 0);
    struct tokenizer *t = vocab_file_load(&f, &why);
    EXPECT(t, "a b", 0, 7);
    EXPECT(t, "b b", 0, 5, 3, 5);
    EXPECT(t, "b a b", 0, 5, 3, 7);
    tokenizer_destroy(t);
}

/* ---- Files that are wrong ------------------------------------------------------------------ */

static void refused(struct vocab_file *f, const char *part)
{
    struct fail why = { "" };
    assert_null(vocab_file_load(f, &why));
    if (!strstr(why.text, part)) fail_msg("'%s' has no '%s'", why.text, part);
}

static void test_refusals(void **state)
{
    (void)state;
    struct vocab_file f;
    vocab_file_begin(&f);
    refused(&f, "tokenizer.ggml.model");
    vocab_file_text(&f, "tokenizer.ggml.model", "bert");
    refused(&f, "'bert'");

    bpe_file(&f, "no-such");
    refused(&f, "'no-such'");

    vocab_file_begin(&f);
    vocab_file_text(&f, "tokenizer.ggml.model", "gpt2");
    refused(&f, "tokenizer.ggml.tokens");
    vocab_file_texts(&f, "tokenizer.ggml.tokens", bpe_tokens, BPE_TOKENS);
    refused(&f, "tokenizer.ggml.merges");

    static const char *const twice[] = { "a", "b", "a" };
    vocab_file_begin(&f);
    vocab_file_text(&f, "tokenizer.ggml.model", "llama");
    vocab_file_texts(&f, "tokenizer.ggml.tokens", twice, 3);
    refused(&f, "token 2 is there twice");

    vocab_file_begin(&f);
    vocab_file_text(&f, "tokenizer.ggml.model", "llama");
    vocab_file_texts(&f, "tokenizer.ggml.tokens", twice, 2);
    vocab_file_numbers(&f, "tokenizer.ggml.scores", GGUF_F32, sp_scores, 1);
    refused(&f, "2 tokens, but only 1 scores");

    const uint32_t nan[] = { 0, 0x7FC00000 };
    vocab_file_begin(&f);
    vocab_file_text(&f, "tokenizer.ggml.model", "llama");
    vocab_file_texts(&f, "tokenizer.ggml.tokens", twice, 2);
    vocab_file_numbers(&f, "tokenizer.ggml.scores", GGUF_F32, nan, 2);
    refused(&f, "the score of token 1 is not a number");
}

/* Empty tokens, ids out of range, merges without a space: odd, but no reason to refuse. */
static void test_odd(void **state)
{
    (void)state;
    static const char *const tokens[] = { "a", "", "b", "ab", "日" };
    static const char *const merges[] = { "ab", "", " ", "a b", "日 a" };
    struct vocab_file f;
    struct fail why;
    vocab_file_begin(&f);
    vocab_file_text(&f, "tokenizer.ggml.model", "gpt2");
    vocab_file_texts(&f, "tokenizer.ggml.tokens", tokens, 5);
    vocab_file_texts(&f, "tokenizer.ggml.merges", merges, 5);
    vocab_file_u32(&f, "tokenizer.ggml.bos_token_id", 99);
    vocab_file_bool(&f, "tokenizer.ggml.add_bos_token", 1);
    struct tokenizer *t = vocab_file_load(&f, &why);
    assert_int_equal(tokenizer_bos(t), -1);
    assert_false(tokenizer_adds_bos(t));
    EXPECT(t, "ab", TOKENIZE_BOS, 3);
    char out[16];
    assert_int_equal(tokenizer_piece(t, 1, 0, out, sizeof(out)), 9);
    assert_memory_equal(out, "[EMPTY_1]", 9);
    assert_int_equal(tokenizer_piece(t, 4, 0, out, sizeof(out)), 3);
    tokenizer_destroy(t);
}

/* ---- More tokens than room, counts, threads ------------------------------------------------- */

static void test_room(void **state)
{
    (void)state;
    struct tokenizer *t = sp_load(1);
    int32_t tokens[3] = { -5, -5, -5 };
    size_t count;
    assert_int_equal(tokenizer_encode(t, "hello", 5, 0, tokens, 2, &count), 0);
    assert_int_equal(count, 4);
    assert_int_equal(tokens[0], SP);
    assert_int_equal(tokens[2], -5);
    assert_int_equal(tokenizer_encode(t, "hello", 5, 0, NULL, 0, &count), 0);
    assert_int_equal(count, 4);
    EXPECT(t, "hello", 0, SP, HE, LL, O); /* what did not fit was not cached by halves */
    tokenizer_destroy(t);
}

static void test_counts(void **state)
{
    (void)state;
    struct tokenizer *t = sp_load(1);
    struct tokenizer_counts c;
    struct tokenizer_slow slow[TOKENIZER_SLOWEST];
    EXPECT(t, "hello", 0, SP, HE, LL, O);
    tokenizer_counts(t, &c);
    assert_int_equal(c.encodes, 1);
    assert_int_equal(c.bytes, 5);
    assert_int_equal(c.tokens, 4);
    assert_int_equal(c.merges, 2);
    assert_int_equal(c.cache_hits, 0);
    assert_int_equal(c.cache_misses, 1);
    assert_int_equal(c.cache_used, 1);
    EXPECT(t, "hello", 0, SP, HE, LL, O);
    tokenizer_counts(t, &c);
    assert_int_equal(c.merges, 2);
    assert_int_equal(c.cache_hits, 1);
    assert_int_equal(tokenizer_slowest(t, slow), 2);

    char text[2000];
    memset(text, 'l', sizeof(text));
    int32_t tokens[2000];
    size_t count;
    for (int i = 0; i < 30; i++) {
        assert_int_equal(tokenizer_encode(t, text, sizeof(text), 0, tokens, 2000, &count), 0);
    }
    assert_int_equal(count, 1001);
    tokenizer_counts(t, &c);
    assert_int_equal(c.words_long, 30);
    assert_int_equal(c.words_long_bytes, 30 * 2003);
    assert_int_equal(tokenizer_slowest(t, slow), TOKENIZER_SLOWEST);
    for (int i = 0; i + 1 < TOKENIZER_SLOWEST; i++) assert_true(slow[i].ns >= slow[i + 1].ns);
    tokenizer_destroy(t);
}

static void *encode_often(void *tokenizer)
{
    for (int i = 0; i < 300; i++) {
        static const char *const texts[] = { "hello helo", "l l ll", "hello\nhello", "helo" };
        int32_t tokens[32], again[32];
        size_t count, more;
        const char *text = texts[i % 4];
        if (tokenizer_encode(tokenizer, text, strlen(text), 0, tokens, 32, &count)) {
            return tokenizer;
        }
        if (tokenizer_encode(tokenizer, text, strlen(text), 0, again, 32, &more)) return tokenizer;
        if (count != more || memcmp(tokens, again, count * 4)) return tokenizer;
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct tokenizer *t = sp_load(1);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, t), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    struct tokenizer_counts c;
    tokenizer_counts(t, &c);
    assert_int_equal(c.encodes, 4 * 600);
    tokenizer_destroy(t);
}

/* ---- Chats --------------------------------------------------------------------------------- */

static const struct chat_message turns[] = {
    { "system", "Be brief." }, { "user", " Hi " }, { "assistant", "Hello" }, { "user", "Bye" },
};

static const struct { const char *template_text, *prompt; } chats[] = {
    { "{{'<|im_start|>' + role}}",
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
      "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
      "<|im_start|>assistant\n" },
    { "<|start_header_id|>{{ role }}<|end_header_id|>",
      "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
      "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
      "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\n" },
    { "<|user|> … <|assistant|> … <|end|>",
      "<|system|>\nBe brief.<|end|>\n<|user|>\n Hi <|end|>\n<|assistant|>\nHello<|end|>\n"
      "<|user|>\nBye<|end|>\n<|assistant|>\n" },
    { "<|user|> … <|endoftext|>",
      "<|system|>\nBe brief.<|endoftext|>\n<|user|>\n Hi <|endoftext|>\n"
      "<|assistant|>\nHello<|endoftext|>\n<|user|>\nBye<|endoftext|>\n<|assistant|>\n" },
    { "[INST] <<SYS>>",
      "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi  [/INST]Hello</s>[INST] Bye [/INST]" },
    { "[INST] content.strip()",
      "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST]Hello</s>[INST] Bye [/INST]" },
    { "{{ bos_token + '[INST]", "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi  [/INST]Hello</s>"
                                "<s>[INST] Bye [/INST]" },
    { "[INST]", "[INST] Be brief.\n Hi  [/INST]Hello</s>[INST] Bye [/INST]" },
    { "something else", "system: Be brief.\nuser:  Hi \nassistant: Hello\nuser: Bye\nassistant:" },
    { NULL, "system: Be brief.\nuser:  Hi \nassistant: Hello\nuser: Bye\nassistant:" },
};

static void test_chats(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(chats) / sizeof(chats[0]); i++) {
        struct vocab_file f;
        struct fail why;
        bpe_file(&f, "gpt-2");
        if (chats[i].template_text) {
            vocab_file_text(&f, "tokenizer.chat_template", chats[i].template_text);
        }
        struct tokenizer *t = vocab_file_load(&f, &why);
        char *prompt = tokenizer_chat(t, turns, 4);
        assert_string_equal(prompt, chats[i].prompt);
        free(prompt);
        tokenizer_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe), cmocka_unit_test(test_bpe_pieces),
        cmocka_unit_test(test_specials), cmocka_unit_test(test_ignore_merges),
        cmocka_unit_test(test_sentencepiece), cmocka_unit_test(test_sentencepiece_glue),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_odd), cmocka_unit_test(test_room),
        cmocka_unit_test(test_counts), cmocka_unit_test(test_threads), cmocka_unit_test(test_chats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
