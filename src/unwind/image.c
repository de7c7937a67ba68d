/* image.c - see image.h.
 *
 * A library that is named in LD_PRELOAD is loaded by whichever dynamic linker the new program
 * names. Ours needs the C library that it was built with: musl's linker ends a program whose
 * library lacks a symbol, and so does a glibc that is older. Which one it will be is known from the
 * file alone, so the rule is simple: it must be the very file that loaded this process. */
#include "unwind/image.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unwind/arch_x86_64.h"

enum {
    SCRIPTS_MAX = 5,     /* scripts that are interpreted by scripts: the kernel's own limit */
    LINE_MAX_ = 256,     /* of a script's first line that the kernel looks at */
    LINKER_MAX = 512,
    HEADERS_MAX = 64,
    ENTRIES_MAX = 1024,  /* of the dynamic section */
    ENTRIES_AT_ONCE = 32
};

static int unwind_image_read_at(int fd, void *out, size_t size, uint64_t offset)
{
    if (offset > INT64_MAX) return -1;
    return pread(fd, out, size, (off_t)offset) == (ssize_t)size ? 0 : -1;
}

/* ---- Our own dynamic linker ----------------------------------------------------------------- */

static struct {
    int known;
    dev_t dev;
    ino_t ino;
} own;

/* As the program's own headers name it; one that was started in some other way has the usual
 * one. */
static const char *own_linker(void)
{
    const Elf64_Phdr *headers = (const Elf64_Phdr *)getauxval(AT_PHDR);
    const unsigned long count = getauxval(AT_PHNUM);
    const Elf64_Phdr *itself = NULL, *linker = NULL;
    for (unsigned long i = 0; headers && i < count; i++) {
        if (headers[i].p_type == PT_PHDR) itself = &headers[i];
        if (headers[i].p_type == PT_INTERP) linker = &headers[i];
    }
    if (!itself || !linker) return SONDE__ARCH_LINKER;
    return (const char *)((uintptr_t)headers - itself->p_vaddr + linker->p_vaddr);
}

void sonde__image_start(void)
{
    struct stat st;
    if (own.known || stat(own_linker(), &st)) return;
    own.dev = st.st_dev;
    own.ino = st.st_ino;
    own.known = 1;
}

static int is_own_linker(const char *path)
{
    struct stat st;
    sonde__image_start();
    return own.known && !stat(path, &st) && st.st_dev == own.dev && st.st_ino == own.ino;
}

/* ---- A program ------------------------------------------------------------------------------- */

struct unwind_image_program {
    int fd;
    Elf64_Phdr headers[HEADERS_MAX];
    uint32_t count;
};

static const Elf64_Phdr *header_of(const struct unwind_image_program *p, uint32_t type)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->headers[i].p_type == type) return &p->headers[i];
    }
    return NULL;
}

/* Where in the file an address is; 0 = nowhere. */
static uint64_t offset_of(const struct unwind_image_program *p, uint64_t address)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const Elf64_Phdr *h = &p->headers[i];
        if (h->p_type == PT_LOAD && address >= h->p_vaddr && address - h->p_vaddr < h->p_filesz) {
            return h->p_offset + (address - h->p_vaddr);
        }
    }
    return 0;
}

static int begins_like_asan(const struct unwind_image_program *p, uint64_t offset)
{
    static const char *const begins[] = { "libasan.so", "libclang_rt.asan" };
    char name[17] = "";
    if (pread(p->fd, name, sizeof(name) - 1, (off_t)offset) < 10) return 0;
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        if (!strncmp(name, begins[i], strlen(begins[i]))) return 1;
    }
    return 0;
}

/* One pass over the dynamic section: the address of its strings, or, with that known, whether a
 * library of ASan is among those it needs. */
static uint64_t dynamic_pass(const struct unwind_image_program *p, const Elf64_Phdr *d,
                             uint64_t strings)
{
    Elf64_Dyn entries[ENTRIES_AT_ONCE];
    uint64_t left = d->p_filesz / sizeof(entries[0]), at = d->p_offset;
    if (left > ENTRIES_MAX) left = ENTRIES_MAX;
    while (left) {
        const uint64_t n = left < ENTRIES_AT_ONCE ? left : ENTRIES_AT_ONCE;
        if (unwind_image_read_at(p->fd, entries, n * sizeof(entries[0]), at)) return 0;
        for (uint64_t i = 0; i < n; i++) {
            const Elf64_Dyn *e = &entries[i];
            if (e->d_tag == DT_NULL) return 0;
            if (!strings && e->d_tag == DT_STRTAB) return offset_of(p, e->d_un.d_ptr);
            if (strings && e->d_tag == DT_NEEDED && begins_like_asan(p, strings + e->d_un.d_val)) {
                return 1;
            }
        }
        at += n * sizeof(entries[0]);
        left -= n;
    }
    return 0;
}

static enum sonde__image_kind program_look(int fd, const Elf64_Ehdr *e)
{
    struct unwind_image_program p = { .fd = fd, .count = e->e_phnum };
    char linker[LINKER_MAX];
    if (e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_ident[EI_DATA] != ELFDATA2LSB ||
        e->e_machine != SONDE__ARCH_ELF_MACHINE) {
        return SONDE__IMAGE_OTHER_MACHINE;
    }
    if (e->e_phentsize != sizeof(p.headers[0]) || p.count > HEADERS_MAX ||
        unwind_image_read_at(fd, p.headers, p.count * sizeof(p.headers[0]), e->e_phoff)) {
        return SONDE__IMAGE_UNREADABLE;
    }
    const Elf64_Phdr *interp = header_of(&p, PT_INTERP), *dynamic = header_of(&p, PT_DYNAMIC);
    if (!interp) return SONDE__IMAGE_STATIC;
    if (!interp->p_filesz || interp->p_filesz > sizeof(linker) ||
        unwind_image_read_at(fd, linker, interp->p_filesz, interp->p_offset) ||
        linker[interp->p_filesz - 1]) {
        return SONDE__IMAGE_UNREADABLE;
    }
    if (!is_own_linker(linker)) return SONDE__IMAGE_OTHER_LIBC;
    const uint64_t strings = dynamic ? dynamic_pass(&p, dynamic, 0) : 0;
    return strings && dynamic_pass(&p, dynamic, strings) ? SONDE__IMAGE_ASAN : SONDE__IMAGE_SUITS;
}

/* ---- Any file -------------------------------------------------------------------------------- */

/* The interpreter in a script's first line, cut out of it; NULL = it is not a script. */
static char *script_interpreter(char *line, size_t len)
{
    if (len < 3 || line[0] != '#' || line[1] != '!') return NULL;
    line[len < LINE_MAX_ ? len : LINE_MAX_ - 1] = '\0';
    char *name = line + 2 + strspn(line + 2, " \t");
    name[strcspn(name, " \t\n")] = '\0';
    return *name ? name : NULL;
}

static enum sonde__image_kind unwind_image_look(int fd, int scripts)
{
    union {
        char text[LINE_MAX_];
        Elf64_Ehdr elf;
    } head;
    const ssize_t n = pread(fd, &head, sizeof(head), 0);
    if (n < 0) return SONDE__IMAGE_UNREADABLE;
    if ((size_t)n >= sizeof(head.elf) && !memcmp(head.elf.e_ident, ELFMAG, SELFMAG)) {
        return program_look(fd, &head.elf);
    }
    const char *interpreter = script_interpreter(head.text, (size_t)n);
    /* Without such a line it is for the shell, if whoever executes it asks one. */
    if (!interpreter) interpreter = "/bin/sh";
    if (scripts == SCRIPTS_MAX) return SONDE__IMAGE_UNREADABLE;
    const int next = open(interpreter, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (next < 0) return SONDE__IMAGE_UNREADABLE;
    const enum sonde__image_kind kind = unwind_image_look(next, scripts + 1);
    close(next);
    return kind;
}

enum sonde__image_kind sonde__image_look(int fd) { return unwind_image_look(fd, 0); }

enum sonde__image_kind sonde__image_look_at(int dir, const char *path)
{
    struct stat st;
    const int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return SONDE__IMAGE_UNREADABLE;
    const enum sonde__image_kind kind =
        fstat(fd, &st) || !S_ISREG(st.st_mode) ? SONDE__IMAGE_UNREADABLE : unwind_image_look(fd, 0);
    close(fd);
    return kind;
}

static int unwind_image_is_program(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

int sonde__image_find(const char *name, char *out, unsigned long size)
{
    const size_t name_len = strlen(name);
    if (strchr(name, '/')) {
        if (name_len >= size) return -1;
        memcpy(out, name, name_len + 1);
        return unwind_image_is_program(out) ? 0 : -1;
    }
    const char *dir = secure_getenv("PATH");
    for (dir = dir ? dir : "/bin:/usr/bin"; dir; dir = strchr(dir, ':')) {
        dir += *dir == ':';
        const size_t len = strcspn(dir, ":");
        if (len + name_len + 3 > size) continue;
        memcpy(out, dir, len);
        if (len) out[len] = '/';
        memcpy(out + len + (len != 0), name, name_len + 1);
        if (unwind_image_is_program(out)) return 0;
    }
    return -1;
}
