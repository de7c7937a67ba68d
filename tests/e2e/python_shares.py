"""python_shares.py FOLDED ORACLE: do the shares of functions in a folded profile agree with what the program
counted itself? Within two points. Prints what it found; exit status 1 if not."""
import sys

POINTS = 2.0


def totals(folded, names):
    found = dict.fromkeys(names, 0)
    samples = 0
    for line in open(folded, encoding="utf-8"):
        frames, weight = line.rsplit(" ", 1)
        samples += int(weight)
        for name in set(frames.split(";")) & found.keys():
            found[name] += int(weight)
    return found, samples


def main(folded, oracle):
    truth = {}
    for line in open(oracle, encoding="utf-8"):
        word, name, ns = line.split()
        assert word == "oracle"
        truth[name] = int(ns)
    found, samples = totals(folded, truth)
    bad = samples < 500
    for name, ns in truth.items():
        want = 100 * ns / sum(truth.values())
        got = 100 * found[name] / max(1, sum(found.values()))
        bad |= abs(want - got) > POINTS
        print(f"{name}: {got:.1f} % of {samples} samples, by its own count {want:.1f} %")
    return bad


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
