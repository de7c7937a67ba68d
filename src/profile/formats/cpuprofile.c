/* cpuprofile.c - V8's .cpuprofile, as `node --cpu-prof` and browsers' developer tools write it,
 * read: a tree of nodes, and for each moment that was sampled the number of a node.
 *
 *   {"nodes":[{"id":1,"callFrame":{"functionName":…,"url":…,"lineNumber":…},"hitCount":…,
 *              "children":[2,…]},…],
 *    "startTime":…,"endTime":…,"samples":[2,…],"timeDeltas":[…]}      times in microseconds
 *
 * A sample lasts until the next one. Those of "(idle)" are time blocked, the others CPU time.
 * Without samples the hits of each node are counted.
 *
 * In traces of Chrome the same comes in pieces: {"data":{"startTime":…}}, then any number of
 * {"data":{"cpuProfile":{"nodes":[…],"samples":[…]},"timeDeltas":[…]}}, whose nodes have the
 * "parent" instead of children. */
#include "profile/formats/cpuprofile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

#define TEXT_MAX_BYTES ((size_t)1 << 20)
#define US 1000u
enum { NO_PARENT = UINT32_MAX };

struct node {
    uint64_t id, parent_id; /* 0 = not said */
    uint32_t location;   /* 0 = the root, which is no frame */
    uint32_t parent;     /* index; NO_PARENT */
    uint32_t stack;      /* 0 = not made yet */
    uint32_t hits;
    int idle, on_way;
};

struct child {
    uint64_t id;
    uint32_t parent;     /* index */
};

struct cpuprofile_reader {
    struct sonde_profile *p;
    struct sonde_err *err;
    struct sonde_json_reader r;
    struct sonde_buf text, other;
    struct node *nodes;  /* by id, when all are read */
    uint32_t node_count, node_cap;
    struct child *children;
    uint32_t child_count, child_cap;
    uint32_t *order;     /* index of the file -> of nodes */
    size_t bytes;
    uint32_t thread;
    double start_us, end_us;
    struct sonde_json_reader samples, deltas; /* of the part at hand; at NULL = none */

    /* The sample at hand lasts until the next. */
    uint32_t last;       /* node; NO_PARENT = none yet */
    double now_us, begun_us, delta_us;
};

static int cpuprofile_grow(struct cpuprofile_reader *s, void **table, uint32_t count, uint32_t *cap,
                           size_t size)
{
    return sonde_import_grow(s->p, &s->bytes, table, count, cap, size, s->err);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static int read_call_frame(struct cpuprofile_reader *s, struct node *n)
{
    static const struct sonde_import_frame_keys keys = { "functionName", "url", "lineNumber" };
    struct sonde_import_frame_text f;
    if (!sonde_import_frame_read(&s->r, &keys, &s->text, &s->other, &f) ||
        sonde_json_text_is(f.name, "(root)")) {
        return 0;
    }
    n->idle = sonde_json_text_is(f.name, "(idle)");
    /* Lines count from 0. */
    const uint32_t at = f.line >= 0 && f.line < 1e9 ? (uint32_t)f.line + 1 : 0;
    n->location = sonde_import_frame(s->p, f.name, f.file, at);
    return n->location ? 0 : sonde_import_no_room(s->p, s->err);
}

static int read_children(struct cpuprofile_reader *s)
{
    int rc = 0;
    if (!sonde_json_enter(&s->r, '[')) return 0;
    while (!rc && sonde_json_element(&s->r)) {
        struct child c = { .parent = s->node_count };
        if (!sonde_json_number_u64(&s->r, &c.id)) break;
        rc = cpuprofile_grow(s, (void **)&s->children, s->child_count, &s->child_cap,
                             sizeof(*s->children));
        if (!rc) s->children[s->child_count++] = c;
    }
    return rc;
}

static int read_node(struct cpuprofile_reader *s)
{
    struct sonde_json_text key;
    struct node n = { .parent = NO_PARENT };
    uint64_t hits = 0;
    int has_id = 0, rc = 0;
    if (!sonde_json_enter(&s->r, '{')) return 0;
    while (!rc && sonde_json_member(&s->r, &key)) {
        if (sonde_json_text_is(key, "id")) has_id = sonde_json_number_u64(&s->r, &n.id);
        else if (sonde_json_text_is(key, "parent")) sonde_json_number_u64(&s->r, &n.parent_id);
        else if (sonde_json_text_is(key, "hitCount")) sonde_json_number_u64(&s->r, &hits);
        else if (sonde_json_text_is(key, "callFrame")) rc = read_call_frame(s, &n);
        else if (sonde_json_text_is(key, "children")) rc = read_children(s);
        else sonde_json_skip(&s->r);
    }
    if (rc || s->r.error) return rc;
    if (!has_id) return sonde_json_fail(&s->r, "a node without an id");
    n.hits = hits < UINT32_MAX ? (uint32_t)hits : UINT32_MAX;
    rc = cpuprofile_grow(s, (void **)&s->nodes, s->node_count, &s->node_cap, sizeof(*s->nodes));
    if (!rc) s->nodes[s->node_count++] = n;
    return rc;
}

static int cpuprofile_by_id(const void *a, const void *b, void *nodes)
{
    const struct node *x = (struct node *)nodes + *(const uint32_t *)a;
    const struct node *y = (struct node *)nodes + *(const uint32_t *)b;
    return SONDE_CMP(x->id, y->id);
}

/* Index of the node with this id; NO_PARENT = there is none. */
static uint32_t find_node(const struct cpuprofile_reader *s, uint64_t id)
{
    assert(s->order || !s->node_count);
    uint32_t low = 0, high = s->node_count;
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (s->nodes[s->order[mid]].id < id) low = mid + 1;
        else high = mid;
    }
    return low < s->node_count && s->nodes[s->order[low]].id == id ? s->order[low] : NO_PARENT;
}

/* Parents from lists of children, or as the nodes say. */
static int join_nodes(struct cpuprofile_reader *s)
{
    s->order = sonde__alloc(s->node_count * sizeof(*s->order));
    if (!s->order) return sonde_import_no_room(s->p, s->err);
    for (uint32_t i = 0; i < s->node_count; i++) s->order[i] = i;
    qsort_r(s->order, s->node_count, sizeof(*s->order), cpuprofile_by_id, s->nodes);
    for (uint32_t i = 1; i < s->node_count; i++) {
        if (s->nodes[s->order[i]].id != s->nodes[s->order[i - 1]].id) continue;
        return sonde_err_set(s->err, SONDE_EFORMAT, "two nodes have the id %llu",
                             (unsigned long long)s->nodes[s->order[i]].id);
    }
    for (uint32_t i = 0; i < s->child_count; i++) {
        const uint32_t node = find_node(s, s->children[i].id);
        if (node == NO_PARENT || s->nodes[node].parent != NO_PARENT) {
            return sonde_err_set(s->err, SONDE_EFORMAT, "the child %llu of node %llu is missing, "
                                 "or has two parents", (unsigned long long)s->children[i].id,
                                 (unsigned long long)s->nodes[s->children[i].parent].id);
        }
        s->nodes[node].parent = s->children[i].parent;
    }
    for (uint32_t i = 0; i < s->node_count; i++) {
        struct node *n = &s->nodes[i];
        if (n->parent_id && n->parent == NO_PARENT) n->parent = find_node(s, n->parent_id);
    }
    return 0;
}

/* The stack of a node. Callers that have none yet get theirs first: the way up is turned round by
 * letting each node on it point to the one below, so it needs no memory, however long. */
static int cpuprofile_make_stack(struct cpuprofile_reader *s, uint32_t node)
{
    uint32_t below = NO_PARENT, at = node;
    while (at != NO_PARENT && !s->nodes[at].stack) {
        if (s->nodes[at].on_way) {
            return sonde_err_set(s->err, SONDE_EFORMAT, "node %llu is its own caller",
                                 (unsigned long long)s->nodes[node].id);
        }
        const uint32_t parent = s->nodes[at].parent;
        s->nodes[at].parent = below;
        s->nodes[at].on_way = 1;
        below = at;
        at = parent;
    }
    uint32_t stack = at == NO_PARENT ? 0 : s->nodes[at].stack;
    for (uint32_t above = at; below != NO_PARENT;) {
        struct node *n = &s->nodes[below];
        const uint32_t next = n->parent;
        n->parent = above;
        n->on_way = 0;
        if (n->location) {
            stack = sonde_profile_stack(s->p, stack, n->location);
            if (!stack) return sonde_import_no_room(s->p, s->err);
        }
        n->stack = stack;
        above = below;
        below = next;
    }
    return 0;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static int cpuprofile_add_sample(struct cpuprofile_reader *s, uint32_t node, double at_us,
                                 double until_us)
{
    const int rc = s->nodes[node].stack ? 0 : cpuprofile_make_stack(s, node);
    if (rc) return rc;
    const struct node *n = &s->nodes[node];
    const double us = until_us - at_us;
    if (!n->stack || !(us > 0) || us > 1e15) return 0;
    const struct sonde_profile_sample sample = {
        .time_ns = until_us > 0 && until_us < 1e16 ? (uint64_t)(until_us * US) : 0,
        .weight = (uint64_t)(us * US + 0.5), .stack = n->stack, .thread = s->thread, .count = 1,
        .kind = n->idle ? SONDE_SAMPLE_OFFCPU : SONDE_SAMPLE_CPU,
    };
    return sonde_import_sample(s->p, &sample, s->err);
}

/* Of the part at hand. */
static int cpuprofile_read_samples(struct cpuprofile_reader *s)
{
    struct sonde_json_reader ids = s->samples, deltas = s->deltas;
    uint64_t id;
    int rc = 0;
    if (!sonde_json_enter(&ids, '[') || !sonde_json_enter(&deltas, '[')) {
        sonde_json_fail(&s->r, "\"samples\" or \"timeDeltas\" is not an array");
        return 0;
    }
    while (!rc && sonde_json_element(&ids) && sonde_json_number_u64(&ids, &id)) {
        if (!sonde_json_element(&deltas) || !sonde_json_number(&deltas, &s->delta_us)) {
            sonde_json_fail(&ids, "there is no time for this sample");
            break;
        }
        const uint32_t node = find_node(s, id);
        if (node == NO_PARENT) {
            sonde_json_fail(&ids, "a sample of a node that is not there");
            break;
        }
        s->now_us += s->delta_us;
        /* Samples of several threads may be out of order by some microseconds. */
        if (s->now_us > s->begun_us || s->last == NO_PARENT) {
            if (s->last != NO_PARENT) {
                rc = cpuprofile_add_sample(s, s->last, s->begun_us, s->now_us);
            }
            s->begun_us = s->now_us;
        }
        s->last = node;
    }
    if (!rc && ids.error) s->r = ids;
    return rc;
}

static void begin_samples(struct cpuprofile_reader *s)
{
    s->now_us = s->begun_us = s->start_us;
    s->last = NO_PARENT;
}

static int end_samples(struct cpuprofile_reader *s)
{
    if (s->last == NO_PARENT || s->r.error) return 0;
    return cpuprofile_add_sample(s, s->last, s->begun_us, s->end_us);
}

static int count_hits(struct cpuprofile_reader *s)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < s->node_count; i++) {
        if (!s->nodes[i].hits) continue;
        if (!s->nodes[i].stack) rc = cpuprofile_make_stack(s, i);
        const struct sonde_profile_sample sample = {
            .weight = s->nodes[i].hits, .count = s->nodes[i].hits, .stack = s->nodes[i].stack,
            .thread = s->thread, .kind = SONDE_SAMPLE_OTHER,
        };
        if (!rc && sample.stack) rc = sonde_import_sample(s->p, &sample, s->err);
    }
    return rc;
}

/* ---- The file -------------------------------------------------------------------------------- */

static void cpuprofile_note_place(struct cpuprofile_reader *s, struct sonde_json_reader *place)
{
    *place = s->r;
    sonde_json_skip(&s->r);
}

/* An object with any of the members; in traces there are such inside of it. */
static int cpuprofile_read_part(struct cpuprofile_reader *s, int inner)
{
    struct sonde_json_text key;
    int rc = 0;
    if (!sonde_json_enter(&s->r, '{')) return 0;
    while (!rc && sonde_json_member(&s->r, &key)) {
        if (sonde_json_text_is(key, "nodes") && !s->order) {
            if (!sonde_json_enter(&s->r, '[')) break;
            while (!rc && sonde_json_element(&s->r)) rc = read_node(s);
        } else if (sonde_json_text_is(key, "startTime")) sonde_json_number(&s->r, &s->start_us);
        else if (sonde_json_text_is(key, "endTime")) sonde_json_number(&s->r, &s->end_us);
        else if (sonde_json_text_is(key, "samples")) cpuprofile_note_place(s, &s->samples);
        else if (sonde_json_text_is(key, "timeDeltas")) cpuprofile_note_place(s, &s->deltas);
        else if (inner && sonde_json_peek(&s->r) == '{' &&
                 sonde_json_text_is(key, inner == 2 ? "data" : "cpuProfile")) {
            rc = cpuprofile_read_part(s, inner - 1);
        } else {
            sonde_json_skip(&s->r);
        }
    }
    return rc;
}

static void note_times(struct cpuprofile_reader *s)
{
    struct sonde_profile *p = s->p;
    if (!(s->start_us > 0 && s->end_us >= s->start_us && s->end_us < 1e16)) return;
    const uint64_t start = (uint64_t)(s->start_us * US), end = (uint64_t)(s->end_us * US);
    if (!p->start_ns || start < p->start_ns) p->start_ns = start;
    if (end > p->end_ns) p->end_ns = end;
}

static int cpuprofile_read_file(struct cpuprofile_reader *s)
{
    int rc = cpuprofile_read_part(s, 0);
    if (rc || s->r.error) return rc;
    if (!s->node_count) return sonde_json_fail(&s->r, "no nodes in it");
    s->thread = sonde_profile_thread(s->p, 0, 0, "main");
    if (!s->thread) return sonde_import_no_room(s->p, s->err);
    rc = join_nodes(s);
    if (rc) return rc;
    note_times(s);
    if (!s->samples.at || !s->deltas.at) return count_hits(s);
    begin_samples(s);
    rc = cpuprofile_read_samples(s);
    return rc ? rc : end_samples(s);
}

/* All nodes first: a chunk may have samples of nodes of an earlier one. */
static int read_chunks(struct cpuprofile_reader *s, const struct sonde_json_reader *args,
                       uint32_t count)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < count && !s->r.error; i++) {
        s->r = args[i];
        rc = cpuprofile_read_part(s, 2);
    }
    if (rc || s->r.error || !s->node_count) return rc;
    rc = join_nodes(s);
    begin_samples(s);
    for (uint32_t i = 0; !rc && i < count && !s->r.error; i++) {
        s->r = args[i];
        s->samples = s->deltas = (struct sonde_json_reader){ 0 };
        rc = cpuprofile_read_part(s, 2);
        if (!rc && !s->r.error && s->samples.at && s->deltas.at) rc = cpuprofile_read_samples(s);
    }
    /* Most traces do not say when it ended: the last sample is as long as the one before it. */
    if (!(s->end_us > s->now_us)) s->end_us = s->now_us + s->delta_us;
    note_times(s);
    return rc ? rc : end_samples(s);
}

static int cpuprofile_release(struct cpuprofile_reader *s, int rc)
{
    if (!rc) rc = sonde_import_json_error(&s->r, s->err);
    sonde_buf_release(&s->text);
    sonde_buf_release(&s->other);
    sonde__free(s->nodes);
    sonde__free(s->children);
    sonde__free(s->order);
    return rc;
}

int sonde_cpuprofile_chunks(const struct sonde_json_reader *args, uint32_t count, uint32_t thread,
                            struct sonde_profile *p, struct sonde_err *err)
{
    assert(thread < p->threads_count);
    struct cpuprofile_reader s = { .p = p, .err = err, .thread = thread };
    sonde_buf_init(&s.text, TEXT_MAX_BYTES);
    sonde_buf_init(&s.other, TEXT_MAX_BYTES);
    return cpuprofile_release(&s, read_chunks(&s, args, count));
}

static int cpuprofile_read(const char *data, size_t len, struct sonde_import *how,
                           struct sonde_profile *p, struct sonde_err *err)
{
    (void)how;
    struct cpuprofile_reader s = { .p = p, .err = err };
    sonde_json_reader_init(&s.r, data, len);
    sonde_buf_init(&s.text, TEXT_MAX_BYTES);
    sonde_buf_init(&s.other, TEXT_MAX_BYTES);
    int rc = cpuprofile_release(&s, cpuprofile_read_file(&s));
    if (!rc && !p->samples_count) rc = sonde_err_set(err, SONDE_EFORMAT, "no samples in it");
    p->engine = sonde_profile_cstring(p, "import");
    return rc;
}

/* A trace has nodes too, in its ProfileChunk events: it is chrome's. */
static int cpuprofile_probe(const char *data, size_t len)
{
    static const char *const words[] = { "\"nodes\"", "\"callFrame\"", "\"functionName\"", NULL };
    static const char *const trace[] = { "\"traceEvents\"", NULL },
                             *const event[] = { "\"ph\"", NULL };
    return sonde_import_json_has(data, len, words) && !sonde_import_json_has(data, len, trace) &&
           !sonde_import_json_has(data, len, event);
}

extern const struct sonde_format_ops sonde_format_cpuprofile;
const struct sonde_format_ops sonde_format_cpuprofile = {
    .name = "cpuprofile",
    .summary = "V8's .cpuprofile, of node --cpu-prof and browsers (only to be read)",
    .content_type = "application/json",
    .suffix = ".cpuprofile",
    .probe = cpuprofile_probe,
    .read = cpuprofile_read,
};
