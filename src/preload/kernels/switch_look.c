/* switch_look.c - on or off, as a file beside the segments says (segment/kernels.h): the agent has
 * no other way in. What the file says is nobody's but the user's: the directory is his alone, and a
 * file that is not, or that makes no sense, says nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/kernels/recorder.h"
#include "preload/preload.h"
#include "record/state.h"

static int switch_digits(const char **p, const char *end, uint64_t *out)
{
    const char *at = *p;
    uint64_t v = 0;
    while (at < end && *at >= '0' && *at <= '9') {
        if (v > (UINT64_MAX - 9) / 10) return -1;
        v = v * 10 + (uint64_t)(*at++ - '0');
    }
    if (at == *p) return -1;
    *p = at;
    *out = v;
    return 0;
}

static int switch_word(const char **p, const char *end, const char *word)
{
    const size_t len = strlen(word);
    if ((size_t)(end - *p) < len || memcmp(*p, word, len)) return 0;
    *p += len;
    return 1;
}

/* "<pid> <on|off> <until>". 1 on, 0 off, -1 nothing. */
static int switch_line(const char *p, const char *end, uint32_t pid, uint64_t now_ns)
{
    uint64_t whose, until;
    int on;
    if (switch_digits(&p, end, &whose)) return -1;
    if (switch_word(&p, end, " on ")) on = 1;
    else if (switch_word(&p, end, " off ")) on = 0;
    else return -1;
    if (switch_digits(&p, end, &until) || p != end) return -1;
    return (!whose || whose == pid) && now_ns < until ? on : -1;
}

int sonde__kernels_switch_read(const char *text, size_t len, uint32_t pid, uint64_t now_ns)
{
    int found = -1;
    for (const char *p = text, *end = text + len; p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        if (!newline) break; /* not a whole line */
        const int said = switch_line(p, newline, pid, now_ns);
        if (said >= 0) found = said;
        p = newline + 1;
    }
    return found;
}

/* Beside the segment, whose path is known. */
static int switch_open(void)
{
    char path[sizeof(sonde__g.path) + sizeof(SONDE__KERNEL_SWITCH)];
    const char *slash = strrchr(sonde__g.path, '/');
    if (!slash) return -1;
    const size_t dir = (size_t)(slash + 1 - sonde__g.path);
    memcpy(path, sonde__g.path, dir);
    memcpy(path + dir, SONDE__KERNEL_SWITCH, sizeof(SONDE__KERNEL_SWITCH));
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static int switch_look(uint64_t now_ns)
{
    char text[SONDE__KERNEL_SWITCH_MAX];
    struct stat st;
    const int fd = switch_open();
    if (fd < 0) return -1;
    ssize_t n = -1;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && (st.st_uid == geteuid() || st.st_uid == 0) &&
        !(st.st_mode & 022)) {
        n = read(fd, text, sizeof(text)); /* a call that sandboxes are asked about */
    }
    close(fd);
    return n > 0 ? sonde__kernels_switch_read(text, (size_t)n, sonde__g.h->pid, now_ns) : -1;
}

static void switch_set(struct sonde__kernels *k, uint32_t on)
{
    struct sonde__kernels_state *s = &sonde__kernels_state;
    if (__atomic_exchange_n(&s->on, on, __ATOMIC_RELAXED) == on) return;
    __atomic_store_n(&k->state, on ? SONDE__KERNEL_ON : SONDE__KERNEL_OFF, __ATOMIC_RELAXED);
    sonde__kernels_count(&k->switched, 1);
}

int sonde__kernels_on(struct sonde__kernels *k)
{
    struct sonde__kernels_state *s = &sonde__kernels_state;
    uint64_t looked = __atomic_load_n(&s->looked_ticks, __ATOMIC_RELAXED);
    const uint64_t now = sonde_ticks() | 1;
    if ((!looked || sonde_ticks_ns(now - looked) >= SONDE__KERNEL_SWITCH_NS) &&
        __atomic_compare_exchange_n(&s->looked_ticks, &looked, now, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
        const int said = switch_look(sonde__mono_ns());
        switch_set(k, said < 0 ? sonde__gpu_config.on != 0 : said != 0);
    }
    return (int)__atomic_load_n(&s->on, __ATOMIC_RELAXED);
}
