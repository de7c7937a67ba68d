#include "collect/python/location.h"

#include <stdio.h>

#include "profile/python_function.h"
#include "sonde/sonde.h"

uint32_t sonde_python_location(struct sonde_profile *p, struct sonde_segment *s, uint64_t ip,
                               int *final)
{
    struct sonde_segment_python_function f;
    struct sonde_err err;
    const int rc = s ? sonde_segment_python_function(s, ip, &f, &err) : SONDE_ENOENT;
    *final = rc != SONDE_EBUSY;
    if (rc != 0) return sonde_profile_python(p, "", "", 0, 0);
    return sonde_profile_python(p, f.name, f.file, f.first_line, f.line);
}

static void python_version_put(uint32_t version, char out[32])
{
    if (!version) {
        snprintf(out, 32, "Python");
        return;
    }
    snprintf(out, 32, "Python %u.%u.%u", version >> 24, version >> 16 & 255, version >> 8 & 255);
}

void sonde_python_note(struct sonde_segment *s, uint32_t pid, char *out, size_t size)
{
    static const char *const texts[] = {
#define SONDE__X(name, text) text,
        SONDE__PYTHON_STATES(SONDE__X)
#undef SONDE__X
    };
    struct sonde_segment_python_info info;
    struct sonde_err err;
    char version[32];
    out[0] = '\0';
    if (sonde_segment_python(s, &info, &err) != 0) return;
    python_version_put(info.version, version);
    if (info.state > SONDE__PYTHON_READS) {
        snprintf(out, size, "process %u is %s, of which only native frames are shown: %s", pid,
                 version, texts[info.state]);
    } else if (info.full) {
        snprintf(out, size, "%llu frames of %s in process %u have no name: there was no room for "
                 "more than %llu functions", (unsigned long long)info.full, version, pid,
                 (unsigned long long)info.codes);
    }
}
