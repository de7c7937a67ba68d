/* scan.h - what requests and answers of inference servers say about themselves: which model, how
 * many tokens, which pieces of a stream carry text. Looks on while bytes pass by; see json_scan.h
 * for what that costs and what is kept (never a prompt, never an answer).
 *
 * Known are the bodies of OpenAI's chat, completions, embeddings and responses, llama.cpp's
 * /completion, Ollama's /api/chat and /api/generate, TGI's /generate_stream and Anthropic's
 * messages; told apart by what is in them, since servers mix them freely. */
#ifndef SONDE_FRONT_SCAN_H
#define SONDE_FRONT_SCAN_H

#include "front/json_scan.h"

/* ---- Requests ----------------------------------------------------------------------------- */

#define SONDE_SCAN_REQUEST_MAX (8u << 20) /* bytes of a request that are looked at */

struct sonde_scan_request {
    char model[SONDE_JSON_TEXT_MAX + 1];  /* "" = not said; bytes as they came */
    int stream;                           /* -1 = not said */
    int64_t max_tokens;                   /* -1 = not said */
    /* Private. */
    struct sonde_json_scan json;
    uint64_t bytes;
    uint32_t seen;
    int over;
};

void sonde_scan_request_init(struct sonde_scan_request *s);
void sonde_scan_request_feed(struct sonde_scan_request *s, const char *data, size_t len);

/* ---- Answers ------------------------------------------------------------------------------ */

enum sonde_scan_format {
    SONDE_SCAN_NOTHING,
    SONDE_SCAN_JSON,     /* one document */
    SONDE_SCAN_NDJSON,   /* one a line */
    SONDE_SCAN_SSE,      /* one an event, in its data */
};

/* What the server says that it did; -1 = it does not say. */
struct sonde_scan_usage {
    int64_t prompt_tokens, completion_tokens; /* cached ones are among the prompt's */
    int64_t cached_tokens;                    /* reused from an earlier prompt */
    int64_t reasoning_tokens;                 /* among completion_tokens */
    int64_t load_ns, prompt_ns, decode_ns;    /* times by the server's own clock */
};

struct sonde_scan_answer {
    enum sonde_scan_format format;
    uint64_t chunks;                      /* events or lines that carry text or a tool call */
    uint64_t bad;                         /* ones that are not JSON */
    int complete;                         /* its last event has been seen */
    int failed;                           /* it holds an error */
    char error[48];                       /* type or code of it; "" = none given */
    char model[SONDE_JSON_TEXT_MAX + 1];  /* "" = not said */
    struct sonde_scan_usage usage;
    /* Private. */
    struct sonde_json_scan json;
    int line_state, after_cr, has_text, has_data;
    uint32_t field_len, data_len, done_len;
    char field[8];
    uint64_t bytes;
    int64_t processed_tokens;             /* llama.cpp's prompt_n: without cached ones */
};

/* By the answer's Content-Type; NULL or something else: NOTHING. */
enum sonde_scan_format sonde_scan_format_of(const char *content_type, size_t len);

void sonde_scan_answer_init(struct sonde_scan_answer *s, enum sonde_scan_format format);
/* Returns how many events ended in this piece that carry text. */
unsigned sonde_scan_answer_feed(struct sonde_scan_answer *s, const char *data, size_t len);
/* The answer is over: what is not ended by an empty line counts too. Returns as feed does. */
unsigned sonde_scan_answer_end(struct sonde_scan_answer *s);

#endif
