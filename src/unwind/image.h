/* image.h - what executing a file would bring: which dynamic linker loads it, and whether
 * libsonde_preload can be put before its libraries. Both halves ask: the agent before it starts a
 * command, libsonde_preload before its program executes another. No allocation, no lock; system
 * calls that the new image's own dynamic linker makes too. */
#ifndef SONDE_UNWIND_IMAGE_H
#define SONDE_UNWIND_IMAGE_H

/* Why a library cannot be preloaded. The words follow "its program is …". */
#define SONDE__IMAGE_KINDS(X)                                                                  \
    X(SUITS, "fine")                                                                           \
    X(STATIC, "linked statically")                                                             \
    X(OTHER_LIBC, "loaded by another dynamic linker than sonde is (musl, another glibc)")      \
    X(OTHER_MACHINE, "built for another machine")                                              \
    X(ASAN, "built with AddressSanitizer, which must be loaded before anything else")          \
    X(UNREADABLE, "not readable")

enum sonde__image_kind {
#define SONDE__X(name, text) SONDE__IMAGE_##name,
    SONDE__IMAGE_KINDS(SONDE__X)
#undef SONDE__X
};

/* Remember which dynamic linker this process has, while paths mean what they meant when it was
 * started: before a chroot. Done with the first question otherwise. */
void sonde__image_start(void);

/* The file behind fd, or the interpreter that its first line names, and so on. fd stays open. */
enum sonde__image_kind sonde__image_look(int fd);

/* The same of a path; relative to dir, which may be AT_FDCWD. */
enum sonde__image_kind sonde__image_look_at(int dir, const char *path);

/* The file that execvp would execute, found in the PATH of this process as it does. 0, or -1: there
 * is none, or its path does not fit. */
int sonde__image_find(const char *name, char *out, unsigned long size);

#endif
