#!/usr/bin/env python3
"""loaders: load generators that people use, beside `sonde bench http`, on one server whose times are
known, with the same load: what each reports against the truth, and the highest rate that each holds.

    loaders.py BUILD PEERS [--rates 50,100,…] [--seconds N] [--only sonde,oha,aiperf,guidellm]

BUILD is a build of sonde with known_server, PEERS the folder where tools/peers put the others. The
server has a CPU to itself and each generator another, one after the other; both CPUs are kept awake. Requests are streamed
chats, sent at a constant rate. The truth is the server's log: when a request arrived, and when its
first and last token left. What a client adds (the way there and back) is its own, and small.

A rate is held if the server saw at least 95 % of the requests that were due, and if the generator's
median time to first token (of oha, which does not look into streams: its latency) is within 10 % of
the truth. Checked is only that sonde is not worse than any of the others; the table is for reading.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "perf"))
import awake  # noqa: E402

TTFT_US, ITL_US, TOKENS = 20000, 2000, 16
BODY = json.dumps({"model": "known", "stream": True, "messages": [{"role": "user", "content": "hi"}]})


class Server:
    """known_server on the first CPU; what its log says, after the end."""

    def __init__(self, build, folder, options=()):
        self.log = os.path.join(folder, "server.log")
        self.child = subprocess.Popen(
            ["taskset", "-c", "0", os.path.join(build, "programs", "known_server"), "--log", self.log,
             "--ttft-us", str(TTFT_US), "--itl-us", str(ITL_US), "--tokens", str(TOKENS), *options],
            stdout=subprocess.PIPE, text=True)
        self.port = int(self.child.stdout.readline().split()[1])
        self.url = "http://127.0.0.1:%d" % self.port

    def end(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(30)
        rows = []
        for line in open(self.log):
            field = line.rstrip("\n").split("\t")
            if field[-1].startswith("/v1/chat") or "/v1/chat" in line:
                rows.append([int(x) for x in field[1:5]])
        return [r for r in rows if r[1] and r[3]]


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def run(command, seconds, env=None):
    """What it wrote to its standard output; None if it failed."""
    try:
        done = subprocess.run(["taskset", "-c", "1", *command], capture_output=True, text=True,
                              timeout=seconds + 120, env={**os.environ, **(env or {})})
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None


# Each of them: {"ttft": (p50, p99), "itl": p50, "e2e": (p50, p99)} in seconds, as it reports them; None =
# it failed.

def ask_sonde(args, server, rate, seconds, folder):
    path = os.path.join(folder, "sonde.json")
    run([os.path.join(args.build, "sonde"), "bench", "http", server.url + "/v1/chat/completions", "--rate",
         str(rate), "--arrival", "constant", "-d", "%ds" % seconds, "--warmup", "0", "--no-probe", "--no-agent",
         "--model", "known", "--max-tokens", str(TOKENS), "--format", "json", "-o", path], seconds)
    if not os.path.exists(path):
        return None
    m = json.load(open(path))["metrics"]
    pick = lambda name: (m[name].get("p50") or float("nan"), m[name].get("p99") or float("nan"))
    return {"ttft": pick("ttft_s"), "itl": m["itl_s"].get("p50"), "e2e": pick("e2e_s")}


def ask_oha(args, server, rate, seconds, folder):
    out = run([os.path.join(args.peers, "bin", "oha"), "-z", "%ds" % seconds, "-q", str(rate), "-c", "2000",
               "--latency-correction", "--no-tui", "--output-format", "json", "-m", "POST", "-T",
               "application/json", "-d", BODY, server.url + "/v1/chat/completions"], seconds)
    if not out:
        return None
    p = json.loads(out)["latencyPercentiles"]
    return {"ttft": None, "itl": None, "e2e": (p["p50"], p["p99"])}


def ask_aiperf(args, server, rate, seconds, folder):
    to = os.path.join(folder, "aiperf")
    shutil.rmtree(to, ignore_errors=True)
    run([os.path.join(args.peers, "aiperf", "bin", "aiperf"), "profile", "--model", "known", "--url",
         server.url, "--endpoint-type", "chat", "--streaming", "--tokenizer", args.tokenizer,
         "--request-rate", str(rate), "--request-rate-mode", "constant", "--benchmark-duration", str(seconds),
         "--use-server-token-count", "--synthetic-input-tokens-mean", "16", "--ui", "none", "--artifact-dir", to],
        seconds)
    path = os.path.join(to, "profile_export_aiperf.json")
    if not os.path.exists(path):
        return None
    d = json.load(open(path))
    pick = lambda name: (d[name]["p50"] / 1e3, d[name]["p99"] / 1e3)
    return {"ttft": pick("time_to_first_token"), "itl": d["inter_token_latency"]["p50"] / 1e3,
            "e2e": pick("request_latency")}


def ask_guidellm(args, server, rate, seconds, folder):
    path = os.path.join(folder, "guidellm.json")
    if os.path.exists(path):
        os.remove(path)
    run([os.path.join(args.peers, "guidellm", "bin", "guidellm"), "run", "--backend",
         "kind=openai_http,target=%s,model=known,validate_backend=false" % server.url, "--profile",
         "kind=constant,rate=%g" % rate, "--constraint", "kind=max_duration,seconds=%d" % seconds, "--data",
         "kind=synthetic_text,prompt_tokens=16,output_tokens=16", "--tokenizer",
         "kind=hf_auto,model=" + args.tokenizer, "--output", "kind=json,path=" + path, "--disable-console"],
        seconds, {"HF_HUB_OFFLINE": "1"})
    if not os.path.exists(path):
        return None
    m = json.load(open(path))["benchmarks"][0]["metrics"]
    pick = lambda name, unit: tuple(m[name]["successful"]["percentiles"][p] * unit for p in ("p50", "p99"))
    return {"ttft": pick("time_to_first_token_ms", 1e-3),
            "itl": m["inter_token_latency_ms"]["successful"]["percentiles"]["p50"] * 1e-3,
            "e2e": pick("request_latency", 1)}


ASK = {"sonde": ask_sonde, "oha": ask_oha, "aiperf": ask_aiperf, "guidellm": ask_guidellm}


def measure(args, name, rate, folder):
    """One run: what it says, and what was."""
    server = Server(args.build, folder)
    said = ASK[name](args, server, rate, args.seconds, folder)
    rows = server.end()
    if not rows:
        return said, None
    # The rate in the middle of the run: some begin with requests of their own to warm up.
    arrivals = sorted(r[0] for r in rows)
    middle = arrivals[len(arrivals) // 10: -max(1, len(arrivals) // 10)]
    seen = (len(middle) - 1) / ((middle[-1] - middle[0]) / 1e9) if len(middle) > 2 else 0.0
    truth = {"rate": seen, "ttft": [(r[1] - r[0]) / 1e9 for r in rows], "e2e": [(r[3] - r[0]) / 1e9 for r in rows],
             "itl": [(r[2] - r[1]) / 1e9 / (TOKENS - 1) for r in rows]}
    return said, truth


def ms(seconds):
    return "        –" if seconds is None or seconds != seconds else "%9.2f" % (seconds * 1e3)


def show(name, rate, said, truth):
    held = False
    if said and truth:
        what = "ttft" if said["ttft"] else "e2e"
        true = statistics.median(truth[what])
        held = truth["rate"] >= 0.95 * rate and abs(said[what][0] - true) <= 0.1 * true
    t = truth or {"rate": 0.0, "ttft": [], "e2e": [], "itl": []}
    s = said or {"ttft": None, "itl": None, "e2e": None}
    cell = lambda pair, i: ms(pair[i] if pair else None)
    print("%-9s %6g %8.1f |%s %s |%s %s |%s %s |%s %s  %s" % (
        name, rate, t["rate"], cell(s["ttft"], 0), ms(quantile(t["ttft"], 0.5)), ms(s["itl"]),
        ms(quantile(t["itl"], 0.5)), cell(s["e2e"], 0), ms(quantile(t["e2e"], 0.5)), cell(s["e2e"], 1),
        ms(quantile(t["e2e"], 0.99)), "held" if held else "failed" if not said else "NOT HELD"), flush=True)
    return held


def make_tokenizer(args, folder):
    """Bytes as tokens: AIPerf and guidellm want a tokenizer, and none can be fetched."""
    args.tokenizer = os.path.join(folder, "tokenizer")
    code = """
import json, os, sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
letters = sorted(pre_tokenizers.ByteLevel.alphabet())
t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
PreTrainedTokenizerFast(tokenizer_object=t, bos_token="!", eos_token='"').save_pretrained(sys.argv[1])
json.dump({"model_type": "gpt2"}, open(os.path.join(sys.argv[1], "config.json"), "w"))
"""
    subprocess.run([os.path.join(args.peers, "aiperf", "bin", "python"), "-c", code, args.tokenizer], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description="load generators beside each other")
    parser.add_argument("build")
    parser.add_argument("peers")
    parser.add_argument("--rates", default="50,100,200,400,800,1600,3200,6400")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--only", default=",".join(ASK))
    args = parser.parse_args()
    best = {}
    with tempfile.TemporaryDirectory() as folder, awake.Awake():
        make_tokenizer(args, folder)
        print("times in ms: as reported, and by the server's log\n"
              "%-9s %6s %8s |%9s %9s |%9s %9s |%9s %9s |%9s %9s" % (
                  "", "rate", "seen", "TTFT p50", "truth", "ITL p50", "truth", "e2e p50", "truth", "e2e p99", "truth"))
        for name in args.only.split(","):
            best[name] = 0.0
            for rate in [float(r) for r in args.rates.split(",")]:
                if not show(name, rate, *measure(args, name, rate, folder)):
                    break
                best[name] = rate
    print("\nhighest rate held, of those tried: " + ", ".join("%s %g/s" % pair for pair in best.items()))
    if "sonde" in best and best["sonde"] < max(best.values()):
        print("FAIL sonde holds less than another")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
