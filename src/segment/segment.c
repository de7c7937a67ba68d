/* segment.c - the few computations that the writer and the reader of a segment must agree on.
 * In the user's process: no allocation, no stdio. */
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t sonde__check(uint32_t seed, const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++) seed = (seed ^ p[i]) * 16777619u;
    return seed;
}

uint32_t sonde__header_check(const struct sonde__header *h)
{
    const size_t at = offsetof(struct sonde__header, check);
    const size_t after = at + sizeof(h->check);
    uint32_t c = sonde__check(SONDE__CHECK_SEED, h, at);
    return sonde__check(c, (const char *)h + after, SONDE__HEADER_FIXED - after);
}

static uint32_t check_str(uint32_t c, struct sonde__str s, const char *strings)
{
    return sonde__check(c, strings + s.off, s.len);
}

uint32_t sonde__family_check(const struct sonde__family *f, const char *strings)
{
    uint32_t c = sonde__check(SONDE__CHECK_SEED, f, SONDE__FAMILY_FIXED);
    c = check_str(c, f->name, strings);
    c = check_str(c, f->help, strings);
    c = check_str(c, f->unit, strings);
    c = check_str(c, f->source, strings);
    c = check_str(c, f->labels, strings);
    return check_str(c, f->tags, strings);
}

uint32_t sonde__series_check(const struct sonde__series *s, const char *strings)
{
    return check_str(sonde__check(SONDE__CHECK_SEED, s, SONDE__SERIES_FIXED), s->values, strings);
}

double sonde__hist_upper(uint32_t p)
{
    const uint64_t exponent = (uint64_t)(1023 + SONDE__HIST_EXP_MIN + (int)(p >> 6));
    const uint64_t bits = exponent << 52 | sonde__hist_bound[p & 63];
    double upper;
    memcpy(&upper, &bits, sizeof(upper));
    return upper;
}

/* A bucket is a factor of 2^(1/64) wide. Constants, not exp2: libsonde has no libm. */
double sonde__hist_middle(uint32_t p, double scale)
{
    const double high = sonde__hist_upper(p), middle = high * 0.994599423483633176; /* 2^(-1/128) */
    if (!(scale > 0) || middle / scale > 256) return middle;
    const double low = high * 0.989228013193975484; /* 2^(-1/64) */
    const int64_t whole = (int64_t)(high / scale * (1 + 1e-12));
    const int64_t below = (int64_t)(low / scale * (1 + 1e-12));
    return whole - below == 1 ? (double)whole * scale : middle;
}

static char *segment_put_u64(char *out, uint64_t v)
{
    char digits[20];
    int n = 0;
    do {
        digits[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    while (n) *out++ = digits[--n];
    *out = 0;
    return out;
}

/* At most size - 1 bytes of a small file, NUL-terminated; the number read, or -1. */
static ssize_t segment_read_file(const char *path, char *out, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n;
    do {
        n = read(fd, out, size - 1);
    } while (n < 0 && errno == EINTR);
    close(fd);
    out[n < 0 ? 0 : n] = 0;
    return n;
}

uint64_t sonde__start_time(uint32_t pid)
{
    char path[32] = "/proc/", text[1024];
    if (!pid) memcpy(path + 6, "self/stat", 10);
    else memcpy(segment_put_u64(path + 6, pid), "/stat", 6);
    if (segment_read_file(path, text, sizeof(text)) <= 0) return 0;

    /* The name in parentheses may hold anything; what follows the last one is numbers. */
    const char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

void sonde__boot_id(uint8_t out[16])
{
    char text[64];
    memset(out, 0, 16);
    const ssize_t n = segment_read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text));
    size_t digit = 0;
    for (ssize_t i = 0; i < n && digit < 32; i++) {
        const char c = text[i];
        unsigned v;
        if (c >= '0' && c <= '9') v = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f') v = (unsigned)(c - 'a' + 10);
        else continue;
        out[digit / 2] = (uint8_t)((unsigned)out[digit / 2] << 4 | v);
        digit++;
    }
}
