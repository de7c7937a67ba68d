/* format.h - profiles as files of other tools. One format = one .c file in formats/ + one row in
 * format_list.h. Readers take hostile bytes: every length is checked, every failure names where. */
#ifndef SONDE_PROFILE_FORMAT_H
#define SONDE_PROFILE_FORMAT_H

#include "base/buf.h"
#include "profile/profile.h"

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
    /* Into an empty profile. SONDE_EFORMAT: damaged; SONDE_ENOMEM: more than p may hold. After an
     * error p is good only to be destroyed. */
    int (*read)(const char *data, size_t len, struct sonde_profile *p, struct sonde_err *err);
};

extern const struct sonde_format_ops *const sonde_formats[]; /* NULL-terminated */
const struct sonde_format_ops *sonde_format_find(const char *name);

/* The format that data looks like, among those that can be read; NULL = none. */
const struct sonde_format_ops *sonde_format_guess(const char *data, size_t len);

#endif
