// What the analysis concluded, and a button to analyse what runs now.

import { ApiError, apiAt } from '../core/api';
import { button, clear, make, makeCustom } from '../core/dom';
import { clock, seconds } from '../core/format';
import { isFrozen } from '../core/frozen';
import { now } from '../core/now';
import { Page } from '../core/page';
import { empty, failed } from '../core/states';
import { state } from '../core/state';
import { Bottleneck, Bottlenecks, Finding } from '../core/types';
import { FindingsElement } from '../elements/findings';
import { card, follow } from './kit';

const LASTING = [5, 10, 30, 60];
const SEVERITIES: readonly (readonly [string, string])[] = [['', 'All'], ['warning', 'Warnings and worse'], ['critical', 'Critical']];

export function asFinding(b: Bottleneck, time: number, id: number): Finding {
    return {
        id, run: null, time, kind: b.kind, subject: b.function, severity: b.severity,
        value: b.seconds ?? b.bytes, unit: b.seconds !== null ? 'seconds' : 'bytes', text: b.text,
    };
}

class FindingsPage {
    private readonly result = make('div', { 'aria-live': 'polite' });
    private readonly lasting = make('select', { 'aria-label': 'How long to sample' },
        ...LASTING.map((s) => make('option', { value: s, selected: s === 10 }, `${s} s`)));
    private readonly go: HTMLButtonElement;
    private readonly list = makeCustom('sonde-findings', { limit: 200, 'data-follow': true });
    private readonly ends: (() => void)[] = [];
    private timer = 0;
    private open = true;

    constructor(root: HTMLElement) {
        this.go = button('Analyse now', 'Sample all watched processes and say what took the most', () => void this.analyse(), { class: 'primary' });
        const filter = make('div', { class: 'choice', role: 'group', 'aria-label': 'Severity' });
        for (const [value, text] of SEVERITIES) {
            filter.append(button(text, '', () => state.set({ severity: value || null }), { 'data-value': value }));
        }
        const kept = card('Kept', {}, this.list);
        kept.querySelector('header')!.append(filter);
        const stack = make('div', { class: 'stack' },
            isFrozen() ? null : make('section', { class: 'card' },
                make('header', {}, make('h2', {}, 'What takes the most right now?'), this.lasting, this.go),
                make('p', { class: 'soft' }, 'Samples every watched process, and adds spans, waiting and growing heaps of that time. '
                    + 'The program goes on meanwhile.'),
                this.result),
            kept);
        root.append(stack);
        const following = follow(stack);
        const severity = () => {
            const now_ = state.get('severity') ?? '';
            if (now_) this.list.setAttribute('severity', now_);
            else this.list.removeAttribute('severity');
            for (const b of filter.querySelectorAll('button')) b.setAttribute('aria-pressed', String(b.dataset['value'] === now_));
        };
        severity();
        this.ends.push(() => following.end(), state.on(['severity'], severity));
    }

    end(): void {
        this.open = false;
        window.clearInterval(this.timer);
        for (const f of this.ends) f();
    }

    private async analyse(): Promise<void> {
        if (this.go.disabled) return;
        const lasting = Number(this.lasting.value);
        const begun = Date.now();
        this.go.disabled = true;
        const left = () => {
            const s = Math.max(0, Math.ceil(lasting - (Date.now() - begun) / 1000));
            this.go.textContent = s ? `Sampling, ${s} s left` : 'Working it out';
        };
        left();
        this.timer = window.setInterval(left, 500);
        try {
            const answer = await apiAt('').get<Bottlenecks>('/admin/profile/bottlenecks', { duration: lasting });
            if (this.open) this.show(answer);
        } catch (e) {
            if (this.open) {
                clear(this.result, e instanceof ApiError && e.status === 503
                    ? empty('Not now', e.message) : failed(e, () => void this.analyse()));
            }
        } finally {
            window.clearInterval(this.timer);
            this.go.disabled = false;
            this.go.textContent = 'Analyse again';
        }
    }

    private show(answer: Bottlenecks): void {
        const time = now();
        if (!answer.bottlenecks.length) {
            clear(this.result, empty('Nothing stands out',
                answer.bottlenecks_note ?? 'No function, span or heap took enough to be named. Sample for longer, or under load.'));
            return;
        }
        const list = makeCustom('sonde-findings') as FindingsElement;
        list.list = answer.bottlenecks.map((b, i) => asFinding(b, time, -i));
        clear(this.result, make('p', { class: 'faint' },
            `${seconds(answer.duration_seconds)} until ${clock(time)}${answer.bottlenecks_note ? `. ${answer.bottlenecks_note}` : ''}`), list);
    }
}

export const page: Page = {
    id: 'findings',
    title: 'Findings',
    icon: 'M9 18h6M10 21h4M12 3a6 6 0 0 0-3.600 10.800c.7.600 1.100 1.300 1.100 2.200h5c0-.9.400-1.600 1.100-2.200A6 6 0 0 0 12 3z',
    keys: [],
    render(root) {
        const p = new FindingsPage(root);
        return () => p.end();
    },
};
