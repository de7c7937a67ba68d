// Filters for all pages: process, model, route. Each is there where there is a choice.

import { apiAt } from '../core/api';
import { make } from '../core/dom';
import { order } from '../core/series';
import { state } from '../core/state';
import { live } from '../core/stream';
import { frozenFile } from '../core/frozen';
import { Inference, Processes } from '../core/types';

interface Choice { value: string; text: string }

class Filter {
    readonly element: HTMLElement;
    private readonly select = make('select');
    private shown = '';

    constructor(private readonly key: string, private readonly name: string) {
        this.select.setAttribute('aria-label', name);
        this.element = make('label', { class: 'filter', title: `Show one ${name.toLowerCase()} only` }, this.select);
        this.element.hidden = true;
        this.select.addEventListener('change', () => state.set({ [key]: this.select.value || null }));
        state.on([key], () => this.show([]));
    }

    private choices: Choice[] = [];

    show(choices: Choice[]): void {
        if (choices.length) this.choices = choices;
        const now = state.get(this.key) ?? '';
        const all = [...this.choices];
        if (now && !all.some((c) => c.value === now)) all.push({ value: now, text: now });
        const key = JSON.stringify([all, now]);
        if (key === this.shown) return;
        this.shown = key;
        this.element.hidden = all.length < 2 && !now;
        this.element.classList.toggle('set', now !== '');
        this.select.replaceChildren(
            make('option', { value: '' }, `All ${this.name.toLowerCase()}${this.name.endsWith('s') ? 'es' : 's'}`),
            ...all.map((c) => make('option', { value: c.value, selected: c.value === now }, c.text)));
        this.select.value = now;
    }
}

function distinct(values: string[]): Choice[] {
    return [...new Set(values)].filter((v) => v !== '').sort(order).map((v) => ({ value: v, text: v }));
}

export function filterBar(): HTMLElement {
    const process = new Filter('process', 'Process');
    const model = new Filter('model', 'Model');
    const route = new Filter('route', 'Route');
    const api = apiAt('');
    const processes = (p: Processes) => process.show(distinct(p.processes.map((x) => x.program)));
    const inference = (i: Inference) => {
        model.show(distinct(i.models.map((m) => m.model)));
        route.show(distinct(i.groups.map((g) => g.route)));
    };
    if (frozenFile()) {
        void api.get<Processes>('/api/processes').then(processes, () => {});
        void api.get<Inference>('/api/inference').then(inference, () => {});
    } else {
        live(api, { events: ['processes', 'inference'] }, { processes, inference });
    }
    for (const f of [process, model, route]) f.show([]);
    return make('div', { class: 'filters' }, process.element, model.element, route.element);
}
