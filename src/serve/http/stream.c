/* stream.c - see stream.h.
 *
 * One thread renders all channels. Nobody tells it of ticks: it looks, some times a tick, as long
 * as there are readers; a hook in the collector would make ticks wait for whoever listens.
 *
 * An id is LIFE-TICK: the tick it was rendered at, and of which life of the agent. It stands in the
 * last event of a tick, so that a connection that breaks in between is resumed at the tick it broke
 * in. */
#include "serve/http/stream.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

enum {
    CHANNELS_MAX = 32,
    RING_MAX = 64,            /* ticks that are kept of a channel … */
    RING_BYTES = 1 << 20,     /* … and their bytes; the newest one is kept anyhow */
    TICK_BYTES_MAX = 4 << 20, /* of all events of one tick */
    HELD_BYTES = 64 << 20,    /* of pieces that only slow readers keep, of all of them together */
    LINGER_S = 60,            /* a channel without readers stays */
    BEAT_S = 10,              /* a reader gets something this often, so that both ends see a
                               * break */
    LOOK_MS_MAX = 100,
    RETRY_MS = 2000,
};

/* The events of a tick. */
struct stream_piece {
    unsigned users;           /* the ring, and readers in the midst of it */
    int in_ring;
    size_t *held;             /* of its streams */
    uint64_t tick;
    uint64_t after;           /* between this tick and its own there was nothing to tell */
    size_t len;
    char text[];
};

struct channel {
    struct sonde_http_request request; /* parameters are owned */
    sonde_stream_render *render;
    unsigned readers;
    double unused_s;          /* since when nobody reads */
    uint64_t tick;            /* that was rendered last; 0 = none was */
    uint64_t after;           /* since the tick behind this one there was nothing to tell … */
    int silent;               /* … and there was not in the last one */
    struct stream_piece *ring[RING_MAX];
    size_t first, count;      /* of those in the ring */
    size_t bytes;
};

struct sonde_stream {
    struct sonde_streams *streams;
    struct channel *channel;
    struct sonde_stream *before, *after;
    void *connection;
    void (*pause)(void *connection), (*resume)(void *connection);
    int paused, beat;
    double sent_s;            /* when something was read last */
    uint64_t tick;            /* of the last piece; 0 = none yet */
    struct stream_piece *piece;      /* that is being read */
    int cut;                  /* it was too slow: it ends */
    size_t at;
    char note[160];           /* that is read before the next piece */
    size_t note_len, note_at;
};

struct sonde_streams {
    struct sonde_lock lock;     /* of everything below */
    struct sonde_cond changed;
    struct sonde_collector *collector;
    struct channel *channels[CHANNELS_MAX];
    struct channel *rendered; /* by the thread, without the lock */
    struct sonde_stream *readers;
    unsigned reader_count, max;
    size_t held;              /* bytes of pieces that are in no ring any more */
    uint64_t life;
    long look_ms;             /* until the thread looks again */
    int stopping;
    struct sonde_thread thread;
};

/* ---- Pieces ---------------------------------------------------------------------------------- */

void sonde_stream_event(struct sonde_buf *out, const char *name, const char *data, size_t len)
{
    sonde_buf_printf(out, "event: %s\n", name);
    while (len && data[len - 1] == '\n') len--;
    for (const char *end = data + len;;) {
        const char *stop = memchr(data, '\n', (size_t)(end - data));
        sonde_buf_puts(out, "data: ");
        sonde_buf_add(out, data, (size_t)((stop ? stop : end) - data));
        sonde_buf_putc(out, '\n');
        if (!stop) break;
        data = stop + 1;
    }
    sonde_buf_putc(out, '\n');
}

static void release_piece(struct stream_piece *p)
{
    if (!p) return;
    assert(p->users > 0);
    if (--p->users) return;
    if (!p->in_ring) *p->held -= p->len;
    sonde__free(p);
}

/* What render makes, with the id in the last event; NULL = nothing (*silent), or out of memory. */
static struct stream_piece *make_piece(struct sonde_streams *s, const struct channel *c,
                                       uint64_t tick, int *silent)
{
    sonde_assert_none_held(); /* render may take any */
    static const char large[] =
        "{\"error\":\"more than a stream may carry: ask for less, by name\"}";
    struct sonde_buf text;
    struct stream_piece *p = NULL;
    sonde_buf_init(&text, TICK_BYTES_MAX);
    c->render(&c->request, &text);
    if (text.error == SONDE_EFULL) {
        sonde_buf_reset(&text);
        sonde_stream_event(&text, "error", large, sizeof(large) - 1);
    }
    *silent = !text.len && !text.error;
    if (text.len > 0 && !text.error) {
        text.len--; /* the empty line that ends the last event */
        sonde_buf_printf(&text, "id: %" PRIx64 "-%" PRIu64 "\n\n", s->life, tick);
    }
    if (text.len > 0 && !text.error) p = sonde__alloc(sizeof(*p) + text.len);
    if (p) {
        *p = (struct stream_piece){ .users = 1, .in_ring = 1, .held = &s->held, .tick = tick,
                                    .len = text.len };
        memcpy(p->text, text.data, text.len);
    }
    sonde_buf_release(&text);
    return p;
}

/* ---- Channels -------------------------------------------------------------------------------- */

static void drop_first(struct channel *c)
{
    assert(c->count > 0);
    struct stream_piece *p = c->ring[c->first];
    assert(p->in_ring && c->bytes >= p->len);
    c->first = (c->first + 1) % RING_MAX;
    c->count--;
    c->bytes -= p->len;
    p->in_ring = 0;
    *p->held += p->len;
    release_piece(p);
}

static void stream_append(struct channel *c, struct stream_piece *p)
{
    while (c->count && (c->count == RING_MAX || c->bytes + p->len > RING_BYTES)) drop_first(c);
    assert(c->count < RING_MAX && (!c->count || p->tick > p->after));
    c->ring[(c->first + c->count++) % RING_MAX] = p;
    c->bytes += p->len;
}

static void destroy_channel(struct channel *c)
{
    assert(!c->readers);
    while (c->count) drop_first(c);
    for (size_t i = 0; i < c->request.param_count; i++) {
        sonde__free((char *)c->request.params[i].name);
    }
    sonde__free(c);
}

static int stream_is_same(const struct channel *c, const struct sonde_http_request *r,
                          sonde_stream_render *render)
{
    if (c->render != render || c->request.param_count != r->param_count) return 0;
    for (size_t i = 0; i < r->param_count; i++) {
        if (strcmp(c->request.params[i].name, r->params[i].name) != 0 ||
            strcmp(c->request.params[i].value, r->params[i].value) != 0) {
            return 0;
        }
    }
    return 1;
}

/* A copy of r that nobody's connection owns. */
static struct channel *make_channel(const struct sonde_http_request *r, sonde_stream_render *render)
{
    assert(r->param_count <= SONDE_PARAMS_MAX);
    struct channel *c = sonde__calloc(1, sizeof(*c));
    if (!c) return NULL;
    c->render = render;
    c->request = *r;
    c->request.param_count = 0;
    c->request.accept = c->request.last_event_id = c->request.name = NULL;
    c->request.content_type = c->request.content_encoding = NULL;
    for (size_t i = 0; i < r->param_count; i++) {
        const size_t name = strlen(r->params[i].name) + 1, value = strlen(r->params[i].value) + 1;
        char *text = sonde__alloc(name + value);
        if (!text) {
            destroy_channel(c);
            return NULL;
        }
        memcpy(text, r->params[i].name, name);
        memcpy(text + name, r->params[i].value, value);
        c->request.params[c->request.param_count++] = (struct sonde_param){ text, text + name };
    }
    return c;
}

/* The channel for r, or room for one: -1 = there is none. */
static int find_slot(struct sonde_streams *s, const struct sonde_http_request *r,
                     sonde_stream_render *render)
{
    sonde_assert_held(&s->lock);
    int room = -1;
    for (int i = 0; i < CHANNELS_MAX; i++) {
        struct channel *c = s->channels[i];
        if (c && stream_is_same(c, r, render)) return i;
        if (!c) {
            room = i;
        } else if (!c->readers && c != s->rendered &&
                   (room < 0 || (s->channels[room] && c->unused_s < s->channels[room]->unused_s))) {
            room = i;
        }
    }
    return room;
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void stream_wake(struct sonde_stream *r)
{
    sonde_assert_held(&r->streams->lock);
    if (!r->paused) return;
    r->paused = 0;
    r->resume(r->connection);
}

static uint64_t tick_of(struct sonde_streams *s)
{
    struct sonde_model *m = sonde_collector_model(s->collector);
    sonde_rdlock(&m->lock);
    const uint64_t tick = m->tick;
    const double interval_ms = m->interval_s * 1e3;
    sonde_rwunlock(&m->lock);
    s->look_ms = interval_ms < 5 * LOOK_MS_MAX ? (long)(interval_ms / 5) + 1 : LOOK_MS_MAX;
    return tick;
}

/* Whoever does not read keeps a piece, and as many of them as there may be keep a gigabyte. So
 * those that have been silent for longest go; they come back and are told what they missed. */
static void cut_slowest(struct sonde_streams *s)
{
    sonde_assert_held(&s->lock);
    while (s->held > HELD_BYTES) {
        struct sonde_stream *slowest = NULL;
        for (struct sonde_stream *r = s->readers; r; r = r->after) {
            if (r->piece && !r->piece->in_ring && (!slowest || r->sent_s < slowest->sent_s)) {
                slowest = r;
            }
        }
        if (!slowest) return;
        release_piece(slowest->piece);
        slowest->piece = NULL;
        slowest->cut = 1;
    }
}

/* The lock is let go while it renders. */
static void render_tick(struct sonde_streams *s, struct channel *c, uint64_t tick)
{
    sonde_assert_held(&s->lock);
    assert(!s->rendered);
    int silent;
    s->rendered = c;
    sonde_unlock(&s->lock);
    struct stream_piece *p = make_piece(s, c, tick, &silent);
    sonde_lock(&s->lock);
    s->rendered = NULL;
    if (!c->silent || tick != c->tick + 1) c->after = tick - 1;
    c->silent = silent;
    c->tick = tick;
    if (!p) return;
    p->after = c->after;
    stream_append(c, p);
    cut_slowest(s);
    for (struct sonde_stream *r = s->readers; r; r = r->after) {
        if (r->channel == c) stream_wake(r);
    }
}

/* What is due; 1 if there are channels. */
static int stream_look(struct sonde_streams *s)
{
    sonde_assert_held(&s->lock);
    int any = 0;
    const double now = sonde_clock_s(CLOCK_MONOTONIC);
    sonde_unlock(&s->lock);
    const uint64_t tick = tick_of(s);
    sonde_lock(&s->lock);
    for (size_t i = 0; i < CHANNELS_MAX && !s->stopping; i++) {
        struct channel *c = s->channels[i];
        if (!c) continue;
        any = 1;
        if (!c->readers && now - c->unused_s > LINGER_S) {
            s->channels[i] = NULL;
            destroy_channel(c);
        } else if (c->tick < tick) {
            render_tick(s, c, tick);
        }
    }
    for (struct sonde_stream *r = s->readers; r; r = r->after) {
        if (!r->paused || now - r->sent_s < BEAT_S) continue;
        r->beat = 1;
        stream_wake(r);
    }
    return any;
}

static void *stream_run(void *arg)
{
    struct sonde_streams *s = arg;
    sonde_lock(&s->lock);
    while (!s->stopping) {
        if (!stream_look(s)) {
            if (!s->stopping && !s->readers) sonde_cond_wait(&s->changed, &s->lock);
            continue;
        }
        const struct timespec until = sonde_clock_timespec(
            sonde_clock_ns(CLOCK_MONOTONIC) + (uint64_t)s->look_ms * 1000000);
        if (!s->stopping) sonde_cond_timedwait(&s->changed, &s->lock, &until);
    }
    sonde_unlock(&s->lock);
    return NULL;
}

/* ---- Life ------------------------------------------------------------------------------------ */

int sonde_streams_create(struct sonde_collector *collector, unsigned max,
                         struct sonde_streams **out)
{
    assert(collector);
    struct sonde_streams *s = sonde__calloc(1, sizeof(*s));
    if (!s) return SONDE_ENOMEM;
    s->collector = collector;
    s->max = max;
    s->life = sonde_clock_ns(CLOCK_REALTIME) / 1000000;
    sonde_lock_init(&s->lock, SONDE_RANK_STREAMS);
    sonde_cond_init(&s->changed);
    if (sonde_thread_start(&s->thread, "sonde-streams", stream_run, s, NULL) == 0) {
        *out = s;
        return 0;
    }
    sonde_cond_destroy(&s->changed);
    sonde_lock_destroy(&s->lock);
    sonde__free(s);
    return SONDE_ENOMEM;
}

void sonde_streams_stop(struct sonde_streams *s)
{
    sonde_lock(&s->lock);
    const int first = !s->stopping;
    s->stopping = 1;
    sonde_cond_signal(&s->changed);
    sonde_unlock(&s->lock);
    if (first) sonde_thread_join(&s->thread);
    sonde_lock(&s->lock);
    for (struct sonde_stream *r = s->readers; r; r = r->after) stream_wake(r);
    sonde_unlock(&s->lock);
}

void sonde_streams_drain(struct sonde_streams *s, double seconds)
{
    const struct timespec until =
        sonde_clock_timespec_s(sonde_clock_s(CLOCK_MONOTONIC) + seconds);
    int rc = 0;
    sonde_lock(&s->lock);
    while (s->readers && rc == 0) rc = sonde_cond_timedwait(&s->changed, &s->lock, &until);
    sonde_unlock(&s->lock);
}

void sonde_streams_destroy(struct sonde_streams *s)
{
    if (!s) return;
    sonde_streams_stop(s);
    for (size_t i = 0; i < CHANNELS_MAX; i++) {
        if (s->channels[i]) destroy_channel(s->channels[i]);
    }
    sonde_cond_destroy(&s->changed);
    sonde_lock_destroy(&s->lock);
    sonde__free(s);
}

/* ---- Readers --------------------------------------------------------------------------------- */

/* Where a reader begins: behind the event it knows, else with the newest tick there is. */
static void stream_place(struct sonde_stream *r, const char *last_id)
{
    const struct channel *c = r->channel;
    const uint64_t newest = c->count ? c->ring[(c->first + c->count - 1) % RING_MAX]->tick : 0;
    char *dash, *end;
    r->tick = newest ? newest - 1 : 0;
    if (!last_id || strlen(last_id) > 40) return;
    const uint64_t life = strtoull(last_id, &dash, 16);
    if (*dash != '-' || life != r->streams->life) return;
    const uint64_t tick = strtoull(dash + 1, &end, 10);
    if (!*end && tick && tick <= newest) r->tick = tick;
}

static void add_reader(struct sonde_streams *s, struct sonde_stream *r, struct channel *c,
                       const char *last_id)
{
    sonde_assert_held(&s->lock);
    r->streams = s;
    r->channel = c;
    r->sent_s = sonde_clock_s(CLOCK_MONOTONIC);
    r->note_len = (size_t)snprintf(r->note, sizeof(r->note), "retry: %d\n\n", RETRY_MS);
    stream_place(r, last_id);
    c->readers++;
    r->after = s->readers;
    if (r->after) r->after->before = r;
    s->readers = r;
    s->reader_count++;
    sonde_cond_signal(&s->changed);
}

int sonde_streams_open(struct sonde_streams *s, const struct sonde_http_request *request,
                       sonde_stream_render *render, const char *last_id,
                       struct sonde_stream **out, struct sonde_err *err)
{
    struct sonde_stream *r = sonde__calloc(1, sizeof(*r));
    struct channel *made = make_channel(request, render);
    int rc = r && made ? 0 : sonde_err_memory(err);
    sonde_lock(&s->lock);
    const int slot = rc ? -1 : find_slot(s, request, render);
    if (!rc && (slot < 0 || s->reader_count >= s->max || s->stopping)) {
        rc = sonde_err_set(err, SONDE_EFULL,
                           slot < 0 ? "too many different streams: %u are open"
                                    : "too many streams: %u are open",
                           slot < 0 ? (unsigned)CHANNELS_MAX : s->reader_count);
    }
    if (!rc) {
        struct channel *there = s->channels[slot];
        if (!there || !stream_is_same(there, request, render)) {
            if (there) destroy_channel(there);
            there = s->channels[slot] = made;
            made = NULL;
        }
        add_reader(s, r, there, last_id);
        *out = r;
    }
    sonde_unlock(&s->lock);
    if (made) destroy_channel(made);
    if (rc) sonde__free(r);
    return rc;
}

void sonde_stream_bind(struct sonde_stream *r, void *connection, void (*pause)(void *connection),
                       void (*resume)(void *connection))
{
    sonde_lock(&r->streams->lock);
    r->connection = connection;
    r->pause = pause;
    r->resume = resume;
    sonde_unlock(&r->streams->lock);
}

/* The next piece into r; 0 = there is none. What is no longer there is told. */
static int next_piece(struct sonde_stream *r)
{
    const struct channel *c = r->channel;
    sonde_assert_held(&r->streams->lock);
    assert(!r->piece);
    for (size_t i = 0; i < c->count; i++) {
        struct stream_piece *p = c->ring[(c->first + i) % RING_MAX];
        if (p->tick <= r->tick) continue;
        if (r->tick && p->after > r->tick) {
            r->note_at = 0;
            r->note_len = (size_t)snprintf(r->note, sizeof(r->note),
                                           "event: gap\ndata: {\"after\":%" PRIu64
                                           ",\"before\":%" PRIu64 "}\n\n", r->tick, p->tick);
        }
        p->users++;
        r->piece = p;
        r->at = 0;
        r->tick = p->tick;
        return 1;
    }
    return 0;
}

static size_t stream_copy(char *out, size_t max, const char *text, size_t len, size_t *at)
{
    assert(*at <= len);
    const size_t n = len - *at < max ? len - *at : max;
    memcpy(out, text + *at, n);
    *at += n;
    return n;
}

/* 1 if there is something to copy. */
static int has_more(struct sonde_stream *r)
{
    if (r->note_at < r->note_len || r->piece || next_piece(r)) return 1;
    if (!r->beat) return 0;
    r->beat = 0;
    r->note_at = 0;
    r->note_len = (size_t)snprintf(r->note, sizeof(r->note), ":\n\n");
    return 1;
}

ssize_t sonde_stream_read(struct sonde_stream *r, char *out, size_t max)
{
    struct sonde_streams *s = r->streams;
    size_t n = 0;
    sonde_lock(&s->lock);
    if (s->stopping || r->cut) {
        sonde_unlock(&s->lock);
        return -1;
    }
    while (n < max && has_more(r)) {
        if (r->note_at < r->note_len) {
            n += stream_copy(out + n, max - n, r->note, r->note_len, &r->note_at);
        } else {
            n += stream_copy(out + n, max - n, r->piece->text, r->piece->len, &r->at);
            if (r->at < r->piece->len) continue;
            release_piece(r->piece);
            r->piece = NULL;
        }
    }
    if (n) {
        r->sent_s = sonde_clock_s(CLOCK_MONOTONIC);
        r->beat = 0;
    } else {
        r->paused = 1;
        r->pause(r->connection);
    }
    sonde_unlock(&s->lock);
    return (ssize_t)n;
}

void sonde_stream_close(struct sonde_stream *r)
{
    if (!r) return;
    struct sonde_streams *s = r->streams;
    sonde_lock(&s->lock);
    assert(s->reader_count > 0 && r->channel->readers > 0);
    if (r->before) r->before->after = r->after;
    else s->readers = r->after;
    if (r->after) r->after->before = r->before;
    s->reader_count--;
    if (--r->channel->readers == 0) r->channel->unused_s = sonde_clock_s(CLOCK_MONOTONIC);
    release_piece(r->piece);
    if (s->stopping) sonde_cond_signal(&s->changed); /* somebody may wait for the last to go */
    sonde_unlock(&s->lock);
    sonde__free(r);
}
