/* fuzz_eh_frame.c - real unwind tables, edited: whatever .eh_frame, the ELF headers and the stack
 * say, compiling and walking end, stay within their bytes, and give a table in order.
 *
 * Input: one byte of flags, then edits of 2 bytes offset and 1 byte value; with FLAG_RAW the
 * rest is the .eh_frame itself. FLAG_ELF edits the head of the file instead, FLAG_CUT cuts what is
 * edited at the first edit's offset. The bytes end at a page that cannot be read, so that
 * reading on shows also without a sanitizer.
 *
 * Run by libFuzzer, or with SONDE_FUZZ_MAIN by its own main: every truncation, then a given
 * number of inputs from a fixed seed. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz_check.h"
#include "unwind/unwind.h"

enum { FLAG_RAW = 1, FLAG_ELF = 2, FLAG_CUT = 4, FLAG_MEMORY = 8 };

#define AREA (64u << 10)
#define PAGE 4096u
#define ELF_HEAD 8192u
#define STACK 512u

static uint8_t *area;                  /* AREA bytes, then the page that cannot be read */
static uint8_t eh_frame[AREA], head[ELF_HEAD];
static size_t eh_frame_len, head_len;
static struct sonde__elf_info own;

struct bytes {
    const uint8_t *data;
    size_t len;
};

static int read_fd(void *arg, uint64_t at, void *out, size_t len)
{
    return pread(*(int *)arg, out, len, (off_t)at) == (ssize_t)len ? 0 : -1;
}

static int read_bytes(void *arg, uint64_t at, void *out, size_t len)
{
    const struct bytes *b = arg;
    if (at > b->len || len > b->len - at) return -1;
    memcpy(out, b->data + at, len);
    return 0;
}

static void start(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const struct sonde__elf_reader r = { read_fd, &fd, 0 };
    CHECK(fd >= 0 && !sonde__elf_find(&r, &own) && own.eh_frame_len);
    eh_frame_len = own.eh_frame_len < AREA / 8 ? own.eh_frame_len : AREA / 8;
    CHECK(!read_fd(&fd, own.eh_frame_at, eh_frame, eh_frame_len));
    head_len = (size_t)pread(fd, head, sizeof(head), 0);
    CHECK(head_len == sizeof(head));
    close(fd);
    area = mmap(NULL, AREA + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && !mprotect(area + AREA, PAGE, PROT_NONE));
}

/* ---- What must hold ----------------------------------------------------------------------- */

static int read_word(void *arg, uint64_t addr, uint64_t *out)
{
    const uint8_t *stack = arg;
    if (addr < 0x7000 || addr - 0x7000 > STACK - 8) return -1;
    memcpy(out, stack + (addr - 0x7000), sizeof(*out));
    return 0;
}

/* Walks from row to row by what the bytes on the stack say; it must end. */
static void walk(const struct sonde__unwind_table *t, const uint8_t *stack)
{
    struct sonde__regs r = {
        .ip = t->rows[t->count / 2].pc, .sp = 0x7000, .bp = 0x7040, .known = 0xffff
    };
    int signal, signals = 0;
    for (uint32_t i = 0; i < 16; i++) r.other[i] = 0x7000 + i * 24;
    for (uint32_t i = 0;; i++) {
        const uint64_t sp = r.sp;
        const struct sonde__unwind_row *row = sonde__unwind_lookup(t, (uint32_t)r.ip);
        if (!row) break;
        if (sonde__unwind_apply(row, &r, read_word, (void *)(uintptr_t)stack, &signal)) break;
        /* Only a signal frame may lead down, and a caller bounds the frames. */
        CHECK(signal || r.sp >= sp);
        if (signal && ++signals == 4) break;
        CHECK(i < STACK);
        if (r.sp == sp && !signal) break; /* a return address in a register */
    }
    r = (struct sonde__regs){ .sp = 0x7000, .bp = 0x7010 };
    for (uint32_t i = 0; !sonde__unwind_fp(&r, read_word, (void *)(uintptr_t)stack); i++)
        CHECK(i < STACK);
}

static void compile(const uint8_t *data, size_t len, uint64_t addr, uint64_t first)
{
    const struct sonde__unwind_source s = { .eh_frame = data, .eh_frame_len = len,
                                            .eh_frame_addr = addr, .first_addr = first };
    uint32_t bad, bad_again;
    const size_t room = sonde__unwind_compile(&s, NULL, 0, &bad);
    CHECK(room <= len * 3 + 16);
    struct sonde__unwind_row *rows = malloc((room + 1) * sizeof(*rows));
    CHECK(rows);
    memset(&rows[room], 0xa5, sizeof(*rows));
    const size_t n = sonde__unwind_compile(&s, rows, room, &bad_again);
    CHECK(n <= room && bad == bad_again);
    CHECK(((const uint8_t *)&rows[room])[0] == 0xa5);
    const struct sonde__unwind_table t = { rows, (uint32_t)n };
    for (size_t i = 0; i < n; i++) {
        CHECK(rows[i].cfa <= SONDE__CFA_SIGNAL && (rows[i].saved & 15) <= SONDE__SAVED_LOST);
        CHECK(!i || rows[i - 1].pc < rows[i].pc);
        CHECK(sonde__unwind_lookup(&t, rows[i].pc) == &rows[i]);
    }
    if (n && len >= STACK) walk(&t, data + len - STACK);
    free(rows);
}

static void find(const uint8_t *data, size_t len, int memory)
{
    struct bytes b = { data, len };
    const struct sonde__elf_reader r = { read_bytes, &b, memory };
    struct sonde__elf_info e;
    uint64_t first;
    if (sonde__elf_find(&r, &e)) return;
    CHECK(e.text_count <= SONDE__ELF_TEXTS && e.build_id_len <= SONDE__ELF_BUILD_ID);
    CHECK(e.eh_frame_len <= SONDE__EH_FRAME_MAX);
    sonde__elf_first_byte(&e, 0x1000, e.text_count ? e.texts[0].offset : 0, &first);
    if (e.eh_frame_at < len && e.eh_frame_len <= len - e.eh_frame_at) {
        compile(data + e.eh_frame_at, e.eh_frame_len, e.eh_frame_addr, e.first_addr);
    }
}

/* ---- Inputs ------------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!area) start();
    if (!size) return 0;
    const uint8_t flags = *data++;
    size--;
    size_t len = flags & FLAG_ELF ? head_len : eh_frame_len;
    const uint8_t *from = flags & FLAG_ELF ? head : eh_frame;
    if (flags & FLAG_RAW) {
        len = size < AREA ? size : AREA;
        from = data;
        size = 0;
    }
    if (flags & FLAG_CUT && size >= 3) len = (size_t)(data[0] | data[1] << 8) % (len + 1);
    uint8_t *work = area + AREA - len;
    memcpy(work, from, len);
    for (; size >= 3 && len; data += 3, size -= 3)
        work[(size_t)(data[0] | data[1] << 8) % len] = data[2];
    if (flags & FLAG_ELF) {
        find(work, len, !!(flags & FLAG_MEMORY));
    } else {
        compile(work, len, own.eh_frame_addr, own.first_addr);
    }
    sonde__unwind_keeps_fp(work, len, 0);
    struct sonde__unwind_row row;
    if (len) sonde__unwind_guess(work, len, len - 1 - len % 7 % len, flags & 1, &row);
    return 0;
}

#ifdef SONDE_FUZZ_MAIN
int main(int argc, char **argv)
{
    const unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    uint8_t input[64];
    uint64_t random = 88172645463325252u;
    start();
    for (size_t cut = 0; cut <= 0xffff && (cut <= eh_frame_len || cut <= head_len); cut++) {
        const uint8_t at[2] = { (uint8_t)cut, (uint8_t)(cut >> 8) };
        /* The edit writes what is there already, if anything. */
        LLVMFuzzerTestOneInput(
            (const uint8_t[]){ FLAG_CUT, at[0], at[1], eh_frame[cut % eh_frame_len] }, 4);
        LLVMFuzzerTestOneInput(
            (const uint8_t[]){ FLAG_CUT | FLAG_ELF, at[0], at[1], head[cut % head_len] }, 4);
    }
    for (unsigned long i = 0; i < rounds; i++) {
        for (size_t k = 0; k < sizeof(input); k++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            input[k] = (uint8_t)(random >> 32);
        }
        input[0] &= i % 8 ? (uint8_t)~(FLAG_RAW | FLAG_CUT) : 0xff;
        LLVMFuzzerTestOneInput(input, 4 + (size_t)(random >> 40) % 20 * 3);
    }
    printf("%zu bytes of .eh_frame cut everywhere, %lu mutations\n", eh_frame_len, rounds);
    return 0;
}
#endif
