"""why_truth.py LOG SONDE RUN: the parts that `sonde why` finds for the requests of
tests/programs/why_truth.c, against what the program logged by its own clocks.

Prints a table; exits 1 if parts do not add up, or differ by more than they may."""
import collections
import json
import subprocess
import sys

SHARES = {'prefill': {'a': 8 / 16, 'b': 4 / 16, 'c': 4 / 16},
          'decode_ab': {'a': 1 / 2, 'b': 1 / 2, 'c': 0},
          'decode_abc': {'a': 1 / 4, 'b': 1 / 4, 'c': 2 / 4}}
COMPUTES = ('encode', 'prefill', 'decode', 'detokenize', 'compute', 'batch_mates', 'overhead',
            'runnable')
WAITS = {'lock': 'lock', 'io': 'io', 'sleep': 'sleep', 'work': 'thread'}


def read_log(path):
    """By group: intervals of the server and the worker in order, requests, the other process."""
    groups = collections.defaultdict(lambda: {'i': [], 'w': [], 'r': {}, 's': {}})
    for line in open(path):
        kind, group, name, begin, end, ran, cpu = line.split()
        row = (name, int(begin), int(end), (int(ran), int(cpu)))
        if kind in 'iw':
            groups[int(group)][kind].append(row)
        else:
            groups[int(group)][kind][name] = row[1:]
    return groups


def interrupted(group, who):
    """Whether it was off the CPU while it logged that a request began or ended: the log and the
    request are apart by that."""
    begin, end, _ = group['r'][who]
    for name, start, stop, cpu in group['i']:
        near = start <= begin <= stop or start <= end <= stop or begin <= start < begin + 30000
        if name == '-' and near and stop - start - cpu[1] > 20000:
            return True
    return False


def handed_over(group, begin, end, out, ours, clock):
    """What the worker did while it was waited for; returns how long that was."""
    done = 0
    for name, start, stop, cpu in group['w']:
        inside = min(end, stop) - max(begin, start)
        if inside <= 0 or name == '-':
            continue
        ran = cpu[clock] * inside / (stop - start)
        done += inside
        out[ours] += ran
        out['sleep' if name == 'sleep' else 'runnable'] += inside - ran
    return done


def expected(group, who, clock):
    """Parts of one request, in nanoseconds. clock: 0, a thread ran while it was not runnable; 1, as
    its CPU time says. What interrupts and the machine's host take is in between."""
    out = collections.Counter()
    begin, end, _ = group['r'][who]
    first = [row[1] for row in group['i'] if row[0] == 'encode_' + who][0]
    out['queue'] = first - begin
    ran = 'overhead'  # what the time between the others counts as
    for name, start, stop, clocks in group['i']:
        cpu = clocks[clock]
        if start < first or stop > end or name == 'call':
            continue
        off = stop - start - cpu
        ours = 'compute' if who == 'a' else 'batch_mates'
        if name in SHARES or name == 'lock':
            share = SHARES['decode_abc' if name == 'lock' else name][who]
            out['prefill' if name == 'prefill' else 'decode'] += cpu * share
            out['batch_mates'] += cpu * (1 - share)
            out[WAITS.get(name, 'runnable')] += off
        elif name.startswith('encode_') or name.startswith('text_'):
            kind = 'encode' if name.startswith('encode_') else 'detokenize'
            out[kind if name.endswith(who) else 'batch_mates'] += cpu
            out['runnable'] += off
        elif name == 'work':
            out[ours] += cpu
            out['thread'] += off - handed_over(group, start, stop, out, ours, clock)
        elif name in WAITS:
            out[WAITS[name]] += off
            out[ours] += cpu
        else:
            out[ran] += cpu
            out['runnable'] += off
    return out


def ask(sonde, run, *args):
    text = subprocess.run([sonde, 'why', '--format', 'json', *args, run], check=True,
                          capture_output=True, text=True).stdout
    return json.loads(text)


def parts_of(answer):
    parts = {p['kind']: round(p['seconds'] * 1e9) for p in answer['parts']}
    total = round(answer['seconds'] * 1e9)
    if sum(parts.values()) != total:
        sys.exit(f"{answer['name']}: parts add up to {sum(parts.values())}, not to {total}")
    pieces = answer['timeline']
    at = 0
    for piece in pieces:
        if round(piece['start_s'] * 1e9) != at:
            sys.exit(f"{answer['name']}: a hole or an overlap in the timeline at {at}")
        at = round(piece['end_s'] * 1e9)
    if not answer['timeline_left_out'] and at != total:
        sys.exit(f"{answer['name']}: the timeline ends at {at} of {total}")
    return parts


def main():
    log, sonde, run = sys.argv[1:]
    groups = read_log(log)
    sums, found, near, all_parts = collections.Counter(), collections.Counter(), 0, 0
    misses = collections.Counter()
    requests = 0
    for number, group in groups.items():
        for who in 'abc':
            if interrupted(group, who):
                continue
            wants = expected(group, who, 0), expected(group, who, 1)
            requests += 1
            answer = ask(sonde, run, f'{who}{number}')
            got = parts_of(answer)
            for kind in set(wants[0]) | set(wants[1]) | set(got):
                value = got.get(kind, 0)
                low, high = sorted(want[kind] for want in wants)
                want = min(max(value, low), high)
                sums[kind] += want
                found[kind] += value
                all_parts += 1
                if abs(value - want) <= max(0.02 * want, 1e5):
                    near += 1
                else:
                    misses[kind] += 1
    if requests < len(groups) / 2:
        sys.exit('the program was interrupted too often to say anything')
    total = sum(sums.values())
    bad = []
    print(f'{requests} requests; {100 * near / all_parts:.1f} % of {all_parts} parts are within '
          f'2 % or 0.1 ms of the log')
    print(f"{'part':12} {'logged ms':>10} {'found ms':>10} {'diff':>7}  parts further off")
    for kind in sorted(set(sums) | set(found), key=lambda k: -sums[k]):
        diff = found[kind] - sums[kind]
        print(f'{kind:12} {sums[kind] / requests / 1e6:10.3f} {found[kind] / requests / 1e6:10.3f} '
              f'{diff / requests / 1e6:+7.3f}  {misses[kind]}')
        # Preemption costs some microseconds that both sides may take for theirs.
        room = 0.03 * sums['runnable'] + 2e5 * requests if kind in COMPUTES else 0
        if abs(diff) > max(0.02 * sums[kind], 1e5 * requests) + room:
            bad.append(kind)
    # A busy machine takes more of a thread's time than it tells: single parts may be off.
    if near < 0.8 * all_parts:
        bad.append('too many single parts')
    if found['unexplained'] > 0.001 * total:
        bad.append('unexplained')
    if bad:
        sys.exit('off by more than 2 % or 0.1 ms: ' + ', '.join(bad))


main()
