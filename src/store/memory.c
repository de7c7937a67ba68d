/* memory.c - profiles in memory, for an agent without a store: see store.h. A list, the newest
 * last. Run files are kept deflated; a session's is some hundred kilobytes. */
#include <assert.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/lock.h"
#include "sonde/sonde.h"
#include "store/store.h"

#define PROFILES_DEFAULT 200u
#define BYTES_DEFAULT ((uint64_t)64 << 20)

struct kept {
    struct sonde_store_profile p;   /* its texts are owned */
    unsigned char *data;            /* owned; p.bytes of them */
    size_t plain_len;
};

struct sonde_store {
    struct sonde_lock lock;
    uint64_t profiles_max, bytes_max;
    struct kept *list;
    size_t count, cap;
    uint64_t bytes, last_id;
};

static void kept_release(struct kept *k)
{
    sonde__free((char *)(uintptr_t)k->p.name);
    sonde__free((char *)(uintptr_t)k->p.kind);
    sonde__free((char *)(uintptr_t)k->p.program);
    sonde__free(k->data);
}

static void store_memory_remove_at(struct sonde_store *s, size_t i)
{
    assert(i < s->count && s->bytes >= s->list[i].p.bytes);
    s->bytes -= s->list[i].p.bytes;
    kept_release(&s->list[i]);
    memmove(&s->list[i], &s->list[i + 1], (--s->count - i) * sizeof(s->list[0]));
}

static int memory_open(const struct sonde_store_options *o, struct sonde_store **out,
                       struct sonde_err *err)
{
    struct sonde_store *s = sonde__calloc(1, sizeof(*s));
    if (!s) return sonde_err_set(err, SONDE_ENOMEM, "no memory for profiles");
    s->profiles_max = o->keep.profiles ? o->keep.profiles : PROFILES_DEFAULT;
    s->bytes_max = o->keep.bytes ? o->keep.bytes : BYTES_DEFAULT;
    sonde_lock_init(&s->lock, SONDE_RANK_STORE_MEMORY);
    *out = s;
    return 0;
}

static void memory_close(struct sonde_store *s)
{
    if (!s) return;
    while (s->count) store_memory_remove_at(s, s->count - 1);
    sonde__free(s->list);
    sonde_lock_destroy(&s->lock);
    sonde__free(s);
}

static int store_memory_pack(const struct sonde_store_profile *p, const void *data, size_t len,
                             struct kept *out)
{
    uLongf packed_len = compressBound((uLong)len);
    *out = (struct kept){ .p = *p, .plain_len = len };
    out->p.name = sonde__strdup(p->name ? p->name : "");
    out->p.kind = sonde__strdup(p->kind ? p->kind : "");
    out->p.program = sonde__strdup(p->program ? p->program : "");
    unsigned char *packed = sonde__alloc(packed_len);
    const int ok = packed && compress2(packed, &packed_len, data, (uLong)len,
                                       Z_DEFAULT_COMPRESSION) == Z_OK;
    if (ok) out->data = sonde__realloc(packed, packed_len ? packed_len : 1);
    if (!out->data) sonde__free(packed);
    out->p.bytes = packed_len;
    if (out->data && out->p.name && out->p.kind && out->p.program) return 0;
    kept_release(out);
    return SONDE_ENOMEM;
}

static int store_memory_append(struct sonde_store *s, const struct kept *k)
{
    sonde_assert_held(&s->lock);
    struct kept *at = SONDE_ARRAY_ADD(s->list, s->count, s->cap);
    if (!at) return SONDE_ENOMEM;
    *at = *k;
    s->bytes += k->p.bytes;
    return 0;
}

static void delete_id(struct sonde_store *s, uint64_t id, int *found)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->list[i].p.id != id) continue;
        store_memory_remove_at(s, i);
        *found = 1;
        return;
    }
}

static int memory_replace(struct sonde_store *s, const struct sonde_store_profile *p,
                          const void *data, size_t len, const uint64_t *ids, size_t id_count,
                          uint64_t *id, struct sonde_err *err)
{
    struct kept k;
    int found = 0;
    if (store_memory_pack(p, data, len, &k)) {
        return sonde_err_set(err, SONDE_ENOMEM, "no memory for a profile");
    }
    if (k.p.bytes > s->bytes_max) {
        kept_release(&k);
        return sonde_err_set(err, SONDE_EFULL, "a profile of %zu bytes does not fit into the %llu "
                             "that are kept in memory; a store on disk has room for it", k.p.bytes,
                             (unsigned long long)s->bytes_max);
    }
    sonde_lock(&s->lock);
    k.p.id = s->last_id + 1;
    const int rc = store_memory_append(s, &k);
    if (!rc) {
        s->last_id++;
        for (size_t i = 0; i < id_count; i++) delete_id(s, ids[i], &found);
        while (s->count > s->profiles_max || s->bytes > s->bytes_max) store_memory_remove_at(s, 0);
        if (id) *id = s->last_id;
    }
    sonde_unlock(&s->lock);
    if (!rc) return 0;
    kept_release(&k);
    return sonde_err_set(err, rc, "no memory for a profile");
}

static int memory_put(struct sonde_store *s, const struct sonde_store_profile *p, const void *data,
                      size_t len, uint64_t *id, struct sonde_err *err)
{
    return memory_replace(s, p, data, len, NULL, 0, id, err);
}

static int memory_profiles(struct sonde_store *s, const char *name,
                           void (*row)(const struct sonde_store_profile *p, void *arg), void *arg,
                           struct sonde_err *err)
{
    (void)err;
    sonde_lock(&s->lock);
    for (size_t i = s->count; i-- > 0;) {
        if (!name || !strcmp(s->list[i].p.name, name)) row(&s->list[i].p, arg);
    }
    sonde_unlock(&s->lock);
    return 0;
}

static int store_memory_unpack(const struct kept *k, struct sonde_buf *out, struct sonde_err *err)
{
    uLongf len = (uLongf)k->plain_len;
    char *room = sonde_buf_reserve(out, k->plain_len);
    if (!room || uncompress((unsigned char *)room, &len, k->data, (uLong)k->p.bytes) != Z_OK) {
        return sonde_err_set(err, SONDE_ENOMEM, "no memory to read a profile");
    }
    out->len += len;
    return 0;
}

static int store_memory_none(uint64_t id, struct sonde_err *err)
{
    return sonde_err_set(err, SONDE_ENOENT, "there is no profile %llu", (unsigned long long)id);
}

static int memory_get(struct sonde_store *s, uint64_t id, struct sonde_buf *out,
                      struct sonde_err *err)
{
    int rc = SONDE_ENOENT;
    sonde_lock(&s->lock);
    for (size_t i = 0; rc == SONDE_ENOENT && i < s->count; i++) {
        if (s->list[i].p.id == id) rc = store_memory_unpack(&s->list[i], out, err);
    }
    sonde_unlock(&s->lock);
    return rc == SONDE_ENOENT ? store_memory_none(id, err) : rc;
}

static int memory_delete(struct sonde_store *s, uint64_t id, struct sonde_err *err)
{
    int found = 0;
    sonde_lock(&s->lock);
    delete_id(s, id, &found);
    sonde_unlock(&s->lock);
    return found ? 0 : store_memory_none(id, err);
}

const struct sonde_store_ops sonde_store_memory = {
    .name = "memory",
    .summary = "profiles alone, until the agent ends",
    .open = memory_open,
    .close = memory_close,
    .profile_put = memory_put,
    .profile_replace = memory_replace,
    .profiles = memory_profiles,
    .profile_get = memory_get,
    .profile_delete = memory_delete,
};
