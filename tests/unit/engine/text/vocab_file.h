/* vocab_file.h - GGUF files with a vocabulary only, made in memory, for tests of tokenizers. */
#ifndef TESTS_VOCAB_FILE_H
#define TESTS_VOCAB_FILE_H

#include <stdint.h>
#include <string.h>

#include "file/gguf.h"
#include "text/tokenizer.h"

struct vocab_file { unsigned char data[32768]; size_t bytes; uint64_t pairs; };

static inline void vocab_file_put(struct vocab_file *f, const void *data, size_t bytes)
{
    assert_true(f->bytes + bytes <= sizeof(f->data));
    memcpy(f->data + f->bytes, data, bytes);
    f->bytes += bytes;
}

static inline void vocab_file_string(struct vocab_file *f, const char *text)
{
    const uint64_t bytes = strlen(text);
    vocab_file_put(f, &bytes, 8);
    vocab_file_put(f, text, bytes);
}

static inline void vocab_file_begin(struct vocab_file *f)
{
    const uint32_t version = 3;
    const uint64_t none = 0;
    memset(f, 0, sizeof(*f));
    vocab_file_put(f, "GGUF", 4);
    vocab_file_put(f, &version, 4);
    vocab_file_put(f, &none, 8);
    vocab_file_put(f, &none, 8); /* pairs: vocab_file_load knows */
}

static inline void vocab_file_key(struct vocab_file *f, const char *key, uint32_t type)
{
    vocab_file_string(f, key);
    vocab_file_put(f, &type, 4);
    f->pairs++;
}

static inline void vocab_file_text(struct vocab_file *f, const char *key, const char *value)
{
    vocab_file_key(f, key, GGUF_STRING);
    vocab_file_string(f, value);
}

static inline void vocab_file_u32(struct vocab_file *f, const char *key, uint32_t value)
{
    vocab_file_key(f, key, GGUF_U32);
    vocab_file_put(f, &value, 4);
}

static inline void vocab_file_bool(struct vocab_file *f, const char *key, int value)
{
    const unsigned char byte = (unsigned char)value;
    vocab_file_key(f, key, GGUF_BOOL);
    vocab_file_put(f, &byte, 1);
}

static inline void vocab_file_array(struct vocab_file *f, const char *key, uint32_t of,
                                    uint64_t count)
{
    vocab_file_key(f, key, GGUF_ARRAY);
    vocab_file_put(f, &of, 4);
    vocab_file_put(f, &count, 8);
}

static inline void vocab_file_texts(struct vocab_file *f, const char *key, const char *const *texts,
                                    uint64_t count)
{
    vocab_file_array(f, key, GGUF_STRING, count);
    for (uint64_t i = 0; i < count; i++) vocab_file_string(f, texts[i]);
}

static inline void vocab_file_numbers(struct vocab_file *f, const char *key, uint32_t of,
                                      const void *items, uint64_t count)
{
    vocab_file_array(f, key, of, count);
    vocab_file_put(f, items, 4 * count);
}

/* The tokenizer of it, or NULL and why. */
static inline struct tokenizer *vocab_file_load(struct vocab_file *f, struct fail *why)
{
    struct gguf *g;
    struct tokenizer *t = NULL;
    memcpy(f->data + 16, &f->pairs, 8);
    assert_int_equal(gguf_open_memory(f->data, f->bytes, "memory", &g, why), 0);
    const int rc = tokenizer_load(g, &t, why);
    assert_int_equal(rc == 0, t != NULL);
    gguf_close(g);
    return t;
}

/* Tokens of text are exactly these. */
static inline void expect_tokens(const struct tokenizer *t, const char *text, size_t bytes,
                                 unsigned flags, const int32_t *wanted, size_t count)
{
    int32_t got[256];
    size_t got_count;
    assert_int_equal(tokenizer_encode(t, text, bytes, flags, got, 256, &got_count), 0);
    if (got_count != count || memcmp(got, wanted, count * sizeof(*got))) {
        print_error("'%s':", text);
        for (size_t i = 0; i < got_count && i < 256; i++) print_error(" %d", got[i]);
        print_error("\n");
        fail();
    }
}
#define EXPECT(t, text, flags, ...)                                                            \
    do {                                                                                       \
        const int32_t wanted_[] = { __VA_ARGS__ };                                             \
        expect_tokens(t, text, sizeof(text) - 1, flags, wanted_, sizeof(wanted_) / 4);         \
    } while (0)

#endif
