// GPUs: those that the agent reads and who uses them, then a chart of every series about GPUs that it has,
// be it its own or an exporter's. Where there is none it says what was looked for instead of showing zeros.

import { Api, apiAt } from '../core/api';
import { clear, make } from '../core/dom';
import { isFrozen } from '../core/frozen';
import { addTerms } from '../core/glossary';
import { Page } from '../core/page';
import { failed, loading } from '../core/states';
import { Family, SeriesAnswer } from '../core/types';
import { GpuDevices } from './gpu_devices';
import { GpuAnswer, deviceLabel, gpuFamilies, whyNone } from './gpu_figures';
import { Following, chart, follow, grid, heading } from './kit';

const AGAIN_MS = 5000;

function familyChart(f: Family): HTMLElement {
    const metric = `series:${f.name}`;
    addTerms({ [metric]: { title: f.name, what: f.help || 'The exporter does not describe it.', how: `A ${f.type} from ${f.source || 'an exporter'}.` } });
    const group = deviceLabel(f);
    return chart({ heading: f.name, name: f.name, metric, group: group || undefined, each: group ? undefined : f.series.length > 1 || undefined, zero: 'no' });
}

function step(title: string, text: string, command: string): HTMLElement {
    return make('section', { class: 'card' }, make('header', {}, make('h2', {}, title)), make('p', { class: 'soft' }, text),
        make('pre', { class: 'command', tabindex: '0', 'aria-label': `Command: ${title}` }, command));
}

function nothing(a: GpuAnswer | null): HTMLElement {
    return make('div', { class: 'stack' },
        make('div', { class: 'banner', role: 'status' }, make('i'), make('b', {}, 'No GPU metrics'),
            make('span', { class: 'soft' }, whyNone(a))),
        heading('Meanwhile'),
        grid(
            step('See what each source says', 'Which libraries and files were looked for, which counters each card has, and why not the others.', 'sonde doctor'),
            step('Have the agent read an exporter', 'Any exporter for Prometheus will do. Its series show up on this page, in history and in queries, beside everything else.',
                'sonde run --scrape http://127.0.0.1:9400/metrics \\\n    -- ./server'),
            step('Look at NVIDIA GPUs', 'The driver\'s own tool: utilisation, memory, temperature and power, every second.', 'nvidia-smi dmon -s pucm'),
            step('Look at AMD GPUs', 'The same from ROCm.', 'rocm-smi --showuse --showmemuse --showtemp --showpower'),
        ),
        make('p', { class: 'soft' }, 'Threads that sleep until a GPU is done show up as off-CPU time on the page CPU. Memory that an engine holds on a GPU is on the page Inference, if the engine reports it.'));
}

class GpuPage {
    private readonly api: Api = apiAt('');
    private readonly stack = make('div', { class: 'stack' }, loading('Loading GPU series'));
    private readonly devices = new GpuDevices(this.api);
    private readonly charts = make('div', { class: 'stack' });
    private readonly following: Following;
    private timer = 0;
    private open = true;
    private shown: string | null = null;

    constructor(root: HTMLElement) {
        root.append(this.stack);
        this.following = follow(this.stack);
        void this.round();
    }

    end(): void {
        this.open = false;
        window.clearTimeout(this.timer);
        this.following.end();
    }

    private async round(): Promise<void> {
        if (!document.hidden || this.shown === null) await this.load();
        if (this.open && !isFrozen()) this.timer = window.setTimeout(() => void this.round(), AGAIN_MS);
    }

    private async load(): Promise<void> {
        let families: Family[];
        try {
            families = gpuFamilies((await this.api.get<SeriesAnswer>('/api/series')).families);
        } catch (e) {
            if (this.shown === null) clear(this.stack, failed(e, () => void this.load()));
            return;
        }
        const answer = await this.devices.load();
        const key = families.map((f) => f.name).join();
        if (key === this.shown || !this.open) return;
        this.shown = key;
        if (families.length) {
            clear(this.charts, grid(...families.map((f) => familyChart(f))));
            clear(this.stack, this.devices.element, this.charts);
        } else {
            clear(this.stack, nothing(answer));
        }
        this.following.apply(this.stack);
    }
}

export const page: Page = {
    id: 'gpu',
    title: 'GPU',
    icon: 'M3 7h16v10H3zM3 4v16M6 17v3M10 17v3M13 9.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5zM7 10v4',
    keys: [],
    render(root) {
        const p = new GpuPage(root);
        return () => p.end();
    },
};
