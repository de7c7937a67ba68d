/* hot_codec.h - the library of hot_library.c. */
#ifndef FINDINGS_HOT_CODEC_H
#define FINDINGS_HOT_CODEC_H
#include <stddef.h>
#include <stdint.h>

uint32_t codec_crc(const unsigned char *data, size_t length);
size_t codec_escape(const unsigned char *data, size_t length, unsigned char *out);

#endif
