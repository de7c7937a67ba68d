/* compress_run.c - rows in turns: see compress.h.
 *
 * One buffer for what is packed and one for what is unpacked serve all rows, since a row packs and
 * unpacks in one turn. Block i of n begins at i * block in the input and at i * bound(block) in the
 * packed buffer, so that threads never meet. States are opened anew for every turn, outside of the
 * time: all rows' at once would be gigabytes (Zstandard at 19 needs 80 MB a thread).
 *
 * Rejected: one clock reading for each block. With blocks of 4 KiB that would be a part of the
 * result. */
#include "bench/compress/compress.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analyze/stats.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "sonde/sonde.h"

enum { COMPRESS_PILOT_BYTES = 256 << 10, COMPRESS_PASSES_MAX = 50000000 };

struct compress_bench {
    const struct sonde_compress_options *o;
    char *packed, *back;         /* owned */
    size_t packed_bytes;         /* room */
    size_t *made;                /* owned: packed size of each block */
    size_t made_cap;
};

/* How a row's input is cut. */
struct compress_cut {
    size_t block, bound, count;
    uint32_t threads, workers;   /* of ours, and of the codec for each of them */
};

/* Threads that do passes together. */
struct compress_team {
    struct compress_bench *b;
    const struct sonde_codec *codec;
    struct compress_cut cut;
    int unpack;
    uint64_t passes;
    void *states[SONDE_COMPRESS_THREADS_MAX];
    _Atomic size_t next;         /* block that nobody does yet */
    _Atomic int error;           /* the first that any had */
    struct sonde_lock lock;
    struct sonde_cond turned;
    uint32_t waiting, members;   /* under lock, as the others */
    uint64_t generation;
    _Atomic int aborted;
};

struct compress_member { struct compress_team *team; uint32_t index; };

/* ---- Names and sums -------------------------------------------------------------------------- */

const char *sonde_compress_row_name(const struct sonde_compress_row *row,
                                    char out[SONDE_COMPRESS_NAME_BYTES])
{
    if (!row->codec->level_min && !row->codec->level_max) {
        snprintf(out, SONDE_COMPRESS_NAME_BYTES, "%.20s", row->codec->name);
    } else {
        snprintf(out, SONDE_COMPRESS_NAME_BYTES, "%.20s:%d", row->codec->name, row->level);
    }
    return out;
}

void sonde_compress_row_release(struct sonde_compress_row *row)
{
    sonde__free(row->pack_s);
    sonde__free(row->unpack_s);
    row->pack_s = row->unpack_s = NULL;
    row->turns = row->pack_cap = row->unpack_cap = 0;
}

double sonde_compress_best(const double *seconds, size_t turns)
{
    double best = NAN;
    for (size_t i = 0; i < turns; i++) if (!(best <= seconds[i])) best = seconds[i];
    return best;
}

double sonde_compress_mean(const double *seconds, size_t turns)
{
    double sum = 0;
    for (size_t i = 0; i < turns; i++) sum += seconds[i];
    return turns ? sum / (double)turns : NAN;
}

double sonde_compress_noise(const double *seconds, size_t turns)
{
    const double mean = sonde_compress_mean(seconds, turns), n = (double)turns;
    double squares = 0;
    if (turns < 2 || !(mean > 0)) return NAN;
    for (size_t i = 0; i < turns; i++) squares += (seconds[i] - mean) * (seconds[i] - mean);
    return sonde_t_quantile(0.975, n - 1) * sqrt(squares / (n - 1) / n) / mean;
}

/* ---- A pass ---------------------------------------------------------------------------------- */

static void compress_cut_make(const struct sonde_compress_row *row, size_t bytes,
                              struct compress_cut *c)
{
    const struct sonde_codec *codec = row->codec;
    *c = (struct compress_cut){ .threads = row->threads, .workers = 1 };
    if (row->block_bytes && row->block_bytes < bytes) c->block = row->block_bytes;
    else if (row->threads == 1 || codec->threaded) c->block = bytes;
    else c->block = (bytes + row->threads - 1) / row->threads;
    if (!c->block) c->block = 1; /* of an empty input, which is one block of no bytes */
    c->count = bytes ? (bytes + c->block - 1) / c->block : 1;
    if (codec->threaded && row->threads > 1 && c->count == 1) {
        c->workers = row->threads;
        c->threads = 1;
    }
    c->bound = c->block <= codec->block_max ? codec->bound(c->block) : 0;
}

static int compress_block(struct compress_team *t, void *state, size_t i)
{
    const struct compress_bench *b = t->b;
    const size_t at = i * t->cut.block, left = b->o->bytes - at;
    const size_t bytes = left < t->cut.block ? left : t->cut.block;
    char *packed = b->packed + i * t->cut.bound;
    size_t n = 0;
    if (!t->unpack) {
        return t->codec->pack(state, (const char *)b->o->data + at, bytes, packed, t->cut.bound,
                              &b->made[i]);
    }
    const int rc = t->codec->unpack(state, packed, b->made[i], b->back + at, bytes, &n);
    return rc ? rc : n == bytes ? 0 : SONDE_EINVAL;
}

/* Until all have come. */
static void compress_team_meet(struct compress_team *t)
{
    if (t->cut.threads == 1) return;
    sonde_lock(&t->lock);
    const uint64_t generation = t->generation;
    if (++t->waiting == t->members) {
        t->waiting = 0;
        t->generation++;
        sonde_cond_broadcast(&t->turned);
    }
    while (generation == t->generation && !t->aborted) sonde_cond_wait(&t->turned, &t->lock);
    sonde_unlock(&t->lock);
}

static void compress_team_pass(struct compress_team *t, void *state)
{
    for (size_t i; (i = atomic_fetch_add(&t->next, 1)) < t->cut.count;) {
        const int rc = compress_block(t, state, i);
        int none = 0;
        if (rc) atomic_compare_exchange_strong(&t->error, &none, rc);
    }
}

/* The first meeting is where the clock starts, the second of a pass where the next may begin. */
static void *compress_member_run(void *arg)
{
    const struct compress_member *m = arg;
    struct compress_team *t = m->team;
    for (uint64_t pass = 0; pass < t->passes && !t->aborted; pass++) {
        compress_team_meet(t);
        compress_team_pass(t, t->states[m->index]);
        compress_team_meet(t);
    }
    return NULL;
}

/* Seconds for a pass, the mean of t->passes; t->error says whether any went wrong. */
static double compress_team_lead(struct compress_team *t)
{
    uint64_t begin_ns = 0, end_ns = 0;
    for (uint64_t pass = 0; pass < t->passes; pass++) {
        atomic_store(&t->next, 0);
        compress_team_meet(t);
        if (!pass) begin_ns = sonde_clock_ns(CLOCK_MONOTONIC);
        compress_team_pass(t, t->states[0]);
        compress_team_meet(t);
    }
    end_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    return (double)(end_ns - begin_ns) * 1e-9 / (double)t->passes;
}

static int compress_team_run(struct compress_team *t, double *seconds)
{
    struct sonde_thread threads[SONDE_COMPRESS_THREADS_MAX] = { 0 };
    struct compress_member members[SONDE_COMPRESS_THREADS_MAX];
    int rc = 0;
    t->members = t->cut.threads;
    t->waiting = 0;
    t->aborted = 0;
    for (uint32_t i = 1; i < t->cut.threads && !rc; i++) {
        members[i] = (struct compress_member){ .team = t, .index = i };
        rc = sonde_thread_start(&threads[i], "sonde-pack", compress_member_run, &members[i], NULL);
    }
    if (rc) {
        sonde_lock(&t->lock);
        t->aborted = 1;
        sonde_cond_broadcast(&t->turned);
        sonde_unlock(&t->lock);
    } else {
        *seconds = compress_team_lead(t);
    }
    for (uint32_t i = 1; i < t->cut.threads; i++) sonde_thread_join(&threads[i]);
    return rc ? rc : atomic_load(&t->error);
}

/* ---- A turn ---------------------------------------------------------------------------------- */

/* passes of one direction, by states that are opened for them. */
static int compress_passes(struct compress_bench *b, const struct sonde_compress_row *row,
                           int unpack, uint64_t passes, double *seconds, int64_t *memory_peak)
{
    struct sonde_codec_memory memory = { 0 };
    struct compress_team *t = sonde__calloc(1, sizeof(*t));
    if (!t) return SONDE_ENOMEM;
    *t = (struct compress_team){ .b = b, .codec = row->codec, .unpack = unpack, .passes = passes };
    compress_cut_make(row, b->o->bytes, &t->cut);
    sonde_lock_init(&t->lock, SONDE_RANK_BENCH_TEAM);
    sonde_cond_init(&t->turned);
    const struct sonde_codec_how how = { .level = row->level, .unpack = unpack,
                                         .workers = t->cut.workers, .memory = &memory };
    int rc = 0;
    for (uint32_t i = 0; i < t->cut.threads && !rc; i++) {
        t->states[i] = row->codec->open(&how);
        if (!t->states[i]) rc = SONDE_ENOMEM;
    }
    if (!rc) rc = compress_team_run(t, seconds);
    for (uint32_t i = 0; i < t->cut.threads; i++) row->codec->close(t->states[i]);
    const int64_t peak = atomic_load(&memory.peak_bytes);
    if (row->codec->counted && peak > *memory_peak) *memory_peak = peak;
    sonde_cond_destroy(&t->turned);
    sonde_lock_destroy(&t->lock);
    sonde__free(t);
    return rc;
}

static void compress_row_fail(struct sonde_compress_row *row, const char *doing, int rc)
{
    row->state = SONDE_COMPRESS_FAILED;
    snprintf(row->why, sizeof(row->why), "%s failed: %s", doing,
             rc == SONDE_ENOMEM   ? "out of memory"
             : rc == SONDE_EFULL  ? "the result does not fit the room that its library asks for"
             : rc == SONDE_EINVAL ? "its library does not accept the data" : sonde_strerror(rc));
}

static int compress_row_compare(const struct compress_bench *b, struct sonde_compress_row *row)
{
    if (!b->o->bytes || !memcmp(b->back, b->o->data, b->o->bytes)) return 0;
    row->state = SONDE_COMPRESS_FAILED;
    snprintf(row->why, sizeof(row->why),
             "what was unpacked differs from the input: do not use this library as it is here");
    return -1;
}

/* Packs and unpacks once, with the clock beside it, and compares. */
static int compress_row_check(struct compress_bench *b, struct sonde_compress_row *row,
                              double *pack_s, double *unpack_s)
{
    struct compress_cut cut;
    compress_cut_make(row, b->o->bytes, &cut);
    row->blocks = cut.count;
    row->own_threads = cut.workers > 1;
    for (size_t i = 0; i < b->o->bytes; i++) b->back[i] = (char)~((const char *)b->o->data)[i];
    int rc = compress_passes(b, row, 0, 1, pack_s, &row->pack_memory_bytes);
    if (rc) {
        compress_row_fail(row, "packing", rc);
        return -1;
    }
    row->packed_bytes = 0;
    for (size_t i = 0; i < cut.count; i++) row->packed_bytes += b->made[i];
    rc = compress_passes(b, row, 1, 1, unpack_s, &row->unpack_memory_bytes);
    if (rc) {
        compress_row_fail(row, "unpacking", rc);
        return -1;
    }
    return compress_row_compare(b, row);
}

static uint64_t compress_pass_count(double turn_s, double pass_s)
{
    const double n = turn_s / (pass_s > 1e-9 ? pass_s : 1e-9);
    return n < 1 ? 1 : n > COMPRESS_PASSES_MAX ? COMPRESS_PASSES_MAX : (uint64_t)n;
}

static void compress_row_keep(struct sonde_compress_row *row, double pack_s, double unpack_s)
{
    if (SONDE_ARRAY_ROOM(row->pack_s, row->turns, row->pack_cap) ||
        SONDE_ARRAY_ROOM(row->unpack_s, row->turns, row->unpack_cap)) {
        compress_row_fail(row, "keeping times", SONDE_ENOMEM);
        return;
    }
    row->pack_s[row->turns] = pack_s;
    row->unpack_s[row->turns++] = unpack_s;
    row->state = SONDE_COMPRESS_MEASURED;
}

static void compress_row_turn(struct compress_bench *b, struct sonde_compress_row *row,
                              double turn_s, double pack_guess_s, double unpack_guess_s)
{
    double pack_s = 0, unpack_s = 0;
    int rc = compress_passes(b, row, 0, compress_pass_count(turn_s, pack_guess_s), &pack_s,
                             &row->pack_memory_bytes);
    if (rc) {
        compress_row_fail(row, "packing", rc);
        return;
    }
    rc = compress_passes(b, row, 1, compress_pass_count(turn_s, unpack_guess_s), &unpack_s,
                         &row->unpack_memory_bytes);
    if (rc) compress_row_fail(row, "unpacking", rc);
    else if (!compress_row_compare(b, row)) compress_row_keep(row, pack_s, unpack_s);
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* What one pass will take, by a small part of the input; before anything takes minutes. */
static double compress_row_pilot(struct compress_bench *b, const struct sonde_compress_row *row)
{
    const size_t bytes = b->o->bytes < COMPRESS_PILOT_BYTES ? b->o->bytes : COMPRESS_PILOT_BYTES;
    const struct sonde_compress_options part = { .data = b->o->data, .bytes = bytes };
    struct compress_bench small = *b;
    struct sonde_compress_row one = { .codec = row->codec, .level = row->level, .threads = 1 };
    double seconds = 0;
    small.o = &part;
    if (!bytes || compress_passes(&small, &one, 0, 1, &seconds, &one.pack_memory_bytes)) return 0;
    return seconds * (double)b->o->bytes / (double)bytes / row->threads;
}

static void compress_row_leave(struct sonde_compress_row *row, const char *format, double value)
    __attribute__((format(printf, 2, 0)));
static void compress_row_leave(struct sonde_compress_row *row, const char *format, double value)
{
    row->state = SONDE_COMPRESS_LEFT_OUT;
    snprintf(row->why, sizeof(row->why), format, value);
}

/* The largest room that any row needs. */
static int compress_bench_open(struct compress_bench *b, struct sonde_compress_row *rows,
                               size_t count)
{
    size_t packed = 1, blocks = 1;
    for (size_t i = 0; i < count; i++) {
        struct compress_cut cut;
        rows[i].state = SONDE_COMPRESS_NEW;
        rows[i].pack_memory_bytes = rows[i].unpack_memory_bytes = -1;
        compress_cut_make(&rows[i], b->o->bytes, &cut);
        if (cut.block > rows[i].codec->block_max) {
            compress_row_leave(&rows[i], "it takes no blocks above %.0f bytes: use a smaller "
                               "--block", (double)rows[i].codec->block_max);
            continue;
        }
        if (b->o->bytes && cut.threads > cut.count) {
            compress_row_leave(&rows[i], "there are only %.0f blocks: use fewer --threads, or a "
                               "smaller --block", (double)cut.count);
            continue;
        }
        if (cut.count > blocks) blocks = cut.count;
        if (cut.count > SIZE_MAX / cut.bound) return SONDE_ENOMEM;
        if (cut.count * cut.bound > packed) packed = cut.count * cut.bound;
    }
    /* The pilot's block. */
    if (packed < 2 * (size_t)COMPRESS_PILOT_BYTES) packed = 2 * (size_t)COMPRESS_PILOT_BYTES;
    b->packed = sonde__alloc(packed);
    b->back = sonde__alloc(b->o->bytes + 1);
    b->made = sonde__calloc(blocks, sizeof(*b->made));
    if (!b->packed || !b->back || !b->made) return SONDE_ENOMEM;
    memset(b->packed, 1, packed); /* pages that are touched first cost time */
    b->packed_bytes = packed;
    return 0;
}

static void compress_tell(const struct sonde_compress_options *o, double share,
                          const struct sonde_compress_row *row, size_t turn)
{
    char name[SONDE_COMPRESS_NAME_BYTES], state[96];
    if (!o->tell) return;
    snprintf(state, sizeof(state), "turn %zu, %s", turn, sonde_compress_row_name(row, name));
    o->tell(o->arg, share, state);
}

static uint32_t compress_turns_least(const struct sonde_compress_options *o)
{
    return o->turns_min ? o->turns_min : 1;
}

static int compress_row_settled(const struct sonde_compress_row *row, double until)
{
    return sonde_compress_noise(row->pack_s, row->turns) <= until &&
           sonde_compress_noise(row->unpack_s, row->turns) <= until;
}

/* The first look at a row: how long it takes, whether it is right, what memory it needs. */
static void compress_row_first(struct compress_bench *b, struct sonde_compress_row *row,
                               double *pack_s, double *unpack_s)
{
    const double pass_s = compress_row_pilot(b, row);
    if (pass_s > b->o->limit_s) {
        compress_row_leave(row, "one pass would take about %.0f s: raise --limit to include it",
                           ceil(pass_s));
        return;
    }
    if (compress_row_check(b, row, pack_s, unpack_s)) return;
    if (!row->codec->counted && b->o->bytes) {
        struct compress_cut cut;
        compress_cut_make(row, b->o->bytes, &cut);
        sonde_compress_memory(row->codec, row->level, b->o->data, cut.block,
                              &row->pack_memory_bytes, &row->unpack_memory_bytes);
        if (row->pack_memory_bytes > 0) row->pack_memory_bytes *= row->threads;
        if (row->unpack_memory_bytes > 0) row->unpack_memory_bytes *= row->threads;
    }
    if (!b->o->bytes) row->state = SONDE_COMPRESS_MEASURED;
    /* What takes a turn's time is a turn. */
    const double turn_s = b->o->time_s / compress_turns_least(b->o);
    if (b->o->bytes && *pack_s >= turn_s && *unpack_s >= turn_s) {
        compress_row_keep(row, *pack_s, *unpack_s);
    }
}

/* Slow ones have two turns, so that there is an interval, and no more than the time is for. */
static int compress_row_done(const struct sonde_compress_options *o,
                             const struct sonde_compress_row *row)
{
    const double all = sonde_compress_mean(row->pack_s, row->turns) * (double)row->turns;
    if (row->turns >= 2 && all >= o->time_s && !(o->until_ratio > 0)) return 1;
    return row->turns >= compress_turns_least(o) &&
           (!(o->until_ratio > 0) || compress_row_settled(row, o->until_ratio));
}

static void compress_bench_turns(struct compress_bench *b, struct sonde_compress_row *rows,
                                 size_t count, double *guess)
{
    const struct sonde_compress_options *o = b->o;
    const uint32_t least = compress_turns_least(o);
    const uint32_t most = o->until_ratio > 0 ? SONDE_COMPRESS_TURNS_MAX : least;
    const double turn_s = o->time_s / least;
    for (uint32_t turn = 0; turn < most; turn++) {
        int busy = 0;
        for (size_t i = 0; i < count; i++) {
            struct sonde_compress_row *row = &rows[i];
            if (row->state != SONDE_COMPRESS_NEW && row->state != SONDE_COMPRESS_MEASURED) continue;
            if (compress_row_done(o, row)) continue;
            const double share = ((double)turn + (double)i / (double)count) / least;
            compress_tell(o, share < 1 ? share : 0, row, turn + 1);
            busy = 1;
            compress_row_turn(b, row, turn_s, guess[2 * i], guess[2 * i + 1]);
            if (!row->turns) continue;
            guess[2 * i] = sonde_compress_best(row->pack_s, row->turns);
            guess[2 * i + 1] = sonde_compress_best(row->unpack_s, row->turns);
        }
        if (!busy) return;
    }
}

int sonde_compress_run(const struct sonde_compress_options *o, struct sonde_compress_row *rows,
                       size_t count, struct sonde_err *err)
{
    struct compress_bench b = { .o = o };
    double *guess = sonde__calloc(count ? 2 * count : 1, sizeof(*guess));
    int rc = guess ? compress_bench_open(&b, rows, count) : SONDE_ENOMEM;
    for (size_t i = 0; !rc && i < count; i++) {
        if (rows[i].state != SONDE_COMPRESS_NEW) continue;
        compress_tell(o, 0, &rows[i], 0);
        compress_row_first(&b, &rows[i], &guess[2 * i], &guess[2 * i + 1]);
    }
    if (!rc && o->bytes) compress_bench_turns(&b, rows, count, guess);
    sonde__free(guess);
    sonde__free(b.packed);
    sonde__free(b.back);
    sonde__free(b.made);
    if (!rc) sonde_compress_fronts(rows, count);
    return rc ? sonde_err_set(err, rc, "not enough memory for %zu bytes of input, as many unpacked "
                              "and what is packed: measure less with --max-bytes", o->bytes) : 0;
}
