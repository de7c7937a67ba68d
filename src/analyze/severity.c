/* severity.c - see severity.h. */
#include "analyze/severity.h"

#include <string.h>

enum { SEVERITIES = SONDE_SEVERITY_CRITICAL + 1 };

static const char *const severities[SEVERITIES] = { "info", "warning", "critical" };

const char *sonde_severity_name(enum sonde_severity s)
{
    return (unsigned)s < SEVERITIES ? severities[s] : "unknown";
}

int sonde_severity_find(const char *name)
{
    static const char *const others[SEVERITIES] = { "low", "medium", "high" }; /* other tools' words */
    for (int i = 0; i < SEVERITIES; i++) {
        if (strcmp(severities[i], name) == 0 || strcmp(others[i], name) == 0) return i;
    }
    return -1;
}
