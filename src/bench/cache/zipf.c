/* zipf.c - see zipf.h. H is the integral of x^-s, and its inverse; both written with expm1() and
 * log1p(), so that nothing happens at s = 1. */
#include "bench/cache/zipf.h"

#include <math.h>

/* (e^x - 1) / x and log(1 + x) / x, which are 1 at 0. */
static double zipf_expm1_by(double x) { return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2; }
static double zipf_log1p_by(double x) { return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2; }

static double zipf_integral(const struct sonde_zipf *z, double x)
{
    const double l = log(x);
    return zipf_expm1_by((1 - z->s) * l) * l;
}

static double zipf_inverse(const struct sonde_zipf *z, double y)
{
    double t = y * (1 - z->s);
    if (t < -1) t = -1; /* by rounding */
    return exp(zipf_log1p_by(t) * y);
}

void sonde_zipf_init(struct sonde_zipf *z, uint64_t n, double s)
{
    *z = (struct sonde_zipf){ .n = n ? n : 1, .s = s };
    z->h_first = zipf_integral(z, 1.5) - 1;
    z->h_last = zipf_integral(z, (double)z->n + 0.5);
    z->cut = 2 - zipf_inverse(z, zipf_integral(z, 2.5) - pow(2, -s));
}

uint64_t sonde_zipf_draw(const struct sonde_zipf *z, struct sonde_draw *d)
{
    for (;;) {
        const double u = z->h_last + sonde_draw_uniform(d) * (z->h_first - z->h_last);
        const double x = zipf_inverse(z, u);
        double k = floor(x + 0.5);
        if (k < 1) k = 1;
        if (k > (double)z->n) k = (double)z->n;
        if (k - x <= z->cut || u >= zipf_integral(z, k + 0.5) - pow(k, -z->s)) return (uint64_t)k;
    }
}

uint64_t sonde_zipf_place(const struct sonde_zipf *z, uint64_t rank)
{
    /* A prime that does not divide n: multiplying by it is a bijection. */
    static const uint64_t primes[] = { 2654435761u, 2246822519u, 3266489917u, 668265263u };
    for (int i = 0; i < 4; i++) {
        if (z->n % primes[i]) {
            return (uint64_t)((unsigned __int128)(rank - 1) * primes[i] % z->n);
        }
    }
    return rank - 1;
}
