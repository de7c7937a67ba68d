// What the analysis concluded, and a button to analyse what runs now.

import { ApiError, apiAt } from '../core/api';
import { button, clear, make, makeCustom } from '../core/dom';
import { clock } from '../core/format';
import { isFrozen } from '../core/frozen';
import { now } from '../core/now';
import { Page } from '../core/page';
import { empty, failed } from '../core/states';
import { state } from '../core/state';
import { FindingsNow } from '../core/types';
import { FindingsElement } from '../elements/findings';
import { AlertsCard } from './alerts_card';
import { card, follow } from './kit';
import { RegressionsCard } from './regressions_card';

const LASTING = [3, 5, 10, 30, 60];
const SEVERITIES: readonly (readonly [string, string])[] = [['', 'All'], ['warning', 'Warnings and worse'], ['critical', 'Critical']];

class FindingsPage {
    private readonly result = make('div', { 'aria-live': 'polite' });
    private readonly lasting = make('select', { 'aria-label': 'How long to sample' },
        ...LASTING.map((s) => make('option', { value: s, selected: s === 3 }, `${s} s`)));
    private readonly go: HTMLButtonElement;
    private readonly list = makeCustom('sonde-findings', { limit: 200, active: true, 'data-follow': true });
    private readonly ends: (() => void)[] = [];
    private timer = 0;
    private open = true;

    constructor(root: HTMLElement) {
        this.go = button('Analyse now', 'Record all watched processes for some seconds, with waiting, and say what is wrong', () => void this.analyse(), { class: 'primary' });
        const filter = make('div', { class: 'choice', role: 'group', 'aria-label': 'Severity' });
        for (const [value, text] of SEVERITIES) {
            filter.append(button(text, '', () => state.set({ severity: value || null }), { 'data-value': value }));
        }
        const kept = card('Now, and of late', {}, this.list);
        kept.querySelector('header')!.append(filter);
        const alerts = new AlertsCard();
        const regressions = new RegressionsCard();
        const stack = make('div', { class: 'stack' },
            isFrozen() ? null : make('section', { class: 'card' },
                make('header', {}, make('h2', {}, 'What is wrong right now?'), this.lasting, this.go),
                make('p', { class: 'soft' }, 'Records where every watched process computes and where it waits, with its requests, heaps and the machine. '
                    + 'The programs go on meanwhile.'),
                this.result),
            alerts.element, kept, regressions.element);
        root.append(stack);
        const following = follow(stack);
        const severity = () => {
            const now_ = state.get('severity') ?? '';
            if (now_) this.list.setAttribute('severity', now_);
            else this.list.removeAttribute('severity');
            for (const b of filter.querySelectorAll('button')) b.setAttribute('aria-pressed', String(b.dataset['value'] === now_));
        };
        severity();
        this.ends.push(() => following.end(), alerts.end, regressions.end, state.on(['severity'], severity));
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
            const answer = await apiAt('').get<FindingsNow>('/api/findings/now', { duration: lasting });
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

    private show(answer: FindingsNow): void {
        const notes = answer.notes.map((n) => make('p', { class: 'faint' }, `Not judged: ${n}.`));
        if (!answer.findings.length) {
            clear(this.result, empty('Nothing stands out', 'No function, wait, heap or request calls for action. Look for longer, or under load.'), ...notes);
            return;
        }
        const list = makeCustom('sonde-findings') as FindingsElement;
        list.list = answer.findings;
        clear(this.result, make('p', { class: 'faint' }, `until ${clock(now())}`), list, ...notes);
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
