#!/usr/bin/env bash
# Comparisons of real recordings: a program that does less is found faster, by as much as it measured
# itself; and 20 pairs of the same program are not called different.
. "$(dirname "$0")/common.sh"
sonde=$SONDE_BUILD/sonde
scratch=$(mktemp -d)
trap 'rm -rf "$SONDE_DIR" "$scratch"' EXIT
cd "$scratch"

# record FILE HEAVY LIGHT SECONDS
record() { "$sonde" record -q -o "$1.run" -- "$programs/two_parts" "$2" "$3" "$4" >"$1.truth" 2>"$1.err" ||
    complain "record $1: $(cat "$1.err")"; }

# ---- faster, and by how much -----------------------------------------------------------------
# Eight units of heavy before, two after, two of light in both.
# A pause of the whole machine within a second is noise that a comparison has to call noise, so more
# is recorded until it is told apart.
judge() { python3 - <<'END'
import json
def truth(name):
    t = {}
    for line in open(name + ".truth"):
        kind, what, value = line.split()
        t[what] = float(value)
    return t
slow, fast = truth("slow"), truth("fast")

# An interval holds the truth in 95 of 100 cases, and this must hold in all: twice as wide.
def holds(f, low, high, value, what):
    middle = (f[low] + f[high]) / 2
    width = f[high] - f[low]
    assert middle - width <= value <= middle + width, \
        "%s: %g is not in %g … %g" % (what, value, f[low], f[high])
def find(r, group, measure, subject=None):
    return [f for f in r["figures"] if (f["group"], f["measure"], f.get("subject")) ==
            (group, measure, subject)][0]

r = json.load(open("shares.json"))
assert r["parts"] == "windows" and r["per"] == "share", r["parts"]
heavy = find(r, "functions", "total", "heavy")
share = lambda t: t["heavy"] / (t["heavy"] + t["light"])
assert heavy["verdict"] == "less", heavy
holds(heavy, "change_low", "change_high", share(fast) - share(slow), "share of heavy")
assert find(r, "functions", "total", "light")["verdict"] == "more"

r = json.load(open("requests.json"))
assert r["per"] == "request" and r["verdict"] in ("faster", "less"), r["summary"]
cpu = find(r, "run", "cpu")
each = lambda t, parts: sum(t[p] for p in parts) / t["requests"]
assert cpu["verdict"] == "less", cpu
both = ("heavy", "light")
holds(cpu, "relative_low", "relative_high", each(fast, both) / each(slow, both) - 1, "CPU a request")
heavy = find(r, "functions", "total", "heavy")
assert heavy["verdict"] == "less", heavy
holds(heavy, "relative_low", "relative_high", each(fast, ["heavy"]) / each(slow, ["heavy"]) - 1,
      "heavy a request")
END
}
for seconds in 1 4 12; do
    record slow 8 2 $seconds
    record fast 2 2 $seconds
    "$sonde" diff --json slow.run fast.run >shares.json
    "$sonde" diff --json --span request slow.run fast.run >requests.json
    judge 2>judged && break
    [ $seconds != 12 ] || complain "slow and fast: $(cat judged)"
done

# ---- a test that breaks, and one that does not ------------------------------------------------
code=0
"$sonde" diff --span request fast.run slow.run --fail-on 'cpu>20%' >out 2>err || code=$?
[ $code = 3 ] || complain "a program that takes more: exit status $code" "$(cat out err)"
grep -q "cpu>20%.* went from " err || complain "not told why: $(cat err)"
code=0
"$sonde" diff --span request slow.run fast.run --fail-on 'cpu>20%' --fail-on 'total:heavy>20%' >out 2>err || code=$?
[ $code = 0 ] || complain "a program that takes less: exit status $code" "$(cat out err)"

# ---- the same program -------------------------------------------------------------------------
# Shares only: how fast the machine is changes from one moment to the next, and so do times.
different=0
for i in $(seq 20); do
    record same_a 3 2 0.25
    record same_b 3 2 0.25
    "$sonde" diff --json --per share --type cpu same_a.run same_b.run >same.json
    python3 - <<'END' || different=$((different + 1))
import json, sys
r = json.load(open("same.json"))
functions = [f for f in r["figures"] if f["group"] == "functions"]
assert len(functions) > 3 and all(f["verdict"] != "not known" for f in functions)
changed = [f["subject"] for f in functions if f["verdict"] != "not different"]
print(" ".join(changed), end="")
sys.exit(bool(changed))
END
done
echo "$different of 20 pairs of the same program called different"
[ "$different" -le 2 ] || complain "$different of 20 pairs of the same program are called different"
finish
