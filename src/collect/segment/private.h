/* private.h - what the files that read a segment share. */
#ifndef SONDE_COLLECT_SEGMENT_PRIVATE_H
#define SONDE_COLLECT_SEGMENT_PRIVATE_H

#include "base/guarded_map.h"
#include "infer/event.h"
#include "collect/segment/read.h"

#define SEGMENT_HEAP_SERIES 11u
#define SEGMENT_PENDING_ATTRS 512u  /* attributes waiting for their span's end */
#define SEGMENT_PENDING_PARTS 4096u /* parts waiting for their batch's end */

struct segment_family {
    char *text;                   /* owned: all strings below */
    const char *name, *help, *unit, *source;
    const char *label[SONDE_LABELS_MAX];
    struct sonde_label tag[SONDE_LABELS_MAX];
    uint32_t label_count, tag_count;
    uint32_t type, kind;
    double scale;
    uint64_t overflowed;          /* as last seen */
    struct sonde_model_series *overflow;          /* sonde_series_overflow_total */
    struct sonde_model_series *duration[4];       /* names: by outcome */
};

/* One lane's block of one histogram, as last seen. */
struct segment_block { uint64_t off, sum, zero, ex_seq; };

struct segment_hist {
    struct segment_block *block;  /* by lane */
    uint32_t lanes;               /* of block */
    uint64_t zero, sum_raw;       /* over lanes, as last seen */
    uint64_t *octave[SONDE__HIST_OCTAVES];
};

struct segment_series {
    struct sonde_model_series *model; /* NULL = the model has no room for it */
    uint32_t family, type;
    uint64_t total;               /* counters: over lanes, as last seen */
    struct segment_hist *hist;
};

struct segment_ring {
    uint64_t off;                 /* 0 = none yet */
    uint64_t next;                /* index of the record to read next */
    uint64_t waits_ns;            /* CLOCK_MONOTONIC when record next was first found unfinished;
                                     0 = it was not */
    uint32_t first;               /* nothing of it has been read, and it may be older than we are */
    uint32_t gap;                 /* records before the next one were not read */
    uint32_t replayed;            /* calls of llama.cpp that another agent read were read again */
};

struct segment_attr {
    uint64_t span;                /* 0 = empty */
    uint32_t key, type, len;
    unsigned char bytes[SONDE__ATTR_BYTES];
};

struct segment_part {
    uint64_t batch;               /* 0 = empty */
    uint64_t request, tokens;     /* of its prompt << 32 | of its output */
};

/* A ring of chunks ("The sampler" in segment.h, and heap.h) and how far it has been read. */
struct segment_chunks {
    const struct sonde__chunk *chunk; /* in the mapping, as is the next */
    const uint64_t *reserve;
    uint32_t chunk_count;         /* a power of two */
    uint32_t waited;              /* drains that found the chunk at next unfinished */
    uint64_t next;                /* index of the chunk to read next */
    uint64_t records, chunks;     /* read */
    uint64_t lost;                /* chunks */
    uint64_t *words;              /* owned; scratch: one record */
};

struct segment_sampler {
    uint64_t off;                 /* 0 = none yet */
    struct segment_chunks ring;
};

struct segment_heap {
    uint64_t off;                 /* 0 = none yet */
    uint32_t nodes, sites, modules, lanes; /* as last counted: they only grow */
    struct segment_chunks ring;
};

struct sonde_segment {
    struct sonde_guarded_map map;
    const struct sonde__header *live;  /* in the mapping; counts are loaded with acquire */
    struct sonde__header h;            /* checked copy */
    int fresh;                         /* see sonde_segment_open */
    struct sonde_infer_sink sink;      /* of inference events; event NULL = nobody wants them */
    int tables_read, spans_read;       /* at least once */

    struct segment_family *family;
    uint32_t family_count, family_cap;
    struct segment_series *series;
    uint32_t series_count, series_cap;
    uint64_t *sum;                     /* scratch, series_cap of them */
    uint64_t *hist_sum;                /* scratch, SONDE__HIST_BUCKETS of them; while histograms
                                          are read */
    struct segment_ring *ring;         /* by lane */
    uint32_t ring_count;
    uint32_t ring_windows;             /* rings whose first page is mapped by itself */
    uint64_t rings_blocks;               /* bytes of blocks handed out when rings were looked for */
    struct segment_sampler sampler, kernels;
    struct segment_heap heap;
    struct segment_gpu *gpu;           /* kernel_series.c; with the first command */
    struct segment_attr *attr;         /* SEGMENT_PENDING_ATTRS; with the first attribute */
    uint32_t attr_next;
    uint64_t attrs_pending;
    struct segment_part *part;         /* SEGMENT_PENDING_PARTS; with the first part */
    uint32_t part_next;
    uint64_t parts_pending;
    struct sonde_model_part *told;     /* of the batch at hand, with one for the rest; alike */
    struct segment_llama *llama;       /* llama.c; with the first call */
    uint64_t llama_told, llama_told_ns;/* how far calls have been told of: last stamp, and unix
                                        * time */
    int llama_replay;                  /* … by another agent */
    struct sonde_model_series *request_duration[4];            /* by outcome */
    struct sonde_model_series *phase_duration[SONDE_PHASE_COUNT];
    uint32_t ring_fullest;             /* most records that the last drain found in a ring */

    uint64_t drops[SONDE__DROP_COUNT]; /* as last seen */
    struct sonde_model_series *dropped[SONDE__DROP_COUNT], *lost, *bytes;
    struct sonde_model_series *heap_series[SEGMENT_HEAP_SERIES]; /* heap.c; NULL = not yet */
};

/* Counts of the mutable header that all passes need, checked against the limits. */
struct segment_counts {
    uint32_t families, series, lanes, cells;
    uint64_t strings, block_end;        /* block_end: offset behind the populated block area */
};

/* What a drain of the rings works with. */
struct segment_drain {
    struct sonde_segment *s;
    struct sonde_model *m;
    struct sonde_model_process *p;
    const struct sonde_tick_clock *clock;
};

/* ---- drain.c ---- */

/* Room for the positions of so many lanes. 0 or SONDE_ENOMEM. */
int segment_rings_grow(struct sonde_segment *s, uint32_t lanes);
/* Look into all lanes for rings that are not known yet. 0 or SONDE_EFORMAT. */
int segment_rings_find(struct sonde_segment *s, struct sonde_err *err);

/* ---- span.c ---- */

/* A record of a span, and of an attribute, which waits for its span. */
void segment_span_record(struct segment_drain *d, const struct sonde__span_rec *r);
void segment_attr_record(struct sonde_segment *s, const struct sonde__span_rec *r);

/* NULL: there is no such name. */
const struct segment_family *segment_name(struct segment_drain *d, uint32_t id);
/* Keep a record as an attribute of the span whose id is its first word. */
void segment_attr_keep(struct sonde_segment *s, uint64_t span, uint32_t key, uint32_t type,
                       uint32_t len, const void *bytes);
/* Into the model, with the attributes that wait for it; *series is looked up once. */
void segment_span_deliver(struct segment_drain *d, struct sonde_model_span *span,
                          struct sonde_model_series **series);
/* The value of an attribute; 0 = there is no such type. */
int segment_attr_value(struct sonde_model_attr *to, uint32_t type, const void *bytes, uint32_t len);

/* ---- infer.c ---- */

/* Keep a part until its batch comes. */
void segment_part_keep(struct sonde_segment *s, const struct segment_part *part);
/* An event of d's process, to whom the segment's go. */
void segment_infer_deliver(struct segment_drain *d, const struct sonde_infer_event *e);
/* A record of an inference event. */
void segment_infer_record(struct segment_drain *d, const struct sonde__span_rec *r);

/* ---- llama.c ---- */

/* A record of a call of llama.cpp. */
void segment_llama_record(struct segment_drain *d, const struct sonde__span_rec *r);
/* The first of a ring of which earlier ones have not been read. 0 = it does not tell when that
 * was. */
int segment_llama_gap(struct segment_drain *d, const struct sonde__span_rec *r);
/* All rings have been read. last: nothing more will come. */
void segment_llama_drained(struct segment_drain *d, int last);
void segment_llama_free(struct sonde_segment *s);

/* ---- kernel_series.c ---- */

/* Series of what is new of GPUs. 0, SONDE_ENOMEM or SONDE_EFORMAT. */
int segment_gpu_drain(struct segment_drain *d, int last, struct sonde_err *err);
void segment_gpu_free(struct sonde_segment *s);

/* ---- read.c ---- */

/* rc, unless the file was cut short meanwhile: then that is the reason for whatever else seemed
 * wrong. */
int segment_verdict(const struct sonde_segment *s, int rc, struct sonde_err *err);

int segment_counts_load(const struct sonde_segment *s, struct segment_counts *out,
                        struct sonde_err *err);

/* New families and series since the last call, into the model too. */
int segment_tables_read(struct sonde_segment *s, struct sonde_model *m,
                        struct sonde_model_process *p, struct sonde_err *err);
void segment_tables_free(struct sonde_segment *s);

/* Series about the segment itself. */
void segment_self_read(struct sonde_segment *s, struct sonde_model *m,
                       struct sonde_model_process *p);

/* Series of the heap, where it is profiled. 0 or SONDE_EFORMAT. */
int segment_heap_read(struct sonde_segment *s, struct sonde_model *m,
                      struct sonde_model_process *p, struct sonde_err *err);

int segment_values_read(struct sonde_segment *s, int last, struct sonde_err *err);
void segment_hist_free(struct segment_hist *h);

/* Is [off, off + bytes) in the populated block area and off a multiple of 64? Looks again if not,
 * since the block area may have grown. */
int segment_in_blocks(const struct sonde_segment *s, struct segment_counts *c, uint64_t off,
                      uint64_t bytes);

/* ---- chunks.c --------------------------------------------------------------------- */

/* What is in a ring. words: those of a record's chunks, one behind the other. */
struct segment_records {
    const char *name;             /* "samples" */
    /* How many chunks a record of that type has which begins with these words; 0 = none can. No
     * more than the ring was initialized for. */
    uint32_t (*chunks)(uint32_t type, const uint64_t *words);
    void (*give)(uint32_t type, const uint64_t *words, void *arg);
};

/* A ring of chunk_count chunks in the mapping, all of them populated, whose records have up to
 * record_chunks_max. 0 or SONDE_ENOMEM. */
int segment_chunks_init(struct segment_chunks *k, const struct sonde__chunk *chunk,
                        uint32_t chunk_count, const uint64_t *reserve, uint32_t record_chunks_max);
/* give() all that is new. last: pass over what is unfinished. SONDE_EFORMAT. */
int segment_chunks_drain(struct segment_chunks *k, const struct segment_records *r, void *arg,
                         int fresh, int last, struct sonde_err *err);
/* About how many records have been lost. */
uint64_t segment_chunks_lost(const struct segment_chunks *k);

static inline uint64_t segment_load(const void *p)
{
    return __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
}

#endif
