/* scan.h - at the program's end: which blocks does nothing point to any more? A conservative
 * scan: whatever looks like the address of a block, or of a byte in it, is one.
 *
 * Roots are all memory that can be written to, but for the heap: data of modules, stacks (of this
 * thread from where it is, of others all), thread-local storage, mappings that are not known as
 * allocations. From there through blocks to blocks. The heap is where known blocks are: of a
 * mapping with blocks in it, what lies between the first and the last. In sampled mode only sampled
 * blocks are known and the rest of the heap counts as a root as well: what is found lost then is
 * lost, and there may be more.
 *
 * Nothing is read directly, since other threads may go on: the kernel copies, and says when there
 * is nothing. It takes five seconds at most. */
#ifndef SONDE_PRELOAD_HEAP_SCAN_H
#define SONDE_PRELOAD_HEAP_SCAN_H

#include <stdint.h>
#include <sys/uio.h>

/* ---- scan.c ----------------------------------------------------------------------------- */

void sonde__heap_scan(void);     /* results go to the rows and to `scanned` */

/* ---- scan_find.c: blocks by any address in them ------------------------------------------ */

struct sonde__scan_block {
    uint64_t start_site;        /* start << 17 | site */
    uint64_t size_marked;       /* size << 1 | something points to it */
};

struct sonde__scan_region { uint64_t key; uint32_t first, last; };

struct sonde__scan {
    struct sonde__scan_block *block;    /* by start, once sorted */
    uint32_t count, room;
    struct sonde__scan_region *region;  /* by hash: which blocks lie in 64 KiB of addresses */
    uint64_t region_mask;
    uint64_t low, high;                 /* of all blocks */
    uint32_t *pending;                  /* marked, not yet looked into */
    uint32_t pending_count;
    uint64_t until_ns;
};

static inline uint64_t sonde__scan_start(const struct sonde__scan_block *b)
{
    return b->start_site >> 17;
}

static inline uint64_t sonde__scan_size(const struct sonde__scan_block *b)
{
    return b->size_marked >> 1;
}

/* All that is known to be allocated. 0, or -1: no memory. */
int sonde__scan_collect(struct sonde__scan *s);
void sonde__scan_release(struct sonde__scan *s);
/* Mark what a word points to, if anything. */
void sonde__scan_word(struct sonde__scan *s, uint64_t word);
/* The first block that ends behind addr; count = none. */
uint32_t sonde__scan_behind(const struct sonde__scan *s, uint64_t addr);

/* ---- scan_read.c: memory, and where it is ------------------------------------------------ */

struct sonde__scan_reader;

/* NULL: there is no way to read memory here. */
struct sonde__scan_reader *sonde__scan_reader_open(void);
void sonde__scan_reader_close(struct sonde__scan_reader *r);

/* Call for all words of [start, end) that are there. */
typedef void sonde__scan_words(void *arg, const uint64_t *words, uint64_t count);
void sonde__scan_read(struct sonde__scan_reader *r, uint64_t start, uint64_t end,
                      sonde__scan_words *call, void *arg);
/* The same for small pieces: SONDE__SCAN_PIECES of them at most, SONDE__SCAN_BUFFER bytes in
 * all. */
#define SONDE__SCAN_PIECES 128u
#define SONDE__SCAN_BUFFER (128u << 10)
void sonde__scan_read_pieces(struct sonde__scan_reader *r, struct iovec *pieces, uint32_t count,
                             sonde__scan_words *call, void *arg);

/* Mappings that can be written to, one after the other, from line 0 of the table. 0 = that was the
 * last. */
struct sonde__scan_map { uint64_t start, end; int device; };
int sonde__scan_map(struct sonde__scan_reader *r, struct sonde__scan_map *out);

#endif
