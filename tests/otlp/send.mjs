// OpenTelemetry's own SDK sends to the agent at URL, in protobuf or JSON, cumulative or delta; then the
// agent is asked what it has. node send.mjs URL proto|http cumulative|delta
import assert from 'node:assert/strict';
import { SpanStatusCode, context, trace } from '@opentelemetry/api';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { AggregationTemporality, AggregationType, MeterProvider,
    PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';

const [url, encoding, temporality] = process.argv.slice(2);
const { OTLPMetricExporter } = await import(`@opentelemetry/exporter-metrics-otlp-${encoding}`);
const { OTLPTraceExporter } = await import(`@opentelemetry/exporter-trace-otlp-${encoding}`);
const name = `${encoding}-${temporality}`;
const delta = temporality === 'delta';
const resource = resourceFromAttributes({ 'service.name': name, 'service.namespace': 'test',
    'service.instance.id': 'i-1', 'process.pid': 4711, 'host.name': 'somewhere' });

const get = async (path) => (await fetch(url + path)).json();
const series = async (metric) => (await get(`/api/query?name=${metric}&label=job:test/${name}`)).series;
const one = async (metric) => {
    const all = await series(metric);
    assert.equal(all.length, 1, `${metric}: ${JSON.stringify(all)}`);
    return all[0];
};

// ---- Metrics
const exponential = { type: AggregationType.EXPONENTIAL_HISTOGRAM, options: { maxSize: 160 } };
const reader = new PeriodicExportingMetricReader({
    exporter: new OTLPMetricExporter({ url: `${url}/v1/metrics`, compression: 'gzip',
        temporalityPreference: delta ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE }),
    exportIntervalMillis: 3600_000,
});
const provider = new MeterProvider({ resource, readers: [reader],
    views: [{ instrumentName: 'narrow.*', aggregation: exponential },
        { instrumentName: 'wide.*', aggregation: exponential }] });
const meter = provider.getMeter('test-scope', '1.2.3');
const requests = meter.createCounter('http.requests', { description: 'Requests.\nAll.' });
const busy = meter.createCounter('cpu.time', { unit: 's' });
const queue = meter.createUpDownCounter('queue.size', { unit: '{item}' });
const level = meter.createGauge('fill.level', { unit: '1' });
const size = meter.createHistogram('body.size', { unit: 'By', advice: { explicitBucketBoundaries: [10, 100, 1000] } });
const narrow = meter.createHistogram('narrow.time', { unit: 's' });
const wide = meter.createHistogram('wide.time', { unit: 's' });

const odd = { path: '/a"b\\c\nd\u00e4', 'http.status': 200, job: 'mine' };
const narrowValues = [];
let total = 0, busyTotal = 0, queued = 0, sizes = [], wideCount = 0;
for (let round = 0; round < 3; round++) {
    requests.add(7, odd);
    total += 7;
    busy.add(0.1);
    busyTotal += 0.1;
    queue.add(round === 2 ? -3 : 5);
    queued += round === 2 ? -3 : 5;
    level.record(0.25 * round);
    for (const v of [5, 50, 500, 5000]) { size.record(v); sizes.push(v); }
    for (let i = 0; i < 50; i++) { const v = 0.010 + 0.0001 * (i + 50 * round); narrow.record(v); narrowValues.push(v); }
    if (!delta) for (const v of [0.001, 1, 1000]) { wide.record(v); wideCount++; }
    await reader.forceFlush();
}

const counter = await one('http_requests_total');
assert.equal(counter.value, total);
assert.deepEqual(counter.labels, { exported_job: 'mine', http_status: '200', instance: 'i-1',
    job: `test/${name}`, otel_scope_name: 'test-scope', path: odd.path });
assert.ok(Math.abs((await one('cpu_time_seconds_total')).value - busyTotal) < 1e-12);
assert.equal((await one('queue_size')).value, queued);
assert.equal((await one('fill_level_ratio')).value, 0.5);
assert.equal((await one('body_size_bytes_count')).value, sizes.length);
assert.equal((await one('body_size_bytes_sum')).value, sizes.reduce((a, b) => a + b));
const buckets = Object.fromEntries((await series('body_size_bytes_bucket')).map((s) => [s.labels.le, s.value]));
assert.deepEqual(buckets, { 10: 3, 100: 6, 1000: 9, '+Inf': 12 });

// A narrow one is fine enough to be ours, to the bucket.
const exported = (await get(`/api/export?format=json&name=narrow_time_seconds&label=job:test/${name}`)).families[0];
assert.equal(exported.type, 'histogram');
const hist = exported.series[0];
assert.equal(hist.value, narrowValues.length);
assert.ok(Math.abs(hist.sum - narrowValues.reduce((a, b) => a + b)) < 1e-9);
const expected = new Map();
for (const v of narrowValues) {
    const upper = 2 ** (Math.ceil(Math.log2(v) * 64) / 64);
    expected.set(upper.toPrecision(9), (expected.get(upper.toPrecision(9)) ?? 0) + 1);
}
assert.deepEqual(new Map(hist.buckets.map(([u, n]) => [u.toPrecision(9), n])), expected);

// A wide one has coarser buckets; they are kept as they are.
if (!delta) {
    const bounds = (await series('wide_time_seconds_bucket')).map((s) => [Number(s.labels.le.replace('+Inf', 'Infinity')), s.value])
        .sort((a, b) => a[0] - b[0]);
    assert.equal(bounds.at(-1)[1], wideCount);
    for (const [v, n] of [[0.001, 3], [1, 6], [1000, 9]]) {
        const bound = bounds.find(([b]) => b >= v * (1 - 1e-12));
        assert.equal(bound[1], n, `values up to ${v}: ${JSON.stringify(bounds)}`);
    }
}
const info = await one('target_info');
assert.equal(info.labels.host_name, 'somewhere');
await provider.shutdown();

// ---- Traces
const tracing = new BasicTracerProvider({ resource, spanProcessors: [new SimpleSpanProcessor(
    new OTLPTraceExporter({ url: `${url}/v1/traces` }))] });
const tracer = tracing.getTracer('test-scope');
const parent = tracer.startSpan('parent', { attributes: { model: 'x'.repeat(60), tokens: 42, share: 0.5, ok: true } });
const child = tracer.startSpan('child', { startTime: [1700000000, 5] }, trace.setSpan(context.active(), parent));
child.setStatus({ code: SpanStatusCode.ERROR, message: 'no' });
child.end([1700000001, 7]);
parent.end();
await tracing.forceFlush();
await tracing.shutdown();
const spans = (await get('/api/spans?limit=1000')).spans.filter((s) => s.trace_id === parent.spanContext().traceId);
assert.equal(spans.length, 2, JSON.stringify(spans));
const of = (n) => spans.find((s) => s.name === n);
assert.equal(of('child').parent_id, parent.spanContext().spanId);
assert.equal(of('child').span_id, child.spanContext().spanId);
assert.equal(of('child').outcome, 'error');
assert.equal(of('child').start, 1700000000);
assert.equal(of('child').duration_s, 1.000000002);
assert.equal(of('parent').program, name);
assert.equal(of('parent').pid, 4711);
assert.equal(of('parent').parent_id, null);
assert.deepEqual(of('parent').attributes, { model: 'x'.repeat(40), tokens: 42, share: 0.5, ok: 'true' });
console.log(`${name}: ok`);
