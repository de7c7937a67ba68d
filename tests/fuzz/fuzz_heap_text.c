/* fuzz_heap_text.c - see fuzz_format.h. */
#define FUZZ_FORMAT "heap-text"

static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("heap profile: 3: 3000 [ 5: 4000] @ heap_v2/1000\n 2: 2000 [ 4: 3000] @ 0x401001 "
         "0x401101\n"
         "1: 64 [1: 64] @ 0x7f01\n#\t0x4d\tmain.leak+0x5e\t/m.go:5\n\nMAPPED_LIBRARIES:\n"
         "00400000-00402000 r-xp 00000000 08:01 1234 /bin/prog (deleted)\n"),
    SEED("heap_v2/1\n  t*: 3: 3000 [0: 0]\n@ 0x401001 0x401101\n  t*: 2: 2000 [0: 0]\n"
         "  t0: 2: 2000 [0: 0]\n"),
};

#include "fuzz/fuzz_format.h"
