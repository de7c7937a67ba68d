/* slot.c - series that are recorded now: what the collector defined, and the number each has
 * in the file. A number is given before anything is written, so that it works where nothing can be:
 * new ones are noted in a table in memory until they are saved. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

/* All texts in one piece. */
static int copy_spec(struct sonde_store_series *to, const struct sonde_store_series *from)
{
    const char *const in[] = { from->name,   from->help,   from->unit,
                               from->source, from->labels, from->program };
    const char **const out[] = { &to->name,   &to->help,   &to->unit,
                                 &to->source, &to->labels, &to->program };
    enum { N = SONDE_COUNT(in) };
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

static int define_locked(struct sonde_store *s, const struct sonde_store_series *spec,
                         uint32_t *slot)
{
    sonde_assert_held(&s->lock);
    assert(s->slots_used <= s->slot_count);
    if (s->slots_used >= s->o.series_max) {
        s->stats.dropped_series++;
        return SONDE_EFULL;
    }
    uint32_t at = s->slot_count;
    if (s->slots_used < s->slot_count) {
        for (at = s->slot_free; s->slots[at].used; at++) {
        }
        s->slot_free = at + 1;
    } else if (SONDE_ARRAY_ROOM(s->slots, s->slot_count, s->slot_cap)) {
        return SONDE_ENOMEM;
    }
    struct store_slot new = { .used = 1, .column = UINT32_MAX, .since = s->appended };
    if (copy_spec(&new.spec, spec)) return SONDE_ENOMEM;
    if (at == s->slot_count) s->slot_count++;
    s->slots[at] = new;
    s->slots_used++;
    *slot = at;
    return 0;
}

int store_define(struct sonde_store *s, const struct sonde_store_series *spec, uint32_t *slot)
{
    sonde_lock(&s->lock);
    const int rc = define_locked(s, spec, slot);
    sonde_unlock(&s->lock);
    return rc;
}

void store_slot_free(struct sonde_store *s, struct store_slot *slot)
{
    sonde_assert_held(&s->lock);
    assert(slot >= s->slots && slot < s->slots + s->slot_count);
    assert(slot->used && s->slots_used);
    sonde__free((void *)(uintptr_t)slot->spec.name);
    *slot = (struct store_slot){ .column = UINT32_MAX };
    s->slots_used--;
    const uint32_t at = (uint32_t)(slot - s->slots);
    if (at < s->slot_free) s->slot_free = at;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void bind_name(sqlite3_stmt *st, const struct sonde_store_series *spec)
{
    sqlite3_bind_text(st, 1, spec->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, spec->labels, -1, SQLITE_STATIC);
    sqlite3_bind_int(st, 3, (int)spec->type);
    sqlite3_bind_double(st, 4, spec->scale);
}

/* The number it has, or the next free one, which is noted in memory: this works where nothing can
 * be written. */
static int store_slot_find_series(struct sonde_store *s, struct sonde_store_series *spec,
                                  uint8_t *saved, struct sonde_err *err)
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

int store_slots_find(struct sonde_store *s, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int rc = 0;
    sonde_lock(&s->lock);
    for (uint32_t i = 0; i < s->slot_count && !rc; i++) {
        if (!s->slots[i].used || s->slots[i].found) continue;
        struct sonde_store_series spec = s->slots[i].spec; /* its texts stay: we free them */
        uint8_t saved = 0;
        sonde_unlock(&s->lock);
        rc = store_slot_find_series(s, &spec, &saved, err);
        sonde_lock(&s->lock);
        if (rc || !spec.id) continue;
        s->slots[i].spec.id = spec.id;
        s->slots[i].saved = saved;
        s->slots[i].found = 1;
    }
    sonde_unlock(&s->lock);
    return rc;
}

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

int store_slots_save(struct sonde_store *s, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int rc = 0;
    for (uint32_t i = 0; !rc; i++) {
        sonde_lock(&s->lock);
        const int more = i < s->slot_count;
        const int wanted = more && s->slots[i].found && !s->slots[i].saved;
        struct sonde_store_series spec = { 0 };
        if (wanted) spec = s->slots[i].spec;
        sonde_unlock(&s->lock);
        if (!more) break;
        if (wanted) rc = save_series(s, &spec, err);
    }
    return rc;
}
