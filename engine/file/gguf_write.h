/* gguf_write.h - writing a GGUF file (version 3), from its beginning to its end.
 *
 *   gguf_write_begin; pairs and tensors in any order; then the tensors' bytes, in the order that
 *   the tensors were added; gguf_write_finish. Or gguf_write_abandon at any time.
 *
 * What is written goes to a file beside the one that is meant and takes its name when it is
 * complete: a full disk or a crash never leaves half a model under a name that somebody loads. The
 * first failure is remembered and told by finish; calls after it do nothing. */
#ifndef ENGINE_FILE_GGUF_WRITE_H
#define ENGINE_FILE_GGUF_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "file/gguf.h"
#include "file/weight.h"

struct gguf_writer;

/* A path that is there already is replaced when it is finished; it has to be a regular file. */
int gguf_write_begin(const char *path, struct gguf_writer **out, struct fail *why);

void gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_write_f32(struct gguf_writer *w, const char *key, float value);
void gguf_write_bool(struct gguf_writer *w, const char *key, int value);
void gguf_write_text(struct gguf_writer *w, const char *key, const char *value);
void gguf_write_texts(struct gguf_writer *w, const char *key, const struct gguf_text *texts,
                      uint64_t count);
/* of: GGUF_I32 or GGUF_F32 */
void gguf_write_numbers(struct gguf_writer *w, const char *key, enum gguf_type of,
                        const void *items, uint64_t count);
/* As gguf_pair has them. */
void gguf_write_pair(struct gguf_writer *w, struct gguf_text key, const void *raw,
                     size_t raw_bytes);

/* bytes: weight_bytes() of these dimensions, or those of a type that this engine does not know. */
void gguf_write_tensor(struct gguf_writer *w, struct gguf_text name, uint32_t type,
                       const uint64_t *dims, uint32_t dims_count, uint64_t bytes);

/* The next bytes of the tensors, in pieces of any size that do not span two tensors. */
void gguf_write_data(struct gguf_writer *w, const void *data, uint64_t bytes);

/* Both release the writer. */
int gguf_write_finish(struct gguf_writer *w, struct fail *why);
void gguf_write_abandon(struct gguf_writer *w); /* NULL is fine */

#endif
