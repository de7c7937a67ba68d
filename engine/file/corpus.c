/* corpus.c - the text of corpus.h, taken in by the assembler: a C array of half a megabyte takes
 * the compiler seconds. */
#include "file/corpus.h"

__asm__(".pushsection .rodata\n"
        ".globl engine_corpus_begin, engine_corpus_end\n"
        "engine_corpus_begin:\n"
        ".incbin \"" ENGINE_CORPUS "\"\n"
        "engine_corpus_end:\n"
        ".popsection\n");

extern const char engine_corpus_begin[], engine_corpus_end[];

const char *corpus_text(size_t *bytes)
{
    *bytes = (size_t)(engine_corpus_end - engine_corpus_begin);
    return engine_corpus_begin;
}
