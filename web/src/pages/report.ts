// The report: what `sonde report` says, as tables. Of an agent it is of the last minute, asked for once
// and again by a button; of a saved file what is in it. One shape for both: docs/report.schema.json.

import { apiAt } from '../core/api';
import { button, clear, make } from '../core/dom';
import { bytes, clock, count, percent, seconds } from '../core/format';
import { isFrozen } from '../core/frozen';
import { now } from '../core/now';
import { Page } from '../core/page';
import { empty, failed, loading } from '../core/states';
import { Column, List, card } from './kit';
import { Report, Section, advice, factsOf, sectionsOf } from './report_figures';
import { Facts } from './table';

const PARTS: Record<Section['columns'][number]['unit'], (v: number | null) => string> = {
    seconds, bytes, count, percent, plain: (v) => (v === null ? '–' : String(Number(v.toPrecision(4)))),
};

function tableOf(s: Section): HTMLElement {
    const columns: Column<Section['rows'][number]>[] = [
        ...s.names.map((title, i) => ({ title, cell: (row: Section['rows'][number]) => make('span', { class: 'mono' }, row.names[i]) })),
        ...s.columns.map((c, i) => ({ title: c.title, number: true, cell: (row: Section['rows'][number]) => PARTS[c.unit](row.figures[i]) })),
    ];
    const list = new List(s.title, (row) => JSON.stringify(row.names), columns);
    list.show(s.rows);
    return card(s.title, {}, list.element);
}

function adviceOf(r: Report): HTMLElement | null {
    const rows = advice(r);
    return rows.length ? card('What to do', {}, ...rows.map((a) => make('p', { class: 'verdict' },
        make('span', { class: `badge ${a.severity === 'info' ? '' : 'warn'}`.trim() }, a.severity), ` ${a.message} → ${a.details}`))) : null;
}

function notesOf(r: Report): HTMLElement | null {
    return r.notes?.length ? card('Notes', {}, ...r.notes.map((note) => make('p', { class: 'soft' }, note))) : null;
}

class ReportPage {
    private readonly abort = new AbortController();
    private readonly body = make('div', { class: 'stack', 'aria-live': 'polite' });

    constructor(root: HTMLElement) {
        root.append(make('div', { class: 'stack' }, isFrozen() ? null : make('section', { class: 'card' },
            make('header', {}, make('h2', {}, 'The last minute'),
                button('Report again', 'Ask for the report of the last minute once more', () => void this.ask(), { class: 'primary' })),
            make('p', { class: 'soft' }, 'The same as a file: sonde report -o report.pdf, .md, .csv or .json')), this.body));
        void this.ask();
    }

    end(): void {
        this.abort.abort();
    }

    private async ask(): Promise<void> {
        clear(this.body, loading());
        try {
            const r = await apiAt('').get<Report>('/api/report', {}, this.abort.signal);
            if (!this.abort.signal.aborted) this.show(r);
        } catch (e) {
            if (!this.abort.signal.aborted) clear(this.body, failed(e, () => void this.ask()));
        }
    }

    private show(r: Report): void {
        const sections = sectionsOf(r);
        const facts = new Facts();
        facts.show(factsOf(r));
        clear(this.body, card('Summary', {}, isFrozen() ? null : make('p', { class: 'faint' }, `until ${clock(now())}`), facts.element),
            adviceOf(r), ...sections.map(tableOf),
            notesOf(r), sections.some((s) => s.recorded) ? null : empty('No program has recorded anything',
                'Operations, errors, caches, bandwidth, scopes and training are here when programs record them with sonde.h or the package sonde.', 'sonde run -- ./server'));
    }
}

export const page: Page = {
    id: 'report',
    title: 'Report',
    icon: 'M6 3h9l4 4v14H6zM14 3v5h5M9 12h6M9 16h6',
    keys: [],
    render(root) {
        const p = new ReportPage(root);
        return () => p.end();
    },
};
