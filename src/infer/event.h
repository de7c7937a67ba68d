/* event.h - one thing that happened to a request or to a model, whoever saw it: the C API of
 * inference.h through a process's segment, hooks, uprobes, or the HTTP front. What they mean
 * together is worked out by infer/tracker.h. */
#ifndef SONDE_INFER_EVENT_H
#define SONDE_INFER_EVENT_H

#include "model/model.h"
#include "sonde/phases.h"

/* Which fields mean something is said beside each; times and pid always do. */
enum sonde_infer_event_type {
    SONDE_INFER_REQUEST,   /* id, begin_ns = arrival, model, route, trace…, tokens_max, profile,
                              text = the engine's own id; value 1 = it began before that, at a
                              time that is not known */
    SONDE_INFER_END,       /* id, outcome (or SONDE_INFER_LOST of profile/infer.h), text = type of the error; value 1 = nobody said so, it is
                              silent: it may go on, and end again */
    SONDE_INFER_ATTR,      /* id, attr */
    SONDE_INFER_PROMPT,    /* id, tokens of the prompt, value = of which reused */
    SONDE_INFER_TOKENS,    /* id, tokens that came out */
    SONDE_INFER_USAGE,     /* id, what a server says itself: tokens of the prompt, value = of which
                              reused, tokens_out = all that came out; SONDE_INFER_UNSAID each.
                              Corrects what TOKENS said so far */
    SONDE_INFER_PHASE,     /* id (0 = of no one request), begin_ns, kind, name, tokens */
    SONDE_INFER_BATCH,     /* begin_ns, requests, tokens of prompts, tokens_out */
    SONDE_INFER_PART,      /* of a batch: id, begin_ns, requests, tokens, tokens_out of this one,
                              value = tokens of the whole batch */
    SONDE_INFER_LOAD,      /* model, begin_ns, value = bytes, outcome */
    SONDE_INFER_MEMORY,    /* model, text = kind, value = bytes */
    SONDE_INFER_BACKEND,   /* model, text */
    SONDE_INFER_KV,        /* model, value = cells used, total */
    SONDE_INFER_WAITING,   /* model, value = requests */
    SONDE_INFER_EVENT_TYPES
};

enum sonde_infer_source { SONDE_INFER_API, SONDE_INFER_HOOK, SONDE_INFER_PROBE, SONDE_INFER_FRONT };

#define SONDE_INFER_TEXT 41 /* with the NUL */
#define SONDE_INFER_UNSAID UINT64_MAX

struct sonde_infer_event {
    uint16_t type;                /* enum sonde_infer_event_type */
    uint16_t source;              /* enum sonde_infer_source */
    uint32_t pid, tid;            /* 0 = not known */
    uint64_t id;                  /* of the request: unique for its source and pid */
    uint64_t begin_ns, time_ns;   /* unix time; time_ns is when it happened, or ended, and what
                                     events are put in order by. begin_ns of an instant: the same */
    const char *model, *route;    /* "" = not known. Borrowed, valid UTF-8, as is name */
    const char *name;             /* of a phase that has no kind of its own; "" else */
    uint32_t kind;                /* enum sonde_phase_kind; SONDE_PHASE_NAMED: see name */
    uint32_t outcome;             /* enum sonde_outcome */
    uint64_t tokens, tokens_out;
    uint64_t value, total;
    uint32_t requests;
    uint32_t tokens_max, profile;
    uint64_t trace_hi, trace_lo, parent; /* 0 0: none */
    struct sonde_model_attr attr; /* ATTR; its key is borrowed */
    char text[SONDE_INFER_TEXT];
};

/* "queue" … for enum sonde_phase_kind; "" for others. */
static inline const char *sonde_phase_name(uint32_t kind)
{
    switch (kind) {
#define SONDE__X(id, name)                                                                     \
    case SONDE_PHASE_##id: return name;
        SONDE_PHASES(SONDE__X)
#undef SONDE__X
    default: return "";
    }
}

/* Where the reader of a segment puts events: the tracker (sonde_infer_sink), or a test. Called with
 * the model's write lock held; e and its texts are borrowed. */
struct sonde_infer_sink {
    void (*event)(void *arg, struct sonde_model_process *p, const struct sonde_infer_event *e);
    void *arg;
};

#endif
