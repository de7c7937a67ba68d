/* find.c - a profile by what users call it: see store.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sonde/sonde.h"
#include "store/store.h"

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

int sonde_store_name_check(const char *name, struct sonde_err *err)
{
    const size_t len = strlen(name);
    if (!len || len > SONDE_PROFILE_NAME_MAX || strspn(name, DIGITS LETTERS "._-") != len) {
        return sonde_err_set(err, SONDE_EINVAL, "\"%.80s\" is no name: 1 to %d letters, digits and "
                             ". _ -", name, SONDE_PROFILE_NAME_MAX);
    }
    if (!strpbrk(name, LETTERS)) {
        return sonde_err_set(err, SONDE_EINVAL, "\"%.80s\" is no name: without a letter it would "
                             "be an id, or a time", name);
    }
    return 0;
}

struct finding {
    const char *text;
    uint64_t id;          /* 0 = it is none */
    int found;
    struct sonde_store_found *out;
};

static int is_time(const char *text, double start_s)
{
    const time_t start = (time_t)start_s;
    char id[64];
    struct tm tm;
    return gmtime_r(&start, &tm) && strftime(id, sizeof(id), "prof_%Y%m%d_%H%M%S", &tm) &&
           !strcmp(id, text);
}

static void store_find_look(const struct sonde_store_profile *p, void *arg)
{
    struct finding *f = arg;
    /* Newest first: the first one is it. */
    if (f->found) return;
    if (f->id ? p->id != f->id : strcmp(p->name, f->text) && !is_time(f->text, p->start_s)) return;
    f->found = 1;
    *f->out = (struct sonde_store_found){ .id = p->id, .start_s = p->start_s, .end_s = p->end_s,
                                          .samples = p->samples, .bytes = p->bytes };
    snprintf(f->out->name, sizeof(f->out->name), "%s", p->name);
    snprintf(f->out->kind, sizeof(f->out->kind), "%s", p->kind);
    snprintf(f->out->program, sizeof(f->out->program), "%s", p->program);
}

int sonde_store_profile_find(const struct sonde_store_ops *ops, struct sonde_store *s,
                             const char *text, struct sonde_store_found *out,
                             struct sonde_err *err)
{
    struct finding f = { .text = text, .out = out };
    const size_t len = strlen(text);
    if (len && len < 20 && strspn(text, DIGITS) == len) f.id = strtoull(text, NULL, 10);
    const int rc = ops->profiles(s, NULL, store_find_look, &f, err);
    if (rc) return rc;
    return f.found ? 0 : sonde_err_set(err, SONDE_ENOENT, "there is no profile \"%.100s\"", text);
}
