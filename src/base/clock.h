/* clock.h - clocks as one number, and conditions that wait by the one that nobody sets. */
#ifndef SONDE_BASE_CLOCK_H
#define SONDE_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* 0 if there is no such clock. */
static inline uint64_t sonde_clock_ns(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t)) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double sonde_clock_s(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t)) return 0;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of somebody else as nanoseconds: what cannot be said in them is 0 or the largest. */
static inline uint64_t sonde_clock_ns_of(double s)
{
    if (!(s > 0)) return 0;
    return s < 1.8e10 ? (uint64_t)(s * 1e9 + 0.5) : UINT64_MAX;
}

static inline struct timespec sonde_clock_timespec(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
                              .tv_nsec = (long)(ns % 1000000000u) };
}

static inline struct timespec sonde_clock_timespec_s(double s)
{
    const time_t whole = (time_t)s;
    return (struct timespec){ .tv_sec = whole, .tv_nsec = (long)((s - (double)whole) * 1e9) };
}

/* For pthread_cond_timedwait() until a time of CLOCK_MONOTONIC. 0 or an error number, which glibc
 * does not give. */
static inline int sonde_clock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    if (rc) return rc;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}

#endif
