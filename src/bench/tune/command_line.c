/* command_line.c - see knobs.h: the command line of a setting. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"
#include "bench/tune/knobs.h"
#include "sonde/sonde.h"

enum { WORD_MAX = 1 << 20 };

struct tune_line {
    char **words;       /* owned */
    size_t count, cap;
    int error;
};

static void line_add(struct tune_line *l, const char *word)
{
    char *copy = sonde__strdup(word);
    char **slot = copy ? SONDE_ARRAY_ADD(l->words, l->count, l->cap) : NULL;
    if (!slot) {
        sonde__free(copy);
        l->error = SONDE_ENOMEM;
        return;
    }
    *slot = copy;
}

static void line_remove(struct tune_line *l, size_t at, size_t n)
{
    for (size_t i = at; i < at + n && i < l->count; i++) sonde__free(l->words[i]);
    if (at + n > l->count) n = l->count - at;
    memmove(l->words + at, l->words + at + n, (l->count - at - n) * sizeof(*l->words));
    l->count -= n;
}

static void line_replace(struct tune_line *l, size_t at, const char *word)
{
    char *copy = sonde__strdup(word);
    if (!copy) {
        l->error = SONDE_ENOMEM;
        return;
    }
    sonde__free(l->words[at]);
    l->words[at] = copy;
}

/* {NAME} to text in all words but the program's own. */
static void line_fill(struct tune_line *l, const char *name, const char *text)
{
    char place[SONDE_TUNE_NAME_MAX + 3];
    struct sonde_buf b;
    snprintf(place, sizeof(place), "{%s}", name);
    sonde_buf_init(&b, WORD_MAX);
    for (size_t i = 1; i < l->count; i++) {
        const char *at = l->words[i], *found = strstr(at, place);
        if (!found) continue;
        sonde_buf_reset(&b);
        for (; found; found = strstr(at, place)) {
            sonde_buf_add(&b, at, (size_t)(found - at));
            sonde_buf_puts(&b, text);
            at = found + strlen(place);
        }
        sonde_buf_puts(&b, at);
        if (b.error) l->error = b.error;
        else line_replace(l, i, b.data);
    }
    sonde_buf_release(&b);
}

/* Which of the option's names a word is; -1 = none. *rest: behind '='; NULL = it is the next
 * word. */
static int line_name(const struct sonde_tune_option *o, const char *word, const char **rest)
{
    for (size_t n = 0; n < o->name_count; n++) {
        const size_t len = strlen(o->names[n]);
        if (strncmp(word, o->names[n], len) != 0 || (word[len] && word[len] != '=')) continue;
        *rest = word[len] ? word + len + 1 : NULL;
        return (int)n;
    }
    return -1;
}

/* The longest name is the one that reads best. */
static const char *line_best_name(const struct sonde_tune_option *o, const char *off)
{
    const char *best = NULL;
    for (size_t n = 0; n < o->name_count; n++) {
        if (off && !strcmp(o->names[n], off)) continue;
        if (!best || (!strncmp(o->names[n], "--", 2) && strncmp(best, "--", 2) != 0)) {
            best = o->names[n];
        }
    }
    return best;
}

static void line_set_option(struct tune_line *l, const struct sonde_tune_option *o,
                            const char *level, const char *unsaid)
{
    int found = 0;
    const int gone = !strcmp(level, SONDE_TUNE_LEVEL_DEFAULT);
    for (size_t i = 1; i < l->count && !l->error; i++) {
        const char *rest;
        const int n = line_name(o, l->words[i], &rest);
        if (n < 0) continue;
        if (gone) {
            line_remove(l, i, rest ? 1 : 2);
            i--;
            continue;
        }
        found = 1;
        if (rest) {
            char word[SONDE_TUNE_OPTION_NAME_MAX + SONDE_TUNE_NAME_MAX + 3];
            snprintf(word, sizeof(word), "%s=%s", o->names[n], level);
            line_replace(l, i, word);
        } else if (i + 1 < l->count) {
            line_replace(l, ++i, level);
        }
    }
    if (found || gone || !strcmp(level, unsaid)) return;
    line_add(l, line_best_name(o, NULL));
    line_add(l, level);
}

static void line_set_flag(struct tune_line *l, const struct sonde_tune_setter *s, const char *level)
{
    const char *rest;
    for (size_t i = 1; i < l->count; i++) {
        if (line_name(&s->options[0], l->words[i], &rest) < 0) continue;
        line_remove(l, i, 1);
        i--;
    }
    if (!strcmp(level, s->unsaid)) return;
    const char *word = !strcmp(level, "off") ? s->off : line_best_name(&s->options[0], s->off);
    if (word && word[0]) line_add(l, word);
}

static void line_set_port(struct tune_line *l, const struct sonde_tune_knobs_options *o,
                          uint16_t port)
{
    uint16_t said;
    char text[32];
    snprintf(text, sizeof(text), "%u", port);
    line_fill(l, "port", text);
    if (!port || sonde_tune_says_port(o->argv, o->argc, &said)) return;
    if (sonde_tune_help_find(o->known, "--port")) {
        line_add(l, "--port");
        line_add(l, text);
    } else if (sonde_tune_help_find(o->known, "--listen")) {
        snprintf(text, sizeof(text), "127.0.0.1:%u", port);
        line_add(l, "--listen");
        line_add(l, text);
    }
}

char **sonde_tune_argv(const struct sonde_tune_knobs *k, const struct sonde_tune_knobs_options *o,
                       uint32_t point, uint16_t port, char cpus[SONDE_TUNE_NAME_MAX + 1])
{
    struct tune_line l = { .words = NULL };
    uint8_t levels[SONDE_TUNE_KNOBS_MAX];
    cpus[0] = 0;
    sonde_tune_levels(&k->space, point, levels);
    for (size_t i = 0; i < o->argc; i++) line_add(&l, o->argv[i]);
    for (size_t i = 0; i < k->space.knob_count && !l.error; i++) {
        const struct sonde_tune_setter *s = &k->setters[i];
        const char *level = k->space.knobs[i].levels[levels[i]];
        if (s->given && levels[i] == k->space.knobs[i].start) continue; /* as the command has it */
        switch (s->way) {
        case SONDE_TUNE_BY_PLACE:
            line_fill(&l, k->space.knobs[i].name, level);
            break;
        case SONDE_TUNE_BY_OPTION:
            line_set_option(&l, &s->options[0], level, s->unsaid);
            if (s->options[1].name_count) line_set_option(&l, &s->options[1], level, s->unsaid);
            break;
        case SONDE_TUNE_BY_FLAG:
            line_set_flag(&l, s, level);
            break;
        case SONDE_TUNE_BY_CPUS:
            if (strcmp(level, SONDE_TUNE_LEVEL_NOT_PINNED) != 0) {
                snprintf(cpus, SONDE_TUNE_NAME_MAX + 1, "%s", level);
            }
            break;
        }
    }
    line_set_port(&l, o, port);
    char **last = l.error ? NULL : SONDE_ARRAY_ADD(l.words, l.count, l.cap);
    if (!last) {
        for (size_t i = 0; i < l.count; i++) sonde__free(l.words[i]);
        sonde__free(l.words);
        return NULL;
    }
    *last = NULL;
    return l.words;
}

void sonde_tune_argv_free(char **argv)
{
    for (size_t i = 0; argv && argv[i]; i++) sonde__free(argv[i]);
    sonde__free(argv);
}

static int line_port(const char *text, uint16_t *port)
{
    char *end;
    const long v = strtol(text, &end, 10);
    if (end == text || *end || v < 1 || v > 65535) return 0;
    *port = (uint16_t)v;
    return 1;
}

int sonde_tune_says_port(char *const *argv, size_t argc, uint16_t *port)
{
    *port = 0;
    for (size_t i = 1; i < argc; i++) {
        if (strstr(argv[i], "{port}")) return 1;
        const char *value = !strncmp(argv[i], "--port=", 7) ? argv[i] + 7
                            : !strncmp(argv[i], "--listen=", 9) ? argv[i] + 9
                            : i + 1 < argc && (!strcmp(argv[i], "--port") ||
                                               !strcmp(argv[i], "--listen")) ? argv[i + 1] : NULL;
        if (!value) continue;
        const char *colon = strrchr(value, ':');
        if (strstr(value, "{port}") || line_port(colon ? colon + 1 : value, port)) return 1;
    }
    return 0;
}
