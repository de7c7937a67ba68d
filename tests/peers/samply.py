"""samply beside `sonde record` on the same programs, in turns: what each costs and how many of the
stacks reach the thread's start. usage: samply.py SAMPLY [ROUNDS]"""
import collections, gzip, json, os, statistics, subprocess, sys, tempfile, time

BUILD = os.environ["SONDE_BUILD"]
HZ = 1000

def run(command, env):
    start = time.monotonic()
    p = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                       text=True, env=env, timeout=300)
    if p.returncode: raise SystemExit(f"{command}: {p.returncode}, {p.stderr[-500:]}")
    return time.monotonic() - start

def samply_stacks(file):
    """Samples, and those whose outermost frame is their thread's most common one: without names there is
    no better sign that a stack was followed to its end."""
    with gzip.open(file) as f: profile = json.load(f)
    count = whole = 0
    for t in profile["threads"]:
        prefix, frame = t["stackTable"]["prefix"], t["stackTable"]["frame"]
        roots = collections.Counter()
        for stack in t["samples"]["stack"]:
            if stack is None: continue
            while prefix[stack] is not None: stack = prefix[stack]
            roots[t["frameTable"]["address"][frame[stack]]] += 1
        count += sum(roots.values())
        whole += max(roots.values(), default=0)
    return count, whole

def main(samply, rounds="5"):
    paranoid = int(open("/proc/sys/kernel/perf_event_paranoid").read())
    if paranoid > 1:
        raise SystemExit(f"samply needs kernel.perf_event_paranoid 1 or lower, it is {paranoid}: "
                         "run `sysctl kernel.perf_event_paranoid=1` (sonde does not need it)")
    count = "s = 0\nfor i in range(12_000_000): s += i * i"
    programs = {
        "burn (no frame pointers)": [BUILD + "/programs/burn", "--seconds", "2"],
        "tall (frames of 100 KB to 1 MB)": [BUILD + "/programs/tall", "--seconds", "2"],
        "python3 (an interpreter)": ["/usr/bin/python3", "-c", count],
        "xz (stripped, four threads)": ["sh", "-c", "head -c 12000000 /usr/bin/python3 | xz -T4 -6 >/dev/null"],
    }
    with tempfile.TemporaryDirectory(prefix="sonde-peers-") as dir:
        env = dict(os.environ, SONDE_DIR=dir + "/segments", HOME=dir)
        os.mkdir(dir + "/segments", 0o700)
        for name, command in programs.items():
            times = {"bare": [], "sonde": [], "samply": []}
            for _ in range(int(rounds)):
                times["bare"].append(run(command, env))
                times["sonde"].append(run([BUILD + "/sonde", "record", "-q", "-F", str(HZ), "-o", dir + "/s.run",
                                           "--", *command], env))
                times["samply"].append(run([samply, "record", "--save-only", "--no-open", "-r", str(HZ), "-o",
                                            dir + "/p.json.gz", "--", *command], env))
            report = json.loads(subprocess.run([BUILD + "/sonde", "report", "--json", dir + "/s.run"], env=env,
                                               check=True, capture_output=True, text=True).stdout)
            count, whole = samply_stacks(dir + "/p.json.gz")
            for who, seconds in times.items():
                print(f"{name}: {who}: {statistics.median(seconds):.3f} s, "
                      f"{statistics.median(seconds) / statistics.median(times['bare']):.3f} of bare")
            print(f"{name}: samples: sonde {report['samples']}, samply {count}; "
                  f"whole stacks: sonde {report['complete']:.4f}, samply {whole / max(count, 1):.4f}")
            if not report["samples"] or not count: raise SystemExit(f"{name}: somebody has no samples")

main(*sys.argv[1:])
