/* html.c - the viewer for large profiles: one HTML file with the data, the style and
 * the script (web/src/viewer.ts), which draws on a canvas. */
#include "present/flamegraph/private.h"

int sonde_flamegraph_html(const struct sonde_tree *t,
                          const struct sonde_flamegraph_options *options, struct sonde_buf *out)
{
    static const struct sonde_flamegraph_options defaults;
    struct sonde_flame flame;
    if (!options) options = &defaults;
    const struct sonde_tree_options kept = sonde_flamegraph_tree(options, 1);
    int rc = sonde_flame_init(&flame, t, kept.min_share, kept.nodes_max);
    if (rc == 0) {
        sonde_buf_puts(out,
                       "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                       "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
        sonde_flame_put_xml(out, sonde_flame_title(t, options));
        sonde_buf_puts(out, "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>");
        sonde_buf_add(out, sonde_web_viewer_css.data, sonde_web_viewer_css.len);
        sonde_buf_puts(out, "</style>\n<body>\n"
                            "<noscript>This page draws a profile with JavaScript, which is off."
                            " `sonde flamegraph -o FILE.svg` makes a picture that is shown without."
                            "</noscript>\n<script type=\"application/json\" id=\"sonde-data\">");
        rc = sonde_flame_put_data(&flame, options, t, out);
        sonde_buf_puts(out, "</script>\n<script>");
        sonde_buf_add(out, sonde_web_viewer_js.data, sonde_web_viewer_js.len);
        sonde_buf_puts(out, "</script>\n</body>\n</html>\n");
    }
    sonde_flame_release(&flame);
    return rc != 0 ? rc : out->error;
}

int sonde_flamegraph_data(const struct sonde_tree *t,
                          const struct sonde_flamegraph_options *options,
                          const struct sonde_flamegraph_part *part, struct sonde_buf *out)
{
    struct sonde_flame flame;
    int rc = sonde_flame_init_under(&flame, t, 0, part->nodes_max, part->under);
    if (rc == 0) rc = sonde_flame_put_data(&flame, options, part->functions, out);
    sonde_flame_release(&flame);
    if (rc == 0 && out->error == 0) out->len--; /* the bracket */
    return rc != 0 ? rc : out->error;
}
