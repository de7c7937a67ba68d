/* mini_text.c - words and tokens, and the choice of the next: a vocabulary of 256 words, a hash
 * table to find them, a sampler with a temperature. */
#include <math.h>

#include "mini_engine.h"

static char words[MINI_VOCAB][8];
static uint16_t table[4 * MINI_VOCAB]; /* token + 1, by the word's hash */

static unsigned word_hash(const char *word, size_t length)
{
    unsigned h = 2166136261u;
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)word[i]) * 16777619u;
    return h;
}

__attribute__((constructor)) static void words_make(void)
{
    for (unsigned t = 0; t < MINI_VOCAB; t++) {
        static const char consonants[] = "bdfgklmnprstvz", vowels[] = "aeiou";
        unsigned n = t, at = 0;
        for (int i = 0; i < 2; i++) {
            words[t][at++] = consonants[n % 14], n /= 14;
            words[t][at++] = vowels[n % 5], n /= 5;
        }
        unsigned slot = word_hash(words[t], at) % (4 * MINI_VOCAB);
        while (table[slot]) slot = (slot + 1) % (4 * MINI_VOCAB);
        table[slot] = (uint16_t)(t + 1);
    }
}

const char *mini_word(unsigned token) { return words[token % MINI_VOCAB]; }

static unsigned word_find(const char *word, size_t length)
{
    unsigned slot = word_hash(word, length) % (4 * MINI_VOCAB);
    for (; table[slot]; slot = (slot + 1) % (4 * MINI_VOCAB)) {
        const char *known = words[table[slot] - 1];
        if (!strncmp(known, word, length) && !known[length]) return table[slot] - 1u;
    }
    return 0;
}

unsigned mini_encode(const char *text, uint16_t *tokens, unsigned max)
{
    unsigned count = 0;
    while (*text && count < max) {
        const size_t length = strcspn(text, " ");
        tokens[count++] = (uint16_t)word_find(text, length);
        text += length;
        text += *text == ' ';
    }
    return count;
}

unsigned mini_sample(float *logits, const uint16_t *history, unsigned count, uint64_t *random)
{
    float most = -INFINITY, sum = 0;
    if (count) logits[history[count - 1]] -= 1; /* not the same again */
    for (unsigned i = 0; i < MINI_VOCAB; i++) most = logits[i] > most ? logits[i] : most;
    for (unsigned i = 0; i < MINI_VOCAB; i++) sum += logits[i] = expf(logits[i] - most);
    float left = (float)bench_uniform(random) * sum;
    for (unsigned i = 0; i < MINI_VOCAB; i++) {
        left -= logits[i];
        if (left <= 0) return i;
    }
    return MINI_VOCAB - 1;
}

/* The text grows by what the newest token says. */
void mini_spell(struct mini_job *job)
{
    const char *word = mini_word(job->tokens[job->prompt + job->produced - 1]);
    const size_t length = strlen(word);
    if (job->answer_length + length + 2 > job->answer_max) {
        job->answer_max = 2 * job->answer_max + 256;
        job->answer = realloc(job->answer, job->answer_max);
        if (!job->answer) bench_fail("realloc");
    }
    memcpy(job->answer + job->answer_length, word, length);
    job->answer_length += length;
    job->answer[job->answer_length++] = ' ';
    job->answer[job->answer_length] = 0;
}
