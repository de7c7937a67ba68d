/* fuzz_run.c - run files that somebody has tampered with: the input is a list of edits to the rows
 * of a good one, and then bytes to be changed in the file. Either the file is refused with a
 * reason, or all ids of the profile lead somewhere. The packed samples are fed bytes directly too.
 *
 * Run by libFuzzer, or with SONDE_FUZZ_MAIN by the main below, which makes inputs from a fixed
 * seed. Changing bytes alone would seldom get past SQLite, so most of it is edits by SQL. */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fuzz/fuzz_check.h"
#include "sonde/sonde.h"
#include "store/run/private.h"
#include "unit/profile/heap_build.h"
#include "unit/profile/infer_build.h"

/* ---- A good one ------------------------------------------------------------------------------ */

static unsigned char *good;
static size_t good_len;

static void fill(struct sonde_profile *p)
{
    uint32_t stack = 0;
    for (uint32_t i = 0; i < 12; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%u", i);
        const uint32_t module = sonde_profile_module(p, &(struct sonde_profile_module){
            .path = sonde_profile_cstring(p, i % 2 ? "/bin/a" : "/lib/b.so"), .end = 4096 });
        const struct sonde_profile_line line = {
            sonde_profile_function(p, &(struct sonde_profile_function){
                .name = sonde_profile_cstring(p, name), .module = module }), i };
        stack = sonde_profile_stack(p, i % 4 ? stack : 0, sonde_profile_lines_location(
            p, module, 16 * i, &line, i % 3 ? 1 : 0));
        const uint32_t thread = sonde_profile_thread(p, 1, 1 + i % 3, name);
        sonde_profile_add_sample(p, &(struct sonde_profile_sample){
            .time_ns = 1000 + i, .weight = i, .stack = stack, .thread = thread, .count = 1,
            .kind = (uint16_t)(i % 2) });
        sonde_profile_add_span(p, &(struct sonde_profile_span){
            .start_ns = i, .end_ns = 2000, .thread = thread,
            .name = sonde_profile_cstring(p, "span") });
    }
    CHECK(!sonde_profile_take_heap(p, build_heap_facts(p)));
    infer_build(p, 6);
}

static void make_good(void)
{
    char path[] = "/tmp/sonde-fuzz-run-XXXXXX";
    struct sonde_profile *p;
    struct sonde_err err;
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && !sonde_profile_create(0, &p));
    fill(p);
    CHECK(!sonde_run_save(path, p, &err));
    sonde_profile_destroy(p);
    FILE *f = fopen(path, "rb");
    CHECK(f && !fseek(f, 0, SEEK_END));
    good_len = (size_t)ftell(f);
    rewind(f);
    good = malloc(good_len);
    CHECK(good && fread(good, 1, good_len, f) == good_len);
    fclose(f);
    close(fd);
    unlink(path);
}

/* ---- Edits ----------------------------------------------------------------------------------- */

static const struct { const char *table, *column; } columns[] = {
    { "meta", "value" },        { "strings", "id" },      { "strings", "text" },
    { "modules", "id" },        { "modules", "path" },    { "modules", "build_id" },
    { "modules", "flags" },     { "functions", "id" },    { "functions", "name" },
    { "functions", "file" },    { "functions", "module" }, { "functions", "start_line" },
    { "locations", "id" },      { "locations", "module" }, { "locations", "address" },
    { "lines", "location" },    { "lines", "place" },     { "lines", "function" },
    { "lines", "line" },        { "stacks", "id" },       { "stacks", "parent" },
    { "stacks", "location" },   { "threads", "id" },      { "threads", "pid" },
    { "threads", "tid" },       { "threads", "name" },    { "spans", "id" },
    { "spans", "thread" },      { "spans", "name" },      { "spans", "start_ns" },
    { "samples", "seq" },       { "samples", "kind" },    { "samples", "thread" },
    { "samples", "count" },     { "samples", "first_ns" }, { "samples", "data" },
    { "heap", "full" },         { "heap", "allocator" },  { "heap", "growth" },
    { "heap", "live_bytes" },   { "heap_sites", "id" },   { "heap_sites", "stack" },
    { "heap_sites", "verdict" }, { "heap_sites", "growth" }, { "heap_sites", "slope" },
    { "heap_points", "time_ns" }, { "heap_threads", "thread" }, { "heap_pools", "name" },
    { "heap_pools", "mapped" }, { "heap_sizes", "count" }, { "heap_lifetimes", "id" },
    { "inference", "slo_itl_s" }, { "inference_invalid", "reason" },
    { "inference_models", "id" }, { "inference_models", "model" },
    { "inference_models", "load_s" }, { "inference_memory", "model" },
    { "inference_memory", "kind" }, { "inference_requests", "id" },
    { "inference_requests", "outcome" }, { "inference_requests", "source" },
    { "inference_requests", "route" }, { "inference_requests", "arrived_ns" },
    { "inference_requests", "total_s" }, { "inference_requests", "itl_p95_s" },
    { "inference_requests", "own_id" }, { "inference_requests", "timeline" },
    { "inference_requests", "timeline" }, { "inference_requests", "attributes" },
};

/* Six bytes: which column, which row, what to do, and two of value. */
enum { EDIT = 6 };

static void edit(sqlite3 *db, const uint8_t *e)
{
    const char *table = columns[e[0] % (sizeof(columns) / sizeof(columns[0]))].table;
    const char *column = columns[e[0] % (sizeof(columns) / sizeof(columns[0]))].column;
    static const char *const values[] = {
        "%d", "-%d", "%d << 32", "9223372036854775807 - %d", "'%d'", "x'%04x'", "%d / 7.0",
        "zeroblob(%d)", "(SELECT data FROM samples LIMIT 1 OFFSET %d)",
        "(SELECT timeline FROM inference_requests LIMIT 1 OFFSET %d)",
    };
    char value[64], sql[256];
    snprintf(value, sizeof(value), values[e[2] % (sizeof(values) / sizeof(values[0]))],
             e[3] | e[4] << 8);
    const char *where = !strcmp(table, "meta") ? "key" : !strcmp(table, "lines") ? "location"
                                                                               : "rowid";
    if (e[5] == 1) {
        snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE %s > %d", table, where, e[1] % 16);
    } else {
        snprintf(sql, sizeof(sql), "UPDATE OR IGNORE %s SET %s = %s WHERE %s = (SELECT %s FROM %s "
                 "LIMIT 1 OFFSET %d)", table, column, value, where, where, table, e[1] % 16);
    }
    sqlite3_exec(db, sql, NULL, NULL, NULL); /* some make no sense: fine */
}

static unsigned char *tampered(const uint8_t *data, size_t edits, size_t *len)
{
    sqlite3 *db;
    unsigned char *copy = sqlite3_malloc64(good_len);
    CHECK(copy && sqlite3_open(":memory:", &db) == SQLITE_OK);
    memcpy(copy, good, good_len);
    CHECK(sqlite3_deserialize(db, "main", copy, (sqlite3_int64)good_len, (sqlite3_int64)good_len,
                              SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE) ==
          SQLITE_OK);
    for (size_t i = 0; i < edits; i++) edit(db, data + i * EDIT);
    sqlite3_int64 size = 0;
    unsigned char *out = sqlite3_serialize(db, "main", &size, 0);
    CHECK(out);
    *len = (size_t)size;
    sqlite3_close(db);
    return out;
}

/* ---- What must hold -------------------------------------------------------------------------- */

static void check_series(const struct sonde_curve *s)
{
    CHECK(s->count <= SONDE_CURVE_POINTS && (!s->pending || s->pending < s->per_point));
    for (uint32_t i = 0; i < s->count; i++) CHECK(s->value[i] - s->value[i] == 0);
}

static void check_heap(const struct sonde_profile *p, const struct sonde_heap *h)
{
    CHECK(h->allocator < p->strings_count);
    check_series(&h->growth);
    for (uint32_t i = 0; i < h->site_count; i++) {
        CHECK(h->sites[i].stack && h->sites[i].stack < p->stacks_count);
        CHECK(h->sites[i].verdict < SONDE_HEAP_VERDICT_COUNT);
        CHECK(h->sites[i].slope - h->sites[i].slope == 0);
        check_series(&h->sites[i].growth);
    }
    for (uint32_t i = 0; i < h->thread_count; i++) CHECK(h->threads[i].thread < p->threads_count);
    for (uint32_t i = 0; i < h->pool_count; i++) CHECK(h->pools[i].name < p->strings_count);
}

static void check_infer(const struct sonde_infer_run *run)
{
    for (size_t i = 0; i < run->request_count; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        CHECK(*r->invalid || !sonde_infer_validate(r, NULL, NULL));
        CHECK(r->outcome < SONDE_INFER_OUTCOMES && r->attr_count <= SONDE_INFER_ATTRS_MAX);
        CHECK(r->item_count <= SONDE_INFER_ITEMS_MAX && strlen(r->own_id) <= SONDE_INFER_ID_MAX);
        for (uint32_t k = 0; k < r->item_count; k++) {
            const struct sonde_infer_item *item = &r->items[k];
            CHECK(item->start_ns >= r->arrived_ns && item->end_ns >= item->start_ns);
            CHECK(*item->name && item->count);
        }
    }
    for (size_t i = 0; i < run->model_count; i++) {
        CHECK(run->models[i].memory_count <= SONDE_INFER_MEMORY_KINDS);
        CHECK(run->models[i].model && run->models[i].backend);
    }
}

static void check_profile(const struct sonde_profile *p)
{
    if (p->infer) check_infer(p->infer);
    if (p->heap) check_heap(p, p->heap);
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
        CHECK(p->samples[i].thread < p->threads_count);
    }
    for (uint32_t i = 0; i < p->spans_count; i++) {
        CHECK(p->spans[i].thread < p->threads_count && p->spans[i].name < p->strings_count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!good) make_good();
    struct sonde_profile_sample samples[32];
    struct sonde_err err = { "" };
    if (size) sonde_run_unpack(data + 1, size - 1, 0, data[0] % 32 + 1u, samples, &err);

    const size_t edits = size ? data[0] % 4 : 0, used = edits * EDIT;
    if (size < 1 + used) return 0;
    size_t len;
    unsigned char *file = tampered(data + 1, edits, &len);
    for (size_t i = 1 + used; i + 3 <= size; i += 3) {
        file[(size_t)(data[i] | data[i + 1] << 8) % len] = data[i + 2];
    }
    struct sonde_profile *p = NULL;
    err.text[0] = 0;
    const int rc = sonde_run_load_bytes((const char *)file, len, "fuzz", &p, &err);
    CHECK(rc ? err.text[0] && !p : !!p);
    if (!rc) check_profile(p);
    sonde_profile_destroy(p);
    sqlite3_free(file);
    CHECK(sonde__alloc_live() == 0);
    return 0;
}

#ifdef SONDE_FUZZ_MAIN
int main(int argc, char **argv)
{
    const long rounds = argc > 1 ? atol(argv[1]) : 3000;
    uint64_t x = 88172645463325252u;
    for (long i = 0; i < rounds; i++) {
        uint8_t input[32];
        for (size_t k = 0; k < sizeof(input); k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            input[k] = (uint8_t)(x >> 24);
        }
        /* Mostly edits alone. */
        LLVMFuzzerTestOneInput(input, x % 4 ? 1 + input[0] % 4u * EDIT : sizeof(input));
    }
    printf("%ld inputs\n", rounds);
    return 0;
}
#endif
