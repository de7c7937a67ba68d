/* flame: a flame graph from folded text, through the same calls as the command uses, with what
 * folded text cannot say.
 *
 *   flame FOLDED OUT.svg|OUT.html [--before FOLDED] [--colors NAME] [--title T] [--subtitle T]
 *         [--min-width SHARE] [--icicle] [--invert] [--kind NAME] [--weight N]
 *
 * OUT may also be a file of any format that can be written, known by its suffix.
 *
 * A frame is name[TAB module[TAB file[TAB line]]]; the module "[kernel]" is the kernel. The
 * weight of a sample is its count times --weight. Prints the milliseconds that reading, folding
 * and drawing took. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "present/flamegraph/flamegraph.h"
#include "profile/format.h"
#include "sonde/sonde.h"

struct options {
    const char *in, *out, *before;
    struct sonde_flamegraph_options flame;
    int invert, kind;
    uint64_t weight;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "flame: %s: %s\n", what, why);
    exit(1);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static uint32_t frame_location(struct sonde_profile *p, char *text)
{
    char *field[4] = { text, NULL, NULL, NULL };
    for (int i = 1; i < 4 && field[i - 1]; i++) {
        field[i] = strchr(field[i - 1], '\t');
        if (field[i]) *field[i]++ = 0;
    }
    if (!field[1]) return sonde_profile_named_location(p, text, strlen(text));
    const int kernel = strcmp(field[1], "[kernel]") == 0;
    const struct sonde_profile_module module = {
        .path = sonde_profile_cstring(p, field[1]), .flags = kernel ? SONDE_MODULE_KERNEL : 0,
    };
    const uint32_t m = sonde_profile_module(p, &module);
    const struct sonde_profile_function function = {
        .name = sonde_profile_cstring(p, text), .module = m,
        .file = sonde_profile_cstring(p, field[2] ? field[2] : ""),
        .start_line = field[3] ? (uint32_t)strtoul(field[3], NULL, 10) : 0,
    };
    const uint32_t id = sonde_profile_function(p, &function);
    const uint32_t location = sonde_profile_location(p, m, 0x1000 + id);
    const struct sonde_profile_line line = { .function = id, .line = function.start_line };
    if (sonde_profile_set_lines(p, location, &line, 1) != 0) fail(text, "out of memory");
    return location;
}

static struct sonde_profile *read_profile(const char *path, const struct options *o)
{
    struct sonde_profile *p;
    FILE *f = fopen(path, "r");
    if (!f) fail(path, strerror(errno));
    if (sonde_profile_create((size_t)8 << 30, &p) != 0) fail(path, "out of memory");
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t len; (len = getline(&line, &cap, f)) > 0;) {
        if (line[len - 1] == '\n') line[--len] = 0;
        char *count = strrchr(line, ' ');
        if (!count) continue;
        *count++ = 0;
        uint32_t stack = 0;
        for (char *name = line, *next; name; name = next) {
            next = strchr(name, ';');
            if (next) *next++ = 0;
            stack = sonde_profile_stack(p, stack, frame_location(p, name));
        }
        const uint64_t n = strtoull(count, NULL, 10);
        const struct sonde_profile_sample s = { .weight = n * o->weight, .stack = stack,
                                                .count = (uint32_t)n, .kind = (uint16_t)o->kind };
        if (sonde_profile_add_sample(p, &s) != 0) fail(path, "out of memory");
    }
    free(line);
    fclose(f);
    return p;
}

static int ends_with(const char *s, const char *suffix)
{
    const size_t len = strlen(s), want = strlen(suffix);
    return len > want && strcmp(s + len - want, suffix) == 0;
}

static struct sonde_tree *read_tree(const char *path, const struct options *o)
{
    struct sonde_profile *p = read_profile(path, o);
    struct sonde_tree *t;
    struct sonde_err err;
    struct sonde_tree_options options = { 0 };
    if (!o->before) options = sonde_flamegraph_tree(&o->flame, ends_with(o->out, ".html"));
    options.invert = o->invert;
    if (sonde_tree_build(p, &(struct sonde_profile_filter){ .kind = -1 }, &options, &t,
                         &err) != 0) {
        fail(path, err.text);
    }
    sonde_profile_destroy(p);
    return t;
}

static void parse(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(arg, "--icicle") == 0) { o->flame.icicle = 1; continue; }
        if (strcmp(arg, "--invert") == 0) { o->invert = 1; continue; }
        if (arg[0] != '-') { *(o->in ? &o->out : &o->in) = arg; continue; }
        i++;
        if (strcmp(arg, "--before") == 0) o->before = value;
        else if (strcmp(arg, "--title") == 0) o->flame.title = value;
        else if (strcmp(arg, "--subtitle") == 0) o->flame.subtitle = value;
        else if (strcmp(arg, "--min-width") == 0) o->flame.min_width = strtod(value, NULL);
        else if (strcmp(arg, "--weight") == 0) o->weight = strtoull(value, NULL, 10);
        else if (strcmp(arg, "--kind") == 0) o->kind = sonde_sample_kind_find(value);
        else if (strcmp(arg, "--colors") == 0) {
            const int colors = sonde_flamegraph_colors_find(value);
            if (colors < 0) fail(value, "no such colours");
            o->flame.colors = (enum sonde_flamegraph_colors)colors;
        } else fail(arg, "no such option");
    }
    if (!o->out || o->kind < 0) fail("usage", "flame FOLDED OUT [options]");
}

static void write_file(const char *path, const struct sonde_buf *b)
{
    FILE *f = fopen(path, "w");
    if (!f || fwrite(b->data, 1, b->len, f) != b->len || fclose(f) != 0) {
        fail(path, strerror(errno));
    }
}

/* 1 if out's suffix is that of a format. */
static int convert(const struct options *o)
{
    for (size_t i = 0; sonde_formats[i]; i++) {
        if (!sonde_formats[i]->write || !ends_with(o->out, sonde_formats[i]->suffix)) continue;
        struct sonde_profile *p = read_profile(o->in, o);
        struct sonde_buf b;
        struct sonde_err err;
        sonde_buf_init(&b, (size_t)1 << 30);
        const struct sonde_profile_filter all = { .kind = -1 };
        if (sonde_formats[i]->write(p, &all, &b, &err) != 0) fail(o->out, err.text);
        write_file(o->out, &b);
        sonde_buf_release(&b);
        sonde_profile_destroy(p);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = { .kind = SONDE_SAMPLE_CPU, .weight = 1 };
    parse(argc, argv, &o);
    if (convert(&o)) return 0;
    const double start = now_ms();
    struct sonde_tree *t = read_tree(o.in, &o);
    if (o.before) {
        struct sonde_tree *before = read_tree(o.before, &o), *both;
        if (sonde_tree_diff(before, t, &both) != 0) fail(o.before, "out of memory");
        sonde_tree_destroy(before);
        sonde_tree_destroy(t);
        t = both;
    }
    const double folded = now_ms();
    struct sonde_buf out;
    sonde_buf_init(&out, (size_t)1 << 30);
    const int rc = ends_with(o.out, ".html") ? sonde_flamegraph_html(t, &o.flame, &out)
                                             : sonde_flamegraph_svg(t, &o.flame, &out);
    if (rc != 0) fail(o.out, sonde_strerror(rc));
    const double drawn = now_ms();
    write_file(o.out, &out);
    printf("nodes %u bytes %zu fold_ms %.1f draw_ms %.1f\n", t->node_count, out.len,
           folded - start, drawn - folded);
    sonde_buf_release(&out);
    sonde_tree_destroy(t);
    return 0;
}
