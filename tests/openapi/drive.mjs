// Holds a server to its own description: drive.mjs URL [TOKEN]. The description is valid, and every
// operation is called as it says and as it forbids; what comes back must be in it.
import assert from 'node:assert/strict';
import { Validator } from '@seriousme/openapi-schema-validator';

const [base, token] = process.argv.slice(2);
const auth = token ? { Authorization: `Bearer ${token}` } : {};
const troubles = [];
let calls = 0;

const document = await (await fetch(`${base}/api/openapi.json`, { headers: auth })).json();
const result = await new Validator().validate(structuredClone(document));
assert.ok(result.valid, `not valid OpenAPI: ${JSON.stringify(result.errors, null, 1)}`);
assert.ok(document.openapi.startsWith('3.1'));

const resolve = (x) => (x.$ref
    ? x.$ref.slice(2).split('/').reduce((at, part) => at[part], document) : x);

/** One call; returns its status and headers, and its text unless it is a stream. */
async function call(method, path, query, options = {}) {
    const url = new URL(base + path);
    for (const [name, value] of query) url.searchParams.append(name, value);
    calls++;
    const abort = new AbortController();
    const answer = await fetch(url, { method, headers: { ...auth, ...options.headers },
        body: options.body, signal: abort.signal, redirect: 'manual' });
    const type = (answer.headers.get('content-type') ?? '').split(';')[0];
    let text = '';
    if (type === 'text/event-stream' && answer.status === 200) abort.abort();
    else text = Buffer.from(await answer.arrayBuffer()).toString('latin1');
    return { status: answer.status, type, text, headers: answer.headers,
        what: `${method} ${url.pathname}${url.search}` };
}

/** The answer is one of those described. */
function described(operation, answer, head = false) {
    const response = operation.responses[answer.status];
    if (!response) {
        troubles.push(`${answer.what}: ${answer.status} is not described: ${answer.text.slice(0, 200)}`);
        return;
    }
    const { content } = resolve(response);
    if (!content) return;
    if (!content[answer.type]) {
        troubles.push(`${answer.what}: ${answer.status} as ${answer.type}, described are `
            + Object.keys(content).join(' '));
        return;
    }
    if (head) {
        if (answer.text) troubles.push(`${answer.what}: HEAD has a body`);
        return;
    }
    if (answer.type !== 'application/json') return;
    try {
        const json = JSON.parse(Buffer.from(answer.text, 'latin1').toString('utf8'));
        for (const key of resolve(content[answer.type].schema).required ?? []) {
            if (!(key in json)) troubles.push(`${answer.what}: the answer has no "${key}"`);
        }
    } catch (e) {
        troubles.push(`${answer.what}: not JSON: ${e.message}`);
    }
}

function expect(answer, wanted) {
    if (answer.status !== wanted) {
        troubles.push(`${answer.what}: wanted ${wanted}, got ${answer.status} ${answer.text.slice(0, 200)}`);
    }
}

const lasts = (p) => p.name === 'seconds' || p.name === 'duration';

function valid({ schema, example, ...p }) {
    if (schema.enum) return schema.enum;
    if (schema.type === 'string') return [example];
    return lasts(p) ? [schema.minimum] : [schema.minimum, schema.maximum];
}

function invalid({ schema }) {
    if (schema.enum) return ['no-such-word', ''];
    if (schema.type === 'string') return schema.pattern ? ['!'] : [];
    const out = ['x', '', '1x', 'nan', '-1', schema.maximum * 2];
    return schema.type === 'integer' ? [...out, '0', '1.5', schema.maximum + 1] : out;
}

async function parameters(path, method, operation) {
    const query = operation.parameters.filter((p) => p.in === 'query');
    const needed = query.filter((p) => p.required || lasts(p)).map((p) => [p.name, valid(p)[0]]);
    const beside = (p) => query.filter(({ name }) => name === p['x-needs-one-of']?.[0])
        .map((other) => [other.name, valid(other)[0]]);
    const others = (p) => [...needed.filter(([name]) => name !== p.name), ...beside(p)];
    const body = operation.requestBody && bodyOf(operation);
    const options = body ? { body: body.text, headers: { 'Content-Type': body.type } } : {};
    const go = (q) => call(method, path, q, options);

    described(operation, await go(needed));
    for (const p of query) {
        for (const value of valid(p)) {
            const answer = await go([...others(p), [p.name, value]]);
            described(operation, answer);
            if (answer.status === 400) troubles.push(`${answer.what}: refused: ${answer.text}`);
        }
        for (const value of invalid(p)) {
            const answer = await go([...others(p), [p.name, value]]);
            described(operation, answer);
            expect(answer, 400);
        }
        if (p['x-needs-one-of']) {
            const answer = await go([...needed, [p.name, valid(p)[0]]]);
            described(operation, answer);
            expect(answer, 400);
        }
        if (!p.required) continue;
        const answer = await go(others(p));
        described(operation, answer);
        expect(answer, 400);
    }
    const unknown = await go([...needed, ['no_such_parameter', '1']]);
    described(operation, unknown);
    if (operation['x-any-parameters']) assert.notEqual(unknown.status, 400);
    else expect(unknown, 400);
    if (method === 'GET' && !operation['x-slow']) {
        described(operation, await call('HEAD', path, needed), true);
    }
}

function bodyOf(operation) {
    const [type, { schema }] = Object.entries(operation.requestBody.content)[0];
    const example = schema.example ?? '';
    return { type, text: typeof example === 'string' ? example : JSON.stringify(example) };
}

async function bodies(path, method, operation) {
    const query = operation.parameters.filter((p) => p.in === 'query' && (p.required || lasts(p)))
        .map((p) => [p.name, valid(p)[0]]);
    if (!operation.requestBody) {
        if (method === 'GET') return;
        const answer = await call(method, path, query, { body: 'x' });
        described(operation, answer);
        expect(answer, 413);
        return;
    }
    const { type } = bodyOf(operation);
    const headers = { 'Content-Type': type };
    const garbage = await call(method, path, query, { body: '\u0001{[nonsense', headers });
    described(operation, garbage);
    if (garbage.status < 400 || garbage.status >= 500) expect(garbage, 400);
    const most = operation.requestBody['x-bytes-max'];
    const large = await call(method, path, query, { body: 'x'.repeat(most + 1), headers });
    described(operation, large);
    expect(large, 413);
}

async function tokens(path, method, operation) {
    const answer = await fetch(base + path, { method });
    const open = operation.security?.length === 0;
    await answer.arrayBuffer();
    if (open ? answer.status === 401 : answer.status !== 401) {
        troubles.push(`${method} ${path} without a token: ${answer.status}`);
    }
}

for (const [template, methods] of Object.entries(document.paths)) {
    const all = Object.values(methods);
    const star = all[0].parameters.find((p) => p.in === 'path');
    const path = star ? template.replace(/\{.*\}/, encodeURIComponent(star.example)) : template;
    for (const [name, operation] of Object.entries(methods)) {
        const method = name.toUpperCase();
        if (token) {
            await tokens(path, method, operation);
            continue;
        }
        await parameters(path, method, operation);
        await bodies(path, method, operation);
    }
    if (token) continue;
    if (star?.schema.pattern) {
        const [name, operation] = Object.entries(methods)[0];
        const answer = await call(name.toUpperCase(), template.replace(/\{.*\}/, '!'), []);
        described(operation, answer);
        expect(answer, 400);
    }
    // Methods that are not described are refused, and those that are are named.
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH']) {
        if (methods[method.toLowerCase()]) continue;
        const answer = await call(method, path, []);
        expect(answer, 405);
        const named = (answer.headers.get('allow') ?? '').split(', ').filter((m) => m !== 'HEAD').sort();
        assert.deepEqual(named, Object.keys(methods).map((m) => m.toUpperCase()).sort());
    }
}

// The list that people see has the same operations.
const index = await (await fetch(`${base}/`, { headers: auth })).text();
const listed = index.split('\n').slice(2).filter(Boolean)
    .map((line) => line.match(/^(?:([A-Z]+) )?(\S+)/)).map((m) => `${m[1] ?? 'GET'} ${m[2]}`).sort();
const inDocument = Object.entries(document.paths).flatMap(([path, methods]) => Object.keys(methods)
    .map((m) => `${m.toUpperCase()} ${path.replace(/\{.*\}/, '*')}`)).sort();
assert.deepEqual(listed, inDocument);

assert.deepEqual(troubles, []);
console.log(`${inDocument.length} operations, ${calls} calls`);
