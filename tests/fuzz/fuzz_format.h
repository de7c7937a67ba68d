/* fuzz_format.h - what the fuzz targets of profile formats share: whatever the bytes are, a reader
 * refuses them with a reason, or makes a profile that can be folded and written again.
 *
 * A target defines FUZZ_FORMAT, the name of a format, and fuzz_seeds: see fuzz_seeds.h. */
#ifndef SONDE_TESTS_FUZZ_FORMAT_H
#define SONDE_TESTS_FUZZ_FORMAT_H

#include "base/alloc.h"
#include "fuzz/fuzz_seeds.h"
#include "profile/format.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

/* Ids of rows lead to rows that come before them, or are there. */
static void check_tables(const struct sonde_profile *p)
{
    for (uint32_t i = 1; i < p->stacks_count; i++) {
        CHECK(p->stacks[i].parent < i && p->stacks[i].location < p->locations_count);
    }
    for (uint32_t i = 1; i < p->locations_count; i++) {
        const struct sonde_profile_location *l = &p->locations[i];
        CHECK(l->module < p->modules_count);
        CHECK((uint64_t)l->line + l->line_count <= p->lines_count);
    }
    for (uint32_t i = 0; i < p->lines_count; i++) CHECK(p->lines[i].function < p->functions_count);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        CHECK(p->samples[i].stack && p->samples[i].stack < p->stacks_count);
    }
}

static void check_profile(const struct sonde_profile *p)
{
    const struct sonde_profile_filter any = { .kind = -1 };
    const struct sonde_tree_options o = { .by_thread = 1 };
    struct sonde_tree *t;
    check_tables(p);
    CHECK(!sonde_tree_build(p, &any, &o, &t, NULL));
    sonde_tree_destroy(t);
    for (size_t i = 0; sonde_formats[i]; i++) {
        struct sonde_buf b;
        struct sonde_err err = { "" };
        if (!sonde_formats[i]->write) continue;
        sonde_buf_init(&b, (size_t)1 << 28);
        const int rc = sonde_formats[i]->write(p, &any, &b, &err);
        CHECK(!rc || ((rc == SONDE_ENOENT || rc == SONDE_EFULL) && err.text[0]));
        sonde_buf_release(&b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    struct sonde_import how = { 0 };
    const struct sonde_format_ops *format = sonde_format_find(FUZZ_FORMAT);
    CHECK(!sonde_profile_create((size_t)4 << 20, &p));
    format->probe((const char *)data, size);
    const int rc = format->read((const char *)data, size, &how, p, &err);
    CHECK(!rc || err.text[0]);
    CHECK(p->bytes <= p->bytes_max);
    if (!rc) check_profile(p);
    sonde_profile_destroy(p);
    CHECK(sonde__alloc_live() == 0);
    return 0;
}

#endif
