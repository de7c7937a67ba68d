/* segment.h - the shared-memory format between a recorded process and the agent.
 *
 *   file <pid>.<start>[.<n>]        <start>: field 22 of /proc/PID/stat; <n>: nth image after exec
 *                                   who may remove it, and when: life.h
 *
 *   0            struct sonde__header                    one page
 *   family_off   struct sonde__family [family_max]       append-only, 1 … family_count-1
 *   series_off   struct sonde__series [series_max]       append-only, 1 … series_count-1
 *   string_off   bytes                                   append-only
 *   lane_off     lanes, lane_stride bytes each           see below
 *   block_off     blocks of 64 bytes, handed out once     histograms, rings, label indexes, sampler
 *
 * The file is sparse and of full size from the start; every page is populated before it is
 * touched (on a full tmpfs a hole maps fine and kills the process when written). What has been
 * populated is counted in header.populated_bytes.
 *
 * Lanes. Lane 0 is common: gauges live there. Lanes 1 … lanes_shared are striped lanes that any
 * thread may add to with locked instructions; the others have one thread as their only writer
 * (owner_tid). A lane is a struct sonde__lane, then one 8-byte cell for each series:
 * lane + SONDE__CELLS_OFF + 8 * series id. Series 0 is the sink. A cell is
 *     counter    the lane's total; the series' value is the sum over lanes
 *     gauge      a double's bits; lane 0 only
 *     histogram  offset from the segment's start of the lane's struct sonde__hist, less
 *                SONDE__HIST_NONE; 0 = none
 * A thread that is gone leaves its lane as it is; the next owner continues the totals, so
 * nothing is ever folded, moved or zeroed, and a reader can take differences.
 *
 * Torn reads. A reader sees each 8-byte word whole. It may see a histogram's bucket before its
 * sum, or one lane later than another: each word alone never goes back, so sums do not either.
 *
 * Span rings. ring.reserve counts records ever reserved. A writer reserves index i, writes words
 * 1-7, then stores seq_type = (i + 1) << 8 | type with release. A reader that finds the
 * expected seq_type copies the record and then looks at reserve again: unless reserve <= i +
 * SONDE__RING_RECS the slot may have been written over while it was copied, and the record
 * counts as lost. A record that was reserved but never finished (SIGKILL, or a signal handler's
 * longjmp) keeps an old seq_type and is passed over once later ones are there.
 *   SPAN  start, end (ticks), trace_hi, trace_lo, id, parent,
 *         name_tid = tid << 32 | outcome << 24 | name's family id
 *   ATTR  span id, key | value type << 24 | length << 32, 40 bytes of value; before its span
 * Inference events (inference.h) go to the same rings; times are ticks, who = tid << 32 | name of
 * the model:
 *   REQUEST        arrival, tokens_max << 32 | profile << 24 | name of the route, trace_hi,
 *                  trace_lo, id, parent span, who
 *   REQUEST_END    as SPAN: the request is a span too, of no thread; its name is not stored
 *   REQUEST_ID     id, length, 40 bytes of text; just before its REQUEST
 *   REQUEST_ERROR  alike, just before its REQUEST_END
 *   REQUEST_ATTR   id, key | value type << 24 | length << 32, ticks, 32 bytes of value
 *   PROMPT         id, ticks, tokens, tokens reused, 0, 0, who
 *   TOKENS         id, ticks, tokens, 0, 0, 0, who
 *   PHASE          begin, end, trace_hi, trace_lo, tokens, parent, tid << 32 | flags << 24 | kind:
 *                  a span as well, whose id is sonde__phase_id. parent is the request's id if the
 *                  flags say so, else a span
 *   BATCH          begin, end, trace_hi, trace_lo, tokens of prompts << 32 | of outputs, parent,
 *                  tid << 32 | flags << 24 | requests in it: a span as well
 *   BATCH_PART     id of the batch's span, three times: request's id (0 = none), tokens of its
 *                  prompt << 32 | of its output; before their batch
 *   MODEL_LOAD     begin, end, bytes, outcome, 0, 0, who
 *   MODEL_MEMORY   ticks, bytes, length, 24 bytes of text, who
 *   MODEL_BACKEND  ticks, 0, length, 24 bytes of text, who
 *   MODEL_KV       ticks, cells used, cells in all, 0, 0, 0, who
 *   MODEL_WAITING  ticks, requests, 0, 0, 0, 0, who
 *
 * Calls of llama.cpp (llama.h), seen by libsonde_preload, go there as well; key = sonde__phase_id
 * of begin, object, tid and number of the function:
 *   LLAMA_CALL  begin, end, object, result, a, b, tid << 32 | function << 24 | parts before it
 *               a, b: the function's arguments [0] and [1], but for
 *               tokenize  bytes << 32 | room, last two tokens
 *               seq_rm    sequence, p0 << 32 | p1
 *               decode, encode  tokens, parts that did not fit
 *               perf      prompt ns, evaluation ns; its result is what [2] says
 *   LLAMA_PART  key, twice: shared << 63 | outputs implied << 62 | sequence << 32 | position,
 *               row << 40 | tokens << 20 | outputs (tokens 0 = none), last two tokens
 *   LLAMA_TEXT  key, offset << 32 | length, 40 bytes of text
 *   LLAMA_PASS  begin, 0, object, 0, 0, 0, tid << 32 | function << 24 | parts before it: a forward
 *               pass begins; its LLAMA_CALL follows when it has returned. Its parts go before
 *               either; 0 = they are not known yet
 *   LLAMA_KNOWN ticks, 0, context, model, memory, 0, tid << 32: what a context is of, again and
 *   again,
 *               since its first calls have been written over; a LLAMA_TEXT with the name of the
 *               model's file goes before it, key = sonde__phase_id of ticks, context, tid and 0
 *
 * The sampler. A process that libsonde_preload samples has one struct sonde__sampler among the
 * blocks, found through header.sampler, with one ring for all threads: timers on CPU time fire as
 * often as CPUs have ticks, so it is the number of CPUs that says how much room is needed, and
 * threads may come and go by thousands without lanes. Chunks of the ring follow the protocol of
 * span rings: a record reserves all its chunks at once and stores the first one's seq_type last.
 * The ring is populated as it is first gone through; what was not reserved yet may be a hole.
 *   SAMPLE  ticks, tid << 32 | overrun, depth | flags << 16 | left out << 32, then depth addresses,
 *           innermost first: 4 of them here, 7 in each MORE that follows. Of a stack of more than
 *           depth_max frames the outermost quarter and the innermost rest are kept
 *   MAP     start, end, file offset, length of the path, then the path: 24 bytes here, 56 in each
 *           MORE. Code that samples will be in; what it covers of older ones is gone
 *   THREAD  tid, CPU ns it used in all, name (16 bytes): a thread that has ended
 *   MORE    7 words
 * Among the addresses may be frames of Python, which are numbers that no address can be: python.h.
 *
 * Versions. abi changes whenever any of this does, but for what is appended to the header and means
 * nothing while it is zero; a reader refuses what it does not know. The
 * immutable part of the header, and each family and series, carries a check sum, so a damaged
 * file is refused rather than believed.
 *
 * Rejected: storing the rendered `name{labels} ` here. The agent must not trust text from
 * another process, so it renders (and escapes) once per series by itself.
 */
#ifndef SONDE_SEGMENT_SEGMENT_H
#define SONDE_SEGMENT_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/sonde.h"

#define SONDE__MAGIC 0x0a3165646e6f73ffull /* "\xffsonde1\n" */
#define SONDE__ABI 5u
#define SONDE__PAGE 4096u

/* Why records were dropped; header.drops is indexed by it. Append only. */
#define SONDE__DROPS(X)                                                                        \
    X(memory, "no memory left in the segment for a histogram, span ring or lane")              \
    X(series_table, "the segment's table of series is full")                                   \
    X(family_table, "the segment's table of families and names is full")                       \
    X(strings, "the segment's space for strings is full")                                      \
    X(label_cut, "a label value was cut or repaired (counted, not lost)")                      \
    X(reentrant, "a signal handler interrupted a definition")                                  \
    X(range, "a histogram value out of range was put in the last bucket (counted, not lost)")

enum {
#define SONDE__X(name, text) SONDE__DROP_##name,
    SONDE__DROPS(SONDE__X)
#undef SONDE__X
    SONDE__DROP_COUNT
};

struct sonde__header {
    /* Immutable: written before the file gets its name. */
    uint64_t magic;
    uint32_t abi;
    uint32_t check;        /* sonde__check of [0, SONDE__HEADER_FIXED) with check = 0 */
    uint64_t file_bytes;
    uint64_t start_time;   /* of the process, clock ticks since boot: /proc/PID/stat field 22 */
    uint32_t pid;          /* as the process sees itself */
    uint32_t uid;
    uint8_t boot_id[16];
    uint8_t exec_id[16];   /* AT_RANDOM: tells images of one pid apart */
    char program[64];      /* NUL-terminated, made valid UTF-8 */
    uint64_t family_off, series_off, string_off, string_max, lane_off, lane_stride, block_off,
             block_max;
    uint32_t family_max, series_max, lane_max, lanes_shared;
    uint32_t tsc;          /* ticks are the TSC; 0: nanoseconds of CLOCK_MONOTONIC */
    uint32_t parent_pid;   /* the process this one was forked from, if it recorded; else 0 */
    uint64_t tick0;        /* one instant on three clocks */
    uint64_t mono0_ns;
    uint64_t real0_ns;
    uint64_t bytes_max;    /* what populated_bytes may reach */
    uint32_t group;        /* process group when the segment was made; 0 = not known */
    uint32_t fixed_pad32;
    uint64_t pid_ns, time_ns; /* inodes of its namespaces, 0 = not known: struct sonde__here */

    /* Counts: release-stored by the define lock's holder. */
    uint32_t family_count __attribute__((aligned(64)));
    uint32_t series_count;
    uint32_t lane_count;   /* lanes ever populated */
    uint32_t cells_ready;  /* cells populated in every lane below lane_count */
    uint64_t string_used;

    /* Growth. */
    uint64_t block_used __attribute__((aligned(64)));   /* bytes handed out */
    uint64_t block_ready;                               /* bytes populated, or a sampler's */
    uint64_t populated_bytes;

    uint64_t heartbeat_ns __attribute__((aligned(64))); /* CLOCK_MONOTONIC, last slow path */
    uint64_t tick_ns_q32;  /* ns per tick * 2^32, as refined last */
    uint32_t closed;       /* 1: the process came to its normal end */

    uint32_t define_lock __attribute__((aligned(64))); /* tid of the holder; writers only */
    uint32_t copies;       /* copies of the library that attached, ever */
    uint64_t string_ready, family_ready, series_ready; /* bytes populated */
    uint64_t map_addr;     /* where the process has it mapped; shared by all its copies */
    uint64_t name_index;   /* families by name: offset of struct sonde__index; writers */
    uint32_t copies_live;  /* copies not unloaded yet */
    uint32_t silent;       /* 1: the program gave up system calls, no copy makes any */
    uint64_t sampler;      /* offset of struct sonde__sampler; 0 = not sampled */
    uint64_t heap;         /* offset of struct sonde__heap (heap.h); 0 = the heap is not profiled */

    uint64_t drops[SONDE__DROP_COUNT] __attribute__((aligned(64)));

    /* What the program calls itself (sonde_config.name), where its segment had been made before it
     * said so, by libsonde_preload. Once. All zero in segments of libraries that do not know it. */
    uint32_t named __attribute__((aligned(64))); /* enum sonde__named; release */
    char name[64];         /* as program, above */

    uint64_t python;       /* offset of struct sonde__python (python.h); 0 = none was met */
    uint64_t kernels;      /* offset of struct sonde__kernels (kernels.h); 0 = no GPU was used */
};

enum sonde__named { SONDE__NAMED_NOT, SONDE__NAMED_NOW, SONDE__NAMED };

#define SONDE__HEADER_FIXED offsetof(struct sonde__header, family_count)

_Static_assert(sizeof(struct sonde__header) <= SONDE__HIST_NONE,
               "the header leaves room in its page for the block of zeros");

struct sonde__str {     /* text in the string area */
    uint32_t off;       /* from string_off */
    uint32_t len;       /* without the NUL that follows */
};

enum { SONDE__TYPE_NAME = 4 };  /* beside enum sonde_type: a span or attribute name */

struct sonde__family {  /* 128 bytes */
    struct sonde__str name, help, unit, source;
    struct sonde__str labels;  /* packed: u16 length, bytes, per label name */
    struct sonde__str tags;    /* packed: name, value, name, value */
    double scale;
    uint32_t type;             /* enum sonde_type or SONDE__TYPE_NAME */
    uint32_t kind;             /* enum sonde_kind */
    uint32_t label_count, tag_count;
    uint32_t series_max;
    uint32_t check;            /* sonde__family_check */

    /* Mutable. */
    uint32_t series_count;     /* bound so far, the overflow series not counted */
    uint32_t overflow_series;  /* its series id; 0 = none yet */
    uint64_t overflowed;       /* binds that went to the overflow series */
    uint64_t index;            /* offset of struct sonde__index; 0 = none yet */
    uint64_t pad[3];
};
#define SONDE__FAMILY_FIXED offsetof(struct sonde__family, check)
_Static_assert(sizeof(struct sonde__family) == 128, "family is 128 bytes");

#define SONDE__SERIES_OVERFLOW 1u

struct sonde__series {  /* 64 bytes, immutable once counted */
    uint32_t family;
    uint32_t flags;
    struct sonde__str values;  /* packed label values, as in sonde__family.labels */
    uint64_t hash;             /* sonde__labels_hash of the values */
    uint64_t created_ns;       /* CLOCK_REALTIME */
    uint32_t check;            /* sonde__series_check */
    uint32_t pad[7];
};
#define SONDE__SERIES_FIXED offsetof(struct sonde__series, check)
_Static_assert(sizeof(struct sonde__series) == 64, "series is 64 bytes");

struct sonde__index {   /* open addressing, linear probing; never more than half full */
    uint32_t mask;      /* slots - 1 */
    uint32_t pad;
    struct sonde__index_slot {
        uint32_t tag;     /* high half of the hash */
        uint32_t series;  /* 0 = empty; release-stored */
    } slot[];
};

struct sonde__lane {
    uint32_t owner_tid;   /* 0 = free, or a shared lane */
    uint32_t owner_copy;  /* which copy of the library claimed it */
    uint64_t claims;      /* threads that have owned it */
    uint64_t ring;        /* offset from the segment's start of its sonde__ring; 0 = none */
    char pad[64 - 32];
    uint64_t hist_none;   /* always 0: what an undefined histogram handle reads */
};
#define SONDE__CELLS_OFF 64u
_Static_assert(sizeof(struct sonde__lane) == SONDE__CELLS_OFF, "cells follow the lane");
_Static_assert(sizeof(struct sonde__span_rec) == 64, "span records are 64 bytes");
_Static_assert(sizeof(struct sonde__hist) == 64 + 4 * SONDE__HIST_OCTAVES, "hist block");
_Static_assert(sizeof(struct sonde__gate) == SONDE__PAGE, "the gate has a page to itself");

/* ---- The sampler --------------------------------------------------------------------------- */

#define SONDE__SAMPLER_STATES(X)                                                               \
    X(RUNNING, "sampling")                                                                     \
    X(ENDED, "the program has come to its end")                                                \
    X(GAVE_WAY, "the program handles the signal that samples are taken with itself")           \
    X(NO_SIGNAL, "the program was started with the signals that samples can be taken with "    \
                 "ignored")                                                                    \
    X(NO_KEYS, "it has used up all thread-specific keys")                                      \
    X(SANDBOXED, "it has given up system calls that samples need (seccomp)")

enum sonde__sampler_state {
#define SONDE__X(name, text) SONDE__SAMPLER_##name,
    SONDE__SAMPLER_STATES(SONDE__X)
#undef SONDE__X
    SONDE__SAMPLER_STATE_COUNT
};

#define SONDE__DEPTH_MIN 4u         /* addresses kept of a sample */
#define SONDE__DEPTH_MAX 1024u
#define SONDE__MAP_PATH_MAX 1024u   /* bytes of a path; a longer one is left out */

enum {
    SONDE__CHUNK_SAMPLE = 1, SONDE__CHUNK_MAP, SONDE__CHUNK_THREAD, SONDE__CHUNK_MORE
};

#define SONDE__SAMPLE_TRUNCATED 1u  /* the stack does not reach the thread's start */
#define SONDE__SAMPLE_LATE 2u       /* the signal was blocked for a while: the time was spent
                                     * before */
#define SONDE__SAMPLE_CODE 4u       /* truncated in code that no table describes */

struct sonde__chunk {   /* 64 bytes */
    uint64_t seq_type;
    uint64_t word[7];
};

#define SONDE__SAMPLE_FIRST 4u      /* addresses in a sample's first chunk */
#define SONDE__MAP_FIRST 24u        /* bytes of the path in a map's first chunk */

struct sonde__sampler {
    /* Immutable. */
    uint64_t session;       /* what the agent that asked for it called it */
    uint64_t period_ns;     /* of CPU time, between samples of a thread */
    uint32_t chunk_count;   /* a power of two */
    uint32_t signal;
    uint64_t cpu_start_ns;  /* of the process, when sampling began */
    uint32_t depth_max;
    uint32_t pad0;
    uint64_t pad1[3];

    uint64_t reserve __attribute__((aligned(64))); /* chunks ever reserved */

    uint32_t state __attribute__((aligned(64)));   /* enum sonde__sampler_state */
    uint32_t pad2;
    uint64_t cpu_end_ns;    /* of the process, when sampling ended; 0 = it has not */
    uint64_t threads_refused;   /* threads that got no timer */
    uint64_t threads_skipped;   /* threads with too small an alternate signal stack, while so */
    uint64_t late;          /* samples whose signal had been blocked */
    uint64_t cut;           /* samples without callers, or missing, for lack of room on the
                               signal's stack or because code was being unloaded */
    uint64_t full;          /* samples that are missing since the ring could not be populated */
    uint64_t pad3;

    struct sonde__chunk chunk[] __attribute__((aligned(64)));
};
_Static_assert(sizeof(struct sonde__chunk) == 64, "chunks are 64 bytes");
_Static_assert(sizeof(struct sonde__sampler) == 192, "three lines, then chunks");

/* Chunks that a record takes. */
static inline uint32_t sonde__sample_chunks(uint32_t depth)
{
    return depth <= SONDE__SAMPLE_FIRST ? 1 : 1 + (depth - SONDE__SAMPLE_FIRST + 6) / 7;
}

static inline uint32_t sonde__map_chunks(uint32_t path_len)
{
    return path_len <= SONDE__MAP_FIRST ? 1 : 1 + (path_len - SONDE__MAP_FIRST + 55) / 56;
}

/* ---- Inference events: see "Span rings" above ------------------------------------------------ */

enum {                  /* beside SONDE__REC_SPAN and SONDE__REC_ATTR */
    SONDE__REC_REQUEST = 3, SONDE__REC_REQUEST_END, SONDE__REC_REQUEST_ID,
    SONDE__REC_REQUEST_ERROR, SONDE__REC_REQUEST_ATTR, SONDE__REC_PROMPT, SONDE__REC_TOKENS,
    SONDE__REC_PHASE, SONDE__REC_BATCH, SONDE__REC_BATCH_PART, SONDE__REC_MODEL_LOAD,
    SONDE__REC_MODEL_MEMORY, SONDE__REC_MODEL_BACKEND, SONDE__REC_MODEL_KV,
    SONDE__REC_MODEL_WAITING, SONDE__REC_LLAMA_CALL, SONDE__REC_LLAMA_PART, SONDE__REC_LLAMA_TEXT,
    SONDE__REC_LLAMA_PASS, SONDE__REC_LLAMA_KNOWN,
    SONDE__REC_COUNT
};

#define SONDE__PHASE_REQUEST 1u     /* the parent is a request */
#define SONDE__PHASE_ELSEWHERE 2u   /* it was not on the thread that told of it */

#define SONDE__BATCH_PARTS 3u       /* in one record */

/* The id of the span that a PHASE or BATCH is. Not stored, since the record has no room: both sides
 * make it of what is. Never 0. */
static inline uint64_t sonde__phase_id(uint64_t begin, uint64_t parent, uint32_t tid, uint32_t kind)
{
    uint64_t x = begin ^ (parent << 32 | parent >> 32) ^ ((uint64_t)tid << 24 | kind);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (x ^ (x >> 31)) | 1;
}
#define SONDE__PHASE_BATCH 0xffffffu /* kind of a batch, there */

#define SONDE__ATTR_INT 1u
#define SONDE__ATTR_DOUBLE 2u
#define SONDE__ATTR_STR 3u
#define SONDE__ATTR_BYTES 40u

/* ---- segment.c: what both sides compute alike --------------------------------------------- */

/* FNV-1a, 32 bits: finds flipped bits; not a defence. */
uint32_t sonde__check(uint32_t seed, const void *data, size_t len);
#define SONDE__CHECK_SEED 2166136261u

uint32_t sonde__header_check(const struct sonde__header *h);
/* strings: the string area; the caller has checked that every sonde__str lies in it. */
uint32_t sonde__family_check(const struct sonde__family *f, const char *strings);
uint32_t sonde__series_check(const struct sonde__series *s, const char *strings);

/* Offset of lane i. */
static inline uint64_t sonde__lane_at(const struct sonde__header *h, uint32_t i)
{
    return h->lane_off + (uint64_t)i * h->lane_stride;
}

extern const uint64_t sonde__hist_bound[64] __attribute__((visibility("hidden")));

/* Largest value of bucket p (index as in sonde__hist_bucket), in the exported unit. */
double sonde__hist_upper(uint32_t p);

/* What bucket p stands for. Recorded are whole multiples of scale (0 = not known): where just one
 * of them lies in the bucket, as with every count below 64, it is that; else the (geometric)
 * middle, 0.54 % from both bounds. */
double sonde__hist_middle(uint32_t p, double scale);

/* Default directory: $SONDE_DIR, else /dev/shm/sonde-<uid>, or one in /run if another user has made
 * that first (dir.c). 0, or SONDE_EINVAL if too long. */
#define SONDE__DIR_SHARED "/dev/shm/sonde-"
int sonde__dir_default(char *out, size_t out_size);

/* Start time of pid (field 22 of /proc/PID/stat), 0 if there is no such process. pid 0: this one,
 * also where /proc is of another pid namespace. Syscalls only. */
uint64_t sonde__start_time(uint32_t pid);

/* This boot's id as 16 bytes; all zero if it cannot be read. Syscalls only. */
void sonde__boot_id(uint8_t out[16]);

#endif
