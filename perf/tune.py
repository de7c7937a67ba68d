#!/usr/bin/env python3
"""`sonde tune` beside an exhaustive search, on a real llama.cpp server.

    perf/tune.py BUILD [--server LLAMA_SERVER] [--model GGUF] [--repeats 3] [--block 2]

Every setting of a small grid is measured --repeats times in random order (`sonde tune --all`), then
`sonde tune` searches the same grid from the worst setting of it, with a quarter of these trials, and once
more from the best, which it must keep. CPUs are kept from halting meanwhile (awake.py). What
it found is then compared with the exhaustive search's best in turns, since the best of many means is
one that was lucky. Bounded: about 15 minutes; every trial is a new server.

The last line is JSON: share of trials, loss by the exhaustive means, loss by the duel with its
interval, whether the best was kept.
"""
import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import awake

TIMEOUT_S = 1500
KNOBS = ['threads=1,2', 'slots=1,4', 'ubatch=16,512', 'batch=64,2048', 'fa=on,off']


def tune(sonde, folder, name, args, command, env):
    out = os.path.join(folder, name + '.json')
    line = [sonde, 'tune', '-q', '--fresh', '--journal', os.path.join(folder, name + '.jsonl'), '-o', out]
    subprocess.run(line + args + ['--'] + command, check=True, timeout=TIMEOUT_S, env=env)
    with open(out, encoding='utf-8') as f:
        return json.load(f)


def means(result):
    """The mean of each setting's logarithms, as a value; those that failed are left out."""
    values = {}
    for trial in result['trials']:
        if trial['outcome'] == 'ok':
            values.setdefault(tuple(sorted(trial['setting'].items())), []).append(math.log(trial['value']))
    return {setting: math.exp(statistics.fmean(v)) for setting, v in values.items()}


def words(setting):
    return ' '.join(f'{name}={level}' for name, level in setting)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--server', default=os.path.expanduser('~/.cache/sonde-peers/llama/bin/llama-server'))
    p.add_argument('--model')
    p.add_argument('--repeats', type=int, default=3)
    p.add_argument('--block', default='2')
    p.add_argument('--pairs', type=int, default=8)
    a = p.parse_args()
    sonde = os.path.join(a.build, 'sonde')
    model = a.model or os.path.join(a.build, 'llama', 'bench.gguf')
    for path, what in ((sonde, 'build it'), (a.server, '--server names another'),
                       (model, '`tests/llama/prepare --bench BUILD` makes it')):
        if not os.path.exists(path):
            sys.exit(f'perf/tune.py: {path} is not there: {what}')
    env = dict(os.environ)
    env['LD_LIBRARY_PATH'] = os.path.dirname(a.server) + ':' + env.get('LD_LIBRARY_PATH', '')
    load = ['--block', a.block, '--warmup', '0.7', '-c', '4', '--prompt-tokens', '64', '--max-tokens', '32']
    grid = [word for knob in KNOBS for word in ('--knob', knob)] + \
        ['--only', ','.join(knob.split('=')[0] for knob in KNOBS)]
    command = [a.server, '-m', model, '-c', '2048', '-b', '2048', '-ub', '512', '-np', '1', '-fa', 'off', '-t', '1']

    with awake.Awake():
        compare(a, sonde, model, load, grid, command, env)


def compare(a, sonde, model, load, grid, command, env):
    folder = tempfile.mkdtemp()
    try:
        every = tune(sonde, folder, 'all', load + grid + ['--all', str(a.repeats)], command, env)
        true = means(every)
        best = max(true, key=true.get)
        worst = min(true, key=true.get)
        print(f'exhaustive: {every["points"]} settings, {len(every["trials"])} trials; '
              f'best {words(best)} {true[best]:.1f}, worst {words(worst)} {true[worst]:.1f} tokens/s')
        line = lambda s: [a.server, '-m', model, '-c', '2048', '-b', s['batch'], '-ub', s['ubatch'],
                          '-np', s['slots'], '-fa', s['fa'], '-t', s['threads']]
        may = len(every['trials']) // 4 - 1  # the load that is recorded first is one, too
        found = tune(sonde, folder, 'found', load + grid + ['--trials', str(may)], line(dict(worst)), env)
        setting = tuple(sorted(found['recommended'].items()))
        share = (len(found['trials']) + 1) / len(every['trials'])
        loss = 1 - true.get(setting, math.nan) / true[best]
        print(f'sonde tune: {words(setting)}: {100 * share:.1f} % of the trials, '
              f'{100 * loss:+.1f} % from the best by the exhaustive means')

        # The duel: both command lines, in turns.
        script = os.path.join(folder, 'one')
        with open(script, 'w', encoding='utf-8') as f:
            f.write('#!/bin/sh\nwhich=$1; shift\ncase $which in\n')
            for name, chosen in (('found', dict(setting)), ('best', dict(best))):
                f.write(f'{name}) exec {a.server} -m {model} -c 2048 -b {chosen["batch"]} -ub {chosen["ubatch"]} '
                        f'-np {chosen["slots"]} -fa {chosen["fa"]} -t {chosen["threads"]} "$@" ;;\n')
            f.write('esac\n')
        os.chmod(script, 0o755)
        result = {'share': share, 'loss': loss, 'duel_loss': 0.0, 'duel_half': 0.0}
        if setting != best:
            duel = tune(sonde, folder, 'duel', load + ['--knob', 'which=found,best', '--all', str(a.pairs)],
                        [script, '{which}', '--port', '{port}'], env)
            sides = {'found': [], 'best': []}
            for trial in duel['trials']:
                if trial['outcome'] == 'ok':
                    sides[trial['setting']['which']].append(math.log(trial['value']))
            apart = [x - y for x, y in zip(sides['found'], sides['best'])]
            half = 2.36 * statistics.stdev(apart) / math.sqrt(len(apart))  # Student's t of 8 pairs
            result['duel_loss'] = -math.expm1(statistics.fmean(apart))
            result['duel_half'] = half
            print(f'duel: {100 * result["duel_loss"]:+.1f} % ± {100 * half:.1f} % from the exhaustive best')
        # From a start that is as good as any: it stays, or what it is left for is as good.
        again = tune(sonde, folder, 'again', load + grid + ['--trials', str(may)], line(dict(best)), env)
        result['kept'] = again['answer'] == 'keep'
        print(f'from the best: {again["answer"]} {words(tuple(sorted(again["recommended"].items())))}'
              + ('' if result['kept'] else f', gain {again["gain"]["low"]:+.3f} to {again["gain"]["high"]:+.3f}'))
        result['within_3_percent'] = result['duel_loss'] <= 0.03  # by the duel alone: the means are biased
        # An interval wider than what is asked about decides nothing, either way.
        result['resolved'] = result['duel_half'] <= 0.03
        if not result['resolved']:
            print('the machine is too noisy to tell 3 %: run again on a quiet one, or with a longer --block')
        print(json.dumps(result))
    finally:
        shutil.rmtree(folder)


if __name__ == '__main__':
    main()
