/* option.h - options of a command: one row each, and values that are checked. */
#ifndef ENGINE_CMD_OPTION_H
#define ENGINE_CMD_OPTION_H

#include <stddef.h>

enum option_kind {
    OPTION_FLAG,                 /* int *: 1 */
    OPTION_TEXT,                 /* const char ** */
    OPTION_U32,                  /* uint32_t *: from min to max */
    OPTION_U64,                  /* uint64_t *: any */
    OPTION_FLOAT,                /* float *: from min to max */
    OPTION_BYTES,                /* uint64_t *: "512MB", more than 0 */
    OPTION_LIST,                 /* struct option_list *: may be repeated */
};

enum { OPTION_LIST_MAX = 64 };
struct option_list { const char *items[OPTION_LIST_MAX]; size_t count; };

struct option_row {
    const char *name, *other;    /* "--threads", "-t"; other may be NULL */
    enum option_kind kind;
    void *to;
    double min, max;
    int *given;                  /* set to 1 if it is there; may be NULL */
};

/* 0, or what command_bad() returns: it has said which option or value is wrong. */
int option_read(int argc, char **argv, const struct option_row *rows, size_t count);

#endif
