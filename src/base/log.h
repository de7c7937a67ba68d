/* log.h - what the agent tells its operator: one line each on stderr or a file. */
#ifndef SONDE_BASE_LOG_H
#define SONDE_BASE_LOG_H

enum sonde_log_level { SONDE_LOG_ERROR, SONDE_LOG_WARN, SONDE_LOG_INFO, SONDE_LOG_DEBUG };

/* Default: level WARN to stderr. path NULL = stderr. 0 or SONDE_E…. */
int sonde_log_open(enum sonde_log_level level, const char *path);
void sonde_log(enum sonde_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
