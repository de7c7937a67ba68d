"""engine_figures.py FILE [requests]: the JSON of a report or of /api/engine says what programs/engine_series.c
recorded, exactly; percentiles within the histogram's 0.54 %. requests: those that it made, too."""
import json
import sys

e = json.load(open(sys.argv[1]))
failed = 0


def same(what, got, wanted):
    global failed
    if got != wanted:
        failed = 1
        print(f"{what}: wanted {wanted}, got {got}")


def near(what, got, wanted, room=1e-9):
    if got is None or abs(got - wanted) > room * wanted:
        same(what, got, wanted)


d = e["devices"]
same("operations", [d["cpu_operations"], d["gpu_operations"], d["fallbacks"]], [400, 600, 4])
same("devices", [(x["device"], x["kind"], x["count"], x["share"]) for x in d["list"]],
     [("cpu", "cpu", 400, 0.7), ("cuda0", "gpu", 600, 0.3)])
same("memory", [(x["memory_used_bytes"], x["memory_total_bytes"], x["memory_efficiency"]) for x in d["list"]],
     [(256 << 20, 1 << 30, 0.25), (6 << 30, 8 << 30, 0.75)])
same("fallbacks", d["list"][1]["fallback_reasons"], {"out_of_memory": 3, "unsupported": 1})
ops = [(x["device"], o) for x in d["list"] for o in x["operations"]]
same("by kind", [(n, o["operation"], o["count"], o["share"]) for n, o in ops],
     [("cpu", "matmul", 300, 0.6), ("cpu", "quantize", 100, 0.1), ("cuda0", "matmul", 600, 0.3)])
for (name, o), each in zip(ops, [1e-3, 5e-4, 2.5e-4]):
    near(f"{name} {o['operation']}: time", o["seconds"], each * o["count"])
    near(f"{name} {o['operation']}: mean", o["mean_s"], each)
    near(f"{name} {o['operation']}: p99", o["p99_s"], each, 0.0054)
    near(f"{name} {o['operation']}: max", o["max_s"], each, 0.0054)

p = e["pools"]
same("pools", [(x["pool"], x["used_bytes"], x["peak_bytes"], x["capacity_bytes"], x["requested_bytes"],
                x["allocations"]["count"], x["frees"]["count"], x["failures"]) for x in p["list"]],
     [("kv", 4194304, 6291456, 8388608, 3145728, 40, 10, 0), ("weights", 2097152, 2097152, 4194304, 2097152, 4, 0, 2)])
same("fragmentation", [(x["fragmentation_external"], x["fragmentation_internal"]) for x in p["list"] + [p["all"]]],
     [(0.5, 0.25), (0.75, 0), (0.583333, 0.166667)])
same("all pools", [p["all"]["used_bytes"], p["all"]["capacity_bytes"], p["all"]["allocations"]["count"], p["all"]["failures"]],
     [6291456, 12582912, 44, 2])
near("an allocation", p["list"][0]["allocations"]["mean_s"], 2e-6)
near("an allocation: p99", p["list"][0]["allocations"]["p99_s"], 2e-6, 0.0054)
near("a free", p["list"][0]["frees"]["mean_s"], 1e-6)

t = e["tokenizers"][0]
same("tokenizer", [t["tokenizer"], t["encodes"]["count"], t["bytes"], t["tokens"], t["lookups_per_token"], t["merges_per_token"],
                   t["cache_hit_ratio"], t["decodes"]["count"]], ["bpe", 200, 15200, 4000, 3, 2, 0.25, 50])
near("tokens per second", t["tokens_per_s"], 4000 / 0.038)
same("lengths", [(x["bytes"], x["count"], x["slowest"]) for x in t["lengths"]], [("1-64", 180, False), ("257-1024", 20, True)])
near("time of short ones", t["lengths"][0]["seconds"], 0.018)
near("the slowest", t["lengths"][1]["max_s"], 1e-3, 0.0054)
same("advice", [a["kind"] for a in t["advice"]], ["cache_misses"])

if "requests" in sys.argv[2:]:
    i = e["inference"]
    same("requests by one call", [i["requests_total"], i["tokens_out"], i["measures"]["ttft_s"]["count"]], [5, 250, 5])
    # A clock that has just begun knows its rate to some parts in 100,000.
    near("their time", i["measures"]["total_s"]["p50"], 1, 1e-3)
    near("their tokens per second", i["measures"]["tokens_per_s"]["p50"], 50, 1e-3)
    same("events not used", i["invalid_events"], {})
sys.exit(failed)
