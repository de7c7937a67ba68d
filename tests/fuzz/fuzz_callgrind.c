/* fuzz_callgrind.c - see fuzz_format.h. */
#define FUZZ_FORMAT "callgrind"

static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("# callgrind format\npositions: line\nevents: Ir Dr\nob=(1) /bin/prog\nfl=(1) m.c\n"
         "fn=(1) main\n"
         "10 4 1\ncfn=(2) f\ncalls=2 20\n+2 60 9\ncfi=(2) g.c\ncfn=(3) g\ncalls=1 30\n* 30 5\n\n"
         "fn=(2)\n"
         "20 10 3\ncfi=(2)\ncfn=(3)\ncalls=5 30\n+1 50 6\ncfn=(2)\ncalls=1 20\n* 25 1\nfl=(2)\n"
         "fn=(3)\n30 80 1\n"),
    SEED("events: Ir\nfn=a\n1 1\ncfn=b\ncalls=1 1\n1 9\nfn=b\n1 1\ncfn=a\ncalls=1 1\n1 8\n"
         "jump=1 2\ntotals: 2\n"),
};

#include "fuzz/fuzz_format.h"
