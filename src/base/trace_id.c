/* trace_id.c - see trace_id.h. */
#include "base/trace_id.h"

#include "base/hex.h"
#include <string.h>

int sonde_trace_id_parse(const char *text, uint64_t *hi, uint64_t *lo)
{
    uint64_t word[2] = { 0, 0 };
    const size_t len = strlen(text);
    unsigned digits = 0;
    if (len != 32 && len != 36) return 0;
    for (size_t i = 0; i < len; i++) {
        if (len == 36 && (i == 8 || i == 13 || i == 18 || i == 23)) {
            if (text[i] != '-') return 0;
            continue;
        }
        const int digit = sonde_hex_digit(text[i]);
        if (digit < 0) return 0;
        word[digits / 16] = word[digits / 16] << 4 | (uint64_t)digit;
        digits++;
    }
    if (!word[0] && !word[1]) return 0;
    *hi = word[0];
    *lo = word[1];
    return 1;
}
