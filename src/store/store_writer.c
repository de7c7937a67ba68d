/* store_writer.c - ticks on their way to the disk.
 *
 * append hangs a copy of the tick to a list and returns. The writer's thread takes it into the open
 * block and writes its row, at once, in a transaction of its own: from then on the tick is safe.
 * A block that is full is packed into chunks, some columns a step, and its rows are deleted.
 *
 * When writing fails nothing is thrown away: rows and full blocks wait in memory and are tried
 * again every second. Only when there is no room for another full block is the oldest dropped, and
 * its time noted as a gap, to be written when that is possible again. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "sonde/sonde.h"
#include "store/store_private.h"

enum {
    SEAL_COLUMNS = 100,          /* a step */
    CHUNK_BYTES_MAX = 32 << 20,
    CHECKPOINT_PAGES = 64,       /* of the log, before they are moved to the file */
    IDLE_STEPS = 8,              /* of packing, rolling up and deleting, for each tick */
    GC_EVERY = 10,               /* turns */
};
#define STEP_S 0.010             /* a step ends after so long */

/* ---- Series -------------------------------------------------------------------------------------- */

/* All texts in one piece. */
static int copy_spec(struct sonde_store_series *to, const struct sonde_store_series *from)
{
    const char *const in[] = { from->name,   from->help,   from->unit,
                               from->source, from->labels, from->program };
    const char **const out[] = { &to->name,   &to->help,   &to->unit,
                                 &to->source, &to->labels, &to->program };
    enum { N = sizeof(in) / sizeof(in[0]) };
    size_t size = 0;
    for (size_t i = 0; i < N; i++) size += (in[i] ? strlen(in[i]) : 0) + 1;
    char *at = sonde__alloc(size);
    if (!at) return SONDE_ENOMEM;
    *to = *from;
    for (size_t i = 0; i < N; i++) {
        const size_t len = in[i] ? strlen(in[i]) : 0;
        if (len) memcpy(at, in[i], len);
        at[len] = '\0';
        *out[i] = at;
        at += len + 1;
    }
    return 0;
}

static int slot_room(struct sonde_store *s)
{
    if (s->slot_count < s->slot_cap) return 0;
    const uint32_t cap = s->slot_cap ? s->slot_cap * 2 : 256;
    struct store_slot *grown = sonde__realloc(s->slots, cap * sizeof(*grown));
    if (!grown) return SONDE_ENOMEM;
    s->slots = grown;
    s->slot_cap = cap;
    return 0;
}

static int define_locked(struct sonde_store *s, const struct sonde_store_series *spec,
                         uint32_t *slot)
{
    if (s->slots_used >= s->o.series_max) {
        s->stats.dropped_series++;
        return SONDE_EFULL;
    }
    uint32_t at = s->slot_count;
    if (s->slots_used < s->slot_count) {
        for (at = 0; s->slots[at].used; at++) {
        }
    } else if (slot_room(s)) {
        return SONDE_ENOMEM;
    }
    struct store_slot new = { .used = 1, .column = UINT32_MAX };
    if (copy_spec(&new.spec, spec)) return SONDE_ENOMEM;
    if (at == s->slot_count) s->slot_count++;
    s->slots[at] = new;
    s->slots_used++;
    *slot = at;
    return 0;
}

int store_define(struct sonde_store *s, const struct sonde_store_series *spec, uint32_t *slot)
{
    pthread_mutex_lock(&s->lock);
    const int rc = define_locked(s, spec, slot);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void free_slot(struct sonde_store *s, struct store_slot *slot)
{
    sonde__free((void *)(uintptr_t)slot->spec.name);
    *slot = (struct store_slot){ .column = UINT32_MAX };
    s->slots_used--;
}

/* ---- Appending ----------------------------------------------------------------------------------- */

void store_note_gap(struct sonde_store *s, int64_t from_ms, int64_t to_ms, const char *reason)
{
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
    if (!p || s->pending_bytes + p->bytes > s->o.memory_max / 2) {
        s->stats.dropped_ticks++;
        store_note_gap(s, time_ms, time_ms, "the disk was too slow or could not be written");
        return p ? SONDE_EFULL : SONDE_ENOMEM;
    }
    *s->pending_end = p;
    s->pending_end = &p->next;
    s->pending_bytes += p->bytes;
    s->appended++;
    s->stats.ticks++;
    s->stats.points += p->tick.count;
    pthread_cond_signal(&s->wake);
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
    pthread_mutex_lock(&s->lock);
    const int rc = append_locked(s, p, t->time_ms);
    const double took_s = store_clock_s() - began_s;
    if (took_s > s->stats.append_s_max) s->stats.append_s_max = took_s;
    pthread_mutex_unlock(&s->lock);
    if (rc) sonde__free(p);
    return rc;
}

int store_flush(struct sonde_store *s, struct sonde_err *err)
{
    pthread_mutex_lock(&s->lock);
    const uint64_t wanted = s->appended;
    const uint64_t tries = s->tries; /* the one that is under way may have begun before */
    while (s->started && s->written < wanted &&
           !(s->tries > tries + 1 && s->stats.failing_since_s > 0)) {
        s->hurry = 1;
        pthread_cond_signal(&s->wake);
        pthread_cond_wait(&s->done, &s->lock);
    }
    const int rc = s->written >= wanted ? 0 : sonde_err_set(err, SONDE_EIO, "%s", s->stats.problem);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* ---- Into blocks (lock held) ---------------------------------------------------------------------- */

void store_block_put(struct block *b)
{
    if (--b->refs == 0) block_destroy(b);
}

static void drop_rows(struct sonde_store *s)
{
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
    struct block *b = s->sealing;
    s->sealing = b->next;
    s->stats.dropped_ticks += b->ticks;
    store_note_gap(s, b->time_ms[0], b->time_ms[b->ticks - 1], "the disk could not be written");
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
static void close_block(struct sonde_store *s)
{
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

static int add_value(struct sonde_store *s, const struct sonde_store_tick *t,
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

static void take_tick(struct sonde_store *s, const struct sonde_store_tick *t)
{
    struct sonde_buf row;
    if (needs_new_block(s, t)) close_block(s);
    if (!s->open && block_create(s->next_head, s->run, &s->open) == 0) s->next_head++;
    int rc = s->open ? 0 : SONDE_ENOMEM;
    if (!rc) block_open_tick(s->open, t->time_ms);
    for (uint32_t i = 0; i < t->count && !rc; i++) rc = add_value(s, t, &t->values[i]);
    if (!rc) {
        sonde_buf_init(&row, CHUNK_BYTES_MAX);
        block_close_tick(s->open, &row);
        queue_row(s, t->time_ms, &row);
        sonde_buf_release(&row);
    } else {
        s->stats.dropped_ticks++;
        store_note_gap(s, t->time_ms, t->time_ms, "the agent was out of memory");
        if (s->open) block_forget_tick(s->open);
        s->rows_lost = 1;
        close_block(s);
    }
    /* A series that was not in the tick is gone. */
    for (uint32_t i = 0; i < s->slot_count; i++) {
        struct store_slot *slot = &s->slots[i];
        slot->gone |= slot->used && slot->found && !slot->seen;
        if (slot->gone && slot->saved) free_slot(s, slot); /* else when it is saved */
        slot->seen = 0;
    }
}

/* ---- Numbers for series (db_lock held) ------------------------------------------------------------- */

static void bind_name(sqlite3_stmt *st, const struct sonde_store_series *spec)
{
    sqlite3_bind_text(st, 1, spec->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, spec->labels, -1, SQLITE_STATIC);
    sqlite3_bind_int(st, 3, (int)spec->type);
    sqlite3_bind_double(st, 4, spec->scale);
}

/* The number it has, or the next free one, which is noted in memory: this works where nothing can
 * be written. */
static int find_series(struct sonde_store *s, struct sonde_store_series *spec, uint8_t *saved,
                       struct sonde_err *err)
{
    sqlite3_stmt *st = store_sql(s, SQL_FIND_SERIES);
    if (!st) return store_failed(s, s->db, err);
    bind_name(st, spec);
    const int got = sqlite3_step(st);
    if (got == SQLITE_ROW) {
        spec->id = (uint32_t)sqlite3_column_int64(st, 0);
        *saved = sqlite3_column_int(st, 1) != 0;
    }
    int rc = got == SQLITE_ROW || got == SQLITE_DONE ? 0 : store_failed(s, s->db, err);
    sqlite3_reset(st);
    if (rc || got == SQLITE_ROW || s->next_series > STORE_SERIES_MAX) return rc;
    st = store_sql(s, SQL_NUMBER_SERIES);
    if (!st) return store_failed(s, s->db, err);
    spec->id = s->next_series++;
    bind_name(st, spec);
    sqlite3_bind_int64(st, 5, spec->id);
    return store_step(s, st, err);
}

static int find_new_series(struct sonde_store *s, struct sonde_err *err)
{
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->slot_count && !rc; i++) {
        if (!s->slots[i].used || s->slots[i].found) continue;
        struct sonde_store_series spec = s->slots[i].spec; /* its texts stay: we free them */
        uint8_t saved = 0;
        pthread_mutex_unlock(&s->lock);
        rc = find_series(s, &spec, &saved, err);
        pthread_mutex_lock(&s->lock);
        if (rc || !spec.id) continue;
        s->slots[i].spec.id = spec.id;
        s->slots[i].saved = saved;
        s->slots[i].found = 1;
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* ---- Writing rows (db_lock held) ------------------------------------------------------------------- */

static int save_series(struct sonde_store *s, const struct sonde_store_series *spec,
                       struct sonde_err *err)
{
    sqlite3_stmt *st = store_sql(s, SQL_ADD_SERIES);
    if (!st) return store_failed(s, s->db, err);
    sqlite3_bind_int64(st, 1, spec->id);
    sqlite3_bind_text(st, 2, spec->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 3, spec->labels, -1, SQLITE_STATIC);
    sqlite3_bind_int(st, 4, (int)spec->type);
    sqlite3_bind_double(st, 5, spec->scale);
    sqlite3_bind_int(st, 6, (int)spec->kind);
    sqlite3_bind_text(st, 7, spec->unit, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 8, spec->source, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 9, spec->program, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 10, spec->pid);
    sqlite3_bind_text(st, 11, spec->help, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 12, store_now_ms());
    return store_step(s, st, err);
}

static int save_new_series(struct sonde_store *s, struct sonde_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; !rc; i++) {
        pthread_mutex_lock(&s->lock);
        const int more = i < s->slot_count;
        const int wanted = more && s->slots[i].found && !s->slots[i].saved;
        struct sonde_store_series spec = { 0 };
        if (wanted) spec = s->slots[i].spec;
        pthread_mutex_unlock(&s->lock);
        if (!more) break;
        if (wanted) rc = save_series(s, &spec, err);
    }
    return rc;
}

static int save_rows(struct sonde_store *s, struct sonde_err *err)
{
    int rc = 0;
    /* Only this thread takes rows from the list. */
    for (const struct store_row *r = s->rows; r && !rc; r = r->next) {
        sqlite3_stmt *st = store_sql(s, SQL_ADD_HEAD);
        if (!st) return store_failed(s, s->db, err);
        sqlite3_bind_int64(st, 1, r->id);
        sqlite3_bind_int64(st, 2, r->run);
        sqlite3_bind_int64(st, 3, r->time_ms);
        sqlite3_bind_blob64(st, 4, r->data, r->len, SQLITE_STATIC);
        rc = store_step(s, st, err);
    }
    return rc;
}

static int save_gaps(struct sonde_store *s, struct store_gap **taken, struct sonde_err *err)
{
    pthread_mutex_lock(&s->lock);
    *taken = s->gaps;
    s->gaps = NULL;
    pthread_mutex_unlock(&s->lock);
    int rc = 0;
    for (const struct store_gap *g = *taken; g && !rc; g = g->next) {
        sqlite3_stmt *st = store_sql(s, SQL_ADD_GAP);
        if (!st) return store_failed(s, s->db, err);
        sqlite3_bind_int64(st, 1, s->run);
        sqlite3_bind_int64(st, 2, g->from_ms);
        sqlite3_bind_int64(st, 3, g->to_ms);
        sqlite3_bind_text(st, 4, g->reason, -1, SQLITE_STATIC);
        rc = store_step(s, st, err);
    }
    return rc;
}

static void rollback(struct sonde_store *s)
{
    if (!sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

/* Series, rows and gaps that are new, in one transaction. */
static int save_points(struct sonde_store *s, struct sonde_err *err)
{
    struct store_gap *gaps = NULL;
    int rc = store_run_sql(s, SQL_BEGIN, err);
    if (!rc) rc = save_new_series(s, err);
    if (!rc) rc = store_run_sql(s, SQL_FORGET_UNSAVED, err);
    if (!rc) rc = save_rows(s, err);
    if (!rc) rc = save_gaps(s, &gaps, err);
    if (!rc) rc = store_run_sql(s, SQL_COMMIT, err);
    if (rc) rollback(s);
    pthread_mutex_lock(&s->lock);
    if (!rc) {
        drop_rows(s);
        for (uint32_t i = 0; i < s->slot_count; i++) {
            s->slots[i].saved |= s->slots[i].found;
            if (s->slots[i].gone) free_slot(s, &s->slots[i]);
        }
    } else if (gaps) {
        struct store_gap **end = &gaps;
        while (*end) end = &(*end)->next;
        *end = s->gaps;
        s->gaps = gaps;
        gaps = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    for (struct store_gap *next; gaps; gaps = next) {
        next = gaps->next;
        sonde__free(gaps);
    }
    return rc;
}

/* ---- Packing (db_lock held) ------------------------------------------------------------------------ */

static int save_chunk(struct sonde_store *s, const struct block_column *c, struct sonde_buf *data,
                      struct sonde_err *err)
{
    sonde_buf_reset(data);
    block_put_column(c, data);
    if (data->error) return sonde_err_set(err, SONDE_ENOMEM, "out of memory");
    sqlite3_stmt *st = store_sql(s, SQL_ADD_CHUNK);
    if (!st) return store_failed(s, s->db, err);
    sqlite3_bind_int64(st, 1, (sqlite3_int64)s->job.block << STORE_SERIES_BITS | c->series);
    sqlite3_bind_blob64(st, 2, data->data, data->len, SQLITE_STATIC);
    return store_step(s, st, err);
}

/* All columns are chunks: the block counts, its rows do not any more. */
static int finish_block(struct sonde_store *s, const struct block *b, struct sonde_buf *data,
                        struct sonde_err *err)
{
    sonde_buf_reset(data);
    block_put_times(b, data);
    if (data->error) return sonde_err_set(err, SONDE_ENOMEM, "out of memory");
    const int64_t from = b->time_ms[0], to = b->time_ms[b->ticks - 1];
    sqlite3_stmt *st = store_sql(s, SQL_ADD_BLOCK);
    if (!st) return store_failed(s, s->db, err);
    sqlite3_bind_int64(st, 1, s->job.block);
    sqlite3_bind_int64(st, 2, b->run);
    sqlite3_bind_int(st, 3, 0);
    sqlite3_bind_int64(st, 4, from);
    sqlite3_bind_int64(st, 5, to);
    sqlite3_bind_int64(st, 6, b->ticks);
    sqlite3_bind_double(st, 7, b->ticks > 1 ? (double)(to - from) / (b->ticks - 1) : 1000);
    sqlite3_bind_blob64(st, 8, data->data, data->len, SQLITE_STATIC);
    int rc = store_step(s, st, err);
    if (!rc && (st = store_sql(s, SQL_DELETE_HEAD))) {
        sqlite3_bind_int64(st, 1, (sqlite3_int64)b->id << STORE_TICK_BITS);
        sqlite3_bind_int64(st, 2, (sqlite3_int64)(b->id + 1) << STORE_TICK_BITS);
        rc = store_step(s, st, err);
    }
    if (!rc && (st = store_sql(s, SQL_RUN_SEEN))) {
        sqlite3_bind_int64(st, 1, b->run);
        sqlite3_bind_int64(st, 2, to);
        sqlite3_bind_int64(st, 3, b->ticks);
        rc = store_step(s, st, err);
    }
    if (!rc) s->roll_wanted = 1;
    return rc ? rc : st ? 0 : store_failed(s, s->db, err);
}

/* Some columns of the oldest full block; 1 = there is more to do. */
static int seal_step(struct sonde_store *s, struct sonde_err *err)
{
    struct block *b = s->sealing; /* only this thread changes the list */
    if (!b) return 0;
    if (!s->job.block) s->job = (struct store_job){ .block = s->next_block++ };
    const double began_s = store_clock_s();
    struct sonde_buf data;
    sonde_buf_init(&data, CHUNK_BYTES_MAX);
    uint32_t next = s->job.next;
    int rc = store_run_sql(s, SQL_BEGIN, err);
    for (uint32_t n = 0; !rc && next < b->count && n < SEAL_COLUMNS; n++, next++) {
        if (n && store_clock_s() - began_s > STEP_S) break;
        if (b->column[next].count) rc = save_chunk(s, &b->column[next], &data, err);
    }
    const int whole = next == b->count;
    if (!rc && whole) rc = finish_block(s, b, &data, err);
    if (!rc) rc = store_run_sql(s, SQL_COMMIT, err);
    if (rc) rollback(s);
    sonde_buf_release(&data);
    if (rc) return rc;
    s->job.next = next;
    if (!whole) return 1;
    s->job = (struct store_job){ 0 };
    pthread_mutex_lock(&s->lock);
    s->sealing = b->next;
    store_block_put(b);
    pthread_mutex_unlock(&s->lock);
    return 1;
}

/* ---- The thread ------------------------------------------------------------------------------------ */

static void tell_failure(struct sonde_store *s, const struct sonde_err *err)
{
    pthread_mutex_lock(&s->lock);
    const int first = !(s->stats.failing_since_s > 0);
    s->stats.failures++;
    if (first) s->stats.failing_since_s = (double)store_now_ms() * 1e-3;
    snprintf(s->stats.problem, sizeof(s->stats.problem), "%.*s",
             (int)sizeof(s->stats.problem) - 1, err->text);
    pthread_mutex_unlock(&s->lock);
    if (first) {
        sonde_log(SONDE_LOG_ERROR, "%s. What is recorded is kept in memory (up to %zu MiB) and "
                  "written when that is possible again", err->text, s->o.memory_max >> 20);
    }
}

static void tell_success(struct sonde_store *s)
{
    pthread_mutex_lock(&s->lock);
    const double since_s = s->stats.failing_since_s;
    const uint64_t dropped = s->stats.dropped_ticks;
    s->stats.failing_since_s = 0;
    s->stats.commits++;
    pthread_mutex_unlock(&s->lock);
    if (since_s > 0) {
        sonde_log(SONDE_LOG_WARN, "store '%s' is written again, after %.0f s; %llu ticks are lost "
                  "in all", s->path, (double)store_now_ms() * 1e-3 - since_s,
                  (unsigned long long)dropped);
    }
}

/* Everything in memory moves to the new file, and is of its run. */
static int move_to_new_file(struct sonde_store *s, struct sonde_err *err)
{
    int rc = store_start_over(s, err);
    if (!rc) rc = store_begin_run(s, err);
    if (rc) return rc;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->slot_count; i++) s->slots[i].saved = 0;
    close_block(s); /* the old file had its rows */
    drop_rows(s);
    for (struct block *b = s->sealing; b; b = b->next) b->run = s->run;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* The ticks that are there, once all their series have a number. */
static int take_pending(struct sonde_store *s, uint64_t *count, struct sonde_err *err)
{
    uint64_t waiting = 0;
    pthread_mutex_lock(&s->lock);
    for (const struct store_pending *p = s->pending; p; p = p->next) waiting++;
    pthread_mutex_unlock(&s->lock);
    const int rc = find_new_series(s, err);
    pthread_mutex_lock(&s->lock);
    for (; !rc && waiting > 0; waiting--) {
        struct store_pending *p = s->pending;
        s->pending = p->next;
        if (!s->pending) s->pending_end = &s->pending;
        s->pending_bytes -= p->bytes;
        take_tick(s, &p->tick);
        sonde__free(p);
        ++*count;
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void note_time(struct sonde_store *s, double *longest_s, double began_s)
{
    const double took_s = store_clock_s() - began_s;
    pthread_mutex_lock(&s->lock);
    if (took_s > *longest_s) *longest_s = took_s;
    pthread_mutex_unlock(&s->lock);
}

/* The log is moved to the file before it is long, so that it never takes long. */
static int count_pages(void *arg, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((struct sonde_store *)arg)->wal_pages = pages;
    return SQLITE_OK;
}

static void checkpoint(struct sonde_store *s)
{
    if (s->wal_pages < CHECKPOINT_PAGES) return;
    const double began_s = store_clock_s();
    sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    s->wal_pages = 0;
    note_time(s, &s->stats.step_s_max, began_s);
}

/* Packing first, then rolling up, then deleting; 1 = there is more. What has begun is finished
 * first: blocks are written one after the other. */
static int idle_step(struct sonde_store *s, struct sonde_err *err)
{
    const double began_s = store_clock_s();
    int rc = s->job.tier ? 0 : seal_step(s, err);
    if (!rc) rc = store_rollup_step(s, err);
    if (!rc && (s->gc_more || ++s->gc_turn % GC_EVERY == 0)) {
        rc = store_gc_step(s, &s->o.keep, err);
        s->gc_more = rc > 0;
    }
    note_time(s, &s->stats.step_s_max, began_s);
    return rc;
}

/* One round; 1 = there is more to do at once. */
static int work(struct sonde_store *s)
{
    struct sonde_err err = { "" };
    uint64_t taken = 0;
    pthread_mutex_lock(&s->db_lock);
    int rc = store_is_damaged(s) ? move_to_new_file(s, &err) : 0;
    if (!rc) rc = take_pending(s, &taken, &err);
    const double began_s = store_clock_s();
    pthread_mutex_lock(&s->lock);
    const int wanted = s->rows || s->gaps;
    pthread_mutex_unlock(&s->lock);
    if (!rc && wanted) {
        rc = save_points(s, &err);
        note_time(s, &s->stats.commit_s_max, began_s);
    }
    if (!rc) tell_success(s);
    pthread_mutex_lock(&s->lock);
    if (!rc && s->rows_lost) close_block(s); /* safe again as soon as it is packed */
    if (!rc) s->written += taken + s->unsaved;
    s->unsaved = rc ? s->unsaved + taken : 0;
    s->tries++;
    pthread_cond_broadcast(&s->done);
    pthread_mutex_unlock(&s->lock);
    int more = 0;
    for (int i = 0; i < IDLE_STEPS && !rc; i++) {
        more = idle_step(s, &err);
        if (more <= 0) break;
        pthread_mutex_lock(&s->lock);
        const int waiting = s->pending != NULL;
        pthread_mutex_unlock(&s->lock);
        if (waiting) break;
    }
    if (more < 0) rc = more;
    if (!rc) checkpoint(s);
    pthread_mutex_unlock(&s->db_lock);
    if (rc) tell_failure(s, &err);
    return !rc && more > 0;
}

static void *run(void *arg)
{
    struct sonde_store *s = arg;
    int more = 0;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += 1;
        while (!more && !s->pending && !s->stopping && !s->hurry) {
            if (pthread_cond_timedwait(&s->wake, &s->lock, &until) != 0) break;
        }
        s->hurry = 0;
        const int stopping = s->stopping;
        pthread_mutex_unlock(&s->lock);
        if (stopping) return NULL;
        more = work(s);
    }
}

int store_writer_start(struct sonde_store *s, struct sonde_err *err)
{
    sqlite3_wal_hook(s->db, count_pages, s);
    const int failure = pthread_create(&s->thread, NULL, run, s);
    if (failure) {
        return sonde_err_set(err, SONDE_ENOMEM, "cannot start the store's thread: %s",
                             strerror(failure));
    }
    s->started = 1;
    return 0;
}

void store_writer_stop(struct sonde_store *s)
{
    if (!s->started) return;
    pthread_mutex_lock(&s->lock);
    s->stopping = 1;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    s->started = 0;
    /* What is left; if it cannot be written now, its rows are there already. */
    struct sonde_err err = { "" };
    work(s);
    pthread_mutex_lock(&s->lock);
    close_block(s);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&s->db_lock);
    int rc = 1;
    while (s->job.tier && rc > 0) rc = store_rollup_step(s, &err);
    for (rc = 1; rc > 0;) rc = seal_step(s, &err);
    if (rc < 0) tell_failure(s, &err);
    pthread_mutex_unlock(&s->db_lock);
}

/* ---- After a crash --------------------------------------------------------------------------------- */

struct types {
    sqlite3_stmt *st;
};

static int type_of(uint32_t series, void *arg)
{
    sqlite3_stmt *st = ((struct types *)arg)->st;
    sqlite3_bind_int64(st, 1, series);
    const int type = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int(st, 0) : -1;
    sqlite3_reset(st);
    return type >= SONDE_COUNTER && type <= SONDE_HISTOGRAM ? type : -1;
}

/* A row of head to the block it is of. SONDE_EFORMAT: what is behind it in its block is lost. */
static int recover_row(struct sonde_store *s, sqlite3_stmt *st, struct types *types,
                       struct block **last)
{
    const int64_t id = sqlite3_column_int64(st, 0);
    const uint32_t number = (uint32_t)(id >> STORE_TICK_BITS);
    if (!*last || (*last)->id != number) {
        struct block *b = NULL;
        if (block_create(number, (uint32_t)sqlite3_column_int64(st, 1), &b)) return SONDE_ENOMEM;
        if (*last) (*last)->next = b;
        else s->sealing = b;
        *last = b;
    }
    struct block *b = *last;
    if (b->damaged || (id & ((1 << STORE_TICK_BITS) - 1)) != b->ticks) b->damaged = 1;
    if (b->damaged) return 0;
    const void *data = sqlite3_column_blob(st, 3);
    const size_t len = (size_t)sqlite3_column_bytes(st, 3);
    const int rc = block_replay(b, sqlite3_column_int64(st, 2), data ? data : "", len, type_of,
                                types);
    if (rc != SONDE_EFORMAT) return rc;
    b->damaged = 1;
    block_forget_tick(b);
    sonde_log(SONDE_LOG_WARN, "store '%s': a row of its table head is damaged: some minutes of "
              "what was recorded last are lost", s->path);
    return 0;
}

int store_recover(struct sonde_store *s, sqlite3 *db, struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    struct types types = { NULL };
    struct block *last = NULL;
    int rc = 0, got = SQLITE_DONE;
    if (sqlite3_prepare_v2(db, "SELECT id, run, time_ms, data FROM head ORDER BY id", -1, &st,
                           NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "SELECT type FROM series WHERE id = ?1", -1, &types.st, NULL) !=
            SQLITE_OK) {
        rc = store_failed(s, db, err);
    }
    while (!rc && (got = sqlite3_step(st)) == SQLITE_ROW) {
        rc = recover_row(s, st, &types, &last);
        if (rc) sonde_err_set(err, rc, "store '%s': no memory to read what was recorded last",
                              s->path);
    }
    if (!rc && got != SQLITE_DONE) rc = store_failed(s, db, err);
    sqlite3_finalize(st);
    sqlite3_finalize(types.st);
    s->next_head = last ? last->id + 1 : s->next_head;
    /* A block of which not even the first row is good is none. */
    for (struct block **at = &s->sealing; *at;) {
        struct block *b = *at;
        if (b->ticks) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        block_destroy(b);
    }
    return rc;
}
