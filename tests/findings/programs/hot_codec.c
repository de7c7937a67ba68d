/* hot_codec.c - a shared library whose checksum goes bit by bit. */
#include "hot_codec.h"

uint32_t codec_crc(const unsigned char *data, size_t length)
{
    uint32_t crc = ~0u; /* PLANTED: no table */
    for (size_t i = 0; i < length; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    return ~crc;
}

size_t codec_escape(const unsigned char *data, size_t length, unsigned char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        if (data[i] == 0x7d || data[i] == 0x7e) out[n++] = 0x7d, out[n++] = data[i] ^ 0x20;
        else out[n++] = data[i];
    }
    return n;
}
