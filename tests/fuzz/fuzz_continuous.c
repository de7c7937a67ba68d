/* fuzz_continuous.c - bodies of POST /admin/profile/continuous: whatever they are, what is taken is
 * within its bounds, and what is not is told. */
static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("{\"enabled\": true, \"interval_seconds\": 300, \"cpu\": true, \"memory\": true, "
         "\"gpu\": true}"),
    SEED("{\"burst_seconds\": 30, \"rate_hz\": 999}"),
    SEED("{\"enabled\":false,\"duration_seconds\":1e1,\"rate_hz\":1.5}"),
    SEED("{\"interval_second\": 3}"),
    SEED("[]"),
};

#include "fuzz/fuzz_seeds.h"
#include "agent/continuous.h"

static int is_from(double v, double min, double max) { return v == 0 || (v >= min && v <= max); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sonde_continuous_change c = { .has = 0 };
    struct sonde_err err = { "" };
    const int rc = sonde_continuous_parse((const char *)data, size, &c, &err);
    if (rc) {
        CHECK(err.text[0] && !c.has);
        return 0;
    }
    CHECK(c.has);
    CHECK(is_from(c.settings.rate_hz, 1, SONDE_CONTINUOUS_RATE_MAX));
    CHECK(is_from(c.burst_hz, 1, SONDE_CONTINUOUS_RATE_MAX));
    CHECK(is_from(c.burst_s, 1, SONDE_CONTINUOUS_BURST_S_MAX));
    CHECK(is_from(c.settings.interval_s, 1, 86400));
    CHECK(is_from(c.settings.duration_s, 0, 86400));
    CHECK((c.settings.enabled | c.settings.cpu | c.settings.memory | c.settings.gpu) >> 1 == 0);
    return 0;
}
