/* segment_fixture.h - a segment that a test has built, as a file in a folder of its own. */
#ifndef SONDE_TEST_COLLECT_SEGMENT_SEGMENT_FIXTURE_H
#define SONDE_TEST_COLLECT_SEGMENT_SEGMENT_FIXTURE_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "collect/segment/read.h"
#include "unit/collect/segment/segment_build.h"

#define NAME "4242.777"

/* A new folder, open. */
static inline int fixture_dir(char dir[64])
{
    strcpy(dir, "/tmp/sonde-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return open(dir, O_RDONLY | O_DIRECTORY);
}

/* The file as b is now: written and opened, with its memory profile or samples, or updated. */
static inline void fixture_write(const struct build *b, int dirfd, struct sonde_segment **s)
{
    struct sonde_err err = { "" };
    if (*s) {
        build_update(b, dirfd, NAME);
        return;
    }
    build_write(b, dirfd, NAME, b->bytes);
    if (sonde_segment_open(dirfd, NAME, 1, s, &err)) fail_msg("%s", err.text);
}

/* Nothing is left of it. */
static inline void fixture_end(struct build *b, const char *dir, int dirfd, struct sonde_segment *s)
{
    sonde_segment_close(s);
    build_free(b);
    unlinkat(dirfd, NAME, 0);
    close(dirfd);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(sonde__alloc_live(), 0);
}

#endif
