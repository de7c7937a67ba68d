// The page's server: OpenUI5 as npm has it, which is its sources, and the page itself.
import { createServer } from 'node:http';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const LIBRARIES = ['sap.ui.core', 'sap.m', 'sap.ui.layout', 'sap.ui.unified'];
const TYPES = { js: 'text/javascript', css: 'text/css', json: 'application/json', html: 'text/html; charset=utf-8',
    properties: 'text/plain; charset=utf-8', xml: 'application/xml' };

// What OpenUI5's build would add; empty ones do.
const UNBUILT = { 'library.css': '', 'library-parameters.json': '{}', 'sap-ui-version.json': '{"libraries": []}',
    'manifest.json': '{"sap.app": {}, "sap.ui5": {}}' };

function page(agent) {
    return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>An OpenUI5 page</title><link rel="icon" href="data:,">
<script id="sap-ui-bootstrap" src="resources/sap-ui-core.js" data-sap-ui-theme="base" data-sap-ui-libs="sap.m"
    data-sap-ui-language="en" data-sap-ui-async="true" data-sap-ui-compat-version="edge"
    data-sap-ui-on-init="module:host/main" data-sap-ui-resource-roots='{"host": "./"}'></script>
<script src="${agent}/profiling/elements.js"></script>
</head><body class="sapUiBody" id="content"></body></html>`;
}

// Panels of an application, each with one of our elements.
function main() {
    sap.ui.define(['sap/m/App', 'sap/m/Page', 'sap/m/Panel', 'sap/ui/core/HTML'], (App, Page, Panel, HTML) => {
        const hosted = {
            tile: '<sonde-tile label="Running" metric="running"></sonde-tile>',
            timeseries: '<sonde-timeseries name="sonde_process_resident_memory_bytes" unit="bytes" range="60" height="120"></sonde-timeseries>',
            heatmap: '<sonde-heatmap metric="ttft" range="120"></sonde-heatmap>',
            flamegraph: '<sonde-flamegraph type="cpu"></sonde-flamegraph>',
            findings: '<sonde-findings></sonde-findings>',
        };
        const panels = Object.entries(hosted).map(([id, content]) => new Panel(id, {
            headerText: id, expandable: true, expanded: true, content: new HTML({ content }) }));
        globalThis.rerender = (id) => sap.ui.getCore().byId(id).invalidate();
        new App({ pages: [new Page({ title: 'Hosted', content: panels })] }).placeAt('content');
    });
}

/** Serves folder's packages to the page at /?agent=… on a free port; {origin, close()}. */
export async function startHost(folder) {
    const resource = (path) => LIBRARIES.map((l) => join(folder, 'node_modules/@openui5', l, 'src', path)).find(existsSync);
    const server = createServer((request, response) => {
        const url = new URL(request.url, 'http://host');
        const answer = (type, body) => { response.setHeader('Content-Type', type); response.end(body); };
        if (url.pathname === '/') return answer(TYPES.html, page(url.searchParams.get('agent')));
        if (url.pathname === '/main.js') return answer(TYPES.js, `(${main})();`);
        const path = url.pathname.replace(/^\/resources\//, '');
        const file = path.includes('..') ? undefined : resource(path);
        const type = TYPES[path.split('.').pop()] ?? 'application/octet-stream';
        if (file) return answer(type, readFileSync(file));
        if (UNBUILT[path.split('/').pop()] !== undefined) return answer(type, UNBUILT[path.split('/').pop()]);
        response.statusCode = 404;
        response.end();
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    return { origin: `http://localhost:${server.address().port}`, close: () => server.close() };
}
