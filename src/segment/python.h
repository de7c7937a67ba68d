/* python.h - a Python interpreter in the process, as libsonde_preload sees it: which one, and the
 * functions that were on stacks.
 *
 *   header.python ─▶ struct sonde__python                  once, when code of it is first met
 *   frame of a stack ─▶ struct sonde__python_code          append-only, one for each code object
 *
 * A frame of Python has no address of its own. In a sample of the sampler (segment.h) and in a node
 * of the heap profile (heap.h) it is a number that cannot be an address, since its upper bits are
 * not all alike:
 *   SONDE__PYTHON_TAG << 48 | block << 22 | instruction
 * block: offset from the segment's start of its code, in units of 64 bytes; 0 = there was no room
 * for it. instruction: in units of two bytes, from the start of the code.
 *
 * What is kept of a code object is what CPython has: lines are its own table (co_linetable), and
 * whoever reads it finds the line of an instruction. So the process copies bytes once and works out
 * nothing. Texts are Latin-1, UCS-2 or UCS-4, as kind says. `ready` is release-stored last: a code
 * that a thread was killed over is not ready, and is a function without a name. */
#ifndef SONDE_SEGMENT_PYTHON_H
#define SONDE_SEGMENT_PYTHON_H

#include <stdint.h>

#define SONDE__PYTHON_STATES(X)                                                                \
    X(NONE, "no interpreter was met")                                                          \
    X(READS, "its functions are seen")                                                         \
    X(OLD, "it is older than 3.11, the first version whose functions sonde can see")           \
    X(NEW, "its version is newer than any that this sonde knows")                              \
    X(STRIPPED, "it does not export the symbols that lead to its functions")                   \
    X(THREADED, "it is a build without the GIL, which this sonde does not know")               \
    X(FULL, "there is no room in the segment for its functions")

enum sonde__python_state {
#define SONDE__X(name, text) SONDE__PYTHON_##name,
    SONDE__PYTHON_STATES(SONDE__X)
#undef SONDE__X
    SONDE__PYTHON_STATE_COUNT
};

#define SONDE__PYTHON_TAG 0x7079ull
#define SONDE__PYTHON_INSTRUCTION_BITS 22u
#define SONDE__PYTHON_BLOCK_BITS 26u
#define SONDE__PYTHON_BLOCK 64u      /* bytes */

#define SONDE__PYTHON_CODES_MAX 24576u
#define SONDE__PYTHON_NAME_MAX 1024u /* bytes of a function's name; of a longer one the first */
#define SONDE__PYTHON_FILE_MAX 2048u /* bytes of a file's; of a longer one the last */
#define SONDE__PYTHON_LINES_MAX 16384u /* bytes of its table; what is behind has no line */

struct sonde__python {          /* 64 bytes */
    uint32_t state;             /* enum sonde__python_state */
    uint32_t version;           /* as PY_VERSION_HEX: 0x030b02f0; 0 = not known */
    uint64_t codes;             /* code objects met */
    uint64_t full;              /* frames without a function, since there was no room for one */
    uint64_t broken;            /* stacks whose Python part could not be read to its end: the
                                   interpreter was changing it */
    uint64_t pad[4];
};
_Static_assert(sizeof(struct sonde__python) == 64, "one block");

#define SONDE__PYTHON_CODE_MAGIC 0x65646f63u /* "code" */

struct sonde__python_code {
    uint32_t magic;
    uint32_t ready;             /* 1: all that follows is there */
    uint32_t first_line;
    uint32_t name_bytes, file_bytes, lines_bytes;
    uint16_t name_kind, file_kind; /* bytes of a character: 1, 2 or 4 */
    uint32_t pad;
    char text[];                /* name, file, lines, one behind the other */
};
_Static_assert(sizeof(struct sonde__python_code) == 32, "texts begin on a word");

static inline int sonde__python_is(uint64_t ip) { return ip >> 48 == SONDE__PYTHON_TAG; }

static inline uint64_t sonde__python_frame_of(uint64_t block, uint64_t instruction)
{
    const uint64_t max = (1ull << SONDE__PYTHON_INSTRUCTION_BITS) - 1;
    return SONDE__PYTHON_TAG << 48 | block << SONDE__PYTHON_INSTRUCTION_BITS |
           (instruction < max ? instruction : max);
}

static inline uint64_t sonde__python_code_off(uint64_t ip)
{
    return (ip & ((1ull << 48) - 1)) >> SONDE__PYTHON_INSTRUCTION_BITS << 6;
}

static inline uint32_t sonde__python_instruction(uint64_t ip)
{
    return (uint32_t)(ip & ((1ull << SONDE__PYTHON_INSTRUCTION_BITS) - 1));
}

#endif
