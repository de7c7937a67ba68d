/* unseen.h - which processes below a command libsonde_preload cannot come into: linked statically
 * or with musl, built with AddressSanitizer, or executed by another user. They run as if it were
 * not there, so of their heap, and of their CPU time with the timer engine, there is nothing; that
 * must be said by name.
 *
 * The tree is looked at a few times in its first second and then every second. Rejected: to have
 * the library in their parents report them, which has no segment to write to in most shells. */
#ifndef SONDE_CLI_UNSEEN_H
#define SONDE_CLI_UNSEEN_H

#include <stdint.h>

#include "base/buf.h"

enum { SONDE_UNSEEN_MAX = 32 }; /* more are only counted */

struct sonde_unseen {
    uint32_t root;           /* itself is not looked at; 0 = nothing is */
    uint32_t count, more;
    double next_s, wait_s;
    struct sonde_unseen_process {
        uint32_t pid;
        const char *why;     /* static text that follows "it is" */
        uint64_t cpu_ns;     /* at the last look */
        char name[16];
    } rows[SONDE_UNSEEN_MAX];
};

void sonde_unseen_start(struct sonde_unseen *u, uint32_t root, double now_s);

/* Look if it is time to; when to come again. */
double sonde_unseen_look(struct sonde_unseen *u, double now_s);

/* "go-server (17), 1.2 s of CPU time, is linked statically; …", the busiest first; nothing if there
 * are none. */
void sonde_unseen_tell(struct sonde_unseen *u, int ascii, struct sonde_buf *out);

#endif
