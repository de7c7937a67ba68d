/* otlp_name.c - names of OpenTelemetry as Prometheus has them: its specification "Prometheus and
 * OpenMetrics compatibility". */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "collect/ingest/otlp_private.h"

static const struct { const char *unit, *word; } units[] = {
    { "d", "days" }, { "h", "hours" }, { "min", "minutes" }, { "s", "seconds" },
    { "ms", "milliseconds" }, { "us", "microseconds" }, { "ns", "nanoseconds" },
    { "By", "bytes" }, { "KiBy", "kibibytes" }, { "MiBy", "mebibytes" }, { "GiBy", "gibibytes" },
    { "TiBy", "tibibytes" }, { "KBy", "kilobytes" }, { "MBy", "megabytes" }, { "GBy", "gigabytes" },
    { "TBy", "terabytes" }, { "m", "meters" }, { "V", "volts" }, { "A", "amperes" },
    { "J", "joules" }, { "W", "watts" }, { "g", "grams" }, { "Cel", "celsius" }, { "Hz", "hertz" },
    { "%", "percent" },
};
static const struct { const char *unit, *word; } per[] = {
    { "s", "second" }, { "m", "minute" }, { "h", "hour" }, { "d", "day" }, { "w", "week" },
    { "mo", "month" }, { "y", "year" },
};

/* Letters, digits and _, no two _ in a row, none at the end. */
static size_t otlp_name_put_clean(char *out, size_t at, size_t max, const char *text, size_t len,
                                  int colons)
{
    for (size_t i = 0; i < len && at + 1 < max; i++) {
        const char c = text[i];
        const int good = isalnum((unsigned char)c) || (colons && c == ':');
        if (good) out[at++] = c;
        else if (at && out[at - 1] != '_') out[at++] = '_';
        else if (!at && c == '_') out[at++] = '_';
    }
    while (at > 1 && out[at - 1] == '_') at--;
    out[at] = '\0';
    return at;
}

static const char *otlp_name_word_of(const char *unit, size_t len)
{
    for (size_t i = 0; i < SONDE_COUNT(units); i++) {
        if (strlen(units[i].unit) == len && !memcmp(units[i].unit, unit, len)) return units[i].word;
    }
    return NULL;
}

/* `By/s` is bytes_per_second; what is in braces is not a unit. */
static void unit_words(const char *unit, char *out, size_t max)
{
    char plain[64];
    size_t n = 0, depth = 0;
    for (const char *p = unit; *p && n + 1 < sizeof(plain); p++) {
        depth += *p == '{';
        if (!depth) plain[n++] = *p;
        depth -= *p == '}' && depth > 0;
    }
    plain[n] = '\0';
    out[0] = '\0';
    const char *slash = strchr(plain, '/');
    const size_t len = slash ? (size_t)(slash - plain) : n;
    const char *first = otlp_name_word_of(plain, len);
    size_t at = first ? otlp_name_put_clean(out, 0, max, first, strlen(first), 0)
                      : otlp_name_put_clean(out, 0, max, plain, len, 0);
    if (!slash || !slash[1]) return;
    const char *last = slash + 1;
    for (size_t i = 0; i < SONDE_COUNT(per); i++) {
        if (strcmp(per[i].unit, slash + 1) == 0) last = per[i].word;
    }
    at += (size_t)snprintf(out + at, max - at, "%sper_", at ? "_" : "");
    if (at < max) otlp_name_put_clean(out, at, max, last, strlen(last), 0);
}

static int ends_in_word(const char *name, const char *word)
{
    const size_t len = strlen(name), n = strlen(word);
    return len >= n && !strcmp(name + len - n, word) && (len == n || name[len - n - 1] == '_');
}

static void otlp_name_append(char out[OTLP_NAME_BYTES], const char *word)
{
    const size_t at = strlen(out);
    snprintf(out + at, OTLP_NAME_BYTES - at, "_%s", word);
}

void otlp_name(char out[OTLP_NAME_BYTES], const char *name, const char *unit, int monotonic,
               int gauge, const char **unit_out)
{
    static const char total[] = "_total";
    char words[80];
    *unit_out = "";
    /* Room for the unit, _total and what parts of histograms are called. */
    size_t at =
        otlp_name_put_clean(out, 0, OTLP_NAME_BYTES - sizeof(words) - 32, name, strlen(name), 1);
    if (isdigit((unsigned char)out[0])) {
        memmove(out + 1, out, at + 1);
        out[0] = '_';
        at++;
    }
    if (monotonic && at > sizeof(total) - 1 && !strcmp(out + at - sizeof(total) + 1, total)) {
        out[at - sizeof(total) + 1] = '\0';
    }
    if (strcmp(unit, "1") == 0) snprintf(words, sizeof(words), "%s", gauge ? "ratio" : "");
    else unit_words(unit, words, sizeof(words));
    if (words[0] && !ends_in_word(out, words)) otlp_name_append(out, words);
    for (size_t i = 0; words[0] && i < SONDE_COUNT(units); i++) {
        if (strcmp(words, units[i].word) == 0) *unit_out = units[i].word;
    }
    if (monotonic) otlp_name_append(out, "total");
}

void otlp_label_name(const char *name, size_t len, struct sonde_buf *out)
{
    if (len && isdigit((unsigned char)name[0])) sonde_buf_puts(out, "key_");
    for (size_t i = 0; i < len; i++) {
        sonde_buf_putc(out, isalnum((unsigned char)name[i]) ? name[i] : '_');
    }
}
