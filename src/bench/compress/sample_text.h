/* sample_text.h - private to sample.c: prose, and JSON with prose in it. */
#ifndef SONDE_BENCH_COMPRESS_SAMPLE_TEXT_H
#define SONDE_BENCH_COMPRESS_SAMPLE_TEXT_H

#include <stddef.h>
#include <stdint.h>

void sonde_sample_text_make(int json, uint64_t seed, char *out, size_t bytes);

#endif
