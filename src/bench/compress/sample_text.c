/* sample_text.c - see sample_text.h.
 *
 * Words are made of syllables. How often a word occurs follows Zipf's law, as in languages: of
 * rank k 1 / k; and what follows a word is, for half of the words, one of a few that are its own,
 * which is what makes phrases come again. The two numbers were set so that gzip and Zstandard
 * find about what they find in English prose (docs/bench-compress.md has both side by side).
 *
 * Rejected: a text that is put into the program. It would have to be megabytes not to repeat. */
#include "bench/compress/sample_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/draw.h"

enum { TEXT_WORDS = 20000, TEXT_FOLLOWERS = 6, TEXT_WORD_MAX = 20 };

struct text_maker {
    struct sonde_draw draw;
    uint32_t last;               /* the word before */
    char *out;
    size_t at, bytes;
};

static void text_add(struct text_maker *t, const char *s, size_t len)
{
    const size_t left = t->bytes - t->at;
    memcpy(t->out + t->at, s, len < left ? len : left);
    t->at += len < left ? len : left;
}

static void text_puts(struct text_maker *t, const char *s) { text_add(t, s, strlen(s)); }

/* The word of a rank: always the same. Frequent ones are short. */
static size_t text_word(uint32_t rank, char out[TEXT_WORD_MAX + 1])
{
    static const char *const onsets[] = { "t", "s", "r", "n", "l", "d", "c", "m", "p", "b", "f",
                                          "g", "v", "st", "tr", "pr", "th", "ch", "sh", "" };
    static const char *const vowels[] = { "e", "a", "i", "o", "u", "ea", "io", "ou" };
    static const char *const codas[] = { "", "", "n", "r", "s", "t", "l", "nd", "ng", "ct" };
    struct sonde_draw d = { .state = 0x5eed0000ull + rank };
    const int syllables = 1 + (rank > 60) + (rank > 1500 && sonde_draw_below(&d, 2)) +
                          (rank > 6000 && sonde_draw_below(&d, 2));
    size_t len = 0;
    for (int i = 0; i < syllables; i++) {
        len += (size_t)snprintf(out + len, TEXT_WORD_MAX + 1 - len, "%s%s%s",
                                onsets[sonde_draw_below(&d, 20)], vowels[sonde_draw_below(&d, 8)],
                                i + 1 == syllables ? codas[sonde_draw_below(&d, 10)] : "");
    }
    return len < TEXT_WORD_MAX ? len : TEXT_WORD_MAX;
}

/* Of density 1 / (k ln n): the inverse of its distribution, n^u. */
static uint32_t text_rank(struct sonde_draw *d)
{
    const double k = exp(sonde_draw_uniform(d) * log(TEXT_WORDS));
    return (uint32_t)k < TEXT_WORDS ? (uint32_t)k : TEXT_WORDS - 1;
}

static uint32_t text_next(struct text_maker *t)
{
    if (sonde_draw_below(&t->draw, 2)) {
        struct sonde_draw own = { .state = 0xf0110000ull + (uint64_t)t->last * TEXT_FOLLOWERS +
                                           sonde_draw_below(&t->draw, TEXT_FOLLOWERS) };
        t->last = text_rank(&own);
    } else {
        t->last = text_rank(&t->draw);
    }
    return t->last;
}

static void text_sentence(struct text_maker *t)
{
    const uint64_t words = 5 + sonde_draw_below(&t->draw, 18);
    for (uint64_t i = 0; i < words; i++) {
        char word[TEXT_WORD_MAX + 1];
        const size_t len = text_word(text_next(t), word);
        if (!i && word[0] >= 'a' && word[0] <= 'z') word[0] = (char)(word[0] - 'a' + 'A');
        if (i) text_puts(t, sonde_draw_below(&t->draw, 14) ? " " : ", ");
        text_add(t, word, len);
    }
    text_puts(t, sonde_draw_below(&t->draw, 12) ? "." : "?");
}

static void text_sentences(struct text_maker *t, uint64_t count, const char *paragraph)
{
    for (uint64_t i = 0; i < count && t->at < t->bytes; i++) {
        if (i) text_puts(t, sonde_draw_below(&t->draw, 6) ? " " : paragraph);
        text_sentence(t);
    }
}

static void text_object(struct text_maker *t, uint64_t number)
{
    static const char *const finish[] = { "stop", "stop", "stop", "length", "tool_calls" };
    char line[512];
    const uint64_t prompt = 20 + sonde_draw_below(&t->draw, 3000);
    const uint64_t answer = 5 + sonde_draw_below(&t->draw, 400);
    snprintf(line, sizeof(line), "{\"id\":\"chatcmpl-%016" PRIx64 "\",\"object\":"
             "\"chat.completion\",\"created\":%" PRIu64 ",\"model\":\"m-%" PRIu64 "b-instruct\","
             "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"",
             sonde_draw_u64(&t->draw), 1700000000 + number * 3 + sonde_draw_below(&t->draw, 3),
             7 + 63 * sonde_draw_below(&t->draw, 2));
    text_puts(t, line);
    text_sentences(t, 1 + sonde_draw_below(&t->draw, 8), "\\n\\n");
    snprintf(line, sizeof(line), "\"},\"finish_reason\":\"%s\"}],\"usage\":{\"prompt_tokens\":%"
             PRIu64 ",\"completion_tokens\":%" PRIu64 ",\"total_tokens\":%" PRIu64 "},\"timings\":"
             "{\"prompt_ms\":%.3f,\"predicted_ms\":%.3f}}\n",
             finish[sonde_draw_below(&t->draw, 5)], prompt, answer, prompt + answer,
             (double)prompt * (0.3 + 0.1 * sonde_draw_uniform(&t->draw)),
             (double)answer * (9 + 2 * sonde_draw_uniform(&t->draw)));
    text_puts(t, line);
}

void sonde_sample_text_make(int json, uint64_t seed, char *out, size_t bytes)
{
    struct text_maker t = { .draw = { .state = seed }, .out = out, .bytes = bytes };
    for (uint64_t n = 0; t.at < t.bytes; n++) {
        if (json) {
            text_object(&t, n);
        } else {
            text_sentences(&t, 60, "\n\n");
            text_puts(&t, "\n\n");
        }
    }
}
