/* Inference events out of rings made by hand, word by word from segment.h: what is delivered of
 * good ones, and of hostile ones nothing that could hurt. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "infer/event.h"
#include "collect/segment/read.h"
#include "segment/llama.h"
#include "unit/collect/segment/segment_fixture.h"

enum { PID = 4242, START = 777, TID = 99 };

/* ---- Taking events down --------------------------------------------------------------------- */

enum { SEEN_MAX = 8192 };
struct seen { struct sonde_infer_event e; char model[64], route[64], name[64], key[64]; };
static struct seen seen[SEEN_MAX];
static size_t seen_count;

static void take_text(char *to, size_t size, const char *from)
{
    if (!from) return;
    assert_true(sonde__utf8_valid(from, strlen(from)));
    snprintf(to, size, "%s", from);
}

static void check_text(const char text[SONDE_INFER_TEXT])
{
    assert_true(strnlen(text, SONDE_INFER_TEXT) < SONDE_INFER_TEXT);
    assert_true(sonde__utf8_valid(text, strlen(text)));
}

static void on_event(void *arg, struct sonde_model_process *p, const struct sonde_infer_event *e)
{
    (void)arg;
    assert_non_null(p);
    assert_true(seen_count < SEEN_MAX && e->type < SONDE_INFER_EVENT_TYPES);
    struct seen *s = &seen[seen_count++];
    memset(s, 0, sizeof(*s));
    s->e = *e;
    take_text(s->model, sizeof(s->model), e->model);
    switch (e->type) {
    case SONDE_INFER_REQUEST:
        take_text(s->route, sizeof(s->route), e->request.route);
        check_text(e->request.own_id);
        break;
    case SONDE_INFER_END:
        assert_true(e->end.outcome <= SONDE_TIMEOUT);
        check_text(e->end.error);
        break;
    case SONDE_INFER_ATTR: take_text(s->key, sizeof(s->key), e->attr.key); break;
    case SONDE_INFER_PHASE: take_text(s->name, sizeof(s->name), e->phase.name); break;
    case SONDE_INFER_LOAD: assert_true(e->load.outcome <= SONDE_TIMEOUT); break;
    case SONDE_INFER_MEMORY: check_text(e->memory.kind); break;
    case SONDE_INFER_BACKEND: check_text(e->backend.name); break;
    default: break;
    }
}

static const struct sonde_infer_sink listening = { .event = on_event };

/* ---- A segment ------------------------------------------------------------------------------ */

struct fixture {
    char dir[64];
    int dirfd;
    struct build b;
    struct sonde_model *m;
    struct sonde_model_process *p;
    struct sonde_tick_clock clock;
    struct sonde_segment *s;
    const struct sonde_infer_sink *sink;
    struct sonde_err err;
    uint32_t model, route, key, phase;   /* names */
};

static void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    seen_count = 0;
    f->dirfd = fixture_dir(f->dir);
    build_init(&f->b, PID, START, "prog"); /* ticks are nanoseconds */
    f->model = build_family(&f->b, SONDE__TYPE_NAME, "llama", 0, NULL, NULL);
    f->route = build_family(&f->b, SONDE__TYPE_NAME, "/v1/chat", 0, NULL, NULL);
    f->key = build_family(&f->b, SONDE__TYPE_NAME, "temperature", 0, NULL, NULL);
    f->phase = build_family(&f->b, SONDE__TYPE_NAME, "rerank", 0, NULL, NULL);
    assert_int_equal(sonde_model_create(NULL, &f->m), 0);
    f->sink = &listening;
    f->p = sonde_model_process(f->m, PID, START, "prog");
    sonde_tick_clock_init(&f->clock);
    sonde_tick_clock_update(&f->clock);
}

static void fixture_release(struct fixture *f)
{
    sonde_model_destroy(f->m);
    fixture_end(&f->b, f->dir, f->dirfd, f->s);
}

static void put(struct fixture *f, uint32_t lane, uint64_t type, const uint64_t w[7])
{
    struct sonde__ring *ring = build_ring(&f->b, lane);
    const uint64_t index = ring->reserve++;
    uint64_t words[8] = { (index + 1) << 8 | type };
    memcpy(&words[1], w, 7 * sizeof(uint64_t));
    memcpy(&ring->rec[index % SONDE__RING_RECS], words, sizeof(words));
}

#define PUT(f, type, ...) put(f, 1, SONDE__REC_##type, (const uint64_t[7]){ __VA_ARGS__ })

static uint64_t text_word(const char *text)
{
    char bytes[8] = "";
    uint64_t w;
    memcpy(bytes, text, strnlen(text, 8));
    memcpy(&w, bytes, 8);
    return w;
}

static void drain_as(struct fixture *f, int last)
{
    build_seal(&f->b);
    build_write(&f->b, f->dirfd, NAME, f->b.bytes);
    int rc = f->s ? 0 : sonde_segment_open(f->dirfd, NAME, 0, &f->s, &f->err);
    if (rc == 0) sonde_segment_deliver_to(f->s, f->sink);
    if (rc == 0) rc = sonde_segment_drain(f->s, f->m, f->p, &f->clock, last, &f->err);
    if (rc) fail_msg("%d: %s", rc, f->err.text);
}

static void drain(struct fixture *f) { drain_as(f, 1); }

static uint64_t unix_ns(const struct fixture *f, uint64_t ticks)
{
    return f->clock.unix_ns + ticks;
}

static uint64_t who(uint32_t flags, uint32_t name)
{
    return (uint64_t)TID << 32 | (uint64_t)flags << 24 | name;
}

static const struct sonde_model_span *span_named(const struct fixture *f, const char *name)
{
    for (uint64_t i = 0; i < f->m->span_next; i++) {
        if (!strcmp(f->m->spans[i].name, name)) return &f->m->spans[i];
    }
    return NULL;
}

/* ---- Good ones ------------------------------------------------------------------------------ */

static void requests(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    double hot = 0.7;
    uint64_t bits;
    memcpy(&bits, &hot, sizeof(bits));
    PUT(&f, REQUEST_ID, 5, 6, text_word("req-17"));
    PUT(&f, REQUEST, 1000, 256ull << 32 | 1 << 24 | f.route, 0xa, 0xb, 5, 0xc, who(0, f.model));
    PUT(&f, REQUEST_ATTR, 5, 8ull << 32 | SONDE__ATTR_DOUBLE << 24 | f.key, 1100, bits);
    PUT(&f, PROMPT, 5, 1200, 100, 60, 0, 0, who(0, 0));
    PUT(&f, TOKENS, 5, 1300, 3, 0, 0, 0, who(0, 0));
    PUT(&f, REQUEST_ERROR, 5, 3, text_word("oom"));
    PUT(&f, REQUEST_END, 1000, 9000, 0xa, 0xb, 5, 0xc, who(SONDE_ERROR, 0));
    drain(&f);
    assert_int_equal(seen_count, 5);

    const struct sonde_infer_event *e = &seen[0].e;
    assert_int_equal(e->type, SONDE_INFER_REQUEST);
    assert_int_equal(e->source, SONDE_INFER_API);
    assert_int_equal(e->pid, PID);
    assert_int_equal(e->tid, TID);
    assert_int_equal(e->id, 5);
    assert_int_equal(e->begin_ns, unix_ns(&f, 1000));
    assert_int_equal(e->time_ns, e->begin_ns);
    assert_string_equal(e->request.own_id, "req-17");
    assert_string_equal(seen[0].model, "llama");
    assert_string_equal(seen[0].route, "/v1/chat");
    assert_int_equal(e->request.tokens_max, 256);
    assert_int_equal(e->request.profile, 1);
    assert_int_equal(e->request.trace_hi, 0xa);
    assert_int_equal(e->request.trace_lo, 0xb);
    assert_int_equal(e->request.parent, 0xc);

    e = &seen[1].e;
    assert_int_equal(e->type, SONDE_INFER_ATTR);
    assert_string_equal(seen[1].key, "temperature");
    assert_true(e->attr.value.d > 0.69 && e->attr.value.d < 0.71);
    assert_int_equal(e->time_ns, unix_ns(&f, 1100));
    e = &seen[2].e;
    assert_int_equal(e->type, SONDE_INFER_PROMPT);
    assert_int_equal(e->prompt.count, 100);
    assert_int_equal(e->prompt.reused, 60);
    e = &seen[3].e;
    assert_int_equal(e->type, SONDE_INFER_TOKENS);
    assert_int_equal(e->tokens.count, 3);
    e = &seen[4].e;
    assert_int_equal(e->type, SONDE_INFER_END);
    assert_int_equal(e->end.outcome, SONDE_ERROR);
    assert_string_equal(e->end.error, "oom");
    assert_int_equal(e->time_ns, unix_ns(&f, 9000));

    /* It is a span of no thread, with its parameters. */
    const struct sonde_model_span *s = span_named(&f, "request");
    assert_non_null(s);
    assert_int_equal(s->tid, 0);
    assert_int_equal(s->id, 5);
    assert_int_equal(s->parent, 0xc);
    assert_int_equal(s->duration_ns, 8000);
    assert_int_equal(s->attr_count, 1);
    assert_string_equal(s->attrs[0].key, "temperature");
    fixture_release(&f);
}

static void phases(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    PUT(&f, PHASE, 1000, 3000, 0xa, 0xb, 42, 5, who(SONDE__PHASE_REQUEST, SONDE_PHASE_PREFILL));
    PUT(&f, PHASE, 3000, 4000, 0xa, 0xb, 0, 77, who(0, SONDE_PHASE_NAMED + f.phase));
    PUT(&f, PHASE, 100, 900, 0xa, 0xb, 0, 5,
        who(SONDE__PHASE_REQUEST | SONDE__PHASE_ELSEWHERE, SONDE_PHASE_QUEUE));
    PUT(&f, PHASE, 100, 900, 0, 0, 0, 5, who(SONDE__PHASE_REQUEST, SONDE_PHASE_NAMED + 9999));
    PUT(&f, PHASE, 900, 100, 0, 0, 0, 5, who(SONDE__PHASE_REQUEST, 33)); /* no such kind */
    drain(&f);
    assert_int_equal(seen_count, 5);
    assert_int_equal(seen[0].e.phase.kind, SONDE_PHASE_PREFILL);
    assert_string_equal(seen[0].name, "prefill");
    assert_int_equal(seen[0].e.id, 5);
    assert_int_equal(seen[0].e.phase.tokens, 42);
    assert_int_equal(seen[0].e.begin_ns, unix_ns(&f, 1000));
    assert_int_equal(seen[0].e.time_ns, unix_ns(&f, 3000));
    assert_int_equal(seen[1].e.phase.kind, SONDE_PHASE_NAMED);
    assert_string_equal(seen[1].name, "rerank");
    assert_int_equal(seen[1].e.id, 0);
    assert_int_equal(seen[2].e.tid, 0);
    assert_string_equal(seen[3].name, "(unnamed)");
    assert_true(seen[4].e.begin_ns > seen[4].e.time_ns); /* for who judges it */

    const struct sonde_model_span *s = span_named(&f, "prefill");
    assert_int_equal(s->tid, TID);
    assert_int_equal(s->parent, 5);
    assert_int_equal(s->duration_ns, 2000);
    assert_int_equal(s->id, sonde__phase_id(1000, 5, TID, SONDE_PHASE_PREFILL));
    assert_int_equal(span_named(&f, "queue")->tid, 0);
    assert_int_equal(span_named(&f, "rerank")->parent, 77);
    fixture_release(&f);
}

static void batches(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    const uint64_t id = sonde__phase_id(1000, 0, TID, SONDE__PHASE_BATCH);
    PUT(&f, BATCH_PART, id, 1, 90ull << 32, 2, 1, 3, 1);
    PUT(&f, BATCH_PART, 4711, 8, 1, 9, 1, 0, 0); /* of another, which never ends */
    PUT(&f, BATCH_PART, id, 4, 1, 0, 0, 0, 0);
    PUT(&f, BATCH, 1000, 5000, 0xa, 0xb, 90ull << 32 | 3, 0, who(0, 4));
    const uint64_t one = sonde__phase_id(6000, 0, TID, SONDE__PHASE_BATCH);
    PUT(&f, BATCH_PART, one, 7, 1, 0, 0, 0, 0);
    PUT(&f, BATCH, 6000, 7000, 0xa, 0xb, 1, 0, who(0, 1));
    drain(&f);
    assert_int_equal(seen_count, 7);
    for (uint64_t i = 0; i < 4; i++) { /* parts before their batch */
        const struct sonde_infer_event *e = &seen[i].e;
        assert_int_equal(e->type, SONDE_INFER_PART);
        assert_int_equal(e->id, i + 1);
        assert_int_equal(e->part.prompt, i ? 0 : 90);
        assert_int_equal(e->part.output, i ? 1 : 0);
        assert_int_equal(e->part.all, 93);
        assert_int_equal(e->part.requests, 4);
        assert_int_equal(e->begin_ns, unix_ns(&f, 1000));
        assert_int_equal(e->time_ns, unix_ns(&f, 5000));
    }
    assert_int_equal(seen[4].e.type, SONDE_INFER_BATCH);
    assert_int_equal(seen[4].e.batch.prompt, 90);
    assert_int_equal(seen[4].e.batch.output, 3);
    assert_int_equal(seen[4].e.batch.requests, 4);
    const struct sonde_model_span *s = span_named(&f, "prefill"); /* what most of it was */
    assert_int_equal(s->id, id);
    assert_int_equal(s->parent, 0);
    assert_int_equal(s->part_count, 4);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(s->parts[i].request, i + 1);
        assert_int_equal(s->parts[i].tokens_in, i ? 0 : 90);
        assert_int_equal(s->parts[i].tokens_out, i ? 1 : 0);
    }
    s = span_named(&f, "decode");
    assert_int_equal(s->parent, 7); /* of one request: its own */
    assert_int_equal(s->part_count, 1);
    fixture_release(&f);
}

static void models(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    PUT(&f, MODEL_LOAD, 1000, 5000, 4096, SONDE_OK, 0, 0, who(0, f.model));
    PUT(&f, MODEL_MEMORY, 6000, 1 << 20, 7, text_word("weights"), 0, 0, who(0, f.model));
    PUT(&f, MODEL_BACKEND, 6000, 0, 3, text_word("cpu"), 0, 0, who(0, f.model));
    PUT(&f, MODEL_KV, 7000, 3, 9, 0, 0, 0, who(0, f.model));
    PUT(&f, MODEL_WAITING, 8000, 4, 0, 0, 0, 0, who(0, 0));
    drain(&f);
    assert_int_equal(seen_count, 5);
    assert_int_equal(seen[0].e.type, SONDE_INFER_LOAD);
    assert_int_equal(seen[0].e.time_ns - seen[0].e.begin_ns, 4000);
    assert_int_equal(seen[0].e.load.bytes, 4096);
    assert_string_equal(seen[0].model, "llama");
    assert_int_equal(seen[1].e.type, SONDE_INFER_MEMORY);
    assert_string_equal(seen[1].e.memory.kind, "weights");
    assert_int_equal(seen[1].e.memory.bytes, 1 << 20);
    assert_int_equal(seen[2].e.type, SONDE_INFER_BACKEND);
    assert_string_equal(seen[2].e.backend.name, "cpu");
    assert_int_equal(seen[3].e.kv.used, 3);
    assert_int_equal(seen[3].e.kv.total, 9);
    assert_int_equal(seen[4].e.type, SONDE_INFER_WAITING);
    assert_int_equal(seen[4].e.waiting.requests, 4);
    assert_string_equal(seen[4].model, "");
    fixture_release(&f);
}

/* ---- Hostile ones --------------------------------------------------------------------------- */

/* Every type with words of all ones, all zeros, and lengths that lie; names that are none. */
static void hostile_words(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    static const uint64_t values[] = { 0, UINT64_MAX, 1, 0x8000000000000000ull,
                                       0xffffffff00000000ull, 0x00ff00ff00ff00ffull };
    for (uint64_t type = 0; type < 40; type++) {
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            uint64_t w[7];
            for (int i = 0; i < 7; i++) w[i] = values[v];
            put(&f, 1, type, w);
            w[1] = 1ull << 63 | 40; /* a length */
            put(&f, 1, type, w);
        }
    }
    drain(&f);
    assert_true(seen_count > 50);
    assert_int_equal(f.p->spans_lost, 0);
    fixture_release(&f);
}

/* Any words at all; sanitizers watch. */
static void random_words(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    uint64_t x = 12345;
    for (int i = 0; i < 4000; i++) {
        uint64_t w[7];
        for (int k = 0; k < 7; k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            /* Small ones as well, which are ids that meet. */
            w[k] = x & 1 ? x >> (x >> 1 & 63) : x >> 8 & 7;
        }
        put(&f, 1, (x >> 5) % 20, w);
    }
    drain(&f);
    assert_true(seen_count > 100);
    fixture_release(&f);
}

/* More parts and texts than are waited for. */
static void what_never_comes(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    for (uint64_t i = 1; i <= 3000; i++) PUT(&f, BATCH_PART, i, 1, 1, 2, 1, 3, 1);
    for (uint64_t i = 1; i <= 1000; i++) PUT(&f, REQUEST_ERROR, i, 5, text_word("error"));
    PUT(&f, REQUEST_END, 1, 2, 0, 0, 1000, 0, who(1, 0));
    PUT(&f, REQUEST_END, 1, 2, 0, 0, 1, 0, who(1, 0)); /* its text was given up */
    drain(&f);
    assert_int_equal(seen_count, 2);
    assert_string_equal(seen[0].e.end.error, "error");
    assert_string_equal(seen[1].e.end.error, "");
    fixture_release(&f);
}

static void nobody_listens(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    f.sink = NULL;
    PUT(&f, REQUEST, 1000, 0, 0, 0, 5, 0, who(0, f.model));
    PUT(&f, REQUEST_END, 1000, 9000, 0xa, 0xb, 5, 0xc, who(0, 0));
    drain(&f);
    assert_int_equal(seen_count, 0);
    assert_non_null(span_named(&f, "request")); /* spans come all the same */
    fixture_release(&f);
}

static void overrun_is_counted(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    PUT(&f, TOKENS, 5, 1300, 1, 0, 0, 0, who(0, 0));
    drain(&f);
    assert_int_equal(sonde_segment_fullest(f.s), 1);
    seen_count = 0;
    for (int i = 0; i < (int)SONDE__RING_RECS + 7; i++) {
        PUT(&f, TOKENS, 5, 1300, 1, 0, 0, 0, who(0, 0));
    }
    drain(&f);
    assert_int_equal(seen_count, SONDE__RING_RECS);
    assert_int_equal(f.p->spans_lost, 7);
    assert_int_equal(sonde_segment_fullest(f.s), SONDE__RING_RECS);
    drain(&f);
    assert_int_equal(sonde_segment_fullest(f.s), 0);
    fixture_release(&f);
}

/* Calls of llama.cpp wait until nothing earlier can come. Of those that say they are of the future
 * more than there is room for are worked out while the ring is still being read. */
static void calls_of_the_future(void **state)
{
    (void)state;
    enum { ROOM = 65536, OVER = 100 };
    struct fixture f;
    fixture_init(&f);
    const uint64_t later = f.clock.now_mono_ns + 3600000000000ull;
    for (uint32_t i = 1; i <= ROOM + OVER; i++) {
        PUT(&f, LLAMA_CALL, later, later + i, 0, 0, 0, 0, who(SONDE__LLAMA_MODEL_LOAD, 0));
        if (i % SONDE__RING_RECS == 0 || i == ROOM + OVER) drain_as(&f, 0);
    }
    assert_int_equal(f.p->spans_lost, 0);
    assert_int_equal(seen_count, OVER);
    for (uint32_t i = 0; i < OVER; i++) { /* the earliest of them */
        assert_int_equal(seen[i].e.type, SONDE_INFER_LOAD);
        assert_int_equal(seen[i].e.time_ns, unix_ns(&f, later + i + 1));
    }
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests),
        cmocka_unit_test(phases),
        cmocka_unit_test(batches),
        cmocka_unit_test(models),
        cmocka_unit_test(hostile_words),
        cmocka_unit_test(random_words),
        cmocka_unit_test(what_never_comes),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(overrun_is_counted),
        cmocka_unit_test(calls_of_the_future),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
