// receiver.mjs - a collector for tests: takes OTLP/HTTP and Pyroscope's /ingest, decodes them with
// OpenTelemetry's own definitions and protobufjs, and misbehaves when it is told to.
//
//   node receiver.mjs PROTOS PORT_FILE FOLDER [PORT [CERTIFICATE KEY]]
//
// POST /behave with words, one for each request to come: ok, 503 (Retry-After: 1), 429, 400, 500,
// partial (3 rejected), hang, reset. Then ok for ever. GET /state says what came and was taken, as
// JSON; numbers of 64 bits are strings. Bodies of /ingest go to FOLDER as 1.pprof, 2.pprof, …
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import path from 'node:path';
import zlib from 'node:zlib';
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';

const [protos, portFile, folder, port = '0', certificate, key] = process.argv.slice(2);

const root = new protobuf.Root();
root.resolvePath = (from, name) => (path.isAbsolute(name) ? name : path.join(protos, name));
for (const kind of ['metrics', 'trace', 'logs']) {
    root.loadSync(`opentelemetry/proto/collector/${kind}/v1/${kind}_service.proto`, { keepCase: false });
}
const here = path.dirname(fileURLToPath(import.meta.url));
const profiles = protobuf.loadSync(path.join(here, 'profiles.proto'));
const type = (name) => root.lookupType('opentelemetry.proto.collector.' + name);
const requests = {
    '/v1/metrics': type('metrics.v1.ExportMetricsServiceRequest'),
    '/v1/traces': type('trace.v1.ExportTraceServiceRequest'),
    '/v1/logs': type('logs.v1.ExportLogsServiceRequest'),
    '/v1development/profiles': profiles.lookupType('test.ExportProfilesServiceRequest'),
};
const state = { log: [], metrics: {}, spans: [], profiles: [], ingests: [], records: [] };
let behaviour = [];
const hanging = [];

const decode = (message, bytes) =>
    message.toObject(message.decode(bytes), { longs: String, defaults: true, arrays: true, oneofs: true });
const attributes = (list) => {
    const out = {};
    for (const a of list) {
        const v = a.value[a.value.value];
        out[a.key] = a.value.value === 'intValue' ? Number(v) : v;
    }
    return out;
};
const hex = (bytes) => Buffer.from(bytes).toString('hex');

function takeMetrics(request) {
    for (const r of request.resourceMetrics) {
        const resource = attributes(r.resource.attributes);
        for (const s of r.scopeMetrics) {
            for (const m of s.metrics) {
                const kind = ['gauge', 'sum', 'exponentialHistogram'].find((k) => m[k]);
                for (const p of m[kind].dataPoints) {
                    const labels = attributes(p.attributes);
                    const name = [resource['service.name'], m.name, JSON.stringify(Object.entries(labels).sort())].join('|');
                    const seen = state.metrics[name];
                    state.metrics[name] = {
                        name: m.name, kind, labels, resource, scope: s.scope.name,
                        unit: m.unit, description: m.description,
                        monotonic: m[kind].isMonotonic, temporality: m[kind].aggregationTemporality,
                        start: p.startTimeUnixNano, time: p.timeUnixNano,
                        int: p.value === 'asInt' ? p.asInt : null,
                        double: p.asDouble,
                        count: p.count, sum: p.sum, scale: p.scale, zero: p.zeroCount,
                        offset: p.positive?.offset, buckets: p.positive?.bucketCounts,
                        exemplars: p.exemplars?.map((e) => ({ value: e.asDouble, trace: hex(e.traceId) })),
                        seen: (seen?.seen ?? 0) + 1,
                        backwards: (seen?.backwards ?? 0) +
                            (seen && BigInt(seen.time) >= BigInt(p.timeUnixNano) ? 1 : 0),
                    };
                }
            }
        }
    }
}

function takeTraces(request) {
    for (const r of request.resourceSpans) {
        const resource = attributes(r.resource.attributes);
        for (const s of r.scopeSpans) {
            for (const x of s.spans) {
                state.spans.push({
                    trace: hex(x.traceId), id: hex(x.spanId), parent: hex(x.parentSpanId), name: x.name,
                    kind: x.kind, start: x.startTimeUnixNano, end: x.endTimeUnixNano,
                    attributes: attributes(x.attributes), status: x.status?.code ?? 0,
                    events: x.events.map((e) => e.name), service: resource['service.name'],
                    pid: resource['process.pid'],
                });
            }
        }
    }
}

function takeLogs(request) {
    for (const r of request.resourceLogs) {
        for (const s of r.scopeLogs) {
            for (const x of s.logRecords) {
                state.records.push({
                    time: x.timeUnixNano, severity: x.severityNumber, level: x.severityText, body: x.body.stringValue,
                    attributes: attributes(x.attributes), scope: s.scope.name, resource: attributes(r.resource.attributes),
                });
            }
        }
    }
}

function takeProfiles(request) {
    const d = request.dictionary, text = (i) => d.stringTable[i];
    for (const r of request.resourceProfiles) {
        for (const s of r.scopeProfiles) {
            for (const p of s.profiles) {
                const self = {}, inclusive = {}, threads = {};
                let total = 0n, links = 0;
                for (const x of p.samples) {
                    const weight = BigInt(x.values[0]);
                    const names = d.stackTable[x.stackIndex].locationIndices.flatMap((i) => {
                        const l = d.locationTable[i];
                        return l.lines.length ? l.lines.map((n) => text(d.functionTable[n.functionIndex].nameStrindex))
                            : [text(d.mappingTable[l.mappingIndex].filenameStrindex)];
                    });
                    total += weight;
                    self[names[0]] = String(BigInt(self[names[0]] ?? 0) + weight);
                    for (const n of new Set(names)) inclusive[n] = String(BigInt(inclusive[n] ?? 0) + weight);
                    for (const i of x.attributeIndices) {
                        const a = d.attributeTable[i];
                        const k = text(a.keyStrindex) + '=' + (a.value.stringValue || a.value.intValue);
                        threads[k] = String(BigInt(threads[k] ?? 0) + weight);
                    }
                    if (x.linkIndex) links += hex(d.linkTable[x.linkIndex].spanId) !== '0'.repeat(16);
                }
                state.profiles.push({
                    type: text(p.sampleType.typeStrindex), unit: text(p.sampleType.unitStrindex),
                    period: p.period, id: hex(p.profileId), time: p.timeUnixNano, duration: p.durationNano,
                    total: String(total), self, inclusive, threads, links,
                    resource: attributes(r.resource.attributes), first: d.stringTable[0],
                });
            }
        }
    }
}

// The parts of a form, by name.
function parts(body, contentType) {
    const boundary = '--' + /boundary=([^;]+)/.exec(contentType)[1];
    const out = {};
    let at = body.indexOf(boundary);
    while (at >= 0) {
        const next = body.indexOf(boundary, at + boundary.length);
        if (next < 0) break;
        const part = body.subarray(at + boundary.length + 2, next - 2);
        const head = part.indexOf('\r\n\r\n');
        out[/name="([^"]+)"/.exec(part.subarray(0, head).toString())[1]] = part.subarray(head + 4);
        at = next;
    }
    return out;
}

function takeIngest(url, body, contentType) {
    const form = parts(body, contentType);
    const file = path.join(folder, `${state.ingests.length + 1}.pprof`);
    fs.writeFileSync(file, form.profile);
    state.ingests.push({ query: Object.fromEntries(url.searchParams), file, config: JSON.parse(form.sample_type_config) });
}

function take(url, request, body) {
    if (url.pathname === '/ingest') return takeIngest(url, body, request.headers['content-type']);
    if (request.headers['content-encoding'] === 'gzip') body = zlib.gunzipSync(body);
    const message = decode(requests[url.pathname], body);
    ({ '/v1/metrics': takeMetrics, '/v1/traces': takeTraces, '/v1/logs': takeLogs, '/v1development/profiles': takeProfiles })[url.pathname](message);
}

// The definitions above are older than partial_success, which is field 1 of every answer.
function answer(response, action) {
    response.writeHead(200, { 'content-type': 'application/x-protobuf' });
    if (action !== 'partial') return response.end();
    const w = protobuf.Writer.create();
    w.uint32(1 << 3 | 2).fork().uint32(1 << 3).int64(3).uint32(2 << 3 | 2).string('three too many').ldelim();
    response.end(w.finish());
}

function serve(request, response, body) {
    const url = new URL(request.url, 'http://receiver');
    if (url.pathname === '/state') return response.end(JSON.stringify(state));
    if (url.pathname === '/behave') {
        behaviour = body.toString().split(/\s+/).filter(Boolean);
        for (const r of hanging.splice(0)) r.destroy();
        return response.end();
    }
    const action = behaviour.shift() ?? 'ok';
    const entry = { path: url.pathname, action, at: Date.now(), type: request.headers['content-type'],
        encoding: request.headers['content-encoding'], authorization: request.headers.authorization,
        extra: request.headers['x-extra'] };
    state.log.push(entry);
    if (action === 'hang') return hanging.push(request.socket);
    if (action === 'reset') return request.socket.destroy();
    if (/^\d+$/.test(action)) {
        response.writeHead(Number(action), action === '503' ? { 'retry-after': '1' } : {});
        return response.end('told to say so');
    }
    try {
        take(url, request, body);
    } catch (e) {
        console.error(e);
        entry.error = String(e);
        response.writeHead(400);
        return response.end('cannot be decoded');
    }
    answer(response, action);
}

const handler = (request, response) => {
    const pieces = [];
    request.on('data', (p) => pieces.push(p));
    request.on('end', () => serve(request, response, Buffer.concat(pieces)));
    request.on('error', () => {});
};
const server = certificate
    ? https.createServer({ cert: fs.readFileSync(certificate), key: fs.readFileSync(key) }, handler)
    : http.createServer(handler);
server.listen(Number(port), '127.0.0.1', () => {
    fs.writeFileSync(portFile + '.new', String(server.address().port));
    fs.renameSync(portFile + '.new', portFile);
});
