"""predict_load URL RATE COUNT SEED: completions at these times, whatever becomes of the ones before.

Gaps are exponential with the mean exactly 1 / RATE; sizes are the same for every seed, in another order."""
import json
import random
import sys
import threading
import time
import urllib.request

url, rate, count, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
rng = random.Random(3)
jobs = [(rng.randrange(8, 120), rng.randrange(4, 24)) for _ in range(count)]
rng = random.Random(seed)
rng.shuffle(jobs)
gaps = [rng.expovariate(1) for _ in range(count)]
failed = []


def ask(prompt, answer):
    body = {"prompt": [rng.randrange(300, 500) for _ in range(prompt)], "max_tokens": answer, "ignore_eos": True}
    try:
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=120).read()
    except OSError as error:
        failed.append(str(error))


begin, at, threads = time.monotonic(), 0.0, []
for gap, job in zip(gaps, jobs):
    time.sleep(max(0.0, begin + at - time.monotonic()))
    threads.append(threading.Thread(target=ask, args=job))
    threads[-1].start()
    at += gap * count / rate / sum(gaps)
for thread in threads:
    thread.join()
if failed:
    sys.exit(f"{len(failed)} of {count} failed: {failed[0]}")
