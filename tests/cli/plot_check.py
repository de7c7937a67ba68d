# plot_check.py BASE: the pictures BASE.svg, .html, .png and .pdf against BASE.json, what was drawn. Real parsers read
# them; values are written again here, by the rule of present/units.h, and have to be there.
import html.parser
import json
import math
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as tree
import zlib

SVG = "{http://www.w3.org/2000/svg}"


def digits(x, whole):
    a = abs(x)
    if a >= 99.95 or (x == math.floor(x) and whole):
        return "%.0f" % x
    if a >= 9.995:
        return "%.1f" % x
    if a == 0:
        return "0"
    return "%.2f" % x if a >= 0.0095 else "%.0e" % x


SECONDS = [(1e-9, " ns"), (1e-6, " µs"), (1e-3, " ms"), (1, " s"), (60, " min"), (3600, " h"), (86400, " d")]
BYTES = [(1024.0 ** i, u) for i, u in enumerate((" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"))]
COUNTS = [(1000.0 ** i, u) for i, u in enumerate(("", "k", "M", "G", "T", "P", "E"))]


def scaled(v, table, slack, whole):
    i = 0
    while i + 1 < len(table) and abs(v) >= table[i + 1][0] * (1 - slack):
        i += 1
    if v == 0 and table is SECONDS:
        i = 3
    return digits(v / table[i][0], whole and i == 0) + table[i][1]


def value(v, unit):
    if abs(v) < 1e-90:
        v = v if unit in ("", "ratio") else 0
    if unit == "s":
        return scaled(v, SECONDS, 0.0005, False)
    if unit in ("bytes", "bytes/s"):
        return scaled(v, BYTES, 0.5 / 1024, True) + unit[5:]
    if unit == "1/s":
        return scaled(v, COUNTS, 0.0005, True) + "/s"
    if unit == "share":
        return digits(v * 100, False) + " %"
    return ("%.5g" if abs(v) < 1e6 else "%.6g") % v


def harmless(text):
    return not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.cells, self.cell = [], [], None

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, text in attrs:
            assert not name.startswith("on"), (tag, name)
            assert name not in ("href", "src"), (tag, name)
        if tag == "td":
            self.cell = ""

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag == "td":
            self.cells.append(self.cell)
            self.cell = None


def check_svg(base, drawn):
    root = tree.parse(base + ".svg").getroot()
    assert root.tag == SVG + "svg", root.tag
    width, height = float(root.get("width")), float(root.get("height"))
    texts = ["".join(t.itertext()) for t in root.iter(SVG + "text")]
    titles = [t.text or "" for t in root.iter(SVG + "title")]
    assert all(harmless(t) for t in texts + titles)
    known = {SVG + n for n in ("svg", "style", "rect", "path", "circle", "text", "title")}
    for e in root.iter():
        assert e.tag in known, e.tag
        for name, v in e.attrib.items():
            assert not name.startswith("on") and "nan" not in v.split() and "inf" not in v.split(), (e.tag, name, v)
        if e.tag == SVG + "text":
            assert -1 <= float(e.get("x")) <= width + 1 and 0 <= float(e.get("y")) <= height + 1, e.attrib
        if e.tag == SVG + "rect":
            assert float(e.get("width")) >= 0 and float(e.get("height")) >= 0, e.attrib
    points = 0
    for chart in drawn["charts"]:
        unit = chart["y"]["unit"]
        for rule in chart["rules"]:
            assert any(rule["label"] in t for t in texts), rule
            if "x" in rule:
                assert rule["label"].endswith(value(rule["x"], chart["x"]["unit"])), rule
        for s in chart["series"]:
            if s["mark"] == "dashed" or len(s["points"]) > 800:
                continue
            for p in s["points"]:
                if p["y"] is None:
                    continue
                points += 1
                says = value(p["y"], unit)
                assert any(t.endswith(": " + says) or (": " + says + " (") in t for t in titles), (says, s["name"], p)
        for c in chart.get("cells", []):
            assert any(re.search(r": %d(, %d failed)?$" % (c["count"], c["failed"]), t) for t in titles), c
    return width, height, points


def check_html(base, drawn):
    with open(base + ".html", encoding="utf-8") as f:
        text = f.read()
    page = Page()
    page.feed(text)
    assert page.tags.count("script") == 1 and page.tags.count("svg") == 1, page.tags[:40]
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", ""), "loads something"
    numbers = set()
    for cell in page.cells:
        try:
            numbers.add(float(cell))
        except ValueError:
            pass
    for chart in drawn["charts"]:
        for s in chart["series"]:
            for p in s["points"][:500]:
                for key in ("y", "low", "high", "x_end"):
                    assert p.get(key) is None or p[key] in numbers, (chart["title"], s["name"], key, p)


def check_png(base, width, height):
    with open(base + ".png", "rb") as f:
        data = f.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, size = 8, b"", None
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + n]
        assert struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            size = struct.unpack(">IIBB", body[:10])
        if kind == b"IDAT":
            packed += body
        at += 12 + n
    assert size[0] == round(2 * width) and size[1] == round(2 * height), (size, width, height)
    pixels = zlib.decompress(packed)
    assert len(set(pixels[::97])) > 8, "blank"


def check_pdf(base, drawn):
    with open(base + ".pdf", "rb") as f:
        assert f.read(5) == b"%PDF-"
    text = subprocess.run(["pdftotext", "-layout", base + ".pdf", "-"], check=True, capture_output=True).stdout.decode()
    words = re.sub(r"\s+", "", text)
    for chart in drawn["charts"]:
        title = re.sub(r"\s+", "", chart["title"])
        if title.isascii() and title.isprintable() and len(title) < 30:
            assert title in words, (title, text)
        for rule in chart["rules"]:
            assert re.sub(r"\s+", "", rule["label"]) in words, rule


def main():
    base = sys.argv[1]
    with open(base + ".json", encoding="utf-8") as f:
        drawn = json.load(f)
    assert drawn["sonde_plot"] == 1 and drawn["charts"]
    width, height, points = check_svg(base, drawn)
    check_html(base, drawn)
    check_png(base, width, height)
    check_pdf(base, drawn)
    print(drawn["kind"], len(drawn["charts"]), "charts", points, "values")


main()
