/* fuzz_cpuprofile.c - see fuzz_format.h. */
#define FUZZ_FORMAT "cpuprofile"

static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("{\"nodes\":[{\"id\":1,\"callFrame\":{\"functionName\":\"(root)\",\"lineNumber\":-1},"
         "\"children\":[7,3]},{\"id\":3,\"callFrame\":{\"functionName\":\"(idle)\"},"
         "\"hitCount\":1},{\"id\":7,\"callFrame\":{\"functionName\":\"g\\u00e9\","
         "\"url\":\"a.js\",\"lineNumber\":0}}],\"startTime\":1000,\"endTime\":2000,"
         "\"samples\":[7,3,7],\"timeDeltas\":[100,200,-5]}"),
};

#include "fuzz/fuzz_format.h"
