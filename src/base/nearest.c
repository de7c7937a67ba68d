#include "base/nearest.h"

#include <ctype.h>
#include <string.h>

enum { WORD_MAX_BYTES = 64, PART_MIN_BYTES = 3, PART_COST = 2 };

static size_t nearest_fold(char out[WORD_MAX_BYTES + 1], const char *s)
{
    size_t n = 0;
    for (; s[n] && n < WORD_MAX_BYTES; n++) {
        out[n] = s[n] == '-' ? '_' : (char)tolower((unsigned char)s[n]);
    }
    out[n] = 0;
    return n;
}

static unsigned nearest_least(unsigned a, unsigned b) { return a < b ? a : b; }

/* Optimal string alignment: Levenshtein's rows, and the one before for swapped neighbours. */
static unsigned nearest_edits(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][WORD_MAX_BYTES + 1];
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_len; j++) last[j] = (unsigned)j;
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            const unsigned change = last[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = nearest_least(change, 1 + nearest_least(last[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = nearest_least(row[j], before[j - 2] + 1);
            }
        }
        unsigned *const spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[b_len];
}

unsigned sonde_nearness(const char *word, const char *known)
{
    if (strlen(word) > WORD_MAX_BYTES || strlen(known) > WORD_MAX_BYTES) return SONDE_NOT_NEAR;
    char a[WORD_MAX_BYTES + 1], b[WORD_MAX_BYTES + 1];
    const size_t a_len = nearest_fold(a, word), b_len = nearest_fold(b, known);
    unsigned cost = nearest_edits(a, a_len, b, b_len);
    if (a_len >= PART_MIN_BYTES && b_len >= PART_MIN_BYTES && (strstr(a, b) || strstr(b, a))) {
        cost = nearest_least(cost, PART_COST);
    }
    return cost <= 1 + a_len / 3 ? cost : SONDE_NOT_NEAR;
}
