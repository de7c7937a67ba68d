/* format.h - profiles as files of other tools. One format = one .c file in formats/ + one row in
 * format_list.h. Readers take hostile bytes: every length is checked, every failure names where. */
#ifndef SONDE_PROFILE_FORMAT_H
#define SONDE_PROFILE_FORMAT_H

#include "base/buf.h"
#include "profile/profile.h"

/* How a file is to be read, and what there is to say about it. Zero is the default. */
struct sonde_import {
    const char *format;    /* its name; NULL = by its content */
    const char *event;     /* of several in one file; NULL = the first */
    int periods;           /* perf script: weigh samples of counters by their periods */
    struct sonde_err note; /* out: what was left out, shortened or estimated; "" = nothing */
    int addresses;         /* out: frames are addresses, to be looked up in the modules' files */
};

struct sonde_format_ops {
    const char *name;          /* --format NAME */
    const char *summary;       /* one line for help */
    const char *content_type;
    const char *suffix;        /* ".pb.gz" */
    /* NULL = cannot be written. The filter says which part. SONDE_ENOENT: nothing passes it. */
    int (*write)(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                 struct sonde_buf *out, struct sonde_err *err);
    /* 1 if data looks like it; NULL = cannot be read. */
    int (*probe)(const char *data, size_t len);
    /* Into an empty profile; how may be NULL. SONDE_EFORMAT: damaged; SONDE_EINVAL: how asks for
     * what is not there; SONDE_ENOMEM: more than p may hold. After an error p is good only to be
     * destroyed. */
    int (*read)(const char *data, size_t len, struct sonde_import *how, struct sonde_profile *p,
                struct sonde_err *err);
};

extern const struct sonde_format_ops *const sonde_formats[]; /* NULL-terminated */
const struct sonde_format_ops *sonde_format_find(const char *name);

/* The format that data looks like, among those that can be read; NULL = none. */
const struct sonde_format_ops *sonde_format_guess(const char *data, size_t len);

/* Read a file of any format, gzipped or not, text in UTF-8 or (with a mark at its start) UTF-16,
 * into the empty p. how may be NULL. Errors as above, and SONDE_EFORMAT if it is no profile; name
 * is how they call it. */
int sonde_format_read(const char *data, size_t len, const char *name, struct sonde_import *how,
                      struct sonde_profile *p, struct sonde_err *err);

/* ---- For readers ----------------------------------------------------------------------------- */

#define SONDE_FORMAT_UNPACKED_MAX ((size_t)1 << 30)

/* Append the content of a gzip file to out, of SONDE_FORMAT_UNPACKED_MAX. 0 or the error. */
int sonde_format_unpack(const char *data, size_t len, struct sonde_buf *out, struct sonde_err *err);

/* Add a sentence to what there is to say. how may be NULL. */
void sonde_import_note(struct sonde_import *how, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
