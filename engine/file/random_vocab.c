/* random_vocab.c - the vocabularies of random_vocab.h.
 *
 * While training, a token is a symbol: its bytes, found again by a hash, because two merges may
 * make the same text (a + bc, ab + c) and a vocabulary must not have it twice. Control tokens and
 * bytes to fall back to are symbols too, in the order that the file will have; only the single
 * characters of spm, which training begins with, are moved to the end. */
#include "file/random_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/train_bpe.h"

enum { BYTES = 256, CHARS_MAX = 192, CHAR_TIMES_MIN = 3, TEXT_MAX = 64, PIECE_MAX = 48,
       SPM_FIXED = 3 + BYTES + 2, BPE_CONTROLS = 4 };
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_BYTE = 6 }; /* of llama.cpp */

struct random_token { char text[TEXT_MAX]; uint8_t bytes, type, odd; };

struct random_vocab {
    enum random_vocab_kind kind;
    struct random_token *tokens;
    uint32_t count, size;        /* size: how many there may be */
    uint32_t normal_begin;       /* the first one that a merge made */
    uint32_t *slots, slots_mask; /* by text, + 1; 0 = free */
    struct random_merge { uint32_t left, right; } *merges;
    size_t merges_count, merges_room;
    int out_of_memory;
};

static const char chat_template[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}";

/* ---- Tokens by text ------------------------------------------------------------------------ */

static uint64_t text_hash(const char *at, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ (unsigned char)at[i]) * 0x100000001b3u;
    return h ^ h >> 31;
}

/* The slot of this text, or the one where it would be. */
static uint32_t *random_vocab_slot_of(const struct random_vocab *v, const char *text, size_t bytes)
{
    uint64_t at = text_hash(text, bytes) & v->slots_mask;
    for (; v->slots[at]; at = (at + 1) & v->slots_mask) {
        const struct random_token *t = &v->tokens[v->slots[at] - 1];
        if (t->bytes == bytes && !memcmp(t->text, text, bytes)) break;
    }
    return &v->slots[at];
}

static uint32_t token_add(struct random_vocab *v, const char *text, size_t bytes, int type, int odd)
{
    struct random_token *t = &v->tokens[v->count];
    memcpy(t->text, text, bytes);
    t->bytes = (uint8_t)bytes;
    t->type = (uint8_t)type;
    t->odd = (uint8_t)odd;
    uint32_t *slot = random_vocab_slot_of(v, text, bytes);
    *slot = ++v->count;
    return v->count - 1;
}

static void control_add(struct random_vocab *v, const char *text, int type)
{
    token_add(v, text, strlen(text), type, 1);
}

/* ---- UTF-8 --------------------------------------------------------------------------------- */

/* Bytes of the character at p, 0 if it is none. */
static uint32_t random_vocab_char_bytes(const char *p, const char *end)
{
    const unsigned char c = (unsigned char)*p;
    const uint32_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3
                       : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (!n || (size_t)(end - p) < n) return 0;
    for (uint32_t i = 1; i < n; i++) {
        if (((unsigned char)p[i] & 0xc0) != 0x80) return 0;
    }
    return n;
}

static size_t char_put(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    out[0] = (char)(0xe0 | c >> 12);
    out[1] = (char)(0x80 | (c >> 6 & 63));
    out[2] = (char)(0x80 | (c & 63));
    return 3;
}

/* ---- Byte-level BPE ------------------------------------------------------------------------ */

/* GPT-2 writes bytes as characters that can be seen: printable ones of Latin-1 are themselves, the
 * others follow from U+0100 on. */
static uint32_t byte_char(uint32_t byte)
{
    uint32_t hidden = 0;
    for (uint32_t b = 0; b <= byte; b++) {
        const int seen = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte && seen) return b;
        hidden += !seen;
    }
    return 0xff + hidden;
}

static uint32_t char_byte(const char *p)
{
    const uint32_t c = (unsigned char)*p < 0x80 ? (unsigned char)*p
                       : ((uint32_t)(unsigned char)p[0] & 31) << 6 | ((unsigned char)p[1] & 63);
    for (uint32_t b = 0; b < BYTES; b++) {
        if (byte_char(b) == c) return b;
    }
    return 0;
}

/* Does it stand for whole characters, none of them a control character but those of white space? */
static int bpe_token_odd(const char *text, size_t bytes)
{
    char raw[TEXT_MAX];
    size_t n = 0;
    for (const char *p = text; p < text + bytes; p += random_vocab_char_bytes(p, text + bytes)) {
        raw[n++] = (char)char_byte(p);
    }
    for (const char *p = raw; p < raw + n;) {
        const uint32_t length = random_vocab_char_bytes(p, raw + n);
        if (!length || ((unsigned char)*p < ' ' && *p != '\n' && *p != '\t') || *p == 127) return 1;
        p += length;
    }
    return 0;
}

static void bpe_begin(struct random_vocab *v)
{
    for (uint32_t b = 0; b < BYTES; b++) {
        char text[4];
        const size_t n = char_put(byte_char(b), text);
        token_add(v, text, n, TYPE_NORMAL, bpe_token_odd(text, n));
    }
    v->size -= BPE_CONTROLS; /* which come last */
    v->normal_begin = v->count;
}

static uint32_t bpe_symbols(const struct random_vocab *v, const struct bpe_text_word *w,
                            uint32_t *out)
{
    (void)v;
    for (uint32_t i = 0; i < w->bytes; i++) out[i] = (unsigned char)w->at[i];
    return w->bytes;
}

/* ---- SentencePiece ------------------------------------------------------------------------- */

static const char space_mark[] = "\xe2\x96\x81"; /* ▁ */

struct char_times { char text[4]; uint32_t bytes; uint64_t times; };
struct char_table { struct char_times *chars; size_t count, room; };

static int char_times_compare(const void *a, const void *b)
{
    const struct char_times *x = a, *y = b;
    if (x->times != y->times) return x->times > y->times ? -1 : 1;
    return memcmp(x->text, y->text, sizeof(x->text));
}

/* The next character of a word as SentencePiece has it: a space is ▁; others that are white space
 * are left to the bytes, and so is what is not UTF-8. 0: not one to learn. */
static uint32_t spm_char(const char *p, const char *end, const char **text, uint32_t *bytes)
{
    const uint32_t n = random_vocab_char_bytes(p, end);
    *text = *p == ' ' ? space_mark : p;
    *bytes = *p == ' ' ? 3 : n;
    return n == 1 && (unsigned char)*p < ' ' ? 0 : n;
}

static int char_count(struct char_table *t, const char *text, uint32_t bytes, uint64_t times)
{
    struct char_times *c = t->chars;
    for (size_t i = 0; i < t->count; i++, c++) {
        if (c->bytes != bytes || memcmp(c->text, text, bytes)) continue;
        c->times += times;
        return 0;
    }
    if (t->count == t->room) {
        t->room = t->room * 2 + 256;
        c = reallocarray(t->chars, t->room, sizeof(*c));
        if (!c) return -1;
        t->chars = c;
    }
    c = &t->chars[t->count++];
    *c = (struct char_times){ .bytes = bytes, .times = times };
    memcpy(c->text, text, bytes);
    return 0;
}

/* Characters that the text has often enough, most frequent first. */
static int spm_chars_add(struct random_vocab *v, const struct bpe_text_word *words, size_t count)
{
    struct char_table t = { 0 };
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        const char *end = words[i].at + words[i].bytes;
        for (const char *p = words[i].at; p < end && !rc;) {
            const char *text;
            uint32_t bytes;
            const uint32_t n = spm_char(p, end, &text, &bytes);
            if (n) rc = char_count(&t, text, bytes, words[i].times);
            p += n ? n : 1;
        }
    }
    if (t.count) qsort(t.chars, t.count, sizeof(*t.chars), char_times_compare);
    for (size_t i = 0; i < t.count && i < CHARS_MAX && !rc; i++) {
        if (t.chars[i].times < CHAR_TIMES_MIN || v->count == v->size) break;
        token_add(v, t.chars[i].text, t.chars[i].bytes, TYPE_NORMAL, 0);
    }
    free(t.chars);
    return rc;
}

static int spm_begin(struct random_vocab *v, const struct bpe_text_word *words, size_t count)
{
    control_add(v, "<unk>", TYPE_UNKNOWN);
    control_add(v, "<s>", TYPE_CONTROL);
    control_add(v, "</s>", TYPE_CONTROL);
    for (int b = 0; b < BYTES; b++) {
        char text[8];
        const int n = snprintf(text, sizeof(text), "<0x%02X>", b);
        token_add(v, text, (size_t)n, TYPE_BYTE, b != '\n' && b != '\t');
    }
    control_add(v, "<|im_start|>", TYPE_CONTROL);
    control_add(v, "<|im_end|>", TYPE_CONTROL);
    const int rc = spm_chars_add(v, words, count);
    v->normal_begin = v->count;
    return rc;
}

static uint32_t spm_symbols(const struct random_vocab *v, const struct bpe_text_word *w,
                            uint32_t *out)
{
    const char *end = w->at + w->bytes;
    uint32_t count = 0;
    for (const char *p = w->at; p < end;) {
        const char *text;
        uint32_t bytes;
        const uint32_t n = spm_char(p, end, &text, &bytes);
        const uint32_t slot = n ? *random_vocab_slot_of(v, text, bytes) : 0;
        out[count++] = slot ? slot - 1 : BPE_BARRIER;
        p += n ? n : 1;
    }
    return count;
}

/* Characters behind the pieces, where SentencePiece has them. */
static void spm_end(struct random_vocab *v)
{
    const uint32_t chars = v->normal_begin - SPM_FIXED, pieces = v->count - v->normal_begin;
    struct random_token *at = v->tokens + SPM_FIXED;
    struct random_token *kept = malloc((chars + 1) * sizeof(*kept));
    if (!kept) {
        v->out_of_memory = 1;
        return;
    }
    memcpy(kept, at, chars * sizeof(*at));
    memmove(at, at + chars, pieces * sizeof(*at));
    memcpy(at + pieces, kept, chars * sizeof(*at));
    free(kept);
}

/* ---- Training ------------------------------------------------------------------------------ */

static int merge_keep(struct random_vocab *v, uint32_t left, uint32_t right)
{
    if (v->merges_count == v->merges_room) {
        const size_t room = v->merges_room * 2 + 1024;
        struct random_merge *grown = reallocarray(v->merges, room, sizeof(*grown));
        if (!grown) {
            v->out_of_memory = 1;
            return -1;
        }
        v->merges = grown;
        v->merges_room = room;
    }
    v->merges[v->merges_count++] = (struct random_merge){ left, right };
    return 0;
}

static uint32_t vocab_merged(void *arg, uint32_t left, uint32_t right)
{
    struct random_vocab *v = arg;
    const struct random_token *a = &v->tokens[left], *b = &v->tokens[right];
    char text[2 * TEXT_MAX];
    const size_t bytes = (size_t)a->bytes + b->bytes;
    memcpy(text, a->text, a->bytes);
    memcpy(text + a->bytes, b->text, b->bytes);
    const uint32_t slot = *random_vocab_slot_of(v, text, bytes);
    /* Long ones are lines of tables and the like: left as the two halves that they are. */
    if (!slot && bytes > PIECE_MAX) return BPE_SKIP;
    if (!slot && v->count == v->size) return BPE_BARRIER;
    if (merge_keep(v, left, right)) return BPE_BARRIER;
    if (slot) return slot - 1;
    return token_add(v, text, bytes, TYPE_NORMAL,
                     v->kind == RANDOM_VOCAB_BPE && bpe_token_odd(text, bytes));
}

static int vocab_train(struct random_vocab *v, const struct bpe_text_word *from, size_t count,
                       size_t text_bytes)
{
    struct bpe_word *words = calloc(count + 1, sizeof(*words));
    uint32_t *symbols = calloc(text_bytes + 1, sizeof(*symbols)), used = 0;
    int rc = words && symbols ? 0 : -1;
    for (size_t i = 0; i < count && !rc; i++) {
        uint32_t *at = symbols + used;
        const uint32_t n = v->kind == RANDOM_VOCAB_BPE ? bpe_symbols(v, &from[i], at)
                                                       : spm_symbols(v, &from[i], at);
        words[i] = (struct bpe_word){ at, n, from[i].times };
        used += n;
    }
    if (!rc) rc = bpe_train(words, count, vocab_merged, v);
    free(words);
    free(symbols);
    return rc || v->out_of_memory ? -1 : 0;
}

static int vocab_fill(struct random_vocab *v, const char *text, size_t bytes)
{
    struct bpe_text_word *words;
    size_t count;
    if (bpe_words(text, bytes, &words, &count)) return -1;
    int rc = 0;
    if (v->kind == RANDOM_VOCAB_BPE) bpe_begin(v);
    else rc = spm_begin(v, words, count);
    if (!rc) rc = vocab_train(v, words, count, bytes);
    free(words);
    if (v->kind == RANDOM_VOCAB_SPM) {
        spm_end(v);
    } else {
        control_add(v, "<|bos|>", TYPE_CONTROL);
        control_add(v, "<|eos|>", TYPE_CONTROL);
        control_add(v, "<|im_start|>", TYPE_CONTROL);
        control_add(v, "<|im_end|>", TYPE_CONTROL);
    }
    return rc || v->out_of_memory ? -1 : 0;
}

int random_vocab_train(enum random_vocab_kind kind, const char *text, size_t bytes, uint32_t size,
                       struct random_vocab **out, struct fail *why)
{
    if (size < SPM_FIXED + BPE_CONTROLS) {
        return fail_set(why, "a vocabulary of %u is too small", size);
    }
    struct random_vocab *v = calloc(1, sizeof(*v));
    if (!v) return fail_set(why, "out of memory");
    uint32_t slots = 1024;
    while (slots < size * 2) slots *= 2;
    v->kind = kind;
    v->size = size;
    v->tokens = calloc(size, sizeof(*v->tokens));
    v->slots = calloc(slots, sizeof(*v->slots));
    v->slots_mask = slots - 1;
    if (!v->tokens || !v->slots || vocab_fill(v, text, bytes)) {
        random_vocab_destroy(v);
        return fail_set(why, "out of memory while a vocabulary was trained");
    }
    *out = v;
    return 0;
}

void random_vocab_destroy(struct random_vocab *v)
{
    if (!v) return;
    free(v->tokens);
    free(v->slots);
    free(v->merges);
    free(v);
}

uint32_t random_vocab_size(const struct random_vocab *v)
{
    return v->count;
}

int random_vocab_is_odd(const struct random_vocab *v, uint32_t token)
{
    return v->tokens[token].odd;
}

/* ---- To a file ----------------------------------------------------------------------------- */

static int merges_write(const struct random_vocab *v, struct gguf_writer *w)
{
    const size_t size = 2 * TEXT_MAX + 1;
    struct gguf_text *lines = calloc(v->merges_count + 1, sizeof(*lines));
    char *texts = calloc(v->merges_count + 1, size);
    const int rc = lines && texts ? 0 : -1;
    for (size_t i = 0; i < v->merges_count && !rc; i++) {
        const struct random_token *a = &v->tokens[v->merges[i].left];
        const struct random_token *b = &v->tokens[v->merges[i].right];
        char *at = texts + i * size;
        memcpy(at, a->text, a->bytes);
        at[a->bytes] = ' ';
        memcpy(at + a->bytes + 1, b->text, b->bytes);
        lines[i] = (struct gguf_text){ at, (size_t)a->bytes + 1 + b->bytes };
    }
    if (!rc) gguf_write_texts(w, "tokenizer.ggml.merges", lines, v->merges_count);
    free(lines);
    free(texts);
    return rc;
}

/* Pieces that were made first are preferred; characters come last of all. */
static int tokens_write(const struct random_vocab *v, struct gguf_writer *w)
{
    struct gguf_text *texts = calloc(v->count, sizeof(*texts));
    int32_t *types = calloc(v->count, sizeof(*types));
    float *scores = calloc(v->count, sizeof(*scores));
    const int rc = texts && types && scores ? 0 : -1;
    for (uint32_t i = 0; i < v->count && !rc; i++) {
        texts[i] = (struct gguf_text){ v->tokens[i].text, v->tokens[i].bytes };
        types[i] = v->tokens[i].type;
        if (i >= SPM_FIXED) scores[i] = -(float)(i - SPM_FIXED);
    }
    if (!rc) {
        gguf_write_texts(w, "tokenizer.ggml.tokens", texts, v->count);
        gguf_write_numbers(w, "tokenizer.ggml.token_type", GGUF_I32, types, v->count);
    }
    if (!rc && v->kind == RANDOM_VOCAB_SPM) {
        gguf_write_numbers(w, "tokenizer.ggml.scores", GGUF_F32, scores, v->count);
    }
    free(texts);
    free(types);
    free(scores);
    return rc;
}

int random_vocab_write(const struct random_vocab *v, struct gguf_writer *w)
{
    const int spm = v->kind == RANDOM_VOCAB_SPM;
    const uint32_t last = v->count - 1;
    gguf_write_text(w, "tokenizer.ggml.model", spm ? "llama" : "gpt2");
    gguf_write_text(w, "tokenizer.ggml.pre", spm ? "default" : "gpt-2");
    if (tokens_write(v, w) || (!spm && merges_write(v, w))) return -1;
    gguf_write_u32(w, "tokenizer.ggml.bos_token_id", spm ? 1 : last - 3);
    gguf_write_u32(w, "tokenizer.ggml.eos_token_id", spm ? 2 : last - 2);
    gguf_write_u32(w, "tokenizer.ggml.eot_token_id", spm ? SPM_FIXED - 1 : last);
    if (spm) gguf_write_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    gguf_write_bool(w, "tokenizer.ggml.add_bos_token", 1);
    gguf_write_bool(w, "tokenizer.ggml.add_eos_token", 0);
    if (spm) gguf_write_bool(w, "tokenizer.ggml.add_space_prefix", 1);
    gguf_write_text(w, "tokenizer.chat_template", chat_template);
    return 0;
}
