/* symbol_test.h - a folder to compile in, commands, and the answers of a job as a list. */
#ifndef SONDE_TEST_PROFILE_SYMBOL_SYMBOL_TEST_H
#define SONDE_TEST_PROFILE_SYMBOL_SYMBOL_TEST_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/symbol/symbol.h"
#include "unit/profile/symbol/symbol_programs.h"

static char folder[64];

static inline void must(int ok, const char *what)
{
    if (!ok) fail_msg("%s", what);
}

static inline const char *in_folder(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static inline void write_file(const char *name, const void *data, size_t len)
{
    FILE *f = fopen(in_folder(name), "w");
    must(f && fwrite(data, 1, len, f) == len, name);
    fclose(f);
}

static inline char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "r");
    must(f != NULL, path);
    char *data = NULL;
    *len = 0;
    for (size_t n = 1; n > 0; *len += n) {
        data = realloc(data, *len + 65537);
        n = fread(data + *len, 1, 65536, f);
    }
    data[*len] = '\0';
    fclose(f);
    return data;
}

/* In the folder; quiet. The exit status. */
static inline int try_run(const char *command)
{
    char line[4096];
    snprintf(line, sizeof(line), "cd %s && { %s; } >log 2>&1", folder, command);
    return system(line);
}

static inline void run(const char *command)
{
    if (try_run(command) == 0) return;
    size_t len;
    fail_msg("%s: %s", command, read_file(in_folder("log"), &len));
}

static inline int have(const char *tool)
{
    char line[256];
    snprintf(line, sizeof(line), "command -v %s", tool);
    return try_run(line) == 0;
}

static inline int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/sonde-symbols-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    unsetenv("DEBUGINFOD_URLS"); /* a test contacts nobody */
    write_file("p.c", program_c, sizeof(program_c) - 1);
    write_file("p.cpp", program_cpp, sizeof(program_cpp) - 1);
    return 0;
}

static inline int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static inline int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- Answers ------------------------------------------------------------------------------- */

struct answer {
    uint32_t count;
    struct { char *name, *file; uint32_t line, start_line; } frames[SONDE_SYMBOL_FRAMES_MAX];
};

struct answers {
    struct answer **by_index;
    size_t count, named;
};

static inline int keep_answer(void *arg, size_t index, const struct sonde_symbol_frame *frames,
                              uint32_t count)
{
    struct answers *a = arg;
    assert_true(index < a->count);
    assert_null(a->by_index[index]);
    assert_true(count > 0 && count <= SONDE_SYMBOL_FRAMES_MAX);
    struct answer *one = calloc(1, sizeof(*one));
    one->count = count;
    for (uint32_t i = 0; i < count; i++) {
        one->frames[i].name = strdup(frames[i].name);
        one->frames[i].file = strdup(frames[i].file);
        one->frames[i].line = frames[i].line;
        one->frames[i].start_line = frames[i].start_line;
    }
    a->by_index[index] = one;
    a->named++;
    return 0;
}

static inline void release_answers(struct answers *a)
{
    for (size_t i = 0; i < a->count; i++) {
        struct answer *one = a->by_index[i];
        for (uint32_t k = 0; one && k < one->count; k++) {
            free(one->frames[k].name);
            free(one->frames[k].file);
        }
        free(one);
    }
    free(a->by_index);
    *a = (struct answers){ 0 };
}

/* Resolve addresses as linked of one file, in this process. */
static inline struct answers answers_of(const char *path, const uint64_t *at, size_t count,
                                        const char *debug_root, uint32_t *flags)
{
    const struct sonde_module place = { .path = path, .build_id = "", .open_path = "" };
    const struct sonde_symbol_job job = { .kind = SONDE_SYMBOL_VADDR, .build_id = "",
                                          .places = &place, .place_count = 1, .at = at,
                                          .at_count = count, .debug_root = debug_root };
    struct answers a = { calloc(count, sizeof(*a.by_index)), count, 0 };
    assert_int_equal(sonde_symbol_resolve(&job, keep_answer, &a, flags), 0);
    return a;
}

/* The address of a symbol, by nm. */
static inline uint64_t address_of(const char *program, const char *symbol)
{
    char line[512], name[300];
    unsigned long long addr = 0, found = 0;
    snprintf(line, sizeof(line), "nm %s/%s", folder, program);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%llx %*c %299s", &addr, name) == 2 && !strcmp(name, symbol)) found = addr;
    }
    pclose(f);
    must(found != 0, symbol);
    return found;
}

#endif
