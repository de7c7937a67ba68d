#!/usr/bin/env python3
"""gguf: write a small llama model with random weights and a vocabulary that is valid.

    gguf.py [--preset tiny|bench] [--seed N] [--type f32|f16|q8_0] [--embd N] [--layers N] … FILE

The same arguments write the same bytes. What such a model says is noise, but the work is that of a
real one: the library loads it, tokenizes, keeps a KV cache and samples as it does with any other.

A GGUF file (version 3) is a header, key-value pairs, descriptions of tensors, and their data, each
tensor at a multiple of 32 bytes. Numbers are drawn by translating random bytes: a table of 256
entries turns a byte into the upper half of an f16 (or into an int8) that is about normal, and the
lower half stays as it was drawn. A hundred megabytes take a second that way, without numpy.

The vocabulary is of the SentencePiece kind: three specials, 256 bytes, letters, and words with all
of their prefixes, so that merging letter by letter always arrives at the whole word: a text of n
words is n tokens.
"""
import argparse
import os
import random
import statistics
import struct
import sys

PRESETS = {
    # Some 100 µs for one token: for tests.
    "tiny": dict(type="f16", embd=128, layers=3, heads=4, kv_heads=2, ff=384, vocab=700, context=2048),
    # 60 MB, some ms for one token: for benchmarks.
    "bench": dict(type="q8_0", embd=640, layers=10, heads=10, kv_heads=5, ff=1792, vocab=6000,
                  context=4096),
}
ALIGNMENT = 32
SPACE = "\u2581"  # what SentencePiece writes for a space
UINT32, FLOAT32, BOOL, STRING, ARRAY, INT32 = 4, 6, 7, 8, 9, 5
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # types of tokens
TYPES = {"f32": (0, 0), "f16": (1, 1), "q8_0": (8, 7)}  # of a tensor, of a file
WORDS = """the of and to in is that for it as was with be by on not he his but at are this have from
or had an they which one you were all her she there would their we him been has when who will no more
if out so up said what its about than into them can only other time new some could these two may
first then do any like my now over such our man me even most made after also did many off before must
well back through years much where your way down should because long each just state those people too
mr how little good world make very year still see work life being few between never again""".split()


# ---- Vocabulary -------------------------------------------------------------------------------

def words_of(rng):
    """Words of English, then made-up ones, without an end."""
    yield from WORDS
    while True:
        yield "".join(rng.choice("bcdfghklmnprstvz") + rng.choice("aeiou")
                      for _ in range(rng.randint(2, 4)))


def vocabulary(rng, size):
    """Pieces and their types."""
    pieces = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    pieces += [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
    known = dict(pieces)
    plain = [SPACE] + [chr(c) for c in range(ord("a"), ord("z") + 1)] + list(".,?!")
    for word in words_of(rng):
        plain += [SPACE + word[:n] for n in range(1, len(word) + 1)]
        if len(known) + len(set(plain)) >= size:
            break
    for piece in dict.fromkeys(plain):
        if len(pieces) < size:
            pieces.append((piece, NORMAL))
    return pieces


# ---- Numbers ----------------------------------------------------------------------------------

NORMAL_QUANTILES = [statistics.NormalDist().inv_cdf((i + 0.5) / 256) for i in range(256)]


def f16_table(sigma):
    """The upper byte of an f16: sign, exponent and two bits of the mantissa."""
    return bytes(struct.pack("<e", q * sigma)[1] for q in NORMAL_QUANTILES)


INT8_TABLE = bytes(max(-127, min(127, round(q * 40))) & 0xff for q in NORMAL_QUANTILES)


def numbers(rng, kind, count, sigma):
    if kind == "f32":  # the upper half of one is much like an f16, with an exponent of eight bits
        table = [struct.pack("<f", q * sigma) for q in NORMAL_QUANTILES]
        data = bytearray(rng.randbytes(4 * count))
        drawn = data[3::4]
        data[3::4] = drawn.translate(bytes(t[3] for t in table))
        data[2::4] = drawn.translate(bytes(t[2] for t in table))
        return data
    if kind == "f16":
        data = bytearray(rng.randbytes(2 * count))
        data[1::2] = data[1::2].translate(f16_table(sigma))
        return data
    blocks = count // 32  # q8_0: an f16 scale, then 32 int8
    data = bytearray(rng.randbytes(34 * blocks).translate(INT8_TABLE))
    scale = struct.pack("<e", sigma / 40)
    data[0::34] = scale[:1] * blocks
    data[1::34] = scale[1:] * blocks
    return data


def ones(count):
    return struct.pack("<f", 1.0) * count


# ---- The file ---------------------------------------------------------------------------------

def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, kind, value):
    out = string(key) + struct.pack("<I", kind)
    if kind == STRING:
        return out + string(value)
    if kind == ARRAY:
        of, items = value
        out += struct.pack("<IQ", of, len(items))
        if of == STRING:
            return out + b"".join(string(item) for item in items)
        return out + struct.pack(f"<{len(items)}{'f' if of == FLOAT32 else 'i'}", *items)
    return out + struct.pack({UINT32: "<I", FLOAT32: "<f", BOOL: "<?"}[kind], value)


def pairs_of(args, pieces):
    # Merges are tried by score, best first: what comes early in the list wins.
    scores = [0.0 if kind != NORMAL else float(-i) for i, (_, kind) in enumerate(pieces)]
    return [
        pair("general.architecture", STRING, "llama"),
        pair("general.name", STRING, f"random {args.preset} {args.seed}"),
        pair("general.file_type", UINT32, TYPES[args.type][1]),
        pair("llama.context_length", UINT32, args.context),
        pair("llama.embedding_length", UINT32, args.embd),
        pair("llama.block_count", UINT32, args.layers),
        pair("llama.feed_forward_length", UINT32, args.ff),
        pair("llama.attention.head_count", UINT32, args.heads),
        pair("llama.attention.head_count_kv", UINT32, args.kv_heads),
        pair("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        pair("llama.rope.dimension_count", UINT32, args.embd // args.heads),
        pair("llama.vocab_size", UINT32, len(pieces)),
        pair("tokenizer.ggml.model", STRING, "llama"),
        pair("tokenizer.ggml.tokens", ARRAY, (STRING, [piece for piece, _ in pieces])),
        pair("tokenizer.ggml.scores", ARRAY, (FLOAT32, scores)),
        pair("tokenizer.ggml.token_type", ARRAY, (INT32, [kind for _, kind in pieces])),
        pair("tokenizer.ggml.unknown_token_id", UINT32, 0),
        pair("tokenizer.ggml.bos_token_id", UINT32, 1),
        pair("tokenizer.ggml.eos_token_id", UINT32, 2),
        pair("tokenizer.ggml.add_bos_token", BOOL, True),
        pair("tokenizer.ggml.add_eos_token", BOOL, False),
    ]


def tensors_of(args):
    """Names and shapes, the row first as ggml has it. A norm has one dimension."""
    kv = args.embd // args.heads * args.kv_heads
    yield "token_embd.weight", (args.embd, args.vocab)
    yield "output_norm.weight", (args.embd,)
    yield "output.weight", (args.embd, args.vocab)
    for i in range(args.layers):
        yield f"blk.{i}.attn_norm.weight", (args.embd,)
        yield f"blk.{i}.attn_q.weight", (args.embd, args.embd)
        yield f"blk.{i}.attn_k.weight", (args.embd, kv)
        yield f"blk.{i}.attn_v.weight", (args.embd, kv)
        yield f"blk.{i}.attn_output.weight", (args.embd, args.embd)
        yield f"blk.{i}.ffn_norm.weight", (args.embd,)
        yield f"blk.{i}.ffn_gate.weight", (args.embd, args.ff)
        yield f"blk.{i}.ffn_up.weight", (args.embd, args.ff)
        yield f"blk.{i}.ffn_down.weight", (args.ff, args.embd)


def bytes_of(kind, count):
    return {"f32": 4 * count, "f16": 2 * count, "q8_0": 34 * (count // 32)}[kind]


def padded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def count_of(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def write(args, out):
    rng = random.Random(args.seed)
    pieces = vocabulary(rng, args.vocab)
    pairs = pairs_of(args, pieces)
    tensors = [(name, shape, args.type if len(shape) > 1 else "f32")
               for name, shape in tensors_of(args)]
    infos, offset = [], 0
    for name, shape, kind in tensors:
        infos.append(string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape,
                                                TYPES[kind][0], offset))
        offset = padded(offset + bytes_of(kind, count_of(shape)))
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(pairs)) + b"".join(pairs + infos)
    out.write(head.ljust(padded(len(head)), b"\0"))
    for name, shape, kind in tensors:
        # The spread of a weight keeps the size of what passes through it; the last one is wider,
        # so that some tokens are likelier than others.
        sigma = (4.0 if name == "output.weight" else 1.0) * shape[0] ** -0.5
        data = numbers(rng, kind, count_of(shape), sigma) if len(shape) > 1 else ones(shape[0])
        out.write(data.ljust(padded(len(data)), b"\0"))


def main():
    parser = argparse.ArgumentParser(description="Write a llama model with random weights.")
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--type", choices=TYPES)
    for name in ("embd", "layers", "heads", "kv_heads", "ff", "vocab", "context"):
        parser.add_argument("--" + name.replace("_", "-"), type=int, metavar="N")
    parser.add_argument("file")
    args = parser.parse_args()
    for name, value in PRESETS[args.preset].items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    if args.embd % 32 or args.ff % 32 or args.embd % args.heads or args.heads % args.kv_heads:
        parser.error("--embd and --ff must be multiples of 32, --heads must divide --embd, and "
                     "--kv-heads must divide --heads")
    if args.vocab < 300:
        parser.error("--vocab must be at least 300: 256 of them are bytes")
    temporary = f"{args.file}.{os.getpid()}"
    with open(temporary, "wb") as out:
        write(args, out)
    os.rename(temporary, args.file)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"gguf: {error}")
