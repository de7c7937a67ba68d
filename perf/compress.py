"""compress: what `sonde bench compress` says of Zstandard and LZ4 beside `zstd -b` and `lz4 -b`.

The same file, the three programs in turns, the best turn of each: on a machine that is busy in between, the best is what
stays comparable. A row's note has the ratio of the two; within 5 % is the aim. Peers: zstd, lz4 (tools/deps bench).
"""
import json
import re
import shutil
import subprocess

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


def measure(args, scratch):
    if not shutil.which("zstd") or not shutil.which("lz4"):
        raise RuntimeError("zstd and lz4 are not there: tools/deps bench")
    path = scratch / "compress.txt"
    text_file(path)
    rounds = max(1, round(ROUNDS * getattr(args, "effort", 1)))
    got = {case: ([], []) for case in CASES}
    for number in range(rounds):
        say(f"compress: round {number + 1} of {rounds}")
        for case in CASES:
            runs = [lambda: got[case][0].append(ours(args, *case, path)), lambda: got[case][1].append(peer(*case, path))]
            for run in runs if number % 2 else reversed(runs):
                run()
    rows = []
    for (codec, level), (mine, theirs) in got.items():
        for i, way in enumerate(("compress", "decompress")):
            a, b = [x[i] for x in mine], [x[i] for x in theirs]
            rows.append(row(f"compress_{codec}_{level}_{way}", "compress", f"{codec}:{level}, {way}", "MB/s",
                            named("sonde bench", stats_of(a, max(a))),
                            peers=[named("zstd -b" if codec == "zstd" else "lz4 -b", stats_of(b, max(b)))],
                            note=f"{max(a) / max(b):.3f} of the peer's", higher=True))
    return rows


GROUPS = {"compress": measure}
