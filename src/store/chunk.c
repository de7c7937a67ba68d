/* chunk.c - see chunk.h for the layout. */
#include "base/varint.h"
#include "store/chunk.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum chunk_kind { INTEGERS, DECIMALS, XOR, KINDS };
enum transform { LEVEL, DELTA, DELTA2, CONSTANT };

enum {
    KIND_BITS = 3,
    GROUP = 32,       /* residuals that share a k */
    K_BITS = 6,
    K_ZERO = 63,      /* all of the group are 0 */
    K_MAX = 62,
    UNARY_MAX = 20,   /* a longer quotient: this many ones, then the residual as it is */
    DECIMALS_MAX = 12,
};

#define EXACT_MAX 9007199254740992.0 /* 2^53: up to here doubles are exact integers */

static const double power10[DECIMALS_MAX + 1] = { 1,   1e1, 1e2, 1e3,  1e4,  1e5, 1e6,
                                                  1e7, 1e8, 1e9, 1e10, 1e11, 1e12 };

/* ---- Bits out -------------------------------------------------------------------------------- */

struct bits_out {
    struct sonde_buf *out; /* NULL = only count */
    uint64_t word;         /* the last `used` bits are still to be written */
    unsigned used;
    uint64_t total;
};

static void put_bits(struct bits_out *b, uint64_t v, unsigned n)
{
    b->total += n;
    if (!b->out || !n) return;
    if (n > 32) { /* used < 8, so 32 always fit */
        const unsigned high = n - 32;
        b->total -= n;
        put_bits(b, v >> 32, high);
        put_bits(b, v & UINT32_MAX, 32);
        return;
    }
    b->word = b->word << n | (v & (UINT64_MAX >> (64 - n)));
    b->used += n;
    while (b->used >= 8) {
        b->used -= 8;
        sonde_buf_putc(b->out, (char)(b->word >> b->used));
    }
}

static void chunk_put_end(struct bits_out *b)
{
    if (b->used) put_bits(b, 0, 8 - b->used);
}

/* ---- Bits in --------------------------------------------------------------------------------- */

struct bits_in {
    struct sonde_chunk_in *in;
    uint64_t word;   /* its last `left` bits are still to be read */
    unsigned left;
};

static inline void chunk_refill(struct bits_in *b)
{
    while (b->left <= 56 && b->in->at < b->in->end) {
        b->word = b->word << 8 | *b->in->at++;
        b->left += 8;
    }
}

static inline uint64_t get_bits(struct bits_in *b, unsigned n)
{
    if (n > 32) {
        const uint64_t high = get_bits(b, n - 32);
        return high << 32 | get_bits(b, 32);
    }
    if (!n) return 0;
    if (b->left < n) {
        chunk_refill(b);
        if (b->left < n) {
            b->in->bad = 1;
            b->left = 0;
            return 0;
        }
    }
    b->left -= n;
    return b->word >> b->left & (UINT64_MAX >> (64 - n));
}

/* How many ones follow, up to max; the zero that ends fewer is taken too. */
static inline unsigned get_ones(struct bits_in *b, unsigned max)
{
    if (b->left <= max) chunk_refill(b);
    if (b->left <= max) { /* near the end: bit by bit */
        unsigned n = 0;
        while (n < max && get_bits(b, 1)) n++;
        return n;
    }
    const uint64_t top = ~(b->word << (64 - b->left));
    unsigned n = top ? (unsigned)__builtin_clzll(top) : 64;
    if (n > max) n = max;
    b->left -= n + (n < max);
    return n;
}

/* Whole bytes that were read ahead are given back. */
static void get_end(struct bits_in *b)
{
    b->in->at -= b->left / 8;
}

/* ---- Varints --------------------------------------------------------------------------------- */

void sonde_chunk_put_varint(struct sonde_buf *out, uint64_t v)
{
    unsigned char bytes[SONDE_VARINT_MAX];
    sonde_buf_add(out, bytes, (size_t)(sonde_varint_put(bytes, v) - bytes));
}

uint64_t sonde_chunk_get_varint(struct sonde_chunk_in *in)
{
    uint64_t v = 0;
    if (in->bad || sonde_varint_get(&in->at, in->end, &v)) in->bad = 1;
    return v;
}

/* ---- Rice ------------------------------------------------------------------------------------ */

static unsigned rice_cost(const uint64_t *r, uint32_t n, unsigned k)
{
    unsigned bits = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t q = r[i] >> k;
        bits += q < UNARY_MAX ? (unsigned)q + 1 + k : UNARY_MAX + 64;
    }
    return bits;
}

/* The best k is near the logarithm of the mean. */
static unsigned choose_k(const uint64_t *r, uint32_t n)
{
    double sum = 0;
    uint64_t any = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += (double)r[i];
        any |= r[i];
    }
    if (!any) return K_ZERO;
    const double mean = sum / n;
    const int guess = mean >= 1 ? ilogb(mean) : 0;
    unsigned best = 0, best_bits = UINT32_MAX;
    for (int k = guess > 1 ? guess - 2 : 0; k <= guess + 1 && k <= K_MAX; k++) {
        const unsigned bits = rice_cost(r, n, (unsigned)k);
        if (bits < best_bits) {
            best_bits = bits;
            best = (unsigned)k;
        }
    }
    return best;
}

static void put_rice(struct bits_out *b, const uint64_t *r, uint32_t n)
{
    unsigned before = K_ZERO;
    for (uint32_t at = 0; at < n; at += GROUP) {
        const uint32_t len = n - at < GROUP ? n - at : GROUP;
        const unsigned k = choose_k(r + at, len);
        if (k == before) {
            put_bits(b, 1, 1);
        } else {
            put_bits(b, 0, 1);
            put_bits(b, k, K_BITS);
        }
        before = k;
        if (k == K_ZERO) continue;
        if (!b->out) {
            b->total += rice_cost(r + at, len, k);
            continue;
        }
        for (uint32_t i = at; i < at + len; i++) {
            const uint64_t q = r[i] >> k;
            if (q < UNARY_MAX) {
                put_bits(b, (UINT64_MAX >> (63 - (unsigned)q)) - 1, (unsigned)q + 1);
                put_bits(b, r[i], k);
            } else {
                put_bits(b, (1u << UNARY_MAX) - 1, UNARY_MAX);
                put_bits(b, r[i], 64);
            }
        }
    }
}

static void get_rice(struct bits_in *b, uint64_t *r, uint32_t n)
{
    unsigned k = K_ZERO;
    for (uint32_t at = 0; at < n && !b->in->bad; at += GROUP) {
        const uint32_t len = n - at < GROUP ? n - at : GROUP;
        if (!get_bits(b, 1)) k = (unsigned)get_bits(b, K_BITS);
        if (k == K_ZERO) {
            memset(r + at, 0, len * sizeof(*r));
            continue;
        }
        for (uint32_t i = at; i < at + len; i++) {
            const uint64_t q = get_ones(b, UNARY_MAX);
            if (q == UNARY_MAX) r[i] = get_bits(b, 64);
            else r[i] = q << k | get_bits(b, k);
        }
    }
}

/* ---- Integers -------------------------------------------------------------------------------- */

static uint64_t chunk_divisor(const uint64_t *r, uint32_t n)
{
    uint64_t d = 0;
    for (uint32_t i = 0; i < n && d != 1; i++) {
        for (uint64_t a = r[i]; a;) {
            const uint64_t rest = d % a;
            d = a;
            a = rest;
        }
    }
    return d ? d : 1;
}

static uint64_t chunk_magnitude(uint64_t v) { return v >> 63 ? 0 - v : v; }

/* The number that would be at v[k] if v were in order: quickselect, since sorting it all took half
 * of the time of packing. Leaves v in another order. */
static int64_t select_kth(int64_t *v, uint32_t n, uint32_t k)
{
    assert(n && k < n);
    uint32_t low = 0, high = n - 1;
    while (low < high) {
        /* The middle of three, so that what is in order already is not the worst case. */
        const int64_t a = v[low], b = v[low + (high - low) / 2], c = v[high];
        const int64_t pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        uint32_t i = low, j = high;
        while (i <= j) {
            while (v[i] < pivot) i++;
            while (v[j] > pivot) j--;
            if (i > j) break;
            const int64_t swap = v[i];
            v[i++] = v[j];
            v[j] = swap;
            if (!j--) break; /* i is 1 then */
        }
        if (k < i && (j == UINT32_MAX || k > j)) return v[k]; /* between both halves: the pivot */
        if (k >= i) low = i;
        else high = j;
    }
    return v[k];
}

/* The one in the middle: half of the differences to it are of either sign, and one that is far off
 * does not move it. It is one of them, so what divides all differences divides those to it. */
static uint64_t chunk_median(const uint64_t *v, uint32_t n, uint64_t *scratch)
{
    if (!n) return 0;
    memcpy(scratch, v, n * sizeof(*v));
    return (uint64_t)select_kth((int64_t *)scratch, n, n / 2);
}

/* What a column of integers is apart from its residuals. */
struct chunk_frame {
    uint64_t base;   /* the first number; LEVEL: none */
    uint64_t centre; /* of levels or differences; DELTA2: none */
    uint64_t div;
};

/* The residuals of v to r; returns how many there are. */
static uint32_t chunk_residuals(const uint64_t *v, uint32_t n, enum transform t, uint64_t *r,
                                struct chunk_frame *f)
{
    uint64_t sizes[SONDE_CHUNK_MAX], before = 0;
    uint32_t count = n;
    *f = (struct chunk_frame){ .div = 1 };
    if (t == LEVEL) {
        memcpy(r, v, n * sizeof(*v));
    } else {
        f->base = v[0];
        count = n - 1;
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t d = v[i + 1] - v[i];
            r[i] = d - before;
            if (t == DELTA2) before = d;
        }
    }
    if (t != DELTA2) f->centre = chunk_median(r, count, sizes);
    for (uint32_t i = 0; i < count; i++) {
        r[i] -= f->centre;
        sizes[i] = chunk_magnitude(r[i]);
    }
    f->div = chunk_divisor(sizes, count);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t size = f->div > 1 ? sizes[i] / f->div : sizes[i];
        r[i] = sonde_zigzag(r[i] >> 63 ? 0 - size : size);
    }
    return count;
}

static void put_integers(struct sonde_buf *out, enum chunk_kind kind, unsigned exponent,
                         const uint64_t *v, uint32_t n)
{
    uint64_t r[SONDE_CHUNK_MAX];
    struct chunk_frame f;
    enum transform best = CONSTANT;
    int same = 1;
    for (uint32_t i = 1; same && i < n; i++) same = v[i] == v[0];
    if (!same) {
        uint64_t least = UINT64_MAX;
        for (int t = LEVEL; t <= DELTA2; t++) {
            struct bits_out count = { .out = NULL };
            const uint32_t len = chunk_residuals(v, n, (enum transform)t, r, &f);
            put_rice(&count, r, len);
            if (count.total >= least) continue;
            least = count.total;
            best = (enum transform)t;
        }
    }
    sonde_buf_putc(out, (char)((unsigned)kind | (unsigned)best << KIND_BITS));
    if (kind == DECIMALS) sonde_buf_putc(out, (char)exponent);
    if (best == CONSTANT) {
        sonde_chunk_put_varint(out, sonde_zigzag(v[0]));
        return;
    }
    const uint32_t len = chunk_residuals(v, n, best, r, &f);
    if (best != LEVEL) sonde_chunk_put_varint(out, sonde_zigzag(f.base));
    if (best != DELTA2) sonde_chunk_put_varint(out, sonde_zigzag(f.centre));
    sonde_chunk_put_varint(out, f.div);
    struct bits_out b = { .out = out };
    put_rice(&b, r, len);
    chunk_put_end(&b);
}

static void get_integers(struct sonde_chunk_in *in, enum transform t, uint64_t *v, uint32_t n)
{
    const uint64_t first = t == LEVEL ? 0 : sonde_unzigzag(sonde_chunk_get_varint(in));
    if (t == CONSTANT) {
        for (uint32_t i = 0; i < n; i++) v[i] = first;
        return;
    }
    const uint64_t centre = t == DELTA2 ? 0 : sonde_unzigzag(sonde_chunk_get_varint(in));
    const uint64_t div = sonde_chunk_get_varint(in);
    struct bits_in b = { .in = in };
    if (t == LEVEL) {
        get_rice(&b, v, n);
        for (uint32_t i = 0; i < n; i++) v[i] = centre + sonde_unzigzag(v[i]) * div;
    } else {
        uint64_t step = 0;
        v[0] = first;
        get_rice(&b, v + 1, n - 1);
        for (uint32_t i = 1; i < n; i++) {
            const uint64_t d = centre + sonde_unzigzag(v[i]) * div;
            step = t == DELTA ? d : step + d;
            v[i] = v[i - 1] + step;
        }
    }
    get_end(&b);
}

/* ---- Doubles --------------------------------------------------------------------------------- */

static uint64_t chunk_bits_of(double d)
{
    uint64_t v;
    memcpy(&v, &d, sizeof(v));
    return v;
}

static double chunk_double_of(uint64_t v)
{
    double d;
    memcpy(&d, &v, sizeof(d));
    return d;
}

/* The integer that is exactly v after dividing by 10^e. */
static int chunk_scaled(uint64_t v, unsigned e, uint64_t *out)
{
    const double whole = nearbyint(chunk_double_of(v) * power10[e]);
    if (!(fabs(whole) <= EXACT_MAX)) return 0; /* NaN too */
    *out = (uint64_t)(int64_t)whole;
    if (chunk_bits_of((double)(int64_t)*out / power10[e]) != v) return 0; /* -0 too */
    return 1;
}

/* All of v as decimals of as few digits as possible: the exponent, or -1. */
static int to_decimals(const uint64_t *v, uint32_t n, uint64_t *out)
{
    unsigned e = 0;
    for (uint32_t i = 0; i < n; i++) {
        while (!chunk_scaled(v[i], e, &out[i])) {
            if (++e > DECIMALS_MAX) return -1;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!chunk_scaled(v[i], e, &out[i])) return -1;
    }
    return (int)e;
}

static void put_xor(struct sonde_buf *out, const uint64_t *v, uint32_t n)
{
    int same = 1;
    for (uint32_t i = 1; same && i < n; i++) same = v[i] == v[0];
    sonde_buf_putc(out, (char)(XOR | (same ? CONSTANT << KIND_BITS : 0)));
    struct bits_out b = { .out = out };
    put_bits(&b, v[0], 64);
    if (same) return;
    unsigned lead = 64, len = 0; /* of the window; none yet */
    for (uint32_t i = 1; i < n; i++) {
        const uint64_t x = v[i] ^ v[i - 1];
        if (!x) {
            put_bits(&b, 0, 1);
            continue;
        }
        const unsigned zeros = (unsigned)__builtin_clzll(x), tail = (unsigned)__builtin_ctzll(x);
        if (zeros >= lead && tail >= 64 - lead - len && len <= 64 - zeros - tail + 8) {
            put_bits(&b, 2, 2);
        } else {
            lead = zeros;
            len = 64 - zeros - tail;
            put_bits(&b, 3, 2);
            put_bits(&b, lead, 6);
            put_bits(&b, len - 1, 6);
        }
        put_bits(&b, x >> (64 - lead - len), len);
    }
    chunk_put_end(&b);
}

static void get_xor(struct sonde_chunk_in *in, enum transform t, uint64_t *v, uint32_t n)
{
    struct bits_in b = { .in = in };
    unsigned lead = 0, len = 0;
    v[0] = get_bits(&b, 64);
    for (uint32_t i = 1; i < n; i++) {
        uint64_t x = 0;
        if (t != CONSTANT && get_bits(&b, 1)) {
            if (get_bits(&b, 1)) {
                lead = (unsigned)get_bits(&b, 6);
                len = (unsigned)get_bits(&b, 6) + 1;
                if (lead + len > 64) in->bad = 1;
            }
            if (!len || in->bad) {
                in->bad = 1;
                break;
            }
            x = get_bits(&b, len) << (64 - lead - len);
        }
        v[i] = v[i - 1] ^ x;
    }
    get_end(&b);
}

static void put_doubles(struct sonde_buf *out, const uint64_t *v, uint32_t n)
{
    uint64_t whole[SONDE_CHUNK_MAX];
    const size_t from = out->len;
    const int e = to_decimals(v, n, whole);
    if (e < 0) {
        put_xor(out, v, n);
        return;
    }
    put_integers(out, e ? DECIMALS : INTEGERS, (unsigned)e, whole, n);
    if (out->error || out->len - from <= (size_t)n * 2 + 16) return;
    /* Many digits: they may have more in common as bits. */
    struct sonde_buf other;
    sonde_buf_init(&other, out->max);
    put_xor(&other, v, n);
    if (!other.error && other.len < out->len - from) {
        out->len = from;
        sonde_buf_add(out, other.data, other.len);
    }
    sonde_buf_release(&other);
}

/* ---- Columns --------------------------------------------------------------------------------- */

void sonde_chunk_put(struct sonde_buf *out, enum sonde_chunk_type type, const uint64_t *v,
                     uint32_t n)
{
    assert(n <= SONDE_CHUNK_MAX);
    if (!n) return;
    if (type == SONDE_CHUNK_INTEGERS) put_integers(out, INTEGERS, 0, v, n);
    else put_doubles(out, v, n);
}

void sonde_chunk_get(struct sonde_chunk_in *in, enum sonde_chunk_type type, uint64_t *out,
                     uint32_t n)
{
    assert(n <= SONDE_CHUNK_MAX);
    if (!n) return;
    const unsigned how = in->at < in->end ? *in->at++ : 0xff;
    const unsigned kind = how & ((1u << KIND_BITS) - 1), transform = how >> KIND_BITS;
    unsigned exponent = 0;
    if (kind >= KINDS || transform > CONSTANT ||
        (kind == XOR && transform && transform != CONSTANT)) {
        in->bad = 1;
    }
    if (kind != INTEGERS && type == SONDE_CHUNK_INTEGERS) in->bad = 1;
    if (!in->bad && kind == DECIMALS) {
        exponent = in->at < in->end ? *in->at++ : 0xff;
        if (exponent > DECIMALS_MAX) in->bad = 1;
    }
    if (!in->bad) {
        if (kind == XOR) get_xor(in, (enum transform)transform, out, n);
        else get_integers(in, (enum transform)transform, out, n);
    }
    if (in->bad) {
        memset(out, 0, n * sizeof(*out));
    } else if (type == SONDE_CHUNK_DOUBLES && kind != XOR) {
        for (uint32_t i = 0; i < n; i++) {
            out[i] = chunk_bits_of((double)(int64_t)out[i] / power10[exponent]);
        }
    }
}
