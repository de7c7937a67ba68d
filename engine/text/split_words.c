/* split_words.c - rules that cut a whole text into words: one expression with alternatives each.
 *
 * They all have the same parts - contractions, letters with something before them, numbers,
 * punctuation, white space - in variants; the parts are functions and a rule is a sequence of them.
 * Their order is that of the alternatives: the first that matches counts. */
#include "text/split_rules.h"
#include "text/unicode.h"

static uint32_t split_at(const uint32_t *u, size_t n, size_t i) { return i < n ? u[i] : 0; }
static int split_is(uint32_t unit, uint32_t classes) { return (unit & classes) != 0; }
static int is_point(uint32_t unit, uint32_t point) { return unit && unit_point(unit) == point; }
static int is_newline(uint32_t unit) { return is_point(unit, '\r') || is_point(unit, '\n'); }
/* A character, and of none of the classes. */
static int is_not(uint32_t unit, uint32_t classes) { return unit && !(unit & classes); }

static size_t split_run(const uint32_t *u, size_t n, size_t from, uint32_t classes)
{
    while (from < n && (u[from] & classes)) from++;
    return from;
}

/* 's|'t|'re|'ve|'m|'ll|'d, or (?i:…) of it */
static size_t split_contraction(const uint32_t *u, size_t n, int any_case)
{
    if (n < 2 || !is_point(u[0], '\'')) return 0;
    const uint32_t fold = any_case ? 0x20 : 0;
    const uint32_t a = unit_point(u[1]) | (unit_point(u[1]) < 0x80 ? fold : 0);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (n < 3) return 0;
    const uint32_t b = unit_point(u[2]) | (unit_point(u[2]) < 0x80 ? fold : 0);
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* " ?" and then one or more of the classes */
static size_t split_space_and(const uint32_t *u, size_t n, uint32_t classes)
{
    const size_t from = is_point(u[0], ' ') ? 1 : 0;
    return split_is(split_at(u, n, from), classes) ? split_run(u, n, from, classes) : 0;
}

/* " ?" and then one or more of none of the classes */
static size_t space_and_not(const uint32_t *u, size_t n, uint32_t classes)
{
    const size_t from = is_point(u[0], ' ') ? 1 : 0;
    size_t to = from;
    while (is_not(split_at(u, n, to), classes)) to++;
    return to > from ? to : 0;
}

/* The same and [\r\n]* behind it, [\r\n/]* with slash */
static size_t split_punctuation(const uint32_t *u, size_t n, uint32_t classes, int slash)
{
    size_t to = space_and_not(u, n, classes);
    if (!to) return 0;
    while (is_newline(split_at(u, n, to)) || (slash && is_point(split_at(u, n, to), '/'))) to++;
    return to;
}

/* \s*[\r\n]+ */
static size_t space_newlines(const uint32_t *u, size_t n)
{
    size_t last = 0;
    for (size_t i = 0; split_is(split_at(u, n, i), UNIT_SPACE); i++) {
        if (is_newline(u[i])) last = i + 1;
    }
    return last;
}

/* \s+(?!\S)|\s+ : all of it at the end, else all but the last, which goes with what follows */
static size_t split_space(const uint32_t *u, size_t n)
{
    const size_t to = split_run(u, n, 0, UNIT_SPACE);
    return to > 1 && to < n ? to - 1 : to;
}

/* [^\r\n\p{L}\p{N}]? and then one or more of the classes */
static size_t split_letters(const uint32_t *u, size_t n, uint32_t classes)
{
    if (split_is(u[0], classes)) return split_run(u, n, 0, classes);
    if (is_newline(u[0]) || split_is(u[0], UNIT_NUMBER | UNIT_LETTER)) return 0;
    return split_is(split_at(u, n, 1), classes) ? split_run(u, n, 1, classes) : 0;
}

static size_t split_first_of(size_t a, size_t b) { return a ? a : b; }

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S) */
size_t split_gpt2(const uint32_t *u, size_t n)
{
    size_t to = split_contraction(u, n, 0);
    if (!to) to = split_space_and(u, n, UNIT_LETTER);
    if (!to) to = split_space_and(u, n, UNIT_NUMBER);
    if (!to) to = space_and_not(u, n, UNIT_SPACE | UNIT_LETTER | UNIT_NUMBER);
    return split_first_of(to, split_space(u, n));
}

static size_t split_words_numbers(const uint32_t *u, size_t n, size_t max)
{
    const size_t to = split_run(u, n, 0, UNIT_NUMBER);
    return to < max ? to : max;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?L+|\p{N}{1,digits}| ?[^\s L \p{N}]+[\r\n]*|
 * \s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t split_cl100k(const uint32_t *u, size_t n, uint32_t letter, size_t digits)
{
    size_t to = split_contraction(u, n, 1);
    if (!to) to = split_letters(u, n, letter);
    if (!to) to = split_words_numbers(u, n, digits);
    if (!to) to = split_punctuation(u, n, UNIT_SPACE | UNIT_NUMBER | UNIT_LETTER | letter, 0);
    if (!to) to = space_newlines(u, n);
    return split_first_of(to, split_space(u, n));
}

size_t split_llama3(const uint32_t *u, size_t n) { return split_cl100k(u, n, UNIT_LETTER, 3); }
size_t split_qwen2(const uint32_t *u, size_t n) { return split_cl100k(u, n, UNIT_LETTER, 1); }
size_t split_qwen35(const uint32_t *u, size_t n)
{
    return split_cl100k(u, n, UNIT_LETTER | UNIT_MARK, 1);
}

/* as qwen2, but punctuation takes no newlines: … ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+ */
size_t split_seed_coder(const uint32_t *u, size_t n)
{
    size_t to = split_contraction(u, n, 1);
    if (!to) to = split_letters(u, n, UNIT_LETTER);
    if (!to) to = split_words_numbers(u, n, 1);
    if (!to) to = space_and_not(u, n, UNIT_SPACE | UNIT_LETTER | UNIT_NUMBER);
    if (!to) to = space_newlines(u, n);
    return split_first_of(to, split_space(u, n));
}

static int is_upper(uint32_t unit)
{
    return split_is(unit, UNIT_LETTER) && !(unit_point(unit) >= 'a' && unit_point(unit) <= 'z');
}
static int is_lower(uint32_t unit)
{
    return split_is(unit, UNIT_LETTER) && !(unit_point(unit) >= 'A' && unit_point(unit) <= 'Z');
}

/* [^\r\n\p{L}\p{N}]?U*W+|[^\r\n\p{L}\p{N}]?U+W* with U: letters but a-z, W: letters but A-Z, so
 * that letters outside of ASCII are both. Without backtracking: U* takes all it can; where no W
 * follows, it gives back to the last W in it, which is then the only one (what follows is none). */
static size_t cased_letters(const uint32_t *u, size_t n)
{
    size_t from = 0;
    if (!split_is(u[0], UNIT_LETTER)) {
        if (is_newline(u[0]) || split_is(u[0], UNIT_NUMBER)) return 0;
        from = 1;
    }
    if (!split_is(split_at(u, n, from), UNIT_LETTER)) return 0;
    size_t to = from;
    while (is_upper(split_at(u, n, to))) to++;
    if (is_lower(split_at(u, n, to))) {
        while (is_lower(split_at(u, n, to))) to++;
        return to;
    }
    for (size_t last = to; last > from; last--) {
        if (is_lower(u[last - 1])) return last;
    }
    return to;
}

/* …|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t o200k_rest(const uint32_t *u, size_t n, size_t digits)
{
    size_t to = split_words_numbers(u, n, digits);
    if (!to) to = split_punctuation(u, n, UNIT_SPACE | UNIT_LETTER | UNIT_NUMBER, 1);
    if (!to) to = space_newlines(u, n);
    return split_first_of(to, split_space(u, n));
}

size_t split_tekken(const uint32_t *u, size_t n)
{
    return split_first_of(cased_letters(u, n), o200k_rest(u, n, 1));
}

/* The same, with (?i:'s|…)? behind the letters and numbers of three. */
size_t split_gpt4o(const uint32_t *u, size_t n)
{
    const size_t to = cased_letters(u, n);
    if (to) return to < n ? to + split_contraction(u + to, n - to, 1) : to;
    return o200k_rest(u, n, 3);
}

/* [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
 *  ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
size_t split_deepseek3(const uint32_t *u, size_t n)
{
    const uint32_t point = unit_point(u[0]), word = UNIT_LETTER | UNIT_MARK;
    if (point < 0x80 && split_is(u[0], UNIT_PUNCTUATION | UNIT_SYMBOL)) {
        size_t to = 1;
        while (to < n && unit_point(u[to]) < 0x80 && split_is(u[to], UNIT_LETTER)) to++;
        if (to > 1) return to;
    }
    if (split_is(u[0], word)) return split_run(u, n, 0, word);
    if (!is_newline(u[0]) && !split_is(u[0], UNIT_PUNCTUATION | UNIT_SYMBOL) &&
        split_is(split_at(u, n, 1), word)) {
        return split_run(u, n, 1, word);
    }
    size_t to = split_space_and(u, n, UNIT_PUNCTUATION | UNIT_SYMBOL);
    if (to) {
        while (is_newline(split_at(u, n, to))) to++;
        return to;
    }
    return split_first_of(space_newlines(u, n), split_space(u, n));
}

/* ' ?[^(\s|.,!?…。，、।۔،)]+' */
size_t split_bloom(const uint32_t *u, size_t n)
{
    static const uint32_t stops[] = { '(', '|', '.', ',', '!', '?', ')', 0x2026, 0x3002, 0xFF0C,
                                      0x3001, 0x0964, 0x06D4, 0x060C };
    const size_t from = is_point(u[0], ' ') ? 1 : 0;
    for (size_t to = from;; to++) {
        int stop = !is_not(split_at(u, n, to), UNIT_SPACE);
        for (size_t i = 0; !stop && i < sizeof(stops) / sizeof(stops[0]); i++) {
            stop = unit_point(u[to]) == stops[i];
        }
        if (stop) return to > from ? to : 0;
    }
}

/* [^\n]+|[\n]+ */
size_t split_no_newlines(const uint32_t *u, size_t n)
{
    const int newline = is_point(u[0], '\n');
    size_t to = 1;
    while (to < n && is_point(u[to], '\n') == newline) to++;
    return to;
}
