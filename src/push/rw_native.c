/* rw_native.c - a histogram with all its buckets, as Prometheus' native ones of schema 6, which are
 * the recorder's own: nothing is lost. Field numbers: prompb's types.proto. */
#include <math.h>

#include "base/pb.h"
#include "push/remote_write.h"

enum { HIST_COUNT = 1, HIST_SUM = 3, HIST_SCHEMA = 4, HIST_ZERO_THRESHOLD = 5, HIST_ZERO = 6,
       HIST_SPAN = 11, HIST_DELTA = 12, HIST_TIME = 15 };
enum { SPAN_OFFSET = 1, SPAN_LENGTH = 2, SCHEMA = 6 };

/* The next bucket from p on that is not empty, or SONDE__HIST_BUCKETS. */
static uint32_t next_used(const struct sonde_hist_value *h, uint32_t p)
{
    for (; p < SONDE__HIST_BUCKETS; p++) {
        if (!h->octave[p / 64]) p |= 63;
        else if (h->octave[p / 64][p % 64]) return p;
    }
    return SONDE__HIST_BUCKETS;
}

/* A span is a run of buckets in use; counts are differences to the one before. */
static void rw_native_put_buckets(struct sonde_buf *out, struct sonde_buf *leaf,
                                  const struct sonde_hist_value *h)
{
    int64_t delta[SONDE__HIST_BUCKETS], before = 0;
    size_t deltas = 0;
    uint32_t end = 0; /* of the span before */
    for (uint32_t p = next_used(h, 1); p < SONDE__HIST_BUCKETS;) {
        const uint32_t first = p;
        for (; p < SONDE__HIST_BUCKETS && h->octave[p / 64] && h->octave[p / 64][p % 64]; p++) {
            const int64_t n = (int64_t)h->octave[p / 64][p % 64];
            delta[deltas++] = n - before;
            before = n;
        }
        sonde_buf_reset(leaf);
        sonde_pb_sint(leaf, SPAN_OFFSET,
                      end ? (int64_t)(first - end) : (int64_t)first + 64 * SONDE__HIST_EXP_MIN);
        sonde_pb_uint(leaf, SPAN_LENGTH, p - first);
        sonde_pb_message(out, HIST_SPAN, leaf);
        end = p;
        p = next_used(h, p);
    }
    sonde_pb_packed_sint(out, HIST_DELTA, delta, deltas);
}

void rw_native(struct sonde_buf *out, struct sonde_buf *leaf, const struct sonde_model_series *s,
               int64_t time_ms)
{
    const struct sonde_hist_value *h = s->hist;
    sonde_pb_uint(out, HIST_COUNT, h ? h->count : 0);
    sonde_pb_double(out, HIST_SUM, sonde_model_series_sum(s));
    sonde_pb_sint(out, HIST_SCHEMA, SCHEMA);
    sonde_pb_double(out, HIST_ZERO_THRESHOLD, ldexp(1, SONDE__HIST_EXP_MIN));
    sonde_pb_uint(out, HIST_ZERO, h ? h->zero + (h->octave[0] ? h->octave[0][0] : 0) : 0);
    if (h) rw_native_put_buckets(out, leaf, h);
    sonde_pb_uint(out, HIST_TIME, (uint64_t)time_ms);
}
