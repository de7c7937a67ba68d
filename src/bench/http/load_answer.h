/* load_answer.h - one answer of a server, followed as its bytes come: head, body, and what the
 * events in it say. No socket and no clock: load_conn.c hands bytes and the time they were read
 * at, so that tests and the fuzzer can hand others.
 *
 *   bytes ─▶ head (front/http.h) ─▶ body ─▶ document, lines or events ─▶ what one says
 *                                                                        (load_event.c)
 *
 * An event is read when it is complete, most of them where they were read from the socket. Only
 * what is incomplete when a piece ends is copied (the stash), with a cap. Rejected: the front's
 * scanner, which looks at each byte as it passes: it needs no stash, and four times the time. */
#ifndef SONDE_BENCH_HTTP_LOAD_ANSWER_H
#define SONDE_BENCH_HTTP_LOAD_ANSWER_H

#include "bench/http/load.h"
#include "front/http.h"

#define LOAD_STASH_MAX (1u << 20) /* bytes of an event, a line, or a document that is looked at */
#define LOAD_STASHES_MAX (256u << 20) /* bytes of all stashes that share a count */
#define LOAD_TEXT_MAX (1u << 20)  /* bytes of text that are kept for the source; then it is cut */
#define LOAD_SHAPE_MAX 2048u      /* bytes of an event around its text that are remembered */

/* ---- What an event says: load_event.c -------------------------------------------------------- */

enum load_says {
    LOAD_SAYS_TEXT = 1,
    LOAD_SAYS_REASONING = 2,
    LOAD_SAYS_TOOL = 4,
    LOAD_SAYS_END = 8,    /* that the answer ends with it */
    LOAD_SAYS_ERROR = 16,
    LOAD_SAYS_BAD = 32,   /* nothing: it is not JSON */
};
#define LOAD_SAYS_TOKEN (LOAD_SAYS_TEXT | LOAD_SAYS_REASONING | LOAD_SAYS_TOOL)

/* Events of one answer are alike but for their text. So the bytes before and behind the text of the
 * last are kept: of one that begins and ends with the same bytes, and has no quote between them,
 * nothing else can be different, and it need not be parsed. */
struct load_shape {
    char *bytes;            /* owned: before, then behind */
    uint32_t cap, before, behind;
    uint32_t says;          /* 0 = there is none */
};

struct load_event {
    struct sonde_load_record *record; /* token counts go there */
    struct sonde_buf *text;           /* gets the answer's text; NULL = it is not wanted */
    uint32_t processed_tokens;        /* llama.cpp's prompt_n: without cached ones */
    struct load_shape shape;
};

/* One document: bits of enum load_says. */
unsigned load_event_read(struct load_event *e, const char *data, size_t len);

/* ---- An answer ------------------------------------------------------------------------------- */

enum load_format { LOAD_PLAIN, LOAD_JSON, LOAD_LINES, LOAD_SSE };

struct load_answer {
    struct sonde_load_record *record; /* borrowed; times, counts and outcome go there */
    struct sonde_load_gaps *gaps;     /* borrowed; NULL = gaps are not counted */
    uint64_t answer_max;
    uint64_t *stashes;                /* borrowed: bytes of all stashes of a loop; NULL = of none */
    struct sonde_http_body body;
    struct load_event event;
    struct sonde_buf text;            /* of a source that wants it */
    char *stash;                      /* owned */
    uint32_t stash_len, stash_cap;
    /* Of the event at hand, from its first byte: the line, what has no line's end, the data. */
    uint32_t line_at, seek_at, data_at, data_len;
    uint32_t bad;                     /* events that are not JSON */
    uint8_t stage, format;
    uint8_t has_data, after_cr, lines_begun;
    uint8_t ended, failed;            /* by what its events say */
    uint8_t unread;                   /* a document too long to be looked at */
    uint8_t keep_alive;               /* over: the connection may be used again */
    uint8_t any;                      /* a byte of it has come */
};

void load_answer_init(struct load_answer *a);    /* of zeros */
void load_answer_release(struct load_answer *a);
/* Another one begins; what was allocated is used again. keep_text: text is collected. */
void load_answer_begin(struct load_answer *a, struct sonde_load_record *record,
                       struct sonde_load_gaps *gaps, uint64_t answer_max, int keep_text);

/* More of it, read at now_ns. data is written to: lines of an event are joined in it. head: where
 * heads are parsed, shared by all. Returns 1 when the answer is over: record->outcome says how. */
int load_answer_feed(struct load_answer *a, struct sonde_http_head *head, char *data, size_t len,
                     uint64_t now_ns);
/* The server has closed the connection: it is over. */
void load_answer_close(struct load_answer *a, uint64_t now_ns);
/* The connection is gone, and the server did not say that it had ended (TLS): an answer that only
 * its end would make whole is not. */
void load_answer_cut(struct load_answer *a, uint64_t now_ns);

/* ---- Gaps: load_gaps.c ----------------------------------------------------------------------- */

int load_gaps_init(struct sonde_load_gaps *g, uint64_t begin_ns, uint64_t width_ns);
void load_gaps_add(struct sonde_load_gaps *g, uint64_t at_ns, uint64_t gap_ns);
/* into has all of from too; both began at the same time. from may be left with wider windows. */
void load_gaps_merge(struct sonde_load_gaps *into, struct sonde_load_gaps *from);

#endif
