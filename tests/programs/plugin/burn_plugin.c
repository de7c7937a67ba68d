/* What burn --dlopen loads and unloads: one exported function that spends CPU time. */
#include <stdint.h>

uint64_t plugin_burn(uint64_t n);

uint64_t plugin_burn(uint64_t n)
{
    uint64_t x = n | 1;
    for (uint64_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}
