/* captured.h - what is written to the standard output and error while a call runs. */
#ifndef SONDE_TESTS_CLI_CAPTURED_H
#define SONDE_TESTS_CLI_CAPTURED_H

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct captured {
    int saved[2], file[2];
    char out[1 << 16], err[1 << 14]; /* after captured_end; cut where they are full */
};

static inline void captured_begin(struct captured *c)
{
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        c->saved[i] = dup(i + 1);
        c->file[i] = memfd_create("captured", MFD_CLOEXEC);
        assert_true(c->saved[i] >= 0 && c->file[i] >= 0);
        assert_int_equal(dup2(c->file[i], i + 1), i + 1);
    }
}

static inline void captured_end(struct captured *c)
{
    char *const text[] = { c->out, c->err };
    const size_t size[] = { sizeof(c->out), sizeof(c->err) };
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dup2(c->saved[i], i + 1), i + 1);
        const ssize_t n = pread(c->file[i], text[i], size[i] - 1, 0);
        text[i][n > 0 ? n : 0] = '\0';
        close(c->file[i]);
        close(c->saved[i]);
    }
}

#endif
