/* profile.c - the tables of a profile and the indexes that keep their rows unique.
 *
 * Rows are compared field by field through a hash index each (intern.h). Locations have two: by
 * address, for what a sampler sees, and by all they hold, for imported ones that may know lines
 * but no address. Names of imported frames take a short cut: string id to location id is a plain
 * array.
 *
 * Most stacks have one child, made right after them, when the end of a new stack is appended: it
 * stands behind them in the table, and that is where it is looked for. Only further children are in
 * a hash index. With all of them in it, reading a large file took three times as long; lists of
 * children were tried, and where many share a parent each step along them is a cache miss. */
#include "profile/profile.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/intern.h"
#include "profile/final.h"
#include "profile/track.h"
#include "profile/gpu.h"
#include "profile/heap.h"
#include "profile/infer.h"
#include "sonde/sonde.h"

#define BYTES_MAX_DEFAULT ((size_t)1 << 30)

struct sonde_profile_index {
    struct sonde_strings pool;    /* p->strings is a view of it */
    struct sonde_map modules, functions, threads;
    struct sonde_map stacks;   /* those that do not stand behind their parent */
    struct sonde_map places;   /* locations by module and address */
    struct sonde_map contents; /* locations by address and lines */
    uint16_t *depths;             /* of each stack */
    uint32_t depths_cap;
    uint32_t *named;              /* string id -> location of that name, 0 = none yet */
    uint32_t named_cap;
};

static const struct {
    const char *name, *unit, *title;
} kinds[] = {
#define SONDE__X(id, name, unit, title) { name, unit, title },
    SONDE_SAMPLE_KINDS(SONDE__X)
#undef SONDE__X
};

const char *sonde_sample_kind_name(enum sonde_sample_kind k) { return kinds[k].name; }
const char *sonde_sample_kind_unit(enum sonde_sample_kind k) { return kinds[k].unit; }
const char *sonde_sample_kind_title(enum sonde_sample_kind k) { return kinds[k].title; }

int sonde_sample_kind_is_bytes(enum sonde_sample_kind k) { return !strcmp(kinds[k].unit, "bytes"); }

int sonde_sample_kind_is_time(enum sonde_sample_kind k)
{
    assert((size_t)k < SONDE_COUNT(kinds));
    return !strcmp(kinds[k].unit, "nanoseconds");
}

static const struct {
    const char *name, *title;
} cuts[] = {
#define SONDE__X(id, name, title) { name, title },
    SONDE_SAMPLE_CUTS(SONDE__X)
#undef SONDE__X
};

const char *sonde_sample_cut_name(enum sonde_sample_cut cut) { return cuts[cut].name; }
const char *sonde_sample_cut_title(enum sonde_sample_cut cut) { return cuts[cut].title; }

void sonde_stack_sums_add(struct sonde_stack_sums *sums, const struct sonde_profile_sample *s)
{
    sums->stacks += s->count;
    if (s->flags & SONDE_SAMPLE_MENDED) sums->mended += s->count;
    if (!(s->flags & SONDE_SAMPLE_TRUNCATED)) return;
    sums->truncated += s->count;
    sums->cuts[sonde_sample_cut_of(s->flags)] += s->count;
}

enum sonde_sample_cut sonde_stack_sums_main(const struct sonde_stack_sums *sums)
{
    enum sonde_sample_cut most = SONDE_CUT_UNKNOWN;
    for (int i = 0; i < SONDE_CUT_COUNT; i++) {
        if (sums->cuts[i] > sums->cuts[most]) most = (enum sonde_sample_cut)i;
    }
    return most;
}

int sonde_sample_kind_find(const char *name)
{
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
        if (!strcmp(kinds[k].name, name)) return k;
    }
    return -1;
}

static struct sonde_budget profile_budget(struct sonde_profile *p)
{
    return (struct sonde_budget){ .used = &p->bytes, .max = p->bytes_max };
}

/* Room for one more row of a table; 0 or SONDE_ENOMEM. */
#define GROW(p, table)                                                                         \
    grow_##table(p)
#define DEFINE_GROW(table)                                                                     \
    static int grow_##table(struct sonde_profile *p)                                           \
    {                                                                                          \
        if (__builtin_expect(p->table##_count < p->table##_cap, 1)) return 0;                  \
        const struct sonde_budget b = profile_budget(p);                                       \
        void *grown = sonde_table_grow(p->table, p->table##_count, &p->table##_cap,            \
                                       sizeof(*p->table), &b);                                 \
        if (!grown) return SONDE_ENOMEM;                                                       \
        p->table = grown;                                                                      \
        return 0;                                                                              \
    }
DEFINE_GROW(modules)
DEFINE_GROW(functions)
DEFINE_GROW(lines)
DEFINE_GROW(locations)
DEFINE_GROW(stacks)
DEFINE_GROW(threads)
DEFINE_GROW(spans)
DEFINE_GROW(parts)
DEFINE_GROW(attrs)
DEFINE_GROW(samples)

/* A new row with its slot in the index; evaluates to its id, 0 = no memory. */
#define APPEND(p, table, slots, hash, row)                                                     \
    (reserve(p, &(p)->index->slots) || GROW(p, table)                                          \
         ? 0                                                                                   \
         : ((p)->table[(p)->table##_count] = (row),                                            \
            sonde_map_put(&(p)->index->slots, hash, (p)->table##_count),                    \
            (p)->table##_count++))

static int reserve(struct sonde_profile *p, struct sonde_map *t)
{
    if (__builtin_expect(t->used < t->cap - t->cap / 4, 1)) return 0;
    const struct sonde_budget b = profile_budget(p);
    return sonde_intern_reserve(t, &b);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void view_strings(struct sonde_profile *p)
{
    p->strings = p->index->pool.strings;
    p->strings_count = p->index->pool.count;
    p->strings_cap = p->index->pool.cap;
}

/* Row 0, which stands for "none". */
static int first_rows(struct sonde_profile *p)
{
    if (GROW(p, modules) || GROW(p, functions) || GROW(p, locations) || GROW(p, stacks) ||
        GROW(p, threads)) {
        return SONDE_ENOMEM;
    }
    p->modules[p->modules_count++] = (struct sonde_profile_module){ 0 };
    p->functions[p->functions_count++] = (struct sonde_profile_function){ 0 };
    p->locations[p->locations_count++] = (struct sonde_profile_location){ 0 };
    p->stacks[p->stacks_count++] = (struct sonde_profile_stack){ 0 };
    p->threads[p->threads_count++] = (struct sonde_profile_thread){ 0 };
    return 0;
}

int sonde_profile_create(size_t bytes_max, struct sonde_profile **out)
{
    assert(out);
    struct sonde_profile *p = sonde__calloc(1, sizeof(*p));
    if (!p) return SONDE_ENOMEM;
    p->bytes_max = bytes_max ? bytes_max : BYTES_MAX_DEFAULT;
    p->index = sonde__calloc(1, sizeof(*p->index));
    if (!p->index) goto fail;
    const struct sonde_budget b = profile_budget(p);
    if (sonde_strings_init(&p->index->pool, &b)) goto fail;
    view_strings(p);
    if (first_rows(p)) goto fail;
    *out = p;
    return 0;
fail:
    sonde_profile_destroy(p);
    return SONDE_ENOMEM;
}

void sonde_profile_destroy(struct sonde_profile *p)
{
    if (!p) return;
    if (p->index) {
        struct sonde_profile_index *x = p->index;
        sonde_strings_release(&x->pool);
        sonde_map_release(&x->modules);
        sonde_map_release(&x->functions);
        sonde_map_release(&x->stacks);
        sonde_map_release(&x->threads);
        sonde_map_release(&x->places);
        sonde_map_release(&x->contents);
        sonde__free(x->depths);
        sonde__free(x->named);
        sonde__free(x);
    }
    p->strings = NULL; /* the pool's */
#define PROFILE_FREE(type, name) sonde__free(p->name);
    SONDE_PROFILE_TABLES(PROFILE_FREE)
#undef PROFILE_FREE
    sonde_heap_destroy(p->heap);
    sonde_gpu_work_destroy(p->gpu);
    sonde_infer_run_destroy(p->infer);
    sonde_final_destroy(p->final);
    sonde_tracks_destroy(p->tracks);
    sonde__free(p);
}

size_t sonde_profile_rows_bytes(const struct sonde_profile *p)
{
    enum { SLOT = 16 }; /* of an index, about */
    return p->stacks_count * (sizeof(*p->stacks) + sizeof(*p->index->depths) + SLOT) +
           p->locations_count * (sizeof(*p->locations) + SLOT) +
           p->modules_count * (sizeof(*p->modules) + SLOT) +
           p->functions_count * (sizeof(*p->functions) + SLOT) +
           p->threads_count * (sizeof(*p->threads) + SLOT) + p->lines_count * sizeof(*p->lines);
}

void sonde_profile_forget(struct sonde_profile *p)
{
    assert(!p->heap && !p->infer && !p->gpu); /* they would refer to rows that are gone */
    struct sonde_profile_index *x = p->index;
    struct sonde_map *indexes[] = { &x->modules, &x->functions, &x->stacks,
                                    &x->threads, &x->places,    &x->contents };
    for (size_t i = 0; i < SONDE_COUNT(indexes); i++) sonde_map_clear(indexes[i]);
    if (x->named) memset(x->named, 0, x->named_cap * sizeof(*x->named));
    /* Row 0 stays. */
    p->modules_count = p->functions_count = p->locations_count = p->stacks_count = 1;
    p->threads_count = 1;
    p->lines_count = p->spans_count = p->parts_count = p->attrs_count = p->samples_count = 0;
    memset(p->weights, 0, sizeof(p->weights));
}

int sonde_profile_take_heap(struct sonde_profile *p, struct sonde_heap *h)
{
    assert(h && h != p->heap);
    const size_t had = p->heap ? sonde_heap_bytes(p->heap) : 0, bytes = sonde_heap_bytes(h);
    if (p->bytes - had > p->bytes_max || bytes > p->bytes_max - (p->bytes - had)) {
        return SONDE_ENOMEM;
    }
    p->bytes = p->bytes - had + bytes;
    sonde_heap_destroy(p->heap);
    p->heap = h;
    return 0;
}

void sonde_profile_drop_heap(struct sonde_profile *p)
{
    if (!p->heap) return;
    p->bytes -= sonde_heap_bytes(p->heap);
    sonde_heap_destroy(p->heap);
    p->heap = NULL;
}

void sonde_profile_drop_gpu(struct sonde_profile *p)
{
    sonde_gpu_work_destroy(p->gpu);
    p->gpu = NULL;
}

/* ---- Interning ------------------------------------------------------------------------------- */

/* The beginning of a text that is too long, up to the end of a character. */
static uint32_t shortened_string(struct sonde_profile *p, const char *s,
                                 const struct sonde_budget *b)
{
    static const char mark[] = "…";
    size_t len = SONDE_PROFILE_TEXT_MAX - strlen(mark);
    while (len > SONDE_PROFILE_TEXT_MAX - 16 && ((unsigned char)s[len] & 0xc0) == 0x80) len--;
    char *text = sonde__alloc(len + sizeof(mark));
    if (!text) return 0;
    memcpy(text, s, len);
    memcpy(text + len, mark, sizeof(mark));
    const uint32_t id = sonde_strings_add(&p->index->pool, text, len + strlen(mark), b);
    sonde__free(text);
    p->shortened++;
    return id;
}

uint32_t sonde_profile_string(struct sonde_profile *p, const char *s, size_t len)
{
    const char *nul = memchr(s, '\0', len);
    const struct sonde_budget b = profile_budget(p);
    if (nul) len = (size_t)(nul - s);
    const uint32_t id = len <= SONDE_PROFILE_TEXT_MAX
                            ? sonde_strings_add(&p->index->pool, s, len, &b)
                            : shortened_string(p, s, &b);
    view_strings(p);
    return id;
}

uint32_t sonde_profile_cstring(struct sonde_profile *p, const char *s)
{
    return sonde_profile_string(p, s, strlen(s));
}

uint32_t sonde_profile_find_string(const struct sonde_profile *p, const char *s)
{
    const size_t len = strlen(s);
    return sonde_strings_find(&p->index->pool, s, len, sonde_hash_bytes(s, len));
}

uint32_t sonde_profile_module(struct sonde_profile *p, const struct sonde_profile_module *m)
{
    assert(m->path < p->strings_count && m->build_id < p->strings_count);
    uint64_t h = sonde_hash_mix(m->start, m->offset);
    h = sonde_hash_mix(h, m->end);
    const uint32_t hash = sonde_hash_end(sonde_hash_mix(h, (uint64_t)m->path << 32 | m->build_id));
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&p->index->modules, hash, &at))) {
        const struct sonde_profile_module *o = &p->modules[id];
        if (o->path == m->path && o->build_id == m->build_id && o->start == m->start &&
            o->end == m->end && o->offset == m->offset) {
            return id;
        }
    }
    return APPEND(p, modules, modules, hash, *m);
}

uint32_t sonde_profile_function(struct sonde_profile *p, const struct sonde_profile_function *f)
{
    assert(f->name < p->strings_count && f->module < p->modules_count);
    uint64_t h = sonde_hash_mix((uint64_t)f->name << 32 | f->file, 1);
    h = sonde_hash_mix(h, (uint64_t)f->start_line << 32 | f->module);
    const uint32_t hash = sonde_hash_end(h);
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&p->index->functions, hash, &at))) {
        const struct sonde_profile_function *o = &p->functions[id];
        if (o->name == f->name && o->file == f->file && o->start_line == f->start_line &&
            o->module == f->module) {
            return id;
        }
    }
    return APPEND(p, functions, functions, hash, *f);
}

uint32_t sonde_profile_location(struct sonde_profile *p, uint32_t module, uint64_t address)
{
    assert(module < p->modules_count);
    const uint32_t hash = sonde_hash_end(sonde_hash_mix(address, module));
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&p->index->places, hash, &at))) {
        if (p->locations[id].address == address && p->locations[id].module == module) return id;
    }
    const struct sonde_profile_location row = { .address = address, .module = module };
    return APPEND(p, locations, places, hash, row);
}

static int same_stack(struct sonde_profile_stack a, struct sonde_profile_stack b)
{
    return a.parent == b.parent && a.location == b.location;
}

/* Of the stack that is to be added next; 0 or SONDE_ENOMEM. */
static int profile_note_depth(struct sonde_profile *p, uint32_t parent)
{
    struct sonde_profile_index *x = p->index;
    if (__builtin_expect(p->stacks_count >= x->depths_cap, 0)) {
        const struct sonde_budget b = profile_budget(p);
        uint16_t *grown = sonde_table_grow(x->depths, p->stacks_count, &x->depths_cap,
                                           sizeof(*grown), &b);
        if (!grown) return SONDE_ENOMEM;
        x->depths = grown;
        x->depths[0] = 0;
    }
    x->depths[p->stacks_count] = (uint16_t)(x->depths[parent] + 1);
    return 0;
}

/* A child that does not stand behind its parent. */
static uint32_t further_stack(struct sonde_profile *p, struct sonde_profile_stack row)
{
    const uint32_t hash = sonde_hash_end((uint64_t)row.parent << 32 | row.location);
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&p->index->stacks, hash, &at))) {
        if (same_stack(p->stacks[id], row)) return id;
    }
    return profile_note_depth(p, row.parent) ? 0 : APPEND(p, stacks, stacks, hash, row);
}

/* The place where a stack that is too deep ends: one frame that says so, and nothing below it. */
static uint32_t deepest_stack(struct sonde_profile *p, uint32_t parent)
{
    if (p->index->depths[parent] >= SONDE_PROFILE_DEPTH_MAX) return parent;
    const struct sonde_profile_stack row = {
        .parent = parent,
        .location = sonde_profile_named_location(p, SONDE_PROFILE_CUT_NAME,
                                                 strlen(SONDE_PROFILE_CUT_NAME)),
    };
    if (!row.location) return 0;
    p->shortened++;
    return further_stack(p, row);
}

uint32_t sonde_profile_stack(struct sonde_profile *p, uint32_t parent, uint32_t location)
{
    assert(parent < p->stacks_count && location < p->locations_count);
    if (!location) return 0;
    if (__builtin_expect(parent && p->index->depths[parent] >= SONDE_PROFILE_DEPTH_MAX - 1, 0)) {
        return deepest_stack(p, parent);
    }
    const struct sonde_profile_stack row = { .parent = parent, .location = location };
    const uint32_t behind = parent + 1;
    if (behind < p->stacks_count) {
        return same_stack(p->stacks[behind], row) ? behind : further_stack(p, row);
    }
    /* The parent is the newest: nobody has called from there. */
    if (profile_note_depth(p, parent) || GROW(p, stacks)) return 0;
    p->stacks[p->stacks_count++] = row;
    return behind;
}

uint32_t sonde_profile_thread(struct sonde_profile *p, uint32_t pid, uint32_t tid,
                              const char *name)
{
    const uint32_t string = name ? sonde_profile_cstring(p, name) : 0;
    const uint64_t number = (uint64_t)pid << 32 | tid;
    const uint32_t hash = sonde_hash_end(sonde_hash_mix(number, tid ? 0 : string));
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&p->index->threads, hash, &at))) {
        struct sonde_profile_thread *o = &p->threads[id];
        if (o->pid != pid || o->tid != tid || (!tid && o->name != string)) continue;
        if (string) o->name = string;
        return id;
    }
    const struct sonde_profile_thread row = { .pid = pid, .tid = tid, .name = string };
    return APPEND(p, threads, threads, hash, row);
}

/* ---- Locations with lines -------------------------------------------------------------------- */

static int same_lines(const struct sonde_profile *p, const struct sonde_profile_location *l,
                      const struct sonde_profile_line *lines, uint32_t count)
{
    return l->line_count == count &&
           (!count || !memcmp(&p->lines[l->line], lines, count * sizeof(*lines)));
}

int sonde_profile_set_lines(struct sonde_profile *p, uint32_t location,
                            const struct sonde_profile_line *lines, uint32_t count)
{
    assert(location && location < p->locations_count);
    if (count > SONDE_PROFILE_LINES_MAX) {
        count = SONDE_PROFILE_LINES_MAX;
        p->shortened++;
    }
    struct sonde_profile_location *l = &p->locations[location];
    if (count > l->line_count) {
        const uint32_t first = p->lines_count;
        for (uint32_t i = 0; i < count; i++) {
            if (GROW(p, lines)) {
                p->lines_count = first;
                return SONDE_ENOMEM;
            }
            p->lines[p->lines_count++] = lines[i];
        }
        l->line = first;
    } else if (count) {
        memcpy(&p->lines[l->line], lines, count * sizeof(*lines));
    }
    l->line_count = count;
    return 0;
}

/* By all it holds: for locations without an address of their own. */
static uint32_t content_location(struct sonde_profile *p, uint32_t module, uint64_t address,
                                 const struct sonde_profile_line *lines, uint32_t count)
{
    uint64_t h = sonde_hash_mix(address, module);
    if (count > SONDE_PROFILE_LINES_MAX) {
        count = SONDE_PROFILE_LINES_MAX;
        p->shortened++;
    }
    for (uint32_t i = 0; i < count; i++) {
        h = sonde_hash_mix(h, (uint64_t)lines[i].function << 32 | lines[i].line);
    }
    const uint32_t hash = sonde_hash_end(h);
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&p->index->contents, hash, &at))) {
        const struct sonde_profile_location *l = &p->locations[id];
        if (l->address == address && l->module == module && same_lines(p, l, lines, count)) {
            return id;
        }
    }
    const struct sonde_profile_location row = { .address = address, .module = module };
    id = APPEND(p, locations, contents, hash, row);
    /* A row that got no lines for lack of memory stays as an unknown one. */
    return id && !sonde_profile_set_lines(p, id, lines, count) ? id : 0;
}

uint32_t sonde_profile_lines_location(struct sonde_profile *p, uint32_t module, uint64_t address,
                                      const struct sonde_profile_line *lines, uint32_t count)
{
    assert(module < p->modules_count && (lines || !count));
    if (!address) return content_location(p, module, 0, lines, count);
    const uint32_t id = sonde_profile_location(p, module, address);
    if (!id || !count) return id;
    if (!p->locations[id].line_count) {
        return sonde_profile_set_lines(p, id, lines, count) ? 0 : id;
    }
    if (same_lines(p, &p->locations[id], lines, count)) return id;
    return content_location(p, module, address, lines, count);
}

/* named[] with room for this string. */
static int grow_named(struct sonde_profile *p, uint32_t string)
{
    struct sonde_profile_index *x = p->index;
    const struct sonde_budget b = profile_budget(p);
    while (string >= x->named_cap) {
        const uint32_t had = x->named_cap;
        uint32_t *grown = sonde_table_grow(x->named, had, &x->named_cap, sizeof(*grown), &b);
        if (!grown) return SONDE_ENOMEM;
        memset(grown + had, 0, (x->named_cap - had) * sizeof(*grown));
        x->named = grown;
    }
    return 0;
}

uint32_t sonde_profile_named_location(struct sonde_profile *p, const char *name, size_t len)
{
    const uint32_t string = sonde_profile_string(p, name, len);
    if (!string || grow_named(p, string)) return 0;
    uint32_t *known = &p->index->named[string];
    if (*known) return *known;
    const struct sonde_profile_line line = {
        .function = sonde_profile_function(p, &(struct sonde_profile_function){ .name = string })
    };
    if (!line.function) return 0;
    return *known = content_location(p, 0, 0, &line, 1);
}

/* ---- Samples and spans ----------------------------------------------------------------------- */

int sonde_profile_add_sample(struct sonde_profile *p, const struct sonde_profile_sample *s)
{
    assert(s->stack < p->stacks_count && s->thread < p->threads_count);
    assert(s->kind < SONDE_SAMPLE_KIND_COUNT);
    uint64_t weights;
    const int too_much = __builtin_add_overflow(p->weights[s->kind], s->weight, &weights);
    if (too_much || !s->stack || GROW(p, samples)) {
        p->dropped_samples += s->count;
        return too_much ? SONDE_EFORMAT : SONDE_ENOMEM;
    }
    p->weights[s->kind] = weights;
    p->samples[p->samples_count++] = *s;
    return 0;
}

int sonde_profile_add_span(struct sonde_profile *p, const struct sonde_profile_span *s)
{
    assert(s->thread < p->threads_count);
    if (GROW(p, spans)) return SONDE_ENOMEM;
    p->spans[p->spans_count++] = *s;
    return 0;
}

int sonde_profile_add_part(struct sonde_profile *p, const struct sonde_profile_part *part)
{
    assert(part->span < p->spans_count);
    assert(!p->parts_count || p->parts[p->parts_count - 1].span <= part->span);
    if (GROW(p, parts)) return SONDE_ENOMEM;
    p->parts[p->parts_count++] = *part;
    return 0;
}

int sonde_profile_add_attr(struct sonde_profile *p, const struct sonde_profile_attr *attr)
{
    assert(attr->span < p->spans_count);
    assert(!p->attrs_count || p->attrs[p->attrs_count - 1].span <= attr->span);
    if (GROW(p, attrs)) return SONDE_ENOMEM;
    p->attrs[p->attrs_count++] = *attr;
    return 0;
}

const struct sonde_profile_attr *sonde_profile_attrs_of(const struct sonde_profile *p,
                                                        uint32_t span, uint32_t *count)
{
    uint32_t low = 0, high = p->attrs_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (p->attrs[middle].span < span) low = middle + 1;
        else high = middle;
    }
    *count = 0;
    while (low + *count < p->attrs_count && p->attrs[low + *count].span == span) ++*count;
    return p->attrs + low;
}
