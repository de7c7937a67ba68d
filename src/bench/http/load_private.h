/* load_private.h - what the files of the load generator share; nobody else includes it.
 *
 *   load.c       the run: options, threads, what they leave put together
 *   load_feed.c  requests out of the source, and their heads
 *   load_loop.c  one thread's event loop: what is due, timeouts, sleeping, the end
 *   load_conn.c  connections: connecting, writing, reading, and what becomes of a request
 *   load_tls.c   TLS of a connection: bytes of HTTP to records and back
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
    char host[256];              /* for certificates */
    int https;
    char path[2048];             /* with its query */
};

/* A request with its head. */
struct load_prepared {
    struct sonde_load_request request;
    uint64_t intended_ns;
    uint64_t trace[2];
    struct sonde_buf head;
};

enum load_conn_state { LOAD_CLOSED, LOAD_CONNECTING, LOAD_SHAKING, LOAD_IDLE, LOAD_BUSY };

/* TLS of a connection: load_tls.c. */
struct load_tls {
    struct ssl_st *ssl;          /* owned */
    char *held;                  /* owned: records that the kernel did not take yet */
    uint32_t held_at, held_len, held_cap;
    uint8_t done;                /* the handshake is */
    uint8_t failed;              /* nothing more may be asked of ssl */
    uint8_t spoke;               /* the first bytes of the server are TLS */
};

struct load_link { struct load_conn *before, *next; };
struct load_list { struct load_conn *first, *last; };

struct load_conn {
    struct load_loop *loop;
    int fd;
    struct load_tls *tls;        /* owned; NULL = plain, or not connected */
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
    uint64_t connect_ns;         /* when connecting began; of TLS, when the handshake did */
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
    struct sonde_load_setup setup;
    uint32_t *connects, *shakes; /* owned: how long connecting and handshakes took, in buckets of
                                    gaps */
    struct ssl_session_st *session; /* owned: the newest of the server's, to be resumed */
    char *sealed;                /* owned: what was read last, and not yet by ssl; NULL = plain */
    size_t sealed_at, sealed_len;
    uint64_t sent, done, failed; /* written by the loop, read by all */

    uint64_t stashes;            /* bytes of what is incomplete of all answers */
    struct sonde_http_head head;
    char buffer[LOAD_READ];
};

struct load_run {
    const struct sonde_load_options *options;
    struct load_target target;
    struct ssl_ctx_st *tls;      /* owned; NULL = plain */
    struct bio_method_st *tls_bio; /* owned */
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

/* ---- load_tls.c ------------------------------------------------------------------------------ */

/* What all connections share. 0 also where there is no TLS; SONDE_EINVAL, SONDE_ENOMEM. */
int load_tls_init(struct load_run *run, struct sonde_err *err);
void load_tls_release(struct load_run *run);
int load_tls_loop_init(struct load_loop *loop);
void load_tls_loop_release(struct load_loop *loop);

/* For a connection whose socket is connected. 0 or SONDE_ENOMEM. */
int load_tls_open(struct load_conn *c);
/* Says goodbye if it can, and frees it; the socket is still open. */
void load_tls_close(struct load_conn *c);

/* Reads the socket once, as recv does; then load_tls_shake and load_tls_read work off all of it. */
ssize_t load_tls_receive(struct load_conn *c);

enum load_tls_step { LOAD_TLS_MORE, LOAD_TLS_DONE, LOAD_TLS_OVER, LOAD_TLS_BROKEN };
/* The handshake, as far as it goes: MORE = the server has to speak; DONE; BROKEN = see *problem,
 * which was counted. */
enum load_tls_step load_tls_shake(struct load_conn *c, enum sonde_bench_tls_problem *problem);
/* DONE = *len bytes are in the loop's buffer; MORE = all was read; OVER = the server has said that
 * nothing follows; BROKEN as above. */
enum load_tls_step load_tls_read(struct load_conn *c, size_t *len,
                                 enum sonde_bench_tls_problem *problem);
/* Bytes of the request that were sealed and sent or held. -1 and errno: EAGAIN = the kernel takes
 * no more, or the server has to speak first; else it broke. */
ssize_t load_tls_write(struct load_conn *c);
/* Sends what is held. 1 = nothing is any more. */
int load_tls_flush(struct load_conn *c);
static inline int load_tls_holds(const struct load_tls *t) { return t->held_len != 0; }
/* Counts what kept a connection from being, and remembers the first. */
void load_tls_count(struct load_loop *loop, enum sonde_bench_tls_problem p, const char *detail);

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
