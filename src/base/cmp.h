/* cmp.h - comparisons for qsort() and bsearch(), upwards. Not by subtraction, which overflows. */
#ifndef SONDE_BASE_CMP_H
#define SONDE_BASE_CMP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* -1, 0 or 1, of two numbers of one type; each is evaluated twice. For comparisons of structs:
 *
 *   return a->time_ns != b->time_ns ? SONDE_CMP(a->time_ns, b->time_ns) : SONDE_CMP(a->id, b->id);
 */
#define SONDE_CMP(a, b) (((a) > (b)) - ((a) < (b)))

static inline int sonde_cmp_u64(const void *a, const void *b)
{
    return SONDE_CMP(*(const uint64_t *)a, *(const uint64_t *)b);
}

static inline int sonde_cmp_u32(const void *a, const void *b)
{
    return SONDE_CMP(*(const uint32_t *)a, *(const uint32_t *)b);
}

static inline int sonde_cmp_i64(const void *a, const void *b)
{
    return SONDE_CMP(*(const int64_t *)a, *(const int64_t *)b);
}

static inline int sonde_cmp_int(const void *a, const void *b)
{
    return SONDE_CMP(*(const int *)a, *(const int *)b);
}

/* What is not a number comes last: if it were equal to all, nothing would be in order. */
static inline int sonde_cmp_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    if (isnan(x) || isnan(y)) return !!isnan(x) - !!isnan(y);
    return SONDE_CMP(x, y);
}

/* Of an array of pointers to texts, by their bytes. */
static inline int sonde_cmp_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#endif
