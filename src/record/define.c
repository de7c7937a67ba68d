/* define.c - families, names and series: append-only tables in the segment, with hash indexes
 * in its blocks. Looking up takes no lock; adding takes the define lock.
 *
 * An index is never changed but for filling empty slots; when half full it is replaced by one
 * twice the size and the pointer to it swapped. Old ones stay, since somebody may be reading. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/utf8.h"
#include "record/state.h"
#include "segment/never.h"

#define INDEX_SLOTS_FIRST 16u
#define FAILED_MAX 64u  /* definitions, one after the other, for which there was no room */

/* The way of a bind that finds its series; as calls these cost a quarter of it. */
#define INLINE static inline __attribute__((always_inline))

/* ---- The define lock ----------------------------------------------------------------------- */

int sonde__define_lock(int wait)
{
    struct sonde__shield shield;
    uint32_t *lock = &sonde__g.h->define_lock;
    const uint32_t me = sonde__tls.tid;
    if (sonde__silent()) return SONDE_EBUSY;
    const uint64_t deadline = wait ? sonde__mono_ns() + SONDE__LOCK_WAIT_MS * 1000000ull : 0;
    for (;;) {
        uint32_t owner = __atomic_load_n(lock, __ATOMIC_RELAXED);
        if (!owner) { /* not worth the shield's system calls otherwise */
            sonde__shield_up(&shield);
            if (__atomic_compare_exchange_n(lock, &owner, me, 0, __ATOMIC_ACQUIRE,
                                            __ATOMIC_RELAXED)) {
                sonde__g.define_shield = shield;
                return 0;
            }
            sonde__shield_down(&shield);
        }
        if (!wait || owner == me || sonde__mono_ns() > deadline) return SONDE_EBUSY;
        sched_yield();
    }
}

void sonde__define_unlock(void)
{
    SONDE_MUST(sonde__define_held());
    const struct sonde__shield shield = sonde__g.define_shield;
    __atomic_store_n(&sonde__g.h->define_lock, 0, __ATOMIC_RELEASE);
    sonde__shield_down(&shield);
}

/* To begin a definition: 0 with the lock held, or there is no use. A program that has no room any
 * more asks again with every record, and all its threads would stand in line for the same
 * answer. */
static int define_begin(void)
{
    if (__atomic_load_n(&sonde__g.define_failed, __ATOMIC_RELAXED) >= FAILED_MAX &&
        sonde__resting(&sonde__g.define_until)) {
        sonde__drop(__atomic_load_n(&sonde__g.define_reason, __ATOMIC_RELAXED));
        return SONDE_EFULL;
    }
    if (!sonde__define_lock(1)) return 0;
    sonde__drop(SONDE__DROP_reentrant);
    return SONDE_EBUSY;
}

static void define_end(int failed)
{
    const uint32_t n = failed ? sonde__g.define_failed + 1 : 0;
    if (n >= FAILED_MAX) sonde__rest(&sonde__g.define_until);
    __atomic_store_n(&sonde__g.define_failed, n < FAILED_MAX ? n : FAILED_MAX, __ATOMIC_RELAXED);
    sonde__define_unlock();
}

static void define_no_room(int reason)
{
    SONDE_MUST(sonde__define_held());
    sonde__drop(reason);
    __atomic_store_n(&sonde__g.define_reason, reason, __ATOMIC_RELAXED);
}

/* ---- Keys ---------------------------------------------------------------------------------- */

struct key {               /* label values, or one name */
    const char *text[SONDE_LABELS_MAX];
    size_t len[SONDE_LABELS_MAX];
    uint64_t word[SONDE_LABELS_MAX]; /* the last up to eight bytes: see tail() */
    uint32_t count;
    uint64_t hash;
};

INLINE uint64_t mix(uint64_t a, uint64_t b)
{
    const unsigned __int128 r = (unsigned __int128)a * b;
    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

INLINE uint64_t load(const char *p, size_t n)
{
    uint64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

/* The last up to eight bytes as a number that, with len, says exactly what they are: overlapping
 * loads instead of a loop over bytes. */
INLINE uint64_t tail(const char *p, size_t len)
{
    if (len >= 8) return load(p + len - 8, 8);
    if (len >= 4) return load(p, 4) | load(p + len - 4, 4) << 8 * (len - 4);
    if (!len) return 0;
    return (uint64_t)(unsigned char)p[0] | (uint64_t)(unsigned char)p[len / 2] << 8 * (len / 2) |
           (uint64_t)(unsigned char)p[len - 1] << 8 * (len - 1);
}

INLINE uint64_t hash_text(uint64_t h, const char *p, size_t len, uint64_t word)
{
    for (size_t i = 0; i + 8 < len; i += 8) h = mix(h ^ load(p + i, 8), 0xa0761d6478bd642full);
    return mix(h ^ word, 0xe7037ed1a0b428dbull + 2 * len);
}

/* The lowest bit set is bit 7 of the first zero byte; 0 = there is none. */
INLINE uint64_t zero_bytes(uint64_t w)
{
    return (w - 0x0101010101010101ull) & ~w & 0x8080808080808080ull;
}

/* Length and tail() of a label value. They are short: words and no call beat strlen and memcmp
 * here, and most have less than eight bytes, so that one word is length, hash input and
 * comparison (37 ns to 16 ns for a bind of two labels). An aligned word that holds a byte of the
 * string lies in its page, so it can be read; memcheck knows that, sanitizers do not. */
__attribute__((no_sanitize("address", "undefined"))) static inline size_t define_scan(
    const char *s, uint64_t *word)
{
    const size_t skew = (uintptr_t)s & 7;
    const uint64_t *p = (const uint64_t *)(const void *)(s - skew);
    uint64_t zero = zero_bytes(*p | ((1ull << (8 * skew)) - 1));
    uint64_t w = *p >> (8 * skew);
    size_t len;
    if (zero) {
        len = ((size_t)__builtin_ctzll(zero) >> 3) - skew;
    } else {
        w |= p[1] << 1 << (63 - 8 * skew);
        zero = zero_bytes(w);
        len = (size_t)__builtin_ctzll(zero | 1ull << 63) >> 3;
    }
    if (SONDE__LIKELY(zero)) {
        *word = w & ((1ull << (8 * len)) - 1);
        return len;
    }
    do {
        zero = zero_bytes(*++p);
    } while (!zero);
    len = (size_t)((const char *)p - s) + ((size_t)__builtin_ctzll(zero) >> 3);
    *word = tail(s, len);
    return len;
}

INLINE int text_equal(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i + 8 < len; i += 8) {
        if (load(a + i, 8) != load(b + i, 8)) return 0;
    }
    return tail(a, len) == tail(b, len);
}

INLINE void key_hash(struct key *k, uint64_t seed)
{
    uint64_t h = seed ^ 0x8ebc6af09c88c6e3ull;
    for (uint32_t i = 0; i < k->count; i++) h = hash_text(h, k->text[i], k->len[i], k->word[i]);
    k->hash = h;
}

INLINE void key_values(struct key *k, uint32_t count, const char *const *values)
{
    k->count = count;
    for (uint32_t i = 0; i < count; i++) {
        k->text[i] = values && values[i] ? values[i] : "";
        k->len[i] = define_scan(k->text[i], &k->word[i]);
    }
    key_hash(k, 0);
}

INLINE int key_equals_packed(const struct key *k, const char *packed)
{
    for (uint32_t i = 0; i < k->count; i++) {
        const size_t len = k->len[i];
        if (load(packed, 2) != len) return 0;
        if (SONDE__LIKELY(len < 8)) {
            /* Reads past the value: add_text leaves 8 bytes behind it. */
            if ((load(packed + 2, 8) & ((1ull << 8 * len) - 1)) != k->word[i]) return 0;
        } else if (!text_equal(packed + 2, k->text[i], len)) {
            return 0;
        }
        packed += 2 + len;
    }
    return 1;
}

/* ---- Indexes ------------------------------------------------------------------------------- */

typedef int match_fn(uint32_t id, const struct key *k);

INLINE uint32_t index_find(uint64_t at, const struct key *k, match_fn *match)
{
    if (!at) return 0;
    struct sonde__index *x = (struct sonde__index *)(void *)sonde__at(at);
    const uint32_t tag = (uint32_t)(k->hash >> 32);
    for (uint32_t i = (uint32_t)k->hash & x->mask;; i = (i + 1) & x->mask) {
        const uint32_t id = __atomic_load_n(&x->slot[i].series, __ATOMIC_ACQUIRE);
        if (!id) return 0;
        if (x->slot[i].tag == tag && match(id, k)) return id;
    }
}

static void index_fill(struct sonde__index *x, uint64_t hash, uint32_t id)
{
    SONDE_MUST(id && !(x->mask & (x->mask + 1))); /* 0 = free; a power of two */
    uint32_t i = (uint32_t)hash & x->mask;
    while (x->slot[i].series) i = (i + 1) & x->mask;
    x->slot[i].tag = (uint32_t)(hash >> 32);
    __atomic_store_n(&x->slot[i].series, id, __ATOMIC_RELEASE);
}

typedef uint64_t hash_fn(uint32_t id);

/* Room for one more entry beside the used ones of the index at *at. */
static int index_reserve(uint64_t *at, uint32_t used, hash_fn *hash_of)
{
    struct sonde__index *x = *at ? (struct sonde__index *)(void *)sonde__at(*at) : NULL;
    if (x && (used + 1) * 2 <= x->mask + 1) return 0;
    const uint32_t slots = x ? (x->mask + 1) * 2 : INDEX_SLOTS_FIRST;
    const uint64_t bigger = sonde__block_take(sizeof(*x) + slots * sizeof(x->slot[0]));
    if (!bigger) return SONDE_ENOSPC;
    struct sonde__index *y = (struct sonde__index *)(void *)sonde__at(bigger);
    y->mask = slots - 1;
    for (uint32_t i = 0; x && i <= x->mask; i++) {
        const uint32_t old = x->slot[i].series;
        if (old) index_fill(y, hash_of(old), old);
    }
    __atomic_store_n(at, bigger, __ATOMIC_RELEASE);
    return 0;
}

/* After index_reserve, and after the entry is counted: who finds an id without the lock may use
 * it at once, or fork, and a child takes over only what is counted. */
static void define_index_add(uint64_t at, uint64_t hash, uint32_t id)
{
    index_fill((struct sonde__index *)(void *)sonde__at(at), hash, id);
}

INLINE int match_series(uint32_t id, const struct key *k)
{
    return key_equals_packed(k, sonde__str_at(sonde__series_at(id)->values));
}

static uint64_t hash_series(uint32_t id) { return sonde__series_at(id)->hash; }

/* Metric names and span names live in one table but do not meet: the seed tells them apart. */
static void key_name(struct key *k, uint32_t type, const char *name, size_t len)
{
    k->count = 1;
    k->text[0] = name;
    k->len[0] = len;
    k->word[0] = tail(name, len);
    key_hash(k, type == SONDE__TYPE_NAME);
}

static int match_family(uint32_t id, const struct key *k)
{
    const struct sonde__family *f = sonde__family_at(id);
    struct key theirs;
    if (f->name.len != k->len[0] || memcmp(sonde__str_at(f->name), k->text[0], k->len[0])) return 0;
    key_name(&theirs, f->type, k->text[0], k->len[0]);
    return theirs.hash == k->hash;
}

static uint64_t hash_family(uint32_t id)
{
    const struct sonde__family *f = sonde__family_at(id);
    struct key k;
    key_name(&k, f->type, sonde__str_at(f->name), f->name.len);
    return k.hash;
}

static uint32_t define_find_family(const struct key *k)
{
    return index_find(__atomic_load_n(&sonde__g.h->name_index, __ATOMIC_ACQUIRE), k,
                      match_family);
}

/* ---- Appending ----------------------------------------------------------------------------- */

/* Have bytes up to need populated in the table at off; grows by half, at least 16 KiB. */
static int table_ready(uint64_t off, uint64_t *ready, uint64_t need, uint64_t max)
{
    if (need <= *ready) return 0;
    SONDE_MUST(need <= max);
    uint64_t more = *ready / 2;
    if (more < 16u << 10) more = 16u << 10;
    if (more < need - *ready) more = need - *ready;
    more = (more + SONDE__PAGE - 1) & ~(uint64_t)(SONDE__PAGE - 1);
    if (*ready + more > max) more = max - *ready;
    if (*ready + more < need || sonde__populate(off + *ready, more)) return SONDE_ENOSPC;
    *ready += more;
    return 0;
}

/* Append parts, each with a u16 length before it if packed, and a NUL. */
static int define_add_text(const struct key *k, int packed, struct sonde__str *out)
{
    SONDE_MUST(sonde__define_held() && k->count <= SONDE_LABELS_MAX);
    struct sonde__header *h = sonde__g.h;
    uint64_t len = 0;
    for (uint32_t i = 0; i < k->count; i++) len += k->len[i] + (packed ? 2 : 0);
    *out = (struct sonde__str){ 0, 0 };
    if (!len) return 0;
    const uint64_t at = h->string_used;
    if (at + len + 8 > h->string_max ||
        table_ready(h->string_off, &h->string_ready, at + len + 8, h->string_max)) {
        define_no_room(SONDE__DROP_strings);
        return SONDE_EFULL;
    }
    char *p = sonde__at(h->string_off) + at;
    for (uint32_t i = 0; i < k->count; i++) {
        const uint16_t n = (uint16_t)k->len[i];
        if (packed) {
            memcpy(p, &n, sizeof(n));
            p += sizeof(n);
        }
        memcpy(p, k->text[i], k->len[i]);
        p += k->len[i];
    }
    *out = (struct sonde__str){ (uint32_t)at, (uint32_t)len };
    /* 8 and not 1 for the NUL: comparing a label value reads the whole word it ends in, which
     * must not be another string's. */
    __atomic_store_n(&h->string_used, at + len + 8, __ATOMIC_RELEASE);
    return 0;
}

static int add_one(const char *text, size_t max, struct sonde__str *out)
{
    char clean[1024];
    int changed = 0;
    struct key k = { .count = 1 };
    k.text[0] = clean;
    k.len[0] = text ? sonde__utf8_copy(clean, max < sizeof(clean) ? max : sizeof(clean), text,
                                       strlen(text), &changed)
                    : 0;
    return define_add_text(&k, 0, out);
}

/* One more cell in every lane. */
static int cells_ready(uint32_t need)
{
    SONDE_MUST(sonde__define_held()); /* lanes are not added meanwhile */
    struct sonde__header *h = sonde__g.h;
    if (need <= h->cells_ready) return 0;
    const uint64_t before = SONDE__CELLS_OFF + 8ull * h->cells_ready;
    uint64_t after = before + before / 2;
    if (after < SONDE__CELLS_OFF + 8ull * need) after = SONDE__CELLS_OFF + 8ull * need;
    after = (after + SONDE__PAGE - 1) & ~(uint64_t)(SONDE__PAGE - 1);
    if (after > h->lane_stride) after = h->lane_stride;
    for (uint32_t i = 0; i < h->lane_count; i++) {
        const int rc = sonde__populate(sonde__lane_at(h, i) + before, after - before);
        if (rc) {
            sonde__populate_undo(i * (after - before));
            return rc;
        }
    }
    h->cells_ready = (uint32_t)((after - SONDE__CELLS_OFF) / 8);
    return 0;
}

static uint32_t add_family(struct sonde__family *f, const struct key *k)
{
    SONDE_MUST(sonde__define_held());
    struct sonde__header *h = sonde__g.h;
    const uint32_t id = h->family_count;
    const uint64_t max = (uint64_t)h->family_max * sizeof(*f);
    if (id >= h->family_max ||
        table_ready(h->family_off, &h->family_ready, (id + 1ull) * sizeof(*f), max)) {
        define_no_room(SONDE__DROP_family_table);
        return 0;
    }
    if (index_reserve(&h->name_index, id - 1, hash_family)) return 0;
    f->check = sonde__family_check(f, sonde__at(h->string_off));
    *sonde__family_at(id) = *f;
    __atomic_store_n(&h->family_count, id + 1, __ATOMIC_RELEASE);
    define_index_add(h->name_index, k->hash, id);
    return id;
}

/* The overflow series has no values and is found through its family, not the index. */
static uint32_t define_add_series(uint32_t family, const struct key *k, uint32_t flags)
{
    SONDE_MUST(sonde__define_held() && family && family < sonde__g.h->family_count);
    struct sonde__header *h = sonde__g.h;
    struct sonde__family *f = sonde__family_at(family);
    struct sonde__series s = { .family = family, .flags = flags, .hash = k->hash };
    const uint32_t id = h->series_count;
    const uint64_t max = (uint64_t)h->series_max * sizeof(s);
    if (id >= h->series_max ||
        table_ready(h->series_off, &h->series_ready, (id + 1ull) * sizeof(s), max) ||
        cells_ready(id + 1)) {
        define_no_room(SONDE__DROP_series_table);
        return 0;
    }
    const int overflow = (flags & SONDE__SERIES_OVERFLOW) != 0;
    if (!overflow && index_reserve(&f->index, f->series_count, hash_series)) return 0;
    if (define_add_text(k, 1, &s.values)) return 0;
    s.created_ns = sonde__real_ns();
    s.check = sonde__series_check(&s, sonde__at(h->string_off));
    *sonde__series_at(id) = s;
    __atomic_store_n(&h->series_count, id + 1, __ATOMIC_RELEASE);
    if (!overflow) {
        __atomic_store_n(&f->series_count, f->series_count + 1, __ATOMIC_RELEASE);
        define_index_add(f->index, k->hash, id);
    }
    return id;
}

int sonde__define_reindex(void)
{
    struct sonde__header *h = sonde__g.h;
    for (uint32_t id = 1; id < h->family_count; id++) {
        struct sonde__family *f = sonde__family_at(id);
        f->index = 0;
        f->series_count = 0;
        f->overflowed = 0;
        f->overflow_series = 0; /* the parent's may be newer than what was taken over */
        if (index_reserve(&h->name_index, id - 1, hash_family)) return SONDE_ENOSPC;
        define_index_add(h->name_index, hash_family(id), id);
    }
    for (uint32_t id = 1; id < h->series_count; id++) {
        const struct sonde__series *s = sonde__series_at(id);
        struct sonde__family *f = sonde__family_at(s->family);
        if (s->flags & SONDE__SERIES_OVERFLOW) {
            f->overflow_series = id;
            continue;
        }
        if (index_reserve(&f->index, f->series_count, hash_series)) return SONDE_ENOSPC;
        define_index_add(f->index, s->hash, id);
        f->series_count++;
    }
    return 0;
}

const char *sonde__family_name(uint32_t id)
{
    if (!id || id >= __atomic_load_n(&sonde__g.h->family_count, __ATOMIC_ACQUIRE)) return "";
    return sonde__str_at(sonde__family_at(id)->name);
}

/* ---- Families ------------------------------------------------------------------------------ */

static int define_name_ok(const char *s)
{
    if (!s || !*s || (*s >= '0' && *s <= '9')) return 0;
    for (size_t i = 0; s[i]; i++) {
        const char c = s[i];
        if (i >= SONDE_NAME_MAX) return 0;
        if (!(c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
              (c >= 'A' && c <= 'Z'))) {
            return 0;
        }
    }
    return 1;
}

/* The agent adds process and pid; exposition formats keep le, quantile and __*. */
static int label_ok(const char *s)
{
    return define_name_ok(s) && strncmp(s, "__", 2) && strcmp(s, "le") && strcmp(s, "quantile") &&
           strcmp(s, "process") && strcmp(s, "pid") && strcmp(s, "overflow");
}

static int define_labels_of(const struct sonde_metric *m, struct key *k)
{
    k->count = 0;
    for (uint32_t i = 0; m->labels && m->labels[i]; i++) {
        if (i >= SONDE_LABELS_MAX || !label_ok(m->labels[i])) return SONDE_EINVAL;
        for (uint32_t j = 0; j < i; j++) {
            if (!strcmp(m->labels[i], m->labels[j])) return SONDE_EINVAL;
        }
        k->text[i] = m->labels[i];
        k->len[i] = strlen(m->labels[i]);
        k->word[i] = tail(m->labels[i], k->len[i]);
        k->count++;
    }
    return 0;
}

/* Tags as a key of up to 4 pairs; values are cleaned into clean. */
static int tags_of(const struct sonde_metric *m, struct key *k,
                   char (*clean)[SONDE_LABEL_VALUE_MAX])
{
    int changed = 0;
    k->count = 0;
    for (uint32_t i = 0; m->tags && m->tags[i]; i += 2) {
        if (i + 1 >= SONDE_LABELS_MAX || !label_ok(m->tags[i]) || !m->tags[i + 1]) {
            return SONDE_EINVAL;
        }
        k->text[i] = m->tags[i];
        k->len[i] = strlen(m->tags[i]);
        k->text[i + 1] = clean[i / 2];
        k->len[i + 1] = sonde__utf8_copy(clean[i / 2], SONDE_LABEL_VALUE_MAX, m->tags[i + 1],
                                         strlen(m->tags[i + 1]), &changed);
        k->count += 2;
    }
    return 0;
}

/* A family found by name: is it what is being defined? */
static int same_family(uint32_t id, enum sonde_type type, double scale, const struct key *labels)
{
    const struct sonde__family *f = sonde__family_at(id);
    return f->type == type && f->scale == scale && f->label_count == labels->count &&
           key_equals_packed(labels, sonde__str_at(f->labels));
}

static int define_new(enum sonde_type type, const struct sonde_metric *m, double scale,
                      const struct key *name, const struct key *labels, uint32_t *id)
{
    struct sonde__family f = {
        .type = type,
        .kind = m->kind,
        .scale = scale,
        .label_count = labels->count,
        .series_max = m->series_max ? m->series_max : SONDE__SERIES_MAX_DEFAULT,
    };
    char clean[SONDE_LABELS_MAX / 2][SONDE_LABEL_VALUE_MAX];
    struct key tags;
    int rc = tags_of(m, &tags, clean);
    if (rc) return rc;
    f.tag_count = tags.count / 2;
    rc = define_add_text(name, 0, &f.name);
    if (!rc) rc = add_one(m->help, 1000, &f.help);
    if (!rc) rc = add_one(m->unit, 64, &f.unit);
    if (!rc) rc = add_one(m->source, SONDE_NAME_MAX, &f.source);
    if (!rc) rc = define_add_text(labels, 1, &f.labels);
    if (!rc) rc = define_add_text(&tags, 1, &f.tags);
    if (rc) return rc;
    *id = add_family(&f, name);
    return *id ? 0 : SONDE_EFULL;
}

static int check_metric(const struct sonde_metric *m)
{
    if (!define_name_ok(m->name)) return SONDE_EINVAL;
    if (m->kind > SONDE_KIND_PERCENTAGE) return SONDE_EINVAL;
    /* A scale that is negative, not finite or zero times value would make nonsense buckets. */
    return m->scale >= 0 && m->scale < 1e300 ? 0 : SONDE_EINVAL;
}

int sonde_define(enum sonde_type type, const struct sonde_metric *metric,
                 struct sonde_family *out)
{
    struct sonde_metric m;
    struct key name, labels;
    out->id = 0;
    int rc = sonde__take_options(&m, sizeof(m), metric);
    if (!rc) rc = check_metric(&m);
    if (!rc && type != SONDE_COUNTER && type != SONDE_GAUGE && type != SONDE_HISTOGRAM) {
        rc = SONDE_EINVAL;
    }
    if (!rc) rc = define_labels_of(&m, &labels);
    if (!rc) rc = sonde__ensure_open();
    if (rc) return rc;

    const double scale = m.scale > 0 ? m.scale : 1;
    key_name(&name, type, m.name, strlen(m.name));
    uint32_t id = define_find_family(&name);
    if (!id) {
        rc = define_begin();
        if (rc) return rc;
        sonde__clock_recheck();
        id = define_find_family(&name);
        if (!id) rc = define_new(type, &m, scale, &name, &labels, &id);
        define_end(rc == SONDE_EFULL);
        if (rc) return rc;
    }
    if (!same_family(id, type, scale, &labels)) return SONDE_EEXIST;
    out->id = id;
    return 0;
}

uint32_t sonde_name(const char *name)
{
    char clean[SONDE_NAME_MAX];
    int changed = 0;
    struct key k;
    if (!name || sonde__ensure_open()) return 0;
    const size_t len = sonde__utf8_copy(clean, sizeof(clean), name, strlen(name), &changed);
    key_name(&k, SONDE__TYPE_NAME, clean, len);
    uint32_t id = define_find_family(&k);
    if (id) return id;
    if (define_begin()) return 0;
    id = define_find_family(&k);
    if (!id) {
        struct sonde__family f = { .type = SONDE__TYPE_NAME, .scale = 1 };
        if (!define_add_text(&k, 0, &f.name)) id = add_family(&f, &k);
    }
    define_end(!id);
    return id;
}

/* ---- Binding ------------------------------------------------------------------------------- */

/* Values made valid and short in clean; 1 if any had to be changed. */
static int key_clean(struct key *k, char (*clean)[SONDE_LABEL_VALUE_MAX])
{
    int changed = 0;
    for (uint32_t i = 0; i < k->count; i++) {
        k->len[i] = sonde__utf8_copy(clean[i], SONDE_LABEL_VALUE_MAX, k->text[i], k->len[i],
                                     &changed);
        k->text[i] = clean[i];
        k->word[i] = tail(clean[i], k->len[i]);
    }
    if (changed) key_hash(k, 0);
    return changed;
}

static uint32_t define_overflow(struct sonde__family *f, uint32_t family)
{
    static const struct key none;
    __atomic_fetch_add(&f->overflowed, 1, __ATOMIC_RELAXED);
    if (!f->overflow_series) {
        const uint32_t id = define_add_series(family, &none, SONDE__SERIES_OVERFLOW);
        __atomic_store_n(&f->overflow_series, id, __ATOMIC_RELEASE);
    }
    return f->overflow_series;
}

static uint32_t bind_new(uint32_t family, struct key *k)
{
    struct sonde__family *f = sonde__family_at(family);
    char clean[SONDE_LABELS_MAX][SONDE_LABEL_VALUE_MAX];
    if (key_clean(k, clean)) sonde__drop(SONDE__DROP_label_cut);
    /* Once there is an overflow series nothing is added to the index any more: no lock then, for
     * a program that makes up label values does so at every call. */
    uint32_t id = __atomic_load_n(&f->overflow_series, __ATOMIC_ACQUIRE);
    if (id) {
        const uint32_t known =
            index_find(__atomic_load_n(&f->index, __ATOMIC_ACQUIRE), k, match_series);
        if (known) return known;
        __atomic_fetch_add(&f->overflowed, 1, __ATOMIC_RELAXED);
        return id;
    }
    if (define_begin()) return 0;
    id = index_find(f->index, k, match_series);
    if (!id && f->series_count >= f->series_max) {
        id = define_overflow(f, family);
    } else if (!id) {
        id = define_add_series(family, k, 0);
    }
    define_end(!id);
    return id;
}

static uint32_t define_bind(uint32_t family, enum sonde_type type, const char *const *values)
{
    struct key k;
    if (SONDE__UNLIKELY(SONDE__GATE() != SONDE__GATE_ON) && sonde__ensure_open()) return 0;
    if (!family || family >= __atomic_load_n(&sonde__g.h->family_count, __ATOMIC_ACQUIRE)) return 0;
    struct sonde__family *f = sonde__family_at(family);
    if (f->type != type) return 0;
    key_values(&k, f->label_count, values);
    const uint32_t id =
        index_find(__atomic_load_n(&f->index, __ATOMIC_ACQUIRE), &k, match_series);
    if (SONDE__LIKELY(id)) return id;
    /* Sets up this thread, whose tid the lock wants; unless it was switched off just now. */
    return sonde__ensure_open() ? 0 : bind_new(family, &k);
}

struct sonde_counter sonde_counter_bind(struct sonde_family f, const char *const *v)
{
    return (struct sonde_counter){ 8ull * define_bind(f.id, SONDE_COUNTER, v) };
}

struct sonde_gauge sonde_gauge_bind(struct sonde_family f, const char *const *v)
{
    return (struct sonde_gauge){ 8ull * define_bind(f.id, SONDE_GAUGE, v) };
}

struct sonde_hist sonde_hist_bind(struct sonde_family f, const char *const *v)
{
    const uint32_t id = define_bind(f.id, SONDE_HISTOGRAM, v);
    if (!id) return (struct sonde_hist){ 0, 0 };
    return (struct sonde_hist){ 8ull * id + 8, sonde__family_at(f.id)->scale };
}

int sonde__series_find(enum sonde_type type, const char *name, const char *const *values,
                       uint32_t *out)
{
    char clean[SONDE_LABELS_MAX][SONDE_LABEL_VALUE_MAX];
    struct key k;
    key_name(&k, type, name, strlen(name));
    const uint32_t id = define_find_family(&k);
    if (!id) return SONDE_ENOENT;
    const struct sonde__family *f = sonde__family_at(id);
    if (f->type != type) return SONDE_EEXIST;
    key_values(&k, f->label_count, values);
    key_clean(&k, clean);
    *out = index_find(__atomic_load_n(&f->index, __ATOMIC_ACQUIRE), &k, match_series);
    return *out ? 0 : SONDE_ENOENT;
}

static struct sonde_family define_simple(enum sonde_type type, const char *name,
                                         const char *help, double scale)
{
    const struct sonde_metric m = {
        .size = sizeof(m), .name = name, .help = help, .scale = scale
    };
    struct sonde_family f;
    sonde_define(type, &m, &f);
    return f;
}

struct sonde_counter sonde_counter(const char *name, const char *help)
{
    return sonde_counter_bind(define_simple(SONDE_COUNTER, name, help, 1), NULL);
}

struct sonde_gauge sonde_gauge(const char *name, const char *help)
{
    return sonde_gauge_bind(define_simple(SONDE_GAUGE, name, help, 1), NULL);
}

struct sonde_hist sonde_hist(const char *name, const char *help, double scale)
{
    return sonde_hist_bind(define_simple(SONDE_HISTOGRAM, name, help, scale), NULL);
}
