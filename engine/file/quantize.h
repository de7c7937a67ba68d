/* quantize.h - a model's weights as another type.
 *
 * Matrices become the type that is asked for; norms and other vectors stay as they are. Ternary
 * types leave embeddings and output at F16, which is where three values lose too much. A matrix
 * whose rows are not a multiple of the type's block becomes F16. Metadata is kept but for
 * general.file_type. */
#ifndef ENGINE_FILE_QUANTIZE_H
#define ENGINE_FILE_QUANTIZE_H

#include <stdint.h>

#include "base/fail.h"
#include "file/gguf.h"
#include "file/weight.h"

struct quantize_report {
    uint64_t tensors, done;      /* in all; finished so far */
    uint64_t converted, fallbacks;
    uint64_t bytes_in, bytes_out; /* of tensors, so far */
};

/* before(arg, report, tensor, type, fallback): a tensor is about to be written as that type. Told
 * to sonde as well: operation "quantize" of device "cpu", and fallbacks. */
struct quantize_watch {
    void (*before)(void *arg, const struct quantize_report *r, const struct gguf_tensor *t,
                   enum weight_type type, int fallback);
    void *arg;
};

int quantize_file(const struct gguf *in, enum weight_type type, const char *path,
                  const struct quantize_watch *watch, struct quantize_report *report,
                  struct fail *why);

#endif
