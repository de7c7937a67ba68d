"""grafana.py SOURCE AGENT_URL PROMETHEUS_URL: what dashboards ask for is there (test_grafana.sh)."""
import fnmatch
import json
import pathlib
import re
import sys
import time
import urllib.parse
import urllib.request

source, agent, prometheus = pathlib.Path(sys.argv[1]), *sys.argv[2:]
failures = []
END = time.monotonic() + 120  # for all of it: what is there is there soon


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def until(what, check):
    """What check returns once it is true; a server that is not up yet is a reason to wait."""
    while True:
        try:
            result = last = check()
        except OSError as error:
            result, last = None, getattr(error, "read", lambda: error)()
        if result:
            return result
        if time.monotonic() > END:
            failures.append(f"{what}: nothing came; last: {last}")
            return None
        time.sleep(0.5)


# ---- Grafana ------------------------------------------------------------------------------------

# As Grafana replaces them before it asks.
VARIABLES = {"$__rate_interval": "15s", "$model": ".*", "$process": ".*"}


def query(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, f"a variable that this test does not know: {expression}"
    # What an annotation marks need not happen now: that its series is there is enough.
    expression = re.sub(r" > 0$", "", expression)
    answer = get(f"{prometheus}/api/v1/query?query={urllib.parse.quote(expression)}")
    return [r for r in answer["data"]["result"] if r["value"][1] != "NaN"]


def panels_of(board):
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def check_board(path):
    board = json.loads(path.read_text())
    panels = list(panels_of(board))
    ids = [p["id"] for p in panels]
    assert len(ids) == len(set(ids)), "a panel's id is there twice"
    taken = {}
    for panel in panels:
        g = panel["gridPos"]
        assert g["x"] + g["w"] <= 24, f"{panel['title']} is outside of the grid"
        for cell in [(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]:
            assert cell not in taken, f"{panel['title']} lies on {taken.get(cell)}"
            taken[cell] = panel["title"]
    asked = [(p["title"], t["expr"]) for p in panels for t in p.get("targets", [])]
    asked += [(a["name"], a["expr"]) for a in board["annotations"]["list"]]
    for title, expression in asked:
        found = until(f"{path.name}, {title}: {expression}", lambda: query(expression))
        for legend in found and re.findall(r"{{(\w+)}}", legend_of(panels, expression)) or []:
            if legend not in found[0]["metric"]:
                failures.append(f"{title}: the legend says {legend}, which {found[0]['metric']} has not")
    for variable in board["templating"]["list"]:
        if variable["type"] != "query":
            continue
        name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
        until(f"variable {variable['name']}", lambda: any(label in r["metric"] for r in query(name)))
    print(f"{path.name}: {len(asked)} queries")


def legend_of(panels, expression):
    return next((t.get("legendFormat", "") for p in panels for t in p.get("targets", [])
                 if t["expr"] == expression), "")


# ---- The pages ----------------------------------------------------------------------------------

# Series of what this machine and this engine may not have (a GPU, pools of memory, requests that miss
# an objective): their names must be in the sources instead.
ABSENT = ["sonde_gpu_*", "gpu_*", "sonde_memory_pool_bytes", "sonde_infer_slo_missed_total"]
NAME = re.compile(r"['\"`\s|]((?:gen_ai|sonde|system|process)_[a-z0-9_]*[a-z0-9*][a-z0-9_*]*)(?=['\"`\s|])")


def names():
    """Of series, and of labels, which begin alike."""
    families = get(f"{agent}/api/series?limit=10000")["families"]
    return {f["name"] for f in families} | {l for f in families for s in f["series"] for l in s["labels"]}


def in_sources(name):
    literal = name.split("*")[0]
    return any(f'"{literal}' in file.read_text(errors="replace") for file in (source / "src").rglob("*.[ch]"))


def check_pages():
    asked = {}
    for file in sorted((source / "web" / "src").rglob("*.ts")):
        # Not comments, and not keys of the glossary.
        code = re.sub(r"^\s*//.*$|\bmetric: '\w+'", "", file.read_text(), flags=re.M)
        for name in NAME.findall(code):
            asked.setdefault(name, file.relative_to(source))
    for name, file in asked.items():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in ABSENT) and in_sources(name):
            continue
        until(f"{file} asks for {name}", lambda: any(fnmatch.fnmatchcase(f, name) for f in names()))
    print(f"pages: {len(asked)} names of series")


boards = sorted((source / "examples" / "grafana").glob("*.json"))
assert boards, "examples/grafana has no dashboard"
for board in boards:
    check_board(board)
check_pages()
print(*failures, sep="\n")
sys.exit(1 if failures else 0)
