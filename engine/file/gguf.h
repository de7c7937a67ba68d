/* gguf.h - reading GGUF files (versions 2 and 3): metadata, tensors, mapped and validated.
 *
 * Everything is checked when the file is opened: lengths against the file's size, counts against
 * limits, types, alignment, names that are there twice. What is handed out later is in bounds. A
 * file that is truncated while it is mapped is out of scope: the operating system kills for
 * that. */
#ifndef ENGINE_FILE_GGUF_H
#define ENGINE_FILE_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

struct gguf;

struct gguf_text { const char *at; size_t bytes; }; /* not terminated; borrowed from the file */

enum gguf_type {
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING,
    GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64,
};

struct gguf_array { enum gguf_type type; uint64_t count; const void *items; };

struct gguf_tensor {
    struct gguf_text name;
    uint32_t type;               /* enum weight_type, or one that weight_kind does not know */
    uint32_t dims_count;
    uint64_t dims[4];            /* dims[0] = cols; those that are not there are 1 */
    const void *data;
    uint64_t bytes;              /* 0 for types that this engine does not know */
};

int gguf_open(const char *path, struct gguf **out, struct fail *why);
/* The same over memory of the caller's, which stays: for tests and searches for bad input. */
int gguf_open_memory(const void *data, size_t bytes, const char *name, struct gguf **out,
                     struct fail *why);
void gguf_close(struct gguf *g); /* NULL is fine */

uint64_t gguf_file_bytes(const struct gguf *g);
const char *gguf_name(const struct gguf *g); /* as it was opened, for sentences; cut if very long */

/* 1 if the key is there and its value is of a fitting type (any integer that is in range; F32 or
 * F64), else 0 and *out is as it was. */
int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out);
int gguf_get_f32(const struct gguf *g, const char *key, float *out);
int gguf_get_bool(const struct gguf *g, const char *key, int *out);
int gguf_get_text(const struct gguf *g, const char *key, struct gguf_text *out);
int gguf_get_array(const struct gguf *g, const char *key, enum gguf_type of,
                   struct gguf_array *out);
/* Of an array of strings: the i-th. O(1) after the first call is not promised: walk with an
 * iterator. */
struct gguf_walk { const unsigned char *at; uint64_t left; };
struct gguf_walk gguf_walk_begin(const struct gguf_array *strings);
int gguf_walk_next(struct gguf_walk *w, struct gguf_text *out); /* 0 at the end */

uint64_t gguf_pair_count(const struct gguf *g);
/* The i-th pair as the file has it, with its type and value, for copying: key, and the bytes of
 * type and value. */
void gguf_pair(const struct gguf *g, uint64_t i, struct gguf_text *key, const void **raw,
               size_t *raw_bytes);

uint64_t gguf_tensor_count(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, uint64_t i);
const struct gguf_tensor *gguf_tensor_named(const struct gguf *g, const char *name); /* or NULL */

#endif
