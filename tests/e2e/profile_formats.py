#!/usr/bin/env python3
"""The checks of test_profile_formats.sh, one a command."""
import json
import random
import re
import sys


def folded():
    """Stacks with recursion, C++ names, spaces and many functions; always the same."""
    random.seed(20)
    names = ["main", "operator<<(std::ostream&, char)", "std::vector<int, std::allocator<int> >::at(unsigned long)",
             "run loop", "a&b\"c", "</script>", "f", "g", "(anonymous namespace)::h()", "do_syscall_64_[k]"]
    names += ["fn_%d" % i for i in range(200)]
    seen = {}
    for _ in range(3000):
        depth = random.randint(1, 30)
        stack = ["main"] + [random.choice(names) for _ in range(depth)]
        seen.setdefault(";".join(stack), random.randint(1, 10 ** random.randint(0, 9)))
    for stack, weight in seen.items():
        print(stack, weight)


def read_folded(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            stack, weight = line.rstrip("\n").rsplit(" ", 1)
            yield stack.split(";"), int(weight)


def read_flat(path):
    rows = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            self, total, name = line.rstrip("\n").split("\t")
            assert name not in rows, name
            rows[name] = (int(self), int(total))
    return rows


def read_top(path):
    """pprof -top: flat flat% sum% cum cum% name. Names of the kernel's are without our suffix."""
    rows = {}
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for line in text.split("cum%\n", 1)[1].splitlines():
        m = re.match(r"\s*(\S+)\s+\S+%\s+\S+%\s+(\S+)\s+\S+%\s+(.*)$", line)
        assert m, line
        flat, cum, name = m.groups()
        rows[re.sub(r" \((partial-)?inline\)$", "", name)] = (flat, cum)
    return rows, text


def same(what, a, b):
    for name in sorted(set(a) | set(b)):
        if a.get(name) != b.get(name):
            sys.exit("%s: %s is %s here and %s there" % (what, name, a.get(name), b.get(name)))
    print("%s: all %d agree" % (what, len(a)))


def top(ours, theirs):
    mine = {re.sub(r"_\[k\]$", "", n): v for n, v in read_flat(ours).items()}
    rows, _ = read_top(theirs)
    same("pprof -top", mine, {n: (int(f), int(c)) for n, (f, c) in rows.items()})


def report(ours, theirs):
    """What `sonde report` says of a recording, and pprof of its export."""
    with open(ours, encoding="utf-8") as f:
        mine = {r["name"]: (r["self"], r["total"]) for r in json.load(f)["functions"]}
    rows, _ = read_top(theirs)
    rows = {n: (number(f), number(c)) for n, (f, c) in rows.items()}
    # Code that nothing names is a row an address here and one row a module there.
    for name in [n for n in rows if re.fullmatch(r"\[.+\]", n) and n not in mine]:
        places = [n for n in mine if n.startswith(name[1:-1] + "+0x") and n not in rows]
        if sum(mine.pop(n)[0] for n in places) != rows.pop(name)[0] or not places:
            sys.exit("report and pprof -top: %s is not the sum of %s" % (name, places))
    same("report and pprof -top", mine, rows)


def truth(folded_path, flat_path):
    rows = {}
    for stack, weight in read_folded(folded_path):
        for name in set(stack):
            self, total = rows.get(name, (0, 0))
            rows[name] = (self + (weight if name == stack[-1] else 0), total + weight)
    same("counted by hand", rows, read_flat(flat_path))


def number(text):
    return int(float(re.sub(r"(ns|B)$", "", text)))


def total(facts, kind, top_path):
    """The total in pprof's header, rounded there to a few digits, and the exact sum of its rows."""
    weights = {}
    with open(facts, encoding="utf-8") as f:
        for line in f:
            name, _, weight = line.split("\t")
            weights[name] = int(weight)
    rows, _ = read_top(top_path)
    theirs = sum(number(f) for f, _ in rows.values())
    if weights.get(kind) != theirs or not theirs:
        sys.exit("%s: %s here, %s in pprof" % (kind, weights.get(kind), theirs))
    print("%s: %d agrees" % (kind, theirs))


def schema(schema_path, path):
    import jsonschema
    with open(schema_path, encoding="utf-8") as f:
        rules = json.load(f)
    with open(path, encoding="utf-8") as f:
        jsonschema.validate(json.load(f), rules)
    print("%s: valid" % path.rsplit("/", 1)[1])


def speedscope(folded_path, path):
    with open(path, encoding="utf-8") as f:
        data = json.load(f)
    names = [f["name"] for f in data["shared"]["frames"]]
    assert len(set(names)) == len(names)
    got = {}
    for profile in data["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"]
        for stack, weight in zip(profile["samples"], profile["weights"]):
            key = ";".join(names[i] for i in stack)
            got[key] = got.get(key, 0) + weight
    same("speedscope", {";".join(s): w for s, w in read_folded(folded_path)}, got)


def perf(script, facts, folded_path):
    """Every sample and every frame that perf printed."""
    samples, weight, stacks = 0, 0, {}
    stack = None

    def end():
        if stack is not None:
            key = tuple(reversed(stack)) or ("[unknown]",)
            stacks[key] = stacks.get(key, 0) + 1

    with open(script, encoding="utf-8", errors="replace") as f:
        for line in f:
            m = re.match(r"\s*\S.*?\s+\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?\d+\.\d+:\s+(\d+)\s+cpu-clock\S*:\s*$", line)
            if m:
                end()
                samples, weight, stack = samples + 1, weight + int(m.group(1)), []
            elif line.strip():
                symbol = re.match(r"\s+[0-9a-f]+ (.*) \(", line).group(1)
                stack.append(re.sub(r"\+0x[0-9a-f]+$", "", symbol))
    end()
    with open(facts, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    if rows != [["cpu", str(samples), str(weight)]]:
        sys.exit("perf script: %d samples of %d ns, read as %s" % (samples, weight, rows))
    got = {}
    for frames, count in read_folded(folded_path):
        # Frames without a symbol have a place in ours.
        key = tuple(re.sub(r"_\[k\]$", "", n) for n in frames)
        key = tuple("[unknown]" if re.search(r"(^|\+)0x[0-9a-f]+$", n) else n for n in key)
        got[key] = got.get(key, 0) + count
    same("perf script, %d samples" % samples, stacks, got)


def trace(path, facts):
    with open(path, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert slices and any(e["ph"] == "M" and e["name"] == "thread_name" for e in events)
    # Slices of a track nest, as the viewers want it.
    tracks = {}
    for e in slices:
        tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    for spans in tracks.values():
        open_ends = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= start + 1e-6:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-6, (start, end, open_ends)
            open_ends.append(end)
    with open(facts, encoding="utf-8") as f:
        weight = int(f.readline().split("\t")[2])
    print("trace: %d slices on %d tracks, of %.3f s" % (len(slices), len(tracks), weight / 1e9))


if __name__ == "__main__":
    {"folded": folded, "top": top, "report": report, "truth": truth, "total": total, "schema": schema,
     "speedscope": speedscope, "perf": perf, "trace": trace}[sys.argv[1]](*sys.argv[2:])
