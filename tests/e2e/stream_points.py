"""Points of the live stream are what the store answers of the same steps: URL STEP COUNT.

Times of ticks are whole milliseconds in the store, so rates may differ by that; counts, sums and
percentiles may not."""
import json
import sys
import time
import urllib.request

url, step, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def ask(path):
    with urllib.request.urlopen(url + path, timeout=60) as answer:
        return json.load(answer)


def events():
    """Those of the stream: the first step was perhaps not seen from its beginning."""
    found, name = [], None
    with urllib.request.urlopen(f'{url}/api/stream?events=points&step={step}&limit=10000', timeout=60) as stream:
        while len(found) <= wanted:
            line = stream.readline().decode()
            if line.startswith('event:'):
                name = line.split()[1]
            elif line.startswith('data:') and name == 'points':
                found.append(json.loads(line[5:]))
    return found[1:]


def key(series):
    return series['name'], json.dumps(series['labels'], sort_keys=True), series['pid']


def stored(event):
    """The same step by the store, as soon as it holds what came after it."""
    after = event['time'] + step
    for _ in range(600):
        if ask(f'/api/query?name=sonde_agent_*&from={after}&step={step}')['series']:
            break
        time.sleep(0.1)
    answer = ask(f'/api/query?from={event["time"]}&to={after - 0.001}&step={step}&limit=10000')
    return {key(s): [p for p in s['points'] if p['time'] == event['time']] for s in answer['series']}


def close(member, a, b):
    if a == b:
        return True
    if a is None or b is None:
        return False
    slack = 0.02 if member in ('value', 'min', 'max') else 1e-9
    return abs(a - b) <= slack * max(abs(a), abs(b))


compared = 0
for event in events():
    assert event['step_s'] == step and event['time'] % step == 0, event['time']
    known = stored(event)
    for series in event['series']:
        points = known.get(key(series))
        assert points, f'{key(series)} is not in the store at {event["time"]}'
        for member, value in series['point'].items():
            assert close(member, value, points[0][member]), (key(series), member, value, points[0][member])
            compared += 1
print(f'{compared} figures are the same')
assert compared > 200 * wanted
