/* load_loop.c - the event loop of one thread; see load_private.h.
 *
 * A round sends what is due, breaks off what takes too long, makes ready what is due next, waits
 * for events, and handles them; and before each event it looks again at what is due, so that a
 * request waits for one event at most, not for all that the kernel handed over.
 *
 * Waiting: a thread that sleeps is woken some 50 to 100 µs late, so a loop that spins does not
 * sleep through the last 200 µs before something is due, but asks the kernel for events again and
 * again. Those that sleep ask for a timer slack of 1 ns, as the usual one is 50 µs.
 *
 * Connections of an open loop are opened before they are needed: while a server stalls each
 * request needs one more, and would be sent late by the time that connecting takes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "bench/http/load_private.h"
#include "sonde/sonde.h"

#define LOOP_NEVER UINT64_MAX

int load_loop_init(struct load_loop *loop, struct load_run *run, uint32_t index, uint32_t places)
{
    const struct sonde_load_options *o = run->options;
    /* Sub-windows so narrow that none need be merged, if it is known how long the run will be. */
    const uint64_t width_ns = o->duration_ns ? o->duration_ns / (SONDE_LOAD_GAP_WINDOWS / 2) + 1
                                             : 250000000u;
    loop->run = run;
    loop->places = places;
    loop->sending = 1;
    loop->draw.state = sonde_hash_u64(run->key + index);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll < 0) return SONDE_ENOMEM;
    loop->delays = sonde__calloc(sonde_load_gap_buckets(), sizeof(*loop->delays));
    loop->connects = sonde__calloc(sonde_load_gap_buckets(), sizeof(*loop->connects));
    loop->shakes = sonde__calloc(sonde_load_gap_buckets(), sizeof(*loop->shakes));
    if (!loop->delays || !loop->connects || !loop->shakes) return SONDE_ENOMEM;
    if (load_tls_loop_init(loop)) return SONDE_ENOMEM;
    return load_gaps_init(&loop->gaps, run->begin_ns, width_ns);
}

void load_loop_release(struct load_loop *loop)
{
    if (!loop->run) return;
    load_conn_release_all(loop);
    if (loop->epoll >= 0) close(loop->epoll);
    for (uint32_t i = 0; i < LOAD_AHEAD; i++) sonde_buf_release(&loop->ring[i].head);
    for (uint32_t i = 0; i < loop->block_count; i++) sonde__free(loop->blocks[i]);
    sonde__free(loop->blocks);
    sonde__free(loop->delays);
    sonde__free(loop->connects);
    sonde__free(loop->shakes);
    load_tls_loop_release(loop);
    sonde_load_gaps_release(&loop->gaps);
}

/* Blocks, not one array: moving that would stop the loop for milliseconds. */
void load_loop_keep(struct load_loop *loop, const struct sonde_load_record *record)
{
    const size_t at = loop->record_count % LOAD_BLOCK;
    if (at == 0) {
        if (SONDE_ARRAY_ROOM(loop->blocks, loop->block_count, loop->block_cap)) {
            loop->error = SONDE_ENOMEM;
            return;
        }
        struct sonde_load_record *block = sonde__alloc(LOAD_BLOCK * sizeof(*block));
        if (!block) {
            loop->error = SONDE_ENOMEM;
            return;
        }
        loop->blocks[loop->block_count++] = block;
    }
    loop->blocks[loop->block_count - 1][at] = *record;
    loop->record_count++;
    __atomic_store_n(&loop->done, loop->done + 1, __ATOMIC_RELAXED);
    if (record->outcome) __atomic_store_n(&loop->failed, loop->failed + 1, __ATOMIC_RELAXED);
}

/* ---- Requests that are due ------------------------------------------------------------------- */

static struct load_prepared *loop_ring_first(struct load_loop *loop)
{
    return &loop->ring[loop->ring_at % LOAD_AHEAD];
}

/* One more request out of the source. 1 if there was one. */
static int loop_pull(struct load_loop *loop)
{
    struct load_run *run = loop->run;
    if (loop->source_ended || loop->ring_count == LOAD_AHEAD) return 0;
    const uint64_t serial = __atomic_load_n(&run->done_serial, __ATOMIC_ACQUIRE) + 1;
    if (loop->dry_serial == serial) return 0;
    struct load_prepared *p = &loop->ring[(loop->ring_at + loop->ring_count) % LOAD_AHEAD];
    const int rc = load_feed_next(loop, p);
    if (rc == SONDE_EBUSY) loop->dry_serial = serial;
    else if (rc == SONDE_ENOENT) loop->source_ended = 1;
    else if (rc) loop->error = rc;
    if (rc) return 0;
    if (loop->dry_serial) loop->freed_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    loop->dry_serial = 0;
    loop->ring_count++;
    return 1;
}

/* Not sent: the source has it back. */
static void loop_return(struct load_loop *loop, uint64_t due_before_ns)
{
    const struct load_prepared *p = loop_ring_first(loop);
    const struct sonde_load_record r = {
        .intended_ns = p->intended_ns, .end_ns = loop->now_ns, .request = p->request.request,
        .outcome = SONDE_LOAD_CANCELLED,
    };
    if (loop->run->options->open && p->intended_ns < due_before_ns) loop->unsent++;
    load_feed_done(loop, &p->request, &r, NULL);
    loop->ring_at++;
    loop->ring_count--;
}

static void loop_send_due(struct load_loop *loop)
{
    const int open = loop->run->options->open;
    while (loop->sending && !loop->error) {
        if (loop->now_ns < loop->run->begin_ns) return;
        if (!open && loop->now_ns < loop->hold_until_ns) return;
        if (!open && loop->busy >= loop->places) return;
        if (!loop->ring_count && !loop_pull(loop)) return;
        struct load_prepared *p = loop_ring_first(loop);
        if (!open) {
            p->intended_ns = loop->freed_ns > loop->hold_until_ns ? loop->freed_ns
                                                                  : loop->hold_until_ns;
        } else if (p->intended_ns > loop->now_ns || loop->busy >= loop->places) {
            return;
        }
        if (open) {
            if (p->intended_ns < loop->full_until_ns) loop->client.starved++;
            else if (loop->now_ns - p->intended_ns > loop->client.late_max_ns) {
                loop->client.late_max_ns = loop->now_ns - p->intended_ns;
            }
        }
        load_conn_send(loop, p);
        loop->ring_at++;
        loop->ring_count--;
    }
}

/* When the next request is to be sent; LOOP_NEVER = an event has to come before. */
static uint64_t loop_next_due(struct load_loop *loop)
{
    if (!loop->sending) return LOOP_NEVER;
    if (loop->now_ns < loop->run->begin_ns) return loop->run->begin_ns;
    if (!loop->run->options->open) {
        const int waits = loop->busy < loop->places && loop->ring_count;
        return waits ? loop->hold_until_ns : LOOP_NEVER;
    }
    if (!loop->ring_count || loop->busy >= loop->places) return LOOP_NEVER;
    return loop_ring_first(loop)->intended_ns;
}

/* Requests and connections for what comes next, as long as nothing is due. */
static void loop_prepare(struct load_loop *loop)
{
    const struct sonde_load_options *o = loop->run->options;
    const uint32_t ahead = o->open ? LOAD_AHEAD : loop->places < 4 ? 1 : 4;
    while (loop->sending && loop->ring_count < ahead) {
        if (o->open && loop->ring_count) {
            const uint32_t last = loop->ring_at + loop->ring_count - 1;
            loop->now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
            if (loop->ring[last % LOAD_AHEAD].intended_ns > loop->now_ns + LOAD_AHEAD_NS) break;
            if (loop_next_due(loop) <= loop->now_ns) return;
        }
        if (!loop_pull(loop)) break;
    }
    if (!o->open || o->no_keep_alive || !loop->sending) return;
    const uint32_t unused = loop->open - loop->busy;
    if (unused < LOAD_SPARES && loop->open < loop->places && loop->now_ns >= loop->spare_after_ns &&
        loop_next_due(loop) > loop->now_ns + 30000) {
        load_conn_open_spare(loop);
    }
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void loop_time_out(struct load_loop *loop)
{
    const struct sonde_load_options *o = loop->run->options;
    struct load_conn *c;
    while (o->timeout_ns && (c = loop->under_way.first) &&
           c->begun_ns + o->timeout_ns <= loop->now_ns) {
        load_conn_break_off(c, SONDE_LOAD_TIMEOUT);
    }
    while (o->first_timeout_ns && (c = loop->awaiting.first) &&
           c->begun_ns + o->first_timeout_ns <= loop->now_ns) {
        load_conn_break_off(c, SONDE_LOAD_TIMEOUT);
    }
}

static uint64_t loop_earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* When the loop has to do something even if no event comes. */
static uint64_t loop_deadline(struct load_loop *loop)
{
    const struct sonde_load_options *o = loop->run->options;
    uint64_t at = loop->now_ns + 50000000u; /* a look at run->stop */
    if (o->timeout_ns && loop->under_way.first) {
        at = loop_earlier(at, loop->under_way.first->begun_ns + o->timeout_ns);
    }
    if (o->first_timeout_ns && loop->awaiting.first) {
        at = loop_earlier(at, loop->awaiting.first->begun_ns + o->first_timeout_ns);
    }
    if (loop->sending && o->duration_ns) {
        at = loop_earlier(at, loop->run->begin_ns + o->duration_ns);
    }
    if (!loop->sending) at = loop_earlier(at, loop->stop_ns);
    /* What another thread's request has made possible is not told by an event. */
    if (loop->dry_serial && loop->run->loop_count > 1) {
        at = loop_earlier(at, loop->now_ns + 1000000u);
    }
    return at;
}

/* 0 when the run is over for this loop. */
static int loop_goes_on(struct load_loop *loop)
{
    const struct load_run *run = loop->run;
    const struct sonde_load_options *o = run->options;
    const uint64_t end_ns = o->duration_ns ? run->begin_ns + o->duration_ns : LOOP_NEVER;
    const int stop = __atomic_load_n(&run->stop, __ATOMIC_RELAXED);
    if (loop->error) return 0;
    if (loop->sending && (stop || loop->now_ns >= end_ns)) {
        const uint64_t due_ns = loop_earlier(loop->now_ns, end_ns);
        loop->sending = 0;
        loop->stop_ns = loop->now_ns + o->drain_ns;
        while (loop->ring_count) loop_return(loop, due_ns);
        while (o->open && loop->unsent && loop->unsent < LOAD_UNSENT_MAX && loop_pull(loop)) {
            const int later = loop_ring_first(loop)->intended_ns >= due_ns;
            loop_return(loop, due_ns);
            if (later) break;
        }
    }
    if (loop->sending) return loop->busy || loop->ring_count || !loop->source_ended;
    while (loop->busy && loop->now_ns >= loop->stop_ns) {
        load_conn_break_off(loop->under_way.first, SONDE_LOAD_CANCELLED);
    }
    return loop->busy != 0;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static void loop_count_delay(struct load_loop *loop, uint64_t ns)
{
    uint32_t *count = &loop->delays[sonde_load_gap_bucket(ns)];
    *count += *count != UINT32_MAX;
}

/* Events, or none by the deadline. Returns how many. */
static int loop_wait(struct load_loop *loop, struct epoll_event *events)
{
    const int spin = loop->run->options->spin;
    const uint64_t round_began_ns = loop->wait_ns;
    loop->now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    const uint64_t asked_ns = loop->now_ns, due_ns = loop_next_due(loop);
    uint64_t until_ns = loop_deadline(loop);
    int spins = spin > 1 && (loop->busy || loop->sending);
    if (due_ns != LOOP_NEVER) {
        const uint64_t early_ns = spin && due_ns > LOAD_SPIN_NS ? due_ns - LOAD_SPIN_NS : due_ns;
        spins |= spin && early_ns <= asked_ns;
        until_ns = loop_earlier(until_ns, early_ns);
    }
    const uint64_t sleep_ns = spins || until_ns <= asked_ns ? 0 : until_ns - asked_ns;
    const struct timespec timeout = sonde_clock_timespec(sleep_ns);
    const int n = epoll_pwait2(loop->epoll, events, LOAD_BATCH, &timeout, NULL);
    loop->now_ns = loop->wait_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    if (n < 0 && errno != EINTR) loop->error = SONDE_EIO;
    const uint64_t took_ns = loop->now_ns - asked_ns;
    if (n <= 0) {
        /* What is longer than a look at the sockets takes was the kernel's, not ours. */
        if (spins && took_ns < 20000) loop->client.spun_ns += took_ns;
        return 0;
    }
    /* Events that were there already may have waited for all of the round before. */
    for (int i = 0; i < n; i++) {
        loop_count_delay(loop, took_ns < 3000 && round_began_ns ? asked_ns - round_began_ns : 0);
    }
    return n;
}

static void loop_handle(struct load_loop *loop, const struct epoll_event *events, int count)
{
    const uint64_t began_ns = loop->now_ns;
    for (int i = 0; i < count; i++) {
        struct load_conn *c = loop->conns[events[i].data.u64 >> 32];
        if (c->generation != (uint32_t)events[i].data.u64) continue; /* of a socket that is gone */
        load_conn_event(c, events[i].events);
        if (i) loop_count_delay(loop, loop->now_ns - began_ns);
        loop_send_due(loop);
    }
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* Time that this thread was ready to run while others had the CPU; 0 where the kernel does not
 * say. */
static uint64_t loop_queued_ns(void)
{
    char text[128];
    unsigned long long ran, queued;
    const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    return sscanf(text, "%llu %llu", &ran, &queued) == 2 ? queued : 0;
}

static void loop_account(struct load_loop *loop, int begin)
{
    struct sonde_load_client *c = &loop->client;
    struct rusage used;
    const uint64_t cpu_ns = sonde_clock_ns(CLOCK_THREAD_CPUTIME_ID), queued_ns = loop_queued_ns();
    const uint64_t now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    getrusage(RUSAGE_THREAD, &used);
    const uint64_t switches = (uint64_t)used.ru_nivcsw;
    c->cpu_ns = begin ? cpu_ns : cpu_ns - c->cpu_ns;
    c->wall_ns = begin ? now_ns : now_ns - c->wall_ns;
    c->queued_ns = begin ? queued_ns : queued_ns - c->queued_ns;
    c->involuntary = begin ? switches : switches - c->involuntary;
    if (begin) loop->now_ns = now_ns;
}

void *load_loop_run(void *arg)
{
    struct load_loop *loop = arg;
    struct load_run *run = loop->run;
    struct epoll_event events[LOAD_BATCH];
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    loop_account(loop, 1);
    loop->freed_ns = run->begin_ns;
    while (loop_goes_on(loop)) {
        loop_send_due(loop);
        loop_time_out(loop);
        loop_prepare(loop);
        const int n = loop_wait(loop, events);
        loop_send_due(loop);
        loop_handle(loop, events, n);
    }
    while (loop->busy) load_conn_break_off(loop->under_way.first, SONDE_LOAD_CANCELLED);
    while (loop->ring_count) loop_return(loop, 0);
    loop_account(loop, 0);
    sonde_lock(&run->lock);
    run->loops_ended++;
    sonde_cond_signal(&run->ended);
    sonde_unlock(&run->lock);
    return NULL;
}
