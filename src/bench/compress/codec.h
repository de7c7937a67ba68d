/* codec.h - a compression library behind one interface: one codec_<name>.c that defines a
 * `const struct sonde_codec sonde_codec_<name>` + one row in codec_list.h.
 *
 * A state is for one level, one direction and one thread. It is used for block after block, as a
 * server would; what a library keeps between blocks (tables, windows) is kept, what it can only
 * make anew each time (Brotli's encoder) is made anew and its time counts.
 *
 * Memory is what the library asks for: where it lets us hand it an allocator, that counts. Where
 * not (.counted = 0), compress_memory.c counts pages in a child process. */
#ifndef SONDE_BENCH_COMPRESS_CODEC_H
#define SONDE_BENCH_COMPRESS_CODEC_H

#include <stddef.h>
#include <stdint.h>

/* What is allocated now and was at most. Threads of a library's own may allocate, too. */
struct sonde_codec_memory {
    _Atomic int64_t now_bytes, peak_bytes;
};

/* Counted in m; 16-byte aligned. NULL: no memory. */
void *sonde_codec_alloc(struct sonde_codec_memory *m, size_t size);
void sonde_codec_free(void *p); /* NULL is fine */

struct sonde_codec_how {
    int level;                       /* level_min … level_max */
    int unpack;                      /* the state is for unpack(), else for pack() */
    uint32_t workers;                /* threads of the library's own; 1 = none */
    struct sonde_codec_memory *memory; /* borrowed, outlives the state */
};

struct sonde_codec {
    const char *name;
    const char *summary;             /* one line, for help and docs */
    int level_min, level_max;        /* both 0: it has no levels */
    const char *levels;              /* measured if none are asked for: "1,3,9" */
    unsigned counted : 1;            /* all its memory is counted by sonde_codec_alloc() */
    unsigned threaded : 1;           /* takes workers > 1 */
    size_t block_max;                /* bytes that one call takes */
    const char *(*version)(char out[32]);
    size_t (*bound)(size_t bytes);   /* what pack() makes of so many at most */
    void *(*open)(const struct sonde_codec_how *how); /* NULL: no memory */
    /* 0 and *made; SONDE_ENOMEM; SONDE_EFULL: does not fit room; SONDE_EINVAL: what unpack() got is
     * damaged. Nothing is written past room whatever in holds. */
    int (*pack)(void *state, const void *in, size_t bytes, void *out, size_t room, size_t *made);
    int (*unpack)(void *state, const void *in, size_t bytes, void *out, size_t room, size_t *made);
    void (*close)(void *state);      /* NULL is fine */
};

/* NULL-terminated, in the order of the list. */
extern const struct sonde_codec *const sonde_codecs[];
const struct sonde_codec *sonde_codec_find(const char *name, size_t len); /* NULL: there is none */

#endif
