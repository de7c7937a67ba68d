// demo-load: what users do to an inference server, for `make demo`: conversations that grow turn by
// turn behind shared system prompts, long prompts, short ones, bursts, requests that are wrong, clients
// that go away in the middle of an answer. Every second the agent is asked how it goes.
//
//   node tools/demo-load.mjs ENGINE_URL AGENT_URL SECONDS     0 = until SIGINT or SIGTERM
//
// Most clients wait for their answer before they ask again, and what comes by the clock is left out
// while IN_FLIGHT_MAX are under way: a slow machine is kept busy, not drowned. The order of requests
// follows from a seed. Exits with 0, or with 1 when the engine is gone.
import http from 'node:http';
import { readFileSync } from 'node:fs';

const [engineUrl, agentUrl, secondsText] = process.argv.slice(2);
const seconds = Number(secondsText);
if (!engineUrl || !agentUrl || !(seconds >= 0)) {
  process.stderr.write('usage: demo-load.mjs ENGINE_URL AGENT_URL SECONDS\n');
  process.exit(2);
}

const IN_FLIGHT_MAX = 12;
const FAILURES_MAX = 20; // connections in a row that came to nothing: the engine is gone
const counts = { sent: 0, ok: 0, refused: 0, left: 0, failed: 0, tokens: 0 };
let inFlight = 0;
let failuresInRow = 0;
let stopping = false;
const wakers = new Set(); // of pauses: an end does not wait for them
const open = new Set(); // requests under way

// ---- Chance that is the same each time (mulberry32), and texts ----------------------------------

let seed = 12;
function random() {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const between = (from, to) => Math.floor(from + random() * (to - from + 1));
const pick = (list) => list[between(0, list.length - 1)];

const words = readFileSync(new URL('../README.md', import.meta.url), 'utf8').split(/\s+/);
function text(count) {
  const at = between(0, Math.max(words.length - count, 1) - 1);
  return words.slice(at, at + count).join(' ');
}
const systems = [
  'You are the assistant of a software company. Answer in complete sentences, say what you are not sure about, and name the page of the handbook that your answer is from. Do not answer questions about other companies.',
  'You help engineers on call. Be brief. Begin with the most likely cause, then say how to confirm it, then how to repair it, each in one line. If a question is not about operations, say so and stop.',
  'You translate texts for a museum: short ones for labels beside the exhibits, longer ones for the catalogue. Keep names and years as they are, keep the tone friendly, and never add facts.',
];

function pause(fromMs, toMs) {
  if (stopping) return Promise.resolve();
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      wakers.delete(wake);
      resolve();
    };
    const timer = setTimeout(wake, between(fromMs, toMs));
    wakers.add(wake);
  });
}

// ---- One request --------------------------------------------------------------------------------

// The text that one event of a stream, or a whole answer, carries.
function textOf(json) {
  const choice = json.choices?.[0] ?? {};
  return choice.delta?.content ?? choice.message?.content ?? choice.text ?? '';
}

// Resolves to the answer's text; '' when there was none. leaveAfter: pieces until the client goes away.
function ask(path, body, { leaveAfter = Infinity, headers = {} } = {}) {
  const payload = typeof body === 'string' ? body : JSON.stringify(body);
  counts.sent++;
  inFlight++;
  return new Promise((resolve) => {
    let answer = '', rest = '', pieces = 0, left = false, over = false;
    const end = (what) => {
      if (over) return;
      over = true;
      inFlight--;
      open.delete(entry);
      counts[left ? 'left' : what]++;
      failuresInRow = what === 'failed' && !left ? failuresInRow + 1 : 0;
      resolve(answer);
    };
    const leave = () => {
      left = true;
      request.destroy();
      end('left');
    };
    const entry = { leave };
    const line = (said) => {
      if (!said.startsWith('data: {')) return;
      const piece = textOf(JSON.parse(said.slice(6)));
      if (!piece) return;
      answer += piece;
      counts.tokens++;
      if (++pieces >= leaveAfter) leave();
    };
    const request = http.request(engineUrl + path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(payload), ...headers },
    }, (response) => {
      const streamed = String(response.headers['content-type']).startsWith('text/event-stream');
      response.setEncoding('utf8');
      response.on('data', (chunk) => {
        rest += chunk;
        if (!streamed) return;
        const lines = rest.split('\n');
        rest = lines.pop();
        for (const said of lines) if (!over) line(said);
      });
      response.on('end', () => {
        if (!streamed && response.statusCode === 200) {
          const json = JSON.parse(rest);
          answer = textOf(json);
          counts.tokens += json.usage?.completion_tokens ?? 0;
        }
        end(response.statusCode === 200 ? 'ok' : 'refused');
      });
      response.on('error', () => end('failed'));
      response.on('aborted', () => end('failed'));
    });
    request.on('error', () => end('failed'));
    open.add(entry);
    request.end(payload);
  });
}

// ---- Those who ask ------------------------------------------------------------------------------

const sampling = () => (random() < 0.5 ? { temperature: 0 } : { temperature: 0.8, top_p: 0.95, seed: between(1, 1e6) });

async function conversations() {
  while (!stopping) {
    const messages = [{ role: 'system', content: pick(systems) }];
    for (let turn = between(2, 5); turn > 0 && !stopping; turn--) {
      messages.push({ role: 'user', content: text(between(8, 40)) + '?' });
      const answer = await ask('/v1/chat/completions',
        { messages, stream: true, max_tokens: between(16, 48), ...sampling() });
      messages.push({ role: 'assistant', content: answer });
      await pause(200, 1500);
    }
    await pause(500, 2000);
  }
}

// every FROM to TO ms, what(); left out while there is enough to do
async function byTheClock(fromMs, toMs, what) {
  while (!stopping) {
    await pause(fromMs, toMs);
    if (!stopping && inFlight < IN_FLIGHT_MAX) what();
  }
}

const shortOne = () => ask('/v1/completions', { prompt: text(between(3, 12)), max_tokens: between(4, 12) });
const longOne = () => ask('/v1/completions',
  { prompt: text(between(250, 450)), max_tokens: between(8, 16), stream: true });
const burst = () => {
  for (let i = 0; i < 8; i++) {
    ask('/v1/chat/completions', { messages: [{ role: 'system', content: systems[1] },
      { role: 'user', content: text(12) }], stream: true, max_tokens: 24, ...sampling() });
  }
};
const goesAway = () => ask('/v1/chat/completions', { messages: [{ role: 'user', content: text(20) }],
  stream: true, max_tokens: 200 }, { leaveAfter: between(2, 12) });
const profiled = () => ask('/v1/chat/completions', { messages: [{ role: 'user', content: text(30) }],
  max_tokens: 24 }, { headers: { 'X-Profile': 'true' } });
const mistakes = [
  () => ask('/v1/chat/completions', '{"messages": [{"role": "user", '),
  () => ask('/v1/chat/completions', { max_tokens: 16 }),
  () => ask('/v1/completions', { prompt: text(5), max_tokens: 16, temperature: 'hot' }),
  () => ask('/v1/completions', { prompt: (text(900) + ' ').repeat(12), max_tokens: 16 }),
];

// ---- How it goes, by the agent ------------------------------------------------------------------

async function inference() {
  try {
    const answer = await fetch(agentUrl + '/api/inference?window=10', { signal: AbortSignal.timeout(5000) });
    const state = await answer.json();
    return { ...state, ended: Object.values(state.totals.requests).reduce((a, b) => a + b, 0) };
  } catch {
    return null; // it is about to end, or very busy
  }
}

async function summary() {
  const state = await inference();
  const model = state?.models[0];
  if (!model) return null;
  const { requests, hit_ratio: hits } = state.totals;
  const chat = state.groups.find((g) => g.route?.includes('chat')) ?? state.groups[0];
  const ms = (s) => (s === undefined || s === null ? '–' : s < 0.0995 ? (s * 1000).toFixed(1) + ' ms' : (s * 1000).toFixed(0) + ' ms');
  const rate = (x) => (x ?? 0).toFixed(0);
  return [ // the first ones fit into 80 columns
    `${state.ended} requests`,
    `${model.running} running`,
    `${rate(model.output_tokens_per_s)} tokens/s`,
    `TTFT p50 ${ms(chat?.ttft?.p50)}, p95 ${ms(chat?.ttft?.p95)}`,
    `${model.waiting} waiting`,
    `${requests.error} failed, ${requests.cancelled} cancelled`,
    `ITL p50 ${ms(chat?.itl?.p50)}`,
    `KV ${(model.kv?.total ? (100 * model.kv.used) / model.kv.total : 0).toFixed(0)} %`,
    `prefix hits ${(100 * (hits ?? 0)).toFixed(0)} %`,
  ];
}

// One line that is written over: as much as there is room for, since a longer one would scroll.
function fitting(parts, columns) {
  let line = parts[0];
  for (const part of parts.slice(1)) {
    if (line.length + 3 + part.length > columns) break;
    line += ' · ' + part;
  }
  return line.slice(0, columns);
}

const terminal = process.stdout.isTTY;
async function watch() {
  while (!stopping) {
    await pause(terminal ? 1000 : 2000, terminal ? 1000 : 2000);
    const said = await summary();
    if (!said || stopping) continue;
    if (terminal) process.stdout.write('\r' + fitting(said, (process.stdout.columns || 80) - 4) + '\x1b[K');
    else process.stdout.write(said.join(' · ') + '\n');
  }
  if (terminal) process.stdout.write('\n');
}

// ---- Beginning and end --------------------------------------------------------------------------

function stop() {
  stopping = true;
  for (const wake of [...wakers]) wake();
}
process.on('SIGINT', () => { stop(); for (const r of [...open]) r.leave(); });
process.on('SIGTERM', () => { stop(); for (const r of [...open]) r.leave(); });
if (seconds) setTimeout(stop, seconds * 1000).unref();
let gone = false;
const guard = setInterval(() => {
  if (failuresInRow < FAILURES_MAX) return;
  gone = true;
  stop();
}, 200);

let mistake = 0;
const begun = [conversations(), conversations(), conversations(), watch(),
  byTheClock(800, 2200, shortOne), byTheClock(7000, 12000, longOne), byTheClock(14000, 20000, burst),
  byTheClock(4000, 8000, goesAway), byTheClock(9000, 15000, profiled),
  byTheClock(5000, 12000, () => mistakes[mistake++ % mistakes.length]())];
await Promise.all(begun);

// What is under way may end; what takes too long is left. Then the agent, which works events out a
// moment late, is given the time to know of all.
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let patience = Date.now() + 5000;
while (open.size && Date.now() < patience) await sleep(20);
for (const r of [...open]) r.leave();
clearInterval(guard);
console.log(`Sent ${counts.sent} requests: ${counts.ok} answered (${counts.tokens} tokens), ${counts.refused} refused, ` +
  `${counts.left} left half-way` + (counts.failed ? `, ${counts.failed} broken off` : '') + '.');
if (seconds && !gone) {
  let state = null;
  for (patience = Date.now() + 10000; Date.now() < patience; await sleep(200)) {
    state = await inference();
    if (state?.ended >= counts.sent) break;
  }
  const { ok, error, cancelled } = state?.totals.requests ?? {};
  if (state) console.log(`sonde has seen ${state.ended}: ${ok} ok, ${error} failed, ${cancelled} cancelled.`);
}
if (gone) console.error('demo: the engine does not answer any more');
process.exit(gone ? 1 : 0);
