/* words.c - commands from text: words as a shell would see them, without a shell in between, or the
 * whole text for one. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/cmd/timing.h"
#include "sonde/sonde.h"

void sonde_timing_words_free(char **argv)
{
    for (char **a = argv; a && *a; a++) sonde__free(*a);
    sonde__free(argv);
}

/* One word from *at on into out, which is as long as the text. */
static int words_next(const char **at, char *out, struct sonde_err *err)
{
    char quote = 0;
    const char *s = *at;
    for (; *s && (quote || !isspace((unsigned char)*s)); s++) {
        if (quote == '\'' ? *s == '\'' : quote && *s == '"') {
            quote = 0;
        } else if (!quote && (*s == '\'' || *s == '"')) {
            quote = *s;
        } else if (*s == '\\' && quote != '\'' && (!quote || (s[1] && strchr("\"\\$`", s[1])))) {
            if (!s[1]) break;
            *out++ = *++s;
        } else if ((!quote && strchr("|&;<>()$`*?[#~", *s)) || (quote == '"' && strchr("$`", *s))) {
            return sonde_err_set(err, SONDE_EINVAL, "'%c' needs a shell: leave --shell none out, "
                                 "or put it in single quotes", *s);
        } else {
            *out++ = *s;
        }
    }
    *out = '\0';
    if (quote || *s == '\\') {
        return sonde_err_set(err, SONDE_EINVAL, "the command ends inside of %s",
                             quote ? "a quote" : "a backslash");
    }
    *at = s;
    return 0;
}

int sonde_timing_words(const char *text, char ***argv, struct sonde_err *err)
{
    char *word = sonde__alloc(strlen(text) + 1);
    char **words = sonde__calloc(SONDE_TIMING_WORDS_MAX + 1, sizeof(*words));
    size_t count = 0;
    int rc = word && words ? 0 : sonde_err_memory(err);
    while (!rc) {
        while (isspace((unsigned char)*text)) text++;
        if (!*text) break;
        if (count == SONDE_TIMING_WORDS_MAX) {
            rc = sonde_err_set(err, SONDE_EINVAL, "a command has more than %u words",
                               SONDE_TIMING_WORDS_MAX);
        }
        if (!rc) rc = words_next(&text, word, err);
        if (!rc) {
            words[count] = sonde__strdup(word);
            rc = words[count] ? 0 : sonde_err_memory(err);
            count++;
        }
    }
    if (!rc && !count) rc = sonde_err_set(err, SONDE_EINVAL, "a command is empty");
    sonde__free(word);
    if (rc) sonde_timing_words_free(words);
    else *argv = words;
    return rc;
}

static void words_name(struct sonde_timing_command *c, const char *name, const char *text)
{
    const char *from = name ? name : text;
    size_t len = strlen(from);
    if (len <= SONDE_TIMING_NAME_MAX) {
        memcpy(c->name, from, len + 1);
        return;
    }
    /* Not in the middle of a character. */
    len = SONDE_TIMING_NAME_MAX - 3;
    while (len && ((unsigned char)from[len] & 0xc0) == 0x80) len--;
    memcpy(c->name, from, len);
    memcpy(c->name + len, "...", 4);
}

int sonde_timing_command_words(struct sonde_timing_command *c, const char *name, const char *text,
                               char *const *words, struct sonde_err *err)
{
    size_t count = 0;
    memset(c, 0, sizeof(*c));
    while (words[count]) count++;
    c->text = text;
    words_name(c, name, text);
    c->argv = sonde__calloc(count + 1, sizeof(*c->argv));
    if (!c->argv) return sonde_err_memory(err);
    for (size_t i = 0; i < count; i++) {
        c->argv[i] = sonde__strdup(words[i]);
        if (!c->argv[i]) return sonde_err_memory(err);
    }
    return sonde_spawn_find(c->argv[0], &c->path, err);
}

int sonde_timing_command_init(struct sonde_timing_command *c, const char *name, const char *text,
                              int shell, struct sonde_err *err)
{
    char **words = NULL;
    memset(c, 0, sizeof(*c));
    if (shell) {
        if (!text[strspn(text, " \t\n")]) {
            return sonde_err_set(err, SONDE_EINVAL, "a command is empty");
        }
        const char *const line[] = { "sh", "-c", text, NULL };
        char *const *words_of = (char *const *)(uintptr_t)line;
        const int rc = sonde_timing_command_words(c, name, text, words_of, err);
        c->shell = 1;
        return rc;
    }
    int rc = sonde_timing_words(text, &words, err);
    if (!rc) rc = sonde_timing_command_words(c, name, text, words, err);
    sonde_timing_words_free(words);
    return rc;
}

void sonde_timing_command_release(struct sonde_timing_command *c)
{
    sonde_timing_words_free(c->argv);
    sonde__free(c->path);
    memset(c, 0, sizeof(*c));
}
