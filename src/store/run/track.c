/* track.c - series over the time of a recording in a run file: two tables of structures, see
 * rows.h.
 *
 *   track_ticks   id 1 … : when a tick was taken, and how long it is
 *   tracks        id 1 … : a series, and its values
 *
 * The values of a series are a blob: gzip of one float of 32 bits for each tick, lowest byte first;
 * NaN where there was none. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/gz.h"
#include "profile/track.h"
#include "store/run/private.h"
#include "store/run/rows.h"

enum { GZ_LEVEL = 6 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats are stored as they are");

static int track_bind_values(const struct sonde_profile *p, sqlite3_stmt *s, int column,
                             const void *row, size_t at)
{
    const struct sonde_track *t = row;
    struct sonde_buf packed;
    (void)at;
    sonde_buf_init(&packed, (size_t)1 << 20);
    int rc = sonde_gz_pack(t->values, p->tracks->tick_count * sizeof(*t->values), GZ_LEVEL,
                           &packed)
                 ? SQLITE_NOMEM
                 : SQLITE_OK;
    if (!rc) rc = sqlite3_bind_blob64(s, column, packed.data, packed.len, SQLITE_TRANSIENT);
    sonde_buf_release(&packed);
    return rc;
}

static int track_get_values(struct run_reader *r, sqlite3_stmt *s, int column, void *row,
                            size_t at)
{
    struct sonde_track *t = row;
    const size_t needed = r->p->tracks->tick_count * sizeof(*t->values);
    struct sonde_buf unpacked;
    (void)at;
    if (sqlite3_column_type(s, column) != SQLITE_BLOB) {
        return run_bad(r, "%s is not a blob", sqlite3_column_name(s, column));
    }
    sonde_buf_init(&unpacked, needed ? needed : 1);
    int rc = sonde_gz_unpack(sqlite3_column_blob(s, column),
                             (size_t)sqlite3_column_bytes(s, column), &unpacked);
    if (rc == SONDE_ENOMEM) {
        rc = run_no_memory(r);
    } else if (rc || unpacked.len != needed) {
        rc = run_bad(r, "values are not those of %u ticks", r->p->tracks->tick_count);
    } else {
        t->values = sonde__alloc(needed ? needed : 1);
        if (t->values) memcpy(t->values, unpacked.data, needed);
        else rc = run_no_memory(r);
    }
    sonde_buf_release(&unpacked);
    return rc;
}

static const struct run_field_ops values_ops = { "BLOB", track_bind_values, track_get_values };

#define F(type_, field, kind)                                                                  \
    { .name = #field, .at = offsetof(struct type_, field), .type = RUN_##kind }
static const struct run_field tick_fields[] = {
    F(sonde_track_tick, end_s, REAL), F(sonde_track_tick, length_s, REAL),
};
static const struct run_field track_fields[] = {
    F(sonde_track, family, TEXT), F(sonde_track, labels, TEXT), F(sonde_track, program, TEXT),
    F(sonde_track, pid, U32), F(sonde_track, gauge, U32),
    { .name = "data", .at = offsetof(struct sonde_track, values), .type = RUN_OWN,
      .ops = &values_ops },
};
#undef F

static const struct run_table
    ticks_table = RUN_TABLE("track_ticks", tick_fields, struct sonde_track_tick),
    tracks_table = RUN_TABLE("tracks", track_fields, struct sonde_track);

int sonde_run_tracks_write(sqlite3 *db, const struct sonde_profile *p)
{
    const struct sonde_tracks *t = p->tracks;
    assert(t);
    const int rc = run_rows_write(db, p, &ticks_table, t->ticks, t->tick_count);
    return rc ? rc : run_rows_write(db, p, &tracks_table, t->rows, t->count);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int track_take_tick(struct run_reader *r, void *row, void *arg)
{
    const struct sonde_track_tick *tick = row;
    const struct sonde_tracks *t = r->p->tracks;
    (void)arg;
    if (t && t->tick_count == SONDE_TRACK_TICKS_MAX) {
        return run_bad(r, "more than %d ticks", SONDE_TRACK_TICKS_MAX);
    }
    if (!(tick->length_s >= 0) || (t && t->tick_count &&
                                   tick->end_s < t->ticks[t->tick_count - 1].end_s)) {
        return run_bad(r, "its time cannot be");
    }
    return sonde_tracks_tick(r->p, tick->end_s, tick->length_s) ? run_no_memory(r) : 0;
}

static int track_take(struct run_reader *r, void *row, void *arg)
{
    struct sonde_track *t = row;
    int rc = 0;
    (void)arg;
    /* Infinities are nothing that a recording has: whoever adds up would have to look out. */
    for (uint32_t k = 0; !rc && k < r->p->tracks->tick_count; k++) {
        if (isinf(t->values[k])) rc = run_bad(r, "value %u is not finite", k + 1);
    }
    if (!rc && t->gauge > 1) rc = run_bad(r, "gauge is %u", t->gauge);
    if (!rc && sonde_tracks_add(r->p, t)) rc = run_no_memory(r);
    sonde__free(t->values);
    t->values = NULL;
    return rc;
}

int run_tracks_read(struct run_reader *r)
{
    struct sonde_track_tick tick;
    struct sonde_track row = { .values = NULL };
    if (!run_has_table(r, ticks_table.name) || !run_has_table(r, tracks_table.name)) return 0;
    int rc = run_rows_read(r, &ticks_table, &tick, track_take_tick, NULL);
    if (!rc && r->p->tracks) rc = run_rows_read(r, &tracks_table, &row, track_take, NULL);
    sonde__free(row.values); /* of a row that was not taken */
    return rc;
}
