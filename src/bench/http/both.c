/* both.c - see both.h. */
#include "bench/http/both.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "infer/event.h"
#include "sonde/inference.h"
#include "sonde/sonde.h"

static const struct { const char *name, *text; } both_rows[] = {
#define SONDE__X(id, name, text) { name, text },
    SONDE_LOAD_PIECES(SONDE__X)
#undef SONDE__X
};

const char *sonde_load_piece_name(enum sonde_load_piece p) { return both_rows[p].name; }
const char *sonde_load_piece_text(enum sonde_load_piece p) { return both_rows[p].text; }

/* The server's side: by trace id, then by time; and those without one of ours by time alone. */
struct both_side {
    const struct sonde_infer_request **by_trace, **by_time; /* owned */
    unsigned char *taken;       /* owned: of by_time */
    size_t count, next;
};

/* What is known of one request. */
struct both_pair {
    const struct sonde_infer_request *front, *engine; /* NULL = not there */
    int by_time;
};

static int both_cmp_trace(const void *a, const void *b)
{
    const struct sonde_infer_request *x = *(const struct sonde_infer_request *const *)a,
                                     *y = *(const struct sonde_infer_request *const *)b;
    if (x->trace_hi != y->trace_hi) return SONDE_CMP(x->trace_hi, y->trace_hi);
    if (x->trace_lo != y->trace_lo) return SONDE_CMP(x->trace_lo, y->trace_lo);
    return SONDE_CMP(x->arrived_ns, y->arrived_ns);
}

static int both_cmp_time(const void *a, const void *b)
{
    const struct sonde_infer_request *x = *(const struct sonde_infer_request *const *)a,
                                     *y = *(const struct sonde_infer_request *const *)b;
    return SONDE_CMP(x->arrived_ns, y->arrived_ns);
}

static int both_side_init(struct both_side *s, const struct sonde_infer_request *server,
                          size_t count)
{
    s->by_trace = sonde__calloc(count + 1, sizeof(struct sonde_infer_request *));
    s->by_time = sonde__calloc(count + 1, sizeof(struct sonde_infer_request *));
    s->taken = sonde__calloc(count + 1, 1);
    if (!s->by_trace || !s->by_time || !s->taken) return SONDE_ENOMEM;
    for (size_t i = 0; i < count; i++) s->by_trace[i] = s->by_time[i] = &server[i];
    s->count = count;
    qsort(s->by_trace, count, sizeof(*s->by_trace), both_cmp_trace);
    qsort(s->by_time, count, sizeof(*s->by_time), both_cmp_time);
    return 0;
}

static void both_side_release(struct both_side *s)
{
    sonde__free(s->by_trace);
    sonde__free(s->by_time);
    sonde__free(s->taken);
}

static void both_find_trace(const struct both_side *s, const struct sonde_load_record *r,
                            struct both_pair *out)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        const size_t at = low + (high - low) / 2;
        const struct sonde_infer_request *q = s->by_trace[at];
        const int before = q->trace_hi != r->trace[0] ? q->trace_hi < r->trace[0]
                                                      : q->trace_lo < r->trace[1];
        if (before) low = at + 1;
        else high = at;
    }
    for (; low < s->count; low++) {
        const struct sonde_infer_request *q = s->by_trace[low];
        if (q->trace_hi != r->trace[0] || q->trace_lo != r->trace[1]) break;
        if (q->flags & SONDE_INFER_RUNNING) continue;
        if (q->source == SONDE_INFER_FRONT) out->front = q;
        else if (!out->engine || (q->items && !out->engine->items)) out->engine = q;
    }
}

/* Records come in order of when they were due, so what arrived long before is passed over. */
static void both_find_time(struct both_side *s, const struct sonde_load_record *r,
                           uint64_t offset_ns, struct both_pair *out)
{
    const uint64_t sent = r->sent_ns + offset_ns, first = r->first_ns + offset_ns;
    enum { SLACK_NS = 1000000000, LOOKED_MAX = 4096 };
    while (s->next < s->count && s->by_time[s->next]->arrived_ns + SLACK_NS < sent) s->next++;
    for (size_t i = s->next, looked = 0; i < s->count && looked < LOOKED_MAX; i++, looked++) {
        const struct sonde_infer_request *q = s->by_time[i];
        if (q->arrived_ns > first) return;
        if (q->arrived_ns < sent || s->taken[i] || q->source == SONDE_INFER_FRONT) continue;
        if (r->output_tokens != SONDE_LOAD_UNKNOWN && q->tokens_out != r->output_tokens) continue;
        s->taken[i] = 1;
        out->engine = q;
        out->by_time = 1;
        return;
    }
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static int both_piece_of(uint32_t kind)
{
    switch (kind) {
    case SONDE_PHASE_QUEUE: return SONDE_LOAD_PIECE_QUEUE;
    case SONDE_PHASE_ENCODE: return SONDE_LOAD_PIECE_ENCODE;
    case SONDE_PHASE_PREFILL: return SONDE_LOAD_PIECE_PREFILL;
    case SONDE_PHASE_DECODE:
    case SONDE_PHASE_SAMPLE:
    case SONDE_PHASE_DETOKENIZE: return SONDE_LOAD_PIECE_DECODE;
    default: return -1;
    }
}

/* What the engine did until its first token. Items of a timeline may overlap; each moment counts
 * once, for what began first. */
static void both_engine(const struct sonde_infer_request *q, double piece[SONDE_LOAD_PIECE_COUNT])
{
    double explained = 0;
    if (q->items) {
        const uint64_t end = q->arrived_ns + (uint64_t)(q->ttft_s * 1e9);
        uint64_t at = q->arrived_ns;
        for (uint32_t i = 0; i < q->item_count; i++) {
            const struct sonde_infer_item *it = &q->items[i];
            const int p = both_piece_of(it->kind);
            const uint64_t from = it->start_ns > at ? it->start_ns : at;
            const uint64_t to = it->end_ns < end ? it->end_ns : end;
            if (p < 0 || to <= from) continue;
            piece[p] += (double)(to - from) * 1e-9;
            at = to;
        }
    } else {
        piece[SONDE_LOAD_PIECE_QUEUE] = q->phase_s[SONDE_PHASE_QUEUE];
        piece[SONDE_LOAD_PIECE_ENCODE] = q->phase_s[SONDE_PHASE_ENCODE];
        piece[SONDE_LOAD_PIECE_PREFILL] = q->phase_s[SONDE_PHASE_PREFILL];
    }
    for (int p = SONDE_LOAD_PIECE_QUEUE; p < SONDE_LOAD_PIECE_RESIDUAL; p++) explained += piece[p];
    piece[SONDE_LOAD_PIECE_RESIDUAL] = q->ttft_s - explained;
}

static void both_pieces(const struct sonde_load_record *r, const struct both_pair *pair,
                        double piece[SONDE_LOAD_PIECE_COUNT])
{
    const struct sonde_infer_request *outer = pair->front ? pair->front : pair->engine;
    const double client = (double)(r->first_ns - r->sent_ns) * 1e-9;
    memset(piece, 0, SONDE_LOAD_PIECE_COUNT * sizeof(*piece));
    if (r->sent_ns > r->intended_ns) {
        /* A request that was sent again has time of a connection from after its first byte. */
        const double all = (double)(r->sent_ns - r->intended_ns) * 1e-9;
        const double tls = fmin(r->tls_ns * 1e-9, all);
        const double connect = fmin(r->connect_ns * 1e-9, all - tls);
        piece[SONDE_LOAD_PIECE_CLIENT] = all - tls - connect;
        piece[SONDE_LOAD_PIECE_CONNECT] = connect;
        piece[SONDE_LOAD_PIECE_TLS] = tls;
    }
    piece[SONDE_LOAD_PIECE_NETWORK] = client - outer->ttft_s;
    if (pair->engine) both_engine(pair->engine, piece);
    else piece[SONDE_LOAD_PIECE_RESIDUAL] = pair->front->ttft_s; /* the front sees no phases */
    if (pair->front && pair->engine) {
        piece[SONDE_LOAD_PIECE_FRONT] = pair->front->ttft_s - pair->engine->ttft_s;
    }
}

/* 1: an engine knows trace ids of ours. Then one that does not know a request has not seen it, and
 * to look for another that fits by time would find a wrong one. */
static int both_traced(const struct sonde_load_bench *b, const struct both_side *s)
{
    for (size_t i = 0; i < b->load.record_count; i++) {
        struct both_pair pair = { NULL, NULL, 0 };
        both_find_trace(s, &b->load.records[i], &pair);
        if (pair.engine) return 1;
    }
    return 0;
}

static void both_summary(struct sonde_load_both *out, double *rows, double *column)
{
    const size_t n = out->joined;
    for (size_t p = 0; p < SONDE_LOAD_PIECE_COUNT; p++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            column[i] = rows[i * SONDE_LOAD_PIECE_COUNT + p];
            sum += column[i];
        }
        qsort(column, n, sizeof(*column), sonde_cmp_double);
        out->mean_s[p] = n ? sum / (double)n : NAN;
        out->p95_s[p] = n ? column[(size_t)ceil(0.95 * (double)n) - 1] : NAN;
    }
}

int sonde_load_both_join(const struct sonde_load_bench *b, const struct sonde_infer_request *server,
                         size_t count, int one_clock, struct sonde_load_both *out)
{
    const struct sonde_load_result *load = &b->load;
    const uint64_t offset_ns = (uint64_t)(b->begin_unix_s * 1e9) - load->begin_ns;
    struct both_side side = { 0 };
    double ttft = 0;
    memset(out, 0, sizeof(*out));
    double *rows = sonde__calloc(load->record_count + 1, SONDE_LOAD_PIECE_COUNT * sizeof(*rows));
    double *column = sonde__calloc(load->record_count + 1, sizeof(*column));
    int rc = rows && column ? both_side_init(&side, server, count) : SONDE_ENOMEM;
    const int by_time = !rc && one_clock && !both_traced(b, &side);
    for (size_t i = 0; i < load->record_count && !rc; i++) {
        const struct sonde_load_record *r = &load->records[i];
        struct both_pair pair = { NULL, NULL, 0 };
        if (!sonde_load_measured(&b->measures, r) || !r->streamed || !r->first_ns) continue;
        out->measured++;
        both_find_trace(&side, r, &pair);
        if (!pair.engine && by_time) both_find_time(&side, r, offset_ns, &pair);
        const struct sonde_infer_request *outer = pair.front ? pair.front : pair.engine;
        if (!outer || !sonde_infer_has_ttft(outer)) continue;
        if (pair.engine && !sonde_infer_has_ttft(pair.engine)) pair.engine = NULL;
        if (!pair.front && !pair.engine) continue;
        both_pieces(r, &pair, rows + out->joined * SONDE_LOAD_PIECE_COUNT);
        ttft += (double)(r->first_ns - r->intended_ns) * 1e-9;
        out->joined++;
        out->by_time += pair.by_time != 0;
        out->timelines += pair.engine && pair.engine->items;
        out->has_front |= pair.front != NULL;
        if (pair.engine && pair.engine->pid) out->pid = pair.engine->pid;
    }
    if (!rc) both_summary(out, rows, column);
    out->ttft_mean_s = out->joined ? ttft / (double)out->joined : NAN;
    both_side_release(&side);
    sonde__free(rows);
    sonde__free(column);
    return rc;
}
