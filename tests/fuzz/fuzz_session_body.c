/* fuzz_session_body.c - bodies of POST /admin/profile/start and stop: whatever the bytes are, they
 * are refused with a reason, or all that was read of them is in its bounds. */
static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("{\"name\": \"baseline\"}"),
    SEED("{\"name\":\"a.b_c-1\",\"rate_hz\":99.5,\"cpu\":true,\"memory\":false,"
         "\"duration_seconds\":60}"),
    SEED(" \r\n"),
    SEED("[{\"name\":null,\"name\":\"\\u0000\"}]"),
};

#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz_seeds.h"
#include "agent/session_body.h"
#include "sonde/sonde.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = sonde__alloc(size + 1); /* as the server hands it over */
    CHECK(text);
    if (size) memcpy(text, data, size);
    text[size] = '\0';
    for (int start = 0; start < 2; start++) {
        struct sonde_session_ask ask;
        struct sonde_err err = { "" };
        const int rc = sonde_session_body(text, size, start, &ask, &err);
        CHECK(!rc || (rc == SONDE_EINVAL && err.text[0]));
        if (rc) continue;
        CHECK(strlen(ask.name) < sizeof(ask.name));
        CHECK(!*ask.name || !sonde_store_name_check(ask.name, NULL));
        CHECK(ask.rate_hz == 0 || (ask.rate_hz >= 1 && ask.rate_hz <= 10000));
        CHECK(ask.duration_s >= 0 && ask.duration_s <= SONDE_SESSION_SECONDS_MAX);
        CHECK(ask.cpu || ask.memory);
        CHECK(start || (ask.rate_hz == 0 && ask.duration_s == 0));
    }
    sonde__free(text);
    CHECK(sonde__alloc_live() == 0);
    return 0;
}
