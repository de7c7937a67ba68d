/* waits.h - what threads waited for, as rules on locks, I/O and page faults need it: every stack
 * that was switched out with, classified once.
 *
 * analyze/wait_kind.h says what a call waits for. What a call cannot say is refined here, since a
 * warning needs to be sure: a semaphore is a queue of work far more often than a lock; a read may
 * be one of a pipe; a sleep in SQLite's busy handler is waiting for the database's lock. */
#ifndef SONDE_ANALYZE_FINDING_WAITS_H
#define SONDE_ANALYZE_FINDING_WAITS_H

#include "analyze/finding/rule.h"
#include "analyze/wait_kind.h"

enum finding_wait_type {
    FINDING_WAIT_UNKNOWN,    /* the stack was not looked at: no sample has it */
    FINDING_WAIT_IDLE,       /* for work, a timer, the network, another thread or process … */
    FINDING_WAIT_LOCK,
    FINDING_WAIT_DISK,       /* by a call that only files are waited for with */
    FINDING_WAIT_FILE,       /* read, write: of a file, a pipe or a terminal */
    FINDING_WAIT_FAULT,      /* a page that is not in memory */
    FINDING_WAIT_TYPES
};

/* What is special about a lock. */
enum finding_lock_type {
    FINDING_LOCK_PLAIN, FINDING_LOCK_SQLITE, FINDING_LOCK_POSTGRES, FINDING_LOCK_FILE,
    FINDING_LOCK_ALLOCATOR, FINDING_LOCK_GIL
};

struct finding_wait {
    enum finding_wait_type type;
    enum finding_lock_type lock;
    uint32_t call;           /* function that waits; 0 = not known */
    uint32_t site, line;     /* innermost function of the program, and the line it calls from; 0 =
                                not known */
    uint32_t caller, caller_line; /* of site, alike */
};

struct finding_waits {
    struct finding_wait *of_stack; /* owned; one for each of the profile's stacks */
    double seconds[FINDING_WAIT_TYPES];
    uint64_t samples[FINDING_WAIT_TYPES];
    double read_s, write_s;  /* of FILE */
    int file_is_disk;        /* FILE is waiting for a disk, by what storage has done meanwhile */
    double disk_s;           /* DISK, and FILE if it is */
    double active_s;         /* CPU time, locks, disk and faults: threads had something to do */
};

/* NULL: no waiting was recorded, or there is no memory. Worked out at first use, l's. */
const struct finding_waits *finding_waits(struct finding_look *l);
void finding_waits_destroy(struct finding_waits *w); /* NULL is fine */

/* The time that was waited with one call from one line. */
struct finding_wait_site {
    uint32_t site, line, call;
    uint32_t caller, caller_line; /* of the site, where that is one for most of the time; else 0 */
    double caller_s;         /* private */
    enum finding_lock_type lock;
    double seconds;
    uint64_t samples;
    uint32_t threads;        /* how many of them waited */
};

/* Of the types in the mask (1 << type), the most first; free with sonde__free. NULL and 0: none,
 * or no memory (then l->rc says so). */
struct finding_wait_site *finding_wait_sites(struct finding_look *l, unsigned types,
                                             size_t *count);
/* A function that does nothing but hand on, for several callers (db_exec, mutex_enter): then who
 * calls it is the place. s is changed to that. */
void finding_wait_site_unwrap(const struct finding_look *l, struct finding_wait_site *s);
/* As evidence. */
void finding_prove_site(struct finding_look *l, struct sonde_finding *f,
                        const struct finding_wait_site *s, const char *what);

/* Names of a function row; "" = not known. That of a call is without what the C library puts before
 * it: pthread_mutex_lock, not ___pthread_mutex_lock. */
const char *finding_call_name(const struct finding_look *l, uint32_t function);
const char *finding_function_name(const struct finding_look *l, uint32_t function);
const char *finding_function_file(const struct finding_look *l, uint32_t function);

#endif
