// A live agent and the engine that it watches (tests/programs/infer_load.c), in folders of their own.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const build = process.env.SONDE_BUILD;
assert.ok(build, 'SONDE_BUILD is the build folder');
export const sonde = join(build, 'sonde');
export const engine = join(build, 'programs', 'infer_load');

const PATIENCE_MS = 120_000; // nothing takes that long unless it is broken

/** What f returns or resolves to, once that is true; what is thrown counts as not yet. */
export async function until(what, f) {
    const end = Date.now() + PATIENCE_MS;
    for (let last; ;) {
        try {
            const result = await f();
            if (result) return result;
            last = result;
        } catch (e) {
            last = e;
        }
        if (Date.now() > end) assert.fail(`never came true: ${what}; last: ${last?.stack ?? last}`);
        await sleep(100);
    }
}

/** A folder for segments and files; remove() at the end. */
export function workFolder() {
    const folder = mkdtempSync(join(tmpdir(), 'sonde-dashboard-'));
    mkdirSync(join(folder, 'segments'), { mode: 0o700 });
    return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

class Child {
    constructor(command, args, { folder, env = {} }) {
        this.said = '';
        this.process = spawn(command, args, {
            cwd: folder,
            env: { ...process.env, SONDE_DIR: join(folder, 'segments'), SONDE_CONFIG: '', ...env },
            stdio: ['pipe', 'pipe', 'pipe'],
        });
        this.process.stdin.on('error', () => {}); // it has ended; who waits for its answer is told
        this.process.stderr.on('data', (d) => { this.said = (this.said + d).slice(-65536); });
        this.ended = new Promise((done) => this.process.on('close', (code, signal) => {
            this.status = signal ?? code;
            done(this.status);
        }));
        this.status = null;
        this.answers = [];
        createInterface({ input: this.process.stdout }).on('line', (line) => this.answers.push(line));
    }

    async stop(signal = 'SIGTERM') {
        if (this.status === null) this.process.kill(signal);
        return this.ended;
    }
}

/** The engine by itself or under `sonde run`. */
export class Engine extends Child {
    /** A command of infer_load's; the words of its answer, without the first. */
    async tell(line) {
        const word = line.split(' ')[0];
        this.process.stdin.write(`${line}\n`);
        const said = await until(`an answer to "${line}"`, () => {
            assert.equal(this.status, null, `the engine has ended: ${this.said}`);
            return this.answers.shift();
        });
        assert.equal(said.split(' ')[0], word, said);
        return said.slice(word.length + 1);
    }

    async ready() {
        await until('the engine is ready', () => {
            assert.equal(this.status, null, `the engine has ended: ${this.said}`);
            return this.answers[0] === 'ready';
        });
        this.answers.shift();
    }
}

/** JSON of a path of an agent's; fails with what it said. */
export async function ask(url, path, init = {}) {
    const answer = await fetch(url + path, init);
    const text = await answer.text();
    assert.ok(answer.ok, `${init.method ?? 'GET'} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
}

async function urlOf(child) {
    return until('the agent listens', () => {
        assert.equal(child.status, null, `the agent has ended: ${child.said}`);
        return /https?:\/\/[0-9.]+:[0-9]+/.exec(child.said)?.[0];
    });
}

/** `sonde run OPTIONS -- infer_load`: it has url, tell(), ask(), stop(). */
export async function runEngine(where, options = [], engineOptions = [], env = {}) {
    const child = new Engine(sonde, ['run', '-v', '--listen', '127.0.0.1:0', ...options, '--', engine,
        ...engineOptions], { ...where, env });
    child.url = await urlOf(child);
    child.ask = (path, init) => ask(child.url, path, init);
    await child.ready();
    return child;
}

/** `sonde run OPTIONS -- sh -c SCRIPT`, in which $build is the build folder. */
export async function runScript(where, options, script) {
    const child = new Child(sonde, ['run', '-v', '--listen', '127.0.0.1:0', ...options, '--', 'sh', '-c', script],
        { ...where, env: { build } });
    child.url = await urlOf(child);
    child.ask = (path, init) => ask(child.url, path, init);
    return child;
}

export async function startEngine(where, engineOptions = []) {
    const child = new Engine(engine, engineOptions, where);
    await child.ready();
    return child;
}

/** `sonde serve OPTIONS`, on that port if one is given. */
export async function serve(where, options = [], { port = 0, env = {} } = {}) {
    const child = new Child(sonde, ['serve', '--listen', `127.0.0.1:${port}`, ...options], { ...where, env });
    child.url = await urlOf(child);
    child.port = Number(new URL(child.url).port);
    child.ask = (path, init) => ask(child.url, path, init);
    return child;
}
