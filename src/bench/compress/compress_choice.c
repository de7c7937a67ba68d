/* compress_choice.c - from what was measured to what to use: fronts, and the best row for a use.
 *
 * A row is three numbers here: a, the seconds to pack and unpack the input, s, the bytes that it
 * became, and how well a is known. For a network of B bytes a second a row costs
 *
 *   T(B) = a + s / B
 *
 * which in x = 1 / B is a line; the lower hull of all lines says from which bandwidth to which each
 * is the fastest. Packing, sending and unpacking one after the other is what a message does; a long
 * stream overlaps them and pays for the slowest alone, so that it can afford a little more.
 *
 * Of rows that cannot be told apart by their time, the smaller is chosen. */
#include "bench/compress/compress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "present/units.h"

#define CHOICE_TIE_MAX 0.03 /* of the best time: what is further off is not called as good */

static const struct { const char *name, *goal; } choice_uses[] = {
#define SONDE__X(id, name, goal) { name, goal },
    SONDE_COMPRESS_USES(SONDE__X)
#undef SONDE__X
};

const char *sonde_compress_use_name(enum sonde_compress_use use) { return choice_uses[use].name; }
const char *sonde_compress_use_goal(enum sonde_compress_use use) { return choice_uses[use].goal; }

static double choice_pack_s(const struct sonde_compress_row *r)
{
    return sonde_compress_best(r->pack_s, r->turns);
}

static double choice_unpack_s(const struct sonde_compress_row *r)
{
    return sonde_compress_best(r->unpack_s, r->turns);
}

static double choice_both_s(const struct sonde_compress_row *r)
{
    return choice_pack_s(r) + choice_unpack_s(r);
}

/* How far the sum of both ways may be off, in seconds; 0 = not known. */
static double choice_noise_s(const struct sonde_compress_row *r)
{
    const double pack = choice_pack_s(r) * sonde_compress_noise(r->pack_s, r->turns);
    const double unpack = choice_unpack_s(r) * sonde_compress_noise(r->unpack_s, r->turns);
    const double both = sqrt(pack * pack + unpack * unpack);
    return both > 0 ? both : 0;
}

static int choice_usable(const struct sonde_compress_row *r, uint32_t threads)
{
    return r->state == SONDE_COMPRESS_MEASURED && r->turns && r->threads == threads;
}

static int choice_is_none(const struct sonde_compress_row *r)
{
    return !strcmp(r->codec->name, "none");
}

/* ---- Fronts ---------------------------------------------------------------------------------- */

/* 1 if b is nowhere worse than a and somewhere better. */
static int choice_beats(const struct sonde_compress_row *b, double b_s,
                        const struct sonde_compress_row *a, double a_s)
{
    return b->packed_bytes <= a->packed_bytes && b_s <= a_s &&
           (b->packed_bytes < a->packed_bytes || b_s < a_s);
}

void sonde_compress_fronts(struct sonde_compress_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sonde_compress_row *a = &rows[i];
        a->pack_front = a->unpack_front = (unsigned)choice_usable(a, a->threads) & 1u;
        for (size_t k = 0; k < count && (a->pack_front || a->unpack_front); k++) {
            const struct sonde_compress_row *b = &rows[k];
            if (!choice_usable(b, a->threads)) continue;
            if (choice_beats(b, choice_pack_s(b), a, choice_pack_s(a))) a->pack_front = 0;
            if (choice_beats(b, choice_unpack_s(b), a, choice_unpack_s(a))) a->unpack_front = 0;
        }
    }
}

/* ---- Choices --------------------------------------------------------------------------------- */

/* What is to be small, in seconds; archive: in bytes. */
static double choice_cost(const struct sonde_compress_row *r,
                          const struct sonde_compress_needs *n, enum sonde_compress_use use)
{
    if (use == SONDE_COMPRESS_ARCHIVE) return (double)r->packed_bytes;
    if (use == SONDE_COMPRESS_FAST) return choice_both_s(r);
    return choice_both_s(r) + (double)r->packed_bytes / n->bandwidth_bytes_per_s;
}

static int choice_candidate(const struct sonde_compress_row *r,
                            const struct sonde_compress_needs *n, enum sonde_compress_use use)
{
    if (!choice_usable(r, n->threads)) return 0;
    if (use == SONDE_COMPRESS_NETWORK) return 1;
    const double most = use == SONDE_COMPRESS_FAST ? 1 - n->saving_min : 1;
    return !choice_is_none(r) && (double)r->packed_bytes < most * (double)n->bytes;
}

/* Whether a differs from the best no more than can be. */
static int choice_as_good(const struct sonde_compress_row *a, const struct sonde_compress_row *best,
                          const struct sonde_compress_needs *n, enum sonde_compress_use use)
{
    const double more = choice_cost(a, n, use) - choice_cost(best, n, use);
    if (use == SONDE_COMPRESS_ARCHIVE) return more <= n->archive_slack * (double)best->packed_bytes;
    /* On a noisy machine anything is possible; what looks much worse is not chosen all the same. */
    const double x = choice_noise_s(a), y = choice_noise_s(best);
    const double noise = sqrt(x * x + y * y), most = CHOICE_TIE_MAX * choice_cost(best, n, use);
    return more <= (noise < most ? noise : most);
}

/* Of two that are as good for the use, is a the nicer one? */
static int choice_nicer(const struct sonde_compress_row *a, const struct sonde_compress_row *b,
                        enum sonde_compress_use use)
{
    if (use == SONDE_COMPRESS_ARCHIVE) return choice_both_s(a) < choice_both_s(b);
    if (a->packed_bytes != b->packed_bytes) return a->packed_bytes < b->packed_bytes;
    return choice_both_s(a) < choice_both_s(b);
}

static void choice_why(const struct sonde_compress_row *rows, size_t count,
                       const struct sonde_compress_needs *n, enum sonde_compress_use use,
                       struct sonde_compress_choice *out)
{
    const struct sonde_compress_row *r = out->row, *none = NULL;
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES], c[SONDE_VALUE_BYTES], d[SONDE_VALUE_BYTES];
    for (size_t i = 0; i < count; i++) {
        if (choice_usable(&rows[i], n->threads) && choice_is_none(&rows[i])) none = &rows[i];
    }
    const double bytes = (double)n->bytes, saved = 1 - (double)r->packed_bytes / bytes;
    sonde_value_format(a, choice_both_s(r), SONDE_UNIT_SECONDS, 0);
    sonde_value_format(b, saved, SONDE_UNIT_RATIO, 0);
    if (use == SONDE_COMPRESS_FAST) {
        snprintf(out->why, sizeof(out->why), "packs and unpacks the input in %s and saves %s", a,
                 b);
        if (none && choice_both_s(none) > 0) {
            const size_t len = strlen(out->why);
            snprintf(out->why + len, sizeof(out->why) - len, "; two copies in memory take %s",
                     sonde_value_format(c, choice_both_s(none), SONDE_UNIT_SECONDS, 0));
        }
    } else if (use == SONDE_COMPRESS_NETWORK) {
        const double plain_s = bytes / n->bandwidth_bytes_per_s +
                               (none ? choice_both_s(none) : 0);
        snprintf(out->why, sizeof(out->why),
                 "packed, sent at %.4g MB/s and unpacked in %s, %s of it on the network; "
                 "uncompressed in %s", n->bandwidth_bytes_per_s * 1e-6,
                 sonde_value_format(c, choice_cost(r, n, use), SONDE_UNIT_SECONDS, 0),
                 sonde_value_format(d, (double)r->packed_bytes / n->bandwidth_bytes_per_s,
                                    SONDE_UNIT_SECONDS, 0),
                 sonde_value_format(a, plain_s, SONDE_UNIT_SECONDS, 0));
    } else {
        snprintf(out->why, sizeof(out->why),
                 "%.3f times smaller (saves %s); packs in %s, unpacks in %s",
                 bytes / (double)r->packed_bytes, b,
                 sonde_value_format(c, choice_pack_s(r), SONDE_UNIT_SECONDS, 0),
                 sonde_value_format(d, choice_unpack_s(r), SONDE_UNIT_SECONDS, 0));
    }
}

void sonde_compress_choose(const struct sonde_compress_row *rows, size_t count,
                           const struct sonde_compress_needs *n, enum sonde_compress_use use,
                           struct sonde_compress_choice *out)
{
    const struct sonde_compress_row *best = NULL, *chosen;
    *out = (struct sonde_compress_choice){ 0 };
    for (size_t i = 0; i < count; i++) {
        const struct sonde_compress_row *r = &rows[i];
        if (!choice_candidate(r, n, use)) continue;
        if (!best || choice_cost(r, n, use) < choice_cost(best, n, use)) best = r;
    }
    if (!best) {
        snprintf(out->why, sizeof(out->why), use == SONDE_COMPRESS_FAST
                 ? "nothing that was measured saves %.0f %%: leave it as it is"
                 : "nothing that was measured makes it smaller: leave it as it is",
                 100 * n->saving_min);
        return;
    }
    chosen = best;
    for (size_t i = 0; i < count; i++) {
        const struct sonde_compress_row *r = &rows[i];
        if (r == best || !choice_candidate(r, n, use) || !choice_as_good(r, best, n, use)) continue;
        if (choice_nicer(r, chosen, use)) chosen = r;
    }
    out->row = chosen;
    out->tie = chosen != best ? best : NULL;
    choice_why(rows, count, n, use, out);
}

/* ---- By bandwidth ---------------------------------------------------------------------------- */

size_t sonde_compress_spans(const struct sonde_compress_row *rows, size_t count, uint32_t threads,
                            struct sonde_compress_span *out, size_t max)
{
    const struct sonde_compress_row *now = NULL;
    double x = 0; /* seconds a byte */
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        if (!choice_usable(&rows[i], threads)) continue;
        if (!now || choice_both_s(&rows[i]) < choice_both_s(now)) now = &rows[i];
    }
    while (now && made < max) {
        const struct sonde_compress_row *next = NULL;
        double cross = INFINITY;
        for (size_t i = 0; i < count; i++) {
            const struct sonde_compress_row *r = &rows[i];
            if (!choice_usable(r, threads) || r->packed_bytes >= now->packed_bytes) continue;
            const double at = (choice_both_s(r) - choice_both_s(now)) /
                              (double)(now->packed_bytes - r->packed_bytes);
            if (at < cross || (at <= cross && r->packed_bytes < next->packed_bytes)) {
                cross = at;
                next = r;
            }
        }
        if (cross > x || !next) {
            out[made++] = (struct sonde_compress_span){
                .row = now, .from_bytes_per_s = next ? 1 / cross : 0,
                .to_bytes_per_s = x > 0 ? 1 / x : INFINITY };
            x = cross;
        }
        now = next;
    }
    return made;
}
