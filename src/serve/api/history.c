/* history.c - see history.h. */
#include "serve/api/history.h"

#include <assert.h>

#include "base/json.h"

struct api_history_listing {
    const struct sonde_store_ops *ops;
    struct sonde_store *store;
    struct sonde_history_summaries *summaries;
    struct sonde_buf *out;
    size_t count, skip, shown; /* count: first pass */
};

static void api_history_put_part(const struct sonde_history_part *part,
                                 const struct sonde_history_summary *sum,
                                 struct sonde_buf *out)
{
    const int heap = part->tier == SONDE_HISTORY_HEAP;
    sonde_json_open(out, '{');
    sonde_json_u64(out, "id", part->id);
    sonde_json_str(out, "tier", sonde_history_tier_names[part->tier]);
    sonde_json_str(out, "process", part->program);
    sonde_json_time(out, "start", part->start_s);
    sonde_json_time(out, "end", part->end_s);
    sonde_json_num(out, "step_s", sonde_history_step_s(part->tier));
    sonde_json_u64(out, "samples", part->samples);
    if (!heap) sonde_json_ns(out, "cpu_seconds", sum->cpu_ns);
    sonde_json_u64(out, "allocated_bytes", sum->alloc_bytes);
    if (heap) sonde_json_u64(out, "in_use_bytes", sum->live_bytes);
    if (sum->ratio > 0) {
        sonde_json_key_open(out, "top", '{');
        sonde_json_str(out, "function", sum->top);
        sonde_json_num(out, "ratio", sum->ratio);
        sonde_json_close(out, '}');
    } else {
        sonde_json_str(out, "top", NULL);
    }
    sonde_json_u64(out, "bytes", part->bytes);
    sonde_json_close(out, '}');
}

static void api_history_count_part(const struct sonde_history_part *part, void *arg)
{
    (void)part;
    ((struct api_history_listing *)arg)->count++;
}

/* One that is gone meanwhile, or cannot be read, is passed over. */
static void list_part(const struct sonde_history_part *part, void *arg)
{
    struct api_history_listing *l = arg;
    struct sonde_history_summary sum;
    if (l->skip) {
        l->skip--;
        return;
    }
    if (l->out->error ||
        sonde_history_summary(l->summaries, l->ops, l->store, part, &sum) != 0) {
        return;
    }
    api_history_put_part(part, &sum, l->out);
    l->shown++;
}

int sonde_api_history(const struct sonde_store_ops *ops, struct sonde_store *s,
                      struct sonde_history_summaries *summaries,
                      const struct sonde_history_query *q, size_t limit, struct sonde_buf *out,
                      struct sonde_err *err)
{
    assert(ops && s);
    struct api_history_listing l = { .ops = ops, .store = s, .summaries = summaries, .out = out };
    int rc = sonde_history_each(ops, s, q, api_history_count_part, &l, err);
    if (rc) return rc;
    l.skip = l.count > limit ? l.count - limit : 0;
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "from", q->from_s);
    sonde_json_time(out, "to", q->to_s);
    sonde_json_key_open(out, "parts", '[');
    rc = sonde_history_each(ops, s, q, list_part, &l, err);
    sonde_json_close(out, ']');
    sonde_json_u64(out, "total", l.count);
    sonde_json_bool(out, "truncated", l.count > limit);
    sonde_buf_puts(out, "}\n");
    return rc;
}
