"""llama_compare.py TRUTH.json SEEN.json [times]: what llama_drive did against what infer_watch says
that the agent saw. Counts must be the same. Of times the median is compared, since any one may be
off by as long as a thread was kept from running; with `times` also prefill and decode with
llama.cpp's own figures, within 1 %, of the larger model."""
import json
import statistics
import sys

truth, seen = (json.load(open(name)) for name in sys.argv[1:3])
timed = "times" in sys.argv[3:]
bad = []


def want(text, got, wanted):
    if got != wanted:
        bad.append("%s: %s, not %s" % (text, got, wanted))


def near(text, got, wanted, slack):
    if not abs(got - wanted) <= slack:
        bad.append("%s: %s, not %s +-%s" % (text, got, wanted, slack))


offset = truth["start_realtime_ns"] - truth["start_ns"]
theirs = sorted(truth["requests"], key=lambda r: r["arrival_ns"])
ours = sorted(seen["requests"], key=lambda r: r["arrived_ns"])
want("requests", len(ours), len(theirs))
for t, o in zip(theirs, ours):
    name = "request %d: " % t["id"]
    want(name + "model", o["model"], "bench" if timed else "tiny")
    want(name + "prompt", o["tokens_in"], t["prompt_tokens"])
    want(name + "reused", o["tokens_reused"], t["reused_tokens"])
    want(name + "tokens", o["tokens_out"], t["output_tokens"])
    want(name + "gaps", o["itl_count"], t["output_tokens"] - 1)
    want(name + "valid", o["invalid"], "")
    want(name + "outcome", o["outcome"], "ok")

total, model = truth["totals"], seen["models"][0]
want("models", len(seen["models"]), 1)
want("batches", model["batches"], len(truth["passes"]))
want("prefill tokens", model["prefill_tokens"], sum(p["prompt_tokens"] for p in truth["passes"]))
want("decode tokens", model["decode_tokens"], sum(p["decode_tokens"] for p in truth["passes"]))
want("invalid events", {k: v for k, v in seen["invalid"].items() if v}, {})
want("records lost", seen["lost"], 0)
want("warm-up", seen["calls"]["llama_decode"], len(truth["passes"]) + truth["warmup_passes"])

memory, logged = model["memory"], {b["what"].split()[-1]: b["bytes"] for b in truth["memory"]["logged"]}
want("weights", memory["weights"]["peak"], truth["memory"]["model_bytes"])
want("KV", memory["kv"]["peak"], truth["memory"]["kv_bytes"])
near("compute", memory["compute"]["peak"], logged["compute"], 0.006 * 2**20)
want("memory at the end", {k: v["bytes"] for k, v in memory.items()}, {"weights": 0, "kv": 0, "compute": 0})


def median_apart(text, ours_s, theirs_ns, slack_s):
    apart = statistics.median(abs(a - b * 1e-9) for a, b in zip(ours_s, theirs_ns))
    if apart > slack_s:
        bad.append("%s: %.6f s apart in the median" % (text, apart))


def mean_gap(r):
    return (r["token_ns"][-1] - r["token_ns"][0]) / max(1, len(r["token_ns"]) - 1)


median_apart("arrival", [(o["arrived_ns"] - offset) * 1e-9 for o in ours], [t["arrival_ns"] for t in theirs], 1e-3)
median_apart("time to first token", [o["ttft_s"] for o in ours], [t["ttft_ns"] for t in theirs], 1e-3)
median_apart("between tokens", [o["itl_s"] for o in ours], [mean_gap(t) for t in theirs], 1e-3)
median_apart("latency", [o["total_s"] for o in ours], [t["latency_ns"] for t in theirs], 2e-3)
near("load", model["load_s"], (truth["load_end_ns"] - truth["load_start_ns"]) * 1e-9, 0.5)

status = 1 if bad else 0
if timed:
    # One sequence: a pass of one token is decoding, for llama.cpp as for us.
    perf = truth["perf"]
    want("prompt tokens of llama.cpp", perf["prompt_tokens"], model["prefill_tokens"])
    want("generated tokens of llama.cpp", perf["eval_tokens"], model["decode_tokens"])
    for name, got, ms in (("prefill", model["prefill_s"], perf["prompt_ms"]),
                          ("decode", model["decode_s"], perf["eval_ms"])):
        if abs(got - ms * 1e-3) > 0.01 * ms * 1e-3:
            status = status or 3  # try again: something may have come between two clocks
            bad.append("%s: %.3f ms, llama.cpp says %.3f" % (name, got * 1e3, ms))
for line in bad:
    print(line, file=sys.stderr)
sys.exit(status)
