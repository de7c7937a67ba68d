#include "collect/perf/record.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "sonde/sonde.h"
#include "unwind/arch_x86_64.h"

/* What is left of a record, in words: all of its fields but names come in eights. */
struct perf_record_words {
    const uint64_t *at;
    size_t left;
};

static const uint64_t *perf_record_take(struct perf_record_words *w, size_t count)
{
    if (count > w->left) return NULL;
    const uint64_t *p = w->at;
    w->at += count;
    w->left -= count;
    return p;
}

static int parse_user(struct perf_record_words *w, struct sonde_perf_record *out)
{
    const uint64_t *abi = perf_record_take(w, 1);
    if (!abi || *abi > PERF_SAMPLE_REGS_ABI_64) return SONDE_EFORMAT;
    if (*abi != PERF_SAMPLE_REGS_ABI_NONE) {
        const uint64_t *regs = perf_record_take(w, SONDE__ARCH_PERF_REG_COUNT);
        if (!regs) return SONDE_EFORMAT;
        sonde__arch_from_perf(regs, &out->u.sample.regs);
        out->u.sample.has_user = *abi == PERF_SAMPLE_REGS_ABI_64;
    }

    const uint64_t *size = perf_record_take(w, 1);
    if (!size || *size % 8) return SONDE_EFORMAT;
    out->u.sample.stack_max = *size;
    if (!*size) return 0;
    const uint64_t *copy = perf_record_take(w, *size / 8);
    const uint64_t *filled = perf_record_take(w, 1);
    if (!copy || !filled || *filled > *size) return SONDE_EFORMAT;
    out->u.sample.stack = copy;
    out->u.sample.stack_len = *filled;
    return 0;
}

/* What all samples begin with. NULL: it is not there. */
static const uint64_t *parse_fixed(struct perf_record_words *w, struct sonde_perf_record *out)
{
    const uint64_t *fixed = perf_record_take(w, 5);
    if (!fixed) return NULL;
    out->id = fixed[0];
    memcpy(&out->pid, (const char *)&fixed[2], 4);
    memcpy(&out->tid, (const char *)&fixed[2] + 4, 4);
    out->time_ns = fixed[3];
    return fixed;
}

static int parse_sample(struct perf_record_words *w, int callchain, struct sonde_perf_record *out)
{
    const uint64_t *fixed = parse_fixed(w, out);
    if (!fixed) return SONDE_EFORMAT;
    out->u.sample.ip = fixed[1];
    out->u.sample.period = fixed[4];
    if (callchain) {
        const uint64_t *count = perf_record_take(w, 1);
        if (!count) return SONDE_EFORMAT;
        out->u.sample.chain_count = *count;
        out->u.sample.chain = perf_record_take(w, *count);
        if (!out->u.sample.chain) return SONDE_EFORMAT;
    }
    return parse_user(w, out);
}

/* A name that fills the rest of the body: it must end in it. */
static const char *perf_record_parse_name(struct perf_record_words *w)
{
    const char *s = (const char *)w->at;
    return w->left && memchr(s, '\0', w->left * 8) ? s : NULL;
}

static int parse_comm(struct perf_record_words *w, struct sonde_perf_record *out)
{
    const uint64_t *who = perf_record_take(w, 1);
    const char *name = who ? perf_record_parse_name(w) : NULL;
    if (!name) return SONDE_EFORMAT;
    memcpy(&out->pid, who, 4);
    memcpy(&out->tid, (const char *)who + 4, 4);
    const size_t len = strnlen(name, sizeof(out->u.comm.name) - 1);
    memcpy(out->u.comm.name, name, len);
    out->u.comm.name[len] = '\0';
    return 0;
}

static int parse_map(struct perf_record_words *w, struct sonde_perf_record *out)
{
    const uint64_t *f = perf_record_take(w, 8);
    const char *path = f ? perf_record_parse_name(w) : NULL;
    uint32_t major, minor, prot;
    if (!path) return SONDE_EFORMAT;
    memcpy(&out->pid, f, 4);
    memcpy(&out->tid, (const char *)f + 4, 4);
    memcpy(&major, &f[4], 4);
    memcpy(&minor, (const char *)&f[4] + 4, 4);
    memcpy(&prot, &f[7], 4);
    const int has_inode = !(out->misc & PERF_RECORD_MISC_MMAP_BUILD_ID);
    out->u.map = (struct sonde_mapping){
        .start = f[1],
        .end = f[1] + f[2], /* a range that wraps ends below its start: sonde_aspace_map refuses
                             * it */
        .offset = f[3],
        .dev = has_inode ? makedev(major, minor) : 0,
        .inode = has_inode ? f[5] : 0,
        .path = path,
        .executable = (prot & PROT_EXEC) != 0,
    };
    return 0;
}

static int parse_task(struct perf_record_words *w, struct sonde_perf_record *out)
{
    const uint64_t *f = perf_record_take(w, 3);
    if (!f) return SONDE_EFORMAT;
    memcpy(&out->pid, f, 4);
    memcpy(&out->u.task.parent_pid, (const char *)f + 4, 4);
    memcpy(&out->tid, &f[1], 4);
    memcpy(&out->u.task.parent_tid, (const char *)&f[1] + 4, 4);
    return 0;
}

/* LOST has the event's id before the count. */
static int parse_lost(struct perf_record_words *w, struct sonde_perf_record *out)
{
    const size_t at = out->type == PERF_RECORD_LOST;
    const uint64_t *f = perf_record_take(w, at + 1);
    if (!f) return SONDE_EFORMAT;
    out->u.lost = f[at];
    return 0;
}

int sonde_perf_record_parse(const struct perf_event_header *h, int callchain,
                            struct sonde_perf_record *out)
{
    assert(h && out);
    if (h->size < SONDE_PERF_RECORD_MIN || h->size % 8) return SONDE_EFORMAT;
    struct perf_record_words w = { (const uint64_t *)(h + 1), (h->size - sizeof(*h)) / 8u };
    memset(out, 0, sizeof(*out));
    out->type = h->type;
    out->misc = h->misc;
    if (h->type == PERF_RECORD_SAMPLE) return parse_sample(&w, callchain, out);

    const uint64_t *trailer = w.at + w.left - 3;
    w.left -= 3;
    memcpy(&out->pid, trailer, 4);
    memcpy(&out->tid, (const char *)trailer + 4, 4);
    out->time_ns = trailer[1];
    out->id = trailer[2];
    switch (h->type) {
    case PERF_RECORD_COMM: return parse_comm(&w, out);
    case PERF_RECORD_MMAP2: return parse_map(&w, out);
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT: return parse_task(&w, out);
    case PERF_RECORD_LOST:
    case PERF_RECORD_LOST_SAMPLES: return parse_lost(&w, out);
    default: return 0;
    }
}

uint64_t sonde_perf_record_event(const struct perf_event_header *h)
{
    uint64_t id = 0;
    assert(h->type == PERF_RECORD_SAMPLE);
    if (h->size >= SONDE_PERF_RECORD_MIN) memcpy(&id, h + 1, sizeof(id));
    return id;
}

int sonde_perf_record_parse_output(const struct perf_event_header *h,
                                   struct sonde_perf_record *out)
{
    uint32_t size;
    if (h->size < SONDE_PERF_RECORD_MIN || h->size % 8) return SONDE_EFORMAT;
    struct perf_record_words w = { (const uint64_t *)(h + 1), (h->size - sizeof(*h)) / 8u };
    memset(out, 0, sizeof(*out));
    out->type = h->type;
    out->misc = h->misc;
    if (!parse_fixed(&w, out) || !w.left) return SONDE_EFORMAT;
    memcpy(&size, w.at, sizeof(size));
    if (size > w.left * 8 - sizeof(size)) return SONDE_EFORMAT;
    out->u.output.data = (const char *)w.at + sizeof(size);
    out->u.output.size = size;
    return 0;
}
