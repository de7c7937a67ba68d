/* record.h - a record of a perf ring, taken apart. The layout follows from the attributes
 * that event.c opens all events with:
 *
 *   sample:  header | id | ip | pid tid | time | period | [callchain] | abi regs | stack
 *   output:  header | id | ip | pid tid | time | period | size (32 bits), bytes
 *   others:  header | …                              | pid tid | time | id      (sample_id_all)
 *
 * so id and time can be found before it is known which event a record is from. The kernel is
 * trusted no more than a file: every count is checked against the record's size. */
#ifndef SONDE_COLLECT_PERF_RECORD_H
#define SONDE_COLLECT_PERF_RECORD_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/aspace/aspace.h"
#include "unwind/unwind.h"

#define SONDE_PERF_RECORD_MAX 65536u /* header.size is 16 bits */
#define SONDE_PERF_RECORD_MIN 32u    /* a header and the trailer */

/* PERF_SAMPLE_… bits of every event, but for CALLCHAIN. */
#define SONDE_PERF_SAMPLE_TYPE                                                                 \
    (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |            \
     PERF_SAMPLE_PERIOD | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

/* Of SONDE_PERF_OUTPUT, whose samples hold what a BPF program has put out. */
#define SONDE_PERF_OUTPUT_TYPE                                                                 \
    (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |            \
     PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW)

struct sonde_perf_record {
    uint32_t type;             /* PERF_RECORD_… */
    uint16_t misc;
    uint32_t pid, tid;         /* whom it is about: the new one of a FORK, the ended of an EXIT */
    uint64_t time_ns;          /* CLOCK_MONOTONIC */
    uint64_t id;               /* of the event */
    union {
        struct {
            uint64_t ip, period;
            const uint64_t *chain;   /* kernel frames, innermost first, with context markers */
            uint64_t chain_count;
            int has_user;            /* regs and stack are there, of a 64-bit process */
            struct sonde__regs regs;
            const void *stack;       /* from regs.sp on */
            size_t stack_len;
            size_t stack_max;        /* how much the kernel would have copied */
        } sample;
        struct {
            uint32_t parent_pid, parent_tid;
        } task;                      /* FORK, EXIT */
        struct {
            char name[16];
        } comm;
        struct sonde_mapping map; /* MMAP2 */
        uint64_t lost;               /* LOST, LOST_SAMPLES */
        struct {
            const void *data;        /* aligned to 4 */
            size_t size;             /* may be a few bytes more than was put out */
        } output;                    /* of a BPF program */
    } u;
};


/* 0, or SONDE_EFORMAT: it does not hold what it says. h: size bytes at least SONDE_PERF_RECORD_MIN,
 * aligned to 8. Pointers in out go into it. callchain: samples have one. Types that are of no
 * interest succeed with only the first fields set. */
int sonde_perf_record_parse(const struct perf_event_header *h, int callchain,
                            struct sonde_perf_record *out);

/* The id of the event that a sample is from, which says how it is to be parsed … */
uint64_t sonde_perf_record_event(const struct perf_event_header *h);
/* … for what a BPF program has put out, by this. As above. */
int sonde_perf_record_parse_output(const struct perf_event_header *h,
                                   struct sonde_perf_record *out);

#endif
