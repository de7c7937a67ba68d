"""What the load generator recorded against the log of the server that it asked (known_server.c): joined
by trace id, both by the same clock.

    load_truth.py LOG RECORDS RESULT NAME --requests N --events N [--stalled MS] [--starved]
"""
import json
import sys


def option(name):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else None


log, records, result = sys.argv[1:4]
events, requests, stalled_ms = option("--events"), option("--requests"), option("--stalled")
result = json.load(open(result))
served = {}
for line in open(log):
    trace, arrived, first, last, end, tokens, path = line.rstrip("\n").split("\t")[:7]
    assert trace not in served, f"{trace} was served twice"
    served[trace] = (int(arrived), int(first), int(last), int(end), int(tokens))

names = ["intended", "sent", "head", "first", "content", "last", "end", "connect", "events", "prompt", "output",
         "cached", "reasoning", "status"]
rows, earlier = [], 0
for line in open(records):
    trace, *fields = line.rstrip("\n").split("\t")
    r = dict(zip(names, map(int, fields[:14])))
    assert fields[14] == "ok" and r["status"] == 200, line
    arrived, first, last, end, tokens = served.pop(trace)
    assert earlier <= r["intended"] <= r["sent"] <= arrived, (line, arrived)
    earlier = r["intended"]
    assert r["head"] <= r["end"] and r["output"] == tokens and r["prompt"] == 11, line
    assert r["events"] == events, line
    if events:
        # The server's time is from before it wrote: nothing can have been read earlier.
        assert arrived <= first <= r["first"] <= r["content"] <= r["last"] <= r["end"], (line, first)
        assert last <= r["last"] and r["head"] <= r["first"], (line, last)
    rows.append((r, arrived, first, last))
assert not served, f"{len(served)} requests that nobody sent"
assert len(rows) == requests == result["records"] == result["ok"], len(rows)
assert result["events"] == requests * events, result["events"]
assert result["gaps"] == requests * max(0, events - 1), result["gaps"]
assert result["done"] == requests and result["unsent"] == 0, result
if stalled_ms:
    # Latency from the schedule has the stall of all who were due in it, not of the one who waited alone.
    span = [r["intended"] for r, *_ in rows]
    spacing_ns = (span[-1] - span[0]) / (len(span) - 1)
    late = [r["end"] - r["intended"] for r, *_ in rows]
    hit = sum(1 for ns in late if ns > stalled_ms * 1e6 / 2)
    assert hit * spacing_ns >= 0.9 * stalled_ms * 1e6 / 2, f"{hit} requests saw half of the stall"
    assert max(late) >= 0.9 * stalled_ms * 1e6, max(late)
if "--starved" in sys.argv:
    assert result["client"]["starved"] > 0
    assert max(r["sent"] - r["intended"] for r, *_ in rows) > 0
