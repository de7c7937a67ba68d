/* json.h - values of an agent's answers, with what stands for "not known". Private to the files
 * that read them (data.c, infer.c). */
#ifndef SONDE_PRESENT_TOP_JSON_H
#define SONDE_PRESENT_TOP_JSON_H

#include <jansson.h>
#include <math.h>

#include "present/top/data.h"

static inline double top_number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static inline const char *top_string(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static inline uint32_t top_id(const json_t *o, const char *key)
{
    const json_int_t v = json_integer_value(json_object_get(o, key));
    return v > 0 && v <= UINT32_MAX ? (uint32_t)v : 0;
}

static inline size_t top_at_most(const json_t *array, size_t max)
{
    const size_t n = json_array_size(array);
    return n < max ? n : max;
}

/* Of all numbers in an object; NaN if it is none. */
double top_sum(const json_t *o);

/* Parse text, hand ownership to d and return the array under `key`. */
int top_open(struct sonde_top_data *d, const char *what, const char *key, const char *text,
             size_t len, json_t **array, struct sonde_err *err);

#endif
