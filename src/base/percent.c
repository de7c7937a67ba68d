/* percent.c - see percent.h. */
#include "base/percent.h"

#include <math.h>
#include <stdio.h>

#define MOST 9999999.5

const char *sonde_percent_text(char out[SONDE_PERCENT_BYTES], double ratio)
{
    const double v = 100 * ratio, a = fabs(v);
    const int digits = a >= 99.95 ? 0 : a >= 9.995 ? 1 : a >= 0.0095 ? 2 : 3;
    if (isnan(v)) {
        snprintf(out, SONDE_PERCENT_BYTES, "unknown");
    } else if (a == 0) {
        snprintf(out, SONDE_PERCENT_BYTES, "0 %%");
    } else if (a < 0.0005) {
        snprintf(out, SONDE_PERCENT_BYTES, v < 0 ? ">-0.001 %%" : "<0.001 %%");
    } else if (a >= MOST) {
        snprintf(out, SONDE_PERCENT_BYTES, v < 0 ? "<-9999999 %%" : ">9999999 %%");
    } else {
        snprintf(out, SONDE_PERCENT_BYTES, "%.*f %%", digits, v);
    }
    return out;
}
