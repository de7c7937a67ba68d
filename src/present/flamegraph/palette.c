/* palette.c - which colour a frame has.
 *
 * A frame's colour is a hash of its name, so a function has the same colour in every picture.
 * Colours are made in OKLCH, where equal lightness looks equally light: no frame stands out by
 * accident, and the text on them is as readable on all. Light frames with dark text on a white
 * page, dark frames with light text on a dark one. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/names.h"
#include "present/flamegraph/private.h"

static const char *const palette_names[] = {
#define SONDE__X(id, name, summary) name,
    SONDE_FLAMEGRAPH_COLORS(SONDE__X)
#undef SONDE__X
};

const char *sonde_flamegraph_colors_name(enum sonde_flamegraph_colors c)
{
    assert(c < SONDE_FLAMEGRAPH_COLORS_COUNT);
    return palette_names[c];
}

int sonde_flamegraph_colors_find(const char *name)
{
    return SONDE_NAME_FIND(palette_names, name);
}

uint8_t sonde_flame_color_index(const char *text, uint32_t flags)
{
    if (flags & (SONDE_NODE_UNKNOWN | SONDE_NODE_TRUNCATED) || !text[0]) {
        return SONDE_FLAME_UNKNOWN;
    }
    /* Colours of earlier versions; the last steps mix high bits into low ones. */
    uint32_t hash = sonde_fnv32_text(SONDE_FNV32_SEED, text);
    hash = (hash ^ hash >> 15) * 0x2c1b3c6du;
    hash ^= hash >> 13;
    if (flags & SONDE_NODE_KERNEL) {
        return (uint8_t)(SONDE_FLAME_KERNEL + hash % SONDE_FLAME_KERNEL_HUES);
    }
    if (flags & SONDE_NODE_PYTHON) {
        return (uint8_t)(SONDE_FLAME_PYTHON + hash % SONDE_FLAME_PYTHON_HUES);
    }
    return (uint8_t)(hash % SONDE_FLAME_HUES);
}

/* ---- OKLCH to sRGB (B. Ottosson, "A perceptual color space for image processing") ----------- */

static uint32_t flame_palette_channel(double linear)
{
    if (linear <= 0) return 0;
    if (linear >= 1) return 255;
    const double s = linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1 / 2.4) - 0.055;
    return (uint32_t)lrint(s * 255);
}

static uint32_t flame_palette_oklch(double lightness, double chroma, double hue_degrees)
{
    const double hue = hue_degrees * 3.14159265358979323846 / 180;
    const double a = chroma * cos(hue), b = chroma * sin(hue);
    const double l = pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
    const double m = pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
    const double s = pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
    return flame_palette_channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s) << 16 |
           flame_palette_channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s) << 8 |
           flame_palette_channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s);
}

/* Where a scheme's colours begin and how far they go, in steps from 0 to 1. */
struct ramp { double light, light_by, dark, dark_by, chroma, hue, hue_by; };

/* Python differs from the rest in lightness too, for those who see fewer hues (a test has the
 * distances). Where names have any hue it is one of them. */
static const struct {
    struct ramp names, kernel, python;
} schemes[SONDE_FLAMEGRAPH_COLORS_COUNT] = {
    [SONDE_FLAMEGRAPH_HOT] = { { 0.76, 0.12, 0.46, 0.08, 0.132, 28, 60 },
                               { 0.79, 0.05, 0.45, 0.05, 0.095, 295, 20 },
                               { 0.91, 0.03, 0.34, 0.02, 0.080, 215, 20 } },
    [SONDE_FLAMEGRAPH_COLD] = { { 0.86, -0.08, 0.50, -0.05, 0.090, 165, 110 },
                                { 0.82, 0.05, 0.48, 0.05, 0.105, 55, 20 },
                                { 0.90, 0.03, 0.34, 0.02, 0.070, 350, 15 } },
    [SONDE_FLAMEGRAPH_RAINBOW] = { { 0.82, 0.04, 0.47, 0.04, 0.105, 0, 349 },
                                   { 0.76, 0.08, 0.40, 0.06, 0.012, 280, 20 },
                                   { 0.82, 0.04, 0.47, 0.04, 0.105, 0, 349 } },
    [SONDE_FLAMEGRAPH_MONOCHROME] = { { 0.78, 0.14, 0.38, 0.14, 0.045, 255, 0 },
                                      { 0.80, 0.08, 0.42, 0.08, 0.050, 60, 0 },
                                      { 0.86, 0.06, 0.32, 0.04, 0.060, 165, 0 } },
    [SONDE_FLAMEGRAPH_MODULE] = { { 0.82, 0.04, 0.47, 0.04, 0.105, 0, 349 },
                                  { 0.76, 0.08, 0.40, 0.06, 0.012, 280, 20 },
                                  { 0.82, 0.04, 0.47, 0.04, 0.105, 0, 349 } },
};

int sonde_flame_tells_kinds(enum sonde_flamegraph_colors scheme)
{
    return scheme != SONDE_FLAMEGRAPH_RAINBOW && scheme != SONDE_FLAMEGRAPH_MODULE;
}

uint32_t sonde_flame_color(enum sonde_flamegraph_colors scheme, int index, int dark)
{
    assert(scheme < SONDE_FLAMEGRAPH_COLORS_COUNT);
    if (index == SONDE_FLAME_UNKNOWN) {
        return dark ? flame_palette_oklch(0.36, 0, 0) : flame_palette_oklch(0.83, 0, 0);
    }
    if (index == SONDE_FLAME_ROOT) {
        return dark ? flame_palette_oklch(0.33, 0.012, 260) : flame_palette_oklch(0.90, 0.008, 260);
    }
    const struct ramp *r = &schemes[scheme].names;
    double at = (double)index / (SONDE_FLAME_HUES - 1);
    if (index >= SONDE_FLAME_PYTHON) {
        r = &schemes[scheme].python;
        at = (double)(index - SONDE_FLAME_PYTHON) / (SONDE_FLAME_PYTHON_HUES - 1);
    } else if (index >= SONDE_FLAME_KERNEL) {
        r = &schemes[scheme].kernel;
        at = (double)(index - SONDE_FLAME_KERNEL) / (SONDE_FLAME_KERNEL_HUES - 1);
    }
    const double lightness = dark ? r->dark + at * r->dark_by : r->light + at * r->light_by;
    return flame_palette_oklch(lightness, dark ? r->chroma * 0.8 : r->chroma,
                               r->hue + at * r->hue_by);
}

uint32_t sonde_flame_diff_color(int level, int dark)
{
    assert(level >= -SONDE_FLAME_LEVELS && level <= SONDE_FLAME_LEVELS);
    const double by = fabs((double)level) / SONDE_FLAME_LEVELS;
    const double hue = level > 0 ? 25 : 252;
    /* The least change that is shown is still a colour and not grey. */
    const double chroma = level ? 0.03 + (dark ? 0.12 : 0.135) * by : 0;
    return dark ? flame_palette_oklch(0.34 + 0.14 * by, chroma, hue)
                : flame_palette_oklch(0.93 - 0.21 * by, chroma, hue);
}

/* ---- Differences ---------------------------------------------------------------------------- */

double sonde_flame_change(const struct sonde_tree *t, const struct sonde_tree_node *n)
{
    assert(t->base_total); /* of a diff */
    const double total = (double)t->nodes[0].total;
    return (total > 0 ? (double)n->total / total : 0) -
           (double)n->base_total / (double)t->base_total;
}

int sonde_flame_level(const struct sonde_tree *t, const struct sonde_tree_node *n, double largest)
{
    if (!t->base_total) return 0;
    /* The sign is exact, so that the same share is never coloured: a/b - c/d rounds. */
    const unsigned __int128 now = (unsigned __int128)n->total * t->base_total;
    const unsigned __int128 before = (unsigned __int128)n->base_total * t->nodes[0].total;
    if (now == before) return 0;
    /* The square root keeps small changes visible beside a large one. */
    const double by = largest > 0 ? sqrt(fabs(sonde_flame_change(t, n)) / largest) : 1;
    int level = (int)ceil(by * SONDE_FLAME_LEVELS);
    if (level > SONDE_FLAME_LEVELS) level = SONDE_FLAME_LEVELS;
    if (level < 1) level = 1;
    return now > before ? level : -level;
}
