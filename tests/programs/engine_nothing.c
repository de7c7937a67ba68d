/* engine_nothing.c - a program that tells nothing of devices, pools or tokenizers, though it names
 * a pool by sonde.h: its report has no such parts. It burns for a moment, so that there is a
 * sample. */
#include "sonde/sonde.h"

int main(void)
{
    const uint64_t begin = sonde_ticks();
    sonde_pool_add(sonde_pool("scratch"), 4096);
    while (sonde_ticks_ns(sonde_ticks() - begin) < 50000000) continue;
    return 0;
}
