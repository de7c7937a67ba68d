/* spin_mark.c - see spin.h: which code is looked at, and where it is read. */
#include <libelf.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/symbol/child.h"
#include "profile/symbol/plan.h"
#include "profile/symbol/spin.h"
#include "profile/symbol/symbol.h"
#include "sonde/sonde.h"

enum { LOOKS_MAX = 512 };   /* locations per call */
#define CPU_SECONDS 10
#define SILENCE_MS 30000
#define CHILD_BYTES ((size_t)256 << 20)
#define SHARE_MIN 0.002     /* of CPU samples: what is rarer makes no finding */

struct spin_mark {
    uint32_t location, module;
    uint64_t samples;
};

static int spin_mark_by_samples(const void *x, const void *y)
{
    const struct spin_mark *a = x, *b = y;
    if (a->samples != b->samples) return SONDE_CMP(b->samples, a->samples);
    return SONDE_CMP(a->location, b->location);
}

static int spin_mark_by_module(const void *x, const void *y)
{
    const struct spin_mark *a = x, *b = y;
    if (a->module != b->module) return SONDE_CMP(a->module, b->module);
    return SONDE_CMP(a->location, b->location);
}

static int spin_mark_wanted(const struct sonde_profile *p, uint32_t location)
{
    const struct sonde_profile_location *l = &p->locations[location];
    return l->address && l->module && l->module < p->modules_count &&
           !(l->flags & SONDE_LOCATION_LOOKED) &&
           sonde_symbol_plan_kind(&p->modules[l->module]) == SONDE_SYMBOL_FILE;
}

/* The locations to look at, the most sampled first; *count of them. */
static int spin_mark_choose(const struct sonde_profile *p, struct spin_mark **out, size_t *count)
{
    struct spin_mark *rows = sonde__calloc(p->locations_count, sizeof(*rows));
    uint64_t all = 0;
    size_t n = 0;
    if (!rows) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind != SONDE_SAMPLE_CPU || !s->stack || s->stack >= p->stacks_count) continue;
        rows[p->stacks[s->stack].location].samples += s->count;
        all += s->count;
    }
    for (uint32_t i = 1; i < p->locations_count; i++) {
        if ((double)rows[i].samples < SHARE_MIN * (double)all || !rows[i].samples) continue;
        if (!spin_mark_wanted(p, i)) continue;
        rows[n++] = (struct spin_mark){ i, p->locations[i].module, rows[i].samples };
    }
    if (n) qsort(rows, n, sizeof(*rows), spin_mark_by_samples);
    *count = n < LOOKS_MAX ? n : LOOKS_MAX;
    if (n) qsort(rows, *count, sizeof(*rows), spin_mark_by_module);
    *out = rows;
    return 0;
}

/* ---- In a child, as all that reads files which anyone wrote ---------------------------------- */

struct spin_mark_run {
    struct sonde_profile *p;
    const struct spin_mark *rows;
    size_t count;
    size_t taken;            /* verdicts that came: a byte for each row, in order */
};

static uint8_t spin_mark_read(const struct sonde_profile *p, const struct spin_mark *mark, int fd)
{
    uint8_t code[2 * SONDE_SYMBOL_SPIN_AROUND];
    const struct sonde_profile_location *l = &p->locations[mark->location];
    const uint64_t offset = sonde_symbol_plan_at(&p->modules[l->module], l->address);
    const uint64_t from =
        offset > SONDE_SYMBOL_SPIN_AROUND ? offset - SONDE_SYMBOL_SPIN_AROUND : 0;
    if (offset > INT64_MAX) return 0;
    const ssize_t n = pread(fd, code, sizeof(code), (off_t)from);
    return n > 0 && sonde_symbol_is_spin(code, (size_t)n, (size_t)(offset - from));
}

static void spin_mark_work(void *arg, int fd)
{
    const struct spin_mark_run *r = arg;
    static struct sonde_symbol_file file;
    uint8_t verdicts[LOOKS_MAX] = { 0 };
    sonde_symbol_child_cpu_limit(CPU_SECONDS);
    elf_version(EV_CURRENT);
    for (size_t i = 0; i < r->count;) {
        const uint32_t module = r->rows[i].module;
        const struct sonde_module place = sonde_profile_get_module(r->p, module);
        const struct sonde_symbol_job job = { .kind = SONDE_SYMBOL_FILE, .build_id = place.build_id,
                                              .places = &place, .place_count = 1 };
        uint32_t flags = 0;
        const int open = sonde_symbol_open(&job, &file, &flags) == 0;
        for (; i < r->count && r->rows[i].module == module; i++) {
            if (open) verdicts[i] = spin_mark_read(r->p, &r->rows[i], file.fd);
        }
        if (open) close(file.fd);
    }
    for (size_t done = 0; done < r->count;) {
        const ssize_t n = write(fd, verdicts + done, r->count - done);
        if (n <= 0) return;
        done += (size_t)n;
    }
}

static int spin_mark_take(void *arg, const void *data, size_t len)
{
    struct spin_mark_run *r = arg;
    const uint8_t *verdicts = data;
    for (size_t i = 0; i < len && r->taken < r->count; i++, r->taken++) {
        if (verdicts[i] == 1) {
            r->p->locations[r->rows[r->taken].location].flags |= SONDE_LOCATION_SPINS;
        }
    }
    return 0;
}

int sonde_symbol_mark_spins(struct sonde_profile *p)
{
    static const struct sonde_symbol_child_limits limits = { CHILD_BYTES, SILENCE_MS };
    struct spin_mark *rows = NULL;
    size_t count = 0;
    if (!p->weights[SONDE_SAMPLE_CPU]) return 0;
    const int rc = spin_mark_choose(p, &rows, &count);
    if (rc) return rc;
    struct spin_mark_run r = { .p = p, .rows = rows, .count = count };
    for (size_t i = 0; i < count; i++) {
        p->locations[rows[i].location].flags |= SONDE_LOCATION_LOOKED;
    }
    /* Without it samples are as good as they were: only what spins is not known. */
    if (count) sonde_symbol_child_run(&limits, spin_mark_work, spin_mark_take, &r);
    sonde__free(rows);
    return 0;
}
