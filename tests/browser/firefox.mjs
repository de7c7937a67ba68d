// Debian's Firefox by WebDriver BiDi, which it speaks itself (--remote-debugging-port): no driver in
// between, and Debian packages none. Only what the tests need.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import WebSocket from 'ws';
import { until } from './agent.mjs';

// It must not ask the network for anything of its own.
const PREFERENCES = {
    'remote.active-protocols': 1, // BiDi
    'app.update.enabled': false,
    'app.normandy.enabled': false,
    'browser.shell.checkDefaultBrowser': false,
    'browser.startup.page': 0,
    'browser.startup.homepage_override.mstone': 'ignore',
    'browser.safebrowsing.malware.enabled': false,
    'browser.safebrowsing.phishing.enabled': false,
    'datareporting.policy.dataSubmissionEnabled': false,
    'datareporting.healthreport.uploadEnabled': false,
    'extensions.update.enabled': false,
    'network.captive-portal-service.enabled': false,
    'network.connectivity-service.enabled': false,
    'services.settings.server': 'data:,#remote-settings-dummy/v1',
    'toolkit.telemetry.reportingpolicy.firstRun': false,
    'security.sandbox.content.level': 0, // as Chromium's --no-sandbox: containers forbid it
};

/** In the page: where the first element is that matches and has that text, in shadow roots too; null: there
 *  is none in sight. It is scrolled to. */
function boxOf(selector, text) {
    const all = (root) => [...root.querySelectorAll('*')].flatMap((e) => e.shadowRoot ? [e, ...all(e.shadowRoot)] : [e]);
    const found = all(document).find((e) => e.matches(selector) && e.textContent.includes(text) && e.getBoundingClientRect().width > 0);
    found?.scrollIntoView({ block: 'nearest', behavior: 'instant' });
    const { x, y, width, height } = found?.getBoundingClientRect() ?? {};
    return found ? { x, y, width, height } : null;
}

export class Firefox {
    static async launch() {
        const self = new Firefox();
        self.profile = mkdtempSync(join(tmpdir(), 'sonde-firefox-'));
        writeFileSync(join(self.profile, 'user.js'), Object.entries(PREFERENCES)
            .map(([k, v]) => `user_pref(${JSON.stringify(k)}, ${JSON.stringify(v)});\n`).join(''));
        let said = '';
        self.process = spawn('firefox-esr',
            ['--headless', '--no-remote', '--profile', self.profile, '--remote-debugging-port', '0'],
            { env: { ...process.env, HOME: self.profile, MOZ_CRASHREPORTER_DISABLE: '1' }, stdio: ['ignore', 'ignore', 'pipe'] });
        self.process.stderr.on('data', (d) => { said = (said + d).slice(-20000); });
        self.ended = new Promise((done) => self.process.on('close', done));
        const url = await until('Firefox listens', () => {
            assert.equal(self.process.exitCode, null, `Firefox has ended: ${said}`);
            return /WebDriver BiDi listening on (ws:\S+)/.exec(said)?.[1];
        });
        self.socket = new WebSocket(`${url}/session`);
        self.waiting = new Map();
        self.listeners = [];
        self.last = 0;
        self.socket.on('message', (data) => self.#take(JSON.parse(data)));
        await new Promise((done, fail) => { self.socket.on('open', done); self.socket.on('error', fail); });
        await self.send('session.new', { capabilities: {} });
        await self.send('session.subscribe', { events: ['log.entryAdded', 'network.beforeRequestSent', 'browsingContext.userPromptOpened'] });
        return self;
    }

    #take(message) {
        const waits = this.waiting.get(message.id);
        if (!waits) {
            for (const f of this.listeners) f(message.method, message.params);
            return;
        }
        this.waiting.delete(message.id);
        if (message.type === 'error') waits.fail(new Error(`${waits.method}: ${message.error}: ${message.message}`));
        else waits.done(message.result);
    }

    send(method, params = {}) {
        const id = ++this.last;
        return new Promise((done, fail) => {
            this.waiting.set(id, { method, done, fail });
            this.socket.send(JSON.stringify({ id, method, params }));
        });
    }

    /** Run body with a page of an agent's; errors on the console, violations of its policy, dialogs and
     *  requests to others fail. */
    async withPage(origin, path, { width = 1280, height = 900 } = {}, body) {
        const { userContext } = await this.send('browser.createUserContext');
        const { context } = await this.send('browsingContext.create', { type: 'tab', userContext });
        const trouble = [];
        const listener = (method, p) => {
            if ((p.context ?? p.source?.context) !== context) return;
            if (method === 'log.entryAdded' && p.level === 'error') trouble.push(`console: ${p.text}`);
            if (method === 'browsingContext.userPromptOpened') trouble.push(`dialog: ${p.message}`);
            if (method === 'network.beforeRequestSent' && !/^(data|blob):/.test(p.request.url) &&
                new URL(p.request.url).origin !== origin) trouble.push(`asked for ${p.request.url}`);
        };
        this.listeners.push(listener);
        try {
            await this.send('script.addPreloadScript', { contexts: [context], functionDeclaration:
                "() => addEventListener('securitypolicyviolation', (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`))" });
            await this.send('browsingContext.setViewport', { context, viewport: { width, height } });
            await this.send('browsingContext.navigate', { context, url: origin + path, wait: 'complete' });
            await body({
                evaluate: (f, ...args) => this.#evaluate(context, f, args),
                screenshot: async (file) => {
                    const { data } = await this.send('browsingContext.captureScreenshot', { context, origin: 'document' });
                    writeFileSync(file, Buffer.from(data, 'base64'));
                },
                box: (selector, text = '') => until(`${selector} ${text} is there`, () => this.#evaluate(context, boxOf, [selector, text])),
                drag: (...points) => this.send('input.performActions', { context, actions: [{ type: 'pointer', id: 'mouse', actions: [
                    { type: 'pointerMove', ...points[0] }, { type: 'pointerDown', button: 0 },
                    ...points.slice(1).map((p) => ({ type: 'pointerMove', ...p, duration: 50 })), { type: 'pointerUp', button: 0 }] }] }),
            });
            assert.deepEqual(trouble, []);
        } catch (e) {
            e.message += `\nin Firefox, on ${path}; complaints: ${trouble.join('\n')}`;
            throw e;
        } finally {
            this.listeners.splice(this.listeners.indexOf(listener), 1);
            await this.send('browser.removeUserContext', { userContext });
        }
    }

    /** What f, a function of JSON and of nothing outside, returns in the page. */
    async #evaluate(context, f, args) {
        const { type, result, exceptionDetails } = await this.send('script.evaluate', {
            expression: `Promise.resolve((${f})(...${JSON.stringify(args)})).then((v) => JSON.stringify(v ?? null))`,
            target: { context }, awaitPromise: true,
        });
        if (type === 'exception') throw new Error(exceptionDetails.text);
        return JSON.parse(result.value);
    }

    async close() {
        await this.send('browser.close').catch(() => {});
        this.socket.close();
        const timer = setTimeout(() => this.process.kill('SIGKILL'), 20_000);
        await this.ended;
        clearTimeout(timer);
        rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
    }
}
