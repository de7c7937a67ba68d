/* compress.h - how small and how fast codecs make some bytes, in blocks and by threads, and which
 * of them is worth it for what.
 *
 * A row is a codec at a level, with a number of threads and a size of blocks. A pass packs all of
 * the input, or unpacks it; a turn is as many passes as fill its share of the time, and rows take
 * turns, so that a machine that is slow for a while is slow for all of them. What a turn leaves
 * is its mean time of a pass: the best of these is what `zstd -b` and `lz4 -b` print, their
 * spread an interval.
 *
 * Nothing that is unpacked goes unseen: after every turn the result is compared with the input byte
 * by byte, into a buffer that held the complement of the input before the first.
 *
 * Threads work on blocks of their own and begin every pass together. Where the input is one block
 * and the codec has threads of its own (Zstandard), those are used; another codec then gets as
 * many blocks as threads. */
#ifndef SONDE_BENCH_COMPRESS_COMPRESS_H
#define SONDE_BENCH_COMPRESS_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/compress/codec.h"
#include "bench/result.h"

#define SONDE_COMPRESS_ROWS_MAX 4096u
#define SONDE_COMPRESS_THREADS_MAX 256u
#define SONDE_COMPRESS_TURNS_MAX 200u
#define SONDE_COMPRESS_BLOCK_MIN 64u      /* bytes */

enum sonde_compress_state {
    SONDE_COMPRESS_NEW,
    SONDE_COMPRESS_MEASURED,
    SONDE_COMPRESS_LEFT_OUT,     /* why says what would have to be asked for */
    SONDE_COMPRESS_FAILED,       /* it did not give back what it got, or an error */
};

struct sonde_compress_row {
    const struct sonde_codec *codec;
    int level;
    uint32_t threads;
    size_t block_bytes;          /* 0 = the whole input */

    enum sonde_compress_state state;
    char why[200];
    uint64_t blocks;             /* that the input was cut into */
    uint64_t packed_bytes;
    double *pack_s, *unpack_s;   /* owned: a pass's seconds, one for each turn */
    size_t turns;                /* 0 with an empty input, of which there is nothing to time */
    size_t pack_cap, unpack_cap;
    int64_t pack_memory_bytes, unpack_memory_bytes; /* of all threads; -1 = not known */
    unsigned own_threads : 1;    /* those of the codec */
    unsigned pack_front : 1, unpack_front : 1; /* sonde_compress_fronts() */
};

struct sonde_compress_options {
    const void *data;            /* borrowed, as all of it */
    size_t bytes;
    double time_s;               /* for each row and direction */
    uint32_t turns_min;
    double until_ratio;          /* turns go on until the interval of the mean is ± this; 0 = no */
    double limit_s;              /* a row one pass of which would take longer is left out */
    void (*tell)(void *arg, double share, const char *state); /* NULL = nobody listens */
    void *arg;
};

/* Fills rows. 0 also when rows failed; SONDE_ENOMEM: the buffers do not fit. */
int sonde_compress_run(const struct sonde_compress_options *o, struct sonde_compress_row *rows,
                       size_t count, struct sonde_err *err);
void sonde_compress_row_release(struct sonde_compress_row *row);

/* "zstd:3", "snappy". Returns out. */
#define SONDE_COMPRESS_NAME_BYTES 48
const char *sonde_compress_row_name(const struct sonde_compress_row *row,
                                    char out[SONDE_COMPRESS_NAME_BYTES]);
/* Best and mean pass; NaN if there was none. */
double sonde_compress_best(const double *seconds, size_t turns);
double sonde_compress_mean(const double *seconds, size_t turns);
/* Half of the mean's 95 % interval, as a share of it; NaN with fewer than two turns. */
double sonde_compress_noise(const double *seconds, size_t turns);

/* ---- compress_memory.c ----------------------------------------------------------------------- */

/* What a codec that takes no allocator needs for a block, both ways, in bytes, by the pages that a
 * child process touches; -1 = could not be found out. packed: room for bound(bytes). */
void sonde_compress_memory(const struct sonde_codec *codec, int level, const void *data,
                           size_t bytes, int64_t *pack, int64_t *unpack);

/* ---- compress_choice.c ----------------------------------------------------------------------- */

/* Marks rows that no other with as many threads beats in ratio and speed both. */
void sonde_compress_fronts(struct sonde_compress_row *rows, size_t count);

struct sonde_compress_needs {
    size_t bytes;                /* of the input */
    uint32_t threads;            /* rows with so many are chosen from */
    double saving_min;           /* fast path: saves at least this share, or is not worth a call */
    double bandwidth_bytes_per_s;
    double archive_slack;        /* archive: so much larger than the smallest is as good */
};

#define SONDE_COMPRESS_USES(X)                                                                  \
    X(FAST, "fast path", "least time to pack and unpack, of those that save enough")            \
    X(NETWORK, "network", "least time to pack, send and unpack, one after the other")           \
    X(ARCHIVE, "archive", "smallest; of those that are about as small, the fastest")
enum sonde_compress_use {
#define SONDE__X(id, name, goal) SONDE_COMPRESS_##id,
    SONDE_COMPRESS_USES(SONDE__X)
#undef SONDE__X
    SONDE_COMPRESS_USE_COUNT
};
const char *sonde_compress_use_name(enum sonde_compress_use use);
const char *sonde_compress_use_goal(enum sonde_compress_use use);

struct sonde_compress_choice {
    const struct sonde_compress_row *row;   /* NULL = none is; why says so */
    const struct sonde_compress_row *tie;   /* the noise does not tell it from this one; or NULL */
    char why[320];               /* with the numbers that decided */
};
void sonde_compress_choose(const struct sonde_compress_row *rows, size_t count,
                           const struct sonde_compress_needs *needs, enum sonde_compress_use use,
                           struct sonde_compress_choice *out);

/* From which bandwidth to which a row is the fastest way over a network; the fastest networks
 * first. */
struct sonde_compress_span {
    const struct sonde_compress_row *row;
    double from_bytes_per_s, to_bytes_per_s; /* to: INFINITY for the first, from: 0 for the last */
};
/* How many were written, at most max. */
size_t sonde_compress_spans(const struct sonde_compress_row *rows, size_t count, uint32_t threads,
                            struct sonde_compress_span *out, size_t max);

/* ---- compress_result.c ----------------------------------------------------------------------- */

/* Figures of all rows, and the rows, fronts, choices and spans as this kind's own members. */
int sonde_compress_result(const struct sonde_compress_row *rows, size_t count,
                          const struct sonde_compress_needs *needs, struct sonde_bench_result *r);

#endif
