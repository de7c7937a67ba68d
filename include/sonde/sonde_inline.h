/* sonde_inline.h - the fast paths, included by sonde.h. Everything named sonde__ is private:
 * it may change in any release that changes SONDE__ABI.
 *
 * One gate decides for all: its page is wiped by the kernel in a forked child
 * (MADV_WIPEONFORK), so "not opened", "forked" and "switched off" are all found by the one
 * compare that recording needs anyway, even after a raw clone that runs no atfork handler.
 *
 * A thread that has no lane of its own (too many threads, or a signal handler in the middle of
 * claiming one) has tls.lane == NULL and takes the slow path, which uses a shared lane and
 * locked adds. So the fast path needs no test for that.
 */
#ifndef SONDE_INLINE_H
#define SONDE_INLINE_H

#ifndef SONDE_H
#error "include sonde/sonde.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Acquire: what the gate lets through must not be loaded before it. Free on x86. */
#define SONDE__GATE() __atomic_load_n(&sonde__gate.state, __ATOMIC_ACQUIRE)

#define SONDE__LIKELY(x) __builtin_expect(!!(x), 1)
#define SONDE__UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- State ------------------------------------------------------------------------------- */

enum { SONDE__GATE_CLOSED = 0, SONDE__GATE_ON = 1, SONDE__GATE_OFF = 2 };

struct sonde__gate {
    uint32_t state;       /* SONDE__GATE_*; CLOSED = ask the slow path */
    uint32_t tsc;         /* 1 = sonde_ticks() is rdtsc */
    uint64_t tick_ns_q32; /* nanoseconds per tick, times 2^32 */
    char *common;         /* the cells of lane 0, where gauges live */
    uint32_t open_lock;   /* tid of the thread that opens the segment */
    char pad[4096 - 28];  /* a page to itself: see the top of this file */
} __attribute__((aligned(4096)));

struct sonde__span_rec {  /* 64 bytes; see "Span rings" in segment.h */
    uint64_t seq_type, start, end, trace_hi, trace_lo, id, parent, name_tid;
};

#define SONDE__RING_RECS 4096u  /* 256 KiB a lane that records spans */
#define SONDE__REC_SPAN 1u
#define SONDE__REC_ATTR 2u

struct sonde__ring {
    uint64_t reserve;  /* records ever reserved; slot = index % SONDE__RING_RECS */
    uint64_t pad[7];
    struct sonde__span_rec rec[SONDE__RING_RECS];
};

#define SONDE__HIST_OCTAVES 96      /* values from 2^-40 up to 2^56 of the exported unit */
#define SONDE__HIST_EXP_MIN (-40)
#define SONDE__HIST_BUCKETS (SONDE__HIST_OCTAVES * 64u)

struct sonde__hist {       /* one lane's part of one histogram */
    uint32_t octave[SONDE__HIST_OCTAVES];  /* where its 64 buckets are, /64; 0 = none yet */
    double scale;
    uint64_t sum;          /* of recorded integers, before the scale; wraps */
    uint64_t zero;         /* values below the smallest bucket */
    uint64_t last;
    uint64_t ex_seq;       /* exemplar: odd while being written */
    uint64_t ex_value, ex_trace_hi, ex_trace_lo;
};

/* A histogram's cell holds where its block is, less this: a cell of 0 finds a block of zeros at
 * the end of the header's page, whose octaves are all missing. That saves the test for a
 * missing block (0.6 ns of 3.7). */
#define SONDE__HIST_NONE (4096u - (64u + 4u * SONDE__HIST_OCTAVES))

struct sonde__tls {
    char *lane;                /* the cells of this thread's lane, or NULL */
    char *base;                /* the segment */
    struct sonde__ring *ring;  /* this lane's spans, or NULL */
    uint64_t rng;              /* 0 = this thread has not been set up */
    uint64_t trace_hi, trace_lo, span;
    uint32_t tid;
    uint32_t busy;             /* inside the slow path: a signal handler must not re-enter it */
    uint32_t retry, retry_next; /* slow records until the next try to get an own lane */
};

extern SONDE_API struct sonde__gate sonde__gate;
extern SONDE_API __thread struct sonde__tls sonde__tls
    __attribute__((tls_model("initial-exec")));
extern SONDE_API const uint64_t sonde__hist_add[128];

SONDE_API void sonde__counter_add_slow(uint64_t off, uint64_t n);
SONDE_API void sonde__gauge_set_slow(uint64_t off, double value);
SONDE_API void sonde__gauge_add_slow(uint64_t off, double delta);
SONDE_API void sonde__hist_record_slow(uint64_t off, uint64_t value);
SONDE_API void sonde__hist_exemplar(uint64_t off, uint64_t value);
SONDE_API int sonde__span_begin_slow(void);
SONDE_API void sonde__span_end_slow(const struct sonde_span *s, uint64_t end, uint32_t outcome);
SONDE_API uint64_t sonde__ticks_slow(void);

__extension__ typedef unsigned __int128 sonde__u128; /* keeps -pedantic quiet */

/* ---- Clock ------------------------------------------------------------------------------- */

static inline uint64_t sonde_ticks(void)
{
#if defined(__x86_64__)
    if (SONDE__LIKELY(__atomic_load_n(&sonde__gate.tsc, __ATOMIC_RELAXED))) {
        return __builtin_ia32_rdtsc();
    }
#endif
    return sonde__ticks_slow();
}

static inline uint64_t sonde_ticks_ns(uint64_t ticks)
{
    const uint64_t q32 = __atomic_load_n(&sonde__gate.tick_ns_q32, __ATOMIC_RELAXED);
    return (uint64_t)(((sonde__u128)ticks * q32) >> 32);
}

/* ---- Counters and gauges ----------------------------------------------------------------- */

/* One instruction, so that a signal handler on this thread cannot come between load and store.
 * No lock prefix: nobody else writes this lane. */
static inline void sonde__cell_add(uint64_t *cell, uint64_t n)
{
#if defined(__x86_64__)
    __asm__ volatile("addq %1, %0" : "+m"(*cell) : "er"(n));
#else
    __atomic_fetch_add(cell, n, __ATOMIC_RELAXED);
#endif
}

static inline void sonde_counter_add(struct sonde_counter c, uint64_t n)
{
    if (SONDE__LIKELY(SONDE__GATE() == SONDE__GATE_ON)) {
        char *lane = sonde__tls.lane;
        if (SONDE__LIKELY(lane != NULL)) {
            sonde__cell_add((uint64_t *)(void *)(lane + c.off), n);
            return;
        }
    } else if (SONDE__GATE() == SONDE__GATE_OFF) {
        return;
    }
    sonde__counter_add_slow(c.off, n);
}

static inline uint64_t *sonde__gauge_cell(struct sonde_gauge g)
{
    return (uint64_t *)(void *)(__atomic_load_n(&sonde__gate.common, __ATOMIC_RELAXED) + g.off);
}

static inline void sonde_gauge_set(struct sonde_gauge g, double value)
{
    if (SONDE__LIKELY(SONDE__GATE() == SONDE__GATE_ON)) {
        uint64_t bits;
        __builtin_memcpy(&bits, &value, sizeof(bits));
        __atomic_store_n(sonde__gauge_cell(g), bits, __ATOMIC_RELAXED);
    } else if (SONDE__GATE() != SONDE__GATE_OFF) {
        sonde__gauge_set_slow(g.off, value);
    }
}

static inline void sonde__gauge_cell_add(uint64_t *cell, double delta)
{
    uint64_t old = __atomic_load_n(cell, __ATOMIC_RELAXED), next;
    double value;
    do {
        __builtin_memcpy(&value, &old, sizeof(value));
        value += delta;
        __builtin_memcpy(&next, &value, sizeof(next));
    } while (!__atomic_compare_exchange_n(cell, &old, next, 1, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

static inline void sonde_gauge_add(struct sonde_gauge g, double delta)
{
    if (SONDE__LIKELY(SONDE__GATE() == SONDE__GATE_ON)) {
        sonde__gauge_cell_add(sonde__gauge_cell(g), delta);
    } else if (SONDE__GATE() != SONDE__GATE_OFF) {
        sonde__gauge_add_slow(g.off, delta);
    }
}

static inline void sonde_pool_add(struct sonde_pool p, int64_t bytes)
{
    const struct sonde_gauge g = { p.off };
    sonde_gauge_add(g, (double)bytes);
}

static inline void sonde_pool_set(struct sonde_pool p, uint64_t bytes)
{
    const struct sonde_gauge g = { p.off };
    sonde_gauge_set(g, (double)bytes);
}

/* ---- Histograms -------------------------------------------------------------------------- */

/* Bucket p holds values in (2^((p-1)/64), 2^(p/64)], p counted from the octave 2^-40: the
 * bounds of Prometheus native histograms of schema 6 and OTLP exponential ones of scale 6.
 * Exponent and mantissa of a double are a piecewise linear logarithm already; the table, by the
 * top 7 bits of the mantissa, bends it to the true one: see hist_tables.c. Out of range (0, NaN,
 * negative, huge): >= SONDE__HIST_BUCKETS. */
static inline uint64_t sonde__hist_bucket(double value)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return (bits + sonde__hist_add[bits >> 45 & 127]) >> 46;
}

/* The scale is in the handle, not only in the block: that takes two dependent loads out of the
 * way to the bucket (5.6 ns to 4.4 ns with random values on a 2.4 GHz EPYC).
 * h.off is one cell further than a counter's, so that a handle of all zero, which nobody
 * defined, finds lane.hist_none (always 0) where a counter's would find the sink. */
static inline void sonde_hist_record_many(struct sonde_hist h, uint64_t value, uint64_t n)
{
    if (SONDE__LIKELY(SONDE__GATE() == SONDE__GATE_ON)) {
        char *lane = sonde__tls.lane, *base = sonde__tls.base;
        if (SONDE__LIKELY(lane != NULL)) {
            uint64_t block =
                __atomic_load_n((uint64_t *)(void *)(lane + h.off - 8), __ATOMIC_RELAXED);
            struct sonde__hist *b =
                (struct sonde__hist *)(void *)(base + SONDE__HIST_NONE + block);
            uint64_t p = sonde__hist_bucket((double)(int64_t)value * h.scale);
            if (SONDE__LIKELY(p < SONDE__HIST_BUCKETS)) {
                uint32_t o = __atomic_load_n(&b->octave[p >> 6], __ATOMIC_RELAXED);
                if (SONDE__LIKELY(o != 0)) {
                    uint64_t *cells = (uint64_t *)(void *)(base + (uint64_t)o * 64);
                    /* In this order: a reader that sees the sum changed finds the bucket. */
                    sonde__cell_add(&cells[p & 63], n);
                    sonde__cell_add(&b->sum, value * n);
                    __atomic_store_n(&b->last, value, __ATOMIC_RELAXED);
                    return;
                }
            }
        }
    } else if (SONDE__GATE() == SONDE__GATE_OFF) {
        return;
    }
    for (; n; n--) sonde__hist_record_slow(h.off, value);
}

static inline void sonde_hist_record(struct sonde_hist h, uint64_t value)
{
    sonde_hist_record_many(h, value, 1);
}

static inline void sonde_hist_record_traced(struct sonde_hist h, uint64_t value)
{
    sonde_hist_record(h, value);
    if (sonde__tls.trace_hi | sonde__tls.trace_lo) sonde__hist_exemplar(h.off, value);
}

/* ---- Spans ------------------------------------------------------------------------------- */

#define SONDE__SPAN_LIVE 1u  /* begun while recording was on */
#define SONDE__SPAN_ROOT 2u  /* began its trace: ending it leaves the thread without one */

/* splitmix64: ids need to be unlike each other, not secret. Never 0. */
static inline uint64_t sonde__rand(struct sonde__tls *t)
{
    uint64_t x = (t->rng += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (x ^ (x >> 31)) | 1;
}

/* Recording is on, or may be: state is the gate's. */
static inline void sonde__span_begin_on(struct sonde_span *s, uint32_t name, uint32_t state)
{
    struct sonde__tls *t = &sonde__tls;
    if (SONDE__UNLIKELY(state != SONDE__GATE_ON || t->ring == NULL)) {
        if (!sonde__span_begin_slow()) return;
    }
    s->name = name;
    s->flags = SONDE__SPAN_LIVE;
    s->parent = t->span;
    s->id = sonde__rand(t);
    if (SONDE__UNLIKELY((t->trace_hi | t->trace_lo) == 0)) {
        t->trace_hi = sonde__rand(t);
        t->trace_lo = sonde__rand(t);
        s->flags |= SONDE__SPAN_ROOT;
    }
    s->trace_hi = t->trace_hi;
    s->trace_lo = t->trace_lo;
    t->span = s->id;
    s->start = sonde_ticks();
}

/* In line whatever the compiler thinks of the rest: off must cost nothing beside on. */
static inline __attribute__((always_inline)) void sonde_span_begin(struct sonde_span *s,
                                                                   uint32_t name)
{
    const uint32_t state = SONDE__GATE();
    s->flags = 0;
    if (state != SONDE__GATE_OFF) sonde__span_begin_on(s, name, state);
}

/* The index of a record of this thread's own ring, which no other thread writes to. */
static inline uint64_t sonde__own_ring_reserve(struct sonde__ring *ring)
{
    uint64_t index = 1;
#if defined(__x86_64__)
    __asm__ volatile("xaddq %0, %1" : "+r"(index), "+m"(ring->reserve));
#else
    index = __atomic_fetch_add(&ring->reserve, 1, __ATOMIC_RELAXED);
#endif
    __atomic_thread_fence(__ATOMIC_RELEASE);  /* the reader must see reserve before the words */
    return index;
}

static inline void sonde_span_end(struct sonde_span *s, enum sonde_outcome outcome)
{
    struct sonde__tls *t = &sonde__tls;
    uint64_t end, index;
    struct sonde__span_rec *r;

    if (!s->flags) return;
    if ((unsigned)outcome > SONDE_TIMEOUT) outcome = SONDE_ERROR; /* would spoil the thread's id */
    end = sonde_ticks();
    t->span = s->parent;
    if (s->flags & SONDE__SPAN_ROOT) t->trace_hi = t->trace_lo = 0;
    s->flags = 0;
    if (SONDE__UNLIKELY(SONDE__GATE() != SONDE__GATE_ON || t->ring == NULL)) {
        sonde__span_end_slow(s, end, (uint32_t)outcome);
        return;
    }
    index = sonde__own_ring_reserve(t->ring);
    r = &t->ring->rec[index % SONDE__RING_RECS];
    __atomic_store_n(&r->start, s->start, __ATOMIC_RELAXED);
    __atomic_store_n(&r->end, end, __ATOMIC_RELAXED);
    __atomic_store_n(&r->trace_hi, s->trace_hi, __ATOMIC_RELAXED);
    __atomic_store_n(&r->trace_lo, s->trace_lo, __ATOMIC_RELAXED);
    __atomic_store_n(&r->id, s->id, __ATOMIC_RELAXED);
    __atomic_store_n(&r->parent, s->parent, __ATOMIC_RELAXED);
    __atomic_store_n(&r->name_tid,
                     (uint64_t)t->tid << 32 | (uint64_t)outcome << 24 | (s->name & 0xffffffu),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&r->seq_type, (index + 1) << 8 | SONDE__REC_SPAN, __ATOMIC_RELEASE);
}

/* ---- Scopes ------------------------------------------------------------------------------ */

#define SONDE__CAT2(a, b) a##b
#define SONDE__CAT(a, b) SONDE__CAT2(a, b)

/* id: where this place in the code keeps the name's id once it knows it. */
static inline void sonde__scope_begin(struct sonde_span *s, uint32_t *id, const char *name)
{
    uint32_t n = __atomic_load_n(id, __ATOMIC_RELAXED);
    if (SONDE__UNLIKELY(n == 0)) {
        s->flags = 0;
        if (SONDE__GATE() == SONDE__GATE_OFF) return;
        n = sonde_name(name);
        __atomic_store_n(id, n, __ATOMIC_RELAXED);
    }
    sonde_span_begin(s, n);
}

static inline void sonde__scope_end(struct sonde_span *s) { sonde_span_end(s, SONDE_OK); }

#define SONDE__RESOURCE_SCOPE(name, line)                                                      \
    struct sonde_resource SONDE__CAT(sonde__resource_, line)                                   \
        __attribute__((cleanup(sonde_resource_end)));                                          \
    sonde_resource_begin(&SONDE__CAT(sonde__resource_, line), name)

#define SONDE__THROUGHPUT_SCOPE(name, items_lvalue, line)                                      \
    struct sonde_throughput SONDE__CAT(sonde__throughput_, line)                               \
        __attribute__((cleanup(sonde_throughput_end)));                                        \
    sonde_throughput_begin(&SONDE__CAT(sonde__throughput_, line), name, &(items_lvalue))

#ifdef __cplusplus
}

static inline int sonde__exceptions(void)
{
#if __cplusplus >= 201703L
    return std::uncaught_exceptions();
#else
    return std::uncaught_exception() ? 1 : 0;
#endif
}

/* In C++ a scope that is left by an exception has the outcome "error". */
class sonde__scope_guard {
  public:
    sonde__scope_guard(uint32_t *id, const char *name)
        : thrown_(sonde__exceptions())
    {
        sonde__scope_begin(&span_, id, name);
    }
    ~sonde__scope_guard()
    {
        sonde_span_end(&span_, sonde__exceptions() > thrown_ ? SONDE_ERROR : SONDE_OK);
    }
    sonde__scope_guard(const sonde__scope_guard &) = delete;
    sonde__scope_guard &operator=(const sonde__scope_guard &) = delete;

  private:
    sonde_span span_;
    int thrown_;
};

#define SONDE__SCOPE(name, line)                                                               \
    static uint32_t SONDE__CAT(sonde__name_, line);                                            \
    sonde__scope_guard SONDE__CAT(sonde__scope_, line)(&SONDE__CAT(sonde__name_, line), name)
#else
#define SONDE__SCOPE(name, line)                                                               \
    static uint32_t SONDE__CAT(sonde__name_, line);                                            \
    struct sonde_span SONDE__CAT(sonde__scope_, line)                                          \
        __attribute__((cleanup(sonde__scope_end)));                                            \
    sonde__scope_begin(&SONDE__CAT(sonde__scope_, line), &SONDE__CAT(sonde__name_, line), name)
#endif

#endif
