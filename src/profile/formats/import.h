/* import.h - what the readers of JSON and of addresses share. */
#ifndef SONDE_PROFILE_FORMATS_IMPORT_H
#define SONDE_PROFILE_FORMATS_IMPORT_H

#include "base/json_read.h"
#include "profile/format.h"

/* SONDE_ENOMEM: the profile would be larger than it may. */
int sonde_import_no_room(const struct sonde_profile *p, struct sonde_err *err);

/* What a reader of JSON ends with: 0, or SONDE_EFORMAT with the line and what is wrong there. */
int sonde_import_json_error(const struct sonde_json_reader *r, struct sonde_err *err);

/* 1 if all of words are among the first bytes of data, which begin like JSON. */
int sonde_import_json_has(const char *data, size_t len, const char *const *words);

/* A location known by name, file and line; 0 = no memory. line 0 = unknown. */
uint32_t sonde_import_frame(struct sonde_profile *p, struct sonde_json_text name,
                            struct sonde_json_text file, uint32_t line);

/* A frame as the formats in JSON have them: an object with a name, a file and a line, under these
 * keys. What else is in it is passed over. */
struct sonde_import_frame_keys { const char *name, *file, *line; };
struct sonde_import_frame_text {
    struct sonde_json_text name, file;  /* in the input, or in one of the buffers */
    double line;                        /* as it is there; -1 = none */
};
/* 0: there is no such object. Errors are the reader's. */
int sonde_import_frame_read(struct sonde_json_reader *r, const struct sonde_import_frame_keys *keys,
                            struct sonde_buf *name, struct sonde_buf *file,
                            struct sonde_import_frame_text *out);

/* Room for one more row in a table of a reader's own; *bytes: what its tables have, beside which p
 * may not be larger than it may. 0, or SONDE_ENOMEM with err. */
int sonde_import_grow(const struct sonde_profile *p, size_t *bytes, void **table, uint32_t count,
                      uint32_t *cap, size_t size, struct sonde_err *err);

/* Nanoseconds in a unit of time ("milliseconds"); 0 = it is none. */
double sonde_import_unit_ns(struct sonde_json_text unit);

/* Add a sample; 0 or SONDE_E… with err. A weight of 0 is left out. */
int sonde_import_sample(struct sonde_profile *p, const struct sonde_profile_sample *s,
                        struct sonde_err *err);

/* ---- Addresses ------------------------------------------------------------------------------- */

/* Where code was mapped, as in /proc/PID/maps. */
struct sonde_import_maps {
    struct sonde_import_map { uint64_t start, end; uint32_t module; } *rows; /* by start */
    uint32_t count, cap;
    size_t bytes;
};

/* Read what executable files were mapped; lines of another form are passed over. p->program becomes
 * the first. 0 or SONDE_ENOMEM. */
int sonde_import_maps_read(struct sonde_import_maps *m, const char *data, size_t len,
                           struct sonde_profile *p);
void sonde_import_maps_release(struct sonde_import_maps *m);
/* The module at an address; 0 = none. */
uint32_t sonde_import_maps_find(const struct sonde_import_maps *m, uint64_t address);

#endif
