/* profile_tool: what src/profile makes of a file, without the command around it.
 *
 *   profile_tool IN FORMAT OUT     read a file of any format that can be read, write it as another
 *   profile_tool IN flat           its flat table: self, total and name, with tabs
 *   profile_tool IN facts          kinds, samples and the sum of their weights */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/format.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

#define OUT_MAX ((size_t)1 << 30)

static const struct sonde_profile_filter any = { .kind = -1 };

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "profile_tool: %s: %s\n", what, why);
    exit(1);
}

static void read_file(const char *path, struct sonde_buf *b)
{
    FILE *f = fopen(path, "r");
    if (!f) fail(path, strerror(errno));
    sonde_buf_init(b, OUT_MAX);
    for (size_t n = 1; n;) {
        char *to = sonde_buf_reserve(b, 1 << 20);
        if (!to) fail(path, "too large");
        n = fread(to, 1, 1 << 20, f);
        b->len += n;
    }
    fclose(f);
}

static struct sonde_profile *load(const char *path)
{
    struct sonde_buf b;
    struct sonde_err err;
    struct sonde_profile *p;
    read_file(path, &b);
    const struct sonde_format_ops *format = sonde_format_guess(b.data, b.len);
    if (!format) fail(path, "no format that can be read");
    if (sonde_profile_create(0, &p)) fail(path, "no memory");
    if (format->read(b.data, b.len, NULL, p, &err)) fail(path, err.text);
    sonde_buf_release(&b);
    return p;
}

static void print_flat(const struct sonde_profile *p)
{
    struct sonde_tree *t;
    struct sonde_flat *rows;
    struct sonde_err err;
    size_t count;
    const struct sonde_tree_options o = { 0 };
    if (sonde_tree_build(p, &any, &o, &t, &err)) fail("flat", err.text);
    if (sonde_tree_flat(t, &rows, &count)) fail("flat", "no memory");
    for (size_t i = 0; i < count; i++) {
        printf("%" PRIu64 "\t%" PRIu64 "\t%s\n", rows[i].self, rows[i].total, rows[i].name);
    }
    sonde__free(rows);
    sonde_tree_destroy(t);
}

static void print_facts(const struct sonde_profile *p)
{
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
        uint64_t count = 0, weight = 0;
        for (uint32_t i = 0; i < p->samples_count; i++) {
            if (p->samples[i].kind != k) continue;
            count += p->samples[i].count;
            weight += p->samples[i].weight;
        }
        if (!count) continue;
        printf("%s\t%" PRIu64 "\t%" PRIu64 "\n",
               sonde_sample_kind_name((enum sonde_sample_kind)k), count, weight);
    }
}

static void write_file(const struct sonde_profile *p, const char *format, const char *path)
{
    struct sonde_buf b;
    struct sonde_err err;
    const struct sonde_format_ops *ops = sonde_format_find(format);
    if (!ops || !ops->write) fail(format, "no format that can be written");
    sonde_buf_init(&b, OUT_MAX);
    if (ops->write(p, &any, &b, &err)) fail(format, err.text);
    FILE *f = fopen(path, "w");
    if (!f || fwrite(b.data, 1, b.len, f) != b.len || fclose(f)) fail(path, strerror(errno));
    sonde_buf_release(&b);
}

int main(int argc, char **argv)
{
    if (argc < 3) fail("usage", "profile_tool IN flat|facts|FORMAT [OUT]");
    struct sonde_profile *p = load(argv[1]);
    if (!strcmp(argv[2], "flat")) print_flat(p);
    else if (!strcmp(argv[2], "facts")) print_facts(p);
    else if (argc > 3) write_file(p, argv[2], argv[3]);
    else fail(argv[2], "no file to write to");
    sonde_profile_destroy(p);
    return 0;
}
