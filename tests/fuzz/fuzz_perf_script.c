/* fuzz_perf_script.c - see fuzz_format.h. */
#define FUZZ_FORMAT "perf-script"

static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("# c\nprog 42/43 [001] 12.5: 1000 cpu-clock:u:\n\t55d0 in (inlined)\n\t55d0 out+0x1f "
         "(/b c (d)/e)\n\t7f12 [unknown] ([unknown])\n\tffffffff81000010 do_idle+0x1 "
         "([kernel.kallsyms])\n\nV8 Worker 2 7 1.000000001: cycles:P:\n\t1 f (/x (deleted))\n\n"),
    SEED("java  3244 cpu-clock: \n7f1e f(int, char) (/b)\n\tg+0x1\n  m.c:7\n\n"
         "my p 1/2 [002] 5 cycles:u:\n\t1 RegExp:(a b) (/t)\n"),
    SEED("a 1/1 1.0: 10 task-clock:  401000 f+0x1 (/b)\nb 2 2.0: PERF_RECORD_COMM: x\n"),
};

#include "fuzz/fuzz_format.h"
