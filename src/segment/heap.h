/* heap.h - the heap profile in the segment: what libsonde_preload knows about allocations.
 *
 * State, not events: for every stack that has allocated there are running totals, which never go
 * back, in memory that outlives the process. A reader that comes late, or looks rarely, or comes
 * after SIGKILL, finds the same; nothing is lost when nobody reads; the process never waits.
 *
 *   header.heap ─▶ struct sonde__heap
 *                   node_chunk[] ─▶ struct sonde__heap_node [SONDE__HEAP_NODES]    append-only
 *                   module_chunk[] ─▶ struct sonde__heap_module [SONDE__HEAP_MODULES]
 *                   lane[].rows ─▶ uint64_t [SONDE__HEAP_ROW_CHUNKS] ─▶ struct sonde__heap_row
 *                                                                      [SONDE__HEAP_ROWS]
 *                   peak[2] ─▶ uint64_t [SONDE__HEAP_ROW_CHUNKS] ─▶ struct sonde__heap_peak
 *                                                                      [SONDE__HEAP_ROWS]
 *                   ring of sampled events
 * Every ─▶ is an offset from the segment's start of a block in its heap, 0 = not there (yet),
 * release-stored when what it leads to is ready.
 *
 * Nodes. A stack is its innermost node; a node is an address and its caller's node, which has a
 * smaller number. Node 0 is none. An address is 48 bits; the upper 16 are the module it was in
 * (0 = unknown), so that code which is unloaded and replaced is told apart. A frame of Python is a
 * number (python.h), whose upper 16 bits are no module's. A node that has allocated has a site
 * number; rows are indexed by it.
 *
 * Rows. A site's totals are the sums over lanes. In full mode a thread has a lane to itself, lane 0
 * is for all who have none and is added to with locked instructions; in sampled mode all use lane
 * 0. In sampled mode totals are estimates: an allocation of S bytes is sampled with probability
 * p = 1 - exp(-(S + 1) / mean) and stands for 1/p of its kind (S + 1, so that allocations of
 * nothing are seen too). Counts are then in units of 2^-16 (count_shift says so), and the var
 * words hold the sums of (1 - p)/p² × S² (bytes, in units of 2^12 bytes²) and of (1 - p)/p²
 * (count): the estimates' variances. Of what was freed the same is subtracted that was added for
 * it: the size is remembered. Realloc is a free and an allocation.
 *
 * When nodes or sites run out, site 1 takes what follows: that of node 1, "callers unknown". So
 * totals stay right as long as there is memory for the blocks' own table.
 *
 * Peak. Whenever the total in use is a hundredth above what it was at the last one, the rows'
 * live figures are copied to the other of two peak tables and then peak_seq is stored: its lowest
 * bit says which table holds, 0 = none yet. Not more often than a hundredth of the time allows.
 *
 * Events. One allocation in `mean` bytes, in either mode, is also told with its time and thread,
 * for profiles by span, thread and time. Chunks of the ring follow the protocol of the sampler's
 * (segment.h), each record is one chunk. Its words, in this order:
 *   ALLOC  ticks, tid, size, node, address
 *   FREE   ticks, tid, size, node, address, ticks of its ALLOC
 *   THREAD tid, bytes it allocated, allocations (units as in rows), name (16 bytes in two words): a
 *          thread that has ended, or the last one when the program does
 *
 * The end. Other libraries' destructors run after ours, and allocate: totals are final when the
 * process is gone, not when header.closed is set.
 *
 * After the mapping of code changed (dlclose) nodes are made anew, with the modules of then. */
#ifndef SONDE_SEGMENT_HEAP_H
#define SONDE_SEGMENT_HEAP_H

#include "segment/segment.h"

#define SONDE__HEAP_NODES 4096u          /* in a chunk: 64 KiB */
#define SONDE__HEAP_NODE_CHUNKS 1024u    /* 4 Mi nodes */
#define SONDE__HEAP_MODULES 16u
#define SONDE__HEAP_MODULE_CHUNKS 4096u  /* SONDE__PYTHON_TAG is none's */
#define SONDE__HEAP_ROWS 32u             /* in a chunk: 4 KiB */
#define SONDE__HEAP_ROW_CHUNKS 4096u     /* 131,071 sites */
#define SONDE__HEAP_LANES 128u
#define SONDE__HEAP_SIZES 64u            /* size classes: see sonde__heap_size_class */
#define SONDE__HEAP_LIFETIMES 32u        /* by powers of two of microseconds */

#define SONDE__HEAP_SAMPLED 1u
#define SONDE__HEAP_FULL 2u

enum { SONDE__HEAP_ALLOC = 1, SONDE__HEAP_FREE, SONDE__HEAP_THREAD };

struct sonde__heap_node {    /* 16 bytes, immutable once counted but for site */
    uint64_t ip;            /* return address - 1 | module << 48 */
    uint32_t parent;        /* 0 = the thread's start, or the stack is truncated there */
    uint32_t site;          /* 0 = has not allocated itself */
};
#define SONDE__HEAP_NODE_TRUNCATED 1u    /* parent of the outermost frame of a truncated stack: node
                                           1 has ip 0 and means "callers unknown" */

struct sonde__heap_module {
    uint64_t start, end, offset;        /* of the code, and in the file */
    uint64_t path;                      /* offset of a struct sonde__heap_path in the heap */
};

struct sonde__heap_path { uint32_t len; char text[]; };

/* Totals since the start. Each word is written whole and never goes back. */
struct sonde__heap_row {     /* 128 bytes */
    uint64_t allocs, alloc_bytes;
    uint64_t frees, free_bytes;         /* of what was allocated here, wherever it is freed */
    uint64_t temps, temp_bytes;         /* freed before that thread's next allocation */
    uint64_t lifetime_us;               /* of all that were freed, summed; full mode: by a clock of
                                           some milliseconds */
    uint64_t mapped_bytes;              /* of alloc_bytes: by mmap, not by the allocator */
    /* Sampled mode. */
    uint64_t alloc_bytes_var, alloc_count_var, free_bytes_var, free_count_var;
    uint64_t samples, samples_freed;
    /* After a scan at exit (lane 0 only): what nothing points to any more. */
    uint64_t lost, lost_bytes;
};
_Static_assert(sizeof(struct sonde__heap_row) == 128, "two lines");

struct sonde__heap_peak { uint64_t count, bytes, bytes_var, count_var; };

struct sonde__heap_lane {                /* for curves and distributions, without reading rows */
    uint64_t allocs, alloc_bytes, frees, free_bytes; /* units as in rows */
    uint32_t tid;                       /* owner; 0 = none now */
    uint32_t claims;                    /* threads that have owned it */
    uint64_t rows;                      /* offset of the directory of its rows */
    uint64_t pad[2];
    uint64_t size_class[SONDE__HEAP_SIZES];      /* allocations, in units of counts */
    uint64_t lifetime[SONDE__HEAP_LIFETIMES];    /* frees, in units of counts */
};

/* What the allocator says about itself; glibc only, taken now and then. */
struct sonde__heap_arena {
    uint64_t ticks;                     /* when; 0 = never */
    uint64_t arenas;                    /* 0 = not known */
    uint64_t system_bytes, used_bytes, free_bytes, mapped_bytes, trim_bytes;
    uint64_t seq;                       /* odd while it is written */
};

struct sonde__heap {
    /* Immutable. */
    uint64_t session;
    uint32_t mode;                      /* SONDE__HEAP_SAMPLED or _FULL */
    uint32_t count_shift;               /* of counts: 16 sampled, 0 full */
    uint64_t mean;                      /* bytes between samples */
    uint32_t depth_max;
    uint32_t chunk_count;               /* of the ring; a power of two */
    uint64_t ring;                      /* offset of its chunks */
    uint64_t start_ticks;
    char allocator[48];                 /* file the real malloc is in; "" = not known */
    uint32_t bypassed;                  /* 1: the program has an allocator of its own linked in, so
                                           that only its mappings are seen */
    uint32_t pad;

    /* Counts: what a reader may look at. Release-stored. */
    uint32_t node_count __attribute__((aligned(64)));
    uint32_t site_count;                /* 1 … site_count-1 */
    uint32_t module_count;
    uint32_t lane_count;
    uint64_t pad0[6];

    uint64_t reserve __attribute__((aligned(64))); /* ring: chunks ever reserved */

    uint64_t live_bytes __attribute__((aligned(64))); /* as the peak is found by: up to 64 KiB a
                                                         thread behind */
    uint64_t peak_bytes, peak_ticks;
    uint64_t peak_seq;
    uint64_t peak[2];                   /* offsets of directories */
    uint64_t scanned;                   /* 1: the scan at exit was done; 2: it was given up */

    uint64_t reentrant __attribute__((aligned(64))); /* calls in a signal handler, not recorded */
    uint64_t refused;                   /* allocations not recorded: no memory for tables */
    uint64_t truncated;                 /* stacks recorded without the thread's start */
    uint64_t unmatched;                 /* frees of what was allocated before we came */
    uint64_t failed;                    /* allocations that returned NULL */
    uint64_t pad1[3];

    struct sonde__heap_arena arena __attribute__((aligned(64)));
    struct sonde__heap_lane lane[SONDE__HEAP_LANES] __attribute__((aligned(64)));
    uint64_t node_chunk[SONDE__HEAP_NODE_CHUNKS];
    uint64_t module_chunk[SONDE__HEAP_MODULE_CHUNKS];
};

/* Four classes a power of two: 0 … 15 by themselves in quarters, up to 2^18 and beyond. */
static inline uint32_t sonde__heap_size_class(uint64_t bytes)
{
    if (bytes < 16) return (uint32_t)(bytes / 4);
    const uint32_t log = 63u - (uint32_t)__builtin_clzll(bytes);
    const uint32_t c = (log - 3) * 4 + (uint32_t)(bytes >> (log - 2) & 3);
    return c < SONDE__HEAP_SIZES ? c : SONDE__HEAP_SIZES - 1;
}

static inline uint32_t sonde__heap_lifetime_class(uint64_t us)
{
    const uint32_t c = us ? 64u - (uint32_t)__builtin_clzll(us) : 0;
    return c < SONDE__HEAP_LIFETIMES ? c : SONDE__HEAP_LIFETIMES - 1;
}

#endif
