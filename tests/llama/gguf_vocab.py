"""The keys and values of a GGUF file, and copies of vocabulary files with another pre-tokenizer.

usage: gguf_vocab.py FILE NAME COPY        COPY has tokenizer.ggml.pre = NAME
"""
import struct
import sys

SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, letter):
        value, = struct.unpack_from("<" + letter, self.data, self.at)
        self.at += struct.calcsize("<" + letter)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.number(SIZES[kind])
        kind, count = self.number("I"), self.number("Q")
        return [self.value(kind) for _ in range(count)]


def read(path):
    """Keys and values, and where in the file each pair is."""
    with open(path, "rb") as f:
        reader = Reader(f.read())
    assert reader.data[:4] == b"GGUF", path
    reader.at = 8
    tensors, pairs = reader.number("Q"), reader.number("Q")
    values, places = {}, {}
    for _ in range(pairs):
        start = reader.at
        key = reader.text().decode()
        values[key] = reader.value(reader.number("I"))
        places[key] = start, reader.at
    return values, places, reader.data, tensors


def text_bytes(text):
    return struct.pack("<Q", len(text)) + text


def pre_copy(path, name, copy):
    values, places, data, tensors = read(path)
    assert tensors == 0, "offsets of tensors would have to move"
    pair = text_bytes(b"tokenizer.ggml.pre") + struct.pack("<I", STRING) + text_bytes(name.encode())
    start, end = places["tokenizer.ggml.pre"]
    with open(copy, "wb") as f:
        f.write(data[:start] + pair + data[end:])


if __name__ == "__main__":
    pre_copy(*sys.argv[1:])
