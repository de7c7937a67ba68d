/* event_log.c - see event_log.h. Two buffers: one is filled, the other is written. */
#include "run/event_log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sonde/sonde.h"

enum { EVENTS_MAX = 8192, WRITE_MS = 50 };

struct event_log {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    struct engine_event *events;        /* that are being added to; the lock */
    size_t count;
    int ending;
    struct engine_event *writing;       /* of the thread */
    FILE *file;
    int failed;                  /* something could not be written, and that was said */
    uint64_t start;              /* ticks */
    pthread_t thread;
};

static const struct event_shape {
    const char *name;
    int lasts;                   /* it has a begin */
    const char *a, *b;           /* what its counts are called; NULL = it has none */
    const char *text;
} shapes[EVENT_KINDS] = {
    [EVENT_ARRIVAL] = { "arrival", 0, NULL, NULL, "route" },
    [EVENT_ENCODE] = { "encode", 1, "tokens", NULL, NULL },
    [EVENT_QUEUE] = { "queue", 1, NULL, NULL, NULL },
    [EVENT_PROMPT] = { "prompt", 0, "tokens", "reused", NULL },
    [EVENT_BATCH] = { "batch", 1, "batch", NULL, NULL },
    [EVENT_MEMBER] = { "member", 0, "prompt", "output", NULL },
    [EVENT_SAMPLE] = { "sample", 1, NULL, NULL, NULL },
    [EVENT_DETOKENIZE] = { "detokenize", 1, NULL, NULL, NULL },
    [EVENT_TOKEN] = { "token", 0, "n", NULL, NULL },
    [EVENT_END] = { "end", 0, "tokens", NULL, "outcome" },
};

/* Before the start is 0: a request may have come while the log was opened. */
static uint64_t event_ns(const struct event_log *l, uint64_t ticks)
{
    return ticks > l->start ? sonde_ticks_ns(ticks - l->start) : 0;
}

static void event_counts_write(FILE *f, const struct event_shape *s, const struct engine_event *e)
{
    if (s->a) fprintf(f, ",\"%s\":%" PRIu64, s->a, e->a);
    if (s->b) fprintf(f, ",\"%s\":%" PRIu64, s->b, e->b);
}

/* The event at i, and if it is a batch its members; where the next one is. */
static size_t event_write(const struct event_log *l, const struct engine_event *events, size_t i,
                          size_t count)
{
    FILE *f = l->file;
    const struct engine_event *e = &events[i++];
    const struct event_shape *s = &shapes[e->kind];
    fprintf(f, "{\"event\":\"%s\"", s->name);
    if (s->lasts) fprintf(f, ",\"begin\":%" PRIu64, event_ns(l, e->begin));
    fprintf(f, ",\"ns\":%" PRIu64, event_ns(l, e->at));
    if (e->kind != EVENT_BATCH) fprintf(f, ",\"request\":\"%s\"", e->request);
    event_counts_write(f, s, e);
    if (s->text) fprintf(f, ",\"%s\":\"%s\"", s->text, e->text ? e->text : "");
    if (e->kind == EVENT_END && e->error) fprintf(f, ",\"error\":\"%s\"", e->error);
    else if (e->kind == EVENT_END) fputs(",\"error\":null", f);
    if (e->kind == EVENT_BATCH) {
        fputs(",\"members\":[", f);
        for (const char *between = ""; i < count && events[i].kind == EVENT_MEMBER; between = ",") {
            fprintf(f, "%s{\"request\":\"%s\"", between, events[i].request);
            event_counts_write(f, &shapes[EVENT_MEMBER], &events[i]);
            fputc('}', f);
            i++;
        }
        fputc(']', f);
    }
    fputs("}\n", f);
    return i;
}

static void *event_log_thread(void *arg)
{
    struct event_log *l = arg;
    pthread_setname_np(pthread_self(), "event-log");
    for (int ending = 0; !ending;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WRITE_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&l->lock);
        while (!l->ending && l->count < EVENTS_MAX / 2) {
            if (pthread_cond_timedwait(&l->filled, &l->lock, &until) == ETIMEDOUT) break;
        }
        struct engine_event *events = l->events;
        const size_t count = l->count;
        l->events = l->writing;
        l->writing = events;
        l->count = 0;
        ending = l->ending;
        pthread_cond_broadcast(&l->emptied);
        pthread_mutex_unlock(&l->lock);
        for (size_t i = 0; i < count;) i = event_write(l, events, i, count);
        if (count && (fflush(l->file) || ferror(l->file)) && !l->failed) {
            l->failed = 1;
            perror("sonde-engine: the event log cannot be written, events are missing from it");
        }
    }
    return NULL;
}

int event_log_create(const char *path, struct event_log **out, struct fail *why)
{
    struct timespec now;
    struct event_log *l = calloc(1, sizeof(*l));
    if (!l) return fail_set(why, "out of memory");
    l->events = malloc(EVENTS_MAX * sizeof(*l->events));
    l->writing = malloc(EVENTS_MAX * sizeof(*l->writing));
    l->file = l->events && l->writing ? fopen(path, "we") : NULL;
    if (!l->file) {
        fail_set(why, "cannot write the event log %s: %s", path,
                 l->events && l->writing ? strerror(errno) : "out of memory");
        goto failed;
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->filled, NULL);
    pthread_cond_init(&l->emptied, NULL);
    clock_gettime(CLOCK_REALTIME, &now);
    l->start = sonde_ticks();
    fprintf(l->file, "{\"event\":\"start\",\"ticks\":%" PRIu64 ",\"unix_ns\":%lld%09ld}\n",
            l->start, (long long)now.tv_sec, now.tv_nsec);
    if (pthread_create(&l->thread, NULL, event_log_thread, l)) {
        fail_set(why, "cannot start the event log's thread");
        goto failed;
    }
    *out = l;
    return 0;

failed:
    if (l->file) fclose(l->file);
    free(l->events);
    free(l->writing);
    free(l);
    return -1;
}

void event_log_destroy(struct event_log *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->ending = 1;
    pthread_cond_signal(&l->filled);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    if (fclose(l->file) && !l->failed) perror("sonde-engine: the event log is not complete");
    pthread_cond_destroy(&l->filled);
    pthread_cond_destroy(&l->emptied);
    pthread_mutex_destroy(&l->lock);
    free(l->events);
    free(l->writing);
    free(l);
}

void event_log_put(struct event_log *l, const struct engine_event *events, size_t count)
{
    if (!l || !count || count > EVENTS_MAX) return;
    pthread_mutex_lock(&l->lock);
    while (l->count + count > EVENTS_MAX) {
        pthread_cond_signal(&l->filled);
        pthread_cond_wait(&l->emptied, &l->lock);
    }
    memcpy(l->events + l->count, events, count * sizeof(*events));
    l->count += count;
    if (l->count >= EVENTS_MAX / 2) pthread_cond_signal(&l->filled);
    pthread_mutex_unlock(&l->lock);
}
