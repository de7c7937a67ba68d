/* block.c - see block.h. */
#include "store/block.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/hash.h"
#include "base/varint.h"
#include "sonde/sonde.h"

enum { VALUES_FIRST = 32, VALUES_STEP = 128, ENTRIES_MAX = 1 << 20 };

int block_create(uint32_t id, uint32_t run, struct block **out)
{
    struct block *b = sonde__calloc(1, sizeof(*b));
    if (!b) return SONDE_ENOMEM;
    b->time_ms = sonde__calloc(BLOCK_TICKS_MAX, sizeof(*b->time_ms));
    if (!b->time_ms) {
        sonde__free(b);
        return SONDE_ENOMEM;
    }
    b->id = id;
    b->run = run;
    b->refs = 1;
    *out = b;
    return 0;
}

void block_destroy(struct block *b)
{
    if (!b) return;
    for (uint32_t i = 0; i < b->count; i++) {
        sonde__free(b->column[i].v);
        sonde_buf_release(&b->column[i].entries);
    }
    sonde__free(b->column);
    sonde_map_release(&b->index);
    sonde__free(b->time_ms);
    sonde__free(b);
}

/* ---- Adding ---------------------------------------------------------------------------------- */

void block_open_tick(struct block *b, int64_t time_ms)
{
    assert(b->ticks < BLOCK_TICKS_MAX);
    assert(!b->ticks || b->time_ms[b->ticks - 1] < time_ms);
    b->time_ms[b->ticks++] = time_ms;
}

/* Its column + 1; 0 = it has none. */
static uint32_t block_index_find(const struct block *b, uint32_t series)
{
    const uint32_t hash = (uint32_t)sonde_hash_u64(series);
    uint32_t at = hash, row;
    while ((row = sonde_map_next(&b->index, hash, &at)) && b->column[row - 1].series != series)
        continue;
    return row;
}

const struct block_column *block_find(const struct block *b, uint32_t series)
{
    const uint32_t at = block_index_find(b, series);
    return at ? &b->column[at - 1] : NULL;
}

/* For one more column. */
static int block_make_room(struct block *b)
{
    const uint32_t had = b->cap;
    const size_t index_bytes = sonde_map_reserve_bytes(&b->index);
    if (sonde_map_reserve(&b->index)) return SONDE_ENOMEM;
    b->bytes += index_bytes;
    if (SONDE_ARRAY_ROOM(b->column, b->count, b->cap)) return SONDE_ENOMEM;
    b->bytes += (b->cap - had) * sizeof(*b->column);
    return 0;
}

static int new_column(struct block *b, const struct block_value *v, uint32_t *at)
{
    if (block_make_room(b)) return SONDE_ENOMEM;
    if (block_index_find(b, v->series)) {
        return SONDE_EFORMAT; /* a second column of a series: only in a damaged row */
    }
    struct block_column *c = &b->column[b->count];
    *c = (struct block_column){ .series = v->series, .first = b->ticks - 1, .type = v->type,
                                .increase = v->increase };
    sonde_buf_init(&c->entries, ENTRIES_MAX);
    *at = b->count++;
    sonde_map_put(&b->index, (uint32_t)sonde_hash_u64(v->series), b->count);
    return 0;
}

/* Not doubled for ever: there are as many of these as there are series, and a block is full
 * soon. */
static int block_add_number(struct block *b, struct block_column *c, uint64_t value)
{
    assert(c->count <= c->cap);
    if (c->count == c->cap) {
        const uint32_t cap = c->cap < VALUES_STEP ? (c->cap ? c->cap * 2 : VALUES_FIRST)
                                                  : c->cap + VALUES_STEP;
        uint64_t *grown = sonde__realloc(c->v, cap * sizeof(*grown));
        if (!grown) return SONDE_ENOMEM;
        b->bytes += (cap - c->cap) * sizeof(*grown);
        c->v = grown;
        c->cap = cap;
    }
    c->v[c->count++] = value;
    return 0;
}

static int block_add_entry(struct block *b, struct block_column *c, const char *entry, size_t len)
{
    const size_t before = c->entries.cap;
    c->last = (uint32_t)c->entries.len;
    sonde_buf_add(&c->entries, entry, len);
    b->bytes += c->entries.cap - before;
    if (c->entries.error) return c->entries.error;
    c->count++;
    return 0;
}

int block_add(struct block *b, const struct block_value *v)
{
    if (*v->at == UINT32_MAX) {
        const int rc = new_column(b, v, v->at);
        if (rc) return rc;
    }
    struct block_column *c = &b->column[*v->at];
    assert(!c->ended && c->first + c->count == b->ticks - 1);
    if (c->type == SONDE_HISTOGRAM) return block_add_entry(b, c, v->entry, v->entry_len);
    return block_add_number(b, c, v->value);
}

int block_over(const struct block *b, uint32_t at)
{
    assert(at < b->count);
    const struct block_column *c = &b->column[at];
    return c->ended || c->entries.len > ENTRIES_MAX / 2;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void put_row_value(struct sonde_buf *out, const struct block_column *c)
{
    if (c->type == SONDE_HISTOGRAM) {
        sonde_buf_add(out, c->entries.data + c->last, c->entries.len - c->last);
        return;
    }
    const uint64_t now = c->v[c->count - 1], before = c->count > 1 ? c->v[c->count - 2] : 0;
    if (c->type == SONDE_COUNTER) sonde_chunk_put_varint(out, sonde_zigzag(now - before));
    else sonde_chunk_put_varint(out, __builtin_bswap64(now ^ before));
}

static int misses_tick(const struct block *b, const struct block_column *c)
{
    return !c->ended && c->first + c->count < b->ticks;
}

void block_close_tick(struct block *b, struct sonde_buf *out)
{
    assert(b->ticks);
    const uint32_t tick = b->ticks - 1;
    uint32_t ended = 0, old = b->count;
    for (uint32_t i = 0; i < b->count; i++) ended += (uint32_t)misses_tick(b, &b->column[i]);
    sonde_chunk_put_varint(out, ended);
    for (uint32_t i = 0, last = 0; i < b->count && ended; i++) {
        if (!misses_tick(b, &b->column[i])) continue;
        sonde_chunk_put_varint(out, i - last);
        last = i;
        b->column[i].ended = 1;
    }
    while (old && b->column[old - 1].first == tick) old--;
    sonde_chunk_put_varint(out, b->count - old);
    for (uint32_t i = old; i < b->count; i++) {
        sonde_chunk_put_varint(out, b->column[i].series);
        if (b->column[i].type == SONDE_COUNTER) {
            sonde_chunk_put_varint(out, b->column[i].increase);
        }
    }
    for (uint32_t i = 0; i < b->count; i++) {
        if (!b->column[i].ended) put_row_value(out, &b->column[i]);
    }
}

static int replay_ended(struct block *b, struct sonde_chunk_in *in)
{
    const uint64_t n = sonde_chunk_get_varint(in);
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        at += sonde_chunk_get_varint(in);
        if (in->bad || at >= b->count || b->column[at].ended) return SONDE_EFORMAT;
        b->column[at].ended = 1;
    }
    return 0;
}

static int replay_new(struct block *b, struct sonde_chunk_in *in,
                      int (*type_of)(uint32_t series, void *arg), void *arg)
{
    const uint64_t n = sonde_chunk_get_varint(in);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t series = sonde_chunk_get_varint(in);
        const int type = in->bad || series > UINT32_MAX ? -1 : type_of((uint32_t)series, arg);
        if (type < 0) return SONDE_EFORMAT;
        uint32_t at = UINT32_MAX;
        const struct block_value v = {
            .at = &at, .series = (uint32_t)series, .type = (uint8_t)type,
            .increase = type == SONDE_COUNTER ? sonde_chunk_get_varint(in) : 0,
        };
        const int rc = new_column(b, &v, &at);
        if (rc) return rc;
    }
    return in->bad ? SONDE_EFORMAT : 0;
}

static int replay_value(struct block *b, struct block_column *c, struct sonde_chunk_in *in)
{
    const uint64_t before = c->count ? (c->v ? c->v[c->count - 1] : 0) : 0;
    if (c->type == SONDE_HISTOGRAM) {
        const unsigned char *from = in->at;
        sonde_chunk_skip_entry(in);
        if (in->bad) return SONDE_EFORMAT;
        return block_add_entry(b, c, (const char *)from, (size_t)(in->at - from));
    }
    const uint64_t got = sonde_chunk_get_varint(in);
    if (in->bad) return SONDE_EFORMAT;
    if (c->type == SONDE_COUNTER) return block_add_number(b, c, before + sonde_unzigzag(got));
    return block_add_number(b, c, before ^ __builtin_bswap64(got));
}

int block_replay(struct block *b, int64_t time_ms, const void *row, size_t len,
                 int (*type_of)(uint32_t series, void *arg), void *arg)
{
    const unsigned char *data = row;
    struct sonde_chunk_in in = { data, data + len, 0 };
    if (b->ticks == BLOCK_TICKS_MAX || (b->ticks && time_ms <= b->time_ms[b->ticks - 1])) {
        return SONDE_EFORMAT;
    }
    block_open_tick(b, time_ms);
    int rc = replay_ended(b, &in);
    if (!rc) rc = replay_new(b, &in, type_of, arg);
    for (uint32_t i = 0; i < b->count && !rc; i++) {
        if (!b->column[i].ended) rc = replay_value(b, &b->column[i], &in);
    }
    return rc ? rc : in.at == in.end ? 0 : SONDE_EFORMAT;
}

void block_forget_tick(struct block *b)
{
    assert(b->ticks);
    b->ticks--;
    for (uint32_t i = 0; i < b->count; i++) {
        struct block_column *c = &b->column[i];
        if (c->first + c->count <= b->ticks) continue;
        if (c->type == SONDE_HISTOGRAM) c->entries.len = c->last;
        c->count--;
    }
}

double block_interval_ms(const struct block *b)
{
    double length[BLOCK_TICKS_MAX], sum = 0; /* double: times of a damaged file may be any */
    const uint32_t n = b->ticks > 1 ? b->ticks - 1 : 0;
    if (!n) return 1000;
    for (uint32_t i = 0; i < n; i++) length[i] = (double)b->time_ms[i + 1] - (double)b->time_ms[i];
    qsort(length, n, sizeof(length[0]), sonde_cmp_double);
    /* The mean of the middle half: the median alone would have whole milliseconds. */
    const uint32_t from = n / 4, to = n - n / 4;
    for (uint32_t i = from; i < to; i++) sum += length[i];
    return sum / (to - from);
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

void block_put_times(const struct block *b, struct sonde_buf *out)
{
    assert(b->ticks && b->ticks <= BLOCK_TICKS_MAX);
    sonde_chunk_put(out, SONDE_CHUNK_INTEGERS, (const uint64_t *)b->time_ms, b->ticks);
}

static enum sonde_chunk_type numbers_of(unsigned type)
{
    return type == SONDE_COUNTER ? SONDE_CHUNK_INTEGERS : SONDE_CHUNK_DOUBLES;
}

void block_put_column(const struct block_column *c, struct sonde_buf *out)
{
    assert(c->count);
    sonde_chunk_put_varint(out, c->first);
    sonde_chunk_put_varint(out, c->count);
    if (c->type != SONDE_HISTOGRAM) {
        if (c->type == SONDE_COUNTER) sonde_chunk_put_varint(out, c->increase);
        sonde_chunk_put(out, numbers_of(c->type), c->v, c->count);
        return;
    }
    struct sonde_hist_column hist = { 0 };
    struct block_chunk unused;
    const int rc = block_view_column(c, &unused, NULL, &hist);
    if (rc) out->error = rc;
    else sonde_chunk_put_hist(out, &hist);
    sonde_hist_column_release(&hist);
}

int block_get_times(const void *data, size_t len, uint32_t ticks, int64_t *time_ms)
{
    const unsigned char *bytes = data;
    struct sonde_chunk_in in = { bytes, bytes + len, 0 };
    if (!ticks || ticks > BLOCK_TICKS_MAX) return SONDE_EFORMAT;
    sonde_chunk_get(&in, SONDE_CHUNK_INTEGERS, (uint64_t *)time_ms, ticks);
    for (uint32_t i = 1; i < ticks; i++) {
        if (time_ms[i] <= time_ms[i - 1]) in.bad = 1;
    }
    return in.bad || in.at != in.end ? SONDE_EFORMAT : 0;
}

int block_get_column(const void *data, size_t len, enum sonde_type type, uint32_t ticks,
                     struct block_chunk *c, uint64_t *v, struct sonde_hist_column *hist)
{
    const unsigned char *bytes = data;
    struct sonde_chunk_in in = { bytes, bytes + len, 0 };
    const uint64_t first = sonde_chunk_get_varint(&in), count = sonde_chunk_get_varint(&in);
    if (in.bad || !count || first >= ticks || count > ticks - first) return SONDE_EFORMAT;
    *c = (struct block_chunk){ .first = (uint32_t)first, .count = (uint32_t)count };
    int rc = 0;
    if (type == SONDE_HISTOGRAM) {
        sonde_hist_column_reset(hist);
        rc = sonde_chunk_get_hist(&in, c->count, hist);
    } else {
        if (type == SONDE_COUNTER) c->increase = sonde_chunk_get_varint(&in);
        sonde_chunk_get(&in, numbers_of(type), v, c->count);
    }
    return rc ? rc : in.bad || in.at != in.end ? SONDE_EFORMAT : 0;
}

int block_view_column(const struct block_column *c, struct block_chunk *out, const uint64_t **v,
                      struct sonde_hist_column *hist)
{
    *out = (struct block_chunk){ .first = c->first, .count = c->count, .increase = c->increase };
    if (c->type != SONDE_HISTOGRAM) {
        *v = c->v;
        return 0;
    }
    const unsigned char *data = (const unsigned char *)c->entries.data;
    struct sonde_chunk_in in = { data, data + c->entries.len, 0 };
    int rc = 0;
    sonde_hist_column_reset(hist);
    for (uint32_t i = 0; i < c->count && !rc; i++) rc = sonde_hist_column_add(hist, &in);
    return rc;
}
