/* data.c - the data of a flame graph for the scripts in web/, and text for XML. The
 * format is described in private.h. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "present/flamegraph/private.h"
#include "present/text.h"
#include "sonde/sonde.h"

enum { FUNCTIONS_MAX = 20000 };

const char *sonde_flame_title(const struct sonde_tree *t,
                              const struct sonde_flamegraph_options *o)
{
    if (o->title) return o->title;
    const int diff = t->base_total > 0;
    switch (t->kind) {
    case SONDE_SAMPLE_CPU: return diff ? "CPU time, before and after" : "CPU time";
    case SONDE_SAMPLE_OFFCPU: return diff ? "Time blocked, before and after" : "Time blocked";
    case SONDE_SAMPLE_WALL: return diff ? "Time, before and after" : "Time from begin to end";
    case SONDE_SAMPLE_RUNNABLE:
        return diff ? "Time runnable, but not running, before and after"
                    : "Time runnable, but not running";
    case SONDE_SAMPLE_GPU: return diff ? "GPU time, before and after" : "GPU time";
    case SONDE_SAMPLE_GPU_WAIT:
        return diff ? "Time waiting for the GPU, before and after" : "Time waiting for the GPU";
    case SONDE_SAMPLE_OTHER: return diff ? "Samples, before and after" : "Samples";
    default: break;
    }
    if (diff) return "Memory, before and after";
    switch (t->kind) {
    case SONDE_SAMPLE_LIVE: return "Memory in use";
    case SONDE_SAMPLE_PEAK: return "Memory in use at the peak";
    case SONDE_SAMPLE_LEAKED: return "Memory leaked";
    case SONDE_SAMPLE_ALLOC: return "Memory allocated";
    case SONDE_SAMPLE_TEMPORARY: return "Memory freed before the next allocation";
    default: return "Profile";
    }
}

static void flame_data_put_int(struct sonde_buf *b, uint64_t v)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char text[13]; /* 64 bits, five a character */
    size_t n = 0;
    do {
        const uint64_t rest = v >> 5;
        text[n++] = digits[(v & 31) | (rest ? 32u : 0u)];
        v = rest;
    } while (v);
    sonde_buf_add(b, text, n);
}

/* Runs of bytes that need nothing are copied at once. */
static void flame_data_put_escaped(struct sonde_buf *b, const char *s, size_t len,
                                   const char *(*escape)(unsigned char c))
{
    size_t from = 0;
    for (size_t i = 0; i < len; i++) {
        const char *with = escape((unsigned char)s[i]);
        if (!with) continue;
        sonde_buf_add(b, s + from, i - from);
        sonde_buf_puts(b, with);
        from = i + 1;
    }
    sonde_buf_add(b, s + from, len - from);
}

static const char *xml_escape(unsigned char c)
{
    switch (c) {
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '&': return "&amp;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

/* JSON that is also harmless inside XML and an HTML <script>. Control characters are gone. */
static const char *flame_data_json_escape(unsigned char c)
{
    switch (c) {
    case '<': return "\\u003c";
    case '>': return "\\u003e";
    case '&': return "\\u0026";
    case '"': return "\\\"";
    case '\\': return "\\\\";
    default: return NULL;
    }
}

/* Any bytes, made harmless on the way. */
static void flame_data_put_clean(struct sonde_buf *b, const char *s,
                                 const char *(*escape)(unsigned char c))
{
    for (size_t len = strlen(s), at = 0; at < len;) {
        struct sonde_glyph g;
        char utf8[4];
        at += sonde_text_next(s + at, len - at, 0, &g);
        flame_data_put_escaped(b, utf8, sonde_text_encode(g.code, utf8), escape);
    }
}

void sonde_flame_put_xml(struct sonde_buf *b, const char *s)
{
    flame_data_put_clean(b, s, xml_escape);
}

static void flame_data_put_json(struct sonde_buf *b, const char *s)
{
    sonde_buf_putc(b, '"');
    flame_data_put_clean(b, s, flame_data_json_escape);
    sonde_buf_putc(b, '"');
}

/* ---- The tables ----------------------------------------------------------------------------- */

static uint64_t flame_data_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* What divides all weights that will be written: a profile of 10 ms samples needs no digits for
 * nanoseconds. */
static uint64_t common_scale(const struct sonde_flame *f, const struct sonde_flat *functions,
                             size_t count)
{
    uint64_t scale = 0;
    for (uint32_t i = 0; i < f->node_count && scale != 1; i++) {
        const struct sonde_flame_node *n = &f->nodes[i];
        scale = flame_data_divisor(n->self, flame_data_divisor(n->dropped, scale));
        scale = flame_data_divisor(n->base_self, flame_data_divisor(n->base_dropped, scale));
    }
    for (size_t i = 0; i < count && scale != 1; i++) {
        scale =
            flame_data_divisor(functions[i].self, flame_data_divisor(functions[i].total, scale));
        scale = flame_data_divisor(functions[i].base_self,
                                   flame_data_divisor(functions[i].base_total, scale));
    }
    return scale ? scale : 1;
}

static void flame_data_put_strings(const struct sonde_flame *f, struct sonde_buf *out)
{
    sonde_buf_puts(out, ",\"strings\":[");
    for (uint32_t i = 0; i < f->string_count; i++) {
        sonde_buf_puts(out, i ? ",\"" : "\"");
        flame_data_put_escaped(out, sonde_flame_text(f, i), f->strings[i].len,
                               flame_data_json_escape);
        sonde_buf_putc(out, '"');
    }
    sonde_buf_putc(out, ']');
}

static void flame_data_put_frames(const struct sonde_flame *f, struct sonde_buf *out)
{
    sonde_buf_puts(out, ",\"frames\":\"");
    for (uint32_t i = 0; i < f->frame_count; i++) {
        const struct sonde_flame_frame *r = &f->frames[i];
        flame_data_put_int(out, r->name);
        flame_data_put_int(out, r->module);
        flame_data_put_int(out, r->file);
        flame_data_put_int(out, r->node->line);
        flame_data_put_int(out, r->node->flags);
        flame_data_put_int(out, r->color);
        flame_data_put_int(out, r->module_color);
    }
    sonde_buf_putc(out, '"');
}

static void put_nodes(const struct sonde_flame *f, struct sonde_buf *out)
{
    sonde_buf_puts(out, ",\"nodes\":\"");
    for (uint32_t i = 0; i < f->node_count; i++) {
        const struct sonde_flame_node *n = &f->nodes[i];
        flame_data_put_int(out, n->up);
        flame_data_put_int(out, n->frame);
        flame_data_put_int(out, n->self / f->scale);
        flame_data_put_int(out, n->dropped / f->scale);
        flame_data_put_int(out, n->samples);
        if (!f->tree->base_total) continue;
        flame_data_put_int(out, n->base_self / f->scale);
        flame_data_put_int(out, n->base_dropped / f->scale);
    }
    sonde_buf_putc(out, '"');
}

static int flame_data_put_functions(struct sonde_flame *f, const struct sonde_flat *functions,
                                    size_t count, struct sonde_buf *out)
{
    sonde_buf_puts(out, ",\"functionCount\":");
    sonde_buf_u64(out, count);
    sonde_buf_puts(out, ",\"functions\":\"");
    for (size_t i = 0; i < count && i < FUNCTIONS_MAX; i++) {
        const struct sonde_flat *r = &functions[i];
        const uint32_t name = sonde_flame_intern(f, r->name);
        const uint32_t module = sonde_flame_intern(f, r->module);
        const uint32_t file = sonde_flame_intern(f, r->file);
        if (name == UINT32_MAX || module == UINT32_MAX || file == UINT32_MAX) return SONDE_ENOMEM;
        flame_data_put_int(out, name);
        flame_data_put_int(out, module);
        flame_data_put_int(out, file);
        flame_data_put_int(out, r->line);
        flame_data_put_int(out, r->self / f->scale);
        flame_data_put_int(out, r->total / f->scale);
        if (!f->tree->base_total) continue;
        flame_data_put_int(out, r->base_self / f->scale);
        flame_data_put_int(out, r->base_total / f->scale);
    }
    sonde_buf_putc(out, '"');
    return 0;
}

static void put_palette(struct sonde_buf *out, const char *name, int scheme, int count)
{
    sonde_buf_printf(out, "\"%s\":{", name);
    for (int dark = 0; dark < 2; dark++) {
        sonde_buf_puts(out, dark ? "\",\"dark\":\"" : "\"light\":\"");
        for (int i = 0; i < count; i++) {
            const uint32_t color =
                scheme < 0 ? sonde_flame_diff_color(i - SONDE_FLAME_LEVELS, dark)
                           : sonde_flame_color((enum sonde_flamegraph_colors)scheme, i, dark);
            sonde_buf_printf(out, "%06x", color);
        }
    }
    sonde_buf_puts(out, "\"}");
}

static void put_palettes(struct sonde_buf *out)
{
    sonde_buf_puts(out, ",\"palettes\":{");
    for (int i = 0; i < SONDE_FLAMEGRAPH_COLORS_COUNT; i++) {
        put_palette(out, sonde_flamegraph_colors_name((enum sonde_flamegraph_colors)i), i,
                    SONDE_FLAME_PALETTE);
        sonde_buf_putc(out, ',');
    }
    put_palette(out, "diff", -1, SONDE_FLAME_DIFF_PALETTE);
    sonde_buf_putc(out, '}');
}

static void flame_data_put_head(const struct sonde_flame *f,
                                const struct sonde_flamegraph_options *o, struct sonde_buf *out)
{
    sonde_buf_puts(out, "{\"version\":1,\"title\":");
    flame_data_put_json(out, sonde_flame_title(f->tree, o));
    sonde_buf_puts(out, ",\"subtitle\":");
    flame_data_put_json(out, o->subtitle ? o->subtitle : "");
    sonde_buf_printf(out, ",\"kind\":\"%s\",\"unit\":\"%s\",\"colors\":\"%s\",\"icicle\":%s",
                     sonde_sample_kind_name(f->tree->kind), sonde_sample_kind_unit(f->tree->kind),
                     f->tree->base_total ? "diff" : sonde_flamegraph_colors_name(o->colors),
                     o->icicle ? "true" : "false");
    sonde_buf_printf(out, ",\"inverted\":%s,\"minWidth\":", f->tree->inverted ? "true" : "false");
    sonde_buf_json_double(out, f->min_width);
    sonde_buf_puts(out, ",\"scale\":");
    sonde_buf_u64(out, f->scale);
    sonde_buf_puts(out, ",\"baseTotal\":");
    sonde_buf_u64(out, f->tree->base_total);
}

static int flame_data_by_total(const void *a, const void *b)
{
    const struct sonde_flat *x = a, *y = b;
    const uint64_t left = x->total > x->base_total ? x->total : x->base_total;
    const uint64_t right = y->total > y->base_total ? y->total : y->base_total;
    if (left != right) return left < right ? 1 : -1;
    return strcmp(x->name, y->name);
}

int sonde_flame_put_data(struct sonde_flame *f, const struct sonde_flamegraph_options *o,
                         const struct sonde_tree *functions_of, struct sonde_buf *out)
{
    struct sonde_flat *functions = NULL;
    size_t count = 0;
    int rc = functions_of ? sonde_tree_flat(functions_of, &functions, &count) : 0;
    if (rc != 0) return rc;
    if (count) qsort(functions, count, sizeof(*functions), flame_data_by_total);
    f->scale = common_scale(f, functions, count);
    flame_data_put_head(f, o, out);
    flame_data_put_frames(f, out);
    put_nodes(f, out);
    if (functions_of) {
        put_palettes(out);
        rc = flame_data_put_functions(f, functions, count, out); /* adds strings */
    }
    flame_data_put_strings(f, out);
    sonde_buf_putc(out, '}');
    sonde__free(functions);
    return rc;
}
