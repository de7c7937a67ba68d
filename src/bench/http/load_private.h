/* load_private.h - what the files of the load generator share; nobody else includes it.
 *
 *   load.c       the run: options, threads, what they leave put together
 *   load_feed.c  requests out of the source, and their heads
 *   load_loop.c  one thread's event loop: what is due, timeouts, sleeping, the end
 *   load_conn.c  connections: connecting, writing, reading, and what becomes of a request
 *   load_url.c   where to */
#ifndef SONDE_BENCH_HTTP_LOAD_PRIVATE_H
#define SONDE_BENCH_HTTP_LOAD_PRIVATE_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/lock.h"
#include "base/thread.h"
#include "bench/draw.h"
#include "bench/http/load_answer.h"

enum {
    LOAD_AHEAD = 64,           /* requests that a loop has ready before they are due */
    LOAD_BLOCK = 4096,         /* records that are allocated at a time */
    LOAD_ADDRESSES = 8,
    LOAD_BATCH = 64,           /* events that the kernel hands over at a time */
    LOAD_READ = 64 << 10,      /* bytes read at a time */
    LOAD_SPARES = 4,           /* open loop: connections that wait for what is due next */
};
#define LOAD_SPIN_NS 200000u      /* of these a loop that spins does not sleep */
#define LOAD_AHEAD_NS 20000000u   /* requests are made ready so long before they are due */
#define LOAD_REFUSED_NS 10000000u /* closed loop: for so long nothing is sent after a refusal */
#define LOAD_UNSENT_MAX 10000000u

struct load_target {
    struct sockaddr_storage address[LOAD_ADDRESSES];
    size_t address_count;
    char authority[272];         /* host:port, for Host */
    char path[2048];             /* with its query */
};

/* A request with its head. */
struct load_prepared {
    struct sonde_load_request request;
    uint64_t intended_ns;
    uint64_t trace[2];
    struct sonde_buf head;
};

enum load_conn_state { LOAD_CLOSED, LOAD_CONNECTING, LOAD_IDLE, LOAD_BUSY };

struct load_link { struct load_conn *before, *next; };
struct load_list { struct load_conn *first, *last; };

struct load_conn {
    struct load_loop *loop;
    int fd;
    uint32_t index, generation;  /* generation: which of its sockets an event is of */
    uint8_t state;               /* enum load_conn_state */
    uint8_t has_request;         /* or it is a spare */
    uint8_t reused;              /* it was open and idle before its request came */
    uint8_t resent;
    uint8_t wants_out;           /* events of writing are asked for */
    uint8_t awaits_first;        /* it is in loop->awaiting */
    uint8_t broken;              /* writing failed: what can be read still counts */
    uint8_t address, tried;      /* which of the addresses; how many failed */
    uint32_t cancel_events;      /* broken off at so many events; 0 = not */
    struct load_link in_state;   /* in loop->idle, loop->closed or loop->busy */
    struct load_link in_first;   /* in loop->awaiting */
    uint64_t begun_ns;           /* the request was taken up */
    uint64_t connect_ns;         /* when connecting began */
    size_t written;
    struct load_prepared prepared;
    struct sonde_load_record record;
    struct load_answer answer;
};

struct load_run;

struct load_loop {
    struct load_run *run;
    struct sonde_thread thread;
    int error;                   /* 0, or why it broke off */
    int epoll;
    uint32_t places;             /* connections that it may have */
    uint32_t open, busy, idle_count;
    struct load_conn **conns;    /* owned */
    uint32_t conn_count, conn_cap;
    struct load_list idle, closed, under_way, awaiting;
    uint8_t address;             /* the one that worked last */

    struct load_prepared ring[LOAD_AHEAD];
    uint32_t ring_at, ring_count;
    int source_ended;
    uint64_t dry_serial;         /* there was nothing to get after so many had ended; +1, 0 = no */
    struct sonde_draw draw;      /* of trace ids */

    int sending;                 /* 0 = no more are sent */
    uint64_t now_ns, freed_ns, full_until_ns, hold_until_ns, spare_after_ns, stop_ns;
    uint64_t wait_ns;            /* before the events at hand: how long the first of them may have
                                    waited */

    struct sonde_load_record **blocks; /* owned, LOAD_BLOCK each */
    uint32_t block_count, block_cap;
    size_t record_count;
    struct sonde_load_gaps gaps;
    uint32_t *delays;            /* owned: time that events waited, in buckets of gaps */
    struct sonde_load_client client;
    uint64_t unsent;
    uint64_t sent, done, failed; /* written by the loop, read by all */

    uint64_t stashes;            /* bytes of what is incomplete of all answers */
    struct sonde_http_head head;
    char buffer[LOAD_READ];
};

struct load_run {
    const struct sonde_load_options *options;
    struct load_target target;
    struct sonde_buf fields;     /* of every head: what is the same in all */
    uint64_t begin_ns, answer_max;
    uint64_t key;                /* of trace ids: another one in each run */
    struct sonde_lock lock;      /* the source; below */
    struct sonde_cond ended;
    int source_ended;
    uint64_t done_serial;        /* requests that have ended; also read without the lock */
    uint32_t loops_ended;
    int stop;                    /* written by the caller's thread */
    struct load_loop *loops;     /* owned */
    uint32_t loop_count;
};

/* ---- load_url.c ------------------------------------------------------------------------------ */

int load_target_parse(const char *url, struct load_target *out, struct sonde_err *err);

/* ---- load_feed.c ----------------------------------------------------------------------------- */

int load_feed_init(struct load_run *run, struct sonde_err *err);
void load_feed_release(struct load_run *run);
/* The next request with its head: as the source's next; SONDE_ENOMEM. */
int load_feed_next(struct load_loop *loop, struct load_prepared *out);
/* It has ended. text NULL = none. */
void load_feed_done(struct load_loop *loop, const struct sonde_load_request *request,
                    const struct sonde_load_record *record, const struct sonde_buf *text);

/* ---- load_conn.c ----------------------------------------------------------------------------- */

/* Sends a request, over a connection that is there or a new one; there is a place for it. Takes
 * what is in *p, and leaves an empty one. */
void load_conn_send(struct load_loop *loop, struct load_prepared *p);
/* Opens one that waits for a request. */
void load_conn_open_spare(struct load_loop *loop);
void load_conn_event(struct load_conn *c, uint32_t events);
/* The request of a connection has ended by what we did: a timeout, the end of the run. */
void load_conn_break_off(struct load_conn *c, enum sonde_load_outcome outcome);
void load_conn_release_all(struct load_loop *loop);

/* ---- load_loop.c ----------------------------------------------------------------------------- */

int load_loop_init(struct load_loop *loop, struct load_run *run, uint32_t index, uint32_t places);
void load_loop_release(struct load_loop *loop);
void *load_loop_run(void *loop);
/* What became of a request goes to the records. */
void load_loop_keep(struct load_loop *loop, const struct sonde_load_record *record);

#endif
