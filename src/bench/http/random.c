/* random.c - see random.h. Only +, *, log, sqrt and cos of the C library: its last bits may differ
 * between libraries, which moves an arrival by less than a nanosecond. */
#include "bench/http/random.h"

#include <math.h>

/* Box and Muller's, without keeping the second: a stream is a plain number then. */
double sonde_load_random_normal(struct sonde_load_random *r)
{
    const double u = sonde_load_random_unit(r), v = sonde_load_random_unit(r);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

/* Marsaglia and Tsang (2000); below a shape of 1 that of shape + 1, made smaller by u^(1/shape). */
double sonde_load_random_gamma(struct sonde_load_random *r, double shape)
{
    double boost = 1;
    const double wanted = shape;
    if (shape < 1) {
        boost = pow(sonde_load_random_unit(r), 1 / shape);
        shape += 1;
    }
    const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = sonde_load_random_normal(r), cube = 1 + c * x;
        if (cube <= 0) continue;
        const double v = cube * cube * cube, u = sonde_load_random_unit(r);
        if (log(u) < 0.5 * x * x + d - d * v + d * log(v)) return d * v * boost / wanted;
    }
}
