/* products.cl - matrix products: rows of weights times rows of activations, both as the engine has
 * them in memory (file/weight.h, math/acts.h).
 *
 * A work-item has one row of the weights and some tokens, and adds up each output by itself, block
 * after block: the sum and the roundings of matmul_portable.c, to the bit. So nothing here may be
 * contracted, reordered or approximated. matvec_… has one token (decode), matmul_… TOKENS of them
 * (prefill; the engine says how many when it has this built), for which a block of weights is read and unpacked once.
 *
 * Halves are only loaded, which needs no cl_khr_fp16. */
#pragma OPENCL FP_CONTRACT OFF

/* All kernels have the same arguments:
 *   w             weights, row_bytes each                 rows, cols of them
 *   acts          activations, acts_bytes a token; in them scales at d_at, sums at sum_at
 *   out           out[out_at + token · rows + row] */
#define ARGS                                                                                       \
    global const uchar *w, ulong row_bytes, uint rows, uint cols, global const uchar *acts,        \
        ulong acts_bytes, uint d_at, uint sum_at, uint count, global float *out, ulong out_at
#define PASS w, row_bytes, rows, cols, acts, acts_bytes, d_at, sum_at, count, out, out_at

/* A row and its tokens; those beyond count are the last one again, and not stored. */
struct item {
    global const uchar *w;
    global const uchar *x[TOKENS];
    uint row, token;
};

static struct item item_of(int tokens, ARGS)
{
    struct item it;
    it.row = (uint)get_global_id(0);
    it.token = (uint)get_global_id(1) * (uint)tokens;
    it.w = w + (ulong)min(it.row, rows - 1) * row_bytes;
    for (int t = 0; t < tokens; t++) {
        it.x[t] = acts + (ulong)min(it.token + (uint)t, count - 1) * acts_bytes;
    }
    return it;
}

static void item_store(const struct item *it, int tokens, const float *sum, ARGS)
{
    if (it->row >= rows) return;
    for (int t = 0; t < tokens && it->token + (uint)t < count; t++) {
        out[out_at + (ulong)(it->token + (uint)t) * rows + it->row] = sum[t];
    }
}

static float half_at(global const uchar *at) { return vload_half(0, (global const half *)at); }

static float scale_at(global const uchar *x, uint d_at, uint block)
{
    return ((global const float *)(x + d_at))[block];
}

static int sum_of(global const uchar *x, uint sum_at, uint block)
{
    return ((global const int *)(x + sum_at))[block];
}

static short16 chars_at(global const uchar *at)
{
    return convert_short16(vload16(0, (global const char *)at));
}

static int total(short16 v)
{
    const int8 a = convert_int8(v.lo) + convert_int8(v.hi);
    const int4 b = a.lo + a.hi;
    return b.x + b.y + b.z + b.w;
}

static float total8(float8 s)
{
    return ((s.s0 + s.s4) + (s.s2 + s.s6)) + ((s.s1 + s.s5) + (s.s3 + s.s7));
}

/* ---- F32, F16 -------------------------------------------------------------------------------- */

/* Numbers from column `at` on; 0 where there is none. */
static float8 weights_first(int f16, global const uchar *w, uint at, uint n)
{
    float v[8];
    for (uint i = 0; i < 8; i++) {
        v[i] = i >= n ? 0.0f : f16 ? vload_half(at + i, (global const half *)w)
                                   : ((global const float *)w)[at + i];
    }
    return vload8(0, v);
}

static float8 floats_first(global const uchar *x, uint at, uint n)
{
    float v[8];
    for (uint i = 0; i < 8; i++) v[i] = i < n ? ((global const float *)x)[at + i] : 0.0f;
    return vload8(0, v);
}

static void floats_run(int f16, int tokens, ARGS)
{
    const struct item it = item_of(tokens, PASS);
    float8 lanes[TOKENS];
    float sum[TOKENS];
    for (int t = 0; t < tokens; t++) lanes[t] = (float8)(0.0f);
    uint at = 0;
    for (; at + 8 <= cols; at += 8) {
        const float8 v = f16 ? vload_half8(0, (global const half *)it.w + at)
                             : vload8(0, (global const float *)it.w + at);
        for (int t = 0; t < tokens; t++) {
            lanes[t] = lanes[t] + v * vload8(0, (global const float *)it.x[t] + at);
        }
    }
    if (at < cols) {
        const float8 v = weights_first(f16, it.w, at, cols - at);
        for (int t = 0; t < tokens; t++) {
            lanes[t] = lanes[t] + v * floats_first(it.x[t], at, cols - at);
        }
    }
    for (int t = 0; t < tokens; t++) sum[t] = total8(lanes[t]);
    item_store(&it, tokens, sum, PASS);
}

/* ---- Q8_0, Q4_0 ------------------------------------------------------------------------------ */

/* Two products of bytes fit a short: 2 · 128 · 127 < 2^15. */
static void q8_0_run(int tokens, ARGS)
{
    const struct item it = item_of(tokens, PASS);
    float sum[TOKENS];
    for (int t = 0; t < tokens; t++) sum[t] = 0.0f;
    for (uint b = 0; b < cols / 32; b++) {
        global const uchar *block = it.w + b * 34;
        const short16 low = chars_at(block + 2), high = chars_at(block + 18);
        const float d = half_at(block);
        for (int t = 0; t < tokens; t++) {
            global const uchar *q = it.x[t] + b * 32;
            const int dot = total(low * chars_at(q) + high * chars_at(q + 16));
            sum[t] = sum[t] + d * scale_at(it.x[t], d_at, b) * (float)dot;
        }
    }
    item_store(&it, tokens, sum, PASS);
}

static void q4_0_run(int tokens, ARGS)
{
    const struct item it = item_of(tokens, PASS);
    float sum[TOKENS];
    for (int t = 0; t < tokens; t++) sum[t] = 0.0f;
    for (uint b = 0; b < cols / 32; b++) {
        global const uchar *block = it.w + b * 18;
        const uchar16 codes = vload16(0, block + 2);
        const short16 low = convert_short16(codes & (uchar16)(15));
        const short16 high = convert_short16(codes >> (uchar16)(4));
        const float d = half_at(block);
        for (int t = 0; t < tokens; t++) {
            global const uchar *q = it.x[t] + b * 32;
            const int dot = total(low * chars_at(q) + high * chars_at(q + 16));
            sum[t] = sum[t] + d * scale_at(it.x[t], d_at, b) *
                                  (float)(dot - 8 * sum_of(it.x[t], sum_at, b));
        }
    }
    item_store(&it, tokens, sum, PASS);
}

/* ---- TQ2_0, I2_S ----------------------------------------------------------------------------- */

/* Two bits of each of 32 bytes times 32 numbers: 2 · 3 · 127 at most in each part of the result. */
static short16 codes_times(global const uchar *codes, uint shift, global const uchar *q)
{
    const uchar16 low = vload16(0, codes) >> (uchar16)((uchar)shift) & (uchar16)(3);
    const uchar16 high = vload16(1, codes) >> (uchar16)((uchar)shift) & (uchar16)(3);
    return convert_short16(low) * chars_at(q) + convert_short16(high) * chars_at(q + 16);
}

static void tq2_0_run(int tokens, ARGS)
{
    const struct item it = item_of(tokens, PASS);
    float sum[TOKENS];
    for (int t = 0; t < tokens; t++) sum[t] = 0.0f;
    for (uint b = 0; b < cols / 256; b++) {
        global const uchar *block = it.w + b * 66;
        const float d = half_at(block + 64);
        for (int t = 0; t < tokens; t++) {
            global const uchar *q = it.x[t] + b * 256;
            short16 dots = (short16)(0);
            for (uint part = 0; part < 8; part++) {
                dots += codes_times(block + part / 4 * 32, 2 * (part % 4), q + 32 * part);
            }
            sum[t] = sum[t] + d * scale_at(it.x[t], d_at, b) *
                                  (float)(total(dots) - sum_of(it.x[t], sum_at, b));
        }
    }
    item_store(&it, tokens, sum, PASS);
}

/* Without the scales, which the host divides and multiplies by: a division need not be exact
 * here. */
static void i2_s_run(int tokens, ARGS)
{
    const struct item it = item_of(tokens, PASS);
    int dot[TOKENS];
    float sum[TOKENS];
    for (int t = 0; t < tokens; t++) dot[t] = 0;
    for (uint b = 0; b < cols / 128; b++) {
        for (int t = 0; t < tokens; t++) {
            global const uchar *q = it.x[t] + b * 128;
            short16 dots = (short16)(0);
            for (uint part = 0; part < 4; part++) {
                dots += codes_times(it.w + b * 32, 6 - 2 * part, q + 32 * part);
            }
            dot[t] += total(dots);
        }
    }
    for (int t = 0; t < tokens; t++) sum[t] = (float)(dot[t] - sum_of(it.x[t], sum_at, 0));
    item_store(&it, tokens, sum, PASS);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

kernel void matvec_f32(ARGS) { floats_run(0, 1, PASS); }
kernel void matmul_f32(ARGS) { floats_run(0, TOKENS, PASS); }
kernel void matvec_f16(ARGS) { floats_run(1, 1, PASS); }
kernel void matmul_f16(ARGS) { floats_run(1, TOKENS, PASS); }
kernel void matvec_q8_0(ARGS) { q8_0_run(1, PASS); }
kernel void matmul_q8_0(ARGS) { q8_0_run(TOKENS, PASS); }
kernel void matvec_q4_0(ARGS) { q4_0_run(1, PASS); }
kernel void matmul_q4_0(ARGS) { q4_0_run(TOKENS, PASS); }
kernel void matvec_tq2_0(ARGS) { tq2_0_run(1, PASS); }
kernel void matmul_tq2_0(ARGS) { tq2_0_run(TOKENS, PASS); }
kernel void matvec_i2_s(ARGS) { i2_s_run(1, PASS); }
kernel void matmul_i2_s(ARGS) { i2_s_run(TOKENS, PASS); }
