/* both.h - one load seen from both sides: the client's records and the requests that an agent saw,
 * joined, and the time to first token taken apart.
 *
 *   intended ─client─▶ sent ─network─▶ front ─▶ arrived ─queue─encode─prefill─first decode─▶ first
 *
 * What opening a connection took, if the request had to wait for one, is taken from the client's
 * part.
 *
 * All parts are measured but for the network, which is what the client waited from sending to the
 * first token less what the server says of the same time: so clocks need not agree. What the server
 * does not explain of its own time is the residual. The parts add up to the time to first token
 * from the schedule, request by request.
 *
 * Joined by the trace id that each request was sent with. Engines that do not know it (llama.cpp's
 * functions, seen by hooks) are joined by time if both sides have one clock: the request that
 * arrived first after this one was sent, before its first token came, with as many tokens. */
#ifndef SONDE_BENCH_HTTP_BOTH_H
#define SONDE_BENCH_HTTP_BOTH_H

#include <stddef.h>
#include <stdint.h>

#include "bench/http/bench.h"
#include "profile/infer.h"

#define SONDE_LOAD_PIECES(X)                                                                     \
    X(CLIENT, "client_queue", "client: due to sent")                                            \
    X(CONNECT, "connect", "client: TCP connection")                                             \
    X(TLS, "tls", "client: TLS handshake")                                                      \
    X(NETWORK, "network", "network and server's socket")                                        \
    X(FRONT, "front", "sonde's front")                                                          \
    X(QUEUE, "server_queue", "server: waiting")                                                 \
    X(ENCODE, "encode", "server: text to tokens")                                               \
    X(PREFILL, "prefill", "server: prefill")                                                    \
    X(DECODE, "first_decode", "server: first decode")                                           \
    X(RESIDUAL, "residual", "server: not explained")
enum sonde_load_piece {
#define SONDE__X(id, name, text) SONDE_LOAD_PIECE_##id,
    SONDE_LOAD_PIECES(SONDE__X)
#undef SONDE__X
    SONDE_LOAD_PIECE_COUNT
};
const char *sonde_load_piece_name(enum sonde_load_piece p);
const char *sonde_load_piece_text(enum sonde_load_piece p);

struct sonde_load_both {
    size_t measured;             /* requests of the steady window that streamed */
    size_t joined;               /* of them, that the server's side was found of */
    size_t by_time;              /* of those joined, by time and not by trace id */
    size_t timelines;            /* of those joined, that had a timeline: without, what the first
                                    decode took is in the residual */
    double ttft_mean_s;          /* of those joined, from the schedule */
    double mean_s[SONDE_LOAD_PIECE_COUNT], p95_s[SONDE_LOAD_PIECE_COUNT];
    int has_front;
    uint32_t pid;                /* of the engine; 0 = not known */
};

/* server: what the agent knows, in any order. one_clock: its times are those of this machine.
 * 0 or SONDE_ENOMEM. */
int sonde_load_both_join(const struct sonde_load_bench *b, const struct sonde_infer_request *server,
                         size_t count, int one_clock, struct sonde_load_both *out);

#endif
