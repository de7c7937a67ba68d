/* source.c - products.cl, taken in by the assembler; a 0 behind it. */
#include "opencl/opencl_private.h"

__asm__(".pushsection .rodata\n"
        ".globl engine_opencl_source\n"
        "engine_opencl_source:\n"
        ".incbin \"" ENGINE_OPENCL_SOURCE "\"\n"
        ".byte 0\n"
        ".popsection\n");

extern const char engine_opencl_source[];

const char *opencl_source(void) { return engine_opencl_source; }
