/* fuzz_chrome.c - see fuzz_format.h. */
#define FUZZ_FORMAT "chrome"

static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"thread_name\","
         "\"tid\":2,\"args\":{\"name\":\"ui\"}},{\"ph\":\"X\",\"name\":\"a\",\"ts\":12,\"dur\":3.5,"
         "\"tid\":2},{\"ph\":\"X\",\"name\":\"b\",\"ts\":10,\"dur\":10,\"tid\":2},{\"ph\":\"B\","
         "\"name\":\"c\",\"ts\":1,\"tid\":\"x\"},{\"ph\":\"E\",\"ts\":\"3\",\"tid\":\"x\"}]}"),
    SEED("[{\"ph\":\"B\",\"name\":\"a\",\"ts\":1},{\"ph\":\"X\",\"name\":\"b\",\"ts\":2,\"dur\":9},"
         "{\"ph\":\"E\",\"ts\":5},"),
};

#include "fuzz/fuzz_format.h"
