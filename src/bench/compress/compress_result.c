/* compress_result.c - rows as figures that can be saved and compared, and as this kind's own JSON:
 *
 *   input_bytes, rows[{codec, level, threads, block_bytes, blocks, state, why, packed_bytes, ratio,
 *   compress{best_bytes_per_s, mean_bytes_per_s, memory_bytes, front}, decompress{…}, verified}],
 *   recommendations[{threads, use, goal, codec, level, block_bytes, why, tie}],
 *   bandwidths[{threads, codec, level, block_bytes, from_bytes_per_s, to_bytes_per_s}]
 *
 * A figure is called NAME.compress_bytes_per_s, where NAME is "zstd:3", with "/t2" for threads and
 * "/64K" for blocks behind it. */
#include "bench/compress/compress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "sonde/sonde.h"

enum { RESULT_SPANS_MAX = 32 };

static void compress_row_name(const struct sonde_compress_row *row, char *out, size_t size)
{
    char name[SONDE_COMPRESS_NAME_BYTES], threads[16] = "", block[32] = "";
    if (row->threads > 1) snprintf(threads, sizeof(threads), "/t%u", row->threads);
    if (row->block_bytes >= 1024 && row->block_bytes % 1024 == 0) {
        snprintf(block, sizeof(block), "/%zuK", row->block_bytes / 1024);
    } else if (row->block_bytes) {
        snprintf(block, sizeof(block), "/%zu", row->block_bytes);
    }
    snprintf(out, size, "%s%s%s", sonde_compress_row_name(row, name), threads, block);
}

static struct sonde_bench_figure *compress_figure(struct sonde_bench_result *r, const char *row,
                                                const char *what, const char *unit, int better)
{
    char name[SONDE_BENCH_NAME_MAX + 1];
    snprintf(name, sizeof(name), "%.80s.%s", row, what);
    return sonde_bench_figure_add(r, name, unit, better);
}

/* One number, that is what it is. */
static int compress_plain(struct sonde_bench_result *r, const char *row, const char *what,
                        const char *unit, int better, double value)
{
    struct sonde_bench_figure *f = compress_figure(r, row, what, unit, better);
    if (!f) return SONDE_ENOMEM;
    f->value = value;
    f->samples = isnan(value) ? 0u : 1u;
    return 0;
}

static int compress_speed(struct sonde_bench_result *r, const char *row, const char *what,
                        const double *seconds, size_t turns, uint64_t bytes)
{
    struct sonde_bench_figure *f = compress_figure(r, row, what, "bytes/s", 1);
    double *speeds = sonde__calloc(turns ? turns : 1, sizeof(*speeds));
    int rc = f && speeds ? 0 : SONDE_ENOMEM;
    for (size_t i = 0; !rc && i < turns; i++) speeds[i] = (double)bytes / seconds[i];
    if (!rc) rc = sonde_bench_figure_parts(f, speeds, turns);
    if (!rc) sonde_bench_figure_mean(f);
    sonde__free(speeds);
    return rc;
}

static double compress_ratio(const struct sonde_compress_row *row, uint64_t bytes)
{
    return bytes && row->packed_bytes ? (double)bytes / (double)row->packed_bytes : NAN;
}

static int compress_row_figures(const struct sonde_compress_row *row, uint64_t bytes,
                              struct sonde_bench_result *r)
{
    char name[96];
    compress_row_name(row, name, sizeof(name));
    const double pack = (double)row->pack_memory_bytes, unpack = (double)row->unpack_memory_bytes;
    int rc = compress_plain(r, name, "ratio", "", 1, compress_ratio(row, bytes));
    if (!rc) rc = compress_speed(r, name, "compress_bytes_per_s", row->pack_s, row->turns, bytes);
    if (!rc) {
        rc = compress_speed(r, name, "decompress_bytes_per_s", row->unpack_s, row->turns, bytes);
    }
    if (!rc) {
        rc = compress_plain(r, name, "compress_memory_bytes", "bytes", -1, pack < 0 ? NAN : pack);
    }
    if (!rc) {
        rc = compress_plain(r, name, "decompress_memory_bytes", "bytes", -1,
                          unpack < 0 ? NAN : unpack);
    }
    return rc;
}

/* ---- Members of its own ---------------------------------------------------------------------- */

static void compress_way_json(struct sonde_buf *out, const char *key, const double *seconds,
                            size_t turns, uint64_t bytes, int64_t memory, int front)
{
    sonde_json_key_open(out, key, '{');
    sonde_json_num(out, "best_bytes_per_s", (double)bytes / sonde_compress_best(seconds, turns));
    sonde_json_num(out, "mean_bytes_per_s", (double)bytes / sonde_compress_mean(seconds, turns));
    sonde_json_num(out, "noise_ratio", sonde_compress_noise(seconds, turns));
    sonde_json_num(out, "memory_bytes", memory < 0 ? NAN : (double)memory);
    sonde_json_bool(out, "front", front);
    sonde_json_close(out, '}');
}

static void compress_which_json(struct sonde_buf *out, const struct sonde_compress_row *row)
{
    sonde_json_str(out, "codec", row ? row->codec->name : NULL);
    sonde_json_num(out, "level", row && (row->codec->level_min || row->codec->level_max)
                                     ? (double)row->level : (double)NAN);
    if (row) sonde_json_u64_or_null(out, "block_bytes", row->block_bytes);
}

static void compress_row_json(struct sonde_buf *out, const struct sonde_compress_row *row,
                            uint64_t bytes)
{
    static const char *const states[] = { "new", "measured", "left out", "failed" };
    char version[32];
    sonde_json_open(out, '{');
    compress_which_json(out, row);
    sonde_json_str(out, "library", row->codec->version(version));
    sonde_json_u64(out, "threads", row->threads);
    sonde_json_bool(out, "own_threads", row->own_threads);
    sonde_json_str(out, "state", states[row->state]);
    sonde_json_str(out, "why", row->why[0] ? row->why : NULL);
    if (row->state == SONDE_COMPRESS_MEASURED) {
        sonde_json_u64(out, "blocks", row->blocks);
        sonde_json_u64(out, "packed_bytes", row->packed_bytes);
        sonde_json_num(out, "ratio", compress_ratio(row, bytes));
        sonde_json_bool(out, "verified", 1);
        sonde_json_u64(out, "turns", row->turns);
        compress_way_json(out, "compress", row->pack_s, row->turns, bytes, row->pack_memory_bytes,
                        row->pack_front);
        compress_way_json(out, "decompress", row->unpack_s, row->turns, bytes,
                        row->unpack_memory_bytes, row->unpack_front);
    }
    sonde_json_close(out, '}');
}

static void compress_choices_json(struct sonde_buf *out, const struct sonde_compress_row *rows,
                                size_t count, const struct sonde_compress_needs *needs)
{
    for (int use = 0; use < SONDE_COMPRESS_USE_COUNT; use++) {
        struct sonde_compress_choice c;
        char tie[96];
        sonde_compress_choose(rows, count, needs, (enum sonde_compress_use)use, &c);
        sonde_json_open(out, '{');
        sonde_json_u64(out, "threads", needs->threads);
        sonde_json_str(out, "use", sonde_compress_use_name((enum sonde_compress_use)use));
        sonde_json_str(out, "goal", sonde_compress_use_goal((enum sonde_compress_use)use));
        compress_which_json(out, c.row);
        sonde_json_str(out, "why", c.why);
        if (c.tie) compress_row_name(c.tie, tie, sizeof(tie));
        sonde_json_str(out, "tie", c.tie ? tie : NULL);
        sonde_json_close(out, '}');
    }
}

static void compress_spans_json(struct sonde_buf *out, const struct sonde_compress_row *rows,
                              size_t count, uint32_t threads)
{
    struct sonde_compress_span spans[RESULT_SPANS_MAX];
    const size_t n = sonde_compress_spans(rows, count, threads, spans, RESULT_SPANS_MAX);
    for (size_t i = 0; i < n; i++) {
        sonde_json_open(out, '{');
        sonde_json_u64(out, "threads", threads);
        compress_which_json(out, spans[i].row);
        sonde_json_num(out, "from_bytes_per_s", spans[i].from_bytes_per_s);
        sonde_json_num(out, "to_bytes_per_s", spans[i].to_bytes_per_s);
        sonde_json_close(out, '}');
    }
}

/* Once for each number of threads there is. */
static void compress_by_threads(struct sonde_buf *out, const char *key,
                              const struct sonde_compress_row *rows, size_t count,
                              const struct sonde_compress_needs *needs)
{
    sonde_json_key_open(out, key, '[');
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (rows[k].threads != rows[i].threads) k++;
        if (k != i) continue;
        struct sonde_compress_needs n = *needs;
        n.threads = rows[i].threads;
        if (!strcmp(key, "recommendations")) compress_choices_json(out, rows, count, &n);
        else compress_spans_json(out, rows, count, n.threads);
    }
    sonde_json_close(out, ']');
}

int sonde_compress_result(const struct sonde_compress_row *rows, size_t count,
                          const struct sonde_compress_needs *needs, struct sonde_bench_result *r)
{
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        if (rows[i].state == SONDE_COMPRESS_MEASURED) {
            rc = compress_row_figures(&rows[i], needs->bytes, r);
        }
    }
    struct sonde_buf *out = &r->extra;
    sonde_json_u64(out, "input_bytes", needs->bytes);
    sonde_json_num(out, "bandwidth_bytes_per_s", needs->bandwidth_bytes_per_s);
    sonde_json_key_open(out, "rows", '[');
    for (size_t i = 0; i < count; i++) compress_row_json(out, &rows[i], needs->bytes);
    sonde_json_close(out, ']');
    compress_by_threads(out, "recommendations", rows, count, needs);
    compress_by_threads(out, "bandwidths", rows, count, needs);
    return rc ? rc : out->error;
}
