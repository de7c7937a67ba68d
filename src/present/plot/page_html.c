/* page_html.c - a page as one HTML file: the SVG, a box that shows what a mark says, and all that
 * was drawn as tables, with every digit. Without scripts the tooltips of SVG remain. Nothing is
 * loaded from anywhere, and the policy inside forbids it. */
#include <math.h>
#include <string.h>

#include "present/plot/page_private.h"

#define HTML_ROWS_MAX 5000u  /* of a table */

/* The box follows the pointer; keyboards and readers have the tables. */
static const char html_script[] =
    "(()=>{const t=document.getElementById('tip');let e=null;"
    "document.querySelector('svg').addEventListener('pointermove',v=>{"
    "const m=v.target.closest('rect,circle,path,text');"
    "const n=m&&m.querySelector('title');"
    "if(e&&e!==m){const o=e;e=null;if(o.dataset.tip){const k=document.createElementNS("
    "'http://www.w3.org/2000/svg','title');k.textContent=o.dataset.tip;o.append(k);"
    "delete o.dataset.tip}}"
    "if(n){m.dataset.tip=n.textContent;n.remove();e=m}"
    "if(!m||!m.dataset.tip){t.hidden=true;return}"
    "t.textContent=m.dataset.tip;t.hidden=false;"
    "t.style.left=Math.max(4,Math.min(v.clientX+14,innerWidth-t.offsetWidth-8))+'px';"
    "t.style.top=(v.clientY+t.offsetHeight+24>innerHeight?v.clientY-t.offsetHeight-8"
    ":v.clientY+16)+'px'});"
    "document.addEventListener('pointerleave',()=>{t.hidden=true})})()";

static void html_colors(struct sonde_buf *out, enum sonde_theme theme)
{
    sonde_buf_printf(out, "body{background:#%06x;color:#%06x}#tip,table{background:#%06x}"
                     "#tip,th,td{border-color:#%06x}th,summary{color:#%06x}",
                     sonde_ink_color(SONDE_INK_PAGE, theme), sonde_ink_color(SONDE_INK_TEXT, theme),
                     sonde_ink_color(SONDE_INK_CARD, theme), sonde_ink_color(SONDE_INK_LINE, theme),
                     sonde_ink_color(SONDE_INK_SOFT, theme));
}

static void html_style(struct sonde_buf *out, enum sonde_theme theme)
{
    sonde_buf_puts(out, "<style>body{margin:0;font:13px ui-sans-serif,system-ui,-apple-system,"
                        "\"Segoe UI\",Roboto,\"Noto Sans\",\"DejaVu Sans\",sans-serif}"
                        "main{width:fit-content;max-width:100%;margin:auto}"
                        "svg{display:block;max-width:100%;height:auto}"
                        "#tip{position:fixed;z-index:1;border:1px solid;border-radius:6px;"
                        "padding:4px 8px;max-width:40em;pointer-events:none;"
                        "overflow-wrap:anywhere;box-shadow:0 2px 8px #0003}"
                        "details{contain:inline-size;margin:0 0 10px;padding:0 18px}"
                        "summary{cursor:pointer;padding:4px 0}"
                        "div.t{overflow:auto;max-height:30em}"
                        "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
                        "th,td{border:1px solid;padding:2px 8px;text-align:left;max-width:32em;"
                        "overflow-wrap:anywhere}td.n{text-align:right}");
    html_colors(out, theme == SONDE_THEME_DARK ? SONDE_THEME_DARK : SONDE_THEME_LIGHT);
    if (theme == SONDE_THEME_AUTO) {
        sonde_buf_puts(out, "@media(prefers-color-scheme:dark){");
        html_colors(out, SONDE_THEME_DARK);
        sonde_buf_putc(out, '}');
    }
    sonde_buf_puts(out, "</style>");
}

static void html_cell(struct sonde_buf *out, const char *text)
{
    sonde_buf_puts(out, "<td>");
    sonde_canvas_escape(out, text);
    sonde_buf_puts(out, "</td>");
}

static void html_number(struct sonde_buf *out, double v)
{
    sonde_buf_puts(out, "<td class=\"n\">");
    if (!isnan(v)) sonde_buf_double(out, v);
    sonde_buf_puts(out, "</td>");
}

static void html_head(struct sonde_buf *out, const char *title, const char *unit, const char *plain)
{
    sonde_buf_puts(out, "<th>");
    sonde_canvas_escape(out, title[0] ? title : plain);
    if (unit[0] && strcmp(unit, "name") != 0) sonde_buf_printf(out, " [%s]", unit);
    sonde_buf_puts(out, "</th>");
}

static void html_point(struct sonde_buf *out, const struct sonde_chart *c,
                       const struct sonde_chart_series *s, const struct sonde_chart_point *p,
                       int spans, int intervals)
{
    sonde_buf_puts(out, "<tr>");
    html_cell(out, s->name);
    if (strcmp(c->x_unit, "name") != 0) html_number(out, p->x);
    else {
        const size_t i = (size_t)fmax(0, floor(p->x + 0.5));
        html_cell(out, i < c->name_count ? c->names[i] : "");
    }
    if (spans) html_number(out, p->x_end);
    html_number(out, p->y);
    if (intervals) {
        html_number(out, p->low);
        html_number(out, p->high);
    }
    sonde_buf_puts(out, "</tr>\n");
}

static void html_cells(const struct sonde_chart *c, struct sonde_buf *out)
{
    sonde_buf_puts(out, "<tr><th>from</th><th>to</th><th>above</th><th>below</th><th>count</th>"
                        "<th>failed</th></tr>\n");
    for (size_t i = 0; i < c->cell_count && i < HTML_ROWS_MAX; i++) {
        const struct sonde_chart_cell *cell = &c->cells[i];
        const double v[] = { cell->x, cell->x_end, cell->y, cell->y_end, (double)cell->count,
                             (double)cell->failed };
        sonde_buf_puts(out, "<tr>");
        for (size_t k = 0; k < 6; k++) html_number(out, v[k]);
        sonde_buf_puts(out, "</tr>\n");
    }
}

static void html_points(const struct sonde_chart *c, struct sonde_buf *out)
{
    int spans = 0, intervals = 0;
    size_t rows = 0;
    for (size_t s = 0; s < c->series_count; s++) {
        for (size_t i = 0; i < c->series[s].count; i++) {
            spans |= !isnan(c->series[s].points[i].x_end);
            intervals |= !isnan(c->series[s].points[i].low);
        }
    }
    sonde_buf_puts(out, "<tr><th>series</th>");
    html_head(out, c->x_title, c->x_unit, !strcmp(c->x_unit, "name") ? "name" : "x");
    if (spans) sonde_buf_puts(out, "<th>to</th>");
    html_head(out, c->y_title, c->y_unit, "y");
    if (intervals) sonde_buf_puts(out, "<th>low</th><th>high</th>");
    sonde_buf_puts(out, "</tr>\n");
    for (size_t s = 0; s < c->series_count; s++) {
        for (size_t i = 0; i < c->series[s].count; i++) {
            if (isnan(c->series[s].points[i].y)) continue;
            if (rows++ == HTML_ROWS_MAX) {
                sonde_buf_printf(out, "<tr><td>more: --format json has all</td></tr>\n");
                return;
            }
            html_point(out, c, &c->series[s], &c->series[s].points[i], spans, intervals);
        }
    }
}

static void html_table(const struct sonde_chart *c, struct sonde_buf *out)
{
    if (sonde_chart_empty(c)) return;
    sonde_buf_puts(out, "<details><summary>Data: ");
    sonde_canvas_escape(out, c->title);
    sonde_buf_puts(out, "</summary><div class=\"t\"><table>\n");
    if (c->cell_count) html_cells(c, out);
    else html_points(c, out);
    sonde_buf_puts(out, "</table></div></details>\n");
}

int sonde_plot_page_html(const struct sonde_plot_page *p, const struct sonde_plot_look *look,
                         struct sonde_buf *out)
{
    sonde_buf_puts(out,
                   "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
                   "<meta name=\"viewport\" content=\"width=device-width\">"
                   "<meta name=\"color-scheme\" content=\"");
    sonde_buf_puts(out, look->theme == SONDE_THEME_AUTO   ? "light dark"
                        : look->theme == SONDE_THEME_DARK ? "dark"
                                                          : "light");
    sonde_buf_puts(out, "\"><title>");
    sonde_canvas_escape(out, p->title[0] ? p->title : "sonde plot");
    sonde_buf_puts(out, "</title>");
    html_style(out, look->theme);
    sonde_buf_puts(out, "</head><body><main>\n");
    const int rc = sonde_plot_page_svg(p, look, out);
    if (rc) return rc;
    for (size_t i = 0; i < p->count; i++) html_table(&p->charts[i], out);
    sonde_buf_puts(out, "</main><div id=\"tip\" hidden></div>\n<script>");
    sonde_buf_puts(out, html_script);
    sonde_buf_puts(out, "</script></body></html>\n");
    return out->error;
}
