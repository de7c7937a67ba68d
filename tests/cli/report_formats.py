"""Reports read by other people's parsers: JSON against the schema, CSV, Prometheus, Markdown."""
import csv, html.parser, json, math, subprocess, sys

import jsonschema
from prometheus_client.parser import text_string_to_metric_families

COLUMNS = "section,program,pid,name,detail,figure,value,unit,text".split(",")


def validator(sonde):
    schema = json.loads(subprocess.run([sonde, "report", "--schema"], check=True, capture_output=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def valid(sonde, *paths):
    """Every problem of every file, so that a new key is seen at once."""
    check = validator(sonde)
    for path in paths:
        problems = [f"{list(e.path)}: {e.message[:200]}" for e in check.iter_errors(json.load(open(path)))]
        assert not problems, (path, problems[:5])


def rows_of(path):
    """Strictly: nine fields a line, CRLF, and no text that a spreadsheet would run."""
    text = open(path, encoding="utf-8", newline="").read()
    assert text.endswith("\r\n")
    rows = list(csv.reader(text.splitlines(keepends=True), strict=True))
    assert rows[0] == COLUMNS and all(len(r) == 9 for r in rows), [r for r in rows if len(r) != 9][:3]
    for r in rows[1:]:
        assert r[0] and r[5] and bool(r[6]) != bool(r[8]), r
        assert not r[6] or math.isfinite(float(r[6])), r
        for i in (1, 3, 4, 5, 8):
            assert not r[i][:1] or r[i][0] not in "=+-@\t\r\n＝＋－＠", r
    return [dict(zip(COLUMNS, r)) for r in rows[1:]]


def samples_of(path):
    """(name, labels) -> value; each once."""
    text = open(path, encoding="utf-8", newline="").read()
    lint = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
    assert lint.returncode in (0, 3), lint.stderr # 3: a word on style
    found, families = {}, set()
    for family in text_string_to_metric_families(text):
        assert family.name not in families, family.name
        families.add(family.name)
        for s in family.samples:
            key = (s.name, tuple(sorted(s.labels.items())))
            assert key not in found, key
            found[key] = s.value
    return found


class Markup(html.parser.HTMLParser):
    """Tables as rows of texts, and every element that there is."""

    def __init__(self):
        super().__init__()
        self.tags, self.tables, self.cell = set(), [], None

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not [a for a in attrs if a[0] not in ("align", "class")], (tag, attrs)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.cell = ""

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.tables[-1][-1].append(self.cell)
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data


def tables_of(path):
    """What GitHub's own renderer makes of it; --unsafe: raw HTML would be there, if there was any."""
    page = subprocess.run(["cmark-gfm", "--unsafe", "-e", "table", "-e", "autolink", "-e", "strikethrough", "-e",
                           "tasklist", path], check=True, capture_output=True, text=True).stdout
    m = Markup()
    m.feed(page)
    m.close()
    allowed = set("h1 h2 h3 ul li p table thead tbody tr th td strong em pre code".split())
    assert m.tags <= allowed, m.tags - allowed
    for table in m.tables:
        assert len({len(row) for row in table}) == 1, table[:3]
    return m.tables


def table(tables, first):
    (found,) = [t for t in tables if t[0][0] == first]
    return [dict(zip(found[0], row)) for row in found[1:]]


if __name__ == "__main__":
    valid(sys.argv[1], *sys.argv[2:])
