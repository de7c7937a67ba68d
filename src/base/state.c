/* state.c - see state.h. */
#include "base/state.h"

#include <string.h>

#include "base/utf8.h"
#include "base/varint.h"
#include "sonde/sonde.h"

static void u64_put(struct sonde_buf *to, uint64_t v)
{
    unsigned char bytes[SONDE_VARINT_MAX];
    sonde_buf_add(to, bytes, (size_t)(sonde_varint_put(bytes, v) - bytes));
}

static uint64_t u64_get(struct sonde_state *s)
{
    uint64_t v = 0;
    if (s->bad || s->at >= s->len) {
        s->bad = 1;
        return 0;
    }
    const unsigned char *at = s->from + s->at;
    if (sonde_varint_get(&at, s->from + s->len, &v)) s->bad = 1;
    s->at = (size_t)(at - s->from);
    return v;
}

void sonde_state_u64(struct sonde_state *s, uint64_t *v)
{
    if (s->to) u64_put(s->to, *v);
    else *v = u64_get(s);
}

void sonde_state_count(struct sonde_state *s, uint64_t *v, uint64_t max)
{
    sonde_state_u64(s, v);
    if (s->to || *v <= max) return;
    s->bad = 1;
    *v = 0;
}

void sonde_state_u32(struct sonde_state *s, uint32_t *v)
{
    uint64_t wide = *v;
    sonde_state_count(s, &wide, UINT32_MAX);
    *v = (uint32_t)wide;
}

void sonde_state_bytes(struct sonde_state *s, void *bytes, size_t n)
{
    if (s->to) {
        sonde_buf_add(s->to, bytes, n);
        return;
    }
    if (s->bad || n > s->len - s->at) {
        s->bad = 1;
        memset(bytes, 0, n);
        return;
    }
    memcpy(bytes, s->from + s->at, n);
    s->at += n;
}

void sonde_state_double(struct sonde_state *s, double *v)
{
    sonde_state_bytes(s, v, sizeof(*v));
}

void sonde_state_put_text(struct sonde_state *s, const char *text)
{
    const size_t n = strlen(text);
    u64_put(s->to, n);
    sonde_buf_add(s->to, text, n);
}

void sonde_state_text(struct sonde_state *s, char *text, size_t size)
{
    if (s->to) {
        sonde_state_put_text(s, text);
        return;
    }
    const uint64_t n = u64_get(s);
    text[0] = '\0';
    if (s->bad || n >= size || n > s->len - s->at ||
        !sonde__utf8_valid((const char *)s->from + s->at, (size_t)n)) {
        s->bad = 1;
        return;
    }
    memcpy(text, s->from + s->at, (size_t)n);
    text[n] = '\0';
    s->at += (size_t)n;
}

size_t sonde_state_begin(struct sonde_state *s)
{
    uint64_t n = 0;
    if (s->to) {
        const size_t begun = s->to->len;
        sonde_state_bytes(s, &n, sizeof(n));
        return begun;
    }
    sonde_state_bytes(s, &n, sizeof(n));
    if (n > s->len - s->at) {
        s->bad = 1;
        n = 0;
    }
    return s->at + (size_t)n;
}

void sonde_state_end(struct sonde_state *s, size_t begun)
{
    if (!s->to) {
        if (!s->bad) s->at = begun;
        return;
    }
    if (s->to->error) return;
    const uint64_t n = s->to->len - begun - sizeof(n);
    memcpy(s->to->data + begun, &n, sizeof(n));
}

uint64_t sonde_state_check(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t h = 0x9e3779b97f4a7c15ull ^ n;
    while (n > 0) {
        uint64_t word = 0;
        const size_t take = n < sizeof(word) ? n : sizeof(word);
        memcpy(&word, p, take);
        h = (h ^ word) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
        p += take;
        n -= take;
    }
    return h;
}
