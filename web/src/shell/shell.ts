// The frame around pages: navigation, top bar, the page itself. Pages are switched without loading
// anything; each is taken down before the next is made.

import { apiAt, send, sentence } from '../core/api';
import { button, clear, icon, listen, make } from '../core/dom';
import { frozenFile } from '../core/frozen';
import { addKeys } from '../core/keys';
import { now } from '../core/now';
import { Page } from '../core/page';
import { adopt } from '../core/sheet';
import { STATES_CSS, failed } from '../core/states';
import { state } from '../core/state';
import { Theme, setTheme, theme } from '../core/theme';
import { hideTip } from '../core/tip';
import { isViewing } from '../core/viewing';
import { PAGES } from '../pages/list';
import { baseBar } from './base';
import { filterBar } from './filters';
import { helpDialog } from './help';
import { LiveMark } from './live';
import { menu } from './menu';
import { RangeControl } from './range';
import { download, savePage } from './save';
import { startToken } from './token';

const THEMES: readonly Theme[] = ['auto', 'light', 'dark'];
const OF_FILES = ['cpu', 'requests'];
const ON_PHONE = ['dashboard', 'inference', 'requests', 'cpu']; // the rest is behind "More"

const MARK = 'M12 3v8M12 11.200a2.300 2.300 0 1 0 0 4.600 2.300 2.300 0 0 0 0-4.600M7 11.500a5.400 5.400 0 1 0 10 0';
const MORE = 'M5 12h.01M12 12h.01M19 12h.01';

class Shell {
    private readonly main = make('main', { id: 'main', tabindex: '-1' });
    private readonly title = make('h1');
    private readonly brand = make('a', { class: 'brand' }, icon(MARK, 22), make('span', {}, 'sonde'));
    private readonly links = new Map<string, HTMLAnchorElement[]>();
    private readonly range = new RangeControl();
    private readonly said = make('div', { class: 'sr', 'aria-live': 'polite' });
    private readonly toast = make('div', { class: 'toast', hidden: true, 'aria-hidden': 'true' });
    private toastTimer = 0;
    private readonly drawer = make('dialog', { class: 'drawer', 'aria-label': 'More pages' });
    private end: () => void = () => {};
    private endKeys: () => void = () => {};

    constructor(body: HTMLElement) {
        adopt(STATES_CSS);
        const pages = this.pages();
        const list = make('ul');
        for (const p of pages) list.append(make('li', {}, this.link(p)));
        const bottom = make('nav', { class: 'bottom', 'aria-label': 'Main pages' });
        for (const p of pages.filter((x) => ON_PHONE.includes(x.id))) bottom.append(this.link(p));
        const more = button('', 'More pages', () => this.drawer.showModal());
        more.append(icon(MORE, 18, 3), make('span', {}, 'More'));
        bottom.append(more);
        const others = make('ul');
        for (const p of pages.filter((x) => !ON_PHONE.includes(x.id))) others.append(make('li', {}, this.link(p)));
        this.drawer.append(others);
        this.drawer.addEventListener('click', () => this.drawer.close());

        const tools = make('div', { class: 'tools' },
            menu('More actions', icon('M12 5h.01M12 12h.01M12 19h.01', 18, 3), [
                { text: () => `Theme: ${theme()}`, run: () => this.nextTheme(), stay: true },
                { text: () => 'Save this page as a file', run: () => this.save(), hide: () => frozenFile() !== null },
                { text: () => 'Copy link', run: () => void this.copy() },
                { text: () => 'Export all series, JSON', run: () => this.exportAll('json'), hide: () => frozenFile() !== null },
                { text: () => 'Export all series, CSV', run: () => this.exportAll('csv'), hide: () => frozenFile() !== null },
                { text: () => 'Keyboard and help', run: () => this.help() },
                { text: () => 'All routes of the agent', run: () => { location.href = 'routes'; }, hide: () => frozenFile() !== null },
            ]));
        clear(body,
            make('a', { class: 'skip', href: '#main' }, 'Skip to the page'),
            make('nav', { class: 'rail', 'aria-label': 'Pages' },
                this.brand, list,
                make('div', { class: 'version' }, versionText())),
            make('div', { class: 'page' },
                make('header', { class: 'top' },
                    make('div', { class: 'name' }, this.title), filterBar(), this.range.element, new LiveMark().element, tools),
                baseBar(), this.main),
            bottom, this.drawer, this.said, this.toast);
        this.main.addEventListener('sonde-range', (e) => this.selected((e as CustomEvent).detail as Selected));
        this.main.addEventListener('sonde-base', (e) => {
            const d = (e as CustomEvent).detail as Selected;
            state.set({ base: `${round(d.from)}..${round(d.to)}` });
        });
        // Links of ours change the page without loading it.
        listen(document, 'click', (e) => this.clicked(e));
        listen(window, 'popstate', () => state.reload());
        if (frozenFile()) listen(window, 'hashchange', () => state.reload());
        state.onPage((id) => this.show(id));
        state.on('*', () => this.showLinks());
        this.addKeys();
        startToken();
        this.show(state.page());
    }

    private pages(): readonly Page[] {
        const kept = frozenFile()?.pages ?? (isViewing() ? OF_FILES : undefined);
        return kept ? PAGES.filter((p) => kept.includes(p.id)) : PAGES;
    }

    private link(page: Page): HTMLAnchorElement {
        const a = make('a', { href: state.link(page.id), title: page.title }, icon(page.icon), make('span', {}, page.title));
        this.links.set(page.id, [...this.links.get(page.id) ?? [], a]);
        return a;
    }

    private current(): Page {
        return PAGES.find((p) => p.id === this.main.dataset['page']) ?? PAGES[0];
    }

    private addKeys(): void {
        const pages = this.pages();
        const letters: Record<string, string> = {
            dashboard: 'o', inference: 'i', requests: 'r', cpu: 'c', memory: 'm', gpu: 'g', system: 's', history: 'h', compare: 'd', findings: 'f', report: 'p',
        };
        addKeys('Go to', pages.filter((p) => letters[p.id]).map((p) => ({
            keys: `g ${letters[p.id]}`, text: p.title, run: () => state.go(p.id, state.queryFor()),
        })));
        addKeys('Time', [
            { keys: 'z', text: 'Zoom out to twice the time', run: () => this.range.zoomOut() },
            { keys: '[', text: 'Earlier by half the range', run: () => this.range.pan(-0.5) },
            { keys: ']', text: 'Later by half the range', run: () => this.range.pan(0.5) },
            { keys: 'l', text: 'Live, or stop where it is', run: () => this.range.toggleLive() },
            { keys: 'r', text: 'Choose a time range', run: () => this.range.open() },
        ]);
        addKeys('Charts', [
            { keys: 'drag', text: 'Select a time range' },
            { keys: 'Shift+drag', text: 'Select a second range, to compare with' },
            { keys: 'double click', text: 'Zoom out' },
            { keys: '← →', text: 'Move the cursor (with Shift: by ten)' },
            { keys: 'Enter', text: 'Begin and end a selection (end with Shift: second range)' },
            { keys: '+ −', text: 'Zoom in and out at the cursor' },
            { keys: 't', text: 'Show the chart as a table' },
        ]);
        addKeys('Everywhere', [
            { keys: '?', text: 'This help', run: () => this.help() },
            { keys: 'T', text: 'Theme: as the system, light, dark', run: () => this.nextTheme() },
            { keys: 'S', text: 'Save this page as a file', run: () => this.save() },
            { keys: 'Escape', text: 'Close what is open' },
        ]);
    }

    private help(): void {
        helpDialog();
    }

    private async copy(): Promise<void> {
        try {
            await navigator.clipboard.writeText(location.href);
            this.say('The link is copied');
        } catch {
            this.say('The browser does not permit that here: copy the address instead');
        }
    }

    // Every reading of the range, as the agent kept it.
    private exportAll(format: 'json' | 'csv'): void {
        const r = state.range();
        const url = apiAt('').url('/api/export', { format, from: Math.floor(r.from), to: Math.ceil(r.to) });
        void send('', url, {}).then(async (answer) => {
            if (!answer.ok) throw new Error(`the agent answered with status ${answer.status}`);
            download(await answer.text(), format === 'json' ? 'application/json' : 'text/csv', `sonde-series.${format}`);
        }).catch((e: unknown) => this.say(`That could not be exported: ${sentence(e)}`));
    }

    private save(): void {
        if (frozenFile()) return;
        const page = this.current();
        void savePage(page, () => { if (this.current() === page) this.show(page.id); }, (text) => this.say(text));
    }

    // For a few seconds, and to screen readers.
    private say(text: string): void {
        this.said.textContent = text;
        this.toast.textContent = text;
        this.toast.hidden = false;
        window.clearTimeout(this.toastTimer);
        this.toastTimer = window.setTimeout(() => { this.toast.hidden = true; }, 6000);
    }

    private nextTheme(): void {
        const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
        setTheme(next);
        this.say(`Theme: ${next === 'auto' ? 'as the system' : next}`);
    }

    private selected(d: Selected): void {
        const r = state.range();
        const end = now();
        // Zooming out of what is live stays live.
        if (d.zoom && d.zoom > 1 && (r.live || d.to >= end)) state.setRange({ seconds: r.seconds * d.zoom });
        else state.setRange({ from: d.from, to: Math.min(d.to, Math.max(end, d.from + 1)) });
    }

    private clicked(e: MouseEvent): void {
        if (e.defaultPrevented || e.button !== 0 || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
        const a = e.composedPath().find((n): n is HTMLAnchorElement => n instanceof HTMLAnchorElement);
        if (!a || a.target || a.hasAttribute('download')) return;
        const href = a.getAttribute('href') ?? '';
        const page = PAGES.find((p) => href.split('?')[0] === state.link(p.id).split('?')[0]);
        if (!page) return;
        e.preventDefault();
        state.go(page.id, href.split('?')[1] ?? '');
    }

    private show(id: string): void {
        const page: Page = PAGES.find((p) => p.id === id) ?? PAGES[0];
        const first = !this.main.dataset['page'];
        this.end();
        this.endKeys();
        hideTip();
        this.main.replaceChildren();
        this.title.textContent = page.title;
        document.title = `${page.title} · sonde`;
        this.endKeys = page.keys.length ? addKeys(page.title, page.keys) : () => {};
        this.main.dataset['page'] = page.id;
        try {
            this.end = page.render(this.main);
        } catch (e) {
            this.end = () => {};
            this.main.append(failed(e, () => this.show(id)));
            console.error(e);
        }
        this.showLinks();
        scrollTo(0, 0);
        if (!first) {
            this.said.textContent = page.title;
            this.main.focus({ preventScroll: true });
        }
    }

    private showLinks(): void {
        this.brand.href = state.link('dashboard');
        for (const [id, links] of this.links) {
            for (const a of links) {
                a.href = state.link(id);
                if (id === this.main.dataset['page']) a.setAttribute('aria-current', 'page');
                else a.removeAttribute('aria-current');
            }
        }
    }
}

interface Selected { from: number; to: number; zoom?: number }

function round(t: number): number {
    return Math.round(t * 1000) / 1000;
}

function versionText(): string {
    const v = document.documentElement.dataset['version'];
    return v ? `sonde ${v}` : '';
}

export function startShell(): void {
    new Shell(document.body);
}
