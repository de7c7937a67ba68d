/* folded_scan.h - folded text taken apart into numbers, the first half of reading it: what can be
 * said of a line without the profile, so that another thread may do it.
 *
 * A batch is a row of tokens; a line may go on in the next batch:
 *
 *   LINE | n         a line, whose first n frames are those of the line before
 *   word, word, …    its other frames: EMPTY for one without a name, TRUNCATED for the mark of a
 *                    cut stack, else the number of a name in the order in which they were first
 *                    seen
 *   END, low, high   the line ends, with this weight
 *
 * Names live as long as the scan. Lines that are no stack (a shell's message in the middle, a line
 * cut short) are passed over and counted, and what is wrong with the first one is kept. */
#ifndef SONDE_PROFILE_FORMATS_FOLDED_SCAN_H
#define SONDE_PROFILE_FORMATS_FOLDED_SCAN_H

#include "base/err.h"
#include "base/intern.h"

#define SONDE_FOLDED_LINE (1u << 31)
#define SONDE_FOLDED_END (1u << 30)
#define SONDE_FOLDED_EMPTY 0u
#define SONDE_FOLDED_TRUNCATED 1u
#define SONDE_FOLDED_NAMES 2u /* the first name's number */

enum { SONDE_FOLDED_TOKENS = 16384, SONDE_FOLDED_NAMES_NEW = 1024 };

struct sonde_folded_name {
    const char *text;
    size_t len;
};

struct sonde_folded_batch {
    uint32_t tokens[SONDE_FOLDED_TOKENS];
    struct sonde_folded_name names[SONDE_FOLDED_NAMES_NEW]; /* that are new in it */
    uint32_t token_count, name_count;
    int last;             /* nothing comes after it */
    int rc;               /* why it is the last, if not for the end of the text */
    struct sonde_err err;
};

/* Where a frame of the line before ended. */
struct sonde_folded_mark {
    size_t end;           /* offset of what follows its name */
};

struct sonde_folded_scan {
    const char *at, *end; /* lines that were not looked at yet */
    size_t number;        /* of the line */
    uint32_t scale;       /* of weights: 1, or if some have fractions 10, 100 or 1000 */
    size_t good, bad;     /* lines; those that are no stack are passed over */
    struct sonde_err first_bad;
    const char *frames;   /* of the line at hand, else the line before */
    size_t len, next;     /* how long they are, and what was not looked at yet */
    uint64_t weight;
    int in_line;
    struct sonde_folded_mark *marks;
    uint32_t count, cap;  /* frames */
    struct sonde_folded_name *names;
    uint32_t name_count, name_cap;
    struct sonde_folded_block *blocks; /* their texts, close together */
    struct sonde_map index;
    size_t bytes, bytes_max; /* for names */
};

void sonde_folded_scan_init(struct sonde_folded_scan *s, const char *data, size_t len,
                            size_t bytes_max);
void sonde_folded_scan_release(struct sonde_folded_scan *s);

/* Look at the ends of all lines, before the first is read: sets the scale. 1 if (nearly) all end in
 * two numbers, as difffolded.pl writes them. */
int sonde_folded_scan_survey(struct sonde_folded_scan *s);

/* Fill b. After the last one it must not be called again. */
void sonde_folded_scan_fill(struct sonde_folded_scan *s, struct sonde_folded_batch *b);

#endif
