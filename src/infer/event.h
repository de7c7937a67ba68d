/* event.h - one thing that happened to a request or to a model, whoever saw it: the C API of
 * inference.h through a process's segment, hooks, uprobes, or the HTTP front. What they mean
 * together is worked out by infer/tracker.h. */
#ifndef SONDE_INFER_EVENT_H
#define SONDE_INFER_EVENT_H

#include "model/model.h"
#include "profile/infer.h"

/* What each is about is in the member of the union that is called after it. */
enum sonde_infer_event_type {
    SONDE_INFER_REQUEST,   /* begin_ns = arrival */
    SONDE_INFER_END,
    SONDE_INFER_ATTR,
    SONDE_INFER_PROMPT,
    SONDE_INFER_TOKENS,
    SONDE_INFER_USAGE,
    SONDE_INFER_PHASE,     /* id 0 = of no one request; from begin_ns on */
    SONDE_INFER_BATCH,     /* of no request; from begin_ns on */
    SONDE_INFER_PART,      /* of a batch, before it */
    SONDE_INFER_LOAD,      /* from begin_ns on; this and those below are of a model */
    SONDE_INFER_MEMORY,
    SONDE_INFER_BACKEND,
    SONDE_INFER_KV,
    SONDE_INFER_WAITING,
    SONDE_INFER_EVENT_TYPES
};

enum sonde_infer_source { SONDE_INFER_API, SONDE_INFER_HOOK, SONDE_INFER_PROBE, SONDE_INFER_FRONT };

#define SONDE_INFER_TEXT 41 /* with the NUL */
#define SONDE_INFER_UNSAID UINT64_MAX

/* Texts that are pointed to are valid UTF-8 and borrowed; NULL is "", not known. */
struct sonde_infer_event {
    uint16_t type;                /* enum sonde_infer_event_type */
    uint16_t source;              /* enum sonde_infer_source */
    uint32_t pid, tid;            /* 0 = not known */
    uint64_t id;                  /* of the request: unique for its source and pid */
    uint64_t begin_ns, time_ns;   /* unix time; time_ns is when it happened, or ended, and what
                                     events are put in order by. begin_ns of an instant: the same */
    const char *model;
    union {
        struct {
            const char *route;
            uint64_t trace_hi, trace_lo, parent; /* 0 0: none */
            uint32_t tokens_max;  /* 0 = no limit is known */
            uint8_t profile;      /* it asks for a profile of it alone */
            uint8_t incomplete;   /* it began before that, at a time that is not known */
            char own_id[SONDE_INFER_TEXT]; /* the engine's; "" = none */
        } request;
        struct {
            uint32_t outcome;     /* enum sonde_outcome, or SONDE_INFER_LOST of profile/infer.h */
            uint8_t silent;       /* nobody said so: it may go on, and end again */
            char error[SONDE_INFER_TEXT]; /* its type; "" = none */
        } end;
        struct sonde_model_attr attr;
        struct {
            uint64_t count, reused; /* tokens; of which a cache had so many */
            uint64_t prefix;      /* how it begins (sonde/prefix.h); 0 = not known */
        } prompt;
        struct {
            uint64_t count;       /* that came out */
            uint64_t seq;         /* tells tokens of one thread at one time from what came twice;
                                     0 = the thread is enough for that */
        } tokens;
        struct {                  /* what a server says itself, SONDE_INFER_UNSAID each; it corrects
                                     what TOKENS said so far */
            uint64_t prompt, reused, output; /* tokens; output: of all of the answer */
        } usage;
        struct {
            uint32_t kind;        /* enum sonde_phase_kind; SONDE_PHASE_NAMED: see name */
            const char *name;     /* of a phase that has no kind of its own */
            uint64_t tokens;
        } phase;
        struct { uint64_t prompt, output; uint32_t requests; } batch; /* tokens of prompts; out */
        struct {
            uint64_t prompt, output; /* tokens of this request */
            uint64_t all;         /* of the whole batch */
            uint32_t requests;    /* in the batch */
        } part;
        struct { uint64_t bytes; uint32_t outcome; } load;
        struct { uint64_t bytes; char kind[SONDE_INFER_TEXT]; } memory;
        struct { char name[SONDE_INFER_TEXT]; } backend;
        struct { uint64_t used, total; } kv; /* cells */
        struct { uint64_t requests; } waiting;
    };
};

/* Where the reader of a segment puts events: the tracker (sonde_infer_sink), or a test. Called
 * under the model's write lock; e and its texts are borrowed. */
struct sonde_infer_sink {
    void (*event)(void *arg, struct sonde_model_process *p, const struct sonde_infer_event *e);
    void *arg;
};

#endif
