/* private.h - what the SVG and the HTML writer share: the frames that are kept, their
 * places and colours, and the data that the scripts in web/ read.
 *
 * The data is one JSON object. Tables of numbers are strings of variable-length integers, five
 * bits a character, least significant first, from A-Za-z0-9-_ (the upper 32 characters mean that
 * more follows): no character of it needs escaping in XML, HTML or JSON.
 *
 *   version     1
 *   title, subtitle, kind, unit, colors, icicle
 *   inverted    the tree is leaf first
 *   scale       all weights are multiples of this, and are stored divided by it
 *   minWidth    share below which frames were left out
 *   baseTotal   of a difference, else 0; in the unit, not divided
 *   strings     names, modules and files; 0 is ""
 *   frames      per frame: name, module, file, line, flags, colour by name, colour by module
 *   nodes       per node, callers first: levels to go up from the node before to get to the
 *               caller (0 = the node before is the caller), frame, self, weight of children left
 *               out, samples that are not in children; of a difference also base self and base
 *               weight of children left out
 *   palettes    scheme → { light, dark }: six hexadecimal digits a colour
 *   functions   HTML only: per function name, module, file, line, self, total[, base self, base
 *               total], largest total first; of all frames, kept or not
 *   functionCount  HTML only: how many there are; fewer may be stored
 *
 * A node's total is not stored: it is the sum of what is. Also change web/src/data.ts. */
#ifndef SONDE_PRESENT_FLAMEGRAPH_PRIVATE_H
#define SONDE_PRESENT_FLAMEGRAPH_PRIVATE_H

#include "base/map.h"
#include "present/flamegraph/flamegraph.h"
#include "present/web.h"

#define SONDE_FLAME_DEPTH_MAX 4096 /* frames deeper than this are left out */

/* Colours of a scheme: by hash, then the kernel's by hash, then two single ones, then those of
 * functions of Python by hash. */
enum {
    SONDE_FLAME_HUES = 32,
    SONDE_FLAME_KERNEL = SONDE_FLAME_HUES,
    SONDE_FLAME_KERNEL_HUES = 8,
    SONDE_FLAME_UNKNOWN = SONDE_FLAME_KERNEL + SONDE_FLAME_KERNEL_HUES,
    SONDE_FLAME_ROOT,
    SONDE_FLAME_PYTHON,
    SONDE_FLAME_PYTHON_HUES = 8,
    SONDE_FLAME_PALETTE = SONDE_FLAME_PYTHON + SONDE_FLAME_PYTHON_HUES,
    /* Of a difference: level -16 … 16, blue to red, 0 = the same share. */
    SONDE_FLAME_LEVELS = 16,
    SONDE_FLAME_DIFF_PALETTE = 2 * SONDE_FLAME_LEVELS + 1,
};

struct sonde_flame_string {
    const char *raw;         /* borrowed from the tree */
    size_t at, len;          /* in texts */
};

struct sonde_flame_frame {
    const struct sonde_tree_node *node; /* the first one with it; borrowed */
    uint32_t name, module, file;
    uint8_t color, module_color;
};

struct sonde_flame_node {
    uint32_t node;           /* of the tree */
    uint32_t parent;         /* index of the caller in this table */
    uint32_t frame, depth, up;
    uint64_t start, total;   /* weight left of it, and its own */
    uint64_t self, dropped;
    uint64_t samples;        /* that are in no kept child */
    uint64_t base_self, base_dropped;
    int level;
};

struct sonde_flame {
    const struct sonde_tree *tree;
    uint32_t under;          /* node of it below which all is that is drawn; 0 = the root */
    double min_width;
    struct sonde_flame_node *nodes; /* owned; callers first */
    uint32_t node_count, node_cap;
    struct sonde_flame_string *strings; /* owned */
    uint32_t string_count, string_cap;
    struct sonde_flame_frame *frames; /* owned */
    uint32_t frame_count, frame_cap;
    struct sonde_map string_rows, frame_rows; /* id + 1, by text and by all that makes a frame */
    struct sonde_buf texts;  /* of the strings, harmless: see present/text.h */
    uint32_t depth_max;
    uint64_t dropped;        /* weight of all frames that were left out */
    uint64_t scale;
};

/* The frames of t that are at least min_width wide; nodes_max 0 = any number, else the widest.
 * 0 or SONDE_ENOMEM. Release in any case. */
int sonde_flame_init(struct sonde_flame *f, const struct sonde_tree *t, double min_width,
                     uint32_t nodes_max);
/* The same, but only of what is below a node of t, with its callers: each with that callee
 * alone. */
int sonde_flame_init_under(struct sonde_flame *f, const struct sonde_tree *t, double min_width,
                           uint32_t nodes_max, uint32_t under);
void sonde_flame_release(struct sonde_flame *f);

/* Id of a string, or UINT32_MAX when out of memory. s must live as long as f. */
uint32_t sonde_flame_intern(struct sonde_flame *f, const char *s);
const char *sonde_flame_text(const struct sonde_flame *f, uint32_t string);

/* More or less than before: the level of a node. largest is the largest change of share that is
 * shown. */
double sonde_flame_change(const struct sonde_tree *t, const struct sonde_tree_node *n);
int sonde_flame_level(const struct sonde_tree *t, const struct sonde_tree_node *n, double largest);

/* 0xrrggbb. */
uint32_t sonde_flame_color(enum sonde_flamegraph_colors scheme, int index, int dark);
uint32_t sonde_flame_diff_color(int level, int dark);
uint8_t sonde_flame_color_index(const char *text, uint32_t flags);
/* 1 if the scheme tells native code, Python and the kernel apart. */
int sonde_flame_tells_kinds(enum sonde_flamegraph_colors scheme);

/* ---- Writing ------------------------------------------------------------------------------- */

const char *sonde_flame_title(const struct sonde_tree *t,
                              const struct sonde_flamegraph_options *o);
void sonde_flame_put_xml(struct sonde_buf *b, const char *s);  /* any text, escaped */

/* The data as above. functions: with the table of the functions of this tree, which lives as long
 * as f's; NULL = without one. 0 or SONDE_ENOMEM, besides what may be in out->error. */
int sonde_flame_put_data(struct sonde_flame *f, const struct sonde_flamegraph_options *o,
                         const struct sonde_tree *functions, struct sonde_buf *out);

#endif
