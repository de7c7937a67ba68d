// Requests: from a bump in a curve to its cause. Heat map, the requests in the cells that are chosen,
// one of them beside, and from either to the flame graph and what is different in it. All of it is in
// the address: metric, cells, outcome, sort, request.

import { button, clear, icon, make, makeCustom } from '../core/dom';
import { clock } from '../core/format';
import { Cells, metricAbout, parseCells, formatCells } from '../core/heat';
import { Page } from '../core/page';
import { adopt } from '../core/sheet';
import { state } from '../core/state';
import '../elements/heatmap';
import { valueText } from '../elements/heatmap/paint';
import '../elements/requests';
import '../elements/timeline';
import type { Link } from '../elements/timeline';
import css from '../styles/requests-page.css';
import { follow } from './kit';

const CLOSE = 'M6 6l12 12M18 6 6 18';
const LIST = ['metric', 'cells', 'outcome', 'sort', 'request', 'range', 'model', 'route', 'process', 'pid'];

function set(e: Element, values: Record<string, string | null>): void {
    for (const [k, v] of Object.entries(values)) {
        if (v === null || v === '') e.removeAttribute(k);
        else e.setAttribute(k, v);
    }
}

class RequestsPage {
    private readonly heat = makeCustom('sonde-heatmap', { 'data-follow': true, height: 236 });
    private readonly list = makeCustom('sonde-requests', { 'data-follow': true, height: 'fill' });
    private readonly one = makeCustom('sonde-timeline') as HTMLElement & { link: Link };
    private readonly bar = make('div', { class: 'chosen', hidden: true, role: 'region', 'aria-label': 'What is chosen in the heat map' });
    private readonly side = make('aside', { class: 'card side', hidden: true, 'aria-label': 'One request' });
    private readonly path = make('div', { class: 'path' });
    private opener: Element | null = null;

    constructor(root: HTMLElement) {
        adopt(css);
        this.one.link = (page, values) => state.link(page, values);
        this.side.append(make('div', { class: 'bar-top' }, make('h2', {}, 'Request'), this.closeButton()), this.one);
        this.path.append(
            make('div', { class: 'left' }, make('section', { class: 'card', 'aria-label': 'Latency over time' }, this.heat), this.bar,
                make('section', { class: 'card rows', 'aria-label': 'Requests' }, this.list)),
            this.side);
        root.append(this.path);
        this.listen();
    }

    private closeButton(): HTMLElement {
        const b = button('', 'Close (Esc)', () => this.close(), { class: 'icon', 'aria-label': 'Close the request' });
        b.append(icon(CLOSE));
        return b;
    }

    private listen(): void {
        const on = <T>(e: Element, name: string, f: (detail: T) => void) =>
            e.addEventListener(name, (event) => f((event as CustomEvent<T>).detail));
        on<{ metric: string }>(this.heat, 'sonde-metric', ({ metric }) => state.set({ metric, cells: null, sort: null }));
        on<Cells | null>(this.heat, 'sonde-cells', (cells) => state.set({ cells: cells ? formatCells(cells) : null, sort: null }));
        on<{ id: string }>(this.list, 'sonde-request', ({ id }) => { this.opener = this.list; state.set({ request: id }); });
        on<{ sort: string }>(this.list, 'sonde-sort', ({ sort }) => state.set({ sort }, true));
        on<{ key: string; value: string | null }>(this.list, 'sonde-filter', ({ key, value }) => state.set({ [key]: value }));
        on<{ id: string }>(this.one, 'sonde-request', ({ id }) => state.set({ request: id }));
    }

    close(): void {
        if (!state.get('request')) return;
        state.set({ request: null });
        if (this.opener instanceof HTMLElement) this.opener.shadowRoot?.querySelector<HTMLElement>('[role=grid]')?.focus();
    }

    escape(): void {
        if (state.get('request')) this.close();
        else if (state.get('cells')) state.set({ cells: null, sort: null });
    }

    focusTable(): void {
        this.list.shadowRoot?.querySelector<HTMLElement>('[role=grid]')?.focus();
    }

    focusMap(): void {
        this.heat.shadowRoot?.querySelector<HTMLElement>('canvas')?.focus();
    }

    show(): void {
        const metric = metricAbout(state.get('metric'));
        const cells = parseCells(state.get('cells'));
        const outcome = state.get('outcome');
        const request = state.get('request');
        set(this.heat, { metric: metric.id, cells: cells ? formatCells(cells) : null, outcome });
        set(this.list, {
            metric: cells ? metric.id : null, min: cells ? String(cells.min) : null, max: cells ? String(cells.max) : null,
            from: cells ? String(cells.from) : null, to: cells ? String(cells.to) : null, sort: state.get('sort'), outcome, request,
        });
        set(this.one, { request });
        this.side.hidden = request === null;
        this.path.classList.toggle('open', request !== null);
        this.path.classList.toggle('chosen-some', cells !== null);
        this.showBar(cells);
    }

    private showBar(cells: Cells | null): void {
        this.bar.hidden = cells === null;
        if (!cells) return;
        const metric = metricAbout(state.get('metric'));
        const these = {
            metric: metric.id, cells: formatCells(cells), from: String(cells.from), to: String(cells.to), range: null,
        };
        clear(this.bar,
            make('span', {}, make('b', {}, metric.title), ` ${valueText(cells.min, metric.unit)} – ${valueText(cells.max, metric.unit)}`),
            make('span', { class: 'soft' }, `arrived ${clock(cells.from)} – ${clock(cells.to)}`),
            make('span', { class: 'end' }),
            make('a', { class: 'button primary', href: state.link('cpu', these) }, 'Flame graph of these'),
            make('a', { class: 'button', href: state.link('cpu', { ...these, base: 'rest' }), title: 'What these spent more and less CPU time on than the other requests of the same time' },
                'Difference to the rest'),
            button('Zoom to this time', 'Make this the time range of all pages', () => state.set({ from: String(cells.from), to: String(cells.to), range: null })),
            button('Clear', 'Choose nothing (Esc)', () => state.set({ cells: null, sort: null })));
    }
}

let current: RequestsPage | null = null;

export const page: Page = {
    id: 'requests',
    title: 'Requests',
    icon: 'M4 6h10M4 12h16M4 18h7M18 5l2 1-2 1M15 17l2 1-2 1',
    keys: [
        { keys: 'h', text: 'Go to the heat map: arrows move, Shift and arrows widen, Enter chooses', run: () => current?.focusMap() },
        { keys: 't', text: 'Go to the table: arrows move, Enter opens', run: () => current?.focusTable() },
        { keys: 'Escape', text: 'Close the request, then clear what is chosen', run: () => current?.escape() },
    ],
    render(root) {
        const p = current = new RequestsPage(root);
        const following = follow(root);
        const off = state.on(LIST, () => p.show());
        p.show();
        return () => {
            off();
            following.end();
            current = null;
        };
    },
};
