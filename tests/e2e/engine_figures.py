"""engine_figures.py EVENTS AGENT: what the agent says of every request is what the engine's own event
log says: counts exactly, times to a microsecond."""
import json
import sys
import urllib.request
from collections import Counter, defaultdict

NEAR_S = 1e-6
events = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]


def get(path):
    return urllib.request.urlopen(sys.argv[2] + path, timeout=60).read().decode()


def log_requests():
    """Figures of every request by its id, from the log alone."""
    out = defaultdict(lambda: {"tokens_in": 0, "tokens_reused": 0, "tokens_out": 0, "batches": 0, "token_ns": [],
                               "phase_s": defaultdict(float), "phase_count": Counter()})
    for e in events:
        kind = e["event"]
        if kind == "batch":
            tokens = sum(m["prompt"] + m["output"] for m in e["members"])
            for m in e["members"]:
                r = out[m["request"]]
                r["batches"] += 1
                for phase, n in (("prefill", m["prompt"]), ("decode", m["output"])):
                    if n:
                        r["phase_s"][phase] += (e["ns"] - e["begin"]) * n / tokens / 1e9
                        r["phase_count"][phase] += 1
            continue
        if kind == "start":
            continue
        r = out[e["request"]]
        if kind == "arrival":
            r["arrived"] = e["ns"]
            r["route"] = e["route"]
        elif kind == "prompt":
            r["tokens_in"], r["tokens_reused"] = e["tokens"], e["reused"]
        elif kind == "token":
            r["token_ns"].append(e["ns"])
        elif kind == "end":
            r["outcome"], r["error"], r["tokens_out"], r["end"] = e["outcome"], e["error"], e["tokens"], e["ns"]
        else:
            r["phase_s"][kind] += (e["ns"] - e["begin"]) / 1e9
            r["phase_count"][kind] += 1
    return out


wrong = []


def exact(what, ours, theirs):
    if ours != theirs:
        wrong.append(f"{what}: the log says {ours}, the agent {theirs}")


def near(what, ours, theirs):
    if theirs is None or abs(ours - theirs) > NEAR_S:
        wrong.append(f"{what}: the log says {ours:.9f}, the agent {theirs}")


def compare(own_id, log, shown):
    for key in ("outcome", "error", "route", "tokens_in", "tokens_reused", "tokens_out", "batches"):
        exact(f"{own_id} {key}", log[key], shown[key])
    near(f"{own_id} total", (log["end"] - log["arrived"]) / 1e9, shown["total_s"])
    at = log["token_ns"]
    exact(f"{own_id} tokens", len(at), log["tokens_out"])
    if at:
        near(f"{own_id} ttft", (at[0] - log["arrived"]) / 1e9, shown["ttft_s"])
    else:
        exact(f"{own_id} ttft", None, shown["ttft_s"])
    gaps = [(b - a) / 1e9 for a, b in zip(at, at[1:])]
    exact(f"{own_id} gaps", len(gaps), shown["itl"]["count"] if shown["itl"] else 0)
    if gaps:
        near(f"{own_id} itl mean", sum(gaps) / len(gaps), shown["itl"]["mean_s"])
        near(f"{own_id} itl min", min(gaps), shown["itl"]["min_s"])
        near(f"{own_id} itl max", max(gaps), shown["itl"]["max_s"])
    # Of a request that never waited the agent may derive a queue of its own; ours always did.
    phases = {k: p for k, p in shown["phases"].items() if not p.get("derived")}
    exact(f"{own_id} phases", sorted(log["phase_s"]), sorted(phases))
    for name in set(phases) & set(log["phase_s"]):
        exact(f"{own_id} {name} count", log["phase_count"][name], phases[name]["count"])
        near(f"{own_id} {name}", log["phase_s"][name], phases[name]["seconds"])


def series(name, label=""):
    return sum(float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines()
               if line.startswith(name + "{") and label in line)


log = log_requests()
shown = {r["own_id"]: r for r in json.loads(get("/api/requests?limit=10000"))["requests"]}
metrics = get("/metrics")
exact("requests", sorted(log), sorted(shown))
for own_id in set(log) & set(shown):
    compare(own_id, log[own_id], shown[own_id])

for outcome, n in Counter(r["outcome"] for r in log.values()).items():
    exact(f"requests_total {outcome}", n, series("sonde_infer_requests_total", f'outcome="{outcome}"'))
for label, key in (("input", "tokens_in"), ("reused", "tokens_reused"), ("output", "tokens_out")):
    exact(f"tokens_total {label}", sum(r[key] for r in log.values()),
          series("sonde_infer_tokens_total", f'type="{label}"'))
batches = [e for e in events if e["event"] == "batch"]
exact("batches", len(batches), series("sonde_infer_batch_requests_count"))
exact("requests in batches", sum(len(b["members"]) for b in batches), series("sonde_infer_batch_requests_sum"))
exact("tokens in batches", sum(m["prompt"] + m["output"] for b in batches for m in b["members"]),
      series("sonde_infer_batch_tokens_sum"))
exact("events not used", 0, series("sonde_infer_invalid_events_total"))
exact("spans lost", 0, series("sonde_spans_lost_total"))
near("time to first token, in all",
     sum((r["token_ns"][0] - r["arrived"]) / 1e9 for r in log.values() if r["token_ns"]) / len(log),
     series("gen_ai_server_time_to_first_token_seconds_sum") / len(log))
for w in wrong[:40]:
    print(w, file=sys.stderr)
print(f"{len(log)} requests, {len(batches)} batches, {sum(len(r['token_ns']) for r in log.values())} tokens; "
      f"{len(wrong)} figures differ")
sys.exit(bool(wrong))
