/* Products on an OpenCL device (PoCL, where there is no other): the bits of the portable kernels for
 * every type and shape, within its memory, and what becomes of them when any call fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "math/acts.h"
#include "math/kernel_variants.h"
#include "math/matmul.h"
#include "math/offload.h"
#include "unit/engine/math/variants.h"
#include "unit/engine/opencl/faults.h"

static const enum weight_type types[] = { WEIGHT_F32,  WEIGHT_F16,   WEIGHT_Q8_0,
                                          WEIGHT_Q4_0, WEIGHT_TQ2_0, WEIGHT_I2_S };
enum { TYPES = 6, TOKENS = 13, ROOM = 4 << 20 };

/* What drivers and their compilers keep for good is not a leak of the engine's. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpocl\nleak:libLLVM\nleak:libclang\nleak:libOpenCL\n";
}

/* ---- Loading, naming ------------------------------------------------------------------------ */

static void test_library_missing(void **state)
{
    (void)state;
    struct fail why;
    struct device *d = (struct device *)1;
    const struct opencl_wish any = { OPENCL_WISH_ANY, 0 };
    setenv("SONDE_ENGINE_OPENCL", "libNoOpenCL.so.1", 1);
    assert_int_equal(opencl_open(&any, 0, &d, &why), -1);
    assert_null(d);
    assert_non_null(strstr(why.text, "libNoOpenCL.so.1"));
    assert_non_null(strstr(why.text, "ocl-icd-libopencl1"));
    setenv("SONDE_ENGINE_OPENCL", "libm.so.6", 1); /* there, and something else */
    assert_int_equal(opencl_open(&any, 0, &d, &why), -1);
    assert_non_null(strstr(why.text, "has no function clGetPlatformIDs"));
    unsetenv("SONDE_ENGINE_OPENCL");
}

static void test_wishes(void **state)
{
    (void)state;
    static const struct { const char *text; int rc; enum opencl_wish_kind kind; uint32_t n; } rows[] = {
        { NULL, 0, OPENCL_WISH_CPU, 0 },          { "cpu", 0, OPENCL_WISH_CPU, 0 },
        { "opencl", 0, OPENCL_WISH_ANY, 0 },      { "list", 0, OPENCL_WISH_LIST, 0 },
        { "opencl:0", 0, OPENCL_WISH_NUMBER, 0 }, { "opencl:31", 0, OPENCL_WISH_NUMBER, 31 },
        { "opencl:32", -1, 0, 0 },                { "opencl:", -1, 0, 0 },
        { "opencl:-1", -1, 0, 0 },                { "opencl:1x", -1, 0, 0 },
        { "opencl: 1", -1, 0, 0 },                { "", -1, 0, 0 },
        { "OPENCL", -1, 0, 0 },                   { "opencl:99999999999999999999", -1, 0, 0 },
        { "cuda", -1, 0, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct opencl_wish wish = { 0 };
        struct fail why = { "" };
        assert_int_equal(opencl_wish_parse(rows[i].text, &wish, &why), rows[i].rc);
        if (rows[i].rc) {
            assert_non_null(strstr(why.text, "--device is '"));
        } else {
            assert_int_equal(wish.kind, rows[i].kind);
            assert_int_equal(wish.number, rows[i].n);
        }
    }
}

static struct opencl_device *device_create(uint64_t memory_limit)
{
    struct fail why;
    struct device *d;
    const struct opencl_wish any = { OPENCL_WISH_ANY, 0 };
    if (opencl_open(&any, memory_limit, &d, &why)) {
        fail_msg("%s (tools/deps test installs what is needed)", why.text);
    }
    return (struct opencl_device *)d;
}

static void test_numbers(void **state)
{
    (void)state;
    struct fail why;
    struct device *d;
    struct opencl_found found[OPENCL_DEVICES_MAX];
    const int count = opencl_find(opencl_library(&why), found, &why);
    assert_true(count > 0);
    const struct opencl_wish none = { OPENCL_WISH_NUMBER, (uint32_t)count };
    assert_int_equal(opencl_open(&none, 0, &d, &why), -1);
    assert_non_null(strstr(why.text, "--device list"));
    const struct opencl_wish cpu = { OPENCL_WISH_CPU, 0 };
    assert_int_equal(opencl_open(&cpu, 0, &d, &why), 0);
    assert_null(d);
    const struct opencl_wish first = { OPENCL_WISH_NUMBER, 0 };
    assert_int_equal(opencl_open(&first, 0, &d, &why), 0);
    assert_string_equal(d->name, "opencl0");
    device_destroy(d);
    device_destroy(NULL);
}

/* ---- Bits ------------------------------------------------------------------------------------ */

struct matrix {
    struct weight w;
    unsigned char *data;
    char *acts;                  /* TOKENS rows */
};

static void matrix_fill(struct matrix *m, enum weight_type type, uint32_t rows, uint32_t cols)
{
    const size_t row_bytes = weight_row_bytes(type, cols), bytes = acts_row_bytes(type, cols);
    const int odd = type > WEIGHT_F16; /* at an odd address */
    m->w = (struct weight){ .type = type, .cols = cols, .rows = rows, .row_bytes = row_bytes,
                            .scale = type == WEIGHT_I2_S ? 0.37f : 1 };
    m->data = malloc(rows * row_bytes + 1);
    float *row = numbers_room(cols * sizeof(float));
    for (uint32_t r = 0; r < rows; r++) {
        numbers_fill(row, cols);
        weight_row_from_floats(type, row, cols, m->w.scale, m->data + odd + r * row_bytes);
    }
    m->w.data = m->data + odd;
    m->acts = numbers_room(TOKENS * bytes);
    for (uint32_t t = 0; t < TOKENS; t++) {
        numbers_fill(row, cols);
        if (t == 1) memset(row, 0, cols * sizeof(*row));
        acts_from_floats_portable(type, row, cols, m->acts + t * bytes);
    }
    free(row);
}

static void matrix_free(struct matrix *m)
{
    free(m->data);
    free(m->acts);
}

static void check_bits(const struct weight *w, const char *acts, uint32_t count, size_t stride,
                       const float *out)
{
    float *wanted = malloc(count * stride * sizeof(*wanted));
    for (size_t i = 0; i < count * stride; i++) wanted[i] = -77;
    matmul_portable(w, 0, w->rows, acts, count, wanted, stride);
    for (size_t i = 0; i < count * stride; i++) {
        if (!memcmp(&wanted[i], &out[i], sizeof(*out))) continue;
        fail_msg("%s %u × %u, %u tokens, stride %zu: output %zu is %a, not %a",
                 weight_kind(w->type)->name, w->rows, w->cols, count, stride, i, (double)out[i],
                 (double)wanted[i]);
    }
    free(wanted);
}

static void check_product(struct opencl_device *d, const struct matrix *m, uint32_t count,
                          size_t stride)
{
    struct device_account account = { 0 };
    float *out = malloc(count * stride * sizeof(*out));
    for (size_t i = 0; i < count * stride; i++) out[i] = -77;
    const struct matmul_product product = { &m->w, out, stride };
    assert_int_equal(opencl_multiply(&d->base, m->acts, count, &product, 1, &account),
                     DEVICE_DOES);
    check_bits(&m->w, m->acts, count, stride, out);
    assert_int_equal(account.copies, 2);
    assert_int_equal(account.to_bytes, count * acts_row_bytes(m->w.type, m->w.cols));
    assert_int_equal(account.from_bytes, count * m->w.rows * sizeof(float));
    free(out);
}

/* Matrices that are freed: their addresses may come again. */
static void matrices_forget(struct opencl_device *d)
{
    for (size_t i = 0; i < d->matrices_count; i++) {
        opencl_buffer_release(d, &d->weights, d->matrices[i].bytes, &d->matrices[i].buffer);
    }
    d->matrices_count = 0;
    assert_int_equal(d->weights.bytes, 0);
}

/* Columns of floats are any number, those of blocks as many as blocks have. */
static void test_bits(void **state)
{
    (void)state;
    static const struct { uint32_t rows, blocks, floats; } shapes[] = {
        { 1, 1, 1 }, { 3, 2, 7 }, { 15, 3, 8 }, { 16, 1, 9 }, { 17, 5, 23 }, { 64, 8, 64 },
        { 65, 9, 391 }, { 131, 17, 100 }, { 700, 4, 1027 } };
    static const uint32_t counts[] = { 1, 2, 3, 4, 5, 8, TOKENS };
    struct opencl_device *d = device_create(0);
    void *staging;
    assert_int_equal(opencl_reserve(&d->base, ROOM, ROOM, &staging), DEVICE_DOES);
    for (int type = 0; type < TYPES; type++) {
        for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
            struct matrix m;
            const uint32_t block = weight_kind(types[type])->block;
            matrix_fill(&m, types[type], shapes[s].rows,
                        block == 1 ? shapes[s].floats : block * shapes[s].blocks);
            assert_int_equal(opencl_keep(&d->base, &m.w), DEVICE_DOES);
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                check_product(d, &m, counts[c], m.w.rows);
                check_product(d, &m, counts[c], m.w.rows + 3);
            }
            matrix_free(&m);
            matrices_forget(d);
        }
    }
    device_destroy(&d->base);
}

/* Every half there is but those that are not numbers, and blocks of the largest bytes. */
static void test_extremes(void **state)
{
    (void)state;
    struct matrix m = { 0 };
    struct opencl_device *d = device_create(0);
    void *staging;
    assert_int_equal(opencl_reserve(&d->base, ROOM, ROOM, &staging), DEVICE_DOES);

    matrix_fill(&m, WEIGHT_F16, 65536, 1);
    for (uint32_t i = 0; i < 65536; i++) {
        const int finite = (i >> 10 & 31) != 31;
        ((uint16_t *)(void *)m.data)[i] = finite ? (uint16_t)i : 0;
    }
    *(float *)(void *)m.acts = 1;
    assert_int_equal(opencl_keep(&d->base, &m.w), DEVICE_DOES);
    check_product(d, &m, 1, m.w.rows);
    matrix_free(&m);
    matrices_forget(d);

    for (int type = 2; type < TYPES; type++) {
        struct matrix n;
        matrix_fill(&n, types[type], 40, 1024);
        const size_t bytes = acts_row_bytes(n.w.type, n.w.cols);
        for (size_t i = 0; i < n.w.rows * n.w.row_bytes; i++) {
            /* Scales are where they are in the first block of each kind: keep them finite. */
            const struct weight_kind *kind = weight_kind(n.w.type);
            const size_t in = i % kind->block_bytes;
            const int scale = n.w.type == WEIGHT_TQ2_0 ? in >= 64 : n.w.type != WEIGHT_I2_S && in < 2;
            unsigned char *at = (unsigned char *)(uintptr_t)n.w.data + i;
            if (!scale) *at = i % 3 ? 0x80 : 0xff;
        }
        for (uint32_t t = 0; t < TOKENS; t++) {
            const struct acts a = acts_of(n.w.type, n.w.cols, n.acts + t * bytes);
            for (uint32_t b = 0; b < a.blocks; b++) {
                a.sum[b] = 0;
                for (uint32_t i = 0; i < a.block; i++) {
                    a.q[b * a.block + i] = (t + i) % 5 ? 127 : -127;
                    a.sum[b] += a.q[b * a.block + i];
                }
            }
        }
        assert_int_equal(opencl_keep(&d->base, &n.w), DEVICE_DOES);
        check_product(d, &n, TOKENS, n.w.rows);
        matrix_free(&n);
        matrices_forget(d);
    }
    device_destroy(&d->base);
}

/* ---- Within its memory, among others' --------------------------------------------------------- */

/* Three products of one input, of which the device has room for two: all have the right bits, and
 * what is counted is what was done. */
static void test_offload(void **state)
{
    (void)state;
    struct matrix m[3];
    for (int i = 0; i < 3; i++) matrix_fill(&m[i], WEIGHT_Q8_0, 100 + (uint32_t)i, 256);
    const size_t acts = TOKENS * acts_row_bytes(WEIGHT_Q8_0, 256);
    const size_t out = TOKENS * 400 * sizeof(float);
    const size_t kept = (m[0].w.rows + m[2].w.rows) * m[0].w.row_bytes;
    struct opencl_device *d = device_create(acts + out + kept);
    struct offload o;
    struct matmul_product products[3];
    void *staging;
    uint64_t used, limit;
    assert_int_equal(opencl_reserve(&d->base, acts, out, &staging), DEVICE_DOES);
    assert_int_equal(opencl_keep(&d->base, &m[0].w), DEVICE_DOES);
    assert_int_equal(opencl_keep(&d->base, &m[2].w), DEVICE_DOES);
    assert_int_equal(opencl_keep(&d->base, &m[1].w), DEVICE_OUT_OF_MEMORY);
    assert_int_equal(opencl_keep(&d->base, &m[1].w), DEVICE_OUT_OF_MEMORY); /* asked once */
    assert_int_equal(d->weights.bytes, kept);
    assert_int_equal(d->activations.bytes, acts + out);
    opencl_memory(&d->base, &used, &limit);
    assert_int_equal(used, acts + out + kept);
    assert_int_equal(limit, used);

    for (int i = 0; i < 3; i++) {
        products[i] = (struct matmul_product){ &m[i].w, malloc(TOKENS * 102 * sizeof(float)), 102 };
        for (int k = 0; k < TOKENS * 102; k++) products[i].out[k] = -77;
    }
    offload_open(&o, &d->base);
    offload_pass_begin(&o);
    assert_int_equal(offload_run(&o, m[0].acts, TOKENS, products, 3, 1), 1 | 4);
    check_bits(&m[0].w, m[0].acts, TOKENS, 102, products[0].out);
    check_bits(&m[2].w, m[0].acts, TOKENS, 102, products[2].out);
    assert_true(products[1].out[0] == -77);
    assert_int_equal(o.products, 2);
    assert_int_equal(o.refused[DEVICE_OUT_OF_MEMORY], 1);
    assert_int_equal(o.account.copies, 3);
    assert_int_equal(o.account.to_bytes, acts);
    assert_int_equal(o.account.from_bytes, TOKENS * (100 + 102) * sizeof(float));
    assert_true(o.account.matmul_ns > 0);

    opencl_lose(d, "a test", CL_OUT_OF_RESOURCES);
    offload_pass_begin(&o);
    assert_int_equal(offload_run(&o, m[0].acts, TOKENS, products, 3, 0), 0);
    assert_int_equal(o.refused[DEVICE_LOST], 3);
    assert_int_equal(o.products, 0);
    for (int i = 0; i < 3; i++) {
        free(products[i].out);
        matrix_free(&m[i]);
    }
    device_destroy(&d->base);

    /* No room for what a pass needs: refused as a whole. */
    d = device_create(1000);
    assert_int_equal(opencl_reserve(&d->base, 600, 600, &staging), DEVICE_OUT_OF_MEMORY);
    assert_int_equal(d->memory_used, 0);
    device_destroy(&d->base);
}

/* As a forward pass has it: activations are converted to the device's memory, products are its own
 * until it fails, and the CPU's from then on. */
static void test_lost(void **state)
{
    (void)state;
    enum { COLS = 512, SHORT = 3 };
    struct matrix m;
    struct matmul *matmul = NULL;
    struct team *team = NULL;
    struct fail why;
    matrix_fill(&m, WEIGHT_TQ2_0, 70, COLS);
    const size_t room = SHORT * acts_row_bytes(WEIGHT_TQ2_0, COLS); /* a run is in parts */
    void *acts = numbers_room(room);
    float *x = malloc(TOKENS * COLS * sizeof(*x)), *out = malloc(TOKENS * 70 * sizeof(*out));
    numbers_fill(x, TOKENS * COLS);
    for (uint32_t t = 0; t < TOKENS; t++) {
        acts_from_floats_portable(WEIGHT_TQ2_0, x + t * COLS, COLS,
                                  m.acts + t * acts_row_bytes(WEIGHT_TQ2_0, COLS));
    }
    struct opencl_device *d = device_create(0);
    assert_int_equal(team_create(2, &team, &why), 0);
    assert_int_equal(matmul_create(team, kernel_named("portable"), acts, room, &matmul, &why), 0);
    assert_true(matmul_use_device(matmul, &d->base, TOKENS * 70 * sizeof(float), &why) >= 0);
    assert_int_equal(opencl_keep(&d->base, &m.w), DEVICE_DOES);
    const struct matmul_product product = { &m.w, out, 70 };
    for (int lost = 0; lost < 2; lost++) {
        memset(out, 0x7f, TOKENS * 70 * sizeof(*out));
        if (lost) opencl_lose(d, "a test", CL_OUT_OF_RESOURCES);
        matmul_pass_begin(matmul, 1);
        matmul_run(matmul, x, COLS, TOKENS, &product, 1);
        assert_true(matmul_pass_end(matmul) > 0);
        check_bits(&m.w, m.acts, TOKENS, 70, out);
    }
    matmul_destroy(matmul);
    team_destroy(team);
    /* Too little for a pass: refused, and said. */
    struct opencl_device *small = device_create(1000);
    assert_int_equal(matmul_create(NULL, kernel_named("portable"), acts, room, &matmul, &why), 0);
    assert_int_equal(matmul_use_device(matmul, &small->base, 70, &why), -1);
    assert_non_null(strstr(why.text, "has no room"));
    matmul_destroy(matmul);
    device_destroy(&small->base);
    device_destroy(&d->base);
    matrix_free(&m);
    free(acts);
    free(x);
    free(out);
}

/* ---- Every call fails -------------------------------------------------------------------------- */

/* All of a device's life; whether the products were computed there. */
static int life(const struct matrix *m, float *out)
{
    const struct opencl_wish any = { OPENCL_WISH_ANY, 0 };
    const struct matmul_product products[] = { { &m[0].w, out, m[0].w.rows },
                                               { &m[1].w, out + 5 * m[0].w.rows,
                                                 m[1].w.rows + 2 } };
    struct device_account account = { 0 };
    struct fail why = { "" };
    struct device *d;
    void *staging = NULL;
    enum device_refusal refusal;
    if (opencl_open(&any, 0, &d, &why)) {
        assert_true(why.text[0] != 0);
        assert_null(d);
        return 0;
    }
    const struct opencl_device *o = (const struct opencl_device *)d;
    refusal = d->ops->reserve(d, 1 << 16, 1 << 16, &staging);
    for (int i = 0; i < 2 && !refusal; i++) {
        refusal = d->ops->keep(d, &m[i].w);
        assert_int_equal(refusal, d->ops->refusal(d, &m[i].w));
    }
    if (!refusal) refusal = d->ops->multiply(d, m->acts, 5, products, 2, &account);
    if (faults.failed && !strcmp(faults.failed, "EnqueueReadBufferRect")) assert_true(refusal != 0);
    assert_true(!refusal || (faults.failed && refusal < DEVICE_REFUSALS));
    /* Of memory it recovers: that is the next one's concern. */
    if (o->lost) assert_int_equal(d->ops->multiply(d, m->acts, 5, products, 2, &account), DEVICE_LOST);
    device_destroy(d);
    return !refusal;
}

static void test_faults(void **state)
{
    (void)state;
    static const cl_int errors[] = { CL_OUT_OF_RESOURCES, CL_MEM_OBJECT_ALLOCATION_FAILURE };
    struct matrix m[2];
    float out[5 * 80];
    matrix_fill(&m[0], WEIGHT_Q4_0, 33, 64);
    matrix_fill(&m[1], WEIGHT_Q4_0, 17, 64);
    faults_install();
    for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
        int done = 0;
        for (uint64_t n = 1; n < 10000; n++) {
            memset(&faults, 0, sizeof(faults));
            faults.fail_at = n;
            faults.error = errors[e];
            done = life(m, out);
            if (done) check_bits(&m[0].w, m[0].acts, 5, m[0].w.rows, out);
            if (faults.live) fail_msg("call %d, cl%s: %d objects are left", (int)n, faults.failed,
                                      (int)faults.live);
            if (!faults.failed) break;
        }
        assert_true(done);
        assert_null(faults.failed);
    }
    matrix_free(&m[0]);
    matrix_free(&m[1]);
}

static CL_API_ENTRY cl_program CL_API_CALL broken_program(cl_context c, cl_uint n, const char **s,
                                                          const size_t *l, cl_int *error)
{
    const char *broken = "kernel void matvec_f32(global float *x) { x[0] = nothing; }";
    (void)n;
    (void)s;
    return faults_real.CreateProgramWithSource(c, 1, &broken, l, error);
}

/* Kernels that a driver does not compile: its words, and nothing is left. */
static void test_build_error(void **state)
{
    (void)state;
    struct opencl_library *cl = (struct opencl_library *)(uintptr_t)opencl_library(NULL);
    const struct opencl_wish any = { OPENCL_WISH_ANY, 0 };
    struct fail why = { "" };
    struct device *d;
    memset(&faults, 0, sizeof(faults));
    cl->CreateProgramWithSource = broken_program;
    assert_int_equal(opencl_open(&any, 0, &d, &why), -1);
    assert_null(d);
    print_message("%s\n", why.text);
    assert_non_null(strstr(why.text, "cannot build the kernels: CL_BUILD_PROGRAM_FAILURE"));
    assert_non_null(strstr(why.text, "nothing")); /* of the driver's log */
    cl->CreateProgramWithSource = fault_CreateProgramWithSource;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_library_missing), cmocka_unit_test(test_wishes),
        cmocka_unit_test(test_numbers),         cmocka_unit_test(test_bits),
        cmocka_unit_test(test_extremes),        cmocka_unit_test(test_offload),
        cmocka_unit_test(test_lost),            cmocka_unit_test(test_faults),
        cmocka_unit_test(test_build_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
