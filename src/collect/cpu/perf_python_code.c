/* perf_python_code.c - code objects by the number that is made of their parts, and locations of
 * instructions: both are needed again with every sample, and reading them costs several calls. */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "collect/cpu/perf_python_bpf.h"
#include "collect/cpu/perf_python_private.h"
#include "profile/python_code.h"
#include "profile/python_function.h"

enum { CODES = 4096, PLACES = 4096 /* that are remembered; powers of two */ };
#define LENGTH_MAX (1u << 24)

struct perf_python_code {
    uint64_t key;              /* 0 = free */
    uint32_t first_line, lines_bytes;
    char *name, *file, *lines; /* owned, in one block with name */
};

struct perf_python_place {
    uint64_t key, at;          /* key 0 = free */
    uint32_t location;
};

struct perf_python_codes {
    uint32_t users;
    struct perf_python_code codes[CODES];
    struct perf_python_place places[PLACES];
};

struct perf_python_codes *sonde__perf_python_codes_create(void)
{
    struct perf_python_codes *c = sonde__calloc(1, sizeof(*c));
    if (c) c->users = 1;
    return c;
}

struct perf_python_codes *sonde__perf_python_codes_share(struct perf_python_codes *c)
{
    c->users++;
    return c;
}

void sonde__perf_python_codes_forget(struct perf_python_codes *c)
{
    memset(c->places, 0, sizeof(c->places));
}

void sonde__perf_python_codes_release(struct perf_python_codes *c)
{
    if (!c || --c->users) return;
    for (uint32_t i = 0; i < CODES; i++) sonde__free(c->codes[i].name);
    sonde__free(c);
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct perf_python_bytes {
    char bytes[SONDE__PYTHON_LINES_MAX];
    uint32_t count, kind;
};

static void perf_python_bytes_read(const struct sonde_perf_python *y, uint64_t at, uint64_t bytes,
                                   uint32_t kind, struct perf_python_bytes *out)
{
    out->kind = kind;
    out->count = bytes <= sizeof(out->bytes) ? (uint32_t)bytes : (uint32_t)sizeof(out->bytes);
    if (out->count && sonde__perf_python_copy(y->pid, at, out->bytes, out->count)) out->count = 0;
}

static void perf_python_text(const struct sonde_perf_python *y, uint64_t addr,
                             struct perf_python_bytes *out)
{
    const struct sonde__python_layout *l = &y->layout;
    char head[SONDE__PYTHON_TEXT_BYTES];
    uint32_t state;
    out->count = 0;
    if (sonde__perf_python_copy(y->pid, addr, head, sizeof(head)) ||
        sonde__perf_python_field(head, l->object_type) != y->type_text) {
        return;
    }
    memcpy(&state, head + l->text_state, sizeof(state));
    const uint32_t kind = state >> 2 & 7, compact = state >> 5 & 1, ascii = state >> 6 & 1;
    const uint64_t length = sonde__perf_python_field(head, l->text_length);
    if (!compact || (kind != 1 && kind != 2 && kind != 4) || length > LENGTH_MAX) return;
    perf_python_bytes_read(y, addr + (ascii ? l->text_ascii : l->text_compact), length * kind,
                           kind, out);
}

static void perf_python_lines(const struct sonde_perf_python *y, uint64_t addr,
                              struct perf_python_bytes *out)
{
    char head[SONDE__PYTHON_BYTES_BYTES];
    out->count = 0;
    if (sonde__perf_python_copy(y->pid, addr, head, sizeof(head)) ||
        sonde__perf_python_field(head, y->layout.object_type) != y->type_bytes) {
        return;
    }
    perf_python_bytes_read(y, addr + y->layout.bytes_text,
                           sonde__perf_python_field(head, y->layout.bytes_size), 1, out);
}

static int perf_python_code_fill(struct sonde_perf_python *y, const char *code,
                                 struct perf_python_code *c)
{
    const struct sonde__python_layout *l = &y->layout;
    char name[4 * SONDE__PYTHON_NAME_MAX], file[4 * SONDE__PYTHON_FILE_MAX];
    struct perf_python_bytes b = { .count = 0 };
    perf_python_text(y, sonde__perf_python_field(code, l->code_name), &b);
    sonde_python_text(name, sizeof(name), b.bytes, b.count, b.count ? b.kind : 1);
    perf_python_text(y, sonde__perf_python_field(code, l->code_file), &b);
    sonde_python_text(file, sizeof(file), b.bytes, b.count, b.count ? b.kind : 1);
    perf_python_lines(y, sonde__perf_python_field(code, l->code_lines), &b);
    const size_t names = strlen(name) + 1, files = strlen(file) + 1;
    char *block = sonde__alloc(names + files + b.count);
    if (!block) return -1;
    memcpy(block, name, names);
    memcpy(block + names, file, files);
    memcpy(block + names + files, b.bytes, b.count);
    c->name = block;
    c->file = block + names;
    c->lines = block + names + files;
    c->lines_bytes = b.count;
    memcpy(&c->first_line, code + l->code_first_line, sizeof(c->first_line));
    if (c->first_line > INT32_MAX) c->first_line = 0;
    return 0;
}

/* ---- Remembering ----------------------------------------------------------------------------- */

/* NULL = it is not there, or another one is; or there is no memory. */
static const struct perf_python_code *perf_python_code(struct sonde_perf_python *y, uint64_t addr,
                                                       uint64_t key)
{
    char code[SONDE__PYTHON_CODE_BYTES];
    struct perf_python_code *c = &y->codes->codes[key >> 1 & (CODES - 1)];
    if (key && c->key == key) return c;
    if (sonde__perf_python_copy(y->pid, addr, code, sizeof(code)) ||
        sonde__perf_python_field(code, y->layout.object_type) != y->type_code) {
        return NULL;
    }
    const uint64_t there = sonde_python_bpf_key(&y->layout, addr, code);
    if (key && there != key) return NULL;
    c = &y->codes->codes[there >> 1 & (CODES - 1)];
    if (c->key == there) return c;
    sonde__free(c->name);
    *c = (struct perf_python_code){ 0 };
    if (perf_python_code_fill(y, code, c)) return NULL;
    c->key = there;
    return c;
}

uint32_t sonde__perf_python_location(struct sonde_perf_python *y, struct sonde_profile *p,
                                     uint64_t addr, uint64_t key, uint64_t at)
{
    const uint64_t hash = (key ^ at * SONDE_HASH_MUL) * SONDE_HASH_MUL;
    struct perf_python_place *place = &y->codes->places[hash >> 52];
    _Static_assert(PLACES == 1u << 12, "the hash has as many bits");
    if (key && place->key == key && place->at == at) return place->location;
    const struct perf_python_code *c = perf_python_code(y, addr, key);
    if (!c) return 0;
    const uint32_t line = sonde_python_line(c->lines, c->lines_bytes, c->first_line,
                                            at < UINT32_MAX ? (uint32_t)at : UINT32_MAX);
    const uint32_t location = sonde_profile_python(p, c->name, c->file, c->first_line, line);
    if (key && location) *place = (struct perf_python_place){ key, at, location };
    return location;
}
