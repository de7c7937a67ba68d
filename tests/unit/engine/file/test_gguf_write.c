#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/gguf_write.h"

static char folder[64], path[128];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/test_gguf_write.XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof(path), "%s/m.gguf", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static int folder_entries(void)
{
    DIR *d = opendir(folder);
    int count = -2; /* . and .. */
    while (readdir(d)) count++;
    closedir(d);
    return count;
}

static struct gguf_writer *writer_begin(void)
{
    struct gguf_writer *w;
    struct fail why;
    if (gguf_write_begin(path, &w, &why)) fail_msg("%s", why.text);
    return w;
}

static struct gguf_text text_of(const char *s)
{
    return (struct gguf_text){ s, strlen(s) };
}

static void test_round_trip(void **state)
{
    (void)state;
    const struct gguf_text texts[2] = { text_of("one"), text_of("") };
    const int32_t numbers[3] = { 1, -2, 3 };
    const uint64_t dims[2] = { 32, 2 }, one_dim[1] = { 3 };
    unsigned char rows[68];
    const float floats[3] = { 1, 2, 3 };
    memset(rows, 5, sizeof(rows));
    struct gguf_writer *w = writer_begin();
    gguf_write_u32(w, "u", 77);
    gguf_write_f32(w, "f", 0.5f);
    gguf_write_bool(w, "b", 9);
    gguf_write_text(w, "t", "text");
    gguf_write_texts(w, "ts", texts, 2);
    gguf_write_numbers(w, "ns", GGUF_I32, numbers, 3);
    gguf_write_tensor(w, text_of("q"), WEIGHT_Q8_0, dims, 2, sizeof(rows));
    gguf_write_tensor(w, text_of("v"), WEIGHT_F32, one_dim, 1, sizeof(floats));
    gguf_write_data(w, rows, 30); /* in pieces */
    gguf_write_data(w, rows, 38);
    assert_int_equal(folder_entries(), 1);
    assert_int_equal(access(path, F_OK), -1); /* not before it is complete */
    gguf_write_data(w, floats, sizeof(floats));
    struct fail why;
    assert_int_equal(gguf_write_finish(w, &why), 0);
    assert_int_equal(folder_entries(), 1);

    struct gguf *g;
    uint32_t u;
    float f;
    int b;
    struct gguf_text t;
    struct gguf_array a;
    assert_int_equal(gguf_open(path, &g, &why), 0);
    assert_true(gguf_get_u32(g, "u", &u) && u == 77);
    assert_true(gguf_get_f32(g, "f", &f) && f == 0.5f);
    assert_true(gguf_get_bool(g, "b", &b) && b == 1);
    assert_true(gguf_get_text(g, "t", &t) && t.bytes == 4);
    assert_true(gguf_get_array(g, "ts", GGUF_STRING, &a) && a.count == 2);
    assert_true(gguf_get_array(g, "ns", GGUF_I32, &a) && a.count == 3);
    assert_memory_equal(a.items, numbers, sizeof(numbers));
    assert_memory_equal(gguf_tensor_named(g, "q")->data, rows, sizeof(rows));
    assert_memory_equal(gguf_tensor_named(g, "v")->data, floats, sizeof(floats));
    assert_int_equal((uintptr_t)gguf_tensor_named(g, "v")->data % 32, 0);

    /* Pairs copied as they are give the same file. */
    struct stat st, again;
    assert_int_equal(stat(path, &st), 0);
    w = writer_begin();
    for (uint64_t i = 0; i < gguf_pair_count(g); i++) {
        const void *raw;
        size_t bytes;
        gguf_pair(g, i, &t, &raw, &bytes);
        gguf_write_pair(w, t, raw, bytes);
    }
    gguf_write_tensor(w, text_of("q"), WEIGHT_Q8_0, dims, 2, sizeof(rows));
    gguf_write_tensor(w, text_of("v"), WEIGHT_F32, one_dim, 1, sizeof(floats));
    gguf_write_data(w, rows, sizeof(rows));
    gguf_write_data(w, floats, sizeof(floats));
    assert_int_equal(gguf_write_finish(w, &why), 0);
    assert_int_equal(stat(path, &again), 0);
    assert_int_equal(st.st_size, again.st_size);
    gguf_close(g);
}

static void test_abandoned(void **state)
{
    (void)state;
    const int before = folder_entries();
    struct gguf_writer *w = writer_begin();
    gguf_write_u32(w, "u", 77);
    gguf_write_abandon(w);
    gguf_write_abandon(NULL);
    assert_int_equal(folder_entries(), before);

    const uint64_t dims[1] = { 1 };
    struct fail why;
    w = writer_begin();
    gguf_write_tensor(w, text_of("v"), WEIGHT_F32, dims, 1, 4);
    assert_int_equal(gguf_write_finish(w, &why), -1); /* its bytes are missing */
    assert_non_null(strstr(why.text, path));
    assert_int_equal(folder_entries(), before);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct { const char *path, *says; } cases[] = {
        { "/dev/null", "regular file" }, { "/", "regular file" },
        { "/no/such/m.gguf", "No such file" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gguf_writer *w = NULL;
        struct fail why;
        assert_int_equal(gguf_write_begin(cases[i].path, &w, &why), -1);
        assert_null(w);
        assert_non_null(strstr(why.text, cases[i].path));
        assert_non_null(strstr(why.text, cases[i].says));
    }
}

/* A disk that is full: here, a limit on the size of files. What was there before stays. */
static void test_full(void **state)
{
    (void)state;
    const int before = folder_entries();
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    small = old;
    small.rlim_cur = 100000;
    setrlimit(RLIMIT_FSIZE, &small);
    const uint64_t dims[1] = { 1 << 20 };
    char *zeros = calloc(4, 1 << 20);
    struct gguf_writer *w = writer_begin();
    struct fail why = { "" };
    gguf_write_tensor(w, text_of("v"), WEIGHT_F32, dims, 1, 4 << 20);
    for (int i = 0; i < 4; i++) gguf_write_data(w, zeros, 1 << 20);
    assert_int_equal(gguf_write_finish(w, &why), -1);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_non_null(strstr(why.text, "File too large"));
    assert_int_equal(folder_entries(), before);
    free(zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abandoned), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
