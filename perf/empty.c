/* empty.c - a library with a function that does nothing: what any call through the PLT costs. */
#include "bare.h"

void bare_empty(uint64_t off, uint64_t n)
{
    __asm__ volatile("" ::"r"(off), "r"(n));
}
