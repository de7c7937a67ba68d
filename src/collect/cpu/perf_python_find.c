#include "collect/cpu/perf_python.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/path.h"
#include "base/proc_maps.h"
#include "collect/cpu/perf_python_private.h"
#include "sonde/sonde.h"

enum { PROGRAM_HEADERS_MAX = 64, DYNAMIC_MAX = 128, CHAIN_MAX = 65536 };

/* ---- The interpreter's symbols --------------------------------------------------------------- */

/* Read from memory as the dynamic linker does: it is there also where the file is not. */
struct perf_python_image {
    uint32_t pid;
    uint64_t bias, symbols, strings, hash;
};

static int perf_python_dynamic(struct perf_python_image *m, uint64_t at)
{
    Elf64_Dyn d;
    for (uint32_t i = 0; i < DYNAMIC_MAX; i++, at += sizeof(d)) {
        if (sonde__perf_python_copy(m->pid, at, &d, sizeof(d))) return -1;
        const uint64_t p = d.d_un.d_ptr < m->bias ? d.d_un.d_ptr + m->bias : d.d_un.d_ptr;
        if (d.d_tag == DT_NULL) break;
        if (d.d_tag == DT_SYMTAB) m->symbols = p;
        else if (d.d_tag == DT_STRTAB) m->strings = p;
        else if (d.d_tag == DT_GNU_HASH) m->hash = p;
    }
    return m->symbols && m->strings && m->hash ? 0 : -1;
}

static int perf_python_image_open(struct perf_python_image *m, uint32_t pid, uint64_t start)
{
    Elf64_Ehdr h;
    Elf64_Phdr p[PROGRAM_HEADERS_MAX];
    uint64_t dynamic = 0, first = UINT64_MAX;
    *m = (struct perf_python_image){ .pid = pid };
    if (sonde__perf_python_copy(pid, start, &h, sizeof(h)) ||
        memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_phentsize != sizeof(p[0]) || !h.e_phnum ||
        h.e_phnum > PROGRAM_HEADERS_MAX ||
        sonde__perf_python_copy(pid, start + h.e_phoff, p, h.e_phnum * sizeof(p[0]))) {
        return -1;
    }
    for (uint32_t i = 0; i < h.e_phnum; i++) {
        if (p[i].p_type == PT_LOAD && p[i].p_vaddr < first) first = p[i].p_vaddr;
        if (p[i].p_type == PT_DYNAMIC) dynamic = p[i].p_vaddr;
    }
    m->bias = start - (first & ~(uint64_t)4095);
    return dynamic ? perf_python_dynamic(m, dynamic + m->bias) : -1;
}

static int perf_python_symbol_is(const struct perf_python_image *m, uint32_t index,
                                 const char *name, uint64_t *value)
{
    Elf64_Sym s;
    char text[64];
    const size_t len = strlen(name) + 1;
    if (sonde__perf_python_copy(m->pid, m->symbols + (uint64_t)index * sizeof(s), &s, sizeof(s)) ||
        s.st_shndx == SHN_UNDEF ||
        sonde__perf_python_copy(m->pid, m->strings + s.st_name, text, len) ||
        memcmp(text, name, len) != 0) {
        return 0;
    }
    *value = s.st_value + m->bias;
    return 1;
}

/* Where it is; 0 = the module does not define it. */
static uint64_t perf_python_symbol(const struct perf_python_image *m, const char *name)
{
    uint32_t head[4], h = 5381, index, c;
    uint64_t value;
    for (const char *s = name; *s; s++) h = h * 33 + (unsigned char)*s;
    if (sonde__perf_python_copy(m->pid, m->hash, head, sizeof(head)) || !head[0]) return 0;
    const uint64_t buckets = m->hash + sizeof(head) + head[2] * 8ull;
    const uint64_t chain = buckets + head[0] * 4ull;
    if (sonde__perf_python_copy(m->pid, buckets + h % head[0] * 4ull, &index, sizeof(index)) ||
        index < head[1]) {
        return 0;
    }
    for (uint32_t n = 0; n < CHAIN_MAX; n++, index++) {
        const uint64_t at = chain + (index - head[1]) * 4ull;
        if (sonde__perf_python_copy(m->pid, at, &c, sizeof(c))) return 0;
        if ((c | 1) == (h | 1) && perf_python_symbol_is(m, index, name, &value)) return value;
        if (c & 1) return 0;
    }
    return 0;
}

/* ---- Whether there is one -------------------------------------------------------------------- */

struct perf_python_search {
    struct sonde_perf_python *y;
    struct sonde_perf_python_met *met;
    uint64_t inode;            /* of the file at hand */
    uint64_t program;          /* of the one that runs; 0 = not known */
};

/* What can be said of the module that begins at start. */
static uint32_t perf_python_fill(struct sonde_perf_python *y, uint64_t start, uint32_t *version)
{
    struct perf_python_image m;
    uint64_t says[SONDE__PYTHON_SAYS_WORDS] = { 0 };
    *version = 0;
    if (perf_python_image_open(&m, y->pid, start)) return SONDE__PYTHON_NONE;
    const uint64_t at = perf_python_symbol(&m, "Py_Version");
    y->runtime = perf_python_symbol(&m, "_PyRuntime");
    if (!at && !y->runtime) return SONDE__PYTHON_NONE;
    if (!at) return SONDE__PYTHON_OLD; /* 3.11 is the first that has it */
    if (sonde__perf_python_copy(y->pid, at, version, sizeof(*version))) return SONDE__PYTHON_NONE;
    if (!y->runtime) return SONDE__PYTHON_STRIPPED;
    (void)sonde__perf_python_copy(y->pid, y->runtime, says, sizeof(says));
    y->type_code = perf_python_symbol(&m, "PyCode_Type");
    y->type_text = perf_python_symbol(&m, "PyUnicode_Type");
    y->type_bytes = perf_python_symbol(&m, "PyBytes_Type");
    const uint32_t state = sonde__python_layout_of(*version, says, sizeof(says), &y->layout);
    if (state != SONDE__PYTHON_READS) return state;
    return y->type_code && y->type_text && y->type_bytes ? SONDE__PYTHON_READS
                                                         : SONDE__PYTHON_STRIPPED;
}

int sonde_perf_python_is_name(const char *path)
{
    const char *base = sonde_path_base(path);
    return !strncmp(base, "python3", 7) || !strncmp(base, "libpython3", 10);
}

/* The file's first mapping has its header. A program may have an interpreter built in, whatever it
 * is called. */
static int perf_python_look(void *arg, const struct sonde_mapping *m)
{
    struct perf_python_search *s = arg;
    if (m->offset != 0 || !m->inode || m->inode == s->inode) return 0;
    if (m->inode != s->program && !sonde_perf_python_is_name(m->path)) return 0;
    uint32_t version;
    s->inode = m->inode;
    const uint32_t state = perf_python_fill(s->y, m->start, &version);
    if (state != SONDE__PYTHON_NONE) *s->met = (struct sonde_perf_python_met){ state, version };
    return state == SONDE__PYTHON_READS;
}

static uint64_t perf_python_inode(uint32_t pid, const char *name)
{
    char path[64];
    struct stat s;
    snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
    return stat(path, &s) ? 0 : s.st_ino;
}

static int perf_python_is_elsewhere(uint32_t pid)
{
    struct stat own;
    const uint64_t space = perf_python_inode(pid, "ns/pid");
    return space && !stat("/proc/self/ns/pid", &own) && own.st_ino != space;
}

int sonde_perf_python_create(uint32_t pid, struct sonde_perf_python_met *met,
                             struct sonde_perf_python **out)
{
    *met = (struct sonde_perf_python_met){ SONDE__PYTHON_NONE, 0 };
    struct sonde_perf_python *y = sonde__calloc(1, sizeof(*y));
    if (!y) return SONDE_ENOMEM;
    y->pid = pid;
    y->elsewhere = perf_python_is_elsewhere(pid);
    struct perf_python_search s = { .y = y, .met = met, .program = perf_python_inode(pid, "exe") };
    int rc = sonde_proc_maps(pid, perf_python_look, &s) == 1 ? 0 : SONDE_ENOENT;
    if (!rc) {
        y->codes = sonde__perf_python_codes_create();
        if (!y->codes) rc = SONDE_ENOMEM;
    }
    if (rc) sonde__free(y);
    else *out = y;
    return rc;
}

struct sonde_perf_python *sonde_perf_python_fork(const struct sonde_perf_python *of, uint32_t pid)
{
    struct sonde_perf_python *y = sonde__alloc(sizeof(*y));
    if (!y) return NULL;
    *y = *of;
    y->pid = pid;
    y->elsewhere = perf_python_is_elsewhere(pid);
    y->thread = 0;
    y->codes = sonde__perf_python_codes_share(of->codes);
    return y;
}

void sonde_perf_python_destroy(struct sonde_perf_python *y)
{
    if (!y) return;
    sonde__perf_python_codes_release(y->codes);
    sonde__free(y);
}
