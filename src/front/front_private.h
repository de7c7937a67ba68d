/* front_private.h - what the files of the front share.
 *
 *     client.in ──▶ request parser ──▶ upstream.out      (head rewritten, body as it is)
 *     client.out ◀── response parser ◀── upstream.in
 *
 * Four buffers of one size, each filled only as far as it has room: that is the back-pressure.
 * front_pump moves bytes along both ways until nothing more can be moved; whatever happens to one
 * of the sockets (epoll, edge-triggered) sets its flags and pumps.
 *
 * A client has one proxied request at a time; those that it sends ahead wait in client.in. A
 * mirrored request is a client without a socket: its bytes come from memory and its answer is
 * dropped as soon as it has been looked at (mirror.c). Things
 * that are closed stay in memory until the events at hand are through, since those may name
 * them. */
#ifndef SONDE_FRONT_PRIVATE_H
#define SONDE_FRONT_PRIVATE_H

#include <arpa/inet.h>

#include "base/thread.h"
#include "front/front.h"
#include "front/http.h"
#include "front/poll.h"

/* A head and all that may be added to it: a prefix and fields of ours. */
#define FRONT_BUFFER (SONDE_HTTP_HEAD_MAX + (4u << 10))

struct front_bytes {
    char *data;                    /* FRONT_BUFFER bytes, or NULL: made on first use */
    uint32_t begin, end;           /* what is held */
};

enum front_kind { FRONT_LISTENER, FRONT_WAKE, FRONT_CLIENT, FRONT_UPSTREAM };

struct front_socket {              /* first member of what epoll points to */
    enum front_kind kind;
    int fd;
    int readable, writable;        /* as far as is known; cleared by EAGAIN */
    int hup;                       /* the other side has sent all it will */
    int eof;                       /* and it has been read; or reading failed … */
    int broken;                    /* … with an error */
    uint64_t read_ns;              /* when bytes were last read */
    uint64_t deadline_ns;          /* 0 = none */
    struct front_bytes in, out;
};

struct front_client;

struct front_upstream {
    struct front_socket s;
    struct sonde_front *front;
    struct front_client *client;   /* NULL = idle, in the pool */
    struct front_upstream *prev, *next; /* of its list */
    int b;                         /* leads to the second server: see sonde_front_options.ab */
    int own;                       /* leads to sonde's own server … */
    int64_t who;                   /* … for this one: see sonde_front_options.who */
    int connecting, reused, write_dead, dead;
    uint64_t idle_ns;              /* how long it may be idle */
    size_t address;                /* which one of the upstream's is tried */
    uint64_t sent, received;       /* bytes of this request and answer */
};

enum front_phase { FRONT_HEAD, FRONT_BODY, FRONT_TUNNEL, FRONT_DONE }; /* of the answer */

struct front_proxied {
    struct sonde_front_request r;
    int observed;                  /* r is told to the observer */
    int own;
    int is_head, http10, upgrade;  /* what was asked */
    int keep_alive;                /* the client's connection can go on after it */
    int continued;                 /* the upstream has said 100 */
    int head_passed;               /* the client has part of the answer */
    int dechunk;                   /* the client knows no chunks */
    int cut;                       /* close at once: the answer is not whole */
    int failed;                    /* r.outcome and r.error say how */
    int may_fall_back;             /* nothing of it has been looked at but its head … */
    uint32_t head_at;              /* … which is still there, in client.in.data */
    struct front_gather *gather;   /* what is to be mirrored, as far as it has come; or NULL */
    struct front_client *copy;     /* mirrored; NULL = it is not, or is over */
    uint64_t held_ns;              /* nothing goes to the upstream before then, or the observer's
                                      ready(); 0 = it may */
    unsigned trace_flags;
    struct sonde_http_body request, answer;
    struct sonde_http_head answer_head;
    enum front_phase phase;
    struct sonde_scan_request request_scan;
    struct sonde_scan_answer answer_scan;
};

/* The bytes of a request that is mirrored. Cap: sonde_front_ab.copy_bytes_max. */
struct front_gather {
    char *data;
    uint32_t len, room;            /* bytes held, and allocated */
    uint32_t read;                 /* of len */
    struct front_client *from;     /* whose request it is a copy of; NULL = that is over */
};

enum front_state { FRONT_IDLE, FRONT_BUSY, FRONT_LINGER, FRONT_DEAD };

struct front_client {
    struct front_socket s;
    struct sonde_front *front;
    struct front_client *prev, *next; /* of its list */
    struct front_client *next_again;
    struct front_client *quieter, *louder; /* IDLE: before and behind it in the list of those */
    uint64_t idle_ns;              /* IDLE: since then */
    int queued;                    /* to be pumped again */
    enum front_state state;
    char peer[INET6_ADDRSTRLEN];
    int64_t who;                   /* as in sonde_front_options … */
    int who_known;                 /* … once it is known */
    uint64_t arrived_ns;           /* first byte of the request at hand */
    struct sonde_http_head head;   /* of the request */
    struct front_upstream *up;
    struct front_gather *memory;   /* it is a copy: instead of a socket; NULL = it is not */
    struct front_proxied proxied;  /* BUSY */
};

/* Lists of upstream connections. */
enum { FRONT_IN_USE, FRONT_POOL, FRONT_POOL_B, FRONT_POOL_OWN, FRONT_BURIED, FRONT_LISTS };

struct sonde_front {
    struct sonde_front_options o;
    struct front_socket listener, wake; /* wake: an eventfd, written by stop */
    int epoll;
    int stopping;
    int listening;                 /* the listener is in epoll */
    uint64_t listen_again_ns;      /* out of descriptors: try then; 0 = when a client leaves */
    char name[24];                 /* ours in Via */
    struct front_client *clients, *dead_clients, *again;
    struct front_client *copies;   /* like clients; those of mirrored requests */
    uint64_t copy_bytes;           /* that they and what is gathered hold */
    uint64_t b_rests_ns;           /* B could not be reached: it is not tried before then */
    struct front_client *quietest, *loudest; /* those that are IDLE, by how long they have been */
    struct front_upstream *upstreams[FRONT_LISTS];
    struct sonde_front_state state;
    uint64_t last_id, ticked_ns, swept_ns;
    uint32_t held;                 /* requests that are: see held_ns */
    int changed;                   /* since the last tick */
    struct front_poll poll;
    struct sonde_thread thread;
};

static inline int front_is_for_b(const struct front_proxied *proxied)
{
    return proxied->r.arm == SONDE_FRONT_B && !proxied->r.fell_back[0];
}

static inline uint32_t front_held(const struct front_bytes *b) { return b->end - b->begin; }

/* ---- socket.c ----------------------------------------------------------------------------- */

uint64_t front_now_ns(void);
uint64_t front_unix_ns(void);

/* Room behind what is held, which is moved to the beginning if that makes some; 0 without
 * memory. */
uint32_t front_room(struct front_bytes *b);
void front_consume(struct front_bytes *b, uint32_t n);
void front_bytes_release(struct front_bytes *b);

/* Take part in the loop. 0 or -1. */
int front_watch(struct sonde_front *f, struct front_socket *s);
/* Read what fits. Bytes read, 0 = none, for whatever reason; eof says whether more may come. */
uint32_t front_read(struct front_socket *s);
/* Write what is held. Bytes written, 0 = none; *failed: the other side is gone. */
uint32_t front_write(struct front_socket *s, int *failed);

/* ---- front.c ------------------------------------------------------------------------------ */

/* Accept clients, or leave them in the kernel's queue. */
void front_listen(struct sonde_front *f, int on);

/* ---- client.c ----------------------------------------------------------------------------- */

void front_accept(struct sonde_front *f);
/* Move what can be moved. c may be closed afterwards, but is still there. */
void front_pump(struct front_client *c);
void front_client_close(struct front_client *c);
/* Its deadline has passed. */
void front_client_expire(struct front_client *c);
/* The request is over and reported: wait for the next request, or close. */
void front_client_next(struct front_client *c);
/* It has sent a request, or what is none: it is not quiet any more. */
void front_client_busy(struct front_client *c);
/* Pump it when all events at hand are through. */
void front_pump_later(struct front_client *c);
/* It is waiting for a request. */
void front_client_idle(struct front_client *c);

/* ---- proxy.c --------------------------------------------------------------------------- */

/* The head of a request is complete, or bad: c becomes BUSY. */
void front_begin(struct front_client *c);
/* Answer this to what is not even a request. */
void front_refuse(struct front_client *c, unsigned status, const char *message);
/* Towards the upstream, and back. Each returns whether anything moved; c may be closed. */
int front_pass_request(struct front_client *c);
int front_pass_answer(struct front_client *c);
/* The upstream has failed: an error, or the answer is cut off. why: for a label. */
void front_fail(struct front_client *c, unsigned status, const char *why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The client is gone, or has to go: ends its request and closes. */
void front_cancel(struct front_client *c, const char *why);
/* The rest of its request does not come: an error, if the answer has not begun. */
void front_stalled(struct front_client *c);
/* Its request may go to the upstream, if it was held. */
void front_let_go(struct front_client *c);
/* The client has the whole answer, or all it will get. */
void front_finish(struct front_client *c);
/* B cannot be reached: give the request to A, if it can be. 1 = that is done, the request may have
 * failed there; c->up is another one. */
int front_fall_back(struct front_client *c, const char *why);

/* ---- arm.c -------------------------------------------------------------------------------- */

/* Which server is to have it; r.route and r.trace are known. */
void front_arm_assign(struct front_client *c, const char *head);
/* The server that u leads to, or would. */
const struct sonde_front_upstream *front_arm_server(const struct front_upstream *u);

/* ---- mirror.c ----------------------------------------------------------------------------- */

/* The request that has arrived is to be mirrored: keep its head, then its body as it comes. What
 * cannot be kept is dropped and counted. */
void front_copy_gather(struct front_client *c, const char *head);
void front_copy_more(struct front_client *c, const char *data, size_t len);
/* All of it is there: send it, once those who wait for something have had their turn. */
void front_copy_launch(struct front_client *c);
/* c's request is over: what was gathered goes, and the copy too if its client has left. */
void front_copy_leave(struct front_client *c, int left);
/* Of a copy: the next bytes into c->s.in; how many. */
uint32_t front_copy_read(struct front_client *c);
void front_copy_expire(struct front_client *c);
/* Part of front_client_close. */
void front_copy_close(struct front_client *c);
/* All there are, at the end. */
void front_copy_cancel_all(struct sonde_front *f);

/* ---- upstream.c --------------------------------------------------------------------------- */

/* A connection for c's request, new or from the pool, maybe not established yet. 0, or -1 and the
 * request has failed, or front_fall_back has found another. */
int front_upstream_attach(struct front_client *c);
/* An attempt to connect has ended. */
void front_upstream_connected(struct front_upstream *u);
/* The connection has ended without an answer: try again if nothing was sent, else fail. */
void front_upstream_lost(struct front_client *c);
/* The head of the answer is there: see how long the connection may be kept. */
void front_upstream_keep_alive(struct front_client *c, const char *head);
/* The request is over: keep the connection for others, or not. */
void front_upstream_release(struct front_client *c, int reusable);
void front_upstream_close(struct front_upstream *u);
void front_upstream_expire(struct front_upstream *u);

/* ---- rewrite.c ---------------------------------------------------------------------------- */

/* The request's path and query within head, also where the request names the host with them. */
struct sonde_http_span front_target(const struct sonde_http_head *h, const char *head);
/* The request's head as the upstream gets it, into up->s.out, which is empty. -1: too long. */
int front_put_request(struct front_client *c, const char *head);
/* The answer's head as the client gets it, behind what c->s.out holds. -1: no room (yet). */
int front_put_answer(struct front_client *c, const char *head);
/* An answer of our own: {"error": {"message": …, "type": …}}. -1: no room. */
int front_put_error(struct front_client *c, unsigned status, const char *type,
                    const char *message);

#endif
