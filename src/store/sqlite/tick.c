/* tick.c - ticks on their way to a block: append hangs a copy to a list and returns; the
 * writer's thread takes it into the open block, and makes the row that keeps it safe until the
 * block is packed.
 *
 * When writing fails nothing is thrown away: rows and full blocks wait in memory. Only when there
 * is no room for another full block is the oldest dropped, and its time noted as a gap, to be
 * written when that is possible again. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

/* ---- Appending ------------------------------------------------------------------------------- */

static void note_gap(struct sonde_store *s, int64_t from_ms, int64_t to_ms, const char *reason)
{
    sonde_assert_held(&s->lock);
    assert(from_ms <= to_ms);
    struct store_gap **at = &s->gaps;
    while (*at && (*at)->next) at = &(*at)->next;
    /* One after the other is one. */
    if (*at && (*at)->reason == reason && from_ms - (*at)->to_ms < 60000) {
        if (to_ms > (*at)->to_ms) (*at)->to_ms = to_ms;
        return;
    }
    struct store_gap *gap = sonde__calloc(1, sizeof(*gap));
    if (!gap) return;
    *gap = (struct store_gap){ .from_ms = from_ms, .to_ms = to_ms, .reason = reason };
    if (*at) (*at)->next = gap;
    else *at = gap;
}

static int append_locked(struct sonde_store *s, struct store_pending *p, int64_t time_ms)
{
    sonde_assert_held(&s->lock);
    assert(!*s->pending_end);
    if (store_is_off(s)) return SONDE_EOFF;
    if (!p || s->pending_bytes + p->bytes > s->o.memory_max / 2) {
        s->stats.dropped_ticks++;
        note_gap(s, time_ms, time_ms, "the disk was too slow or could not be written");
        return p ? SONDE_EFULL : SONDE_ENOMEM;
    }
    *s->pending_end = p;
    s->pending_end = &p->next;
    s->pending_bytes += p->bytes;
    p->number = s->appended++;
    s->stats.ticks++;
    s->stats.points += p->tick.count;
    sonde_cond_signal(&s->wake);
    return 0;
}

int store_append(struct sonde_store *s, const struct sonde_store_tick *t)
{
    const double began_s = store_clock_s();
    size_t data = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct sonde_store_value *v = &t->values[i];
        if (v->bytes && v->value + v->bytes > data) data = (size_t)v->value + v->bytes;
    }
    const size_t values = t->count * sizeof(*t->values);
    struct store_pending *p = sonde__alloc(sizeof(*p) + values + data);
    if (p) {
        *p = (struct store_pending){ .bytes = sizeof(*p) + values + data, .tick = *t };
        char *at = (char *)(p + 1);
        p->tick.values = (struct sonde_store_value *)(void *)at;
        p->tick.data = at + values;
        if (values) memcpy(at, t->values, values);
        if (data) memcpy(at + values, t->data, data);
    }
    sonde_lock(&s->lock);
    const int rc = append_locked(s, p, t->time_ms);
    const double took_s = store_clock_s() - began_s;
    if (took_s > s->stats.append_s_max) s->stats.append_s_max = took_s;
    sonde_unlock(&s->lock);
    if (rc) sonde__free(p);
    return rc;
}

int store_flush(struct sonde_store *s, struct sonde_err *err)
{
    sonde_lock(&s->lock);
    const uint64_t wanted = s->appended, events = s->events_added;
    const uint64_t tries = s->tries; /* the one that is under way may have begun before */
    while (s->thread.started &&
           !store_is_off(s) && (s->written < wanted || s->events_written < events) &&
           !(s->tries > tries + 1 && s->stats.failing_since_s > 0)) {
        s->hurry = 1;
        sonde_cond_signal(&s->wake);
        sonde_cond_wait(&s->done, &s->lock);
    }
    const int done = s->written >= wanted && s->events_written >= events;
    const int rc = done ? 0 : sonde_err_set(err, SONDE_EIO, "%s", s->stats.problem);
    sonde_unlock(&s->lock);
    return rc;
}

/* ---- Into blocks ----------------------------------------------------------------------------- */

void store_block_put(struct block *b)
{
    assert(b->refs);
    if (--b->refs == 0) block_destroy(b);
}

void store_drop_rows(struct sonde_store *s)
{
    sonde_assert_held(&s->lock);
    for (struct store_row *r = s->rows, *next; r; r = next) {
        next = r->next;
        sonde__free(r);
    }
    s->rows = NULL;
    s->rows_end = &s->rows;
    s->rows_bytes = 0;
}

/* The oldest block that is not packed is one too many. */
static void drop_block(struct sonde_store *s)
{
    sonde_assert_held(&s->db_lock); /* the job may be of it */
    sonde_assert_held(&s->lock);
    struct block *b = s->sealing;
    s->sealing = b->next;
    s->stats.dropped_ticks += b->ticks;
    note_gap(s, b->time_ms[0], b->time_ms[b->ticks - 1], "the disk could not be written");
    if (!s->job.tier) s->job = (struct store_job){ 0 };
    struct store_row **at = &s->rows;
    while (*at) {
        struct store_row *r = *at;
        if (r->id >> STORE_TICK_BITS != b->id) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        s->rows_bytes -= sizeof(*r) + r->len;
        sonde__free(r);
    }
    s->rows_end = at;
    store_block_put(b);
}

static size_t sealing_bytes(const struct sonde_store *s)
{
    size_t bytes = 0;
    for (const struct block *b = s->sealing; b; b = b->next) bytes += b->bytes;
    return bytes;
}

/* The open block is full. */
void store_close_block(struct sonde_store *s)
{
    sonde_assert_held(&s->lock);
    if (!s->open) return;
    if (s->open->ticks) {
        /* Only what fails is dropped: a block that is being packed will be done in seconds. */
        while (s->sealing && s->stats.failing_since_s > 0 &&
               sealing_bytes(s) + s->open->bytes > s->o.memory_max / 2) {
            drop_block(s);
        }
        struct block **end = &s->sealing;
        while (*end) end = &(*end)->next;
        *end = s->open;
    } else {
        store_block_put(s->open);
    }
    s->open = NULL;
    s->rows_lost = 0;
    for (uint32_t i = 0; i < s->slot_count; i++) s->slots[i].column = UINT32_MAX;
}

static int needs_new_block(const struct sonde_store *s, const struct sonde_store_tick *t)
{
    const struct block *b = s->open;
    if (!b) return 0;
    if (b->ticks >= s->o.block_ticks || b->bytes > s->o.memory_max / 4) return 1;
    if (b->ticks && t->time_ms <= b->time_ms[b->ticks - 1]) return 1; /* the clock was set back */
    for (uint32_t i = 0; i < t->count; i++) {
        const uint32_t slot = t->values[i].slot;
        if (slot >= s->slot_count) continue;
        const uint32_t column = s->slots[slot].column;
        if (column != UINT32_MAX) {
            if (block_over(b, column)) return 1;
            continue;
        }
        /* Gone and back again is a hole too. */
        const struct block_column *old = block_find(b, s->slots[slot].spec.id);
        if (old && (old->ended || !s->slots[slot].tried)) return 1;
    }
    return 0;
}

static int store_tick_add_value(struct sonde_store *s, const struct sonde_store_tick *t,
                                const struct sonde_store_value *v)
{
    if (v->slot >= s->slot_count) return 0;
    struct store_slot *slot = &s->slots[v->slot];
    if (!slot->used || !slot->found || slot->seen || slot->gone) return 0;
    slot->seen = slot->tried = 1;
    /* Two by one name: a number of a process that was used again. The first goes before. */
    if (slot->column == UINT32_MAX && block_find(s->open, slot->spec.id)) return 0;
    struct block_value b = { .at = &slot->column, .series = slot->spec.id,
                             .type = (uint8_t)slot->spec.type, .value = v->value };
    if (slot->spec.type == SONDE_COUNTER) {
        const uint64_t prev = slot->has_prev ? slot->prev : slot->spec.from_zero ? 0 : v->value;
        b.increase = v->value >= prev ? v->value - prev : v->value;
        slot->prev = v->value;
        slot->has_prev = 1;
    } else if (slot->spec.type == SONDE_HISTOGRAM) {
        b.entry = t->data + v->value;
        b.entry_len = v->bytes;
    }
    return block_add(s->open, &b);
}

/* The tick's row, to be written. */
static void queue_row(struct sonde_store *s, int64_t time_ms, const struct sonde_buf *row)
{
    assert(s->open && s->open->ticks && !*s->rows_end);
    struct store_row *r = NULL;
    if (!row->error && !s->rows_lost && s->rows_bytes < s->o.memory_max / 4) {
        r = sonde__alloc(sizeof(*r) + row->len);
    }
    if (!r) {
        /* Later rows say nothing without this one. The block itself is in memory. */
        s->rows_lost = 1;
        return;
    }
    r->next = NULL;
    r->id = (int64_t)s->open->id << STORE_TICK_BITS | (s->open->ticks - 1);
    r->time_ms = time_ms;
    r->run = s->open->run;
    r->len = row->len;
    memcpy(r->data, row->data, row->len);
    *s->rows_end = r;
    s->rows_end = &r->next;
    s->rows_bytes += sizeof(*r) + row->len;
}

void store_take_tick(struct sonde_store *s, const struct store_pending *p)
{
    sonde_assert_held(&s->db_lock);
    sonde_assert_held(&s->lock);
    const struct sonde_store_tick *t = &p->tick;
    struct sonde_buf row;
    if (needs_new_block(s, t)) store_close_block(s);
    if (!s->open && block_create(s->next_head, s->run, &s->open) == 0) s->next_head++;
    int rc = s->open ? 0 : SONDE_ENOMEM;
    if (!rc) block_open_tick(s->open, t->time_ms);
    for (uint32_t i = 0; i < t->count && !rc; i++) rc = store_tick_add_value(s, t, &t->values[i]);
    if (!rc) {
        sonde_buf_init(&row, STORE_CHUNK_BYTES_MAX);
        block_close_tick(s->open, &row);
        queue_row(s, t->time_ms, &row);
        sonde_buf_release(&row);
    } else {
        s->stats.dropped_ticks++;
        note_gap(s, t->time_ms, t->time_ms, "the agent was out of memory");
        if (s->open) block_forget_tick(s->open);
        s->rows_lost = 1;
        store_close_block(s);
    }
    /* A series that was not in the tick is gone, unless it was defined after the tick: that may
     * have waited for the disk. */
    for (uint32_t i = 0; i < s->slot_count; i++) {
        struct store_slot *slot = &s->slots[i];
        slot->gone |= slot->used && slot->found && !slot->seen && slot->since <= p->number;
        if (slot->gone && slot->saved) store_slot_free(s, slot); /* else when it is saved */
        slot->seen = 0;
    }
}
