#!/usr/bin/env python3
"""Makes unicode_ranges.c:  python3 engine/text/make_unicode_ranges.py >engine/text/unicode_ranges.c

The classes are Unicode 15.1's, as llama.cpp's are. Debian 12's Python knows 14.0: what 15.0 and 15.1
added is listed here, and is all that differs (5,116 characters in 47 ranges, compared with
llama.cpp's src/unicode-data.cpp). A later Python is refused: it would class characters that
llama.cpp does not know yet.
"""
import sys
import unicodedata

BITS = {"N": 1, "L": 2, "M": 4, "P": 8, "S": 16, "Z": 32, "C": 64}
UNASSIGNED = 128

# First and last code point and class of what is newer than 14.0.
NEWER = """
CF3-CF3 M  ECE-ECE M  2FFC-2FFF S  31EF-31EF S  10EFD-10EFF M  1123F-11240 L  11241-11241 M
11B00-11B09 P  11F00-11F01 M  11F02-11F02 L  11F03-11F03 M  11F04-11F10 L  11F12-11F33 L
11F34-11F3A M  11F3E-11F42 M  11F43-11F4F P  11F50-11F59 N  1342F-1342F L  13439-1343F C
13440-13440 M  13441-13446 L  13447-13455 M  1B132-1B132 L  1B155-1B155 L  1D2C0-1D2D3 N
1DF25-1DF2A L  1E030-1E06D L  1E08F-1E08F M  1E4D0-1E4EB L  1E4EC-1E4EF M  1E4F0-1E4F9 N
1F6DC-1F6DC S  1F774-1F776 S  1F77B-1F77F S  1F7D9-1F7D9 S  1FA75-1FA77 S  1FA87-1FA88 S
1FAAD-1FAAF S  1FABB-1FABD S  1FABF-1FABF S  1FACE-1FACF S  1FADA-1FADB S  1FAE8-1FAE8 S
1FAF7-1FAF8 S  2B739-2B739 L  2EBF0-2EE5D L  31350-323AF L
"""


def classes():
    if unicodedata.unidata_version not in ("14.0.0", "15.0.0", "15.1.0"):
        sys.exit(f"make_unicode_ranges: this Python knows Unicode {unicodedata.unidata_version}; "
                 "it has to be 14.0, 15.0 or 15.1")
    out = []
    for point in range(0x110000):
        category = unicodedata.category(chr(point))
        out.append(UNASSIGNED if category == "Cn" else BITS[category[0]])
    words = NEWER.split()
    for span, letter in zip(words[::2], words[1::2]):
        first, last = (int(end, 16) for end in span.split("-"))
        for point in range(first, last + 1):
            assert out[point] in (UNASSIGNED, BITS[letter]), hex(point)
            out[point] = BITS[letter]
    return out


def main():
    ranges, before = [], None
    for point, bits in enumerate(classes()):
        if bits != before:
            ranges.append(point << 8 | bits)
        before = bits
    print("/* unicode_ranges.c - classes of characters, Unicode 15.1. Made by make_unicode_ranges.py:")
    print(" * change that and run it again. */")
    print('#include "text/unicode.h"\n')
    print("const uint32_t unicode_ranges[] = {")
    for i in range(0, len(ranges), 8):
        print("    " + " ".join(f"0x{r:X}," for r in ranges[i:i + 8]))
    print("};")
    print("const size_t unicode_range_count = sizeof(unicode_ranges) / sizeof(unicode_ranges[0]);")


main()
