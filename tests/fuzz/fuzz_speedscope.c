/* fuzz_speedscope.c - see fuzz_format.h. */
#define FUZZ_FORMAT "speedscope"

static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("{\"profiles\":[{\"name\":\"m\",\"unit\":\"seconds\",\"weights\":[2,0.5],\"samples\":[[0,"
         "1],[0]]},{\"unit\":\"none\",\"events\":[{\"type\":\"O\",\"frame\":0,\"at\":1},"
         "{\"type\":\"C\",\"frame\":0,\"at\":6}]}],\"shared\":{\"frames\":[{\"name\":\"main\"},"
         "{\"name\":\"\\ud83d\\ude00\",\"file\":\"f\",\"line\":3}]}}"),
};

#include "fuzz/fuzz_format.h"
