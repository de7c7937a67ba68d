/* page_file.h - the dashboard as one file: page, script, style and data, to be opened from a disk,
 * with no agent and no network. web/src/core/frozen.ts reads it. */
#ifndef SONDE_PRESENT_PAGE_FILE_H
#define SONDE_PRESENT_PAGE_FILE_H

#include "base/buf.h"

struct sonde_page_file {
    const char *title;           /* any text */
    const char *source;          /* what it is of: a file, a URL; any text */
    double made_s;               /* unix time */
    const char *const *pages;    /* names, those that have something to show, NULL-terminated; the
                                    first is the one that it opens with */
    const char *query;           /* the state that it opens with: "from=…&to=…"; "" = none */
    struct sonde_buf answers;    /* see below; "" = none */
};

/* One more answer: key is what is asked for, "/api/path?a=1&b=2" with parameters in order of their
 * names; json, all of it valid, is what is answered. */
void sonde_page_file_add(struct sonde_page_file *f, const char *key, const char *json, size_t len);

/* The file. Whatever names and answers hold, it cannot leave the places that they are put in.
 * 0 or what is in out->error. */
int sonde_page_file_write(const struct sonde_page_file *f, struct sonde_buf *out);

#endif
