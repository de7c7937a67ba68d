/* corpus.h - text that is always at hand: this project's documents and some of its sources, put
 * into the program when it is built. */
#ifndef ENGINE_FILE_CORPUS_H
#define ENGINE_FILE_CORPUS_H

#include <stddef.h>

const char *corpus_text(size_t *bytes); /* not terminated */

#endif
