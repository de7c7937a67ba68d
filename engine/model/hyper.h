/* hyper.h - the numbers that describe a model, from the metadata of its file. */
#ifndef ENGINE_MODEL_HYPER_H
#define ENGINE_MODEL_HYPER_H

#include "model/model.h"

/* Fills all of m that follows from metadata and from the shape of the embedding; -1: why. */
int hyper_read(const struct gguf *g, struct model *m, struct fail *why);

#endif
