/* fuzz_segment.c - damaged segments: what the reader of metrics, spans and samples puts in the
 * model is fit to be shown, whatever is in the file. */
#include "base/utf8.h"
#include "fuzz/fuzz_segment.h"

static void fuzz_build(struct build *b)
{
    build_sample(b);
    struct sonde__sampler *sampler = build_sampler(b, 256);
    build_map(sampler, 0x1000, 0x9000, "/usr/lib/some/library/with/a/long/name.so");
    build_stack(sampler, 4243, 3, 0x1100);
    build_stack(sampler, 4243, 60, 0x1200);
    build_thread(sampler, 4243, "worker");
}

static void check_series(const struct sonde_model_series *s)
{
    CHECK(sonde__utf8_valid(s->label_text, s->label_text_len));
    CHECK(!memchr(s->label_text, '\n', s->label_text_len));
    for (size_t i = 0; i < s->label_count; i++) {
        CHECK(s->labels[i].name[strspn(s->labels[i].name, "abcdefghijklmnopqrstuvwxyz"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")] == '\0');
        CHECK(sonde__utf8_valid(s->labels[i].value, strlen(s->labels[i].value)));
    }
    if (!s->hist) return;
    uint64_t count = s->hist->zero;
    for (int o = 0; o < SONDE__HIST_OCTAVES; o++) {
        for (int i = 0; s->hist->octave[o] && i < 64; i++) count += s->hist->octave[o][i];
    }
    CHECK(count == s->hist->count);
}

static void check_model(const struct sonde_model *m)
{
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *f = m->families[i];
        CHECK(f->name[0] && sonde__utf8_valid(f->help, strlen(f->help)));
        CHECK(i == 0 || strcmp(m->families[i - 1]->name, f->name) < 0);
        for (size_t k = 0; k < f->series_count; k++) check_series(f->series[k]);
    }
    for (uint64_t i = 0; i < m->span_next && i < m->spans_max; i++) {
        CHECK(m->spans[i].outcome <= SONDE_TIMEOUT);
        CHECK(m->spans[i].attr_count <= SONDE_SPAN_ATTRS_MAX);
    }
}

/* Whatever a frame says that is no address. */
static void check_python(struct sonde_segment *s, uint64_t ip)
{
    struct sonde_segment_python_function f;
    struct sonde_err err;
    const uint64_t frame = SONDE__PYTHON_TAG << 48 | (ip & ((1ull << 48) - 1));
    if (sonde_segment_python_function(s, frame, &f, &err) != 0) return;
    CHECK(sonde__utf8_valid(f.name, strlen(f.name)) && sonde__utf8_valid(f.file, strlen(f.file)));
    CHECK(f.line <= INT32_MAX && f.first_line <= INT32_MAX);
}

static void check_sample(void *arg, const struct sonde_segment_sample *s)
{
    CHECK(s->depth <= SONDE__DEPTH_MAX);
    for (uint32_t i = 0; i < s->depth; i++) check_python(arg, s->ips[i]);
}

static void check_map(void *arg, const struct sonde_mapping *m)
{
    (void)arg;
    CHECK(m->end > m->start && strlen(m->path) > 0 && strlen(m->path) <= SONDE__MAP_PATH_MAX);
}

static void check_thread(void *arg, const struct sonde_segment_thread *t)
{
    (void)arg;
    CHECK(strnlen(t->name, sizeof(t->name)) < sizeof(t->name));
}

static int read_samples(struct sonde_segment *s, int last, struct sonde_err *err)
{
    struct sonde_sampler_info info;
    struct sonde_segment_python_info python;
    uint64_t lost;
    const struct sonde_segment_sink sink = { check_sample, check_map, check_thread, s };
    if (sonde_segment_python(s, &python, err) == 0) {
        CHECK(python.state < SONDE__PYTHON_STATE_COUNT);
        check_python(s, sonde__python_frame_of(sonde_segment_header(s)->block_off / 64, 3));
    }
    int rc = sonde_segment_sampler(s, &info, err);
    if (rc == 0) rc = sonde_segment_samples(s, &sink, last, &lost, err);
    return rc == SONDE_ENOENT ? 0 : rc;
}

static int fuzz_read(struct sonde_segment *s, const struct edits *late, struct sonde_err *err)
{
    struct sonde_model_limits limits = { .series_max = 100, .history_series_max = 50,
                                         .spans_max = 64 };
    struct sonde_model *m;
    struct sonde_tick_clock clock = { .now_tsc = 1u << 20, .now_mono_ns = 1u << 20,
                                      .unix_ns = 1u << 30, .tsc_ns = 0.5 };
    CHECK(sonde_model_create(&limits, &m) == 0);
    struct sonde_model_process *p = sonde_model_process(m, 4242, 777, "prog");
    int rc = 0;
    for (int pass = 0; rc == 0 && pass < PASSES; pass++) {
        const int last = pass == PASSES - 1;
        rc = sonde_segment_drain(s, m, p, &clock, last, err);
        if (rc == 0) rc = sonde_segment_read(s, m, p, last, err);
        if (rc == 0) rc = read_samples(s, last, err);
        sonde_model_tick(m, 1000 + pass);
        check_model(m);
        if (pass == 0) fuzz_late(late);
    }
    sonde_model_destroy(m);
    return rc;
}

#ifdef SONDE_FUZZ_MAIN

/* Somewhere that is in use, each part of the file as likely as the others. */
static uint32_t fuzz_offset(void)
{
    const struct sonde__header *h = seed.h;
    switch (draw() % 9) {
    case 0: return (uint32_t)(draw() % SONDE__HEADER_FIXED);
    case 1: return (uint32_t)(SONDE__HEADER_FIXED + draw() % (sizeof(*h) - SONDE__HEADER_FIXED));
    case 2: return (uint32_t)(h->family_off + draw() % (128ull * h->family_count));
    case 3: return (uint32_t)(h->series_off + draw() % (64ull * h->series_count));
    case 4: return (uint32_t)(h->string_off + draw() % h->string_used);
    case 5: return (uint32_t)(h->lane_off + h->lane_stride * (draw() % BUILD_LANES) +
                              draw() % (64 + 8ull * h->series_count));
    case 6: return (uint32_t)(h->block_off + draw() % 8192);
    case 7: return (uint32_t)(h->sampler + draw() % 1024); /* with its first records */
    default: { /* the ring and its first records */
        uint64_t ring = ((const struct sonde__lane *)(const void *)(
            seed.base + sonde__lane_at(h, 2)))->ring;
        return (uint32_t)(ring + draw() % 512);
    }
    }
}

#endif
