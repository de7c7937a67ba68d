"""strip_find.py WORD FILE…: names every file that holds the word, also inside of what is compressed."""
import gzip
import sqlite3
import sys
import zlib

word = sys.argv[1].encode()


def inside(data):
    """The bytes, and what they are when they are unpacked."""
    yield data
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data)
    for window in (15, -15):
        try:
            yield zlib.decompressobj(window).decompress(data)
        except zlib.error:
            pass


def parts(path):
    with open(path, "rb") as f:
        data = f.read()
    yield from inside(data)
    if not data.startswith(b"SQLite format 3"):
        return
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for row in db.execute(f'SELECT * FROM "{table}"'):
            for value in row:
                if isinstance(value, bytes):
                    yield from inside(value)
                elif isinstance(value, str):
                    yield value.encode()


for path in sys.argv[2:]:
    if any(word in part for part in parts(path)):
        print(path)
