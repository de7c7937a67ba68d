/* flamegraph.h - a tree of stacks as a picture: an interactive SVG, or an HTML page for large
 * profiles. Both are one file with everything inside, for a browser that is offline.
 *
 * The SVG holds the picture twice: drawn, so that it is seen where no script runs (an <img>, a
 * preview on a code host), and as data, from which its script draws it anew when somebody zooms,
 * searches or resizes the window. The drawing is one path a colour and a text for each frame
 * that has room for one, so it costs some 20 bytes a frame.
 *
 * Widths are exact: a frame's edges are computed from whole weights, never by adding up rounded
 * widths. Children stand side by side from the left edge of their caller on, in the order of the
 * tree; what is left on the right is the caller's own weight and that of frames too narrow to be
 * kept. A tree with base_total > 0 is a difference: widths are those of the later profile, red
 * is a larger share of the total than before, blue a smaller one. A tree that was built inverted
 * is drawn like any other; the HTML page can turn either kind around. */
#ifndef SONDE_PRESENT_FLAMEGRAPH_FLAMEGRAPH_H
#define SONDE_PRESENT_FLAMEGRAPH_FLAMEGRAPH_H

#include "base/buf.h"
#include "profile/tree/tree.h"

/* Names are used by --colors: append only. */
#define SONDE_FLAMEGRAPH_COLORS(X)                                                             \
    X(HOT, "hot", "red to yellow by the name, Python light blue, the kernel violet")           \
    X(COLD, "cold", "green to blue by the name, Python pink, the kernel orange")               \
    X(RAINBOW, "rainbow", "any hue by the name, kernel frames grey")                           \
    X(MONOCHROME, "monochrome", "shades of one hue by the name, Python green, the kernel brown") \
    X(MODULE, "module", "one hue for a library or program, kernel frames grey")

enum sonde_flamegraph_colors {
#define SONDE__X(id, name, summary) SONDE_FLAMEGRAPH_##id,
    SONDE_FLAMEGRAPH_COLORS(SONDE__X)
#undef SONDE__X
    SONDE_FLAMEGRAPH_COLORS_COUNT
};

const char *sonde_flamegraph_colors_name(enum sonde_flamegraph_colors c);
int sonde_flamegraph_colors_find(const char *name); /* or -1 */

/* All zero is the default. */
struct sonde_flamegraph_options {
    const char *title;       /* NULL = from the kind of samples, as "CPU time" */
    const char *subtitle;    /* NULL = none */
    enum sonde_flamegraph_colors colors; /* of a difference: not used */
    double min_width;        /* share of the total below which a frame is left out: 0.001 is
                                0.1 %. 0 = 0.1 % in an SVG; in HTML as many of the widest frames
                                as make a file of a few megabytes. Negative = none is left out */
    int icicle;              /* the root is on top */
};

/* How to build a tree for such a picture: without most of what would not be drawn. Add to it as
 * needed. A tree that is to be compared with another is built whole. */
struct sonde_tree_options sonde_flamegraph_tree(const struct sonde_flamegraph_options *o, int html);

/* Append the file to out. options may be NULL. 0, SONDE_ENOMEM, or SONDE_EFULL when it would
 * pass out's cap. */
int sonde_flamegraph_svg(const struct sonde_tree *t,
                         const struct sonde_flamegraph_options *options, struct sonde_buf *out);
int sonde_flamegraph_html(const struct sonde_tree *t,
                          const struct sonde_flamegraph_options *options, struct sonde_buf *out);

/* The data alone, for a page that has the script: one JSON object as private.h describes
 * it, without its last bracket, since the caller has more to say. */
struct sonde_flamegraph_part {
    uint32_t nodes_max;      /* of more frames the widest are there; 0 = any number */
    uint32_t under;          /* node of t: only what is below it, and its callers; 0 = everything */
    const struct sonde_tree *functions; /* with the table of the functions of this tree, which is
                                t or the one that it was made from; NULL = without one */
};
int sonde_flamegraph_data(const struct sonde_tree *t,
                          const struct sonde_flamegraph_options *options,
                          const struct sonde_flamegraph_part *part, struct sonde_buf *out);

#endif
