/* svg.c - the flame graph as one SVG file: a picture that needs no script, the data,
 * and the script that makes it interactive (web/src/svg.ts). */
#include <assert.h>
#include <string.h>

#include "base/array.h"
#include "present/flamegraph/private.h"
#include "present/text.h"
#include "present/units.h"
#include "sonde/sonde.h"

/* Pixels of the picture without a script. */
enum { WIDTH = 1200, PAD = 12, ROW = 18, FRAME = 17, HEAD = 64, FOOT = 32 };
enum { INNER = WIDTH - 2 * PAD, FINE = 100 /* positions are rounded to a hundredth */ };

/* Of the fonts in use for 12 px, the widest takes this for a character. */
#define CHARACTER_PX 7.3

struct picture {
    const struct sonde_flame *flame;
    const struct sonde_flamegraph_options *options;
    struct sonde_buf *out;
};

/* The place of a weight, in hundredths of a pixel. Both edges of a frame, and the edge of the
 * one beside it, come from here: they meet exactly. */
static uint64_t flame_svg_place(const struct picture *p, uint64_t weight)
{
    const uint64_t total = p->flame->nodes[0].total;
    if (!total) return 0;
    return (uint64_t)(((unsigned __int128)weight * (INNER * FINE * 2) + total) / total / 2);
}

static void flame_svg_put_place(struct sonde_buf *b, uint64_t hundredths)
{
    sonde_buf_u64(b, hundredths / FINE);
    const unsigned rest = (unsigned)(hundredths % FINE);
    if (rest) sonde_buf_printf(b, rest % 10 ? ".%02u" : ".%u", rest % 10 ? rest : rest / 10);
}

static uint32_t row_y(const struct picture *p, uint32_t depth)
{
    return HEAD + (p->options->icicle ? depth : p->flame->depth_max - depth) * ROW;
}

static int color_of(const struct picture *p, const struct sonde_flame_node *n)
{
    if (p->flame->tree->base_total) return n->level + SONDE_FLAME_LEVELS;
    const struct sonde_flame_frame *f = &p->flame->frames[n->frame];
    return p->options->colors == SONDE_FLAMEGRAPH_MODULE ? f->module_color : f->color;
}

/* ---- Styles --------------------------------------------------------------------------------- */

static void put_colors(const struct picture *p, int dark)
{
    const int diff = p->flame->tree->base_total > 0;
    for (int i = 0; i < (diff ? SONDE_FLAME_DIFF_PALETTE : SONDE_FLAME_PALETTE); i++) {
        sonde_buf_printf(p->out, ".c%d{fill:#%06x}", i,
                         diff ? sonde_flame_diff_color(i - SONDE_FLAME_LEVELS, dark)
                              : sonde_flame_color(p->options->colors, i, dark));
    }
}

static void flame_svg_put_style(const struct picture *p)
{
    sonde_buf_puts(p->out,
                   "<style>"
                   ".sonde-flame{font-family:ui-sans-serif,system-ui,sans-serif}"
                   ".bg{fill:#fff}.h{font-size:18px;font-weight:600;fill:#1f2328}"
                   ".s{font-size:12px;fill:#59636e}"
                   ".f{stroke:#fff;stroke-width:.5}"
                   ".t{font:12px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;"
                   "fill:#1f2328}\n");
    put_colors(p, 0);
    sonde_buf_puts(p->out, "\n@media(prefers-color-scheme:dark){"
                           ".bg{fill:#0d1117}.h{fill:#e6edf3}.s{fill:#9198a1}"
                           ".f{stroke:#0d1117}.t{fill:#f0f3f6}\n");
    put_colors(p, 1);
    sonde_buf_puts(p->out, "}</style>\n");
}

/* ---- The picture without a script ------------------------------------------------------------ */

static void put_heading(const struct picture *p)
{
    sonde_buf_printf(p->out, "<text class=\"h\" x=\"%d\" y=\"30\">", PAD);
    sonde_flame_put_xml(p->out, sonde_flame_title(p->flame->tree, p->options));
    sonde_buf_printf(p->out, "</text>\n<text class=\"s\" x=\"%d\" y=\"49\">", PAD);
    sonde_flame_put_xml(p->out, p->options->subtitle ? p->options->subtitle : "");
    sonde_buf_puts(p->out, "</text>\n");
}

static void flame_svg_put_value(struct sonde_buf *b, const struct sonde_tree *t, uint64_t weight)
{
    char text[SONDE_WEIGHT_BYTES];
    sonde_buf_puts(b, sonde_weight_format(text, weight, t->kind, 0));
}

/* What the picture is of: as the last line of it, and as its description. */
static void flame_svg_put_summary(const struct picture *p)
{
    const struct sonde_tree *t = p->flame->tree;
    const unsigned long long samples = t->nodes[0].samples;
    if (t->kind == SONDE_SAMPLE_OTHER) {
        flame_svg_put_value(p->out, t, t->nodes[0].total);
        sonde_buf_puts(p->out, t->nodes[0].total == 1 ? " sample" : " samples");
    } else {
        flame_svg_put_value(p->out, t, t->nodes[0].total);
        sonde_buf_printf(p->out, " of %s", sonde_sample_kind_title(t->kind));
        if (samples) {
            sonde_buf_printf(p->out, " in %llu sample%s", samples, samples == 1 ? "" : "s");
        }
    }
    if (t->base_total) {
        sonde_buf_puts(p->out, "; before: ");
        flame_svg_put_value(p->out, t, t->base_total);
        sonde_buf_puts(p->out, "; red: a larger share than before, blue: a smaller one");
    }
    if (p->flame->dropped) {
        sonde_buf_printf(p->out, "; frames below %g %% are left out", p->flame->min_width * 100);
    }
}

/* What colours mean, where there is more than one kind of code: in words with a square of each.
 * The script does the same (web/src/svg.ts). */
static void flame_svg_put_kinds(const struct picture *p)
{
    static const struct { int color; const char *name; } kinds[] = {
        { SONDE_FLAME_HUES / 2, "native" },
        { SONDE_FLAME_PYTHON + SONDE_FLAME_PYTHON_HUES / 2, "Python" },
        { SONDE_FLAME_KERNEL + SONDE_FLAME_KERNEL_HUES / 2, "kernel" },
    };
    int any[SONDE_COUNT(kinds)] = { 0 };
    if (p->flame->tree->base_total || !sonde_flame_tells_kinds(p->options->colors)) return;
    for (uint32_t i = 0; i < p->flame->frame_count; i++) {
        const struct sonde_flame_frame *f = &p->flame->frames[i];
        if (f->color == SONDE_FLAME_ROOT || f->color == SONDE_FLAME_UNKNOWN) continue;
        const uint32_t flags = f->node->flags;
        any[flags & SONDE_NODE_PYTHON ? 1 : flags & SONDE_NODE_KERNEL ? 2 : 0] = 1;
    }
    if (any[0] + any[1] + any[2] < 2) return;
    for (size_t i = 0; i < SONDE_COUNT(kinds); i++) {
        if (!any[i]) continue;
        sonde_buf_printf(p->out, "<tspan class=\"c%d\" dx=\"%d\">\xe2\x96\xa0</tspan> %s",
                         kinds[i].color, i ? 10 : 20, kinds[i].name);
    }
}

static void put_rects(const struct picture *p)
{
    const int colors = p->flame->tree->base_total ? SONDE_FLAME_DIFF_PALETTE : SONDE_FLAME_PALETTE;
    sonde_buf_printf(p->out, "<g class=\"f\" transform=\"translate(%d 0)\">\n", PAD);
    for (int color = 0; color < colors; color++) {
        int any = 0;
        for (uint32_t i = 0; i < p->flame->node_count; i++) {
            const struct sonde_flame_node *n = &p->flame->nodes[i];
            if (color_of(p, n) != color || !n->total) continue;
            if (!any) sonde_buf_printf(p->out, "<path class=\"c%d\" d=\"", color);
            any = 1;
            sonde_buf_putc(p->out, 'M');
            flame_svg_put_place(p->out, flame_svg_place(p, n->start));
            sonde_buf_printf(p->out, " %uH", row_y(p, n->depth));
            flame_svg_put_place(p->out, flame_svg_place(p, n->start + n->total));
            sonde_buf_printf(p->out, "v%dH", FRAME);
            flame_svg_put_place(p->out, flame_svg_place(p, n->start));
            sonde_buf_putc(p->out, 'z');
        }
        if (any) sonde_buf_puts(p->out, "\"/>\n");
    }
    sonde_buf_puts(p->out, "</g>\n");
}

static void flame_svg_put_labels(const struct picture *p)
{
    enum { INSET = 4, LEAST = 3 };
    sonde_buf_puts(p->out, "<g class=\"t\">\n");
    for (uint32_t i = 0; i < p->flame->node_count; i++) {
        const struct sonde_flame_node *n = &p->flame->nodes[i];
        const uint64_t from = flame_svg_place(p, n->start),
                       to = flame_svg_place(p, n->start + n->total);
        const int cells = (int)(((double)(to - from) / FINE - 2 * INSET) / CHARACTER_PX);
        if (cells < LEAST) continue;
        const char *name = sonde_flame_text(p->flame, p->flame->frames[n->frame].name);
        char cut[4 * (WIDTH / 7) + 1];
        if (sonde_text_cells(name, 0) > cells) {
            sonde_text_fit(cut, sizeof(cut), name, cells, SONDE_LEFT, 0);
            name = cut;
        }
        sonde_buf_puts(p->out, "<text x=\"");
        flame_svg_put_place(p->out, from + (PAD + INSET) * FINE);
        sonde_buf_printf(p->out, "\" y=\"%u\">", row_y(p, n->depth) + 13);
        sonde_flame_put_xml(p->out, name);
        sonde_buf_puts(p->out, "</text>\n");
    }
    sonde_buf_puts(p->out, "</g>\n");
}

static void flame_svg_put_picture(const struct picture *p)
{
    const uint32_t height = HEAD + (p->flame->depth_max + 1) * ROW + FOOT;
    sonde_buf_printf(p->out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sonde-flame\" "
                     "width=\"%d\" height=\"%u\" viewBox=\"0 0 %d %u\" role=\"img\">\n<title>",
                     WIDTH, height, WIDTH, height);
    sonde_flame_put_xml(p->out, sonde_flame_title(p->flame->tree, p->options));
    sonde_buf_puts(p->out, "</title>\n<desc>");
    flame_svg_put_summary(p);
    sonde_buf_puts(p->out, "</desc>\n");
    flame_svg_put_style(p);
    sonde_buf_puts(p->out, "<g class=\"still\">\n"
                           "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n");
    put_heading(p);
    put_rects(p);
    flame_svg_put_labels(p);
    sonde_buf_printf(p->out, "<text class=\"s\" x=\"%d\" y=\"%u\">", PAD, height - 12);
    flame_svg_put_summary(p);
    flame_svg_put_kinds(p);
    sonde_buf_puts(p->out, "</text>\n</g>\n");
}

int sonde_flamegraph_svg(const struct sonde_tree *t,
                         const struct sonde_flamegraph_options *options, struct sonde_buf *out)
{
    static const struct sonde_flamegraph_options defaults;
    struct sonde_flame flame;
    if (!options) options = &defaults;
    const struct sonde_tree_options kept = sonde_flamegraph_tree(options, 0);
    int rc = sonde_flame_init(&flame, t, kept.min_share, kept.nodes_max);
    if (rc == 0) {
        flame_svg_put_picture(&(struct picture){ .flame = &flame, .options = options, .out = out });
        sonde_buf_puts(out, "<metadata class=\"sonde-data\">");
        rc = sonde_flame_put_data(&flame, options, NULL, out);
        sonde_buf_puts(out, "</metadata>\n<script><![CDATA[");
        sonde_buf_add(out, sonde_web_svg_js.data, sonde_web_svg_js.len);
        sonde_buf_puts(out, "]]></script>\n</svg>\n");
    }
    sonde_flame_release(&flame);
    return rc != 0 ? rc : out->error;
}
