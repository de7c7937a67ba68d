/* err.h - the sentence a human needs when a cold call of the agent fails.
 * Functions that take one return 0 or a negative SONDE_E… and fill it on failure. */
#ifndef SONDE_BASE_ERR_H
#define SONDE_BASE_ERR_H

struct sonde_err {
    char text[512]; /* what failed, on what, and what to do; no trailing newline */
};

/* Fill e (NULL is fine) and return code, so that callers can `return sonde_err_set(...)`. */
int sonde_err_set(struct sonde_err *e, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* SONDE_ENOMEM and its sentence: what it was needed for helps nobody then. */
int sonde_err_memory(struct sonde_err *e);

#endif
