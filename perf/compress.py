"""compress: what `sonde bench compress` says of Zstandard and LZ4 beside `zstd -b` and `lz4 -b`, and beside the same
libraries called directly.

The same file, all in turns, the best turn of each: on a machine that is busy in between, the best is what stays
comparable. A row's note has the ratios; within 5 % is the aim. Debian's zstd does not use the library that programs
are linked with, but a copy of its own, whose speed is another: what is right is what a direct call says. Peers: zstd,
lz4 (tools/deps bench).
"""
import ctypes
import json
import re
import shutil
import subprocess
import time

import awake
from common import ROOT, named, row, say, stats_of

ROUNDS = 7
FILE_BYTES = 16 << 20
CASES = [("zstd", 1), ("zstd", 3), ("zstd", 9), ("lz4", 1), ("lz4hc", 9)]


def text_file(path):
    """This project's own sources and pages, as often as it takes; not data that was made up by who measures it."""
    files = sorted(p for folder in ("src", "docs", "engine") for p in (ROOT / folder).rglob("*")
                   if p.suffix in (".c", ".h", ".md"))
    data = b"".join(p.read_bytes() for p in files)
    path.write_bytes((data * (FILE_BYTES // len(data) + 1))[:FILE_BYTES])


def ours(args, codec, level, path):
    done = subprocess.run([args.build / "sonde", "bench", "compress", path, "--codec", f"{codec}:{level}", "--time", "1",
                           "--turns", "1", "--json"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    found = next(r for r in json.loads(done.stdout)["rows"] if r["codec"] == codec)
    if found["state"] != "measured":
        raise RuntimeError(f"sonde bench compress: {codec}:{level} is {found['state']}: {found['why']}")
    return [found[way]["best_bytes_per_s"] / 1e6 for way in ("compress", "decompress")]


def peer(codec, level, path):
    """The last pair of speeds that it printed: it overwrites its line as it goes."""
    program = "zstd" if codec == "zstd" else "lz4"
    done = subprocess.run([program, f"-b{level}", "-i1", path], capture_output=True, text=True, timeout=300)
    # zstd: "(x2.407), 179.4 MB/s, 682.0 MB/s"; lz4: "(1.673), 568.6 MB/s ,2097.9 MB/s"
    pairs = re.findall(r"([0-9.]+) MB/s *, *([0-9.]+) MB/s", done.stdout + done.stderr)
    if not pairs:
        raise RuntimeError(f"{program} -b{level}: cannot read what it printed")
    return [float(x) for x in pairs[-1]]


class Library:
    """A codec as its own header has it: one call a way, on the whole file."""

    def __init__(self, codec, level, path):
        data = path.read_bytes()
        self.size, self.source = len(data), ctypes.create_string_buffer(data, len(data))
        size_t, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
        if codec == "zstd":
            lib = ctypes.CDLL("libzstd.so.1")
            lib.ZSTD_createCCtx.restype = lib.ZSTD_createDCtx.restype = pointer
            lib.ZSTD_compress2.restype = lib.ZSTD_decompressDCtx.restype = size_t
            lib.ZSTD_compress2.argtypes = lib.ZSTD_decompressDCtx.argtypes = [pointer, pointer, size_t, pointer, size_t]
            lib.ZSTD_CCtx_setParameter.argtypes = [pointer, number, number]
            pack, unpack = lib.ZSTD_createCCtx(), lib.ZSTD_createDCtx()
            lib.ZSTD_CCtx_setParameter(pack, 100, level)  # ZSTD_c_compressionLevel
            self.pack = lambda to, room, source, size: lib.ZSTD_compress2(pack, to, room, source, size)
            self.unpack = lambda to, room, source, size: lib.ZSTD_decompressDCtx(unpack, to, room, source, size)
        else:
            lib = ctypes.CDLL("liblz4.so.1")
            call, last = (lib.LZ4_compress_HC, level) if codec == "lz4hc" else (lib.LZ4_compress_fast, 1)
            self.pack = lambda to, room, source, size: call(source, to, size, room, last)
            self.unpack = lambda to, room, source, size: lib.LZ4_decompress_safe(source, to, size, room)

    def speeds(self):
        """MB/s both ways, the best of a second each, as `zstd -b` has it."""
        room = self.size + self.size // 100 + 4096
        packed, back = ctypes.create_string_buffer(room), ctypes.create_string_buffer(self.size)
        made = self.pack(packed, room, self.source, self.size)
        out = []
        for call in (lambda: self.pack(packed, room, self.source, self.size),
                     lambda: self.unpack(back, self.size, packed, made)):
            best, until = float("inf"), time.monotonic() + 1
            while time.monotonic() < until:
                begin = time.perf_counter()
                call()
                best = min(best, time.perf_counter() - begin)
            out.append(self.size / best / 1e6)
        if back.raw != self.source.raw:
            raise RuntimeError("a library did not give back what it was given")
        return out


def measure(args, scratch):
    with awake.Awake():
        return measure_awake(args, scratch)


def measure_awake(args, scratch):
    if not shutil.which("zstd") or not shutil.which("lz4"):
        raise RuntimeError("zstd and lz4 are not there: tools/deps bench")
    path = scratch / "compress.txt"
    text_file(path)
    rounds = max(1, round(ROUNDS * getattr(args, "effort", 1)))
    got = {case: ([], [], []) for case in CASES}
    libraries = {case: Library(*case, path) for case in CASES}
    for number in range(rounds):
        say(f"compress: round {number + 1} of {rounds}")
        for case in CASES:
            runs = [lambda: got[case][0].append(ours(args, *case, path)), lambda: got[case][1].append(peer(*case, path)),
                    lambda: got[case][2].append(libraries[case].speeds())]
            for run in runs if number % 2 else reversed(runs):
                run()
    rows = []
    for (codec, level), (mine, theirs, direct) in got.items():
        for i, way in enumerate(("compress", "decompress")):
            a, b, c = [x[i] for x in mine], [x[i] for x in theirs], [x[i] for x in direct]
            rows.append(row(f"compress_{codec}_{level}_{way}", "compress", f"{codec}:{level}, {way}", "MB/s",
                            named("sonde bench", stats_of(a, max(a))),
                            peers=[named("zstd -b" if codec == "zstd" else "lz4 -b", stats_of(b, max(b))),
                                   named("the library, called directly", stats_of(c, max(c)))],
                            note=f"{max(a) / max(b):.3f} of the program's, {max(a) / max(c):.3f} of the library's",
                            higher=True))
    return rows


GROUPS = {"compress": measure}
