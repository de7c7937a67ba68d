/* folded.c - one line a stack: `main;f;g 42`, the thread's start first. What flamegraph.pl and
 * most other tools read. Written here, read by folded_read.c. */
#include "profile/formats/folded.h"

#include "base/alloc.h"
#include "base/visible.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

/* Append one frame. The format has no escapes: what separates frames and lines is replaced, and
 * what a terminal would obey. */
static void put_frame(struct sonde_buf *line, const char *name)
{
    const size_t begin = line->len;
    sonde_buf_puts(line, name);
    for (size_t i = begin; i < line->len; i++) {
        char *c = &line->data[i];
        if (*c == ';') *c = ':';
        else if (*c == '\n' || *c == '\r') *c = ' ';
    }
    line->len = begin + sonde_visible(line->data + begin, line->len - begin);
}

/* CPU and imported: what others count in samples. Else the weight: nanoseconds, bytes. */
static uint64_t line_weight(const struct sonde_tree *t, const struct sonde_tree_node *n)
{
    if (t->kind != SONDE_SAMPLE_CPU) return n->self;
    uint64_t below = 0;
    for (uint32_t c = n->first_child; c; c = t->nodes[c].next) below += t->nodes[c].samples;
    return n->samples - below;
}

/* ends[depth]: how long the line is with the frames down to that depth. */
static void folded_put_tree(const struct sonde_tree *t, struct sonde_buf *line, size_t *ends,
                            struct sonde_buf *out)
{
    uint32_t at = t->nodes[0].first_child;
    while (at && !line->error && !out->error) {
        const struct sonde_tree_node *n = &t->nodes[at];
        line->len = ends[n->depth - 1];
        if (n->depth > 1) sonde_buf_putc(line, ';');
        put_frame(line, n->name);
        ends[n->depth] = line->len;
        const uint64_t weight = line_weight(t, n);
        if (weight) {
            sonde_buf_add(out, line->data, line->len);
            sonde_buf_putc(out, ' ');
            sonde_buf_u64(out, weight);
            sonde_buf_putc(out, '\n');
        }
        if (n->first_child) {
            at = n->first_child;
            continue;
        }
        while (at && !t->nodes[at].next) at = t->nodes[at].parent;
        if (at) at = t->nodes[at].next;
    }
    if (line->error && !out->error) out->error = line->error;
}

static int folded_write(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                        struct sonde_buf *out, struct sonde_err *err)
{
    struct sonde_tree *t;
    const struct sonde_tree_options o = { 0 };
    int rc = sonde_tree_build(p, f, &o, &t, err);
    if (rc) return rc;
    struct sonde_buf line;
    sonde_buf_init(&line, out->max);
    size_t *ends = sonde__calloc((size_t)t->depth_max + 1, sizeof(*ends));
    if (ends) folded_put_tree(t, &line, ends, out);
    else out->error = SONDE_ENOMEM;
    sonde__free(ends);
    sonde_buf_release(&line);
    sonde_tree_destroy(t);
    if (out->error) return sonde_err_set(err, out->error, "no memory for the folded text");
    return 0;
}

extern const struct sonde_format_ops sonde_format_folded;
const struct sonde_format_ops sonde_format_folded = {
    .name = "folded",
    .summary = "one line a stack, for flamegraph.pl and others: main;f;g 42",
    .content_type = "text/plain; charset=utf-8",
    .suffix = ".folded",
    .write = folded_write,
    .probe = sonde_folded_probe,
    .read = sonde_folded_read,
};
