// Is what is shown live? Says so, or how old it is; a click stops and goes on.

import { apiAt } from '../core/api';
import { make } from '../core/dom';
import { clock, span } from '../core/format';
import { frozenFile } from '../core/frozen';
import { now } from '../core/now';
import { state } from '../core/state';
import { LiveState, live } from '../core/stream';
import { isViewing } from '../core/viewing';

const CALM_MS = 1500; // a connection that comes back at once is not worth a word

export class LiveMark {
    readonly element = make('button', { type: 'button', class: 'live' }, make('i'), make('span'));
    private last: LiveState = { status: 'connecting', lastTime: 0 };
    private since = Date.now();

    constructor() {
        this.element.addEventListener('click', () => {
            const r = state.range();
            if (frozenFile() || isViewing()) return;
            if (r.live) state.setRange({ from: r.from, to: r.to });
            else state.setRange({ seconds: r.seconds });
        });
        live(apiAt(''), { events: ['processes'] }, {
            state: (next) => {
                // Data that is old stays old while another connection is tried.
                const s = next.status === 'connecting' && this.last.status === 'stale' ? { ...next, status: 'stale' as const } : next;
                if (s.status !== this.last.status) this.since = Date.now();
                this.last = s.lastTime ? s : { ...s, lastTime: this.last.lastTime };
                this.show();
            },
        });
        state.on(['range'], () => this.show());
        window.setInterval(() => this.show(), 1000);
        this.show();
    }

    private show(): void {
        const file = frozenFile();
        const { status, lastTime, error } = this.last;
        const age = lastTime ? now() - lastTime : 0;
        let kind: string = status;
        let text = 'Live';
        let title = 'Data comes in live. Click to stop here (l).';
        if (file) {
            kind = 'fixed';
            text = `Saved ${clock(file.made, true)}`;
            title = `A file that was saved from ${file.source}. Nothing in it changes.`;
        } else if (isViewing()) {
            kind = 'fixed';
            text = 'File';
            title = 'Shown by `sonde view`. Nothing in it changes.';
        } else if (status === 'stale' || (status === 'connecting' && Date.now() - this.since > CALM_MS)) {
            kind = 'stale';
            text = lastTime ? `No data for ${span(Math.max(1, age))}` : 'No connection';
            title = `${error ?? 'The agent does not answer'}. Trying again by itself.`;
        } else if (!state.range().live) {
            kind = 'fixed';
            text = 'Stopped';
            title = 'A fixed time range is shown. Click to go on live (l).';
        } else if (status === 'paused') {
            text = 'Paused';
            title = 'Paused while the tab was hidden.';
        } else if (status === 'connecting') {
            kind = lastTime ? 'live' : 'connecting';
            text = lastTime ? 'Live' : 'Connecting';
        }
        this.element.dataset['status'] = kind;
        this.element.title = title;
        const face = this.element.lastElementChild!;
        if (face.textContent !== text) face.textContent = text;
        this.element.setAttribute('aria-label', `${text}. ${title}`);
    }
}
