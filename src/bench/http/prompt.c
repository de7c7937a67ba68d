/* prompt.c - see prompt.h. */
#include "bench/http/prompt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sonde/sonde.h"

/* Short and common, so that most are one token with the blank before them in any vocabulary. 256,
 * so that one byte of a random number chooses. */
static const char prompt_words[256][9] = {
    "the", "of", "and", "to", "in", "is", "you", "that", "it", "he", "was", "for", "on", "are",
    "as", "with", "his", "they", "at", "be", "this", "have", "from", "or", "one", "had", "by",
    "word", "but", "not", "what", "all", "were", "we", "when", "your", "can", "said", "there",
    "use", "an", "each", "which", "she", "do", "how", "their", "if", "will", "up", "other",
    "about", "out", "many", "then", "them", "these", "so", "some", "her", "would", "make", "like",
    "him", "into", "time", "has", "look", "two", "more", "write", "go", "see", "number", "no",
    "way", "could", "people", "my", "than", "first", "water", "been", "call", "who", "oil", "its",
    "now", "find", "long", "down", "day", "did", "get", "come", "made", "may", "part", "over",
    "new", "sound", "take", "only", "little", "work", "know", "place", "year", "live", "me",
    "back", "give", "most", "very", "after", "thing", "our", "just", "name", "good", "sentence",
    "man", "think", "say", "great", "where", "help", "through", "much", "before", "line", "right",
    "too", "mean", "old", "any", "same", "tell", "boy", "follow", "came", "want", "show", "also",
    "around", "form", "three", "small", "set", "put", "end", "does", "another", "well", "large",
    "must", "big", "even", "such", "because", "turn", "here", "why", "ask", "went", "men", "read",
    "need", "land", "home", "us", "move", "try", "kind", "hand", "picture", "again", "change",
    "off", "play", "spell", "air", "away", "animal", "house", "point", "page", "letter", "mother",
    "answer", "found", "study", "still", "learn", "should", "world", "high", "every", "near",
    "add", "food", "between", "own", "below", "country", "plant", "last", "school", "father",
    "keep", "tree", "never", "start", "city", "earth", "eye", "light", "thought", "head", "under",
    "story", "saw", "left", "few", "while", "along", "might", "close", "seem", "next", "hard",
    "open", "example", "begin", "life", "always", "those", "both", "paper", "together", "got",
    "group", "often", "run", "side", "music", "state", "book", "four", "second", "white", "river",
    "north", "feet", "mile", "car",
};

/* ---- Lengths --------------------------------------------------------------------------------- */

/* "A<between>B" or "A" alone; how many there were, 0 = it is neither. */
static int prompt_numbers(const char *text, const char *between, double *a, double *b)
{
    char *end;
    if (strspn(text, "0123456789") == 0) return 0;
    *a = strtod(text, &end);
    /* "64..512": strtod takes the first point for its own. */
    if (end > text && end[-1] == '.' && between[0] == '.') end--;
    if (!*end) return 1;
    const size_t len = strlen(between);
    if (strncmp(end, between, len) || strspn(end + len, "0123456789.") != strlen(end + len)) {
        return 0;
    }
    const char *second = end + len;
    *b = strtod(second, &end);
    return end > second && !*end ? 2 : 0;
}

int sonde_load_length_parse(const char *text, struct sonde_load_length *out, struct sonde_err *err)
{
    struct sonde_load_length l = { SONDE_LOAD_LENGTH_CONSTANT, 0, 0 };
    int n = 0, wanted = 2;
    if (!strncmp(text, "normal:", 7)) {
        l.kind = SONDE_LOAD_LENGTH_NORMAL;
        n = prompt_numbers(text + 7, ",", &l.a, &l.b);
    } else if (!strncmp(text, "lognormal:", 10)) {
        l.kind = SONDE_LOAD_LENGTH_LOGNORMAL;
        n = prompt_numbers(text + 10, ",", &l.a, &l.b);
    } else if (!strncmp(text, "uniform:", 8) || strstr(text, "..")) {
        l.kind = SONDE_LOAD_LENGTH_UNIFORM;
        n = prompt_numbers(text[0] == 'u' ? text + 8 : text, "..", &l.a, &l.b);
        if (n == 2 && l.b < l.a) n = 0;
    } else {
        n = prompt_numbers(text, "..", &l.a, &l.b);
        wanted = 1;
    }
    const int fits = l.a >= 1 && l.a <= SONDE_LOAD_TOKENS_MAX && l.b >= 0 &&
                     l.b <= (l.kind == SONDE_LOAD_LENGTH_LOGNORMAL ? 5 : SONDE_LOAD_TOKENS_MAX);
    if (n != wanted || !fits) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.60s' is not a length in tokens: say 128, "
                             "64..512, normal:MEAN,DEVIATION or lognormal:MEDIAN,SIGMA", text);
    }
    *out = l;
    return 0;
}

uint32_t sonde_load_length_draw(const struct sonde_load_length *l, struct sonde_load_random *r)
{
    double v = l->a;
    switch (l->kind) {
    case SONDE_LOAD_LENGTH_CONSTANT: break;
    case SONDE_LOAD_LENGTH_UNIFORM:
        v = l->a + floor((l->b - l->a + 1) * sonde_load_random_unit(r));
        break;
    case SONDE_LOAD_LENGTH_NORMAL: v = l->a + l->b * sonde_load_random_normal(r); break;
    case SONDE_LOAD_LENGTH_LOGNORMAL: v = l->a * exp(l->b * sonde_load_random_normal(r)); break;
    }
    v = floor(v + 0.5);
    return v < 1 ? 1 : v > SONDE_LOAD_TOKENS_MAX ? SONDE_LOAD_TOKENS_MAX : (uint32_t)v;
}

double sonde_load_length_mean(const struct sonde_load_length *l)
{
    switch (l->kind) {
    case SONDE_LOAD_LENGTH_UNIFORM: return (l->a + l->b) / 2;
    case SONDE_LOAD_LENGTH_LOGNORMAL: return l->a * exp(l->b * l->b / 2);
    case SONDE_LOAD_LENGTH_CONSTANT:
    case SONDE_LOAD_LENGTH_NORMAL: break;
    }
    return l->a;
}

/* ---- Words ----------------------------------------------------------------------------------- */

int sonde_load_calibrate(struct sonde_load_calibration *c, uint32_t words_a, uint32_t tokens_a,
                         uint32_t words_b, uint32_t tokens_b)
{
    if (words_b <= words_a || tokens_b <= tokens_a) return SONDE_EINVAL;
    const double slope = (double)(tokens_b - tokens_a) / (double)(words_b - words_a);
    const double fixed = (double)tokens_a - slope * (double)words_a;
    /* Characters at most, and no template is as long as this. */
    if (slope < 0.2 || slope > 20 || fixed < -64 || fixed > 10000) return SONDE_EINVAL;
    *c = (struct sonde_load_calibration){ fixed > 0 ? fixed : 0, slope, 1 };
    return 0;
}

uint32_t sonde_load_words(const struct sonde_load_calibration *c, uint32_t tokens, int fixed)
{
    const double per_word = c->per_word > 0 ? c->per_word : 1;
    const double words = floor(((double)tokens - (fixed ? c->fixed : 0)) / per_word + 0.5);
    return words < 1 ? 1 : (uint32_t)words;
}

void sonde_load_prompt_words(struct sonde_load_random *r, uint32_t words, struct sonde_buf *out)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < words; i++) {
        if (i % 8 == 0) bits = sonde_load_random_u64(r);
        const char *word = prompt_words[bits & 255];
        bits >>= 8;
        char *at = sonde_buf_reserve(out, sizeof(prompt_words[0]) + 1);
        if (!at) return;
        size_t n = 0;
        if (out->len) at[n++] = ' ';
        while (*word) at[n++] = *word++;
        at[n] = '\0';
        out->len += n;
    }
}
