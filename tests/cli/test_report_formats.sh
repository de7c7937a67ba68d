#!/usr/bin/env bash
# One report in all formats, read by real parsers: the schema of JSON, CSV, Prometheus, Markdown; the
# same figures in each; names that try to get out; parts of a recording; a running agent.
. "$(dirname "$0")/common.sh"
export PATH=/usr/bin:$PATH PYTHONPATH=$SONDE_SOURCE/tests/cli PYTHONDONTWRITEBYTECODE=1
cd "$scratch" || exit
check() { /usr/bin/python3 - "$sonde" "${@:2}" || complain "$1"; }

# all NAME FILE: each format of it, as NAME.json, NAME.csv, NAME.md, NAME.prom, NAME.pdf
all() {
    status 0 "$sonde" report -o "$1.json" "$2"
    status 0 "$sonde" report -o "$1.csv" "$2"
    status 0 "$sonde" report -o "$1.md" "$2"
    status 0 "$sonde" report -o "$1.prom" "$2"
    status 0 "$sonde" report -o "$1.pdf" "$2"
}

status 0 "$sonde" report --schema
cmp -s out "$SONDE_SOURCE/docs/report.schema.json" || complain "--schema is not docs/report.schema.json"
status 2 "$sonde" report --schema x.run
has "--schema of a file" 'is always the same' err
status 2 "$sonde" report --format yaml x.run
has "formats" 'text.*markdown.*json.*csv.*html.*prometheus.*pdf' err

# ---- Figures that a program knows of itself -----------------------------------------------------
status 0 "$sonde" record -q -o a.run --set agent.interval_seconds=0.1 -- "$programs/activity" 1
all a a.run
check "formats of one recording" <<'END'
import json, sys
from report_formats import *
valid(sys.argv[1], "a.json")
r, rows, prom, md = json.load(open("a.json")), rows_of("a.csv"), samples_of("a.prom"), tables_of("a.md")
load = next(o for o in r["operations"] if o["operation"] == "load")
in_csv = {x["figure"]: float(x["value"]) for x in rows if x["section"] == "operations" and x["name"] == "load"}
assert in_csv["count"] == load["count"] == 28 and in_csv["errors"] == load["errors"] == 8
assert in_csv["p95"] == load["p95_s"] and in_csv["mean"] == load["mean_s"]
name = "sonde_operation_duration_seconds_"
def of(suffix, **labels):
    return [v for (n, l), v in prom.items() if n == name + suffix and dict(l).items() >= {"operation": "load", **labels}.items()]
assert sum(of("count")) == sum(of("bucket", le="+Inf")) == 28, of("count")
assert abs(sum(of("sum")) - load["seconds"]) < 1e-9
# Buckets grow, and the mean lies in them.
for outcome in ("ok", "error", "timeout"):
    buckets = sorted((float(dict(l)["le"]), v) for (n, l), v in prom.items() if n == name + "bucket"
                     and dict(l)["operation"] == "load" and dict(l)["outcome"] == outcome)
    assert [v for _, v in buckets] == sorted(v for _, v in buckets) and buckets[-1][0] == float("inf")
(row,) = \
    [x for t in md if t[0][:2] == ["OPERATION", "COUNT"] for x in [dict(zip(t[0], c)) for c in t[1:]] if x["OPERATION"] == "load"]
assert (row["COUNT"], row["ERRORS"], row["%"]) == ("28", "8", "28.6 %"), row
tiers = {x["CACHE"]: x for x in table(md, "CACHE")}
assert (tiers["l1"]["HITS"], tiers["l1"]["HIT %"]) == ("750", "75.0 %")
assert prom[("sonde_cache_accesses_total", tuple(sorted({"tier": "l1", "result": "hit", "process": "activity",
             "pid": str(r["system"]["processes"][0]["pid"])}.items())))] == 750
s = r["summary"]
assert s["operations"] == sum(o["count"] for o in r["operations"]) and s["slowest_operation"]["operation"] in ("load", "save")
assert s["cache_efficiency"] == 750 / 1250 and s["error_ratio"] == s["errors"] / s["operations"]
# Memory of the process, as the machine tells it.
one = r["system"]["processes"][0]
assert one["program"] == "activity" and one["resident_bytes"]["min"] <= one["resident_bytes"]["mean"]
assert 1e5 < one["resident_bytes"]["mean"] <= one["resident_bytes"]["max"] < 1e9
assert one["threads"]["min"] >= 1 and 0 < r["system"]["memory"]["percent"] < 100 and r["system"]["cpu"]["cpus"] >= 1
assert {x["value"] for x in rows if x["section"] == "system" and x["figure"] == "resident_bytes" and x["detail"] == "max"} \
    == {f"{one['resident_bytes']['max']:.0f}"}
END

# ---- A part ---------------------------------------------------------------------------------------
# What is counted in the first second and after it is what is counted in all.
status 0 "$sonde" record -q -o parts.run --set agent.interval_seconds=0.1 -- "$SONDE_BUILD/example_shop" --seconds 2
for part in "--to 1" "--from 1" ""; do
    # shellcheck disable=SC2086
    status 0 "$sonde" report --json $part parts.run
    cp out "part$(echo "$part" | tr -d ' -').json"
done
check "parts of a recording" <<'END'
import json, sys
from report_formats import *
valid(sys.argv[1], "partto1.json", "partfrom1.json", "part.json")
first, second, whole = (json.load(open(f"part{p}.json")) for p in ("to1", "from1", ""))
look = lambda r: sum(c["hits"] + c["misses"] for c in r["caches"])
moved = lambda r: sum(b["in_bytes"] + b["out_bytes"] for b in r["bandwidth"])
# Programs may have counted for a moment before the first tick.
for of in (look, moved):
    assert of(first) > 0 and of(second) > 0
    assert 0.9 * of(whole) - 50 <= of(first) + of(second) <= 1.001 * of(whole) + 2, (of(first), of(second), of(whole))
for r in (first, second):
    assert "findings" not in r and r["summary"]["findings"] is None and abs(r["summary"]["duration_seconds"] - 1) < 0.6
    assert r["system"]["seconds"] > 0.5
END
status 0 "$sonde" report --format prometheus --to 1 parts.run
cp out part.prom
check "series of a part" <<'END'
from report_formats import *
assert any(n == "sonde_cache_accesses_total" for n, _ in samples_of("part.prom"))
END
status 2 "$sonde" report --format prometheus --span x parts.run
has "series of a span" 'series are of everything' err

# ---- Names ----------------------------------------------------------------------------------------
status 0 "$sonde" record -q -o names.run --set agent.interval_seconds=0.1 -- "$programs/report_names"
all names names.run
check "names that try to get out" <<'END'
import json, sys
from report_formats import *
valid(sys.argv[1], "names.json")
r = json.load(open("names.json"))
names = {o["operation"] for o in r["operations"]}
assert len(names) == 17 and "</script><script>alert(1)</script>" in names and "two\nlines\r\n# head" in names
assert all(o["count"] == 3 and o["errors"] == 1 for o in r["operations"])
for section, key in (("operation_errors", "type"), ("caches", "tier"), ("bandwidth", "source"), ("scopes", "scope"), ("throughput", "scope")):
    assert {x[key] for x in r[section]} == names, section
assert all(t["items"] == 15 for t in r["throughput"]) and all(s["count"] == 3 for s in r["scopes"])
# CSV: what looked like a formula has an apostrophe in front, and nothing else was changed.
got = {x["name"] for x in rows_of("names.csv") if x["section"] == "operations"}
assert {n[1:] if n[0] == "'" else n for n in got} == names and "'=HYPERLINK(\"http://evil\")" in got, got ^ names
prom = samples_of("names.prom")
assert {dict(l)["tier"] for (n, l) in prom if n == "sonde_cache_accesses_total"} == names
# Markdown: the same names as text, with control characters and turned text made visible.
shown = {row[0] for t in tables_of("names.md") if t[0][:2] == ["OPERATION", "COUNT"] for row in t[1:]}
plain = {n for n in names if n.isprintable()}
assert len(shown) == 17 and plain <= shown, plain - shown
text = open("names.md", encoding="utf-8").read()
assert not [c for c in text if ord(c) < 32 and c != "\n" or c in "\x7f\u202a\u202b\u202d\u202e\u2066\u2067"], "control characters"
END
status 0 "$sonde" report -o names.html names.run
check "names in HTML" <<'END'
import html.parser, json, sys
from report_formats import *
class Page(html.parser.HTMLParser):
    tags, data, inside = [], "", False
    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = ("id", "sonde-data") in attrs
        assert not [a for a in attrs if a[0].startswith("on") or a[0] == "src" or a[0] == "href" and a[1] != "data:,"], (tag, attrs)
    def handle_endtag(self, tag):
        self.inside = False
    def handle_data(self, data):
        if self.inside:
            self.data += data
page = Page()
page.feed(open("names.html", encoding="utf-8").read())
page.close()
assert page.tags.count("script") == 2 and set(page.tags) <= set("html head meta title style body noscript p script link".split()), set(page.tags)
file = json.loads(page.data)
report = file["answers"]["/api/report"]
assert "report" in file["pages"] and not list(validator(sys.argv[1]).iter_errors(report))
whole = json.load(open("names.json"))
for key in ("operations", "operation_errors", "caches", "bandwidth", "scopes", "throughput", "system", "summary", "findings"):
    assert report[key] == whole[key], key
END
pdftotext -layout names.pdf - >pdf.txt || complain "pdftotext"
has "a name on paper" '<img src=x onerror=alert\(1\)>' pdf.txt
lacks "nothing to click or run" '/(URI|JavaScript|Launch|OpenAction)' names.pdf
"$sonde" report names.run >text.txt
check "text" <<'END'
text = open("text.txt", encoding="utf-8").read()
assert not [c for c in text if ord(c) < 32 and c != "\n" or c in "\x7f\u202a\u202b\u202d\u202e"]
END

# ---- Machine learning, inference, heap, other tools', next to nothing ---------------------------
status 0 "$sonde" record -q -o train.run -- "$SONDE_BUILD/example_train"
cp "$scratch/out" train.txt
all train train.run
check "machine learning" <<'END'
import json, re, sys
from report_formats import *
valid(sys.argv[1], "train.json")
(t,) = json.load(open("train.json"))["ml"]["training"]
truth = [(int(e), float(a), float(b)) for e, a, b in re.findall(r"epoch (\d+) train_loss (\S+) val_loss (\S+)", open("train.txt").read())]
assert truth and [(e["epoch"], e["values"]["train_loss"], e["values"]["val_loss"]) for e in t["epochs"]] == truth
assert abs(sum(p["share"] for p in t["phases"]) - 1) < 1e-4
rows = rows_of("train.csv")
losses = [float(x["value"]) for x in rows if x["section"] == "ml_epochs" and x["figure"] == "train_loss"]
assert losses == [a for _, a, _ in truth]
epochs = table(tables_of("train.md"), "EPOCH")
assert [x["train_loss"] for x in epochs] == [f"{a:.4g}" for _, a, _ in truth]
paper = subprocess.run(["pdftotext", "-layout", "train.pdf", "-"], check=True, capture_output=True, text=True).stdout
for heading in ("Summary", "Charts", "Training", "Epochs", "Phases", "Functions"):
    assert re.search(rf"^\s*{heading}", paper, re.M), heading
assert all(f"{a:.4g}" in paper for _, a, _ in truth)
assert ("sonde_ml_steps_total" in {n for n, _ in samples_of("train.prom")}) == (t["steps"] > 0)
END
status 0 "$sonde" record -q -o engine.run -- "$SONDE_BUILD/example_engine" --clients 2 --requests 20 --decode-ms 1 --tokens 8
all engine engine.run
status 0 "$sonde" record -q --heap -o heap.run -- "$SONDE_BUILD/example_shop" --seconds 1
all heap heap.run
status 0 "$sonde" record -q -o hello.run -- "$SONDE_BUILD/example_hello"
all hello hello.run
status 0 "$sonde" record -q -o true.run -- true
status 0 "$sonde" report -o true.json true.run
printf 'main;f 1\n' >one.folded
for suffix in json csv md; do status 0 "$sonde" report -o one.$suffix one.folded; done
status 0 "$sonde" report --type live --json heap.run
cp out live.json
status 1 "$sonde" report --format prometheus one.folded
has "no series" 'no series in it' err
check "other recordings" <<'END'
import json, sys
from report_formats import *
valid(sys.argv[1], *(f"{n}.json" for n in ("engine", "heap", "hello", "true", "one", "live")))
for n in ("engine", "heap", "hello", "one"):
    rows_of(f"{n}.csv")
    tables_of(f"{n}.md")
r, rows = json.load(open("engine.json")), rows_of("engine.csv")
got = {x["figure"]: float(x["value"]) for x in rows if x["section"] == "inference" and not x["name"]}
assert got["requests_ok"] == r["inference"]["requests"]["ok"] and r["summary"]["requests"] == 40
assert got["ttft_s_p95"] == r["inference"]["measures"]["ttft_s"]["p95"] == r["summary"]["ttft_p95_s"]
heap = json.load(open("heap.json"))["memory"]
assert heap["peak_bytes"] > 0 and heap["allocations"] >= 0 and "leaked_mb" in heap
for n in ("engine", "heap"):
    assert samples_of(f"{n}.prom")
END

# ---- An agent -------------------------------------------------------------------------------------
start_agent log --set agent.interval_seconds=0.2 --store "$scratch/s.store" --continuous
"$programs/activity" 8 >/dev/null &
started+=($!)
until_true sh -c "curl -sf '$url/metrics' | grep -q 'sonde_cache_accesses_total.*750'"
status 0 "$sonde" report -q -d 1 -o agent.json "$url"
status 0 "$sonde" report -q -d 1 -o agent.csv "$url"
status 0 "$sonde" report -q -d 1 -o agent.md "$url"
status 0 "$sonde" report -o agent.prom "$url"
for format in json csv markdown; do
    status 0 curl -sf "$url/api/report?format=$format"
    cp out "now.$format"
done
status 0 curl -sf "$url/api/report?format=pdf"
has "a PDF" '^%PDF-1' out
status 0 curl -sf -X POST "$url/admin/profile/cpu?duration=0.5"
cp out short.json
status 0 "$sonde" report -q --from -20 -o past.json "$url"
status 0 "$sonde" report -q --from -20 -o stored.csv s.store
check "an agent" <<'END'
import json, sys
from report_formats import *
valid(sys.argv[1], "agent.json", "short.json", "past.json", "now.json")
assert any(c["tier"] == "l1" and c["hits"] == 750 for c in json.load(open("now.json"))["caches"])
rows_of("now.csv")
tables_of("now.markdown")
r, past = json.load(open("agent.json")), json.load(open("past.json"))
tiers = lambda r: {c["tier"]: (c["hits"], c["misses"]) for c in r["caches"] if c["program"] == "activity"}
assert tiers(r)["l1"] == (750, 250), tiers(r)
assert {x["value"] for x in rows_of("agent.csv") if x["section"] == "caches" and x["name"] == "l1" and x["figure"] == "hits"} == {"750"}
assert any(x["CACHE"].startswith("l1") and x["HITS"] == "750" for x in table(tables_of("agent.md"), "CACHE"))
assert any(n == "sonde_cache_accesses_total" and v == 750 for (n, _), v in samples_of("agent.prom").items())
assert any(p["program"] == "activity" for p in r["system"]["processes"]), r["system"]["processes"]
assert past["system"]["processes"] and past["system"]["cpu"]["percent"] is not None
assert any(x["section"] == "system" for x in rows_of("stored.csv"))
END
finish
