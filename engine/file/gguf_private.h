/* gguf_private.h - what the reader (gguf.c) finds and looking up (gguf_get.c) uses. */
#ifndef ENGINE_FILE_GGUF_PRIVATE_H
#define ENGINE_FILE_GGUF_PRIVATE_H

#include "file/gguf.h"

struct gguf_pair {
    struct gguf_text key;
    enum gguf_type type;
    const unsigned char *raw;    /* u32 type and the value */
    size_t raw_bytes;
};

struct gguf {
    const unsigned char *data;
    size_t bytes;
    int mapped;                  /* data is ours to unmap */
    char name[200];              /* of the file, for sentences */
    struct gguf_pair *pairs;
    struct gguf_tensor *tensors;
    uint64_t pair_count, tensor_count;
    uint32_t *pair_order, *tensor_order; /* by name */
};

size_t gguf_type_bytes(uint32_t type); /* of one value; 0 for those that have no fixed size */
int gguf_text_compare(const struct gguf_text *a, const struct gguf_text *b); /* as strcmp */
const struct gguf_pair *gguf_pair_find(const struct gguf *g, const char *key); /* or NULL */

#endif
