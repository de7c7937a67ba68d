/* speedscope.c - speedscope's own JSON: a list of frames, and a "sampled" profile a thread, its
 * samples in order of time with their weights. Samples of one thread that follow each other with
 * the same stack are one. Read by speedscope_read.c. */
#include <string.h>

#include "base/alloc.h"
#include "profile/format.h"
#include "profile/formats/speedscope_read.h"
#include "profile/tree/frame.h"
#include "sonde/sonde.h"

#define NAMES_MAX ((size_t)1 << 30)
#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

struct speedscope_writer {
    const struct sonde_profile *p;
    struct sonde_buf *out;
    struct sonde_strings pool;
    struct sonde_frames frames;
    struct sonde_frame_path path;
    uint32_t *order;        /* samples that pass, by thread and time */
    uint32_t count;
    uint32_t *index_of;     /* name -> number of its frame in the file, + 1 */
    uint32_t frame_count;
    enum sonde_sample_kind kind;
    size_t bytes;
};

static const struct sonde_profile_sample *sample_at(const struct speedscope_writer *w, uint32_t i)
{
    return &w->p->samples[w->order[i]];
}

static void speedscope_put_key(struct speedscope_writer *w, const char *before, const char *text)
{
    sonde_buf_puts(w->out, before);
    sonde_buf_json_str(w->out, text, strlen(text));
}

/* Number the frames in use, in order of use, and list them. */
static void put_frame_list(struct speedscope_writer *w)
{
    const struct sonde_profile_sample *last = NULL;
    sonde_buf_puts(w->out, "\"shared\":{\"frames\":[");
    for (uint32_t i = 0; i < w->count && !w->out->error; i++) {
        const struct sonde_profile_sample *s = sample_at(w, i);
        if (last && s->stack == last->stack && s->flags == last->flags) continue;
        last = s;
        if (sonde_frame_path_set(&w->path, &w->frames, w->p, s)) w->out->error = SONDE_ENOMEM;
        for (uint32_t k = 0; k < w->path.count; k++) {
            const struct sonde_frame *f = &w->frames.rows[w->path.rows[k]];
            if (w->index_of[f->name]) continue;
            w->index_of[f->name] = ++w->frame_count;
            speedscope_put_key(w, w->frame_count > 1 ? ",\n{\"name\":" : "\n{\"name\":",
                               w->pool.strings[f->name]);
            if (f->file) speedscope_put_key(w, ",\"file\":", w->pool.strings[f->file]);
            if (f->line) sonde_buf_printf(w->out, ",\"line\":%u", f->line);
            sonde_buf_putc(w->out, '}');
        }
    }
    sonde_buf_puts(w->out, "]}");
}

/* The end of the run of samples that starts at i and has the same thread, stack and flags. */
static uint32_t run_end(const struct speedscope_writer *w, uint32_t i, uint64_t *weight)
{
    const struct sonde_profile_sample *first = sample_at(w, i);
    *weight = 0;
    for (; i < w->count; i++) {
        const struct sonde_profile_sample *s = sample_at(w, i);
        if (s->thread != first->thread || s->stack != first->stack || s->flags != first->flags) {
            break;
        }
        *weight += s->weight;
    }
    return i;
}

static uint32_t speedscope_thread_end(const struct speedscope_writer *w, uint32_t i,
                                      uint64_t *weight)
{
    const uint32_t thread = sample_at(w, i)->thread;
    *weight = 0;
    for (; i < w->count && sample_at(w, i)->thread == thread; i++) {
        *weight += sample_at(w, i)->weight;
    }
    return i;
}

static void speedscope_put_stack(struct speedscope_writer *w, uint32_t i)
{
    if (sonde_frame_path_set(&w->path, &w->frames, w->p, sample_at(w, i))) {
        w->out->error = SONDE_ENOMEM;
    }
    sonde_buf_putc(w->out, '[');
    for (uint32_t k = 0; k < w->path.count; k++) {
        if (k) sonde_buf_putc(w->out, ',');
        sonde_buf_u64(w->out, w->index_of[w->frames.rows[w->path.rows[k]].name] - 1);
    }
    sonde_buf_putc(w->out, ']');
}

/* The samples of one thread; returns where the next begins. */
static uint32_t put_thread(struct speedscope_writer *w, uint32_t begin)
{
    const struct sonde_budget b = { .used = &w->bytes, .max = NAMES_MAX };
    const uint32_t label = sonde_thread_label(w->p, sample_at(w, begin)->thread, &w->pool, &b);
    uint64_t weight;
    const uint32_t end = speedscope_thread_end(w, begin, &weight);
    const char *unit = sonde_sample_kind_unit(w->kind);
    if (!label) w->out->error = SONDE_ENOMEM;
    speedscope_put_key(w, "{\"type\":\"sampled\",\"name\":", w->pool.strings[label]);
    sonde_buf_printf(w->out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":",
                     strcmp(unit, "count") ? unit : "none");
    sonde_buf_u64(w->out, weight);
    sonde_buf_puts(w->out, ",\n\"samples\":[");
    for (uint32_t i = begin; i < end && !w->out->error; i = run_end(w, i, &weight)) {
        if (i > begin) sonde_buf_puts(w->out, ",\n");
        speedscope_put_stack(w, i);
    }
    sonde_buf_puts(w->out, "],\n\"weights\":[");
    for (uint32_t i = begin, next; i < end && !w->out->error; i = next) {
        next = run_end(w, i, &weight);
        if (i > begin) sonde_buf_putc(w->out, ',');
        sonde_buf_u64(w->out, weight);
    }
    sonde_buf_puts(w->out, "]}");
    return end;
}

static void speedscope_put_file(struct speedscope_writer *w)
{
    const char *program = sonde_profile_str(w->p, w->p->program);
    sonde_buf_puts(w->out, "{\"$schema\":\"" SCHEMA "\",\"exporter\":\"sonde " SONDE_VERSION "\",");
    if (*program) {
        speedscope_put_key(w, "\"name\":", program);
        sonde_buf_puts(w->out, ",\n");
    }
    sonde_buf_puts(w->out, "\"activeProfileIndex\":0,");
    put_frame_list(w);
    sonde_buf_puts(w->out, ",\n\"profiles\":[");
    for (uint32_t i = 0; i < w->count && !w->out->error;) {
        sonde_buf_puts(w->out, i ? ",\n" : "\n");
        i = put_thread(w, i);
    }
    sonde_buf_puts(w->out, "]}\n");
}

static int speedscope_write_matching(struct speedscope_writer *w,
                                     const struct sonde_profile_match *m)
{
    const struct sonde_budget b = { .used = &w->bytes, .max = NAMES_MAX };
    w->kind = (enum sonde_sample_kind)sonde_profile_match_kind(m);
    if (sonde_strings_init(&w->pool, &b) || sonde_frames_create(&w->frames, w->p, &w->pool, &b)) {
        return SONDE_ENOMEM;
    }
    w->count = sonde_profile_match_count(m);
    w->order = sonde_profile_match_in_order(w->p, m);
    w->index_of = sonde__calloc(w->pool.count, sizeof(*w->index_of));
    if (!w->order || !w->index_of) return SONDE_ENOMEM;
    speedscope_put_file(w);
    return w->out->error;
}

static int speedscope_write(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                            struct sonde_buf *out, struct sonde_err *err)
{
    struct sonde_profile_match *m;
    int rc = sonde_profile_match_some(p, f, &m, err);
    if (rc) return rc;
    struct speedscope_writer w = { .p = p, .out = out };
    rc = speedscope_write_matching(&w, m);
    sonde_frame_path_release(&w.path);
    sonde_frames_release(&w.frames);
    sonde_strings_release(&w.pool);
    sonde__free(w.order);
    sonde__free(w.index_of);
    sonde_profile_match_destroy(m);
    return rc ? sonde_err_set(err, rc, "no memory for the speedscope file") : 0;
}

extern const struct sonde_format_ops sonde_format_speedscope;
const struct sonde_format_ops sonde_format_speedscope = {
    .name = "speedscope",
    .summary = "JSON for speedscope, a profile a thread, in order of time",
    .content_type = "application/json",
    .suffix = ".speedscope.json",
    .write = speedscope_write,
    .probe = sonde_speedscope_probe,
    .read = sonde_speedscope_read,
};
