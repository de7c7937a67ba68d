/* severity.c - see severity.h. */
#include "analyze/severity.h"

#include "base/names.h"

enum { SEVERITIES = SONDE_SEVERITY_CRITICAL + 1 };

static const char *const severities[SEVERITIES] = { "info", "warning", "critical" };

const char *sonde_severity_name(enum sonde_severity s)
{
    return SONDE_NAME_OF(severities, s);
}

int sonde_severity_find(const char *name)
{
    /* Other tools' words. */
    static const char *const others[SEVERITIES] = { "low", "medium", "high" };
    const int own = SONDE_NAME_FIND(severities, name);
    return own >= 0 ? own : SONDE_NAME_FIND(others, name);
}
