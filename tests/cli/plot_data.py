# plot_data.py FOLDER: data files of every kind: plain, of one point, of nothing but what is no number, and of hostile
# names. Written as Python writes JSON, NaN and Infinity included.
import json
import math
import os
import sys

folder = sys.argv[1]
nan, inf = math.nan, math.inf
T = [1763470000 + i for i in range(40)]
E = list(range(1, 11))
plain = {
    "training": [("epoch", "train_loss", E, [2 / e for e in E]), ("epoch", "val_loss", E, [2.2 / e for e in E]),
                 ("epoch", "val_acc", E, [1 - 0.8 / e for e in E]), ("epoch", "learning_rate", E, [0.1 / 2 ** e for e in E]),
                 ("epoch", "seconds", E, [30 + e / 7 for e in E])],
    "latency": [("latency", "TTFT", T, [0.01 * (1 + i % 7) for i in range(40)]), ("latency", "e2e", T, [0.3 + i / 50 for i in range(40)])],
    "batch": [("batch", "bert", [1, 1, 2, 4, 4, 8], [0.01, 0.012, 0.015, 0.02, 0.024, 0.031])],
    "throughput": [("rate", "tokens: out", T, [900 + i for i in range(40)]), ("rate", "tokens: in", T, [2000 - i for i in range(40)]),
                   ("rate", "requests", T, [12 + i % 3 for i in range(40)])],
    "phases": [("phase", n, None, [s]) for n, s in (("data_wait", 31), ("forward", 60), ("backward", 110.5), ("optimizer", 0.012))],
    "workers": [("worker", "w%d" % k, T, [(k + i % 5) / 10 for i in range(40)]) for k in range(4)],
    "dataset": [("load", "train", None, [1.5, 2.5, 2]), ("load", "val", None, [0.25]), ("bytes", "train", None, [6e9]),
                ("bytes", "val", None, [1e8])],
    "cache": [("hits", "l1", T, [90] * 40), ("misses", "l1", T, [10] * 40), ("hits", "l2", None, [3]), ("misses", "l2", None, [7])],
    "memory": [("memory", "weights", T, [3e9] * 40), ("memory", "kv", T, [1e9 + i * 1e7 for i in range(40)]),
               ("memory", "process: resident", T, [4.5e9 + i for i in range(40)])],
    "scaling": [("scaling", "parse", [1, 2, 4, 8], [100, 190, 350, 600])],
}
names = ["<script>alert(1)</script>", "\" onload=\"x", "a\x00b\x07\x1b[31m", "\u202eright to left\u202c", "שלום", "e\u0301\u0301\u0301",
         "x" * 5000, "日本語", "]]>&amp;<!--", "", "\ud800", "a: b"]


def series(rows):
    return [{"role": r, "name": n, "y": y, **({"x": x} if x else {})} for r, n, x, y in rows]


def write(name, kind, rows, **more):
    with open(os.path.join(folder, name + ".json"), "w") as f:
        json.dump({"sonde_plot": 1, "kind": kind, "series": rows, **more}, f)


def figures(groups, values):
    return [{"role": "figure", "name": n, "group": g, "unit": u, "better": b, "y": [v * k], "low": [v * k * 0.9], "high": [v * k * 1.1]}
            for n, u, b, v in values for k, g in enumerate(groups, 1)]


kinds = dict(plain, compare=None)
for kind, rows in kinds.items():
    role = rows[0][0] if rows else "figure"
    write("plain-" + kind, kind, series(rows) if rows else figures(("a", "b"), (("ttft", "s", -1, 0.2), ("peak", "bytes", -1, 5e9))))
    write("one-" + kind, kind, [{"role": role, "name": "one", "group": "g", "x": [1763470000 if role in ("latency", "rate") else 7], "y": [3]}])
    write("none-" + kind, kind, [])
    write("odd-" + kind, kind, [{"role": role, "name": "n", "x": [1, 2, nan, 4, 5, 6, 1e308, -1e308],
                                 "y": [nan, inf, -inf, 1e308, -1e308, 1e-320, None, 0]},
                                {"role": role, "name": "m", "x": [nan] * 3, "y": [nan, inf, -inf]}])
    hostile = [{"role": role, "name": n, "group": n, "x": [1, 2, 3], "y": [1, 2, 3.5]} for n in names]
    if kind == "cache":
        hostile += [dict(s, role="misses") for s in hostile]
    write("hostile-" + kind, kind, hostile, title=names[0], note=names[1])
