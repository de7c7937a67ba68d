/* option_help.c - see option_help.h. */
#include "bench/tune/option_help.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"
#include "sonde/sonde.h"

#define INDENT_MAX 8u            /* of a line that begins an option */
#define DETAILS_MAX ((size_t)8 << 10) /* bytes kept of what an option does */

static int help_begins_name(const char *at, const char *end)
{
    return end - at > 1 && at[0] == '-' && (isalpha((unsigned char)at[1]) || at[1] == '-');
}

static size_t help_blanks(const char *at, const char *end)
{
    size_t n = 0;
    while (at + n < end && (at[n] == ' ' || at[n] == '\t')) n += at[n] == '\t' ? 8 : 1;
    return n;
}

static void help_copy(char *out, size_t size, const char *from, size_t len)
{
    snprintf(out, size, "%.*s", (int)(len < size ? len : size - 1), from);
}

/* "--threads", "--threads=N", "--color[=WHEN]" */
static void help_take_name(struct sonde_tune_option *o, const char *word, size_t len)
{
    size_t name = 0;
    while (name < len && word[name] != '=' && word[name] != '[') name++;
    if (o->name_count < SONDE_TUNE_OPTION_NAMES_MAX && name <= SONDE_TUNE_OPTION_NAME_MAX) {
        help_copy(o->names[o->name_count++], sizeof(o->names[0]), word, name);
    }
    if (name < len && !o->value[0]) {
        help_copy(o->value, sizeof(o->value), word + name, len - name);
    }
}

/* Names and value of a line that begins an option; returns where its text begins. */
static const char *help_take_names(struct sonde_tune_option *o, const char *at, const char *end)
{
    for (int named = 0;;) {
        const char *word = at;
        /* A value may hold blanks between brackets: "[on | off]". */
        int depth = 0;
        while (at < end && (depth > 0 || (*at != ' ' && *at != '\t'))) {
            depth += (*at == '[' || *at == '{' || *at == '<') - (*at == ']' || *at == '}' || *at ==
                      '>');
            if (depth < 0) depth = 0;
            at++;
        }
        size_t len = (size_t)(at - word);
        const int comma = len && word[len - 1] == ',';
        if (comma) len--;
        if (help_begins_name(word, word + len)) {
            help_take_name(o, word, len);
            named = 1;
        } else {
            if (!o->value[0]) help_copy(o->value, sizeof(o->value), word, len);
            named = 0;
        }
        const size_t blanks = help_blanks(at, end);
        const char *next = at;
        while (next < end && (*next == ' ' || *next == '\t')) next++;
        const int more = next < end && (comma || blanks == 1) &&
                         (help_begins_name(next, end) || (named && blanks == 1 && !comma));
        if (!more) return next;
        at = next;
    }
}

/* A word of what an option does, quotes and punctuation stripped. */
static void help_take_preset(struct sonde_tune_option *o, const char *from)
{
    while (*from == ' ' || *from == ':' || *from == '=') from++;
    const char quote = *from == '\'' || *from == '"' || *from == '`' ? *from++ : 0;
    const size_t len = quote ? strcspn(from, (char[]){ quote, 0 }) : strcspn(from, " ,);]");
    if (!quote && len && strncmp(from, "same", 4) == 0) return; /* "same as --threads" */
    help_copy(o->preset, sizeof(o->preset), from, len);
}

static void help_take_details(struct sonde_tune_option *o, const char *text)
{
    const char *at = strstr(text, "default");
    if (at) {
        at += strlen("default");
        if (!strncmp(at, "s to", 4)) at += 4;
        if (*at == ':' || *at == ' ' || *at == '=') help_take_preset(o, at);
    } else if ((at = strrchr(text, '(')) && isdigit((unsigned char)at[1]) &&
               at[1 + strspn(at + 1, "0123456789.")] == ')') {
        help_copy(o->preset, sizeof(o->preset), at + 1, strspn(at + 1, "0123456789."));
    }
    at = strstr(text, "allowed values:");
    if (at) {
        at += strlen("allowed values:");
        at += strspn(at, " ");
        help_copy(o->choices, sizeof(o->choices), at, strcspn(at, "("));
    }
}

int sonde_tune_help_parse(const char *text, size_t len, struct sonde_tune_options_known *out)
{
    const char *at = text, *end = text + len;
    struct sonde_tune_option *o = NULL;
    struct sonde_buf details;
    int rc = 0;
    sonde_buf_init(&details, DETAILS_MAX);
    while (at < end && !rc) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        const size_t blanks = help_blanks(at, stop);
        const char *word = at;
        while (word < stop && (*word == ' ' || *word == '\t')) word++;
        const int begins = blanks <= INDENT_MAX && help_begins_name(word, stop) &&
                           strncmp(word, "---", 3) != 0;
        if (begins || word == stop || (blanks <= INDENT_MAX && o)) {
            if (o && details.len) help_take_details(o, details.data);
            sonde_buf_reset(&details);
            o = NULL;
        }
        if (begins) {
            rc = SONDE_ARRAY_ROOM_MAX(out->options, out->count, out->cap, SONDE_TUNE_OPTIONS_MAX);
            if (rc) break;
            o = &out->options[out->count++];
            memset(o, 0, sizeof(*o));
            word = help_take_names(o, word, stop);
        }
        if (o && word < stop) {
            if (details.len) sonde_buf_putc(&details, ' ');
            sonde_buf_add(&details, word, (size_t)(stop - word));
        }
        at = stop < end ? stop + 1 : end;
    }
    if (o && details.len) help_take_details(o, details.data);
    sonde_buf_release(&details);
    if (rc) sonde_tune_help_release(out);
    return rc;
}

void sonde_tune_help_release(struct sonde_tune_options_known *k)
{
    sonde__free(k->options);
    memset(k, 0, sizeof(*k));
}

const struct sonde_tune_option *sonde_tune_help_find(const struct sonde_tune_options_known *k,
                                                     const char *name)
{
    for (size_t i = 0; i < k->count; i++) {
        for (size_t n = 0; n < k->options[i].name_count; n++) {
            if (!strcmp(k->options[i].names[n], name)) return &k->options[i];
        }
    }
    return NULL;
}

int sonde_tune_help_allows(const struct sonde_tune_option *o, const char *word)
{
    const size_t len = strlen(word);
    const char *const lists[] = { o->choices, o->value };
    for (size_t i = 0; i < SONDE_COUNT(lists); i++) {
        for (const char *at = lists[i]; *at;) {
            at += strspn(at, " ,|[]{}<>=");
            const size_t n = strcspn(at, " ,|[]{}<>=");
            if (n && n == len && !memcmp(at, word, len)) return 1;
            at += n;
        }
    }
    return 0;
}
