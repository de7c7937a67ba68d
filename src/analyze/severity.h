/* severity.h - how bad a finding is: one scale for what analysis says and what a store keeps, where
 * it is a number. */
#ifndef SONDE_ANALYZE_SEVERITY_H
#define SONDE_ANALYZE_SEVERITY_H

enum sonde_severity { SONDE_SEVERITY_INFO, SONDE_SEVERITY_WARNING, SONDE_SEVERITY_CRITICAL };

const char *sonde_severity_name(enum sonde_severity s); /* "info", "warning", "critical" */
int sonde_severity_find(const char *name);              /* also low, medium, high; -1 = none of
                                                         * them */

#endif
