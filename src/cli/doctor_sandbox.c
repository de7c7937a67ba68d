/* doctor_sandbox.c - seccomp filters: does a program install one, has a process one, and which
 * calls it has to allow. What a program may do is told by what it refers to; see
 * docs/sandbox.md. */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "segment/calls.h"

#define CALL_NAME(name, ...) " " #name
static const char needed[] = "a filter that kills should allow" SONDE__CALLS(CALL_NAME)
                             " (docs/sandbox.md); else sonde falls silent before it holds";

enum { INSTALLS_NONE, INSTALLS_PERHAPS, INSTALLS_SURELY, INSTALLS_UNKNOWN };

struct refers {
    int how;                 /* INSTALLS_… */
    char name[64];           /* by what */
};

static void doctor_sandbox_refer(struct refers *r, int how, const char *name)
{
    if (how <= r->how) return;
    r->how = how;
    snprintf(r->name, sizeof(r->name), "%s", name);
}

static void look_symbols(struct refers *r, Elf *elf, Elf_Scn *section, const GElf_Shdr *head)
{
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Sym sym;
    if (!data || !head->sh_entsize) return;
    const size_t count = head->sh_size / head->sh_entsize;
    for (size_t i = 1; i < count && i < INT32_MAX && gelf_getsym(data, (int)i, &sym); i++) {
        if (sym.st_shndx != SHN_UNDEF) continue;
        const char *name = elf_strptr(elf, head->sh_link, sym.st_name);
        if (!name) continue;
        if (!strcmp(name, "seccomp_load")) doctor_sandbox_refer(r, INSTALLS_SURELY, "libseccomp");
        else if (!strcmp(name, "prctl") || !strcmp(name, "syscall"))
            doctor_sandbox_refer(r, INSTALLS_PERHAPS, name);
    }
}

static int doctor_sandbox_look_program(struct refers *r, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    Elf_Scn *section = NULL;
    GElf_Shdr head;
    int dynamic = 0;
    if (fd < 0) return -1;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    const int is_elf = elf && elf_kind(elf) == ELF_K_ELF;
    while (is_elf && (section = elf_nextscn(elf, section)) != NULL) {
        if (!gelf_getshdr(section, &head) || head.sh_type != SHT_DYNSYM) continue;
        dynamic = 1;
        look_symbols(r, elf, section, &head);
    }
    if (is_elf && !dynamic) r->how = INSTALLS_UNKNOWN;
    elf_end(elf);
    close(fd);
    if (!is_elf) {
        errno = ENOEXEC;
        return -1;
    }
    return 0;
}

static void tell_program(struct sonde_doctor *d)
{
    struct refers r = { INSTALLS_NONE, "" };
    if (doctor_sandbox_look_program(&r, d->target) != 0) {
        if (errno == ENOEXEC) {
            sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s is not a program of its own: what its "
                             "interpreter does is not known", d->target);
        }
        return; /* that it cannot be read the next check says */
    }
    switch (r.how) {
    case INSTALLS_SURELY:
        sonde_doctor_add(d, SONDE_DOCTOR_WARN, needed, "%s gives up system calls, by %s", d->target,
                         r.name);
        break;
    case INSTALLS_PERHAPS:
        sonde_doctor_add(d, SONDE_DOCTOR_OK, needed, "%s may give up system calls: it refers to "
                         "%s, which has other uses too", d->target, r.name);
        break;
    case INSTALLS_UNKNOWN:
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s is static: whether it gives up system calls "
                         "is not known, and nothing of sonde's is loaded into it", d->target);
        break;
    default:
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s does not give up system calls itself",
                         d->target);
    }
}

/* "Seccomp:\t2" in /proc/PID/status; -1 = not known. */
static int mode_of(const char *pid)
{
    char path[64], line[256];
    int mode = -1;
    snprintf(path, sizeof(path), "/proc/%.20s/status", pid);
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    while (mode < 0 && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "Seccomp: %d", &mode) != 1) mode = -1;
    }
    fclose(f);
    return mode;
}

void sonde_doctor_sandbox(struct sonde_doctor *d)
{
    const int is_process = d->target && strspn(d->target, "0123456789") == strlen(d->target);
    if (d->target && !is_process) {
        tell_program(d);
        return;
    }
    const int mode = mode_of(is_process ? d->target : "self");
    if (mode < 0) {
        if (!is_process) {
            sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL,
                             "the kernel does not say whether there is a seccomp filter");
        }
    } else if (is_process) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, mode ? needed : NULL, "%s has %s", d->target,
                         mode ? "given up system calls" : "no seccomp filter");
    } else {
        sonde_doctor_add(
            d, SONDE_DOCTOR_OK, mode ? needed : NULL,
            mode ? "programs that are started here have a seccomp filter already, which is "
                   "not looked at"
                 : "no seccomp filter here; `sonde doctor PROGRAM|PID` says whether that has one");
    }
}
