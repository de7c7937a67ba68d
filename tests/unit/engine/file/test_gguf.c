#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/gguf.h"
#include "file/weight.h"

/* ---- A file, piece by piece: each test says which piece is wrong ----------------------------- */

struct bytes { unsigned char data[4096]; size_t count; };

static void put(struct bytes *b, const void *data, size_t bytes)
{
    assert_true(b->count + bytes <= sizeof(b->data));
    memcpy(b->data + b->count, data, bytes);
    b->count += bytes;
}

static void put_u32(struct bytes *b, uint32_t v) { put(b, &v, 4); }
static void put_u64(struct bytes *b, uint64_t v) { put(b, &v, 8); }

static void put_text(struct bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

static void put_header(struct bytes *b, uint32_t version, uint64_t tensors, uint64_t pairs)
{
    put(b, "GGUF", 4);
    put_u32(b, version);
    put_u64(b, tensors);
    put_u64(b, pairs);
}

static void put_pair_u32(struct bytes *b, const char *key, uint32_t value)
{
    put_text(b, key);
    put_u32(b, GGUF_U32);
    put_u32(b, value);
}

static void put_tensor(struct bytes *b, const char *name, uint64_t cols, uint64_t rows,
                       uint32_t type, uint64_t offset)
{
    put_text(b, name);
    put_u32(b, 2);
    put_u64(b, cols);
    put_u64(b, rows);
    put_u32(b, type);
    put_u64(b, offset);
}

static void put_padding(struct bytes *b, size_t alignment)
{
    while (b->count % alignment) put(b, "", 1);
}

static void put_data(struct bytes *b, size_t bytes)
{
    put_padding(b, 32);
    for (size_t i = 0; i < bytes; i++) put(b, &(unsigned char){ (unsigned char)i }, 1);
}

/* With pairs of every type and two tensors. */
static void whole_file(struct bytes *b)
{
    static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    b->count = 0;
    put_header(b, 3, 2, 11 + 3);
    for (uint32_t type = 0; type < sizeof(sizes); type++) {
        char key[16];
        const unsigned char value[8] = { 1 };
        if (!sizes[type]) continue;
        snprintf(key, sizeof(key), "type.%u", type);
        put_text(b, key);
        put_u32(b, type);
        put(b, value, sizes[type]);
    }
    put_text(b, "text");
    put_u32(b, GGUF_STRING);
    put_text(b, "value");
    put_text(b, "texts");
    put_u32(b, GGUF_ARRAY);
    put_u32(b, GGUF_STRING);
    put_u64(b, 3);
    put_text(b, "a");
    put_text(b, "");
    put_text(b, "ccc");
    put_text(b, "numbers");
    put_u32(b, GGUF_ARRAY);
    put_u32(b, GGUF_I32);
    put_u64(b, 2);
    put_u32(b, 5);
    put_u32(b, 6);
    put_tensor(b, "b.weight", 32, 2, WEIGHT_Q8_0, 0);
    put_tensor(b, "a.weight", 4, 3, WEIGHT_F32, 96);
    put_data(b, 96 + 48);
}

static struct gguf *file_open(const struct bytes *b)
{
    struct gguf *g = NULL;
    struct fail why;
    if (gguf_open_memory(b->data, b->count, "m", &g, &why)) fail_msg("%s", why.text);
    return g;
}

/* ---- What is right --------------------------------------------------------------------------- */

static void test_read(void **state)
{
    (void)state;
    struct bytes b;
    whole_file(&b);
    struct gguf *g = file_open(&b);
    uint32_t u = 7;
    float f;
    int truth;
    struct gguf_text text;
    struct gguf_array array;
    static const char *const integers[] = { "type.0", "type.1", "type.2", "type.3", "type.4",
                                            "type.5", "type.10", "type.11" };
    for (size_t i = 0; i < 8; i++) {
        u = 7;
        assert_true(gguf_get_u32(g, integers[i], &u));
        assert_int_equal(u, 1);
    }
    u = 7;
    assert_false(gguf_get_u32(g, "type.6", &u)); /* a float is not an integer */
    assert_false(gguf_get_u32(g, "type", &u));
    assert_int_equal(u, 7);
    assert_true(gguf_get_f32(g, "type.6", &f) && gguf_get_f32(g, "type.12", &f));
    assert_false(gguf_get_f32(g, "type.4", &f));
    assert_true(gguf_get_bool(g, "type.7", &truth) && truth == 1);
    assert_true(gguf_get_text(g, "text", &text));
    assert_true(text.bytes == 5 && !memcmp(text.at, "value", 5));
    assert_false(gguf_get_array(g, "texts", GGUF_I32, &array));
    assert_true(gguf_get_array(g, "texts", GGUF_STRING, &array));
    struct gguf_walk w = gguf_walk_begin(&array);
    assert_true(gguf_walk_next(&w, &text) && text.bytes == 1);
    assert_true(gguf_walk_next(&w, &text) && text.bytes == 0);
    assert_true(gguf_walk_next(&w, &text) && text.bytes == 3 && !memcmp(text.at, "ccc", 3));
    assert_false(gguf_walk_next(&w, &text));
    assert_true(gguf_get_array(g, "numbers", GGUF_I32, &array));
    assert_int_equal(array.count, 2);
    w = gguf_walk_begin(&array); /* not strings: nothing to walk over */
    assert_false(gguf_walk_next(&w, &text));

    assert_int_equal(gguf_tensor_count(g), 2);
    assert_int_equal(gguf_file_bytes(g), b.count);
    const struct gguf_tensor *t = gguf_tensor_named(g, "a.weight");
    assert_ptr_equal(t, gguf_tensor_at(g, 1));
    assert_true(t->bytes == 48 && t->dims[0] == 4 && t->dims[1] == 3 && t->dims[2] == 1);
    assert_int_equal(*(const unsigned char *)t->data, 96);
    assert_int_equal(gguf_tensor_named(g, "b.weight")->bytes, 68);
    assert_null(gguf_tensor_named(g, "c.weight"));

    const void *raw;
    size_t raw_bytes;
    gguf_pair(g, gguf_pair_count(g) - 1, &text, &raw, &raw_bytes);
    assert_int_equal(text.bytes, 7);
    assert_int_equal(raw_bytes, 4 + 4 + 8 + 8);
    gguf_close(g);
    gguf_close(NULL);
}

/* A type that is not known is the business of whoever wants that tensor. */
static void test_unknown_type(void **state)
{
    (void)state;
    struct bytes b = { .count = 0 };
    put_header(&b, 2, 2, 0);
    put_tensor(&b, "a", 256, 1, 12, 0);
    put_tensor(&b, "b", 8, 1, WEIGHT_F32, 160);
    put_data(&b, 192);
    struct gguf *g = file_open(&b);
    assert_int_equal(gguf_tensor_named(g, "a")->bytes, 0);
    assert_int_equal(gguf_tensor_named(g, "b")->bytes, 32);
    gguf_close(g);
}

static void test_empty(void **state)
{
    (void)state;
    struct bytes b = { .count = 0 };
    put_header(&b, 3, 0, 0);
    struct gguf *g = file_open(&b);
    assert_int_equal(gguf_tensor_count(g), 0);
    assert_null(gguf_tensor_named(g, "a"));
    gguf_close(g);
}

/* ---- What is wrong --------------------------------------------------------------------------- */

static void bad_magic(struct bytes *b)
{
    put(b, "GGML\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
}
static void bad_version_1(struct bytes *b) { put_header(b, 1, 0, 0); }
static void bad_version_4(struct bytes *b) { put_header(b, 4, 0, 0); }
static void bad_endian(struct bytes *b) { put_header(b, 0x03000000, 0, 0); }
static void bad_pair_count(struct bytes *b) { put_header(b, 3, 0, UINT64_MAX); put_data(b, 64); }
static void bad_tensor_count(struct bytes *b)
{
    put_header(b, 3, UINT64_MAX / 8, 0);
    put_data(b, 64);
}

static void bad_key_length(struct bytes *b)
{
    put_header(b, 3, 0, 1);
    put_u64(b, UINT64_MAX);
    put_data(b, 64);
}

static void bad_key_empty(struct bytes *b)
{
    put_header(b, 3, 0, 1);
    put_pair_u32(b, "", 1);
}

static void bad_key_twice(struct bytes *b)
{
    put_header(b, 3, 0, 3);
    put_pair_u32(b, "one", 1);
    put_pair_u32(b, "two", 1);
    put_pair_u32(b, "one", 1);
}

static void bad_value_type(struct bytes *b)
{
    put_header(b, 3, 0, 1);
    put_text(b, "key");
    put_u32(b, 13);
    put_u64(b, 0);
}

static void bad_array(struct bytes *b, uint32_t type, uint64_t count)
{
    put_header(b, 3, 0, 1);
    put_text(b, "key");
    put_u32(b, GGUF_ARRAY);
    put_u32(b, type);
    put_u64(b, count);
    put_data(b, 64);
}

static void bad_array_nested(struct bytes *b) { bad_array(b, GGUF_ARRAY, 1); }
static void bad_array_count(struct bytes *b) { bad_array(b, GGUF_F64, UINT64_MAX / 8 + 1); }
static void bad_array_texts(struct bytes *b) { bad_array(b, GGUF_STRING, UINT64_MAX); }
static void bad_array_text(struct bytes *b) { bad_array(b, GGUF_STRING, 2); }

static void bad_alignment(struct bytes *b, uint32_t alignment)
{
    put_header(b, 3, 0, 1);
    put_pair_u32(b, "general.alignment", alignment);
}

static void bad_alignment_0(struct bytes *b) { bad_alignment(b, 0); }
static void bad_alignment_48(struct bytes *b) { bad_alignment(b, 48); }
static void bad_alignment_huge(struct bytes *b) { bad_alignment(b, 0x80000000); }

static void bad_alignment_text(struct bytes *b)
{
    put_header(b, 3, 0, 1);
    put_text(b, "general.alignment");
    put_u32(b, GGUF_STRING);
    put_text(b, "32");
}

static void bad_tensor(struct bytes *b, const char *name, uint64_t cols, uint64_t rows,
                       uint32_t type, uint64_t offset)
{
    put_header(b, 3, 1, 0);
    put_tensor(b, name, cols, rows, type, offset);
    put_data(b, 128);
}

static void bad_dimension_0(struct bytes *b) { bad_tensor(b, "t", 4, 0, WEIGHT_F32, 0); }
static void bad_dimensions(struct bytes *b)
{
    bad_tensor(b, "t", 1u << 31, 1u << 31, WEIGHT_F32, 0);
}
static void bad_dimension(struct bytes *b)
{
    bad_tensor(b, "t", (uint64_t)1 << 62, 4, WEIGHT_F32, 0);
}
static void bad_block(struct bytes *b) { bad_tensor(b, "t", 33, 1, WEIGHT_Q8_0, 0); }
static void bad_offset(struct bytes *b) { bad_tensor(b, "t", 4, 1, WEIGHT_F32, 8); }
static void bad_beyond(struct bytes *b) { bad_tensor(b, "t", 4, 1, WEIGHT_F32, 128); }
static void bad_far(struct bytes *b) { bad_tensor(b, "t", 4, 1, WEIGHT_F32, UINT64_MAX - 31); }
static void bad_unknown_far(struct bytes *b) { bad_tensor(b, "t", 4, 1, 99, 4096); }
static void bad_size(struct bytes *b) { bad_tensor(b, "t", 33, 1, WEIGHT_F32, 0); }
static void bad_tail(struct bytes *b) { bad_tensor(b, "t", 128, 4, WEIGHT_I2_S, 0); }
static void bad_name(struct bytes *b) { bad_tensor(b, "", 4, 1, WEIGHT_F32, 0); }

static void bad_name_long(struct bytes *b)
{
    char name[300];
    memset(name, 'x', sizeof(name));
    name[299] = '\0';
    bad_tensor(b, name, 4, 1, WEIGHT_F32, 0);
}

static void bad_dims_count(struct bytes *b)
{
    put_header(b, 3, 1, 0);
    put_text(b, "t");
    put_u32(b, 5);
    put_data(b, 128);
}

static void bad_two(struct bytes *b, const char *first, const char *second, uint64_t offset)
{
    put_header(b, 3, 2, 0);
    put_tensor(b, first, 16, 1, WEIGHT_F32, 0);
    put_tensor(b, second, 16, 1, WEIGHT_F32, offset);
    put_data(b, 128);
}

static void bad_name_twice(struct bytes *b) { bad_two(b, "t", "t", 64); }
static void bad_overlap(struct bytes *b) { bad_two(b, "t", "u", 32); }
static void bad_same_place(struct bytes *b) { bad_two(b, "t", "u", 0); }

static void bad_name_unprintable(struct bytes *b)
{
    put_header(b, 3, 1, 0);
    put_tensor(b, "t\n\33[2J", 33, 1, WEIGHT_Q8_0, 0);
    put_data(b, 128);
}

static void test_damaged(void **state)
{
    (void)state;
    static const struct { void (*make)(struct bytes *); const char *says; } cases[] = {
        { bad_magic, "is not a GGUF file" },
        { bad_version_1, "version 1 of GGUF; 2 and 3" },
        { bad_version_4, "version 4 of GGUF" },
        { bad_endian, "big-endian" },
        { bad_pair_count, "keys do not fit" },
        { bad_tensor_count, "tensors do not fit" },
        { bad_key_length, "truncated" },
        { bad_key_empty, "key 0 is 0 bytes long" },
        { bad_key_twice, "key one is there twice" },
        { bad_value_type, "key key: a value of type 13" },
        { bad_array_nested, "key key: an array of values of type 9" },
        { bad_array_count, "truncated" },
        { bad_array_texts, "truncated" },
        { bad_array_text, "truncated" },
        { bad_alignment_0, "general.alignment is 0" },
        { bad_alignment_48, "general.alignment is 48" },
        { bad_alignment_huge, "general.alignment is 2147483648" },
        { bad_alignment_text, "general.alignment is not an integer" },
        { bad_dimension_0, "tensor t has a dimension of 0" },
        { bad_dimension, "tensor t has a dimension" },
        { bad_dimensions, "tensor t has dimensions" },
        { bad_block, "tensor t has rows that are not a multiple" },
        { bad_offset, "tensor t is not aligned" },
        { bad_beyond, "tensor t reaches beyond" },
        { bad_far, "tensor t reaches beyond" },
        { bad_unknown_far, "tensor t reaches beyond" },
        { bad_size, "tensor t reaches beyond" },
        { bad_tail, "tensor t reaches beyond" },
        { bad_name, "the name of tensor 0 is 0 bytes long" },
        { bad_name_long, "the name of tensor 0 is 299 bytes long" },
        { bad_name_twice, "tensor t is there twice" },
        { bad_dims_count, "tensor t does not have 1 to 4 dimensions" },
        { bad_overlap, "tensor u lies in another one" },
        { bad_same_place, "lies in another one" },
        { bad_name_unprintable, "tensor t??[2J has rows" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes b = { .count = 0 };
        struct gguf *g = NULL;
        struct fail why = { "" };
        cases[i].make(&b);
        const int rc = gguf_open_memory(b.data, b.count, "m", &g, &why);
        if (rc != -1 || g || strncmp(why.text, "m: ", 3) || !strstr(why.text, cases[i].says)) {
            fail_msg("case %zu: wanted '%s', got '%s'", i, cases[i].says, why.text);
        }
    }
}

/* However short: a sentence, and not a byte behind the end is read (a sanitizer sees that). */
static void test_truncated(void **state)
{
    (void)state;
    struct bytes b;
    whole_file(&b);
    for (size_t n = 0; n < b.count; n++) {
        unsigned char *exact = malloc(n + 1);
        struct gguf *g = NULL;
        struct fail why = { "" };
        memcpy(exact, b.data, n);
        assert_int_equal(gguf_open_memory(exact, n, "m", &g, &why), -1);
        assert_true(why.text[0]);
        free(exact);
    }
}

static void test_files(void **state)
{
    (void)state;
    char path[] = "/tmp/test_gguf.XXXXXX";
    const int fd = mkstemp(path);
    struct bytes b;
    struct gguf *g = NULL;
    struct fail why;
    assert_true(fd >= 0);
    assert_int_equal(gguf_open(path, &g, &why), -1);
    assert_non_null(strstr(why.text, "empty"));
    whole_file(&b);
    assert_int_equal(write(fd, b.data, b.count), (ssize_t)b.count);
    close(fd);
    assert_int_equal(gguf_open(path, &g, &why), 0);
    assert_string_equal(gguf_name(g), path);
    gguf_close(g);
    unlink(path);
    assert_int_equal(gguf_open(path, &g, &why), -1);
    assert_non_null(strstr(why.text, "No such file"));
    assert_int_equal(gguf_open("/", &g, &why), -1);
    assert_non_null(strstr(why.text, "not a regular file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),      cmocka_unit_test(test_unknown_type),
        cmocka_unit_test(test_empty),     cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_truncated), cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
