/* gguf_write.c - the writer of gguf_write.h.
 *
 * Pairs and the list of tensors are gathered in memory, because the file begins with how many there
 * are; with the first byte of data they are written out. Data goes straight to the file, each
 * tensor filled up with zeros to the alignment. */
#include "file/gguf_write.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 32, VERSION = 3 };
#define HEADER_BYTES_MAX ((size_t)1 << 30)

struct gguf_part { unsigned char *data; size_t bytes, room; };

struct gguf_writer {
    FILE *file;
    char path[PATH_MAX], part_path[PATH_MAX + 32];
    struct gguf_part pairs, tensors;
    uint64_t pair_count, tensor_count;
    uint64_t *sizes;             /* bytes of each tensor */
    uint64_t sizes_room;
    uint64_t offset;             /* of the next tensor that is added */
    uint64_t current, current_bytes; /* tensor that data goes to, and how much it has */
    int header_written;
    int failed;
    struct fail why;
};

static void writer_fail(struct gguf_writer *w, const char *what)
{
    if (!w->failed) fail_set(&w->why, "%s: %s", w->path, what);
    w->failed = 1;
}

static void gguf_write_part_add(struct gguf_writer *w, struct gguf_part *p, const void *data,
                                size_t bytes)
{
    if (w->failed) return;
    if (bytes > HEADER_BYTES_MAX - p->bytes) {
        writer_fail(w, "more than 1 GiB of metadata");
        return;
    }
    if (p->bytes + bytes > p->room) {
        const size_t room = (p->bytes + bytes) * 2;
        unsigned char *grown = realloc(p->data, room);
        if (!grown) {
            writer_fail(w, "out of memory");
            return;
        }
        p->data = grown;
        p->room = room;
    }
    if (bytes) memcpy(p->data + p->bytes, data, bytes);
    p->bytes += bytes;
}

static void part_add_u32(struct gguf_writer *w, struct gguf_part *p, uint32_t v)
{
    gguf_write_part_add(w, p, &v, sizeof(v));
}

static void part_add_u64(struct gguf_writer *w, struct gguf_part *p, uint64_t v)
{
    gguf_write_part_add(w, p, &v, sizeof(v));
}

static void part_add_text(struct gguf_writer *w, struct gguf_part *p, const char *text,
                          size_t bytes)
{
    part_add_u64(w, p, bytes);
    gguf_write_part_add(w, p, text, bytes);
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* Where the file really is (a link stays one), and that it may be replaced by another. */
static int path_resolve(const char *path, char out[PATH_MAX], struct fail *why)
{
    struct stat st;
    if (strlen(path) >= PATH_MAX) return fail_set(why, "%s: the path is too long", path);
    if (!stat(path, &st)) {
        if (!S_ISREG(st.st_mode)) {
            return fail_set(why, "%s: is not a regular file; name one to write to", path);
        }
        if (realpath(path, out)) return 0;
        return fail_set(why, "%s: %s", path, strerror(errno));
    }
    if (errno != ENOENT) return fail_set(why, "%s: cannot write: %s", path, strerror(errno));
    snprintf(out, PATH_MAX, "%s", path);
    return 0;
}

int gguf_write_begin(const char *path, struct gguf_writer **out, struct fail *why)
{
    struct gguf_writer *w = calloc(1, sizeof(*w));
    if (!w) return fail_set(why, "%s: out of memory", path);
    if (path_resolve(path, w->path, why)) {
        free(w);
        return -1;
    }
    /* Of this process: what is there by that name is left of one that died. */
    snprintf(w->part_path, sizeof(w->part_path), "%s.%ld.part", w->path, (long)getpid());
    unlink(w->part_path);
    const int fd = open(w->part_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    w->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!w->file) {
        fail_set(why, "%s: cannot write: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
            unlink(w->part_path);
        }
        free(w);
        return -1;
    }
    setvbuf(w->file, NULL, _IOFBF, 1 << 20);
    *out = w;
    return 0;
}

/* ---- Pairs and tensors --------------------------------------------------------------------- */

static void pair_begin(struct gguf_writer *w, const char *key, enum gguf_type type)
{
    assert(!w->header_written);
    part_add_text(w, &w->pairs, key, strlen(key));
    part_add_u32(w, &w->pairs, type);
    w->pair_count++;
}

void gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    pair_begin(w, key, GGUF_U32);
    part_add_u32(w, &w->pairs, value);
}

void gguf_write_f32(struct gguf_writer *w, const char *key, float value)
{
    pair_begin(w, key, GGUF_F32);
    gguf_write_part_add(w, &w->pairs, &value, sizeof(value));
}

void gguf_write_bool(struct gguf_writer *w, const char *key, int value)
{
    const unsigned char byte = value != 0;
    pair_begin(w, key, GGUF_BOOL);
    gguf_write_part_add(w, &w->pairs, &byte, 1);
}

void gguf_write_text(struct gguf_writer *w, const char *key, const char *value)
{
    pair_begin(w, key, GGUF_STRING);
    part_add_text(w, &w->pairs, value, strlen(value));
}

void gguf_write_texts(struct gguf_writer *w, const char *key, const struct gguf_text *texts,
                      uint64_t count)
{
    pair_begin(w, key, GGUF_ARRAY);
    part_add_u32(w, &w->pairs, GGUF_STRING);
    part_add_u64(w, &w->pairs, count);
    for (uint64_t i = 0; i < count; i++) part_add_text(w, &w->pairs, texts[i].at, texts[i].bytes);
}

void gguf_write_numbers(struct gguf_writer *w, const char *key, enum gguf_type of,
                        const void *items, uint64_t count)
{
    assert(of == GGUF_I32 || of == GGUF_F32);
    pair_begin(w, key, GGUF_ARRAY);
    part_add_u32(w, &w->pairs, of);
    part_add_u64(w, &w->pairs, count);
    gguf_write_part_add(w, &w->pairs, items, count * 4);
}

void gguf_write_pair(struct gguf_writer *w, struct gguf_text key, const void *raw, size_t raw_bytes)
{
    assert(!w->header_written);
    part_add_text(w, &w->pairs, key.at, key.bytes);
    gguf_write_part_add(w, &w->pairs, raw, raw_bytes);
    w->pair_count++;
}

static uint64_t gguf_write_aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void gguf_write_tensor(struct gguf_writer *w, struct gguf_text name, uint32_t type,
                       const uint64_t *dims, uint32_t dims_count, uint64_t bytes)
{
    assert(!w->header_written);
    if (w->tensor_count == w->sizes_room) {
        const uint64_t room = w->sizes_room * 2 + 64;
        uint64_t *grown = realloc(w->sizes, room * sizeof(*grown));
        if (!grown) {
            writer_fail(w, "out of memory");
            return;
        }
        w->sizes = grown;
        w->sizes_room = room;
    }
    part_add_text(w, &w->tensors, name.at, name.bytes);
    part_add_u32(w, &w->tensors, dims_count);
    gguf_write_part_add(w, &w->tensors, dims, dims_count * sizeof(*dims));
    part_add_u32(w, &w->tensors, type);
    part_add_u64(w, &w->tensors, w->offset);
    w->sizes[w->tensor_count++] = bytes;
    w->offset += gguf_write_aligned(bytes);
}

/* ---- To the file --------------------------------------------------------------------------- */

static void file_put(struct gguf_writer *w, const void *data, uint64_t bytes)
{
    if (w->failed || !bytes || fwrite(data, bytes, 1, w->file) == 1) return;
    writer_fail(w, strerror(errno));
}

static void file_pad(struct gguf_writer *w, uint64_t bytes)
{
    static const unsigned char zeros[ALIGNMENT];
    file_put(w, zeros, gguf_write_aligned(bytes) - bytes);
}

static void header_put(struct gguf_writer *w)
{
    const uint32_t version = VERSION;
    file_put(w, "GGUF", 4);
    file_put(w, &version, sizeof(version));
    file_put(w, &w->tensor_count, sizeof(w->tensor_count));
    file_put(w, &w->pair_count, sizeof(w->pair_count));
    file_put(w, w->pairs.data, w->pairs.bytes);
    file_put(w, w->tensors.data, w->tensors.bytes);
    file_pad(w, 24 + w->pairs.bytes + w->tensors.bytes);
    w->header_written = 1;
}

void gguf_write_data(struct gguf_writer *w, const void *data, uint64_t bytes)
{
    if (w->failed) return;
    if (!w->header_written) header_put(w);
    assert(w->current < w->tensor_count && bytes <= w->sizes[w->current] - w->current_bytes);
    file_put(w, data, bytes);
    w->current_bytes += bytes;
    if (w->current_bytes < w->sizes[w->current]) return;
    file_pad(w, w->current_bytes);
    w->current++;
    w->current_bytes = 0;
}

static void gguf_write_writer_release(struct gguf_writer *w)
{
    free(w->pairs.data);
    free(w->tensors.data);
    free(w->sizes);
    free(w);
}

int gguf_write_finish(struct gguf_writer *w, struct fail *why)
{
    if (!w->header_written) header_put(w);
    if (w->current < w->tensor_count) writer_fail(w, "not all tensors were written");
    /* On the disk before it has the name: else a crash of the machine could leave the name
     * alone. */
    if (!w->failed && (fflush(w->file) || fsync(fileno(w->file)))) writer_fail(w, strerror(errno));
    if (fclose(w->file)) writer_fail(w, strerror(errno));
    if (!w->failed && rename(w->part_path, w->path)) writer_fail(w, strerror(errno));
    const int failed = w->failed;
    if (failed) {
        unlink(w->part_path);
        if (why) *why = w->why;
    }
    gguf_write_writer_release(w);
    return failed ? -1 : 0;
}

void gguf_write_abandon(struct gguf_writer *w)
{
    if (!w) return;
    fclose(w->file);
    unlink(w->part_path);
    gguf_write_writer_release(w);
}
