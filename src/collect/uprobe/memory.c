#include "collect/uprobe/memory.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "sonde/sonde.h"

enum {
    PIECES = 512,          /* in one system call */
    RANGE_MAX = 4 << 20,   /* around all lists of sequences, read in one go */
    PATH_BYTES = 4096
};
#define ADDRESS_END (UINT64_C(1) << 47) /* of user space */

/* ---- Batches --------------------------------------------------------------------------------- */

int sonde_uprobe_batch(const void *stack, size_t len, struct sonde_uprobe_batch *out)
{
    uint64_t words[SONDE_UPROBE_BATCH_STACK / 8]; /* the return address, then the struct */
    if (len < sizeof(words)) return SONDE_EFORMAT;
    memcpy(words, stack, sizeof(words));
    *out = (struct sonde_uprobe_batch){
        .tokens = (int32_t)(uint32_t)words[1], .token = words[2], .embd = words[3],
        .pos = words[4], .seq_count = words[5], .seq = words[6], .logits = words[7]
    };
    return 0;
}

static uint32_t seqs_of(const struct sonde_uprobe_rows *r, uint32_t row)
{
    if (!r->seq_count || !r->seq) return 1;
    const int32_t n = r->seq_count[row];
    return n < 1 ? 1 : (uint32_t)n < SONDE_UPROBE_SEQS_MAX ? (uint32_t)n : SONDE_UPROBE_SEQS_MAX;
}

static int32_t uprobe_memory_seq_of(const struct sonde_uprobe_rows *r, uint32_t row, uint32_t n)
{
    return r->seq_count && r->seq ? r->seq[row * SONDE_UPROBE_SEQS_MAX + n] : 0;
}

/* Does a row go on where the one before it was? */
static int uprobe_memory_goes_on(const struct sonde_uprobe_rows *r, uint32_t row)
{
    const uint32_t n = seqs_of(r, row);
    if (n != seqs_of(r, row - 1)) return 0;
    for (uint32_t i = 0; i < n; i++) {
        if (uprobe_memory_seq_of(r, row, i) != uprobe_memory_seq_of(r, row - 1, i)) return 0;
    }
    return !r->pos || (int64_t)r->pos[row] == (int64_t)r->pos[row - 1] + 1;
}

static uint64_t uprobe_memory_tail_of(const struct sonde_uprobe_rows *r, uint32_t first,
                                      uint32_t end)
{
    if (!r->token) return SONDE__LLAMA_TAIL_NONE;
    return SONDE__LLAMA_TAIL(end - first > 1 ? r->token[end - 2] : -1, r->token[end - 1]);
}

/* Without flags only the last row gives logits. */
static uint32_t outputs_of(const struct sonde_uprobe_rows *r, uint32_t first, uint32_t end)
{
    uint32_t n = 0;
    if (!r->logits) return end == r->count;
    for (uint32_t i = first; i < end; i++) n += r->logits[i] != 0;
    return n;
}

uint32_t sonde_uprobe_parts(const struct sonde_uprobe_rows *r, struct sonde_llama_part *out,
                            uint32_t max)
{
    assert(r && (out || !max));
    uint32_t count = 0;
    for (uint32_t first = 0, end; first < r->count; first = end) {
        for (end = first + 1; end < r->count && uprobe_memory_goes_on(r, end);) end++;
        const uint32_t seqs = seqs_of(r, first);
        for (uint32_t i = 0; i < seqs; i++, count++) {
            if (count >= max) continue;
            out[count] = (struct sonde_llama_part){
                .seq = uprobe_memory_seq_of(r, first, i),
                .pos = r->pos ? r->pos[first] : -1,
                .row = first,
                .tokens = end - first,
                .outputs = outputs_of(r, first, end),
                .flags = i ? SONDE_LLAMA_SHARED : 0,
                .tail = uprobe_memory_tail_of(r, first, end),
            };
        }
    }
    return count;
}

/* ---- Another process's memory ---------------------------------------------------------------- */

static int read_process(void *arg, const struct iovec *pieces, size_t count, void *out, size_t len)
{
    const pid_t pid = (pid_t)(uintptr_t)arg;
    char *to = out;
    while (count) {
        const size_t n = count < PIECES ? count : PIECES;
        size_t want = 0;
        for (size_t i = 0; i < n; i++) want += pieces[i].iov_len;
        if (want > len) return -1;
        const struct iovec local = { to, want };
        if (process_vm_readv(pid, &local, 1, pieces, n, 0) != (ssize_t)want) return -1;
        pieces += n;
        count -= n;
        to += want;
        len -= want;
    }
    return 0;
}

int sonde_uprobe_reader_init(struct sonde_uprobe_reader *r, uint32_t pid)
{
    assert(r && pid);
    memset(r, 0, sizeof(*r));
    r->read = read_process;
    r->arg = (void *)(uintptr_t)pid;
    r->parts = sonde__calloc(SONDE_LLAMA_PARTS_MAX, sizeof(*r->parts));
    return r->parts ? 0 : SONDE_ENOMEM;
}

void sonde_uprobe_reader_release(struct sonde_uprobe_reader *r)
{
    sonde__free(r->scratch);
    sonde__free(r->parts);
    memset(r, 0, sizeof(*r));
}

static struct iovec uprobe_memory_piece(uint64_t at, size_t len)
{
    return (struct iovec){ (void *)(uintptr_t)at, len };
}

static int is_address(uint64_t at, uint64_t len)
{
    return at && at < ADDRESS_END && len < ADDRESS_END - at;
}

static int uprobe_memory_read_one(struct sonde_uprobe_reader *r, uint64_t at, void *out, size_t len)
{
    const struct iovec p = uprobe_memory_piece(at, len);
    return is_address(at, len) ? r->read(r->arg, &p, 1, out, len) : -1;
}

static struct sonde_uprobe_memory *uprobe_memory_make(uint32_t parts)
{
    struct sonde_uprobe_memory *m =
        sonde__calloc(1, sizeof(*m) + parts * sizeof(m->parts[0]));
    if (!m) return NULL;
    m->read_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    m->part_count = parts;
    return m;
}

/* ---- Rows of a batch ------------------------------------------------------------------------- */

/* Scratch memory: arrays as they are in the process, then the sequences of each row, then room to
 * read those with. */
struct layout {
    uint64_t *lists;                   /* addresses of the rows' sequences */
    int32_t *token, *pos, *seq_count;
    int8_t *logits;
    int32_t *seq;
    char *room;
    size_t room_size;
};

static int uprobe_memory_lay_out(struct sonde_uprobe_reader *r, uint32_t rows, struct layout *l)
{
    const size_t seqs = (size_t)rows * SONDE_UPROBE_SEQS_MAX * sizeof(int32_t);
    const size_t flags = ((size_t)rows + 7) & ~(size_t)7;
    const size_t arrays = (size_t)rows * (sizeof(uint64_t) + 3 * sizeof(int32_t) + 4) + flags;
    /* Lists come from malloc as a rule, one after the other. */
    l->room_size = (size_t)rows * 128 < RANGE_MAX ? (size_t)rows * 128 + 4096 : RANGE_MAX;
    const size_t size = arrays + seqs + l->room_size;
    if (size > r->scratch_size) {
        char *grown = sonde__realloc(r->scratch, size);
        if (!grown) return -1;
        r->scratch = grown;
        r->scratch_size = size;
    }
    l->lists = (uint64_t *)(void *)r->scratch;
    l->token = (int32_t *)(void *)(l->lists + rows);
    l->pos = l->token + rows;
    l->seq_count = l->pos + rows;
    l->seq = l->seq_count + rows + (rows & 1);
    l->logits = (int8_t *)(void *)((char *)l->seq + seqs);
    l->room = (char *)l->logits + flags;
    return 0;
}

static size_t list_bytes(const struct sonde_uprobe_rows *r, uint32_t row)
{
    return seqs_of(r, row) * sizeof(int32_t);
}

/* All lists lie close together: the memory around them in one piece. */
static int read_range(struct sonde_uprobe_reader *r, const struct layout *l,
                      const struct sonde_uprobe_rows *rows)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        if (!is_address(l->lists[i], list_bytes(rows, i))) return -1;
        if (l->lists[i] < low) low = l->lists[i];
        if (l->lists[i] + list_bytes(rows, i) > high) high = l->lists[i] + list_bytes(rows, i);
    }
    if (high - low > l->room_size ||
        uprobe_memory_read_one(r, low, l->room, (size_t)(high - low))) {
        return -1;
    }
    for (uint32_t i = 0; i < rows->count; i++) {
        memcpy(l->seq + (size_t)i * SONDE_UPROBE_SEQS_MAX, l->room + (l->lists[i] - low),
               list_bytes(rows, i));
    }
    return 0;
}

/* They do not: a piece for each row. */
static int read_lists(struct sonde_uprobe_reader *r, const struct layout *l,
                      const struct sonde_uprobe_rows *rows)
{
    struct iovec pieces[PIECES];
    for (uint32_t first = 0; first < rows->count; first += PIECES) {
        const uint32_t n = rows->count - first < PIECES ? rows->count - first : PIECES;
        size_t len = 0;
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t at = l->lists[first + i];
            if (!is_address(at, list_bytes(rows, first + i))) return -1;
            pieces[i] = uprobe_memory_piece(at, list_bytes(rows, first + i));
            len += pieces[i].iov_len;
        }
        if (len > l->room_size || r->read(r->arg, pieces, n, l->room, len)) return -1;
        const char *from = l->room;
        for (uint32_t i = 0; i < n; i++) {
            memcpy(l->seq + (size_t)(first + i) * SONDE_UPROBE_SEQS_MAX, from, pieces[i].iov_len);
            from += pieces[i].iov_len;
        }
    }
    return 0;
}

/* An array of the batch into its place, unless there is none: 1 = it was read, 0 = none. */
static int read_array(struct sonde_uprobe_reader *r, uint64_t at, void *out, size_t len)
{
    if (!at) return 0;
    return uprobe_memory_read_one(r, at, out, len) ? -1 : 1;
}

static int uprobe_memory_read_rows(struct sonde_uprobe_reader *r,
                                   const struct sonde_uprobe_batch *b,
                                   struct sonde_uprobe_rows *out)
{
    const uint32_t n = (uint32_t)b->tokens;
    struct layout l;
    if (uprobe_memory_lay_out(r, n, &l)) return -1;
    const int token = read_array(r, b->token, l.token, n * sizeof(*l.token));
    const int pos = read_array(r, b->pos, l.pos, n * sizeof(*l.pos));
    const int logits = read_array(r, b->logits, l.logits, n);
    if (token < 0 || pos < 0 || logits < 0) return -1;
    *out = (struct sonde_uprobe_rows){ .count = n,
                                       .token = token ? l.token : NULL,
                                       .pos = pos ? l.pos : NULL,
                                       .logits = logits ? l.logits : NULL };
    if (!b->seq_count || !b->seq) return 0;
    if (uprobe_memory_read_one(r, b->seq_count, l.seq_count, n * sizeof(*l.seq_count)) ||
        uprobe_memory_read_one(r, b->seq, l.lists, n * sizeof(*l.lists))) return -1;
    out->seq_count = l.seq_count;
    out->seq = l.seq;
    return read_range(r, &l, out) ? read_lists(r, &l, out) : 0;
}

struct sonde_uprobe_memory *sonde_uprobe_read_batch(struct sonde_uprobe_reader *r,
                                                    const struct sonde_uprobe_batch *b)
{
    struct sonde_uprobe_rows rows;
    if (b->tokens <= 0 || (uint32_t)b->tokens > SONDE_UPROBE_ROWS_MAX) return NULL;
    if (uprobe_memory_read_rows(r, b, &rows)) return NULL;
    const uint32_t all = sonde_uprobe_parts(&rows, r->parts, SONDE_LLAMA_PARTS_MAX);
    const uint32_t kept = all < SONDE_LLAMA_PARTS_MAX ? all : SONDE_LLAMA_PARTS_MAX;
    struct sonde_uprobe_memory *m = uprobe_memory_make(kept);
    if (!m) return NULL;
    memcpy(m->parts, r->parts, kept * sizeof(m->parts[0]));
    m->parts_dropped = all - kept;
    return m;
}

/* ---- The others ------------------------------------------------------------------------------ */

struct sonde_uprobe_memory *sonde_uprobe_read_tail(struct sonde_uprobe_reader *r, uint64_t tokens,
                                                   int64_t count)
{
    int32_t last[2] = { -1, -1 };
    if (count < 1 || count > INT32_MAX) return NULL;
    const size_t n = count > 1 ? 2 : 1;
    if (!is_address(tokens, (uint64_t)count * 4) ||
        uprobe_memory_read_one(r, tokens + ((uint64_t)count - n) * 4, &last[2 - n], n * 4)) {
        return NULL;
    }
    struct sonde_uprobe_memory *m = uprobe_memory_make(0);
    if (!m) return NULL;
    m->value = SONDE__LLAMA_TAIL(last[0], last[1]);
    m->from = tokens;
    return m;
}

/* A text that ends within max bytes: its length, or 0. Pages may end before. */
static size_t uprobe_memory_read_text(struct sonde_uprobe_reader *r, uint64_t at, char *out,
                                      size_t max)
{
    for (size_t n = 0; n < max;) {
        const uint64_t to_page = 4096 - ((at + n) & 4095);
        const size_t len = to_page < max - n ? (size_t)to_page : max - n;
        if (uprobe_memory_read_one(r, at + n, out + n, len)) return 0;
        const char *end = memchr(out + n, '\0', len);
        if (end) return (size_t)(end - out);
        n += len;
    }
    return 0;
}

struct sonde_uprobe_memory *sonde_uprobe_read_path(struct sonde_uprobe_reader *r, uint64_t at)
{
    char path[PATH_BYTES];
    const size_t len = uprobe_memory_read_text(r, at, path, sizeof(path));
    if (!len) return NULL;
    const char *slash = memrchr(path, '/', len);
    const char *name = slash && slash[1] ? slash + 1 : path;
    struct sonde_uprobe_memory *m = uprobe_memory_make(0);
    if (!m) return NULL;
    const size_t n = strnlen(name, sizeof(m->text) - 1);
    memcpy(m->text, name, n);
    return m;
}

struct sonde_uprobe_memory *sonde_uprobe_read_size(struct sonde_uprobe_reader *r,
                                                   const struct sonde_uprobe_symbols *symbols,
                                                   uint64_t buffer)
{
    uint64_t size;
    if (symbols->buffer_size_at < 0 || !is_address(buffer, 4096)) return NULL;
    if (uprobe_memory_read_one(r, buffer + (uint64_t)symbols->buffer_size_at, &size,
                               sizeof(size))) {
        return NULL;
    }
    if (size > INT64_MAX) return NULL;
    struct sonde_uprobe_memory *m = uprobe_memory_make(0);
    if (m) m->value = size;
    return m;
}

/* A context of ggml begins with the size and the address of its memory, which begins with an
 * object; that says first at which offset in the memory its tensor is. */
struct sonde_uprobe_memory *sonde_uprobe_read_tensor(struct sonde_uprobe_reader *r,
                                                     const struct sonde_uprobe_symbols *symbols,
                                                     uint64_t context)
{
    uint64_t memory[2], offset;
    char name[SONDE_UPROBE_TEXT];
    if (symbols->tensor_name_at < 0 || uprobe_memory_read_one(r, context, memory, sizeof(memory))) {
        return NULL;
    }
    if (uprobe_memory_read_one(r, memory[1], &offset, sizeof(offset))) return NULL;
    const uint64_t name_at = offset + (uint64_t)symbols->tensor_name_at;
    if (offset >= memory[0] || offset % 8 || name_at >= memory[0]) return NULL;
    const size_t len = uprobe_memory_read_text(r, memory[1] + name_at, name, sizeof(name));
    if (!len) return NULL;
    struct sonde_uprobe_memory *m = uprobe_memory_make(0);
    if (m) memcpy(m->text, name, len);
    return m;
}
