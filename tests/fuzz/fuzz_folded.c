/* fuzz_folded.c - see fuzz_format.h. */
#define FUZZ_FORMAT "folded"

static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("main;f;g 3\nmain;f;h 4\nmain 5\n"),
    SEED("[truncated];a b;operator new [] 12\r\nread_[k];x_[k] 18446744073709551614\n\n;;a; 1"),
};

#include "fuzz/fuzz_format.h"
