#!/usr/bin/env python3
"""bench_http.py WHAT FILE… - checks of what `sonde bench http` wrote; prints what is wrong.

schema FILE.json                     the members that the issue and docs promise, of the right types
counts FILE.json SENT OK             exact numbers of requests
log RECORDS.jsonl SERVER.log TOKENS  each request is in the server's log, and no client time is before it
get FILE.json PATH                   prints a member: requests.ok
"""
import json
import sys

METRICS = ['ttft_s', 'ttft_content_s', 'itl_s', 'itl_chunk_s', 'tpot_s', 'e2e_s', 'e2e_from_schedule_s']
QUANTILES = ['p50', 'p90', 'p95', 'p99', 'p99.9']
wrong = []


def check(ok, text):
    if not ok:
        wrong.append(text)


def number(v, what, null=True):
    check(isinstance(v, (int, float)) and not isinstance(v, bool) or (null and v is None), f'{what} is {v!r}')


def schema(path):
    r = json.load(open(path, encoding='utf-8'))
    check(r['schema'] == 1 and r['kind'] == 'http', 'schema or kind')
    check(isinstance(r['verdict']['valid'], bool), 'verdict.valid')
    check(r['verdict']['valid'] == (not r['verdict']['reasons']), 'a verdict without reasons, or with too many')
    for name in ('requests_per_s', 'output_tokens_per_s', 'goodput_per_s'):
        number(r[name], name)
    for name in METRICS:
        m = r['metrics'][name]
        number(m['count'], name, null=False)
        for q in QUANTILES + ['mean']:
            for suffix in ('', '_low', '_high'):
                number(m[q + suffix], name + q + suffix)
            if m[q] is not None:
                check(m[q + '_low'] is None or m[q + '_low'] <= m[q], f'{name}.{q}: above its interval')
                check(m[q + '_high'] is None or m[q + '_high'] >= m[q], f'{name}.{q}: below its interval')
        known = [m[q] for q in QUANTILES if m[q] is not None]
        check(known == sorted(known), f'{name}: percentiles are out of order: {known}')
        for q in QUANTILES:
            check((m[q] is None) == (q in m['too_few']), f'{name}.{q}: null without a reason, or the reverse')
    e2e, scheduled = r['metrics']['e2e_s'], r['metrics']['e2e_from_schedule_s']
    check(e2e['count'] == scheduled['count'], 'latencies of different requests')
    if e2e['count']:
        check(scheduled['mean'] >= e2e['mean'], 'sent before it was due')
    figures = {f['name']: f for f in r['figures']}
    for name in ('requests_per_s', 'e2e_s.p50'):
        check(name in figures or not e2e['count'], f'no figure {name}')


def counts(path, sent, ok):
    r = json.load(open(path, encoding='utf-8'))['requests']
    check(r['sent'] == int(sent) and r['ok'] == int(ok), f"sent {r['sent']}, ok {r['ok']}: wanted {sent}, {ok}")
    check(sum(r['by_outcome'].values()) == r['sent'], f'outcomes do not add up: {r}')


def log(records, server, tokens):
    seen = {}
    for line in open(server, encoding='utf-8'):
        f = line.rstrip('\n').split('\t')
        seen[f[0]] = [int(x) for x in f[1:6]]
    lines = [json.loads(x) for x in open(records, encoding='utf-8')]
    check(len(lines) == len(seen), f'{len(lines)} records, {len(seen)} in the log')
    for r in lines:
        s = seen.get(r['trace_id'])
        if s is None:
            check(False, f"{r['trace_id']} is not in the log")
            continue
        arrival, first, last = s[0] * 1e-9, s[1] * 1e-9, s[2] * 1e-9
        # From sending to the first token is longer than from arrival to it: clocks need not be compared.
        check(r['first_s'] - r['sent_s'] >= first - arrival, f'TTFT {r} is shorter than the server\'s {s}')
        check(r['last_s'] - r['sent_s'] >= last - arrival, f'last token {r} before the server\'s {s}')
        check(r['intended_s'] <= r['sent_s'] <= r['head_s'] <= r['first_s'] <= r['last_s'] <= r['end_s'], f'order: {r}')
        check(r['output_tokens'] == int(tokens), f'tokens: {r}')


def get(path, where):
    v = json.load(open(path, encoding='utf-8'))
    for key in where.split('.'):
        v = v[int(key)] if isinstance(v, list) else v[key]
    print(json.dumps(v))


{'schema': schema, 'counts': counts, 'log': log, 'get': get}[sys.argv[1]](*sys.argv[2:])
for text in wrong[:10]:
    print(text)
sys.exit(bool(wrong))
