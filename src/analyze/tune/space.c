/* space.c - see space.h. */
#include "analyze/tune/space.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sonde_tune_knob *sonde_tune_knob_add(struct sonde_tune_space *s, const char *name)
{
    if (s->knob_count == SONDE_TUNE_KNOBS_MAX || strlen(name) > SONDE_TUNE_NAME_MAX) return NULL;
    for (size_t i = 0; i < s->knob_count; i++) {
        if (!strcmp(s->knobs[i].name, name)) return NULL;
    }
    struct sonde_tune_knob *k = &s->knobs[s->knob_count++];
    memset(k, 0, sizeof(*k));
    snprintf(k->name, sizeof(k->name), "%s", name);
    return k;
}

int sonde_tune_level_find(const struct sonde_tune_knob *k, const char *level)
{
    for (int i = 0; i < k->level_count; i++) {
        if (!strcmp(k->levels[i], level)) return i;
    }
    return -1;
}

int sonde_tune_level_add(struct sonde_tune_knob *k, const char *level)
{
    const int there = sonde_tune_level_find(k, level);
    if (there >= 0) return there;
    if (!*level || strlen(level) > SONDE_TUNE_NAME_MAX) return -1;
    if (k->level_count == SONDE_TUNE_LEVELS_MAX) return -1;
    snprintf(k->levels[k->level_count], sizeof(k->levels[0]), "%s", level);
    return k->level_count++;
}

double sonde_tune_level_number(const char *text)
{
    char *end;
    if (!strchr("0123456789.", text[0])) return 0;
    const double v = strtod(text, &end);
    const double scale = *end == 'k' || *end == 'K' ? 1024 : *end == 'M' ? 1024 * 1024 : 1;
    if (scale > 1) end++;
    return *end || !(v > 0) || !(v < 1e18) ? 0 : v * scale;
}

static void tune_level_swap(struct sonde_tune_knob *k, uint8_t a, uint8_t b)
{
    char name[sizeof(k->levels[0])];
    memcpy(name, k->levels[a], sizeof(name));
    memcpy(k->levels[a], k->levels[b], sizeof(name));
    memcpy(k->levels[b], name, sizeof(name));
    const double place = k->places[a];
    k->places[a] = k->places[b];
    k->places[b] = place;
    if (k->start == a) k->start = b;
    else if (k->start == b) k->start = a;
}

void sonde_tune_knob_ready(struct sonde_tune_knob *k)
{
    k->ordered = k->level_count > 2; /* of two, both are as far from each other as can be */
    for (uint8_t i = 0; i < k->level_count && k->ordered; i++) {
        const double v = sonde_tune_level_number(k->levels[i]);
        if (!(v > 0)) k->ordered = 0;
        else k->places[i] = log2(v);
    }
    if (!k->ordered) return;
    for (uint8_t i = 1; i < k->level_count; i++) {
        for (uint8_t j = i; j > 0 && k->places[j] < k->places[j - 1]; j--) {
            tune_level_swap(k, j, (uint8_t)(j - 1));
        }
    }
    const double low = k->places[0], span = k->places[k->level_count - 1] - low;
    for (uint8_t i = 0; i < k->level_count; i++) {
        k->places[i] = span > 0 ? (k->places[i] - low) / span : 0;
    }
}

uint32_t sonde_tune_points(const struct sonde_tune_space *s)
{
    uint64_t n = s->knob_count ? 1 : 0;
    for (size_t i = 0; i < s->knob_count; i++) {
        n *= s->knobs[i].level_count;
        if (n > SONDE_TUNE_POINTS_MAX) return 0;
    }
    return (uint32_t)n;
}

void sonde_tune_levels(const struct sonde_tune_space *s, uint32_t point,
                       uint8_t out[SONDE_TUNE_KNOBS_MAX])
{
    for (size_t i = 0; i < s->knob_count; i++) {
        out[i] = (uint8_t)(point % s->knobs[i].level_count);
        point /= s->knobs[i].level_count;
    }
}

uint32_t sonde_tune_point(const struct sonde_tune_space *s,
                          const uint8_t levels[SONDE_TUNE_KNOBS_MAX])
{
    uint32_t point = 0;
    for (size_t i = s->knob_count; i-- > 0;) {
        assert(levels[i] < s->knobs[i].level_count);
        point = point * s->knobs[i].level_count + levels[i];
    }
    return point;
}

uint32_t sonde_tune_start(const struct sonde_tune_space *s)
{
    uint8_t levels[SONDE_TUNE_KNOBS_MAX];
    for (size_t i = 0; i < s->knob_count; i++) levels[i] = s->knobs[i].start;
    return sonde_tune_point(s, levels);
}

double sonde_tune_expected(const struct sonde_tune_space *s, uint32_t point)
{
    uint8_t levels[SONDE_TUNE_KNOBS_MAX];
    double sum = 0;
    sonde_tune_levels(s, point, levels);
    for (size_t k = 0; k < s->knob_count; k++) sum += s->knobs[k].expected[levels[k]];
    return sum;
}

uint32_t sonde_tune_moved(const struct sonde_tune_space *s, uint32_t point, size_t knob,
                          uint8_t level)
{
    uint8_t levels[SONDE_TUNE_KNOBS_MAX];
    sonde_tune_levels(s, point, levels);
    levels[knob] = level;
    return sonde_tune_point(s, levels);
}
