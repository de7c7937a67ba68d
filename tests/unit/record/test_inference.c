/* Inference events: what is written for each call, by many threads, in signal handlers, after
 * fork, and when recording is off. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "sonde/inference.h"
#include "unit/record/child.h"
#include "unit/record/readback.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Word n (1 … 7) of the record that is `back` from the newest of this thread. */
static uint64_t word(uint64_t back, int n)
{
    const struct sonde__span_rec *r = readback_span(back);
    NEED(r);
    return ((const uint64_t *)(const void *)r)[n];
}

static uint64_t type_of(uint64_t back) { return word(back, 0) & 0xff; }

static uint64_t records(void) { return sonde__tls.ring ? sonde__tls.ring->reserve : 0; }

static struct sonde_request_info info(uint32_t model, uint32_t route)
{
    return (struct sonde_request_info){ .size = sizeof(struct sonde_request_info),
                                        .model = model, .route = route };
}

static uint64_t my_tid(void) { return (uint64_t)syscall(SYS_gettid); }

/* ---- Requests ------------------------------------------------------------------------------- */

CHILD_TEST(a_request_is_written_as_the_format_says)
{
    struct sonde_request r;
    struct sonde_request_info i = info(sonde_name("llama"), sonde_name("/v1/chat"));
    i.trace = (struct sonde_trace){ 0x11, 0x22, 0x33 };
    i.id = "chatcmpl-0123456789abcdef0123456789abcdefXYZ"; /* 43 bytes: cut at 40 */
    i.tokens_max = 256;
    i.profile = 7;
    i.arrived = 12345;
    sonde_request_begin(&r, &i);
    NEED(r.id != 0);
    NEED_EQ(r.begin, 12345);
    NEED_EQ(r.trace.hi, 0x11);
    NEED_EQ(r.trace.lo, 0x22);
    NEED_EQ(r.trace.span, r.id);
    NEED_EQ(r.parent, 0x33);

    NEED_EQ(type_of(1), SONDE__REC_REQUEST_ID);
    NEED_EQ(word(1, 1), r.id);
    NEED_EQ(word(1, 2), 40);
    NEED(!memcmp(&((const uint64_t *)(const void *)readback_span(1))[3], i.id, 40));

    NEED_EQ(type_of(0), SONDE__REC_REQUEST);
    NEED_EQ(word(0, 1), 12345);
    NEED_EQ(word(0, 2), 256ull << 32 | 1 << 24 | i.route);
    NEED_EQ(word(0, 3), 0x11);
    NEED_EQ(word(0, 4), 0x22);
    NEED_EQ(word(0, 5), r.id);
    NEED_EQ(word(0, 6), 0x33);
    NEED_EQ(word(0, 7), my_tid() << 32 | i.model);

    const uint32_t key = sonde_name("temperature");
    sonde_request_attr_double(&r, key, 0.7);
    NEED_EQ(type_of(0), SONDE__REC_REQUEST_ATTR);
    NEED_EQ(word(0, 1), r.id);
    NEED_EQ(word(0, 2), 8ull << 32 | SONDE__ATTR_DOUBLE << 24 | key);
    double value;
    const uint64_t bits = word(0, 4);
    memcpy(&value, &bits, sizeof(value));
    NEED(value == 0.7);
    sonde_request_attr_str(&r, key, "a text of more than thirty-two bytes");
    NEED_EQ(word(0, 2) >> 32, SONDE_REQUEST_ATTR_MAX);
    sonde_request_attr_int(&r, key, -5);
    NEED_EQ(word(0, 4), (uint64_t)-5);

    const uint64_t before = sonde_ticks();
    sonde_request_prompt(&r, 100, 60);
    NEED_EQ(type_of(0), SONDE__REC_PROMPT);
    NEED_EQ(word(0, 1), r.id);
    NEED(word(0, 2) >= before && word(0, 2) <= sonde_ticks());
    NEED_EQ(word(0, 3), 100);
    NEED_EQ(word(0, 4), 60);

    sonde_request_tokens(&r, 3);
    NEED_EQ(type_of(0), SONDE__REC_TOKENS);
    NEED_EQ(word(0, 3), 3);
    const uint64_t count = records();
    sonde_request_tokens(&r, 0); /* nothing came out */
    NEED_EQ(records(), count);

    sonde_request_end(&r, SONDE_ERROR, "context_full");
    NEED_EQ(type_of(1), SONDE__REC_REQUEST_ERROR);
    NEED_EQ(word(1, 2), 12);
    NEED_EQ(type_of(0), SONDE__REC_REQUEST_END);
    NEED_EQ(word(0, 1), 12345);
    NEED_EQ(word(0, 5), r.id);
    NEED_EQ(word(0, 6), 0x33);
    NEED_EQ(word(0, 7), my_tid() << 32 | SONDE_ERROR << 24);

    sonde_request_end(&r, (enum sonde_outcome)99, NULL); /* no such outcome */
    NEED_EQ(word(0, 7) >> 24 & 0xff, SONDE_ERROR);
    NEED(type_of(1) == SONDE__REC_REQUEST_END); /* no text, no record for it */
}

CHILD_TEST(a_request_without_a_trace_takes_the_threads_or_begins_one)
{
    struct sonde_request r;
    struct sonde_span s;
    sonde_request_begin(&r, NULL);
    NEED(r.id && (r.trace.hi | r.trace.lo));
    NEED_EQ(r.parent, 0);
    NEED_EQ(sonde_trace_current().hi, 0); /* the thread itself is in none */

    sonde_span_begin(&s, sonde_name("http"));
    sonde_request_begin(&r, NULL);
    NEED_EQ(r.trace.hi, s.trace_hi);
    NEED_EQ(r.trace.lo, s.trace_lo);
    NEED_EQ(r.parent, s.id);
    sonde_span_end(&s, SONDE_OK);
}

CHILD_TEST(info_of_another_size)
{
    struct sonde_request r;
    struct { struct sonde_request_info known; uint64_t later; } newer = { info(5, 6), 0 };
    newer.known.size = sizeof(newer);
    sonde_request_begin(&r, &newer.known); /* the unknown tail is zero */
    NEED_EQ(word(0, 7) & 0xffffff, 5);
    newer.later = 1;
    sonde_request_begin(&r, &newer.known); /* asks for what we do not know: begins all the same */
    NEED(r.id);
    NEED_EQ(word(0, 7) & 0xffffff, 0);
    newer.known.size = offsetof(struct sonde_request_info, route);
    sonde_request_begin(&r, &newer.known); /* an older header */
    NEED_EQ(word(0, 7) & 0xffffff, 5);
    NEED_EQ(word(0, 2) & 0xffffff, 0);
}

/* ---- Phases and batches --------------------------------------------------------------------- */

CHILD_TEST(a_phase_is_a_span_of_its_request)
{
    struct sonde_request r;
    struct sonde_phase p;
    struct sonde_span outer, inner;
    sonde_request_begin(&r, NULL);
    sonde_span_begin(&outer, sonde_name("loop")); /* another trace */

    sonde_phase_begin(&p, &r, SONDE_PHASE_PREFILL);
    NEED_EQ(sonde_trace_current().lo, r.trace.lo);
    sonde_span_begin(&inner, sonde_name("matmul"));
    NEED_EQ(inner.trace_lo, r.trace.lo);
    const uint64_t id = inner.parent;
    sonde_span_end(&inner, SONDE_OK);
    sonde_phase_end(&p, 42);

    NEED_EQ(type_of(0), SONDE__REC_PHASE);
    NEED(word(0, 1) <= word(0, 2));
    NEED_EQ(word(0, 3), r.trace.hi);
    NEED_EQ(word(0, 4), r.trace.lo);
    NEED_EQ(word(0, 5), 42);
    NEED_EQ(word(0, 6), r.id);
    NEED_EQ(word(0, 7), my_tid() << 32 | SONDE__PHASE_REQUEST << 24 | SONDE_PHASE_PREFILL);
    NEED_EQ(sonde__phase_id(word(0, 1), word(0, 6), (uint32_t)my_tid(), SONDE_PHASE_PREFILL), id);
    NEED_EQ(sonde_trace_current().lo, outer.trace_lo); /* as it was */
    NEED_EQ(sonde_trace_current().span, outer.id);

    const uint64_t count = records();
    sonde_phase_end(&p, 1); /* a second time: nothing */
    NEED_EQ(records(), count);
    sonde_span_end(&outer, SONDE_OK);

    const uint32_t rerank = SONDE_PHASE_NAME(sonde_name("rerank"));
    sonde_phase_begin(&p, NULL, rerank); /* of no request: begins a trace, and ends it */
    sonde_phase_end(&p, 0);
    NEED_EQ(word(0, 7) & 0xffffffff, rerank);
    NEED(word(0, 3) | word(0, 4));
    NEED_EQ(sonde_trace_current().hi | sonde_trace_current().lo, 0);

    sonde_phase_record(&r, SONDE_PHASE_QUEUE, 1000, 2000, 0);
    NEED_EQ(word(0, 1), 1000);
    NEED_EQ(word(0, 2), 2000);
    NEED_EQ(word(0, 7) >> 24 & 0xff, SONDE__PHASE_REQUEST | SONDE__PHASE_ELSEWHERE);
    sonde_phase_record(&r, UINT32_MAX, 1, 2, 0); /* no such kind */
    NEED_EQ(word(0, 7) & 0xffffff, SONDE_PHASE_NAMED);
}

CHILD_TEST(a_batch_tells_who_is_in_it)
{
    struct sonde_request r[5];
    struct sonde_batch b;
    for (int i = 0; i < 5; i++) sonde_request_begin(&r[i], NULL);
    const uint64_t count = records();
    sonde_batch_begin(&b);
    const uint64_t id = sonde_trace_current().span;
    for (uint64_t i = 0; i < 4; i++) sonde_batch_add(&b, &r[i], i ? 0 : 100, i ? i : 0);
    sonde_batch_add(&b, NULL, 7, 0); /* of nobody we know */
    sonde_batch_end(&b);
    NEED_EQ(records() - count, 3);
    for (uint64_t back = 1; back <= 2; back++) {
        NEED_EQ(type_of(back), SONDE__REC_BATCH_PART);
        NEED_EQ(word(back, 1), id);
    }
    NEED_EQ(word(2, 2), r[0].id);
    NEED_EQ(word(2, 3), 100ull << 32);
    NEED_EQ(word(2, 6), r[2].id);
    NEED_EQ(word(2, 7), 2);
    NEED_EQ(word(1, 2), r[3].id);
    NEED_EQ(word(1, 4), 0);
    NEED_EQ(type_of(0), SONDE__REC_BATCH);
    NEED_EQ(word(0, 5), 107ull << 32 | 6);
    NEED_EQ(word(0, 7), my_tid() << 32 | 5);
    NEED_EQ(sonde__phase_id(word(0, 1), word(0, 6), (uint32_t)my_tid(), SONDE__PHASE_BATCH), id);
    NEED_EQ(sonde_trace_current().span, 0);

    sonde_batch_begin(&b); /* of one request: of its trace */
    sonde_batch_add(&b, &r[4], UINT64_MAX, 1);
    sonde_batch_end(&b);
    NEED_EQ(word(0, 3), r[4].trace.hi);
    NEED_EQ(word(0, 5), (uint64_t)UINT32_MAX << 32 | 1);
    NEED_EQ(word(1, 3), (uint64_t)UINT32_MAX << 32 | 1);

    const uint64_t now = records();
    sonde_batch_add(&b, &r[0], 1, 1); /* after its end: nothing */
    sonde_batch_end(&b);
    NEED_EQ(records(), now);
}

/* ---- Times that the engine says -------------------------------------------------------------- */

CHILD_TEST(events_have_the_time_that_they_are_given)
{
    struct sonde_request r;
    struct sonde_phase p;
    struct sonde_batch b;
    struct sonde_request_info i = info(0, 0);
    const uint64_t t0 = sonde_ticks();
    while (sonde_ticks() < t0 + 1000) continue; /* all times below are in the past */
    i.arrived = t0;
    sonde_request_begin(&r, &i);
    sonde_request_tokens_at(&r, 2, t0 + 7);
    NEED_EQ(type_of(0), SONDE__REC_TOKENS);
    NEED_EQ(word(0, 2), t0 + 7);

    sonde_phase_begin_at(&p, &r, SONDE_PHASE_PREFILL, t0 + 10);
    sonde_phase_end_at(&p, 5, t0 + 30);
    NEED_EQ(type_of(0), SONDE__REC_PHASE);
    NEED_EQ(word(0, 1), t0 + 10);
    NEED_EQ(word(0, 2), t0 + 30);
    NEED_EQ(word(0, 5), 5);

    sonde_batch_begin_at(&b, t0 + 40);
    sonde_batch_add(&b, &r, 0, 1);
    sonde_batch_end_at(&b, t0 + 60);
    NEED_EQ(type_of(0), SONDE__REC_BATCH);
    NEED_EQ(word(0, 1), t0 + 40);
    NEED_EQ(word(0, 2), t0 + 60);

    sonde_request_end_at(&r, SONDE_OK, NULL, t0 + 100);
    NEED_EQ(type_of(0), SONDE__REC_REQUEST_END);
    NEED_EQ(word(0, 2), t0 + 100);
}

CHILD_TEST(times_that_cannot_be_are_now_or_the_begin)
{
    struct sonde_request r;
    struct sonde_phase p;
    struct sonde_batch b;
    struct sonde_request_info i = info(0, 0);
    const uint64_t t0 = sonde_ticks();
    i.arrived = UINT64_MAX;
    sonde_request_begin(&r, &i);
    NEED(r.begin >= t0 && r.begin <= sonde_ticks());
    sonde_request_tokens_at(&r, 1, UINT64_MAX);
    NEED(word(0, 2) >= r.begin && word(0, 2) <= sonde_ticks());
    sonde_request_tokens_at(&r, 1, 1);
    NEED_EQ(word(0, 2), r.begin);

    sonde_phase_begin_at(&p, &r, SONDE_PHASE_DECODE, 1); /* not before its request */
    sonde_phase_end_at(&p, 1, 1);
    NEED_EQ(word(0, 1), r.begin);
    NEED_EQ(word(0, 2), r.begin);
    sonde_phase_begin_at(&p, &r, SONDE_PHASE_DECODE, UINT64_MAX);
    sonde_phase_end_at(&p, 1, UINT64_MAX);
    NEED(word(0, 1) <= word(0, 2) && word(0, 2) <= sonde_ticks());

    sonde_batch_begin_at(&b, UINT64_MAX);
    sonde_batch_end_at(&b, 1);
    NEED(word(0, 1) >= t0 && word(0, 1) <= sonde_ticks());
    NEED_EQ(word(0, 2), word(0, 1));
    sonde_request_end_at(&r, SONDE_OK, NULL, 1);
    NEED_EQ(word(0, 2), r.begin);

    /* 0 = now, as without a time. */
    const uint64_t before = sonde_ticks();
    sonde_request_end_at(&r, SONDE_OK, NULL, 0);
    NEED(word(0, 2) >= before && word(0, 2) <= sonde_ticks());
}

CHILD_TEST(a_request_in_one_call)
{
    const uint32_t model = sonde_name("llama");
    const uint64_t before = records();
    sonde_inference_record(model, 50, 1000000000);
    NEED_EQ(records(), before + 3);
    NEED_EQ(type_of(2), SONDE__REC_REQUEST);
    NEED_EQ(word(2, 7) & 0xffffff, model);
    NEED_EQ(type_of(1), SONDE__REC_TOKENS);
    NEED_EQ(word(1, 3), 50);
    NEED_EQ(type_of(0), SONDE__REC_REQUEST_END);
    NEED_EQ(word(1, 2), word(0, 2)); /* all tokens at the end */
    NEED_EQ(word(0, 1), word(2, 1));
    const uint64_t ns = sonde_ticks_ns(word(0, 2) - word(0, 1));
    NEED(ns + 2 >= 1000000000 && ns <= 1000000002);

    sonde_inference_record(model, 0, 5); /* no tokens: no event of them */
    NEED_EQ(records(), before + 5);
    sonde_inference_record(model, 1, UINT64_MAX); /* longer than there is time */
    NEED_EQ(word(0, 1), 1);
    sonde_enable(0);
    sonde_inference_record(model, 1, 1);
    NEED_EQ(records(), before + 8);
}

CHILD_TEST(models)
{
    struct sonde_model_load l;
    const uint32_t m = sonde_name("llama");
    sonde_model_load_begin(&l, m);
    sonde_model_load_end(&l, 1 << 30, SONDE_OK);
    NEED_EQ(type_of(0), SONDE__REC_MODEL_LOAD);
    NEED(word(0, 1) <= word(0, 2));
    NEED_EQ(word(0, 3), 1 << 30);
    NEED_EQ(word(0, 4), SONDE_OK);
    NEED_EQ(word(0, 7), my_tid() << 32 | m);
    const uint64_t count = records();
    sonde_model_load_end(&l, 1, SONDE_OK); /* twice */
    sonde_model_memory(m, NULL, 1);
    NEED_EQ(records(), count);

    sonde_model_memory(m, "weights", 4096);
    NEED_EQ(type_of(0), SONDE__REC_MODEL_MEMORY);
    NEED_EQ(word(0, 2), 4096);
    NEED_EQ(word(0, 3), 7);
    NEED(!memcmp(&((const uint64_t *)(const void *)readback_span(0))[4], "weights", 8));
    sonde_model_backend(m, "a backend of a very long name");
    NEED_EQ(type_of(0), SONDE__REC_MODEL_BACKEND);
    NEED_EQ(word(0, 3), SONDE_MODEL_TEXT_MAX);
    sonde_model_kv(m, 3, 9);
    NEED_EQ(type_of(0), SONDE__REC_MODEL_KV);
    NEED_EQ(word(0, 2), 3);
    NEED_EQ(word(0, 3), 9);
    sonde_model_waiting(m, 11);
    NEED_EQ(type_of(0), SONDE__REC_MODEL_WAITING);
    NEED_EQ(word(0, 2), 11);
}

/* ---- Off, none, threads, fork --------------------------------------------------------------- */

static void all_calls(const struct sonde_request *r)
{
    struct sonde_phase p;
    struct sonde_batch b;
    sonde_request_attr_int(r, 1, 1);
    sonde_request_prompt(r, 1, 0);
    sonde_phase_begin(&p, r, SONDE_PHASE_DECODE);
    sonde_phase_end(&p, 1);
    sonde_phase_record(r, SONDE_PHASE_QUEUE, 1, 2, 0);
    sonde_batch_begin(&b);
    sonde_batch_add(&b, r, 0, 1);
    sonde_batch_end(&b);
    sonde_request_tokens(r, 1);
    sonde_request_end(r, SONDE_OK, "x");
}

CHILD_TEST(off_and_none_write_nothing)
{
    struct sonde_request r, none = { 0 };
    struct sonde_model_load l;
    sonde_request_begin(&r, NULL);
    const uint64_t count = records();
    sonde_enable(0);
    struct sonde_request while_off;
    sonde_request_begin(&while_off, NULL);
    NEED_EQ(while_off.id, 0);
    all_calls(&r);
    sonde_model_load_begin(&l, 1);
    sonde_model_load_end(&l, 1, SONDE_OK);
    sonde_model_kv(1, 1, 1);
    sonde_enable(1);
    NEED_EQ(records(), count);
    all_calls(&none);
    all_calls(&while_off);
    NEED_EQ(records() - count, 2); /* the batches, which are of no request */
    NEED_EQ(type_of(0), SONDE__REC_BATCH);
    NEED_EQ(sonde_trace_current().span, 0);
}

/* Switched off in the middle: the thread's trace is put back all the same. */
CHILD_TEST(off_inside_a_phase)
{
    struct sonde_request r;
    struct sonde_phase p;
    struct sonde_batch b;
    sonde_request_begin(&r, NULL);
    sonde_phase_begin(&p, &r, SONDE_PHASE_DECODE);
    sonde_batch_begin(&b);
    sonde_enable(0);
    sonde_batch_end(&b);
    sonde_phase_end(&p, 1);
    NEED_EQ(sonde_trace_current().lo | sonde_trace_current().span, 0);
}

enum { THREADS = 8, ROUNDS = 200 };

static void *hammer(void *arg)
{
    const struct sonde_request *shared = arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct sonde_request r;
        struct sonde_phase p;
        sonde_request_begin(&r, NULL);
        sonde_phase_begin(&p, &r, SONDE_PHASE_PREFILL);
        sonde_phase_end(&p, 1);
        sonde_request_tokens(shared, 1);
        sonde_request_tokens(&r, 1);
        sonde_request_end(&r, SONDE_OK, NULL);
    }
    return NULL;
}

static uint64_t count_type(uint64_t type)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < sonde__g.h->lane_count; i++) {
        const struct sonde__lane *l = sonde__lane_of(sonde__lane_cells(i));
        const struct sonde__ring *r = (const struct sonde__ring *)(void *)sonde__at(l->ring);
        for (uint64_t k = 0; l->ring && k < r->reserve && k < SONDE__RING_RECS; k++) {
            n += (r->rec[k].seq_type & 0xff) == type;
        }
    }
    return n;
}

CHILD_TEST(threads_lose_nothing)
{
    struct sonde_request shared;
    pthread_t t[THREADS];
    sonde_request_begin(&shared, NULL);
    for (int i = 0; i < THREADS; i++) NEED(!pthread_create(&t[i], NULL, hammer, &shared));
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    NEED_EQ(count_type(SONDE__REC_REQUEST), THREADS * ROUNDS + 1);
    NEED_EQ(count_type(SONDE__REC_PHASE), THREADS * ROUNDS);
    NEED_EQ(count_type(SONDE__REC_TOKENS), 2 * THREADS * ROUNDS);
    NEED_EQ(count_type(SONDE__REC_REQUEST_END), THREADS * ROUNDS);
}

/* Forked inside a phase of a request: the child's records are its own. */
CHILD_TEST(fork_inside_a_phase)
{
    struct sonde_request r, other;
    struct sonde_phase p;
    sonde_request_begin(&r, NULL);
    sonde_phase_begin(&p, &r, SONDE_PHASE_DECODE);
    const uint64_t count = records();
    const pid_t pid = fork();
    NEED(pid >= 0);
    if (pid == 0) {
        sonde_phase_end(&p, 1);
        NEED_EQ(type_of(0), SONDE__REC_PHASE);
        NEED_EQ(word(0, 7) >> 32, (uint64_t)getpid());
        sonde_request_begin(&other, NULL);
        NEED(other.id && other.id != r.id);
        NEED_EQ(records(), 2);
        _exit(0);
    }
    int status = -1;
    NEED(waitpid(pid, &status, 0) == pid && status == 0);
    NEED_EQ(records(), count);
    sonde_phase_end(&p, 1);
    NEED_EQ(records(), count + 1);
}

/* ---- Signals -------------------------------------------------------------------------------- */

#if defined(__x86_64__) && !SANITIZED
static uint64_t handled;
static struct sonde_request outside;

static void handler(int sig)
{
    (void)sig;
    struct sonde_phase p;
    sonde_phase_begin(&p, &outside, SONDE_PHASE_SAMPLE);
    sonde_phase_end(&p, 1);
    handled++;
}

static void on_step(int sig)
{
    (void)sig;
    syscall(SYS_tgkill, (int)getpid(), (int)syscall(SYS_gettid), SIGUSR1);
}

/* A signal after every single instruction: each record is whole, none is written over. */
CHILD_TEST(events_interrupted_at_every_instruction)
{
    struct sigaction step = { .sa_handler = on_step, .sa_flags = SA_RESTART };
    struct sigaction act = { .sa_handler = handler, .sa_flags = SA_RESTART };
    struct sonde_request r;
    struct sonde_phase p;
    sigfillset(&step.sa_mask);
    NEED(!sigaction(SIGTRAP, &step, NULL) && !sigaction(SIGUSR1, &act, NULL));
    sonde_request_begin(&outside, NULL);
    const uint64_t before = records();

    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    sonde_request_begin(&r, NULL);
    sonde_phase_begin(&p, &r, SONDE_PHASE_DECODE);
    sonde_phase_end(&p, 1);
    sonde_request_end(&r, SONDE_OK, "error");
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");

    NEED(handled > 50 && handled < SONDE__RING_RECS - 10);
    NEED_EQ(records() - before, handled + 4);
    for (uint64_t i = before; i < records(); i++) {
        NEED_EQ(sonde__tls.ring->rec[i].seq_type >> 8, i + 1); /* finished, at its place */
    }
    NEED_EQ(sonde_trace_current().span, 0);
}
#endif

/* ---- Environment ---------------------------------------------------------------------------- */

static const struct {
    const char *name, *value;
    int good;
    const char *says;       /* part of the error */
} env_cases[] = {
    { "SONDE_DETERMINISTIC", "1", 1, NULL },
    { "SONDE_DETERMINISTIC", "true", 1, NULL },
    { "SONDE_DETERMINISTIC", "0", 1, NULL },
    { "SONDE_DETERMINISTIC", "yes", 0, "0, 1, true or false" },
    { "SONDE_DETERMINISTIC", "", 0, "SONDE_DETERMINISTIC is \"\"" },
    { "SONDE_DETERMINISTIC", "1 ", 0, "\"1 \"" },
    { "BITNET_SEED", "18446744073709551615", 1, NULL },
    { "BITNET_SEED", "18446744073709551616", 0, "BITNET_SEED" },
    { "BITNET_SEED", "-1", 0, "\"-1\"" },
    { "BITNET_SEED", "+1", 0, "\"+1\"" },
    { "BITNET_SEED", "0x10", 0, "\"0x10\"" },
    { "BITNET_SEED", " 1", 0, "\" 1\"" },
    { "BITNET_SEED", "4\n2", 0, "\"4?2\"" },
    { "SONDE_BATCH_SIZE", "0", 0, "1 to 1048576" },
    { "SONDE_BATCH_SIZE", "1048577", 0, "1 to 1048576" },
    { "SONDE_NUM_THREADS", "8", 1, NULL },
    { "SONDE_NUM_THREADS", "eight", 0, "SONDE_NUM_THREADS" },
    { "SONDE_MEMORY_LIMIT", "512MB", 1, NULL },
    { "SONDE_MEMORY_LIMIT", "1GiB", 1, NULL },
    { "SONDE_MEMORY_LIMIT", "1gb", 0, "KB, MB, GB or TB" },
    { "SONDE_MEMORY_LIMIT", "1 GB", 0, "\"1 GB\"" },
    { "SONDE_MEMORY_LIMIT", "1.5GB", 0, "\"1.5GB\"" },
    { "SONDE_MEMORY_LIMIT", "0MB", 0, "more than 0" },
    { "SONDE_MEMORY_LIMIT", "16777216TB", 0, "SONDE_MEMORY_LIMIT" },
    { "NLOCAL_PROFILE_GPU", "false", 1, NULL },
    { "NLOCAL_PROFILE_ENABLED", "2", 0, "NLOCAL_PROFILE_ENABLED" },
};

CHILD_TEST(environment_is_parsed_strictly)
{
    for (size_t i = 0; i < sizeof(env_cases) / sizeof(env_cases[0]); i++) {
        struct sonde_inference_env e = { .size = sizeof(e), .seed = 77 };
        char error[256] = "";
        NEED(!setenv(env_cases[i].name, env_cases[i].value, 1));
        const int rc = sonde_inference_env(&e, error, sizeof(error));
        if (rc != (env_cases[i].good ? 0 : SONDE_EINVAL) ||
            (env_cases[i].says && !strstr(error, env_cases[i].says))) {
            fprintf(stderr, "%s=%s: %d, '%s'\n", env_cases[i].name, env_cases[i].value, rc, error);
            _exit(1);
        }
        NEED(rc == 0 || e.seed == 77); /* as it was */
        NEED_EQ(sonde_inference_env(&e, NULL, 0), rc);
        unsetenv(env_cases[i].name);
    }
}

CHILD_TEST(environment_values)
{
    struct sonde_inference_env e = { .size = sizeof(e) };
    NEED(!sonde_inference_env(&e, NULL, 0));
    NEED(!e.deterministic && !e.seed_set && !e.batch_size && !e.threads && !e.memory_limit);
    NEED(e.profile == -1 && e.profile_cpu == -1 && e.profile_memory == -1 && e.profile_gpu == -1);

    setenv("BITNET_DETERMINISTIC", "true", 1);
    setenv("BITNET_SEED", "0", 1);
    setenv("BITNET_BATCH_SIZE", "4", 1);
    setenv("SONDE_BATCH_SIZE", "16", 1); /* ours first */
    setenv("SONDE_NUM_THREADS", "8", 1);
    setenv("SONDE_MEMORY_LIMIT", "512MB", 1);
    setenv("NLOCAL_PROFILE_ENABLED", "true", 1);
    setenv("SONDE_PROFILE_CPU", "0", 1);
    NEED(!sonde_inference_env(&e, NULL, 0));
    NEED(e.deterministic == 1 && e.seed_set == 1 && e.seed == 0);
    NEED(e.batch_size == 16 && e.threads == 8);
    NEED_EQ(e.memory_limit, 512ull << 20);
    NEED(e.profile == 1 && e.profile_cpu == 0 && e.profile_memory == -1 && e.profile_gpu == -1);

    struct { struct sonde_inference_env known; uint64_t later; } newer;
    memset(&newer, 0xff, sizeof(newer));
    newer.known.size = sizeof(newer);
    NEED(!sonde_inference_env(&newer.known, NULL, 0));
    NEED_EQ(newer.known.threads, 8);
    NEED_EQ(newer.later, 0);
    newer.known.size = 3;
    char error[8];
    NEED_EQ(sonde_inference_env(&newer.known, error, sizeof(error)), SONDE_EINVAL);
    NEED_EQ(strlen(error), sizeof(error) - 1); /* cut, and ended */
}

int main(void)
{
    readback_private_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_written_as_the_format_says),
        cmocka_unit_test(a_request_without_a_trace_takes_the_threads_or_begins_one),
        cmocka_unit_test(info_of_another_size),
        cmocka_unit_test(a_phase_is_a_span_of_its_request),
        cmocka_unit_test(a_batch_tells_who_is_in_it),
        cmocka_unit_test(events_have_the_time_that_they_are_given),
        cmocka_unit_test(times_that_cannot_be_are_now_or_the_begin),
        cmocka_unit_test(a_request_in_one_call),
        cmocka_unit_test(models),
        cmocka_unit_test(off_and_none_write_nothing),
        cmocka_unit_test(off_inside_a_phase),
        cmocka_unit_test(threads_lose_nothing),
        cmocka_unit_test(fork_inside_a_phase),
#if defined(__x86_64__) && !SANITIZED
        cmocka_unit_test(events_interrupted_at_every_instruction),
#endif
        cmocka_unit_test(environment_is_parsed_strictly),
        cmocka_unit_test(environment_values),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
