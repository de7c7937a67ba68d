/* load.h - requests sent to an HTTP server by a schedule, and when each of their bytes came.
 *
 * The load generator proper: it takes requests whose bytes are ready before they are due, sends
 * each at its time whatever the others do (open loop) or as places become free (closed loop),
 * follows the answers (JSON, lines of JSON, server-sent events), and leaves one record for each.
 * It computes no statistics: records and gaps do (measure.h).
 *
 *   schedule ──intended──▶ connection ──sent──▶ server ──head, first, …, last, end──▶ record
 *
 * All times are CLOCK_MONOTONIC in ns. "intended" is when the request should have been sent. What
 * is between intended and sent is the client's own delay: no free connection, or it was late. So
 * latency from the schedule is end - intended and the one from sending end - sent, and neither
 * hides a stall.
 *
 * Threads: each has an event loop of its own with its share of connections; the schedule is dealt
 * out in turn, so that what is sent when does not depend on how many there are.
 *
 * Memory is bounded: a record is fixed in size, gaps between events are counted in buckets by
 * sub-window of the run, and of an answer nothing is kept unless the source asks for it. */
#ifndef SONDE_BENCH_HTTP_LOAD_H
#define SONDE_BENCH_HTTP_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/trust.h"

/* What became of a request. All but OK are kept out of latencies. */
#define SONDE_LOAD_OUTCOMES(X)                                                                  \
    X(OK, "ok")                                                                                 \
    X(STATUS, "status")         /* an HTTP status other than 2xx */                             \
    X(ERROR, "error")           /* 2xx, but the answer holds an error */                        \
    X(CONNECT, "connect")       /* no connection */                                             \
    X(TLS, "tls")               /* a connection, but no TLS over it: bench/trust.h has why */   \
    X(RESET, "reset")           /* the connection broke before the answer's end */              \
    X(TRUNCATED, "truncated")   /* it ended in order, but too early: length, chunk, no [DONE] */\
    X(PROTOCOL, "protocol")     /* not HTTP, or events that are not what they should be */      \
    X(TOO_LONG, "too long")     /* a head, line or answer beyond the limits */                  \
    X(TIMEOUT, "timeout")       /* no first token, or no end, in time */                        \
    X(CANCELLED, "cancelled")   /* by us: on purpose (cancel_ratio), or when the run ended */
enum sonde_load_outcome {
#define SONDE__X(id, name) SONDE_LOAD_##id,
    SONDE_LOAD_OUTCOMES(SONDE__X)
#undef SONDE__X
    SONDE_LOAD_OUTCOME_COUNT
};
const char *sonde_load_outcome_name(enum sonde_load_outcome o);

#define SONDE_LOAD_UNKNOWN UINT32_MAX /* of a count that the server did not give */

struct sonde_load_record {
    uint64_t intended_ns;   /* by the schedule; in a closed loop when its place became free */
    uint64_t sent_ns;       /* its first byte was handed to the kernel; 0 = never */
    uint64_t head_ns;       /* the answer's head was complete; 0 = never, as with the others */
    uint64_t first_ns;      /* the first event that carries text, reasoning or a tool call */
    uint64_t content_ns;    /* the first that carries text that is not reasoning */
    uint64_t last_ns;       /* the last of all these */
    uint64_t end_ns;        /* the answer was complete, or it failed */
    uint64_t trace[2];      /* trace id that it was sent with */
    uint64_t bytes;         /* of the answer's body */
    uint32_t connect_ns;    /* that connecting took (at most 4 s are counted); 0 = it was there.
                               It ends before sent_ns, as does tls_ns */
    uint32_t request;       /* which of the source's requests it was */
    uint32_t events;        /* that carry text: chunks, which may be more than a token or less */
    uint32_t prompt_tokens, output_tokens, cached_tokens, reasoning_tokens; /* by the server's
                               usage; else SONDE_LOAD_UNKNOWN */
    uint16_t status;        /* of HTTP; 0 = none */
    uint8_t outcome;        /* enum sonde_load_outcome */
    uint8_t streamed;       /* the answer came in events */
    uint32_t tls_ns;        /* that the TLS handshake took after connecting; 0 = none */
    uint8_t tls_problem;    /* enum sonde_bench_tls_problem, of outcome TLS */
};

/* Gaps between events of one answer, counted in buckets of at most 1/512 of their value, by
 * sub-windows of the run; neighbouring windows are merged when there are too many, so that memory
 * does not grow with the run. */
#define SONDE_LOAD_GAP_WINDOWS 128u
struct sonde_load_gaps {
    uint64_t begin_ns, width_ns;     /* of the first window; width of each */
    size_t window_count;
    uint32_t *counts;                /* owned: window_count rows of sonde_load_gap_buckets() */
};
size_t sonde_load_gap_buckets(void);
size_t sonde_load_gap_bucket(uint64_t ns);
double sonde_load_gap_middle_ns(size_t bucket);
void sonde_load_gaps_release(struct sonde_load_gaps *g);

/* Where requests come from. next is called ahead of time, off the path of what is due. */
struct sonde_load_request {
    uint32_t request;        /* its number, for the record */
    uint64_t at_ns;          /* open loop: when it is due, from the begin of the run */
    const char *body;        /* borrowed until done; NULL = GET */
    size_t body_len;
    const char *path;        /* of this request; NULL = the one of the options */
    void *arg;               /* of the source's own, handed back by done */
    int keep_text;           /* the answer's text is wanted by done: of a chat's next turn */
};
struct sonde_load_source {
    /* The next request: 0; SONDE_ENOENT = there are no more; SONDE_EBUSY = none now, but when one
     * that is under way is done (turns of a chat). Called by one thread at a time. */
    int (*next)(struct sonde_load_source *s, struct sonde_load_request *out);
    /* It has ended, or was not sent as the run ended before (sent_ns is 0, and the result has no
     * record of it). text: what was kept of the answer; NULL = nothing. May be NULL itself. One
     * thread at a time, as with next; they exclude each other. */
    void (*done)(struct sonde_load_source *s, const struct sonde_load_request *r,
                 const struct sonde_load_record *record, const char *text, size_t text_len);
};

struct sonde_load_options {
    const char *url;             /* http[s]://HOST:PORT/PATH */
    const struct sonde_bench_trust *trust; /* of https; NULL = by the system's store */
    const char *const *headers;  /* "Name: value", NULL-terminated; NULL = none. Authorization … */
    struct sonde_load_source *source;
    int open;                    /* requests are sent when they are due (at_ns) */
    uint32_t connections_max;    /* requests at a time: the places of a closed loop; of an open one
                                    a limit beyond which requests wait and are late; 0 = 10,000 */
    uint32_t threads;            /* 0 = 1 */
    uint64_t duration_ns;        /* requests due later are not sent; 0 = until the source ends */
    uint64_t drain_ns;           /* for those under way when it is over, or progress says stop; then
                                    they are cancelled. When the source ends all are waited for */
    uint64_t timeout_ns;         /* from when it is taken up, connecting included, to the end; 0 =
                                    none */
    uint64_t first_timeout_ns;   /* likewise, to the first event; 0 = none */
    double cancel_ratio;         /* of requests that are broken off on purpose: after 1 to 32
                                    events, or at the head of an answer without events */
    uint64_t seed;
    int no_keep_alive;           /* a connection for each request */
    uint64_t answer_max;         /* bytes of an answer; 0 = 1 GiB */
    int spin;                    /* 1 = the last moments before something is due are not slept
                                    through: a core's worth of CPU time for a send error of
                                    microseconds; 2 = nor is waiting for answers */
    /* Called by the caller's thread about 10 times a second; 1 = stop sending now. NULL = never. */
    int (*progress)(void *arg, uint64_t elapsed_ns, uint64_t sent, uint64_t done, uint64_t failed);
    void *progress_arg;
};

/* How the client itself fared: what a verdict stands on. */
struct sonde_load_client {
    uint64_t cpu_ns, wall_ns;    /* of the threads that send; the busiest of them, and the run */
    uint64_t spun_ns;            /* of cpu_ns, spent waiting without sleeping */
    uint64_t late_max_ns;        /* the latest that a loop came to what was due */
    uint64_t starved;            /* requests that had to wait for a free connection */
    uint64_t ready_delay_p99_ns; /* time in which events that were ready waited for the loop, about
                                    (time of one round of the loop) */
    uint64_t involuntary;        /* times that the kernel took the CPU away from the threads */
    uint64_t queued_ns;          /* of wall_ns, that a thread was ready to run and others had the
                                    CPU: the most of any thread; 0 = none, or the kernel does not
                                    say */
    uint64_t resent;             /* requests that were sent a second time, as the server had closed
                                    the connection that they were to use */
};

/* How connections were opened, those that waited for a request included. */
struct sonde_load_setup {
    uint64_t opened;             /* ready to be written to */
    uint64_t connect_p50_ns, connect_p99_ns; /* of TCP; 0 = none was opened */
    int tls;                     /* they are TLS; all below is of it */
    int verified;                /* certificates were verified */
    uint64_t tls_p50_ns, tls_p99_ns;         /* of handshakes */
    uint64_t resumed;            /* of opened, by the session of an earlier one */
    uint64_t failed[SONDE_BENCH_TLS_PROBLEM_COUNT]; /* handshakes and connections */
    char version[16], cipher[64];            /* "TLSv1.3"; "" = none was opened */
    char why[400];               /* what failed first, and what to do; "" = nothing */
};

struct sonde_load_result {
    uint64_t begin_ns, end_ns;   /* first due, last done */
    struct sonde_load_record *records; /* owned; in order of intended_ns */
    size_t record_count;
    struct sonde_load_gaps gaps;
    struct sonde_load_client client;
    struct sonde_load_setup setup;
    uint64_t unsent;             /* due, and not sent before the run ended */
};

/* Runs the whole load; blocks until it is over. SONDE_EINVAL and why: a URL or trust that cannot be
 * used; SONDE_EIO: its host cannot be found. Requests that fail are records, not errors. */
int sonde_load_run(const struct sonde_load_options *o, struct sonde_load_result *out,
                   struct sonde_err *err);
void sonde_load_result_release(struct sonde_load_result *r);

#endif
